//! Call graphs, and in which order their functions are numbered.

/// A place that calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// The function that it is in.
    pub caller: u32,
    pub kind: Kind,
}

/// The functions that a site may call are those of its edges, and perhaps others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Each call may add another number, so the site knows which function it calls.
    Closed,
    /// All calls add the same: the site does not know which function it calls, or the one goes on as the other.
    Shared,
    /// It may call other functions, too.
    Open,
}

/// A function that a site calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    pub site: u32,
    pub callee: u32,
    /// Number of calls, as it is expected.
    pub weight: u64,
}

/// A call graph. All numbers are below those of what they name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallGraph {
    /// Number of functions.
    pub functions: u32,
    pub sites: Vec<Site>,
    pub edges: Vec<Edge>,
    /// Functions that others enter: the first one, and those whose address is taken.
    pub roots: Vec<u32>,
    /// By function, and empty if there are none at all: functions as which it may go on, these, too, so that who called it does not
    /// know which one returns. A site that calls it is [`Kind::Shared`], and has edges to them.
    pub tails: Vec<Vec<u32>>,
}

/// The order of functions, and of their strongly connected components.
#[derive(Debug)]
pub(crate) struct Order {
    /// Edges that close a cycle, by their number.
    pub is_back: Vec<bool>,
    /// Functions: without back edges, callers come before those that they call.
    pub functions: Vec<u32>,
    /// Number of each function's component, in such an order, too; and whether it has a cycle.
    pub component: Vec<u32>,
    pub has_cycle: Vec<bool>,
}

impl CallGraph {
    /// A function, and those as which it may go on.
    pub(crate) fn with_tails(&self, function: u32) -> impl Iterator<Item = u32> + '_ {
        let tails = self.tails.get(function as usize).into_iter().flatten();
        [function].into_iter().chain(tails.copied())
    }

    /// The function that an edge comes from.
    pub fn caller(&self, edge: u32) -> u32 {
        let site = self.edges[edge as usize].site;
        self.sites[site as usize].caller
    }

    /// Edges by the function that they come from, the heaviest first.
    fn edges_by_caller(&self) -> Vec<Vec<u32>> {
        let mut out = vec![Vec::new(); self.functions as usize];
        for edge in 0..self.edges.len() as u32 {
            out[self.caller(edge) as usize].push(edge);
        }
        for edges in &mut out {
            edges.sort_by_key(|edge| std::cmp::Reverse(self.edges[*edge as usize].weight));
        }
        out
    }

    /// Goes through the graph in depth, from the roots first. Edges that come to a function that is still being visited close cycles.
    pub(crate) fn order(&self) -> Order {
        let out = self.edges_by_caller();
        let mut is_back = vec![false; self.edges.len()];
        let all = self.roots.iter().copied().chain(0..self.functions);
        let callees = |function: u32| {
            let edges = out[function as usize].iter();
            edges.map(|edge| (*edge, self.edges[*edge as usize].callee))
        };
        let mut finished = Vec::new();
        visit(all, self.functions, &callees, &mut finished, &mut |edge| {
            is_back[edge as usize] = true;
        });
        finished.reverse();
        let mut into = vec![Vec::new(); self.functions as usize];
        for (number, edge) in (0..).zip(&self.edges) {
            into[edge.callee as usize].push((number, self.caller(number)));
        }
        let callers = |function: u32| into[function as usize].iter().copied();
        // Functions from which one is reached, and that were not visited before, are its component (Kosaraju).
        let mut component = vec![0; self.functions as usize];
        let mut seen = vec![false; self.functions as usize];
        let mut components = 0;
        for &function in &finished {
            if seen[function as usize] {
                continue;
            }
            let mut waiting = vec![function];
            seen[function as usize] = true;
            while let Some(one) = waiting.pop() {
                component[one as usize] = components;
                for (_, caller) in callers(one) {
                    if !std::mem::replace(&mut seen[caller as usize], true) {
                        waiting.push(caller);
                    }
                }
            }
            components += 1;
        }
        let mut has_cycle = vec![false; components as usize];
        for (edge, is_back) in self.edges.iter().zip(&is_back) {
            has_cycle[component[edge.callee as usize] as usize] |= is_back;
        }
        finished.sort_by_key(|function| component[*function as usize]);
        Order {
            is_back,
            functions: finished,
            component,
            has_cycle,
        }
    }
}

/// Numbers of a function that would have too many are fewer by this many bits, or by the longest row of calls from it.
const LEFT_BITS: u32 = 16;

/// Most numbers that are left to a function which would have more than `most`.
pub(crate) fn left(most: u64, height: u32) -> u64 {
    (most >> height.min(LEFT_BITS)).max(2)
}

impl Order {
    /// The longest row of calls from each function, without those that close cycles.
    pub fn heights(&self, graph: &CallGraph) -> Vec<u32> {
        let mut heights = vec![0; graph.functions as usize];
        let mut from = vec![Vec::new(); graph.functions as usize];
        for (number, edge) in (0..).zip(&graph.edges) {
            if !self.is_back[number as usize] {
                from[graph.caller(number) as usize].push(edge.callee);
            }
        }
        for &function in self.functions.iter().rev() {
            let callees = from[function as usize].iter();
            let below = callees.map(|callee| heights[*callee as usize] + 1);
            heights[function as usize] = below.max().unwrap_or(0);
        }
        heights
    }
}

/// Visits functions in depth; `finished` gets each behind those that it calls, `back` the edges that close cycles.
fn visit<I: Iterator<Item = (u32, u32)>>(
    starts: impl Iterator<Item = u32>,
    functions: u32,
    callees: &dyn Fn(u32) -> I,
    finished: &mut Vec<u32>,
    back: &mut dyn FnMut(u32),
) {
    #[derive(Clone, Copy, PartialEq)]
    enum Seen {
        No,
        Open,
        Done,
    }
    let mut seen = vec![Seen::No; functions as usize];
    for start in starts {
        if seen[start as usize] != Seen::No {
            continue;
        }
        seen[start as usize] = Seen::Open;
        let mut path = vec![(start, callees(start))];
        while let Some((function, rest)) = path.last_mut() {
            let Some((edge, callee)) = rest.next() else {
                seen[*function as usize] = Seen::Done;
                finished.push(*function);
                path.pop();
                continue;
            };
            match seen[callee as usize] {
                Seen::No => {
                    seen[callee as usize] = Seen::Open;
                    path.push((callee, callees(callee)));
                }
                Seen::Open => back(edge),
                Seen::Done => {}
            }
        }
    }
}
