//! Addresses that code and data of a file hold, as far as they can be seen.

use std::collections::HashSet;
use std::ops::Range;

use flow::{Function, Gate, Program};
use image::{Image, LinkAddr, Relocations};
use isa::Insn;
use rayon::prelude::*;

/// `lea`, which takes an address and reads nothing.
const LEA: u8 = 0x8d;
/// Bytes of a constant that may stand between a displacement and the end of its instruction.
const CONSTANTS: [u64; 4] = [0, 1, 2, 4];

/// Bytes around code in which jumps may be put.
const PADDING: u64 = 256;

/// Addresses in the file itself.
#[derive(Debug, Default)]
pub struct References {
    /// Addresses in words that the dynamic linker writes, those of symbols among them.
    pub pointers: Vec<LinkAddr>,
    /// Addresses in code, or near it, that instructions take.
    pub taken: Vec<LinkAddr>,
    /// Addresses there that instructions read, write or go by.
    pub read: Vec<LinkAddr>,
    /// Addresses of words that no symbol stands for.
    words: HashSet<LinkAddr>,
}

impl References {
    pub fn of(image: &Image, program: &Program) -> References {
        let relocations = Relocations::of(image);
        let mut found = References {
            pointers: relocations.pointers,
            words: relocations.nameless.into_iter().collect(),
            ..References::default()
        };
        let near = near_code(program);
        let functions = program.functions.par_iter();
        let by_function: Vec<(Vec<LinkAddr>, Vec<LinkAddr>)> = functions
            .map(|function| by_instructions(image, function, &near))
            .collect();
        for (mut taken, mut read) in by_function {
            found.taken.append(&mut taken);
            found.read.append(&mut read);
        }
        found
    }

    /// Entries among some functions' whose addresses are known by a symbol only: no word and no instruction has them,
    /// nor may one in code that was not understood.
    pub fn by_symbol_only(
        &self,
        image: &Image,
        program: &Program,
        entries: HashSet<LinkAddr>,
    ) -> HashSet<LinkAddr> {
        let mut left = entries;
        left.retain(|entry| !self.words.contains(entry));
        for addr in &self.taken {
            left.remove(addr);
        }
        let mut known: Vec<(u64, u64)> = program
            .functions
            .iter()
            .filter(|function| {
                function
                    .failed
                    .iter()
                    .all(|one| one.gate != Gate::Undecodable)
            })
            .flat_map(|function| &function.graph.blocks)
            .map(|block| (block.start.0, block.end.0))
            .collect();
        known.sort_unstable();
        for (start, bytes) in image.code() {
            let end = start.0 + bytes.len() as u64;
            let first = known.partition_point(|block| block.1 <= start.0);
            let mut at = start.0;
            for &(from, to) in known[first..].iter().chain([&(end, end)]) {
                let unknown = behind_padding(image, at.min(end), from.min(end))..from.min(end);
                let offset = (unknown.start - start.0) as usize;
                // A displacement may begin before the next known code and end in it.
                let size = unknown.end.saturating_sub(unknown.start) as usize;
                let part = bytes.get(offset..(offset + size + 3).min(bytes.len()));
                for (number, window) in (0..size).zip(part.unwrap_or_default().windows(4)) {
                    let word = window.first_chunk().copied().unwrap_or_default();
                    let behind = unknown.start + number as u64 + 4;
                    let target = behind.wrapping_add_signed(i32::from_le_bytes(word).into());
                    for constant in CONSTANTS {
                        left.remove(&LinkAddr(target.wrapping_add(constant)));
                    }
                }
                at = at.max(to);
                if from >= end {
                    break;
                }
            }
        }
        left
    }
}

/// Address of the first instruction from one address to another that is no padding between functions.
fn behind_padding(image: &Image, from: u64, to: u64) -> u64 {
    let mut at = from;
    while at < to {
        let rest = image.bytes_from(LinkAddr(at));
        match Insn::decode(&rest[..rest.len().min(15)], at) {
            Ok(insn) if insn.is_nop() || insn.bytes() == [0xcc] => at = insn.next_pc(),
            _ => break,
        }
    }
    at
}

/// From the first function to behind the padding of the last one.
fn near_code(program: &Program) -> Range<u64> {
    let ranges = program.functions.iter().flat_map(|one| &one.ranges);
    let start = ranges.clone().map(|range| range.start.0).min();
    let end = ranges.map(|range| range.end.0).max();
    let (start, end) = (start.unwrap_or(0), end.unwrap_or(0));
    start.saturating_sub(PADDING)..end.saturating_add(PADDING)
}

/// Addresses that the instructions of a function take, and those that they read, write or go by.
fn by_instructions(
    image: &Image,
    function: &Function,
    near: &Range<u64>,
) -> (Vec<LinkAddr>, Vec<LinkAddr>) {
    let (mut taken, mut read) = (Vec::new(), Vec::new());
    for block in &function.graph.blocks {
        let code = image.bytes_from(block.start);
        let mut at = block.start.0;
        while at < block.end.0 {
            let rest = code.get((at - block.start.0) as usize..);
            let rest = rest.unwrap_or_default();
            let Ok(insn) = Insn::decode(&rest[..rest.len().min(15)], at) else {
                break;
            };
            let address = insn.rip_relative().map(|(addr, _)| addr);
            if let Some(addr) = address.filter(|addr| near.contains(addr)) {
                match insn.bytes().get(insn.prefixes()) == Some(&LEA) {
                    true => taken.push(LinkAddr(addr)),
                    false => read.push(LinkAddr(addr)),
                }
            }
            at = insn.next_pc();
        }
    }
    (taken, read)
}
