//! Nests of loops: which there are, what memory their code refers to, and what stands in the way of following them.
//!
//! Approach: a nest is a natural loop that is in no other one, with all loops in it. Nests of a function are numbered from 1 on by the
//! addresses of their headers; loops in a loop the same way, so `sum:1.2` is the second loop in the first nest of `sum`. References are
//! the memory operands of instructions, but for those by the stack pointer alone that belong to calls, returns, pushes and pops.
//!
//! Invariant: a reference, and a call, belongs to the innermost loop that has its block.
//!
//! Limits: loops are those of machine code. A loop of the source that was unrolled, vectorised or split is as many loops as its code
//! has, and one that was replaced by a call is none. Recursion is seen along direct calls of one file.

pub mod marks;
pub mod meant;
pub mod places;

use std::collections::BTreeMap;

use image::{Image, LinkAddr};
use isa::memory::{Address, Kind, Pattern};
use isa::{Flow, Insn, Reg};
use rayon::prelude::*;

use crate::graph::{EdgeKind, To};
use crate::loops::Loop;
use crate::{Failed, Function, Program};

/// A memory operand of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The instruction.
    pub at: LinkAddr,
    /// Its number among the operands of the instruction.
    pub operand: u8,
    pub kind: Kind,
    /// Bytes; 0: the instruction's registers say it.
    pub size: u16,
    /// One access each time, at an address that the operand names.
    pub is_plain: bool,
    /// The address, as linked, of an operand without registers.
    pub constant: Option<u64>,
}

/// A loop of a nest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NestLoop {
    pub header: LinkAddr,
    /// Blocks of the function, those of inner loops among them, sorted.
    pub blocks: Vec<u32>,
    pub latches: Vec<u32>,
    /// Index of the loop around it in the nest.
    pub parent: Option<usize>,
    /// 1 for the nest's outermost loop.
    pub depth: u32,
    /// Its number among the loops of its parent, or among the nests of the function.
    pub number: u32,
    /// References that are in no inner loop, in the order of addresses.
    pub references: Vec<Reference>,
    /// Calls that are in no inner loop.
    pub calls: u32,
}

/// A reason why a nest cannot be followed, or not be told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The graph of the function may lack something.
    Incomplete(Failed),
    /// A cycle in it has more than one entry; this is one.
    Irreducible(LinkAddr),
    /// This call may come to the nest's function again.
    Recursion(LinkAddr),
}

/// A nest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nest {
    /// Index of the function in the program.
    pub function: usize,
    /// Outer loops before inner ones, the outermost first.
    pub loops: Vec<NestLoop>,
    pub obstacles: Vec<Obstacle>,
}

impl Nest {
    /// Loops around each other.
    pub fn depth(&self) -> u32 {
        self.loops.iter().map(|one| one.depth).max().unwrap_or(0)
    }

    /// References of all its loops.
    pub fn references(&self) -> usize {
        self.loops.iter().map(|one| one.references.len()).sum()
    }

    /// Numbers of a loop and of those around it, outermost first: `1.2`.
    pub fn path(&self, at: usize) -> String {
        let mut numbers = Vec::new();
        let mut next = Some(at);
        while let Some(one) = next {
            numbers.push(self.loops[one].number.to_string());
            next = self.loops[one].parent;
        }
        numbers.reverse();
        numbers.join(".")
    }
}

/// Nests of a program, and cycles outside of them that have more than one entry.
#[derive(Clone, Debug, Default)]
pub struct Nests {
    /// By function, then by header.
    pub nests: Vec<Nest>,
    /// Indices of functions, and entries of such cycles.
    pub irreducible: Vec<(usize, LinkAddr)>,
}

impl Nests {
    /// All nests of a program.
    pub fn of(image: &Image, program: &Program) -> Nests {
        let components = components(program);
        let functions = program.functions.par_iter().enumerate();
        let each = functions.map(|(number, function)| {
            let loops = function.graph.loops(&function.entry_blocks());
            let mut nests = Vec::new();
            let outermost = |one: &&Loop| one.parent.is_none();
            for (at, _) in (0..).zip(&loops.loops).filter(|(_, one)| outermost(one)) {
                nests.push(nest(image, number, function, &loops.loops, at));
            }
            nests.sort_by_key(|nest| nest.loops[0].header);
            for (nest, number) in nests.iter_mut().zip(1..) {
                nest.loops[0].number = number;
            }
            let mut outside = Vec::new();
            for block in loops.irreducible {
                let start = function.graph.blocks[block as usize].start;
                let has = |nest: &&mut Nest| nest.loops[0].blocks.binary_search(&block).is_ok();
                match nests.iter_mut().find(has) {
                    Some(nest) => nest.obstacles.push(Obstacle::Irreducible(start)),
                    None => outside.push((number, start)),
                }
            }
            for nest in &mut nests {
                nest.obstacles
                    .extend(function.failed.iter().copied().map(Obstacle::Incomplete));
                let call = recursion(program, number, &nest.loops[0].blocks, &components);
                nest.obstacles.extend(call.map(Obstacle::Recursion));
            }
            (nests, outside)
        });
        let mut all = Nests::default();
        for (nests, outside) in each.collect::<Vec<_>>() {
            all.nests.extend(nests);
            all.irreducible.extend(outside);
        }
        all
    }
}

/// The nest whose outermost loop is `loops[first]`.
fn nest(image: &Image, number: usize, function: &Function, loops: &[Loop], first: u32) -> Nest {
    let is_in = |mut at: u32| loop {
        match loops[at as usize].parent {
            _ if at == first => return true,
            Some(parent) => at = parent,
            None => return false,
        }
    };
    // Outer ones come first.
    let members: Vec<u32> = (0..loops.len() as u32).filter(|&at| is_in(at)).collect();
    let place = |at: u32| members.iter().position(|&member| member == at);
    let mut own: Vec<NestLoop> = members
        .iter()
        .map(|&at| {
            let one = &loops[at as usize];
            NestLoop {
                header: function.graph.blocks[one.header as usize].start,
                blocks: one.blocks.clone(),
                latches: one.latches.clone(),
                parent: one.parent.and_then(place),
                depth: one.depth,
                number: 0,
                references: Vec::new(),
                calls: 0,
            }
        })
        .collect();
    let mut siblings: BTreeMap<Option<usize>, Vec<usize>> = BTreeMap::new();
    for (at, one) in own.iter().enumerate() {
        siblings.entry(one.parent).or_default().push(at);
    }
    for mut group in siblings.into_values() {
        group.sort_by_key(|&at| own[at].header);
        for (number, at) in (1..).zip(group) {
            own[at].number = number;
        }
    }
    for &block in &loops[first as usize].blocks {
        let holds = |one: &NestLoop| one.blocks.binary_search(&block).is_ok();
        // The innermost one comes last.
        let Some(at) = own.iter().rposition(holds) else {
            continue;
        };
        look_at(image, function, block, &mut own[at]);
    }
    for one in &mut own {
        one.references
            .sort_by_key(|reference| (reference.at, reference.operand));
    }
    Nest {
        function: number,
        loops: own,
        obstacles: Vec::new(),
    }
}

/// Adds references and calls of a block.
fn look_at(image: &Image, function: &Function, block: u32, own: &mut NestLoop) {
    let block = &function.graph.blocks[block as usize];
    let mut at = block.start;
    while at < block.end {
        let bytes = image.bytes_from(at);
        let Ok(insn) = Insn::decode(&bytes[..bytes.len().min(15)], at.0) else {
            return;
        };
        match insn.flow() {
            Flow::Call(_) | Flow::IndirectCall => own.calls += 1,
            _ => {}
        }
        own.references.extend(references(&insn));
        at = LinkAddr(insn.next_pc());
    }
}

/// References of an instruction.
pub fn references(insn: &Insn) -> Vec<Reference> {
    let is_stack = insn.is_stack_instruction();
    let operands = insn.memory();
    let operands = (0..).zip(&operands);
    let operands = operands.filter(|(_, operand)| {
        let address = operand.address;
        let by_stack = address.base == Some(Reg::Rsp) && address.index.is_none();
        !(is_stack && by_stack)
    });
    operands
        .map(|(number, operand)| Reference {
            at: LinkAddr(insn.pc()),
            operand: number,
            kind: operand.kind,
            size: operand.size,
            is_plain: operand.pattern == Pattern::Once && !operand.address.is_32_bit,
            constant: constant(&operand.address),
        })
        .collect()
}

/// The address of an operand without registers.
fn constant(address: &Address) -> Option<u64> {
    let has_registers = address.base.is_some() || address.index.is_some();
    (!has_registers && address.segment.is_none()).then_some(address.displacement)
}

/// A call in some blocks of a function that may come to it again: directly, or as both are in one cycle of calls.
fn recursion(
    program: &Program,
    number: usize,
    blocks: &[u32],
    components: &[u32],
) -> Option<LinkAddr> {
    let graph = &program.functions[number].graph;
    blocks.iter().find_map(|&block| {
        let mut calls = graph.edges_of(block as usize).iter();
        let call = calls.find(|edge| {
            let callee = match (edge.kind, edge.to) {
                (EdgeKind::Call, To::Address(entry)) => index_from(program, entry),
                _ => None,
            };
            callee.is_some_and(|callee| components[callee] == components[number])
        });
        call.map(|_| graph.blocks[block as usize].last)
    })
}

/// Index of the function that begins at an address.
fn index_from(program: &Program, entry: LinkAddr) -> Option<usize> {
    let key = |function: &Function| function.entry;
    program.functions.binary_search_by_key(&entry, key).ok()
}

/// Numbers of the strongly connected components of direct calls, by function (Kosaraju's algorithm).
fn components(program: &Program) -> Vec<u32> {
    let callees: Vec<Vec<usize>> = (program.functions.iter())
        .map(|function| {
            let edges = function.graph.edges.iter();
            let outside = edges.filter_map(|edge| match edge.to {
                To::Address(entry) => index_from(program, entry),
                _ => None,
            });
            outside.collect()
        })
        .collect();
    let mut callers = vec![Vec::new(); callees.len()];
    for (caller, own) in callees.iter().enumerate() {
        own.iter().for_each(|&callee| callers[callee].push(caller));
    }
    let mut order = Vec::new();
    let mut is_seen = vec![false; callees.len()];
    for root in 0..callees.len() {
        visit(root, &callees, &mut is_seen, &mut |function| {
            order.push(function)
        });
    }
    let mut found = vec![0; callees.len()];
    is_seen.fill(false);
    for (number, &root) in (0..).zip(order.iter().rev()) {
        visit(root, &callers, &mut is_seen, &mut |function| {
            found[function] = number
        });
    }
    found
}

/// Visits what is reached from a node and was not seen, in postorder.
fn visit(root: usize, next: &[Vec<usize>], is_seen: &mut [bool], done: &mut dyn FnMut(usize)) {
    if std::mem::replace(&mut is_seen[root], true) {
        return;
    }
    let mut stack = vec![(root, 0)];
    while let Some((node, at)) = stack.last_mut() {
        match next[*node].get(*at) {
            Some(&other) => {
                *at += 1;
                if !std::mem::replace(&mut is_seen[other], true) {
                    stack.push((other, 0));
                }
            }
            None => {
                done(*node);
                stack.pop();
            }
        }
    }
}
