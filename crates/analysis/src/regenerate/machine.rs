//! Registers of a thread, as far as its addresses are made of them, and the words of its accesses.
//!
//! Problem: the stream has values of registers only where nobody can compute them.
//!
//! Approach: what is told is executed once more, without memory: instructions that compute registers from others do so
//! ([`isa::compute`]), and where the plan of a block has a value, the next one of the stream is the register's. A call keeps the
//! registers that a callee preserves for its return. A handler of a signal has registers and values to itself.
//!
//! Invariants: a register that no address is made of may have any value. Any stream gives words, or an error where it has fewer values
//! than the plan.
//!
//! Limits: what a handler changes in the registers of the code that it interrupted is not seen.

use std::sync::Arc;

use isa::compute::{Computed, Form, State, Value};
use isa::insn::Reader;
use isa::memory::recorded::{Recorded, SHORT, Selection, Word};
use isa::memory::{Address, Known, Operand};
use isa::{Insn, Reg};
use placement::traced::{Block, End};

use super::CodeOf;
use super::graphs::{At, Graphs};
use super::told::{How, Told};

/// Values are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing;

/// Something to be done for an instruction.
#[derive(Clone, Copy, Debug)]
enum Micro {
    /// A word of an access: most are a register, or an address.
    Base(Reg),
    Address(Address),
    Word(Word),
    /// A register has a value of others.
    Computes(Reg, Value),
    /// A register has the next value of the stream.
    Takes(Reg, Form),
}

/// An activation, as its callees' returns find it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Frame {
    registers: [u64; 16],
    /// Registers whose values come when its call is back.
    results: u16,
}

/// Code that was interrupted by a handler.
#[derive(Debug)]
struct Level {
    state: State,
    values: Values,
    pending: u16,
    /// Number of its activations.
    frames: usize,
}

/// Bytes of values that were not taken yet.
#[derive(Debug, Default)]
struct Values {
    bytes: Vec<u8>,
    taken: usize,
}

impl Values {
    fn add(&mut self, bytes: &[u8]) {
        if self.taken == self.bytes.len() {
            self.bytes.clear();
            self.taken = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// The next value, of so many bytes.
    fn take(&mut self, width: u8) -> Result<u64, Missing> {
        let end = self.taken + usize::from(width);
        let own = self.bytes.get(self.taken..end).ok_or(Missing)?;
        let mut value = [0; 8];
        value[..own.len()].copy_from_slice(own);
        self.taken = end;
        Ok(u64::from_le_bytes(value))
    }
}

/// Blocks of a process, as they are executed.
#[derive(Debug)]
pub struct Blocks<'f> {
    code: CodeOfBlocks<'f>,
    /// By function, and by block.
    known: Vec<Vec<Option<Arc<[Micro]>>>>,
}

struct CodeOfBlocks<'f>(CodeOf<'f>);

impl std::fmt::Debug for CodeOfBlocks<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("code")
    }
}

impl<'f> Blocks<'f> {
    pub fn new(graphs: &Graphs, code: CodeOf<'f>) -> Blocks<'f> {
        let functions = graphs.functions.iter();
        Blocks {
            code: CodeOfBlocks(code),
            known: functions
                .map(|function| vec![None; function.blocks.len()])
                .collect(),
        }
    }

    fn of(&mut self, at: At, block: &Block) -> Arc<[Micro]> {
        let own = &mut self.known[at.function as usize][at.block as usize];
        if let Some(known) = own {
            return Arc::clone(known);
        }
        let found = (self.code.0)(block.start);
        let bytes = found.map_or(&[][..], |(bytes, _)| bytes);
        let bytes = &bytes[..bytes.len().min(block.len as usize)];
        let known: Arc<[Micro]> = micros(bytes, block).into();
        *own = Some(Arc::clone(&known));
        known
    }
}

/// The steps of a block.
fn micros(bytes: &[u8], block: &Block) -> Vec<Micro> {
    let start = block.start;
    let mut micros = Vec::new();
    let mut values = block.values.iter().peekable();
    let mut take = |behind: u32, insn: Option<&Computed>, micros: &mut Vec<Micro>| {
        while let Some(value) = values.next_if(|value| value.behind == behind) {
            let register = Reg::ALL[usize::from(value.register)];
            let loaded = insn.and_then(|computed| computed.loaded);
            let form = loaded.filter(|loaded| loaded.to == register);
            let form = form.map_or(Form::WHOLE, |loaded| loaded.form);
            let width = value.bytes;
            micros.push(Micro::Takes(register, Form { width, ..form }));
        }
    };
    take(0, None, &mut micros);
    let mut reader = Reader::new(bytes, start);
    let (mut pc, mut behind) = (start, 0);
    while let Ok(insn) = reader.decode(pc) {
        behind += 1;
        let computed = insn.computes();
        let (before, after) = words(&insn);
        micros.extend(before.into_iter().map(|word| match word {
            Word::Base(base) => Micro::Base(base),
            Word::Address(address) => Micro::Address(address),
            word => Micro::Word(word),
        }));
        if let Some((to, value)) = computed.result {
            micros.push(Micro::Computes(to, value));
        }
        take(behind, Some(&computed), &mut micros);
        micros.extend(after.into_iter().map(Micro::Word));
        pc = insn.next_pc();
    }
    micros
}

/// The words of an instruction's accesses, and those behind it.
fn words(insn: &Insn) -> (Vec<Word>, Vec<Word>) {
    let operands = Recorded::of(insn, Selection::EVERY_ADDRESS).operands;
    let known = Known::default();
    let words = |operand: &Operand| known.words(operand, Selection::EVERY_ADDRESS);
    let words = operands.iter().flat_map(words);
    words.partition(|word| !word.is_behind())
}

/// The machine of a thread.
#[derive(Debug)]
pub struct Machine<'g> {
    graphs: &'g Graphs,
    state: State,
    frames: Vec<Frame>,
    levels: Vec<Level>,
    values: Values,
    /// Registers whose values come next.
    pending: u16,
    /// Numbers of values that were in the stream, and of operands whose addresses were made.
    pub taken: u64,
    pub operands: u64,
}

impl<'g> Machine<'g> {
    /// The machine of a thread with this thread pointer, with the activations that it has from its parent.
    pub fn new(graphs: &'g Graphs, pointer: u64, frames: Vec<Frame>) -> Machine<'g> {
        Machine {
            graphs,
            state: State {
                fs: pointer,
                ..State::default()
            },
            frames,
            levels: Vec::new(),
            values: Values::default(),
            pending: 0,
            taken: 0,
            operands: 0,
        }
    }

    /// Its activations.
    pub fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// Executes what is told, with the bytes of values if it is that; the words of its accesses come behind those in `words`.
    ///
    /// # Errors
    /// Values are missing.
    pub fn execute(
        &mut self,
        (told, values): (&Told, &[u8]),
        blocks: &mut Blocks<'_>,
        words: &mut Vec<u8>,
    ) -> Result<(), Missing> {
        match *told {
            Told::Values { .. } => self.values.add(values),
            Told::Executed(at) => self.block(at, blocks, words)?,
            Told::Came { to, how, depth } => self.come(to, how, depth),
            Told::Left(_) | Told::Forked(_) => {}
        }
        Ok(())
    }

    fn block(
        &mut self,
        at: At,
        blocks: &mut Blocks<'_>,
        words: &mut Vec<u8>,
    ) -> Result<(), Missing> {
        for register in Reg::ALL {
            if self.pending >> register as u16 & 1 != 0 {
                self.state.registers[register as usize] = self.values.take(8)?;
                self.taken += 1;
            }
        }
        self.pending = 0;
        let block = self.graphs.block(at);
        for micro in blocks.of(at, block).iter() {
            match *micro {
                Micro::Base(base) => {
                    let value = self.state.registers[base as usize];
                    words.extend_from_slice(&value.to_le_bytes()[..SHORT]);
                    self.operands += 1;
                }
                Micro::Address(ref address) => {
                    let value = address.of_state(&self.state);
                    words.extend_from_slice(&value.to_le_bytes()[..SHORT]);
                    self.operands += 1;
                }
                Micro::Word(word) => {
                    self.operands += u64::from(matches!(word, Word::Wide(_)));
                    self.word(word, words);
                }
                Micro::Computes(to, value) => {
                    self.state.registers[to as usize] = self.state.value(value);
                }
                Micro::Takes(register, form) => {
                    let value = self.values.take(form.width)?;
                    self.taken += 1;
                    self.state.registers[register as usize] = form.extend(value);
                }
            }
        }
        self.leave(block);
        Ok(())
    }

    /// Control goes where the end of a block says.
    fn leave(&mut self, block: &Block) {
        let is_moved = |target: Option<u64>| {
            target.is_some_and(|target| self.graphs.entries.contains_key(&target))
        };
        match block.end {
            End::Call { target, .. } => {
                if let Some(own) = self.frames.last_mut() {
                    own.registers = self.state.registers;
                    own.results = block.results;
                }
                if is_moved(target) {
                    self.frames.push(Frame::default());
                    let stack = &mut self.state.registers[Reg::Rsp as usize];
                    *stack = stack.wrapping_sub(8);
                }
            }
            End::Return { .. } => {
                self.frames.pop();
                self.give_back();
            }
            End::Tail { target } if !is_moved(target) => drop(self.frames.pop()),
            _ => {}
        }
    }

    /// The last activation goes on behind its call.
    fn give_back(&mut self) {
        if let Some(own) = self.frames.last() {
            self.state.registers = own.registers;
            self.pending = own.results;
        }
    }

    fn come(&mut self, to: At, how: How, depth: u32) {
        let depth = depth as usize;
        let entry = || {
            let entries = &self.graphs.function(to).entries;
            let mut entries = entries.iter().filter(|entry| entry.block == to.block);
            entries.next().map_or(0, |entry| entry.registers)
        };
        match how {
            How::Enters => {
                self.pending = entry();
                self.frames.resize(depth, Frame::default());
                self.frames.push(Frame::default());
            }
            How::Interrupts(_) => {
                let pending = std::mem::replace(&mut self.pending, entry());
                self.levels.push(Level {
                    state: self.state,
                    values: std::mem::take(&mut self.values),
                    pending,
                    frames: self.frames.len(),
                });
                self.frames.push(Frame::default());
            }
            How::Back => {
                if let Some(level) = self.levels.pop() {
                    self.frames.truncate(level.frames);
                    self.state = level.state;
                    self.values = level.values;
                    self.pending = level.pending;
                }
            }
            How::FromElsewhere => {
                self.frames.resize(depth, Frame::default());
                self.give_back();
            }
            How::Pad | How::Point(_) => {
                self.frames.resize(depth, Frame::default());
                while let Some(level) = self.levels.pop_if(|level| level.frames >= depth) {
                    drop(level);
                }
                self.values = Values::default();
                self.give_back();
                self.pending = match how {
                    How::Point(site) => self.graphs.block(site).results,
                    _ => 0,
                };
            }
        }
    }

    fn word(&self, word: Word, words: &mut Vec<u8>) {
        let register = |register: Reg| self.state.registers[register as usize];
        let value = match word {
            Word::Wide(address) | Word::Behind(address) => address.of_state(&self.state),
            Word::Number(number) => register(number),
            // Bases and addresses are steps of their own, and the editor leaves functions with other words.
            _ => 0,
        };
        words.extend((0..word.skips()).map(|_| 0));
        words.extend_from_slice(&value.to_le_bytes());
    }
}
