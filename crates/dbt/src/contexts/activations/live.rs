//! Live activations of a thread, apart from its forest: a forked child, whose forest is a
//! new one, goes on there.

use alloc::vec::Vec;

use forest::{Forest, Memory, State};
use wire::node::{FIRST_BLOCK, LABEL_ENTRY, LABEL_MUTED, LABEL_WAITING};

use super::{HIGHEST, Tool};

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

/// Live activations above the thread's root. `current`: the state on top.
pub(super) fn live_path(tool: &Tool, top: u64, current: State) -> Vec<Activation> {
    if tool.forest.has_edges() {
        // A record holds the state of the activation below its own.
        let records = (tool.shadow..=top).step_by(16);
        let activation = |at| {
            let entry = match at == tool.shadow {
                true => HIGHEST,
                false => tool.records.get(at).0,
            };
            let state = match at == top {
                true => current,
                false => tool.records.get(at + 16).1,
            };
            let mut blocks = tool.forest.way_to(state);
            let what = match blocks.first() {
                _ if state == tool.truncated => Live::Truncated,
                // The tree's root is a block, or what stands for none.
                Some(&label) if label < FIRST_BLOCK => {
                    blocks.remove(0);
                    Live::Blocks(label, blocks)
                }
                _ => Live::Blocks(LABEL_ENTRY, blocks),
            };
            Activation { entry, what }
        };
        return records.map(activation).collect();
    }
    let mut below = tool.records.get(tool.shadow).1;
    let records = (tool.shadow + 16..=top).step_by(16);
    let activation = |at| {
        let (entry, state) = tool.records.get(at);
        let what = match state {
            _ if state == tool.muted => Live::Muted,
            _ if state == tool.waiting => Live::Waiting,
            _ if state == tool.truncated => Live::Truncated,
            _ if tool.forest.is_root(state) => Live::Root(tool.forest.label(state)),
            _ => Live::Calls(tool.forest.steps(below, state)),
        };
        below = state;
        Activation { entry, what }
    };
    records.map(activation).collect()
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

    /// The state of an activation in `forest`, above one in `state`.
    pub fn follow(
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
