//! Functions of a file as tools see them that follow calls: which move, how their entries are named, and whether they may go to other
//! code.

use std::collections::HashMap;

use flow::{EdgeKind, Program, To};
use image::LinkAddr;

use crate::Wanted;

/// Functions of the C library that come back more often than they are called, or on another stack.
const TWICE: [&str; 9] = [
    "setjmp",
    "_setjmp",
    "__setjmp",
    "sigsetjmp",
    "__sigsetjmp",
    "vfork",
    "fork",
    "getcontext",
    "swapcontext",
];

/// Whether a call is of one of those.
pub fn comes_twice(program: &Program, callee: To) -> bool {
    let name = program.name_of(callee).unwrap_or_default();
    TWICE.contains(&name.split('@').next().unwrap_or_default())
}

/// An address as it is recorded, which no other file's address is.
fn token_of(addr: LinkAddr, base: u64) -> u32 {
    addr.0.wrapping_add(base) as u32
}

/// Blocks of a function that end in a trap: should its handler go on behind it, that is in old code, which may return to the
/// function's caller.
pub fn traps(function: &flow::Function) -> impl Iterator<Item = usize> + '_ {
    let graph = &function.graph;
    (0..graph.blocks.len()).filter(|block| {
        let is_jump = function.tail_jumps.contains(&graph.blocks[*block].last);
        graph.edges_of(*block).is_empty() && !is_jump
    })
}

/// Facts of all functions.
pub struct Known<'d> {
    pub program: &'d Program,
    /// Numbers of functions by their entries, also others than the first, and the numbers of those in tokens.
    pub by_entry: HashMap<LinkAddr, (usize, u32)>,
    /// Added to addresses, it makes those of tokens.
    pub base: u64,
    /// Functions of other files have tokens, too.
    pub is_together: bool,
    /// By function: it is left where it is.
    pub stays: Vec<bool>,
    /// By function: it may go to other code that returns to its caller.
    pub may_leave: Vec<bool>,
}

impl<'d> Known<'d> {
    pub fn new(program: &'d Program, wanted: &Wanted<'_>) -> Known<'d> {
        let functions = (0..).zip(&program.functions);
        let entries = functions.flat_map(|(number, function)| {
            let entries = function.others.iter().chain([&function.entry]);
            entries.map(move |entry| (*entry, number))
        });
        let mut entries: Vec<(LinkAddr, usize)> = entries.collect();
        entries.sort_unstable();
        let entries = (0..).zip(entries);
        let entries = entries.map(|(number, (entry, function))| {
            let number = match wanted.base {
                0 => number,
                base => token_of(entry, base),
            };
            (entry, (function, number))
        });
        let stays = program.functions.iter();
        let stays: Vec<bool> = stays
            .map(|function| wanted.left.contains(&function.entry.0))
            .collect();
        let leaves = (program.functions.iter().zip(&stays))
            .map(|(function, stays)| *stays || traps(function).next().is_some());
        let mut known = Known {
            program,
            base: wanted.base,
            is_together: wanted.part.is_some(),
            by_entry: entries.collect(),
            may_leave: leaves.collect(),
            stays,
        };
        // A function that goes on as another one may leave by what that one does; until nothing changes.
        let mut is_changed = true;
        while std::mem::take(&mut is_changed) {
            for (number, function) in program.functions.iter().enumerate() {
                let mut edges = function.graph.edges.iter();
                let leaves = |edge: &flow::Edge| match (edge.kind, edge.to) {
                    (EdgeKind::Call | EdgeKind::NoReturn | EdgeKind::Return, _) => false,
                    (_, To::Block(_)) => false,
                    (_, to) => known
                        .moved(to)
                        .is_none_or(|(number, _)| known.may_leave[number]),
                };
                if !known.may_leave[number] && edges.any(leaves) {
                    known.may_leave[number] = true;
                    is_changed = true;
                }
            }
        }
        known
    }

    /// The address of a token, which no other file's tokens have.
    pub fn token_of(&self, addr: LinkAddr) -> u32 {
        token_of(addr, self.base)
    }

    /// The number of an entry.
    pub fn number_of(&self, entry: LinkAddr) -> u32 {
        self.by_entry.get(&entry).map_or(0, |(_, number)| *number)
    }

    /// The function, which moves, and its entry that something leads to; `None`: that is other code.
    pub fn moved(&self, to: To) -> Option<(usize, u64)> {
        let To::Address(entry) = to else {
            return None;
        };
        let (number, _) = *self.by_entry.get(&entry)?;
        (!self.stays[number]).then_some((number, entry.0))
    }
}
