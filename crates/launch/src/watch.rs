//! The observer's watch over the program and over the face, which are to do the same: stop,
//! go on, and end.
//!
//! Everything that happens is an event of one loop, and each is answered at once:
//!
//! | what happened | answer |
//! |---|---|
//! | the program stopped by a signal | the face is told to stop itself by that |
//! | the program was continued | the face is told, and sent SIGCONT if it is stopped |
//! | the face got a signal alone | the same signal to the program |
//! | the face got it with its group | nothing: the program got it, too (but see `passed_on`) |
//! | the face alone was stopped | SIGSTOP to the program |
//! | this process got a signal | the same signal to the program |
//! | the face is gone | SIGKILL to the program |
//!
//! The face stops itself, as it alone knows whether somebody has continued it since it was to stop:
//! a stop that is sent takes a SIGCONT back that was not taken yet (signal(7)).
//!
//! Invariants: the face is sent a SIGCONT only while it is stopped or has a SIGSTOP pending, as that
//! takes back stops that it has not heard of. The kernel tells a parent of the last change of state at
//! last and may skip ones before, so each answer depends on that state and the face's, not on the way
//! there: of a stop and a continuation of the program in a row, only the latter may be seen, and the
//! face have been stopped with the group.
//!
//! Limits: nobody is told that a process which is no child of theirs was stopped. So the
//! face's state is read every [`TURN`], and if it has not been the program's for long, the
//! two are brought together again. That is the only way in which SIGSTOP to the face alone is noticed,
//! and mends what signals of several senders did that took each other back on the way.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, WaitId, WaitIdOptions, WaitIdStatus, WaitOptions};
use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use sys::signal::{SIGCHLD, SIGCONT, SIGKILL, SIGSTOP, SigInfo};

use crate::control::{self, Control};
use crate::face::ToFace;
use crate::link::{Closed, Got, Message};
use crate::proc::Process;
use crate::{Ended, LaunchError, signals, witness};

/// Time between two looks at the face's state.
const TURN: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 20_000_000,
};
/// The face has been stopped for so long and the program has not: it was stopped alone. A signal
/// to both reaches them sooner.
const ALONE: Duration = Duration::from_millis(100);
/// The program has been stopped for so long and the face has not: a signal was lost.
const LOST: Duration = Duration::from_millis(500);

impl Ended {
    /// `None`: it has not.
    pub(crate) fn of(status: &WaitIdStatus) -> Option<Ended> {
        if let Some(signal) = status.terminating_signal() {
            let core = status.dumped();
            return Some(Ended::Signaled { signal, core });
        }
        status.exit_status().map(Ended::Exited)
    }
}

/// The program's state, as the kernel last told it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Running,
    StoppedBy(u32),
    Ended(Ended),
}

pub(crate) struct Watch {
    program: Pid,
    state: State,
    /// The face was stopped alone, so the program was stopped after it, and neither was seen to
    /// be continued since.
    is_following: bool,
    /// The face was continued, and that is passed on to the program, which was stopped: if the
    /// face is stopped again when the program goes on, that stop is newer.
    has_gone_on: bool,
    /// The newest message about stopping was a [`Message::Stop`], no [`Message::Go`].
    is_told_to_stop: bool,
    /// Number of the newest [`Message::Stop`].
    stops: u64,
    /// Number of the newest [`Message::Back`].
    back: u64,
    /// Since when the one is stopped and the other is not.
    apart: Option<Instant>,
    /// `None`: there is none, or none any more.
    face: Option<Seen>,
    control: Control,
    /// It waits for what the program leaves behind, which becomes this process's child.
    waits_for_all: bool,
    /// Somebody asked for the end of that.
    is_over: bool,
    /// Readable after a change of state of a child.
    changes: UnixStream,
    _handler: Handler,
}

/// The face, and what is known of it.
struct Seen {
    at: ToFace,
    process: Process,
    own: Own,
}

/// Handler of SIGCHLD, unregistered on drop.
struct Handler(SigId);

impl Drop for Handler {
    fn drop(&mut self) {
        signal_hook::low_level::unregister(self.0);
    }
}

/// Signals that would end this process, with whether each came.
pub(crate) struct Own(Vec<(i32, Arc<AtomicBool>)>);

impl Own {
    /// From now on they do not end it.
    pub fn keep() -> Result<Own, LaunchError> {
        let keep = |signal| {
            let came = Arc::new(AtomicBool::new(false));
            signal_hook::flag::register(signal, Arc::clone(&came)).map_err(LaunchError::Wait)?;
            Ok((signal, came))
        };
        let signals = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];
        Ok(Own(signals
            .into_iter()
            .map(keep)
            .collect::<Result<_, _>>()?))
    }
}

/// Whether a signal asks a program to end.
fn ends(signal: i32) -> bool {
    matches!(signal, SIGHUP | SIGINT | SIGQUIT | SIGTERM)
}

impl Watch {
    /// Watches a child that nobody else waits for.
    pub fn new(
        program: Pid,
        face: Option<(ToFace, Own)>,
        control: Control,
        waits_for_all: bool,
    ) -> Result<Watch, LaunchError> {
        let failed = LaunchError::Wait;
        let (changes, told) = UnixStream::pair().map_err(failed)?;
        changes.set_nonblocking(true).map_err(failed)?;
        let handler = signal_hook::low_level::pipe::register(SIGCHLD.cast_signed(), told);
        let face = face.map(|(at, own)| {
            let process = Process::of(at.face);
            Seen { at, process, own }
        });
        Ok(Watch {
            program,
            state: State::Running,
            is_following: false,
            has_gone_on: false,
            is_told_to_stop: false,
            stops: 0,
            back: 0,
            apart: None,
            face,
            control,
            waits_for_all,
            is_over: false,
            changes,
            _handler: Handler(handler.map_err(failed)?),
        })
    }

    /// To the program's end, or to that of the last process that it leaves behind.
    pub fn watch(mut self) -> Result<Ended, LaunchError> {
        loop {
            self.listen()?;
            self.pass_on_own();
            self.observe()?;
            if let State::Ended(ended) = self.state {
                if self.waits_for_all {
                    self.outlast()?;
                }
                self.release()?;
                return Ok(ended);
            }
            self.reconcile();
            self.wait()?;
        }
    }

    /// Waits until no process is left, or a signal asks for the end.
    fn outlast(&mut self) -> Result<(), LaunchError> {
        while !self.is_over {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some(_)) | Err(rustix::io::Errno::INTR) => continue,
                Ok(None) => self.wait()?,
                Err(_) => return Ok(()),
            }
            self.listen()?;
            self.pass_on_own();
        }
        Ok(())
    }

    fn wait(&mut self) -> Result<(), LaunchError> {
        let mut all = vec![PollFd::new(&self.changes, PollFlags::IN)];
        if let Some(face) = &self.face {
            all.push(PollFd::new(&face.at.link, PollFlags::IN));
        }
        match poll(&mut all, self.face.is_some().then_some(&TURN)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(LaunchError::Wait(error.into())),
        }
        while (&self.changes)
            .read(&mut [0; 64])
            .is_ok_and(|read| read > 0)
        {}
        Ok(())
    }

    /// Asks the kernel what has become of the program, and has the face do the same.
    fn observe(&mut self) -> Result<(), LaunchError> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::STOPPED | WaitIdOptions::CONTINUED;
        let mut newest = None;
        while !matches!(self.state, State::Ended(_)) {
            let program = WaitId::Pid(self.program);
            let status = rustix::process::waitid(program, options | WaitIdOptions::NOHANG);
            let Some(status) = status.map_err(|error| LaunchError::Wait(error.into()))? else {
                break;
            };
            if let Some(ended) = Ended::of(&status) {
                self.state = State::Ended(ended);
                return Ok(());
            }
            newest = Some(status);
        }
        if let Some(status) = newest {
            match status.stopping_signal() {
                Some(signal) => self.stopped(signal.cast_unsigned()),
                None => self.continued(),
            }
        }
        Ok(())
    }

    fn stopped(&mut self, signal: u32) {
        self.state = State::StoppedBy(signal);
        self.has_gone_on = false;
        let is_told = self.is_told_to_stop && self.is_held();
        // If it was stopped with its group, or before, it would come to a message when it has been
        // continued, and stop again.
        if !self.is_following && !is_told && !self.is_face_stopping() {
            self.hold(signal);
        }
    }

    fn continued(&mut self) {
        self.state = State::Running;
        self.is_following = false;
        if self.is_held() {
            self.go();
        }
        let is_older = !std::mem::take(&mut self.has_gone_on);
        if is_older && self.is_face_stopping() {
            self.signal_face(SIGCONT);
        }
    }

    fn hold(&mut self, signal: u32) {
        self.stops += 1;
        self.is_told_to_stop = true;
        self.tell(Message::Stop(signal, self.stops));
    }

    fn go(&mut self) {
        self.is_told_to_stop = false;
        self.tell(Message::Go);
    }

    /// The face is stopped, or is about to be, because it was told to.
    fn is_held(&self) -> bool {
        self.back != self.stops
    }

    /// Continues the face, which has to wait for the end of this process, and sees to it that it does
    /// not stop itself any more.
    fn release(&mut self) -> Result<(), LaunchError> {
        self.go();
        self.signal_face(SIGCONT);
        // One that was just stopping itself has not noticed.
        while self.is_held() && self.has_face() {
            self.wait()?;
            self.listen()?;
            if self.face_state() == Some(b'T') {
                self.signal_face(SIGCONT);
            }
        }
        Ok(())
    }

    fn tell(&self, message: Message) {
        if let Some(face) = &self.face {
            face.at.link.send(message);
        }
    }

    /// A process that has ended is no process: its number may be another one's.
    fn signal_program(&self, signal: u32) {
        if !matches!(self.state, State::Ended(_)) {
            signals::send(self.program, signal);
        }
    }

    fn signal_group(&self, signal: u32) {
        if !matches!(self.state, State::Ended(_)) {
            signals::send_group(self.program, signal);
        }
    }

    /// Whether the face is there: a process that is gone is this one's parent no more.
    fn has_face(&self) -> bool {
        let face = self.face.as_ref();
        face.is_some_and(|face| rustix::process::getppid() == Some(face.at.face))
    }

    fn signal_face(&self, signal: u32) {
        if let Some(face) = self.face.as_ref().filter(|_| self.has_face()) {
            signals::send(face.at.face, signal);
        }
    }

    /// Does what messages of the face ask for.
    fn listen(&mut self) -> Result<(), LaunchError> {
        loop {
            let received = self.face.as_ref().map(|face| face.at.link.receive());
            match received {
                None | Some(Ok(None)) => return Ok(()),
                Some(Ok(Some(Message::Got(got)))) => self.passed_on(&got)?,
                Some(Ok(Some(Message::Back(number)))) => self.back = number,
                Some(Ok(Some(Message::Lent))) => self.signal_group(SIGCONT),
                Some(Ok(Some(_))) => {}
                Some(Err(Closed)) => {
                    // Only SIGKILL ends it before us, and that was meant for the program.
                    self.face = None;
                    self.is_over = true;
                    self.signal_program(SIGKILL);
                }
            }
        }
    }

    /// Passes on what was sent to this process itself: who means all processes of Everypath by
    /// their name, as pkill(1), reaches the face and the witness, as if that were the group.
    fn pass_on_own(&mut self) {
        let own = self.face.iter().flat_map(|face| &face.own.0);
        for (signal, _) in own.filter(|(_, came)| came.swap(false, Relaxed)) {
            self.is_over |= ends(*signal) && matches!(self.state, State::Ended(_));
            match self.control.wish(*signal) {
                Some(wish) => drop(control::ask(&self.control.address, wish)),
                None => self.signal_program(signal.cast_unsigned()),
            }
        }
    }

    /// The face got a signal.
    fn passed_on(&mut self, got: &Got) -> Result<(), LaunchError> {
        let was_sent = got.code <= 0;
        if let (true, Some(wish)) = (was_sent, self.control.wish(got.signal.cast_signed())) {
            // Nobody is there to be told that the run is over.
            let _ = control::ask(&self.control.address, wish);
            return Ok(());
        }
        // A SIGCONT to the group has continued the program already.
        self.has_gone_on |= got.signal == SIGCONT;
        self.observe()?;
        if matches!(self.state, State::Ended(_)) {
            self.is_over |= ends(got.signal.cast_signed());
            return Ok(());
        }
        let is_stopped = matches!(self.state, State::StoppedBy(_));
        self.has_gone_on = got.signal == SIGCONT && !got.is_grouped && is_stopped;
        let was_following = self.is_following;
        if got.signal == SIGCONT || signals::STOPS.has(got.signal) {
            self.is_following = false;
        }
        match got.is_grouped {
            // Natively that is one group.
            true if self.has_a_group_for_the_faces() && got.signal == SIGCONT => {
                let group = Pid::as_raw(Some(self.program)).cast_unsigned();
                self.tell(Message::Lend(group));
            }
            true if self.has_a_group_for_the_faces() => {
                self.signal_group(got.signal);
            }
            // It came before the SIGSTOP that it was to take back.
            true if got.signal == SIGCONT && was_following => {
                self.signal_program(SIGCONT);
            }
            true => {}
            false if got.code == signals::SI_QUEUE => {
                let mut info = SigInfo {
                    signo: got.signal.cast_signed(),
                    code: got.code,
                    ..SigInfo::NONE
                };
                info.fields[..2].copy_from_slice(&got.words);
                signals::queue(self.program, &info);
            }
            false => self.signal_program(got.signal),
        }
        // The face went on and was to stop again, before it could say the former.
        if is_stopped && signals::STOPS.has(got.signal) {
            self.stopped(got.signal);
        }
        Ok(())
    }

    /// A program that is started as the leader of a group stays that natively, whatever it
    /// does; here it may have made one of its own.
    fn has_a_group_for_the_faces(&self) -> bool {
        let number = |pid| Pid::as_raw(Some(pid)).cast_unsigned();
        let leads = |pid| sys::getpgid(number(pid)) == Ok(number(pid));
        let face = self.face.as_ref();
        face.is_some_and(|face| leads(face.at.face)) && leads(self.program)
    }

    /// Brings the two together again that have been apart for long.
    fn reconcile(&mut self) {
        let state = self.face_state();
        let (is_apart, long) = match self.state {
            // It was just stopping itself when it was continued.
            State::Running if self.is_held() => (state == Some(b'T'), Duration::ZERO),
            State::Running => (state == Some(b'T'), ALONE),
            // It has not come to that yet.
            State::StoppedBy(_) if self.is_held() => (false, LOST),
            State::StoppedBy(_) => {
                let runs = state.is_some_and(|state| !matches!(state, b'T' | b't'));
                (runs, LOST)
            }
            State::Ended(_) => (false, LOST),
        };
        if !is_apart {
            self.apart = None;
            return;
        }
        if self.apart.get_or_insert_with(Instant::now).elapsed() < long {
            return;
        }
        self.apart = None;
        match self.state {
            State::Running if self.is_held() => self.signal_face(SIGCONT),
            State::Running => {
                self.is_following = true;
                self.signal_program(SIGSTOP);
            }
            _ if self.is_following => {
                self.is_following = false;
                self.signal_program(SIGCONT);
            }
            // The kernel did not stop it, as the group is orphaned, or it was continued before.
            _ => self.hold(SIGSTOP),
        }
    }

    /// See [`Process::state`].
    fn face_state(&self) -> Option<u8> {
        self.face.as_ref()?.process.state()
    }

    /// Signals that were being sent to its group when this was called have come to it.
    fn is_face_stopping(&self) -> bool {
        witness::settle();
        let face = self.face.as_ref();
        face.is_some_and(|face| face.process.is_stopping())
    }
}
