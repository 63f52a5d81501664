//! The nodes of one thread, from chunks of the pool to indices.
//!
//! A node names its parent by the parent's address, hidden in its key, and its
//! top node by offset. Chunks of one thread lie anywhere in the pool, so an
//! offset becomes an index by a search among the thread's chunks.
//!
//! The costs of a node follow it. The latest count of a thread is still in the word that it
//! counts in; it belongs to the node that the thread names.
//!
//! A node that does not decode becomes a root labelled `[truncated]`: what it
//! counted did happen, only where is lost.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use wire::{NodeChunk, node};

use super::Walk;
use crate::model::{Cost, Costs, Label, Node};

const NODE_SIZE: u64 = size_of::<node::Node>() as u64;

/// How nodes lie in the pool.
pub(super) struct Layout {
    /// Address at which the writer maps the pool.
    pub pool_base: u64,
    /// Costs that nodes carry (`wire::cost`).
    pub costs: u32,
}

impl Layout {
    fn stride(&self) -> u64 {
        node::stride(self.costs)
    }

    fn costs(&self) -> impl Iterator<Item = Cost> {
        let bits = self.costs;
        Cost::ALL
            .into_iter()
            .filter(move |cost| cost.bit() & bits != 0)
    }
}

/// The nodes of a thread and what they carry.
pub(super) struct Nodes {
    pub nodes: Vec<Node>,
    pub costs: Vec<Costs>,
    runs: Runs,
}

impl Nodes {
    /// Adds to a cost of the node at `offset`.
    pub fn add(&mut self, offset: u64, cost: Cost, value: u64) {
        let column = self.costs.iter_mut().find(|column| column.cost == cost);
        let Some(column) = column else { return };
        let at = self.runs.index_of(offset).unwrap_or(0) as usize;
        if let Some(sum) = column.values.get_mut(at) {
            *sum = sum.wrapping_add(value);
        }
    }
}

impl Nodes {
    /// Gives the nodes costs of time, 0 where the thread has none.
    pub fn add_times(&mut self, times: Option<&HashMap<u64, [u64; 2]>>) {
        const COSTS: [Cost; 2] = [Cost::Time, Cost::Waiting];
        let none = |cost| Costs {
            cost,
            values: vec![0; self.nodes.len()],
        };
        self.costs.extend(COSTS.map(none));
        for (&offset, own) in times.into_iter().flatten() {
            for (cost, &ns) in COSTS.into_iter().zip(own) {
                self.add(offset, cost, ns);
            }
        }
    }
}

/// A run of nodes at consecutive offsets and indices.
struct Run {
    first_offset: u64,
    len: u64,
    first_index: u64,
}

impl Run {
    fn end(&self, stride: u64) -> u64 {
        self.first_offset + self.len * stride
    }
}

/// The runs of one thread, sorted by offset.
struct Runs {
    stride: u64,
    list: Vec<Run>,
    /// The one asked for last: parents mostly lie where those before lay.
    last: Cell<usize>,
}

impl Runs {
    /// The last that begins at `offset` or before.
    fn run_of(&self, offset: u64) -> Option<&Run> {
        let last = self.list.get(self.last.get());
        let holds = |run: &&Run| (run.first_offset..run.end(self.stride)).contains(&offset);
        if let Some(run) = last.filter(holds) {
            return Some(run);
        }
        let after = self.list.partition_point(|run| run.first_offset <= offset);
        self.last.set(after.checked_sub(1)?);
        self.list.get(self.last.get())
    }

    /// The index of the node at `offset`, if one of the thread begins there.
    fn index_of(&self, offset: u64) -> Option<u32> {
        let run = self.run_of(offset)?;
        let distance = offset - run.first_offset;
        let at = distance / self.stride;
        let begins = distance.is_multiple_of(self.stride) && at < run.len;
        u32::try_from(run.first_index + at).ok().filter(|_| begins)
    }
}

/// Reads the chain of chunks from `offset`.
pub(super) fn read(walk: &mut Walk, mut offset: u64, layout: &Layout) -> Nodes {
    let stride = layout.stride();
    let mut in_order = Vec::new();
    let mut total = 0;
    while walk.enter(offset) {
        let Some(chunk) = walk.pool.at::<NodeChunk>(offset) else {
            break;
        };
        let used = chunk.used.load(Acquire).min(chunk.capacity.load(Relaxed));
        let next = chunk.next.load(Acquire);
        let first_offset = offset + size_of::<NodeChunk>() as u64;
        let len = walk.grant(first_offset, u64::from(used) * stride) / stride;
        in_order.push((first_offset, len));
        total += len;
        offset = next;
    }
    let mut nodes = Vec::with_capacity(usize::try_from(total).unwrap_or(0));
    let columns = layout.costs().map(|cost| Costs {
        cost,
        values: Vec::with_capacity(nodes.capacity()),
    });
    let mut costs: Vec<Costs> = columns.collect();
    let runs = runs(&in_order, stride);
    for (first_offset, len) in in_order {
        for at in 0..len {
            let offset = first_offset + at * stride;
            let Some(raw) = walk.pool.at::<node::Node>(offset) else {
                break;
            };
            let decoded = decode(raw, &runs, &nodes, |key| {
                node::decode_key(key, layout.pool_base, walk.pool.len())
            });
            nodes.push(decoded);
            for (i, column) in (0..).zip(&mut costs) {
                let word = walk.pool.at::<AtomicU64>(offset + NODE_SIZE + i * 8);
                column
                    .values
                    .push(word.map_or(0, |word| word.load(Relaxed)));
            }
        }
    }
    Nodes { nodes, costs, runs }
}

fn runs(in_order: &[(u64, u64)], stride: u64) -> Runs {
    let mut first_index = 0;
    let mut runs = Vec::with_capacity(in_order.len());
    for &(first_offset, len) in in_order {
        runs.push(Run {
            first_offset,
            len,
            first_index,
        });
        first_index += len;
    }
    runs.sort_by_key(|run| run.first_offset);
    Runs {
        stride,
        list: runs,
        last: Cell::new(0),
    }
}

/// `earlier` are the nodes before this one: a parent must be among them.
fn decode(
    raw: &node::Node,
    runs: &Runs,
    earlier: &[Node],
    decode_key: impl Fn(u64) -> Option<(u64, u32)>,
) -> Node {
    let neg_key = raw.neg_key.load(Relaxed);
    let count = raw.count.load(Relaxed);
    let top_offset = u64::from(raw.top.load(Relaxed)) * 8;
    let top = (top_offset != 0)
        .then(|| runs.index_of(top_offset))
        .flatten();
    if raw.depth_flags.load(Relaxed) & node::ROOT != 0 {
        let label = match u32::try_from(neg_key) {
            Ok(node::LABEL_WAITING) => Label::MUTED,
            Ok(label) => Label(label),
            Err(_) => Label::TRUNCATED,
        };
        return Node {
            label,
            parent: None,
            depth: 0,
            top,
            count,
        };
    }
    let placed = decode_key(neg_key.wrapping_neg()).and_then(|(offset, label)| {
        let parent = runs.index_of(offset)?;
        Some((
            parent,
            earlier.get(parent as usize)?.depth.saturating_add(1),
            Label(label),
        ))
    });
    match placed {
        Some((parent, depth, label)) => Node {
            label,
            parent: Some(parent),
            depth,
            top,
            count,
        },
        None => Node {
            label: Label::TRUNCATED,
            parent: None,
            depth: 0,
            top: None,
            count,
        },
    }
}
