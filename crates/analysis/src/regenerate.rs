//! Traces from witnesses: what an edited program executed, as `everypath trace` would have recorded it.
//!
//! Problem: the program wrote little ([`trace::witness`]): numbers of paths, and where control came from code that was not edited.
//!
//! Approach: the plan of the edited file has the graphs of its functions, and says where tokens come. [`follow`] goes through these
//! graphs, with the stack of calls, and gives the blocks that were executed; [`encode`] makes of them the streams of a recording.
//! Code that was not edited is a gap there, as code that `trace --modules` leaves out.
//!
//! Invariants: what comes before a token is true if the token is there, so a program that was killed has a prefix, up to its last
//! token. Any bytes give blocks, or an error where they contradict the plan.
//!
//! Limits: a handler of a signal begins, in the trace, behind what was told before it. Targets of returns and calls into code that was
//! not edited are not known: they are address 0.
//!
//! Source: J. Larus, "Abstract Execution: A Technique for Efficiently Tracing Programs" (1990).

mod encode;
mod follow;
mod frames;
mod graphs;
mod machine;
mod tokens;
mod told;

use std::sync::Arc;

use trace::{Fragment, Missing, Thread};

pub use frames::Frames;
pub use graphs::{Graphs, Loaded};
pub use tokens::Piece;
pub use told::Unsound;

use encode::Streams;
use follow::Follower;
use machine::{Blocks, Machine};
use told::Told;

/// Code of the files that were edited, by address in memory, and the number of its mapping.
pub type CodeOf<'a> = &'a dyn Fn(u64) -> Option<(&'a [u8], u32)>;

/// The witnesses of a thread.
#[derive(Clone, Debug)]
pub struct Witnesses<'a> {
    pub tid: u32,
    /// Its thread pointer.
    pub pointer: u64,
    /// Its bytes, piece by piece.
    pub pieces: Vec<Piece<'a>>,
    /// Bytes at the end are missing, as there was no room.
    pub is_cut: bool,
    /// Activations that it has from its parent, if it was forked.
    pub frames: Frames,
}

/// Streams of the threads of a process.
#[derive(Debug, Default)]
pub struct Regenerated {
    pub threads: Vec<Thread>,
    pub fragments: Vec<Arc<Fragment>>,
    pub targets: Vec<u64>,
    /// Threads whose witnesses contradict the plan, and where.
    pub unsound: Vec<(u32, Unsound)>,
    /// Bytes of witnesses that were read.
    pub bytes: u64,
    /// Values of registers among them, and operands of memory whose addresses were made of these.
    pub values: u64,
    pub operands: u64,
}

/// Makes the streams of a process's threads.
///
/// # Errors
/// A part of a stream could not be compressed.
pub fn regenerate<'f>(
    graphs: &'f Graphs,
    threads: &[Witnesses<'_>],
    code: CodeOf<'f>,
) -> std::io::Result<Regenerated> {
    let mut all = Regenerated::default();
    let mut shared = encode::Shared::new(graphs, code);
    let mut blocks = Blocks::new(graphs, code);
    for witnesses in threads {
        let mut streams = Streams::new(&mut shared);
        let frames = witnesses.frames.clone();
        let registers = frames.registers.clone();
        let mut machine = Machine::new(graphs, witnesses.pointer, registers);
        let mut follower = Follower::new(graphs, &witnesses.pieces, frames);
        while let Some(told) = follower.next() {
            let told = told.and_then(|told| {
                if graphs.has_values {
                    let told = (&told, follower.values_of(&told));
                    let executed = machine.execute(told, &mut blocks, &mut streams.words);
                    executed.map_err(|_| follower.unsound())?;
                }
                Ok(told)
            });
            match told {
                Ok(told) => streams.add(told)?,
                Err(unsound) => {
                    all.unsound.push((witnesses.tid, unsound));
                    break;
                }
            }
        }
        all.bytes += follower.position();
        all.values += machine.taken;
        all.operands += machine.operands;
        let (stream, insns) = streams.finish()?;
        all.threads.push(Thread {
            tid: witnesses.tid,
            insns,
            stream,
            missing: witnesses.is_cut.then_some(Missing::Place),
            ..Thread::default()
        });
    }
    (all.fragments, all.targets) = shared.finish();
    Ok(all)
}

/// The activations of a thread where it forked the process `child`.
pub fn frames_at_fork<'f>(
    graphs: &Graphs,
    witnesses: &Witnesses<'_>,
    code: CodeOf<'f>,
    child: u32,
) -> Option<Frames> {
    let mut blocks = Blocks::new(graphs, code);
    let frames = witnesses.frames.clone();
    let registers = frames.registers.clone();
    let mut machine = Machine::new(graphs, witnesses.pointer, registers);
    let mut follower = Follower::new(graphs, &witnesses.pieces, frames);
    let mut words = Vec::new();
    while let Some(Ok(told)) = follower.next() {
        if graphs.has_values {
            let told = (&told, follower.values_of(&told));
            machine.execute(told, &mut blocks, &mut words).ok()?;
            words.clear();
        }
        if let Told::Forked(fork) = told
            && fork.child == child
        {
            return Some(Frames {
                registers: machine.frames().to_vec(),
                ..fork.frames
            });
        }
    }
    None
}
