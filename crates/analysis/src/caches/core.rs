//! The first-level caches and translation buffers of one thread, and what its instructions miss.
//!
//! Each miss of the first level is a [`Touch`] of the last one, which others have, too; the thread does not
//! wait for the answer, so threads can be read at the same time.

use std::io;

use hashbrown::HashMap;
use isa::memory::{Access, Kind};

use super::costs::{DR, DTM, DW, I1MR, ILMR, ITM, Row};
use super::{Cache, Config, Updates};
use crate::activations::contexts::Log;
use crate::turns::Turn;
use crate::walk::{Accessed, Bytes, Code, Step};

/// Instructions that are found without a table of all, by the low bits of their addresses.
const RECENT: usize = 1 << 15;

/// A miss of the first level.
#[derive(Clone, Copy, Debug)]
pub(super) struct Touch {
    pub address: u64,
    /// Row of the instruction.
    pub row: u32,
    /// Node of its context, if contexts are asked for.
    pub node: u32,
    /// No more than the bytes of the shortest line.
    pub size: u32,
    /// 0: a fetch; 1: a read; 2: a write.
    pub kind: u32,
}

/// Misses of a context: of fetches, of data, and of the last level.
pub(super) type OfNode = [u64; 3];

/// Touches of a thread that missed the last level, added up.
#[derive(Default)]
pub(super) struct Missed {
    /// By row: of fetches, reads and writes.
    rows: Vec<[u64; 3]>,
    nodes: Vec<u64>,
}

impl Missed {
    pub fn add(&mut self, touch: &Touch) {
        let (row, node) = (touch.row as usize, touch.node as usize);
        if row >= self.rows.len() {
            self.rows.resize(row + 1, [0; 3]);
        }
        self.rows[row][touch.kind as usize] += 1;
        if node >= self.nodes.len() {
            self.nodes.resize(node + 1, 0);
        }
        self.nodes[node] += 1;
    }
}

/// Node of the instruction that is executed.
struct Cursor<'a> {
    rest: Box<dyn Iterator<Item = (u64, u32)> + Send + 'a>,
    node: u32,
    left: u64,
}

impl Cursor<'_> {
    fn next(&mut self) -> u32 {
        while self.left == 0 {
            match self.rest.next() {
                Some((insns, node)) => (self.left, self.node) = (insns, node),
                // Instructions behind the last event are of the same node.
                None => self.left = u64::MAX,
            }
        }
        self.left -= 1;
        self.node
    }
}

/// An instruction that was looked up, and its row.
#[derive(Clone, Copy)]
struct Recent {
    pc: u64,
    fragment: u32,
    row: u32,
}

pub(super) struct Core<'a> {
    l1i: Cache,
    l1d: Cache,
    itlb: Option<Cache>,
    dtlb: Option<Cache>,
    updates: Updates,
    /// Bytes of the shortest line.
    least: u64,
    /// Rows of instructions, by piece of code and address.
    pub known: HashMap<(u32, u64), usize>,
    /// The instruction that was looked up last for each of its places, and its row.
    recent: Vec<Recent>,
    pub rows: Vec<Row>,
    cursor: Option<Cursor<'a>>,
    node: u32,
    pub nodes: Vec<OfNode>,
    /// Touches of the last level that were not taken yet.
    pub touches: Vec<Touch>,
}

impl<'a> Core<'a> {
    /// Caches of a thread. `log`: of the contexts of its instructions, if they are asked for.
    pub fn new(config: &Config, log: Option<&'a Log>) -> Core<'a> {
        let levels = [config.l1i, config.l1d, config.ll];
        let least = levels.iter().map(|level| level.line).min();
        Core {
            l1i: config.l1i.make(),
            l1d: config.l1d.make(),
            itlb: config.itlb.map(|level| level.make()),
            dtlb: config.dtlb.map(|level| level.make()),
            updates: config.updates,
            least: least.unwrap_or(1),
            known: HashMap::new(),
            // No instruction is at the last address.
            recent: vec![
                Recent {
                    pc: u64::MAX,
                    fragment: 0,
                    row: 0
                };
                RECENT
            ],
            rows: Vec::new(),
            cursor: log.map(|log| Cursor {
                rest: Box::new(log.iter()),
                node: 0,
                left: 0,
            }),
            node: 0,
            nodes: Vec::new(),
            touches: Vec::new(),
        }
    }

    /// Misses of a context.
    pub fn of_node(&mut self, node: u32) -> &mut OfNode {
        let node = node as usize;
        if node >= self.nodes.len() {
            self.nodes.resize(node + 1, [0; 3]);
        }
        &mut self.nodes[node]
    }

    /// Adds what the last level did not have.
    pub fn missed(&mut self, missed: &Missed) {
        for (row, [fetches, reads, writes]) in self.rows.iter_mut().zip(&missed.rows) {
            row[ILMR] += fetches;
            row[DR + 2] += reads;
            row[DW + 2] += writes;
        }
        if self.cursor.is_some() {
            for (node, &number) in (0..).zip(&missed.nodes) {
                self.of_node(node)[2] += number;
            }
        }
    }

    /// The row of an instruction.
    #[inline]
    fn row(&mut self, step: &Step) -> usize {
        let recent = self.recent[step.pc as usize % RECENT];
        match recent.pc == step.pc && recent.fragment == step.fragment {
            true => recent.row as usize,
            false => self.find_row(step),
        }
    }

    #[cold]
    fn find_row(&mut self, step: &Step) -> usize {
        let Step { fragment, pc, .. } = *step;
        let row = *self.known.entry((fragment, pc)).or_insert_with(|| {
            self.rows.push(Row::default());
            self.rows.len() - 1
        });
        self.recent[pc as usize % RECENT] = Recent {
            pc,
            fragment,
            row: row as u32,
        };
        row
    }

    /// A miss of the first level: a fetch (0), a read or a write.
    fn miss(&mut self, row: usize, kind: usize, address: u64, size: u64) {
        self.rows[row][[I1MR, DR + 1, DW + 1][kind]] += 1;
        if self.cursor.is_some() {
            self.of_node(self.node)[kind.min(1)] += 1;
        }
        self.touches.push(Touch {
            address,
            row: row as u32,
            node: self.node,
            size: size as u32,
            kind: kind as u32,
        });
    }

    /// Fetches an instruction.
    #[inline]
    fn fetch(&mut self, step: &Step) {
        if let Some(cursor) = &mut self.cursor {
            self.node = cursor.next();
        }
        let size = u64::from(step.len).max(1);
        if let Some(itlb) = &mut self.itlb
            && !itlb.access(step.pc, size)
        {
            let row = self.row(step);
            self.rows[row][ITM] += 1;
        }
        if !self.l1i.access(step.pc, size) {
            let row = self.row(step);
            self.miss(row, 0, step.pc, size);
        }
    }

    /// A read (1) or a write (2).
    fn data(&mut self, row: usize, kind: usize, access: Access) {
        let address = access.address;
        if access.size == 0 {
            return;
        }
        let size = u64::from(access.size).min(self.least);
        self.rows[row][if kind == 1 { DR } else { DW }] += 1;
        if let Some(dtlb) = &mut self.dtlb {
            self.rows[row][DTM] += u64::from(!dtlb.access(address, size));
        }
        if !self.l1d.access(address, size) {
            self.miss(row, kind, address, size);
        }
    }
}

impl Core<'_> {
    /// Accesses of an instruction the time with this number, its reads before its writes.
    #[inline]
    fn accesses(&mut self, row: usize, own: &[Accessed], number: u64) {
        let now = || own.iter().filter(|one| number < one.times);
        for one in now().filter(|one| one.access.kind.reads()) {
            self.data(row, 1, one.at(number));
        }
        let has_both = self.updates == Updates::Both;
        let is_counted = |kind: Kind| kind.writes() && (has_both || !kind.reads());
        for one in now().filter(|one| is_counted(one.access.kind)) {
            self.data(row, 2, one.at(number));
        }
    }
}

impl Turn for Core<'_> {
    fn executed(&mut self, _: usize, steps: &[Step], all: &[Accessed], _: Bytes<'_>) {
        let mut rest = all;
        for (at, step) in (0..).zip(steps) {
            self.fetch(step);
            let number = rest.iter().take_while(|one| one.step == at).count();
            if number == 0 {
                continue;
            }
            let (own, others) = rest.split_at(number);
            rest = others;
            let row = self.row(step);
            let most = own.iter().map(|one| one.times).max().unwrap_or(0);
            for number in 0..most {
                self.accesses(row, own, number);
            }
        }
    }

    fn written(&mut self, _: usize, _: &Code) -> io::Result<()> {
        Ok(())
    }
}
