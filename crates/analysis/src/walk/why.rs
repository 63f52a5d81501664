//! Why control goes elsewhere without a branch.

use trace::stream::why;

/// Why control goes elsewhere without a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The thread begins.
    Start,
    /// To the handler of a signal.
    Signal(u8),
    /// A handler returns.
    Sigreturn,
    /// Back from the vsyscall page.
    Vsyscall,
    /// Control came from code that was not to be traced, of which nothing is known.
    Unselected,
    /// Control came from a time in which nothing was traced.
    Off,
    /// It is there already, and no instruction can be fetched there.
    Nowhere,
    /// A far branch went there.
    Far,
    /// Control came from a part that the file has lost ([`super::Walk::past_losses`]).
    Lost,
    /// A reason that this build does not know.
    Unknown(u8),
}

impl Why {
    pub(super) fn number(self) -> u8 {
        match self {
            Why::Start => why::START,
            Why::Sigreturn => why::SIGRETURN,
            Why::Vsyscall => why::VSYSCALL,
            Why::Unselected => why::UNSELECTED,
            Why::Off => why::OFF,
            Why::Nowhere => why::NOWHERE,
            Why::Far => why::FAR,
            // No stream says it.
            Why::Lost => 0xff,
            Why::Signal(number) | Why::Unknown(number) => number,
        }
    }

    pub(super) fn of(number: u8) -> Why {
        match number {
            why::START => Why::Start,
            1..=64 => Why::Signal(number),
            why::SIGRETURN => Why::Sigreturn,
            why::VSYSCALL => Why::Vsyscall,
            why::UNSELECTED => Why::Unselected,
            why::OFF => Why::Off,
            why::NOWHERE => Why::Nowhere,
            why::FAR => Why::Far,
            other => Why::Unknown(other),
        }
    }
}
