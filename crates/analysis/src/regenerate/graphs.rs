//! Graphs of the functions of edited files, where they are in memory, and their places by what tokens say.

use std::collections::HashMap;

use placement::traced::{Arrival, Back, Block, End, Entry, File, Function};

/// An edited file of a process.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub file: File,
    /// Addresses in memory less link addresses.
    pub bias: u64,
}

/// A place: a function and a block of it, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    pub function: u32,
    pub block: u32,
}

/// Addresses of a function less those in memory.
#[derive(Clone, Copy, Debug)]
struct Shift {
    link: u64,
    token: u64,
}

/// Graphs of the functions of a process, with addresses in memory.
#[derive(Debug)]
pub struct Graphs {
    pub functions: Vec<Function>,
    /// By function.
    shifts: Vec<Shift>,
    /// Values are in the stream.
    pub has_values: bool,
    /// Entries, by their addresses, and by their numbers.
    pub entries: HashMap<u64, At>,
    pub numbers: HashMap<u32, At>,
    /// Landing pads, and blocks behind calls that may come back twice, with the call's block, by addresses of tokens.
    pub pads: HashMap<u32, At>,
    pub points: HashMap<u32, At>,
}

impl Graphs {
    pub fn of(files: Vec<Loaded>) -> Graphs {
        let mut graphs = Graphs {
            functions: Vec::new(),
            shifts: Vec::new(),
            has_values: files.iter().any(|loaded| loaded.file.has_values),
            entries: HashMap::new(),
            numbers: HashMap::new(),
            pads: HashMap::new(),
            points: HashMap::new(),
        };
        for Loaded { file, bias } in files {
            let link = bias.wrapping_neg();
            let token = link.wrapping_add(file.base);
            for mut function in file.functions {
                function.move_by(bias);
                graphs.add(function, Shift { link, token });
            }
        }
        graphs
    }

    fn add(&mut self, own: Function, shift: Shift) {
        let function = self.functions.len() as u32;
        for &Entry { block, number, .. } in &own.entries {
            let start = own.blocks[block as usize].start;
            self.entries.insert(start, At { function, block });
            self.numbers.insert(number, At { function, block });
        }
        for (block, known) in (0..).zip(&own.blocks) {
            let at = At { function, block };
            if known.arrival == Arrival::Pad {
                let token = known.start.wrapping_add(shift.token);
                self.pads.insert(token as u32, at);
            }
            if let End::Call {
                back: Back::Point, ..
            } = known.end
            {
                let behind = known.start.wrapping_add(known.len.into());
                let token = behind.wrapping_add(shift.token);
                self.points.insert(token as u32, at);
            }
        }
        self.functions.push(own);
        self.shifts.push(shift);
    }

    pub fn function(&self, at: At) -> &Function {
        &self.functions[at.function as usize]
    }

    pub fn block(&self, at: At) -> &Block {
        &self.function(at).blocks[at.block as usize]
    }

    /// The address that tokens of a function have for one of its own.
    pub fn token_of(&self, at: At, addr: u64) -> u32 {
        addr.wrapping_add(self.shifts[at.function as usize].token) as u32
    }

    /// The link address of a block.
    pub fn link_addr(&self, at: At) -> u64 {
        let start = self.block(at).start;
        start.wrapping_add(self.shifts[at.function as usize].link)
    }
}
