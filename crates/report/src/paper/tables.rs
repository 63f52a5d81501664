//! All functions and all basic blocks, in the layout of the IHPP paper (listings 4.15
//! and 4.21).
//!
//! ```text
//! -----
//! All basic blocks
//! -----
//! {foo+33 at 17,0} addr: 0x8048421 counter: 3
//! Disassembly:
//!                                 mov dword ptr [esp], 1
//!                                 call p
//! ```
//!
//! A counter is how often a function was entered, or a block executed, in all threads
//! of the process; what was beyond the limit of nodes is in none. In recordings of
//! basic blocks a function's counter is that of its first block.

use std::io::{self, Write};

use trace::{Function, Label, Process};

use super::{DOUBLE_RULE, RULE};
use crate::code::Code;
use crate::disassembly::Instruction;
use crate::names::function_name;
use crate::numbers::command_line;
use crate::{Detail, Report};

/// Columns before an instruction.
const INDENT: usize = 32;
/// Before the name of a block among those of its function.
const BLOCK_INDENT: usize = 16;

/// The tables that were asked for.
pub(crate) fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let tables = report.tables;
    for (at, process) in report.recording.processes.iter().enumerate() {
        if tables.funcs.is_none() && tables.blocks.is_none() {
            break;
        }
        if report.recording.processes.len() > 1 {
            let command = command_line(&process.args);
            writeln!(out, "{DOUBLE_RULE}\nProcess ID: {} {command}", process.pid)?;
        }
        let table = Table {
            process,
            count: |label| report.count_of(at, label),
            code: Code::new(process).with_stubs(report.stubs.get(at)),
        };
        if let Some(detail) = tables.funcs {
            writeln!(out, "{RULE}\nAll functions\n{RULE}")?;
            match report.recording.meta.blocks {
                None => table.write_entered(report, at, detail, out)?,
                Some(_) => table.write_functions(detail, out)?,
            }
        }
        if let Some(detail) = tables.blocks {
            writeln!(out, "{RULE}\nAll basic blocks\n{RULE}")?;
            table.write_blocks(detail, out)?;
        }
    }
    Ok(())
}

struct Table<'a, C> {
    process: &'a Process,
    count: C,
    code: Code<'a>,
}

impl<C: Fn(Label) -> u64> Table<'_, C> {
    /// The functions of a recording of functions; their code is that of the modules' files.
    fn write_entered(
        &self,
        report: &Report,
        at: usize,
        detail: Detail,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        for function in by_address(self.process) {
            let name = function_name(self.process, function);
            let count = (self.count)(Label(function.id));
            write_row(&format!("{name}()"), function.pc, count, out)?;
            if detail == Detail::Plain {
                continue;
            }
            writeln!(out, "Disassembly:")?;
            match report.listing(at, function) {
                Some(Ok(listing)) => write_listing(listing, out)?,
                Some(Err(why)) => writeln!(out, "{:BLOCK_INDENT$}({why})", "")?,
                None => writeln!(out, "{:BLOCK_INDENT$}(Its code was not read.)", "")?,
            }
            writeln!(out)?;
        }
        Ok(())
    }

    /// The functions that recorded blocks are in.
    fn write_functions(&self, detail: Detail, out: &mut dyn Write) -> io::Result<()> {
        let mut extents: Vec<_> = self.code.extents().iter().collect();
        extents.sort_by_key(|extent| extent.pcs.start);
        for extent in extents {
            let first = extent.blocks.iter().find(|(_, block)| block.offset == 0);
            let count = first.map_or(0, |(function, _)| (self.count)(Label(function.id)));
            let name = format!("{}()", extent.name);
            write_row(&name, extent.pcs.start, count, out)?;
            if detail == Detail::Plain {
                continue;
            }
            writeln!(out, "Disassembly:")?;
            for (function, _) in &extent.blocks {
                let name = function_name(self.process, function);
                writeln!(out, "{:BLOCK_INDENT$}{name}:", "")?;
                self.write_code(function, out)?;
            }
            writeln!(out)?;
        }
        Ok(())
    }

    fn write_blocks(&self, detail: Detail, out: &mut dyn Write) -> io::Result<()> {
        for function in by_address(self.process) {
            let name = function_name(self.process, function);
            let count = (self.count)(Label(function.id));
            write_row(&name, function.pc, count, out)?;
            if detail == Detail::Disassembly {
                writeln!(out, "Disassembly:")?;
                self.write_code(function, out)?;
                writeln!(out)?;
            }
        }
        Ok(())
    }

    fn write_code(&self, function: &Function, out: &mut dyn Write) -> io::Result<()> {
        let block = self.process.block(Label(function.id));
        let code = block.map(|block| self.code.instructions(function, block));
        for instruction in code.into_iter().flatten() {
            writeln!(out, "{:INDENT$}{instruction}", "")?;
        }
        Ok(())
    }
}

/// As in listing 5.19.
fn write_listing(listing: &[Instruction], out: &mut dyn Write) -> io::Result<()> {
    for Instruction { pc, text } in listing {
        writeln!(out, "{:BLOCK_INDENT$}{pc:<12x}    {text}", "")?;
    }
    Ok(())
}

fn write_row(name: &str, pc: u64, count: u64, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{name} addr: {pc:#x} counter: {count}")
}

/// Functions, or basic blocks, in the order of their addresses.
fn by_address(process: &Process) -> Vec<&Function> {
    let mut functions: Vec<&Function> = process.functions.iter().collect();
    functions.sort_by_key(|function| function.pc);
    functions
}
