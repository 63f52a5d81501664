//! Starting the child, and being its parent as the shell expects.
//!
//! The program keeps our process group and terminal, so signals from the
//! keyboard reach it directly; we ignore them. A signal sent to us alone is
//! passed on. If the program stops, we stop with the same signal; when we are
//! continued, so is it.

use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::Relaxed;

use rustix::process::{Pid, Signal, WaitOptions};

use crate::control::{self, Control};
use crate::pool::OwnedPool;
use crate::{Ended, LaunchError, Request};

/// Process the forwarding handler sends to; 0: none yet.
static CHILD: AtomicI32 = AtomicI32::new(0);

pub(crate) struct Child(Pid);

/// Executes the payload with the program's arguments behind the engine's orders.
pub(crate) fn spawn(
    pool: &OwnedPool,
    payload: &OwnedFd,
    request: &Request,
) -> Result<Child, LaunchError> {
    let (program, argv) = crate::script::resolve(&request.program, &request.argv);
    let orders = crate::orders(pool, payload, &program);
    let path = format!("/proc/self/fd/{}", payload.as_raw_fd());
    let mut command = Command::new(path);
    command
        .arg0("everypath")
        .arg(std::ffi::OsStr::from_bytes(CString::as_bytes(&orders)))
        .args(&argv);
    crate::inherit::restore(&mut command);
    let child = command.spawn().map_err(LaunchError::Exec)?;
    let pid = Pid::from_raw(child.id() as i32).expect("a child has a positive number");
    CHILD.store(child.id() as i32, Relaxed);
    forward_signals(request.control.clone())?;
    Ok(Child(pid))
}

/// Waits for the end of the program; mirrors stops.
pub(crate) fn wait(child: Child) -> Result<Ended, LaunchError> {
    loop {
        let status = match rustix::process::waitpid(Some(child.0), WaitOptions::UNTRACED) {
            Ok(Some((_, status))) => status,
            Ok(None) | Err(rustix::io::Errno::INTR) => continue,
            Err(errno) => return Err(LaunchError::Wait(errno.into())),
        };
        if status.stopped() {
            let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::STOP);
            // Continued: so is the program.
            let _ = rustix::process::kill_process(child.0, Signal::CONT);
            continue;
        }
        CHILD.store(0, Relaxed);
        if let Some(signal) = status.terminating_signal() {
            let core = status.as_raw() & 0x80 != 0;
            return Ok(Ended::Signaled { signal, core });
        }
        return Ok(Ended::Exited(status.exit_status().unwrap_or(0)));
    }
}

/// Passes on what another process sent to us, or does what it asks for. What the terminal
/// sends goes to the whole process group and so has reached the program already.
fn forward_signals(control: Option<Control>) -> Result<(), LaunchError> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
    use signal_hook::iterator::SignalsInfo;
    use signal_hook::iterator::exfiltrator::origin::WithOrigin;
    use signal_hook::low_level::siginfo::{Cause, Sent};
    let control = control.unwrap_or_default();
    let asking = [control.start_signal, control.stop_signal];
    let usual = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];
    let wanted = usual.into_iter().chain(asking.into_iter().flatten());
    let mut signals = SignalsInfo::<WithOrigin>::new(wanted).map_err(LaunchError::Wait)?;
    std::thread::spawn(move || {
        for origin in &mut signals {
            let sent = matches!(
                origin.cause,
                Cause::Sent(Sent::User | Sent::Queue | Sent::TKill)
            );
            if let (true, Some(wish)) = (sent, control.wish(origin.signal)) {
                // Nobody is there to be told that the run is over.
                let _ = control::ask(&control.address, wish);
                continue;
            }
            let child = Pid::from_raw(CHILD.load(Relaxed));
            if let (true, Some(child), Some(signal)) =
                (sent, child, Signal::from_named_raw(origin.signal))
            {
                let _ = rustix::process::kill_process(child, signal);
            }
        }
    });
    Ok(())
}
