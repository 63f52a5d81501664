//! Runs instances natively and in a mode, and says which differ.
//!
//! The runner prints a line as each instance ends, so that a run that hangs or dies names
//! the one that it was at. The rest is run again without it.

use std::path::PathBuf;
use std::time::Duration;

use super::Instance;
use crate::build::{self, Built};
use crate::mode::{self, Mode};
use crate::program::{self, Program};
use crate::run::{self, Ending, Outcome};

/// Limit of a run; the largest take a fifth of it.
const LIMIT: Duration = Duration::from_secs(30);
/// Runs that may hang or die before the rest of the instances is given up.
const MOST_ENDS: usize = 4;

/// The product, the built runner, and a folder for the files of its runs.
#[derive(Clone, Debug)]
pub struct Bench {
    product: PathBuf,
    runner: Built,
    folder: PathBuf,
}

/// An instance that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Its number among those that were run.
    pub number: usize,
    /// Both lines, or how the run ended there.
    pub text: String,
}

impl Bench {
    /// Builds the runner; `folder` is for the files of its runs.
    pub fn new(product: PathBuf, folder: PathBuf) -> Result<Bench, String> {
        let program = runner()?;
        let runner = build::build(&program, &build::cache_directory());
        let runner = runner.map_err(|error| error.to_string())?;
        std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        Ok(Bench {
            product,
            runner,
            folder,
        })
    }

    /// The instances of `all` that `mode` executes otherwise than the processor.
    pub fn check(&self, all: &[Instance], mode: &Mode) -> Result<Vec<Finding>, String> {
        let native = self.run(all, None, false)?;
        let expected = lines(&native.stdout);
        if native.ending != Ending::Exit(0) || expected.len() != all.len() {
            return Err(format!(
                "natively the runner ended {:?} at instance {}",
                native.ending,
                expected.len()
            ));
        }
        let mut findings = Vec::new();
        let mut first = 0;
        for _ in 0..MOST_ENDS {
            let ours = self.run(&all[first..], Some(mode), false)?;
            let found = lines(&ours.stdout);
            findings.extend(differences(&expected[first..], &found, first));
            let reached = first + found.len();
            if reached >= all.len() && ours.ending == Ending::Exit(0) {
                return Ok(findings);
            }
            let errors = String::from_utf8_lossy(&ours.stderr);
            findings.push(Finding {
                number: reached.min(all.len() - 1),
                text: format!("the run ended {:?}: {errors:.600}", ours.ending),
            });
            first = reached + 1;
            if first >= all.len() {
                break;
            }
        }
        Ok(findings)
    }

    /// The state that one instance leaves, natively or in a mode.
    pub fn state(&self, instance: &Instance, mode: Option<&Mode>) -> Result<Outcome, String> {
        self.run(std::slice::from_ref(instance), mode, true)
    }

    fn run(
        &self,
        all: &[Instance],
        mode: Option<&Mode>,
        is_shown: bool,
    ) -> Result<Outcome, String> {
        let name = mode.map_or("native", |mode| mode.name).replace(' ', "-");
        let thread = format!("{:?}", std::thread::current().id());
        let thread = thread.replace(['(', ')'], "-");
        let file = self
            .folder
            .join(format!("{name}-{}-{thread}", std::process::id()));
        let records: Vec<u8> = all.iter().flat_map(Instance::record).collect();
        std::fs::write(&file, records).map_err(|error| error.to_string())?;
        let mut args = vec![file.to_string_lossy().into_owned()];
        args.extend(is_shown.then(|| "show".to_owned()));
        let out = file.with_extension("evp");
        let command = match mode {
            None => mode::native(&self.runner, &args),
            Some(mode) => mode::translated(&self.product, mode, &self.runner, &args, &out),
        };
        let outcome = run::run(command, "", LIMIT).map_err(|error| error.to_string());
        let _ = std::fs::remove_file(&file);
        // Modes without an output file leave none.
        let _ = std::fs::remove_file(&out);
        outcome
    }
}

fn runner() -> Result<Program, String> {
    let source = program::repository().join("tests/instances/runner.c");
    program::load(source).map_err(|error| error.to_string())
}

/// A feature of the processor that the runner needs and this one lacks.
pub fn missing_feature() -> Result<Option<String>, String> {
    Ok(program::missing_feature(&runner()?.directives.needs))
}

/// Whole lines: the last one is cut where a run was ended.
fn lines(output: &[u8]) -> Vec<&[u8]> {
    let mut lines: Vec<&[u8]> = output.split(|byte| *byte == b'\n').collect();
    lines.pop();
    lines
}

/// Numbers of a run begin at 0, whichever instance that is: only what follows is compared.
fn differences(expected: &[&[u8]], found: &[&[u8]], first: usize) -> Vec<Finding> {
    let rest = |line: &[u8]| {
        let blank = line.iter().position(|byte| *byte == b' ').unwrap_or(0);
        String::from_utf8_lossy(&line[blank..]).into_owned()
    };
    let pairs = expected.iter().zip(found).enumerate();
    pairs
        .map(|(i, (native, ours))| (first + i, rest(native), rest(ours)))
        .filter(|(_, native, ours)| native != ours)
        .map(|(number, native, ours)| Finding {
            number,
            text: format!("hash and signal{ours}, natively{native}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_altered_line_is_one_finding() {
        let native = lines(b"0 aa 0\n1 bb 11\n2 cc 0\n");
        assert_eq!(differences(&native, &native, 0), []);
        let ours = lines(b"0 aa 0\n1 bd 11\n2 cc 0\n2 c");
        let finding = Finding {
            number: 11,
            text: "hash and signal bd 11, natively bb 11".to_owned(),
        };
        assert_eq!(differences(&native, &ours, 10), [finding]);
    }

    #[test]
    fn a_run_that_ends_early_has_fewer_lines() {
        assert_eq!(lines(b"0 aa 0\n1 b").len(), 1);
    }
}
