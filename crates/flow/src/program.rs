//! All functions of a file, with their graphs.
//!
//! Approach, until nothing changes:
//! 1. Functions with their parts are the extents of `image`; code that is called or that a relocation points to
//!    outside of them is a *hidden* one.
//! 2. Each function's graph is made, its tables are read, and its graph is made again with their targets.
//! 3. Jumps and calls into the middle of a function, and addresses of such a place that code takes, give it another entry.
//! 4. Functions that do not return are found, and their callers' graphs made again.
//!
//! Functions without tables are made by all processors: what comes of one depends on no other one of the same round. Tables end where
//! others begin, so functions with tables are made one after the other.

mod bare;
mod jumps;
mod taken;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;

use image::{CallSite, Cfa, ExtentKind, Image, LinkAddr, Relocations, Unwind};
use isa::Flow;
use rayon::prelude::*;

use crate::code::Code;
use crate::descent::{Calls, Descent};
use crate::function::{Evidence, Function};
use crate::graph::{EdgeKind, Graph, To};
use crate::processors::with_processors;
use crate::tables::{Found, JumpTable};
use crate::{Failed, Gate, returns, shapes};

/// Functions that are followed together.
const AT_ONCE: usize = 1024;
/// Rounds of new functions, entries and functions that do not return.
const MOST_ROUNDS: usize = 8;
/// Rounds of new targets in a function: switches in cases of others.
const MOST_TABLES: usize = 8;
/// Least labels of a computed goto; one address inside a function is taken for another reason.
const LEAST_LABELS: usize = 2;
/// Most labels of a computed goto; code without unwind tables may look like one function with all its
/// pointers.
const MOST_LABELS: usize = 2048;
/// Bytes in which the jump of a stub of the dynamic linker stands.
const STUB: u64 = 16;

/// Functions of a file.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// By entry.
    pub functions: Vec<Function>,
    /// Words that the dynamic linker fills, and names of what it puts there.
    pub slots: HashMap<LinkAddr, String>,
    /// Stubs of the dynamic linker, and the words that they jump by.
    pub stubs: BTreeMap<LinkAddr, LinkAddr>,
    /// Bytes of code.
    pub code: u64,
    /// Bytes of code in no function, no stub of the dynamic linker and no padding.
    outside: u64,
}

impl Program {
    /// The functions of `image`, which was opened whole.
    pub fn of(image: &Image) -> Program {
        let code = Code::of(image);
        let relocations = Relocations::of(image);
        let mut making = Making {
            unwind: Unwind::of(image),
            code: &code,
            pointers: relocations.pointers,
            own_slots: relocations.own,
            program: Program {
                slots: relocations.slots,
                code: code.len() as u64,
                ..Program::default()
            },
            owners: BTreeMap::new(),
            by_entry: HashMap::new(),
            references: BTreeSet::new(),
            taken: BTreeSet::new(),
            start: image.entry(),
            first_taken: HashSet::new(),
            guesses: HashSet::new(),
            looked_at: BTreeSet::new(),
            unexplained: HashMap::new(),
            silent: HashSet::new(),
            silent_slots: HashSet::new(),
        };
        making.begin(image);
        with_processors(|| making.run());
        for function in &mut making.program.functions {
            function.evidence.taken = making.references.contains(&function.entry.0);
        }
        making.program.outside = making.outside();
        making
            .program
            .functions
            .sort_by_key(|function| function.entry);
        making.program
    }

    /// Bytes of code in no function, no stub of the dynamic linker and no padding.
    pub fn code_outside(&self) -> u64 {
        self.outside
    }

    /// The function with an address.
    pub fn function_at(&self, addr: LinkAddr) -> Option<&Function> {
        let holds =
            |function: &&Function| function.ranges.iter().any(|range| range.contains(&addr));
        let after = self
            .functions
            .partition_point(|function| function.entry <= addr);
        let near = after.checked_sub(1).map(|at| &self.functions[at]);
        near.filter(holds)
            .or_else(|| self.functions.iter().find(holds))
    }

    /// The function that begins at an address.
    pub fn function_from(&self, entry: LinkAddr) -> Option<&Function> {
        let found = self
            .functions
            .binary_search_by_key(&entry, |function| function.entry);
        found.ok().map(|at| &self.functions[at])
    }

    /// Name of what an edge leads to.
    pub fn name_of(&self, to: To) -> Option<&str> {
        match to {
            To::Slot(slot) => self.slots.get(&slot).map(String::as_str),
            To::Address(addr) => match self.stubs.get(&addr) {
                Some(slot) => self.slots.get(slot).map(String::as_str),
                None => self.function_from(addr)?.name.as_deref(),
            },
            _ => None,
        }
    }
}

/// A program that is being made.
struct Making<'d> {
    unwind: Unwind<'d>,
    code: &'d Code<'d>,
    /// Addresses that relocations have, sorted.
    pointers: Vec<LinkAddr>,
    /// Slots of functions of this file.
    own_slots: HashSet<LinkAddr>,
    program: Program,
    /// Ranges of functions: their ends and indices by their starts.
    owners: BTreeMap<u64, (u64, usize)>,
    by_entry: HashMap<u64, usize>,
    /// Addresses that instructions have: a table ends where another one begins.
    references: BTreeSet<u64>,
    /// Addresses of code that instructions take, and those of them that were looked at.
    taken: BTreeSet<u64>,
    looked_at: BTreeSet<u64>,
    /// The function that the program begins with, and the addresses that its instructions take.
    start: LinkAddr,
    first_taken: HashSet<u64>,
    /// Functions of which nothing is known but that an instruction takes their address.
    guesses: HashSet<u64>,
    /// Taken addresses of bytes that no block explained, by function.
    unexplained: HashMap<usize, BTreeSet<u64>>,
    /// Functions, and slots, that do not return.
    silent: HashSet<u64>,
    silent_slots: HashSet<u64>,
}

/// A function whose control was followed, but for jump tables.
struct Descended {
    descent: Descent,
    entries: Vec<u64>,
    /// Entries among them that are new.
    taken: Vec<LinkAddr>,
    sites: Vec<CallSite>,
    /// It has no unwind table.
    is_bare: bool,
    /// It is a function, and no part of another one.
    is_called: bool,
    failed: Vec<Failed>,
}

/// The graph of a function.
struct Made {
    graph: Graph,
    tables: Vec<JumpTable>,
    tail_jumps: Vec<LinkAddr>,
    failed: Vec<Failed>,
}

impl Made {
    fn put(self, function: &mut Function, others: Vec<LinkAddr>) {
        function.others.extend(others);
        function.others.sort_unstable();
        function.others.dedup();
        function.tables = self.tables;
        function.graph = self.graph;
        function.tail_jumps = self.tail_jumps;
        function.failed = self.failed;
    }
}

impl Calls for Making<'_> {
    fn returns(&self, target: u64) -> bool {
        match self.program.stubs.get(&LinkAddr(target)) {
            Some(slot) => self.slot_returns(slot.0),
            None => !self.silent.contains(&target),
        }
    }

    fn slot_returns(&self, slot: u64) -> bool {
        !self.silent_slots.contains(&slot)
    }

    fn is_entry(&self, addr: u64) -> bool {
        self.by_entry.contains_key(&addr)
    }
}

impl Making<'_> {
    /// Takes the functions of `image`.
    fn begin(&mut self, image: &Image) {
        let starts: HashSet<u64> = self.unwind.ranges().map(|range| range.start.0).collect();
        let mut owners: BTreeMap<u64, Function> = BTreeMap::new();
        for extent in image.functions() {
            let (Some(start), Some(owner)) =
                (image.link_addr(extent.start), image.link_addr(extent.owner))
            else {
                continue;
            };
            let end = LinkAddr(start.0 + extent.size());
            if extent.kind == ExtentKind::Plt {
                self.add_stubs(start.0..end.0);
                continue;
            }
            let function = owners.entry(owner.0).or_default();
            function.entry = owner;
            match start == owner {
                true => {
                    function.name = extent.name.map(|name| image.name(name).to_owned());
                    function.evidence.named = extent.name.is_some();
                    function.evidence.unwind = starts.contains(&start.0);
                    function.evidence.pointer = self.pointers.binary_search(&start).is_ok();
                    function.ranges.insert(0, start..end);
                }
                false => function.ranges.push(start..end),
            }
        }
        self.silent_slots = self
            .program
            .slots
            .iter()
            .filter(|(slot, name)| match self.own_slots.contains(slot) {
                true => returns::is_reserved(name),
                false => returns::is_known(name),
            })
            .map(|(slot, _)| slot.0)
            .collect();
        for (_, function) in owners {
            self.add(function);
        }
    }

    fn add(&mut self, function: Function) {
        let index = self.program.functions.len();
        if function.name.as_deref().is_some_and(returns::is_reserved) {
            self.silent.insert(function.entry.0);
        }
        self.by_entry.insert(function.entry.0, index);
        for range in &function.ranges {
            self.owners.insert(range.start.0, (range.end.0, index));
        }
        self.program.functions.push(function);
    }

    /// The words that stubs jump by.
    fn add_stubs(&mut self, range: Range<u64>) {
        for start in (range.start..range.end).step_by(8) {
            let mut addr = start;
            while addr < range.end.min(start + STUB) {
                let Some(insn) = self.code.stub_insn(addr) else {
                    break;
                };
                if insn.flow() == Flow::IndirectJump {
                    if let Some((slot, _)) = insn.rip_relative() {
                        self.program.stubs.insert(LinkAddr(start), LinkAddr(slot));
                    }
                    break;
                }
                if insn.flow() != Flow::Next || !insn.is_landing() {
                    break;
                }
                addr = insn.next_pc();
            }
        }
    }

    /// Bytes of code in no function, no stub and no padding.
    fn outside(&self) -> u64 {
        let mut outside = 0;
        for (start, end) in self.code.ranges() {
            let mut at = start;
            let mut stubs = self.program.stubs.range(LinkAddr(start)..LinkAddr(end));
            if stubs.next().is_some() {
                continue;
            }
            while at < end {
                let next = self.owners.range(at..end).next();
                let (from, to) = next.map_or((end, end), |(&from, &(to, _))| (from, to));
                outside += self.code.without_padding(at, from);
                at = to.max(at + 1);
            }
        }
        outside
    }

    /// Whether an address is in a part of a function that is not its beginning.
    fn is_part(&self, addr: u64) -> bool {
        let before = self.owners.range(..=addr).next_back();
        before.is_some_and(|(&start, &(end, index))| {
            addr < end && self.program.functions[index].entry.0 != start
        })
    }

    /// Index of the function with an address.
    fn owner(&self, addr: u64) -> Option<usize> {
        let (_, &(end, index)) = self.owners.range(..=addr).next_back()?;
        (addr < end).then_some(index)
    }

    fn run(&mut self) {
        let mut waiting: BTreeSet<usize> = (0..self.program.functions.len()).collect();
        let pointed: Vec<u64> = self.pointers.iter().map(|addr| addr.0).collect();
        for &index in &waiting {
            self.trim_first(index);
        }
        // A function ends where the next one begins.
        for addr in pointed.into_iter().rev() {
            waiting.extend(self.hidden(
                addr,
                Evidence {
                    pointer: true,
                    ..Evidence::default()
                },
            ));
        }
        for _ in 0..MOST_ROUNDS {
            if waiting.is_empty() {
                break;
            }
            let mut targets = BTreeSet::new();
            let all: Vec<usize> = std::mem::take(&mut waiting).into_iter().collect();
            self.make_all(&all);
            for &index in &all {
                self.trim(index);
            }
            for index in all {
                let edges = self.program.functions[index].graph.edges.iter();
                targets.extend(edges.filter_map(|edge| match edge.to {
                    To::Address(addr) => Some((addr.0, edge.kind)),
                    _ => None,
                }));
            }
            for (addr, kind) in targets.into_iter().rev() {
                let is_call = matches!(kind, EdgeKind::Call | EdgeKind::NoReturn);
                let evidence = Evidence {
                    called: is_call,
                    ..Evidence::default()
                };
                waiting.extend(self.hidden(addr, evidence));
                waiting.extend(self.enter(addr, is_call));
            }
            waiting.extend(self.take());
            waiting.extend(self.without_return());
        }
    }

    /// Control comes to an address from another function.
    fn enter(&mut self, addr: u64, is_call: bool) -> Option<usize> {
        let index = self.owner(addr)?;
        let function = &mut self.program.functions[index];
        if function.entry.0 == addr {
            function.evidence.called |= is_call;
            return None;
        }
        if function.others.contains(&LinkAddr(addr)) {
            return None;
        }
        function.others.push(LinkAddr(addr));
        Some(index)
    }

    /// Finds functions that do not return; gives the callers of those for which that is new.
    fn without_return(&mut self) -> Vec<usize> {
        let functions = &self.program.functions;
        let known =
            |function: &&Function| function.name.as_deref().is_some_and(returns::is_reserved);
        let named = functions.iter().filter(known);
        let before = std::mem::take(&mut self.silent);
        self.silent = named.map(|function| function.entry.0).collect();
        loop {
            let functions = self.program.functions.iter();
            let new: Vec<u64> = functions
                .filter(|function| {
                    !self.silent.contains(&function.entry.0) && self.is_silent(function)
                })
                .map(|function| function.entry.0)
                .collect();
            if new.is_empty() {
                break;
            }
            self.silent.extend(new);
        }
        for function in &mut self.program.functions {
            function.returns = !self.silent.contains(&function.entry.0);
        }
        let changed: HashSet<u64> = self.silent.symmetric_difference(&before).copied().collect();
        let calls = |function: &Function| {
            function.graph.edges.iter().any(|edge| {
                matches!(edge.kind, EdgeKind::Call | EdgeKind::NoReturn)
                    && matches!(edge.to, To::Address(addr) if changed.contains(&addr.0))
            })
        };
        let functions = self.program.functions.iter().enumerate();
        let callers = functions.filter(|(_, function)| calls(function));
        callers.map(|(index, _)| index).collect()
    }

    /// Whether no way through a function whose graph is made comes back, as far as its callees are known.
    fn is_silent(&self, function: &Function) -> bool {
        let comes_back = |edge: &crate::Edge| match (edge.kind, edge.to) {
            (EdgeKind::Return, _) => true,
            (EdgeKind::TailCall | EdgeKind::Case | EdgeKind::FallThrough, To::Address(addr)) => {
                self.returns(addr.0)
            }
            (EdgeKind::TailCall, To::Slot(slot)) => self.slot_returns(slot.0),
            (EdgeKind::TailCall, _) => true,
            _ => false,
        };
        let is_made = !function.graph.blocks.is_empty();
        is_made && function.is_complete() && !function.graph.edges.iter().any(comes_back)
    }

    /// Makes the graphs of functions. Those with tables come last, when all references to tables are known.
    fn make_all(&mut self, all: &[usize]) {
        let mut later = Vec::new();
        for some in all.chunks(AT_ONCE) {
            let found = some.par_iter().map(|&index| self.without_tables(index));
            let found: Vec<(Descended, Option<Made>)> = found.collect();
            for (&index, (mut descended, made)) in some.iter().zip(found) {
                self.refer(index, &mut descended.descent);
                match made {
                    Some(made) => made.put(&mut self.program.functions[index], descended.taken),
                    None => later.push((index, descended)),
                }
            }
        }
        let later = later.into_iter().map(|(index, descended)| {
            self.make(index, descended);
            index
        });
        let later: Vec<usize> = later.collect();
        self.shorten(&later);
    }

    /// The graph of a function that has no tables; `None`: it may have some.
    fn without_tables(&self, index: usize) -> (Descended, Option<Made>) {
        let mut descended = self.descend(index);
        let may_have = !self.unresolved(&descended.descent).is_empty();
        let made = (!may_have).then(|| self.graph(&mut descended));
        (descended, made)
    }

    /// Makes the graph of a function, with its tables, which end before addresses that are known so far.
    fn make(&mut self, index: usize, mut descended: Descended) {
        self.refer(index, &mut descended.descent);
        let made = self.graph(&mut descended);
        self.refer(index, &mut descended.descent);
        made.put(&mut self.program.functions[index], descended.taken);
    }

    /// Keeps the addresses that a function's instructions have.
    fn refer(&mut self, index: usize, descent: &mut Descent) {
        self.references.extend(descent.references.drain(..));
        if self.program.functions[index].entry == self.start {
            self.first_taken.extend(&descent.taken);
        }
        self.taken.extend(descent.taken.drain(..));
    }

    /// Follows control from the entries of a function.
    fn descend(&self, index: usize) -> Descended {
        let function = &self.program.functions[index];
        let ranges = function.ranges.iter();
        let ranges: Vec<Range<u64>> = ranges.map(|range| range.start.0..range.end.0).collect();
        let others = function.others.iter().map(|addr| addr.0);
        let mut entries: Vec<u64> = [function.entry.0].into_iter().chain(others).collect();
        let mut failed = Vec::new();
        let sites = self.call_sites(&ranges, &mut failed);
        let is_bare = self.unwind.range(function.entry).is_none();
        let evidence = function.evidence;
        if is_bare && !self.is_certain(function) {
            failed.push(Failed {
                gate: Gate::NoUnwind,
                at: function.entry,
            });
        }
        let mut descent = Descent::new(&ranges);
        let pads = sites.iter().map(|site| site.pad.0);
        for root in entries.iter().copied().chain(pads) {
            descent.follow(self.code, self, root);
        }
        let taken = self.follow_taken(index, &mut descent);
        entries.extend(taken.iter().map(|addr| addr.0));
        Descended {
            descent,
            entries,
            taken,
            sites,
            is_bare,
            is_called: evidence.called || evidence.pointer || evidence.named,
            failed,
        }
    }

    /// The graph of a function, with the tables of indirect jumps if there are some.
    fn graph(&self, descended: &mut Descended) -> Made {
        let descent = &mut descended.descent;
        let (graph, tables) = self.with_tables(descent, &descended.entries, &descended.sites);
        let mut failed = std::mem::take(&mut descended.failed);
        failed.append(&mut descent.failed);
        // A jump with the caller's frame may lead to code that nothing else leads to.
        let mut jumps = self.unresolved(descent);
        jumps.retain(|jump| !tables.contains_key(jump));
        let explains_all = jumps.is_empty() || !descent.has_unexplained(self.code, u64::MAX);
        // Nothing but its code says that it is a function, and where it ends.
        let reached = descent.reached().unwrap_or(0);
        if descended.is_bare && descent.has_unexplained(self.code, reached) {
            failed.push(Failed {
                gate: Gate::NoUnwind,
                at: LinkAddr(descended.entries[0]),
            });
        }
        let has_frame = |jump: &u64| self.unwind.cfa(LinkAddr(*jump)) != Some(Cfa::Sp(8));
        let without_frame = match descended.entries[..] {
            // Parts of functions are jumped to with a frame.
            [entry] if descended.is_called && jumps.iter().any(has_frame) => {
                shapes::without_frame(self.code, &graph, entry)
            }
            _ => HashSet::new(),
        };
        let mut tail_jumps = Vec::new();
        for jump in jumps {
            match !has_frame(&jump) || without_frame.contains(&jump) {
                true if explains_all => tail_jumps.push(LinkAddr(jump)),
                _ => failed.push(Failed {
                    gate: Gate::UnresolvedJump,
                    at: LinkAddr(jump),
                }),
            }
        }
        failed.sort_unstable();
        failed.dedup();
        Made {
            graph,
            tables: tables.into_values().filter_map(Found::table).collect(),
            tail_jumps,
            failed,
        }
    }

    /// Call sites with landing pads of a function's ranges.
    fn call_sites(&self, ranges: &[Range<u64>], failed: &mut Vec<Failed>) -> Vec<CallSite> {
        let mut sites = Vec::new();
        for range in ranges {
            let start = LinkAddr(range.start);
            let mut fail = |gate| failed.push(Failed { gate, at: start });
            let Some(range) = self.unwind.range(start) else {
                continue;
            };
            if range.is_signal || !self.unwind.is_readable(start) {
                fail(Gate::Unwind);
            }
            if range.has_pads {
                match self.unwind.call_sites(start) {
                    Some(own) => sites.extend(own),
                    None => fail(Gate::LandingPads),
                }
            }
        }
        sites.sort_unstable();
        sites.dedup();
        sites
    }
}
