//! The signal state that our caller gave us, for the program.
//!
//! Rust's start-up ignores SIGPIPE, and `Command` gives children the default
//! for it and an empty mask. SIGXFSZ we ignore ourselves: a limit of file sizes is then an
//! error of a write, and does not kill us. A program behind `nohup`, or started by one that
//! ignores SIGPIPE or blocks signals, must find what it would find natively. Nor may SIGCHLD
//! be ignored here, as the kernel then keeps nobody's end for us.
//! So the state is looked at before `main`, and restored between fork and exec.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use sys::signal::{
    SIG_BLOCK, SIG_DFL, SIG_IGN, SIG_SETMASK, SIGCHLD, SIGPIPE, SIGXFSZ, SigAction, SigSet,
};

static PIPE_WAS_IGNORED: AtomicBool = AtomicBool::new(false);
static XFSZ_WAS_IGNORED: AtomicBool = AtomicBool::new(false);
static CHLD_WAS_IGNORED: AtomicBool = AtomicBool::new(false);
static MASK: AtomicU64 = AtomicU64::new(0);

/// Runs before Rust's start-up changes the dispositions.
#[used]
// SAFETY: the loader calls the functions of this section once, with the C
// calling convention; this one only makes system calls and sets flags.
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    PIPE_WAS_IGNORED.store(is_ignored(SIGPIPE), Relaxed);
    XFSZ_WAS_IGNORED.store(is_ignored(SIGXFSZ), Relaxed);
    CHLD_WAS_IGNORED.store(is_ignored(SIGCHLD), Relaxed);
    MASK.store(sys::sigprocmask(SIG_BLOCK, SigSet::EMPTY).0, Relaxed);
    set(SIGXFSZ, SIG_IGN);
    if CHLD_WAS_IGNORED.load(Relaxed) {
        set(SIGCHLD, SIG_DFL);
    }
}

/// The mask that our caller gave us.
pub(crate) fn mask() -> SigSet {
    SigSet(MASK.load(Relaxed))
}

fn is_ignored(signal: u32) -> bool {
    let mut found = SigAction::default();
    // SAFETY: changes nothing, asks only.
    let asked = unsafe { sys::sigaction(signal, None, Some(&mut found)) };
    asked.is_ok() && found.handler == SIG_IGN
}

/// `handler` is none: ignored, or the default.
pub(crate) fn set(signal: u32, handler: u64) {
    let action = SigAction {
        handler,
        ..SigAction::default()
    };
    // SAFETY: no handler is installed.
    let _ = unsafe { sys::sigaction(signal, Some(&action), None) };
}

/// Lets the child, or what takes this process's place, begin with our caller's mask, SIGPIPE, SIGXFSZ and SIGCHLD.
pub fn restore(command: &mut Command) {
    let hook = move || {
        if PIPE_WAS_IGNORED.load(Relaxed) {
            set(SIGPIPE, SIG_IGN);
        }
        if !XFSZ_WAS_IGNORED.load(Relaxed) {
            set(SIGXFSZ, SIG_DFL);
        }
        if CHLD_WAS_IGNORED.load(Relaxed) {
            set(SIGCHLD, SIG_IGN);
        }
        sys::sigprocmask(SIG_SETMASK, mask());
        Ok(())
    };
    // SAFETY: the hook runs in the forked child and makes system calls only.
    unsafe { command.pre_exec(hook) };
}
