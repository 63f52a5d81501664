//! Nests of loops of a file, as text and JSON.

use std::io::{self, Write};

use flow::nests::marks::Nothing;
use flow::nests::places::Places;
use flow::nests::{Nest, Nests, Obstacle};
use image::{Image, LinkAddr};
use isa::{Insn, Reg};
use serde_json::{Value, json};

use crate::flow::Flow;
use crate::names::printable;
use crate::numbers::counted;

/// A mark of a source file, and the loops that it means.
#[derive(Clone, Debug)]
pub struct Mark {
    pub name: String,
    pub file: String,
    pub line: u32,
    /// Nests, and loops of them.
    pub found: Result<Vec<(usize, usize)>, Nothing>,
}

/// Nests of a file, and what is shown of them.
pub struct Listed<'a> {
    pub flow: &'a Flow<'a>,
    pub nests: &'a Nests,
    pub places: &'a Places<'a>,
    pub marks: &'a [Mark],
    /// Nests that are shown, in this order.
    pub shown: &'a [usize],
    /// Shares of the executed instructions by nest, in percent, if a run is known.
    pub shares: Option<&'a [f64]>,
}

/// The name of a loop: its function, and its numbers.
pub fn name(flow: &Flow<'_>, nest: &Nest, at: usize) -> String {
    let function = &flow.program.functions[nest.function];
    format!("{}:{}", flow.name(function), nest.path(at))
}

/// The text of an instruction.
pub fn instruction(image: &Image, at: LinkAddr) -> String {
    let bytes = image.bytes_from(at);
    match Insn::decode(&bytes[..bytes.len().min(15)], at.0) {
        Ok(insn) => isa::text::of(insn.bytes(), at.0, None),
        Err(_) => String::new(),
    }
}

/// Whether all memory operands of an instruction are at a constant distance from the stack or frame pointer.
pub fn is_on_stack(image: &Image, at: LinkAddr) -> bool {
    let bytes = image.bytes_from(at);
    let insn = Insn::decode(&bytes[..bytes.len().min(15)], at.0);
    let is_one = |operand: &isa::memory::Operand| {
        let address = &operand.address;
        address.index.is_none() && matches!(address.base, Some(Reg::Rsp | Reg::Rbp))
    };
    insn.is_ok_and(|insn| insn.memory().iter().all(is_one))
}

/// A reason why a mark means nothing, as the end of a sentence.
pub fn reason(nothing: Nothing) -> String {
    match nothing {
        Nothing::NoLoop => "no loop follows it in the source".into(),
        Nothing::Several(line) => {
            format!("several loops begin on line {line}: put them on lines of their own")
        }
        Nothing::NoCode => "no code is of the loop's lines: it was optimised away".into(),
        Nothing::Unclear => {
            "code of its lines is in a loop that has other code as well, so which it is cannot be told".into()
        }
        Nothing::NotALoop => {
            "the code of its lines is no loop: it was unrolled, or replaced by a call".into()
        }
    }
}

fn obstacle(obstacle: &Obstacle) -> String {
    match obstacle {
        Obstacle::Incomplete(failed) => format!(
            "{} at {:#x}, {}",
            failed.gate.name(),
            failed.at,
            failed.gate.reason()
        ),
        Obstacle::Irreducible(at) => format!("a cycle in it is also entered at {at:#x}"),
        Obstacle::Recursion(at) => format!("the call at {at:#x} may come to it again"),
    }
}

impl Listed<'_> {
    /// Names of marks that mean a loop.
    fn marks_of(&self, nest: usize, at: usize) -> Vec<&str> {
        let means = |mark: &&Mark| {
            mark.found
                .as_ref()
                .is_ok_and(|all| all.contains(&(nest, at)))
        };
        let marks = self.marks.iter().filter(means);
        marks.map(|mark| mark.name.as_str()).collect()
    }

    /// File and lines of a loop.
    fn source(&self, nest: usize, at: usize) -> Option<(&str, u32, u32)> {
        let extent = self
            .places
            .extent(self.flow.program, &self.nests.nests[nest], at)?;
        let file = self.places.files().get(extent.file as usize)?;
        Some((file, extent.first, extent.last))
    }
}

/// A row of the table: what it has in each column.
type Cells = [String; 6];

const HEAD: [&str; 6] = ["loop", "source", "blocks", "refs", "calls", "%"];

/// A line for each loop, those of a nest below each other, and what marks mean.
pub fn text(listed: &Listed<'_>, out: &mut dyn Write) -> io::Result<()> {
    let all = &listed.nests.nests;
    let shown = listed.shown.iter().map(|&at| &all[at]);
    let loops: usize = shown.clone().map(|nest| nest.loops.len()).sum();
    let references: usize = shown.clone().map(Nest::references).sum();
    let depth = shown.map(Nest::depth).max().unwrap_or(0);
    writeln!(
        out,
        "{}: {} of loops: {}, up to {depth} deep, with {}",
        printable(listed.flow.file),
        counted(listed.shown.len() as u64, "nest"),
        counted(loops as u64, "loop"),
        counted(references as u64, "memory reference"),
    )?;
    for mark in listed.marks {
        let (file, line, name) = (&mark.file, mark.line, &mark.name);
        let names = match &mark.found {
            Err(nothing) => format!("nothing: {}", reason(*nothing)),
            Ok(found) => {
                let names = found.iter();
                let names = names.map(|&(nest, at)| self::name(listed.flow, &all[nest], at));
                let names: Vec<String> = names.collect();
                let copies = match names.len() {
                    1 => String::new(),
                    copies => format!(" ({copies} copies)"),
                };
                format!("{}{copies}", names.join(", "))
            }
        };
        writeln!(out, "mark {name} at {file}:{line} means {names}")?;
    }
    let mut rows: Vec<(Cells, Vec<String>)> = vec![(HEAD.map(String::from), Vec::new())];
    for &nest in listed.shown {
        rows.extend(rows_of(listed, nest));
    }
    if rows.len() > 1 {
        writeln!(out)?;
        write(&rows, listed.shares.is_some(), out)?;
    }
    let is_all = listed.shown.len() == all.len();
    for &(function, at) in listed.nests.irreducible.iter().filter(|_| is_all) {
        let name = listed.flow.name(&listed.flow.program.functions[function]);
        writeln!(
            out,
            "{name}: the cycle that is entered at {at:#x} is no loop: it has other entries"
        )?;
    }
    Ok(())
}

/// Rows of a nest, with lines below them.
fn rows_of(listed: &Listed<'_>, number: usize) -> Vec<(Cells, Vec<String>)> {
    let nest = &listed.nests.nests[number];
    let mut order: Vec<usize> = (0..nest.loops.len()).collect();
    order.sort_by_cached_key(|&at| {
        let numbers = nest.path(at);
        let numbers = numbers
            .split('.')
            .map(|number| number.parse::<u32>().unwrap_or(0));
        numbers.collect::<Vec<u32>>()
    });
    let rows = order.into_iter().map(|at| {
        let one = &nest.loops[at];
        let source = listed.source(number, at).map(|(file, first, last)| {
            let file = file.rsplit('/').next().unwrap_or(file);
            match first == last {
                true => format!("{file}:{first}"),
                false => format!("{file}:{first}-{last}"),
            }
        });
        let share = listed.shares.filter(|_| at == 0);
        let indent = 2 * (one.depth as usize - 1);
        let cells = [
            format!("{:indent$}{}", "", name(listed.flow, nest, at)),
            source.unwrap_or_else(|| format!("{:#x}", one.header)),
            one.blocks.len().to_string(),
            one.references.len().to_string(),
            one.calls.to_string(),
            share.map_or(String::new(), |shares| format!("{:.2}", shares[number])),
        ];
        let marks = listed.marks_of(number, at);
        let mut below: Vec<String> = marks.iter().map(|name| format!("mark {name}")).collect();
        if at == 0 {
            let obstacles = nest.obstacles.iter();
            below.extend(obstacles.map(|own| format!("in the way: {}", obstacle(own))));
        }
        (cells, below)
    });
    rows.collect()
}

fn write(rows: &[(Cells, Vec<String>)], with_shares: bool, out: &mut dyn Write) -> io::Result<()> {
    let columns = HEAD.len() - usize::from(!with_shares);
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            let cells = rows.iter().map(|(cells, _)| cells[column].chars().count());
            cells.max().unwrap_or(0)
        })
        .collect();
    for (cells, below) in rows {
        let mut line = String::new();
        for (column, (cell, width)) in cells.iter().zip(&widths).enumerate() {
            let blanks = width - cell.chars().count();
            let blanks = " ".repeat(blanks);
            line += &match column {
                0 | 1 => format!("{cell}{blanks}  "),
                _ => format!("{blanks}{cell}  "),
            };
        }
        writeln!(out, "{}", line.trim_end())?;
        for text in below {
            writeln!(out, "    {text}")?;
        }
    }
    Ok(())
}

/// All facts of the nests that are shown.
pub fn json(listed: &Listed<'_>, out: &mut dyn Write) -> io::Result<()> {
    let nests = listed.shown.iter().map(|&number| json_nest(listed, number));
    let marks = listed.marks.iter().map(|mark| {
        let loops = mark.found.as_ref().map(|found| {
            let names = found.iter();
            let names = names.map(|&(nest, at)| name(listed.flow, &listed.nests.nests[nest], at));
            names.collect::<Vec<_>>()
        });
        json!({
            "name": mark.name,
            "file": mark.file,
            "line": mark.line,
            "loops": loops.as_ref().ok(),
            "why_none": loops.as_ref().err().map(|nothing| reason(**nothing)),
        })
    });
    let whole = json!({
        "format": "everypath nests",
        "version": 1,
        "file": listed.flow.file,
        "nests": nests.collect::<Vec<_>>(),
        "marks": marks.collect::<Vec<_>>(),
        "irreducible": listed.nests.irreducible.iter().map(|(function, at)| json!({
            "function": listed.flow.name(&listed.flow.program.functions[*function]),
            "entry": format!("{at:#x}"),
        })).collect::<Vec<_>>(),
    });
    serde_json::to_writer_pretty(&mut *out, &whole)?;
    writeln!(out)
}

fn json_nest(listed: &Listed<'_>, number: usize) -> Value {
    let nest = &listed.nests.nests[number];
    let loops = nest.loops.iter().enumerate().map(|(at, one)| {
        let references = one.references.iter().map(|reference| {
            let line = listed.places.row(reference.at);
            json!({
                "address": format!("{:#x}", reference.at),
                "operand": reference.operand,
                "reads": reference.kind.reads(),
                "writes": reference.kind.writes(),
                "bytes": reference.size,
                "plain": reference.is_plain,
                "line": line.map(|line| line.line),
            })
        });
        let source = listed.source(number, at);
        json!({
            "name": name(listed.flow, nest, at),
            "header": format!("{:#x}", one.header),
            "offset": listed.flow.image.file_offset(one.header).map(|offset| format!("{:#x}", offset.0)),
            "parent": one.parent,
            "depth": one.depth,
            "blocks": one.blocks.len(),
            "code": one.blocks.iter().map(|&block| {
                let block = listed.flow.program.functions[nest.function].graph.blocks[block as usize];
                [format!("{:#x}", block.start), format!("{:#x}", block.end)]
            }).collect::<Vec<_>>(),
            "calls": one.calls,
            "file": source.map(|(file, ..)| file),
            "lines": source.map(|(_, first, last)| [first, last]),
            "marks": listed.marks_of(number, at),
            "references": references.collect::<Vec<_>>(),
        })
    });
    json!({
        "loops": loops.collect::<Vec<_>>(),
        "in_the_way": nest.obstacles.iter().map(obstacle).collect::<Vec<_>>(),
        "share": listed.shares.map(|shares| shares[number]),
    })
}
