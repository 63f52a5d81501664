//! Live activations of a thread, apart from its forest: a forked child, whose forest is a
//! new one, goes on there.

use alloc::vec::Vec;

use forest::{Forest, Memory, State};
use wire::node::{FIRST_BLOCK, LABEL_ENTRY, LABEL_MUTED, LABEL_WAITING};

use super::HIGHEST;

/// A live activation, apart from any forest.
#[derive(Debug)]
pub(super) struct Activation {
    /// Entry stack pointer.
    pub entry: u64,
    pub what: Live,
}

#[derive(Debug)]
pub(super) enum Live {
    Muted,
    Waiting,
    Truncated,
    /// A signal's root, by label.
    Root(u32),
    /// The function and, after it, the tail callers that its record replaced.
    Calls(Vec<u32>),
    /// The label that the activation's blocks began under, and those.
    Blocks(u32, Vec<u32>),
}

/// States that are no function's, of the thread with this number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kinds {
    pub owner: u64,
    pub root: State,
    pub muted: State,
    pub waiting: State,
    pub truncated: State,
}

/// Live activations above the thread's root, of `records` (entry and state, oldest first).
/// `current`: the state on top.
pub(super) fn live_path(
    forest: &Forest,
    kinds: &Kinds,
    records: &[(u64, State)],
    current: State,
) -> Vec<Activation> {
    if forest.has_edges() {
        // A record holds the state of the activation below its own.
        let activation = |(at, &(entry, _)): (usize, &(u64, State))| {
            let entry = if at == 0 { HIGHEST } else { entry };
            let state = records.get(at + 1).map_or(current, |above| above.1);
            let mut blocks = forest.way_to(state);
            let what = match blocks.first() {
                _ if state == kinds.truncated => Live::Truncated,
                // The tree's root is a block, or what stands for none.
                Some(&label) if label < FIRST_BLOCK => {
                    blocks.remove(0);
                    Live::Blocks(label, blocks)
                }
                _ => Live::Blocks(LABEL_ENTRY, blocks),
            };
            Activation { entry, what }
        };
        return records.iter().enumerate().map(activation).collect();
    }
    let mut below = kinds.root;
    let activation = |(at, &(entry, state)): (usize, &(u64, State))| {
        let entry = if at == 0 { HIGHEST } else { entry };
        let what = match state {
            _ if at == 0 && state == kinds.root => return None,
            _ if state == kinds.muted => Live::Muted,
            _ if state == kinds.waiting => Live::Waiting,
            _ if state == kinds.truncated => Live::Truncated,
            _ if forest.is_root(state) => Live::Root(forest.label(state)),
            _ => Live::Calls(forest.steps(below, state)),
        };
        below = state;
        Some(Activation { entry, what })
    };
    records.iter().enumerate().filter_map(activation).collect()
}

/// The states that activations begin in. `entry`: of who has entered no block, where
/// those are counted.
pub(super) struct Begins {
    pub root: State,
    pub entry: State,
    pub muted: State,
    pub waiting: State,
    pub truncated: State,
}

impl Begins {
    /// Beginnings in a new forest, whose activations are under a root with this label.
    pub fn new(forest: &mut Forest, label: u32, memory: &mut dyn Memory) -> Option<Begins> {
        let root = forest.root(label, memory)?;
        Some(Begins {
            root,
            entry: root,
            muted: forest.root(LABEL_MUTED, memory)?,
            waiting: forest.root(LABEL_WAITING, memory)?,
            truncated: forest.reserve_truncated(memory)?,
        })
    }

    /// Entries and states of activations in `forest`, oldest first: before them that which is below
    /// all, in state `first` if `path` does not say otherwise.
    pub fn states(
        &self,
        forest: &mut Forest,
        path: &[Activation],
        first: State,
        memory: &mut dyn Memory,
    ) -> Vec<(u64, State)> {
        let mut states = Vec::with_capacity(path.len() + 1);
        let mut state = first;
        states.push((HIGHEST, first));
        for activation in path {
            state = self.follow(forest, &activation.what, state, memory);
            match activation.entry {
                HIGHEST => states[0].1 = state,
                entry => states.push((entry, state)),
            }
        }
        states
    }

    /// The state of an activation in `forest`, above one in `state`.
    fn follow(
        &self,
        forest: &mut Forest,
        what: &Live,
        state: State,
        memory: &mut dyn Memory,
    ) -> State {
        match what {
            Live::Muted => self.muted,
            Live::Waiting => self.waiting,
            Live::Truncated => self.truncated,
            &Live::Root(label) => forest.root(label, memory).unwrap_or(self.truncated),
            Live::Blocks(label, blocks) => {
                let begin = match *label {
                    LABEL_ENTRY => self.entry,
                    label => forest.root(label, memory).unwrap_or(self.truncated),
                };
                forest.behind(begin, blocks, memory)
            }
            Live::Calls(functions) => {
                let begin = match state == self.waiting {
                    true => self.root,
                    false => state,
                };
                let step = |from, &function| forest.step(from, function, memory);
                functions.iter().rev().fold(begin, step)
            }
        }
    }
}
