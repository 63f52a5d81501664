//! `everypath diff`: recordings of real programs compared, and the exit status
//! that a check after every build asks for.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Output};

use testkit::folder::Folder;

use crate::BINARY;

fn everypath(folder: &Folder, arguments: &[&str]) -> Output {
    folder.run(BINARY, arguments)
}

/// Records `command` into `file`.
fn record(folder: &Folder, file: &str, options: &[&str], command: &[&str]) {
    let mut arguments = vec!["contexts", "-q", "-o", file];
    arguments.extend(options);
    arguments.push("--");
    arguments.extend(command);
    let output = everypath(folder, &arguments);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

/// Output of `diff`, and its exit status.
#[track_caller]
fn diff(folder: &Folder, arguments: &[&str]) -> (String, i32) {
    let output = everypath(folder, &[&["diff"], arguments].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    (text, output.status.code().expect("it exits"))
}

/// A metric of a recording, by the report on it alone.
fn total(folder: &Folder, file: &str, metric: &str) -> u64 {
    let arguments = ["report", file, "--format", "folded", "--by", metric];
    let output = everypath(folder, &arguments);
    let lines = String::from_utf8(output.stdout).unwrap();
    let numbers = lines.lines().map(|line| line.rsplit_once(' ').unwrap().1);
    numbers.map(|number| number.parse::<u64>().unwrap()).sum()
}

/// Builds `source` as `DIRECTORY/prog`, with the C library in it: what a
/// dynamic loader executes depends on the addresses that it loads at.
fn build(folder: &Folder, directory: &str, source: &str) {
    fs::create_dir_all(folder.file(directory)).unwrap();
    let program = format!("{directory}/prog");
    folder.program(&["-g", "-O0", "-static"], &program, source);
}

/// Stack to what it counted before and after. Functions of different modules
/// may have one name, so a stack may come twice.
fn stacks(folded: &str) -> BTreeMap<&str, (u64, u64)> {
    let mut stacks = BTreeMap::new();
    for line in folded.lines() {
        let (rest, after) = line.rsplit_once(' ').unwrap();
        let (stack, before) = rest.rsplit_once(' ').unwrap();
        let sums: &mut (u64, u64) = stacks.entry(stack).or_default();
        sums.0 += before.parse::<u64>().unwrap();
        sums.1 += after.parse::<u64>().unwrap();
    }
    stacks
}

const PROGRAM: &str = "\
static int leaf(int x) { return x + 1; }
static int work(int x) { return leaf(x) + leaf(x); }
int main(void) {
    int sum = 0;
    for (int i = 0; i < 5; i++) sum += work(i);
    return sum == 0;
}
";

#[test]
fn one_call_more_in_a_program_is_that_one_change() {
    let folder = Folder::new("one");
    build(&folder, "before", PROGRAM);
    let more = PROGRAM.replace("sum = 0;\n", "sum = leaf(7);\n");
    build(&folder, "after", &more);
    let options = ["--funcs", "main,work,leaf", "--k-inf"];
    record(&folder, "before.evp", &options, &["before/prog"]);
    record(&folder, "after.evp", &options, &["after/prog"]);
    let by_calls = ["before.evp", "after.evp", "--by", "calls"];
    let (folded, status) = diff(&folder, &[&by_calls[..], &["--format", "folded"]].concat());
    assert_eq!(status, 0);
    let stacks = stacks(&folded);
    assert_eq!(stacks["prog;main;work;leaf"], (10, 10));
    assert_eq!(stacks["prog;main;leaf"], (0, 1));
    let changed = stacks.values().filter(|(before, after)| before != after);
    assert_eq!(changed.count(), 1, "{folded}");
    let (text, _) = diff(&folder, &by_calls);
    let lines = |text: &str| -> Vec<String> {
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        text.lines().map(words).collect()
    };
    let lines = lines(&text);
    for line in [
        "change % before after instructions contexts function",
        "+1 new +1 prog › main › leaf prog prog.c:1",
    ] {
        assert!(lines.iter().any(|found| found == line), "{text}");
    }
    // Its instructions are the compiler's matter.
    let leaf = |line: &&String| line.ends_with(" 1→2 leaf prog prog.c:1");
    let leaf = lines.iter().find(leaf).unwrap();
    assert!(leaf.starts_with("+1 +10.00% 10 11 +"), "{text}");
}

/// One more turn of the loop, among everything that the C library does.
#[test]
fn conditions_decide_the_exit_status() {
    let folder = Folder::new("conditions");
    build(&folder, "before", PROGRAM);
    build(&folder, "after", &PROGRAM.replace("i < 5", "i < 6"));
    record(&folder, "before.evp", &[], &["before/prog"]);
    record(&folder, "after.evp", &[], &["after/prog"]);
    // Conditions, the exit status, and what is said about each that is met.
    let rows: &[(&[&str], i32, &[&str])] = &[
        (&["calls>+3"], 0, &[]),
        (&["calls>+2"], 1, &["(+3, "]),
        (&["calls<-0"], 0, &[]),
        (
            &["leaf:calls>+19.9%", "prog!work:calls>+1"],
            1,
            &["calls of 'leaf' rose from 10 to 12 (+2, +20.00%), more than +19.9% allows"],
        ),
        (&["leaf:calls>+20%", "no_such_function:calls>+0"], 0, &[]),
        (
            &["work:calls>+0", "leaf:calls>+0%"],
            1,
            &[
                "calls of 'work' rose from 5 to 6 (+1, +20.00%), more than +0 allows",
                "calls of 'leaf' rose from 10 to 12 (+2, +20.00%), more than +0% allows",
            ],
        ),
    ];
    for (conditions, status, sentences) in rows {
        let mut arguments = vec!["diff", "before.evp", "after.evp"];
        for condition in *conditions {
            arguments.extend(["--fail-if", condition]);
        }
        let output = everypath(&folder, &arguments);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(*status), "{stderr}");
        let said: Vec<&str> = stderr.lines().collect();
        assert_eq!(said.len(), sentences.len(), "{stderr}");
        for (said, sentence) in said.iter().zip(*sentences) {
            assert!(
                said.starts_with("everypath: ") && said.contains(sentence),
                "{said}"
            );
        }
    }
    // The other way round it fell.
    let arguments = ["after.evp", "before.evp", "--fail-if", "work:calls<-16%"];
    assert_eq!(diff(&folder, &arguments).1, 1);
    let arguments = ["after.evp", "before.evp", "--fail-if", "work:calls<-17%"];
    assert_eq!(diff(&folder, &arguments).1, 0);
}

#[test]
fn a_renamed_program_is_compared_if_it_has_to_be() {
    let folder = Folder::new("renamed");
    build(&folder, "a", PROGRAM);
    fs::copy(folder.file("a/prog"), folder.file("a/renamed")).unwrap();
    record(&folder, "a.evp", &["--funcs", "work,leaf"], &["a/prog"]);
    record(&folder, "b.evp", &["--funcs", "work,leaf"], &["a/renamed"]);
    assert_eq!(diff(&folder, &["a.evp", "b.evp"]).1, 125);
    let (text, status) = diff(&folder, &["a.evp", "b.evp", "--force", "--by", "calls"]);
    assert_eq!(status, 0);
    assert!(
        text.contains("\n0 of 2 contexts changed in calls\n"),
        "{text}"
    );
    assert!(
        text.contains("note: the program is 'prog' before and 'renamed' after\n"),
        "{text}"
    );
}

/// Three real programs with one input and another: everything adds up to what
/// the report on each says by itself, and turned round every sign changes.
#[test]
fn real_programs_with_other_input() {
    let folder = Folder::new("real");
    let sum = |rows: &str| {
        format!(
            "with recursive n(i) as (select 1 union all select i + 1 from n where i < {rows}) \
             select sum(i) from n"
        )
    };
    fs::write(folder.file("few"), "one\n".repeat(10)).unwrap();
    fs::write(folder.file("many"), "one\ntwo\n".repeat(3000)).unwrap();
    let python = |count: &str| format!("print(sum(int(str(i)) for i in range({count})))");
    let (few, many, print, prints) = (sum("20"), sum("30"), python("10"), python("20"));
    let rows: [[&[&str]; 2]; 3] = [
        [
            &["sqlite3", ":memory:", &few],
            &["sqlite3", ":memory:", &many],
        ],
        [
            &["git", "hash-object", "few"],
            &["git", "hash-object", "many"],
        ],
        [
            &["python3", "-S", "-E", "-c", &print],
            &["python3", "-S", "-E", "-c", &prints],
        ],
    ];
    for [one, other] in rows {
        record(&folder, "a.evp", &["-k", "5"], one);
        record(&folder, "b.evp", &["-k", "5"], other);
        for metric in ["calls", "instructions"] {
            adds_up(&folder, metric);
        }
        let (text, _) = diff(&folder, &["a.evp", "a.evp"]);
        assert!(text.contains("\n0 of "), "{text}");
        assert_eq!(text.matches("\n0 of ").count(), 2, "{text}");
    }
}

/// Basic blocks are executed, not called, and in all as often as the report says.
#[test]
fn executions_of_basic_blocks() {
    let folder = Folder::new("diff-blocks");
    build(&folder, "before", PROGRAM);
    build(&folder, "after", &PROGRAM.replace("i < 5", "i < 105"));
    let options = ["--mode", "intra", "-k", "3"];
    for name in ["before", "after"] {
        let (file, program) = (format!("{name}.evp"), format!("{name}/prog"));
        record(&folder, &file, &options, &[&program]);
    }
    let files = ["before.evp", "after.evp"];
    let (text, _) = diff(&folder, &files);
    let totals = text.lines().find(|line| line.starts_with("executions "));
    let totals = totals.unwrap().replace(',', "");
    let totals: Vec<&str> = totals.split_whitespace().collect();
    let expected = files.map(|file| total(&folder, file, "calls").to_string());
    assert_eq!(totals[1..3], expected, "{text}");
    assert!(text.contains("\nbasic blocks "), "{text}");
    assert!(
        text.contains(" basic blocks changed in executions"),
        "{text}"
    );
    assert!(text.contains("  basic block\n"), "{text}");
    let (json, _) = diff(&folder, &[&files[..], &["--format", "json"]].concat());
    assert!(json.contains("\"metrics\":[\"executions\"]"), "{json}");
    let (csv, _) = diff(&folder, &[&files[..], &["--format", "csv"]].concat());
    assert!(csv.contains(",executions before,"), "{csv}");
    for said in [&text, &csv] {
        assert!(
            !said.contains(" calls") && !said.contains(",calls"),
            "{said}"
        );
    }
    let condition = ["--fail-if", "executions>+500"];
    assert_eq!(diff(&folder, &[&files[..], &condition].concat()).1, 1);
    let refused = |arguments: &[&str]| {
        let output = everypath(&folder, &[&["diff"], arguments].concat());
        assert_eq!(output.status.code(), Some(125), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert_eq!(
        refused(&[&files[..], &["--fail-if", "calls>+0"]].concat()),
        "everypath: 'calls' is no metric of these recordings; they have executions\n"
    );
    record(&folder, "calls.evp", &["--cost", "calls"], &["after/prog"]);
    assert_eq!(
        refused(&["before.evp", "calls.evp", "--force"]),
        "everypath: 'before.evp' and 'calls.evp' have no figure in common: calls are of \
         functions, and executions of basic blocks\n"
    );
}

/// Without contexts: by program, and in all as the report says.
#[test]
fn instructions_of_whole_programs() {
    let folder = Folder::new("instructions");
    build(&folder, "before", PROGRAM);
    build(&folder, "after", &PROGRAM.replace("i < 5", "i < 1005"));
    for name in ["before", "after"] {
        let (file, program) = (format!("{name}.evp"), format!("{name}/prog"));
        let arguments = ["run", "-q", "--count-instructions", "-o", &file, &program];
        assert_eq!(everypath(&folder, &arguments).status.code(), Some(0));
    }
    let (csv, status) = diff(&folder, &["before.evp", "after.evp", "--format", "csv"]);
    assert_eq!(status, 0);
    let rows: Vec<&str> = csv.lines().collect();
    let [title, row] = rows[..] else {
        panic!("{csv}");
    };
    let end = "instructions before,instructions after,instructions change";
    assert!(title.ends_with(end), "{csv}");
    let [name, module, _, _, before, after, change] = row.split(',').collect::<Vec<_>>()[..] else {
        panic!("{csv}");
    };
    assert_eq!((name, module), ("prog", ""));
    let number = |text: &str| text.parse::<i64>().unwrap();
    assert_eq!(number(after) - number(before), number(change));
    // Some 30 a turn; start-up takes a few more or less by where the stack lies.
    assert!((20_000..100_000).contains(&number(change)), "{csv}");
    let arguments = ["before.evp", "after.evp", "--fail-if", "instructions>+0"];
    assert_eq!(diff(&folder, &arguments).1, 1);
}

/// `a.evp` and `b.evp`, forth and back.
fn adds_up(folder: &Folder, metric: &str) {
    let total = |file| total(folder, file, metric);
    let (before, after) = (total("a.evp"), total("b.evp"));
    assert!(before > 1000 && before != after, "{before} {after}");
    let folded = |files: [&str; 2]| {
        let options = ["--format", "folded", "--by", metric];
        diff(folder, &[&files[..], &options].concat()).0
    };
    let (forth, back) = (folded(["a.evp", "b.evp"]), folded(["b.evp", "a.evp"]));
    let (forth, back) = (stacks(&forth), stacks(&back));
    assert_eq!(forth.len(), back.len());
    let mut sums = (0, 0);
    for (stack, (before, after)) in forth {
        assert_eq!(back[stack], (after, before), "{stack}");
        sums = (sums.0 + before, sums.1 + after);
    }
    assert_eq!(sums, (before, after), "{metric}");
}

#[test]
fn a_damaged_recording_is_compared_but_not_judged() {
    let folder = Folder::new("damaged");
    record(&folder, "a.evp", &["--modules", "true"], &["true"]);
    let whole = fs::read(folder.file("a.evp")).unwrap();
    fs::write(folder.file("cut.evp"), &whole[..whole.len() - 1]).unwrap();
    let (text, status) = diff(&folder, &["a.evp", "cut.evp"]);
    assert_eq!(status, 0);
    assert!(text.contains("\nnote: 'cut.evp' is damaged. "), "{text}");
    let arguments = ["diff", "a.evp", "cut.evp", "--fail-if", "calls>+0"];
    let output = everypath(&folder, &arguments);
    assert_eq!(output.status.code(), Some(125));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(
        stderr.ends_with("; give --force to judge what is left\n"),
        "{stderr}"
    );
    assert!(output.stdout.is_empty());
    let forced = [&arguments[..], &["--force"]].concat();
    assert_eq!(everypath(&folder, &forced).status.code(), Some(0));
    // A form without a place for notes.
    let output = everypath(&folder, &["diff", "a.evp", "cut.evp", "--format", "csv"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(
        stderr.starts_with("everypath: 'cut.evp' is damaged. "),
        "{stderr}"
    );
}

/// A reader that has seen enough does not change the verdict.
#[test]
fn a_reader_that_stops_early_gets_the_same_status() {
    let folder = Folder::new("pipe");
    record(&folder, "a.evp", &["--modules", "true"], &["true"]);
    let script = format!(
        "{} diff a.evp a.evp --format json | head -c 1 >/dev/null; exit ${{PIPESTATUS[0]}}",
        BINARY
    );
    let mut command = Command::new("bash");
    let output = command
        .args(["-c", &script])
        .current_dir(folder.path())
        .output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty());
}
