//! The process that was started becomes the program (`--in-place`, docs/design/0033).
//!
//! Problem: the face is not the program, so the program has another number and parent than
//! natively, and leads no group or session where it would.
//!
//! Approach: that process forks one that forks the observer and ends, so the observer is nobody's
//! child whose end the program could wait for. The observer makes the pool and sends what to execute;
//! the process that was started executes it, and the observer watches it through a pidfd.
//!
//! ```text
//!   started  -- fork -->  between  -- fork -->  observer (setsid)
//!   reads a line of words  <---------------------  what to execute, or a status to end with
//!   execve: the program                           waits for its end, writes the recording
//! ```
//!
//! Limits: nobody waits for the observer, so the recording may be written a moment after the program
//! has ended, and what is wrong with it has no exit status.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, WaitOptions, pidfd_open};
use sys::signal::{SIG_SETMASK, SigSet};

use crate::face::Role;
use crate::orphans::Inherited;
use crate::watch::Own;
use crate::{Ended, LaunchError, inherit, signals};

/// First byte of the observer's message: words to execute, each ended by a NUL; or a status.
const EXECUTE: u8 = b'x';
const GIVE_UP: u8 = b'g';
/// Status of a process whose observer has ended without a word.
const FAILED: u8 = 125;

/// The observer's way to the process that was started, until it has said what to do.
static TO_STARTED: Mutex<Option<Started>> = Mutex::new(None);

struct Started {
    process: Pid,
    /// Opened while it certainly lives.
    watched: OwnedFd,
    link: UnixStream,
}

fn to_started() -> Option<Started> {
    TO_STARTED
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take()
}

/// Forks the observer, and becomes the program when that says so: returns in the process that was
/// started only if it is to end. This process has one thread.
pub fn stand_aside() -> Result<Role, LaunchError> {
    let failed = LaunchError::Fork;
    let process = rustix::process::getpid();
    let (link, its) = UnixStream::pair().map_err(failed)?;
    let watched = pidfd_open(process, PidfdFlags::empty());
    let watched = watched.map_err(|error| failed(error.into()))?;
    let before = sys::sigprocmask(SIG_SETMASK, SigSet::ALL);
    // SAFETY: one thread, says the contract of this function.
    let between = unsafe { signals::fork() }.map_err(failed)?;
    if let Some(between) = between {
        drop((its, watched));
        let _ = rustix::process::waitpid(Some(between), WaitOptions::empty());
        sys::sigprocmask(SIG_SETMASK, before);
        let ended = Ended::Exited(i32::from(follow(link)));
        return Ok(Role::Face(ended, Inherited::default()));
    }
    drop(link);
    // It cannot fail: who was forked leads no group.
    let _ = rustix::process::setsid();
    // SAFETY: as above.
    if unsafe { signals::fork() }.map_err(failed)?.is_some() {
        sys::exit_group(0);
    }
    sys::sigprocmask(SIG_SETMASK, before);
    let started = Started {
        process,
        watched,
        link: its,
    };
    *TO_STARTED.lock().unwrap_or_else(PoisonError::into_inner) = Some(started);
    Ok(Role::Observer)
}

/// In the process that was started: does what the observer says. Returns the status to end with.
fn follow(mut link: UnixStream) -> u8 {
    let mut said = Vec::new();
    let read = link.read_to_end(&mut said);
    match (read, said.split_first()) {
        (Ok(_), Some((&EXECUTE, words))) => {
            let mut words = words.split(|&byte| byte == 0).map(OsStr::from_bytes);
            let path = words.next().unwrap_or_default();
            let mut words: Vec<&OsStr> = words.collect();
            // The empty piece after the last NUL is no word.
            words.pop();
            let Some((name, arguments)) = words.split_first() else {
                return FAILED;
            };
            let mut command = Command::new(path);
            command.arg0(name).args(arguments);
            inherit::restore(&mut command);
            let error = LaunchError::Exec {
                error: command.exec(),
            };
            let _ = writeln!(io::stderr(), "everypath: {error}");
            FAILED
        }
        (Ok(_), Some((&GIVE_UP, &[status]))) => status,
        _ => FAILED,
    }
}

/// Has the process that was started end with that status, if it has not become the program.
pub fn give_up(status: u8) {
    if let Some(mut started) = to_started() {
        // It may have been killed meanwhile.
        let _ = started.link.write_all(&[GIVE_UP, status]);
    }
}

/// Watches the program that the process that was started is about to be.
pub(crate) struct InPlace {
    process: Pid,
    watched: OwnedFd,
    /// Signals that would end this process do not.
    _own: Own,
}

/// Sends what to execute, if there is a process that waits for that.
pub(crate) fn start(path: &str, words: &[OsString]) -> Result<Option<InPlace>, LaunchError> {
    let Some(mut started) = to_started() else {
        return Ok(None);
    };
    let mut message = vec![EXECUTE];
    message.extend_from_slice(path.as_bytes());
    message.push(0);
    for word in words {
        message.extend(word.clone().into_vec());
        message.push(0);
    }
    // If it was killed meanwhile, the watch says so.
    let _ = started.link.write_all(&message);
    Ok(Some(InPlace {
        process: started.process,
        watched: started.watched,
        _own: Own::keep()?,
    }))
}

impl InPlace {
    /// To the program's end.
    pub fn watch(self) -> Result<Ended, LaunchError> {
        loop {
            let mut all = [PollFd::new(&self.watched, PollFlags::IN)];
            match poll(&mut all, None) {
                Ok(_) => break,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(LaunchError::Wait(error.into())),
            }
        }
        let status = self.of_zombie().or_else(|| self.of_reaped());
        Ok(status.map_or(Ended::Unknown, of_status))
    }

    /// The wait status of a process that nobody has waited for yet (proc_pid_stat(5), field 52).
    fn of_zombie(&self) -> Option<i32> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.process)).ok()?;
        let (_, fields) = stat.rsplit_once(") ")?;
        let mut fields = fields.split_whitespace();
        (fields.next()? == "Z").then_some(())?;
        // The state is the third field.
        fields.nth(52 - 4)?.parse().ok()
    }

    /// Exit status of a process that somebody has waited for (`struct pidfd_info`, Linux 6.15).
    fn of_reaped(&self) -> Option<i32> {
        const GET_INFO: usize = 3 << 30 | 64 << 16 | 0xff << 8 | 11;
        const EXIT: u64 = 1 << 3;
        /// Mask, control group, eleven numbers, and the status.
        #[repr(C)]
        #[derive(Default)]
        struct Info {
            mask: u64,
            group: u64,
            numbers: [u32; 11],
            status: i32,
        }
        let mut info = Info {
            mask: EXIT,
            ..Info::default()
        };
        let descriptor = self.watched.as_raw_fd().cast_unsigned() as usize;
        let arguments = [descriptor, GET_INFO, &raw mut info as usize, 0, 0, 0];
        // SAFETY: the kernel fills the 64 bytes that the request says.
        let asked = unsafe { sys::raw::syscall(sys::nr::IOCTL, arguments) };
        (asked == 0 && info.mask & EXIT != 0).then_some(info.status)
    }
}

/// A wait status as wait(2) has it.
fn of_status(status: i32) -> Ended {
    match status & 0x7f {
        0 => Ended::Exited(status >> 8 & 0xff),
        signal => Ended::Signaled {
            signal,
            core: status & 0x80 != 0,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_statuses_are_read() {
        let killed = |signal, core| Ended::Signaled { signal, core };
        assert_eq!(of_status(0x700), Ended::Exited(7));
        assert_eq!(of_status(0xff00), Ended::Exited(255));
        assert_eq!(of_status(15), killed(15, false));
        assert_eq!(of_status(0x8b), killed(11, true));
    }
}
