//! `opmix`: how often instructions of each mnemonic were executed in each function. The example of a tool: docs/how-to-add.md walks
//! through it.
//!
//! Approach: a word for each mnemonic of each function; each block adds to those of its own mnemonics as many as it has. Nothing
//! follows from anything else, so it is exact wherever the process ends between two blocks, and slower than `edges`.
//!
//! The section for readers is text: a line with [`MAGIC`], one with the path of the original, and one for each function with its
//! entry (hexadecimal), the number of its first word, and its mnemonics, whose words follow one another.

use std::collections::BTreeMap;
use std::fmt::Write;

use image::Image;
use isa::{Insn, text};
use probe::{At, Op, Word};
use rewrite::{Form, Memory, Outcome, Plan, Section, StaticTool, Unit, Version, Why};
use wire::counters::FIRST;

use crate::Wanted;

/// The first line of the section.
pub const MAGIC: &str = "everypath opmix 1";
/// Most words: their displacements are numbers of 31 bits.
const MOST: u64 = 1 << 27;

/// Mnemonics of functions.
pub struct OpMix<'d> {
    image: &'d Image,
    wanted: Wanted<'d>,
    /// Number of the next word.
    next: u64,
    functions: BTreeMap<usize, Mix>,
}

/// Words of a function.
struct Mix {
    entry: u64,
    first: u64,
    mnemonics: Vec<String>,
}

impl<'d> OpMix<'d> {
    pub fn new(image: &'d Image, wanted: Wanted<'d>) -> OpMix<'d> {
        OpMix {
            image,
            wanted,
            next: 0,
            functions: BTreeMap::new(),
        }
    }

    /// Mnemonics of a block, as often as they are in it.
    fn of_block(&self, block: &flow::Block) -> Result<Vec<String>, Why> {
        let mut all = Vec::new();
        let mut at = block.start;
        while at < block.end {
            let bytes = self.image.bytes_from(at);
            let insn = Insn::decode(&bytes[..bytes.len().min(15)], at.0).map_err(|_| Why::Code)?;
            all.push(text::mnemonic(insn.bytes(), at.0));
            at.0 = insn.next_pc();
        }
        Ok(all)
    }
}

impl StaticTool for OpMix<'_> {
    fn plan(&mut self, unit: &Unit<'_>, _: Version, out: &mut Plan) -> Result<(), Why> {
        let mut mix = Mix {
            entry: unit.function.entry.0,
            first: self.next,
            mnemonics: Vec::new(),
        };
        for (number, block) in (0..).zip(&unit.function.graph.blocks) {
            for mnemonic in self.of_block(block)? {
                let known = mix.mnemonics.iter().position(|known| *known == mnemonic);
                let index = known.unwrap_or_else(|| {
                    mix.mnemonics.push(mnemonic);
                    mix.mnemonics.len() - 1
                });
                // Neighbours of one word become one addition.
                let word = Word((FIRST + (mix.first + index as u64) * 8) as u32);
                out.add(unit, At::Block(number), Op::Add { word, amount: 1 })?;
            }
        }
        let next = mix.first + mix.mnemonics.len() as u64;
        if next > MOST {
            return Err(Why::NoPlace);
        }
        self.next = next;
        self.functions.insert(unit.number, mix);
        Ok(())
    }

    fn skip(&mut self, function: usize) {
        self.functions.remove(&function);
    }

    fn memory(&self) -> Option<Memory<'_>> {
        Some(Memory {
            bytes: (self.next * 8).next_multiple_of(FIRST).max(FIRST),
            form: Form::Counters,
            files: self.wanted.files,
            part: None,
        })
    }

    fn section(&self, _: &Outcome<'_>) -> Option<Section> {
        let mut text = format!("{MAGIC}\n{}\n", self.wanted.original);
        for mix in self.functions.values() {
            let mnemonics = mix.mnemonics.join(" ");
            let written = writeln!(text, "{:x} {} {mnemonics}", mix.entry, mix.first);
            debug_assert!(written.is_ok());
        }
        let bytes = text.into_bytes();
        let id = placement::plan::hash(&bytes);
        Some(Section { bytes, id })
    }

    fn says(&self) -> String {
        let words = self.functions.values().map(|mix| mix.mnemonics.len());
        format!("{} counters", words.sum::<usize>())
    }
}
