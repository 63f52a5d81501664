//! Functions that stay where they are, and why.

use flow::Gate;

/// A reason for a function to stay; the numbers are those of the editor's design.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Why {
    /// Its graph may lack something.
    Flow(Gate),
    /// Code that cannot be taken apart and put together.
    Code,
    /// A branch that has no long form would not reach.
    ShortBranch,
    /// Something would be out of reach.
    TooFar,
    /// Frames of it cannot be described at another place.
    Unwind,
    /// It has landing pads.
    LandingPads,
    /// Code reads bytes that would be changed.
    ReadsText,
    /// An address within bytes that would be changed is taken.
    TakenInside,
    /// There is no room for a jump to the new code.
    NoRoom,
    /// Start-up code, which runs before the dynamic linker has done its work.
    StartUp,
    /// Something that is to be inserted has no place, or finds no registers.
    NoPlace,
    /// It makes a process by a system call of its own, in which code behind would add to its parent's counters.
    Forks,
}

impl Why {
    pub fn name(self) -> &'static str {
        match self {
            Why::Flow(gate) => gate.name(),
            Why::Code => "G1",
            Why::ShortBranch | Why::TooFar | Why::NoRoom => "G11",
            Why::Unwind => "G3",
            Why::LandingPads => "G4",
            Why::ReadsText => "G5",
            Why::TakenInside => "G7",
            Why::StartUp => "G9",
            Why::NoPlace => "G10",
            Why::Forks => "G13",
        }
    }

    /// Its meaning, as the end of a sentence.
    pub fn reason(self) -> &'static str {
        match self {
            Why::Flow(gate) => gate.reason(),
            Why::Code => "code that cannot be taken apart",
            Why::ShortBranch => "a branch without a long form",
            Why::TooFar => "something out of reach",
            Why::Unwind => "frames that cannot be described elsewhere",
            Why::LandingPads => "landing pads of a form that cannot be written elsewhere",
            Why::ReadsText => "bytes that other code reads",
            Why::TakenInside => "an address taken inside its first bytes",
            Why::NoRoom => "no room for a jump to the new code",
            Why::StartUp => "start-up code",
            Why::NoPlace => "registers or flags in use where a counter would have to be",
            Why::Forks => "a system call that may make a process",
        }
    }
}
