//! Contexts from a trace: the recording that `everypath contexts` would have made.

use std::cell::RefCell;

use trace::{Cost, Costs as Column, Function, Label, Mode, Process, Recording, Thread};

use super::{Costs, Extent, Met, Rules, Sink, of_recording};
use crate::K;
use crate::cct::{Event, Live, Recursion};
use crate::slabs::Slabs;

/// Options of the recording that is made.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub k: K,
    pub recursion: Recursion,
    pub rules: Rules,
    /// All but cycles, which a trace does not have.
    pub costs: Vec<Cost>,
}

/// Nodes of a thread's contexts in the order of its instructions.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// Number of instructions, and node, as LEB128 each.
    bytes: Vec<u8>,
}

impl Log {
    fn add(&mut self, insns: u64, node: u32) {
        for mut value in [insns, node.into()] {
            while value >= 0x80 {
                self.bytes.push(value as u8 | 0x80);
                value >>= 7;
            }
            self.bytes.push(value as u8);
        }
    }

    /// Stretches in order: a number of instructions, and the node that they are of.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        let mut bytes = self.bytes.iter();
        let mut next = move || {
            let (mut value, mut shift) = (0, 0);
            loop {
                let byte = *bytes.next()?;
                value |= u64::from(byte & 0x7F) << shift;
                shift += 7;
                if byte < 0x80 {
                    return Some(value);
                }
            }
        };
        std::iter::from_fn(move || Some((next()?, next()? as u32)))
    }
}

/// The recording without names, and a sentence for each thread whose stream ends too early.
pub fn recording(
    traced: &Recording,
    wanted: &Wanted,
    extents: &mut dyn FnMut(&Process, u32) -> Vec<Extent>,
) -> (Recording, Vec<String>) {
    let (recording, _, failures) = logged(traced, wanted, extents, false);
    (recording, failures)
}

/// As [`recording`]; if `is_logged`, also the log of each thread, by the indices of process and thread.
pub fn logged(
    traced: &Recording,
    wanted: &Wanted,
    extents: &mut dyn FnMut(&Process, u32) -> Vec<Extent>,
    is_logged: bool,
) -> (Recording, Vec<Vec<Log>>, Vec<String>) {
    let done: RefCell<Vec<Vec<Thread>>> = RefCell::default();
    let logs: RefCell<Vec<Vec<Log>>> = RefCell::default();
    let (functions, failures) = of_recording(
        traced,
        wanted.rules,
        extents,
        |_, _| Contexts::new(wanted, is_logged),
        |process, thread, sink| {
            let mut done = done.borrow_mut();
            done.resize_with(process + 1, Vec::new);
            let mut logs = logs.borrow_mut();
            logs.resize_with(process + 1, Vec::new);
            let mut sink = sink;
            logs[process].push(sink.log.take().unwrap_or_default());
            let thread = &traced.processes[process].threads[thread];
            done[process].push(sink.into_thread(thread));
        },
    );
    let mut done = done.into_inner();
    done.resize_with(traced.processes.len(), Vec::new);
    let mut meta = traced.meta.clone();
    meta.mode = Mode::Contexts;
    meta.k = match wanted.k {
        K::Finite(k) => Some(k),
        K::Infinite => None,
    };
    meta.unroll = wanted.recursion == Recursion::Unrolled;
    let all = traced.processes.iter().zip(functions).zip(done);
    let processes = all.map(|((process, met), threads)| of_process(process, &met, threads));
    let processes = processes.collect();
    let mut logs = logs.into_inner();
    logs.resize_with(traced.processes.len(), Vec::new);
    (traced.in_form(meta, processes), logs, failures)
}

fn of_process(process: &Process, met: &[Met], threads: Vec<Thread>) -> Process {
    let nodes = threads.iter().flat_map(|thread| &thread.nodes);
    let mut used = vec![false; met.len()];
    for number in nodes.filter_map(|node| node.label.function_number()) {
        used[number as usize] = true;
    }
    let functions = (0..).zip(met).zip(used).filter(|(_, used)| *used);
    let functions = functions.map(|((number, met), _)| {
        let module = met.module.and_then(|at| process.modules.get(at as usize));
        let offset = module.map(|module| {
            module
                .offset
                .wrapping_add(met.pc.wrapping_sub(module.start))
        });
        Function {
            id: Label::function(number).0,
            pc: met.pc,
            module: met.module.filter(|_| module.is_some()),
            file_offset: offset.unwrap_or(0),
            ..Function::default()
        }
    });
    Process {
        functions: functions.collect(),
        threads,
        exe: process.exe.clone(),
        args: process.args.clone(),
        modules: process.modules.clone(),
        blocks: Vec::new(),
        fragments: Vec::new(),
        cuts: Vec::new(),
        jumps: Vec::new(),
        targets: Vec::new(),
        sources: Vec::new(),
        texts: Vec::new(),
        stats: process.stats.clone(),
        ..*process
    }
}

/// The nodes of a thread.
struct Contexts<'w> {
    wanted: &'w Wanted,
    slabs: Slabs,
    /// By node.
    costs: Vec<Costs>,
    /// States of what is live.
    stack: Live<u32>,
    /// Executed costs up to which nodes have theirs.
    settled: Costs,
    muted: bool,
    max_depth: usize,
    log: Option<Log>,
}

impl Contexts<'_> {
    fn new(wanted: &Wanted, is_logged: bool) -> Contexts<'_> {
        Contexts {
            wanted,
            slabs: Slabs::new(wanted.k),
            costs: Vec::new(),
            stack: Live::default(),
            settled: [0; 4],
            muted: false,
            max_depth: 0,
            log: is_logged.then(Log::default),
        }
    }

    /// Adds the costs executed up to now to the newest activation.
    fn settle(&mut self, at: Costs) {
        let ran: Costs = std::array::from_fn(|cost| at[cost].saturating_sub(self.settled[cost]));
        self.settled = at;
        let node = match self.muted {
            true => self.slabs.node(None, Label::MUTED),
            false => match self.stack.last() {
                Some(&state) => state,
                None => self.slabs.node(None, Label::THREAD),
            },
        };
        if let Some(log) = self.log.as_mut().filter(|_| ran[0] > 0) {
            log.add(ran[0], node);
        }
        self.costs.resize(self.slabs.nodes.len(), [0; 4]);
        for (sum, ran) in self.costs[node as usize].iter_mut().zip(ran) {
            *sum += ran;
        }
    }

    /// Whether an activation has begun.
    fn step(&mut self, event: Event) -> bool {
        if self.stack.switch(event) {
            return false;
        }
        let state = match (event, self.stack.last()) {
            (Event::Begin(label), _) | (Event::Enter(label), None) => self.slabs.node(None, label),
            (Event::Enter(label), Some(&state)) => {
                let caller = self.slabs.nodes[state as usize].label;
                match self.wanted.recursion.rolls(caller, label) {
                    true => state,
                    false => self.slabs.step(state, label),
                }
            }
            _ => {
                self.stack.pop();
                return false;
            }
        };
        self.stack.push(state);
        self.max_depth = self.max_depth.max(self.stack.items().len());
        true
    }

    fn into_thread(mut self, thread: &Thread) -> Thread {
        self.costs.resize(self.slabs.nodes.len(), [0; 4]);
        let column = |&cost: &Cost| Column {
            cost,
            values: self.costs.iter().map(|costs| costs[cost.index()]).collect(),
        };
        Thread {
            tid: thread.tid,
            start_ns: thread.start_ns,
            end_ns: thread.end_ns,
            missing: thread.missing,
            insns: self.settled[0],
            max_depth: self.max_depth as u64,
            costs: self.wanted.costs.iter().map(column).collect(),
            nodes: self.slabs.nodes,
            ..Thread::default()
        }
    }
}

impl Sink for Contexts<'_> {
    fn event(&mut self, event: Event, at: Costs) {
        if at != self.settled {
            self.settle(at);
        }
        if self.step(event)
            && let Some(&state) = self.stack.last()
        {
            self.slabs.nodes[state as usize].count += 1;
        }
    }

    fn muted(&mut self, is: bool, at: Costs) {
        self.settle(at);
        self.muted = is;
        if is {
            let node = self.slabs.node(None, Label::MUTED);
            self.slabs.nodes[node as usize].count += 1;
        }
    }

    fn inherited(&mut self, events: &[Event]) {
        for &event in events {
            self.step(event);
        }
        // That the thread began is its own.
        if let Some(&root) = self.stack.items().first() {
            self.slabs.nodes[root as usize].count += 1;
        }
    }

    fn end(&mut self, at: Costs) {
        if at != self.settled {
            self.settle(at);
        }
    }
}
