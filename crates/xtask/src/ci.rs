//! The whole of continuous integration, as a table of steps.

use std::time::Instant;

use anyhow::Result;

use crate::tree::Tree;
use crate::{layers, links, sizes, unsafety};

/// What one step does.
enum Step {
    /// A cargo command.
    Cargo(&'static [&'static str]),
    /// A script of the tree that installs what tests ask, if it is missing.
    Install(&'static str),
    /// A check of this crate.
    Check(fn(&Tree) -> Result<Vec<String>>),
}

/// Cheap steps first, so that a slip is said within seconds.
const STEPS: &[(&str, Step)] = &[
    ("fmt", Step::Cargo(&["fmt", "--all", "--check"])),
    ("layers", Step::Check(layers::check)),
    ("sizes", Step::Check(sizes::check)),
    ("unsafety", Step::Check(unsafety::check)),
    ("links", Step::Check(links::check)),
    (
        "clippy",
        Step::Cargo(&[
            "clippy",
            "--workspace",
            "--all-targets",
            "--locked",
            "--",
            "-D",
            "warnings",
        ]),
    ),
    ("install", Step::Install("tests/consumers/install")),
    // Tests run the built program and the module for Python, so they are built first.
    (
        "build",
        Step::Cargo(&[
            "build",
            "--release",
            "--locked",
            "--package",
            "cli",
            "--package",
            "python",
        ]),
    ),
    ("test", Step::Cargo(&["test", "--workspace", "--locked"])),
];

pub fn run(tree: &Tree) -> Result<()> {
    for (name, step) in STEPS {
        eprintln!("== {name}");
        let start = Instant::now();
        match step {
            Step::Cargo(arguments) => tree.cargo(*arguments)?,
            Step::Install(script) => tree.script(script)?,
            Step::Check(check) => crate::report(name, check(tree)?)?,
        }
        eprintln!("== {name}: {:.1} s", start.elapsed().as_secs_f64());
    }
    eprintln!("== all {} steps passed", STEPS.len());
    Ok(())
}
