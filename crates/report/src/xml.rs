//! Contexts as XML, as IHPP has it (4.5): the schema is docs/formats/everypath.xsd.
//!
//! Rules of the format: addresses and offsets are hexadecimal with `0x`, counts
//! decimal; a node names its parent by number and comes behind it, because readers
//! limit how deep elements are nested, and contexts are deeper. [`VERSION`] is raised
//! when an element changes its meaning or goes.

mod forests;
mod writer;

use std::io::{self, Write};

use trace::{End, Function, Label, Module, Process};

use crate::code::{Code, Extent};
use crate::names::function_name;
use crate::{Detail, Report};
use writer::Writer;

/// Attribute `version` of the root.
///
/// | version | change |
/// |---|---|
/// | 1 | first |
pub const VERSION: u32 = 1;

pub fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let mut xml = Writer::new(out)?;
    let producer = &report.recording.meta.producer;
    xml.open(
        "everypath",
        &[("version", &VERSION), ("producer", producer)],
    )?;
    write_configuration(report, &mut xml)?;
    write_totals(report, &mut xml)?;
    xml.open("processes", &[])?;
    for (at, process) in report.recording.processes.iter().enumerate() {
        write_process(report, at, process, &mut xml)?;
    }
    xml.close()?;
    if !report.notes.is_empty() {
        xml.open("notes", &[])?;
        for note in &report.notes {
            xml.text("note", &[], note)?;
        }
        xml.close()?;
    }
    xml.close()
}

fn write_configuration(report: &Report, xml: &mut Writer) -> io::Result<()> {
    let meta = &report.recording.meta;
    xml.open("configuration", &[])?;
    write_command(&meta.command, xml)?;
    let mode = match meta.blocks {
        None => "function",
        Some(blocks) if blocks.intra => "intra",
        Some(_) => "inter",
    };
    xml.text("workingMode", &[], &mode)?;
    let k = meta.k.map_or("infinite".into(), |k| k.to_string());
    xml.text("k", &[], &k)?;
    match meta.blocks {
        None => xml.text("unrollRecursion", &[], &meta.unroll)?,
        Some(blocks) => {
            xml.text("rollLoops", &[], &blocks.roll_loops)?;
            let kind = if blocks.dynamic { "dynamic" } else { "classic" };
            xml.text("blockKind", &[], &kind)?;
        }
    }
    xml.open("options", &[])?;
    for (name, value) in &meta.options {
        xml.text("option", &[("name", name)], value)?;
    }
    xml.close()?;
    xml.text("startedUnixNs", &[], &meta.started_unix_ns)?;
    xml.text("durationNs", &[], &meta.duration_ns)?;
    write_end(meta.end, xml)?;
    xml.close()
}

fn write_command(words: &[String], xml: &mut Writer) -> io::Result<()> {
    xml.open("command", &[])?;
    for word in words {
        xml.text("arg", &[], word)?;
    }
    xml.close()
}

fn write_end(end: End, xml: &mut Writer) -> io::Result<()> {
    match end {
        End::Exited(status) => xml.empty("end", &[("kind", &"exited"), ("status", &status)]),
        End::Signaled { signal, core } => {
            let kind = ("kind", &"signaled" as _);
            xml.empty("end", &[kind, ("signal", &signal), ("core", &core)])
        }
        End::Execed => xml.empty("end", &[("kind", &"execed")]),
        End::Unknown => xml.empty("end", &[("kind", &"unknown")]),
    }
}

fn write_totals(report: &Report, xml: &mut Writer) -> io::Result<()> {
    let totals = &report.totals;
    xml.empty(
        "totals",
        &[
            ("processes", &report.recording.processes.len()),
            ("threads", &totals.threads),
            ("labels", &totals.functions),
            ("contexts", &totals.contexts),
            ("events", &totals.events),
            ("truncated", &totals.truncated),
            ("instructions", &totals.insns),
        ],
    )
}

fn write_process(
    report: &Report,
    at: usize,
    process: &Process,
    xml: &mut Writer,
) -> io::Result<()> {
    xml.open("process", &[])?;
    xml.text("pid", &[], &process.pid)?;
    xml.text_of("parent", process.parent)?;
    xml.text("exe", &[], &process.exe)?;
    write_command(&process.args, xml)?;
    write_end(process.end, xml)?;
    xml.open("modules", &[])?;
    for (number, module) in process.modules.iter().enumerate() {
        write_module(number, module, xml)?;
    }
    xml.close()?;
    let labels = Labels {
        report,
        at,
        process,
        code: Code::new(process).with_stubs(report.stubs.get(at)),
    };
    labels.write_functions(xml)?;
    labels.write_blocks(xml)?;
    forests::write(report, at, process, xml)?;
    write_engine(report, process, xml)?;
    xml.close()
}

fn write_module(number: usize, module: &Module, xml: &mut Writer) -> io::Result<()> {
    xml.open("module", &[("id", &number)])?;
    xml.text("path", &[], &module.path)?;
    xml.text("start", &[], &Hex(module.start))?;
    xml.text("end", &[], &Hex(module.end))?;
    xml.text("offset", &[], &Hex(module.offset))?;
    let hex = |bytes: &Vec<u8>| -> String { bytes.iter().map(|b| format!("{b:02x}")).collect() };
    xml.text_of("buildId", module.build_id.as_ref().map(hex))?;
    xml.close()
}

/// Statistics of the engine, if they were asked for.
fn write_engine(report: &Report, process: &Process, xml: &mut Writer) -> io::Result<()> {
    if report.stat_names.is_empty() {
        return Ok(());
    }
    xml.open("engine", &[])?;
    for (name, value) in report.stats(process) {
        xml.text("stat", &[("name", &name)], &value)?;
    }
    xml.close()
}

/// Labels of the nodes of a process.
struct Labels<'a> {
    report: &'a Report<'a>,
    /// Index of the process.
    at: usize,
    process: &'a Process,
    code: Code<'a>,
}

impl Labels<'_> {
    /// With basic blocks the functions that they are in, which no node names.
    fn write_functions(&self, xml: &mut Writer) -> io::Result<()> {
        xml.open("functions", &[])?;
        if self.report.recording.meta.blocks.is_some() {
            for extent in self.code.extents() {
                self.write_extent(extent, xml)?;
            }
            return xml.close();
        }
        let listings = self.report.tables.funcs == Some(Detail::Disassembly);
        for function in &self.process.functions {
            xml.open("func", &[("id", &function.id)])?;
            xml.text("name", &[], &function_name(self.process, function))?;
            self.write_place(function, xml)?;
            if listings && let Some(Ok(listing)) = self.report.listing(self.at, function) {
                write_code(listing.iter().map(|insn| &*insn.text), xml)?;
            }
            xml.close()?;
        }
        xml.close()
    }

    fn write_extent(&self, extent: &Extent, xml: &mut Writer) -> io::Result<()> {
        let first = extent.blocks.iter().find(|(_, block)| block.offset == 0);
        let first = first.map(|(function, _)| *function);
        xml.open("func", &[])?;
        xml.text("name", &[], &extent.name)?;
        xml.text("addr", &[], &Hex(extent.pcs.start))?;
        xml.text_of("module", extent.module)?;
        xml.text_of("file", first.and_then(|first| first.file.as_deref()))?;
        xml.text_of("line", first.and_then(|first| first.line))?;
        let count = first.map_or(0, |first| self.count(first));
        xml.text("counter", &[], &count)?;
        if self.report.tables.funcs == Some(Detail::Disassembly) {
            let blocks = extent.blocks.iter();
            let code = blocks.flat_map(|(function, block)| self.code.instructions(function, block));
            let code: Vec<String> = code.collect();
            write_code(code.iter().map(String::as_str), xml)?;
        }
        xml.close()
    }

    fn write_blocks(&self, xml: &mut Writer) -> io::Result<()> {
        if self.report.recording.meta.blocks.is_none() {
            return Ok(());
        }
        xml.open("blocks", &[])?;
        for function in &self.process.functions {
            let Some(block) = self.process.block(Label(function.id)) else {
                continue;
            };
            xml.open("block", &[("id", &function.id)])?;
            xml.text("name", &[], &function_name(self.process, function))?;
            let first = function.pc.wrapping_sub(block.offset);
            let first = block.function.as_ref().map(|_| Hex(first));
            xml.text_of("funcAddr", first)?;
            self.write_place(function, xml)?;
            xml.text("bytes", &[], &block.code.len())?;
            let code = self.code.instructions(function, block);
            write_code(code.iter().map(String::as_str), xml)?;
            xml.close()?;
        }
        xml.close()
    }

    fn write_place(&self, function: &Function, xml: &mut Writer) -> io::Result<()> {
        xml.text("addr", &[], &Hex(function.pc))?;
        xml.text_of("module", function.module)?;
        let offset = function.module.map(|_| Hex(function.file_offset));
        xml.text_of("fileOffset", offset)?;
        xml.text_of("file", function.file.as_deref())?;
        xml.text_of("line", function.line)?;
        let block = self.process.block(Label(function.id));
        xml.text_of("column", block.and_then(|block| block.column))?;
        xml.text("counter", &[], &self.count(function))
    }

    fn count(&self, function: &Function) -> u64 {
        self.report.count_of(self.at, Label(function.id))
    }
}

fn write_code<'t>(code: impl Iterator<Item = &'t str>, xml: &mut Writer) -> io::Result<()> {
    xml.open("disassembly", &[])?;
    for instruction in code {
        xml.text("insn", &[], &instruction)?;
    }
    xml.close()
}

/// An address or an offset.
struct Hex(u64);

impl std::fmt::Display for Hex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}
