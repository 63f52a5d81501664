//! Graphs of an edited file's functions, and their places by what tokens say.

use std::collections::HashMap;

use placement::traced::{Arrival, Back, Block, End, Entry, File, Function};

/// A place: a function and a block of it, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    pub function: u32,
    pub block: u32,
}

/// Graphs of a file's functions.
#[derive(Debug)]
pub struct Graphs<'f> {
    pub file: &'f File,
    /// Entries, by their addresses, and by their numbers.
    pub entries: HashMap<u64, At>,
    pub numbers: HashMap<u32, At>,
    /// Landing pads, targets of tables, and blocks behind calls that may come back twice, with the call's block, by the lowest bits of
    /// their addresses.
    pub pads: HashMap<u32, At>,
    pub points: HashMap<u32, At>,
}

impl<'f> Graphs<'f> {
    pub fn of(file: &'f File) -> Graphs<'f> {
        let mut graphs = Graphs {
            file,
            entries: HashMap::new(),
            numbers: HashMap::new(),
            pads: HashMap::new(),
            points: HashMap::new(),
        };
        for (function, own) in (0..).zip(&file.functions) {
            for &Entry { block, number, .. } in &own.entries {
                let start = own.blocks[block as usize].start;
                graphs.entries.insert(start, At { function, block });
                graphs.numbers.insert(number, At { function, block });
            }
            for (block, known) in (0..).zip(&own.blocks) {
                if known.arrival == Arrival::Pad {
                    graphs
                        .pads
                        .insert(known.start as u32, At { function, block });
                }
                if let End::Call {
                    back: Back::Point, ..
                } = known.end
                {
                    let behind = known.start.wrapping_add(known.len.into());
                    graphs.points.insert(behind as u32, At { function, block });
                }
            }
        }
        graphs
    }

    pub fn function(&self, at: At) -> &'f Function {
        &self.file.functions[at.function as usize]
    }

    pub fn block(&self, at: At) -> &'f Block {
        &self.function(at).blocks[at.block as usize]
    }
}
