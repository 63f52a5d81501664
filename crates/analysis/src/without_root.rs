//! Contexts without the root that stands for functions that were not selected.
//!
//! Problem: where functions are selected, `__root__` is above them all (IHPP 4.2). With all
//! functions of the main image, and no others, the paper's tool has no such root: a tree
//! begins with what was entered first, and other trees with what libraries called (listing
//! 4.2). The engine records the same with a root.
//!
//! Approach: the root becomes the state in which nothing is counted, and its children are roots.
//! Costs of functions that were not selected then belong to no context.
//!
//! Invariants: every event that is left counts once, on a node whose path is its k-context.
//! So the k-calling-context forest is that of the run without the root; made of the k-SF by
//! clearing it would not be, because functions that begin a first tree may head other slabs, too
//! (`forest`, "Which top regions count").
//!
//! Limit: with finite k slabs have the levels that they have below the root, so the first
//! one is lower by one level than the paper's.

use trace::{Label, Meta, Node, Recording, Thread};

/// Its name among the options of a recording.
pub const OPTION: &str = "main-image-only";

/// Whether the root was left out.
pub fn is_uprooted(meta: &Meta) -> bool {
    meta.options.iter().any(|(name, _)| name == OPTION)
}

/// Leaves out the root of all threads.
pub fn uproot(recording: &mut Recording) {
    let processes = recording.processes.iter_mut();
    for thread in processes.flat_map(|process| &mut process.threads) {
        uproot_thread(thread);
    }
}

fn uproot_thread(thread: &mut Thread) {
    let is_root = |node: &Node| node.parent.is_none() && node.label == Label::ROOT;
    let mut was_root = Vec::with_capacity(thread.nodes.len());
    for at in 0..thread.nodes.len() {
        let node = thread.nodes[at];
        was_root.push(is_root(&node));
        let parent = node.parent.filter(|&parent| !was_root[parent as usize]);
        // Parents come first.
        let depth = parent.map_or(0, |parent| thread.nodes[parent as usize].depth + 1);
        thread.nodes[at] = match is_root(&node) {
            true => Node {
                label: Label::MUTED,
                count: 0,
                ..node
            },
            false => Node {
                parent,
                depth,
                ..node
            },
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_of_the_root_are_roots() {
        let node = |label, parent, depth, top, count| Node {
            label,
            parent,
            depth,
            top,
            count,
        };
        let (f, g) = (Label(256), Label(257));
        let mut thread = Thread {
            nodes: vec![
                node(f, None, 0, None, 0),
                node(Label::ROOT, None, 0, None, 1),
                node(g, Some(1), 1, None, 3),
                node(f, Some(2), 2, Some(0), 5),
                node(Label::signal(10), None, 0, None, 1),
            ],
            ..Thread::default()
        };
        uproot_thread(&mut thread);
        let expected = [
            node(f, None, 0, None, 0),
            node(Label::MUTED, None, 0, None, 0),
            node(g, None, 0, None, 3),
            node(f, Some(2), 1, Some(0), 5),
            node(Label::signal(10), None, 0, None, 1),
        ];
        assert_eq!(thread.nodes, expected);
    }
}
