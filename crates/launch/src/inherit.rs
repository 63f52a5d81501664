//! The signal state that our caller gave us, for the program.
//!
//! Rust's start-up ignores SIGPIPE, and `Command` gives children the default
//! for it and an empty mask. A program behind `nohup`, or started by one that
//! ignores SIGPIPE or blocks signals, must find what it would find natively.
//! So the state is looked at before `main`, and restored between fork and exec.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use sys::signal::{SIG_BLOCK, SIG_IGN, SIG_SETMASK, SIGPIPE, SigAction, SigSet};

static PIPE_WAS_IGNORED: AtomicBool = AtomicBool::new(false);

/// Runs before Rust's start-up changes the disposition.
#[used]
// SAFETY: the loader calls the functions of this section once, with the C
// calling convention; this one only makes a system call and sets a flag.
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    let mut found = SigAction::default();
    // SAFETY: changes nothing, asks only.
    let asked = unsafe { sys::sigaction(SIGPIPE, None, Some(&mut found)) };
    PIPE_WAS_IGNORED.store(asked.is_ok() && found.handler == SIG_IGN, Relaxed);
}

/// Lets the child begin with our caller's mask and SIGPIPE.
pub(crate) fn restore(command: &mut Command) {
    let mask = sys::sigprocmask(SIG_BLOCK, SigSet::EMPTY);
    let hook = move || {
        if PIPE_WAS_IGNORED.load(Relaxed) {
            let ignore = SigAction {
                handler: SIG_IGN,
                ..SigAction::default()
            };
            // SAFETY: no handler is installed.
            let _ = unsafe { sys::sigaction(SIGPIPE, Some(&ignore), None) };
        }
        sys::sigprocmask(SIG_SETMASK, mask);
        Ok(())
    };
    // SAFETY: the hook runs in the forked child and makes system calls only.
    unsafe { command.pre_exec(hook) };
}
