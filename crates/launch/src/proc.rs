//! The state of another process, by /proc: whether it is stopped, or will be.

use std::fs::File;
use std::os::unix::fs::FileExt;

use rustix::process::Pid;
use sys::signal::{SIGSTOP, SigSet};

/// Files about one process. Without /proc, nothing is known of it.
pub(crate) struct Process {
    stat: Option<File>,
    status: Option<File>,
}

impl Process {
    pub fn of(pid: Pid) -> Process {
        let open = |name| File::open(format!("/proc/{pid}/{name}")).ok();
        Process {
            stat: open("stat"),
            status: open("status"),
        }
    }

    /// The letter of proc(5).
    pub fn state(&self) -> Option<u8> {
        let mut text = [0; 128];
        let read = self.stat.as_ref()?.read_at(&mut text, 0).ok()?;
        // PID (NAME) STATE ...: the name may have any character.
        let name_end = text[..read].iter().rposition(|byte| *byte == b')')?;
        text.get(name_end + 2).copied()
    }

    pub fn is_stopped(&self) -> bool {
        self.state() == Some(b'T')
    }

    /// Whether it is stopped, or has been sent a SIGSTOP that will stop it when it runs next.
    pub fn is_stopping(&self) -> bool {
        // The kernel takes the signal and changes the state in one step, so in this order one of
        // the two is seen.
        let pending = self.pending().unwrap_or(SigSet::EMPTY);
        pending.has(SIGSTOP) || self.is_stopped()
    }

    /// Signals that were sent to the process and have not been taken.
    fn pending(&self) -> Option<SigSet> {
        let mut text = [0; 4096];
        let read = self.status.as_ref()?.read_at(&mut text, 0).ok()?;
        pending_in(&text[..read])
    }
}

fn pending_in(status: &[u8]) -> Option<SigSet> {
    let lines = status.split(|byte| *byte == b'\n');
    let digits = lines
        .filter_map(|line| line.strip_prefix(b"ShdPnd:"))
        .next()?;
    let digits = str::from_utf8(digits).ok()?.trim();
    u64::from_str_radix(digits, 16).ok().map(SigSet)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pending_signals_are_found() {
        let status = b"Name:\tShdPnd: 7\nSigPnd:\t0000000000000001\nShdPnd:\t0000000000040000\n";
        assert_eq!(pending_in(status), Some(SigSet::only(SIGSTOP)));
        assert_eq!(pending_in(b"ShdPnd:\tno\n"), None);
        assert_eq!(pending_in(b"Name:\ta\n"), None);
    }

    #[test]
    fn who_reads_is_not_stopped() {
        let me = Process::of(rustix::process::getpid());
        assert!(!me.is_stopping());
        assert_eq!(me.pending().map(|set| set.has(SIGSTOP)), Some(false));
        // A test has several threads; that of the process waits for the others.
        assert!(me.state().is_some_and(|state| matches!(state, b'S' | b'R')));
    }
}
