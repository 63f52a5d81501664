//! The page of `--html` in a browser: driven by `tests/html/check.mjs`, and
//! compared with the other reports of the same recording, number by number.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use testkit::folder::Folder;
use testkit::sample;
use trace::{Mode, Recording};

use crate::BINARY;

/// A page of a million contexts is large.
fn folder(name: &str) -> Folder {
    Folder::within(Path::new(env!("CARGO_TARGET_TMPDIR")), name)
}

fn everypath(folder: &Folder, arguments: &[&str]) -> Output {
    folder.run(BINARY, arguments)
}

/// Runs and must succeed; what was written to standard output.
fn run(folder: &Folder, arguments: &[&str]) -> String {
    let output = everypath(folder, arguments);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Compiles a program of this repository into the folder.
fn compile(folder: &Folder, source: &str, name: &str) {
    folder.compile(&["-O1", "-g", "-pthread"], name, repository().join(source));
}

/// Page, JSON and text of `run.evp`.
fn show(folder: &Folder) {
    let stdout = run(folder, &["report", "run.evp", "--html", "page.html"]);
    assert_eq!(stdout, "");
    let json = run(
        folder,
        &["report", "run.evp", "--format", "json", "--forest", "both"],
    );
    fs::write(folder.file("report.json"), json).unwrap();
    let text = run(folder, &["report", "run.evp"]);
    fs::write(folder.file("report.txt"), text).unwrap();
}

fn keep(folder: &Folder, recording: &Recording) {
    fs::write(folder.file("run.evp"), sample::bytes(recording)).unwrap();
}

/// One case of `tests/html/cases.mjs`.
pub fn check(folder: &Folder, case: &str) {
    let mut node = Command::new("node");
    node.arg(repository().join("tests/html/check.mjs"));
    node.args([case, "page.html"]);
    for report in ["report.json", "report.txt"] {
        node.args(folder.file(report).exists().then_some(report));
    }
    let output = node.current_dir(folder.path()).output();
    let output = output.expect("node is installed (Debian: nodejs)");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{case}: {said}");
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn a_page_shows_what_was_recorded() {
    shows_what_was_recorded("small", "printf %s abc | tr a b");
}

#[test]
#[ignore = "wide: a page of sqlite3's contexts; one of a smaller program is in the gate"]
fn a_large_page_shows_what_was_recorded() {
    const SQL: &str = "create table t(a, b); \
        with recursive c(x) as (select 1 union all select x + 1 from c where x < 300) \
        insert into t select x, hex(x) from c; select count(*) from t where b like '1%'";
    shows_what_was_recorded("real", &format!("sqlite3 :memory: \"{SQL}\""));
}

/// `command` and a program of several threads, in processes of their own.
fn shows_what_was_recorded(name: &'static str, command: &str) {
    let folder = folder(name);
    compile(&folder, "tests/paper/prog1.c", "prog1");
    let script = format!("{command} && ./prog1");
    let options = [
        // With instructions, the JSON has contexts of a forked child that were never
        // called in it, and a page shows none by calls.
        "contexts", "--cost", "calls", "--k-inf", "-q", "-o", "run.evp", "--html", "run.html",
    ];
    run(
        &folder,
        &[&options[..], &["--", "sh", "-c", &script]].concat(),
    );
    show(&folder);
    let pages = ["run.html", "page.html"].map(|name| fs::read(folder.file(name)).unwrap());
    assert!(
        pages[0] == pages[1],
        "made after the run and from the recording"
    );
    check(&folder, "numbers");
    check(&folder, "clicks");
}

#[test]
fn a_page_opens_on_the_hottest_path() {
    let folder = folder("opening");
    compile(&folder, "tests/programs/contexts_recursion.c", "recursion");
    let program = ["--k-inf", "-q", "-o", "run.evp", "--", "./recursion"];
    run(&folder, &[&["contexts"], &program[..]].concat());
    show(&folder);
    check(&folder, "opening");
}

#[test]
fn callers_that_were_not_kept_are_said_to_be_so() {
    let folder = folder("finite");
    compile(&folder, "tests/paper/prog1.c", "prog1");
    run(
        &folder,
        &[
            "contexts", "-k", "2", "-q", "-o", "run.evp", "--", "./prog1",
        ],
    );
    show(&folder);
    check(&folder, "finite");
}

/// Page and JSON come from the run itself: reading a recording of this size
/// again takes a while without optimisation.
#[test]
#[ignore = "wide: a page of a million contexts takes the browser ten seconds"]
fn a_million_contexts() {
    let folder = folder("million");
    compile(&folder, "benches/programs/growth.c", "growth");
    let files = [
        "--html",
        "page.html",
        "--format",
        "json",
        "--report",
        "report.json",
    ];
    let program = ["--k-inf", "-q", "--", "./growth", "1000000"];
    run(&folder, &[&["contexts"], &files[..], &program].concat());
    check(&folder, "million");
}

/// Two functions below a thread: `main` once, and `work` so often.
fn recording(names: [&str; 2], calls: u64) -> Recording {
    let mut recording = sample::recording();
    recording.meta.command = vec![names[0].into(), "</title>".into()];
    let process = &mut recording.processes[0];
    process.modules[0].path = "/<b>bin</b>/&amp;".into();
    for (function, name) in process.functions.iter_mut().zip(names) {
        function.name = Some(name.into());
        function.file = Some("<i>/gone.c".into());
    }
    process.threads[0].nodes[2].count = calls;
    recording
}

/// The largest value that a page can show, in names that are tags.
const LARGEST: u64 = (1 << 53) - 1;
const TAGS: [&str; 2] = [
    "</script><img src=x onerror=\"everypath.evil=1\">",
    "\u{202e}cod\n",
];

#[test]
fn names_are_text_whatever_they_are() {
    let folder = folder("hostile");
    keep(&folder, &recording(TAGS, LARGEST - 1));
    show(&folder);
    check(&folder, "hostile");
}

/// A loop with a branch that goes both ways, and a tag in a line of code.
const CODE: &str = "\
#include <stdio.h>
static inline int twice(int x) { return 2 * x; }
__attribute__((noinline)) int work(int n)
{
\tint sum = 0;
\tfor (int i = 0; i < n; i++) {
\t\tif (i % 3 == 0)
\t\t\tsum += twice(i); /* </script><img src=x onerror=\"everypath.evil=1\"> */
\t\telse
\t\t\tputchar('0' + i % 10);
\t}
\treturn sum;
}
int main(void) { printf(\"%d\\n\", work(100)); return 0; }
";

/// Figures of other tools for the function `work` of `prog`: each instruction's place and
/// line (binutils), and its executions and those taken (`count --annotate`).
fn keep_oracle(folder: &Folder) {
    let tool = |name: &str, arguments: &[&str]| {
        let output = folder.run(name, arguments);
        assert!(output.status.success(), "{name}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let objdump = ["-d", "-M", "intel", "--disassemble=work", "prog"];
    let disassembly = tool("objdump", &objdump);
    let address = |line: &str| {
        let (address, _) = line.split_once(':')?;
        u64::from_str_radix(address.strip_prefix("  ")?.trim(), 16).ok()
    };
    let mut text = String::new();
    let mut executed = std::collections::HashMap::new();
    let counts = ["count", "-q", "--annotate", "work", "--report", "work.txt"];
    run(folder, &[&counts[..], &["--", "./prog"]].concat());
    for line in fs::read_to_string(folder.file("work.txt")).unwrap().lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let Some(at) = words.iter().position(|word| word.starts_with("0x")) {
            executed.insert(words[at].to_owned(), words[..at].join(" "));
        }
    }
    for at in disassembly.lines().filter_map(address) {
        let at = format!("{at:#x}");
        let place = tool("addr2line", &["-e", "prog", &at]);
        let place = place.trim().rsplit_once(':').unwrap().1;
        let place = place.split(' ').next().unwrap();
        let counts = executed.get(&at).map_or("", String::as_str);
        text.push_str(&format!("{at} {place} {counts}\n"));
    }
    fs::write(folder.file("report.txt"), text).unwrap();
    fs::write(folder.file("report.json"), "{}").unwrap();
}

#[test]
#[ignore = "wide: one page is opened in the browser by the gate"]
fn code_and_source_stand_beside_the_tree() {
    let folder = folder("code");
    folder.program(&["-g", "-O1"], "prog", CODE);
    keep_oracle(&folder);
    let record = ["contexts", "--k-inf", "-q", "-o", "run.evp", "--", "./prog"];
    run(&folder, &record);
    let page = ["report", "run.evp", "--html", "page.html"];
    run(&folder, &page);
    check(&folder, "code");
    // Little room, none, and a program that is another now, or gone.
    run(&folder, &[&page[..], &["--html-code", "0"]].concat());
    check(&folder, "withoutCode");
    folder.program(&["-g", "-O1"], "prog", &CODE.replace("% 3", "% 5"));
    run(&folder, &page);
    check(&folder, "changedCode");
    fs::remove_file(folder.file("prog")).unwrap();
    run(&folder, &page);
    check(&folder, "goneCode");
}

/// A recording from elsewhere names a file that is no source as one. It is read only
/// if a number is given.
#[test]
#[ignore = "wide: nine recordings are made; one page is opened in the browser by the gate"]
fn a_recording_does_not_choose_which_files_are_read() {
    let folder = folder("strangers");
    fs::write(folder.file("secret"), "SECRET\n".repeat(40)).unwrap();
    let secret = folder.file("secret").to_str().unwrap().to_owned();
    let page = ["report", "run.evp", "--html", "page.html"];
    for mode in [&["count"][..], &["contexts", "--mode", "intra", "-k", "1"]] {
        folder.program(&["-g", "-O1"], "prog", CODE);
        let record = ["-q", "-o", "run.evp", "--", "./prog"];
        run(&folder, &[mode, &record].concat());
        let bytes = fs::read(folder.file("run.evp")).unwrap();
        let mut recording = trace::read(bytes.as_slice()).unwrap();
        let process = &mut recording.processes[0];
        let files = process.functions.iter_mut().filter_map(|f| f.file.as_mut());
        let names = process.texts.iter_mut().chain(files);
        let sources = names.filter(|name| name.ends_with(".c") || name.ends_with(".h"));
        let named = sources.map(|name| name.clone_from(&secret)).count();
        assert!(named > 0);
        keep(&folder, &recording);
        // What the program's own file says is believed.
        run(&folder, &page);
        check(&folder, "ownSource");
        fs::remove_file(folder.file("prog")).unwrap();
        let output = everypath(&folder, &page);
        assert_eq!(output.status.code(), Some(0));
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            said,
            format!(
                "everypath: no module that ran and is here names '{secret}' as source, only the \
                 recording does; --html-code MB puts that into the page, too\n"
            )
        );
        check(&folder, "noSource");
        run(&folder, &[&page[..], &["--html-code", "8"]].concat());
        check(&folder, "namedSource");
    }
}

#[test]
#[ignore = "wide: one page is opened in the browser by the gate"]
fn code_of_basic_blocks_has_exact_counts() {
    let folder = folder("code-blocks");
    folder.program(&["-g", "-O1"], "prog", CODE);
    keep_oracle(&folder);
    for mode in ["intra", "inter"] {
        let record = [
            "contexts",
            "-k",
            "3",
            "-q",
            "--html",
            "page.html",
            "--mode",
            mode,
        ];
        run(&folder, &[&record[..], &["--", "./prog"]].concat());
        check(&folder, "blockCode");
    }
}

#[test]
#[ignore = "wide: one page is opened in the browser by the gate"]
fn a_page_shows_what_was_counted() {
    let folder = folder("counts");
    folder.program(&["-g", "-O1"], "prog", CODE);
    keep_oracle(&folder);
    let record = ["count", "-q", "-o", "run.evp", "--html", "run.html"];
    run(&folder, &[&record[..], &["--", "./prog"]].concat());
    run(&folder, &["report", "run.evp", "--html", "page.html"]);
    let pages = ["run.html", "page.html"].map(|name| fs::read(folder.file(name)).unwrap());
    assert!(
        pages[0] == pages[1],
        "made after the run and from the recording"
    );
    let json = run(&folder, &["report", "run.evp", "--format", "json"]);
    fs::write(folder.file("report.json"), json).unwrap();
    check(&folder, "counts");
    let evil = "./<img src=x onerror=\"everypath.evil=1\">";
    fs::copy(folder.file("prog"), folder.file(evil)).unwrap();
    run(&folder, &["count", "-q", "--html", "page.html", "--", evil]);
    check(&folder, "hostileCounts");
}

/// A program whose one indirect call goes to three functions, a third of the times each.
const DISPATCH: &str = r#"
__attribute__((noinline)) int one(int n) { return n + 1; }
__attribute__((noinline)) int two(int n) { return n * 2; }
__attribute__((noinline)) int three(int n) { return n ^ 3; }
int (*volatile table[3])(int) = {one, two, three};
__attribute__((noinline)) int dispatch(int rounds) {
    int sum = 0;
    for (int i = 0; i < rounds; i++)
        sum += table[i % 3](i);
    return sum & 7;
}
int main(void) { return dispatch(100); }
"#;

#[test]
fn a_page_shows_where_indirect_branches_went() {
    let folder = folder("count-targets");
    folder.program(&["-g", "-O1"], "prog", DISPATCH);
    let record = ["count", "-q", "-o", "run.evp", "--html", "page.html"];
    // It ends with another status.
    let words = [&record[..], &["--", "./prog"]].concat();
    let output = folder.run(BINARY, &words);
    assert!(folder.file("page.html").exists(), "{output:?}");
    check(&folder, "countTargets");
}

/// Inclusive costs of contexts of two callers are known if whole ones were recorded.
#[test]
fn folded_contexts_have_their_costs_with_callees() {
    let folder = folder("folded");
    compile(&folder, "tests/paper/prog1.c", "prog1");
    let record = ["contexts", "-q", "--k-inf", "-o", "run.evp", "--"];
    run(
        &folder,
        &[&record[..], &["sh", "-c", "./prog1; ./prog1 x"]].concat(),
    );
    let report = ["report", "run.evp", "-k", "2"];
    run(&folder, &[&report[..], &["--html", "page.html"]].concat());
    let json = ["--format", "json", "--forest", "both", "--join-threads"];
    let json = run(&folder, &[&report[..], &json].concat());
    fs::write(folder.file("report.json"), json).unwrap();
    check(&folder, "folded");
}

/// The recording is of two processes with two threads each, and the shell that started them.
#[test]
#[ignore = "wide: one page is opened in the browser by the gate"]
fn a_page_shows_what_each_thread_counted() {
    let folder = folder("count-threads");
    compile(&folder, "tests/paper/prog1.c", "prog1");
    let record = ["count", "-q", "-o", "run.evp", "--html", "page.html", "--"];
    run(
        &folder,
        &[&record[..], &["sh", "-c", "./prog1; ./prog1 x"]].concat(),
    );
    let report = ["report", "run.evp", "--format", "json", "--per-thread"];
    fs::write(folder.file("report.json"), run(&folder, &report)).unwrap();
    check(&folder, "countThreads");
}

/// Up to 2^53 - 1 executed instructions; what is beyond is refused, and the file stays.
#[test]
fn counts_beyond_what_a_page_counts_to_are_refused() {
    let folder = folder("large-counts");
    let kept = repository().join("crates/trace/tests/recordings/4-turns.evp");
    let kept = trace::read(fs::read(kept).unwrap().as_slice()).unwrap();
    let sum = kept.processes[0].threads[0].insns;
    let times = |factor: u64| {
        let mut recording = kept.clone();
        let thread = &mut recording.processes[0].threads[0];
        thread.insns *= factor;
        for slot in &mut thread.counts {
            slot.count *= factor;
        }
        keep(&folder, &recording);
        everypath(&folder, &["report", "run.evp", "--html", "page.html"])
    };
    let most = LARGEST / sum;
    assert_eq!(times(most).status.code(), Some(0));
    let page = fs::read(folder.file("page.html")).unwrap();
    check(&folder, "largeCounts");
    let refused = times(most + 1);
    assert_eq!(refused.status.code(), Some(125), "{refused:?}");
    let said = String::from_utf8(refused.stderr).unwrap();
    let limit = "page.html': 9,007,199,254,743,872 instructions: the page counts up to \
                 9007199254740991 (2^53 - 1); use --format json\n";
    assert_eq!((most + 1) * sum, 9_007_199_254_743_872);
    assert!(said.ends_with(limit), "{said}");
    assert_eq!(fs::read(folder.file("page.html")).unwrap(), page);
}

/// Two recordings of programs that differ, compared.
fn compare(folder: &Folder) {
    let files = ["diff", "before.evp", "after.evp"];
    let stdout = run(folder, &[&files[..], &["--html", "page.html"]].concat());
    assert_eq!(stdout, "");
    for (form, file) in [("json", "report.json"), ("folded", "report.txt")] {
        let text = run(folder, &[&files[..], &["--format", form]].concat());
        fs::write(folder.file(file), text).unwrap();
    }
}

const BEFORE: &str = "\
#include <stdio.h>
#include <stdlib.h>
static int leaf(int x) { return x + 1; }
static int dropped(int x) { return x * 2; }
static int work(int x) {
    int sum = leaf(x);
    sum += leaf(x) + dropped(x);
    return sum;
}
int main(void) {
    int sum = 0;
    for (int i = 0; i < 5; i++) sum += work(i);
    for (int i = 0; i < 40; i++) free(malloc(i));
    printf(\"%d\\n\", sum);
}
";

#[test]
#[ignore = "wide: one page is opened in the browser by the gate"]
fn a_page_shows_what_changed() {
    let folder = folder("changes");
    let after = BEFORE
        .replace(" + dropped(x)", "")
        .replace("static int dropped", "int dropped")
        .replace("i < 5", "i < 7")
        .replace("i < 40", "i < 33");
    let record = |options: &[&str]| {
        for name in ["before", "after"] {
            let (file, program) = (format!("{name}.evp"), format!("{name}/prog"));
            let run_it = ["-q", "-o", &file, "--", &program];
            run(&folder, &[&["contexts"], options, &run_it].concat());
        }
        compare(&folder);
    };
    for (name, source) in [("before", BEFORE), ("after", &after)] {
        fs::create_dir_all(folder.file(name)).unwrap();
        let program = format!("{name}/prog");
        folder.program(&["-g", "-O0", "-static-pie"], &program, source);
    }
    record(&["--k-inf"]);
    check(&folder, "changes");
    fs::copy(folder.file("after/prog"), folder.file("prog")).unwrap();
    keep_oracle(&folder);
    check(&folder, "codeOfTwo");
    let blocks = ["--mode", "intra", "--roll-loops", "--funcs"];
    record(&[&blocks[..], &["main,work,leaf,dropped"]].concat());
    check(&folder, "blockChanges");
    keep_oracle(&folder);
    check(&folder, "blockCode");
    let bare = ["--html", "page.html", "--html-code", "0"];
    run(
        &folder,
        &[&["diff", "before.evp", "after.evp"], &bare[..]].concat(),
    );
    check(&folder, "noCodeOfTwo");
}

#[test]
#[ignore = "wide: a page of a million contexts takes the browser ten seconds"]
fn a_million_contexts_compared() {
    let folder = folder("many");
    compile(&folder, "benches/programs/growth.c", "growth");
    for (file, count) in [("before.evp", "900000"), ("after.evp", "1000000")] {
        let options = ["contexts", "--cost", "calls", "--k-inf", "-q", "-o", file];
        run(
            &folder,
            &[&options[..], &["--", "./growth", count]].concat(),
        );
    }
    // Another number is another command.
    let files = ["diff", "before.evp", "after.evp", "--force"];
    run(&folder, &[&files[..], &["--html", "page.html"]].concat());
    check(&folder, "manyChanges");
}

#[test]
fn names_are_text_in_a_comparison_too() {
    let folder = folder("hostile-changes");
    for (file, calls) in [("before.evp", 2), ("after.evp", LARGEST - 1)] {
        fs::write(folder.file(file), sample::bytes(&recording(TAGS, calls))).unwrap();
    }
    compare(&folder);
    check(&folder, "hostileChanges");
    fs::write(
        folder.file("after.evp"),
        sample::bytes(&recording(TAGS, LARGEST)),
    )
    .unwrap();
    let page = fs::read(folder.file("page.html")).unwrap();
    let output = everypath(
        &folder,
        &["diff", "before.evp", "after.evp", "--html", "page.html"],
    );
    assert_eq!(output.status.code(), Some(125), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("the page counts up to 9007199254740991 (2^53 - 1)"),
        "{said}"
    );
    assert_eq!(fs::read(folder.file("page.html")).unwrap(), page);
}

#[test]
fn nothing_is_shown_as_nothing() {
    let folder = folder("nothing");
    let mut recording = recording(["main", "work"], 0);
    recording.processes[0].threads[0].nodes.truncate(1);
    keep(&folder, &recording);
    show(&folder);
    check(&folder, "nothing");
}

#[test]
fn what_cannot_be_shown_is_refused_and_leaves_the_file_alone() {
    let folder = folder("refused");
    let page = folder.file("page.html");
    fs::write(&page, "old").unwrap();
    let refused = |arguments: &[&str]| {
        let output = everypath(&folder, arguments);
        assert_eq!(output.status.code(), Some(125), "{output:?}");
        assert!(output.stdout.is_empty());
        String::from_utf8(output.stderr).unwrap()
    };
    keep(&folder, &recording(["main", "work"], LARGEST));
    let large = refused(&["report", "run.evp", "--html", "page.html"]);
    let limit = "page.html': 9,007,199,254,740,992 calls: the page counts up to \
                 9007199254740991 (2^53 - 1); use --format json\n";
    assert!(large.ends_with(limit), "{large}");
    assert_eq!(fs::read(&page).unwrap(), b"old");
    assert_eq!(
        refused(&["report", "run.evp", "--html", "no/page.html"]),
        "everypath: cannot write 'no/page.html': no such file or directory\n"
    );
    let mut run = recording(["main", "work"], 1);
    run.meta.mode = Mode::Run;
    keep(&folder, &run);
    assert_eq!(
        refused(&["report", "run.evp", "--html", "page.html"]),
        "everypath: 'run.evp': a page shows what `contexts` or `count` recorded\n"
    );
    let both = refused(&[
        "report",
        "run.evp",
        "--html",
        "page.html",
        "--format",
        "json",
    ]);
    assert!(both.contains("cannot be used with"), "{both}");
    let late = refused(&["contexts", "--html", "no/page.html", "--", "true"]);
    assert!(
        late.ends_with("no such file or directory; nothing was run\n"),
        "{late}"
    );
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}
