//! One random program: natively twice, then in every mode.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::build::{self, Built};
use crate::directive;
use crate::mode;
use crate::oracle::{self, Options};
use crate::product::Run;
use crate::program::Program;
use crate::run::{self, Ending, Outcome};

use super::random::Random;

/// Limit of one run. The longest take about a second translated.
const LIMIT: Duration = Duration::from_secs(30);

/// A stepped program is short; one that is not is let be.
const STEP_LIMIT: u64 = 120_000;

/// Outcome of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// It agrees everywhere, after so many translated runs.
    Agrees(usize),
    /// It says nothing: it cannot be built, or its native runs differ.
    Unfit(String),
    /// A translated run differs.
    Diverges(Divergence),
}

/// A difference, and the arguments that show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divergence {
    /// Arguments of `everypath` before `-- PROGRAM`.
    pub arguments: Vec<String>,
    /// It is the number of instructions that differs from that of a stepped run.
    pub stepped: bool,
    /// The difference, in words.
    pub difference: String,
}

/// Product and folder of the comparisons.
#[derive(Clone, Debug)]
pub struct Bench {
    /// The `everypath` binary.
    pub product: PathBuf,
    /// A folder for what is built.
    pub folder: PathBuf,
}

/// The arguments of every run of the program of `seed`, without an output file.
#[must_use]
pub fn modes(seed: u64) -> Vec<Vec<String>> {
    let mut random = Random::new(seed ^ 0x6d6f_6465);
    let mut chaos = |command: &str| {
        let number = match random.percent(50) {
            true => random.range(1, 3),
            false => random.range(4, 1 << 30),
        };
        format!("{command} --chaos {number}")
    };
    let lines = [
        "run".to_owned(),
        chaos("run"),
        chaos("run"),
        "run --count-instructions".to_owned(),
        "contexts".to_owned(),
        chaos("contexts"),
        chaos("contexts --mode intra -k 3"),
        "contexts --mode inter --roll-loops".to_owned(),
    ];
    let words = |line: &String| line.split(' ').map(str::to_owned).collect();
    lines.iter().map(words).collect()
}

impl Bench {
    /// Builds `text` and compares all its runs in `modes`; `stepped`: its
    /// instructions are counted by stepping, too.
    #[must_use]
    pub fn check(&self, text: &str, modes: &[Vec<String>], stepped: bool) -> Finding {
        let built = match self.build(text) {
            Ok(built) => built,
            Err(error) => return Finding::Unfit(error),
        };
        let finding = self.check_built(&built, modes, stepped);
        // Programs worth keeping are kept as sources.
        let _ = std::fs::remove_dir_all(&built.directory);
        finding
    }

    fn build(&self, text: &str) -> Result<Built, String> {
        let source = self.folder.join(format!("soak.{}.S", std::process::id()));
        let thread = format!("{:?}", std::thread::current().id()).replace(['(', ')'], "");
        let source = source.with_extension(format!("{thread}.S"));
        std::fs::create_dir_all(&self.folder).map_err(|error| error.to_string())?;
        std::fs::write(&source, text).map_err(|error| error.to_string())?;
        let program = Program {
            name: format!("soak-{}-{thread}", std::process::id()),
            directives: directive::parse(text).map_err(|error| error.to_string())?,
            text: text.to_owned(),
            source: source.clone(),
        };
        let built = build::build(&program, &self.folder).map_err(|error| error.to_string());
        // It was written for the compiler only.
        let _ = std::fs::remove_file(&source);
        built
    }

    fn check_built(&self, built: &Built, modes: &[Vec<String>], stepped: bool) -> Finding {
        let native = match natively(built) {
            Ok(native) => native,
            Err(why) => return Finding::Unfit(why),
        };
        for arguments in modes {
            if let Some(difference) = self.differs(built, arguments, &native) {
                return Finding::Diverges(Divergence {
                    arguments: arguments.clone(),
                    stepped: false,
                    difference,
                });
            }
        }
        let mut runs = modes.len();
        if stepped {
            match self.counts(built) {
                Ok(None) => {}
                Ok(Some(difference)) => {
                    return Finding::Diverges(Divergence {
                        arguments: vec!["run".to_owned(), "--count-instructions".to_owned()],
                        stepped: true,
                        difference,
                    });
                }
                Err(why) => return Finding::Unfit(why),
            }
            runs += 1;
        }
        Finding::Agrees(runs)
    }

    fn differs(&self, built: &Built, arguments: &[String], native: &Outcome) -> Option<String> {
        let out = built.directory.join("out.evp");
        let mut command = Command::new(&self.product);
        command.args(arguments).arg("--quiet");
        command.arg(if arguments[0] == "run" {
            "--report"
        } else {
            "-o"
        });
        command.arg(&out).arg("--").arg(&built.executable);
        command.current_dir(&built.directory);
        match run::run(command, "", LIMIT) {
            Ok(outcome) => outcome.difference(native),
            Err(error) => Some(format!("cannot be started: {error}")),
        }
    }

    /// Instructions, stepped and translated, of a program that is short enough.
    fn counts(&self, built: &Built) -> Result<Option<String>, String> {
        let options = Options {
            step_limit: STEP_LIMIT,
            ..Options::default()
        };
        let stepped = match oracle::count(&built.executable, &[], &built.directory, options) {
            Ok(counts) => counts.instructions(),
            Err(oracle::OracleError::TooLong(_)) => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        let run = Run {
            product: &self.product,
            built,
            args: &[],
            stdin: "",
        };
        let counted = run.instructions()?;
        Ok((counted != stepped)
            .then(|| format!("{counted} instructions were counted, {stepped} stepped")))
    }
}

/// Two native runs, which must be equal and end well.
fn natively(built: &Built) -> Result<Outcome, String> {
    let run = || {
        run::run(mode::native(built, &[]), "", LIMIT)
            .map_err(|error| format!("cannot be started natively: {error}"))
    };
    let (first, second) = (run()?, run()?);
    if first.ending != Ending::Exit(0) {
        return Err(format!("natively it ended {:?}", first.ending));
    }
    match second.difference(&first) {
        None => Ok(first),
        Some(text) => Err(format!("two native runs: {text}")),
    }
}

/// A name for what is kept of `seed` in `folder`.
#[must_use]
pub fn kept(folder: &Path, seed: u64, what: &str) -> PathBuf {
    folder.join(format!("soak_{seed:016x}{what}.S"))
}
