//! Pieces of code that branch, each to its own end or past what follows in it.
//!
//! Approach: the target's address is made with `lea r, [rip+x]`, so a piece is right
//! wherever it lies, and goes where the branch looks for it: a register, memory through any
//! base, or the stack. Branches go forward only, so that every instance ends.

use super::Place;
use crate::soak::random::Random;

/// Code that goes on behind itself. `pointer` holds an address in the instance's memory.
pub fn draw(random: &mut Random, pointer: u8, place: Place, at: u64) -> Vec<u8> {
    let register = other_than(random, pointer);
    match random.below(8) {
        0 => jump_over_junk(random),
        1 => by_register(random, register),
        2 | 3 => by_memory(random, register, pointer),
        4 => by_relative_memory(random, register, place, at),
        5 => call(random),
        _ => by_return(random, register),
    }
}

/// A conditional branch over `skipped`, which is shorter than 100 bytes.
pub fn skip(random: &mut Random, skipped: &[u8]) -> Vec<u8> {
    let distance = skipped.len() as u8;
    let condition = random.below(16) as u8;
    let mut piece = match random.below(8) {
        0 => vec![0xE3, distance],
        1 => vec![0x67, 0xE3, distance],
        2 => vec![0xE0 + random.below(3) as u8, distance],
        3 => vec![0x67, 0xE0 + random.below(3) as u8, distance],
        4 => vec![0x0F, 0x80 | condition, distance, 0, 0, 0],
        5 => vec![0x2E, 0x70 | condition, distance],
        _ => vec![0x70 | condition, distance],
    };
    piece.extend_from_slice(skipped);
    piece
}

fn other_than(random: &mut Random, taken: u8) -> u8 {
    loop {
        let register = random.below(16) as u8;
        if register != taken {
            return register;
        }
    }
}

/// `lea register, [rip + distance]`, from the end of these seven bytes.
fn lea(register: u8, distance: usize) -> Vec<u8> {
    let rex = 0x48 | register >> 3 << 2;
    let mut bytes = vec![rex, 0x8D, 5 | (register & 7) << 3];
    bytes.extend((distance as u32).to_le_bytes());
    bytes
}

/// Prefixes, opcode and ModRM with SIB for `[base + displacement]`; `reg` is the middle field.
fn operand(opcode: u8, reg: u8, base: u8, displacement: i32, wide: bool) -> Vec<u8> {
    let rex = 0x40 | u8::from(wide) << 3 | reg >> 3 << 2 | base >> 3;
    let mut bytes = vec![rex, opcode];
    let short = i8::try_from(displacement).is_ok();
    let mode = if short { 0x40 } else { 0x80 };
    bytes.push(mode | (reg & 7) << 3 | base & 7);
    if base & 7 == 4 {
        bytes.push(0x24);
    }
    let all = displacement.to_le_bytes();
    bytes.extend_from_slice(if short { &all[..1] } else { &all });
    bytes
}

/// Bytes that are not executed.
fn junk(random: &mut Random) -> Vec<u8> {
    (0..random.below(4)).map(|_| random.bits() as u8).collect()
}

/// `make` is the branch by what `lea` made; junk follows it.
fn to_the_end(random: &mut Random, register: u8, make: &[u8]) -> Vec<u8> {
    let junk = junk(random);
    let mut piece = lea(register, make.len() + junk.len());
    piece.extend_from_slice(make);
    piece.extend(junk);
    piece
}

fn jump_over_junk(random: &mut Random) -> Vec<u8> {
    let junk = junk(random);
    let distance = junk.len() as u8;
    let mut piece = match random.percent(50) {
        true => vec![0xEB, distance],
        false => vec![0xE9, distance, 0, 0, 0],
    };
    piece.extend(junk);
    piece
}

/// `jmp r` or `call r`.
fn by_register(random: &mut Random, register: u8) -> Vec<u8> {
    let kind = *random.pick(&[0xE0, 0xD0]);
    let mut branch = vec![0x40 | register >> 3, 0xFF, kind | register & 7];
    if random.percent(10) {
        branch.insert(0, *random.pick(&[0x2E, 0x3E, 0xF2, 0x64]));
    }
    to_the_end(random, register, &branch)
}

/// `mov [pointer + n], r; jmp [pointer + n]`, or `call`; at times through fs or gs, and
/// then the address is as much less.
fn by_memory(random: &mut Random, register: u8, pointer: u8) -> Vec<u8> {
    let displacement = random.range(0, 256) as i32 - 128;
    let segment: &[u8] = match random.below(5) {
        0 => &[0x64],
        1 => &[0x65],
        _ => &[],
    };
    let kind = *random.pick(&[4, 2]);
    let store = operand(0x89, register, pointer, displacement, true);
    let jump = operand(0xFF, kind, pointer, displacement, random.percent(20));
    to_the_end(
        random,
        register,
        &[segment, &store, segment, &jump].concat(),
    )
}

/// `mov [rip + n], r; jmp [rip + n]`.
fn by_relative_memory(random: &mut Random, register: u8, place: Place, at: u64) -> Vec<u8> {
    let target = place.area() + super::AREA_POINTERS.start + 8 * random.below(0x100) as u64;
    let relative = |next: u64| (target.wrapping_sub(next) as u32).to_le_bytes();
    let store_at = at + 7;
    let rex = 0x48 | register >> 3 << 2;
    let mut make = vec![rex, 0x89, 5 | (register & 7) << 3];
    make.extend(relative(store_at + 7));
    make.extend([0xFF, *random.pick(&[0x25, 0x15])]);
    make.extend(relative(store_at + 7 + 6));
    to_the_end(random, register, &make)
}

/// `call` of what follows; half of them return from there.
fn call(random: &mut Random) -> Vec<u8> {
    if random.percent(50) {
        let junk = junk(random);
        let mut piece = vec![0xE8, junk.len() as u8, 0, 0, 0];
        piece.extend(junk);
        return piece;
    }
    // call f; jmp over; f: ret; over:
    let mut piece = vec![0xE8, 2, 0, 0, 0, 0xEB, 1, 0xC3];
    if random.percent(50) {
        // ret 8
        piece = vec![0xE8, 2, 0, 0, 0, 0xEB, 3, 0xC2, 8, 0];
    }
    piece
}

/// `push r; ret`, in several forms of a return.
fn by_return(random: &mut Random, register: u8) -> Vec<u8> {
    let mut make = vec![0x40 | register >> 3, 0x50 | register & 7];
    match random.below(5) {
        0 => make.extend([0xF3, 0xC3]),
        1 => make.extend([0x48, 0xC3]),
        2 => make.push(0xC3),
        _ => make.extend([0xC2, *random.pick(&[0, 8, 16, 3]), 0]),
    }
    // Through `xchg`, too, and a `pop` of the target into the register again.
    if random.percent(20) {
        make = vec![
            0x40 | register >> 3,
            0x50 | register & 7,
            0x40 | register >> 3,
            0x58 | register & 7,
            0x40 | register >> 3,
            0xFF,
            0xE0 | register & 7,
        ];
    }
    to_the_end(random, register, &make)
}
