//! Whether a signal was sent to a process or to its whole group.
//!
//! Problem: the face passes on what it gets, but what its group gets the program has got
//! already; a handler must not run twice. The kernel does not say which it was.
//!
//! Approach: the *witness* is a process of the face's group that blocks all signals and does
//! nothing. What the face got and the witness did not was for the face alone. When the face
//! has got a signal, and asks, the witness has it: the kernel sends a signal to all of a
//! group under its lock of all tasks, which `setpgid` takes, too (kernel/signal.c,
//! kernel/sys.c).
//!
//! Limits: signals of one number merge while they are pending, so of two that are sent before the
//! witness runs, one to the group and one to the face, the program gets the former only. It may
//! natively, too.

use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendFlags};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use sys::signal::{SIGCONT, SIGKILL, SigSet};

use crate::{link, signals};

pub(crate) struct Witness {
    pid: Pid,
    end: OwnedFd,
    /// Signals that it had got, that nobody has asked for, and that the face has pending.
    seen: SigSet,
}

impl Witness {
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// All signals are blocked, and there is one thread. `None`: no process can be made.
    pub fn start() -> Option<Witness> {
        let face = rustix::process::getpid();
        let (end, its) = link::socketpair().ok()?;
        // SAFETY: one thread, says the caller.
        let forked = unsafe { signals::fork() };
        match forked.ok()? {
            Some(pid) => Some(Witness {
                pid,
                end,
                seen: SigSet::EMPTY,
            }),
            None => {
                drop(end);
                attest(face, &its)
            }
        }
    }

    /// Whether it has got `signal`, which the face has taken, since the last time.
    pub fn has_got(&mut self, signal: u32) -> bool {
        settle();
        let news = self.news().unwrap_or(SigSet::EMPTY);
        let had = self.seen.with(news);
        settle();
        // The rest was taken back in the face, or merged with another one. If the face has the same
        // signal pending once more, the two have merged here.
        self.seen = SigSet(had.0 & signals::pending().0);
        had.has(signal)
    }

    fn news(&self) -> Option<SigSet> {
        rustix::net::send(&self.end, &[0], SendFlags::NOSIGNAL).ok()?;
        loop {
            // Its group was stopped, and the face alone continued.
            if self.is_stopped() {
                signals::send(self.pid, SIGCONT);
            }
            let mut wait = [PollFd::new(&self.end, PollFlags::IN)];
            let while_stopped = Timespec {
                tv_sec: 0,
                tv_nsec: 10_000_000,
            };
            if poll(&mut wait, Some(&while_stopped)).is_ok_and(|ready| ready > 0) {
                break;
            }
        }
        let mut bytes = [0; 8];
        match rustix::net::recv(&self.end, &mut bytes[..], RecvFlags::empty()) {
            Ok((8, _)) => Some(SigSet(u64::from_le_bytes(bytes))),
            _ => None,
        }
    }

    fn is_stopped(&self) -> bool {
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let state = rustix::process::waitid(WaitId::Pid(self.pid), options);
        state.is_ok_and(|state| state.is_some())
    }

    pub fn end(self) {
        signals::send(self.pid, SIGKILL);
        let _ = rustix::process::waitid(WaitId::Pid(self.pid), WaitIdOptions::EXITED);
    }
}

/// Waits until signals that are just being sent to the group have come to all of it.
pub(crate) fn settle() {
    let group = sys::getpgid(0)
        .ok()
        .and_then(|group| Pid::from_raw(group.cast_signed()));
    // A group of another namespace has no number here, and nobody here signals it.
    if let Some(group) = group {
        let _ = rustix::process::setpgid(None, Some(group));
    }
}

/// The witness itself.
fn attest(face: Pid, end: &OwnedFd) -> ! {
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    let mut question = [0];
    while let Ok((1, _)) = rustix::net::recv(end, &mut question[..], RecvFlags::empty()) {
        let mut got = SigSet::EMPTY;
        while let Some(info) = signals::take(SigSet::ALL) {
            if signals::sender(&info) != Some(face) {
                got = got.with(SigSet::only(info.signo.cast_unsigned()));
            }
        }
        if rustix::net::send(end, &got.0.to_le_bytes(), SendFlags::NOSIGNAL).is_err() {
            break;
        }
    }
    sys::exit_group(0)
}
