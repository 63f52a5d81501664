//! Dependences of nests of loops, by the loop that carries them, and what could be done to the nest in their presence.
//!
//! The words are those of a run: that a loop carries no dependence says nothing about other inputs.

use std::io::{self, Write};

use analysis::dependences::legality::{Class, Key};
use analysis::dependences::{Dependence, Found, Range, Reference};
use flow::nests::places::Places;
use flow::nests::{Nest, NestLoop};
use image::LinkAddr;
use serde_json::{Value, json};

use crate::flow::Flow;
use crate::loops::name;
use crate::names::printable;
use crate::numbers::{counted, grouped};

/// Letters of numbers of iterations, outermost first.
const LETTERS: [&str; 6] = ["i", "j", "k", "l", "m", "n"];
/// Distances of a dependence that are shown.
const SHOWN: usize = 4;

/// Nests with what was found.
pub struct Shown<'a> {
    pub command: &'a str,
    pub flow: &'a Flow<'a>,
    pub places: &'a Places<'a>,
    pub nests: Vec<(&'a Nest, &'a Found)>,
    /// The trace has all iterations.
    pub is_whole: bool,
}

fn letter(one: &NestLoop) -> &'static str {
    LETTERS.get(one.depth as usize - 1).copied().unwrap_or("?")
}

/// `0`, or `-1..2`, for each loop.
fn distance(ranges: &[Range]) -> String {
    let each = ranges.iter().map(|(low, high)| match low == high {
        true => low.to_string(),
        false => format!("{low}..{high}"),
    });
    format!("({})", each.collect::<Vec<_>>().join(", "))
}

impl Shown<'_> {
    fn place(&self, one: &Reference) -> String {
        let at = LinkAddr(one.at);
        let line = self.places.row(at);
        let line = line.and_then(|line| {
            let file = self.places.files().get(line.file as usize)?;
            let file = file.rsplit('/').next().unwrap_or(file);
            Some(format!("{file}:{}", line.line))
        });
        let place = line.unwrap_or_else(|| format!("{at}", at = format_args!("{:#x}", one.at)));
        match one.is_call {
            true => format!("{place} (call)"),
            false => place,
        }
    }

    fn dependence(&self, (kind, source, sink): &Key, one: &Dependence) -> String {
        let distances = one.distances.iter().take(SHOWN);
        let mut distances: Vec<String> = distances.map(|(own, _)| distance(own)).collect();
        if one.has_more || one.distances.len() > SHOWN {
            distances.push("...".into());
        }
        format!(
            "{} {} -> {}  {}  {}",
            kind.name(),
            self.place(source),
            self.place(sink),
            distances.join(" "),
            counted(one.count, "time")
        )
    }

    /// A sentence for each thing that could be done to a nest, or the first dependence that forbids it.
    fn legal(&self, nest: &Nest, found: &Found) -> Vec<(String, Option<String>)> {
        let ordinary = found
            .all
            .iter()
            .filter(|(key, _)| found.class(key) != Class::Stack);
        let ordinary: Vec<(&Key, &Dependence)> = ordinary.collect();
        let first = |forbids: &dyn Fn(&Dependence) -> bool| {
            let one = ordinary.iter().find(|(_, one)| forbids(one));
            one.map(|(key, one)| self.dependence(key, one))
        };
        let mut all = Vec::new();
        for (number, inner) in nest.loops.iter().enumerate() {
            let Some(parent) = inner.parent else { continue };
            let outer = &nest.loops[parent];
            let depth = outer.depth as usize;
            // Something between the loops, or two inner loops: they cannot simply change places.
            let is_between = |one: &&(&Key, &Dependence)| {
                let (_, source, sink) = one.0;
                source.number == parent || sink.number == parent
            };
            let siblings = nest.loops.iter().filter(|one| one.parent == Some(parent));
            if siblings.count() > 1 {
                continue;
            }
            let names = format!(
                "{}, {} of {}",
                letter(outer),
                letter(inner),
                name(self.flow, nest, number)
            );
            if let Some((key, _)) = ordinary.iter().find(is_between) {
                let (_, source, sink) = key;
                let between = if source.number == parent {
                    source
                } else {
                    sink
                };
                let by = format!("{}, which is between the loops", self.place(between));
                all.push((format!("interchange {names}"), Some(by)));
                continue;
            }
            all.push((
                format!("interchange {names}"),
                first(&|one| one.forbids_interchange(depth)),
            ));
            all.push((
                format!("tiles of {names}"),
                first(&|one| one.forbids_tiles(depth..=depth + 1)),
            ));
        }
        all
    }
}

/// Everything as text.
pub fn text(shown: &Shown<'_>, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "everypath loops: dependences of {}",
        printable(shown.command)
    )?;
    let came = shown.nests.iter().filter(|(_, found)| found.entries > 0);
    let came: Vec<&(&Nest, &Found)> = came.collect();
    let count = counted(came.len() as u64, "nest");
    writeln!(
        out,
        "{count} of loops entered, of {}; what follows is true of this run alone",
        shown.nests.len()
    )?;
    writeln!(
        out,
        "distances are differences of numbers of iterations, which begin with 0 at each entry of a loop"
    )?;
    for (nest, found) in came {
        writeln!(out)?;
        for (number, one) in nest.loops.iter().enumerate() {
            write_loop(shown, (nest, found), (number, one), out)?;
        }
        for (what, forbidden) in shown.legal(nest, found) {
            match forbidden {
                None => writeln!(out, "  {what}: no dependence of this run forbids it")?,
                Some(by) => writeln!(out, "  {what}: forbidden by {by}")?,
            }
        }
    }
    Ok(())
}

fn write_loop(
    shown: &Shown<'_>,
    (nest, found): (&Nest, &Found),
    (number, one): (usize, &NestLoop),
    out: &mut dyn Write,
) -> io::Result<()> {
    let indent = 2 * (one.depth as usize - 1);
    let iterations = found.iterations.get(number).copied().unwrap_or(0);
    let heading = heading(shown, (nest, found), (number, one));
    writeln!(
        out,
        "{:indent$}{heading}  {}",
        "",
        counted(iterations, "iteration")
    )?;
    let carried = |class| carried(nest, found, number, class);
    let ordinary = carried(Class::Ordinary);
    if ordinary.is_empty() && iterations > 0 {
        let count = grouped(iterations);
        let of = match shown.is_whole {
            true => format!("{count} of {count} iterations"),
            false => format!("{count} iterations; the trace is not whole"),
        };
        writeln!(
            out,
            "{:indent$}  no loop-carried dependence through memory in this run ({of})",
            ""
        )?;
    }
    for (key, own) in &ordinary {
        writeln!(out, "{:indent$}  {}", "", shown.dependence(key, own))?;
    }
    let depth = one.depth as usize;
    let least = ordinary
        .iter()
        .filter_map(|(_, own)| own.least_at(depth))
        .min();
    if let Some(least) = least.filter(|least| *least > 1 && one.calls == 0) {
        writeln!(
            out,
            "{:indent$}  up to {least} iterations at once keep the order",
            ""
        )?;
    }
    for (key, own) in carried(Class::Update) {
        writeln!(
            out,
            "{:indent$}  update: {}",
            "",
            shown.dependence(key, own)
        )?;
    }
    match carried(Class::Stack).len() as u64 {
        0 => Ok(()),
        stack => {
            let count = counted(stack, "dependence");
            writeln!(out, "{:indent$}  and {count} of places on the stack", "")
        }
    }
}

/// Name, lines and entries of a loop.
fn heading(
    shown: &Shown<'_>,
    (nest, found): (&Nest, &Found),
    (number, one): (usize, &NestLoop),
) -> String {
    let mut text = format!("{} ({})", name(shown.flow, nest, number), letter(one));
    let extent = shown.places.extent(shown.flow.program, nest, number);
    if let Some(extent) = extent
        && let Some(file) = shown.places.files().get(extent.file as usize)
    {
        let file = file.rsplit('/').next().unwrap_or(file);
        text += &format!("  {file}:{}-{}", extent.first, extent.last);
    }
    if one.depth == 1 {
        text += &format!("  entered {}", counted(found.entries, "time"));
    }
    text
}

/// Dependences of a class that a loop may carry.
fn carried<'a>(
    nest: &Nest,
    found: &'a Found,
    number: usize,
    class: Class,
) -> Vec<(&'a Key, &'a Dependence)> {
    let depth = nest.loops[number].depth as usize;
    let is_one = |(key, own): &(&Key, &Dependence)| {
        is_in(nest, number, key) && own.is_carried_at(depth) && found.class(key) == class
    };
    found.all.iter().filter(is_one).collect()
}

/// Whether both ends are in a loop.
fn is_in(nest: &Nest, number: usize, (_, source, sink): &Key) -> bool {
    let inside = |one: &Reference| {
        let mut next = Some(one.number);
        while let Some(at) = next {
            if at == number {
                return true;
            }
            next = nest.loops[at].parent;
        }
        false
    };
    inside(source) && inside(sink)
}

/// All facts.
pub fn json(shown: &Shown<'_>, out: &mut dyn Write) -> io::Result<()> {
    let nests = shown.nests.iter().map(|(nest, found)| {
        let loops = nest.loops.iter().enumerate().map(|(number, one)| {
            let depth = one.depth as usize;
            let carries = |class| carried(nest, found, number, class).len();
            json!({
                "name": name(shown.flow, nest, number),
                "depth": depth,
                "iterations": found.iterations.get(number).copied().unwrap_or(0),
                "carries": {
                    "ordinary": carries(Class::Ordinary),
                    "update": carries(Class::Update),
                    "stack": carries(Class::Stack),
                },
            })
        });
        let end = |one: &Reference| {
            json!({
                "address": format!("{:#x}", one.at),
                "loop": name(shown.flow, nest, one.number),
                "call": one.is_call,
                "place": shown.place(one),
            })
        };
        let all = found.all.iter().map(|(key, own)| {
            let distances = own.distances.iter();
            let distances = distances.map(|(ranges, count)| json!({ "ranges": ranges, "count": count }));
            json!({
                "kind": key.0.name(),
                "source": end(&key.1),
                "sink": end(&key.2),
                "class": found.class(key).name(),
                "count": own.count,
                "distances": distances.collect::<Vec<_>>(),
                "more": own.has_more,
            })
        });
        let legal = shown.legal(nest, found).into_iter();
        json!({
            "entries": found.entries,
            "loops": loops.collect::<Vec<_>>(),
            "dependences": all.collect::<Vec<_>>(),
            "transformations": legal.map(|(what, by)| json!({ "what": what, "forbidden_by": by })).collect::<Vec<_>>(),
        })
    });
    let whole: Value = json!({
        "format": "everypath dependences",
        "version": 1,
        "command": shown.command,
        "whole": shown.is_whole,
        "nests": nests.collect::<Vec<_>>(),
    });
    serde_json::to_writer_pretty(&mut *out, &whole)?;
    writeln!(out)
}
