//! Traces that begin and end while the program runs: by `everypath ctl`, and by signals.
//!
//! What is traced then depends on the moment, so it is compared with a trace of everything:
//! it has to be parts of that, in their order.

use std::collections::HashMap;
use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use analysis::walk::{Event, Pieces, Walk, Why};
use testkit::folder::Folder;
use testkit::kills;
use trace::Recording;

use crate::BINARY;

/// Limit of each wait of a test.
const PATIENCE: Duration = Duration::from_secs(60);

/// Begins a run without address randomisation; its output and input are pipes.
fn start(folder: &Folder, options: &[&str], program: &[&str]) -> Child {
    let mut command = Command::new("setarch");
    command.args(["-R", BINARY, "trace", "-o", "run.evp"]);
    command.args(options).arg("--").args(program);
    command.current_dir(folder.path());
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command.spawn().unwrap()
}

/// Asks the run; what it says, if there is still one.
fn ctl(folder: &Folder, what: &str) -> Option<String> {
    let output = folder.run(BINARY, &["ctl", "run.evp", what]);
    match output.status.code() {
        Some(0) => Some(String::from_utf8(output.stdout).unwrap()),
        Some(125) => {
            let error = String::from_utf8(output.stderr).unwrap();
            assert!(error.contains("no trace that may be asked"), "{error}");
            None
        }
        other => panic!("{other:?}: {output:?}"),
    }
}

/// Asks until the run says that it is so: before the first time it may not listen yet.
fn ask_at_last(folder: &Folder, what: &str, answer: &str) {
    wait_until(|| ctl(folder, what).is_some_and(|said| said == answer));
}

#[track_caller]
fn wait_until(mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "it never came");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn read(folder: &Folder) -> Recording {
    trace::read(fs::File::open(folder.file("run.evp")).unwrap()).unwrap()
}

/// The run has to end as the program does, with 0; what that said.
fn end(mut run: Child) -> String {
    let mut said = String::new();
    run.stdout
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    let status = run.wait().unwrap();
    assert!(status.success(), "{status}: {said}");
    said
}

/// Addresses of a thread's instructions, in stretches between gaps.
type Stretches = Vec<Vec<u64>>;

fn stretches(recording: &Recording) -> Vec<Stretches> {
    let mut all = Vec::new();
    for process in &recording.processes {
        let mut pieces = Pieces::of(process);
        for thread in &process.threads {
            let mut stretches = vec![Vec::new()];
            let mut walk = Walk::new(&mut pieces, thread);
            while let Some(event) = walk.next() {
                match event.unwrap() {
                    Event::Executed(steps) => {
                        let last = stretches.last_mut().unwrap();
                        last.extend(steps.iter().map(|step| step.pc));
                    }
                    Event::Went { why: Why::Off, .. } => stretches.push(Vec::new()),
                    _ => {}
                }
            }
            stretches.retain(|stretch| !stretch.is_empty());
            all.push(stretches);
        }
    }
    all
}

/// Gives each address a byte.
#[derive(Default)]
struct Letters(HashMap<u64, u8>);

impl Letters {
    fn spell(&mut self, stretch: &[u64]) -> Vec<u8> {
        let mut letter = |&address: &u64| {
            let next = self.0.len();
            *self
                .0
                .entry(address)
                .or_insert_with(|| u8::try_from(next).expect("the program is small"))
        };
        stretch.iter().map(&mut letter).collect()
    }
}

/// Whether these are in `whole`, one behind the other.
fn are_parts(stretches: &[Vec<u8>], whole: &[u8]) -> bool {
    let mut rest = whole;
    stretches.iter().all(|stretch| {
        let found = memchr::memmem::find(rest, stretch);
        let found = found.inspect(|at| rest = &rest[at + stretch.len()..]);
        found.is_some()
    })
}

#[test]
#[ignore = "wide: parts of processes, and the order of whole traces, are in the gate"]
fn parts_of_the_order_are_traced() {
    const WAYS: usize = 4;
    const LEAST_GAPS: usize = 10;
    const MOST_RUNS: usize = 40;
    let folder = Folder::new("ctl-parts");
    let flags = [&kills::FLAGS[..], &["-DROUNDS=100", "-DSCALE=2"]].concat();
    folder.program(&flags, "threads", kills::THREADS);
    end(start(&folder, &[], &["./threads"]));
    let mut letters = Letters::default();
    let whole = stretches(&read(&folder)).into_iter();
    let whole: Vec<Vec<u8>> = whole.map(|parts| letters.spell(&parts.concat())).collect();
    let all: usize = whole.iter().map(Vec::len).sum();
    let (mut gaps, mut traced) = (0, 0);
    let ways: [&[&str]; WAYS] = [
        &["--ctl"],
        &["--paused"],
        &["--paused", "--chaos", "3"],
        &["--ctl", "--buffer", "1", "--order", "fine"],
    ];
    // A run on a busy machine has fewer gaps, so runs are added until there are enough.
    let mut runs = 0;
    while runs < WAYS || gaps <= LEAST_GAPS && runs < MOST_RUNS {
        let options = ways[runs % WAYS];
        let run = start(&folder, options, &["./threads"]);
        ask_at_last(&folder, "start", "tracing\n");
        let mut turn = runs as u64;
        while ctl(&folder, "toggle").is_some() {
            turn = (turn * 5 + 3) % 7;
            std::thread::sleep(Duration::from_millis(turn));
        }
        assert_eq!(end(run), "done\n");
        for parts in stretches(&read(&folder)) {
            let parts: Vec<Vec<u8>> = parts.iter().map(|part| letters.spell(part)).collect();
            let is_of = |whole: &Vec<u8>| are_parts(&parts, whole);
            assert!(whole.iter().any(is_of), "{options:?}: no parts of a thread");
            gaps += parts.len().saturating_sub(1);
            traced += parts.iter().map(Vec::len).sum::<usize>();
        }
        runs += 1;
    }
    assert!(gaps > LEAST_GAPS, "{gaps} gaps in {runs} runs");
    assert!(
        traced > all * runs / 40 && traced < all * runs,
        "{traced} of {runs} times {all}"
    );
}

#[test]
#[ignore = "wide: it waits until a file stops growing, which takes a busy machine long"]
fn who_makes_no_system_call_hears_of_it() {
    let folder = Folder::new("ctl-spin");
    folder.compile(&["-O1", "-pthread"], "spin", source("spin.c"));
    let mut run = start(&folder, &["--paused"], &["./spin"]);
    run.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    // The program may be quicker than who writes the file.
    let size = || fs::metadata(folder.file("run.evp")).map_or(0, |file| file.len());
    let mut before = size();
    for _ in 0..3 {
        ask_at_last(&folder, "start", "tracing\n");
        wait_until(|| size() > before + 10_000);
        ask_at_last(&folder, "stop", "paused\n");
        wait_until(|| {
            let last = std::mem::replace(&mut before, size());
            std::thread::sleep(Duration::from_millis(300));
            last == size()
        });
    }
    run.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    end(run);
    let all = stretches(&read(&folder));
    let spun = all.iter().filter(|stretches| stretches.len() == 3).count();
    assert_eq!(
        spun,
        1,
        "{:?}",
        all.iter().map(Vec::len).collect::<Vec<_>>()
    );
}

#[test]
fn no_waiting_system_call_ends_early() {
    let folder = Folder::new("ctl-waits");
    folder.compile(&["-O1", "-pthread"], "waits", source("waits.c"));
    let run = start(&folder, &["--ctl"], &["./waits"]);
    ask_at_last(&folder, "status", "tracing\n");
    let mut asked = 0;
    while ctl(&folder, "toggle").is_some() {
        asked += 1;
    }
    // How many there are follows from how busy the machine is.
    assert!(asked > 2, "{asked}");
    assert_eq!(end(run), "waited\n");
}

#[test]
fn all_processes_begin_and_end() {
    let folder = Folder::new("ctl-tree");
    let script = "i=0; while [ $i -lt 60 ]; do /bin/true; (exit 3); i=$((i+1)); done; echo $i";
    let run = start(&folder, &["--paused"], &["sh", "-c", script]);
    ask_at_last(&folder, "status", "paused\n");
    while ctl(&folder, "toggle").is_some() {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(end(run), "60\n");
    let recording = read(&folder);
    let all = stretches(&recording);
    let traced = all.iter().filter(|stretches| !stretches.is_empty()).count();
    assert!(
        recording.processes.len() > 120,
        "{}",
        recording.processes.len()
    );
    assert!(
        traced > 3 && traced < all.len(),
        "{traced} of {}",
        all.len()
    );
}

/// Addresses, and before which of them a handler of a signal begins.
fn with_handlers(recording: &Recording) -> (Vec<u64>, Vec<(usize, u8)>) {
    let process = &recording.processes[0];
    let mut pieces = Pieces::of(process);
    let mut walk = Walk::new(&mut pieces, &process.threads[0]);
    let (mut all, mut handlers) = (Vec::new(), Vec::new());
    while let Some(event) = walk.next() {
        match event.unwrap() {
            Event::Executed(steps) => all.extend(steps.iter().map(|step| step.pc)),
            Event::Went {
                why: Why::Signal(signal),
                ..
            } => handlers.push((all.len(), signal)),
            _ => {}
        }
    }
    (all, handlers)
}

#[test]
fn handlers_of_signals_begin_and_end_it() {
    let folder = Folder::new("ctl-signals");
    folder.compile(&["-O1"], "raises", source("raises.c"));
    end(start(&folder, &[], &["./raises"]));
    let (all, handlers) = with_handlers(&read(&folder));
    let signals: Vec<u8> = handlers.iter().map(|(_, signal)| *signal).collect();
    assert_eq!(signals, [10, 12, 12, 10, 12, 12, 10, 12, 12, 10, 12, 12]);
    let begin = |number: usize| handlers[number].0;
    let part = |from: usize, to: usize| all[begin(from)..begin(to)].to_vec();
    let cases: [(&[&str], Stretches); 5] = [
        (
            &["--start-signal", "USR1", "--stop-signal", "SIGUSR2"],
            vec![part(0, 1), part(3, 4), part(6, 7), part(9, 10)],
        ),
        (&["--start-signal", "10"], vec![all[begin(0)..].to_vec()]),
        (&["--stop-signal", "usr2"], vec![all[..begin(1)].to_vec()]),
        (
            &["--start-signal", "USR1", "--stop-signal", "USR1"],
            vec![part(0, 3), part(6, 9)],
        ),
        (
            &[
                "--start-signal",
                "USR2",
                "--stop-signal",
                "USR1",
                "--chaos",
                "5",
            ],
            vec![
                part(1, 3),
                part(4, 6),
                part(7, 9),
                all[begin(10)..].to_vec(),
            ],
        ),
    ];
    for (options, expected) in cases {
        end(start(&folder, options, &["./raises"]));
        let ours = stretches(&read(&folder));
        assert!(ours == [expected], "{options:?}");
    }
}

#[test]
fn signals_to_everypath_begin_and_end_it() {
    let folder = Folder::new("ctl-sent");
    folder.compile(&["-O1", "-pthread"], "spin", source("spin.c"));
    // The program has no handler for it, so it would end it.
    let options = ["--start-signal", "USR1", "--stop-signal", "USR1"];
    let mut run = start(&folder, &options, &["./spin"]);
    run.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    for standing in ["tracing\n", "paused\n", "tracing\n"] {
        let pid = run.id().to_string();
        let sent = Command::new("kill").args(["-USR1", &pid]).status().unwrap();
        assert!(sent.success());
        wait_until(|| ctl(&folder, "status").unwrap() == standing);
    }
    run.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    end(run);
}

#[test]
fn what_cannot_be_is_said() {
    let folder = Folder::new("ctl-refused");
    folder.compile(&["-O1", "-pthread"], "spin", source("spin.c"));
    let error = folder.refused(BINARY, &["ctl", "none.evp", "start"]);
    assert!(
        error.contains("no trace that may be asked is written to 'none.evp'"),
        "{error}"
    );
    let error = folder.refused(BINARY, &["ctl", "none.evp", "begin"]);
    assert!(error.contains("invalid value 'begin'"), "{error}");
    let trace = |options: &[&str]| {
        let words = [&["trace", "-o", "other.evp"], options, &["--", "true"]].concat();
        let error = folder.refused(BINARY, &words);
        assert!(!folder.file("other.evp").exists());
        error
    };
    let error = trace(&["--start-signal", "KILL"]);
    assert!(error.contains("SIGKILL cannot be waited for"), "{error}");
    for signal in ["USR3", "65", "33", "RTMIN+31", ""] {
        let error = trace(&["--stop-signal", signal]);
        assert!(
            error.contains("there is no such signal"),
            "{signal}: {error}"
        );
    }
    for option in ["--paused", "--start-signal=USR1"] {
        let error = trace(&["--skip", "5", option]);
        let name = option.split('=').next().unwrap();
        assert!(error.contains(&format!("leave {name} out")), "{error}");
    }
    // A second run for the same file, by another name of it.
    let mut run = start(&folder, &["--ctl"], &["./spin"]);
    run.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    let path = folder.path().join(".").join("run.evp");
    let path = path.to_str().unwrap();
    let error = folder.refused(BINARY, &["trace", "--ctl", "-o", path, "--", "true"]);
    assert!(
        error.contains("does another run write the same file?"),
        "{error}"
    );
    assert_eq!(ctl(&folder, "status").unwrap(), "tracing\n");
    run.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    end(run);
    assert_eq!(ctl(&folder, "status"), None);
}

fn source(name: &str) -> impl AsRef<Path> {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/cli/ctl")
        .join(name)
}
