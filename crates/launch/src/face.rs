//! The process that whoever started Everypath sees: it stops, goes on and ends as the
//! program does, and does nothing else (docs/design/0033).
//!
//! Problem: a shell watches the process that it started, and that has to be stopped while the
//! program is. But who is stopped cannot see that the program was continued, nor take
//! out what other processes of its tree record meanwhile.
//!
//! Approach: that process, the *face*, forks the *observer*, which does all the work, is the
//! program's parent, and has a session of its own, where no signal to the program's group
//! reaches it. The observer stops and continues the face by signals; the face tells the observer
//! which signals it got itself (`link`), and ends as the observer does. How the face knows
//! what the program has got already is in `witness`.
//!
//! Invariant: the face waits for nothing but signals and messages, and the observer never
//! waits for the face.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, WaitId, WaitIdOptions};
use sys::signal::{
    SIG_BLOCK, SIG_DFL, SIG_SETMASK, SIG_UNBLOCK, SIGCHLD, SIGCONT, SIGSTOP, SigInfo, SigSet,
};

use crate::link::{Closed, Got, Link, Message};
use crate::witness::Witness;
use crate::{Ended, LaunchError, inherit, signals};

/// Which process the caller is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The one that runs the program.
    Observer,
    /// The one that was started; the observer has ended so, and so must it.
    Face(Ended),
}

/// The observer's way to its face, until the program is started.
static TO_FACE: Mutex<Option<ToFace>> = Mutex::new(None);

pub(crate) struct ToFace {
    pub face: Pid,
    pub link: Link,
}

/// What [`split`] left in this process.
pub(crate) fn to_face() -> Option<ToFace> {
    TO_FACE
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take()
}

/// Forks the observer; in the face, returns when that has ended. This process has one thread.
pub fn split() -> Result<Role, LaunchError> {
    let failed = LaunchError::Fork;
    let before = sys::sigprocmask(SIG_SETMASK, SigSet::ALL);
    let face = rustix::process::getpid();
    let (link, its) = Link::pair().map_err(failed)?;
    let pending = signals::readable(SigSet::ALL).map_err(failed)?;
    // SAFETY: one thread, says the contract of this function.
    let observer = unsafe { signals::fork() }.map_err(failed)?;
    let Some(observer) = observer else {
        drop((link, pending));
        let link = its;
        *TO_FACE.lock().unwrap_or_else(PoisonError::into_inner) = Some(ToFace { face, link });
        // Until the program is there to be stopped, nothing is (`wait::spawn`).
        let stops = signals::STOPS.without(SigSet::only(SIGSTOP));
        sys::sigprocmask(SIG_SETMASK, before.with(stops));
        return Ok(Role::Observer);
    };
    drop(its);
    // After the observer: what the witness gets, that has got, or the program.
    let witness = Witness::start();
    let face = Face {
        observer,
        link: Some(link),
        pending,
        witness,
        armed: SigSet::EMPTY,
        held: 0,
    };
    Ok(Role::Face(face.serve().map_err(LaunchError::Wait)?))
}

struct Face {
    observer: Pid,
    /// `None`: the program has ended.
    link: Option<Link>,
    /// Readable when there is a signal to take.
    pending: OwnedFd,
    witness: Option<Witness>,
    /// The signal that is not blocked, because it is to stop this process.
    armed: SigSet,
    /// Of the newest [`Message::Held`].
    held: u64,
}

impl Face {
    fn serve(mut self) -> io::Result<Ended> {
        loop {
            self.wait()?;
            self.obey();
            while let Some(info) = signals::take(SigSet::ALL.without(self.armed)) {
                self.got(&info);
            }
            if let Some(ended) = self.ended()? {
                self.witness.into_iter().for_each(Witness::end);
                if let Ended::Signaled { signal, .. } = ended {
                    // It is to end this process next.
                    sys::sigprocmask(SIG_UNBLOCK, SigSet::only(signal.cast_unsigned()));
                }
                return Ok(ended);
            }
        }
    }

    fn wait(&self) -> io::Result<()> {
        let pending = PollFd::new(&self.pending, PollFlags::IN);
        let link = self.link.iter();
        let link = link.map(|link| PollFd::new(link, PollFlags::IN));
        let mut all: Vec<PollFd<'_>> = std::iter::once(pending).chain(link).collect();
        match poll(&mut all, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn got(&mut self, info: &SigInfo) {
        let signal = info.signo.cast_unsigned();
        match signal {
            // Of the observer or the witness.
            SIGCHLD if info.code > 0 => return,
            SIGCONT => self.disarm(),
            _ => {}
        }
        if info.code == signals::SI_USER && signals::sender(info) == Some(self.observer) {
            return;
        }
        let witness = self.witness.as_mut();
        let is_grouped = witness.is_some_and(|witness| witness.has_got(signal));
        if let Some(link) = &self.link {
            link.send(Message::Got(Got {
                signal,
                code: info.code,
                is_grouped,
                words: [info.fields[0], info.fields[1]],
                held: self.held,
            }));
        }
    }

    /// Does what the observer says.
    fn obey(&mut self) {
        loop {
            let message = match self.link.as_ref().map(Link::receive) {
                None | Some(Ok(None)) => return,
                Some(Ok(Some(message))) => message,
                Some(Err(Closed)) => {
                    self.link = None;
                    self.disarm();
                    return;
                }
            };
            match message {
                Message::Arm(signal) => self.arm(signal),
                Message::Disarm => self.disarm(),
                Message::Held(time) => self.held = time,
                Message::Lend(group) => self.lend(group),
                Message::Got(_) | Message::Ready(_) | Message::Lent => {}
            }
        }
    }

    fn arm(&mut self, signal: u32) {
        self.disarm();
        // One that came before would stop this process before the observer knows.
        while let Some(info) = signals::take(SigSet::only(signal)) {
            self.got(&info);
        }
        self.armed = SigSet::only(signal);
        inherit::set(signal, SIG_DFL);
        sys::sigprocmask(SIG_UNBLOCK, self.armed);
        if let Some(link) = &self.link {
            link.send(Message::Ready(signal));
        }
    }

    fn disarm(&mut self) {
        sys::sigprocmask(SIG_BLOCK, SigSet::ALL);
        self.armed = SigSet::EMPTY;
    }

    /// Gives the terminal to the program's own group, as whoever continued ours has given it to us.
    fn lend(&self, group: u32) {
        use rustix::termios::{tcgetpgrp, tcsetpgrp};
        let group = Pid::from_raw(group.cast_signed());
        if let (Ok(terminal), Some(group)) = (File::open("/dev/tty"), group)
            && tcgetpgrp(&terminal) == Ok(rustix::process::getpgrp())
        {
            // SIGTTOU is blocked. What cannot be done is what the program finds.
            let _ = tcsetpgrp(&terminal, group);
        }
        if let Some(link) = &self.link {
            link.send(Message::Lent);
        }
    }

    /// How the observer has ended, if it has.
    fn ended(&self) -> io::Result<Option<Ended>> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        let status = rustix::process::waitid(WaitId::Pid(self.observer), options)?;
        Ok(status.and_then(|status| Ended::of(&status)))
    }
}
