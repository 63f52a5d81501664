//! The `// build:`, `// part:` and `// run:` lines at the head of a program.
//!
//! ```text
//! // build: cc -O2 -pthread          compiler and flags; source and -o follow
//! // part: plugin.so cc -shared -DPLUGIN   the same source, compiled again
//! // run: args one two               arguments, split at blanks
//! // run: stdin hello                one line of standard input
//! // run: exit 3                     expected exit status (default 0)
//! // run: signal SEGV                expected death by a signal
//! // run: repeat 5                   run so often in every mode
//! // run: needs avx512f              a flag the CPU must have
//! // run: timeout 30                 seconds in a translated run (default 20)
//! // run: nondeterministic-counts    instruction counts vary between runs
//! // run: oracle                     all its contexts are compared with the oracle's
//! // run: oracle own-functions       those of the program's own functions are
//! // run: no-oracle it never ends    they are not, because it never ends
//! // run: oracle-disagrees in this  they are, and the product is wrong in this
//! // run: oracle-args 2              arguments of that comparison, to shorten it
//! // run: no-counts it waits         counts of instructions are not compared, because it waits
//! // run: no-order it waits          their order is not, because it waits
//! // run: wide it counts time         only `cargo xtask wide` runs it, because it counts time
//! ```
//!
//! Invariant: an unknown word is an error, never ignored: a misspelt
//! directive would silently weaken a test.

use std::time::Duration;

/// How a run is expected to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// The program calls exit with this status.
    Exit(i32),
    /// The program dies by this signal.
    Signal(i32),
}

/// Functions of a program that are compared with the single-stepping oracle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// Every function of every module.
    AllFunctions,
    /// The functions of the program's own file.
    OwnFunctions,
    /// The program's own functions; the product is known to be wrong, in this way.
    Disagrees(String),
    /// Nothing, for this reason.
    Nothing(String),
}

/// One further output of the same source, for example a plug-in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// File name in the directory of the built program.
    pub output: String,
    /// Compiler and flags.
    pub command: Vec<String>,
}

/// Everything a source file says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directives {
    /// Compiler and flags of the program itself.
    pub build: Vec<String>,
    /// Further outputs.
    pub parts: Vec<Part>,
    /// Arguments after the program name.
    pub args: Vec<String>,
    /// Standard input, empty if the program reads none.
    pub stdin: String,
    /// How the run must end.
    pub expected: Expected,
    /// Runs per mode.
    pub repeat: u32,
    /// CPU flags without which the program cannot run.
    pub needs: Vec<String>,
    /// Limit for one translated run.
    pub timeout: Duration,
    /// Whether two native runs execute the same number of instructions.
    pub deterministic_counts: bool,
    /// Which contexts are compared with those of the single-stepping oracle.
    pub oracle: Option<Comparison>,
    /// Why counts of single instructions are not compared, if so.
    pub no_counts: Option<String>,
    /// Why contexts of its blocks are not compared.
    pub no_blocks: Option<String>,
    /// Why the order of its instructions is not compared.
    pub no_order: Option<String>,
    /// Why the gate leaves the program to `wide`, if it does.
    pub wide: Option<String>,
    /// Arguments when they are, if others.
    pub oracle_args: Option<Vec<String>>,
}

/// Error in a directive.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DirectiveError {
    /// A key that does not exist.
    #[error("line {line}: there is no directive `{text}`")]
    Unknown {
        /// Line number, from 1.
        line: usize,
        /// The directive as written.
        text: String,
    },
    /// A value that cannot be read.
    #[error("line {line}: `{text}` does not hold the value its directive needs")]
    Value {
        /// Line number, from 1.
        line: usize,
        /// The directive as written.
        text: String,
    },
    /// A program without a `// build:` line.
    #[error("there is no `// build:` line")]
    NoBuild,
}

impl Default for Directives {
    fn default() -> Self {
        Self {
            build: Vec::new(),
            parts: Vec::new(),
            args: Vec::new(),
            stdin: String::new(),
            expected: Expected::Exit(0),
            repeat: 1,
            needs: Vec::new(),
            timeout: Duration::from_secs(20),
            deterministic_counts: true,
            oracle: None,
            no_counts: None,
            no_blocks: None,
            no_order: None,
            wide: None,
            oracle_args: None,
        }
    }
}

/// Reads the directives of `source`.
pub fn parse(source: &str) -> Result<Directives, DirectiveError> {
    let mut directives = Directives::default();
    for (index, text) in source.lines().enumerate() {
        let Some(comment) = text.trim_start().strip_prefix("// ") else {
            continue;
        };
        let line = index + 1;
        if let Some(rest) = comment.strip_prefix("build: ") {
            directives.build = words(rest);
        } else if let Some(rest) = comment.strip_prefix("part: ") {
            let mut command = words(rest);
            if command.len() < 2 {
                return Err(DirectiveError::Value {
                    line,
                    text: rest.to_owned(),
                });
            }
            let output = command.remove(0);
            directives.parts.push(Part { output, command });
        } else if let Some(rest) = comment.strip_prefix("run: ") {
            parse_run(&mut directives, line, rest)?;
        }
    }
    if directives.build.is_empty() {
        return Err(DirectiveError::NoBuild);
    }
    Ok(directives)
}

fn parse_run(directives: &mut Directives, line: usize, text: &str) -> Result<(), DirectiveError> {
    let (key, value) = text.split_once(' ').unwrap_or((text, ""));
    let bad_value = || DirectiveError::Value {
        line,
        text: text.to_owned(),
    };
    match key {
        "args" => directives.args = words(value),
        "stdin" => directives.stdin = format!("{value}\n"),
        "exit" => directives.expected = Expected::Exit(value.parse().map_err(|_| bad_value())?),
        "signal" => {
            let name = format!("SIG{value}");
            let signal: nix::sys::signal::Signal = name.parse().map_err(|_| bad_value())?;
            directives.expected = Expected::Signal(signal as i32);
        }
        "repeat" => directives.repeat = value.parse().map_err(|_| bad_value())?,
        "needs" => directives.needs.extend(words(value)),
        "timeout" => {
            directives.timeout = Duration::from_secs(value.parse().map_err(|_| bad_value())?);
        }
        "nondeterministic-counts" => directives.deterministic_counts = false,
        "oracle" => {
            directives.oracle = Some(match value {
                "" => Comparison::AllFunctions,
                "own-functions" => Comparison::OwnFunctions,
                _ => return Err(bad_value()),
            });
        }
        "no-oracle" | "oracle-disagrees" | "no-counts" | "wide" if value.is_empty() => {
            return Err(bad_value());
        }
        "wide" => directives.wide = Some(value.to_owned()),
        "no-counts" => directives.no_counts = Some(value.to_owned()),
        "no-blocks" => directives.no_blocks = Some(value.to_owned()),
        "no-order" => directives.no_order = Some(value.to_owned()),
        "no-oracle" => directives.oracle = Some(Comparison::Nothing(value.to_owned())),
        "oracle-disagrees" => {
            directives.oracle = Some(Comparison::Disagrees(value.to_owned()));
        }
        "oracle-args" => directives.oracle_args = Some(words(value)),
        _ => {
            return Err(DirectiveError::Unknown {
                line,
                text: text.to_owned(),
            });
        }
    }
    Ok(())
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_directive() {
        let source = "// Checks x.\n// build: cc -O2\n// part: p.so cc -shared\n// run: args a b\n\
                      // run: signal SEGV\n// run: oracle\nint main;\n";
        let read = parse(source).expect("well formed");
        assert_eq!(read.build, ["cc", "-O2"]);
        assert_eq!(read.parts[0].output, "p.so");
        assert_eq!(read.args, ["a", "b"]);
        assert_eq!(read.expected, Expected::Signal(11));
        assert_eq!(read.oracle, Some(Comparison::AllFunctions));
    }

    #[test]
    fn refuses_what_it_does_not_know() {
        let error = parse("// build: cc\n// run: exits 3\n").expect_err("misspelt");
        assert_eq!(
            error,
            DirectiveError::Unknown {
                line: 2,
                text: "exits 3".to_owned()
            }
        );
        assert_eq!(parse("int main;"), Err(DirectiveError::NoBuild));
    }
}
