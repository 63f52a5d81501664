//! `-k 0`: everything is counted without its callers (IHPP, figures 3.2 and 3.4), live and
//! in reports of what was recorded with other k. (Against the oracle: `testkit`.)

use std::fs;

use testkit::folder::Folder;

use crate::BINARY;

/// The calls of figure 3.1.
const PROGRAM: &str = r#"
__attribute__((noinline)) static void b(void) { __asm__ volatile(""); }
__attribute__((noinline)) static void c(int);
__attribute__((noinline)) static void a(int more) {
    b();
    if (more == 1)
        c(0);
    if (more == 2)
        b();
}
__attribute__((noinline)) static void c(int more) {
    if (more)
        a(2);
    __asm__ volatile("");
}
int main(void) {
    a(1);
    c(1);
    return 0;
}
"#;

/// The last two make k infinite, where `-k` folds.
const FUNCTIONS: [&[&str]; 4] = [
    &["-k", "0"],
    &["-k", "2"],
    &["--k-inf"],
    &["-k", "3", "--inclusive"],
];

const BLOCKS: [&[&str]; 4] = [
    &["-k", "0"],
    &["-k", "3"],
    &["-k", "3", "--slabs"],
    &["--roll-loops"],
];

fn program(name: &str) -> Folder {
    let folder = Folder::new(&format!("alone-{name}"));
    folder.program(&["-g", "-O1"], "prog", PROGRAM);
    folder
}

fn record(folder: &Folder, file: &str, options: &[&str]) {
    let words = [&["contexts", "-q", "-o", file], options, &["--", "./prog"]].concat();
    let output = folder.run(BINARY, &words);
    assert!(output.status.success(), "{options:?}: {output:?}");
}

fn report(folder: &Folder, file: &str, options: &[&str]) -> String {
    let output = folder.run(BINARY, &[&["report", file], options].concat());
    assert!(output.status.success(), "{options:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The nodes of a report in the paper's layout, sorted.
fn nodes(report: &str) -> Vec<&str> {
    let mut nodes: Vec<&str> = report
        .lines()
        .filter(|line| line.starts_with('|'))
        .collect();
    nodes.sort_unstable();
    nodes
}

#[test]
fn functions_are_counted_as_in_the_figures() {
    let folder = program("figures");
    let figure = [
        "| __root__(),1",
        "| a(),2",
        "| b(),3",
        "| c(),2",
        "| main(),1",
    ];
    let funcs = ["--funcs", "main,a,b,c"];
    for options in FUNCTIONS {
        record(&folder, "run.evp", &[options, &funcs].concat());
        for forest in ["ksf", "kccf"] {
            let shown = ["-k", "0", "--format", "text", "--forest", forest];
            let report = report(&folder, "run.evp", &shown);
            assert_eq!(nodes(&report), figure, "{options:?} {forest}");
            assert!(report.starts_with("K value: 0\n"), "{report}");
        }
    }
}

#[test]
fn blocks_are_counted_as_with_any_k() {
    let folder = program("blocks");
    for mode in ["intra", "inter"] {
        let mut all: Vec<Vec<String>> = Vec::new();
        for options in BLOCKS {
            let words = [options, &["--mode", mode, "--funcs", "main,a,b,c"]].concat();
            record(&folder, "run.evp", &words);
            let shown = ["-k", "0", "--format", "text", "--forest", "both"];
            let report = report(&folder, "run.evp", &shown);
            let nodes = nodes(&report).into_iter().map(str::to_owned);
            all.push(nodes.filter(|node| node.starts_with("| {")).collect());
        }
        assert!(all[0].len() > 8, "{all:?}");
        for other in &all[1..] {
            assert_eq!(*other, all[0], "{mode}");
        }
    }
}

/// A form either shows everything by itself or tells what it does not know.
#[test]
fn every_form_has_it() {
    let folder = program("forms");
    record(&folder, "run.evp", &["-k", "0", "--modules", "prog"]);
    let a = |format: &str| {
        let report = report(&folder, "run.evp", &["--format", format]);
        let lines = report.lines().filter(|line| line.contains('a'));
        lines.map(str::to_owned).collect::<Vec<_>>().join("\n")
    };
    let text = report(&folder, "run.evp", &["--by", "instructions"]);
    assert!(text.contains(" contexts (k = 0), "), "{text}");
    assert!(!text.contains("with callees"), "{text}");
    let callgrind = report(&folder, "run.evp", &["--format", "callgrind"]);
    assert!(callgrind.contains(" a\n"), "{callgrind}");
    assert!(!callgrind.contains("calls="), "{callgrind}");
    assert!(a("json").contains("\"k\":0,"));
    assert!(a("xml").contains("<k>0</k>") || a("xml").contains("<name>a</name>"));
    for line in a("folded").lines().filter(|line| line.contains(";main ")) {
        assert_eq!(line.split(';').count(), 2, "{line}");
    }
    for format in ["flamegraph", "speedscope", "firefox", "csv", "pprof"] {
        let output = folder.run(BINARY, &["report", "run.evp", "--format", format]);
        assert!(
            output.status.success() && !output.stdout.is_empty(),
            "{format}"
        );
    }
    let words = ["report", "run.evp", "--html", "run.html"];
    assert!(folder.run(BINARY, &words).status.success());
    let page = fs::read_to_string(folder.file("run.html")).unwrap();
    assert!(!page.contains("callers beyond k = 0"));
}

#[test]
fn comparisons_are_of_functions() {
    let folder = program("diff");
    record(&folder, "old.evp", &["-k", "0", "--funcs", "a,b,c"]);
    record(
        &folder,
        "new.evp",
        &["-k", "0", "--unroll-recursion", "--funcs", "a,b,c"],
    );
    record(&folder, "two.evp", &["-k", "2", "--funcs", "a,b,c"]);
    let output = folder.run(
        BINARY,
        &["diff", "old.evp", "new.evp", "--fail-if", "b:calls>+0"],
    );
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let output = folder.run(BINARY, &["diff", "old.evp", "two.evp"]);
    assert_eq!(output.status.code(), Some(125), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("k is 0 before and 2 after"), "{said}");
}

/// The tree of listing 4.2: no root stands for what libraries call.
#[test]
fn functions_of_the_main_image_have_no_root() {
    let folder = program("main-image");
    let with_root =
        "| main(),1 |   a(),1 |     b(),1 |     c(),1 |   c(),1 |     a(),1 |       b(),2";
    for (words, file) in [(vec!["./prog"], "./prog"), (vec!["./script"], "./script")] {
        let script = "#!./prog\n";
        fs::write(folder.file("script"), script).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(folder.file("script"), mode).unwrap();
        let record = [
            "contexts",
            "-q",
            "-o",
            "run.evp",
            "--k-inf",
            "--main-image-only",
            "--",
        ];
        let output = folder.run(BINARY, &[&record[..], &words].concat());
        assert!(output.status.success(), "{file}: {output:?}");
        let text = report(&folder, "run.evp", &["--format", "text"]);
        assert!(!text.contains("__root__"), "{text}");
        let main = text.lines().skip_while(|line| !line.ends_with(" main(),1"));
        let depth = main.clone().next().unwrap().find('m').unwrap() - 2;
        let tree: Vec<String> = main
            .take(7)
            .map(|line| format!("| {}", &line[2 + depth..]))
            .collect();
        assert_eq!(tree.join(" "), with_root, "{text}");
        let shown = report(&folder, "run.evp", &[]);
        let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            shown.contains("to no context: other files' code, "),
            "{shown}"
        );
    }
    let words = [
        "contexts",
        "--main-image-only",
        "--funcs",
        "a",
        "--",
        "./prog",
    ];
    assert_eq!(folder.run(BINARY, &words).status.code(), Some(125));
    record(&folder, "old.evp", &["--modules", "prog"]);
    record(&folder, "new.evp", &["--main-image-only"]);
    let output = folder.run(BINARY, &["diff", "old.evp", "new.evp"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("--main-image-only yes"), "{said}");
}

/// Whole paths say what functions cost with all that they called.
#[test]
fn inclusive_costs_need_no_callers() {
    let folder = program("inclusive");
    record(
        &folder,
        "run.evp",
        &["-k", "0", "--inclusive", "--funcs", "main,a,b,c"],
    );
    let csv = report(&folder, "run.evp", &["-k", "0", "--format", "csv"]);
    let column = |name: &str| {
        let head = csv.lines().next().unwrap().split(',');
        head.clone().position(|field| field == name).unwrap()
    };
    let main = csv.lines().find(|line| line.ends_with(",main")).unwrap();
    let fields: Vec<&str> = main.split(',').collect();
    // a, b, c, a, b, b, and main itself.
    assert_eq!(fields[column("inclusive_calls")], "8", "{csv}");
}
