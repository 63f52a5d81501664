//! The native side: a copy of the process that runs the program's own code.
//!
//! Runs in a child that shares nothing but the log: the memory is a copy, what
//! the program shares with others is taken away, so that touching it ends the
//! run, and so does every instruction that would reach the kernel. Program
//! pages get the rights that the program gave them; the processor traps after
//! each instruction, and the handler appends the state to the log.
//!
//! Rules of the house: gs is the program's here, so nothing of the engine that
//! looks for the thread's block may be called; the only way out is `exit_group`.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use agent::memory;
use agent::syscalls::Process;
use isa::Insn;
use sys::signal::*;

use crate::entry;
use crate::lockstep::state::State;
use crate::signals::TRAP_FLAG;

/// Most states that a run logs.
pub const MOST: usize = 2000;

/// States that the child leaves to its parent, in memory that both have.
#[derive(Debug)]
#[repr(C)]
pub struct Log {
    /// Complete states.
    pub len: AtomicU64,
    pub states: [core::cell::UnsafeCell<State>; MOST],
}

impl Log {
    pub const SIZE: u64 = (size_of::<Log>() as u64).next_multiple_of(4096);

    /// The states; the child that wrote them has ended.
    pub fn states(&self) -> &[core::cell::UnsafeCell<State>] {
        &self.states[..(self.len.load(Relaxed) as usize).min(MOST)]
    }
}

/// The run of this process, which is the child. Set once by `run`.
static LOG: AtomicU64 = AtomicU64::new(0);
static VDSO: AtomicU64 = AtomicU64::new(0);
static VDSO_END: AtomicU64 = AtomicU64::new(0);
static READS_GS: AtomicU32 = AtomicU32::new(0);

/// Becomes the program, about to run the instruction at `pc` natively with the
/// registers in the kernel's frame that `uc` is of.
///
/// # Safety
/// In a forked child that nothing waits for but [`sys::reap`]; `log` is mapped,
/// shared with the parent, and the frame is complete.
pub unsafe fn run(
    process: &Process,
    uc: &mut UContext,
    pc: u64,
    gs: u64,
    fsgsbase: bool,
    log: *mut Log,
) -> ! {
    const RLIMIT_CORE: usize = 4;
    let none = [0u64; 2];
    // SAFETY: the kernel reads two words.
    unsafe {
        sys::raw::syscall(
            sys::nr::PRLIMIT64,
            [0, RLIMIT_CORE, &raw const none as usize, 0, 0, 0],
        )
    };
    LOG.store(log as u64, Relaxed);
    READS_GS.store(u32::from(fsgsbase), Relaxed);
    if !open_memory(process) {
        sys::exit_group(1);
    }
    let faults = SigSet::only(SIGSEGV).with(SigSet::only(SIGBUS));
    let action = SigAction {
        handler: on_step as *const () as u64,
        flags: SA_SIGINFO | SA_ONSTACK | SA_RESTORER | SA_NODEFER,
        restorer: entry::signal_entry().restorer,
        mask: SigSet::ALL.without(faults),
    };
    for signal in (1..=NSIG).filter(|&signal| SigSet::SYNCHRONOUS.has(signal)) {
        // SAFETY: the handler below, which runs at any instruction of the program.
        let _ = unsafe { sys::sigaction(signal, Some(&action), None) };
    }
    if fsgsbase {
        // SAFETY: the kernel has enabled FSGSBASE; the engine needs gs no more.
        unsafe { core::arch::asm!("wrgsbase {}", in(reg) gs, options(nostack)) };
    } else {
        let _ = sys::arch_prctl(sys::ARCH_SET_GS, gs);
    }
    uc.mcontext.rip = pc;
    uc.sigmask = agent::signals::HOLD;
    reached(uc);
    let frame = (uc as *const UContext as u64) - core::mem::offset_of!(SigFrame, uc) as u64;
    // SAFETY: the kernel's own frame, with the program's state in it.
    unsafe { entry::everypath_sigreturn(frame as *const SigFrame, uc.mcontext.eflags) }
}

/// Gives the program's memory the rights that the program knows, and takes away
/// what it shares.
fn open_memory(process: &Process) -> bool {
    let Some(mappings) = agent::procfs::mappings() else {
        return false;
    };
    mappings.iter().all(|mapping| {
        let (start, end) = (mapping.start, mapping.end);
        if mapping.of_kernel {
            if process.regions.overlaps(start, end) {
                VDSO.store(start, Relaxed);
                VDSO_END.store(end, Relaxed);
            }
            return true;
        }
        if mapping.shared {
            // SAFETY: this process ends when it touches the memory.
            return unsafe { sys::mprotect(start, end - start, sys::PROT_NONE) }.is_ok();
        }
        let pieces = process.regions.pieces(start, end);
        pieces.iter().all(|piece| {
            // SAFETY: the rights that the program asked for; the engine's
            // guards of its code serve nobody here.
            unsafe { sys::mprotect(piece.start, piece.end - piece.start, piece.prot) }.is_ok()
        })
    })
}

/// The handler of the child, for every synchronous signal.
extern "C" fn on_step(signal: i32, _info: *mut SigInfo, uc: *mut UContext) {
    // SAFETY: the kernel's frame on our signal stack.
    let uc = unsafe { &mut *uc };
    if let Some(next) = memory::recovery_for(uc.mcontext.rip) {
        uc.mcontext.rip = next;
        return;
    }
    if signal as u32 != SIGTRAP || uc.mcontext.trapno != trap::DEBUG {
        sys::exit_group(0);
    }
    reached(uc);
}

/// Logs the state before the next instruction; ends if it is not to be run.
fn reached(uc: &mut UContext) {
    let pc = uc.mcontext.rip;
    // SAFETY: set by `run` to a mapped log; this process is its only writer
    // until it has ended.
    let log = unsafe { &*(LOG.load(Relaxed) as *const Log) };
    let len = log.len.load(Relaxed) as usize;
    super::hide_trap_flag(uc);
    let state = State::of(uc, pc, current_gs());
    // SAFETY: below `MOST`, which ends the run; no other reference exists.
    unsafe { *log.states[len].get() = state };
    log.len.store(len as u64 + 1, Relaxed);
    let in_vdso = (VDSO.load(Relaxed)..VDSO_END.load(Relaxed)).contains(&pc);
    let insn = super::instruction(pc);
    if len + 1 == MOST || in_vdso || insn.is_none_or(|insn| super::ends(&insn, uc.mcontext.rsp)) {
        sys::exit_group(0);
    }
    super::remember(insn.is_some_and(|insn| insn.is_push_flags()));
    uc.mcontext.eflags |= TRAP_FLAG;
}

fn current_gs() -> u64 {
    if READS_GS.load(Relaxed) == 0 {
        return 0;
    }
    let gs: u64;
    // SAFETY: the kernel has enabled FSGSBASE.
    unsafe { core::arch::asm!("rdgsbase {}", out(reg) gs, options(nostack, nomem)) };
    gs
}

/// Decodes one instruction of the program.
pub fn decode(pc: u64) -> Option<Insn> {
    let mut bytes = [0u8; isa::insn::MAX_LEN];
    let got = memory::read_some(pc, &mut bytes);
    Insn::decode(&bytes[..got], pc).ok()
}
