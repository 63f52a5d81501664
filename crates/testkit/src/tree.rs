//! A forest of calling contexts: names and counts, as text and compared.
//!
//! Two writers make such forests, the product and the oracle; both are
//! compared here as plain trees of names. Nodes with the same path of names
//! (two static functions of one name) count as one.
//!
//! The text is the layout of paper 000, listings 4.2 to 4.5: a node is a line
//! that begins with `|` and ends with `name(),count`; how far the name is
//! indented says how deep the node lies, in whatever steps the writer likes.

use std::collections::BTreeMap;
use std::fmt::Write;

use analysis::Forest;
use trace::Label;

/// A node of one [`Tree`]; valid only there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIndex(u32);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Node {
    name: String,
    count: u64,
    children: Vec<NodeIndex>,
}

/// A forest with named, counted nodes.
///
/// Invariant: children and roots stand in the order in which they were made,
/// and no two of one parent have the same name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    nodes: Vec<Node>,
    roots: Vec<NodeIndex>,
}

/// Sections of a text in the paper's layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A k-slab forest.
    Slab,
    /// A k-calling-context forest.
    CallingContext,
}

/// One forest of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Slab or calling-context forest.
    pub kind: Kind,
    /// The forest.
    pub tree: Tree,
}

/// A line that is no node although it looks like one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} is not `| name(),count`: {text}")]
pub struct ParseError {
    /// Line number, from 1.
    pub line: usize,
    /// The line.
    pub text: String,
}

impl Tree {
    /// The child of `parent` (or the root) called `name`, made if missing.
    pub fn child(&mut self, parent: Option<NodeIndex>, name: &str) -> NodeIndex {
        let siblings = parent.map_or(&self.roots, |node| &self.nodes[node.0 as usize].children);
        if let Some(found) = siblings
            .iter()
            .find(|node| self.nodes[node.0 as usize].name == name)
        {
            return *found;
        }
        let index = NodeIndex(u32::try_from(self.nodes.len()).expect("fewer than 2^32 nodes"));
        self.nodes.push(Node {
            name: name.to_owned(),
            count: 0,
            children: Vec::new(),
        });
        match parent {
            Some(node) => self.nodes[node.0 as usize].children.push(index),
            None => self.roots.push(index),
        }
        index
    }

    /// The forest with the names that `name` gives to its functions.
    #[must_use]
    pub fn of_forest(forest: &Forest, name: impl Fn(Label) -> Option<String>) -> Tree {
        let mut tree = Tree::default();
        let mut made: Vec<NodeIndex> = Vec::with_capacity(forest.len());
        // Parents come before their children.
        for node in forest.nodes() {
            let parent = forest.parent(node).map(|parent| made[parent.index()]);
            let label = forest.label(node);
            let at = match name(label) {
                Some(name) => tree.child(parent, &name),
                None => tree.child(parent, &label.to_string()),
            };
            tree.count(at, forest.count(node));
            made.push(at);
        }
        tree
    }

    /// All of `trees` in one (the paper's join).
    #[must_use]
    pub fn joined(trees: &[Tree]) -> Tree {
        let mut joined = Tree::default();
        for tree in trees {
            joined.join(tree);
        }
        joined
    }

    /// Subtracts the counts of `other`, node by node.
    #[must_use]
    pub fn less(mut self, other: &Tree) -> Tree {
        for (path, count) in other.paths() {
            let mut at = None;
            for name in path {
                at = Some(self.child(at, name));
            }
            if let Some(node) = at {
                let left = self.nodes[node.0 as usize].count.saturating_sub(count);
                self.nodes[node.0 as usize].count = left;
            }
        }
        self
    }

    /// The root that was made first.
    #[must_use]
    pub fn first_root(&self) -> Option<NodeIndex> {
        self.roots.first().copied()
    }

    /// Sets the counts of all roots to zero.
    #[must_use]
    pub fn without_roots(mut self) -> Tree {
        for index in self.roots.clone() {
            self.nodes[index.0 as usize].count = 0;
        }
        self
    }

    /// A copy without the counts of roots that are no function and no block:
    /// threads and handlers are not counted alike in all modes.
    #[must_use]
    pub fn without_special_roots(&self) -> Tree {
        let mut tree = self.clone();
        for index in self.roots.clone() {
            let node = &mut tree.nodes[index.0 as usize];
            if node.name.starts_with(['[', '_']) {
                node.count = 0;
            }
        }
        tree
    }

    /// Its roots alone.
    #[must_use]
    pub fn roots_only(&self) -> Tree {
        let mut tree = Tree::default();
        for &root in &self.roots {
            let node = &self.nodes[root.0 as usize];
            let index = tree.child(None, &node.name);
            tree.count(index, node.count);
        }
        tree
    }

    /// A copy with other names; nodes whose paths become equal are
    /// joined.
    #[must_use]
    pub fn renamed(&self, name: impl Fn(&str) -> String) -> Tree {
        let mut renamed = Tree::default();
        let mut open: Vec<NodeIndex> = Vec::new();
        for (depth, old, count) in self.rows() {
            open.truncate(depth);
            let node = renamed.child(open.last().copied(), &name(old));
            renamed.count(node, count);
            open.push(node);
        }
        renamed
    }

    /// Without nodes that are neither roots nor kept: what they called is their callers'.
    #[must_use]
    pub fn kept(&self, is_kept: impl Fn(&str) -> bool) -> Tree {
        let mut kept = Tree::default();
        let mut open: Vec<NodeIndex> = Vec::new();
        for (depth, name, count) in self.rows() {
            open.truncate(depth);
            let parent = open.last().copied();
            open.push(match parent {
                Some(parent) if !is_kept(name) => parent,
                _ => {
                    let node = kept.child(parent, name);
                    kept.count(node, count);
                    node
                }
            });
        }
        kept
    }

    /// Adds to the count of `node`.
    pub fn count(&mut self, node: NodeIndex, by: u64) {
        self.nodes[node.0 as usize].count += by;
    }

    /// Adds all of `other` to this forest, path by path (the paper's join).
    pub fn join(&mut self, other: &Tree) {
        let roots = other.roots.clone();
        self.join_below(None, other, &roots);
    }

    fn join_below(&mut self, parent: Option<NodeIndex>, other: &Tree, nodes: &[NodeIndex]) {
        for &theirs in nodes {
            let node = &other.nodes[theirs.0 as usize];
            let ours = self.child(parent, &node.name);
            self.count(ours, node.count);
            self.join_below(Some(ours), other, &node.children);
        }
    }

    /// Number of nodes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is no node.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Every node in the order of the text: depth, name, count.
    #[must_use]
    pub fn rows(&self) -> Vec<(usize, &str, u64)> {
        let mut rows = Vec::with_capacity(self.nodes.len());
        let mut open: Vec<_> = self.roots.iter().rev().map(|&root| (0, root)).collect();
        while let Some((depth, index)) = open.pop() {
            let node = &self.nodes[index.0 as usize];
            rows.push((depth, node.name.as_str(), node.count));
            open.extend(node.children.iter().rev().map(|&child| (depth + 1, child)));
        }
        rows
    }

    /// Every path of names with its count.
    #[must_use]
    pub fn paths(&self) -> BTreeMap<Vec<&str>, u64> {
        let mut paths = BTreeMap::new();
        let mut path = Vec::new();
        for (depth, name, count) in self.rows() {
            path.truncate(depth);
            path.push(name);
            *paths.entry(path.clone()).or_insert(0) += count;
        }
        paths
    }

    /// The forest as text.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for (depth, name, count) in self.rows() {
            writeln!(text, "{}| {name}(),{count}", "|  ".repeat(depth))
                .expect("a String takes all");
        }
        text
    }

    /// Node by node: the first `limit` paths whose counts differ, in words.
    /// Nodes that count nothing only lead to others.
    #[must_use]
    pub fn differences(&self, expected: &Tree, limit: usize) -> Vec<String> {
        let (ours, theirs) = (self.paths(), expected.paths());
        let mut differences = Vec::new();
        for path in ours
            .keys()
            .chain(theirs.keys().filter(|path| !ours.contains_key(*path)))
        {
            let counted = |count: &&u64| **count > 0;
            let got = ours.get(path).filter(counted);
            let wanted = theirs.get(path).filter(counted);
            if got != wanted && differences.len() < limit {
                let show = |count: Option<&u64>| count.map_or("no node".into(), u64::to_string);
                differences.push(format!(
                    "{}: {}, expected {}",
                    path.join(" > "),
                    show(got),
                    show(wanted)
                ));
            }
        }
        differences
    }
}

/// Reads every forest of `text`; lines that are no nodes, and no headings of
/// a forest, are skipped.
pub fn parse(text: &str) -> Result<Vec<Section>, ParseError> {
    let mut sections: Vec<Section> = Vec::new();
    // Column of the name and node of every open ancestor.
    let mut open: Vec<(usize, NodeIndex)> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let kind = match line.trim() {
            "DUMP of K-SF" => Some(Kind::Slab),
            "DUMP of K-CCF" => Some(Kind::CallingContext),
            _ => None,
        };
        if let Some(kind) = kind {
            sections.push(Section {
                kind,
                tree: Tree::default(),
            });
            open.clear();
        } else if line.starts_with('|') {
            let bad = || ParseError {
                line: index + 1,
                text: line.to_owned(),
            };
            let (column, name, count) = parse_node(line).ok_or_else(bad)?;
            let tree = &mut sections.last_mut().ok_or_else(bad)?.tree;
            while open.last().is_some_and(|&(above, _)| above >= column) {
                open.pop();
            }
            let node = tree.child(open.last().map(|&(_, node)| node), name);
            tree.count(node, count);
            open.push((column, node));
        }
    }
    Ok(sections)
}

/// Column of the name, name, count.
fn parse_node(line: &str) -> Option<(usize, &str, u64)> {
    let column = line.find(|c| c != '|' && c != ' ')?;
    let (name, count) = line[column..].rsplit_once(',')?;
    // A function, or a basic block.
    let block = name.starts_with('{') && name.ends_with('}');
    let name = name.strip_suffix("()").or(block.then_some(name))?;
    Some((column, name, count.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "DUMP of K-SF\n-----\n| a(),2\n|  | b(int)(),1\n|  | c(),7\n| d(),3\n";

    #[test]
    fn text_is_read_and_written_alike() {
        let sections = parse(TEXT).expect("well formed");
        assert_eq!(sections[0].kind, Kind::Slab);
        let again = format!("DUMP of K-SF\n-----\n{}", sections[0].tree.to_text());
        assert_eq!(again, TEXT);
    }

    #[test]
    fn the_step_of_the_indentation_does_not_matter() {
        let narrow = parse("DUMP of K-SF\n| a(),2\n|   b(int)(),1\n|   c(),7\n| d(),3\n");
        assert_eq!(narrow, parse(TEXT));
    }

    #[test]
    fn differences_name_the_path() {
        let ours = &parse(TEXT).expect("well formed")[0].tree;
        let other = &parse("DUMP of K-SF\n| a(),2\n|  | c(),8\n").expect("well formed")[0].tree;
        let expected = [
            "a > b(int): 1, expected no node",
            "a > c: 7, expected 8",
            "d: 3, expected no node",
        ];
        assert_eq!(ours.differences(other, 9), expected);
    }

    #[test]
    fn joining_adds_counts_by_path() {
        let mut tree = parse(TEXT).expect("well formed")[0].tree.clone();
        let copy = tree.clone();
        tree.join(&copy);
        assert_eq!(tree.rows()[2], (1, "c", 14));
    }
}
