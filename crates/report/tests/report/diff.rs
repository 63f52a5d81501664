//! Goldens of comparisons: two small recordings, how to show them, and the exact
//! output, together in one file. `BLESS=1 cargo test -p report` rewrites the
//! output parts.
//!
//! ```text
//! show: report width=80 top=5 by=calls    form and options
//! condition: work 2                       work's calls grow by more than 2%
//! note: a sentence                        for the end of the report
//! before:
//! command: ./prog                         and so on, see `notation`
//! after:
//! …
//! -----
//! ```

use std::path::{Path, PathBuf};

use analysis::diff::{Condition, Diff, Direction, Limit, Metric, Unit, judge, metrics_of};
use report::diff::{Comparison, Recorded, csv, flamegraph, folded, json, text};
use report::text::Style;
use serde_json::Value;
use trace::Recording;

use crate::notation;
use crate::schema;

const SEPARATOR: &str = "-----\n";

struct Golden {
    form: String,
    style: Style,
    top: Option<usize>,
    /// `None`: the last.
    by: Option<String>,
    notes: Vec<String>,
    conditions: Vec<Condition>,
    before: Recording,
    after: Recording,
}

impl Golden {
    fn new(input: &str) -> Golden {
        let (head, recordings) = input.split_once("before:\n").expect("a line `before:`");
        let (before, after) = recordings.split_once("after:\n").expect("a line `after:`");
        let mut golden = Golden {
            form: String::new(),
            style: Style::PLAIN,
            top: None,
            by: None,
            notes: Vec::new(),
            conditions: Vec::new(),
            before: recording(before),
            after: recording(after),
        };
        for line in head.lines() {
            match line.split_once(": ").unwrap() {
                ("show", words) => golden.show(words),
                ("note", note) => golden.notes.push(note.into()),
                ("condition", words) => {
                    let (function, percent) = words.split_once(' ').unwrap();
                    golden.conditions.push(Condition {
                        text: format!("{function}:calls>+{percent}%"),
                        function: Some(function.into()),
                        metric: "calls".into(),
                        direction: Direction::More,
                        limit: Limit {
                            digits: percent.parse().unwrap(),
                            decimals: 0,
                            unit: Unit::Percent,
                        },
                    });
                }
                _ => panic!("no such line: {line}"),
            }
        }
        golden
    }

    fn show(&mut self, words: &str) {
        for word in words.split_whitespace() {
            match word.split_once('=') {
                Some(("width", value)) => self.style.width = value.parse().unwrap(),
                Some(("top", value)) => self.top = value.parse().ok(),
                Some(("by", value)) => self.by = Some(value.into()),
                _ => self.form = word.into(),
            }
        }
    }

    /// The metrics of both, and which of them decides.
    fn metrics(&self) -> (Vec<Metric>, usize) {
        let metrics = metrics_of(&self.before, &self.after);
        let named = |metric: &Metric| Some(metric.name) == self.by.as_deref();
        let by = metrics.iter().position(named).unwrap_or(metrics.len() - 1);
        (metrics, by)
    }

    /// Writes it in a form.
    fn write(&self, form: &str) -> String {
        let (metrics, by) = self.metrics();
        let diff = Diff::new(&self.before, &self.after, &metrics);
        let verdicts = judge(&diff, &self.conditions);
        let mut comparison = Comparison::new(
            Recorded::new("before.evp".into(), &self.before),
            Recorded::new("after.evp".into(), &self.after),
            diff,
            by,
        );
        comparison.top = self.top;
        comparison.verdicts = verdicts;
        comparison.notes.clone_from(&self.notes);
        let mut out = Vec::new();
        match form {
            "report" => text::write(&comparison, self.style, &mut out),
            "json" => json::write(&comparison, &mut out),
            "csv" => csv::write(&comparison, &mut out),
            "folded" => folded::write(&comparison, &mut out),
            "flamegraph" => flamegraph::write(&comparison, &mut out),
            other => panic!("no form {other}"),
        }
        .unwrap();
        String::from_utf8(out).unwrap()
    }
}

fn recording(text: &str) -> Recording {
    let mut recording = notation::empty();
    for line in text.lines().filter(|line| !line.is_empty()) {
        notation::parse_line(line, &mut recording);
    }
    recording
}

/// Path, input and output of every golden.
fn goldens() -> Vec<(PathBuf, String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden_diff");
    let paths = std::fs::read_dir(folder).unwrap();
    let mut goldens: Vec<(PathBuf, String, String)> = paths
        .map(|entry| {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            let (input, output) = text.split_once(SEPARATOR).unwrap();
            (path, input.to_owned(), output.to_owned())
        })
        .collect();
    goldens.sort();
    assert!(goldens.len() >= 5);
    goldens
}

#[test]
fn every_golden_is_reproduced() {
    let mut wrong = Vec::new();
    for (path, input, expected) in goldens() {
        let golden = Golden::new(&input);
        let actual = golden.write(&golden.form);
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&path, format!("{input}{SEPARATOR}{actual}")).unwrap();
        } else if actual != expected {
            wrong.push(format!("{}:\n{actual}", path.display()));
        }
    }
    let wrong = wrong.join("\n");
    assert!(wrong.is_empty(), "BLESS=1 accepts these:\n{wrong}");
}

/// A metric of a whole recording, by what counts without any comparison.
fn total(recording: &Recording, metric: &Metric) -> u64 {
    let totals = analysis::summary::of_recording(recording);
    match metric.name {
        "calls" => totals.events,
        "instructions" => totals.insns,
        other => panic!("what is {other} in all?"),
    }
}

fn sum(rows: impl Iterator<Item = (u64, u64)>) -> (u64, u64) {
    rows.fold((0, 0), |sum, row| (sum.0 + row.0, sum.1 + row.1))
}

/// Whatever is written in full adds up to the totals of the recordings.
#[test]
fn every_form_adds_up() {
    for (path, input, _) in goldens() {
        let golden = Golden::new(&input);
        let (metrics, by) = golden.metrics();
        let total = |metric| (total(&golden.before, metric), total(&golden.after, metric));
        let totals: Vec<(u64, u64)> = metrics.iter().map(total).collect();
        let folded = golden.write("folded");
        let stacks = folded.lines().map(|line| last_two(line, ' '));
        assert_eq!(sum(stacks), totals[by], "{}", path.display());
        let csv = golden.write("csv");
        let json: Value = serde_json::from_str(&golden.write("json")).unwrap();
        let pair = |value: &Value| (value[0].as_u64().unwrap(), value[1].as_u64().unwrap());
        let (contexts, functions) = (&json["contexts"], &json["functions"]);
        for (at, &total) in totals.iter().enumerate() {
            let later = 3 * (metrics.len() - 1 - at);
            let rows = csv.lines().skip(1).map(|line| numbers(line, later));
            assert_eq!(sum(rows), total, "{}", path.display());
            assert_eq!(pair(&json["totals"][at]), total);
            let rows = contexts.as_array().unwrap().iter();
            assert_eq!(sum(rows.map(|row| pair(&row[2 + at]))), total);
            let rows = functions.as_array().unwrap().iter();
            assert_eq!(sum(rows.map(|row| pair(&row["values"][at]))), total);
        }
        if totals[by].1 > 0 {
            let svg = golden.write("flamegraph");
            assert!(svg.contains(&format!("total_samples=\"{}\"", totals[by].1)));
        }
    }
}

/// Before and after in a line of CSV, `later` cells from its end.
fn numbers(line: &str, later: usize) -> (u64, u64) {
    let mut cells = line.rsplit(',').skip(later);
    let change: i64 = cells.next().unwrap().parse().unwrap();
    let mut number = || cells.next().unwrap().parse::<u64>().unwrap();
    let (after, before) = (number(), number());
    assert_eq!(after as i64 - before as i64, change);
    (before, after)
}

fn last_two(line: &str, separator: char) -> (u64, u64) {
    let (rest, after) = line.rsplit_once(separator).unwrap();
    let (_, before) = rest.rsplit_once(separator).unwrap();
    (before.parse().unwrap(), after.parse().unwrap())
}

#[test]
fn documents_obey_the_schema() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let schema = folder.join("../../docs/formats/diff.schema.json");
    let schema = serde_json::from_slice(&std::fs::read(schema).unwrap()).unwrap();
    for (_, input, _) in goldens() {
        let document: Value = serde_json::from_str(&Golden::new(&input).write("json")).unwrap();
        let faults = schema::faults(&schema, &document);
        assert!(faults.is_empty(), "{faults:#?}");
        let mut broken = document.clone();
        broken["functions"][0]["kind"] = "thing".into();
        broken["surprise"] = 1.into();
        assert_eq!(schema::faults(&schema, &broken).len(), 2);
    }
}

/// A stack that two functions of one name share is drawn once, with the changes
/// of both; red is more, blue is fewer.
#[test]
fn a_flame_graph_shows_changes_as_colours() {
    let (_, input, _) = goldens()
        .into_iter()
        .find(|(path, ..)| path.ends_with("folded_processes_together.txt"))
        .unwrap();
    let svg = Golden::new(&input).write("flamegraph");
    let frame = |name: &str| {
        let at = svg.find(&format!("<title>{name} (")).unwrap();
        let end = at + svg[at..].find("/>").unwrap();
        svg[at..end].to_owned()
    };
    let grown = frame("shared");
    assert!(
        grown.contains("shared (7 calls, 16.28%; +6.98%)"),
        "{grown}"
    );
    assert!(grown.contains("fill=\"rgb(255,"), "{grown}");
    let shrunk = frame("less");
    assert!(
        shrunk.contains("rgb(") && shrunk.contains(",255)"),
        "{shrunk}"
    );
}
