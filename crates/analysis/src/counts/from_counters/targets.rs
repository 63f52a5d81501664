//! Targets of calls and jumps by an address, from tables that the program filled.

use hashbrown::HashMap;
use placement::plan::{Function, Site};

/// Targets by the number of the site.
#[derive(Clone, Debug, Default)]
pub struct Targets(HashMap<u32, Vec<Target>>);

/// A target of one table.
#[derive(Clone, Copy, Debug)]
struct Target {
    /// Number of the thread.
    tid: u32,
    pc: u64,
    count: u64,
}

impl Targets {
    /// Adds what a thread counted of a site, by its number.
    pub fn add(&mut self, site: u32, tid: u32, pc: u64, count: u64) {
        let all = self.0.entry(site).or_default();
        all.push(Target { tid, pc, count });
    }

    /// Targets of a block's table, each once and in the order of their addresses; empty: it has none, or nothing came there.
    pub(super) fn of(&self, function: &Function, block: u32) -> Vec<u64> {
        let mut targets: Vec<u64> = self
            .table(function, block)
            .map(|target| target.pc)
            .collect();
        targets.sort_unstable();
        targets.dedup();
        targets
    }

    /// Counts of a block's targets, in all threads or in one. `executed`: executions of the block, which their sum does not exceed.
    pub(super) fn counts(
        &self,
        (function, block): (&Function, u32),
        targets: &[u64],
        tid: Option<u32>,
        mut executed: u64,
    ) -> Vec<u64> {
        let counts = targets.iter().map(|pc| {
            let own = self.table(function, block);
            let own = own.filter(|target| target.pc == *pc);
            let own = own.filter(|target| tid.is_none_or(|tid| tid == target.tid));
            let count = own.fold(0u64, |sum, target| sum.saturating_add(target.count));
            let count = count.min(executed);
            executed -= count;
            count
        });
        counts.collect()
    }

    fn table(&self, function: &Function, block: u32) -> impl Iterator<Item = &Target> {
        let mut sites = function.sites.iter();
        let site = sites.find(|site| site.block == block);
        let table = site.and_then(|site| self.0.get(&site.number));
        table.into_iter().flatten()
    }
}

/// Tables of a function, by the number of their first word, with the numbers of their sites.
pub fn tables(function: &Function) -> impl Iterator<Item = (usize, u32)> {
    let first = function.words().start.saturating_add(function.counters());
    let sites = function.sites.iter().enumerate();
    sites.map(move |(at, site)| (first.saturating_add(at * Site::WORDS), site.number))
}
