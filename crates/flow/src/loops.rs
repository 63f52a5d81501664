//! Dominators and natural loops of a graph.
//!
//! Dominators by Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm" (2001). A natural loop is
//! what reaches an edge back to a block that dominates its origin; loops with one header are one. Edges back to
//! blocks that do not dominate make irreducible parts, whose headers are named.

use crate::graph::{Graph, To};

/// Immediate dominators by block; that of blocks without callers in the graph is the outside.
#[derive(Clone, Debug)]
pub struct Dominators {
    /// Index behind all blocks: the outside.
    idom: Vec<Option<u32>>,
    /// Place in reverse postorder.
    order: Vec<u32>,
}

/// A natural loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loop {
    pub header: u32,
    /// Blocks, the header among them, sorted.
    pub blocks: Vec<u32>,
    /// Blocks from which an edge leads back.
    pub latches: Vec<u32>,
    /// Index of the smallest loop around it.
    pub parent: Option<u32>,
    /// Loops around it, with itself.
    pub depth: u32,
}

#[derive(Clone, Debug, Default)]
pub struct Loops {
    /// Outer ones before inner ones.
    pub loops: Vec<Loop>,
    /// Blocks that are entered from inside their cycle without dominating it.
    pub irreducible: Vec<u32>,
}

impl Graph {
    fn successors(&self, block: u32) -> impl Iterator<Item = u32> + '_ {
        let edges = self.edges_of(block as usize).iter();
        edges.filter_map(|edge| match edge.to {
            To::Block(to) => Some(to),
            _ => None,
        })
    }

    pub(crate) fn predecessors(&self) -> Vec<Vec<u32>> {
        let mut all = vec![Vec::new(); self.blocks.len()];
        for edge in &self.edges {
            if let To::Block(to) = edge.to {
                all[to as usize].push(edge.from);
            }
        }
        all
    }

    /// Dominators from these entries; blocks without predecessors are entries, too.
    pub fn dominators(&self, entries: &[u32]) -> Dominators {
        let blocks = self.blocks.len();
        let outside = blocks as u32;
        let before = self.predecessors();
        let mut is_entry: Vec<bool> = before.iter().map(Vec::is_empty).collect();
        for &entry in entries {
            is_entry[entry as usize] = true;
        }
        let mut postorder = Vec::with_capacity(blocks);
        let mut seen = vec![false; blocks];
        // Blocks that no entry reaches are reached from the outside, too.
        let rest = (0..outside).filter(|&block| !is_entry[block as usize]);
        let first = (0..outside).filter(|&block| is_entry[block as usize]);
        for root in first.chain(rest).collect::<Vec<u32>>() {
            if !seen[root as usize] {
                is_entry[root as usize] = true;
                self.visit(root, &mut seen, &mut postorder);
            }
        }
        let mut order = vec![0; blocks + 1];
        for (at, &block) in postorder.iter().rev().enumerate() {
            order[block as usize] = at as u32 + 1;
        }
        let mut idom = vec![None; blocks + 1];
        idom[blocks] = Some(outside);
        let mut is_changed = true;
        while is_changed {
            is_changed = false;
            for &block in postorder.iter().rev() {
                let own = is_entry[block as usize].then_some(outside);
                let mut all = own
                    .into_iter()
                    .chain(before[block as usize].iter().copied());
                let known = |&one: &u32| idom[one as usize].is_some();
                let Some(first) = all.by_ref().find(known) else {
                    continue;
                };
                let meet = all
                    .filter(known)
                    .fold(first, |one, two| intersect(&idom, &order, one, two));
                if idom[block as usize] != Some(meet) {
                    idom[block as usize] = Some(meet);
                    is_changed = true;
                }
            }
        }
        Dominators { idom, order }
    }

    fn visit(&self, root: u32, seen: &mut [bool], postorder: &mut Vec<u32>) {
        let mut stack = vec![(root, self.successors(root).collect::<Vec<u32>>())];
        seen[root as usize] = true;
        while let Some((block, rest)) = stack.last_mut() {
            match rest.pop() {
                Some(next) if !seen[next as usize] => {
                    seen[next as usize] = true;
                    stack.push((next, self.successors(next).collect()));
                }
                Some(_) => {}
                None => {
                    postorder.push(*block);
                    stack.pop();
                }
            }
        }
    }

    /// The loops of the graph, which is entered at these blocks.
    pub fn loops(&self, entries: &[u32]) -> Loops {
        let dominators = self.dominators(entries);
        let before = self.predecessors();
        let mut latches: Vec<Vec<u32>> = vec![Vec::new(); self.blocks.len()];
        let mut irreducible = Vec::new();
        for edge in &self.edges {
            let To::Block(to) = edge.to else { continue };
            if dominators.dominates(to, edge.from) {
                latches[to as usize].push(edge.from);
            } else if self.is_retreating(&dominators, edge.from, to) {
                irreducible.push(to);
            }
        }
        irreducible.sort_unstable();
        irreducible.dedup();
        let mut loops: Vec<Loop> = Vec::new();
        for (header, mut latches) in (0..).zip(latches) {
            if latches.is_empty() {
                continue;
            }
            latches.sort_unstable();
            latches.dedup();
            let mut blocks = vec![header];
            let mut waiting = latches.clone();
            while let Some(block) = waiting.pop() {
                if !blocks.contains(&block) && dominators.dominates(header, block) {
                    blocks.push(block);
                    waiting.extend(&before[block as usize]);
                }
            }
            blocks.sort_unstable();
            loops.push(Loop {
                header,
                blocks,
                latches,
                parent: None,
                depth: 1,
            });
        }
        loops.sort_by_key(|one| (std::cmp::Reverse(one.blocks.len()), one.header));
        for at in 0..loops.len() {
            let header = loops[at].header;
            let around = (0..at).rev().find(|&outer| {
                loops[outer].header != header && loops[outer].blocks.binary_search(&header).is_ok()
            });
            loops[at].parent = around.map(|outer| outer as u32);
            loops[at].depth = around.map_or(1, |outer| loops[outer].depth + 1);
        }
        Loops { loops, irreducible }
    }

    /// An edge to a block that a depth-first search came to before, and is not done with.
    fn is_retreating(&self, dominators: &Dominators, from: u32, to: u32) -> bool {
        dominators.order[to as usize] <= dominators.order[from as usize]
    }
}

fn intersect(idom: &[Option<u32>], order: &[u32], one: u32, two: u32) -> u32 {
    let (mut one, mut two) = (one, two);
    while one != two {
        let deeper = match order[one as usize] > order[two as usize] {
            true => &mut one,
            false => &mut two,
        };
        // Blocks that are looked at have dominators.
        *deeper = idom[*deeper as usize].unwrap_or(idom.len() as u32 - 1);
    }
    one
}

impl Dominators {
    /// The block that every way to `block` comes through last; `None`: there is none.
    pub fn immediate(&self, block: u32) -> Option<u32> {
        let outside = self.idom.len() as u32 - 1;
        self.idom[block as usize].filter(|&found| found != outside)
    }

    /// Whether every way to `block` comes through `by`.
    pub fn dominates(&self, by: u32, block: u32) -> bool {
        let mut at = Some(block);
        while let Some(block) = at {
            if block == by {
                return true;
            }
            at = self.immediate(block);
        }
        false
    }
}
