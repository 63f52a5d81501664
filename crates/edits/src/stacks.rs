//! Functions that switch stacks: a call of one comes back on another stack than it was made on.
//!
//! Approach: an instruction that moves the stack pointer to what was in memory or in a register, without the function having copied the
//! stack pointer there itself (as it does where it has arrays of a length that is not known before). A function that goes on as such a
//! one is one, too.
//!
//! Limits: a function that takes a copy of its own, and switches to another stack by the same register, is not found.

use std::collections::{HashMap, HashSet};

use flow::{EdgeKind, Function, Program, To};
use image::{Image, LinkAddr};
use isa::{Insn, StackFrom};

/// By function of a program: it switches stacks.
pub fn switching(image: &Image, program: &Program) -> Vec<bool> {
    let own = program.functions.iter();
    let mut found: Vec<bool> = own.map(|function| switches(image, function)).collect();
    if !found.contains(&true) {
        return found;
    }
    let entries = program.functions.iter().enumerate();
    let by_entry: HashMap<LinkAddr, usize> = entries
        .map(|(number, function)| (function.entry, number))
        .collect();
    let mut is_changed = true;
    while std::mem::take(&mut is_changed) {
        for (number, function) in program.functions.iter().enumerate() {
            let goes_on = |edge: &flow::Edge| match (edge.kind, edge.to) {
                (EdgeKind::TailCall | EdgeKind::Taken, To::Address(entry)) => {
                    by_entry.get(&entry).is_some_and(|next| found[*next])
                }
                _ => false,
            };
            if !found[number] && function.graph.edges.iter().any(goes_on) {
                found[number] = true;
                is_changed = true;
            }
        }
    }
    found
}

fn switches(image: &Image, function: &Function) -> bool {
    let (mut copies, mut sources) = (HashSet::new(), HashSet::new());
    for block in &function.graph.blocks {
        let mut at = block.start;
        while at < block.end {
            let bytes = image.bytes_from(at);
            let Ok(insn) = Insn::decode(&bytes[..bytes.len().min(15)], at.0) else {
                break;
            };
            copies.extend(insn.copy_of_stack());
            match insn.stack_from() {
                Some(StackFrom::Elsewhere) => return true,
                Some(StackFrom::Register(register)) => drop(sources.insert(register)),
                Some(StackFrom::Frame) | None => {}
            }
            at = LinkAddr(insn.next_pc());
        }
    }
    !sources.is_subset(&copies)
}
