//! Far branches: `lret`, `iret`, and `ljmp` and `lcall` to a pointer in memory.
//!
//! Problem: executed in the cache they would push its addresses, leave it for what is no code
//! there, and could switch to 32-bit code, in which neither the cache nor the engine runs.
//!
//! Approach: the engine looks at the selector before the instruction is executed.
//!
//! | the selector is | |
//! |---|---|
//! | one of 64-bit code that the branch may load | the engine does what the instruction does |
//! | one of 32-bit code that the branch may load | `hlt`: a general protection fault with the error code 0, as if the target was beyond the segment's limit |
//! | anything else, or something cannot be read or written | the instruction itself is executed, and faults |
//!
//! So the details of a fault come from the processor.
//!
//! ```text
//!   jmp stub              the exit
//!   hlt
//!   the instruction
//! ```
//!
//! Limits: a stack segment other than the usual one that `iret` loads is lost at the engine's
//! next system call. If another thread changes what is read here before the instruction itself
//! is executed, that goes where it would, with the cache's address pushed.

use core::arch::asm;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use agent::memory;
use agent::thread::{Thread, ThreadContext, reg};
use isa::{Far, FarKind, Insn};
use wire::stream::why;

use crate::block::{Arrival, ExitKind, Key};
use crate::dispatch::go_to;
use crate::engine::{self, Engine};
use crate::lockstep::instruction;
use crate::pcmap::Recipe;
use crate::signals::TRAP_FLAG;
use crate::translate::Emit;

const HLT: u8 = 0xF4;

/// Flags that `iret` writes in user mode, and those of them that it writes with 16 bits (Intel
/// SDM vol. 2, IRET): arithmetic ones, TF, DF and NT; AC and ID.
const WRITTEN: u64 = 0x24_4DD5;
const NESTED_TASK: u64 = 1 << 14;

/// Privilege of user code, and the bits of a selector that ask for one.
const USER: u16 = 3;

impl Engine {
    /// A far branch, instruction `i`, as pictured above. It ends its block.
    pub fn emit_far(&mut self, emit: &mut Emit<'_>, insn: &Insn, i: usize) {
        self.record(emit, i);
        emit.write_outcomes(1);
        let site = self.emit_unlinked_jump(emit);
        self.attach(emit.id, site, ExitKind::Far { pc: insn.pc() });
        emit.cover(true, Recipe::NONE);
        emit.asm.bytes(&[HLT]);
        emit.cover(true, Recipe::NONE);
        self.emit_plain(emit, insn);
    }
}

/// A thread is at the far branch at `pc`; `behind` its exit is what else may be executed.
pub fn leave(context: &mut ThreadContext, thread: &mut Thread, pc: u64, behind: u64) {
    match judge(context, pc) {
        Verdict::Goes(branch) => go(context, thread, pc, branch),
        Verdict::Foreign(selector) => {
            tell_foreign(selector);
            context.resume_host = behind;
        }
        Verdict::Faults => context.resume_host = behind + 1,
    }
}

/// The outcome of a far branch.
#[derive(Clone, Copy, Debug)]
enum Verdict {
    Goes(Branch),
    /// To 32-bit code, by this selector.
    Foreign(u16),
    Faults,
}

/// A far branch to 64-bit code.
#[derive(Clone, Copy, Debug)]
struct Branch {
    target: u64,
    sp: u64,
    /// Address behind the instruction.
    next: u64,
    is_call: bool,
    /// Flags and stack segment that `iret` loads.
    flags: Option<u64>,
    ss: Option<u16>,
}

fn judge(context: &ThreadContext, pc: u64) -> Verdict {
    let insn = instruction(pc);
    let Some((insn, far)) = insn.and_then(|insn| Some((insn, insn.far()?))) else {
        return Verdict::Faults;
    };
    let branch = match far.kind {
        FarKind::Return => returns(context, far),
        FarKind::InterruptReturn => interrupt_returns(context, far),
        FarKind::Jump | FarKind::Call => loads(context, &insn, far),
    };
    let Some((selector, branch)) = branch else {
        return Verdict::Faults;
    };
    let returns = matches!(far.kind, FarKind::Return | FarKind::InterruptReturn);
    if returns && selector & USER != USER || !is_canonical(branch.target) {
        return Verdict::Faults;
    }
    match code_at(selector) {
        Some(Code::Wide) => {}
        Some(Code::Foreign) => return Verdict::Foreign(selector),
        None => return Verdict::Faults,
    }
    let next = insn.next_pc();
    if branch.is_call && !push(branch.sp, far.operand, next) {
        return Verdict::Faults;
    }
    Verdict::Goes(Branch { next, ..branch })
}

/// `lret`: offset and selector are on the stack.
fn returns(context: &ThreadContext, far: Far) -> Option<(u16, Branch)> {
    let sp = context.regs[reg::RSP];
    let branch = Branch {
        target: word(sp, far.operand)?,
        sp: sp.wrapping_add(2 * far.operand + far.extra),
        next: 0,
        is_call: false,
        flags: None,
        ss: None,
    };
    Some((word(sp.wrapping_add(far.operand), 2)? as u16, branch))
}

/// `iret`: flags and the stack pointer are there, too.
fn interrupt_returns(context: &ThreadContext, far: Far) -> Option<(u16, Branch)> {
    if context.rflags & NESTED_TASK != 0 {
        return None;
    }
    let sp = context.regs[reg::RSP];
    let popped = |index| word(sp.wrapping_add(index * far.operand), far.operand);
    let written = match far.operand {
        2 => WRITTEN & 0xffff,
        _ => WRITTEN,
    };
    let ss = popped(4)? as u16;
    if !is_stack(ss) {
        return None;
    }
    let branch = Branch {
        target: popped(0)?,
        sp: popped(3)?,
        next: 0,
        is_call: false,
        flags: Some(context.rflags & !written | popped(2)? & written),
        ss: Some(ss),
    };
    Some((popped(1)? as u16, branch))
}

/// `ljmp` and `lcall`: offset and selector are in memory.
fn loads(context: &ThreadContext, insn: &Insn, far: Far) -> Option<(u16, Branch)> {
    let at = insn.far_pointer(&context.regs, agent::thread::fs, context.app_gs)?;
    let sp = context.regs[reg::RSP];
    let is_call = far.kind == FarKind::Call;
    let branch = Branch {
        target: word(at, far.offset)?,
        sp: match is_call {
            true => sp.wrapping_sub(2 * far.operand),
            false => sp,
        },
        next: 0,
        is_call,
        flags: None,
        ss: None,
    };
    Some((word(at.wrapping_add(far.offset), 2)? as u16, branch))
}

/// The word of so many bytes at `at`.
fn word(at: u64, len: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    let wanted = &mut bytes[..len as usize];
    (memory::read_some(at, wanted) == wanted.len()).then(|| u64::from_le_bytes(bytes))
}

/// Pushes what `lcall` does: the code segment and the return address.
fn push(sp: u64, operand: u64, next: u64) -> bool {
    let mut bytes = [0; 16];
    let operand = operand as usize;
    bytes[operand..][..2].copy_from_slice(&sys::signal::USER_CS.to_le_bytes());
    bytes[..operand].copy_from_slice(&next.to_le_bytes()[..operand]);
    let bytes = &bytes[..2 * operand];
    let written = || memory::write_bytes(sp, bytes);
    // It may be on a page that the engine guards.
    written() || {
        engine::with(|engine| engine.open_range(sp, bytes.len() as u64));
        written()
    }
}

fn is_canonical(pc: u64) -> bool {
    (pc as i64) << 16 >> 16 == pc as i64
}

fn go(context: &mut ThreadContext, thread: &mut Thread, pc: u64, branch: Branch) {
    let Branch { target, sp, .. } = branch;
    context.regs[reg::RSP] = sp;
    if let Some(flags) = branch.flags {
        if flags & !context.rflags & TRAP_FLAG != 0 {
            // The first trap is behind the first instruction there.
            thread.step_from = target;
        }
        context.rflags = flags;
    }
    let jumps_into = engine::with(|engine| {
        engine.is_at(context, branch.next, sp);
        engine.goes_to(context, why::FAR, target, sp);
        if !branch.is_call {
            engine.enter_inside(target);
        }
        engine.jumps_into(pc, target)
    });
    crate::contexts::unwind(context);
    if jumps_into && !branch.is_call {
        crate::contexts::jump_into(context, target);
    }
    let arrival = match branch.is_call {
        true => Arrival::Call,
        false => Arrival::Jump,
    };
    let key = Key {
        pc: target,
        arrival,
    };
    go_to(context, key);
    // System calls give the usual one back: none comes between here and the cache.
    if let Some(ss) = branch.ss.filter(|ss| *ss != sys::signal::USER_DS) {
        load_stack_segment(ss);
    }
}

/// A code segment that user code may load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Code {
    Wide,
    Foreign,
}

/// Bits of a descriptor, as `lar` gives them (Intel SDM vol. 3, 3.4.5).
mod rights {
    pub const WRITABLE: u32 = 1 << 9;
    pub const CODE: u32 = 1 << 11;
    /// Code or data.
    pub const MEMORY: u32 = 1 << 12;
    pub const USER: u32 = 3 << 13;
    pub const PRESENT: u32 = 1 << 15;
    /// 64-bit code.
    pub const LONG: u32 = 1 << 21;
}

fn code_at(selector: u16) -> Option<Code> {
    const CODE: u32 = rights::MEMORY | rights::CODE | rights::USER | rights::PRESENT;
    let found = rights_of(selector).filter(|found| found & CODE == CODE)?;
    Some(match found & rights::LONG {
        0 => Code::Foreign,
        _ => Code::Wide,
    })
}

fn is_stack(selector: u16) -> bool {
    const DATA: u32 = rights::MEMORY | rights::WRITABLE | rights::USER | rights::PRESENT;
    let is_data = |found| found & (DATA | rights::CODE) == DATA;
    selector & USER == USER && rights_of(selector).is_some_and(is_data)
}

/// Whether a frame or pointer with this selector leads to 32-bit code.
pub fn is_foreign(selector: u16) -> bool {
    code_at(selector) == Some(Code::Foreign)
}

fn rights_of(selector: u16) -> Option<u32> {
    let found: u32;
    let is_some: u8;
    // SAFETY: `lar` reads a descriptor and writes a register and ZF; it faults for none.
    unsafe {
        asm!(
            "lar {found:e}, {selector:e}",
            "setz {is_some}",
            found = out(reg) found,
            selector = in(reg) u32::from(selector),
            is_some = out(reg_byte) is_some,
            options(nomem, nostack)
        );
    }
    (is_some != 0).then_some(found)
}

fn load_stack_segment(selector: u16) {
    // SAFETY: `is_stack` found it to be a present, writable data segment of user code; 64-bit code
    // uses neither its base nor its limit. If another thread took it from the local table since,
    // the load faults, as natively the `iret` would have.
    unsafe { asm!("mov ss, {0:e}", in(reg) u32::from(selector), options(nostack)) };
}

/// Says once that the program's branch, or frame, to 32-bit code faults.
pub fn tell_foreign(selector: u16) {
    static TOLD: AtomicBool = AtomicBool::new(false);
    if TOLD.swap(true, Relaxed) {
        return;
    }
    let mut text = agent::procfs::Text::default();
    let _ = core::fmt::Write::write_fmt(
        &mut text,
        format_args!(
            "everypath: the program branches to 32-bit code (selector {selector:#x}), which Everypath cannot run; \
             the branch faults (SIGSEGV)\n"
        ),
    );
    let _ = sys::write(2, &text.0);
}
