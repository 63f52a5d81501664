//! The stack pointer of a thread, and its calls that have not returned.
//!
//! Problem: a trace has the stack pointer where code does not say what it is, and nothing of
//! it elsewhere; older traces have it nowhere.
//!
//! Approach: what each instruction does to it is followed, and to registers that calls keep and
//! that may hold what was made of it. What a trace says of it counts. As long as all is
//! followed from there, it is exact; otherwise a return that goes where its call came from
//! puts it right.
//!
//! Where a load leads to another stack, calls above which it leads are put aside: when a
//! load leads back to where they were left, they are there again, and with them what the
//! registers are that are kept (`swapcontext`, coroutines).
//!
//! Limits: of stacks that were left, [`MOST_LEFT`] with [`MOST_CALLS`] calls each are known. Of
//! others the frame pointer is taken to be where the function's entry puts it.

use std::collections::VecDeque;

use isa::StackEffect;
use isa::stack::RBP;

/// Among how many of the newest calls a return looks for its own, if it is not the newest's.
const NEAR: usize = 1 << 12;
const MOST_LEFT: usize = 64;
const MOST_CALLS: usize = 1024;

/// Registers that calls keep, if they hold what was made of the stack pointer.
type Kept = [Option<i64>; isa::stack::KEPT.len()];

/// A call that has not returned.
#[derive(Clone, Copy, Debug)]
struct Call {
    back: u64,
    /// Stack pointer after the push of that address.
    sp: i64,
    kept: Kept,
    exact: bool,
}

/// Calls that were live on a stack when it was left.
#[derive(Clone, Debug)]
struct Left {
    sp: i64,
    calls: Vec<Call>,
}

/// State that is restored when a handler of a signal returns.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Saved {
    sp: i64,
    exact: bool,
    kept: Kept,
    /// Calls that are not the handler's.
    calls: usize,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Stack {
    pub sp: i64,
    /// It is that, and not only likely.
    exact: bool,
    kept: Kept,
    calls: Vec<Call>,
    left: VecDeque<Left>,
    /// It was loaded with what is not known yet.
    loaded: bool,
    /// It was loaded with what is another activation's, where control did not go yet: what
    /// that one's registers were.
    switched: Option<Option<Kept>>,
}

impl Stack {
    pub fn is_exact(&self) -> bool {
        self.exact
    }

    /// How many calls have not returned.
    pub fn depth(&self) -> usize {
        self.calls.len()
    }

    /// Return addresses of the open calls, newest first.
    pub fn returns(&self) -> impl Iterator<Item = u64> {
        self.calls.iter().rev().map(|call| call.back)
    }

    pub fn save(&self) -> Saved {
        Saved {
            sp: self.sp,
            exact: self.exact,
            kept: self.kept,
            calls: self.calls.len(),
        }
    }

    pub fn restore(&mut self, saved: Saved) {
        (self.sp, self.exact, self.kept) = (saved.sp, saved.exact, saved.kept);
        self.calls.truncate(saved.calls);
        (self.loaded, self.switched) = (false, None);
    }

    /// A handler of a signal begins, about there.
    pub fn interrupt(&mut self, sp: i64) {
        (self.sp, self.exact) = (sp, false);
        (self.loaded, self.switched) = (false, None);
    }

    /// The trace says what it is. Calls below `floor` are not those of who runs.
    pub fn tell(&mut self, sp: i64, floor: &Saved) {
        if std::mem::take(&mut self.loaded) {
            self.switch(sp, floor);
        }
        (self.sp, self.exact) = (sp, true);
    }

    /// It is loaded with `to`.
    fn switch(&mut self, to: i64, floor: &Saved) {
        let own = self
            .calls
            .last()
            .map_or(i64::MAX, |call| call.sp.wrapping_add(8));
        if (self.sp..=own).contains(&to) {
            return;
        }
        let passed = self.calls.partition_point(|call| call.sp >= to);
        let passed = self
            .calls
            .split_off(passed.max(floor.calls).min(self.calls.len()));
        self.switched = Some(passed.first().map(|call| call.kept));
        if (1..=MOST_CALLS).contains(&passed.len()) {
            if self.left.len() == MOST_LEFT {
                self.left.pop_front();
            }
            self.left.push_back(Left {
                sp: self.sp,
                calls: passed,
            });
        }
        // Code that leaves a stack may push its resume address above the stack pointer that is loaded later.
        let is_there = |left: &Left| left.sp == to || left.sp.checked_add(8) == Some(to);
        if let Some(at) = self.left.iter().rposition(is_there)
            && let Some(left) = self.left.remove(at)
        {
            self.calls.extend(left.calls);
        }
    }

    /// An instruction is executed. `frame`: what rbp is likely to be, if that is not known.
    /// Whether the stack pointer is lost.
    pub fn effect(&mut self, effect: StackEffect, frame: impl Fn(i64) -> Option<i64>) -> bool {
        let caller = |register: usize| self.calls.last().and_then(|call| call.kept[register]);
        let likely = || frame(self.sp).filter(|_| self.exact);
        match effect {
            StackEffect::Adds(n) => self.sp = self.sp.wrapping_add(n),
            StackEffect::Pops(register) => {
                let kept = caller(register.into());
                self.sp = self.sp.wrapping_add(8);
                self.kept[usize::from(register)] = kept;
            }
            StackEffect::From(register, n) => match self.kept[usize::from(register)] {
                Some(value) => self.sp = value.wrapping_add(n),
                None if n == 0 && register != RBP => {
                    (self.loaded, self.exact) = (true, false);
                    return true;
                }
                None => {
                    self.sp = match register {
                        RBP => likely().map_or(self.sp, |frame| frame.wrapping_add(n)),
                        _ => self.sp,
                    };
                    self.exact = false;
                }
            },
            StackEffect::Into(register, n) => {
                self.kept[usize::from(register)] = Some(self.sp.wrapping_add(n));
            }
            StackEffect::Leave => {
                let kept = caller(RBP.into());
                let known = self.kept[usize::from(RBP)];
                if let Some(frame) = known.or_else(likely) {
                    self.sp = frame.wrapping_add(8);
                }
                self.exact &= known.is_some();
                self.kept[usize::from(RBP)] = kept;
            }
            StackEffect::Aligns(mask) => self.sp &= mask,
            StackEffect::Loses(registers) => {
                let lost = (0..self.kept.len()).filter(|register| registers >> register & 1 != 0);
                lost.for_each(|register| self.kept[register] = None);
            }
            StackEffect::Loads => {
                (self.loaded, self.exact) = (true, false);
                return true;
            }
            StackEffect::Nothing => {}
        }
        false
    }

    pub fn call(&mut self, back: u64) {
        self.sp = self.sp.wrapping_sub(8);
        self.calls.push(Call {
            back,
            sp: self.sp,
            kept: self.kept,
            exact: self.exact,
        });
    }

    /// Whether a return goes where the newest call came from.
    pub fn is_back(&self, next: u64, floor: &Saved) -> bool {
        self.calls.len() > floor.calls && self.calls.last().is_some_and(|call| call.back == next)
    }

    /// A return pops so much, where the stack pointer is exact.
    pub fn returns_exactly(&mut self, pops: i64, floor: &Saved) {
        self.sp = self.sp.wrapping_add(pops);
        let pending = self.switched.take();
        match self.pass(floor) {
            Some(kept) => self.kept = kept,
            None if pending.is_some() => self.kept = pending.flatten().unwrap_or_default(),
            // The return went to an address that was pushed, not to that of a call.
            None => {}
        }
    }

    /// An indirect jump, where the stack pointer is exact: perhaps the end of a longjmp.
    pub fn jumps_exactly(&mut self) {
        if let Some(kept) = self.switched.take() {
            self.kept = kept.unwrap_or_default();
        }
    }

    /// Removes calls that the stack pointer has passed. What was kept at the first of them.
    fn pass(&mut self, floor: &Saved) -> Option<Kept> {
        let mut kept = None;
        while self.calls.len() > floor.calls
            && let Some(call) = self.calls.pop_if(|call| call.sp < self.sp)
        {
            kept = Some(call.kept);
        }
        kept
    }

    /// The newest call returns.
    pub fn returned(&mut self, pops: i64) {
        let Some(call) = self.calls.pop() else { return };
        self.sp = call.sp.wrapping_add(pops);
        (self.kept, self.exact) = (call.kept, call.exact);
        (self.loaded, self.switched) = (false, None);
    }

    /// A return goes to `next`, which is not where the newest call came from.
    pub fn returns_elsewhere(&mut self, pops: i64, next: u64) {
        let first = self.calls.len().saturating_sub(NEAR);
        let near = &self.calls[first..];
        let exact = near.iter().rposition(|call| call.sp == self.sp);
        let named = near.iter().rposition(|call| call.back == next);
        let named = named.map(|at| first + at);
        match (exact, named) {
            // Something was left out, on a stack that was not followed exactly.
            (None, Some(at)) if self.calls[at].sp >= self.sp => {
                self.calls.truncate(at + 1);
                self.returned(pops);
            }
            _ => {
                self.sp = self.sp.wrapping_add(pops);
                let sp = self.sp;
                while self.calls.pop_if(|call| call.sp < sp).is_some() {}
            }
        }
    }

    /// Control goes back to an activation whose stack pointer is likely to be that.
    pub fn lands(&mut self, sp: i64) {
        self.sp = sp;
        (self.kept, self.loaded) = (Kept::default(), false);
        while let Some(call) = self.calls.pop_if(|call| call.sp < sp) {
            self.kept = call.kept;
        }
    }
}
