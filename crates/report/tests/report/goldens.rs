//! Goldens: a small recording, how to show it, and the exact output, together
//! in one file. `BLESS=1 cargo test -p report` rewrites the output parts.
//!
//! The notation of recordings stands in `notation`; before it come, up to the
//! line `-----`:
//!
//! ```text
//! show: report width=80 top=5 join        form and options; fold=2: to so many callers
//! note: a sentence                        for the end of the report
//! ```

use std::path::{Path, PathBuf};

use analysis::fold::Fold;
use report::text::Style;
use report::{Detail, Hot, Report, View};
use trace::{Mode, Recording};

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
    let schema = folder.join("../../docs/formats/report.schema.json");
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

/// Folded stacks add up to what the recording counted, and so do the frames of a
/// flame graph made of them.
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
        if recording.meta.mode != Mode::Contexts || report.totals.events == 0 {
            continue;
        }
        for by in report.metrics {
            show.view.by = Some(by);
            let report = Report::new(&recording, &show.view);
            let total = report.total(by);
            let mut lines = Vec::new();
            report::folded::write(&report, &mut lines).unwrap();
            let lines = String::from_utf8(lines).unwrap();
            let numbers = lines.lines().map(|line| line.rsplit_once(' ').unwrap().1);
            let sum: u64 = numbers.map(|number| number.parse::<u64>().unwrap()).sum();
            assert_eq!(sum, total, "{lines}");
            let mut svg = Vec::new();
            report::flamegraph::write(&report, &mut svg).unwrap();
            let svg = String::from_utf8(svg).unwrap();
            assert!(svg.contains(&format!("total_samples=\"{total}\"")), "{svg}");
        }
        checked += 1;
    }
    assert!(checked >= 5);
}

use crate::notation;
use crate::schema;

/// How to show a recording.
struct Show {
    form: String,
    style: Style,
    view: View,
    fold: Option<u32>,
    engine: bool,
    notes: Vec<String>,
}

fn render(input: &str) -> String {
    let (recording, show) = parse(input);
    let fold = show.fold.map(|k| Fold::new(&recording, k));
    let mut report = match &fold {
        Some(fold) => Report::folded(fold, &show.view),
        None => Report::new(&recording, &show.view),
    };
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
        "callgrind" => report::callgrind::write(&report, &mut out),
        "firefox" => report::firefox::write(&report, &mut out),
        "speedscope" => report::speedscope::write(&report, &mut out),
        "csv" => report::csv::write(&report, &mut out),
        "xml" => report::xml::write(&report, &mut out),
        other => panic!("no form {other}"),
    }
    .unwrap();
    String::from_utf8(out).unwrap()
}

fn parse(input: &str) -> (Recording, Show) {
    let mut recording = notation::empty();
    let mut show = Show {
        form: String::new(),
        style: Style::PLAIN,
        view: View::default(),
        fold: None,
        engine: false,
        notes: Vec::new(),
    };
    for line in input.lines().filter(|line| !line.is_empty()) {
        match line.split_once(' ').unwrap_or((line, "")) {
            ("show:", rest) => parse_show(rest, &mut show),
            ("note:", rest) => show.notes.push(rest.into()),
            _ => notation::parse_line(line, &mut recording),
        }
    }
    (recording, show)
}

fn parse_show(text: &str, show: &mut Show) {
    let mut hot = Hot::default();
    for word in text.split_whitespace() {
        match word.split_once('=') {
            Some(("width", value)) => show.style.width = value.parse().unwrap(),
            Some(("top", value)) => hot.top = value.parse().ok(),
            Some(("fold", value)) => show.fold = value.parse().ok(),
            Some(("min", value)) => hot.min_percent = value.parse().unwrap(),
            Some(("depth", value)) => hot.depth = value.parse().ok(),
            Some(_) => panic!("no option {word}"),
            None => match word {
                "colour" => show.style.colour = true,
                "join" => show.view.join_threads = true,
                "ksf" => show.view.ksf = true,
                "kccf" => show.view.kccf = true,
                "engine" => show.engine = true,
                "funcs" => show.view.tables.funcs = Some(Detail::Plain),
                "blocks" => show.view.tables.blocks = Some(Detail::Plain),
                "funcs-disasm" => show.view.tables.funcs = Some(Detail::Disassembly),
                "blocks-disasm" => show.view.tables.blocks = Some(Detail::Disassembly),
                form => show.form = form.into(),
            },
        }
    }
    show.view.stacks = ["folded", "firefox", "speedscope", "csv"].contains(&&*show.form);
    show.view.graph = show.form == "callgrind";
    show.view.counters = show.form == "xml";
    if show.form == "report" {
        show.view.hot = Some(hot);
        show.view.ksf |= !show.view.kccf;
    }
}
