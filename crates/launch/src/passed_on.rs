//! Signals that the face gets while the observer runs a program that it has started itself, as edited programs are.
//!
//! Approach: a thread listens to the face. What the face's group got the program has got already, as it is in that group; what the face
//! got alone is sent on.
//!
//! Limits: the face does not stop when the program does.

use std::io::{PipeReader, PipeWriter, pipe};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::Pid;
use sys::signal::SigInfo;

use crate::face::{self, ToFace};
use crate::link::{Got, Message};
use crate::signals;

/// Signals are passed on until this is dropped.
pub struct PassedOn {
    /// The thread ends when it is closed.
    ends: Option<PipeWriter>,
    works: Option<JoinHandle<()>>,
}

impl Drop for PassedOn {
    fn drop(&mut self) {
        drop(self.ends.take());
        if let Some(works) = self.works.take() {
            let _ = works.join();
        }
    }
}

/// Passes signals on to a program; `None`: there is no face, or nothing can be passed on.
pub fn pass_on(program: Pid) -> Option<PassedOn> {
    let (is_over, ends) = pipe().ok()?;
    let face = face::to_face()?;
    let works = std::thread::Builder::new().spawn(move || listen(&face, &is_over, program));
    Some(PassedOn {
        ends: Some(ends),
        works: Some(works.ok()?),
    })
}

fn listen(face: &ToFace, is_over: &PipeReader, program: Pid) {
    loop {
        let mut both = [
            PollFd::new(&face.link, PollFlags::IN),
            PollFd::new(is_over, PollFlags::IN),
        ];
        if poll(&mut both, None).is_err_and(|error| error != rustix::io::Errno::INTR) {
            return;
        }
        if !both[1].revents().is_empty() {
            return;
        }
        match face.link.receive() {
            Ok(Some(Message::Got(got))) if !got.is_grouped => send(program, &got),
            Ok(_) => {}
            Err(_) => return,
        }
    }
}

fn send(program: Pid, got: &Got) {
    if got.code != signals::SI_QUEUE {
        signals::send(program, got.signal);
        return;
    }
    let mut info = SigInfo {
        signo: got.signal.cast_signed(),
        code: got.code,
        ..SigInfo::NONE
    };
    info.fields[..2].copy_from_slice(&got.words);
    signals::queue(program, &info);
}
