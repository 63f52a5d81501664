//! Descriptors and code to branches: what the thesis leaves to a debugger.
//!
//! Approach: the code says what is executed up to the next branch that could go in two
//! ways or anywhere; the predictors say where it goes, unless the next descriptor is about
//! that one. Exceptions are counted in instructions, so they come within a piece of code.
//!
//! Invariants: any descriptors with any code give items or a [`Misfit`], and nothing after it.

use std::collections::VecDeque;
use std::fmt;

use super::{Config, Descriptor, END, ENTER, Predictors, SWITCH, Shared};
use crate::walk::{Branch, Item, Kind, Pieces, Site, Steer, Unsound, Why};

/// Why descriptors do not go with the code.
#[derive(Debug)]
pub enum Misfit {
    Code(Unsound),
    /// They end before the thread does.
    Cut,
    /// The next one cannot be about what is executed.
    Descriptor(Descriptor),
    /// Nothing says where the branch at this address goes.
    Silent(u64),
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Misfit::Code(error) => error.fmt(f),
            Misfit::Cut => write!(f, "the descriptors end before the thread does"),
            Misfit::Descriptor(descriptor) => {
                write!(f, "{descriptor:?} does not go with the code")
            }
            Misfit::Silent(pc) => write!(f, "nothing says where the branch at {pc:#x} goes"),
        }
    }
}

impl std::error::Error for Misfit {}

impl From<Unsound> for Misfit {
    fn from(error: Unsound) -> Misfit {
        Misfit::Code(error)
    }
}

/// Makes the branches of one thread again. Where control went without a branch it does not
/// know why: [`Why::Unknown`] with 0.
#[expect(missing_debug_implementations, reason = "predictors have none")]
pub struct Decoder<'a, D> {
    steer: Steer<'a>,
    predictors: Predictors,
    descriptors: D,
    next: Option<Descriptor>,
    /// Conditional and indirect branches behind the last descriptor, and one.
    count: u32,
    /// Instructions behind it.
    insns: u64,
    /// Instructions of the thread.
    number: u64,
    /// Instructions of the piece of code that were executed before another thread was next.
    done: u64,
    ready: VecDeque<Item>,
    /// Another thread is next.
    waits: bool,
    over: bool,
}

impl<'a, D: Iterator<Item = Descriptor>> Decoder<'a, D> {
    pub fn new(pieces: &'a mut Pieces, config: &Config, descriptors: D) -> Decoder<'a, D> {
        let mut decoder = Decoder {
            predictors: Predictors::new(config),
            ..Decoder::waiting(pieces, descriptors)
        };
        decoder.resume();
        decoder
    }

    /// One that has predictors in turn with others, and gives items when it is
    /// [resumed](Decoder::resume), up to the end of its turn.
    pub fn waiting(pieces: &'a mut Pieces, descriptors: D) -> Decoder<'a, D> {
        Decoder {
            steer: Steer::new(pieces),
            predictors: Predictors::none(),
            next: None,
            descriptors,
            count: 1,
            insns: 0,
            number: 0,
            done: 0,
            ready: VecDeque::new(),
            waits: true,
            over: false,
        }
    }

    /// Its turn begins, or it is over.
    pub fn swap(&mut self, shared: &mut Shared) {
        std::mem::swap(&mut self.predictors, &mut shared.0);
    }

    /// It is its turn.
    pub fn resume(&mut self) {
        if std::mem::take(&mut self.waits) {
            self.next = self.descriptors.next();
        }
    }

    /// There is nothing more of the thread.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Instructions executed up to the last item.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Up to the next outcome or exception.
    fn advance(&mut self) -> Result<(), Misfit> {
        let next = self.next.ok_or(Misfit::Cut)?;
        let len = self.steer.steps().map_or(0, <[_]>::len) as u64 - self.done;
        let open = self.steer.open_branch();
        if let Descriptor::Exception { insns, target } = next {
            let left = u64::from(insns).checked_sub(self.insns);
            let left = left.ok_or(Misfit::Descriptor(next))?;
            if left < len || left == len && open.is_none() {
                self.direct(left);
                return self.exception(left, target);
            }
        }
        self.steer.steps()?;
        // A loop without outcomes might never end.
        if self.insns > u64::from(u32::MAX) {
            return Err(Misfit::Descriptor(next));
        }
        self.direct(len - u64::from(open.is_some()));
        let number = self.number + len;
        self.number = number;
        self.insns += len;
        self.done = 0;
        let Some((site_number, site)) = open else {
            self.steer.go(true)?;
            return Ok(());
        };
        let mut branch = branch_of(site_number, &site, number);
        match site.kind {
            Kind::Conditional => {
                branch.taken = self.outcome(&branch)?;
                self.steer.go(branch.taken)?;
            }
            _ => {
                branch.target = self.target(&branch)?;
                self.steer.go_to(branch.target);
            }
        }
        self.ready.push_back(Item::Branch(branch));
        Ok(())
    }

    /// The branches among the next `steps` instructions, which are direct.
    fn direct(&mut self, steps: u64) {
        for &(at, number) in self.steer.branches() {
            let Some(at) = u64::from(at).checked_sub(self.done) else {
                continue;
            };
            if at >= steps {
                break;
            }
            let site = self.steer.site(number);
            let branch = branch_of(number, &site, self.number + at + 1);
            if site.kind == Kind::Call {
                self.predictors.returns.push(branch.next);
            }
            self.ready.push_back(Item::Branch(branch));
        }
    }

    fn exception(&mut self, left: u64, target: u64) -> Result<(), Misfit> {
        self.number += left;
        if target == SWITCH {
            self.done += left;
            (self.next, self.count, self.insns, self.waits) = (None, 1, 0, true);
            return Ok(());
        }
        self.done = 0;
        self.passed();
        let number = self.number;
        if target == END {
            self.over = true;
            return Ok(());
        }
        let item = match target & !u64::from(u32::MAX) {
            ENTER => {
                self.steer.enter(target as u32)?;
                Item::Entered {
                    fragment: Some(target as u32),
                    to: 0,
                    number,
                }
            }
            _ => {
                self.steer.go_to(target);
                Item::Went {
                    why: Why::Unknown(0),
                    to: target,
                    number,
                }
            }
        };
        self.ready.push_back(item);
        Ok(())
    }

    /// The descriptor was used.
    fn passed(&mut self) {
        self.next = self.descriptors.next();
        self.count = 1;
        self.insns = 0;
    }

    fn outcome(&mut self, branch: &Branch) -> Result<bool, Misfit> {
        self.count = self.count.saturating_add(1);
        let predicted = self.predictors.outcomes.predict(branch.pc);
        let taken = match self.next {
            Some(Descriptor::Outcome { count }) if count == self.count => !predicted,
            Some(next @ Descriptor::Target { count, .. }) if count == self.count => {
                return Err(Misfit::Descriptor(next));
            }
            _ => predicted,
        };
        self.predictors.outcomes.learn(taken);
        if taken != predicted {
            self.passed();
        }
        Ok(taken)
    }

    fn target(&mut self, branch: &Branch) -> Result<u64, Misfit> {
        self.count = self.count.saturating_add(1);
        let predictors = &mut self.predictors;
        let predicted = match branch.kind {
            Kind::Return => predictors.returns.pop(),
            _ => predictors.targets.predict(branch.pc),
        };
        let said = match self.next {
            Some(Descriptor::Target { count, target }) if count == self.count => Some(target),
            Some(next @ Descriptor::Outcome { count }) if count == self.count => {
                return Err(Misfit::Descriptor(next));
            }
            _ => None,
        };
        let target = said.or(predicted).ok_or(Misfit::Silent(branch.pc))?;
        if branch.kind != Kind::Return {
            predictors.targets.learn(target);
        }
        if branch.kind == Kind::IndirectCall {
            predictors.returns.push(branch.next);
        }
        if said.is_some() {
            self.passed();
        }
        Ok(target)
    }
}

fn branch_of(number: u32, site: &Site, at: u64) -> Branch {
    Branch {
        site: number,
        fragment: site.step.fragment,
        pc: site.step.pc,
        next: site.step.pc.wrapping_add(site.step.len.into()),
        kind: site.kind,
        taken: true,
        target: site.target,
        number: at,
    }
}

impl<D: Iterator<Item = Descriptor>> Iterator for Decoder<'_, D> {
    type Item = Result<Item, Misfit>;

    fn next(&mut self) -> Option<Result<Item, Misfit>> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Some(Ok(item));
            }
            if self.over || self.waits {
                return None;
            }
            if let Err(error) = self.advance() {
                self.over = true;
                self.ready.clear();
                return Some(Err(error));
            }
        }
    }
}
