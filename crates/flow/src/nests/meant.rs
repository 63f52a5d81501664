//! The loops of machine code that a mark in the source means.
//!
//! Problem: a mark makes no code, and compilers rotate, unroll, vectorise and inline loops. All that connects source and code are line
//! tables.
//!
//! Approach: loops are meant that come back, or are left, by a branch
//! of the condition's lines: rotated loops have it there, too. If some of these have no code of other lines, only they are meant: the
//! branch of an inner loop may lead straight to the beginning of the one around it. A loop without a condition (`while (1)`) is known by
//! its lines alone, if the loop around it has no code of its own of these lines. Of loops within each other the outermost is
//! meant. Several that are left are copies of one loop: inlined, unrolled, or its remainder.
//!
//! Invariant: nothing is guessed. If it cannot be told which loop is meant, or there is none, that is said.

use std::collections::BTreeSet;

use super::marks::{Mark, Nothing, Source};
use super::places::{Line, Places};
use super::{Nest, Nests};
use crate::{Function, Program};

/// A loop of the program: a nest, and a loop of it.
pub type Found = (usize, usize);

/// The loops that a mark means.
///
/// # Errors
/// It means none.
pub fn find(
    program: &Program,
    nests: &Nests,
    places: &Places<'_>,
    (file, mark): (u32, &Mark),
) -> Result<Vec<Found>, Nothing> {
    let source = mark.follows?;
    let is_within =
        |line: &Line| line.file == file && (source.first..=source.last).contains(&line.line);
    let (mut found, has_code) = candidates(program, nests, places, &source, file);
    let all: BTreeSet<Found> = found.iter().copied().collect();
    found.retain(|&(nest, at)| {
        let mut around = nests.nests[nest].loops[at].parent;
        std::iter::from_fn(|| {
            let own = around?;
            around = nests.nests[nest].loops[own].parent;
            Some(own)
        })
        .all(|around| !all.contains(&(nest, around)))
    });
    let is_clear = |&(nest, at): &Found| {
        let nest = &nests.nests[nest];
        let around = nest.loops[at].parent;
        source.condition.is_some()
            || around.is_none_or(|around| !has_own_code(program, nest, around, places, &is_within))
    };
    if !found.iter().all(is_clear) {
        return Err(Nothing::Unclear);
    }
    match found.is_empty() {
        false => Ok(found),
        true if has_code || any_code(program, places, &is_within) => Err(Nothing::NotALoop),
        true => Err(Nothing::NoCode),
    }
}

/// Loops that come back, or are left, by a branch of a condition's lines, or have no condition: those without code of other lines, if
/// there are any. And whether any loop has code of the lines.
fn candidates(
    program: &Program,
    nests: &Nests,
    places: &Places<'_>,
    source: &Source,
    file: u32,
) -> (Vec<Found>, bool) {
    let is_within =
        |line: &Line| line.file == file && (source.first..=source.last).contains(&line.line);
    let is_condition = |line: &Line| {
        let lines = source.condition;
        line.file == file && lines.is_some_and(|(first, last)| (first..=last).contains(&line.line))
    };
    let mut has_code = false;
    let (mut by_branch, mut strictly) = (Vec::new(), Vec::new());
    for (number, nest) in nests.nests.iter().enumerate() {
        let function = &program.functions[nest.function];
        for (at, one) in nest.loops.iter().enumerate() {
            // Code that came from elsewhere, without a call on these lines, is of neither.
            let mut has_own = false;
            let mut is_outside = false;
            for (addr, _) in places.pieces(function, one) {
                let lines = places.lines(addr);
                let mut own = lines.iter().filter(|line| line.file == file).peekable();
                if own.peek().is_none() {
                    continue;
                }
                match own.any(is_within) {
                    true => has_own = true,
                    false => is_outside = true,
                }
            }
            has_code |= has_own;
            if !has_own {
                continue;
            }
            let mut branches = branches(function, nest, at);
            let by_condition = branches.any(|at| places.lines(at).iter().any(is_condition));
            if !is_outside && (by_condition || source.condition.is_none()) {
                strictly.push((number, at));
            } else if by_condition {
                by_branch.push((number, at));
            }
        }
    }
    match strictly.is_empty() {
        true => (by_branch, has_code),
        false => (strictly, has_code),
    }
}

/// Whether a loop has code of some lines that is in no inner loop.
fn has_own_code(
    program: &Program,
    nest: &Nest,
    at: usize,
    places: &Places<'_>,
    is_it: &dyn Fn(&Line) -> bool,
) -> bool {
    let graph = &program.functions[nest.function].graph;
    let blocks = nest.loops[at].blocks.iter();
    let mut own = blocks.filter(|block| {
        let mut inner = nest.loops.iter().filter(|inner| inner.parent == Some(at));
        !inner.any(|inner| inner.blocks.binary_search(block).is_ok())
    });
    own.any(|&block| {
        let block = &graph.blocks[block as usize];
        let mut lines = [block.start, block.last]
            .into_iter()
            .flat_map(|at| places.lines(at));
        lines.any(|line| is_it(&line))
    })
}

/// Whether any code of the program is of some lines.
fn any_code(program: &Program, places: &Places<'_>, is_it: &dyn Fn(&Line) -> bool) -> bool {
    let blocks = program
        .functions
        .iter()
        .flat_map(|function| &function.graph.blocks);
    let mut starts = blocks.flat_map(|block| [block.start, block.last]);
    starts.any(|at| places.lines(at).iter().any(is_it))
}

/// Instructions by which a loop comes back, and by which it is left by itself and not by an inner one.
fn branches(function: &Function, nest: &Nest, at: usize) -> impl Iterator<Item = image::LinkAddr> {
    let one = &nest.loops[at];
    let graph = &function.graph;
    let is_inner = move |block: u32| {
        let mut inner = nest
            .loops
            .iter()
            .filter(move |inner| inner.depth > one.depth);
        inner.any(|inner| inner.blocks.binary_search(&block).is_ok())
    };
    let leaves = move |block: u32| {
        let mut edges = graph.edges_of(block as usize).iter();
        edges.any(|edge| match edge.to {
            crate::To::Block(to) => one.blocks.binary_search(&to).is_err(),
            _ => false,
        })
    };
    let exits = one.blocks.iter().copied();
    let exits = exits.filter(move |&block| leaves(block) && !is_inner(block));
    let all = one.latches.iter().copied().chain(exits);
    all.map(move |block| graph.blocks[block as usize].last)
}
