//! Metrics of every context, as the forms for other tools name them: a
//! list of metrics, and for each context one value per metric, in that order.

use std::io;

use analysis::Weight;
use trace::Cost;

use crate::numbers::{duration, grouped};
use crate::{Report, Section};

/// Something that is counted; cycles are estimated.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    pub weight: Weight,
    /// Plural, in lower case.
    pub name: &'static str,
    /// Heading of the inclusive cost in tables.
    pub inclusive: &'static str,
    /// One word without blanks, for forms that list events by name.
    pub event: &'static str,
}

/// Metrics of the recording, [`Report::by`] first.
pub fn of(report: &Report) -> Vec<Metric> {
    let others = report.metrics.iter().filter(|&&metric| metric != report.by);
    let all = [report.by].into_iter().chain(others.copied());
    all.map(Metric::from).collect()
}

/// Plural noun in texts for people: blocks are executed, not called.
pub fn title(report: &Report, weight: Weight) -> &'static str {
    match (weight, report.recording.meta.blocks) {
        (Weight::Calls, Some(_)) => "executions",
        (Weight::Cost(Cost::Time), _) => "time",
        (Weight::Cost(Cost::Waiting), _) => "waiting",
        (weight, _) => Metric::from(weight).name,
    }
}

/// A value in texts for people: times have units.
pub fn shown(weight: Weight, value: u64) -> String {
    match weight {
        Weight::Cost(cost) if cost.is_time() => duration(value),
        _ => grouped(value),
    }
}

/// Noun for one call.
pub fn event(report: &Report) -> &'static str {
    match report.recording.meta.blocks {
        Some(_) => "execution",
        None => "call",
    }
}

/// Metrics of the recording as weights.
pub fn weights(report: &Report) -> Vec<Weight> {
    of(report).iter().map(|metric| metric.weight).collect()
}

impl From<Weight> for Metric {
    fn from(weight: Weight) -> Metric {
        // As valgrind calls instructions. What it calls Dr and Dw is accesses.
        let (name, inclusive, event) = match weight {
            Weight::Calls => ("calls", "inclusive_calls", "Calls"),
            Weight::Cost(cost) => match cost {
                Cost::Instructions => (cost.name(), "inclusive_instructions", "Ir"),
                Cost::Branches => (cost.name(), "inclusive_branches", "Branches"),
                Cost::Loads => (cost.name(), "inclusive_loads", "Loads"),
                Cost::Stores => (cost.name(), "inclusive_stores", "Stores"),
                Cost::Cycles => (cost.name(), "inclusive_cycles", "Cycles"),
                Cost::FetchMisses => (cost.name(), "inclusive_l1i_misses", "I1m"),
                Cost::DataMisses => (cost.name(), "inclusive_l1d_misses", "D1m"),
                Cost::LastMisses => (cost.name(), "inclusive_ll_misses", "LLm"),
                Cost::Time => (cost.name(), "inclusive_time_ns", "Nanoseconds"),
                Cost::Waiting => (cost.name(), "inclusive_waiting_ns", "Waiting"),
            },
        };
        Metric {
            weight,
            name,
            inclusive,
            event,
        }
    }
}

/// One metric of one section: a profile, in forms that have one value per sample.
pub struct Profile<'a> {
    pub section: &'a Section,
    pub metric: Metric,
    /// Whether it is the only metric.
    is_only: bool,
    pub total: u64,
}

impl Profile<'_> {
    /// Its metric, where that has to be said: if there are several.
    pub fn metric_name(&self) -> Option<&'static str> {
        (!self.is_only).then_some(self.metric.name)
    }
}

/// The profiles that have anything in them, for a form that keeps numbers as
/// doubles, which are exact up to 2^53.
pub fn profiles_in_doubles<'a>(report: &'a Report) -> io::Result<Vec<Profile<'a>>> {
    const LIMIT: u64 = 1 << 53;
    let mut profiles = Vec::new();
    let metrics = of(report);
    for section in &report.sections {
        for &metric in &metrics {
            let (name, total) = (metric.name, section.total(metric.weight));
            if total > LIMIT {
                return Err(io::Error::other(format!(
                    "{total} {name}: this form keeps numbers as doubles, which are exact \
                     up to {LIMIT}; use folded, csv, callgrind or pprof"
                )));
            }
            if total > 0 {
                profiles.push(Profile {
                    section,
                    metric,
                    is_only: metrics.len() == 1,
                    total,
                });
            }
        }
    }
    match profiles.is_empty() {
        true => Err(io::Error::other(
            "nothing was called, so there is no profile",
        )),
        false => Ok(profiles),
    }
}
