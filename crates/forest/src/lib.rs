//! The online k-slab forest of one thread, in the shared pool.
//!
//! Problem: IHPP's algorithm (listing 3.2) keeps two pointers per activation,
//! *top* and *bottom*, and increments two counters per call. Approach: a bottom
//! node determines its top node (the top node's path is the bottom node's path
//! from level k on), so one pointer is enough as the state, the top is a field
//! of the bottom node, and only the state's counter is kept; the reader adds up
//! top counters. Let `d` be the depth of state `s` in its tree and `f` the
//! function called; then the next state is
//!
//! | state | next state | its top |
//! |---|---|---|
//! | first slab, `d + 1 < k` | child(s, f) | none |
//! | first slab, `d + 1 = k` | child(s, f) | root(f) |
//! | bottom, `d + 1 < 2k` | child(s, f) | child(top(s), f) |
//! | bottom, `d + 1 = 2k` | child(top(s), f) | root(f) |
//!
//! A node is 24 bytes and its costs; children are found by the name of the transition in an
//! open-addressing table (`index.rs`).
//!
//! For basic blocks what leads from state to state is an *edge* (`edges.rs`).
//!
//! Invariant: nodes are published (counted in their chunk) after they are
//! complete and never move. This crate knows no system calls: memory comes
//! from the [`Memory`] its caller passes.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod edges;
mod index;

use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Relaxed, Release};

use wire::NodeChunk;
use wire::node::{DEPTH, FIRST_FUNC, LABEL_TRUNCATED, Node, ROOT, decode_key, key, stride};
use wire::view::Pool;

pub use edges::History;
use edges::Way;
pub use index::{FALLBACK, HASH, HOME, HOME_MASK, HOME_SHIFT, LINE, Table};
use index::{Index, Name};

/// Address of a node in this process; the state of an activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State(pub u64);

/// Source of chunks of the pool, and the limit of nodes.
pub trait Memory {
    /// Reserves and backs `bytes` of the pool; `None` when it is full.
    fn chunk(&mut self, bytes: u64) -> Option<u64>;
    /// Takes one node from the budget.
    fn take_node(&mut self) -> bool;
}

const FIRST_CHUNK: u64 = wire::PAGE;
const MAX_CHUNK: u64 = 256 * wire::PAGE;

/// Which repetitions make no nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rolling {
    Nothing,
    /// A function entered from itself.
    Recursion,
    /// A block that is on the path from the root already (IHPP 4.3.4); k is infinite then.
    Loops,
}

#[derive(Debug)]
pub struct Forest {
    pool: Pool,
    /// 0: infinite.
    k: u32,
    rolling: Rolling,
    /// Bytes from one node of a chunk to the next.
    stride: u64,
    first_chunk: u64,
    chunk: u64,
    chunk_size: u64,
    roots: Vec<(u32, State)>,
    index: Index,
    truncated: Option<State>,
    /// State that the first block is entered from, and the edge of all paths once there is no
    /// memory ([`Forest::begin_blocks`]).
    entry: Option<State>,
    truncated_edge: Option<State>,
    history: History,
    way: Way,
}

impl Forest {
    /// `costs`: what nodes carry besides calls (`wire::cost`).
    pub fn new(pool: Pool, k: u32, rolling: Rolling, costs: u32) -> Forest {
        Forest {
            pool,
            k,
            rolling,
            stride: stride(costs),
            first_chunk: 0,
            chunk: 0,
            chunk_size: FIRST_CHUNK,
            roots: Vec::new(),
            index: Index::new(),
            truncated: None,
            entry: None,
            truncated_edge: None,
            history: History::Slabs,
            way: Way::default(),
        }
    }

    /// Offset of the first chunk in the pool (0: no node yet).
    pub fn first_chunk(&self) -> u64 {
        self.first_chunk
    }

    /// Address behind the memory of the newest nodes; all others lie before it.
    pub fn end(&self) -> u64 {
        let room = |chunk: &NodeChunk| u64::from(chunk.capacity.load(Relaxed));
        let nodes = self.pool.at(self.chunk).map_or(0, room);
        self.pool.base() + self.chunk + size_of::<NodeChunk>() as u64 + nodes * self.stride
    }

    /// The index, for emitted code; valid until the next `step` or `root`.
    pub fn table(&self) -> Table {
        self.index.table()
    }

    /// Depth of the nodes whose children hang below their top nodes (the last
    /// row of the table above); none if k is infinite.
    pub fn wrap_depth(&self) -> Option<u32> {
        (self.k != 0).then(|| 2 * self.k - 1)
    }

    fn node(&self, state: State) -> &Node {
        self.pool
            .at(state.0.wrapping_sub(self.pool.base()))
            .expect("states are addresses of published nodes")
    }

    /// Function (or label) of a node.
    pub fn label(&self, state: State) -> u32 {
        let node = self.node(state);
        let word = node.neg_key.load(Relaxed);
        if node.depth_flags.load(Relaxed) & ROOT != 0 {
            return word as u32;
        }
        decode_key(word.wrapping_neg(), self.pool.base(), self.pool.len())
            .map_or(0, |(_, func)| func)
    }

    pub fn is_root(&self, state: State) -> bool {
        self.node(state).depth_flags.load(Relaxed) & ROOT != 0
    }

    fn depth(&self, state: State) -> u32 {
        self.node(state).depth_flags.load(Relaxed) & DEPTH
    }

    /// The root with this label, made if need be. `None` without memory.
    pub fn root(&mut self, label: u32, memory: &mut dyn Memory) -> Option<State> {
        if let Some(&(_, state)) = self.roots.iter().rev().find(|(other, _)| *other == label) {
            return Some(state);
        }
        let state = self.publish(u64::from(label), 0, ROOT, memory)?;
        self.roots.push((label, state));
        Some(state)
    }

    /// The state after `func` is called in `state`. Counts nothing.
    pub fn step(&mut self, state: State, func: u32, memory: &mut dyn Memory) -> State {
        self.step_from(state, func, false, memory)
    }

    /// Takes a step as [`Forest::step`] does, when the index was searched by [`Forest::table`] and
    /// does not hold this transition.
    pub fn step_anew(&mut self, state: State, func: u32, memory: &mut dyn Memory) -> State {
        self.step_from(state, func, true, memory)
    }

    fn step_from(
        &mut self,
        state: State,
        func: u32,
        searched: bool,
        memory: &mut dyn Memory,
    ) -> State {
        if Some(state) == self.truncated {
            return state;
        }
        if self.rolling == Rolling::Recursion && self.label(state) == func {
            return state;
        }
        match self.next(state, func, searched, memory) {
            Some(next) => next,
            None => self.truncated.unwrap_or(state),
        }
    }

    /// The functions called, last first, between the state `below` and `state`,
    /// which followed from it. At most k can be told: the slab before is shared.
    pub fn steps(&self, below: State, state: State) -> Vec<u32> {
        let (deep, from) = (self.depth(state), self.depth(below));
        let count = match self.k {
            _ if state == below => 1,
            0 => deep.saturating_sub(from),
            // The depth wraps from 2k - 1 to k; other roots than functions have depth 0.
            k if deep <= from => (deep + k - from - 1) % k + 1,
            _ => deep - from,
        };
        let mut labels = Vec::new();
        let mut at = Some(state);
        while let Some(here) = at.filter(|_| labels.len() < count as usize) {
            labels.push(self.label(here));
            at = self.parent(here);
        }
        labels
    }

    /// The state that follows from `from` by `steps` (last first), if the forest has it.
    pub fn known(&self, from: State, steps: &[u32]) -> Option<State> {
        steps.iter().rev().try_fold(from, |state, &func| {
            if self.rolling == Rolling::Recursion && self.label(state) == func {
                return Some(state);
            }
            let wraps = self.k != 0 && self.depth(state) + 1 == 2 * self.k;
            let parent = if wraps { self.top(state) } else { state };
            self.find(self.child_name(parent, func))
        })
    }

    /// The node above in its tree: its label is the caller's, its state need not be.
    fn parent(&self, state: State) -> Option<State> {
        if self.is_root(state) {
            return None;
        }
        let name = self.node(state).neg_key.load(Relaxed).wrapping_neg();
        let (parent, _) = decode_key(name, self.pool.base(), self.pool.len())?;
        Some(State(self.pool.base() + parent))
    }

    /// The state and those above it in its tree.
    fn above(&self, state: State) -> impl Iterator<Item = State> {
        core::iter::successors(Some(state), |&state| self.parent(state))
    }

    /// Labels on the path from the root of a state's tree to the state, the root's first.
    pub fn way_to(&self, state: State) -> Vec<u32> {
        let mut labels: Vec<u32> = self.above(state).map(|state| self.label(state)).collect();
        labels.reverse();
        labels
    }

    /// Whether what leads on are edges.
    pub fn has_edges(&self) -> bool {
        self.entry.is_some()
    }

    /// Prepares the node that stands for everything beyond the limits.
    pub fn reserve_truncated(&mut self, memory: &mut dyn Memory) -> Option<State> {
        let state = self.root(LABEL_TRUNCATED, memory)?;
        self.truncated = Some(state);
        Some(state)
    }

    /// `searched`: the index was, and does not hold this transition.
    fn next(
        &mut self,
        state: State,
        func: u32,
        searched: bool,
        memory: &mut dyn Memory,
    ) -> Option<State> {
        if Some(state) == self.entry {
            return self.tree(func, memory);
        }
        let (k, below) = (self.k, self.depth(state) + 1);
        let wraps = k != 0 && below == 2 * k;
        let parent = if wraps { self.top(state) } else { state };
        let name = self.child_name(parent, func);
        if !searched && let Some(next) = self.find(name) {
            return Some(next);
        }
        let top = match () {
            () if k == 0 || below < k => None,
            () if below == k || wraps => Some(self.tree(func, memory)?),
            () => Some(self.child(self.top(state), func, memory)?),
        };
        self.make(name, parent, top, memory)
    }

    /// Root of the tree of a function. Kept in the same index as children, as
    /// children of address 0, because there can be many.
    fn tree(&mut self, func: u32, memory: &mut dyn Memory) -> Option<State> {
        let name = tree_name(func);
        if let Some(state) = self.find(name) {
            return Some(state);
        }
        if !memory.take_node() {
            return None;
        }
        let state = self.publish(u64::from(func), 0, ROOT, memory)?;
        self.insert(name, state);
        Some(state)
    }

    fn top(&self, state: State) -> State {
        State(u64::from(self.node(state).top.load(Relaxed)) * 8 + self.pool.base())
    }

    /// A child that has no top: in a tree of the first slab, or of a window.
    fn child(&mut self, parent: State, func: u32, memory: &mut dyn Memory) -> Option<State> {
        let name = self.child_name(parent, func);
        match self.find(name) {
            Some(state) => Some(state),
            None => self.make(name, parent, None, memory),
        }
    }

    fn make(
        &mut self,
        name: Name,
        parent: State,
        top: Option<State>,
        memory: &mut dyn Memory,
    ) -> Option<State> {
        if !memory.take_node() {
            return None;
        }
        let top = top.map_or(0, |top| ((top.0 - self.pool.base()) / 8) as u32);
        let depth = (self.depth(parent) + 1).min(DEPTH);
        let state = self.publish(name.key.wrapping_neg(), top, depth, memory)?;
        self.insert(name, state);
        Some(state)
    }

    /// Writes a node into the current chunk and counts it in.
    fn publish(
        &mut self,
        neg_key: u64,
        top: u32,
        depth_flags: u32,
        memory: &mut dyn Memory,
    ) -> Option<State> {
        let full = match self.pool.at::<NodeChunk>(self.chunk) {
            Some(chunk) if self.chunk != 0 => {
                chunk.used.load(Relaxed) == chunk.capacity.load(Relaxed)
            }
            _ => true,
        };
        if full {
            self.add_chunk(memory)?;
        }
        let chunk: &NodeChunk = self.pool.at(self.chunk)?;
        let used = chunk.used.load(Relaxed);
        let offset = self.chunk + size_of::<NodeChunk>() as u64 + u64::from(used) * self.stride;
        let node: &Node = self.pool.at(offset)?;
        node.neg_key.store(neg_key, Relaxed);
        node.top.store(top, Relaxed);
        node.depth_flags.store(depth_flags, Relaxed);
        chunk.used.store(used + 1, Release);
        Some(State(self.pool.base() + offset))
    }

    /// Whether no node was made after this one.
    fn is_newest(&self, state: State) -> bool {
        let chunk = self.pool.at::<NodeChunk>(self.chunk);
        let used = chunk.map_or(0, |chunk| u64::from(chunk.used.load(Relaxed)));
        let end = self.chunk + size_of::<NodeChunk>() as u64 + used * self.stride;
        state.0 + self.stride == self.pool.base() + end
    }

    fn add_chunk(&mut self, memory: &mut dyn Memory) -> Option<()> {
        let fresh = memory.chunk(self.chunk_size)?;
        let room = self.chunk_size - size_of::<NodeChunk>() as u64;
        let chunk: &NodeChunk = self.pool.at(fresh)?;
        chunk.capacity.store((room / self.stride) as u32, Relaxed);
        match self.pool.at::<NodeChunk>(self.chunk) {
            Some(last) if self.chunk != 0 => last.next.store(fresh, Release),
            _ => self.first_chunk = fresh,
        }
        self.chunk = fresh;
        self.chunk_size = (self.chunk_size * 2).min(MAX_CHUNK);
        Some(())
    }

    fn child_name(&self, parent: State, func: u32) -> Name {
        Name {
            key: key(parent.0, func),
            func,
            parent: Some(parent.0.wrapping_sub(self.pool.base())),
        }
    }

    fn find(&self, name: Name) -> Option<State> {
        let base = self.pool.base();
        let is_meant = |offset| self.key_of(State(base + offset)) == Some(name.key);
        self.index
            .find(name, is_meant)
            .map(|offset| State(base + offset))
    }

    /// The key a node is found by; none: a root that is no function's tree.
    fn key_of(&self, state: State) -> Option<u64> {
        let node = self.node(state);
        let word = node.neg_key.load(Relaxed);
        if node.depth_flags.load(Relaxed) & ROOT == 0 {
            return Some(word.wrapping_neg());
        }
        (word >= u64::from(FIRST_FUNC)).then(|| tree_name(word as u32).key)
    }

    fn name_of(&self, state: State) -> Option<Name> {
        let key = self.key_of(state)?;
        if self.is_root(state) {
            return Some(tree_name(self.label(state)));
        }
        let (parent, func) = decode_key(key, self.pool.base(), self.pool.len())?;
        Some(Name {
            key,
            func,
            parent: Some(parent),
        })
    }

    fn insert(&mut self, name: Name, state: State) {
        if self.index.is_full() {
            let last = state.0 - self.pool.base();
            self.index.grow(self.first_chunk, last);
            self.insert_all();
        } else {
            self.index.insert(name, state.0 - self.pool.base());
        }
    }

    /// Enters every published node, in the order in which they were made.
    fn insert_all(&mut self) {
        let mut at = self.first_chunk;
        while at != 0
            && let Some(chunk) = self.pool.at::<NodeChunk>(at)
        {
            for i in 0..u64::from(chunk.used.load(Relaxed)) {
                let offset = at + size_of::<NodeChunk>() as u64 + i * self.stride;
                if let Some(name) = self.name_of(State(self.pool.base() + offset)) {
                    self.index.insert(name, offset);
                }
            }
            at = chunk.next.load(Relaxed);
        }
    }
}

/// Name of a function's tree in the index. No child has it: addresses in the
/// pool are not below 4096.
fn tree_name(func: u32) -> Name {
    Name {
        key: key(0, func),
        func,
        parent: None,
    }
}
