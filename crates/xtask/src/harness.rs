//! Building the test programs of the tree and running them one by one, with the time of each test.
//!
//! `cargo test` runs every program of a crate in one go, says nothing of times, and cannot be told
//! per program what to leave out. So cargo only builds (`--no-run`) and lists the programs, and they
//! are started here, in the folder of their crate as cargo does it.
//!
//! Programs of the ordinary harness say how long each test took with `--report-time`, which its
//! stable version gives out only if `RUSTC_BOOTSTRAP` is set while it runs. The program of the parts
//! (`testkit`'s `parts`) writes its jobs into the ledger itself.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::ledger::{Entry, Ledger, State};
use crate::needs;
use crate::tree::Tree;

/// A test program that cargo built.
pub struct Program {
    pub package: String,
    /// Name of the target: the library or binary itself, or a folder of `tests/`.
    target: String,
    is_unit: bool,
    path: PathBuf,
    /// Folder of the crate.
    folder: PathBuf,
}

/// How the programs are run.
pub struct Options<'a> {
    /// Value of `EVERYPATH_SCOPE`.
    pub scope: &'static str,
    pub ledger: &'a Ledger,
    /// Another product than that of the build.
    pub product: Option<PathBuf>,
    /// Whether a test may be left out because this machine lacks what it needs.
    pub allow_missing: bool,
    /// Whether jobs that passed before are left out.
    pub resume: bool,
    /// Seed of random programs and instructions; `None`: the tests' own.
    pub seed: Option<u64>,
    /// Further words for the program.
    pub words: Vec<String>,
}

#[derive(Deserialize)]
struct Message {
    reason: String,
    executable: Option<PathBuf>,
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
    profile: Option<Profile>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// Builds the test programs of `packages` (of all crates, if there are none), and what they start.
///
/// All targets are built at once, Python's module among them: a build of its own has other features of the crates below, and
/// makes all of them a second time.
pub fn build(tree: &Tree, packages: &[String]) -> Result<Vec<Program>> {
    let mut cargo = tree.command("cargo");
    cargo.args([
        "build",
        "--locked",
        "--all-targets",
        "--message-format=json-render-diagnostics",
    ]);
    match packages.is_empty() {
        true => drop(cargo.arg("--workspace")),
        false => drop(cargo.args(packages.iter().flat_map(|name| ["--package", name]))),
    }
    let output = cargo.stderr(Stdio::inherit()).output();
    let output = output.context("cannot run cargo build")?;
    if !output.status.success() {
        bail!("cargo build --all-targets: {}", output.status);
    }
    let mut programs = Vec::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let message: Message = serde_json::from_str(line)
            .with_context(|| format!("cargo printed something unexpected: {line}"))?;
        if message.reason != "compiler-artifact" {
            continue;
        }
        let (Some(path), Some(manifest), Some(target), Some(Profile { test: true })) = (
            message.executable,
            message.manifest_path,
            message.target,
            message.profile,
        ) else {
            continue;
        };
        let folder = manifest.parent().context("a manifest is in a folder")?;
        let package = folder.file_name().context("a crate's folder has a name")?;
        programs.push(Program {
            package: package.to_string_lossy().into_owned(),
            is_unit: target.kind.iter().all(|kind| kind != "test"),
            target: target.name,
            path,
            folder: folder.to_owned(),
        });
    }
    // Unit tests first: they are quick, and what they find is most precise.
    programs.sort_by_key(|program| (!program.is_unit, program.is_parts()));
    Ok(programs)
}

/// Numbers of a program's tests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub passed: u64,
    pub failed: u64,
}

impl Program {
    /// Whether it is the program of the parts, which has no ordinary harness.
    pub fn is_parts(&self) -> bool {
        self.target == "parts"
    }

    pub fn is_unit(&self) -> bool {
        self.is_unit
    }

    pub fn name(&self) -> String {
        match self.is_unit {
            true => format!("{}, unit", self.package),
            false => format!("{}, {}", self.package, self.target),
        }
    }

    /// Tests that run at once, if that is not for each processor one: those of the command wait for programs a sixth of the time.
    fn threads(&self) -> Option<(&'static str, &'static str)> {
        (self.package == "cli").then_some(("RUST_TEST_THREADS", "3"))
    }

    /// Runs it, prints what it prints, and notes its tests.
    pub fn run(&self, options: &Options) -> Result<Counts> {
        let start = Instant::now();
        let mut command = Command::new(&self.path);
        command.current_dir(&self.folder).stdin(Stdio::null());
        command.env("CARGO_MANIFEST_DIR", &self.folder);
        command.env("EVERYPATH_SCOPE", options.scope);
        command.env("EVERYPATH_LEDGER", options.ledger.path());
        let flags = [
            ("EVERYPATH_RESUME", options.resume),
            ("EVERYPATH_ALLOW_MISSING", options.allow_missing),
        ];
        for (name, _) in flags.iter().filter(|(_, is_set)| *is_set) {
            command.env(name, "1");
        }
        if let Some(seed) = options.seed {
            command.env("EVERYPATH_SEED", seed.to_string());
        }
        if let Some(product) = &options.product {
            command.env("EVERYPATH_BIN", product);
        }
        command.envs(self.threads());
        if !self.is_parts() {
            command.env("RUSTC_BOOTSTRAP", "1");
            command.args(["-Zunstable-options", "--report-time"]);
            if options.scope == "wide" {
                command.arg("--include-ignored");
            }
            for module in needs::missing_for(&self.package, self.is_unit) {
                eprintln!("missing: {}: {module} (see `install` above)", self.name());
                command.args(["--skip", &module]);
                options.ledger.note(&Entry {
                    state: State::Missing,
                    kind: format!("tests ({})", self.name()),
                    name: module,
                    comparisons: 1,
                    millis: 0,
                })?;
            }
        }
        command.args(&options.words);
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run {}", self.path.display()))?;
        let stdout = child.stdout.take().context("standard output is a pipe")?;
        let mut counts = Counts::default();
        for line in BufReader::new(stdout).lines() {
            let line = line.context("a test program's output cannot be read")?;
            println!("{line}");
            counts.add(options.ledger, &self.name(), &line)?;
        }
        let status = child.wait().context("cannot wait for a test program")?;
        // A part that fails, or a program that dies, has said no number.
        if !status.success() && counts.failed == 0 {
            counts.failed = 1;
        }
        let seconds = start.elapsed().as_secs_f64();
        eprintln!("== {}: {seconds:.1} s, {status}", self.name());
        Ok(counts)
    }
}

impl Counts {
    /// Notes what a line of the ordinary harness says of a test.
    fn add(&mut self, ledger: &Ledger, kind: &str, line: &str) -> Result<()> {
        let Some((name, state, millis)) = result(line) else {
            return Ok(());
        };
        match state {
            State::Passed => self.passed += 1,
            State::Failed => self.failed += 1,
            State::Left | State::Missing => {}
        }
        ledger.note(&Entry {
            state,
            kind: format!("tests ({kind})"),
            name: name.to_owned(),
            comparisons: 1,
            millis,
        })
    }
}

/// Name, state and time of `test NAME ... ok <0.012s>`.
fn result(line: &str) -> Option<(&str, State, u64)> {
    let (name, rest) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let name = name.split(" - ").next().unwrap_or(name);
    let (word, time) = rest.split_once(" <").unwrap_or((rest, "0s>"));
    let state = match word.split(',').next()? {
        "ok" => State::Passed,
        "FAILED" => State::Failed,
        "ignored" => State::Left,
        _ => return None,
    };
    let seconds: f64 = time.strip_suffix("s>")?.parse().ok()?;
    Some((name, state, (seconds * 1000.0) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_harness_are_read() {
        let cases = [
            (
                "test a::b ... ok <1.234s>",
                Some(("a::b", State::Passed, 1234)),
            ),
            (
                "test c ... ignored, wide: long",
                Some(("c", State::Left, 0)),
            ),
            (
                "test d - should panic ... FAILED <0.000s>",
                Some(("d", State::Failed, 0)),
            ),
            ("test result: ok. 3 passed; 0 failed", None),
            ("running 3 tests", None),
        ];
        for (line, expected) in cases {
            assert_eq!(result(line), expected, "{line}");
        }
    }
}
