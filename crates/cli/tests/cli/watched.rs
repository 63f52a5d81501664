//! `dump --address` and `dump --order --accesses`: what they show is what `dump --accesses` and `dump --order` show, of that memory, and
//! in that order.

use std::fs;

use testkit::folder::Folder;

use crate::BINARY;

/// Variables that threads and copies of several sizes write.
const SOURCE: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <string.h>
static long total;
static struct { int hits, misses; char name[40]; } stats;
static _Atomic long shared;
static char bytes[64];
__attribute__((noinline)) static void add(long n) { total += n; }
__attribute__((noinline)) static void note(int i) { if (i % 3) stats.hits++; else stats.misses++; }
static void *work(void *p) { for (int i = 0; i < 20; i++) { shared++; note(i); } return p; }
int main(void) {
    pthread_t t[3];
    strcpy(stats.name, "a longer name, by a copy");
    void *to = bytes + 4;
    long n = 40;
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(n) : "a"(7) : "memory");
    for (int i = 0; i < 3; i++) pthread_create(&t[i], NULL, work, NULL);
    for (int i = 0; i < 5; i++) add(i);
    for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
    printf("%ld %ld %d\n", total, (long)shared, bytes[9]);
}
"#;

/// An instruction that is shown: its thread, its number, and its accesses as lines.
type Shown = (String, String, Vec<String>);

/// Instructions in the order in which they are shown.
fn shown(text: &str) -> Vec<Shown> {
    let (mut thread, mut all) = (String::new(), Vec::<Shown>::new());
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["#", ..] => {
                let named = line.split_once("thread ").map(|(_, rest)| rest);
                let tid = named.and_then(|rest| rest.split(',').next());
                // Sentences on how a thread ended have no number.
                let tid = tid.filter(|tid| tid.parse::<u32>().is_ok());
                thread = tid.map_or(thread, str::to_owned);
            }
            ["R" | "W" | "RW", ..] => {
                let last = all.last_mut().expect("an instruction");
                last.2.push(line.trim().to_owned());
            }
            [number, ..] => all.push((thread.clone(), number.to_owned(), Vec::new())),
            [] => {}
        }
    }
    all
}

/// Whether an access that is shown is to one of these addresses.
fn is_to(line: &str, (from, to): (u64, u64)) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    let size: u64 = words[1].parse().expect("a size");
    let address = u64::from_str_radix(words[2], 16).expect("an address");
    let times: u64 = match words.get(4) {
        Some(&"times") => words[3].parse().expect("a number"),
        _ => 1,
    };
    address <= to && from < address + size * times
}

#[test]
fn accesses_of_variables_are_those_of_all() {
    let folder = Folder::new("watched");
    folder.program(&["-O1", "-g", "-pthread", "-no-pie"], "program", SOURCE);
    let what = ["trace", "--memory", "addresses", "--order", "fine"];
    let where_to = ["--no-shared-libs", "-q", "-o", "run.evp", "--", "./program"];
    let words = [&what[..], &where_to].concat();
    assert_eq!(folder.run(BINARY, &words).status.code(), Some(0));
    let dump = |more: &[&str]| {
        let output = folder.run(BINARY, &[&["dump", "run.evp"], more].concat());
        assert_eq!(output.status.code(), Some(0), "{more:?} {output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    let all = shown(&dump(&["--accesses"]));
    let symbols = folder.run("nm", &["-S", "program"]);
    let symbols = String::from_utf8(symbols.stdout).expect("text");
    let place = |name: &str| {
        let line = symbols
            .lines()
            .find(|line| line.ends_with(&format!(" {name}")));
        let words: Vec<&str> = line.expect("a symbol").split(' ').collect();
        let number = |word| u64::from_str_radix(word, 16).expect("a number");
        (number(words[0]), number(words[0]) + number(words[1]) - 1)
    };
    let (from, _) = place("stats");
    let cases = [
        ("total".to_owned(), place("total"), 6),
        ("shared".to_owned(), place("shared"), 61),
        ("stats+4".to_owned(), (from + 4, place("stats").1), 20),
        (
            format!("{:#x}..{:#x}", from + 1, from + 2),
            (from + 1, from + 2),
            39,
        ),
        (
            "bytes+9".to_owned(),
            (place("bytes").0 + 9, place("bytes").1),
            2,
        ),
    ];
    for (word, place, least) in cases {
        for writes in [false, true] {
            let is_shown = |line: &&String| is_to(line, place) && (!writes || line.contains('W'));
            let expected: Vec<Shown> = all
                .iter()
                .map(|(thread, number, accesses)| {
                    let own = accesses.iter().filter(is_shown).cloned().collect();
                    (thread.clone(), number.clone(), own)
                })
                .filter(|(.., own): &Shown| !own.is_empty())
                .collect();
            let least = if writes { least / 2 } else { least };
            assert!(expected.len() >= least, "{word}: {}", expected.len());
            let more = if writes { &["--writes"][..] } else { &[] };
            let text = dump(&[&["--address", &word], more].concat());
            assert_eq!(shown(&text), expected, "{word}");
            assert!(text.contains("; program.c:"), "{text}");
            // Threads in their order have the same.
            let mut ordered = shown(&dump(&[&["--order", "--address", &word], more].concat()));
            let threads = |shown: &Shown| all.iter().position(|(own, ..)| *own == shown.0);
            ordered.sort_by_key(threads);
            assert_eq!(ordered, expected, "{word}");
        }
    }
    // Lines that threads share have the names of variables in them.
    let words = ["caches", "run.evp", "--sharing", "--format", "json"];
    let output = folder.run(BINARY, &words);
    let shared: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let lines = shared["lines"].as_array().expect("a list").iter();
    let names = lines.flat_map(|line| line["variables"].as_array().expect("a list"));
    let names: Vec<&str> = names.filter_map(serde_json::Value::as_str).collect();
    assert!(
        names.contains(&"shared") && names.contains(&"stats"),
        "{names:?}"
    );
    // All of them are in the order of `dump --order`.
    let order = shown(&dump(&["--order"]));
    let mut ordered = shown(&dump(&["--order", "--accesses"]));
    let numbers = |shown: &[Shown]| -> Vec<(String, String)> {
        let names = shown.iter();
        names
            .map(|(thread, number, _)| (thread.clone(), number.clone()))
            .collect()
    };
    assert_eq!(numbers(&ordered), numbers(&order));
    let part = shown(&dump(&["--order", "--accesses", "--range", "301..400"]));
    assert_eq!(part, ordered[300..400]);
    let threads = |shown: &Shown| all.iter().position(|(own, ..)| *own == shown.0);
    ordered.sort_by_key(threads);
    assert_eq!(ordered, all);
}

#[test]
fn memory_that_is_not_there_is_said() {
    let folder = Folder::new("watched-errors");
    folder.program(&["-O1", "-g", "-pthread"], "program", SOURCE);
    let words = [
        "trace",
        "--memory",
        "addresses",
        "-q",
        "-o",
        "run.evp",
        "--",
        "./program",
    ];
    assert_eq!(folder.run(BINARY, &words).status.code(), Some(0));
    let words = ["trace", "-q", "-o", "bare.evp", "--", "./program"];
    assert_eq!(folder.run(BINARY, &words).status.code(), Some(0));
    let mut words = vec!["dump", "run.evp", "--address", "total"];
    assert_eq!(folder.run(BINARY, &words).status.code(), Some(0));
    // Another program has the name by now.
    let source = SOURCE.replace("total += n", "total += n + 1");
    fs::create_dir(folder.file("old")).expect("it is writable");
    fs::copy(folder.file("program"), folder.file("old/program")).expect("it is there");
    folder.program(&["-O1", "-g", "-pthread"], "program", &source);
    let output = folder.run(BINARY, &words);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(125), "{output:?}");
    let other = folder.file("program").display().to_string();
    assert!(
        said.contains("others by now") && said.contains(&other),
        "{said}"
    );
    fs::copy(folder.file("old/program"), folder.file("program")).expect("it is there");
    words.push("--writes");
    assert_eq!(folder.run(BINARY, &words).status.code(), Some(0));
    for (file, word, said) in [
        (
            "run.evp",
            "totl",
            "'run.evp': no file of the run has a variable 'totl' in its symbol table; locals and memory from the heap have addresses only: \
             --address 0x1000..0x1007; did you mean 'total'?",
        ),
        (
            "run.evp",
            "0x20..0x10",
            "--address 0x20..0x10: 0x20 comes after 0x10",
        ),
        (
            "run.evp",
            "total..",
            "--address total..: give a variable, or addresses as 0x1000..0x1007",
        ),
        (
            "bare.evp",
            "total",
            "'bare.evp' has no memory accesses; record it with --memory addresses",
        ),
    ] {
        let output = folder.run(BINARY, &["dump", file, "--address", word]);
        assert_eq!(output.status.code(), Some(125), "{output:?}");
        assert_eq!(
            String::from_utf8_lossy(&output.stderr),
            format!("everypath: {said}\n")
        );
    }
}
