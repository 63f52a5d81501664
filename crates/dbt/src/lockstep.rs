//! Lockstep: the program's own code, run natively, against its translation.
//!
//! Problem: a wrong translation shows itself, if at all, far from where it is.
//! Approach: now and then a window is opened. A forked child runs the program's
//! own code from there, one trap per instruction, and logs the state before
//! each (`lockstep/native.rs`); then the parent runs its translation as ever,
//! linked, from the cache, but one trap per host instruction, and wherever the
//! map says that a cache address is an exact boundary, the state must be the
//! child's next one. Between boundaries, where the program's memory is touched,
//! the recipe of a fault must lead back to the last one. From time to time the
//! parent leaves the cache at a boundary and goes on by the state recovered
//! there (the audit).
//!
//! ```text
//!   off --every Nth entry--> armed --first boundary--> open --end of log--> off
//!                              |                         |
//!                              '---- signal, thread -----'--> off
//! ```
//!
//! The trap flag is set by `before_entry` in the flags that the entry loads, and
//! stays until control is in the engine again, which is never stepped.
//!
//! Invariants: a window holds no system call and nothing else that cannot be
//! repeated: the log ends before it, and the window with the log. So while one
//! is open there is no other thread, and what is here needs no lock. Every state
//! that the child logged is visited, except before direct jumps, which have no
//! code of their own.
//!
//! Limits: no windows in processes with several threads or filtered system
//! calls. The child's number is missing in the program's sequence of them.
//! Memory advised to be wiped on fork is different in the child.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use agent::memory;
use agent::thread::ThreadContext;
use isa::{Flow, Insn};
use sys::signal::UContext;
use wire::stat;

use crate::engine;
use crate::entry;
use crate::locate::place_of;
use crate::pcmap::Place;
use crate::signals::TRAP_FLAG;

mod native;
mod state;

use native::Log;
pub use native::decode as instruction;
use state::State;

/// Host instructions from one boundary to the next; the longest way is a
/// transition that is looked up in a full line of the index.
const PATIENCE: u32 = 20_000;
/// Boundaries between two resumptions of the recovered state, on average.
const AUDIT: u64 = 100;

const OFF: u32 = 0;
const ARMED: u32 = 1;
const OPEN: u32 = 2;

/// About how many entries into the cache lie between windows; 0: no lockstep.
static EVERY: AtomicU32 = AtomicU32::new(0);
/// Entries until the next.
static LEFT: AtomicU64 = AtomicU64::new(0);
static PHASE: AtomicU32 = AtomicU32::new(OFF);
/// A trap of a window that is closed may still come.
static LATE: AtomicBool = AtomicBool::new(false);
/// The program filters its system calls: ours would be filtered, too.
static FILTERED: AtomicBool = AtomicBool::new(false);
/// The instruction being stepped is a `pushf`.
static PUSHES_FLAGS: AtomicBool = AtomicBool::new(false);
/// The instruction being stepped is `syscall`, in the cache.
static IN_CALL: AtomicBool = AtomicBool::new(false);

/// The open window.
#[derive(Debug)]
struct Window {
    log: *mut Log,
    /// Process that the log's memory was mapped by.
    owner: u32,
    /// The state that was visited last.
    at: usize,
    /// Host instructions since.
    waited: u32,
}

#[derive(Debug)]
struct Only(UnsafeCell<Window>);

// SAFETY: used by the trap handler while a window is armed or open, when the
// process has one thread; the handler is not interrupted by itself.
unsafe impl Sync for Only {}

static WINDOW: Only = Only(UnsafeCell::new(Window {
    log: core::ptr::null_mut(),
    owner: 0,
    at: 0,
    waited: 0,
}));

/// Sets up for a window about every `every` entries; 0: never.
pub fn begin(every: u32) {
    EVERY.store(every, Relaxed);
    if every == 0 {
        return;
    }
    state::find_components();
    LEFT.store(u64::from(every), Relaxed);
    const PR_GET_SECCOMP: usize = 21;
    // SAFETY: asks only.
    let mode = unsafe { sys::raw::syscall(sys::nr::PRCTL, [PR_GET_SECCOMP, 0, 0, 0, 0, 0]) };
    FILTERED.store(mode != 0, Relaxed);
}

pub fn is_on() -> bool {
    EVERY.load(Relaxed) != 0
}

/// Whether a debug trap is a step of ours.
pub fn steps() -> bool {
    PHASE.load(Relaxed) != OFF || LATE.load(Relaxed)
}

/// The program makes a system call.
pub fn before_call(number: u64, first: u64) {
    const PR_SET_SECCOMP: u64 = 22;
    let prctl = number == sys::nr::PRCTL as u64 && first == PR_SET_SECCOMP;
    if prctl || number == sys::nr::SECCOMP as u64 {
        FILTERED.store(true, Relaxed);
    }
}

/// The engine is about to enter the cache at `resume_host`.
pub fn before_entry(context: &mut ThreadContext) {
    LATE.store(false, Relaxed);
    let phase = PHASE.load(Relaxed);
    // The program steps itself, or a signal waits.
    let busy = context.rflags & TRAP_FLAG != 0 || context.pending != 0;
    if phase == OFF && !is_due() {
        return;
    }
    let alone = engine::with(|engine| {
        let alone = engine.threads.len() == 1;
        if phase == OFF && !alone {
            engine.count(stat::LOCKSTEP_THREADS);
        } else if phase == OFF && FILTERED.load(Relaxed) {
            engine.count(stat::LOCKSTEP_REFUSED);
        }
        alone
    });
    if busy || !alone || FILTERED.load(Relaxed) {
        PHASE.store(OFF, Relaxed);
        return;
    }
    if phase == OFF {
        PHASE.store(ARMED, Relaxed);
        IN_CALL.store(false, Relaxed);
        window().waited = 0;
    }
    context.rflags |= TRAP_FLAG;
}

/// Whether it is time for a window: pseudo-random distances, the same ones in
/// every run.
fn is_due() -> bool {
    let left = LEFT.load(Relaxed);
    if left > 1 {
        LEFT.store(left - 1, Relaxed);
        return false;
    }
    let every = u64::from(EVERY.load(Relaxed));
    let roll = engine::with(|engine| engine.roll());
    LEFT.store(1 + roll % (2 * every), Relaxed);
    true
}

fn window() -> &'static mut Window {
    // SAFETY: as argued at `Only`; no caller keeps it over a call of another.
    unsafe { &mut *WINDOW.0.get() }
}

/// Something else than a step happens: a signal, a fault. The window is over.
pub fn interrupted(context: &mut ThreadContext, uc: &mut UContext) {
    if PHASE.load(Relaxed) == OFF {
        return;
    }
    if PHASE.swap(OFF, Relaxed) == OPEN && locatable(uc) {
        engine::with(|engine| engine.count(stat::LOCKSTEP_INTERRUPTED));
    }
    if IN_CALL.swap(false, Relaxed) {
        uc.mcontext.r11 &= !TRAP_FLAG;
    }
    // It is not run now, or not under the trap flag.
    remember(false);
    // The flags may be on their way from the block to the register.
    LATE.store(uc.mcontext.eflags & TRAP_FLAG == 0, Relaxed);
    uc.mcontext.eflags &= !TRAP_FLAG;
    context.rflags &= !TRAP_FLAG;
}

/// Whether the thread was in the cache, so that it does not hold the engine.
fn locatable(uc: &UContext) -> bool {
    uc.mcontext.eflags & TRAP_FLAG != 0
}

/// A trap of ours. It goes on with the trap flag, or without if that was the last.
pub fn stepped(context: &mut ThreadContext, uc: &mut UContext) {
    uc.mcontext.eflags &= !TRAP_FLAG;
    if LATE.swap(false, Relaxed) || PHASE.load(Relaxed) == OFF {
        return;
    }
    hide_trap_flag(uc);
    if IN_CALL.swap(false, Relaxed) {
        uc.mcontext.r11 &= !TRAP_FLAG;
    }
    let rip = uc.mcontext.rip;
    window().waited += 1;
    let goes_on = match place_of(rip) {
        _ if entry::in_window(rip) => true,
        // It is not stepped; `before_entry` sets the flag again.
        None => return,
        Some(Some(place)) if place.boundary => {
            window().waited = 0;
            match PHASE.load(Relaxed) {
                ARMED => armed_at(context, uc, &place),
                _ => compare(context, uc, &place),
            }
        }
        Some(Some(place)) if PHASE.load(Relaxed) == OPEN => recover(context, uc, &place),
        Some(_) => true,
    };
    if window().waited > PATIENCE {
        PHASE.store(OFF, Relaxed);
        engine::with(|engine| engine.count(stat::LOCKSTEP_INTERRUPTED));
    } else if goes_on {
        uc.mcontext.eflags |= TRAP_FLAG;
    }
}

/// `pushf` under the trap flag has stored it. The program did not set it.
fn hide_trap_flag(uc: &UContext) {
    if PUSHES_FLAGS.swap(false, Relaxed) {
        let byte = uc.mcontext.rsp + 1;
        if let Some(flags) = memory::read::<u8>(byte) {
            memory::write(byte, &(flags & !((TRAP_FLAG >> 8) as u8)));
        }
    }
}

fn remember(pushes_flags: bool) {
    PUSHES_FLAGS.store(pushes_flags, Relaxed);
}

/// Whether a window ends before this instruction.
fn ends(insn: &Insn, rsp: u64) -> bool {
    let sets_trap = || memory::read::<u64>(rsp).is_none_or(|flags| flags & TRAP_FLAG != 0);
    insn.is_unrepeatable() || insn.is_pop_flags() && sets_trap()
}

/// The first boundary opens the window, or the first after a system call.
fn armed_at(context: &mut ThreadContext, uc: &mut UContext, place: &Place) -> bool {
    let off = || PHASE.store(OFF, Relaxed);
    let Some(insn) = instruction(place.app_pc) else {
        off();
        return false;
    };
    if insn.flow() == Flow::Syscall {
        let bytes = memory::read::<[u8; 2]>(uc.mcontext.rip);
        IN_CALL.store(bytes == Some([0x0F, 0x05]), Relaxed);
        return true;
    }
    if ends(&insn, uc.mcontext.rsp) || !open(context, uc, place) {
        off();
        return false;
    }
    remember(insn.is_push_flags());
    PHASE.store(OPEN, Relaxed);
    true
}

/// Has a child log a native run from here.
fn open(context: &ThreadContext, uc: &mut UContext, place: &Place) -> bool {
    let window = window();
    window.at = 0;
    let Some(log) = mapped_log(window) else {
        return false;
    };
    // SAFETY: mapped, and no child has it now.
    unsafe { (*log).len.store(0, Relaxed) };
    // SAFETY: the process has one thread, which runs program code: no lock is held.
    let child = unsafe { sys::fork_unseen() };
    if child == Ok(0) {
        let pc = place.app_pc;
        engine::with(|engine| {
            let fsgsbase = engine.settings.fsgsbase;
            // SAFETY: the child that `reap` waits for below; `uc` is of the
            // kernel's frame for this trap.
            unsafe { native::run(&engine.process, uc, pc, context.app_gs, fsgsbase, log) }
        });
    }
    let logged = child.and_then(sys::reap);
    // SAFETY: the child has ended.
    let enough = logged.is_ok() && unsafe { &*log }.states().len() > 1;
    engine::with(|engine| {
        engine.count(match enough {
            true => stat::LOCKSTEP_WINDOWS,
            false => stat::LOCKSTEP_REFUSED,
        })
    });
    enough
}

/// The log, mapped by this process: one that a parent mapped is shared with it.
fn mapped_log(window: &mut Window) -> Option<*mut Log> {
    let me = sys::getpid();
    if window.log.is_null() || window.owner != me {
        let shared = sys::MAP_SHARED | sys::MAP_ANONYMOUS;
        let rights = sys::PROT_READ | sys::PROT_WRITE;
        // SAFETY: a fresh mapping.
        let at = unsafe { sys::mmap(0, Log::SIZE, rights, shared, -1, 0) }.ok()?;
        memory::note(at, Log::SIZE);
        (window.log, window.owner) = (at as *mut Log, me);
    }
    Some(window.log)
}

/// Compares with the native run. Whether the window stays open.
fn compare(context: &mut ThreadContext, uc: &mut UContext, place: &Place) -> bool {
    let window = window();
    // SAFETY: the child has ended; nothing writes to the log.
    let log = unsafe { &*window.log }.states();
    // SAFETY: as above.
    let state = |index: usize| unsafe { *log[index].get() };
    let settings = engine::with(|engine| engine.settings);
    let gs = if settings.fsgsbase { context.app_gs } else { 0 };
    let here = State::of(uc, place.app_pc, gs);
    let mut last = None;
    for index in window.at..log.len() {
        let native = state(index);
        let ahead = (index..log.len()).map(|index| state(index).pc);
        // The code that counts may use flags that nobody will read.
        let same = native == here
            || settings.count_instructions && native.differs_in_dead_flags(&here, ahead);
        if same {
            window.at = index;
            return visited(context, uc, place, log.len() - index);
        }
        if index > window.at && !is_jump(native.pc) {
            diverged(uc, last.unwrap_or(native.pc), &native, &here);
            PHASE.store(OFF, Relaxed);
            return false;
        }
        last = Some(native.pc);
    }
    // The log ended at a jump.
    PHASE.store(OFF, Relaxed);
    false
}

/// In the middle of an instruction: if the program's memory is touched next, and
/// that would fault, the map's recipe must lead back to where it began.
fn recover(context: &mut ThreadContext, uc: &mut UContext, place: &Place) -> bool {
    let window = window();
    // SAFETY: the child has ended; nothing writes to the log.
    let native = unsafe { *(*window.log).states()[window.at].get() };
    let mut here = State {
        pc: place.app_pc,
        regs: state::registers(&uc.mcontext),
        flags: uc.mcontext.eflags & state::FLAGS,
        ..native
    };
    let of_program = |address: u64| !memory::is_ours(address, address + 1);
    let touches = instruction(uc.mcontext.rip).is_some_and(|insn| {
        insn.addresses(&here.regs)
            .into_iter()
            .flatten()
            .any(of_program)
    });
    let may_count = engine::with(|engine| engine.settings.count_instructions);
    if !touches || native.pc != here.pc {
        return true;
    }
    for (register, slot) in place.recipe.spilled() {
        here.regs[register] = context.spill[slot];
    }
    if may_count {
        here.flags = native.flags;
    }
    if here == native {
        engine::with(|engine| engine.count(stat::LOCKSTEP_RECIPES));
        return true;
    }
    diverged(uc, here.pc, &native, &here);
    PHASE.store(OFF, Relaxed);
    false
}

fn is_jump(pc: u64) -> bool {
    instruction(pc).is_some_and(|insn| matches!(insn.flow(), Flow::Jump(_)))
}

/// A state that is as it must be, with `left` to come, itself included.
fn visited(context: &mut ThreadContext, uc: &mut UContext, place: &Place, left: usize) -> bool {
    let audit = engine::with(|engine| {
        engine.count(stat::LOCKSTEP_STEPS);
        let audit = left > 1 && engine.roll().is_multiple_of(AUDIT);
        if audit {
            engine.count(stat::LOCKSTEP_AUDITS);
        }
        audit
    });
    if left == 1 {
        PHASE.store(OFF, Relaxed);
        return false;
    }
    if audit {
        crate::deliver::uncount(context, place, uc.mcontext.rsp);
        context.resume_app = place.app_pc;
        context.exit = 0;
        uc.mcontext.rip = entry::resume_address();
        return false;
    }
    remember(instruction(place.app_pc).is_some_and(|insn| insn.is_push_flags()));
    true
}

/// Says what is different, and counts it.
fn diverged(uc: &UContext, from: u64, native: &State, translated: &State) {
    use core::fmt::Write;
    let mut text = agent::procfs::Text::default();
    let mut bytes = [0u8; isa::insn::MAX_LEN];
    let got = memory::read_some(from, &mut bytes);
    let len = instruction(from).map_or(got, |insn| insn.len());
    let _ = write!(
        text,
        "everypath: divergence by the instruction at {from:#x} ("
    );
    for byte in &bytes[..len.min(got)] {
        let _ = write!(text, "{byte:02x}");
    }
    let _ = writeln!(text, "), in the cache at {:#x}:", uc.mcontext.rip);
    native.describe(translated, &mut text);
    let _ = sys::write(2, &text.0);
    engine::with(|engine| engine.count(stat::LOCKSTEP_DIVERGENCES));
}
