//! The slow, obviously right counter: one program, stepped with ptrace.
//!
//! Problem: the product's counts come from translated code; something that
//! shares nothing with it must count the same run again.
//! Approach: start the program without address randomisation, stop it after
//! every instruction of every thread, look at `rip` and `rsp`, and apply the
//! definitions literally: [`activation`] holds those of activations,
//! [`events`] makes calling contexts of them,
//! [`code`] says which function an address belongs to (from the `image`
//! crate), [`instruction`] what kind of instruction was executed.
//!
//! An instruction is one retirement: a `rep` string instruction counts when
//! it is left, however many steps the trap flag gives; an instruction that
//! faults does not count until it completes. Counting begins with the first
//! instruction of the interpreter.
//!
//! Complexity: two to four system calls and two switches per instruction; some
//! 40,000 instructions per second on a two-core virtual machine.
//!
//! Limits: stacks switched by the program itself (coroutines) are not told
//! apart; the pushed flags of `pushf` hold the trap flag; a stopped process goes
//! on when another one sends it SIGCONT, not when the terminal does.

pub mod accesses;
mod activation;
mod blocks;
mod code;
mod events;
mod instruction;
mod stacks;
mod start;
mod tracee;

use std::path::Path;
use std::process::{Command, Stdio};

pub use blocks::{BlocksWanted, Ran, Spot};
pub use code::ProgramPc;
pub use events::{CostsByContext, Counts, Executions, Function, Moment, ThreadCount, Wanted};

/// Options of a stepped run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Step only from the entry of the program on, without the dynamic linker's
    /// start, and let processes run that execute another program.
    pub own_code: bool,
    /// Keep every instruction, for [`Counts::block_forests`].
    pub blocks: bool,
    /// More steps than this end the run with an error.
    pub step_limit: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            own_code: false,
            blocks: false,
            step_limit: 20_000_000,
        }
    }
}

/// Why a run could not be counted.
#[derive(Debug, thiserror::Error)]
pub enum OracleError {
    /// The program could not be started.
    #[error("cannot start the program under ptrace: {0}")]
    Start(std::io::Error),
    /// A ptrace request failed.
    #[error("ptrace failed: {0}")]
    Ptrace(#[from] nix::Error),
    /// The program needs more steps than allowed.
    #[error("the program takes more than {0} steps")]
    TooLong(u64),
    /// The memory of a stepped process cannot be reached.
    #[error("cannot reach the program's memory: {0}")]
    Memory(std::io::Error),
}

/// Steps `program` with `args` in `directory` to its end.
pub fn count(
    program: &Path,
    args: &[String],
    directory: &Path,
    options: Options,
) -> Result<Counts, OracleError> {
    let mut command = Command::new("setarch");
    command
        .args(["-R", "sh", "-c", "kill -STOP $$; exec \"$0\" \"$@\""])
        .arg(program)
        .args(args);
    // Pipes, as in every other run: a terminal would be buffered otherwise.
    command
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(OracleError::Start)?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    std::thread::scope(|scope| {
        scope.spawn(|| drain(stdout));
        scope.spawn(|| drain(stderr));
        tracee::follow(
            nix::unistd::Pid::from_raw(child.id().cast_signed()),
            options,
        )
    })
}

fn drain<R: std::io::Read>(pipe: Option<R>) {
    if let Some(mut pipe) = pipe {
        // The native run checks the program's output.
        let _ = std::io::copy(&mut pipe, &mut std::io::sink());
    }
}
