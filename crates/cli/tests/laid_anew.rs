//! Counts do not depend on code that is laid out anew, which then counts elsewhere and
//! guesses where branches go.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::process::Command;

use testkit::folder::Folder;
use trace::{Event, Recording};

const BINARY: &str = env!("CARGO_BIN_EXE_everypath");

/// Some seconds under `count`: code is laid out anew after a tenth of one.
const QUERY: &str = "with recursive n(i) as (select 1 union all select i + 1 from n \
    where i < 400000) select sum(length(hex(i) || printf('%08d', i))), count(distinct i % 1000) \
    from n;";

/// Counts SQLite at fixed addresses, and returns what it printed and was reported.
fn counted(folder: &Folder, name: &str, options: &[&str]) -> (Vec<u8>, Vec<u8>) {
    let (recording, report) = (format!("{name}.evp"), format!("{name}.json"));
    let output = Command::new("setarch")
        .args(["-R", BINARY, "count", "--quiet", "--format", "json"])
        .args(["--output", &recording, "--report", &report])
        .args(options)
        .args(["--", "sqlite3", ":memory:", QUERY])
        .current_dir(folder.path())
        .output()
        .expect("setarch starts");
    assert!(output.status.success(), "{output:?}");
    let report = std::fs::read(folder.file(&report)).unwrap();
    (output.stdout, report)
}

/// Fragments with the code of another one that is counted at other places.
fn counted_elsewhere(recording: &Recording) -> usize {
    let mut known: HashMap<_, &[Event]> = HashMap::new();
    let fragments = recording.processes.iter().flat_map(|it| &it.fragments);
    fragments
        .filter(|fragment| {
            let pieces = fragment.pieces.iter();
            let pieces: Vec<(u64, u32)> = pieces.map(|piece| (piece.pc, piece.len)).collect();
            let events = fragment.events.as_slice();
            let first = *known.entry((pieces, &fragment.code)).or_insert(events);
            first != events
        })
        .count()
}

#[test]
fn sqlite_is_counted_the_same() {
    let folder = Folder::new("laid-anew");
    let (printed, anew) = counted(&folder, "anew", &[]);
    let (printed_steady, steady) = counted(&folder, "steady", &["--steady"]);
    assert_eq!(printed, printed_steady);
    assert!(anew == steady, "the reports differ, see {folder:?}");
    let read = |name| trace::read(std::fs::File::open(folder.file(name)).unwrap()).unwrap();
    // Code may also be translated again where files are mapped.
    let [elsewhere, in_steady] =
        ["anew.evp", "steady.evp"].map(|name| counted_elsewhere(&read(name)));
    assert!(
        elsewhere > 20 + in_steady,
        "{elsewhere} fragments are counted elsewhere, {in_steady} in code that stays"
    );
}
