//! The slow, obviously right counter: one program, stepped with ptrace.
//!
//! Problem: the product's counts come from translated code; something that
//! shares nothing with it must count the same run again.
//! Approach: start the program without address randomisation, stop it after
//! every instruction of every thread, look at `rip` and `rsp`, and apply the
//! definitions literally: [`activation`] holds those of calling contexts,
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
//! Limits: forked children run on unwatched; exec in the program ends the
//! oracle with an error; stacks switched by the program itself (coroutines)
//! are not told apart; the pushed flags of `pushf` hold the trap flag.

mod activation;
mod code;
mod instruction;
mod tracee;

use std::path::Path;
use std::process::{Command, Stdio};

use crate::tree::Tree;

pub use activation::Recursion;

/// What the oracle is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Whether recursion of one function is rolled into one node.
    pub recursion: Recursion,
    /// More steps than this end the run with an error.
    pub step_limit: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            recursion: Recursion::Rolled,
            step_limit: 20_000_000,
        }
    }
}

/// What one thread did.
#[derive(Clone, Debug)]
pub struct ThreadCount {
    /// Instructions retired.
    pub instructions: u64,
    /// Its calling contexts, below `[thread]` and `[signal N]` roots.
    pub contexts: Tree,
}

/// What one run did. Threads stand in the order of their creation.
#[derive(Clone, Debug)]
pub struct Counts {
    /// One entry per thread, the main thread first.
    pub threads: Vec<ThreadCount>,
}

impl Counts {
    /// Instructions of all threads.
    #[must_use]
    pub fn instructions(&self) -> u64 {
        self.threads.iter().map(|thread| thread.instructions).sum()
    }

    /// The contexts of all threads, joined.
    #[must_use]
    pub fn joined(&self) -> Tree {
        let mut tree = Tree::default();
        for thread in &self.threads {
            tree.join(&thread.contexts);
        }
        tree
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
    /// The program replaced itself.
    #[error("the program called exec, which the oracle does not follow")]
    Exec,
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
        // What the program prints is checked by the ordinary native run.
        let _ = std::io::copy(&mut pipe, &mut std::io::sink());
    }
}
