//! Facts that witnesses tell.

use super::frames::Frames;
use super::graphs::At;

/// Something that witnesses tell.
#[derive(Clone, Debug)]
pub enum Told {
    /// A block was executed.
    Executed(At),
    /// Values of registers, which blocks behind have: these bytes of those that the follower has read last.
    Values { from: u32, len: u8 },
    /// Control came to a block; the number of activations there, without one that begins.
    Came { to: At, how: How, depth: u32 },
    /// Control went to code that is not edited: from what was executed last, or, by a signal, in the place of this block.
    Left(Option<At>),
    /// A call came back in the parent of a new process.
    Forked(Box<Fork>),
}

/// Way by which control came to a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Code that is not edited entered a function.
    Enters,
    /// A call of such code came back.
    FromElsewhere,
    /// To a landing pad, or from a call, of this block, that may come back twice: activations may have ended.
    Pad,
    Point(At),
    /// A handler begins, where another block would have been next.
    Interrupts(At),
    Back,
}

/// A new process.
#[derive(Clone, Debug)]
pub struct Fork {
    pub child: u32,
    /// Activations of the thread then.
    pub frames: Frames,
}

/// Witnesses that contradict the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsound {
    /// Byte of the stream, and its value.
    pub at: u64,
    pub token: u8,
    /// Link address of the block where it was expected to go on; 0: in code that is not edited.
    pub block: u64,
}
