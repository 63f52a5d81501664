//! Events of a walk, before the instructions are lent that they are of.

use super::code::Place;
use super::stamps::Stamp;
use super::why::Why;

/// An [`Event`], without what it lends.
pub(super) enum Found {
    Executed {
        piece: u32,
        from: u32,
        to: u32,
        /// Outcome of the last instruction, if it has one.
        outcome: Option<bool>,
    },
    Went {
        why: Why,
        to: u64,
    },
    /// It goes on there, in other code than the path before led to.
    Entered(Place),
    Stamp(Stamp),
    /// The stack pointer is this now.
    Stack(u64),
}
