//! Probes: what is to be inserted into a program, as data, and the code for it.
//!
//! Problem: inserted code may change nothing that the program reads, and is best if it is one instruction.
//!
//! Approach: [`lower`] is the one place that makes code of a [`Probe`]. It is told what is live, and takes the first row of this
//! table that fits:
//!
//! | probe | flags | code |
//! |---|---|---|
//! | [`Probe::Add`] | those of `inc` are dead | `incq %gs:D` |
//! | [`Probe::Add`] | live, `rax` dead | `lahf; seto %al; incq %gs:D; addb $127, %al; sahf` |
//! | [`Probe::Add`] | live, another register dead | the same, with `rax` kept in it |
//! | [`Probe::Mark`] | any | `movb $1, %gs:D` |
//!
//! Each memory operand is changed by one instruction, so a handler of a signal that comes in between and counts as well loses
//! nothing. No code uses the stack: unwind tables hold in it.
//!
//! Invariant: code of a probe changes no register and no flag that is live. `None`: there is no such code.
//!
//! Source: Intel SDM volume 2, `INC`, `LAHF`, `SAHF`, `SETcc`, `ADD`.
#![forbid(unsafe_code)]
#![no_std]

extern crate alloc;

use alloc::vec::Vec;

use isa::{Flags, RegisterSet};

/// Something to be inserted; numbers are displacements from `%gs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Probe {
    /// Add one to a word of 64 bits.
    Add(u32),
    /// Set a byte to 1.
    Mark(u32),
}

/// Bits of [`Flags`]: all but the carry, which `inc` leaves as it was.
const OF_INC: Flags = Flags(0x2f);
const RAX: usize = 0;
const RSP: usize = 4;

/// Code of a probe where these registers and flags are live.
pub fn lower(probe: Probe, live: RegisterSet) -> Option<Vec<u8>> {
    let mut code = Vec::new();
    match probe {
        Probe::Mark(at) => {
            code.extend_from_slice(&[0x65, 0xc6, 0x04, 0x25]);
            code.extend_from_slice(&at.to_le_bytes());
            code.push(1);
        }
        Probe::Add(at) if live.flags.0 & OF_INC.0 == 0 => increment(at, &mut code),
        Probe::Add(at) => {
            let dead = |register: &usize| live.general >> register & 1 == 0;
            let keep = match dead(&RAX) {
                true => None,
                false => Some((1..16).filter(|register| *register != RSP).find(dead)?),
            };
            if let Some(register) = keep {
                code.extend_from_slice(&move_rax(register, true));
            }
            // lahf; seto %al
            code.extend_from_slice(&[0x9f, 0x0f, 0x90, 0xc0]);
            increment(at, &mut code);
            // addb $127, %al overflows if al is 1; sahf leaves the overflow as it is.
            code.extend_from_slice(&[0x04, 0x7f, 0x9e]);
            if let Some(register) = keep {
                code.extend_from_slice(&move_rax(register, false));
            }
        }
    }
    Some(code)
}

/// `incq %gs:at`
fn increment(at: u32, code: &mut Vec<u8>) {
    code.extend_from_slice(&[0x65, 0x48, 0xff, 0x04, 0x25]);
    code.extend_from_slice(&at.to_le_bytes());
}

/// `mov %rax, %register`, or back.
fn move_rax(register: usize, away: bool) -> [u8; 3] {
    let (low, high) = (register as u8 & 7, register as u8 >> 3);
    match away {
        true => [0x48 | high, 0x89, 0xc0 | low],
        false => [0x48 | high << 2, 0x89, 0xc0 | low << 3],
    }
}
