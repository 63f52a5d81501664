//! Statistics of a trace: how many branches of which kind, how predictable each is by itself.
//!
//! Approach: one pass over the branches of every thread. What is kept of a branch of the code
//! is counted by its number (`walk::Site`), its targets in one table.
//!
//! | figure | meaning |
//! |---|---|
//! | bias | of a conditional branch: the share of its commoner outcome |
//! | entropy | bits that an outcome, or a target, says to who knows how often each was at that branch of the code; the mean over all executions |
//! | call depth | calls and signals without their returns yet; never below 0 |
//! | block length | instructions from behind a branch up to the next, that one included |
//!
//! Limits: `longjmp`, exceptions and stacks that the program switches itself leave calls without
//! returns, so the depth is too high behind them. Code that changed, and the same code at
//! another address, are other branches.

use std::collections::VecDeque;

use hashbrown::HashMap;
use trace::{Process, Recording};

use crate::walk::{Branch, Branches, Item, Kind, Pieces, Site, Unsound, Why};

/// Numbers of executed instructions and branches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Executed {
    pub insns: u64,
    /// By [`Kind`], in the order of [`Kind::ALL`].
    pub kinds: [u64; 6],
    /// Number of taken conditional branches.
    pub taken: u64,
    /// Handlers of signals that began.
    pub signals: u64,
    pub depth: Depth,
    /// Blocks of at most 2^i instructions, and more than half of that.
    pub blocks: Vec<u64>,
    pub longest_block: u64,
}

/// Depth of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    pub deepest: u64,
    /// Over all calls; with their number, the mean.
    pub sum: u64,
}

impl Executed {
    pub fn kind(&self, kind: Kind) -> u64 {
        self.kinds[kind as usize]
    }

    pub fn branches(&self) -> u64 {
        self.kinds.iter().sum()
    }

    pub fn calls(&self) -> u64 {
        self.kind(Kind::Call) + self.kind(Kind::IndirectCall)
    }

    pub fn direct(&self) -> u64 {
        self.kind(Kind::Jump) + self.kind(Kind::Call)
    }

    pub fn indirect(&self) -> u64 {
        self.kind(Kind::IndirectJump) + self.kind(Kind::IndirectCall) + self.kind(Kind::Return)
    }

    pub fn not_taken(&self) -> u64 {
        self.kind(Kind::Conditional) - self.taken
    }

    pub fn mean_depth(&self) -> f64 {
        ratio(self.depth.sum, self.calls())
    }

    /// Instructions for each branch.
    pub fn mean_block(&self) -> f64 {
        ratio(self.insns, self.branches())
    }

    fn add(&mut self, other: &Executed) {
        self.insns += other.insns;
        self.taken += other.taken;
        self.signals += other.signals;
        for (sum, count) in self.kinds.iter_mut().zip(other.kinds) {
            *sum += count;
        }
        self.depth.deepest = self.depth.deepest.max(other.depth.deepest);
        self.depth.sum += other.depth.sum;
        self.longest_block = self.longest_block.max(other.longest_block);
        if self.blocks.len() < other.blocks.len() {
            self.blocks.resize(other.blocks.len(), 0);
        }
        for (sum, count) in self.blocks.iter_mut().zip(&other.blocks) {
            *sum += count;
        }
    }

    fn block(&mut self, len: u64) {
        let class = len.next_power_of_two().trailing_zeros() as usize;
        if self.blocks.len() <= class {
            self.blocks.resize(class + 1, 0);
        }
        self.blocks[class] += 1;
        self.longest_block = self.longest_block.max(len);
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// Branches of the code that were executed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Distinct {
    /// By [`Kind`], in the order of [`Kind::ALL`].
    pub kinds: [u64; 6],
    /// Conditional ones and their executions, by least bias: see [`BIASES`].
    pub biases: [(u64, u64); BIASES.len()],
    /// Bits, over all executions of conditional branches; their mean is the entropy.
    pub outcome_bits: f64,
    /// Entropy of targets, by [`Kind`].
    pub target_bits: [f64; 6],
    /// Numbers of targets of indirect branches, by [`Kind`]: all that differ, and the most that one has.
    pub targets: [(u64, u64); 6],
}

/// Least bias of a class of conditional branches, and what it is called.
pub const BIASES: [(f64, &str); 5] = [
    (1.0, "one way only"),
    (0.99, "99 % or more one way"),
    (0.9, "90 to 99 %"),
    (0.7, "70 to 90 %"),
    (0.0, "less than 70 %"),
];

/// Figures of one thread, and the error that ended the reading of its stream too early.
#[derive(Debug)]
pub struct Thread {
    /// Places in [`Recording::processes`] and [`Process::threads`].
    pub process: usize,
    pub thread: usize,
    pub executed: Executed,
    pub error: Option<Unsound>,
}

/// Statistics of a trace.
#[derive(Debug, Default)]
pub struct Stats {
    pub threads: Vec<Thread>,
    pub total: Executed,
    pub distinct: Distinct,
}

/// Statistics of all threads with this number, or of all.
pub fn of(recording: &Recording, tid: Option<u32>) -> Stats {
    let mut stats = Stats::default();
    for (index, process) in recording.processes.iter().enumerate() {
        of_process(process, index, tid, &mut stats);
    }
    for thread in &stats.threads {
        stats.total.add(&thread.executed);
    }
    stats
}

fn of_process(process: &Process, index: usize, tid: Option<u32>, stats: &mut Stats) {
    let mut pieces = Pieces::of(process);
    let mut counts = Counts::default();
    for (number, thread) in process.threads.iter().enumerate() {
        if tid.is_some_and(|tid| tid != thread.tid) {
            continue;
        }
        let mut branches = Branches::new(&mut pieces, thread).past_losses(thread);
        let (executed, error) = read(&mut branches, &mut counts);
        stats.threads.push(Thread {
            process: index,
            thread: number,
            executed,
            error,
        });
    }
    counts.flush();
    let sites = pieces.sites();
    counts.into_distinct(sites, &mut stats.distinct);
}

fn read(branches: &mut Branches<'_>, counts: &mut Counts) -> (Executed, Option<Unsound>) {
    let mut executed = Executed::default();
    let (mut calls, mut block_from) = (Calls::default(), 0);
    let mut failure = None;
    for item in &mut *branches {
        match item {
            Ok(Item::Branch(branch)) => {
                executed.kinds[branch.kind as usize] += 1;
                executed.taken += u64::from(branch.kind == Kind::Conditional && branch.taken);
                executed.block(branch.number - block_from);
                block_from = branch.number;
                match branch.kind {
                    Kind::Call | Kind::IndirectCall => {
                        calls.enter(branch.next);
                        executed.depth.sum += calls.depth;
                        executed.depth.deepest = executed.depth.deepest.max(calls.depth);
                    }
                    Kind::Return => calls.leave(1),
                    Kind::Conditional | Kind::Jump | Kind::IndirectJump => {}
                }
                counts.count(&branch);
            }
            Ok(Item::Went { why, to, number }) => {
                block_from = number;
                match why {
                    Why::Signal(_) => {
                        executed.signals += 1;
                        // Its handler returns to the code that ends it.
                        calls.enter(0);
                    }
                    Why::Unselected | Why::Off => calls.come_back(to),
                    Why::Lost => {
                        failure = Some(Unsound::Lost);
                        calls.come_back(to);
                    }
                    _ => {}
                }
            }
            Ok(Item::Entered { .. } | Item::Stamp(_)) => {}
            Err(error) => failure = Some(error),
        }
    }
    executed.insns = branches.number();
    (executed, failure)
}

/// Calls that have not returned.
#[derive(Default)]
struct Calls {
    depth: u64,
    /// Return addresses of the newest of them.
    returns: VecDeque<u64>,
}

impl Calls {
    /// Most calls whose return addresses are kept.
    const MOST: usize = 1024;

    fn enter(&mut self, back: u64) {
        self.depth += 1;
        if self.returns.len() == Calls::MOST {
            self.returns.pop_front();
        }
        self.returns.push_back(back);
    }

    fn leave(&mut self, calls: usize) {
        self.depth = self.depth.saturating_sub(calls as u64);
        let left = self.returns.len().saturating_sub(calls);
        self.returns.truncate(left);
    }

    /// Leaves the calls above the one that returns to `to`, where control is after untraced code.
    fn come_back(&mut self, to: u64) {
        if let Some(at) = self.returns.iter().rposition(|&back| back == to) {
            self.leave(self.returns.len() - at);
        }
    }
}

#[derive(Clone, Copy, Default)]
struct Count {
    all: u64,
    taken: u64,
    /// The last target, and how often it was the target since another was.
    last: (u64, u64),
}

/// Executions of the branches of a process, by number.
#[derive(Default)]
struct Counts {
    sites: Vec<Count>,
    targets: HashMap<(u32, u64), u64>,
}

impl Counts {
    fn count(&mut self, branch: &Branch) {
        let at = branch.site as usize;
        if at >= self.sites.len() {
            self.sites.resize(at + 1, Count::default());
        }
        let count = &mut self.sites[at];
        count.all += 1;
        count.taken += u64::from(branch.taken);
        if !branch.kind.is_indirect() {
            return;
        }
        let (target, times) = count.last;
        if target == branch.target {
            count.last.1 += 1;
            return;
        }
        count.last = (branch.target, 1);
        if times > 0 {
            *self.targets.entry((branch.site, target)).or_default() += times;
        }
    }

    fn flush(&mut self) {
        for (site, count) in (0..).zip(&mut self.sites) {
            let (target, times) = std::mem::take(&mut count.last);
            if times > 0 {
                *self.targets.entry((site, target)).or_default() += times;
            }
        }
    }

    fn into_distinct(self, sites: &[Site], distinct: &mut Distinct) {
        for (count, site) in self.sites.iter().zip(sites) {
            if count.all == 0 {
                continue;
            }
            distinct.kinds[site.kind as usize] += 1;
            if site.kind == Kind::Conditional {
                let common = count.taken.max(count.all - count.taken);
                let bias = ratio(common, count.all);
                let class = BIASES.iter().position(|(least, _)| bias >= *least);
                let class = &mut distinct.biases[class.unwrap_or(BIASES.len() - 1)];
                class.0 += 1;
                class.1 += count.all;
                for times in [count.taken, count.all - count.taken] {
                    distinct.outcome_bits += bits(times, count.all);
                }
            }
        }
        let mut by_site = vec![0u64; sites.len()];
        // In an order, so that the sums are the same each time.
        let mut targets: Vec<_> = self.targets.into_iter().collect();
        targets.sort_unstable();
        for ((site, _), times) in targets {
            let kind = sites[site as usize].kind as usize;
            by_site[site as usize] += 1;
            distinct.target_bits[kind] += bits(times, self.sites[site as usize].all);
        }
        for (number, site) in by_site.into_iter().zip(sites) {
            let (sum, most) = &mut distinct.targets[site.kind as usize];
            *sum += number;
            *most = number.max(*most);
        }
    }
}

/// Information in bits of `times` equally likely events of `all`.
fn bits(times: u64, all: u64) -> f64 {
    match times {
        0 => 0.0,
        times => times as f64 * (all as f64 / times as f64).log2(),
    }
}
