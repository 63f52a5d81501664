//! Ending as the program ended, so that whoever started Everypath sees what it
//! would have seen without it.

use std::process::ExitCode;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::low_level;

/// How this process is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Exit(u8),
    /// By the same signal that killed the program.
    Signal(i32),
}

impl Ending {
    /// As the program ended.
    pub fn of(ended: launch::Ended) -> Ending {
        match ended {
            launch::Ended::Exited(status) => Ending::Exit(status as u8),
            launch::Ended::Signaled { signal, .. } => Ending::Signal(signal),
            // Nobody asks for this process's own.
            launch::Ended::Unknown => Ending::Exit(0),
        }
    }

    /// Ends by the signal, or returns the exit code for `main`.
    pub fn finish(self) -> ExitCode {
        match self {
            Ending::Exit(code) => ExitCode::from(code),
            Ending::Signal(signal) => {
                die_by(signal);
                // Not reached unless the signal is blocked from outside; a
                // shell shows the same number for both.
                ExitCode::from(128_u8.wrapping_add(signal as u8))
            }
        }
    }
}

/// The program has dumped its core if it wanted to; ours would say nothing.
fn die_by(signal: i32) {
    let maximum = getrlimit(Resource::Core).maximum;
    let none = Rlimit {
        current: Some(0),
        maximum,
    };
    // If the limit cannot be lowered, a superfluous core file is all that happens.
    let _ = setrlimit(Resource::Core, none);
    // Resets the disposition (Rust ignores SIGPIPE), unblocks and raises. It
    // does not know real-time signals; those have their default disposition still.
    if low_level::emulate_default_handler(signal).is_err() {
        let _ = low_level::raise(signal);
    }
}
