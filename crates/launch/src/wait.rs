//! Starting the program.
//!
//! It begins in the process group and session of the face, with the terminal, and with the
//! signals' state that our caller gave us. From then on the observer is in a session of its own.

use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::Pid;
use sys::signal::{SIG_SETMASK, SIGCHLD, SigSet};

use crate::face;
use crate::pool::OwnedPool;
use crate::watch::{Own, Watch};
use crate::{LaunchError, Request, inherit, signals};

/// Executes the payload with the program's arguments behind the engine's orders.
pub(crate) fn spawn(
    pool: &OwnedPool,
    payload: &OwnedFd,
    request: &Request,
) -> Result<Watch, LaunchError> {
    let (program, argv) = crate::script::resolve(&request.program, &request.argv);
    let orders = crate::orders(pool, payload, &program);
    let path = format!("/proc/self/fd/{}", payload.as_raw_fd());
    let mut command = Command::new(path);
    command
        .arg0("everypath")
        .arg(std::ffi::OsStr::from_bytes(CString::as_bytes(&orders)))
        .args(&argv);
    inherit::restore(&mut command);
    let control = request.control.clone().unwrap_or_default();
    match face::to_face() {
        Some(face) => {
            let (program, own) = spawn_beside(&mut command)?;
            Watch::new(program, Some((face, own)), control)
        }
        None => Watch::new(spawn_alone(&mut command)?, None, control),
    }
}

fn spawn_alone(command: &mut Command) -> Result<Pid, LaunchError> {
    let child = command.spawn().map_err(LaunchError::Exec)?;
    Ok(Pid::from_raw(child.id().cast_signed()).expect("a child has a positive number"))
}

/// The same, and leaves its group. What came to the group before that, and so to this process,
/// is for the program; of what comes just now it may get two.
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
