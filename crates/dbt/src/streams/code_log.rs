//! Code and targets that a reader of streams needs, put into the log once.
//!
//! The first translated value of each code byte is the default; a superblock with other bytes is a
//! fragment with a number, which it appends where it begins. Targets of indirect branches
//! have numbers ([`Targets`]).
//!
//! Complexity: 4.6 KB for a page of the program with code that ran.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::hash::BuildHasherDefault;

use agent::loader::Code;
use hashbrown::{HashMap, HashTable};
use wire::log::Fragment;
use wire::view::Pool;

use super::Controls;
use super::targets::Targets;
use crate::block::PcHasher;
use crate::edge_counters;
use crate::engine::Engine;
use crate::superblock::{End, Superblock};

/// Logged code and targets.
#[derive(Debug, Default)]
pub struct Streams {
    /// By address / 4096.
    pages: HashMap<u64, Box<Page>, BuildHasherDefault<PcHasher>>,
    /// Fragments whose code is not that of the pages.
    others: HashTable<Other>,
    last_fragment: u32,
    pub(super) targets: Targets,
    tail: Vec<u8>,
    /// Selection of the traced code; `None`: all of it.
    pub controls: Option<Controls>,
}

/// Code as it was first.
#[derive(Debug)]
struct Page {
    bytes: [u8; 4096],
    /// One bit per byte that was code.
    known: [u64; 64],
}

impl Page {
    fn byte(&self, at: usize) -> Option<u8> {
        (self.known[at / 64] & 1 << (at % 64) != 0).then_some(self.bytes[at])
    }

    fn set(&mut self, at: usize, byte: u8) {
        self.bytes[at] = byte;
        self.known[at / 64] |= 1 << (at % 64);
    }
}

#[derive(Clone, Copy, Debug)]
struct Other {
    hash: u64,
    /// Offset in the pool of its record's payload.
    offset: u64,
    id: u32,
}

/// How known the code of a superblock is.
enum Known {
    /// All of it.
    Whole,
    /// Some bytes are new.
    Partly,
    /// Some are others than they were.
    Other,
}

impl Streams {
    /// Streams of a program with this code in its executable.
    pub fn new(pool: &Pool, executable: &[Code]) -> Streams {
        Streams {
            controls: Controls::new(pool, executable),
            ..Streams::default()
        }
    }

    pub fn wants_tables(&self) -> bool {
        self.controls.as_ref().is_some_and(Controls::wants_tables)
    }

    /// How many pairs of tables for indirect branches there are to be.
    pub fn table_sets(&self) -> usize {
        self.controls.as_ref().map_or(1, Controls::table_sets)
    }

    fn known(&self, source: &Superblock) -> Known {
        let mut known = Known::Whole;
        for insn in &source.insns {
            for (address, &byte) in (insn.pc()..).zip(insn.bytes()) {
                let page = self.pages.get(&(address >> 12));
                match page.and_then(|page| page.byte((address & 4095) as usize)) {
                    Some(there) if there == byte => {}
                    Some(_) => return Known::Other,
                    None => known = Known::Partly,
                }
            }
        }
        known
    }

    fn learn(&mut self, source: &Superblock) {
        for insn in &source.insns {
            for (address, &byte) in (insn.pc()..).zip(insn.bytes()) {
                let page = self.pages.entry(address >> 12).or_insert_with(|| {
                    Box::new(Page {
                        bytes: [0; 4096],
                        known: [0; 64],
                    })
                });
                page.set((address & 4095) as usize, byte);
            }
        }
    }
}

impl Engine {
    /// Puts the code of `source` into the log, if it is not there; the fragment that has to
    /// be named where it begins, 0: none.
    pub fn describe_code(&mut self, source: &Superblock) -> u32 {
        let Some(streams) = self.streams.as_mut().filter(|_| source.traced) else {
            return 0;
        };
        let known = match source.insns.is_empty() {
            true => Known::Whole,
            false => streams.known(source),
        };
        let mut tail = core::mem::take(&mut streams.tail);
        let id = match known {
            Known::Whole => 0,
            Known::Partly => {
                let shape = describe(source, &mut tail);
                if self.process.log.fragment(shape, &tail).is_some()
                    && let Some(streams) = &mut self.streams
                {
                    streams.learn(source);
                }
                0
            }
            Known::Other => self.other_fragment(source, &mut tail).unwrap_or(0),
        };
        tail.clear();
        if let Some(streams) = &mut self.streams {
            streams.tail = tail;
        }
        id
    }

    /// The fragment with exactly this code, new or in the log already.
    fn other_fragment(&mut self, source: &Superblock, tail: &mut Vec<u8>) -> Option<u32> {
        let shape = describe(source, tail);
        let hash = edge_counters::hash(tail, shape.flags);
        let streams = self.streams.as_mut()?;
        let pool = self.process.log.pool;
        let is_it = |other: &Other| {
            let there = pool.at::<Fragment>(other.offset);
            let same =
                |there: &Fragment| (there.flags, there.pieces) == (shape.flags, shape.pieces);
            other.hash == hash
                && there.is_some_and(same)
                && edge_counters::holds(&pool, other.offset + size_of::<Fragment>() as u64, tail)
        };
        if let Some(other) = streams.others.find(hash, is_it) {
            return Some(other.id);
        }
        let id = streams.last_fragment + 1;
        let offset = self.process.log.fragment(Fragment { id, ..shape }, tail)?;
        let streams = self.streams.as_mut()?;
        streams.last_fragment = id;
        let other = Other { hash, offset, id };
        streams
            .others
            .insert_unique(hash, other, |other| other.hash);
        Some(id)
    }
}

/// Record of a fragment made of `source`; its variable part goes to `tail`.
fn describe(source: &Superblock, tail: &mut Vec<u8>) -> Fragment {
    let pieces = edge_counters::describe_pieces(source, tail);
    for insn in &source.insns {
        tail.extend_from_slice(insn.bytes());
    }
    let faults = matches!(
        source.end,
        End::Unfetchable(_) | End::Unknown(_) | End::Vsyscall(_)
    );
    Fragment {
        first_slot: 0,
        id: 0,
        flags: if faults {
            wire::log::fragment_flag::FAULTS
        } else {
            0
        },
        pieces,
        events: 0,
    }
}
