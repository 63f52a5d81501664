//! mcfTRaptor: a thread's branches as what its branch predictors got wrong.
//!
//! Problem: a descriptor for each branch is most of a trace, and most branches go where they
//! went before.
//!
//! Approach: that of the mTrace thesis (figures 3.1, 4.22 to 4.29), which follows hardware:
//! every thread has a predictor of outcomes, a return-address stack and a buffer of targets.
//! [`Encoder`] says how many branches were predicted, and what happened at the first one that
//! was not; [`Decoder`] has the same predictors and the code, and makes all branches again.
//! Predictors are rows of [`OUTCOMES`] and [`TARGETS`]: a new one is a file and a row.
//!
//! The figures leave some points open and get some wrong:
//!
//! | figure | here |
//! |---|---|
//! | 3.1 resets bCnt to 0, the text and the output of 4.31, 4.33 and 4.35 to 1 | 1, so the first branch behind a descriptor has 2 |
//! | 4.27 takes a target in either way of a set for predicted, so a decoder cannot tell which | [`ibtb::Either`] does; [`ibtb::Last`] takes the way that was used last |
//! | 4.27 asks for the array of last used ways, not its element | the element |
//! | without a gshare every branch has a descriptor, without its outcome | not taken is predicted |
//! | where a thread begins, ends, comes back from a handler, and runs code that was other code before, is not said | exceptions: see [`Descriptor::Exception`] |
//!
//! Predictors are private to threads, or [`Shared`]: then each thread has them in turn, in the
//! order of time stamps, and says where its turn ends ([`SWITCH`]).

pub mod bimodal;
mod decode;
mod encode;
pub mod gshare;
pub mod ibtb;
pub mod ras;
pub mod tage;

pub use decode::{Decoder, Misfit};
pub use encode::{Counts, Encoder};
pub use ras::Overflow;

/// Says how conditional branches go.
pub trait Outcomes {
    /// Whether the branch at `pc` is taken, it says.
    fn predict(&mut self, pc: u64) -> bool;
    /// How the branch went that was asked for last.
    fn learn(&mut self, taken: bool);
}

/// Says where indirect jumps and calls go.
pub trait Targets {
    /// Predicted target of the branch at `pc`, as a decoder has to take it.
    fn predict(&mut self, pc: u64) -> Option<u64>;
    /// Learns the target of the branch that was asked for last; returns true if it counts as predicted.
    fn learn(&mut self, target: u64) -> bool;
}

/// A predictor of outcomes.
#[derive(Debug)]
pub struct OutcomesRow {
    pub name: &'static str,
    /// The parameter is its entries, a power of two.
    pub make: fn(usize) -> Box<dyn Outcomes>,
}

pub const OUTCOMES: [OutcomesRow; 3] = [
    OutcomesRow {
        name: "gshare",
        make: |entries| Box::new(gshare::Gshare::new(entries)),
    },
    OutcomesRow {
        name: "bimodal",
        make: |entries| Box::new(bimodal::Bimodal::new(entries)),
    },
    OutcomesRow {
        name: "tage",
        make: |entries| Box::new(tage::Tage::new(entries)),
    },
];

/// A predictor of targets.
#[derive(Debug)]
pub struct TargetsRow {
    pub name: &'static str,
    /// The parameter is its entries, a power of two.
    pub make: fn(usize) -> Box<dyn Targets>,
    /// Only its predictions count as predicted.
    pub decodable: bool,
}

pub const TARGETS: [TargetsRow; 2] = [
    TargetsRow {
        name: "ibtb",
        make: |entries| Box::new(ibtb::Ibtb::<ibtb::Either>::new(entries)),
        decodable: false,
    },
    TargetsRow {
        name: "ibtb-last",
        make: |entries| Box::new(ibtb::Ibtb::<ibtb::Last>::new(entries)),
        decodable: true,
    },
];

/// Most entries of a predictor.
pub const MOST_ENTRIES: u32 = 1 << 24;

/// Which predictors every thread has. With 0 entries there is none.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    pub outcomes: &'static OutcomesRow,
    pub outcome_entries: u32,
    pub targets: &'static TargetsRow,
    pub target_entries: u32,
    pub returns: u32,
    /// Behaviour when more calls are open than `returns`.
    pub overflow: Overflow,
    pub exceptions: Exceptions,
}

/// Which exceptions have descriptors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exceptions {
    /// All that a decoder needs.
    #[default]
    All,
    /// Exceptions of the thesis: handlers of signals. Nothing can decode the descriptors.
    Handlers,
}

/// The predictors of the thesis, chapter 6.3.
impl Default for Config {
    fn default() -> Config {
        Config {
            outcomes: &OUTCOMES[0],
            outcome_entries: 4096,
            targets: &TARGETS[0],
            target_entries: 64,
            returns: 32,
            overflow: Overflow::default(),
            exceptions: Exceptions::default(),
        }
    }
}

/// Without a predictor of outcomes.
struct NotTaken;

impl Outcomes for NotTaken {
    fn predict(&mut self, _: u64) -> bool {
        false
    }
    fn learn(&mut self, _: bool) {}
}

/// Without a predictor of targets.
struct Nowhere;

impl Targets for Nowhere {
    fn predict(&mut self, _: u64) -> Option<u64> {
        None
    }
    fn learn(&mut self, _: u64) -> bool {
        false
    }
}

/// The predictors of one thread.
struct Predictors {
    outcomes: Box<dyn Outcomes>,
    targets: Box<dyn Targets>,
    returns: ras::Ras,
}

impl Predictors {
    /// In place of those that another thread has now.
    fn none() -> Predictors {
        Predictors::new(&Config {
            outcome_entries: 0,
            target_entries: 0,
            returns: 0,
            ..Config::default()
        })
    }

    fn new(config: &Config) -> Predictors {
        Predictors {
            outcomes: match config.outcome_entries {
                0 => Box::new(NotTaken),
                entries => (config.outcomes.make)(size(entries)),
            },
            targets: match config.target_entries {
                0 => Box::new(Nowhere),
                entries => (config.targets.make)(size(entries)),
            },
            returns: ras::Ras::new(size(config.returns), config.overflow),
        }
    }
}

fn size(entries: u32) -> usize {
    entries.min(MOST_ENTRIES) as usize
}

/// Predictors that several threads use in turn.
pub struct Shared(Predictors);

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shared")
    }
}

impl Shared {
    pub fn new(config: &Config) -> Shared {
        Shared(Predictors::new(config))
    }
}

/// Misprediction of a thread's predictors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Descriptor {
    /// The conditional branch with this number behind the last descriptor went the other
    /// way. Numbers count conditional and indirect branches, and begin with 2.
    Outcome { count: u32 },
    /// The indirect branch with this number went there.
    Target { count: u32, target: u64 },
    /// Control went to `target` without a branch, so many instructions after the last descriptor:
    /// a handler of a signal, its return, the beginning of a thread. See [`END`], [`ENTER`].
    Exception { insns: u32, target: u64 },
}

/// Target of the exception that ends a thread; no address.
pub const END: u64 = ENTER;

/// With the number of a fragment of the recording in the low half, the target of the
/// exception where that begins to be executed; no address.
pub const ENTER: u64 = 1 << 63;

/// Target of the exception behind which another thread uses the predictors; no address.
pub const SWITCH: u64 = 1 << 63 | 1 << 62;
