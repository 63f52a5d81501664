//! `cargo xtask wide`: everything the tests know, in parts.
//!
//! Problem: all modes of all programs, all oracles and all real programs take hours, and some of
//! their programs depend on how busy the machine is. They have to be run before work on the target
//! side is called done, and must not stand before every commit.
//!
//! Approach: each part has a ledger of its own, below `target/wide/COMMIT`. A job that passed is not
//! run again on the same commit, so a run that was broken off goes on where it was, and one whose
//! jobs failed runs only those (`--afresh` runs all). A failure stops nothing. After each part the
//! section of this commit in `benches/wide.md` is written anew: what was compared, and of each job
//! that ever failed how often.
//!
//! The product is the release build; the tests themselves are built as for the gate.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::bench::target_directory;
use crate::harness;
use crate::install;
use crate::ledger::{self, Entry, Ledger, State};
use crate::tree::Tree;

#[derive(clap::Args)]
pub struct Options {
    /// The parts to run; without names all of them.
    #[arg(value_parser = PARTS)]
    parts: Vec<String>,
    /// Seed of the parts that make random programs.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Busy threads beside the tests.
    #[arg(long, default_value_t = 0)]
    load: u32,
    /// How often each part is run.
    #[arg(long, default_value_t = 1)]
    rounds: u32,
    /// Run the jobs, too, that passed on this commit before.
    #[arg(long)]
    afresh: bool,
}

/// Parts of `testkit`'s program of that name, then the ordinary test functions (also those that the
/// gate ignores), random programs, and kills.
const PARTS: [&str; 12] = [
    "programs",
    "segments",
    "instances",
    "accesses",
    "sweep",
    "lockstep",
    "contexts",
    "counts",
    "real",
    "tests",
    "soak",
    "kills",
];

/// Random programs of a run, and kills.
const SOAKED: u64 = 200;
const KILLS: u64 = 100;

const REPORT: &str = "benches/wide.md";

pub fn run(tree: &Tree, options: &Options) -> Result<()> {
    let commit = tree
        .git(&["rev-parse", "--short", "HEAD"])?
        .trim()
        .to_owned();
    // The report itself is no change: a run that goes on would have another name.
    let report = format!(":!{REPORT}");
    let status = [
        "status",
        "--porcelain",
        "--untracked-files=no",
        ".",
        &report,
    ];
    let is_clean = tree.git(&status)?.is_empty();
    let name = match is_clean {
        true => commit,
        false => format!("{commit}+changes"),
    };
    let wide = Wide {
        tree,
        options,
        name,
    };
    install::run(tree, true)?;
    tree.cargo(["build", "--release", "--locked", "--package", "cli"])?;
    let programs = harness::build(tree, &[])?;
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..options.load {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let result = wide.rounds(&programs);
        done.store(true, Ordering::Relaxed);
        result
    })
}

struct Wide<'a> {
    tree: &'a Tree,
    options: &'a Options,
    /// Commit, and whether the working tree differs from it.
    name: String,
}

impl Wide<'_> {
    fn rounds(&self, programs: &[harness::Program]) -> Result<()> {
        let mut failed = Vec::new();
        for round in 0..self.options.rounds {
            for part in PARTS.iter().filter(|part| self.is_wanted(part)) {
                eprintln!("== {part}, round {}", round + 1);
                let resume = round == 0 && !self.options.afresh;
                // A part that cannot be run is a failure of that part only.
                let result = self.part(part, programs, resume);
                if let Err(error) = &result {
                    eprintln!("== {part}: {error:#}");
                }
                if !result.unwrap_or(false) && !failed.contains(part) {
                    failed.push(part);
                }
                self.publish()?;
            }
        }
        println!("{}", self.section()?);
        match failed.is_empty() {
            true => Ok(()),
            false => bail!("failed parts: {failed:?}; {REPORT} has the jobs"),
        }
    }

    fn is_wanted(&self, part: &str) -> bool {
        self.options.parts.is_empty() || self.options.parts.iter().any(|wanted| wanted == part)
    }

    fn ledger(&self, part: &str) -> Result<Ledger> {
        let folder = self.tree.root.join("target/wide").join(&self.name);
        Ledger::at(folder.join(format!("{part}.tsv")))
    }

    /// Runs a part; whether it passed.
    fn part(&self, part: &str, programs: &[harness::Program], resume: bool) -> Result<bool> {
        let ledger = self.ledger(part)?;
        let seed = self.options.seed;
        match part {
            "soak" => self.example(
                &ledger,
                part,
                &[format!("--programs={SOAKED}"), format!("--seed={seed}")],
            ),
            "kills" => self.example(
                &ledger,
                part,
                &[format!("--rounds={KILLS}"), format!("--seed={seed}")],
            ),
            _ => {
                let is_functions = part == "tests";
                let options = harness::Options {
                    scope: "wide",
                    ledger: &ledger,
                    product: Some(target_directory(self.tree).join("release/everypath")),
                    allow_missing: false,
                    resume,
                    seed: Some(seed),
                    words: if is_functions {
                        Vec::new()
                    } else {
                        vec![part.to_owned()]
                    },
                };
                let mut passed = true;
                for program in programs.iter().filter(|it| it.is_parts() != is_functions) {
                    passed &= program.run(&options)?.failed == 0;
                }
                Ok(passed)
            }
        }
    }

    /// Runs an example of `testkit` that looks for differences by itself.
    fn example(&self, ledger: &Ledger, name: &str, words: &[String]) -> Result<bool> {
        let start = Instant::now();
        let head = "run --quiet --release --package testkit --example".split(' ');
        let mut all: Vec<String> = head.map(str::to_owned).collect();
        all.extend([name.to_owned(), "--".to_owned()]);
        all.extend(words.iter().cloned());
        let result = self.tree.cargo(all);
        if let Err(error) = &result {
            eprintln!("{error:#}");
        }
        ledger.note(&Entry {
            state: if result.is_ok() {
                State::Passed
            } else {
                State::Failed
            },
            kind: name.to_owned(),
            name: words.join(" "),
            comparisons: 1,
            millis: start.elapsed().as_millis() as u64,
        })?;
        Ok(result.is_ok())
    }

    /// The table of this commit.
    fn section(&self) -> Result<String> {
        let date = self.tree.git(&["log", "-1", "--format=%cs"])?;
        let mut text = format!(
            "## {} ({})\n\n| compared | agree | differ | missing | minutes |\n|---|---|---|---|---|\n",
            self.name,
            date.trim()
        );
        let mut often: BTreeMap<(String, String), (u32, u32)> = BTreeMap::new();
        for part in PARTS {
            let entries = self.ledger(part)?.entries()?;
            for (kind, sum) in ledger::sums(&entries) {
                text += &format!(
                    "| {kind} | {} | {} | {} | {:.1} |\n",
                    sum.passed,
                    sum.failed,
                    sum.missing,
                    sum.millis as f64 / 60_000.0
                );
            }
            for entry in entries {
                let runs = often.entry((entry.kind, entry.name)).or_default();
                runs.1 += 1;
                runs.0 += u32::from(entry.state == State::Failed);
            }
        }
        text.push('\n');
        let failed = often.iter().filter(|(_, (failed, _))| *failed > 0);
        let lines: Vec<String> = failed
            .map(|((kind, name), (failed, runs))| {
                format!("- {kind}: `{name}` failed {failed} of {runs} times\n")
            })
            .collect();
        text += &match lines.is_empty() {
            true => "Nothing differed.\n".to_owned(),
            false => lines.concat(),
        };
        Ok(text)
    }

    /// Writes the section of this commit into the report, before those of older ones.
    fn publish(&self) -> Result<()> {
        let path = self.tree.root.join(REPORT);
        let old = std::fs::read_to_string(&path).unwrap_or_default();
        let text = with_section(&old, &self.section()?, &self.name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {REPORT}"))
    }
}

const HEAD: &str = "# Runs of `cargo xtask wide`\n\n\
    Everything that the tests compare, newest commit first. A job that failed and passed when it was \
    run again counts as agreeing above and is listed below with how often it failed. Minutes are the \
    sum over jobs, of which two run at a time.\n";

/// `old` with `section` in place of the one of `name`, or first.
fn with_section(old: &str, section: &str, name: &str) -> String {
    let sections = old.split("\n## ").skip(1);
    let others = sections.filter(|other| !other.starts_with(&format!("{name} (")));
    let mut text = format!("{HEAD}\n{section}");
    for other in others {
        text += &format!("\n## {}\n", other.trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_section_is_replaced_and_others_stay() {
        let first = super::with_section("", "## a (2026)\n\nold\n", "a");
        let second = super::with_section(&first, "## b (2026)\n\nbody\n", "b");
        let third = super::with_section(&second, "## a (2026)\n\nnew\n", "a");
        assert!(!third.contains("old") && third.contains("new") && third.contains("body"));
        assert!(third.find("## a") < third.find("## b"));
    }
}
