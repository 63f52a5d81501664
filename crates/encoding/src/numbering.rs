//! Numbers of paths, and what calls add.
//!
//! Approach: functions are numbered callers first. A call has as many numbers of its callee as its caller has; they begin at the first
//! place where so many are free, for calls that add the same in all their callees. A path may begin at a *head*, whose number is one
//! more: at a root, and where a call pushes, as it closes a cycle, comes from nobody knows where, or found no free numbers.
//!
//! A component with cycles may be *unrolled*: its functions are there several times, each time with numbers above those of
//! the time before, so the number says which of them it is. A call that closes a cycle leads from one time to the next, and pushes
//! from the last one only. The program is not changed; a call has several [`Rung`]s.
//!
//! If a function would have too many numbers, calls push, lighter ones first, until few are left: the functions that it calls have
//! no fewer, and so would have too many, too. A function that calls few others is left more.
//!
//! All calls of one function by another have the same numbers, if paths need not say which of them it was.
//!
//! Calls that have to push are known when all are numbered, so that is done again with them, until there are no more.

use std::collections::HashMap;

use crate::graph::{CallGraph, Kind, Order, left};
use crate::ranges::Ranges;

/// The number of a path that begins at a head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Heads {
    /// The last one, so that the heaviest call adds nothing.
    #[default]
    Last,
    /// 0, as the paper has it.
    First,
}

/// Ways to number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Most numbers of a function.
    pub most: u64,
    pub heads: Heads,
    /// Number of additional copies of functions in cycles.
    pub unrolled: u32,
    /// All calls of a function by another add the same: paths say who called, and not where.
    pub by_function: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            most: 1 << 62,
            heads: Heads::Last,
            unrolled: 0,
            by_function: false,
        }
    }
}

/// The step of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It adds a number, and takes it off when it is back.
    Add(u64),
    /// It pushes the number and the site; a path begins at the callee.
    Push,
}

/// The step of a call while the number is below a limit, and not below that of the rung before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rung {
    pub below: u64,
    pub step: Step,
}

/// A function, as often as it is there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Node {
    pub function: u32,
    /// Its numbers are below this.
    pub count: u64,
    /// The number of a path that begins here.
    pub head: Option<u64>,
    /// Numbers of paths that begin here, as the function that was entered goes on as this one; that function among them.
    pub begins: Vec<(u64, u32)>,
    /// Calls of it: where their ranges begin, how many numbers they have, the calling node, and the edge; by their beginnings.
    pub calls: Vec<(u64, u64, u32, u32)>,
}

/// The numbering of a call graph.
#[derive(Clone, Debug)]
pub struct Numbering {
    pub(crate) graph: CallGraph,
    pub(crate) nodes: Vec<Node>,
    /// By function: its nodes, and the number that theirs are below.
    pub(crate) times: Vec<Vec<(u64, u32)>>,
    /// By edge.
    rungs: Vec<Vec<Rung>>,
}

impl Numbering {
    /// Numbers the paths of a graph.
    pub fn of(graph: &CallGraph, options: Options) -> Numbering {
        let order = graph.order();
        let mut plan = Plan::of(graph, &order, options);
        loop {
            let mut new = Builder::new(graph, &order, options, &plan);
            if new.number() {
                return new.finish();
            }
            plan = new.next();
        }
    }

    /// Numbers of a function are below it.
    pub fn count(&self, function: u32) -> u64 {
        let times = self.times[function as usize].iter();
        let counts = times.map(|(_, node)| self.nodes[*node as usize].count);
        counts.max().unwrap_or(0)
    }

    /// The number with which a path begins at a function; `None`: none does.
    pub fn head(&self, function: u32) -> Option<u64> {
        let (_, node) = *self.times[function as usize].first()?;
        self.nodes[node as usize].head
    }

    /// The steps of an edge's call, by the number before it: one rung at least, and the last one has no limit.
    pub fn rungs(&self, edge: u32) -> &[Rung] {
        &self.rungs[edge as usize]
    }

    /// The step of an edge's call where this is the number.
    pub fn step(&self, edge: u32, id: u64) -> Step {
        let mut rungs = self.rungs(edge).iter();
        let rung = rungs.find(|rung| id < rung.below);
        rung.map_or(Step::Push, |rung| rung.step)
    }

    pub fn graph(&self) -> &CallGraph {
        &self.graph
    }
}

/// Calls that push, and functions at which paths begin.
#[derive(Clone, Debug)]
struct Plan {
    pushes: Vec<bool>,
    is_head: Vec<bool>,
    /// By component: how many more times it is there.
    unrolled: Vec<u32>,
}

impl Plan {
    fn of(graph: &CallGraph, order: &Order, options: Options) -> Plan {
        let unrolled = order.has_cycle.iter();
        let unrolled = unrolled.map(|has_cycle| if *has_cycle { options.unrolled } else { 0 });
        let mut plan = Plan {
            pushes: order.is_back.clone(),
            is_head: vec![false; graph.functions as usize],
            unrolled: unrolled.collect(),
        };
        for (edge, pushes) in plan.pushes.iter_mut().enumerate() {
            *pushes &=
                plan.unrolled[order.component[graph.edges[edge].callee as usize] as usize] == 0;
        }
        for &root in &graph.roots {
            plan.is_head[root as usize] = true;
        }
        // Paths go on at a function that closes a cycle when no more times are left, and begin where nobody calls.
        let mut is_called = vec![false; graph.functions as usize];
        for (edge, is_back) in graph.edges.iter().zip(&order.is_back) {
            is_called[edge.callee as usize] |= !is_back;
            plan.is_head[edge.callee as usize] |= is_back;
        }
        for (is_head, is_called) in plan.is_head.iter_mut().zip(is_called) {
            *is_head |= !is_called;
        }
        plan.close(graph, order);
        plan
    }

    /// Calls that add the same push together; so do those of which one closes a cycle.
    fn close(&mut self, graph: &CallGraph, order: &Order) {
        let mut sites = vec![false; graph.sites.len()];
        for (number, edge) in graph.edges.iter().enumerate() {
            let is_shared = graph.sites[edge.site as usize].kind == Kind::Shared;
            sites[edge.site as usize] |=
                is_shared && (self.pushes[number] || order.is_back[number]);
        }
        for (number, edge) in graph.edges.iter().enumerate() {
            self.pushes[number] |= sites[edge.site as usize];
            if self.pushes[number] {
                self.is_head[edge.callee as usize] = true;
            }
        }
    }
}

/// A call between nodes.
#[derive(Clone, Copy, Debug)]
struct Call {
    edge: u32,
    from: u32,
    to: u32,
}

struct Builder<'g> {
    graph: &'g CallGraph,
    order: &'g Order,
    options: Options,
    plan: Plan,
    nodes: Vec<Node>,
    /// First node of each function.
    first: Vec<u32>,
    ranges: Vec<Ranges>,
    /// Calls by the node that they come to, and by that from which they come.
    into: Vec<Vec<Call>>,
    from: Vec<Vec<Call>>,
    /// By function: functions that are entered and may go on as it.
    entered: Vec<Vec<u32>>,
    /// Steps by edge, and by the time of the caller; `None`: not numbered yet.
    steps: Vec<Vec<Option<Step>>>,
    /// With [`Options::by_function`], by the calling node and the nodes that are called: what these calls add.
    added: HashMap<(u32, Vec<u32>), u64>,
    /// By function: the longest row of calls from it.
    heights: Vec<u32>,
    /// By component, and by time: the number that those of its nodes are below.
    limits: Vec<Vec<u64>>,
    is_changed: bool,
}

/// By function: functions that may go on as it, and itself.
fn entered(graph: &CallGraph) -> Vec<Vec<u32>> {
    let mut entered = vec![Vec::new(); graph.functions as usize];
    for function in 0..graph.functions {
        for tail in graph.with_tails(function) {
            entered[tail as usize].push(function);
        }
    }
    entered
}

impl<'g> Builder<'g> {
    fn new(graph: &'g CallGraph, order: &'g Order, options: Options, plan: &Plan) -> Builder<'g> {
        let times = |function: u32| plan.unrolled[order.component[function as usize] as usize] + 1;
        let (mut nodes, mut first) = (Vec::new(), Vec::new());
        for function in 0..graph.functions {
            first.push(nodes.len() as u32);
            let node = || Node {
                function,
                ..Node::default()
            };
            nodes.extend((0..times(function)).map(|_| node()));
        }
        let mut builder = Builder {
            graph,
            order,
            options,
            plan: plan.clone(),
            ranges: vec![Ranges::default(); nodes.len()],
            into: vec![Vec::new(); nodes.len()],
            from: vec![Vec::new(); nodes.len()],
            steps: Vec::new(),
            entered: entered(graph),
            limits: plan
                .unrolled
                .iter()
                .map(|more| vec![0; *more as usize + 1])
                .collect(),
            nodes,
            first,
            added: HashMap::new(),
            heights: order.heights(graph),
            is_changed: false,
        };
        for edge in 0..graph.edges.len() as u32 {
            builder.add(edge, times(graph.caller(edge)));
        }
        for calls in &mut builder.into {
            calls.sort_by_key(|call| std::cmp::Reverse(graph.edges[call.edge as usize].weight));
        }
        builder
    }

    /// Adds the calls of an edge, of each time of its caller.
    fn add(&mut self, edge: u32, times: u32) {
        let caller = self.graph.caller(edge);
        let callee = self.graph.edges[edge as usize].callee;
        let component = |function: u32| self.order.component[function as usize];
        let is_inside = component(caller) == component(callee);
        let is_back = self.order.is_back[edge as usize];
        let mut steps = Vec::new();
        for time in 0..times {
            let to = match (is_inside, is_back) {
                (true, true) => time + 1,
                (true, false) => time,
                (false, _) => 0,
            };
            if self.plan.pushes[edge as usize] || is_back && to == times {
                steps.push(Some(Step::Push));
                continue;
            }
            steps.push(None);
            let call = Call {
                edge,
                from: self.first[caller as usize] + time,
                to: self.first[callee as usize] + to,
            };
            self.into[call.to as usize].push(call);
            self.from[call.from as usize].push(call);
        }
        self.steps.push(steps);
    }

    /// Numbers all; whether that is sound: no call was found that has to push.
    fn number(&mut self) -> bool {
        let functions = &self.order.functions;
        let component = |function: &u32| self.order.component[*function as usize];
        for own in functions.chunk_by(|one, other| component(one) == component(other)) {
            let component = component(&own[0]);
            for time in 0..=self.plan.unrolled[component as usize] {
                self.begin(own, component, time);
                for &function in own {
                    self.number_node(self.first[function as usize] + time);
                }
                let nodes = own
                    .iter()
                    .map(|function| self.first[*function as usize] + time);
                let counts = nodes.map(|node| self.nodes[node as usize].count);
                self.limits[component as usize][time as usize] = counts.max().unwrap_or(0);
            }
        }
        !self.is_changed
    }

    /// Takes numbers that no call has: those of heads, and where a cycle was closed those of the time before.
    fn begin(&mut self, functions: &[u32], component: u32, time: u32) {
        for &function in functions {
            let node = (self.first[function as usize] + time) as usize;
            if time > 0 {
                let calls = &self.into[node];
                let closes = calls
                    .iter()
                    .any(|call| self.order.is_back[call.edge as usize]);
                let below = self.limits[component as usize][time as usize - 1];
                if closes && below > 0 {
                    self.ranges[node].take(0, below);
                }
            } else if self.options.heads == Heads::First {
                self.add_heads(function, 0);
            }
        }
    }

    fn number_node(&mut self, node: u32) {
        let into = std::mem::take(&mut self.into[node as usize]);
        let counts = into.iter().map(|call| self.nodes[call.from as usize].count);
        let all = counts.fold(self.ranges[node as usize].end(), u64::saturating_add);
        let height = self.heights[self.nodes[node as usize].function as usize];
        let most = match all < self.options.most {
            true => self.options.most,
            false => left(self.options.most, height),
        };
        for call in into {
            let time = (call.from - self.first[self.graph.caller(call.edge) as usize]) as usize;
            if self.steps[call.edge as usize][time].is_none() {
                self.number_call(call, time, most);
            }
        }
        let function = self.nodes[node as usize].function;
        if self.first[function as usize] == node {
            self.add_heads(function, self.ranges[node as usize].end());
        }
        self.nodes[node as usize].count = self.ranges[node as usize].end();
    }

    /// Gives the functions that may go on as one the numbers of paths that begin at them, from a number on; there is always room.
    fn add_heads(&mut self, function: u32, from: u64) {
        for entered in self.entered[function as usize].clone() {
            let own = self.first[entered as usize] as usize;
            if !self.plan.is_head[entered as usize] || self.nodes[own].head.is_some() {
                continue;
            }
            let all = self.graph.with_tails(entered);
            let all: Vec<u32> = all.map(|one| self.first[one as usize]).collect();
            let Some(head) = self.free(&all, from, 1) else {
                continue;
            };
            for node in all {
                self.ranges[node as usize].take(head, 1);
                self.nodes[node as usize].begins.push((head, entered));
            }
            self.nodes[own].head = Some(head);
        }
    }

    /// Gives a call, and those that add the same, numbers of their callees.
    fn number_call(&mut self, call: Call, time: usize, most: u64) {
        let site = self.graph.edges[call.edge as usize].site;
        let count = self.nodes[call.from as usize].count;
        let mut together = vec![call];
        if self.graph.sites[site as usize].kind == Kind::Shared {
            let all = self.from[call.from as usize].iter();
            let of_site = all.filter(|other| self.graph.edges[other.edge as usize].site == site);
            together = of_site.copied().collect();
        }
        let mut callees: Vec<u32> = together.iter().map(|call| call.to).collect();
        callees.sort_unstable();
        let own = (call.from, callees.clone());
        let known = self.added.get(&own).filter(|_| self.options.by_function);
        if let Some(&known) = known {
            for call in together {
                self.steps[call.edge as usize][time] = Some(Step::Add(known));
            }
            return;
        }
        let free = self.free(&callees, 0, count);
        let free = free.filter(|first| first.checked_add(count).is_some_and(|end| end < most));
        if let Some(first) = free {
            self.added.insert(own, first);
        }
        for call in together {
            let step = match free {
                Some(first) => {
                    self.ranges[call.to as usize].take(first, count);
                    let calls = &mut self.nodes[call.to as usize].calls;
                    calls.push((first, count, call.from, call.edge));
                    Step::Add(first)
                }
                None => {
                    self.plan.pushes[call.edge as usize] = true;
                    self.is_changed = true;
                    Step::Push
                }
            };
            self.steps[call.edge as usize][time] = Some(step);
        }
    }

    /// The first number, not below `first`, from which on so many are free in all these nodes.
    fn free(&self, nodes: &[u32], mut first: u64, count: u64) -> Option<u64> {
        loop {
            let mut next = first;
            for node in nodes {
                next = self.ranges[*node as usize].free_from(next, count)?;
            }
            if next == first {
                return Some(first);
            }
            first = next;
        }
    }

    /// The plan with the calls that have to push.
    fn next(mut self) -> Plan {
        self.plan.close(self.graph, self.order);
        self.plan
    }

    fn finish(self) -> Numbering {
        let mut nodes = self.nodes;
        for node in &mut nodes {
            node.calls.sort_unstable();
        }
        let times = (0..self.graph.functions).map(|function| {
            let component = self.order.component[function as usize] as usize;
            let limits = self.limits[component].iter();
            let first = self.first[function as usize];
            let mut times: Vec<(u64, u32)> = limits.copied().zip(first..).collect();
            if let Some(last) = times.last_mut() {
                last.0 = u64::MAX;
            }
            times
        });
        let times: Vec<Vec<(u64, u32)>> = times.collect();
        let rungs = self.steps.iter().enumerate().map(|(edge, steps)| {
            let caller = self.graph.caller(edge as u32);
            let belows = times[caller as usize].iter().map(|(below, _)| *below);
            let steps = steps.iter().map(|step| step.unwrap_or(Step::Push));
            let mut rungs: Vec<Rung> = belows
                .zip(steps)
                .map(|(below, step)| Rung { below, step })
                .collect();
            // Neighbours with one step become one rung.
            rungs.dedup_by(|next, before| {
                let is_same = next.step == before.step;
                if is_same {
                    before.below = next.below;
                }
                is_same
            });
            rungs
        });
        Numbering {
            rungs: rungs.collect(),
            graph: self.graph.clone(),
            nodes,
            times,
        }
    }
}
