//! Few marks that say of every node of a graph whether control came there.
//!
//! Problem: a mark on each node says it, and costs most where control comes most often.
//!
//! Approach: where control came to a node, it came to the one that *dominates* it, as there is no other way to it; and it came to
//! the one that *post-dominates* it, as there is no other way out. A node needs no mark if
//!
//! | | its execution is known by |
//! |---|---|
//! | it dominates all nodes that it leads to, and does not lead outside | theirs |
//! | it post-dominates all nodes that lead to it, and nothing else leads to it | theirs |
//!
//! and those are known without it. Nodes are asked in the order of their weights, the heaviest first (H. Agrawal, "Dominators,
//! Super Blocks, and Program Coverage", POPL 1994; M. Tikir and J. Hollingsworth, "Efficient Instrumentation for Code Coverage
//! Testing", ISSTA 2002, have each half of it).
//!
//! Invariant: [`Implied::executed`] of the marks that [`Implied::choose`] asked for has every node to which control came from outside, and no
//! other, if control left by an edge of the graph. Of nodes that cannot be marked it has those that follow.
//!
//! Limits: the first node of a tie is left without a mark, which need not be the best one.

use crate::{Graph, OUTSIDE};

/// Most nodes of which it is asked whether they depend on one that is to lose its mark.
const MOST_ASKED: usize = 4096;

/// Nodes that follow from others.
#[derive(Debug)]
pub struct Implied {
    /// By node, the one that dominates it next, and the one that post-dominates it next; [`OUTSIDE`]: none.
    above: Vec<u32>,
    below: Vec<u32>,
    /// Nodes that each leads to, and that lead to it.
    next: Vec<Vec<u32>>,
    before: Vec<Vec<u32>>,
}

impl Implied {
    pub fn of(graph: &Graph) -> Implied {
        let mut next = vec![Vec::new(); graph.nodes as usize];
        let mut before = next.clone();
        for edge in &graph.edges {
            next[edge.from as usize].push(edge.to);
            before[edge.to as usize].push(edge.from);
        }
        Implied {
            above: immediate(&next, &before),
            below: immediate(&before, &next),
            next,
            before,
        }
    }

    /// The nodes that need marks, in order. `weights`: of each node that can have one and is asked for.
    pub fn choose(&self, weights: &[Option<u64>]) -> Vec<u32> {
        let mut known: Vec<bool> = weights.iter().map(Option::is_some).collect();
        let mut marked = known.clone();
        // Nodes without a mark, with those that they are known by.
        let mut by: Vec<Vec<u32>> = vec![Vec::new(); known.len()];
        let mut order: Vec<u32> = (1..known.len() as u32).collect();
        // Nodes that cannot be marked come first: others may be known by them.
        let weight = |node: &u32| std::cmp::Reverse(weights[*node as usize].unwrap_or(u64::MAX));
        order.sort_by_key(weight);
        for node in order {
            let ways = [(&self.next, &self.above), (&self.before, &self.below)];
            let found = ways.into_iter().find_map(|(others, implied)| {
                let others = &others[node as usize];
                let others = others.iter().copied().filter(|other| *other != node);
                let others: Vec<u32> = others.collect();
                let are_all = others.iter().all(|&other| {
                    other != OUTSIDE && known[other as usize] && implied[other as usize] == node
                });
                let is_known = !others.is_empty() && are_all && !depends(&by, &others, node);
                is_known.then_some(others)
            });
            if let Some(others) = found {
                by[node as usize] = others;
                known[node as usize] = true;
                marked[node as usize] = false;
            }
        }
        let nodes = (0..known.len() as u32).filter(|node| marked[*node as usize]);
        nodes.collect()
    }

    /// Whether control came to each node, if it came to these.
    pub fn executed(&self, marked: impl IntoIterator<Item = u32>) -> Vec<bool> {
        let mut executed = vec![false; self.above.len()];
        let mut waiting: Vec<u32> = marked.into_iter().collect();
        while let Some(node) = waiting.pop() {
            let Some(is_executed) = executed.get_mut(node as usize) else {
                continue;
            };
            if node != OUTSIDE && !std::mem::replace(is_executed, true) {
                waiting.extend([self.above[node as usize], self.below[node as usize]]);
            }
        }
        executed
    }
}

/// Whether some nodes are known by another one, or may be.
fn depends(by: &[Vec<u32>], nodes: &[u32], on: u32) -> bool {
    let mut waiting = nodes.to_vec();
    let mut asked = 0;
    while let Some(node) = waiting.pop() {
        asked += 1;
        if node == on || asked > MOST_ASKED {
            return true;
        }
        waiting.extend(&by[node as usize]);
    }
    false
}

/// Immediate dominators of nodes that are come to from outside (K. Cooper, T. Harvey, K. Kennedy, "A Simple, Fast Dominance
/// Algorithm", 2001); [`OUTSIDE`]: none.
fn immediate(next: &[Vec<u32>], before: &[Vec<u32>]) -> Vec<u32> {
    const UNKNOWN: u32 = u32::MAX;
    // Numbers by which a node comes behind those that it leads to.
    let mut numbers = vec![UNKNOWN; next.len()];
    let mut order = Vec::new();
    let mut path = vec![(OUTSIDE, 0)];
    let mut seen = vec![false; next.len()];
    seen[OUTSIDE as usize] = true;
    while let Some((node, at)) = path.last_mut() {
        let found = next[*node as usize].get(*at);
        *at += 1;
        match found {
            Some(&to) if !std::mem::replace(&mut seen[to as usize], true) => path.push((to, 0)),
            Some(_) => {}
            None => {
                numbers[*node as usize] = order.len() as u32;
                order.push(*node);
                path.pop();
            }
        }
    }
    let mut found = vec![UNKNOWN; next.len()];
    found[OUTSIDE as usize] = OUTSIDE;
    let mut is_changed = true;
    while std::mem::take(&mut is_changed) {
        for &node in order.iter().rev().filter(|node| **node != OUTSIDE) {
            let known = before[node as usize].iter().copied();
            let known = known.filter(|from| found[*from as usize] != UNKNOWN);
            let own = known.reduce(|mut one, mut other| {
                while one != other {
                    while numbers[one as usize] < numbers[other as usize] {
                        one = found[one as usize];
                    }
                    while numbers[other as usize] < numbers[one as usize] {
                        other = found[other as usize];
                    }
                }
                one
            });
            if let Some(own) = own.filter(|own| found[node as usize] != *own) {
                found[node as usize] = own;
                is_changed = true;
            }
        }
    }
    let found = found.into_iter();
    found
        .map(|by| if by == UNKNOWN { OUTSIDE } else { by })
        .collect()
}
