//! Allocations by context, against a program that knows its own, and against valgrind.

use std::collections::BTreeMap;

use serde_json::Value;
use testkit::folder::Folder;

use crate::{BINARY, html};

/// It allocates in four ways, in two threads, and says how much; `pool` is an allocator of its own.
const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define N __attribute__((noinline, noclone))
static char *volatile kept[1000];
static int number;
N char *leaks(int bytes) { char *p = malloc(bytes); kept[number++] = p; return p; }
N void frees(int bytes) { char *volatile p = malloc(bytes); free(p); }
N void grows(int steps) { char *volatile p = NULL; for (int i = 1; i <= steps; i++) p = realloc(p, i * 100000); free(p); }
N void zeros(int count) { char *volatile p = calloc(count, 24); free(p); }
N void aligned(void) { char *volatile p = aligned_alloc(64, 640); free(p); p = memalign(32, 32); free(p); }
N void *thread(void *_) { for (int i = 0; i < 50; i++) zeros(i); return _; }
static char pool[10000];
static int used;
N char *pool_get(long bytes) { used += bytes; return pool + used - bytes; }
N void pool_put(char *block) { number += block == pool; }
int main(void) {
    for (int i = 0; i < 10; i++) leaks(1000 + i);
    for (int i = 0; i < 100; i++) frees(i);
    grows(5);
    aligned();
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, thread, NULL);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    char *block = pool_get(10);
    pool_get(20);
    pool_put(block);
    return 0;
}
"#;

fn build() -> Folder {
    let folder = Folder::new("allocations");
    let source = SOURCE.replace(
        "#include <stdlib.h>",
        "#include <malloc.h>\n#include <stdlib.h>",
    );
    folder.program(&["-O1", "-pthread"], "program", &source);
    folder
}

fn json(folder: &Folder, options: &[&str]) -> Value {
    let words = [
        &["allocations", "-q", "--format", "json", "-o", "out"],
        options,
        &["--", "./program"],
    ]
    .concat();
    let output = folder.run(BINARY, &words);
    assert!(output.status.success(), "{output:?}");
    let text = std::fs::read(folder.file("out")).expect("it was written");
    serde_json::from_slice(&text).expect("it is JSON")
}

/// Figures by the last functions of the program in a path.
fn by_function(whole: &Value) -> BTreeMap<String, [u64; 4]> {
    let mut all: BTreeMap<String, [u64; 4]> = BTreeMap::new();
    for row in whole["contexts"].as_array().expect("a list") {
        let path = row["path"].as_array().expect("a list").iter();
        let mut names = path.map(|part| {
            part.as_str()
                .unwrap_or_default()
                .split(' ')
                .next()
                .unwrap_or_default()
        });
        let own = names.rfind(|name| {
            SOURCE.contains(&format!("N void {name}("))
                || SOURCE.contains(&format!("N char *{name}("))
        });
        let sums = all.entry(own.unwrap_or("other").to_owned()).or_default();
        for (sum, key) in sums
            .iter_mut()
            .zip(["blocks", "bytes", "leaked_blocks", "leaked_bytes"])
        {
            *sum += row[key].as_u64().expect("a number");
        }
    }
    all
}

#[test]
fn allocations_are_those_of_the_program() {
    let folder = build();
    let whole = json(&folder, &[]);
    let found = by_function(&whole);
    let sum = |range: std::ops::Range<u64>| range.sum::<u64>();
    assert_eq!(found["leaks"], [10, sum(1000..1010), 10, sum(1000..1010)]);
    assert_eq!(found["frees"], [100, sum(0..100), 0, 0]);
    assert_eq!(found["grows"], [5, 1_500_000, 0, 0]);
    assert_eq!(found["zeros"], [100, 2 * 24 * sum(0..50), 0, 0]);
    assert_eq!(found["aligned"], [2, 672, 0, 0]);
    // While the last one is made, the one before is there as well, and is given up when it is called.
    let peak = whole["all"]["peak_bytes"].as_u64().expect("a number");
    assert_eq!(peak, 500_000 + sum(1000..1010));
    // Threads and the program's own have contexts of their own.
    let bytes = whole["all"]["bytes"].as_u64();
    let own = json(
        &folder,
        &["--allocate", "pool_get", "--release", "pool_put"],
    );
    assert_eq!(
        (
            own["all"]["bytes"].as_u64(),
            own["all"]["leaked_bytes"].as_u64(),
            own["strange"].as_u64()
        ),
        (Some(30), Some(20), Some(0))
    );
    against_valgrind(&folder, bytes);
}

/// All forms of one run have the same figures.
#[test]
fn forms_of_a_report_agree() {
    let folder = build();
    // Both runs allocate the same.
    let whole = json(&folder, &["--html", "page.html"]);
    std::fs::rename(folder.file("out"), folder.file("report.json")).expect("it was written");
    html::check(&folder, "allocations");
    let run = |options: &[&str]| {
        let words = [&["allocations", "-q"], options, &["--", "./program"]].concat();
        let output = folder.run(BINARY, &words);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    let all = |figure: &str| whole["all"][figure].as_u64().expect("a number");
    let folded = run(&["--format", "folded", "--sort", "leaked"]);
    let leaked = folded.lines().map(|line| {
        let (path, bytes) = line.rsplit_once(' ').expect("a path and a number");
        assert!(path.starts_with("main"), "{line}");
        bytes.parse::<u64>().expect("a number")
    });
    assert_eq!(leaked.sum::<u64>(), all("leaked_bytes"));
    let text = run(&["--sort", "bytes", "--top", "1"]);
    let rows: Vec<&str> = text.lines().filter(|line| line.contains(" > ")).collect();
    let [row] = rows[..] else {
        panic!("{text}");
    };
    assert!(row.contains("grows") && row.contains(" 1.5 MB "), "{text}");
    run(&["--format", "pprof", "-o", "out.pb.gz"]);
    let types = [
        ("peak_space", "peak_bytes"),
        ("inuse_objects", "leaked_blocks"),
        ("alloc_space", "bytes"),
    ];
    for (name, figure) in types {
        let words = [
            "tool",
            "pprof",
            "-raw",
            &format!("-sample_index={name}"),
            "out.pb.gz",
        ];
        assert_eq!(
            sum_of_samples(&folder, &words, name),
            all(figure),
            "{figure}"
        );
    }
}

/// The sum of all samples of one type, as pprof reads them.
fn sum_of_samples(folder: &Folder, words: &[&str], name: &str) -> u64 {
    let output = folder.run("go", words);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut lines = said
        .lines()
        .skip_while(|line| !line.starts_with("Samples:"))
        .skip(1);
    let types = lines.next().expect("types").split_whitespace();
    let mut types = types.map(|kind| kind.split('/').next().unwrap_or_default());
    let column = types.position(|kind| kind == name).expect("its type");
    let samples = lines.take_while(|line| !line.starts_with("Locations"));
    let values = samples.filter_map(|line| {
        let (values, _) = line.split_once(':')?;
        values.split_whitespace().nth(column)?.parse::<u64>().ok()
    });
    values.sum()
}

/// valgrind sees the same number of bytes and blocks, and the same are lost.
fn against_valgrind(folder: &Folder, bytes: Option<u64>) {
    let output = folder.run("valgrind", &["--leak-check=summary", "./program"]);
    let said = String::from_utf8_lossy(&output.stderr).replace(',', "");
    let number = |before: &str, after: &str| -> Option<u64> {
        let (_, rest) = said.split_once(before)?;
        let (number, _) = rest.trim_start().split_once(after)?;
        number.trim().rsplit(' ').next()?.parse().ok()
    };
    assert_eq!(
        number("total heap usage:", " bytes allocated"),
        bytes,
        "{said}"
    );
}
