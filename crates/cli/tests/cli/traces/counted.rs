//! Numbers of instructions in the middle of a trace, with an index
//! and without, and where `--skip` begins.

use testkit::folder::Folder;
use trace::Recording;

use super::{BINARY, chatter, read, sequences, steps_over_faults};

/// How many instructions are before each keyframe, by thread.
fn numbers(recording: &Recording) -> Vec<Vec<Option<u64>>> {
    let processes = recording.processes.iter();
    let threads = processes.flat_map(|process| &process.threads);
    let numbers = threads.map(|thread| {
        let keyframes = thread.keyframes.iter();
        keyframes.map(|keyframe| keyframe.insns).collect()
    });
    numbers.collect()
}

/// A trace as it is if Everypath was killed when the program ran: nothing says how many
/// instructions are before its keyframes.
fn forget_numbers(folder: &Folder) -> Recording {
    let mut recording = read(&folder.file("run.evp"));
    let processes = recording.processes.iter_mut();
    let threads = processes.flat_map(|process| &mut process.threads);
    for keyframe in threads.flat_map(|thread| &mut thread.keyframes) {
        keyframe.insns = None;
    }
    let file = std::fs::File::create(folder.file("run.evp")).unwrap();
    trace::write(&recording, file).unwrap();
    recording
}

/// A new trace has the number of each keyframe, and nothing is counted for its middle.
#[test]
fn keyframes_of_a_new_trace_have_numbers() {
    let folder = Folder::new("trace-numbers");
    chatter(&folder);
    let shown = |folder: &Folder, from: usize| {
        let range = format!("{from}..{}", from + 19);
        let output = folder.run(BINARY, &["dump", "run.evp", "--range", &range]);
        assert!(output.status.success() && output.stderr.is_empty());
        assert!(!folder.file("run.evp.idx").exists());
        output.stdout
    };
    for options in [&["--chaos", "3"][..], &["--chaos", "9", "--buffer", "1"]] {
        let arguments = [&["trace"], options, &["-o", "run.evp", "--", "./chatter"]].concat();
        assert!(folder.run(BINARY, &arguments).status.success());
        let mut recording = read(&folder.file("run.evp"));
        let told = numbers(&recording);
        assert!(told.iter().flatten().count() > 40, "{told:?}");
        assert!(analysis::walk::segments::number(&mut recording).is_none());
        assert_eq!(told, numbers(&recording));
        shown(&folder, 90_000);
    }
    let recording = looping(&folder);
    let number = numbers(&recording)[0].len();
    assert!(number > 20, "{number}");
    let with = shown(&folder, 1_500_000);
    let first = executed_from(&recording, 1_500_000)[0];
    let line = format!("\n     {}  {:x} ", first.0, first.1);
    assert!(String::from_utf8(with).unwrap().contains(&line));
}

/// Counted or not, the same instructions have the same numbers.
#[test]
#[ignore = "wide: a trace made in chaos is read nine times, half a minute"]
fn an_index_changes_no_number() {
    let folder = Folder::new("trace-index");
    chatter(&folder);
    let arguments = ["trace", "--chaos", "3", "-o", "run.evp", "--", "./chatter"];
    assert!(folder.run(BINARY, &arguments).status.success());
    let told = numbers(&read(&folder.file("run.evp")));
    forget_numbers(&folder);
    let dumped = || {
        let ranges = ["1..3", "50000..50020", "100000..100100", "9999999.."];
        ranges.map(|range| {
            folder
                .run(BINARY, &["dump", "run.evp", "--range", range])
                .stdout
        })
    };
    let before = dumped();
    let recording = read(&folder.file("run.evp"));
    assert!(numbers(&recording).concat().iter().all(Option::is_none));
    std::fs::remove_file(folder.file("run.evp.idx")).unwrap();
    let output = folder.run(BINARY, &["index", "run.evp"]);
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{output:?}"
    );
    let counted = read(&folder.file("run.evp"));
    assert_eq!(numbers(&counted), told);
    assert_eq!(sequences(&counted), sequences(&recording));
    assert!(dumped() == before);
    let output = folder.run(BINARY, &["verify", "run.evp"]);
    assert!(output.status.success(), "{output:?}");
    let all = std::fs::read(folder.file("run.evp")).unwrap();
    std::fs::write(folder.file("run.evp"), &all[..all.len() - 5]).unwrap();
    let output = folder.run(BINARY, &["index", "run.evp"]);
    assert_eq!(output.status.code(), Some(125), "{output:?}");
}

/// A program with a long loop, whose thread has many keyframes in chaos, and a trace of it.
fn looping(folder: &Folder) -> Recording {
    let text = "int main(void) {
        volatile unsigned x = 1;
        for (unsigned i = 0; i < 100000; i++) {
            x ^= x << 13;
            if (x & 1) x += i;
            x ^= x >> 7;
            if (x & 8) x ^= 3;
        }
    }";
    folder.program(&["-O1", "-static"], "looping", text);
    let arguments = ["trace", "--chaos", "3", "-o", "run.evp", "--", "./looping"];
    assert!(folder.run(BINARY, &arguments).status.success());
    read(&folder.file("run.evp"))
}

/// Numbers and addresses that `dump` shows of some instructions, and what it says besides.
fn dumped(folder: &Folder, trace: &str, from: usize) -> (Vec<(usize, u64)>, String) {
    let range = format!("{from}..{}", from + 19);
    let output = folder.run(BINARY, &["dump", trace, "--range", &range]);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let words = lines.map(|line| {
        let mut words = line.split_whitespace();
        let number = words.next().unwrap().parse().unwrap();
        let address = u64::from_str_radix(words.next().unwrap(), 16);
        (number, address.unwrap())
    });
    (words.collect(), String::from_utf8(output.stderr).unwrap())
}

/// Whether it is the message of a `dump` that has counted much.
fn says_kept(said: &str) -> bool {
    said.starts_with("everypath: what was counted is kept in '")
        && said.ends_with(".evp.idx', for next time\n")
}

/// The instructions from number `from` on, by a walk of all.
fn executed_from(recording: &Recording, from: usize) -> Vec<(usize, u64)> {
    let [all] = &sequences(recording)[..] else {
        panic!("one thread");
    };
    (from..from + 20)
        .zip(all[from - 1..].iter().copied())
        .collect()
}

/// A count is kept once it was waited for, whatever becomes of the file that has it.
#[test]
fn what_was_counted_is_kept_beside_the_trace() {
    let folder = Folder::new("trace-counted");
    looping(&folder);
    let recording = forget_numbers(&folder);
    let truth = |from| executed_from(&recording, from);
    let index = folder.file("run.evp.idx");
    assert!(dumped(&folder, "run.evp", 1) == (truth(1), String::new()));
    assert!(!index.exists());
    let (lines, said) = dumped(&folder, "run.evp", 1_500_000);
    assert!(lines == truth(1_500_000) && says_kept(&said), "{said}");
    let counted = std::fs::read(&index).unwrap();
    for from in [1_500_000, 1_000_000, 1, 20_000, 1_499_000] {
        let same = (truth(from), String::new());
        assert!(dumped(&folder, "run.evp", from) == same, "{from}");
    }
    assert!(std::fs::read(&index).unwrap() == counted);
    for damage in 0..3 {
        let mut bytes = counted.clone();
        match damage {
            0 => bytes.truncate(counted.len() / 2),
            1 => bytes[counted.len() / 2] ^= 4,
            _ => bytes.clear(),
        }
        std::fs::write(&index, bytes).unwrap();
        let (lines, said) = dumped(&folder, "run.evp", 1_500_000);
        assert!(lines == truth(1_500_000) && says_kept(&said), "{damage}");
        assert!(std::fs::read(&index).unwrap() == counted);
    }
    // Numbers that are wrong are believed: it is really used.
    let file = std::fs::File::open(folder.file("run.evp")).unwrap();
    let mut prefix = trace::read_prefix(file).unwrap();
    let used = trace::read_index(&mut prefix.recording, prefix.identity, &counted[..]);
    assert!(used.unwrap());
    let thread = &mut prefix.recording.processes[0].threads[0];
    let known = thread.keyframes.iter_mut();
    for insns in known.filter_map(|keyframe| keyframe.insns.as_mut()) {
        *insns += 1;
    }
    let mut wrong = Vec::new();
    trace::write_index(&prefix.recording, prefix.identity, &mut wrong).unwrap();
    std::fs::write(&index, &wrong).unwrap();
    assert!(dumped(&folder, "run.evp", 1_500_000).0 != truth(1_500_000));
    // But not those of another trace.
    looping(&folder);
    let again = forget_numbers(&folder);
    let (lines, said) = dumped(&folder, "run.evp", 1_500_000);
    assert!(lines == executed_from(&again, 1_500_000) && says_kept(&said));
    assert!(std::fs::read(&index).unwrap() != wrong);
}

/// Everything is shown also if the count cannot be kept, or something else has its name.
#[test]
fn what_cannot_be_kept_is_counted_again() {
    let folder = Folder::new("trace-not-kept");
    looping(&folder);
    let truth = executed_from(&forget_numbers(&folder), 1_500_000);
    let index = folder.file("run.evp.idx");
    let another = |said: &str| said.ends_with("is another file, so what was counted is not kept\n");
    std::fs::write(&index, "notes of mine").unwrap();
    let (lines, said) = dumped(&folder, "run.evp", 1_500_000);
    assert!(lines == truth && another(&said), "{said}");
    assert_eq!(std::fs::read(&index).unwrap(), b"notes of mine");
    std::fs::remove_file(&index).unwrap();
    std::fs::create_dir(&index).unwrap();
    let (lines, said) = dumped(&folder, "run.evp", 1_500_000);
    assert!(lines == truth && another(&said), "{said}");
    std::fs::remove_dir(&index).unwrap();
    // A pipe has nothing beside it.
    let script = "cat run.evp | $0 dump /dev/stdin --range 1500000..1500000";
    let output = folder.run("/bin/sh", &["-c", script, BINARY]);
    assert!(output.status.success() && output.stderr.is_empty());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains(&format!("\n     1500000  {:x} ", truth[0].1)));
    // A disk that is full, or as here a limit.
    let script = "trap '' XFSZ; ulimit -f 0; exec $0 dump run.evp --range 1500000..1500019 | cat";
    let output = folder.run("/bin/sh", &["-c", script, BINARY]);
    let said = String::from_utf8(output.stderr).unwrap();
    let failed = "everypath: what was counted is not kept in '";
    assert!(
        output.status.success() && said.starts_with(failed),
        "{said}"
    );
    assert_eq!(
        output.stdout.iter().filter(|&&byte| byte == b'\n').count(),
        22
    );
    let names = std::fs::read_dir(folder.file(".")).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    assert_eq!(names, ["looping", "looping.c", "run.evp"]);
}

/// Many instructions are skipped in another way than the last of them, and signals in between
/// change no number.
#[test]
fn tracing_begins_exactly_where_it_is_far() {
    let folder = Folder::new("trace-far");
    let text = steps_over_faults(100_000, "i < 2000", "");
    folder.program(&["-O1", "-static"], "far", &text);
    let trace = |options: &[&str]| {
        let head = ["-R", BINARY, "trace", "-q", "-o", "run.evp"];
        let arguments = [&head[..], options, &["--", "./far"]].concat();
        let output = folder.run("setarch", &arguments);
        assert!(output.status.success(), "{output:?}");
        sequences(&read(&folder.file("run.evp"))).remove(0)
    };
    let all = trace(&[]);
    assert!(all.len() > 1_500_000, "{}", all.len());
    for from in [16_383, 16_384, 20_001, 77_777, 500_000, 1_499_999] {
        let skip = from.to_string();
        for chaos in [&[][..], &["--chaos", "3"]] {
            let options = [&["--skip", &skip, "--count", "3000"], chaos].concat();
            assert!(trace(&options) == all[from..from + 3000], "{options:?}");
        }
    }
    assert_eq!(trace(&["--skip", "100000000000"]), [0; 0]);
}
