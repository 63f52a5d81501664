//! Probable executions of blocks and edges, by which counters are put where control comes least.
//!
//! Approach: an earlier run says it exactly. Without one, each entry is come to once, each loop is gone around ten times, what leaves
//! a loop is taken once in ten times, code that ends the program or handles exceptions hardly ever, and all else evenly
//! (Ball and Larus, "Branch Prediction for Free", PLDI 1993, with fewer rules).
//!
//! Limits: sums over irreducible loops are those of their first turn.

use std::collections::{HashMap, HashSet};

use flow::{EdgeKind, Function, To};

/// Executions of instructions in an earlier run, by address: all, and those that went on to the next one.
pub type Profile = HashMap<u64, (u64, u64)>;

/// Turns of a loop.
const TURNS: f64 = 10.0;
/// Share of control that goes where a program ends.
const RARE: f64 = 0.001;
/// Weights are whole numbers: an entry has this one.
const UNIT: f64 = 1000.0;
/// Greatest weight.
const MOST: f64 = 1e15;

/// Weights of a function's blocks and edges, by their indices.
#[derive(Debug)]
pub struct Weights {
    pub blocks: Vec<u64>,
    pub edges: Vec<u64>,
    /// Calls of the function, as a way in.
    pub entry: u64,
}

impl Weights {
    /// Weights of a function by an earlier run, if it has anything to say, or else by its form.
    pub fn of(function: &Function, profile: Option<&Profile>) -> Weights {
        let measured = profile.and_then(|profile| Weights::measured(function, profile));
        measured.unwrap_or_else(|| Weights::guessed(function))
    }

    fn measured(function: &Function, profile: &Profile) -> Option<Weights> {
        let graph = &function.graph;
        let at = |addr: u64| profile.get(&addr).copied().unwrap_or_default();
        let blocks: Vec<u64> = graph
            .blocks
            .iter()
            .map(|block| at(block.start.0).0)
            .collect();
        if blocks.iter().all(|count| *count == 0) {
            return None;
        }
        let edges = graph.edges.iter().map(|edge| {
            let (count, fell) = at(graph.blocks[edge.from as usize].last.0);
            let is_call = |edge: &flow::Edge| edge.kind == EdgeKind::Call;
            let calls = graph.edges_of(edge.from as usize).iter().any(is_call);
            let most = match edge.to {
                To::Block(to) => blocks[to as usize],
                _ => count,
            };
            match edge.kind {
                EdgeKind::FallThrough if calls => count.min(most),
                EdgeKind::FallThrough => fell.min(most),
                _ => (count - fell.min(count)).min(most),
            }
        });
        let edges: Vec<u64> = edges.collect();
        let first = graph.block_from(function.entry)?;
        let to_first = graph.edges.iter().zip(&edges);
        let inside = to_first.filter(|(edge, _)| edge.to == To::Block(first as u32));
        let again: u64 = inside.map(|(_, count)| count).sum();
        Some(Weights {
            entry: blocks[first].saturating_sub(again),
            blocks,
            edges,
        })
    }

    fn guessed(function: &Function) -> Weights {
        let graph = &function.graph;
        let entries = function.entry_blocks();
        let nest = Nest::of(function, &entries);
        let mut frequency = vec![0.0; graph.blocks.len()];
        for &entry in &entries {
            frequency[entry as usize] = 1.0;
        }
        let mut edges = vec![0u64; graph.edges.len()];
        for block in order(function) {
            let first = graph.edges.partition_point(|edge| edge.from < block);
            let own = graph.edges_of(block as usize);
            if nest.is_header(block) {
                frequency[block as usize] *= TURNS;
            }
            let here: f64 = frequency[block as usize];
            let weight = |kind: EdgeKind, to: To| match (kind, to) {
                (EdgeKind::LandingPad, _) => RARE,
                (EdgeKind::Call, _) => 0.0,
                (_, To::Block(to)) => nest.share(block, to),
                _ => 1.0,
            };
            let all: f64 = own.iter().map(|edge| weight(edge.kind, edge.to)).sum();
            for (number, edge) in own.iter().enumerate() {
                let part = here * weight(edge.kind, edge.to) / all.max(RARE);
                edges[first + number] = whole(part);
                if let To::Block(to) = edge.to {
                    // The turns of a loop have the ways back to its header in them.
                    if !nest.is_back(block, to) {
                        frequency[to as usize] += part;
                    }
                }
            }
        }
        Weights {
            blocks: frequency.into_iter().map(whole).collect(),
            edges,
            entry: whole(1.0),
        }
    }
}

/// Loops of a function, and blocks where it ends the program.
struct Nest {
    loops: Vec<(u32, HashSet<u32>)>,
    /// The innermost loop of each block.
    inner: Vec<Option<usize>>,
    is_rare: Vec<bool>,
}

impl Nest {
    fn of(function: &Function, entries: &[u32]) -> Nest {
        let graph = &function.graph;
        let mut loops = graph.loops(entries).loops;
        loops.sort_by_key(|own| own.depth);
        let mut inner = vec![None; graph.blocks.len()];
        for (at, own) in loops.iter().enumerate() {
            for &block in &own.blocks {
                inner[block as usize] = Some(at);
            }
        }
        let is_rare = (0..graph.blocks.len()).map(|block| {
            let edges = graph.edges_of(block);
            edges.is_empty() || edges.iter().any(|edge| edge.kind == EdgeKind::NoReturn)
        });
        Nest {
            is_rare: is_rare.collect(),
            loops: loops
                .into_iter()
                .map(|own| (own.header, own.blocks.into_iter().collect()))
                .collect(),
            inner,
        }
    }

    fn is_header(&self, block: u32) -> bool {
        self.loops.iter().any(|(header, _)| *header == block)
    }

    /// Whether an edge begins another turn.
    fn is_back(&self, from: u32, to: u32) -> bool {
        let mut loops = self.loops.iter();
        self.inner[from as usize].is_some()
            && loops.any(|(header, blocks)| *header == to && blocks.contains(&from))
    }

    /// Probable share of an edge among those of its block, as a number that is divided by their sum.
    fn share(&self, from: u32, to: u32) -> f64 {
        match self.inner[from as usize] {
            _ if self.is_rare[to as usize] => RARE,
            Some(at) if !self.loops[at].1.contains(&to) => 1.0 / TURNS,
            _ => 1.0,
        }
    }
}

fn whole(frequency: f64) -> u64 {
    (frequency * UNIT).min(MOST) as u64
}

/// Blocks so that each stands behind those that lead to it, loops apart.
fn order(function: &Function) -> Vec<u32> {
    let graph = &function.graph;
    let mut seen = vec![false; graph.blocks.len()];
    let mut done = Vec::with_capacity(graph.blocks.len());
    let all = function.entry_blocks().into_iter();
    for root in all.chain(0..graph.blocks.len() as u32) {
        let mut stack = vec![(root, 0usize)];
        if std::mem::replace(&mut seen[root as usize], true) {
            continue;
        }
        while let Some((block, next)) = stack.pop() {
            let Some(edge) = graph.edges_of(block as usize).get(next) else {
                done.push(block);
                continue;
            };
            stack.push((block, next + 1));
            if let To::Block(to) = edge.to
                && !std::mem::replace(&mut seen[to as usize], true)
            {
                stack.push((to, 0));
            }
        }
    }
    done.reverse();
    done
}
