//! `everypath count` as its users see it: numbers that are known, in every form,
//! of one process and of many, and of one that is killed.

use std::process::Output;

use testkit::folder::Folder;

use crate::BINARY;

/// A loop of a thousand rounds, of which a tenth goes another way.
const WORK: &str = "\
int work(int n)
{
    int s = 0;
    for (int i = 0; i < n; i++)
        if (i % 10 == 0)
            s += i;
        else
            s -= 1;
    return s;
}
int main(int argc, char **argv)
{
    if (argc > 1)
        __builtin_trap();
    return work(1000) != 48600;
}
";

/// A folder with that program.
fn with_work(name: &str) -> Folder {
    let folder = Folder::new(name);
    folder.program(&["-O0", "-g"], "work", WORK);
    folder
}

fn everypath(folder: &Folder, arguments: &[&str]) -> Output {
    folder.run(BINARY, arguments)
}

fn stdout(output: Output) -> String {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// (line, instructions, executed) of each block of `function`.
fn blocks(csv: &str, function: &str) -> Vec<(u32, u64, u64)> {
    let head = "module,offset,bytes,instructions,executed,function,distance,file,line";
    assert_eq!(csv.lines().next(), Some(head));
    let rows = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let rows = rows.filter(|row| row[5] == function);
    let number = |text: &str| text.parse::<u64>().unwrap();
    rows.map(|row| (number(row[8]) as u32, number(row[3]), number(row[4])))
        .collect()
}

#[test]
fn blocks_lines_and_branches_have_their_numbers() {
    let folder = with_work("numbers");
    let run = ["count", "-q", "-o", "run.evp", "--", "./work"];
    assert_eq!(everypath(&folder, &run).status.code(), Some(0));
    let csv = stdout(everypath(
        &folder,
        &["report", "run.evp", "--format", "csv", "--modules", "work"],
    ));
    let work = blocks(&csv, "work");
    let of_line = |line| {
        let rows = work.iter().filter(move |row| row.0 == line);
        rows.map(|row| row.2).collect::<Vec<_>>()
    };
    assert_eq!(of_line(6), [100], "{work:?}");
    assert_eq!(of_line(8), [900], "{work:?}");
    assert_eq!(of_line(9), [1], "{work:?}");
    assert!(of_line(5).iter().all(|&count| count == 1000), "{work:?}");
    let json = stdout(everypath(
        &folder,
        &["report", "run.evp", "--format", "json"],
    ));
    assert!(json.starts_with("{\"format\":\"everypath counts\",\"version\":1,"));
    assert!(json.contains("\"kind\":\"taken\",\"count\":900}"), "{json}");
    let text = stdout(everypath(&folder, &["report", "run.evp", "--top", "5"]));
    let line = text
        .lines()
        .find(|line| line.contains("  work.c:5  "))
        .unwrap();
    assert!(line.ends_with(" if (i % 10 == 0)"), "{text}");
    assert!(text.contains("basic blocks"), "{text}");
}

/// A kept recording of `for (n = 1000; n; n--) sum += n;`, whose fragment has the loop
/// several times.
#[test]
fn turns_of_a_loop_are_counted_together() {
    let folder = Folder::new("turns");
    let kept = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../trace/tests/recordings/4-turns.evp"
    );
    let report = |form| stdout(everypath(&folder, &["report", kept, "--format", form]));
    assert_eq!(blocks(&report("csv"), "_start")[1], (5, 3, 1000));
    let json = report("json");
    assert!(json.contains("\"kind\":\"taken\",\"count\":999}"), "{json}");
}

#[test]
fn all_threads_and_processes_are_counted_and_one_that_is_killed() {
    let folder = with_work("all");
    let script = "./work & ./work; ./work | cat; wait; ./work trap; kill -9 $$";
    let run = ["count", "-q", "-o", "run.evp", "--", "sh", "-c", script];
    let output = everypath(&folder, &run);
    assert!(!output.status.success());
    let csv = stdout(everypath(
        &folder,
        &["report", "run.evp", "--format", "csv", "--modules", "work"],
    ));
    let work = blocks(&csv, "work");
    let all = work.iter().filter(|row| row.0 == 8).map(|row| row.2);
    assert_eq!(all.sum::<u64>(), 2700, "{work:?}");
    let threads = stdout(everypath(
        &folder,
        &["report", "run.evp", "--format", "csv", "--per-thread"],
    ));
    assert!(threads.starts_with("process,thread,module,"));
    let row = |line: &&str| line.contains(",work,") && line.ends_with("work.c,8");
    let rows: Vec<&str> = threads.lines().filter(row).collect();
    assert_eq!(rows.len(), 3, "{rows:?}");
    assert!(
        rows.iter().all(|row| row.contains(",900,work,")),
        "{rows:?}"
    );
}

#[test]
fn functions_are_shown_instruction_by_instruction() {
    let folder = with_work("annotate");
    let arguments = ["count", "-q", "-o", "run.evp", "--", "./work"];
    assert!(everypath(&folder, &arguments).status.success());
    let show = |list: &str| {
        stdout(everypath(
            &folder,
            &["report", "run.evp", "--modules", "work", "--annotate", list],
        ))
    };
    let text = show("wor?");
    let columns = |line: &str| {
        let number = |text: &str| text.trim().replace(',', "").parse::<u64>().ok();
        Some((number(line.get(..14)?)?, number(line.get(14..28)?)))
    };
    let insns: Vec<(u64, Option<u64>)> = text.lines().filter_map(columns).collect();
    let sum: u64 = insns.iter().map(|insn| insn.0).sum();
    let csv = stdout(everypath(
        &folder,
        &["report", "run.evp", "--format", "csv", "--modules", "work"],
    ));
    let in_blocks: u64 = blocks(&csv, "work")
        .iter()
        .map(|block| block.1 * block.2)
        .sum();
    assert_eq!(sum, in_blocks, "{text}");
    let title = text.lines().next().unwrap().replace(',', "");
    assert_eq!(title, format!("work  work  {sum} instructions executed"));
    // The loop is left once of 1,001 times, and a tenth of its rounds is a multiple.
    let branches: Vec<(u64, u64)> = insns
        .iter()
        .filter_map(|&(n, taken)| Some((n, taken?)))
        .collect();
    let both = |n: u64, one: u64| [(n, one), (n, n - one)];
    for expected in [both(1001, 1), both(1000, 100)] {
        assert!(expected.iter().any(|way| branches.contains(way)), "{text}");
    }
    // The source stands beside it.
    assert!(text.contains(" work.c:5  if (i % 10 == 0)\n"), "{text}");
    let said = folder.refused(BINARY, &["report", "run.evp", "--annotate", "nothing"]);
    assert!(
        said.contains("no function nothing was executed (a name may hold * and ?)"),
        "{said}"
    );
}

#[test]
fn forms_of_other_recordings_are_refused() {
    let folder = Folder::new("forms");
    let refused = |arguments: &[&str]| {
        let output = everypath(&folder, arguments);
        assert_eq!(output.status.code(), Some(125));
        String::from_utf8(output.stderr).unwrap()
    };
    for form in ["text", "folded", "flamegraph", "pprof"] {
        let said = refused(&["count", "--format", form, "--", "true"]);
        assert_eq!(
            said,
            "everypath: this --format shows contexts, and only `contexts` records any; \
             forms of `count` are report, json, csv, callgrind, lcov, fdata, llvm\n"
        );
    }
}

/// Deterministic, all in one thread: what is made of a trace is byte for byte what is
/// recorded live.
#[test]
fn counts_of_a_trace_are_those_of_a_live_run() {
    let folder = Folder::new("of-a-trace");
    let binary = BINARY;
    let sql = "create table t(a,b); insert into t values(1,'x'),(2,'y'); select sum(a) from t;";
    for (mode, file) in [("trace", "trace.evp"), ("count", "count.evp")] {
        let head = ["-R", binary, mode, "-q", "-o", file, "--"];
        let arguments = [&head[..], &["sqlite3", ":memory:", sql]].concat();
        stdout(folder.run("setarch", &arguments));
    }
    for form in [
        &["csv"][..],
        &["csv", "--per-thread"],
        &["callgrind"],
        &["json"],
    ] {
        let report = |file: &str, what: &[&str]| {
            let arguments = [&["report", file], what, &["--format"], form].concat();
            let text = stdout(everypath(&folder, &arguments));
            // Numbers of the process, and how it was called.
            let is_comparable = |line: &&str| !line.starts_with("desc: ");
            text.lines()
                .filter(is_comparable)
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let (made, live) = (
            report("trace.evp", &["--as", "counts"]),
            report("count.evp", &[]),
        );
        assert!(
            made.len() > usize::from(form[0] != "json") * 5000,
            "{form:?}"
        );
        // Numbers of threads are not the same.
        let compared = |line: &str| match form.len() > 1 {
            true => {
                let kept = line.split(',').zip(live[0].split(','));
                let kept =
                    kept.filter(|&(_, head)| !["thread", "tid", "process", "pid"].contains(&head));
                kept.map(|(field, _)| field).collect::<Vec<_>>().join(",")
            }
            false => line.to_owned(),
        };
        let mut pairs = made.iter().zip(&live);
        let differ = pairs.find(|(made, live)| compared(made) != compared(live));
        assert!(differ.is_none(), "{form:?}: {differ:?}");
        assert_eq!(made.len(), live.len(), "{form:?}");
    }
    let kept = ["report", "trace.evp", "--as", "counts", "-o", "made.evp"];
    stdout(everypath(&folder, &kept));
    let csv = |file: &str| stdout(everypath(&folder, &["report", file, "--format", "csv"]));
    assert_eq!(csv("made.evp"), csv("count.evp"));
    let output = everypath(&folder, &["report", "count.evp", "--as", "counts"]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        error.contains("--as is about traces, and this is none"),
        "{error}"
    );
}
