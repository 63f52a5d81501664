//! Edges from state to state, where contexts are of basic blocks.
//!
//! An *edge* stands for several blocks that are executed one after the other, a path. It is
//! counted, and the reader goes the way once more (`wire::node::FIRST_BLOCK`).
//!
//! With finite k a state need not be a place in slabs: a *window*, the last k blocks,
//! says all that contexts ask for ([`History::Windows`]), and a loop then comes back
//! to the same state in each turn, not in every k-th.
//!
//! Edges are made in the order in which they are executed, so where loops are rolled
//! the way from the root to the last state is kept ([`Way`]): most begin there.

use alloc::vec::Vec;

use wire::node::{FIRST_BLOCK, FIRST_FUNC, LABEL_ENTRY, LABEL_TRUNCATED, ROOT};

use crate::index::Name;
use crate::{Forest, Memory, Rolling, State};

/// How much of the blocks before it a state of basic blocks stands for, with finite k.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum History {
    /// Its place in the k-slab forest.
    Slabs,
    /// The last k: its node is where they lead to from a root.
    Windows,
}

/// Path from the root of a state's tree to the state: labels and nodes. The edges that a loop
/// makes begin where the one before led to, or not far above. A node's index in the path is
/// its depth in the tree.
#[derive(Debug, Default)]
pub(crate) struct Way {
    labels: Vec<u32>,
    states: Vec<State>,
    /// For each block, where on the way it was last; elsewhere now, or no longer there,
    /// if that has another label.
    places: Vec<u32>,
}

impl Way {
    /// Goes back to the `len` nodes that come first.
    fn cut(&mut self, len: usize) {
        self.labels.truncate(len);
        self.states.truncate(len);
    }

    fn push(&mut self, label: u32, state: State) {
        if let Some(block) = label.checked_sub(FIRST_BLOCK) {
            let block = block as usize;
            if block >= self.places.len() {
                self.places.resize(block + block / 2 + 64, 0);
            }
            self.places[block] = self.labels.len() as u32;
        }
        self.labels.push(label);
        self.states.push(state);
    }

    fn place_of(&self, block: u32) -> Option<usize> {
        let place = *self.places.get(block.checked_sub(FIRST_BLOCK)? as usize)? as usize;
        (self.labels.get(place) == Some(&block)).then_some(place)
    }
}

impl Forest {
    /// From here on, what leads on are edges. The state of who has entered no block.
    /// After [`Forest::reserve_truncated`].
    pub fn begin_blocks(
        &mut self,
        history: History,
        states_from: u64,
        memory: &mut dyn Memory,
    ) -> Option<State> {
        let entry = self.root(LABEL_ENTRY, memory)?;
        self.entry = Some(entry);
        self.history = history;
        let truncated = self.truncated?;
        let name = self.child_name(truncated, LABEL_TRUNCATED);
        self.truncated_edge = self.make_edge(name, truncated, states_from, memory);
        self.truncated_edge.map(|_| entry)
    }

    /// The edge that `path`, made of `blocks`, is from `state` on, and where it leads.
    /// States are told from `states_from` on. `searched`: the index was, and does not hold
    /// it. Counts nothing.
    pub fn edge(
        &mut self,
        state: State,
        (path, blocks): (u32, &[u32]),
        searched: bool,
        states_from: u64,
        memory: &mut dyn Memory,
    ) -> Option<(State, State)> {
        let name = self.child_name(state, path);
        if !searched && let Some(edge) = self.find(name) {
            return Some((edge, self.top(edge)));
        }
        let next = self.behind(state, blocks, memory);
        let made = match memory.take_node() {
            true => self.make_edge(name, next, states_from, memory),
            false => None,
        };
        match made {
            Some(edge) => Some((edge, next)),
            None => self.edge_beyond(path, states_from, memory),
        }
    }

    /// The state after `blocks` were entered in `state`, one after the other.
    pub fn behind(&mut self, state: State, blocks: &[u32], memory: &mut dyn Memory) -> State {
        if Some(state) == self.truncated || blocks.is_empty() {
            return state;
        }
        let next = match (self.rolling, self.history) {
            (Rolling::Loops, _) => self.rolled(state, blocks, memory),
            (_, History::Windows) => self.window(state, blocks, memory),
            (_, History::Slabs) => {
                let step = |state, &block| self.step_from(state, block, false, memory);
                return blocks.iter().fold(state, step);
            }
        };
        next.or(self.truncated).unwrap_or(state)
    }

    /// State after `blocks`, where a block that is on the path from the root leads back to its node.
    fn rolled(&mut self, state: State, blocks: &[u32], memory: &mut dyn Memory) -> Option<State> {
        self.find_way(state);
        let mut at = state;
        // Whether `at` was made just now: it has no children then.
        let mut is_new = false;
        for &block in blocks {
            match self.way.place_of(block) {
                Some(before) => {
                    self.way.cut(before + 1);
                    is_new = false;
                }
                None => {
                    let next = self.next(at, block, is_new, memory)?;
                    self.way.push(block, next);
                    is_new = self.is_newest(next);
                }
            }
            at = *self.way.states.last()?;
        }
        Some(at)
    }

    /// Makes the way the one to `state`; who has entered no block has none.
    fn find_way(&mut self, state: State) {
        let mut way = core::mem::take(&mut self.way);
        let mut below = Vec::new();
        let mut at = Some(state).filter(|_| Some(state) != self.entry);
        while let Some(here) = at {
            let depth = self.depth(here) as usize;
            if way.states.get(depth) == Some(&here) {
                way.cut(depth + 1);
                break;
            }
            below.push(here);
            at = self.parent(here);
        }
        if at.is_none() {
            way.cut(0);
        }
        for &state in below.iter().rev() {
            way.push(self.label(state), state);
        }
        self.way = way;
    }

    /// The state that knows the last k of what leads to `state` and `blocks`.
    fn window(&mut self, state: State, blocks: &[u32], memory: &mut dyn Memory) -> Option<State> {
        let mut labels = match Some(state) == self.entry {
            true => Vec::new(),
            false => self.way_to(state),
        };
        labels.extend_from_slice(blocks);
        let window = &labels[labels.len().saturating_sub(self.k as usize)..];
        let (&first, others) = window.split_first()?;
        let root = match first < FIRST_FUNC {
            true => self.root(first, memory)?,
            false => self.tree(first, memory)?,
        };
        let child = |state, &block| self.child(state, block, memory);
        others.iter().try_fold(root, child)
    }

    /// The edge of `path` beyond the limits. Each path has its own, so that every block
    /// counts; they are as many as there is code, and are in no budget.
    fn edge_beyond(
        &mut self,
        path: u32,
        states_from: u64,
        memory: &mut dyn Memory,
    ) -> Option<(State, State)> {
        let truncated = self.truncated?;
        let name = self.child_name(truncated, path);
        let edge = match self.find(name) {
            Some(edge) => Some(edge),
            None => self.make_edge(name, truncated, states_from, memory),
        };
        Some((edge.or(self.truncated_edge)?, truncated))
    }

    /// `None`: there is no room, or the state is out of an edge's reach.
    fn make_edge(
        &mut self,
        name: Name,
        next: State,
        states_from: u64,
        memory: &mut dyn Memory,
    ) -> Option<State> {
        let state = next.0.wrapping_sub(states_from);
        let top = ((next.0 - self.pool.base()) / 8) as u32;
        let word = u32::try_from(state).ok().filter(|word| word & ROOT == 0)?;
        let edge = self.publish(name.key.wrapping_neg(), top, word, memory)?;
        self.insert(name, edge);
        Some(edge)
    }
}
