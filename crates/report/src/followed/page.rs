//! The page of nests that were followed: one file without scripts. Kinds of references have colours, and source lines stand with them.
//!
//! Invariant: names, paths and source lines are the program's, so each is escaped.

use std::io::{self, Write};

use super::source::{Sources, lines, without_lines};
use super::{Loop, Nest, Reference, Run, Stride, base, entries, iterations, letter};
use crate::html::escaped;
use crate::numbers::{counted, grouped};

const HEAD: &str = include_str!("page.html");

/// More nests than these are closed at first.
const OPEN: usize = 20;

/// Writes the page.
pub fn page(run: &Run, sources: &Sources, out: &mut dyn Write) -> io::Result<()> {
    let came: Vec<&Nest> = run.nests.iter().filter(|nest| nest.entries > 0).collect();
    out.write_all(HEAD.as_bytes())?;
    let command = escaped(&run.command);
    writeln!(
        out,
        "<title>loops: {command}</title>\n<h1>Loops of <code>{command}</code></h1>"
    )?;
    let how = match run.is_exact {
        true => "all iterations were followed",
        false => "the first iterations of the first entries were followed",
    };
    let count = counted(came.len() as u64, "nest");
    let all = run.nests.len() + run.left.len();
    writeln!(
        out,
        "<p>{count} of loops entered, of {all}; {how}. Steps are those in the innermost loop:</p><p>"
    )?;
    for (kind, count) in kinds(&came) {
        writeln!(
            out,
            "<span class=\"mark {kind}\">{kind}</span> {} &nbsp;",
            grouped(count)
        )?;
    }
    writeln!(out, "</p>\n<h2>Nests</h2>")?;
    for nest in &came {
        write_nest(nest, run.is_exact, came.len() <= OPEN, out)?;
    }
    write_sources(run, sources, out)?;
    if !run.left.is_empty() {
        writeln!(out, "<h2>Not followed</h2>\n<table>")?;
    }
    for left in run.left() {
        writeln!(
            out,
            "<tr><td><code>{}</code>{}<td>{}",
            escaped(&left.names()),
            escaped(&left.place()),
            escaped(left.why)
        )?;
    }
    if !run.left.is_empty() {
        writeln!(out, "</table>")?;
    }
    Ok(())
}

/// The kind of a reference, which is the class of its mark.
fn kind(own: &Reference) -> &'static str {
    own.stride().map_or("none", Stride::name)
}

/// The number of references of each kind that were executed.
fn kinds(nests: &[&Nest]) -> Vec<(&'static str, u64)> {
    let all = nests.iter().flat_map(|nest| &nest.loops);
    let all: Vec<&str> = all.flat_map(|one| &one.references).map(kind).collect();
    let kinds = [
        Stride::Contiguous,
        Stride::Strided(0),
        Stride::Invariant,
        Stride::Irregular,
        Stride::Unknown,
    ];
    let names = kinds.into_iter().map(Stride::name);
    names
        .map(|name| (name, all.iter().filter(|own| **own == name).count() as u64))
        .collect()
}

fn write_nest(nest: &Nest, is_exact: bool, is_open: bool, out: &mut dyn Write) -> io::Result<()> {
    let outermost = &nest.loops[0];
    let open = if is_open { " open" } else { "" };
    let heading = format!(
        "{}{}{}{}",
        outermost.name,
        place(outermost),
        nest.place(),
        entries(nest, is_exact)
    );
    writeln!(
        out,
        "<details{open}><summary>{}</summary>\n<table>",
        escaped(&heading)
    )?;
    writeln!(
        out,
        "<tr><th>where<th>access<th class=number>bytes<th>steps<th>address<th class=number>as expected<th>instruction"
    )?;
    for one in &nest.loops {
        let text = format!(
            "{} ({}){}{}",
            one.name,
            letter(one),
            place(one),
            iterations(one)
        );
        writeln!(
            out,
            "<tr><td colspan=7><span class=\"mark loop\">loop</span> {}",
            escaped(&text)
        )?;
        for own in &one.references {
            write_reference(own, out)?;
        }
    }
    writeln!(out, "</table></details>")
}

fn place(one: &Loop) -> String {
    match &one.place {
        Some((file, first, last)) => format!("  {}:{first}-{last}", base(file)),
        None => String::new(),
    }
}

fn write_reference(own: &Reference, out: &mut dyn Write) -> io::Result<()> {
    let place = match &own.place {
        Some((file, line)) => format!("{}:{line}", base(file)),
        None => format!("{:#x}", own.address),
    };
    let (text, seen) = match &own.function {
        Ok(function) if function.samples > 0 => {
            let known = function.fits + function.fails + function.unsolved;
            let seen = format!("{} of {}", grouped(function.fits), grouped(known));
            (own.sum(function) + &own.steps(), seen)
        }
        Ok(_) => ("not executed".to_owned(), String::new()),
        Err(why) => (why.clone(), String::new()),
    };
    let kind = kind(own);
    writeln!(
        out,
        "<tr><td>{}<td>{}<td class=number>{}<td><span class=\"mark {kind}\">{kind}</span><td><code>{}</code><td class=number>{seen}<td><code>{}</code>",
        escaped(&place),
        own.kind(),
        own.bytes,
        escaped(&text),
        escaped(&own.text)
    )
}

fn write_sources(run: &Run, sources: &Sources, out: &mut dyn Write) -> io::Result<()> {
    for (file, lines) in lines(run) {
        writeln!(out, "<h2>{}</h2>", escaped(file))?;
        let Some(source) = sources.get(file) else {
            writeln!(
                out,
                "<p>The source is not here, or is not what was compiled.</p>"
            )?;
            continue;
        };
        writeln!(out, "<table class=source>")?;
        let mut next = None;
        for (number, line) in &lines {
            if next.is_some_and(|next| next != *number) {
                writeln!(out, "<tr class=gap><td><td>...")?;
            }
            next = Some(number + 1);
            let text = source.get(*number as usize - 1).map_or("", String::as_str);
            writeln!(out, "<tr><td class=number>{number}<td>{}", escaped(text))?;
            for (note, count) in &line.notes {
                let times = if *count > 1 {
                    format!(" ({count} times)")
                } else {
                    String::new()
                };
                let kind = note.kind;
                writeln!(
                    out,
                    "<tr class=note><td><td><span class=\"mark {kind}\">{kind}</span> {}{times}",
                    escaped(&note.text)
                )?;
            }
        }
        writeln!(out, "</table>")?;
    }
    match without_lines(run) {
        0 => Ok(()),
        count => writeln!(
            out,
            "<p>{} without source lines.</p>",
            counted(count, "nest")
        ),
    }
}
