//! Indirect jumps of a function: its graph with the targets of its jump tables and computed gotos.

use std::collections::{BTreeMap, HashMap};

use image::{CallSite, Cfa, LinkAddr};
use isa::Flow;

use super::{LEAST_LABELS, MOST_LABELS, MOST_TABLES, Making};
use crate::descent::Descent;
use crate::graph::Graph;
use crate::shapes::{self, Target};
use crate::tables::{self, Around, Found, single};

impl Making<'_> {
    /// The graph with the tables of indirect jumps, whose cases may have others.
    pub(super) fn with_tables(
        &self,
        descent: &mut Descent,
        entries: &[u64],
        sites: &[CallSite],
    ) -> (Graph, BTreeMap<u64, Found>) {
        let mut tables: BTreeMap<u64, Found> = BTreeMap::new();
        let (mut seen, mut lengths) = (tables.clone(), HashMap::new());
        let mut graph = Graph::of(descent, &|_| None, sites);
        for _ in 0..MOST_TABLES {
            let jumps = self.unresolved(descent);
            if jumps.is_empty() {
                break;
            }
            // Labels are all there are; tables may have other bounds with more ways to them.
            let labelled = seen
                .iter()
                .filter(|(_, found)| matches!(found, Found::Labels(_)));
            let mut found: BTreeMap<u64, Found> = labelled
                .map(|(jump, found)| (*jump, found.clone()))
                .collect();
            let jumps: Vec<u64> = jumps
                .into_iter()
                .filter(|jump| !found.contains_key(jump))
                .collect();
            found.append(&mut self.resolve(&graph, descent, entries, &jumps));
            if found == seen {
                break;
            }
            seen.clone_from(&found);
            tables = found;
            for (&jump, found) in &mut tables {
                self.follow_table(descent, jump, found, &mut lengths);
            }
            let cases = |jump: u64| tables.get(&jump).map(Found::targets);
            graph = Graph::of(descent, &cases, sites);
        }
        (graph, tables)
    }

    /// Follows the targets of a table; one without a bound ends before the first that leads nowhere, whose
    /// number is kept in `lengths`.
    fn follow_table(
        &self,
        descent: &mut Descent,
        jump: u64,
        found: &mut Found,
        lengths: &mut HashMap<u64, usize>,
    ) {
        if let (Found::Table(table), Some(&length)) = (&mut *found, lengths.get(&jump)) {
            table.truncate(length);
        }
        if let Found::Table(table) = &mut *found
            && !table.is_bounded
        {
            for number in 0..table.elements.len() {
                let case = table.elements[number].case();
                let inside = case.filter(|target| descent.is_inside(target.0));
                let Some(target) = inside else { continue };
                if number == 0 {
                    descent.follow(self.code, self, target.0);
                } else if !descent.try_follow(self.code, self, target.0) {
                    table.truncate(number);
                    lengths.insert(jump, number);
                    return;
                }
            }
            return;
        }
        for target in found.targets() {
            if descent.is_inside(target) {
                descent.follow(self.code, self, target);
            }
        }
    }

    /// Makes functions again whose tables without a bound reach over an address that was found since, by following
    /// tables: another table begins there.
    pub(super) fn shorten(&mut self, functions: &[usize]) {
        for _ in 0..MOST_TABLES {
            let reaches_over = |index: &&usize| {
                let mut tables = self.program.functions[**index].tables.iter();
                tables.any(|table| {
                    let inside = table.table.0 + 1..table.end().0.max(table.table.0 + 1);
                    !table.is_bounded && self.references.range(inside).next().is_some()
                })
            };
            let again: Vec<usize> = functions.iter().filter(reaches_over).copied().collect();
            if again.is_empty() {
                return;
            }
            for index in again {
                let descended = self.descend(index);
                self.make(index, descended);
            }
        }
    }

    /// Targets of indirect jumps.
    fn resolve(
        &self,
        graph: &Graph,
        descent: &Descent,
        entries: &[u64],
        jumps: &[u64],
    ) -> BTreeMap<u64, Found> {
        let targets = shapes::targets(self.code, graph, entries, jumps);
        let mut found = BTreeMap::new();
        for &jump in jumps {
            let target = targets.get(&jump);
            let frame = self.unwind.cfa(LinkAddr(jump));
            // The frame of a case is that of the jump. Parts may have been given to another function.
            let fits = |target: u64| {
                (descent.is_inside(target) || self.is_part(target))
                    && self.unwind.cfa(LinkAddr(target)) == frame
            };
            let around = Around {
                descent,
                references: &self.references,
                fits: &fits,
            };
            if let Some(&Target::Label(label)) = target
                && fits(label)
                && descent.is_inside(label)
            {
                found.insert(jump, Found::Labels(vec![label]));
                continue;
            }
            let table = match target {
                Some(Target::OfTable(shape)) => tables::read(self.code, jump, shape, &around),
                _ => None,
            };
            let table = table.or_else(|| single(self.code, descent, jump));
            if let Some(table) = table {
                found.insert(jump, Found::Table(table));
            } else {
                let labels = self.labels(descent, entries);
                let mut unexplained = labels
                    .iter()
                    .filter(|&&label| descent.is_unexplained(label));
                let is_inside = frame != Some(Cfa::Sp(8)) || unexplained.next().is_some();
                if is_inside && (1..=MOST_LABELS).contains(&labels.len()) {
                    found.insert(jump, Found::Labels(labels));
                }
            }
        }
        found
    }

    /// Indirect jumps that do not go by a word of the dynamic linker.
    pub(super) fn unresolved(&self, descent: &Descent) -> Vec<u64> {
        let is_known = |slot: u64| self.program.slots.contains_key(&LinkAddr(slot));
        let steps = descent.steps.iter();
        let jumps = steps
            .filter(|step| step.flow == Flow::IndirectJump && !step.slot.is_some_and(is_known));
        jumps.map(|step| step.addr).collect()
    }

    /// Addresses inside a function that relocations or instructions have: labels of a computed goto. Those
    /// that instructions have are entries, and make none alone.
    fn labels(&self, descent: &Descent, entries: &[u64]) -> Vec<u64> {
        let within = descent.ranges().iter().flat_map(|range| {
            let from = self.pointers.partition_point(|addr| addr.0 < range.start);
            let all = self.pointers[from..].iter().map(|addr| addr.0);
            all.take_while(|addr| *addr < range.end)
        });
        let (entry, others) = entries.split_first().expect("a function has an entry");
        let mut labels: Vec<u64> = within
            .filter(|addr| !descent.is_middle(*addr) && addr != entry)
            .collect();
        let is_label = |label: &&u64| !others.contains(label);
        if labels.iter().filter(is_label).count() < LEAST_LABELS {
            return Vec::new();
        }
        labels.extend(others);
        labels.sort_unstable();
        labels.dedup();
        labels
    }
}
