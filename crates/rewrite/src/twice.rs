//! Functions of a file that come back more often than they are called, as their code says.
//!
//! Problem: a static program, and the C library, have their own `fork`, `vfork` and `setjmp`, mostly without names.
//!
//! Approach: the number of a system call is a constant, or several, that come to it on all ways through the function, also by way of
//! other registers; one that is not known may be any. `setjmp` and `getcontext` save the address that they
//! return to and the stack pointer behind it, which other functions do not.

use std::collections::HashSet;

use flow::{Block, EdgeKind, Function, To};
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
/// execve(2), execveat(2).
const EXECVE: u64 = 59;
const EXECVEAT: u64 = 322;
/// exit(2), exit_group(2).
const EXIT: u64 = 60;
const EXIT_GROUP: u64 = 231;

impl Twice {
    pub fn of<'b>(function: &Function, bytes: &dyn Fn(LinkAddr) -> &'b [u8]) -> Twice {
        let mut twice = Twice::default();
        for (at, block) in function.graph.blocks.iter().enumerate() {
            for known in system_calls(function, at, bytes) {
                twice.may_fork |= known.is_none();
                for number in known.unwrap_or_default() {
                    twice.forks |= FORK.contains(&number);
                    twice.here |= number == VFORK;
                }
            }
            if block.start == function.entry {
                twice.here |= saves_return(code(block, bytes));
            }
        }
        twice
    }
}

/// The kind of the system call at the end of a block, if it is one that does not come back.
pub fn exits<'b>(
    function: &Function,
    block: usize,
    bytes: &dyn Fn(LinkAddr) -> &'b [u8],
) -> Option<Exits> {
    let last = system_calls(function, block, bytes).pop().flatten();
    match last?[..] {
        [EXIT | EXECVE | EXECVEAT] => Some(Exits::Thread),
        [EXIT_GROUP] => Some(Exits::Process),
        _ => None,
    }
}

/// A system call that does not come back: it ends its thread, or the process; another program, if it can be executed, takes the
/// place of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exits {
    Thread,
    Process,
}

fn code<'b>(block: &Block, bytes: &dyn Fn(LinkAddr) -> &'b [u8]) -> &'b [u8] {
    let code = bytes(block.start);
    let len = (block.end.0 - block.start.0) as usize;
    &code[..code.len().min(len)]
}

/// The numbers that each system call of a block may have, if they are known.
fn system_calls<'b>(
    function: &Function,
    at: usize,
    bytes: &dyn Fn(LinkAddr) -> &'b [u8],
) -> Vec<Option<Vec<u64>>> {
    let block = &function.graph.blocks[at];
    let own = code(block, bytes);
    if !own.windows(SYSCALL.len()).any(|bytes| bytes == SYSCALL) {
        return Vec::new();
    }
    let numbers = Values::of(block, own).numbers.into_iter();
    let known = numbers.map(|number| match number {
        Value::Before(register) => constants(function, at, register, bytes),
        Value::Is(number) => Some(vec![number]),
        Value::Unknown => None,
    });
    known.collect()
}

/// The value of a register, as a block says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Is(u64),
    /// That of a register before the block.
    Before(Reg),
    Unknown,
}

/// Values of registers behind a block, and the numbers of its system calls.
struct Values {
    registers: [Value; 16],
    numbers: Vec<Value>,
}

impl Values {
    fn of(block: &Block, code: &[u8]) -> Values {
        let mut values = Values {
            registers: Reg::ALL.map(Value::Before),
            numbers: Vec::new(),
        };
        for insn in insns(block.start, code) {
            if insn.bytes() == SYSCALL {
                values.numbers.push(values.registers[Reg::Rax as usize]);
                // The kernel writes to these (System V ABI, x86-64, A.2.1).
                for register in [Reg::Rax, Reg::Rcx, Reg::R11] {
                    values.registers[register as usize] = Value::Unknown;
                }
                continue;
            }
            let (to, value) = match insn.op() {
                Op::Constant { to, value } => (to, Value::Is(value)),
                Op::Load {
                    to,
                    from: Place::Register(from),
                    width: 4..,
                    ..
                } => (to, values.registers[from as usize]),
                op => {
                    let changed = Reg::ALL.into_iter().filter(|reg| changes(op, *reg));
                    changed.for_each(|reg| values.registers[reg as usize] = Value::Unknown);
                    continue;
                }
            };
            values.registers[to as usize] = value;
        }
        values
    }
}

/// Constants that a register may have before a block, if it has no other values.
fn constants<'b>(
    function: &Function,
    block: usize,
    register: Reg,
    bytes: &dyn Fn(LinkAddr) -> &'b [u8],
) -> Option<Vec<u64>> {
    let graph = &function.graph;
    let entries = function.entry_blocks();
    let mut found = Vec::new();
    let mut seen: HashSet<(usize, Reg)> = HashSet::new();
    let mut waiting = vec![(block, register)];
    while let Some((block, register)) = waiting.pop() {
        if !seen.insert((block, register)) {
            continue;
        }
        let to = To::Block(block as u32);
        let mut ways = graph.edges.iter().filter(|edge| edge.to == to).peekable();
        if entries.contains(&(block as u32)) || ways.peek().is_none() {
            return None;
        }
        for way in ways {
            let from = way.from as usize;
            let calls = graph.edges_of(from).iter();
            let mut calls = calls.filter(|edge| edge.kind == EdgeKind::Call);
            if calls.next().is_some() && !is_kept(register) {
                return None;
            }
            let before = &graph.blocks[from];
            match Values::of(before, code(before, bytes)).registers[register as usize] {
                Value::Is(value) => found.push(value),
                Value::Before(register) => waiting.push((from, register)),
                Value::Unknown => return None,
            }
        }
    }
    found.sort_unstable();
    found.dedup();
    Some(found)
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
