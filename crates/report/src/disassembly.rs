//! The instructions of functions, for tables of contexts of functions: those hold no code,
//! so it is read from the files of the modules (IHPP 4.3.3, listings 5.19 and 5.20).
//!
//! | target | shown as |
//! |---|---|
//! | of a branch within the function | `jne main+47` |
//! | a function or a place behind its start | `call printf`, `jmp foo+0x10` |
//! | of a call: an instruction that only jumps on | `call prog+0x1030 --> jmp foo` |
//!
//! Limits: a function is one extent, what the compiler put elsewhere (`.cold`) is not shown
//! with it; jumps through memory, as in stubs of the dynamic linker, are not followed.

use std::collections::HashMap;

use isa::{Flow, Insn};
use trace::{Function, Label, Module, Process};

use crate::Report;
use crate::code::{MOST_STEPS, decoded, direct_target};
use crate::html::Files;
use crate::names::function_name;

/// The instructions of a function, or a sentence that says why there are none.
pub type Listing = Result<Vec<Instruction>, String>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Its address in the process.
    pub pc: u64,
    /// In Intel's syntax.
    pub text: String,
}

impl Report<'_> {
    /// Reads the code of all functions, if they are what contexts are of; else that of jumps
    /// which calls of blocks go through.
    pub fn read_code(&mut self, files: &mut dyn Files) {
        if self.recording.meta.blocks.is_some() {
            self.read_stubs(files);
            return;
        }
        let processes = self.recording.processes.iter();
        let listings = processes.map(|process| {
            let functions = process.functions.iter();
            let listed = functions.map(|function| {
                let listing = listing(process, function, files);
                (Label(function.id), listing)
            });
            listed.collect::<HashMap<Label, Listing>>()
        });
        self.listings = listings.collect();
    }

    /// The code of a function of a process, if it was read.
    pub(crate) fn listing(&self, process: usize, function: &Function) -> Option<&Listing> {
        self.listings.get(process)?.get(&Label(function.id))
    }
}

fn listing(process: &Process, function: &Function, files: &mut dyn Files) -> Listing {
    let module = process.module_of(function);
    let module = module.ok_or("It is in no file, and its code was not recorded.")?;
    let (start, code) = files.code(module, function.file_offset)?;
    let reader = Reader {
        module,
        name: function_name(process, function),
        start,
        code: &code,
    };
    // The recorded address is that of the recorded offset.
    let first = function
        .pc
        .wrapping_sub(function.file_offset.wrapping_sub(start));
    Ok(reader.instructions(first, files))
}

/// A function that begins at an offset of a module's file.
struct Reader<'a> {
    module: &'a Module,
    name: String,
    start: u64,
    code: &'a [u8],
}

impl Reader<'_> {
    fn instructions(&self, first: u64, files: &mut dyn Files) -> Vec<Instruction> {
        let instructions = decoded(self.code, self.start).map(|(at, code, insn)| {
            let target = insn.and_then(|insn| self.target(&insn, files));
            Instruction {
                pc: first.wrapping_add(at - self.start),
                text: isa::text::of(code, at, target.as_deref()),
            }
        });
        instructions.collect()
    }

    fn target(&self, insn: &Insn, files: &mut dyn Files) -> Option<String> {
        let to = direct_target(insn)?;
        let inside = to.wrapping_sub(self.start);
        if inside != 0 && inside < self.code.len() as u64 {
            return Some(format!("{}+{inside}", self.name));
        }
        let place = files.place(self.module, to)?;
        Some(match insn.flow() {
            Flow::Call(_) => place + &self.steps(to, files),
            _ => place,
        })
    }

    /// The jumps that lead on from where a call goes.
    fn steps(&self, mut to: u64, files: &mut dyn Files) -> String {
        let mut text = String::new();
        for _ in 0..MOST_STEPS {
            let bytes = files.bytes(self.module, to);
            let insn = bytes.and_then(|bytes| Insn::decode(&bytes, to).ok());
            let Some(Flow::Jump(next)) = insn.map(|insn| insn.flow()) else {
                break;
            };
            let Some(place) = files.place(self.module, next) else {
                break;
            };
            text.push_str(" --> jmp ");
            text.push_str(&place);
            to = next;
        }
        text
    }
}
