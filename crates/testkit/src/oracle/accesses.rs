//! Memory accesses of a program, by single-stepping: what a memory trace has to have.
//!
//! Approach: before each step the table of `isa` gives the accesses for the thread's registers.
//! The values of reads are what memory holds then, those of writes what it holds after the step.
//! The table itself is held against the processor in [`crate::instances::accesses`].
//!
//! Limits: one thread, no signals. Accesses that depend on vector or mask registers are not
//! given, only counted ([`Stepped::hidden`]), and no values of areas.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use isa::memory::{Access, Kind, Machine, Pattern, Segment};
use isa::{Insn, Reg};
use nix::libc::user_regs_struct;
use nix::sys::ptrace;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

use super::OracleError;
use super::code::{Code, ProgramPc};
use super::instruction::LONGEST;

/// Largest access whose value is kept.
const VALUE: usize = 64;
/// The direction flag.
const DIRECTION: u64 = 0x400;

/// One access and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Valued {
    /// Address of the instruction.
    pub pc: u64,
    pub access: Access,
    /// The value that a read saw, or that a write or an update left.
    pub value: Vec<u8>,
}

/// An access that a thread made, and what memory held before it and behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    pub access: Access,
    pub before: Vec<u8>,
    pub behind: Vec<u8>,
}

/// All accesses of a run.
#[derive(Clone, Debug, Default)]
pub struct Stepped {
    pub accesses: Vec<Valued>,
    /// Instructions whose accesses depend on registers that are not read here.
    pub hidden: u64,
    /// The stack pointer at the first step.
    pub stack: u64,
}

/// General registers of a stopped thread.
struct Registers {
    registers: user_regs_struct,
    /// Steps of a repeated string instruction: ptrace stops after each.
    steps: u64,
}

impl Machine for Registers {
    fn register(&self, register: Reg) -> u64 {
        let r = &self.registers;
        let all = [
            r.rax, r.rcx, r.rdx, r.rbx, r.rsp, r.rbp, r.rsi, r.rdi, r.r8, r.r9, r.r10, r.r11,
            r.r12, r.r13, r.r14, r.r15,
        ];
        all[register as usize]
    }

    fn base(&self, segment: Segment) -> u64 {
        match segment {
            Segment::Fs => self.registers.fs_base,
            Segment::Gs => self.registers.gs_base,
        }
    }

    fn is_backwards(&self) -> bool {
        self.registers.eflags & DIRECTION != 0
    }

    fn steps(&self) -> u64 {
        self.steps
    }

    fn vector(&self, _: u8) -> [u8; 64] {
        [0; 64]
    }

    fn opmask(&self, _: u8) -> u64 {
        0
    }

    fn mmx(&self, _: u8) -> u64 {
        0
    }

    fn area(&self) -> u32 {
        0
    }
}

/// Whether general registers say all.
fn is_plain(pattern: Pattern) -> bool {
    matches!(
        pattern,
        Pattern::Once | Pattern::Repeated | Pattern::BitString(_)
    )
}

/// Steps the stopped process `pid` until it ends or `pc` is `until`; the accesses of instructions
/// in `within`.
pub fn step(pid: Pid, within: &Range<u64>, until: u64) -> Result<Stepped, OracleError> {
    let memory = File::open(format!("/proc/{pid}/mem")).map_err(OracleError::Memory)?;
    let mut stepped = Stepped {
        stack: ptrace::getregs(pid)?.rsp,
        ..Stepped::default()
    };
    loop {
        let registers = ptrace::getregs(pid)?;
        if registers.rip == until {
            return Ok(stepped);
        }
        let first = stepped.accesses.len();
        if within.contains(&registers.rip) {
            before(&memory, registers, &mut stepped)?;
        }
        ptrace::step(pid, None)?;
        match waitpid(pid, None)? {
            WaitStatus::Stopped(..) | WaitStatus::PtraceEvent(..) => {}
            _ => return Ok(stepped),
        }
        for valued in &mut stepped.accesses[first..] {
            if valued.access.kind.writes() {
                valued.value = value(&memory, valued.access)?;
            }
        }
    }
}

/// Adds the accesses of the next instruction.
fn before(
    memory: &File,
    registers: user_regs_struct,
    stepped: &mut Stepped,
) -> Result<(), OracleError> {
    let mut code = [0; LONGEST];
    let read = memory.read_at(&mut code, registers.rip);
    let length = read.map_err(OracleError::Memory)?;
    let Ok(insn) = Insn::decode(&code[..length], registers.rip) else {
        return Ok(());
    };
    let machine = Registers {
        steps: u64::from(registers.rcx != 0),
        registers,
    };
    let operands = insn.memory();
    if operands.iter().any(|operand| !is_plain(operand.pattern)) {
        stepped.hidden += 1;
        return Ok(());
    }
    for operand in operands {
        let mut accesses = Vec::new();
        operand.each(&machine, |access| accesses.push(access));
        for access in accesses {
            let value = match access.kind {
                Kind::Read => value(memory, access)?,
                Kind::Update | Kind::Write => Vec::new(),
            };
            stepped.accesses.push(Valued {
                pc: registers.rip,
                access,
                value,
            });
        }
    }
    Ok(())
}

/// Accesses of the next step of a thread, if general registers say them.
pub(super) fn of_step(code: &Code, registers: user_regs_struct) -> Vec<Made> {
    let pc = ProgramPc(registers.rip);
    let Ok(insn) = Insn::decode(code.read(pc, &mut [0; LONGEST]), registers.rip) else {
        return Vec::new();
    };
    let machine = Registers {
        steps: u64::from(registers.rcx != 0),
        registers,
    };
    let mut accesses = Vec::new();
    if says_all(&insn) {
        for operand in insn.memory() {
            operand.each(&machine, |access| {
                // Looking at what is only written would make the stack grow, by our own limit.
                let before = match access.kind.reads() {
                    true => bytes(code, access),
                    false => Vec::new(),
                };
                accesses.push(Made {
                    access,
                    before,
                    behind: Vec::new(),
                });
            });
        }
    }
    accesses
}

/// The bytes that memory holds at the place of an access; less, if it cannot be read there.
pub(super) fn bytes(code: &Code, access: Access) -> Vec<u8> {
    let mut bytes = vec![0; (access.size as usize).min(VALUE)];
    let len = code.read(ProgramPc(access.address), &mut bytes).len();
    bytes.truncate(len);
    bytes
}

/// Whether general registers say all accesses of the instruction; no trace has those of far
/// branches.
pub fn says_all(insn: &Insn) -> bool {
    !matches!(insn.flow(), isa::Flow::Far(_))
        && insn
            .memory()
            .iter()
            .all(|operand| is_plain(operand.pattern))
}

fn value(memory: &File, access: Access) -> Result<Vec<u8>, OracleError> {
    let mut value = vec![0; (access.size as usize).min(VALUE)];
    let read = memory.read_exact_at(&mut value, access.address);
    // The vsyscall page and its like cannot be read there.
    match read {
        Ok(()) => Ok(value),
        Err(error) if error.raw_os_error() == Some(5) => Ok(Vec::new()),
        Err(error) => Err(OracleError::Memory(error)),
    }
}
