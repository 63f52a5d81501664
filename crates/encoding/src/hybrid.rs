//! Numbers and depths of the stack together: nothing is added where the depth says which path was taken.
//!
//! Approach: a function has *implicit* paths, of which each has a depth of its own, and its number is 0; the others have numbers as in
//! [`Numbering`](crate::Numbering), from 1 on. A call adds nothing if the depths that its caller's implicit paths come to at the callee
//! are free there, and then only if the number is not 0 already.
//!
//! A frame whose size is not fixed makes the depth behind it say nothing, so functions from which a path leads there have no implicit
//! paths. Depths are counted from the function at which a piece begins, so a piece that goes on elsewhere has one, too.
//!
//! Invariant: a number that is not 0, and the depth, say one path; so does 0 with the depth, or without it in a function that has no
//! implicit paths but that which begins there.
//!
//! Source: PCCE, 6, algorithm 4; what it says of frames whose size is not fixed (7.4) holds for their callers, too.

use std::collections::HashMap;

use crate::graph::{CallGraph, Kind, left};

/// The step of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Nothing,
    /// It adds a number if that before is not 0.
    AddIfExplicit(u64),
    Add(u64),
    /// It pushes number, depth and site; a path begins at the callee.
    Push,
}

/// Most implicit paths of a function.
const MOST_IMPLICIT: usize = 1 << 12;

/// A moment of a path: the function, the number, and how deep the stack is since the piece began, if that is fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    pub function: u32,
    pub id: u64,
    pub depth: u64,
}

#[derive(Clone, Debug, Default)]
struct Node {
    /// Numbers are below this.
    count: u64,
    is_head: bool,
    /// It has implicit paths only.
    is_implicit: bool,
    /// A frame whose size is not fixed may be behind it, so depths say nothing.
    is_varied: bool,
    /// Depths of implicit paths, with their last calls; the path that begins here has none.
    implicit: HashMap<u64, Option<u32>>,
    /// Calls with numbers: where their ranges begin, and how many there are.
    calls: Vec<(u64, u64, u32)>,
}

/// The hybrid numbering of a graph.
#[derive(Clone, Debug)]
pub struct Hybrid {
    graph: CallGraph,
    /// By edge: bytes from the caller's stack pointer at its entry to the callee's, if they are fixed.
    frames: Vec<Option<u64>>,
    nodes: Vec<Node>,
    steps: Vec<Step>,
}

impl Hybrid {
    /// Numbers the paths of a graph; `frames`: by edge, bytes from the stack pointer at the caller's entry to that at the callee's, if
    /// they are fixed; `most`: numbers of a function.
    pub fn of(graph: &CallGraph, frames: &[Option<u64>], most: u64) -> Hybrid {
        let order = graph.order();
        let heights = order.heights(graph);
        let mut pushes = order.is_back.clone();
        loop {
            let mut new = Hybrid::new(graph, frames, &mut pushes);
            let is_varied = new.varied(&order.functions, &pushes);
            let mut into = vec![Vec::new(); graph.functions as usize];
            for (number, edge) in (0..).zip(&graph.edges) {
                into[edge.callee as usize].push(number);
            }
            let mut is_changed = false;
            for &function in &order.functions {
                let own = &mut into[function as usize];
                own.sort_by_key(|edge: &u32| std::cmp::Reverse(graph.edges[*edge as usize].weight));
                let varied = is_varied[function as usize];
                for &edge in own.iter().filter(|edge| !pushes[**edge as usize]) {
                    new.number(edge, varied);
                }
                let node = &mut new.nodes[function as usize];
                node.is_varied = varied;
                node.is_implicit &= node.implicit.len() as u64 == node.count;
                if node.count > most {
                    // The heaviest calls have the first numbers.
                    let left = left(most, heights[function as usize]);
                    for &(first, count, edge) in &node.calls {
                        if first.saturating_add(count) > left {
                            pushes[edge as usize] = true;
                            is_changed = true;
                        }
                    }
                    node.count = most;
                }
            }
            if !is_changed {
                return new;
            }
        }
    }

    fn new(graph: &CallGraph, frames: &[Option<u64>], pushes: &mut [bool]) -> Hybrid {
        let mut nodes = vec![Node::default(); graph.functions as usize];
        for &root in &graph.roots {
            for function in graph.with_tails(root) {
                nodes[function as usize].is_head = true;
            }
        }
        // A site that adds the same in several callees has no depth by which these are told apart.
        for (number, edge) in graph.edges.iter().enumerate() {
            pushes[number] |= graph.sites[edge.site as usize].kind == Kind::Shared;
        }
        let mut is_called = vec![false; nodes.len()];
        for (edge, pushes) in graph.edges.iter().zip(&*pushes) {
            is_called[edge.callee as usize] |= !pushes;
            nodes[edge.callee as usize].is_head |= pushes;
        }
        for (node, is_called) in nodes.iter_mut().zip(is_called) {
            node.is_head |= !is_called;
            node.is_implicit = true;
            if node.is_head {
                node.implicit.insert(0, None);
                node.count = 1;
            }
        }
        Hybrid {
            graph: graph.clone(),
            frames: frames.to_vec(),
            nodes,
            steps: vec![Step::Push; graph.edges.len()],
        }
    }

    /// Functions from which a path leads to a frame whose size is not fixed.
    fn varied(&self, order: &[u32], pushes: &[bool]) -> Vec<bool> {
        let mut varied = vec![false; self.nodes.len()];
        let mut from = vec![Vec::new(); self.nodes.len()];
        for edge in 0..self.graph.edges.len() as u32 {
            from[self.graph.caller(edge) as usize].push(edge);
        }
        for &function in order.iter().rev() {
            varied[function as usize] = from[function as usize].iter().any(|edge| {
                let callee = self.graph.edges[*edge as usize].callee;
                self.frames[*edge as usize].is_none()
                    || !pushes[*edge as usize] && varied[callee as usize]
            });
        }
        varied
    }

    /// Gives a call its numbers, or depths; `is_varied`: of its callee no depth says anything.
    fn number(&mut self, edge: u32, is_varied: bool) {
        let caller = self.graph.caller(edge) as usize;
        let callee = self.graph.edges[edge as usize].callee as usize;
        let frame = self.frames[edge as usize].filter(|_| !is_varied);
        let extended = frame.and_then(|frame| self.extended(caller, callee, frame));
        let (count, is_implicit) = (self.nodes[caller].count, self.nodes[caller].is_implicit);
        let node = &mut self.nodes[callee];
        let step = match extended {
            Some(depths) => {
                node.implicit
                    .extend(depths.into_iter().map(|depth| (depth, Some(edge))));
                match is_implicit {
                    true => Step::Nothing,
                    false => Step::AddIfExplicit(node.count),
                }
            }
            None => {
                // No path that has a number has 0.
                node.count = node.count.max(1);
                node.is_implicit = false;
                Step::Add(node.count)
            }
        };
        node.is_implicit &= is_implicit;
        node.calls.push((node.count, count, edge));
        node.count = node.count.saturating_add(count);
        self.steps[edge as usize] = step;
    }

    /// Depths at a callee that the caller's implicit paths come to, if they are free.
    fn extended(&self, caller: usize, callee: usize, frame: u64) -> Option<Vec<u64>> {
        let known = &self.nodes[callee].implicit;
        let own = &self.nodes[caller].implicit;
        let depths = own.keys().map(|depth| {
            let depth = depth.checked_add(frame)?;
            (!known.contains_key(&depth)).then_some(depth)
        });
        let depths: Vec<u64> = depths.collect::<Option<_>>()?;
        (known.len() + depths.len() <= MOST_IMPLICIT).then_some(depths)
    }

    /// The step of an edge's call.
    pub fn step(&self, edge: u32) -> Step {
        self.steps[edge as usize]
    }

    /// Numbers of a function are below it.
    pub fn count(&self, function: u32) -> u64 {
        self.nodes[function as usize].count
    }

    /// Whether a path may begin at a function.
    pub fn is_head(&self, function: u32) -> bool {
        self.nodes[function as usize].is_head
    }

    /// The number of a function's paths that only the depth tells from each other.
    pub fn implicit(&self, function: u32) -> usize {
        self.nodes[function as usize].implicit.len()
    }

    /// The path of a piece: the function at which it begins, and the edges behind it; `None`: no path has this number and depth.
    pub fn decode(&self, moment: Moment) -> Option<(u32, Vec<u32>)> {
        let Moment {
            mut function,
            mut id,
            mut depth,
        } = moment;
        let mut edges = Vec::new();
        loop {
            let node = self.nodes.get(function as usize)?;
            let edge = if id == 0 && node.is_varied {
                // Only what begins here has no number.
                node.is_head.then_some(())?;
                break;
            } else if id == 0 {
                match node.implicit.get(&depth) {
                    Some(Some(edge)) => *edge,
                    Some(None) => break,
                    None => return None,
                }
            } else {
                let behind = node.calls.partition_point(|(first, ..)| *first <= id);
                let &(first, count, edge) = node.calls.get(behind.checked_sub(1)?)?;
                if id - first >= count {
                    return None;
                }
                if let Step::Add(_) | Step::AddIfExplicit(_) = self.steps[edge as usize] {
                    id -= first;
                }
                edge
            };
            edges.push(edge);
            function = self.graph.caller(edge);
            depth = depth.wrapping_sub(self.frames[edge as usize].unwrap_or(0));
            if edges.len() > self.nodes.len() {
                return None;
            }
        }
        edges.reverse();
        Some((function, edges))
    }
}
