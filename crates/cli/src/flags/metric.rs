//! Metrics of contexts: what a run counts, and what reports are sorted by.

use clap::ValueEnum;
use clap::builder::{EnumValueParser, TypedValueParser};
use trace::Cost;

/// Costs of contexts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Metric {
    /// Calls; always counted
    Calls,
    /// Instructions retired, without those of what it called
    Instructions,
    /// Branches among the instructions: jumps, conditional or not, calls and returns
    Branches,
    /// Instructions that read memory, the stack included
    Loads,
    /// Instructions that write memory, the stack included
    Stores,
    /// Cycles of the time-stamp counter: an estimate, with waiting and counting
    Cycles,
    /// Misses of simulated caches, which only `caches --contexts` writes
    #[value(hide = true)]
    L1iMisses,
    #[value(hide = true)]
    L1dMisses,
    #[value(hide = true)]
    LlMisses,
    /// Time that threads executed, and waited, sampled (`contexts --time`)
    #[value(hide = true)]
    Time,
    #[value(hide = true)]
    Waiting,
}

/// Parser of costs that a run can count.
pub(super) fn costs() -> impl TypedValueParser<Value = Metric> {
    EnumValueParser::<Metric>::new().try_map(counted)
}

fn counted(metric: Metric) -> Result<Metric, String> {
    use Metric::{L1dMisses, L1iMisses, LlMisses};
    match metric {
        L1iMisses | L1dMisses | LlMisses => {
            Err("misses are simulated; make them of a trace with `everypath caches`".into())
        }
        Metric::Time | Metric::Waiting => Err("time is sampled; give --time".into()),
        metric => Ok(metric),
    }
}

impl Metric {
    /// `None`: calls, which are counted always.
    pub fn cost(self) -> Option<Cost> {
        match self {
            Metric::Calls => None,
            Metric::Instructions => Some(Cost::Instructions),
            Metric::Branches => Some(Cost::Branches),
            Metric::Loads => Some(Cost::Loads),
            Metric::Stores => Some(Cost::Stores),
            Metric::Cycles => Some(Cost::Cycles),
            Metric::L1iMisses => Some(Cost::FetchMisses),
            Metric::L1dMisses => Some(Cost::DataMisses),
            Metric::LlMisses => Some(Cost::LastMisses),
            Metric::Time => Some(Cost::Time),
            Metric::Waiting => Some(Cost::Waiting),
        }
    }
}
