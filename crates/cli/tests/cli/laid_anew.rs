//! Neither counts nor traces depend on code that is laid out anew: then it counts elsewhere,
//! guesses where branches go, and has short numbers for them.

use std::collections::{HashMap, HashSet};
use std::process::Command;

use analysis::walk::Pieces;
use testkit::folder::{self, Folder};
use trace::stream::{mark, went};
use trace::{Event, Process, Recording};

use crate::BINARY;

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

/// Traces `words` and reads the trace.
fn traced(folder: &Folder, options: &[&str], words: &[&str]) -> Recording {
    let head = ["trace", "-q", "-o", "run.evp"];
    let output = folder.run(BINARY, &[&head[..], options, &["--"], words].concat());
    assert!(output.status.success(), "{output:?}");
    trace::read(std::fs::File::open(folder.file("run.evp")).unwrap()).unwrap()
}

/// Everything that each thread of each process executed.
fn executed(recording: &Recording) -> Vec<Vec<u64>> {
    let of = |process: &Process| {
        let mut pieces = Pieces::of(process);
        let threads = process.threads.iter();
        threads
            .map(|thread| folder::addresses(&mut pieces, thread))
            .collect::<Vec<_>>()
    };
    recording.processes.iter().flat_map(of).collect()
}

/// Listed targets of a process, in pieces whose numbers have the same length: the length, and the targets.
fn pieces(process: &Process) -> Vec<(u64, &[u64])> {
    let is_mark = |target: &u64| (mark::SHORT..=mark::LONG).contains(target);
    let pieces = process.targets.chunk_by(|_, next| !is_mark(next));
    pieces
        .map(|piece| match piece {
            [first, targets @ ..] if is_mark(first) => (*first, targets),
            _ => panic!("it begins without a mark"),
        })
        .collect()
}

/// With numbers of one, two and three bytes; a child that was forked before is laid out anew
/// itself, one after that has what its parent has. (The single-stepping oracle counts the same
/// program, so one of both is right.)
#[test]
fn targets_with_short_numbers_are_the_same() {
    let folder = Folder::new("laid-anew-targets");
    let words = folder::program("flow_many_targets");
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let anew = traced(&folder, &[], &words);
    let steady = traced(&folder, &["--steady"], &words);
    assert_eq!(anew.processes.len(), 3);
    assert!(executed(&anew) == executed(&steady));
    for process in &anew.processes {
        let pieces = pieces(process);
        let of = |mark| {
            let pieces = pieces.iter().filter(move |(length, _)| *length == mark);
            pieces.flat_map(|(_, targets)| *targets)
        };
        // Half of them; and who has one may have had a longer one.
        let short: HashSet<_> = of(mark::SHORT).collect();
        assert!(short.len() >= went::SHORTS as usize / 2, "{}", short.len());
        let longer = of(mark::MIDDLE).chain(of(mark::LONG));
        let again = longer.filter(|target| short.contains(target));
        assert!(again.count() > 1, "{short:x?}");
    }
    let [parent, before, after] = &anew.processes[..] else {
        unreachable!("there are three");
    };
    let lengths = |process| {
        pieces(process)
            .iter()
            .map(|it| it.0)
            .collect::<HashSet<_>>()
    };
    assert!(lengths(parent).contains(&mark::LONG));
    let first = |process| pieces(process)[0].1.len();
    assert_ne!(first(parent), first(before));
    assert_eq!(first(parent), first(after));
    let has_short = |process| lengths(process).contains(&mark::SHORT);
    assert!(!steady.processes.iter().any(has_short));
}
