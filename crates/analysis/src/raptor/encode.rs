//! Branches to descriptors: figures 3.1, 4.25 and 4.28.

use super::{Config, Descriptor, END, ENTER, Exceptions, Predictors, SWITCH, Shared};
use crate::walk::{Branch, Item, Kind, Why};

/// Instructions behind a descriptor after which there is another one at the next branch, so
/// that numbers fit into 32 bits.
const FARTHEST: u64 = 1 << 31;

/// How well it went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub outcomes: u64,
    pub wrong_outcomes: u64,
    pub targets: u64,
    pub wrong_targets: u64,
    /// Number of `targets` that count as predicted and that no decoder can know.
    pub unclear_targets: u64,
    /// Handlers of signals that began.
    pub exceptions: u64,
    /// Descriptors of exceptions: also where threads begin, end and go on.
    pub exception_descriptors: u64,
}

impl Counts {
    pub fn add(&mut self, other: &Counts) {
        self.outcomes += other.outcomes;
        self.wrong_outcomes += other.wrong_outcomes;
        self.targets += other.targets;
        self.wrong_targets += other.wrong_targets;
        self.unclear_targets += other.unclear_targets;
        self.exceptions += other.exceptions;
        self.exception_descriptors += other.exception_descriptors;
    }
}

/// Makes the descriptors of one thread.
#[expect(missing_debug_implementations, reason = "predictors have none")]
pub struct Encoder {
    predictors: Predictors,
    count: u32,
    /// Instructions before the last descriptor.
    from: u64,
    farthest: u64,
    exceptions: Exceptions,
    counts: Counts,
}

impl Encoder {
    pub fn new(config: &Config) -> Encoder {
        Encoder::with(Predictors::new(config), config.exceptions)
    }

    /// It has predictors in turn with others.
    pub fn with_none() -> Encoder {
        Encoder::with(Predictors::none(), Exceptions::All)
    }

    /// Its turn begins, or it is over.
    pub fn swap(&mut self, shared: &mut Shared) {
        std::mem::swap(&mut self.predictors, &mut shared.0);
    }

    fn with(predictors: Predictors, exceptions: Exceptions) -> Encoder {
        Encoder {
            predictors,
            count: 1,
            from: 0,
            farthest: FARTHEST,
            exceptions,
            counts: Counts::default(),
        }
    }

    /// With another descriptor after so many instructions.
    #[must_use]
    pub fn no_farther_than(mut self, insns: u64) -> Encoder {
        self.farthest = insns.min(FARTHEST);
        self
    }

    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Takes the thread's next event; the descriptor that it needs.
    #[inline]
    pub fn item(&mut self, item: &Item) -> Option<Descriptor> {
        match *item {
            Item::Branch(ref branch) => self.branch(branch),
            Item::Went { why, to, number } => {
                let is_handler = matches!(why, Why::Signal(_));
                self.counts.exceptions += u64::from(is_handler);
                let is_said = is_handler || self.exceptions == Exceptions::All;
                is_said.then(|| self.exception(number, to))
            }
            Item::Entered {
                fragment,
                to,
                number,
            } => {
                let target = fragment.map_or(to, |id| ENTER | u64::from(id));
                let is_said = self.exceptions == Exceptions::All;
                is_said.then(|| self.exception(number, target))
            }
            Item::Stamp(_) => None,
        }
    }

    /// The thread ends, or nothing more is known, after so many instructions.
    pub fn end(&mut self, number: u64) -> Option<Descriptor> {
        let is_said = self.exceptions == Exceptions::All;
        is_said.then(|| self.exception(number, END))
    }

    /// After so many instructions another thread is next.
    pub fn switch(&mut self, number: u64) -> Descriptor {
        self.exception(number, SWITCH)
    }

    fn exception(&mut self, number: u64, target: u64) -> Descriptor {
        // At most `farthest`, and one piece of code.
        let insns = (number - self.from) as u32;
        self.counts.exception_descriptors += 1;
        self.reset(number);
        Descriptor::Exception { insns, target }
    }

    fn reset(&mut self, number: u64) {
        self.count = 1;
        self.from = number;
    }

    fn branch(&mut self, branch: &Branch) -> Option<Descriptor> {
        let found = match branch.kind {
            Kind::Conditional => self.outcome(branch),
            Kind::Return => {
                let predicted = self.predictors.returns.pop();
                self.target(branch, predicted == Some(branch.target))
            }
            Kind::IndirectJump => self.indirect(branch),
            Kind::IndirectCall => {
                let found = self.indirect(branch);
                self.predictors.returns.push(branch.next);
                found
            }
            Kind::Call => {
                self.predictors.returns.push(branch.next);
                None
            }
            Kind::Jump => None,
        };
        // A fragment could not be gone on with in its middle; it is not that long.
        if found.is_none() && branch.number - self.from > self.farthest && branch.fragment == 0 {
            let to = if branch.taken {
                branch.target
            } else {
                branch.next
            };
            return Some(self.exception(branch.number, to));
        }
        found
    }

    fn outcome(&mut self, branch: &Branch) -> Option<Descriptor> {
        let outcomes = &mut self.predictors.outcomes;
        let predicted = outcomes.predict(branch.pc);
        outcomes.learn(branch.taken);
        self.count += 1;
        self.counts.outcomes += 1;
        if predicted == branch.taken {
            return None;
        }
        self.counts.wrong_outcomes += 1;
        let count = self.count;
        self.reset(branch.number);
        Some(Descriptor::Outcome { count })
    }

    fn indirect(&mut self, branch: &Branch) -> Option<Descriptor> {
        let targets = &mut self.predictors.targets;
        let predicted = targets.predict(branch.pc);
        let holds = targets.learn(branch.target);
        let unclear = holds && predicted != Some(branch.target);
        self.counts.unclear_targets += u64::from(unclear);
        self.target(branch, holds)
    }

    fn target(&mut self, branch: &Branch, predicted: bool) -> Option<Descriptor> {
        self.count += 1;
        self.counts.targets += 1;
        if predicted {
            return None;
        }
        self.counts.wrong_targets += 1;
        let (count, target) = (self.count, branch.target);
        self.reset(branch.number);
        Some(Descriptor::Target { count, target })
    }
}
