//! The state of the program before one instruction, as both sides record it.
//!
//! Taken from a signal frame, which holds all of it. Left out: what the
//! processor says about its last x87 instruction (its addresses are those of
//! the code that ran), the trap and resume flags, segment selectors.

use core::fmt::Write;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sys::signal::{SigContext, UContext};

/// CF, PF, AF, ZF, SF, DF, OF, NT, AC, ID.
pub const FLAGS: u64 = 0xCD5 | 1 << 14 | 1 << 18 | 1 << 21;

/// CF, PF, AF, ZF, SF, OF.
const ARITHMETIC: u64 = 0x8D5;

/// Their bits in the register.
fn rflags(flags: isa::Flags) -> u64 {
    const BITS: [u32; 6] = [11, 7, 6, 4, 0, 2];
    let bits = BITS.iter().enumerate();
    bits.map(|(at, bit)| u64::from(flags.0 >> at & 1) << bit)
        .sum()
}

const NAMES: [&str; 16] = [
    "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13",
    "r14", "r15",
];

/// Extended components compared: upper halves of ymm; opmasks; upper halves of
/// zmm0..15; zmm16..31; r16..31 (Intel SDM vol. 1, 13.1).
const COMPONENTS: [u32; 5] = [2, 5, 6, 7, 19];

/// Position (upper half) and size of each in the standard format.
static PLACES: [AtomicU64; 5] = [const { AtomicU64::new(0) }; 5];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct State {
    pub pc: u64,
    pub regs: [u64; 16],
    pub flags: u64,
    /// The program's base of gs, where it can be read.
    pub gs: u64,
    /// Sums over mxcsr and all vector registers, and over the x87 unit.
    pub vectors: u64,
    pub x87: u64,
}

/// Asks the processor where components are. Once, before the first `State::of`.
pub fn find_components() {
    for (place, component) in PLACES.iter().zip(COMPONENTS) {
        let found = core::arch::x86_64::__cpuid_count(0xD, component);
        place.store(u64::from(found.ebx) << 32 | u64::from(found.eax), Relaxed);
    }
}

impl State {
    /// The program is about to run the instruction at `pc` with what `uc` holds.
    pub fn of(uc: &UContext, pc: u64, gs: u64) -> State {
        let (vectors, x87) = sums(uc.mcontext.fpstate);
        State {
            pc,
            regs: registers(&uc.mcontext),
            flags: uc.mcontext.eflags & FLAGS,
            gs,
            vectors,
            x87,
        }
    }

    /// Whether `other` has other arithmetic flags only, and the instructions at
    /// `ahead`, which are those that run next, overwrite these before any of
    /// them reads one. What is not known to be read counts as dead.
    pub fn differs_in_dead_flags(&self, other: &State, ahead: impl Iterator<Item = u64>) -> bool {
        let mut alive = self.flags ^ other.flags;
        if alive & !ARITHMETIC != 0
            || *self
                != (State {
                    flags: self.flags,
                    ..*other
                })
        {
            return false;
        }
        for insn in ahead.map_while(super::instruction) {
            if alive & rflags(insn.flags_read()) != 0 {
                return false;
            }
            alive &= !rflags(insn.flags_overwritten());
            if alive == 0 {
                break;
            }
        }
        true
    }

    /// Says what of `self`, of the native run, is different in `other`.
    pub fn describe(&self, other: &State, out: &mut impl Write) {
        let mut line = |name: &str, native: u64, translated: u64| {
            if native != translated {
                let _ = writeln!(
                    out,
                    "everypath:   {name}: native {native:#x}, translated {translated:#x}"
                );
            }
        };
        line("pc", self.pc, other.pc);
        for (name, (native, translated)) in NAMES.iter().zip(self.regs.iter().zip(other.regs)) {
            line(name, *native, translated);
        }
        line("flags", self.flags, other.flags);
        line("base of gs", self.gs, other.gs);
        line("sum of the vector registers", self.vectors, other.vectors);
        line("sum of the x87 unit", self.x87, other.x87);
    }
}

/// In the order of their encoding.
pub fn registers(all: &SigContext) -> [u64; 16] {
    [
        all.rax, all.rcx, all.rdx, all.rbx, all.rsp, all.rbp, all.rsi, all.rdi, all.r8, all.r9,
        all.r10, all.r11, all.r12, all.r13, all.r14, all.r15,
    ]
}

#[derive(Clone, Copy)]
struct Sum(u64);

impl Sum {
    fn add(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

/// The word at `offset` of the extended state.
fn word(fpstate: u64, offset: u64) -> u64 {
    // SAFETY: the kernel wrote the area into the frame on our signal stack, and
    // the offset is of a component that its header says is there, or below 576.
    unsafe { core::ptr::read_unaligned((fpstate + offset) as *const u64) }
}

/// Sums over the extended state (XSAVE, standard format). A component that the
/// header leaves out has its initial value, which is zero.
fn sums(fpstate: u64) -> (u64, u64) {
    if fpstate == 0 {
        return (0, 0);
    }
    const MAGIC: u64 = 0x4650_5853;
    let has_header = word(fpstate, 464) & 0xffff_ffff == MAGIC;
    let present = if has_header { word(fpstate, 512) } else { 3 };
    let mut x87 = Sum(1);
    if present & 1 != 0 {
        // Control, status and tag word, without the opcode behind them.
        x87.add(word(fpstate, 0) & 0xff_ffff_ffff);
        for register in 0..8 {
            x87.add(word(fpstate, 32 + register * 16));
            x87.add(word(fpstate, 40 + register * 16) & 0xffff);
        }
    } else {
        const CONTROL: u64 = 0x37f;
        x87.add(CONTROL);
        (0..16).for_each(|_| x87.add(0));
    }
    let mut vectors = Sum(2);
    vectors.add(word(fpstate, 24) & 0xffff_ffff);
    let mut component = |present: bool, offset: u64, size: u64| {
        for at in (0..size).step_by(8) {
            vectors.add(if present {
                word(fpstate, offset + at)
            } else {
                0
            });
        }
    };
    component(present & 2 != 0, 160, 256);
    for (place, bit) in PLACES.iter().zip(COMPONENTS) {
        let place = place.load(Relaxed);
        component(present >> bit & 1 != 0, place >> 32, place & 0xffff_ffff);
    }
    (vectors.0, x87.0)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    fn sums_with(change: impl Fn(&mut [u64])) -> (u64, u64) {
        let mut area = std::vec![0u64; 512];
        area[464 / 8] = 0x4650_5853;
        area[512 / 8] = 3;
        change(&mut area);
        sums(area.as_ptr() as u64)
    }

    #[test]
    fn one_bit_of_a_register_changes_its_sum_only() {
        let before = sums_with(|_| ());
        let vector = sums_with(|area| area[160 / 8 + 31] ^= 1 << 63);
        assert!(vector.0 != before.0 && vector.1 == before.1);
        let x87 = sums_with(|area| area[32 / 8] ^= 1);
        assert!(x87.0 == before.0 && x87.1 != before.1);
    }

    #[test]
    fn addresses_of_x87_code_are_left_out() {
        let before = sums_with(|_| ());
        assert_eq!(before, sums_with(|area| area[1] = 0x1234));
        assert_eq!(before, sums_with(|area| area[2] = 0x1234));
        assert_eq!(before, sums_with(|area| area[0] = 0x1234 << 48));
    }

    #[test]
    fn a_component_that_is_left_out_is_zero() {
        let absent = sums_with(|area| {
            area[512 / 8] = 0;
            area[160 / 8] = 5;
        });
        let zero = sums_with(|area| area[0] = 0x37f);
        assert_eq!(absent, zero);
    }
}
