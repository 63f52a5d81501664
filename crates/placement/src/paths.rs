//! Numbers of paths: few tokens that say which way control took through a graph.
//!
//! Problem: to say at each branch where it went is much, and most of it follows from what comes later.
//!
//! Approach: nodes at which a path *stops* cut the graph into pieces without cycles. In such a piece each way from a node has an
//! increment, so that the sums of all paths from one node on are different, and go from 0 up to the number of these paths (Ball and
//! Larus, "Efficient Path Profiling", MICRO 1996). The sum at the end of a path is its token; where there is one path only, nothing is
//! told. Paths stop
//!
//! | at | because |
//! |---|---|
//! | nodes at which control leaves | what comes next is elsewhere |
//! | loop heads | a cycle has no end |
//! | others, until no node has more than so many paths behind it | a token is a byte |
//!
//! The heaviest way from a node has the increment 0, for which there is nothing to do.
//!
//! Invariants: each cycle of the graph has a token; [`Paths::next`] gives the ways of a path by the sum of its increments. This
//! module knows no machine code.

/// A way from a node to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    pub to: u32,
    /// Probable executions of the way.
    pub weight: u64,
    /// Whether something can be done on it.
    pub has_place: bool,
}

/// A node of a graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    pub ways: Vec<Way>,
    /// A path stops before it in any case: control leaves there, or something else tells that it came.
    pub stops: bool,
    /// Control comes from elsewhere to it, and a path begins with it or before it.
    pub starts: bool,
}

/// Numbers of paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paths {
    /// By node: paths stop before it.
    pub stops: Vec<bool>,
    /// By node: paths that stop before it have a token.
    pub tells: Vec<bool>,
    /// By node, and by its ways.
    pub increments: Vec<Vec<u32>>,
    /// By node: paths from within it.
    pub counts: Vec<u32>,
}

impl Paths {
    /// Numbers of the paths of a graph, at most `most` from each node on; `None`: a node has more ways.
    pub fn of(nodes: &[Node], most: u32) -> Option<Paths> {
        let paths = Paths::with(nodes, most, &[])?;
        match silent_heads(nodes, &paths.tells) {
            silent if silent.is_empty() => Some(paths),
            silent => Paths::with(nodes, most, &silent),
        }
    }

    /// Numbers of paths that stop before `told`, too, and have tokens there.
    fn with(nodes: &[Node], most: u32, told: &[u32]) -> Option<Paths> {
        let mut stops: Vec<bool> = nodes.iter().map(|node| node.stops).collect();
        for &node in told {
            stops[node as usize] = true;
        }
        let heads = heads(nodes, &stops);
        for &head in &heads {
            stops[head as usize] = true;
        }
        let order = order(nodes, &stops);
        let mut counts = vec![0u32; nodes.len()];
        // A node comes behind those that it leads to.
        for &node in &order {
            loop {
                let ways = &nodes[node as usize].ways;
                let count = |way: &Way| match stops[way.to as usize] {
                    true => 1,
                    false => counts[way.to as usize],
                };
                let sum: u32 = ways.iter().map(count).sum();
                if sum <= most {
                    counts[node as usize] = sum.max(1);
                    break;
                }
                let open = ways.iter().filter(|way| !stops[way.to as usize]);
                let widest = open.max_by_key(|way| counts[way.to as usize])?.to;
                stops[widest as usize] = true;
            }
        }
        // Nodes that stop later have changed counts before them.
        for &node in &order {
            let ways = nodes[node as usize].ways.iter();
            let count = ways.map(|way| match stops[way.to as usize] {
                true => 1,
                false => counts[way.to as usize],
            });
            counts[node as usize] = count.sum::<u32>().max(1);
        }
        let mut paths = Paths {
            increments: Vec::new(),
            tells: vec![false; nodes.len()],
            stops,
            counts,
        };
        let increments = nodes.iter().map(|node| paths.increments_of(node));
        paths.increments = increments.collect();
        paths.tell(nodes);
        for &node in told {
            paths.tells[node as usize] = true;
        }
        Some(paths)
    }

    /// Number of paths from a way on.
    fn count(&self, way: &Way) -> u32 {
        match self.stops[way.to as usize] {
            true => 1,
            false => self.counts[way.to as usize],
        }
    }

    /// Increments of the ways of a node: the first one has none, and that is one on which nothing can be done, or the heaviest.
    fn increments_of(&self, node: &Node) -> Vec<u32> {
        let mut order: Vec<usize> = (0..node.ways.len()).collect();
        order.sort_by_key(|at| {
            let way = &node.ways[*at];
            (way.has_place, std::cmp::Reverse(way.weight))
        });
        let mut increments = vec![0; node.ways.len()];
        let mut sum = 0;
        for at in order {
            increments[at] = sum;
            sum += self.count(&node.ways[at]);
        }
        increments
    }

    /// Paths that begin somewhere, of which there are several, have tokens where they stop.
    fn tell(&mut self, nodes: &[Node]) {
        let mut seen = vec![false; nodes.len()];
        for (at, node) in nodes.iter().enumerate() {
            let begins = node.starts || self.stops[at];
            if !begins || self.counts[at] < 2 {
                continue;
            }
            let mut waiting = vec![at];
            while let Some(node) = waiting.pop() {
                if std::mem::replace(&mut seen[node], true) {
                    continue;
                }
                for way in &nodes[node].ways {
                    match self.stops[way.to as usize] {
                        true => self.tells[way.to as usize] = true,
                        false => waiting.push(way.to as usize),
                    }
                }
            }
        }
    }

    /// The next way of a path from a node on, whose sum of increments is `sum`; leaves the sum of the rest.
    pub fn next(&self, node: u32, sum: &mut u32) -> Option<usize> {
        let increments = self.increments.get(node as usize)?;
        let ways = increments.iter().enumerate();
        let fits = ways.filter(|(_, increment)| **increment <= *sum);
        // No two ways have the same increment.
        let (at, increment) = fits.max_by_key(|(_, increment)| **increment)?;
        *sum -= increment;
        Some(at)
    }
}

/// Targets of edges that close a cycle without a node that stops.
fn heads(nodes: &[Node], stops: &[bool]) -> Vec<u32> {
    closing(nodes, &|to| stops[to as usize])
}

/// Nodes, one of each cycle in which no node tells.
fn silent_heads(nodes: &[Node], tells: &[bool]) -> Vec<u32> {
    closing(nodes, &|to| tells[to as usize])
}

/// Targets of edges back to a node from which they are reached, without those edges that `is_cut` says by their target.
fn closing(nodes: &[Node], is_cut: &dyn Fn(u32) -> bool) -> Vec<u32> {
    const NEW: u8 = 0;
    const OPEN: u8 = 1;
    const DONE: u8 = 2;
    let mut state = vec![NEW; nodes.len()];
    let mut found = Vec::new();
    let starts = (0..nodes.len()).filter(|at| nodes[*at].starts);
    for start in starts.chain(0..nodes.len()) {
        if state[start] != NEW {
            continue;
        }
        state[start] = OPEN;
        let mut path = vec![(start, 0)];
        while let Some((node, at)) = path.last_mut() {
            let way = nodes[*node].ways.get(*at);
            *at += 1;
            match way.map(|way| way.to) {
                None => {
                    state[*node] = DONE;
                    path.pop();
                }
                Some(to) if is_cut(to) => {}
                Some(to) => match state[to as usize] {
                    NEW => {
                        state[to as usize] = OPEN;
                        path.push((to as usize, 0));
                    }
                    OPEN => found.push(to),
                    _ => {}
                },
            }
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// All nodes, each behind those that it leads to without a stop.
fn order(nodes: &[Node], stops: &[bool]) -> Vec<u32> {
    let mut seen = vec![false; nodes.len()];
    let mut order = Vec::with_capacity(nodes.len());
    for start in 0..nodes.len() {
        if std::mem::replace(&mut seen[start], true) {
            continue;
        }
        let mut path = vec![(start, 0)];
        while let Some((node, at)) = path.last_mut() {
            let way = nodes[*node].ways.get(*at);
            *at += 1;
            match way.map(|way| way.to as usize) {
                None => {
                    order.push(*node as u32);
                    path.pop();
                }
                Some(to) if stops[to] => {}
                Some(to) if !std::mem::replace(&mut seen[to], true) => path.push((to, 0)),
                Some(_) => {}
            }
        }
    }
    order
}
