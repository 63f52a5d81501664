//! Very many contexts: each one is there, and where there is no room for more,
//! no call is lost. How time and memory grow is measured by `cargo xtask growth`.

use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;

use testkit::build::{self, Built};
use testkit::product::Run;
use testkit::{mode, program};

/// Functions of the program that the C library's start calls, and `main`.
const START: u64 = 30;

/// Built once: a program that another test replaces while it starts is not the
/// module that was asked for.
static BUILT: LazyLock<Built> = LazyLock::new(|| {
    let directory =
        build::cache_directory().join(format!("growth-of-contexts-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("the build directory is writable");
    let executable = directory.join("growth");
    let source = program::repository().join("benches/programs/growth.c");
    let mut compiler = Command::new("cc");
    compiler.arg("-O1").arg("-o").arg(&executable).arg(source);
    assert!(compiler.status().expect("cc is installed").success());
    Built {
        directory,
        executable,
    }
});

fn product() -> PathBuf {
    mode::product(&program::repository()).unwrap_or_else(|error| panic!("{error}"))
}

/// The report on a tree of `contexts` with further `options`.
fn report(contexts: u64, options: &[&str]) -> String {
    let product = product();
    let args = [contexts.to_string()];
    let run = Run {
        product: &product,
        built: &BUILT,
        args: &args,
        stdin: "",
    };
    let mut words = vec!["contexts", "--modules", "growth"];
    words.extend(options);
    run.report(&words).unwrap_or_else(|error| panic!("{error}"))
}

/// The number before `what` in a report.
fn number(report: &str, what: &str) -> u64 {
    let words: Vec<&str> = report.split_whitespace().collect();
    let found = words
        .windows(2)
        .find(|pair| pair[1].trim_end_matches(',') == what);
    found
        .and_then(|pair| pair[0].replace(',', "").parse().ok())
        .unwrap_or_else(|| panic!("no number of {what} in\n{report}"))
}

#[test]
fn every_one_of_two_million_contexts_is_there() {
    const CONTEXTS: u64 = 2_000_000;
    let report = report(CONTEXTS, &["--k-inf", "--top", "5"]);
    let (contexts, calls) = (number(&report, "contexts"), number(&report, "calls"));
    assert_eq!(contexts, calls, "each context is entered once");
    assert!(
        (CONTEXTS + 1..CONTEXTS + START).contains(&calls),
        "{report}"
    );
}

#[test]
fn beyond_the_limit_of_nodes_totals_are_exact() {
    const CONTEXTS: u64 = 50_000;
    let whole = number(&report(CONTEXTS, &["--k-inf", "--top", "1"]), "calls");
    for height in [&["--k-inf"][..], &["-k", "1"], &["-k", "3"]] {
        for limit in ["5", "100", "20000"] {
            let mut options = vec!["--max-nodes", limit, "--forest", "ksf", "--top", "100000"];
            options.extend(height);
            let report = report(CONTEXTS, &options);
            assert_eq!(number(&report, "calls"), whole, "{options:?}");
            let few = height == ["-k", "1"] && limit == "100";
            let marked = report.contains("[truncated]");
            assert!(marked || few || limit == "20000", "{options:?}:\n{report}");
        }
    }
}

#[test]
fn nodes_beyond_the_limit_are_one_node_of_the_forest() {
    let product = product();
    let args = ["1000".to_owned()];
    let run = Run {
        product: &product,
        built: &BUILT,
        args: &args,
        stdin: "",
    };
    let options = "--k-inf --forest ksf --modules growth --max-nodes 100";
    let options: Vec<String> = options.split(' ').map(str::to_owned).collect();
    let tree = run
        .joined(&options)
        .unwrap_or_else(|error| panic!("{error}"));
    let truncated: Vec<u64> = tree
        .rows()
        .into_iter()
        .filter(|row| row.1 == "[truncated]")
        .map(|row| row.2)
        .collect();
    assert_eq!(truncated.len(), 1);
    // The root and the truncated node are not of the hundred.
    assert!(tree.len() <= 102, "{} nodes", tree.len());
    let total: u64 = tree.rows().iter().map(|row| row.2).sum();
    assert!((1001..1000 + START).contains(&total), "{total} calls");
}
