//! The call graph of a file, as contexts are numbered by it ([`encoding`]).
//!
//! Approach: each instruction that calls is a site. Functions that go on as others, with the caller's frame, are a part of their call:
//! the site leads to all of them and adds the same. A call by an address, or of another file, leads to functions that nobody knows
//! ([`Kind::Open`]), and so do a jump by which a function goes on as those and a trap, behind which its old code may go on. As a file does not say of all functions whether their
//! address is taken (in tables of programs that are not relocated, it says it of none), a path may begin at each.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use encoding::{CallGraph, Edge, Kind, Site};
use flow::{EdgeKind, Program, To};
use image::LinkAddr;

use crate::Profile;
use crate::known::traps;
use crate::weights::Weights;

/// The call graph of a file. Functions have their numbers in the program.
#[derive(Debug)]
pub struct Calls {
    pub graph: CallGraph,
    /// Sites by the instruction that calls.
    sites: HashMap<LinkAddr, u32>,
    /// Functions by their entries.
    entries: HashMap<LinkAddr, u32>,
    edges: HashMap<(u32, u32), u32>,
}

impl Calls {
    /// The graph of a program, with weights by an earlier run, or by the form of functions. `stays`: functions by their numbers that
    /// are other code; a number behind its end is none.
    pub fn of(program: &Program, profile: Option<&Profile>, stays: &[bool]) -> Calls {
        let functions = (0..).zip(&program.functions);
        let moves = |number: u32| !stays.get(number as usize).copied().unwrap_or(false);
        let functions = functions.filter(|(number, _)| moves(*number));
        let entries = functions.flat_map(|(number, function)| {
            let entries = function.others.iter().chain([&function.entry]);
            entries.map(move |entry| (*entry, number))
        });
        let mut calls = Calls {
            graph: CallGraph {
                functions: program.functions.len() as u32,
                roots: (0..program.functions.len() as u32).collect(),
                ..CallGraph::default()
            },
            sites: HashMap::new(),
            entries: entries.collect(),
            edges: HashMap::new(),
        };
        let tails = calls.tails(program);
        calls.graph.tails = tails
            .iter()
            .map(|own| own.iter().copied().collect())
            .collect();
        for (caller, function) in (0..).zip(&program.functions) {
            let weights = Weights::of(function, profile);
            for (edge, weight) in function.graph.edges.iter().zip(weights.edges) {
                let at = function.graph.blocks[edge.from as usize].last;
                use EdgeKind::{Call, FallThrough, NoReturn, TailCall, Taken};
                let leaves =
                    !matches!(edge.to, To::Block(_)) && calls.function_of(edge.to).is_none();
                match edge.kind {
                    Call | NoReturn => calls.add(caller, at, (edge.to, weight), &tails),
                    TailCall | Taken | FallThrough if leaves => {
                        calls.add(caller, at, (edge.to, weight), &tails);
                    }
                    _ => {}
                }
            }
            let traps = traps(function).map(|block| function.graph.blocks[block].last);
            for at in function.tail_jumps.iter().copied().chain(traps) {
                if calls.site(at).is_none() {
                    calls.add(caller, at, (To::Unknown, 0), &tails);
                }
            }
        }
        calls
    }

    fn function_of(&self, to: To) -> Option<u32> {
        match to {
            To::Address(entry) => self.entries.get(&entry).copied(),
            _ => None,
        }
    }

    /// Functions as which each goes on, and these, and so on.
    fn tails(&self, program: &Program) -> Vec<BTreeSet<u32>> {
        let next = program.functions.iter().map(|function| {
            let edges = function.graph.edges.iter();
            let leaves = edges.filter(|edge| {
                use EdgeKind::{Case, FallThrough, TailCall, Taken};
                matches!(edge.kind, TailCall | FallThrough | Taken | Case)
            });
            leaves
                .filter_map(|edge| self.function_of(edge.to))
                .collect()
        });
        let next: Vec<Vec<u32>> = next.collect();
        let all = next.iter().map(|own| {
            let mut found = BTreeSet::new();
            let mut waiting = own.clone();
            while let Some(function) = waiting.pop() {
                if found.insert(function) {
                    waiting.extend(&next[function as usize]);
                }
            }
            found
        });
        all.collect()
    }

    fn add(&mut self, caller: u32, at: LinkAddr, (to, weight): (To, u64), tails: &[BTreeSet<u32>]) {
        let mut callees = BTreeMap::new();
        if let Some(callee) = self.function_of(to) {
            callees.extend(tails[callee as usize].iter().map(|tail| (*tail, 0)));
            callees.insert(callee, weight);
        }
        let kind = match callees.len() {
            0 => Kind::Open,
            1 => Kind::Closed,
            _ => Kind::Shared,
        };
        let site = self.graph.sites.len() as u32;
        self.graph.sites.push(Site { caller, kind });
        self.sites.insert(at, site);
        for (callee, weight) in callees {
            self.add_edge(site, callee, weight);
        }
    }

    /// Takes over how often each site called each function in a run: these are the weights then, and what was called by address is told
    /// apart from what nobody knows, unless it may go on as another function.
    pub fn learn(&mut self, counts: &BTreeMap<(u32, u32), u64>) {
        for edge in &mut self.graph.edges {
            edge.weight = counts.get(&(edge.site, edge.callee)).copied().unwrap_or(0);
        }
        for (&(site, callee), &weight) in counts {
            let is_open = self.graph.sites[site as usize].kind == Kind::Open;
            let goes_on = !self.graph.tails[callee as usize].is_empty();
            if is_open && !goes_on && !self.edges.contains_key(&(site, callee)) {
                self.add_edge(site, callee, weight);
            }
        }
    }

    fn add_edge(&mut self, site: u32, callee: u32, weight: u64) {
        let edge = self.graph.edges.len() as u32;
        self.edges.insert((site, callee), edge);
        self.graph.edges.push(Edge {
            site,
            callee,
            weight,
        });
    }

    /// Addresses of the instructions of all sites, by their numbers.
    pub fn sites(&self) -> Vec<LinkAddr> {
        let mut all = vec![LinkAddr(0); self.graph.sites.len()];
        for (&at, &site) in &self.sites {
            all[site as usize] = at;
        }
        all
    }

    /// The site of an instruction that calls.
    pub fn site(&self, call: LinkAddr) -> Option<u32> {
        self.sites.get(&call).copied()
    }

    /// The function that is entered at an address.
    pub fn entered(&self, entry: LinkAddr) -> Option<u32> {
        self.entries.get(&entry).copied()
    }

    /// The edge by which a site calls a function.
    pub fn edge(&self, site: u32, callee: u32) -> Option<u32> {
        self.edges.get(&(site, callee)).copied()
    }
}
