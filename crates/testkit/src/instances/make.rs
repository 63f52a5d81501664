//! Makes instances: instructions, branches between them, and the state before them.

use iced_x86::{
    CodeSize, DecoderOptions, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
    Register,
};

use super::{AREA_POINTERS, CODE, Place, SLOT, branches, encoding};
use crate::soak::random::Random;

/// Carry, parity, adjust, zero, sign, overflow, and the bit that is always set.
const ARITHMETIC: u64 = 0x8D5;
const ALWAYS: u64 = 2;
const DIRECTION: u64 = 0x400;
const ALIGNMENT_CHECK: u64 = 1 << 18;

/// Most instructions, without branches.
const MOST: usize = 6;
const RSP: usize = 4;

/// A few instructions at their place, and what they begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Address of the code.
    pub at: u64,
    /// General registers by the numbers of their encoding.
    pub registers: [u64; 16],
    /// The flags register.
    pub flags: u64,
    /// The other registers and the memory follow from it.
    pub seed: u64,
    /// Control and status of the vector unit.
    pub mxcsr: u32,
    /// Control of the x87 unit.
    pub fcw: u16,
    /// The code, in pieces that can be left out.
    pub pieces: Vec<Vec<u8>>,
}

impl Instance {
    /// All of its code.
    #[must_use]
    pub fn code(&self) -> Vec<u8> {
        self.pieces.concat()
    }

    /// `struct instance` of `runner.c`.
    #[must_use]
    pub fn record(&self) -> Vec<u8> {
        let mut record = self.at.to_le_bytes().to_vec();
        for value in self.registers.iter().chain([&self.flags, &self.seed]) {
            record.extend(value.to_le_bytes());
        }
        let code = self.code();
        record.extend(self.mxcsr.to_le_bytes());
        record.extend(self.fcw.to_le_bytes());
        record.extend((code.len() as u16).to_le_bytes());
        let end = record.len() + CODE;
        record.extend(code);
        assert!(record.len() <= end, "an instance's code fits its room");
        record.resize(end, 0);
        record
    }
}

/// `count` instances.
#[must_use]
pub fn instances(seed: u64, count: usize) -> Vec<Instance> {
    let mut random = Random::new(seed);
    (0..count as u64)
        .map(|slot| {
            let place = *random.pick(&[Place::Low, Place::High]);
            Maker::new(random.bits(), place, place.code() + slot * SLOT).make()
        })
        .collect()
}

/// Values that a register may hold, as far as they matter.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holds {
    /// An address in the instance's memory.
    Pointer,
    /// A small number: an index or a count.
    Number,
    Anything,
}

struct Maker {
    random: Random,
    place: Place,
    instance: Instance,
    holds: [Holds; 16],
    /// The last instruction is a `popf`.
    pops_flags: bool,
    info: InstructionInfoFactory,
}

impl Maker {
    fn new(seed: u64, place: Place, at: u64) -> Maker {
        let mut random = Random::new(seed);
        let mut holds = [Holds::Anything; 16];
        let mut registers = [0; 16];
        for (value, holds) in registers.iter_mut().zip(&mut holds) {
            *holds = match random.below(10) {
                0..6 => Holds::Pointer,
                6..9 => Holds::Number,
                _ => Holds::Anything,
            };
            *value = value_of(&mut random, *holds, place);
        }
        if random.percent(80) {
            holds[RSP] = Holds::Pointer;
            registers[RSP] = value_of(&mut random, Holds::Pointer, place) & !7;
        }
        let mut flags = ALWAYS | random.bits() & ARITHMETIC;
        if random.percent(8) {
            flags |= DIRECTION;
        }
        if random.percent(3) {
            flags |= ALIGNMENT_CHECK;
        }
        let (mut mxcsr, mut fcw) = (0x1F80, 0x037F);
        if random.percent(20) {
            mxcsr = random.bits() as u32 & 0xFFFF;
        }
        if random.percent(20) {
            fcw = random.bits() as u16 & 0x0F3F | 0x40;
        }
        let instance = Instance {
            at,
            registers,
            flags,
            seed: random.bits(),
            mxcsr,
            fcw,
            pieces: Vec::new(),
        };
        Maker {
            random,
            place,
            instance,
            holds,
            pops_flags: false,
            info: InstructionInfoFactory::new(),
        }
    }

    fn make(mut self) -> Instance {
        let wanted = match self.random.percent(40) {
            true => 1,
            false => self.random.range(2, MOST),
        };
        for _ in 0..wanted {
            // The trap flag may be set: direct jumps give no trap (docs/limits.md).
            if self.pops_flags {
                break;
            }
            if self.random.percent(25) {
                self.branch();
            }
            self.instruction();
        }
        if self.random.percent(20) && !self.pops_flags {
            self.branch();
        }
        self.instance
    }

    fn used(&self) -> usize {
        self.instance.pieces.iter().map(Vec::len).sum()
    }

    fn here(&self) -> u64 {
        self.instance.at + self.used() as u64
    }

    fn add(&mut self, piece: Vec<u8>) -> bool {
        let fits = self.used() + piece.len() <= CODE;
        if fits {
            self.instance.pieces.push(piece);
        }
        fits
    }

    fn instruction(&mut self) {
        // Room for what loads its registers, and for itself.
        if self.used() + 3 * 10 + 2 * 15 + 6 > CODE {
            return;
        }
        let first = self.used() == 0;
        let at = self.here();
        let drawn = encoding::draw(&mut self.random, at, self.place, first);
        self.prepare(&drawn.instruction);
        let mnemonic = drawn.instruction.mnemonic();
        self.pops_flags = matches!(mnemonic, Mnemonic::Popf | Mnemonic::Popfq);
        // `prepare` may have added a piece: a displacement relative to rip is of another place then.
        let mut bytes = drawn.bytes;
        if drawn.instruction.is_ip_rel_memory_operand() {
            bytes = moved(&bytes, drawn.instruction.ip(), self.here());
        }
        if !first && self.random.percent(15) {
            // Relative operands are one branch further on.
            let at = self.here();
            let branch = branches::skip(&mut self.random, &bytes);
            let by = (branch.len() - bytes.len()) as u64;
            let mut piece = branch[..by as usize].to_vec();
            piece.extend(match drawn.instruction.is_ip_rel_memory_operand() {
                true => moved(&bytes, at, at + by),
                false => bytes,
            });
            bytes = piece;
        }
        self.add(bytes);
        self.forget(&drawn.instruction);
    }

    /// Sees to it that the registers of memory operands mostly lead to memory.
    fn prepare(&mut self, instruction: &Instruction) {
        let used = self.info.info(instruction).used_memory().to_vec();
        let mut wanted = Vec::new();
        for memory in used {
            wanted.push((memory.base(), Holds::Pointer));
            if memory.index() != memory.base() {
                wanted.push((memory.index(), Holds::Number));
            }
        }
        if instruction.has_rep_prefix() || instruction.has_repne_prefix() {
            wanted.push((Register::RCX, Holds::Number));
        }
        if indexes_bits(instruction) {
            wanted.push((instruction.op1_register(), Holds::Number));
        }
        // An address that was computed, or is cut to 32 bits, can lead to the engine's memory; a
        // pointer as the number of a bit leads to an eighth of it, where the heap may lie.
        let may_be_wild = !has_short_address(instruction) && !indexes_bits(instruction);
        let wild = self.used() == 0 && may_be_wild && self.random.percent(10);
        for (register, holds) in wanted {
            if register.is_gpr() && !wild {
                self.load(register.full_register().number(), holds);
            }
        }
    }

    /// Has register `number` hold that: from the beginning, or by a `mov` before the next piece.
    fn load(&mut self, number: usize, holds: Holds) {
        if self.holds[number] == holds {
            return;
        }
        self.holds[number] = holds;
        let value = value_of(&mut self.random, holds, self.place);
        if self.used() == 0 {
            self.instance.registers[number] = value;
            return;
        }
        let mut mov = vec![0x48 | (number >> 3) as u8, 0xB8 | (number & 7) as u8];
        mov.extend(value.to_le_bytes());
        self.add(mov);
    }

    /// Registers that `instruction` writes hold anything.
    fn forget(&mut self, instruction: &Instruction) {
        // `pop rsp` and `leave` load it.
        let loads = instruction.op0_register() == Register::RSP
            || instruction.op0_register() == Register::SP
            || instruction.mnemonic() == Mnemonic::Leave;
        let by_constant = instruction.stack_pointer_increment() != 0 && !loads;
        for used in self.info.info(instruction).used_registers() {
            let written = !matches!(used.access(), OpAccess::Read | OpAccess::CondRead);
            let register = used.register();
            if !written || !register.is_gpr() {
                continue;
            }
            let number = register.full_register().number();
            if number != RSP || !by_constant {
                self.holds[number] = Holds::Anything;
            }
        }
    }

    fn branch(&mut self) {
        if self.used() + 10 + 40 > CODE {
            return;
        }
        let pointer = self.random.below(16);
        self.load(pointer, Holds::Pointer);
        // An address that was computed can lead to the engine's memory.
        if self.random.percent(80) || self.holds[RSP] == Holds::Anything {
            self.load(RSP, Holds::Pointer);
        }
        if self.used() + 40 > CODE {
            return;
        }
        let at = self.here();
        let piece = branches::draw(&mut self.random, pointer as u8, self.place, at);
        self.add(piece);
        // It uses one register, which is not said.
        for (number, holds) in self.holds.iter_mut().enumerate() {
            if number != pointer {
                *holds = Holds::Anything;
            }
        }
    }
}

/// Whether a register says how far from its operand an instruction accesses memory.
fn indexes_bits(instruction: &Instruction) -> bool {
    let is_bit_test = matches!(
        instruction.mnemonic(),
        Mnemonic::Bt | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc
    );
    is_bit_test && instruction.op0_kind() == OpKind::Memory
}

fn has_short_address(instruction: &Instruction) -> bool {
    let mut factory = InstructionInfoFactory::new();
    let used = factory.info(instruction).used_memory();
    used.iter()
        .any(|memory| memory.address_size() == CodeSize::Code32)
}

/// The encoding of an instruction at another place, with its target unchanged.
fn moved(bytes: &[u8], from: u64, to: u64) -> Vec<u8> {
    let (_, offsets) = encoding::decode(bytes, from, DecoderOptions::NO_INVALID_CHECK);
    let start = offsets.displacement_offset();
    let mut moved = bytes.to_vec();
    let field = &mut moved[start..start + 4];
    let old = u32::from_le_bytes(field.try_into().expect("a displacement has four bytes"));
    let new = old.wrapping_sub(to.wrapping_sub(from) as u32);
    field.copy_from_slice(&new.to_le_bytes());
    moved
}

fn value_of(random: &mut Random, holds: Holds, place: Place) -> u64 {
    match holds {
        Holds::Pointer => {
            let span = (AREA_POINTERS.end - AREA_POINTERS.start) as usize;
            let offset = AREA_POINTERS.start + random.below(span) as u64;
            let aligned = [!0, !7, !7, !63][random.below(4)];
            place.area() + (offset & aligned)
        }
        Holds::Number => match random.percent(75) {
            true => random.below(40) as u64,
            false => (random.below(40) as u64).wrapping_neg(),
        },
        Holds::Anything => match random.below(4) {
            0 => 0,
            1 => 1 << 63 | random.bits() & 3,
            _ => random.bits(),
        },
    }
}
