//! `/proc/self/numa_maps` without the engine.
//!
//! The file has a line for each mapping, which begins with its first address and says no last
//! one: that is in `maps`. Pages of a mapping that is the program's in parts only are divided by
//! how many of each part are present.

use alloc::vec::Vec;
use core::fmt::Write;

use super::Text;
use super::maps::Line;
use super::sizes::{present, scaled};
use crate::regions::Regions;

/// The kernel's text as it would be without the engine; `maps` is the list of mappings.
pub fn without_engine(text: &[u8], maps: &[u8], regions: &Regions) -> Vec<u8> {
    let mut out = Text::default();
    let mappings = maps.split(|&byte| byte == b'\n').filter_map(Line::parse);
    let mappings: Vec<Line<'_>> = mappings.collect();
    for line in text.split(|&byte| byte == b'\n') {
        let Some((start, rest)) = start_of(line) else {
            continue;
        };
        let Some(mapping) = mappings.iter().find(|mapping| mapping.start == start) else {
            continue;
        };
        let pieces = mapping.pieces(regions);
        for piece in &pieces {
            // A text in memory takes every byte.
            let _ = write!(out, "{:08x}", piece.start);
            let is_whole = piece.start == mapping.start && piece.end == mapping.end;
            match is_whole {
                true => out.0.extend_from_slice(rest.as_bytes()),
                false => {
                    let part = present(piece.start, piece.end);
                    write_part(rest, (part, present(mapping.start, mapping.end)), &mut out);
                }
            }
            out.0.push(b'\n');
        }
    }
    out.0
}

/// The address that a line begins with, and what is behind it.
fn start_of(line: &[u8]) -> Option<(u64, &str)> {
    let line = core::str::from_utf8(line).ok()?;
    let at = line.find(' ')?;
    Some((u64::from_str_radix(&line[..at], 16).ok()?, &line[at..]))
}

/// `part` of `whole` of the pages that `rest` counts.
fn write_part(rest: &str, (part, whole): (u64, u64), out: &mut Text) {
    for field in rest.split_inclusive(' ') {
        let (name, pages) = field.trim_end().split_once('=').unwrap_or((field, ""));
        let is_node = name.starts_with('N') && name[1..].parse::<u32>().is_ok();
        let counts = is_node || ["anon", "dirty", "mapped", "active"].contains(&name);
        let space = &field[field.trim_end().len()..];
        // A text in memory takes every byte.
        let _ = match pages.parse::<u64>() {
            Ok(pages) if counts => {
                // In kilobytes, as the figures are that are divided else.
                let pages = scaled(pages * 4, part, whole) / 4;
                write!(out, "{name}={pages}{space}")
            }
            _ => write!(out, "{field}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_divided() {
        let mut out = Text::default();
        let rest = " default anon=6 dirty=6 active=0 N0=6 kernelpagesize_kB=4";
        write_part(rest, (8192, 3 * 8192), &mut out);
        let expected = " default anon=2 dirty=2 active=0 N0=2 kernelpagesize_kB=4";
        assert_eq!(out.0, expected.as_bytes());
    }
}
