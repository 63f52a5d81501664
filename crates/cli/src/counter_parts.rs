//! Parts that files which are edited together have of the memory of counters.
//!
//! Problem: a displacement is part of an instruction, so a file's place in that memory is known before its code is written; how many
//! counters it has is not.
//!
//! Approach: each file has room for some bytes of counters for each byte of code ([`edits::Row::room`]), which is several times what it
//! needs. Only pages with counters are ever used, and a file that needs more is left as it is. A fuzzer's map is looked at whole after each run, so it has
//! a byte for eight of code, which is somewhat more than ways have; in a file that has more, some ways have one byte. A stream is one
//! for all files, whose addresses in it are sums with a number of the file.

use std::ops::Range;
use std::path::PathBuf;

use anyhow::{Result, bail};
use edits::Counters;
use image::Image;
use rewrite::Part;
use wire::contexts;
use wire::counters::{FIRST, Lane};

use crate::flags::Rewrite;

/// Most memory of a thread's counters: their displacements are numbers of 31 bits.
const MOST: u64 = 1 << 30;
/// Bytes of counters for each byte of code with tables of targets.
const ROOM_WITH_TARGETS: u64 = 8;
/// Bytes of code for each byte of a fuzzer's map, if that has no more than AFL++ takes.
const CODE_IN_MAP: u64 = 8;
const MOST_MAP: u64 = 1 << 23;

/// Parts by number of a file; empty: nothing is counted.
#[derive(Debug, Default)]
pub struct Parts {
    /// Identity of the files.
    group: u64,
    window: u64,
    /// Ranges behind the first page of memory, and paths of the edited files.
    parts: Vec<(Range<u64>, String)>,
    /// As [`edits::Wanted::base`].
    bases: Vec<u64>,
}

impl Parts {
    /// Gives each file its part, for the tool that is asked for; a path is that to which the file is written.
    pub fn new(files: &[(&Image, PathBuf)], flags: &Rewrite) -> Result<Parts> {
        let code_of = |image: &Image| {
            let code = image.segments().iter().filter(|segment| segment.executable);
            code.map(|segment| segment.file_size).sum::<u64>()
        };
        let all = files.iter().map(|(image, _)| code_of(image)).sum::<u64>();
        let in_map = CODE_IN_MAP.max(all.div_ceil(MOST_MAP / 2));
        let tool = edits::tool(&flags.tool);
        let counters = tool.map_or(Counters::None, |tool| tool.counters);
        let room_of_tool = tool.map_or(0, |tool| tool.room);
        let mut parts = Parts::default();
        for (image, path) in files {
            let code = code_of(image);
            let room = match (counters, flags.targets) {
                (Counters::Shared, _) => code / in_map,
                (_, true) => code.saturating_mul(ROOM_WITH_TARGETS),
                (_, false) => code.saturating_mul(room_of_tool),
            };
            let room = room.next_multiple_of(FIRST).max(FIRST);
            let range = match counters {
                Counters::Stream => 0..Lane::BYTES,
                Counters::Calls => contexts::LANE_AT..contexts::LANE_AT + Lane::BYTES,
                Counters::Own if flags.log.is_some() => {
                    contexts::LANE_AT..contexts::LANE_AT + Lane::BYTES
                }
                Counters::Own => 0..contexts::BYTES,
                _ => parts.window..parts.window.saturating_add(room),
            };
            let copies = match (counters, &flags.log) {
                (Counters::Calls, _) => contexts::BYTES + contexts::CALLS_BYTES,
                (_, Some(_)) => contexts::BYTES,
                (_, None) => 0,
            };
            parts.window = range.end + copies;
            let path = path.to_string_lossy().into_owned();
            parts.parts.push((range, path));
        }
        parts.bases = bases(files)?;
        if parts.window > MOST {
            bail!("the program and its libraries have too much code to be counted together");
        }
        let hash = placement::plan::hash(format!("{:?}", parts.parts).as_bytes());
        let word = hash.first_chunk().copied().unwrap_or_default();
        parts.group = u64::from_le_bytes(word).max(1);
        Ok(parts)
    }

    /// The number that makes addresses of a file, by its number, those of the stream.
    pub fn base_of(&self, number: usize) -> u64 {
        self.bases.get(number).copied().unwrap_or(0)
    }

    /// That of a file, by its number.
    pub fn of(&self, number: usize) -> Option<Part<'_>> {
        let (range, path) = self.parts.get(number)?;
        Some(Part {
            group: self.group,
            window: self.window,
            at: range.start,
            most: range.end - range.start,
            path,
        })
    }
}

/// Numbers that make addresses of files differ in their lowest 32 bits: that of the first is 0, and no other is.
fn bases(files: &[(&Image, PathBuf)]) -> Result<Vec<u64>> {
    let mut bases = Vec::new();
    let mut next = None;
    for (image, _) in files {
        let segments = image.segments().iter();
        let starts = segments.clone().map(|segment| segment.addr.0).min();
        let ends = segments.map(|segment| segment.addr.0.saturating_add(segment.mem_size));
        let (start, end) = (starts.unwrap_or(0), ends.max().unwrap_or(0));
        let base = next.map_or(0, |next: u64| match next.wrapping_sub(start) {
            0 => 1,
            base => base,
        });
        bases.push(base);
        next = Some(base.wrapping_add(end));
    }
    match next {
        Some(next) if next > u32::MAX.into() && files.len() > 1 => {
            bail!("the program and its libraries are too long for one stream of witnesses")
        }
        _ => Ok(bases),
    }
}
