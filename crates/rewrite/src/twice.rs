//! Functions of a file that come back more often than they are called, as their code says.
//!
//! Problem: a static program, and the C library, have their own `fork`, `vfork` and `setjmp`, mostly without names.
//!
//! Approach: the number of a system call is a constant of the same block, or comes from a register to which the whole function gives
//! constants alone, as where a loop waits; one that is not known may be any. `setjmp` and `getcontext` save the address that they
//! return to and the stack pointer behind it, which other functions do not.

use flow::{Block, Function};
use image::LinkAddr;
use isa::dataflow::{Op, Place};
use isa::{Insn, Reg};

/// Calls of a function that come back more often than they are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Twice {
    /// In a process with memory of its own.
    pub forks: bool,
    /// Perhaps so: the number of a system call is not known.
    pub may_fork: bool,
    /// In this process.
    pub here: bool,
}

const SYSCALL: &[u8] = &[0x0f, 0x05];
/// clone(2), fork(2), clone3(2).
const FORK: [u64; 3] = [56, 57, 435];
/// The child of vfork(2) has its parent's memory, and the parent waits for it.
const VFORK: u64 = 58;

impl Twice {
    pub fn of<'b>(function: &Function, bytes: &dyn Fn(LinkAddr) -> &'b [u8]) -> Twice {
        let mut twice = Twice::default();
        let blocks = &function.graph.blocks;
        let blocks = blocks.iter().map(|block| {
            let code = bytes(block.start);
            let len = (block.end.0 - block.start.0) as usize;
            (block, &code[..code.len().min(len)])
        });
        for (block, code) in blocks.clone() {
            if code.windows(SYSCALL.len()).any(|bytes| bytes == SYSCALL) {
                for number in numbers(block, code) {
                    let known = match number {
                        Number::Of(register) => constants(register, blocks.clone()),
                        Number::Is(number) => Some(vec![number]),
                        Number::Unknown => None,
                    };
                    twice.may_fork |= known.is_none();
                    for number in known.unwrap_or_default() {
                        twice.forks |= FORK.contains(&number);
                        twice.here |= number == VFORK;
                    }
                }
            }
            if block.start == function.entry {
                twice.here |= saves_return(code);
            }
        }
        twice
    }
}

/// The number of a system call, as a block says it.
#[derive(Clone, Copy)]
enum Number {
    Is(u64),
    /// It was in another register.
    Of(Reg),
    Unknown,
}

/// Numbers of a block's system calls.
fn numbers(block: &Block, code: &[u8]) -> Vec<Number> {
    let (mut now, mut numbers) = (Number::Unknown, Vec::new());
    for insn in insns(block.start, code) {
        if insn.bytes() == SYSCALL {
            numbers.push(std::mem::replace(&mut now, Number::Unknown));
            continue;
        }
        match insn.op() {
            Op::Constant {
                to: Reg::Rax,
                value,
            } => now = Number::Is(value),
            Op::Load {
                to: Reg::Rax,
                from: Place::Register(register),
                width: 4..,
                ..
            } => now = Number::Of(register),
            op if changes(op, Reg::Rax) => now = Number::Unknown,
            // The register has another value then, and may have had any before.
            op if matches!(now, Number::Of(register) if changes(op, register)) => {
                now = Number::Unknown;
            }
            _ => {}
        }
    }
    numbers
}

/// Values that a function gives to a register, if they are constants.
fn constants<'b>(
    register: Reg,
    blocks: impl Iterator<Item = (&'b Block, &'b [u8])>,
) -> Option<Vec<u64>> {
    let mut values = Vec::new();
    for (block, code) in blocks {
        for insn in insns(block.start, code) {
            match insn.op() {
                Op::Constant { to, value } if to == register => values.push(value),
                // The caller's value comes back before the function returns.
                Op::Pop(Some(to)) if to == register && is_kept(to) => {}
                op if changes(op, register) => return None,
                _ => {}
            }
        }
    }
    (!values.is_empty()).then_some(values)
}

/// Registers that functions give back as they were (System V ABI, x86-64, 3.2.1).
fn is_kept(register: Reg) -> bool {
    use Reg::{R12, R13, R14, R15, Rbp, Rbx};
    matches!(register, Rbx | Rbp | R12 | R13 | R14 | R15)
}

/// Whether an instruction may change a register.
fn changes(op: Op, register: Reg) -> bool {
    match op {
        Op::Constant { to, .. }
        | Op::Address { to, .. }
        | Op::Load { to, .. }
        | Op::Add { to, .. }
        | Op::AddConstant { to, .. }
        | Op::SubtractConstant { to, .. }
        | Op::Subtract { to, .. }
        | Op::And { to, .. }
        | Op::ShiftRight { to, .. }
        | Op::ShiftLeft { to, .. }
        | Op::Pop(Some(to)) => to == register,
        Op::Store { .. } | Op::Compare { .. } | Op::Push(_) | Op::Pop(None) => false,
        Op::Other { changes, .. } => changes & 1 << register as u16 != 0,
    }
}

/// Whether the first code of a function reads the address that it returns to, and the stack pointer behind it.
fn saves_return(code: &[u8]) -> bool {
    // `mov reg, [rsp]` and `lea reg, [rsp + 8]`, in bytes without their register.
    let is_load =
        |bytes: &[u8]| matches!(bytes, [0x48 | 0x4c, 0x8b, modrm, 0x24] if modrm & 0xc7 == 4);
    let is_behind =
        |bytes: &[u8]| matches!(bytes, [0x48 | 0x4c, 0x8d, modrm, 0x24, 8] if modrm & 0xc7 == 0x44);
    let has = |len: usize, is_it: &dyn Fn(&[u8]) -> bool| code.windows(len).any(is_it);
    has(4, &is_load) && has(5, &is_behind)
}

/// Instructions of code at an address, up to one that cannot be decoded.
fn insns(start: LinkAddr, code: &[u8]) -> impl Iterator<Item = Insn> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = code.get(at..).filter(|rest| !rest.is_empty())?;
        let insn = Insn::decode(&rest[..rest.len().min(15)], start.0 + at as u64).ok()?;
        at += insn.len();
        Some(insn)
    })
}
