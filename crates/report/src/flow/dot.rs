//! Graphs in Graphviz's language.

use std::io::{self, Write};

use flow::{EdgeKind, Function, To};

use super::Flow;
use super::text::call_graph;

/// Writes the graphs of functions, or the call graph if there are none.
pub fn write(flow: &Flow<'_>, functions: &[&Function], out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "digraph everypath {{\n  node [shape=box, fontname=monospace];"
    )?;
    for (at, function) in functions.iter().enumerate() {
        one(flow, at, function, out)?;
    }
    if functions.is_empty() {
        for (caller, callees) in call_graph(flow) {
            for (callee, kind) in callees {
                let style = if kind == EdgeKind::TailCall {
                    " [style=dashed]"
                } else {
                    ""
                };
                writeln!(out, "  {} -> {}{style};", quoted(&caller), quoted(&callee))?;
            }
        }
    }
    writeln!(out, "}}")
}

fn one(flow: &Flow<'_>, at: usize, function: &Function, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "  subgraph cluster_{at} {{\n    label={};",
        quoted(&flow.name(function))
    )?;
    for (number, block) in function.graph.blocks.iter().enumerate() {
        let insns = flow.insns(block);
        let lines = insns.iter().map(|(addr, text)| format!("{addr:x}  {text}"));
        let lines: Vec<String> = lines.collect();
        // `\l` ends a line that is set flush left.
        let label = lines
            .join("\n")
            .replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\l");
        writeln!(out, "    b{at}_{number} [label=\"{label}\\l\"];")?;
    }
    for edge in &function.graph.edges {
        let To::Block(to) = edge.to else { continue };
        let color = match edge.kind {
            EdgeKind::FallThrough => "black",
            EdgeKind::Taken => "blue",
            EdgeKind::Case => "darkgreen",
            _ => "red",
        };
        writeln!(
            out,
            "    b{at}_{} -> b{at}_{to} [color={color}];",
            edge.from
        )?;
    }
    writeln!(out, "  }}")
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
