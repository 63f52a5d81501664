//! Faults that the engine raises for the program, where the processor or the kernel would:
//! the thread gets a SIGSEGV on its way into the cache.

use agent::signals::{hold, quiesce};
use agent::thread::{Pending, Thread, ThreadContext};
use sys::signal::{SIGSEGV, SigInfo, SigSet, code, pf, trap};

use crate::deliver::information;
use crate::vsyscall::END;

/// Mapping at an address that cannot be fetched from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfetchable {
    Unmapped,
    /// Mapped, and readable or not.
    Mapped {
        readable: bool,
    },
    /// Not an address: a general protection fault.
    NonCanonical,
}

/// Raises the fault of an instruction fetch at `address`, for the instruction at `pc`.
pub fn raise_fetch_fault(
    context: &mut ThreadContext,
    thread: &mut Thread,
    pc: u64,
    address: u64,
    what: Unfetchable,
) {
    let fetch = pf::USER | pf::FETCH;
    let (code, at, details) = match what {
        Unfetchable::Unmapped => {
            // The kernel does not say what of its own memory is there.
            let present = if address >= END { pf::PRESENT } else { 0 };
            let details = (fetch | present, trap::PAGE_FAULT, address);
            (code::SEGV_MAPERR, address, details)
        }
        Unfetchable::Mapped { readable } => {
            let err = fetch | if readable { pf::PRESENT } else { 0 };
            (code::SEGV_ACCERR, address, (err, trap::PAGE_FAULT, address))
        }
        Unfetchable::NonCanonical => (code::SI_KERNEL, 0, (0, trap::GENERAL_PROTECTION, 0)),
    };
    let fault = Fault {
        code,
        address: at,
        details,
    };
    raise(context, thread, pc, fault);
}

/// A SIGSEGV that the engine raises for the program.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    pub code: i32,
    pub address: u64,
    /// err, trapno, cr2.
    pub details: (u64, u64, u64),
}

impl Fault {
    /// One that the kernel raises by itself.
    pub fn of_kernel() -> Fault {
        Fault {
            code: code::SI_KERNEL,
            address: 0,
            details: (0, 0, 0),
        }
    }
}

/// Raises it at the instruction at `pc`.
pub fn raise(context: &mut ThreadContext, thread: &mut Thread, pc: u64, fault: Fault) {
    let mut info = information(SIGSEGV, fault.code);
    info.fields[0] = fault.address;
    raise_signal(context, thread, pc, (info, fault.details));
}

/// Raises a signal as an instruction does: with its information, and err, trapno, cr2.
///
/// Another signal may have come first: then that is delivered at `pc`, which must be the
/// instruction that raises this one, or be taken back by the caller. Returns false.
pub fn raise_signal(
    context: &mut ThreadContext,
    thread: &mut Thread,
    pc: u64,
    (info, details): (SigInfo, (u64, u64, u64)),
) -> bool {
    let mask = quiesce(thread);
    match mask {
        Some(mask) => raise_under(context, thread, pc, mask, (info, details)),
        None => (context.resume_app, context.resume_host) = (pc, 0),
    }
    mask.is_some()
}

/// [`raise_signal`] where signals are blocked already; `mask` was in force before.
pub fn raise_under(
    context: &mut ThreadContext,
    thread: &mut Thread,
    pc: u64,
    mask: SigSet,
    (info, details): (SigInfo, (u64, u64, u64)),
) {
    if let Some(sent) = thread.pending.take() {
        // One that is never blocked.
        hold(thread, sent.signal, &sent.info);
    }
    let signal = info.signo as u32;
    thread.pending = Some(Pending {
        signal,
        info,
        action: thread.action_at_arrival(signal),
        mask,
        fault: Some(details),
        temporary: None,
    });
    context.pending = 1;
    (context.resume_app, context.resume_host) = (pc, 0);
}
