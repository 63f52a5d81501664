//! Control flow of a file: functions, blocks, edges, jump tables, loops, as text, JSON, DOT and SVG.

mod dot;
mod json;
mod svg;
mod table;
mod text;

pub use dot::write as dot;
pub use json::write as json;
pub use svg::write as svg;
pub use table::{Totals, table};
pub use text::{calls, function, gates, loops, summary};

use flow::{Block, Function, Liveness, Loops, Program, To};
use image::{Image, LinkAddr};

use crate::short_names::short;

/// Executions of a block, if they are known.
pub type Ran<'a> = dyn Fn(&Block) -> Option<u64> + 'a;

/// Facts that are shown beside the code of a function.
pub struct Facts<'a> {
    pub ran: &'a Ran<'a>,
    pub liveness: Option<&'a Liveness<'a>>,
}

/// A file and its control flow.
pub struct Flow<'a> {
    pub image: &'a Image,
    pub program: &'a Program,
    /// As on the command line.
    pub file: &'a str,
    /// Names with all template arguments and parameters.
    pub full_names: bool,
}

impl<'a> Flow<'a> {
    /// The name of a function, or its address.
    pub fn name(&self, function: &Function) -> String {
        match &function.name {
            Some(name) => self.demangled(name),
            None => format!("{:#x}", function.entry),
        }
    }

    fn demangled(&self, name: &str) -> String {
        let name = image::demangled(name);
        match self.full_names {
            true => name,
            false => short(&name).to_string(),
        }
    }

    /// Functions whose name or symbol is `name`, or that have the address `name`.
    pub fn find(&self, name: &str) -> Vec<&'a Function> {
        let address = name.strip_prefix("0x");
        let address = address.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        if let Some(address) = address {
            return self
                .program
                .function_at(LinkAddr(address))
                .into_iter()
                .collect();
        }
        let is_it = |function: &&Function| {
            let Some(symbol) = &function.name else {
                return false;
            };
            let full = image::demangled(symbol);
            symbol == name || full == name || short(&full) == name
        };
        self.program.functions.iter().filter(is_it).collect()
    }

    /// Name of the target of an edge, outside of its function.
    fn target(&self, to: To) -> String {
        if let Some(name) = self.program.name_of(to) {
            return self.demangled(name);
        }
        match to {
            To::Address(addr) => match self.program.function_at(addr) {
                Some(function) if function.entry == addr => self.name(function),
                Some(function) => format!(
                    "{}+{:#x}",
                    self.name(function),
                    addr.0.wrapping_sub(function.entry.0)
                ),
                None => format!("{addr:#x}"),
            },
            To::Slot(slot) => format!("[{slot:#x}]"),
            To::Block(block) => format!("block {block}"),
            To::Unknown => "?".into(),
        }
    }

    /// The instructions of a block: addresses and texts.
    fn insns(&self, block: &flow::Block) -> Vec<(LinkAddr, String)> {
        let mut all = Vec::new();
        let mut at = block.start;
        while at < block.end {
            let bytes = self.image.bytes_from(at);
            let bytes = &bytes[..bytes.len().min(15)];
            let Ok(insn) = isa::Insn::decode(bytes, at.0) else {
                break;
            };
            let target = match insn.flow() {
                isa::Flow::Call(to) | isa::Flow::Jump(to) | isa::Flow::Cond(_, to) => Some(to),
                _ => None,
            };
            let target = target.map(|to| match block.start.0 <= to && to < block.end.0 {
                true => format!("{to:#x}"),
                false => match self.program.name_of(To::Address(LinkAddr(to))) {
                    Some(name) => self.demangled(name),
                    None => format!("{to:#x}"),
                },
            });
            all.push((at, isa::text::of(insn.bytes(), at.0, target.as_deref())));
            at = LinkAddr(insn.next_pc());
        }
        all
    }

    /// Source file and line of an address.
    fn line(&self, addr: LinkAddr) -> Option<(String, u32)> {
        let offset = self.image.file_offset(addr)?;
        match self.image.line_at(offset) {
            (Some(file), Some(line)) if line > 0 => Some((file, line)),
            _ => None,
        }
    }
}

/// Loops of a function.
fn loops_of(function: &Function) -> Loops {
    function.graph.loops(&function.entry_blocks())
}

/// Share in percent.
fn share(part: usize, all: usize) -> f64 {
    part as f64 * 100.0 / all.max(1) as f64
}
