//! Every context with its figure before and after, as folded stacks with two
//! columns: what `difffolded.pl` of Brendan Gregg's FlameGraph writes, and what
//! its `flamegraph.pl` and crate `inferno` draw as a differential flame graph.
//!
//! ```text
//! prog1;main;a;b 3 5
//! prog1;…;f;g 17 0                        called by something, further out than k
//! ```
//!
//! Invariant: the columns add up to the totals of the recordings, exactly.

use std::io::{self, Write};

use super::{Comparison, name};
use crate::folded::frame;

pub fn write(comparison: &Comparison, out: &mut dyn Write) -> io::Result<()> {
    let diff = &comparison.diff;
    let frames: Vec<String> = diff
        .frames
        .iter()
        .map(|known| frame(&name(&known.identity)))
        .collect();
    let mut stack = String::new();
    // How long the stack was with each open node.
    let mut lengths: Vec<usize> = Vec::new();
    for node in diff.contexts.preorder() {
        lengths.truncate(diff.contexts.depth(node) as usize);
        stack.truncate(lengths.last().copied().unwrap_or(0));
        if !lengths.is_empty() {
            stack.push(';');
        }
        stack.push_str(&frames[diff.contexts.label(node).0 as usize]);
        lengths.push(stack.len());
        let value = diff.own(comparison.metric, node);
        if !value.is_zero() {
            writeln!(out, "{stack} {} {}", value.before, value.after)?;
        }
    }
    Ok(())
}
