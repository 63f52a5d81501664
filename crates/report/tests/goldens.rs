//! Goldens: a small recording, how to show it, and the exact output, together
//! in one file. `BLESS=1 cargo test -p report` rewrites the output parts.
//!
//! The notation, line by line, up to the line `-----`:
//!
//! ```text
//! show: report width=80 top=5 join        form and options
//! command: ./prog1 arg
//! k: 2                                    or: infinite
//! end: exited 0                           or: signaled 11 core, unknown
//! process 100 exited 0: ./prog1 arg
//! module /usr/bin/prog1
//! function 256 a prog1.c:9                name and place; `-` where unknown
//! thread 100 insns=5 truncated=1
//! [thread] 1                              nodes: indented by depth, label, count,
//!   a 3 top=4                             and the ordinal of the top node
//! ```
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use report::text::Style;
use report::{Hot, Report, View};
use trace::{End, Function, Label, Meta, Mode, Module, Node, Process, Recording, Thread};

const SEPARATOR: &str = "-----\n";

#[test]
fn every_golden_is_reproduced() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    assert!(!paths.is_empty());
    let mut wrong = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap();
        let (input, expected) = text
            .split_once(SEPARATOR)
            .expect("a golden has a separator");
        let actual = render(input);
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&path, format!("{input}{SEPARATOR}{actual}")).unwrap();
        } else if actual != expected {
            wrong.push(format!("{}:\n{actual}", path.display()));
        }
    }
    assert!(
        wrong.is_empty(),
        "BLESS=1 accepts these:\n{}",
        wrong.join("\n")
    );
}

/// Every document that the goldens write obeys the published schema.
#[test]
fn json_goldens_obey_the_schema() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let schema = folder.join("../../docs/formats/recording.schema.json");
    let schema = serde_json::from_slice(&std::fs::read(schema).unwrap()).unwrap();
    let mut checked = 0;
    for entry in std::fs::read_dir(folder.join("tests/golden")).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let (input, output) = text.split_once(SEPARATOR).unwrap();
        if input.contains("show: json") {
            let document: serde_json::Value = serde_json::from_str(output).unwrap();
            let faults = schema::faults(&schema, &document);
            assert!(faults.is_empty(), "{faults:#?}");
            let mut broken = document.clone();
            broken["processes"][0]["pid"] = "one".into();
            broken["surprise"] = 1.into();
            assert_eq!(schema::faults(&schema, &broken).len(), 2);
            checked += 1;
        }
    }
    assert!(checked >= 2);
}

/// Folded stacks add up to the calls of the recording, and so do the frames of
/// a flame graph made of them.
#[test]
fn folded_stacks_add_up() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut checked = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let (recording, mut show) = parse(text.split_once(SEPARATOR).unwrap().0);
        show.view.hot = None;
        show.view.stacks = true;
        let report = Report::new(&recording, &show.view);
        let calls = report.totals.events;
        if recording.meta.mode != Mode::Contexts || calls == 0 {
            continue;
        }
        let mut lines = Vec::new();
        report::folded::write(&report, &mut lines).unwrap();
        let lines = String::from_utf8(lines).unwrap();
        let numbers = lines.lines().map(|line| line.rsplit_once(' ').unwrap().1);
        let sum: u64 = numbers.map(|number| number.parse::<u64>().unwrap()).sum();
        assert_eq!(sum, calls, "{lines}");
        let mut svg = Vec::new();
        report::flamegraph::write(&report, &mut svg).unwrap();
        let svg = String::from_utf8(svg).unwrap();
        assert!(svg.contains(&format!("total_samples=\"{calls}\"")), "{svg}");
        checked += 1;
    }
    assert!(checked >= 5);
}

mod schema;

/// How to show a recording.
struct Show {
    form: String,
    style: Style,
    view: View,
    engine: bool,
    notes: Vec<String>,
}

fn render(input: &str) -> String {
    let (recording, show) = parse(input);
    let mut report = Report::new(&recording, &show.view);
    report.stat_names = if show.engine {
        &["blocks", "cache exits, direct"]
    } else {
        &[]
    };
    report.notes = show.notes;
    let mut out = Vec::new();
    match show.form.as_str() {
        "report" => report::text::write(&report, show.style, &mut out),
        "text" => report::paper::write(&report, &mut out),
        "json" => report::json::write(&report, &mut out),
        "folded" => report::folded::write(&report, &mut out),
        other => panic!("no form {other}"),
    }
    .unwrap();
    String::from_utf8(out).unwrap()
}

fn parse(input: &str) -> (Recording, Show) {
    let meta = Meta {
        producer: "everypath 0.0.0".into(),
        mode: Mode::Contexts,
        duration_ns: 1_500_000,
        started_unix_ns: 1_700_000_000_000_000_000,
        ..Meta::default()
    };
    let mut recording = Recording {
        meta,
        processes: Vec::new(),
    };
    let mut show = Show {
        form: String::new(),
        style: Style::PLAIN,
        view: View::default(),
        engine: false,
        notes: Vec::new(),
    };
    for line in input.lines().filter(|line| !line.is_empty()) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "show:" => parse_show(rest, &mut show),
            "note:" => show.notes.push(rest.into()),
            "mode:" => {
                recording.meta.mode = if rest == "run" {
                    Mode::Run
                } else {
                    Mode::Contexts
                }
            }
            "command:" => recording.meta.command = words(rest),
            "k:" => recording.meta.k = rest.parse().ok(),
            "end:" => recording.meta.end = parse_end(rest),
            "process" => recording.processes.push(parse_process(rest)),
            _ => parse_in_process(
                line,
                recording.processes.last_mut().expect("a process first"),
            ),
        }
    }
    (recording, show)
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(Into::into).collect()
}

fn parse_show(text: &str, show: &mut Show) {
    let mut hot = Hot::default();
    for word in text.split_whitespace() {
        match word.split_once('=') {
            Some(("width", value)) => show.style.width = value.parse().unwrap(),
            Some(("top", value)) => hot.top = value.parse().ok(),
            Some(("min", value)) => hot.min_percent = value.parse().unwrap(),
            Some(("depth", value)) => hot.depth = value.parse().ok(),
            Some(_) => panic!("no option {word}"),
            None => match word {
                "colour" => show.style.colour = true,
                "join" => show.view.join_threads = true,
                "ksf" => show.view.ksf = true,
                "kccf" => show.view.kccf = true,
                "engine" => show.engine = true,
                form => show.form = form.into(),
            },
        }
    }
    show.view.stacks = show.form == "folded";
    if show.form == "report" {
        show.view.hot = Some(hot);
        show.view.ksf |= !show.view.kccf;
    }
}

fn parse_end(text: &str) -> End {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words[..] {
        ["exited", status] => End::Exited(status.parse().unwrap()),
        ["signaled", signal] => End::Signaled {
            signal: signal.parse().unwrap(),
            core: false,
        },
        ["signaled", signal, "core"] => End::Signaled {
            signal: signal.parse().unwrap(),
            core: true,
        },
        ["execed"] => End::Execed,
        ["unknown"] => End::Unknown,
        _ => panic!("no end {text}"),
    }
}

fn parse_process(text: &str) -> Process {
    let (head, command) = text.split_once(": ").unwrap();
    let (pid, end) = head.split_once(' ').unwrap();
    let args = words(command);
    let end = parse_end(end);
    let end_ns = (end != End::Unknown).then_some(2_000_000);
    Process {
        pid: pid.parse().unwrap(),
        exe: args[0].clone(),
        args,
        start_ns: 1_000_000,
        end_ns,
        end,
        stats: vec![1234, 56],
        ..Process::default()
    }
}

fn parse_in_process(line: &str, process: &mut Process) {
    let fields: Vec<&str> = line.split_whitespace().collect();
    match fields[..] {
        ["module", path] => process.modules.push(Module {
            path: path.into(),
            start: 0x7f00_0000_0000,
            end: 0x7f00_0000_1000,
            build_id: Some(vec![0xab, 0x0c]),
            ..Module::default()
        }),
        ["function", id, name, place] => {
            let id: u32 = id.parse().unwrap();
            let (file, number) = place.split_once(':').unwrap_or((place, ""));
            let known = |text: &str| (text != "-").then(|| text.replace('~', " "));
            process.functions.push(Function {
                id,
                pc: 0x7f00_0000_0000 + u64::from(id),
                module: process.modules.len().checked_sub(1).map(|at| at as u32),
                file_offset: u64::from(id),
                name: known(name),
                file: known(file),
                line: number.parse().ok(),
            });
        }
        ["thread", tid, ..] => {
            let number = |key: &str| {
                let value = fields.iter().find_map(|field| field.strip_prefix(key));
                value.map_or(0, |value| value.parse().unwrap())
            };
            process.threads.push(Thread {
                tid: tid.parse().unwrap(),
                insns: number("insns="),
                truncated_events: number("truncated="),
                ..Thread::default()
            });
        }
        _ => parse_node(line, process),
    }
}

fn parse_node(line: &str, process: &mut Process) {
    let depth = (line.len() - line.trim_start().len()) / 2;
    let (line, top) = match line.split_once(" top=") {
        Some((line, top)) => (line, Some(top.parse().unwrap())),
        None => (line, None),
    };
    let (name, count) = line.trim_start().rsplit_once(' ').unwrap();
    let label = parse_label(name, process);
    let nodes = &mut process.threads.last_mut().expect("a thread first").nodes;
    let parent = (depth > 0).then(|| {
        nodes
            .iter()
            .rposition(|node: &Node| node.depth as usize == depth - 1)
            .unwrap() as u32
    });
    nodes.push(Node {
        label,
        parent,
        depth: depth as u32,
        top,
        count: count.parse().unwrap(),
    });
}

fn parse_label(name: &str, process: &Process) -> Label {
    match name {
        "[thread]" => Label::THREAD,
        "__root__" => Label::ROOT,
        "[truncated]" => Label::TRUNCATED,
        "[muted]" => Label::MUTED,
        "[signal" => panic!("write [signal~N]"),
        _ => {
            if let Some(number) = name.strip_prefix("[signal~") {
                return Label::signal(number.trim_end_matches(']').parse().unwrap());
            }
            let named = |function: &&Function| {
                function.name.as_deref() == Some(&*name.replace('~', " "))
                    || format!("#{}", function.id) == name
            };
            let function = process.functions.iter().find(named);
            Label(function.unwrap_or_else(|| panic!("no function {name}")).id)
        }
    }
}
