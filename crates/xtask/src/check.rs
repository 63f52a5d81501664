//! `cargo xtask check`: what an edit may have broken, in a minute or two.
//!
//! Problem: the gate takes a quarter of an hour, which is too long after every edit.
//!
//! Approach: format and house rules of the whole tree; clippy and the tests of the crates with a
//! change, and of the crates that use those; and a smoke of twelve target programs in five modes if
//! the product may have changed. What is left out is named at the end.
//!
//! A change is a difference between the working tree and a commit: `--since`, by default the newest
//! that is more than three hours old, so that a session's own commits are covered too.

use std::collections::BTreeSet;

use anyhow::{Result, bail};

use crate::ci::{HOUSE, step};
use crate::harness;
use crate::ledger::Ledger;
use crate::metadata::{self, Package};
use crate::tree::Tree;

#[derive(clap::Args)]
pub struct Options {
    /// The commit to compare the working tree with.
    #[arg(long)]
    since: Option<String>,
}

/// Crates of the target, which reach the host only as the bytes that `launch` embeds.
const OF_THE_TARGET: [&str; 7] = ["agent", "dbt", "forest", "isa", "payload", "sys", "wire"];

/// Crates of edited programs, which reach the host only as the bytes that `rewrite` embeds.
const OF_EDITED_PROGRAMS: [&str; 3] = ["resident", "sys", "wire"];

/// Freestanding programs, which are no members of the workspace.
const FREESTANDING: [&str; 2] = ["payload", "resident"];

/// Modules of the integration tests of `cli` that take a second or more: the gate runs them.
const LEFT_TO_THE_GATE: &[&str] = &[
    "alone::",
    "blocks::",
    "bolt::",
    "consumers::",
    "coverage::",
    "ctl::",
    "denied::",
    "descriptors::",
    "diff::",
    "html::",
    "jobs::",
    "kept::",
    "laid_anew::",
    "llvm::",
    "lost::",
    "made::",
    "order::",
    "perfetto::",
    "pt::",
    "python::",
    "raptor::",
    "raptor_live::",
    "sources::",
    "thesis::",
    "timelines::",
    "traces::",
];

pub fn run(tree: &Tree, options: &Options) -> Result<()> {
    step("fmt", || tree.cargo(["fmt", "--all", "--check"]))?;
    for (name, check) in HOUSE {
        crate::report(name, check(tree)?)?;
    }
    let since = match &options.since {
        Some(since) => since.clone(),
        None => tree.git(&["log", "-1", "--format=%H", "--before=3 hours ago"])?,
    };
    let files = changed(tree, since.trim())?;
    let packages = metadata::packages(tree)?;
    let all: Vec<&str> = packages.iter().map(|package| &*package.name).collect();
    let changed = crates(&files, &all);
    let touched = with_users(&changed, &packages);
    let members: Vec<String> = touched
        .iter()
        .filter(|name| !FREESTANDING.contains(name))
        .map(|name| (*name).to_owned())
        .collect();
    eprintln!(
        "check: since {}: {} files in {}; with the crates that use them: {}",
        since.trim(),
        files.len(),
        words(&changed),
        words(&touched)
    );
    if !members.is_empty() {
        let selected = members.iter().flat_map(|name| ["--package", name]);
        let clippy = ["clippy", "--all-targets", "--locked"]
            .into_iter()
            .chain(selected);
        let clippy: Vec<&str> = clippy.chain(["--", "-D", "warnings"]).collect();
        step("clippy", || tree.cargo(clippy))?;
    }
    let has_target_files = files.iter().any(|file| file.starts_with("tests/programs/"));
    let smoke = touched.contains("cli") || touched.contains("testkit") || has_target_files;
    test(tree, members, smoke)?;
    let tested = match touched.is_empty() {
        true => "tests of all crates".to_owned(),
        false => {
            let others = all.iter().copied().filter(|name| !touched.contains(name));
            format!("tests of {}", words(&others.collect()))
        }
    };
    eprintln!(
        "check: passed; left to `cargo xtask ci`: {tested}; of cli: {}; of testkit: all but a smoke of \
         twelve programs in five modes{}",
        LEFT_TO_THE_GATE.join(" "),
        if smoke {
            ""
        } else {
            ", which is left out, too"
        }
    );
    Ok(())
}

/// Builds and runs the tests of the crates `members`, and the smoke.
fn test(tree: &Tree, mut members: Vec<String>, smoke: bool) -> Result<()> {
    if smoke {
        // Its product, and the program that runs the parts.
        members.extend(["cli", "testkit"].map(str::to_owned));
        members.sort();
        members.dedup();
    }
    if members.is_empty() {
        return Ok(());
    }
    let programs = step("build", || harness::build(tree, &members))?;
    let ledger = Ledger::new(tree.root.join("target/check.tsv"))?;
    let mut failed = Vec::new();
    for program in programs.iter().filter(|program| is_run(program, smoke)) {
        let skipped = LEFT_TO_THE_GATE
            .iter()
            .flat_map(|module| ["--skip", module]);
        let words: Vec<&str> = match (program.is_parts(), program.is_unit()) {
            (true, _) => vec!["programs"],
            (false, true) => Vec::new(),
            (false, false) if program.package == "cli" => skipped.collect(),
            (false, false) => Vec::new(),
        };
        let options = harness::Options {
            scope: "check",
            ledger: &ledger,
            product: None,
            allow_missing: true,
            resume: false,
            seed: None,
            words: words.into_iter().map(str::to_owned).collect(),
        };
        if program.run(&options)?.failed > 0 {
            failed.push(program.name());
        }
    }
    match failed.is_empty() {
        true => Ok(()),
        false => bail!("failed: {}", failed.join("; ")),
    }
}

/// Whether a test program is run: of testkit only its unit tests and the smoke are.
fn is_run(program: &harness::Program, smoke: bool) -> bool {
    match program.package.as_str() {
        "testkit" if program.is_parts() => smoke,
        "testkit" => program.is_unit(),
        _ => true,
    }
}

fn words(names: &BTreeSet<&str>) -> String {
    let names: Vec<&str> = names.iter().copied().collect();
    match names.is_empty() {
        true => "no crate".to_owned(),
        false => names.join(", "),
    }
}

/// Files of the tree that differ from `since`, and new ones.
fn changed(tree: &Tree, since: &str) -> Result<Vec<String>> {
    let mut files = tree.git(&["diff", "--name-only", since])?;
    files += &tree.git(&["ls-files", "--others", "--exclude-standard"])?;
    Ok(files.lines().map(str::to_owned).collect())
}

/// The crates that `files` are of. The manifest of the workspace is of every crate.
fn crates<'a>(files: &[String], all: &[&'a str]) -> BTreeSet<&'a str> {
    let is_of_all = |file: &String| {
        matches!(
            &**file,
            "Cargo.toml" | "Cargo.lock" | "crates/freestanding.rs"
        )
    };
    if files.iter().any(is_of_all) {
        return all.iter().copied().collect();
    }
    let of = |file: &String| {
        let name = file.strip_prefix("crates/")?.split('/').next()?;
        all.iter().copied().find(|known| *known == name)
    };
    files.iter().filter_map(of).collect()
}

/// `changed` and the crates that use them, directly or by others; `launch` uses the target's, `rewrite` those of
/// edited programs.
fn with_users<'a>(changed: &BTreeSet<&'a str>, packages: &'a [Package]) -> BTreeSet<&'a str> {
    let mut all = changed.clone();
    if changed.iter().any(|name| OF_THE_TARGET.contains(name)) {
        all.insert("launch");
    }
    if changed.iter().any(|name| OF_EDITED_PROGRAMS.contains(name)) {
        all.insert("rewrite");
    }
    loop {
        let users: Vec<&str> = packages
            .iter()
            .filter(|package| {
                let mut used = package.dependencies.iter().filter(|used| !used.is_dev());
                used.any(|used| all.contains(&*used.name))
            })
            .map(|package| &*package.name)
            .collect();
        let before = all.len();
        all.extend(users);
        if all.len() == before {
            return all;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_of_the_crate_whose_folder_they_are_in() {
        let files = ["crates/dbt/src/a.rs", "docs/b.md", "crates/gone/c.rs"].map(str::to_owned);
        assert!(crates(&files, &["cli", "dbt"]).iter().eq(&["dbt"]));
        let lock = ["Cargo.lock".to_owned()];
        assert_eq!(crates(&lock, &["cli", "dbt"]).len(), 2);
    }
}
