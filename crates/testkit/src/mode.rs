//! The modes in which every target program runs, as a table.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::build::Built;
use crate::scope::Scope;

/// One way to run a program.
#[derive(Clone, Copy, Debug)]
pub struct Mode {
    /// Name in messages.
    pub name: &'static str,
    /// Arguments of `everypath` before `-- PROGRAM`; `{out}` is a fresh file.
    pub arguments: &'static [&'static str],
}

/// Every mode. Output goes to a file and `--quiet` is given, so that standard
/// output and standard error hold nothing but the program's own bytes.
///
/// In chaos, contexts count calls only: with instructions events are so long that a timer of
/// 50 microseconds leaves `signal_storm_faults` no time (docs/design/0014). What
/// they count in chaos is compared in `tests/contexts`.
#[rustfmt::skip]
pub const MODES: &[Mode] = &[
    Mode { name: "run",              arguments: &["run", "--quiet"] },
    Mode { name: "run chaos 1",      arguments: &["run", "--quiet", "--chaos", "1"] },
    Mode { name: "run chaos 2",      arguments: &["run", "--quiet", "--chaos", "2"] },
    Mode { name: "run chaos 3",      arguments: &["run", "--quiet", "--chaos", "3"] },
    Mode { name: "instructions",     arguments: &["run", "--quiet", "--count-instructions", "--report", "{out}"] },
    Mode { name: "count",            arguments: &["count", "--quiet", "-o", "{out}"] },
    Mode { name: "count chaos 2",    arguments: &["count", "--quiet", "-o", "{out}", "--chaos", "2"] },
    Mode { name: "contexts",         arguments: &["contexts", "--quiet", "-o", "{out}"] },
    Mode { name: "contexts chaos 1", arguments: &["contexts", "--cost", "calls", "--quiet", "-o", "{out}", "--chaos", "1"] },
    Mode { name: "contexts chaos 2", arguments: &["contexts", "--cost", "calls", "--quiet", "-o", "{out}", "--chaos", "2"] },
    Mode { name: "contexts chaos 3", arguments: &["contexts", "--cost", "calls", "--quiet", "-o", "{out}", "--chaos", "3"] },
    Mode { name: "intra chaos 3",    arguments: &["contexts", "--mode", "intra", "-k", "3", "--quiet", "-o", "{out}", "--chaos", "3"] },
    Mode { name: "trace",            arguments: &["trace", "--quiet", "-o", "{out}"] },
    Mode { name: "trace, by chance", arguments: &["trace", "--ctl", "--quiet", "-o", "{out}", "--chaos", "10"] },
    Mode { name: "values",           arguments: &["trace", "--memory", "values", "--quiet", "-o", "{out}"] },
    Mode { name: "values chaos 2",   arguments: &["trace", "--memory", "values", "--no-elision", "--quiet", "-o", "{out}", "--chaos", "2"] },
    Mode { name: "inter, rolled",    arguments: &["contexts", "--mode", "inter", "--roll-loops", "--quiet", "-o", "{out}"] },
];

/// The mode of every program in the gate, by name.
const ALWAYS: &str = "contexts";

/// Modes of every program in the smoke.
const SMOKE: [&str; 4] = ["run", "contexts", "count", "values"];

/// Modes of chaos that the gate divides among the programs: each program has one of them.
const IN_TURN: [&str; 9] = [
    "run chaos 1",
    "run chaos 2",
    "run chaos 3",
    "count chaos 2",
    "contexts chaos 1",
    "contexts chaos 2",
    "contexts chaos 3",
    "intra chaos 3",
    "values chaos 2",
];

/// One of so many programs has a trace without values in the gate, too, and another runs without a tool.
const MORE: usize = 6;

/// One of so many programs is counted in the gate, too; the part `counts` compares counts.
const COUNTED: usize = 3;

/// One of so many programs has a trace of values in the gate, which is one of control flow as well.
const VALUED: usize = 2;

/// Modes of real programs, which are too long for all of [`MODES`]; the gate has the first two.
const REAL: [&str; 3] = ["run", "contexts", "run chaos 3"];

/// The modes of those names, in the order of [`MODES`].
///
/// # Panics
/// A name is no mode's.
#[must_use]
pub fn named(names: &[&str]) -> Vec<Mode> {
    let all = MODES.iter().copied();
    let modes: Vec<Mode> = all.filter(|mode| names.contains(&mode.name)).collect();
    assert_eq!(modes.len(), names.len(), "{names:?} has a name of no mode");
    modes
}

/// The modes in which the program `name` runs. Which mode of chaos the gate gives it follows from
/// the name alone, so it stays the same when other programs come and go.
#[must_use]
pub fn of(scope: Scope, name: &str) -> Vec<Mode> {
    match scope {
        Scope::Check => named(&SMOKE),
        Scope::Gate => {
            // FNV-1a, 32 bits.
            let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
                (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
            });
            let mut names = vec![ALWAYS];
            names.push(IN_TURN[hash as usize % IN_TURN.len()]);
            let hash = hash as usize / IN_TURN.len();
            if (hash / MORE).is_multiple_of(COUNTED) {
                names.push("count");
            }
            if (hash / MORE / COUNTED).is_multiple_of(VALUED) {
                names.push("values");
            }
            match hash % MORE {
                0 => names.push("trace"),
                1 => names.push("run"),
                _ => {}
            }
            named(&names)
        }
        Scope::Wide => MODES.to_vec(),
    }
}

/// The modes in which real programs run.
#[must_use]
pub fn of_real(scope: Scope) -> Vec<Mode> {
    match scope {
        Scope::Wide => named(&REAL),
        _ => named(&REAL[..2]),
    }
}

/// The product was not built.
#[derive(Debug, thiserror::Error)]
#[error(
    "there is no everypath binary at {path}: build it with `cargo build -p cli`, \
     or name another one in EVERYPATH_BIN"
)]
pub struct NoProduct {
    /// Path at which it was expected.
    pub path: PathBuf,
}

/// Finds the product: `EVERYPATH_BIN`, or the one that was built beside this test program, or the
/// release build of the repository's own target directory.
pub fn product(repository: &Path) -> Result<PathBuf, NoProduct> {
    let named = std::env::var_os("EVERYPATH_BIN").map(PathBuf::from);
    let test_binary = std::env::current_exe().unwrap_or_default();
    let beside = test_binary
        .ancestors()
        .nth(2)
        .map(|dir| dir.join("everypath"));
    let built = repository.join("target/release/everypath");
    let candidates = if named.is_some() {
        vec![named]
    } else {
        vec![beside, Some(built.clone())]
    };
    let mut candidates = candidates.into_iter().flatten();
    let first = candidates.clone().next().unwrap_or(built);
    candidates
        .find(|path| path.is_file())
        .ok_or(NoProduct { path: first })
}

/// The native command for a built program.
#[must_use]
pub fn native(built: &Built, args: &[String]) -> Command {
    let mut command = Command::new(&built.executable);
    command.args(args).current_dir(&built.directory);
    command
}

/// The product's own part of the command under `mode`, before `-- PROGRAM`;
/// `out` is the name of a file that may be written.
#[must_use]
pub fn command(product: &Path, mode: &Mode, out: &Path) -> Command {
    let mut command = Command::new(product);
    for argument in mode.arguments {
        if *argument == "{out}" {
            command.arg(out);
        } else {
            command.arg(argument);
        }
    }
    command
}

/// The command that runs a built program under `mode`.
#[must_use]
pub fn translated(
    product: &Path,
    mode: &Mode,
    built: &Built,
    args: &[String],
    out: &Path,
) -> Command {
    let mut command = command(product, mode, out);
    command
        .arg("--")
        .arg(&built.executable)
        .args(args)
        .current_dir(&built.directory);
    command
}
