//! Every context of a section once, as a path of frames with its own calls: what
//! the forms for other tools are made of.
//!
//! Invariant: each metric of all paths adds up to that of the section. What is in no
//! context (lazy binding, what came before `--start-func`) is a path of its own.

use analysis::{Forest, NodeId, Weight};
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

/// Calls `each` with the frames of every context, outermost first, and for each of
/// `metrics` what was counted there, without what it called.
pub fn each<E>(
    section: &Section,
    metrics: &[Weight],
    mut each: impl FnMut(&[Frame], &[u64]) -> Result<(), E>,
) -> Result<(), E> {
    each_node(section, metrics, |path, values, _| each(path, values))
}

/// Calls `each` with the node of each context; `None` for counts that are in none.
pub fn each_node<E>(
    section: &Section,
    metrics: &[Weight],
    mut each: impl FnMut(&[Frame], &[u64], Option<NodeId>) -> Result<(), E>,
) -> Result<(), E> {
    let Some(forest) = &section.stacks else {
        return Ok(());
    };
    let mut path: Vec<Frame> = Vec::new();
    // How long the path was before each open node.
    let mut lengths: Vec<usize> = Vec::new();
    let totals = metrics.iter().map(|&metric| section.total(metric));
    let mut left: Vec<u64> = totals.collect();
    let mut values = vec![0; metrics.len()];
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
        for (value, &metric) in values.iter_mut().zip(metrics) {
            *value = match metric {
                // Starts of threads and handlers are no calls.
                Weight::Calls if !label.is_function() => 0,
                metric => forest.weight(metric, node),
            };
        }
        if values.iter().all(|&value| value == 0) {
            continue;
        }
        for (left, value) in left.iter_mut().zip(&values) {
            *left = left.saturating_sub(*value);
        }
        match path[..] {
            [] => each(&[Frame::Label(label)], &values, Some(node))?,
            _ => each(&path, &values, Some(node))?,
        }
    }
    rest(metrics, &left, &mut each)
}

/// Counts that no context of the forest has.
fn rest<E>(
    metrics: &[Weight],
    left: &[u64],
    each: &mut impl FnMut(&[Frame], &[u64], Option<NodeId>) -> Result<(), E>,
) -> Result<(), E> {
    let is_calls = |metric: &Weight| *metric == Weight::Calls;
    let part = |wanted: bool| -> Vec<u64> {
        let pairs = metrics.iter().zip(left);
        pairs
            .map(|(metric, &left)| if is_calls(metric) == wanted { left } else { 0 })
            .collect()
    };
    // Calls beyond the limit of nodes; their instructions are a context's.
    for (label, values) in [(Label::TRUNCATED, part(true)), (Label::MUTED, part(false))] {
        if values.iter().any(|&value| value > 0) {
            each(&[Frame::Label(label)], &values, None)?;
        }
    }
    Ok(())
}

/// Whether a tree begins at `node`, k calls away from where its thread began.
fn is_inner_root(forest: &Forest, node: NodeId) -> bool {
    let is_root = forest.parent(node).is_none();
    is_root && forest.label(node).is_function() && !forest.is_first(node)
}

/// Paths as text, with `;` between frames. Contexts come in an order in which most have the
/// callers of the one before, so only the frames that differ are written again.
#[derive(Default)]
pub struct PathText {
    frames: Vec<Frame>,
    /// Length of the text up to the end of each frame.
    ends: Vec<usize>,
    text: String,
}

impl PathText {
    /// The text of `path`; `push` appends that of a frame.
    pub fn of(&mut self, path: &[Frame], mut push: impl FnMut(Frame, &mut String)) -> &str {
        let pairs = self.frames.iter().zip(path);
        let same = pairs.take_while(|(before, now)| before == now).count();
        self.frames.truncate(same);
        self.ends.truncate(same);
        self.text.truncate(self.ends.last().copied().unwrap_or(0));
        for &frame in &path[same..] {
            if !self.ends.is_empty() {
                self.text.push(';');
            }
            push(frame, &mut self.text);
            self.ends.push(self.text.len());
            self.frames.push(frame);
        }
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_path_does_not_depend_on_the_one_before() {
        let name = |frame: Frame| match frame {
            Frame::Label(Label(7)) => String::new(),
            Frame::Label(Label(number)) => number.to_string(),
            Frame::Unknown => UNKNOWN.to_owned(),
        };
        let paths: [&[u32]; 8] = [
            &[1, 2, 3],
            &[1, 2],
            &[1, 2, 4, 5],
            &[],
            &[7],
            &[7, 1],
            &[2, 2, 2],
            &[2, 7, 2],
        ];
        let mut text = PathText::default();
        for path in paths {
            let path: Vec<Frame> = path.iter().map(|&n| Frame::Label(Label(n))).collect();
            let expected: Vec<String> = path.iter().map(|&frame| name(frame)).collect();
            let shown = text.of(&path, |frame, text| text.push_str(&name(frame)));
            assert_eq!(shown, expected.join(";"));
        }
    }
}
