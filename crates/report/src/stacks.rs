//! Every context of a section once, as a path of frames with its own calls: what
//! the forms for other tools are made of.
//!
//! Invariant: the calls of all paths add up to those of the section.

use analysis::{Forest, NodeId};
use trace::Label;

use crate::Section;

/// A place on the path of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Frame {
    /// Callers that were not kept: further out than k.
    Unknown,
    /// A function, or what began without a call: a signal's handler.
    Label(Label),
}

/// In place of callers that were not kept.
pub const UNKNOWN: &str = "…";

/// Calls `each` with the frames of every context, outermost first, and the calls
/// that ended there.
pub fn each<E>(
    section: &Section,
    mut each: impl FnMut(&[Frame], u64) -> Result<(), E>,
) -> Result<(), E> {
    let Some(forest) = &section.stacks else {
        return Ok(());
    };
    let mut path: Vec<Frame> = Vec::new();
    // How long the path was before each open node.
    let mut lengths: Vec<usize> = Vec::new();
    let mut left = section.calls;
    for node in forest.preorder() {
        let label = forest.label(node);
        lengths.truncate(forest.depth(node) as usize + 1);
        match lengths.get(forest.depth(node) as usize) {
            Some(&length) => path.truncate(length),
            None => lengths.push(path.len()),
        }
        if is_inner_root(forest, node) {
            path.push(Frame::Unknown);
        }
        if label != Label::THREAD && label != Label::ROOT {
            path.push(Frame::Label(label));
        }
        if label.is_function() && forest.count(node) > 0 {
            left = left.saturating_sub(forest.count(node));
            each(&path, forest.count(node))?;
        }
    }
    // The calls beyond the limit of nodes.
    if left > 0 {
        each(&[Frame::Label(Label::TRUNCATED)], left)?;
    }
    Ok(())
}

/// Whether a tree begins at `node`, k calls away from where its thread began.
fn is_inner_root(forest: &Forest, node: NodeId) -> bool {
    let is_root = forest.parent(node).is_none();
    is_root && forest.label(node).is_function() && !forest.is_first(node)
}
