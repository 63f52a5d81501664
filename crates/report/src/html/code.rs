//! The code of functions and their source lines, for the details of the page:
//! element `data-code`.
//!
//! | recording | where the code comes from | counts |
//! |---|---|---|
//! | contexts of functions | the module's file, if it is still the one that ran | none |
//! | contexts of basic blocks | the recording, by function | of the block, for what is shown |
//!
//! A page holds so much text as its budget allows, of what counted most first.
//!
//! Limits: a function is one extent: what the compiler put elsewhere (`.cold`) is not
//! shown with it.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::io::{self, Write};

use analysis::merged::{Contexts, Name, Place};
use isa::Insn;
use serde::Serialize;
use trace::{Label, Module, Process, Recording};

use super::columns;
use super::listing::{Files, Graph, Listed, Listing, SourceFiles};
use crate::code::{Code, decoded, direct_target};
use crate::numbers::counted;

/// Files and budget of the code in a page.
pub struct Beside<'a> {
    pub files: &'a mut dyn Files,
    /// Bytes of text.
    pub budget: usize,
}

/// Instructions, and the graph of the function that they are of.
pub type Shown = (Vec<Listed>, Option<Graph>);

/// All listings of a page.
#[derive(Default, Serialize)]
pub struct Listings {
    files: SourceFiles,
    listings: Vec<Listing>,
    /// Per function its listing, or -1.
    of: Vec<i64>,
    /// A sentence about code that was left out.
    left: Option<String>,
    #[serde(skip)]
    budget: usize,
    #[serde(skip)]
    size: usize,
    #[serde(skip)]
    missing: u64,
}

impl Listings {
    /// Lists each group of so many `functions` together, in their order and as far as
    /// there is room. `insns` gives the instructions of a group, or says why there are none.
    pub fn new(
        functions: usize,
        groups: impl IntoIterator<Item = Vec<usize>>,
        beside: Beside,
        mut insns: impl FnMut(&[usize], &mut dyn Files) -> Result<Shown, String>,
    ) -> Listings {
        let Beside { files, budget } = beside;
        let mut all = Listings {
            of: vec![-1; functions],
            budget,
            ..Listings::default()
        };
        for group in groups {
            if all.size >= budget {
                all.missing += group.len() as u64;
                continue;
            }
            let listing = match insns(&group, files) {
                Ok((insns, graph)) => all.files.listing(insns, files).with_graph(graph),
                Err(sentence) => Listing::problem(sentence),
            };
            all.add(&group, listing);
        }
        all
    }

    fn add(&mut self, functions: &[usize], listing: Listing) {
        let size = self.size.saturating_add(listing.size());
        if size > self.budget {
            self.missing += functions.len() as u64;
            return;
        }
        self.size = size;
        for &function in functions {
            self.of[function] = self.listings.len() as i64;
        }
        self.listings.push(listing);
    }

    pub fn write(mut self, noun: &str, out: &mut dyn Write) -> io::Result<()> {
        if self.missing > 0 {
            self.left = Some(format!(
                "The page holds {} MB of code and source, of what counted most; there was no \
                 room for {}. --html-code MB changes that.",
                self.budget as f64 / 1e6,
                counted(self.missing, noun),
            ));
        }
        let json = serde_json::to_vec(&self).map_err(io::Error::from)?;
        columns::element("data-code", &json, out)
    }
}

/// Functions or basic blocks of one recording or of two, by number.
pub struct Functions<'a> {
    pub recordings: Vec<&'a Recording>,
    /// For each function, the index of a recording that has it, and its place there.
    pub places: Vec<Option<(usize, Place)>>,
}

impl<'a> Functions<'a> {
    fn get(&self, number: usize) -> Option<(&'a Process, Label)> {
        let (recording, place) = self.places[number]?;
        let process = &self.recordings[recording].processes[place.process];
        Some((process, place.label))
    }

    /// Lists them in the order of their numbers in `order`.
    pub fn write(
        &self,
        order: &[usize],
        beside: Beside<'_>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let count = self.places.len();
        let is_of_blocks = |recording: &&Recording| recording.meta.blocks.is_some();
        if !self.recordings.iter().all(is_of_blocks) {
            let alone = order.iter().map(|&number| vec![number]);
            let listings = Listings::new(count, alone, beside, |group, files| {
                Ok((of_function(self.get(group[0]), files)?, None))
            });
            return listings.write("function", out);
        }
        let recordings = self.recordings.iter();
        let codes: Vec<Vec<Code>> = recordings
            .map(|recording| recording.processes.iter().map(Code::new).collect())
            .collect();
        let listings = Listings::new(count, self.groups(order), beside, |group, files| {
            let mut insns = Vec::new();
            for &number in group {
                let Some((recording, place)) = self.places[number] else {
                    continue;
                };
                let code = &codes[recording][place.process];
                let process = &self.recordings[recording].processes[place.process];
                of_block(process, code, (place.label, number), files, &mut insns);
            }
            Ok((insns, None))
        });
        listings.write("basic block", out)
    }

    /// File and offset there, or the address.
    fn place(&self, number: usize) -> Option<(Option<&'a str>, u64)> {
        let (process, label) = self.get(number)?;
        let function = process.function(label)?;
        Some(match process.module_of(function) {
            Some(module) => (Some(&module.path), function.file_offset),
            None => (None, function.pc),
        })
    }

    /// Blocks of one function together, by address; that of the first block first.
    fn groups(&self, order: &[usize]) -> Vec<Vec<usize>> {
        let mut groups: Vec<Vec<usize>> = Vec::new();
        let mut known: HashMap<(usize, Option<&str>, u64, &str), usize> = HashMap::new();
        for &number in order {
            let key = self.places[number].and_then(|(recording, _)| {
                let (process, label) = self.get(number)?;
                let block = process.block(label)?;
                let name = block.function.as_deref()?;
                let (path, at) = self.place(number)?;
                Some((recording, path, at.wrapping_sub(block.offset), name))
            });
            let group = match key {
                Some(key) => *known.entry(key).or_insert(groups.len()),
                None => groups.len(),
            };
            match groups.get_mut(group) {
                Some(group) => group.push(number),
                None => groups.push(vec![number]),
            }
        }
        for blocks in &mut groups {
            blocks.sort_by_key(|&number| self.place(number));
        }
        groups
    }
}

/// The functions of one recording.
pub fn write(
    recording: &Recording,
    contexts: &Contexts,
    beside: Beside<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let places = contexts.functions.iter();
    let functions = Functions {
        recordings: vec![recording],
        places: places.map(|&place| Some((0, place))).collect(),
    };
    functions.write(&hottest(contexts), beside, out)
}

/// The functions, what counted most first.
fn hottest(contexts: &Contexts) -> Vec<usize> {
    let mut sums = vec![0u64; contexts.functions.len()];
    for thread in &contexts.threads {
        for &(node, value) in thread.values.last().into_iter().flatten() {
            if let Name::Function(function) = contexts.nodes[node as usize].name {
                let sum = &mut sums[function as usize];
                *sum = sum.saturating_add(value);
            }
        }
    }
    let mut order: Vec<usize> = (0..sums.len()).collect();
    order.sort_by_key(|&function| (Reverse(sums[function]), function));
    order
}

/// From the file of its module.
fn of_function(
    place: Option<(&Process, Label)>,
    files: &mut dyn Files,
) -> Result<Vec<Listed>, String> {
    let function = place.and_then(|(process, label)| {
        let function = process.function(label)?;
        Some((function, process.module_of(function)?))
    });
    let Some((function, module)) = function else {
        return Err("It is in no file, and its code was not recorded.".into());
    };
    let (start, code) = files.code(module, function.file_offset)?;
    Ok(disassembled(module, start, &code, files))
}

/// The instructions of a function that begins at an offset of a file.
fn disassembled(module: &Module, start: u64, code: &[u8], files: &mut dyn Files) -> Vec<Listed> {
    let insns = decoded(code, start).map(|(at, code, insn)| {
        let target = insn.as_ref().and_then(direct_target);
        let target = target.and_then(|target| files.place(module, target));
        let text = isa::text::of(code, at, target.as_deref());
        let len = insn.map_or(code.len(), |insn| insn.len());
        Listed {
            at,
            len: len as u64,
            text,
            line: files.line(module, at),
            ..Listed::default()
        }
    });
    insns.collect()
}

/// Adds the instructions of a block.
fn of_block(
    process: &Process,
    code: &Code,
    (label, number): (Label, usize),
    files: &mut dyn Files,
    insns: &mut Vec<Listed>,
) {
    let Some((function, block)) = process.function(label).zip(process.block(label)) else {
        return;
    };
    let module = process.module_of(function);
    let recorded = function.file.clone().zip(function.line);
    let mut bytes = &block.code[..];
    let mut at = module.map_or(function.pc, |_| function.file_offset);
    for text in code.instructions(function, block) {
        let len = Insn::decode(bytes, at).map_or(bytes.len(), |insn| insn.len());
        let line = module.and_then(|module| files.line(module, at));
        insns.push(Listed {
            at,
            len: len as u64,
            text,
            line: line.or_else(|| recorded.clone()),
            block: Some(number as u64),
            ..Listed::default()
        });
        bytes = bytes.get(len..).unwrap_or_default();
        at = at.wrapping_add(len as u64);
    }
}
