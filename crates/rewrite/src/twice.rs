//! Functions of a file that come back more often than they are called, as their code says.
//!
//! Problem: a static program, and the C library, have their own `fork`, `vfork` and `setjmp`, mostly without names.
//!
//! Approach: a process is made by a system call whose number stands in the same block; `setjmp` and `getcontext` save the address that
//! they return to and the stack pointer behind it, which other functions do not. A system call whose number is not known may be any.

use flow::{Block, Function};
use image::LinkAddr;
use isa::Insn;

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
const MOV_EAX: u8 = 0xb8;
const XOR_EAX: [&[u8]; 2] = [&[0x31, 0xc0], &[0x33, 0xc0]];
/// clone(2), fork(2), clone3(2).
const FORK: [u32; 3] = [56, 57, 435];
/// The child of vfork(2) has its parent's memory, and the parent waits for it.
const VFORK: u32 = 58;

impl Twice {
    pub fn of<'b>(function: &Function, bytes: &dyn Fn(LinkAddr) -> &'b [u8]) -> Twice {
        let mut twice = Twice::default();
        for block in &function.graph.blocks {
            let code = bytes(block.start);
            let code = &code[..code.len().min((block.end.0 - block.start.0) as usize)];
            if code.windows(SYSCALL.len()).any(|bytes| bytes == SYSCALL) {
                twice.add_system_calls(block, code);
            }
            if block.start == function.entry {
                twice.here |= saves_return(code);
            }
        }
        twice
    }

    fn add_system_calls(&mut self, block: &Block, code: &[u8]) {
        let mut number = None;
        for insn in insns(block.start, code) {
            match insn.bytes() {
                SYSCALL => {
                    match number {
                        None => self.may_fork = true,
                        Some(VFORK) => self.here = true,
                        Some(number) => self.forks |= FORK.contains(&number),
                    }
                    number = None;
                }
                [MOV_EAX, a, b, c, d] => number = Some(u32::from_le_bytes([*a, *b, *c, *d])),
                bytes if XOR_EAX.contains(&bytes) => number = Some(0),
                _ => {}
            }
        }
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
