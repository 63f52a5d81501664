//! `report` of what programs edited with `--tool opmix` wrote: executions by mnemonic, in all and of each function.
//!
//! The file has words ([`crate::counter_header::Header`]); the section of the edited program says whose they are (`edits::opmix`).

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use anyhow::{Result, anyhow, bail};
use edits::opmix::MAGIC;
use image::Image;

use crate::commands::print;
use crate::counter_header::{self, Header};
use crate::exit_status::Ending;
use crate::flags::{Format, Report};
use crate::output::{Kind, Output, reason};
use crate::uncounted::name_at;

/// Mnemonics that are shown of each function.
const SHOWN: usize = 5;

/// Executions by entry and mnemonic.
#[derive(Debug, Default)]
struct Mixes {
    original: String,
    functions: BTreeMap<u64, BTreeMap<String, u64>>,
}

/// Shows files of `opmix`; `None`: the first one is something else.
pub fn report(flags: &Report) -> Result<Option<Ending>> {
    if !counter_header::is_one(&flags.file) || !is_one(&flags.file)? {
        return Ok(None);
    }
    let mut mixes = Mixes::default();
    for path in [&flags.file].into_iter().chain(&flags.more) {
        mixes.add(path)?;
    }
    let image = Image::open_whole(&mixes.original);
    let image = image.map_err(|error| anyhow!("cannot read '{}': {error}", mixes.original))?;
    let text = match flags.format {
        Format::Report | Format::Text => mixes.text(&image, flags.view.top),
        Format::Csv => mixes.csv(&image),
        _ => bail!("what --tool opmix counted is shown as a table, or with --format csv"),
    };
    let Some(path) = &flags.made.output else {
        return print(text.as_bytes()).map(Some);
    };
    let output = Output::prepare(path, Kind::Report)?;
    output.replace(|out| out.write_all(text.as_bytes()))?;
    Ok(Some(Ending::Exit(0)))
}

/// The section of the program that wrote a file, if it is text that begins with a line.
pub fn section(path: &Path, header: &Header, magic: &str) -> Result<Option<String>> {
    let program = &header.program;
    let bytes = std::fs::read(program);
    let bytes = bytes.map_err(|error| {
        anyhow!(
            "cannot read '{program}', the edited program that wrote '{}': {}",
            path.display(),
            reason(&error)
        )
    })?;
    let section = rewrite::plan_of(&bytes);
    let is_own = |section: &&[u8]| {
        let first = header.parts.first();
        first.is_some_and(|part| placement::plan::hash(section) == part.id)
    };
    let own = section.filter(is_own);
    let text = own.and_then(|section| std::str::from_utf8(section).ok());
    let is_it = |text: &&str| text.lines().next() == Some(magic);
    Ok(text.filter(is_it).map(str::to_owned))
}

/// Whether a file of counters is one of this tool.
pub fn is_one(path: &Path) -> Result<bool> {
    let (header, _) = Header::of(path)?;
    Ok(section(path, &header, MAGIC)?.is_some())
}

impl Mixes {
    /// Adds what a file has.
    fn add(&mut self, path: &Path) -> Result<()> {
        let shown = path.display();
        let (header, bytes) = Header::of(path)?;
        let text = section(path, &header, MAGIC)?;
        let text = text.ok_or_else(|| anyhow!("'{shown}' is not of --tool opmix"))?;
        let mut lines = text.lines().skip(1);
        let original = lines.next().unwrap_or_default();
        if !self.original.is_empty() && self.original != original {
            bail!("'{shown}' is of another program than the file before it");
        }
        original.clone_into(&mut self.original);
        let rows: Vec<(u64, usize, Vec<&str>)> = lines
            .map(row)
            .collect::<Option<_>>()
            .ok_or_else(|| anyhow!("the section of '{}' is damaged", header.program))?;
        let ends = rows
            .iter()
            .map(|(_, first, names)| first.saturating_add(names.len()));
        let words = header.counters(&bytes, 0, ends.max().unwrap_or(0), 8);
        let words = words.map_err(|what| anyhow!("'{shown}' {what}"))?;
        for (entry, first, names) in rows {
            let mix = self.functions.entry(entry).or_default();
            for (at, name) in (first..).zip(names) {
                let all = words.iter().filter_map(|(_, words)| words.get(at));
                let sum = all.fold(0u64, |sum, word| sum.saturating_add(*word));
                let own = mix.entry(name.to_owned()).or_default();
                *own = own.saturating_add(sum);
            }
        }
        Ok(())
    }

    /// A table of the functions with most instructions.
    fn text(&self, image: &Image, top: usize) -> String {
        let mut all: BTreeMap<&str, u64> = BTreeMap::new();
        for (name, count) in self.functions.values().flatten() {
            *all.entry(name).or_default() += count;
        }
        let total: u64 = all.values().sum();
        let mut rows: Vec<(u64, u64)> = self
            .functions
            .iter()
            .map(|(&entry, mix)| (mix.values().sum(), entry))
            .filter(|(sum, _)| *sum > 0)
            .collect();
        rows.sort_unstable_by(|a, b| b.cmp(a));
        let names = all.iter().map(|(name, count)| (*name, *count));
        let mut text = format!(
            "everypath: opmix of {}: {} instructions of {} functions\nonly the program's own code was counted, not that of libraries, and not functions that were left (rewrite --explain)\n\nall: {}\n\n{:>16}  {:>6}  function\n",
            self.original,
            report::grouped(total),
            rows.len(),
            most(names, total),
            "executed",
            "share"
        );
        for &(sum, entry) in rows.iter().take(top) {
            let mix = self.functions[&entry].iter();
            let written = writeln!(
                text,
                "{:>16}  {:>4.1} %  {}: {}",
                report::grouped(sum),
                100.0 * sum as f64 / total.max(1) as f64,
                name_at(entry, image),
                most(mix.map(|(name, count)| (name.as_str(), *count)), sum)
            );
            debug_assert!(written.is_ok());
        }
        if rows.len() > top {
            text += &format!("{:>16}  functions more: --top\n", rows.len() - top);
        }
        text
    }

    /// Every function and mnemonic that was executed.
    fn csv(&self, image: &Image) -> String {
        let mut text = String::from("function,entry,mnemonic,executed\n");
        for (&entry, mix) in &self.functions {
            let name = name_at(entry, image).replace('"', "\"\"");
            for (mnemonic, count) in mix.iter().filter(|(_, count)| **count > 0) {
                let written = writeln!(text, "\"{name}\",{entry:#x},{mnemonic},{count}");
                debug_assert!(written.is_ok());
            }
        }
        text
    }
}

/// A line of the section: an entry, the number of its first word, and its mnemonics.
fn row(line: &str) -> Option<(u64, usize, Vec<&str>)> {
    let mut words = line.split(' ');
    let entry = u64::from_str_radix(words.next()?, 16).ok()?;
    let first = words.next()?.parse().ok()?;
    Some((
        entry,
        first,
        words.filter(|word| !word.is_empty()).collect(),
    ))
}

/// The most frequent mnemonics with their shares.
fn most<'m>(mix: impl Iterator<Item = (&'m str, u64)>, total: u64) -> String {
    let mut mix: Vec<(&str, u64)> = mix.collect();
    mix.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let shown = mix.iter().take(SHOWN).map(|(name, count)| {
        format!(
            "{name} {:.1} %",
            100.0 * *count as f64 / total.max(1) as f64
        )
    });
    shown.collect::<Vec<_>>().join(", ")
}
