//! Activations of a thread's functions, and the place of control in the last one.

use super::graphs::At;
use super::machine::Frame;

/// Activations of functions, the outermost first.
#[derive(Clone, Debug, Default)]
pub struct Frames {
    pub(super) activations: Vec<Activation>,
    /// Their registers, if the stream has values.
    pub(super) registers: Vec<Frame>,
}

/// An activation of a function.
#[derive(Clone, Debug)]
pub struct Activation {
    pub function: u32,
    pub entered: Entered,
    /// The block whose call it waits for.
    pub site: u32,
    /// That call is one of code that is not edited, or may have gone there.
    pub is_outside: bool,
    /// Calls that may come back twice: their block, and the stack pointer then.
    pub points: Vec<(u32, u64)>,
}

#[derive(Clone, Debug)]
pub enum Entered {
    ByCall,
    FromElsewhere,
    /// In the place of what would have been next.
    ByInterrupt(Box<State>),
}

/// The place of control.
#[derive(Clone, Debug)]
pub enum State {
    /// Control is in code that is not edited.
    Elsewhere,
    /// Before a block; the sum of the path so far is that of its beginning.
    Before(At),
    /// Before a block in which a path begins.
    Inside(At),
    /// Before a block that a token names.
    Arriving(At),
    /// In a block that is followed by something else than its ways.
    Ending(At),
    /// It stands behind such a block.
    Behind(At),
    /// A jump by a table was made in this block.
    Jumped(At),
}
