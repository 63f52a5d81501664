//! The definitions of IHPP chapter 3, written down as they stand: slow, and
//! meant to be seen to be right. Tests hold the quick algorithms against them.
//!
//! | function | what | from |
//! |---|---|---|
//! | [`k_contexts`] | activations per k-context, counted one by one | definitions 1, 2 |
//! | [`kccf`] | k-CCF as the join of reversed activated paths | definition 5 |
//! | [`ksf_of_cct`] | k-SF as the join of subtrees of the CCT | definition 7 |
//! | [`ksf_online`] | k-SF by two pointers and a shadow stack | listing 3.2 |
//! | [`record`] | the same, as the engine stores it: one state pointer | `wire::node` |
//! | [`call_graph`] | every path on its own, label by label | [`crate::callgraph`] |
//! | [`inclusive`] | what was spent while a context was on the stack | [`crate::fold`] |
//! | [`cfiat`] | first-access compression | [`crate::cfiat`] |

pub mod cfiat;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use trace::{Label, Node, Thread};

use crate::callgraph::{self, CallGraph};
use crate::cct::{self, Event, Live, Recursion};
use crate::forest::{Builder, Forest, K, NodeId, Weight};

/// Every root path of a forest with its counter: equal for equal forests,
/// whatever the order of their nodes.
pub fn paths(forest: &Forest) -> BTreeMap<Vec<Label>, u64> {
    let path = |node| {
        let mut path: Vec<Label> = forest
            .ancestors(node)
            .map(|node| forest.label(node))
            .collect();
        path.reverse();
        path
    };
    forest
        .nodes()
        .map(|node| (path(node), forest.count(node)))
        .collect()
}

/// The call graph of the calls in a forest that counts each once: a call weighs
/// on the way into every function of its path, where that stands first.
pub fn call_graph(forest: &Forest) -> CallGraph {
    let mut graph = CallGraph::default();
    for node in forest.nodes() {
        let mut path: Vec<NodeId> = forest.ancestors(node).collect();
        path.reverse();
        let labels: Vec<Label> = path.iter().map(|&node| forest.label(node)).collect();
        let count = callgraph::value(forest, Weight::Calls, node);
        graph.own.entry(labels[path.len() - 1]).or_insert(vec![0])[0] += count;
        for (at, &on_path) in path.iter().enumerate() {
            let Some(caller) = callgraph::caller(forest, on_path, &labels[..at]) else {
                continue;
            };
            let call = graph.calls.entry((caller, labels[at])).or_default();
            call.inclusive.resize(1, 0);
            if on_path == node {
                call.count += count;
            }
            if !labels[..at].contains(&labels[at]) {
                call.inclusive[0] += count;
            }
        }
    }
    graph
}

/// How often each k-context was activated.
pub fn k_contexts(events: &[Event], k: K, recursion: Recursion) -> BTreeMap<Vec<Label>, u64> {
    let mut counts = BTreeMap::new();
    for context in cct::contexts(events, recursion) {
        let suffix = &context[context.len().saturating_sub(k.longest())..];
        *counts.entry(suffix.to_vec()).or_insert(0) += 1;
    }
    counts
}

/// The k-CCF: each activated path, reversed, weighs as much as it was
/// activated, and so does every node on it.
pub fn kccf(events: &[Event], k: K, recursion: Recursion) -> Forest {
    let mut forest = Builder::default();
    for (path, count) in k_contexts(events, k, recursion) {
        let mut at: Option<NodeId> = None;
        for &label in path.iter().rev() {
            let node = match at {
                None => forest.root(label),
                Some(callee) => forest.child(callee, label),
            };
            forest.add(node, count);
            at = Some(node);
        }
    }
    forest.finish()
}

/// The k-SF: the join of the subtrees of depth at most 2k - 1 below all nodes
/// of the CCT whose level is a multiple of k.
pub fn ksf_of_cct(cct: &Forest, k: K) -> Forest {
    let height = match k {
        // Every node by itself.
        K::Finite(0) => 1,
        K::Finite(k) => 2 * k,
        K::Infinite => u32::MAX,
    };
    let subtrees: Vec<Forest> = cct
        .nodes()
        .filter(|&node| k == K::Finite(0) || k.heads_slab(cct.depth(node)))
        .map(|node| subtree(cct, node, height))
        .collect();
    crate::forest::join(&subtrees)
}

/// The nodes at and below `head`, `height` levels of them.
fn subtree(cct: &Forest, head: NodeId, height: u32) -> Forest {
    let mut tree = Builder::default();
    let root = tree.root(cct.label(head));
    if cct.parent(head).is_none() {
        tree.mark_first(root);
    }
    let mut todo = vec![(head, root)];
    while let Some((from, to)) = todo.pop() {
        tree.add(to, cct.count(from));
        for &child in cct.children(from) {
            if cct.depth(child) - cct.depth(head) < height {
                todo.push((child, tree.child(to, cct.label(child))));
            }
        }
    }
    tree.finish()
}

/// Inclusive costs of each context: everything after an
/// event is spent by the newest activation, and for those that wait for it. Nobody waits
/// for a handler. `contexts` says which ones an activation with a whole path belongs to.
pub fn inclusive(
    spent: &[(Event, u64)],
    recursion: Recursion,
    contexts: impl Fn(&[Label]) -> Vec<Vec<Label>>,
) -> BTreeMap<Vec<Label>, u64> {
    let mut sums = BTreeMap::new();
    // For each activation its whole path, and whether nobody waits for it.
    let mut stack: Live<(Vec<Label>, bool)> = Live::default();
    for &(event, spent) in spent {
        match event {
            Event::Leave => drop(stack.pop()),
            Event::Begin(label) => stack.push((vec![label], true)),
            Event::Enter(label) => {
                let mut path = stack.last().map_or(Vec::new(), |(path, _)| path.clone());
                let rolled = path
                    .last()
                    .is_some_and(|&last| recursion.rolls(last, label));
                if !rolled {
                    path.push(label);
                }
                let is_first = stack.items().is_empty();
                stack.push((path, is_first));
            }
            _ => drop(stack.switch(event)),
        }
        let items = stack.items();
        let begun = items.iter().rposition(|(_, begins)| *begins).unwrap_or(0);
        let live = items[begun..].iter().flat_map(|(path, _)| contexts(path));
        for context in live.collect::<BTreeSet<_>>() {
            *sums.entry(context).or_insert(0) += spent;
        }
    }
    sums
}

/// The paths of the nodes of a k-SF that count an activation: its slab's, and the one's
/// that began a slab before.
pub fn slab_paths(path: &[Label], k: u32) -> Vec<Vec<Label>> {
    if k == 0 {
        return caller_paths(path, 0);
    }
    let k = k as usize;
    let slab = (path.len() - 1) / k * k;
    let heads = [Some(slab), slab.checked_sub(k)];
    let heads = heads.into_iter().flatten();
    heads.map(|head| path[head..].to_vec()).collect()
}

/// The paths of the nodes of a k-CCF that count an activation: with no caller, one, and
/// so on to k.
pub fn caller_paths(path: &[Label], k: u32) -> Vec<Vec<Label>> {
    let longest = path.len().min(k as usize + 1);
    let reversed: Vec<Label> = path.iter().rev().copied().collect();
    (1..=longest).map(|len| reversed[..len].to_vec()).collect()
}

/// An entry of the shadow stack of listing 3.2.
#[derive(Clone, Copy)]
struct Activation {
    label: Label,
    top: NodeId,
    bottom: Option<NodeId>,
    /// `S.size() - 1` when it was entered, less what was rolled or interrupted.
    level: u32,
}

/// Listing 3.2, with the two things the paper describes beside it: rolled
/// recursion, and roots that nothing called.
pub fn ksf_online(events: &[Event], k: K, recursion: Recursion) -> Forest {
    let mut ksf = Builder::default();
    let mut stack: Live<Activation> = Live::default();
    for &event in events {
        let (label, caller) = match event {
            Event::Begin(label) => (label, None),
            Event::Enter(label) => (label, stack.last().copied()),
            _ => {
                if !stack.switch(event) {
                    stack.pop();
                }
                continue;
            }
        };
        let activation = match caller {
            Some(caller) if recursion.rolls(caller.label, label) => caller,
            _ => enter(&mut ksf, k, label, caller),
        };
        ksf.add(activation.top, 1);
        if let Some(bottom) = activation.bottom {
            ksf.add(bottom, 1);
        }
        stack.push(activation);
    }
    ksf.finish()
}

fn enter(ksf: &mut Builder, k: K, label: Label, caller: Option<Activation>) -> Activation {
    let level = caller.map_or(0, |caller| caller.level + 1);
    let (top, bottom) = match caller {
        // The paper's stack begins with a pair of null pointers.
        None => (ksf.root(label), None),
        Some(_) if k == K::Finite(0) => (ksf.root(label), None),
        Some(caller) if k.heads_slab(level) => (ksf.root(label), Some(caller.top)),
        Some(caller) => (ksf.child(caller.top, label), caller.bottom),
    };
    if level == 0 {
        ksf.mark_first(top);
    }
    Activation {
        label,
        top,
        bottom: bottom.map(|bottom| ksf.child(bottom, label)),
        level,
    }
}

/// Recording of these events as the engine makes it: nodes as in [`Thread::nodes`],
/// each event counted once on its state node.
pub fn record(events: &[Event], k: K, recursion: Recursion) -> Thread {
    let mut recorder = Recorder::new(k);
    let mut stack: Live<u32> = Live::default();
    let mut max_depth = 0;
    for &event in events {
        if stack.switch(event) {
            continue;
        }
        let state = match (event, stack.last()) {
            (Event::Begin(label), _) | (Event::Enter(label), None) => recorder.node(None, label),
            (Event::Enter(label), Some(&state)) => {
                if recursion.rolls(recorder.nodes[state as usize].label, label) {
                    state
                } else {
                    recorder.step(state, label)
                }
            }
            _ => {
                stack.pop();
                continue;
            }
        };
        recorder.nodes[state as usize].count += 1;
        stack.push(state);
        max_depth = max_depth.max(stack.items().len() as u64);
    }
    Thread {
        nodes: recorder.nodes,
        max_depth,
        ..Thread::default()
    }
}

/// Nodes as the engine records them. (Apart from `slabs`, which is compared with it.)
struct Recorder {
    k: K,
    nodes: Vec<Node>,
    index: HashMap<(Option<u32>, Label), u32>,
}

impl Recorder {
    fn new(k: K) -> Recorder {
        Recorder {
            k,
            nodes: Vec::new(),
            index: HashMap::new(),
        }
    }

    /// The child of `parent`, or the root, with this label.
    fn node(&mut self, parent: Option<u32>, label: Label) -> u32 {
        let next = self.nodes.len() as u32;
        let depth = parent.map_or(0, |parent| self.nodes[parent as usize].depth + 1);
        *self.index.entry((parent, label)).or_insert_with(|| {
            self.nodes.push(Node {
                label,
                parent,
                depth,
                ..Node::default()
            });
            next
        })
    }

    /// The state after a call of `label` in `state`.
    ///
    /// The top node, or the state itself in the first slab, is the whole
    /// context since the slab began, so its depth tells whether a new slab
    /// begins; then the old top's child is the new bottom.
    fn step(&mut self, state: u32, label: Label) -> u32 {
        if self.k == K::Finite(0) {
            return self.node(None, label);
        }
        let top = self.nodes[state as usize].top;
        let in_slab = top.unwrap_or(state);
        let (next, next_top) = if self.k.heads_slab(self.nodes[in_slab as usize].depth + 1) {
            (
                self.node(Some(in_slab), label),
                Some(self.node(None, label)),
            )
        } else {
            let next_top = top.map(|top| self.node(Some(top), label));
            (self.node(Some(state), label), next_top)
        };
        self.nodes[next as usize].top = next_top;
        next
    }
}
