//! Starting the program.
//!
//! It begins in the process group and session of the face, with the terminal, and with the
//! signals' state that our caller gave us. From then on the observer is in a session of its own.

use std::ffi::OsStr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::Pid;
use sys::signal::{SIG_SETMASK, SIGCHLD, SigSet};

use crate::face;
use crate::in_place::InPlace;
use crate::pool::OwnedPool;
use crate::watch::{Own, Watch};
use crate::{Ended, LaunchError, Request, in_place, inherit, signals};

/// The watch over the program.
pub(crate) enum Watching {
    Child(Box<Watch>),
    InPlace(InPlace),
}

impl Watching {
    /// To the program's end.
    pub fn watch(self) -> Result<Ended, LaunchError> {
        match self {
            Watching::Child(watch) => watch.watch(),
            Watching::InPlace(watch) => watch.watch(),
        }
    }
}

/// Executes the payload with the program's arguments behind the engine's orders.
pub(crate) fn spawn(
    pool: &OwnedPool,
    payload: &OwnedFd,
    request: &Request,
) -> Result<Watching, LaunchError> {
    let (file, argv) = crate::script::resolve(&request.program, &request.argv);
    let orders = crate::orders(pool, payload, &file, &request.program);
    // The path names this process's descriptor even after an exec in its place.
    let path = format!("/proc/{}/fd/{}", std::process::id(), payload.as_raw_fd());
    let mut words = vec![
        "everypath".into(),
        OsStr::from_bytes(orders.as_bytes()).into(),
    ];
    words.extend(argv);
    if let Some(watch) = in_place::start(&path, &words)? {
        return Ok(Watching::InPlace(watch));
    }
    let mut command = Command::new(path);
    command.arg0(&words[0]).args(&words[1..]);
    inherit::restore(&mut command);
    let control = request.control.clone().unwrap_or_default();
    if request.waits_for_all {
        // Whoever outlives its parent becomes a child of this process.
        let failed = |error: rustix::io::Errno| LaunchError::Wait(error.into());
        let me = rustix::process::getpid();
        rustix::process::set_child_subreaper(Some(me)).map_err(failed)?;
    }
    let watch = match face::to_face() {
        Some(face) => {
            let (program, own) = spawn_beside(&mut command)?;
            Watch::new(program, Some((face, own)), control, request.waits_for_all)
        }
        None => {
            let program = spawn_alone(&mut command)?;
            Watch::new(program, None, control, request.waits_for_all)
        }
    };
    Ok(Watching::Child(Box::new(watch?)))
}

fn spawn_alone(command: &mut Command) -> Result<Pid, LaunchError> {
    let child = command
        .spawn()
        .map_err(|error| LaunchError::Exec { error })?;
    Ok(Pid::from_raw(child.id().cast_signed()).expect("a child has a positive number"))
}

/// Starts it and leaves its group. Signals that came to the group before that, and so to this
/// process, are for the program; of one that comes just now it may get two.
fn spawn_beside(command: &mut Command) -> Result<(Pid, Own), LaunchError> {
    sys::sigprocmask(SIG_SETMASK, SigSet::ALL);
    let spawned = spawn_alone(command).and_then(|program| {
        // It cannot fail: who was forked leads no group.
        let _ = rustix::process::setsid();
        let others = SigSet::ALL.without(SigSet::only(SIGCHLD));
        while let Some(info) = signals::take(others) {
            signals::send(program, info.signo.cast_unsigned());
        }
        Ok((program, Own::keep()?))
    });
    sys::sigprocmask(SIG_SETMASK, inherit::mask());
    spawned
}
