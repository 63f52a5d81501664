//! The process that whoever started Everypath sees: it stops, goes on and ends as the
//! program does, and does nothing else (docs/design/0033).
//!
//! Problem: a shell watches the process that it started, and that has to be stopped while the
//! program is. But who is stopped cannot see that the program was continued, nor take
//! out what other processes of its tree record meanwhile.
//!
//! Approach: that process, the *face*, forks the *observer*, which does all the work, is the
//! program's parent, and has a session of its own, where no signal to the program's group
//! reaches it. The observer says by which signal the face is to stop, and continues it by SIGCONT; the
//! face tells the observer which signals it got (`link`), and ends as the observer does. How the face knows
//! what the program has got already is in `witness`.
//!
//! Invariant: the face waits for nothing but signals, messages and the witness's answers; the
//! observer waits for the face only when the program has ended (`Watch::release`).

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
use crate::orphans::Inherited;
use crate::witness::Witness;
use crate::{Ended, LaunchError, inherit, orphans, signals, witness};

/// Which process the caller is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// The one that runs the program.
    Observer,
    /// The one that was started; the observer has ended so, and so must it.
    Face(Ended, Inherited),
}

/// The observer's way to its face, until the program is started.
static TO_FACE: Mutex<Option<ToFace>> = Mutex::new(None);

pub(crate) struct ToFace {
    pub face: Pid,
    pub link: Link,
}

/// The way to the face, which [`split`] left in the observer.
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
    for signal in [signals::SIGTSTP, signals::SIGTTIN, signals::SIGTTOU] {
        inherit::set(signal, SIG_DFL);
    }
    // After the observer: what the witness gets, that has got, or the program.
    let witness = Witness::start();
    let face = Face {
        observer,
        link: Some(link),
        pending,
        witness,
        inherited: Inherited::default(),
    };
    let (ended, inherited) = face.serve().map_err(LaunchError::Wait)?;
    Ok(Role::Face(ended, inherited))
}

/// Whether a signal that came after this one takes it back (signal(7)), as it did in the witness if
/// both were sent to the group, and would in the program.
fn is_taken_back(signal: u32) -> bool {
    witness::settle();
    let pending = signals::pending();
    match signal {
        SIGCONT => pending.without(signals::STOPS) != pending,
        _ => signals::STOPS.has(signal) && pending.has(SIGCONT),
    }
}

/// Messages of the observer about stopping.
#[derive(Default)]
struct Orders {
    /// The signal that is to stop the face.
    stop: Option<u32>,
    /// Number of the newest stop that was read.
    number: Option<u64>,
}

/// Stops this process by a signal, unless somebody continues it meanwhile. Returns the SIGCONT
/// that continued it, which the observer has not heard of.
fn stop(signal: u32) -> Option<SigInfo> {
    // SIGSTOP takes effect before kill(2) returns; others are pending first, so that a continuation
    // takes them back, and one more of them stops nobody twice.
    signals::send(rustix::process::getpid(), signal);
    sys::sigprocmask(SIG_UNBLOCK, SigSet::only(signal));
    sys::sigprocmask(SIG_BLOCK, SigSet::ALL);
    signals::take(SigSet::only(SIGCONT))
}

struct Face {
    observer: Pid,
    /// `None`: the program has ended.
    link: Option<Link>,
    /// Readable when there is a signal to take.
    pending: OwnedFd,
    witness: Option<Witness>,
    /// Processes that it waited for as process 1.
    inherited: Inherited,
}

impl Face {
    fn serve(mut self) -> io::Result<(Ended, Inherited)> {
        loop {
            self.wait()?;
            self.obey();
            while let Some(info) = signals::take(SigSet::ALL) {
                self.got(&info);
            }
            if orphans::is_init() {
                let witness = self.witness.as_ref().map(Witness::pid);
                let own: Vec<Pid> = witness.into_iter().chain([self.observer]).collect();
                self.inherited.reap(&own);
            }
            if let Some(ended) = self.ended()? {
                self.witness.into_iter().for_each(Witness::end);
                if let Ended::Signaled { signal, .. } = ended {
                    // It is to end this process next.
                    sys::sigprocmask(SIG_UNBLOCK, SigSet::only(signal.cast_unsigned()));
                }
                return Ok((ended, self.inherited));
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

    /// Tells the observer, if it did not send that itself. Returns whether it is news to it.
    fn got(&mut self, info: &SigInfo) -> bool {
        let signal = info.signo.cast_unsigned();
        let is_of_child = signal == SIGCHLD && info.code > 0;
        let is_of_observer =
            info.code == signals::SI_USER && signals::sender(info) == Some(self.observer);
        if is_of_child {
            return false;
        }
        let witness = self.witness.as_mut();
        let is_grouped = witness.is_some_and(|witness| witness.has_got(signal));
        if is_of_observer {
            return false;
        }
        if !is_grouped && is_taken_back(signal) {
            return false;
        }
        self.tell(Message::Got(Got {
            signal,
            code: info.code,
            is_grouped,
            words: [info.fields[0], info.fields[1]],
        }));
        true
    }

    fn tell(&self, message: Message) {
        if let Some(link) = &self.link {
            link.send(message);
        }
    }

    /// Does what the observer says; of stopping and going on, the last.
    fn obey(&mut self) {
        let mut orders = Orders::default();
        let mut continued = None;
        loop {
            self.read(&mut orders);
            let Some(signal) = orders.stop else { break };
            // One that stopped the program and its group, and came here before, is not to stop this
            // process once more; and somebody may have continued it already.
            witness::settle();
            let of_stopping = SigSet::only(signal).with(SigSet::only(SIGCONT));
            let Some(info) = signals::take(of_stopping) else {
                continued = stop(signal);
                break;
            };
            // If the observer sent it, a message came before that.
            if self.got(&info) && info.signo.cast_unsigned() == SIGCONT {
                self.read(&mut orders);
                break;
            }
        }
        // An order that is there by now is older than a continuation by somebody else: it is about
        // a stop of the group that stopped this process, too, before that signal was blocked again.
        let sender = continued.as_ref().and_then(signals::sender);
        if sender.is_some_and(|sender| sender != self.observer) {
            self.read(&mut orders);
        }
        if let Some(number) = orders.number {
            self.tell(Message::Back(number));
        }
        if let Some(info) = continued {
            self.got(&info);
        }
    }

    fn read(&mut self, orders: &mut Orders) {
        loop {
            match self.link.as_ref().map(Link::receive) {
                None | Some(Ok(None)) => return,
                Some(Ok(Some(Message::Stop(signal, number)))) => {
                    orders.stop = Some(signal);
                    orders.number = Some(number);
                }
                Some(Ok(Some(Message::Go))) => orders.stop = None,
                Some(Ok(Some(Message::Lend(group)))) => self.lend(group),
                Some(Ok(Some(_))) => {}
                Some(Err(Closed)) => {
                    self.link = None;
                    orders.stop = None;
                    return;
                }
            }
        }
    }

    /// Gives the terminal to the program's own group, as whoever continued ours has given it to us.
    fn lend(&self, group: u32) {
        use rustix::termios::{tcgetpgrp, tcsetpgrp};
        let group = Pid::from_raw(group.cast_signed());
        if let (Ok(terminal), Some(group)) = (File::open("/dev/tty"), group)
            && let Ok(own) = sys::getpgid(0)
            && tcgetpgrp(&terminal).map(|group| Pid::as_raw(Some(group))) == Ok(own.cast_signed())
        {
            // SIGTTOU is blocked. What cannot be done is what the program finds.
            let _ = tcsetpgrp(&terminal, group);
        }
        self.tell(Message::Lent);
    }

    /// The observer's end, if it has ended.
    fn ended(&self) -> io::Result<Option<Ended>> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        let status = rustix::process::waitid(WaitId::Pid(self.observer), options)?;
        Ok(status.and_then(|status| Ended::of(&status)))
    }
}
