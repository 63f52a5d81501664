//! Control flow as text.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use flow::{EdgeKind, Function, Gate, Loops, To};
use image::LinkAddr;

use super::{Facts, Flow, loops_of, share};
use crate::names::base_name;
use crate::names::printable;
use crate::numbers::grouped;
use crate::text::Style;

/// Totals of the file, and of what its graphs lack.
pub fn summary(flow: &Flow<'_>, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let (language, linker) = flow.image.origin();
    let title = format!("everypath flow: {}", printable(flow.file));
    writeln!(out, "{}", style.bold(&title))?;
    let code = grouped(flow.program.code);
    writeln!(out, "{language}, {linker}, {code} bytes of code\n")?;
    let functions = &flow.program.functions;
    let outside = flow.program.code_outside();
    let percent = share(outside as usize, flow.program.code as usize);
    let outside = (
        outside as usize,
        format!("bytes of code in no function, padding apart ({percent:.2} %)"),
    );
    for (value, text) in of_functions(functions)
        .into_iter()
        .chain([outside])
        .chain(of_graphs(functions))
    {
        writeln!(out, "{:>12}  {text}", number(value))?;
    }
    let fails = |gate| {
        let fails = |function: &&Function| function.failed.iter().any(|failed| failed.gate == gate);
        functions.iter().filter(fails).count()
    };
    let failed = Gate::ALL.into_iter().map(|gate| (gate, fails(gate)));
    let failed: Vec<(Gate, usize)> = failed.filter(|(_, count)| *count > 0).collect();
    if !failed.is_empty() {
        let head = "functions that are not complete, by gate";
        writeln!(out, "\n{}", style.bold(head))?;
    }
    for (gate, count) in failed {
        let (name, reason) = (gate.name(), gate.reason());
        writeln!(out, "{:>12}  {name:<4} {reason}", number(count))?;
    }
    Ok(())
}

fn number(value: usize) -> String {
    grouped(value as u64)
}

/// Figures of the functions, with their nouns.
fn of_functions(functions: &[Function]) -> Vec<(usize, String)> {
    let with = |has: &dyn Fn(&&Function) -> bool| functions.iter().filter(has).count();
    let complete = with(&|function| function.is_complete());
    let percent = share(complete, functions.len());
    vec![
        (
            functions.len(),
            format!("functions, {} complete ({percent:.2} %)", number(complete)),
        ),
        (
            with(&|function| function.evidence.unwind),
            "with unwind table".into(),
        ),
        (
            with(&|function| function.name.is_some()),
            "with name".into(),
        ),
        (
            with(&|function| function.ranges.len() > 1),
            "with parts elsewhere".into(),
        ),
        (
            with(&|function| !function.others.is_empty()),
            "with other entries".into(),
        ),
        (with(&|function| !function.returns), "without return".into()),
    ]
}

/// Figures of their graphs.
fn of_graphs(functions: &[Function]) -> Vec<(usize, String)> {
    let blocks = functions.iter().flat_map(|function| &function.graph.blocks);
    let insns: usize = blocks.clone().map(|block| block.insns as usize).sum();
    let mut kinds: BTreeMap<EdgeKind, usize> = BTreeMap::new();
    for edge in functions.iter().flat_map(|function| &function.graph.edges) {
        *kinds.entry(edge.kind).or_default() += 1;
    }
    let each = kinds.iter();
    let each = each.map(|(kind, count)| format!("{} {}", number(*count), kind.name()));
    let each: Vec<String> = each.collect();
    let tables = functions.iter().flat_map(|function| &function.tables);
    let cases: usize = tables.clone().map(|table| table.cases().count()).sum();
    let bounded = tables.clone().filter(|table| table.is_bounded).count();
    let (bounded, cases) = (number(bounded), number(cases));
    let tails = functions.iter().map(|function| function.tail_jumps.len());
    let loops: Vec<Loops> = functions.iter().map(loops_of).collect();
    let all = loops.iter().flat_map(|loops| &loops.loops);
    let depth = all.clone().map(|one| one.depth).max().unwrap_or(0);
    let odd = loops.iter().filter(|loops| !loops.irreducible.is_empty());
    let odd = number(odd.count());
    vec![
        (
            blocks.count(),
            format!("basic blocks, {} instructions", number(insns)),
        ),
        (kinds.values().sum(), format!("edges: {}", each.join(", "))),
        (
            tables.count(),
            format!("jump tables, {bounded} bounded by a comparison, {cases} cases"),
        ),
        (tails.sum(), "indirect tail calls".into()),
        (
            all.count(),
            format!("loops, up to {depth} deep; {odd} functions with irreducible parts"),
        ),
    ]
}

/// Functions that are not complete, and why.
pub fn gates(flow: &Flow<'_>, out: &mut dyn Write) -> io::Result<()> {
    for function in flow
        .program
        .functions
        .iter()
        .filter(|function| !function.is_complete())
    {
        for failed in &function.failed {
            writeln!(
                out,
                "{:<4} {:#x}  {}: {}",
                failed.gate.name(),
                failed.at,
                flow.name(function),
                failed.gate.reason()
            )?;
        }
    }
    Ok(())
}

/// Blocks, edges and instructions of a function.
pub fn function(
    flow: &Flow<'_>,
    function: &Function,
    facts: &Facts<'_>,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    about(flow, function, style, out)?;
    let loops = loops_of(function);
    let live = facts.liveness.map(|all| (all, all.of(function)));
    for (number, block) in (0..).zip(&function.graph.blocks) {
        let all = loops.loops.iter();
        let around = all
            .clone()
            .filter(|one| one.blocks.binary_search(&number).is_ok());
        let depth = around.map(|one| one.depth).max().unwrap_or(0);
        let is_header = all.clone().any(|one| one.header == number);
        let mark = match (is_header, depth) {
            (true, depth) => format!("  header of a loop, depth {depth}"),
            (false, 0) => String::new(),
            (false, depth) => format!("  in a loop, depth {depth}"),
        };
        let title = style.bold(&format!("block {number}"));
        let times = (facts.ran)(block).map(|times| format!("  {} times", grouped(times)));
        let times = times.unwrap_or_default();
        let line = style.dim(&place(flow, block.start));
        writeln!(out, "\n{title}{times}{mark}{line}")?;
        let live = live.as_ref();
        let live = live.map(|(all, live)| all.within(function, live, number as usize));
        for (place, (at, text)) in flow.insns(block).into_iter().enumerate() {
            let live = live.as_ref().and_then(|live| live.get(place));
            match live {
                None => writeln!(out, "  {at:8x}  {text}")?,
                Some((_, set)) => {
                    let names = style.dim(&format!("live: {}", set.names().join(" ")));
                    writeln!(out, "  {at:8x}  {text:<40} {names}")?;
                }
            }
        }
        for edge in function.graph.edges_of(number as usize) {
            let text = format!("-> {}: {}", edge.kind.name(), flow.target(edge.to));
            writeln!(out, "            {}", style.dim(&text))?;
        }
    }
    Ok(())
}

/// File and line of an address, for the end of a line.
fn place(flow: &Flow<'_>, addr: LinkAddr) -> String {
    let line = flow.line(addr);
    line.map_or(String::new(), |(file, line)| {
        format!("  {}:{line}", base_name(&file))
    })
}

/// A function without its graph.
fn about(
    flow: &Flow<'_>,
    function: &Function,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let head = format!("{} at {:#x}", flow.name(function), function.entry);
    let line = style.dim(&place(flow, function.entry));
    writeln!(out, "{}{line}", style.bold(&head))?;
    let ranges = function.ranges.iter();
    let ranges = ranges.map(|range| format!("{:#x} to {:#x}", range.start, range.end));
    writeln!(out, "code: {}", ranges.collect::<Vec<_>>().join(", "))?;
    let evidence = function.evidence;
    let known = [
        (evidence.unwind, "unwind table"),
        (evidence.named, "symbol or entry point"),
        (evidence.pointer, "relocation"),
        (evidence.called, "direct call"),
        (evidence.taken, "its address in an instruction"),
    ];
    let known = known.iter().filter(|(is, _)| *is).map(|(_, text)| *text);
    writeln!(out, "known by: {}", known.collect::<Vec<_>>().join(", "))?;
    for other in &function.others {
        writeln!(out, "also entered at {other:#x}")?;
    }
    for table in &function.tables {
        let bound = match table.is_bounded {
            true => "as a comparison says",
            false => "up to where its elements end",
        };
        let (at, jump, cases) = (table.table, table.jump, table.cases().count());
        let holes = match table.elements.len() - cases {
            0 => String::new(),
            holes => format!(" and {holes} holes, which lead to the function's end"),
        };
        writeln!(
            out,
            "jump table at {at:#x} of the jump at {jump:#x}: {cases} cases{holes}, {bound}"
        )?;
    }
    for failed in &function.failed {
        let (gate, at, reason) = (failed.gate.name(), failed.at, failed.gate.reason());
        writeln!(out, "not complete: {gate} at {at:#x}, {reason}")?;
    }
    Ok(())
}

/// All loops, each below the one around it.
pub fn loops(flow: &Flow<'_>, out: &mut dyn Write) -> io::Result<()> {
    for function in &flow.program.functions {
        let loops = loops_of(function);
        if loops.loops.is_empty() && loops.irreducible.is_empty() {
            continue;
        }
        writeln!(out, "{} at {:#x}", flow.name(function), function.entry)?;
        let mut order: Vec<usize> = (0..loops.loops.len()).collect();
        order.sort_by_key(|&at| loops.loops[at].header);
        let blocks = &function.graph.blocks;
        for at in order {
            let one = &loops.loops[at];
            let header = blocks[one.header as usize].start;
            let insns: u32 = one
                .blocks
                .iter()
                .map(|&block| blocks[block as usize].insns)
                .sum();
            let line = place(flow, header);
            let indent = 2 * one.depth as usize;
            writeln!(
                out,
                "{:indent$}loop at {header:#x}: {} blocks, {insns} instructions{line}",
                "",
                one.blocks.len()
            )?;
        }
        for &block in &loops.irreducible {
            writeln!(
                out,
                "  irreducible part, entered at {:#x}",
                blocks[block as usize].start
            )?;
        }
    }
    Ok(())
}

/// The call graph, an edge a line, then the functions that calls by address may lead to.
pub fn calls(flow: &Flow<'_>, out: &mut dyn Write) -> io::Result<()> {
    for (caller, callees) in call_graph(flow) {
        for (callee, kind) in callees {
            writeln!(
                out,
                "{caller} -> {callee}{}",
                match kind {
                    EdgeKind::TailCall => "  tail call",
                    EdgeKind::NoReturn => "  does not return",
                    _ => "",
                }
            )?;
        }
    }
    let functions = flow.program.functions.iter();
    for function in functions.filter(|function| function.is_taken()) {
        writeln!(out, "address taken: {}", flow.name(function))?;
    }
    Ok(())
}

/// Callees of each function that has some, by name.
pub(super) fn call_graph(flow: &Flow<'_>) -> Vec<(String, BTreeSet<(String, EdgeKind)>)> {
    let functions = flow.program.functions.iter();
    let taken = functions.clone().filter(|function| function.is_taken());
    let unknown = format!(
        "one of {} functions whose addresses are taken",
        number(taken.count())
    );
    let of = |function: &Function| {
        let edges = function.graph.edges.iter();
        let calls = edges.filter(|edge| {
            matches!(
                edge.kind,
                EdgeKind::Call | EdgeKind::NoReturn | EdgeKind::TailCall
            )
        });
        let calls = calls.map(|edge| match edge.to {
            To::Unknown => (unknown.clone(), edge.kind),
            to => (flow.target(to), edge.kind),
        });
        calls.collect::<BTreeSet<_>>()
    };
    let all = functions.map(|function| (flow.name(function), of(function)));
    all.filter(|(_, callees)| !callees.is_empty()).collect()
}
