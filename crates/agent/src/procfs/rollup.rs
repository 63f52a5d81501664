//! `/proc/self/smaps_rollup` without the engine: the kernel's sums, less what `smaps` says of the
//! engine's memory.

use alloc::vec::Vec;
use core::fmt::Write;

use super::maps::Line;
use super::sizes::{Block, figure, for_each_block, scaled};
use super::{KB, Text};
use crate::regions::Regions;

/// The kernel's text as it would be without the engine; `smaps` has the mappings one by one.
pub fn without_engine(text: &[u8], smaps: &[u8], regions: &Regions) -> Vec<u8> {
    let text = core::str::from_utf8(text).unwrap_or("");
    let names: Vec<&str> = text
        .lines()
        .filter_map(|line| Some(figure(line.as_bytes())?.0))
        .collect();
    let mut ours = alloc::vec![0; names.len()];
    let (mut first, mut last) = (u64::MAX, 0);
    for_each_block(smaps, |block| {
        let pieces = block.line.pieces(regions);
        for piece in &pieces {
            first = first.min(piece.start);
            // The kernel leaves the page of old system calls out.
            if block.line.name() != "[vsyscall]" {
                last = last.max(piece.end);
            }
        }
        let resident = block.figure("Rss");
        let programs: u64 = block.shares(&pieces).iter().sum();
        let left = resident.saturating_sub(programs);
        for (name, ours) in names.iter().zip(&mut ours) {
            *ours += scaled(summed(name, &block) / KB, left, resident);
        }
    });
    let mut out = Text::default();
    for line in text.lines() {
        // A text in memory takes every byte.
        let _ = match (figure(line.as_bytes()), Line::parse(line.as_bytes())) {
            (Some((name, kilobytes)), _) => {
                let at = names.iter().position(|other| *other == name);
                let value = kilobytes.saturating_sub(at.map_or(0, |at| ours[at]));
                let width = 23usize.saturating_sub(name.len());
                writeln!(out, "{name}:{value:width$} kB")
            }
            (None, Some(_)) => {
                let rest = line.find(' ').map_or("", |at| &line[at..]);
                writeln!(out, "{first:08x}-{last:08x}{rest}")
            }
            (None, None) => writeln!(out, "{line}"),
        };
    }
    out.0
}

/// The bytes of a mapping that are summed under `name`, if it is the engine's: its memory is
/// anonymous, or of memory files, and there is none of other files.
fn summed(name: &str, block: &Block<'_>) -> u64 {
    let proportional = block.figure("Pss");
    let anonymous = block.figure("Anonymous").min(proportional);
    match name {
        "Pss_Anon" => anonymous,
        "Pss_Shmem" => proportional - anonymous,
        "Pss_File" => 0,
        name => block.figure(name),
    }
}
