//! `/proc/self/syscall`: the call in which a thread is, its arguments, its stack pointer and where
//! it is in the program.
//!
//! The file of the thread that reads it is about that very read. Another thread's call runs in
//! the code cache with the program's own arguments and stack pointer; only the place is ours.

use alloc::vec::Vec;
use core::fmt::Write;

use super::Text;
use crate::memory;

/// The call by which a thread reads its own file.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    pub number: u64,
    pub args: [u64; 6],
    pub sp: u64,
    /// The address behind the instruction that makes the call.
    pub pc: u64,
}

/// The file of the thread that reads it.
pub fn of_reader(asked: &Asked) -> Vec<u8> {
    let mut out = Text::default();
    // A text in memory takes every byte.
    let _ = write!(out, "{}", asked.number);
    for arg in asked.args {
        let _ = write!(out, " {arg:#x}");
    }
    let _ = writeln!(out, " {:#x} {:#x}", asked.sp, asked.pc);
    out.0
}

/// Another thread's file. `program_pc` says where in the program an address of the cache is; a
/// call of the engine is none of the program's, so the thread is running.
pub fn of_other(text: &[u8], program_pc: impl Fn(u64) -> Option<u64>) -> Vec<u8> {
    let running = || b"running\n".to_vec();
    let line = core::str::from_utf8(text).unwrap_or("").trim_end();
    let Some((before, pc)) = line.rsplit_once(' ') else {
        return text.to_vec();
    };
    let pc = pc.trim_start_matches("0x");
    let Ok(pc) = u64::from_str_radix(pc, 16) else {
        return text.to_vec();
    };
    let pc = match (memory::is_ours(pc, pc + 1), before.starts_with("-1 ")) {
        (false, _) => pc,
        (true, true) => return running(),
        (true, false) => match program_pc(pc) {
            Some(pc) => pc,
            None => return running(),
        },
    };
    let mut out = Text::default();
    // A text in memory takes every byte.
    let _ = writeln!(out, "{before} {pc:#x}");
    out.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_the_kernels() {
        let asked = Asked {
            number: 0,
            args: [3, 0x7000, 0x400, 0, 0, 0],
            sp: 0x7ffe_0000,
            pc: 0x40_1000,
        };
        let text = of_reader(&asked);
        let expected = "0 0x3 0x7000 0x400 0x0 0x0 0x0 0x7ffe0000 0x401000\n";
        assert_eq!(text, expected.as_bytes());
        for text in ["running\n", expected] {
            assert_eq!(of_other(text.as_bytes(), |_| None), text.as_bytes());
        }
    }
}
