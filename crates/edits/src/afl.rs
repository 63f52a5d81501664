//! `afl`: a map of executed ways for AFL++, and what it needs to start runs.
//!
//! Problem: a fuzzer looks whether an input leads to a way that no other led to, and how often ways are executed, roughly. It reads a
//! byte for each from memory that it shares.
//!
//! Approach: the blocks and ways of branches that `coverage --branches` marks have a byte that counts, as others are executed only if
//! some of these are. Bytes are numbered one after the other, so no two ways have one, as long as the map has room: with more they
//! begin anew. The resident code maps the memory, and serves the fuzzer ([`CounterFiles::Fuzzer`]).

use std::collections::BTreeMap;

use probe::{At, Byte, Op};
use rewrite::{
    CounterFiles, Form, Memory, Outcome, Plan, Section, StaticTool, TURNS, Unit, Version, Why,
};
use wire::counters::FIRST;

use crate::Wanted;
use crate::counting::planned_edges;
use crate::marks::marks;

/// A fuzzer looks for it in programs: a function is executed more than once in a process.
const PERSISTENT: &[u8] = b"##SIG_AFL_PERSISTENT##\0";
/// Most bytes of a map: as many as AFL++ takes.
const MOST: u64 = 1 << 23;

/// Bytes of ways.
pub struct Afl<'d> {
    wanted: Wanted<'d>,
    /// Number of the next byte.
    next: u64,
    /// Bytes of functions.
    bytes: BTreeMap<usize, usize>,
}

impl<'d> Afl<'d> {
    pub fn new(wanted: Wanted<'d>) -> Afl<'d> {
        Afl {
            wanted,
            next: 0,
            bytes: BTreeMap::new(),
        }
    }

    /// Bytes for which the map has room.
    fn room(&self) -> u64 {
        self.wanted.part.map_or(MOST, |part| part.most)
    }
}

impl StaticTool for Afl<'_> {
    fn plan(&mut self, unit: &Unit<'_>, _: Version, out: &mut Plan) -> Result<(), Why> {
        let blocks = unit.function.graph.blocks.len() as u32;
        let before = FIRST + self.wanted.part.map_or(0, |part| part.at);
        let at = |number: u64| Op::Bump {
            byte: Byte((before + number) as u32),
        };
        let takes = |edge: usize| unit.edges[edge].takes(at(0));
        let marked = marks(blocks, &planned_edges(unit), &takes);
        let marked: Vec<usize> = marked.into_iter().filter(|edge| takes(*edge)).collect();
        for (number, &edge) in (self.next..).zip(&marked) {
            out.add(unit, At::Edge(edge as u32), at(number % self.room()))?;
        }
        if self.wanted.turns == Some(unit.function.entry.0) {
            out.add(unit, At::Entry, Op::Call { routine: TURNS })?;
        }
        self.next += marked.len() as u64;
        self.bytes.insert(unit.number, marked.len());
        Ok(())
    }

    fn skip(&mut self, function: usize) {
        self.bytes.remove(&function);
    }

    fn memory(&self) -> Option<Memory<'_>> {
        let used = self.next.clamp(1, self.room());
        Some(Memory {
            bytes: used.next_multiple_of(FIRST),
            form: Form::Counters,
            files: CounterFiles::Fuzzer,
            part: self.wanted.part,
        })
    }

    fn section(&self, _: &Outcome<'_>) -> Option<Section> {
        self.wanted.turns.map(|_| Section {
            bytes: PERSISTENT.to_vec(),
            id: [0; 16],
        })
    }

    fn says(&self) -> String {
        let bytes = self.bytes.values().sum::<usize>();
        format!("{bytes} ways and blocks in the map")
    }
}
