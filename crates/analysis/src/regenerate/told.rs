//! Facts that witnesses tell.

use super::frames::Frames;
use super::graphs::At;

/// Something that witnesses tell.
#[derive(Clone, Debug)]
pub enum Told {
    /// A block was executed.
    Executed(At),
    /// Control came to a block: from code that is not edited; a handler begins; or it is back from a handler.
    Came { to: At, how: How },
    /// Control went to code that is not edited: from what was executed last, or, by a signal, in the place of this block.
    Left(Option<At>),
    /// A call came back in the parent of a new process.
    Forked(Fork),
}

/// Way by which control came to a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    FromElsewhere,
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
