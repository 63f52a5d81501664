//! Few counters that say everything about a control flow graph, and all counts from theirs.
//!
//! Problem: a counter on each edge says all, and costs too much.
//!
//! Approach: control that comes to a node leaves it. Edges of a spanning tree need no counter, as their counts follow from those
//! of the others, the *chords*; a tree of the greatest weight leaves the counters where control comes least (Knuth and
//! Stevenson 1973; Ball and Larus, "Optimally Profiling and Tracing Programs", TOPLAS 1994, 3).
//!
//! A graph of this crate has one node, [`OUTSIDE`], from which control comes and to which it goes. To count blocks as well as edges,
//! let each block be two nodes and the edge between them.
//!
//! Invariants: [`Chords::of`] never puts a counter on an edge that is [`Place::Never`]; [`solve`] gives each chord the count that
//! it was given, and at each node as much comes in as goes out. This crate knows no machine code.
#![forbid(unsafe_code)]

pub mod dictionary;
pub mod marks;
pub mod paths;
pub mod plan;
pub mod traced;

/// The node that stands for everything outside of a graph.
pub const OUTSIDE: u32 = 0;

/// Whether an edge can have a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It has one.
    Always,
    /// It may have one; it is better without the greater its weight is.
    May(u64),
    /// It cannot have one.
    Never,
}

/// An edge between two nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    pub from: u32,
    pub to: u32,
    pub place: Place,
}

/// A control flow graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// Number of nodes, [`OUTSIDE`] among them.
    pub nodes: u32,
    pub edges: Vec<Edge>,
}

/// Edges that cannot have counters form a cycle: no counters say how often control went around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Undecided;

/// Edges with counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chords {
    /// Edge by edge.
    has_counter: Vec<bool>,
}

/// Sets of nodes that are connected.
struct Sets(Vec<u32>);

impl Sets {
    fn of(nodes: u32) -> Sets {
        Sets((0..nodes).collect())
    }

    fn root(&mut self, mut node: u32) -> u32 {
        while self.0[node as usize] != node {
            let above = self.0[self.0[node as usize] as usize];
            self.0[node as usize] = above;
            node = above;
        }
        node
    }

    /// Connects two nodes; `false`: they were already.
    fn join(&mut self, one: u32, other: u32) -> bool {
        let (one, other) = (self.root(one), self.root(other));
        self.0[one as usize] = other;
        one != other
    }
}

impl Chords {
    /// Chooses the edges with counters.
    ///
    /// # Errors
    /// [`Undecided`] if not even a counter on every other edge would say everything.
    pub fn of(graph: &Graph) -> Result<Chords, Undecided> {
        let edges = &graph.edges;
        let mut has_counter = vec![true; edges.len()];
        let mut sets = Sets::of(graph.nodes);
        for (edge, has_counter) in edges.iter().zip(&mut has_counter) {
            if edge.place == Place::Never {
                *has_counter = false;
                if !sets.join(edge.from, edge.to) {
                    return Err(Undecided);
                }
            }
        }
        let weight = |at: &usize| match edges[*at].place {
            Place::May(weight) => Some(weight),
            _ => None,
        };
        let mut rest: Vec<usize> = (0..edges.len()).filter(|at| weight(at).is_some()).collect();
        // Equal ones stay in order.
        rest.sort_by_key(|at| std::cmp::Reverse(weight(at)));
        for at in rest {
            if sets.join(edges[at].from, edges[at].to) {
                has_counter[at] = false;
            }
        }
        Ok(Chords { has_counter })
    }

    /// Takes those that somebody chose before.
    pub fn from_flags(has_counter: Vec<bool>) -> Chords {
        Chords { has_counter }
    }

    /// Whether an edge has a counter.
    pub fn contains(&self, edge: usize) -> bool {
        self.has_counter.get(edge).copied().unwrap_or(false)
    }

    /// Indices of the edges with counters, in the order of their counters.
    pub fn edges(&self) -> impl Iterator<Item = usize> + '_ {
        let flags = self.has_counter.iter().enumerate();
        flags.filter_map(|(at, has)| has.then_some(at))
    }

    /// Number of counters.
    pub fn len(&self) -> usize {
        self.edges().count()
    }

    /// Whether nothing is counted.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Counts of all edges from those of the chords, which `count` gives by the index of the edge. Counts of the others may be
/// negative: control that leaves in a way that is not in the graph comes back, or comes from nowhere.
///
/// # Errors
/// [`Undecided`] if the edges without counters form a cycle.
pub fn solve(
    graph: &Graph,
    chords: &Chords,
    count: impl Fn(usize) -> u64,
) -> Result<Vec<i128>, Undecided> {
    let edges = &graph.edges;
    let mut counts = vec![0i128; edges.len()];
    // Executions by edges with known counts that lead to a node, less those that leave it.
    let mut surplus = vec![0i128; graph.nodes as usize];
    let mut unknown: Vec<Vec<u32>> = vec![Vec::new(); graph.nodes as usize];
    let mut left = 0usize;
    for (at, edge) in edges.iter().enumerate() {
        if chords.contains(at) {
            counts[at] = i128::from(count(at));
            surplus[edge.to as usize] += counts[at];
            surplus[edge.from as usize] -= counts[at];
        } else if edge.from == edge.to {
            return Err(Undecided);
        } else {
            unknown[edge.from as usize].push(at as u32);
            unknown[edge.to as usize].push(at as u32);
            left += 1;
        }
    }
    let mut is_known: Vec<bool> = (0..edges.len()).map(|at| chords.contains(at)).collect();
    let mut degree: Vec<usize> = unknown.iter().map(Vec::len).collect();
    let mut leaves: Vec<u32> = (0..graph.nodes)
        .filter(|node| degree[*node as usize] == 1)
        .collect();
    while let Some(node) = leaves.pop() {
        let own = unknown[node as usize].iter();
        let Some(at) = own.map(|at| *at as usize).find(|at| !is_known[*at]) else {
            continue;
        };
        let edge = edges[at];
        // The only unknown edge of a node takes or brings its surplus.
        counts[at] = match edge.from == node {
            true => surplus[node as usize],
            false => -surplus[node as usize],
        };
        is_known[at] = true;
        left -= 1;
        surplus[edge.to as usize] += counts[at];
        surplus[edge.from as usize] -= counts[at];
        for end in [edge.from, edge.to] {
            degree[end as usize] -= 1;
            if degree[end as usize] == 1 {
                leaves.push(end);
            }
        }
    }
    match left {
        0 => Ok(counts),
        _ => Err(Undecided),
    }
}
