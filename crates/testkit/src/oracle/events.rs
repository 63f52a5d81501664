//! Events of a run, and the forests that the definitions make of them.
//!
//! The stepper only notes when activations begin and end. Which of them are
//! selected, and which contexts they have for which k, is decided afterwards
//! by filters over this list and by the definitions in `analysis::oracle`.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use super::accesses::Made;
use analysis::cct::{self, Event, Live, Recursion};
use analysis::{Forest, K, oracle};
use trace::Label;

use super::blocks::{Ran, Spot};
use super::code::ProgramPc;
use crate::tree::Tree;

/// An event with its place in the order of the whole run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Steps made before it, in all threads.
    pub step: u64,
    /// Instructions that its thread retired before it.
    pub retired: u64,
    /// The beginning or end.
    pub event: Event,
}

/// A function that was entered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// As the product prints it.
    pub name: String,
    /// File name of its module, empty for code that is in no file.
    pub module: String,
}

/// Events and totals of one thread.
#[derive(Clone, Debug)]
pub struct ThreadCount {
    /// Its process, as an index into [`Counts::processes`].
    pub process: usize,
    /// Instructions retired.
    pub instructions: u64,
    /// Which of them were branches, loads and stores: 1 for each.
    pub classes: Vec<[u8; 3]>,
    /// Events that happened in the parent before the fork.
    pub inherited: usize,
    /// Every instruction that was executed, by name of its file and offset there
    /// (without a file, by address).
    pub executed: HashMap<(String, u64), Executions>,
    /// Everything that began and ended.
    pub events: Vec<Moment>,
    /// Every instruction, if that was asked for, and what is known of where they are.
    pub ran: Vec<Ran>,
    pub spots: HashMap<ProgramPc, Spot>,
    /// Accesses that general registers say, each with the index in `ran` of its instruction.
    pub accesses: Vec<(usize, Made)>,
    /// Indices in `ran` of system calls.
    pub calls: Vec<usize>,
    /// Which instructions ran in lazy binding.
    pub muted: Vec<Range<u64>>,
}

/// How often an instruction was executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Executions {
    /// In all.
    pub count: u64,
    /// Number of executions after which the next instruction followed.
    pub fell: u64,
}

/// Events and totals of one run. Threads stand in the order of their creation.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// One entry per thread, the main thread first.
    pub threads: Vec<ThreadCount>,
    /// The functions of every process, by label; exec makes a new process.
    pub processes: Vec<Vec<Function>>,
}

/// Selection and form of the counted contexts.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    /// Callers that a context keeps.
    pub k: K,
    /// Whether recursion of one function is rolled into one node.
    pub recursion: Recursion,
    /// The functions that exist at all; `None` for every one.
    pub selected: Option<&'a dyn Fn(&Function) -> bool>,
    /// Without the root that stands for functions that were not selected.
    pub rootless: bool,
    /// Nothing that began before this function was entered first.
    pub start: Option<&'a str>,
    /// Nothing from the moment when this function is entered.
    pub stop: Option<&'a str>,
}

/// Instructions, and of them branches, loads and stores, by path.
pub type CostsByContext = BTreeMap<Vec<String>, [u64; 4]>;

fn plus(a: [u64; 4], b: [u64; 4]) -> [u64; 4] {
    std::array::from_fn(|i| a[i] + b[i])
}

impl ThreadCount {
    /// Every event, whether it is a call, and what the instructions until the next one cost,
    /// but for those of lazy binding.
    fn spent(&self) -> Vec<(Event, [u64; 5])> {
        let ends = self.events.iter().skip(1).map(|moment| moment.retired);
        let ends = ends.chain([self.instructions]);
        let moments = self.events.iter().zip(ends);
        let costs = |(moment, end): (&Moment, u64)| {
            let ran = moment.retired..end.max(moment.retired);
            let muted = |muted: &Range<u64>| {
                let start = muted.start.max(ran.start);
                self.costs(start..muted.end.min(ran.end).max(start))
            };
            let muted = self.muted.iter().map(muted).fold([0; 4], plus);
            let [all, branches, loads, stores] = self.costs(ran.clone());
            let is_call = u64::from(matches!(moment.event, Event::Enter(_)));
            let costs = [
                is_call,
                all - muted[0],
                branches - muted[1],
                loads - muted[2],
                stores - muted[3],
            ];
            (moment.event, costs)
        };
        moments.map(costs).collect()
    }

    /// Costs of the instructions with these numbers.
    fn costs(&self, numbers: Range<u64>) -> [u64; 4] {
        let of = |&[branch, load, store]: &[u8; 3]| [1, branch, load, store].map(u64::from);
        let run = &self.classes[numbers.start as usize..numbers.end as usize];
        run.iter().map(of).fold([0; 4], plus)
    }
}

impl Wanted<'_> {
    /// Every function in its whole context.
    pub const EVERYTHING: Wanted<'static> = Wanted {
        k: K::Infinite,
        recursion: Recursion::Rolled,
        selected: None,
        rootless: false,
        start: None,
        stop: None,
    };
}

impl Counts {
    /// Instructions of all threads.
    #[must_use]
    pub fn instructions(&self) -> u64 {
        self.threads.iter().map(|thread| thread.instructions).sum()
    }

    /// Every instruction that was executed, by all threads together.
    #[must_use]
    pub fn executed(&self) -> HashMap<(String, u64), Executions> {
        let mut all: HashMap<(String, u64), Executions> = HashMap::new();
        for (place, executions) in self.threads.iter().flat_map(|thread| &thread.executed) {
            let sum = all.entry(place.clone()).or_default();
            sum.count += executions.count;
            sum.fell += executions.fell;
        }
        all
    }

    /// The k-slab forest of every thread.
    #[must_use]
    pub fn slab_forests(&self, wanted: &Wanted<'_>) -> Vec<Tree> {
        self.forests(wanted, |events| match wanted.k {
            // With one slab it is the calling context tree.
            K::Infinite => cct::build(events, wanted.recursion),
            k => oracle::ksf_online(events, k, wanted.recursion),
        })
    }

    /// The k-calling-context forest of every thread, by definition 5.
    #[must_use]
    pub fn calling_context_forests(&self, wanted: &Wanted<'_>) -> Vec<Tree> {
        self.forests(wanted, |events| {
            oracle::kccf(events, wanted.k, wanted.recursion)
        })
    }

    /// All functions in their whole contexts, of all threads together.
    #[must_use]
    pub fn joined(&self) -> Tree {
        Tree::joined(&self.slab_forests(&Wanted::EVERYTHING))
    }

    /// The costs of every context, by the names on its path, the thread's root
    /// left out; all threads together. Recursion is rolled.
    #[must_use]
    pub fn costs_by_context(&self) -> CostsByContext {
        let mut sums = CostsByContext::new();
        for thread in &self.threads {
            let functions = &self.processes[thread.process];
            let name = |label| match function(functions, label) {
                Some(function) => function.name.clone(),
                None => label.to_string(),
            };
            // The paths of all live activations.
            let mut live: Live<Vec<Label>> = Live::default();
            let mut before = 0;
            let mut add = |path: Option<&Vec<Label>>, ran: Range<u64>| {
                let meet = |muted: &Range<u64>| {
                    let (start, end) = (muted.start.max(ran.start), muted.end.min(ran.end));
                    thread.costs(start..end.max(start))
                };
                let muted = thread.muted.iter().map(meet).fold([0; 4], plus);
                let sum = sums.entry(vec![Label::MUTED.to_string()]).or_default();
                *sum = plus(*sum, muted);
                let all = thread.costs(ran);
                let costs = std::array::from_fn(|i| all[i] - muted[i]);
                let path = path.map_or(&[][..], |path| &path[..]);
                let names = match path {
                    [Label::THREAD, rest @ ..] if !rest.is_empty() => rest,
                    all => all,
                };
                let names = names.iter().map(|&label| name(label));
                let sum = sums.entry(names.collect()).or_default();
                *sum = plus(*sum, costs);
            };
            for moment in &thread.events {
                if moment.retired > before {
                    add(live.last(), before..moment.retired);
                    before = moment.retired;
                }
                match moment.event {
                    Event::Leave => drop(live.pop()),
                    Event::Begin(label) => live.push(vec![label]),
                    Event::Enter(label) => {
                        let mut path = live.last().cloned().unwrap_or_default();
                        if path.last() != Some(&label) {
                            path.push(label);
                        }
                        live.push(path);
                    }
                    event => drop(live.switch(event)),
                }
            }
            add(live.last(), before..thread.instructions);
        }
        sums.retain(|_, costs| *costs != [0; 4]);
        sums
    }

    /// Calls and costs of every context of k callers with all that was called from it, by
    /// the names on its path, as `paths` makes them of a whole one; all threads together.
    #[must_use]
    pub fn inclusive(
        &self,
        k: u32,
        paths: fn(&[Label], u32) -> Vec<Vec<Label>>,
    ) -> BTreeMap<Vec<String>, [u64; 5]> {
        let mut sums: BTreeMap<Vec<String>, [u64; 5]> = BTreeMap::new();
        for thread in &self.threads {
            let functions = &self.processes[thread.process];
            let name = |&label: &Label| match function(functions, label) {
                Some(function) => function.name.clone(),
                None => label.to_string(),
            };
            let spent = thread.spent();
            for at in 0..5 {
                let spent: Vec<(Event, u64)> = spent
                    .iter()
                    .map(|&(event, costs)| (event, costs[at]))
                    .collect();
                let rolled = Recursion::Rolled;
                let inclusive = oracle::inclusive(&spent, rolled, |path| paths(path, k));
                for (path, value) in inclusive {
                    sums.entry(path.iter().map(name).collect()).or_default()[at] += value;
                }
            }
        }
        sums.retain(|_, costs| *costs != [0; 5]);
        sums
    }

    fn forests(&self, wanted: &Wanted<'_>, make: impl Fn(&[Event]) -> Forest) -> Vec<Tree> {
        let bounds = self.bounds(wanted);
        let tree = |thread: &ThreadCount| {
            let functions = &self.processes[thread.process];
            let named = |moments: &[Moment]| {
                let bounds = &bounds[&thread.process];
                let events = filtered(moments, functions, wanted, bounds);
                self.named(&make(&events), functions)
            };
            let inherited = &thread.events[..thread.inherited];
            // The parent's events are on the path of the child, not its own;
            // that the thread began is.
            let mut tree = named(&thread.events).less(&named(inherited));
            if let Some(root) = tree.first_root()
                && thread.inherited > 0
            {
                tree.count(root, 1);
            }
            tree
        };
        self.threads.iter().map(tree).collect()
    }

    /// A function that was entered in a process.
    pub(super) fn function(&self, process: usize, label: Label) -> &Function {
        function(&self.processes[process], label).expect("what is entered is in the list")
    }

    fn named(&self, forest: &Forest, functions: &[Function]) -> Tree {
        Tree::of_forest(forest, |label| {
            function(functions, label).map(|f| f.name.clone())
        })
    }

    /// When the first `start` came in every process, and the first `stop` after.
    fn bounds(&self, wanted: &Wanted<'_>) -> HashMap<usize, Bounds> {
        let mut bounds: HashMap<usize, Bounds> = HashMap::new();
        for thread in &self.threads {
            let bound = bounds.entry(thread.process).or_default();
            bound.started = match wanted.start {
                None => 0,
                Some(name) => bound.started.min(self.entered(thread, name, 0)),
            };
        }
        for thread in &self.threads {
            let bound = bounds.entry(thread.process).or_default();
            if let Some(name) = wanted.stop {
                bound.stopped = bound.stopped.min(self.entered(thread, name, bound.started));
            }
        }
        bounds
    }

    /// The first step from `since` on at which `thread` entered `name`.
    fn entered(&self, thread: &ThreadCount, name: &str, since: u64) -> u64 {
        let functions = &self.processes[thread.process];
        let entered = thread.events.iter().find(|moment| match moment.event {
            Event::Enter(label) => {
                moment.step >= since && function(functions, label).is_some_and(|f| f.name == name)
            }
            _ => false,
        });
        entered.map_or(u64::MAX, |moment| moment.step)
    }
}

/// Steps at which counting began and ended in a process.
struct Bounds {
    started: u64,
    stopped: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            started: u64::MAX,
            stopped: u64::MAX,
        }
    }
}

fn function(functions: &[Function], label: Label) -> Option<&Function> {
    let index = label.0.checked_sub(wire::node::FIRST_FUNC)?;
    functions.get(index as usize)
}

/// The events of a thread as if only what is wanted existed.
fn filtered(
    moments: &[Moment],
    functions: &[Function],
    wanted: &Wanted<'_>,
    bounds: &Bounds,
) -> Vec<Event> {
    let mut events = Vec::with_capacity(moments.len());
    // Whether each live activation exists.
    let mut open: Live<bool> = Live::default();
    for moment in moments {
        let (kept, event) = match moment.event {
            Event::Leave => {
                if open.pop() == Some(true) {
                    events.push(Event::Leave);
                }
                continue;
            }
            // A root is there whatever is counted below it.
            Event::Begin(Label::THREAD) if wanted.selected.is_some() => {
                (!wanted.rootless, Event::Begin(Label::ROOT))
            }
            Event::Begin(_) => (true, moment.event),
            Event::Enter(label) => {
                let counting = (bounds.started..bounds.stopped).contains(&moment.step);
                let selected =
                    |is: &dyn Fn(&Function) -> bool| function(functions, label).is_some_and(is);
                let kept = counting && wanted.selected.is_none_or(selected);
                (kept, moment.event)
            }
            // The newest one that exists goes on there.
            Event::Bridge(_) => (true, moment.event),
            Event::NewStack { .. } | Event::Stack(_) => {
                open.switch(moment.event);
                events.push(moment.event);
                continue;
            }
        };
        open.push(kept);
        if kept {
            events.push(event);
        }
    }
    events
}
