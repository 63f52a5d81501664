//! Classic BPF, as far as filters of system calls have it
//! (`kernel/seccomp.c:seccomp_check_filter`, `net/core/filter.c:bpf_check_classic`).
//!
//! Only programs that the kernel has accepted are run: jumps go forwards and stay within, loads
//! are of whole words of the call. What it would not have accepted ends the run with 0.

use core::mem::offset_of;

/// AUDIT_ARCH_X86_64.
pub const ARCH_X86_64: u32 = 0xc000_003e;
/// Words that a program can store to.
const MEMORY: usize = 16;

/// `struct sock_filter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Insn {
    pub code: u16,
    /// How many instructions a jump leaves out, if its condition holds and if not.
    pub yes: u8,
    pub no: u8,
    pub k: u32,
}

impl Insn {
    pub fn to_word(&self) -> u64 {
        let [yes, no] = [self.yes, self.no].map(u64::from);
        u64::from(self.code) | yes << 16 | no << 24 | u64::from(self.k) << 32
    }

    /// Whether it loads the word at `offset` of the call.
    pub fn loads(&self, offset: u32) -> bool {
        self.code == LD | ABS && self.k == offset
    }

    /// Whether it may end the program with this action.
    pub fn may_return(&self, action: u32) -> bool {
        let is_return = self.code & 7 == RET;
        is_return && (self.code & 0x18 == BY_A || self.k & super::action::FULL == action)
    }

    pub fn from_word(word: u64) -> Insn {
        Insn {
            code: word as u16,
            yes: (word >> 16) as u8,
            no: (word >> 24) as u8,
            k: (word >> 32) as u32,
        }
    }
}

/// `struct seccomp_data`: what a filter is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Data {
    pub number: u32,
    pub arch: u32,
    /// Address of the next instruction.
    pub address: u64,
    pub args: [u64; 6],
}

impl Data {
    /// The word at `offset`.
    fn word(&self, offset: u32) -> Option<u32> {
        const ADDRESS: usize = offset_of!(Data, address);
        const ARGS: usize = offset_of!(Data, args);
        let half = |word: u64, at: usize| (word >> (at % 8 * 8)) as u32;
        let at = offset as usize;
        match at {
            _ if !at.is_multiple_of(4) => None,
            0 => Some(self.number),
            4 => Some(self.arch),
            ADDRESS..ARGS => Some(half(self.address, at)),
            _ => Some(half(*self.args.get((at - ARGS) / 8)?, at)),
        }
    }
}

// Classes, and what else an opcode is made of.
const LD: u16 = 0;
const LDX: u16 = 1;
const ST: u16 = 2;
const STX: u16 = 3;
const ALU: u16 = 4;
const JMP: u16 = 5;
const RET: u16 = 6;
const MISC: u16 = 7;
const IMM: u16 = 0x00;
const ABS: u16 = 0x20;
const MEM: u16 = 0x60;
const LEN: u16 = 0x80;
const BY_X: u16 = 0x08;
const BY_A: u16 = 0x10;
const TXA: u16 = 0x80;
const AND: u16 = 0x50;
const JEQ: u16 = 0x10;

const fn insn(code: u16, yes: u8, no: u8, k: u32) -> Insn {
    Insn { code, yes, no, k }
}

/// Loads the word at `offset` of the call.
pub const fn load(offset: u32) -> Insn {
    insn(LD | ABS, 0, 0, offset)
}

pub const fn immediate(value: u32) -> Insn {
    insn(LD | IMM, 0, 0, value)
}

pub const fn and(value: u32) -> Insn {
    insn(ALU | AND, 0, 0, value)
}

pub const fn equal(value: u32, yes: u8, no: u8) -> Insn {
    insn(JMP | JEQ, yes, no, value)
}

pub const fn ret(verdict: u32) -> Insn {
    insn(RET, 0, 0, verdict)
}

struct State {
    a: u32,
    x: u32,
    memory: [u32; MEMORY],
}

/// The verdict of `program` on `call`.
pub fn run(program: &[Insn], call: &Data) -> u32 {
    let mut state = State {
        a: 0,
        x: 0,
        memory: [0; MEMORY],
    };
    let mut at = 0;
    while let Some(insn) = program.get(at) {
        at += 1;
        match insn.code & 7 {
            JMP => at += skipped(insn, &state),
            RET if insn.code & 0x18 == BY_A => return state.a,
            RET => return insn.k,
            _ => match step(insn, &mut state, call) {
                Some(()) => {}
                None => return 0,
            },
        }
    }
    0
}

/// How many instructions a jump leaves out.
fn skipped(insn: &Insn, state: &State) -> usize {
    let operand = if insn.code & BY_X != 0 {
        state.x
    } else {
        insn.k
    };
    let holds = match insn.code & 0xf0 {
        0x00 => return insn.k as usize,
        JEQ => state.a == operand,
        0x20 => state.a > operand,
        0x30 => state.a >= operand,
        _ => state.a & operand != 0,
    };
    usize::from(if holds { insn.yes } else { insn.no })
}

/// Any other instruction; `None`: the run ends with 0.
fn step(insn: &Insn, state: &mut State, call: &Data) -> Option<()> {
    let k = insn.k as usize;
    match (insn.code & 7, insn.code & 0xe0) {
        (LD, IMM) => state.a = insn.k,
        (LDX, IMM) => state.x = insn.k,
        (LD, ABS) => state.a = call.word(insn.k)?,
        (LD, LEN) => state.a = size_of::<Data>() as u32,
        (LDX, LEN) => state.x = size_of::<Data>() as u32,
        (LD, MEM) => state.a = *state.memory.get(k)?,
        (LDX, MEM) => state.x = *state.memory.get(k)?,
        (ST, _) => *state.memory.get_mut(k)? = state.a,
        (STX, _) => *state.memory.get_mut(k)? = state.x,
        (ALU, _) => {
            let operand = if insn.code & BY_X != 0 {
                state.x
            } else {
                insn.k
            };
            state.a = arithmetic(insn.code & 0xf0, state.a, operand)?;
        }
        (MISC, _) if insn.code & TXA != 0 => state.a = state.x,
        (MISC, _) => state.x = state.a,
        _ => return None,
    }
    Some(())
}

fn arithmetic(operation: u16, a: u32, operand: u32) -> Option<u32> {
    Some(match operation {
        0x00 => a.wrapping_add(operand),
        0x10 => a.wrapping_sub(operand),
        0x20 => a.wrapping_mul(operand),
        // By zero: the run ends.
        0x30 => a.checked_div(operand)?,
        0x40 => a | operand,
        AND => a & operand,
        // Counts are taken as the processor takes them.
        0x60 => a.wrapping_shl(operand),
        0x70 => a.wrapping_shr(operand),
        0x80 => a.wrapping_neg(),
        0xa0 => a ^ operand,
        _ => return None,
    })
}
