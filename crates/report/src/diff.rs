//! Two recordings compared, for people and for programs.
//!
//! | module | form |
//! |---|---|
//! | [`text`] | totals, and the functions and contexts that changed most, for a terminal |
//! | [`json`] | everything, for programs |
//! | [`csv`] | every function, for spreadsheets |
//! | [`folded`] | every context with both counts, for differential flame graphs |
//! | [`flamegraph`] | such a flame graph, for a browser |
//!
//! Invariant: what is written in full (all but [`text`], and the picture of
//! [`flamegraph`]) adds up to the totals of both recordings, exactly.

pub mod csv;
pub mod flamegraph;
pub mod folded;
pub mod json;
pub mod text;

use analysis::diff::{Diff, Direction, FunctionChange, Identity, Verdict};
use analysis::hot::{self, Limits};
use analysis::summary::{self, Totals};
use trace::Recording;

use crate::Tree;
use crate::numbers::{grouped, signed, signed_percent};
use crate::stacks::UNKNOWN;

/// One of the two.
pub struct Recorded<'a> {
    /// The file, as it was named.
    pub file: String,
    pub recording: &'a Recording,
    pub totals: Totals,
}

impl<'a> Recorded<'a> {
    pub fn new(file: String, recording: &'a Recording) -> Recorded<'a> {
        Recorded {
            file,
            recording,
            totals: summary::of_recording(recording),
        }
    }
}

/// Everything that can be shown about two recordings.
pub struct Comparison<'a> {
    pub before: Recorded<'a>,
    pub after: Recorded<'a>,
    pub diff: Diff<'a>,
    /// Which of [`Diff::metrics`] decides what changed most.
    pub metric: usize,
    /// Whatever has a figure, most changed first.
    pub functions: Vec<FunctionChange>,
    /// Functions and contexts in [`text`]; `None`: all that changed.
    pub top: Option<usize>,
    /// Verdicts on the conditions that were given.
    pub verdicts: Vec<Verdict<'a>>,
    /// Sentences for the end of the report.
    pub notes: Vec<String>,
}

impl<'a> Comparison<'a> {
    pub fn new(
        before: Recorded<'a>,
        after: Recorded<'a>,
        diff: Diff<'a>,
        metric: usize,
    ) -> Comparison<'a> {
        Comparison {
            functions: diff.functions(metric),
            before,
            after,
            diff,
            metric,
            top: None,
            verdicts: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Whether contexts are of basic blocks.
    pub fn is_of_blocks(&self) -> bool {
        let both = [&self.before, &self.after];
        both.into_iter()
            .all(|recorded| recorded.recording.meta.blocks.is_some())
    }

    fn metric_name(&self) -> &'static str {
        self.diff.metrics[self.metric].name
    }

    /// The contexts that changed most, with what leads to them.
    fn most_changed(&self) -> Tree {
        let limits = Limits {
            top: self.top,
            ..Limits::default()
        };
        let forest = self.diff.sizes(self.metric);
        Tree {
            direction: crate::Direction::Callees,
            rows: hot::tree(&forest, limits),
            forest,
        }
    }
}

/// Name of an identity in reports.
pub(crate) fn name(identity: &Identity) -> String {
    match *identity {
        Identity::Named { name, .. } | Identity::Program(name) => name.to_owned(),
        Identity::At { module, offset } => format!("{module}+{offset:#x}"),
        Identity::Nowhere => "[code in no file]".to_owned(),
        Identity::Unknown => UNKNOWN.to_owned(),
        Identity::Special(label) => label.to_string(),
    }
}

/// A condition that is met, as a sentence without an end.
pub fn sentence(verdict: &Verdict) -> String {
    let condition = verdict.condition;
    let whose = match &condition.function {
        Some(function) => format!(" of '{function}'"),
        None => String::new(),
    };
    let verb = match condition.direction {
        Direction::More => "rose",
        Direction::Less => "fell",
    };
    let limit = condition.text.rsplit(['<', '>']).next().unwrap_or_default();
    format!(
        "{}{whose} {verb} from {} to {} ({}, {}), more than {limit} allows",
        condition.metric,
        grouped(verdict.value.before),
        grouped(verdict.value.after),
        signed(verdict.value),
        signed_percent(verdict.value)
    )
}
