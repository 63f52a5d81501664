//! The code of recorded basic blocks as text: where branches go is said by name, as
//! in IHPP 4.3.3.
//!
//! | target | shown as |
//! |---|---|
//! | of a call: the first block of a function | `call foo` |
//! | of a call: a block that is one jump | `call stub --> jmp {foo+0 at 8,0}` |
//! | a recorded block | `jmp {foo+49 at 16,0}` |
//! | elsewhere between the blocks of a function | `jne foo+58` |
//! | elsewhere in a file | `call prog+0x1030` |
//! | in no file | a distance |
//!
//! A jump that is in no recorded block, as stubs between selected functions are in none, is read
//! from the module's file ([`Report::read_code`]).
//!
//! Limits: what was not executed was not recorded, and stubs of the dynamic linker
//! never are, so a call through one names the stub by its place.

use std::collections::HashMap;
use std::ops::Range;

use isa::{Flow, Insn};
use trace::{Block, Function, Label, Process};

use crate::Report;
use crate::html::Files;
use crate::names::{base_name, function_name, symbol_of};

/// Jumps that are followed behind a call.
pub(crate) const MOST_STEPS: usize = 8;

/// An address of a process, with the module that was there: others may have been at
/// the same one before.
pub(crate) type At = (Option<u32>, u64);

/// Direct jumps that are in no recorded block, as the files of the modules have them.
pub type Stubs = HashMap<At, Vec<u8>>;

/// A function of which basic blocks were recorded.
pub struct Extent<'a> {
    pub name: &'a str,
    pub module: Option<u32>,
    /// From its first instruction to the end of the last that was recorded.
    pub pcs: Range<u64>,
    /// By address.
    pub blocks: Vec<(&'a Function, &'a Block)>,
}

/// The basic blocks of a process.
pub struct Code<'a> {
    process: &'a Process,
    by_address: HashMap<At, (&'a Function, &'a Block)>,
    /// By module and address.
    extents: Vec<Extent<'a>>,
    stubs: Option<&'a Stubs>,
}

impl Report<'_> {
    /// Reads the jumps between recorded blocks that are in none.
    pub(crate) fn read_stubs(&mut self, files: &mut dyn Files) {
        let processes = self.recording.processes.iter();
        let read = processes.map(|process| Code::new(process).read_stubs(files));
        self.stubs = read.collect();
    }
}

impl<'a> Code<'a> {
    pub fn new(process: &'a Process) -> Code<'a> {
        let known = |block: &'a Block| Some((process.function(Label(block.id))?, block));
        let mut blocks: Vec<_> = process.blocks.iter().filter_map(known).collect();
        blocks.sort_by_key(|(function, _)| (function.module, function.pc));
        let entry = |&(function, block): &(&'a Function, &'a Block)| {
            ((function.module, function.pc), (function, block))
        };
        Code {
            process,
            by_address: blocks.iter().map(entry).collect(),
            extents: extents(&blocks),
            stubs: None,
        }
    }

    /// Adds jumps that were read from files.
    #[must_use]
    pub fn with_stubs(mut self, stubs: Option<&'a Stubs>) -> Code<'a> {
        self.stubs = stubs;
        self
    }

    /// Reads the jumps that calls go to, of which nothing was recorded.
    fn read_stubs(&self, files: &mut dyn Files) -> Stubs {
        let mut stubs = Stubs::new();
        for (function, block) in self.by_address.values() {
            for (_, _, insn) in decoded(&block.code, function.pc) {
                if let Some(Flow::Call(to)) = insn.map(|insn| insn.flow()) {
                    self.read_steps((function.module, to), files, &mut stubs);
                }
            }
        }
        stubs
    }

    fn read_steps(&self, mut at: At, files: &mut dyn Files, stubs: &mut Stubs) {
        for _ in 0..MOST_STEPS {
            let insn = match self.by_address.contains_key(&at) {
                true => self.only_jump(at),
                false => self.in_the_file(at, files),
            };
            let Some((insn, Flow::Jump(next))) = insn.map(|insn| (insn, insn.flow())) else {
                return;
            };
            if !self.by_address.contains_key(&at) {
                stubs.insert(at, insn.bytes().to_vec());
            }
            at.1 = next;
        }
    }

    /// The instruction that the module's file has for an address.
    fn in_the_file(&self, (module, pc): At, files: &mut dyn Files) -> Option<Insn> {
        let module = self.process.modules.get(module? as usize)?;
        if !(module.start..module.end).contains(&pc) {
            return None;
        }
        let offset = module.offset.wrapping_add(pc - module.start);
        Insn::decode(&files.bytes(module, offset)?, pc).ok()
    }

    /// Functions of which blocks were recorded.
    pub fn extents(&self) -> &[Extent<'a>] {
        &self.extents
    }

    /// The instructions of a block, in Intel's syntax.
    pub fn instructions(&self, function: &Function, block: &Block) -> Vec<String> {
        let mut texts = Vec::new();
        let (mut code, mut pc) = (&block.code[..], function.pc);
        while !code.is_empty() {
            let insn = Insn::decode(code, pc).ok();
            let target = insn.and_then(|insn| self.target(function.module, &insn));
            texts.push(isa::text::of(code, pc, target.as_deref()));
            // Bytes that do not decode have no known length.
            let length = insn.map_or(code.len(), |insn| insn.len());
            code = code.get(length..).unwrap_or_default();
            pc = pc.wrapping_add(length as u64);
        }
        texts
    }

    /// Target of a direct branch, as text.
    fn target(&self, module: Option<u32>, insn: &Insn) -> Option<String> {
        match insn.flow() {
            Flow::Call(to) => Some(self.callee((module, to))?),
            _ => self.place((module, direct_target(insn)?)),
        }
    }

    /// Callee of a call, with the jumps that lead on from there.
    fn callee(&self, to: At) -> Option<String> {
        let mut text = self.entry(to).or_else(|| self.place(to))?;
        let mut at = to;
        for _ in 0..MOST_STEPS {
            let Some(insn) = self.only_jump(at) else {
                break;
            };
            let next = match insn.flow() {
                Flow::Jump(next) => Some((at.0, next)),
                _ => None,
            };
            let target = next.and_then(|next| self.place(next));
            let jump = isa::text::of(insn.bytes(), insn.pc(), target.as_deref());
            text.push_str(" --> ");
            text.push_str(&jump);
            let Some(next) = next else { break };
            at = next;
        }
        Some(text)
    }

    /// The function that begins at an address; of a block without a symbol its place.
    fn entry(&self, at: At) -> Option<String> {
        let &(function, block) = self.by_address.get(&at)?;
        match symbol_of(self.process, function) {
            Some(name) => (block.offset == 0).then(|| name.to_owned()),
            None => self.in_file(at),
        }
    }

    /// The jump that is all of the block at an address, or was read from the file.
    fn only_jump(&self, at: At) -> Option<Insn> {
        let Some((_, block)) = self.by_address.get(&at) else {
            return Insn::decode(self.stubs?.get(&at)?, at.1).ok();
        };
        let insn = Insn::decode(&block.code, at.1).ok()?;
        let is_jump = matches!(insn.flow(), Flow::Jump(_) | Flow::IndirectJump);
        (is_jump && insn.len() == block.code.len()).then_some(insn)
    }

    fn place(&self, at: At) -> Option<String> {
        if let Some((function, _)) = self.by_address.get(&at) {
            return Some(function_name(self.process, function));
        }
        self.in_function(at).or_else(|| self.in_file(at))
    }

    fn in_function(&self, (module, pc): At) -> Option<String> {
        let start = |extent: &Extent| (extent.module, extent.pcs.start);
        let behind = |extent: &Extent| start(extent) <= (module, pc);
        let at = self.extents.partition_point(behind).checked_sub(1)?;
        let extent = self.extents.get(at)?;
        let is_inside = extent.module == module && extent.pcs.contains(&pc);
        is_inside.then(|| format!("{}+{}", extent.name, pc - extent.pcs.start))
    }

    fn in_file(&self, (module, pc): At) -> Option<String> {
        let module = self.process.modules.get(module? as usize)?;
        let is_inside = (module.start..module.end).contains(&pc);
        let offset = || module.offset.wrapping_add(pc - module.start);
        is_inside.then(|| format!("{}+{:#x}", base_name(&module.path), offset()))
    }
}

/// Decodes `code`, which lies at `at`: the address, the bytes from there on, and the instruction.
/// Bytes that are no instruction come last, as nobody knows where the next one begins.
pub(crate) fn decoded(
    mut code: &[u8],
    mut at: u64,
) -> impl Iterator<Item = (u64, &[u8], Option<Insn>)> {
    std::iter::from_fn(move || {
        if code.is_empty() {
            return None;
        }
        let insn = Insn::decode(code, at).ok();
        let item = (at, code, insn);
        let len = insn.map_or(code.len(), |insn| insn.len());
        code = code.get(len..).unwrap_or_default();
        at += len as u64;
        Some(item)
    })
}

/// The target of a direct branch.
pub(crate) fn direct_target(insn: &Insn) -> Option<u64> {
    match insn.flow() {
        Flow::Call(to)
        | Flow::Jump(to)
        | Flow::Cond(_, to)
        | Flow::CountJump(to)
        | Flow::TransactionBegin(to) => Some(to),
        _ => None,
    }
}

/// The functions of `blocks`, which are sorted.
fn extents<'a>(blocks: &[(&'a Function, &'a Block)]) -> Vec<Extent<'a>> {
    let mut extents: Vec<Extent> = Vec::new();
    // Parts of a function may lie among those of another.
    let mut places: HashMap<(At, &str), usize> = HashMap::new();
    for &(function, block) in blocks {
        let Some(name) = block.function.as_deref() else {
            continue;
        };
        let start = function.pc.wrapping_sub(block.offset);
        let next = extents.len();
        let place = places.entry(((function.module, start), name));
        let place = *place.or_insert(next);
        if place == next {
            extents.push(Extent {
                name,
                module: function.module,
                pcs: start..start,
                blocks: Vec::new(),
            });
        }
        let extent = &mut extents[place];
        let end = function.pc.saturating_add(block.code.len() as u64);
        extent.pcs.end = extent.pcs.end.max(end);
        extent.blocks.push((function, block));
    }
    extents.sort_by_key(|extent| (extent.module, extent.pcs.start));
    extents
}
