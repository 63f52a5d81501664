//! Every document that a command writes as JSON obeys the published schema of its name:
//! `"format": "everypath counts"` is that of `docs/formats/counts.schema.json`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use testkit::folder::Folder;

use crate::BINARY;

#[path = "../../../report/tests/report/schema.rs"]
mod schema;

/// Two threads that write one line, and loops with dependences.
const PROGRAM: &str = r#"
#include <pthread.h>
#include <stdlib.h>
static long table[64];
static void *thread(void *start) {
    for (int round = 0; round < 20; round++)
        for (int i = 1; i < 64; i++) table[i] = table[i - 1] + (long)start;
    return malloc(100);
}
int main(void) {
    pthread_t threads[2];
    for (long i = 0; i < 2; i++) pthread_create(&threads[i], 0, thread, (void *)i);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
}
"#;

/// The words of commands that print JSON. FILE is replaced, and printed, by commands that
/// print their report to standard error otherwise.
const COMMANDS: [&str; 21] = [
    "contexts --format json --report FILE -- ./prog",
    "contexts --format json --time --report FILE -- ./prog",
    "contexts --format json --mode intra -k 2 --forest kccf --report FILE -- ./prog",
    "run --format json --count-instructions --report FILE -- ./prog",
    "count --format json --report FILE -- ./prog",
    "count --format json --per-thread --report FILE -- ./prog",
    "report run.evp --as counts --format json",
    "report run.evp --as contexts -k 2 --format json",
    "diff a.evp b.evp --format json",
    "caches run.evp --format json --dtlb 64,4",
    "caches run.evp --reuse --format json",
    "caches run.evp --sharing --format json",
    "stats run.evp --format json",
    "stats plain.evp --format json",
    "flow ./prog --format json",
    "flow ./prog --format json --live --function main",
    "loops --list ./prog --format json",
    "loops --format json --strides -- ./prog",
    "loops --trace run.evp --format json",
    "loops --dependences run.evp --format json",
    "allocations --format json -- ./prog",
];

fn everypath(folder: &Folder, words: &str) -> Vec<u8> {
    let mut command = Command::new(BINARY);
    command.current_dir(folder.path()).args(words.split(' '));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{words}: {output:?}");
    output.stdout
}

/// The schema of a format: `everypath counts`.
fn published(format: &str) -> Value {
    let name = format.strip_prefix("everypath ").unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/formats");
    let path = folder.join(format!("{name}.schema.json"));
    let text = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&text).unwrap()
}

fn schemas() -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/formats");
    let paths = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let name = |path: PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    let names = paths.map(name);
    let names = names.filter_map(|name| name.strip_suffix(".schema.json").map(str::to_owned));
    names.collect()
}

#[test]
fn every_json_obeys_the_schema_of_its_format() {
    let folder = Folder::new("schemas");
    folder.program(&["-O1", "-g", "-pthread"], "prog", PROGRAM);
    for words in [
        "trace -q --memory addresses -o run.evp -- ./prog",
        "trace -q -o plain.evp -- ./prog",
        "contexts -q -o a.evp -- ./prog",
        "contexts -q -o b.evp -- ./prog",
    ] {
        everypath(&folder, words);
    }
    let mut seen = BTreeSet::new();
    for words in COMMANDS {
        let mut printed = everypath(&folder, &words.replace("FILE", "report.json"));
        if words.contains("FILE") {
            printed = fs::read(folder.file("report.json")).unwrap();
        }
        let document: Value = serde_json::from_slice(&printed).unwrap();
        let format = document["format"].as_str().unwrap().to_owned();
        let schema = published(&format);
        let faults = schema::faults(&schema, &document);
        assert_eq!(faults, [""; 0], "{words}");
        // A document that lacks a member, or has one more, does not obey.
        let mut broken = document.clone();
        broken.as_object_mut().unwrap().remove("version");
        broken["more"] = Value::Null;
        assert_eq!(schema::faults(&schema, &broken).len(), 2, "{words}");
        seen.insert(format.strip_prefix("everypath ").unwrap().to_owned());
    }
    assert_eq!(seen, schemas());
}
