//! The dictionary of a file: facts by which numbers are paths again ([`placement::dictionary`]).

use std::collections::BTreeSet;

use image::LinkAddr;
use placement::dictionary::{self, SITE_OF_TRAP};
use placement::plan;
use rewrite::Outcome;

use super::{Contexts, MOST};
use crate::known::traps;

impl Contexts<'_> {
    /// Functions whose calls are logged, as the dictionary has them.
    fn dictionary_of_logged(&self) -> Vec<dictionary::Logged> {
        let logged = self.logged.iter();
        let logged = logged.map(|(number, word)| dictionary::Logged {
            function: *number as u32,
            word: word.clone(),
            is_left: !self.planned.contains(number),
        });
        logged.collect()
    }

    /// Facts by which numbers are paths again.
    pub(super) fn dictionary(&self, outcome: &Outcome<'_>) -> dictionary::File {
        let functions = self.known.program.functions.iter().enumerate();
        let functions = functions.map(|(number, function)| dictionary::Function {
            entry: function.entry.0,
            others: function.others.iter().map(|other| other.0).collect(),
            name: function.name.clone().unwrap_or_default(),
            is_moved: self.planned.contains(&number),
            ranges: function
                .ranges
                .iter()
                .map(|range| (range.start.0, range.end.0 - range.start.0))
                .collect(),
            tails: self
                .calls
                .graph
                .tails
                .get(number)
                .cloned()
                .unwrap_or_default(),
        });
        let traps = self.known.program.functions.iter().flat_map(|function| {
            let blocks = traps(function);
            blocks.map(|block| function.graph.blocks[block].last)
        });
        let traps: BTreeSet<LinkAddr> = traps.collect();
        let sites = self.calls.sites().into_iter().zip(&self.calls.graph.sites);
        let sites = sites.map(|(at, site)| dictionary::Site {
            at: at.0,
            caller: site.caller,
            kind: match traps.contains(&at) {
                true => SITE_OF_TRAP,
                false => site.kind as u8,
            },
            ..dictionary::Site::default()
        });
        let edges = self.calls.graph.edges.iter();
        dictionary::File {
            original: self.wanted.original.to_owned(),
            name: String::new(),
            by_function: self.counts,
            size: outcome.input.len() as u64,
            hash: plan::hash(outcome.input),
            base: self.known.base,
            most: MOST,
            functions: functions.collect(),
            sites: sites.collect(),
            exits: self.exits.iter().copied().collect(),
            restored: self.restored.iter().copied().collect(),
            returns: self.returns.iter().copied().collect(),
            logged: self.dictionary_of_logged(),
            edges: edges
                .map(|edge| (edge.site, edge.callee, edge.weight))
                .collect(),
            ..dictionary::File::default()
        }
    }
}
