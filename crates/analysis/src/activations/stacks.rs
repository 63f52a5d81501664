//! The stacks of a thread: the rules of docs/design/0047, with the stack pointers that a trace has.
//!
//! Limits: memory is not in a trace, so a stack that was left is known by its addresses alone, and
//! not by the return addresses on it. Stacks that moved, slices that were copied away, and stacks
//! that go on in another thread are new ones.

use super::Sink;
use super::extents::Place;
use super::machine::{Activation, Machine, Segment};
use super::shape::Kind;
use crate::cct::Event;

/// A call with a stack pointer that is less below the one before is on the same stack.
const FRAME: i64 = 64 << 10;
/// Bytes above the first stack pointer of a stack that may be its, too.
const ABOVE: i64 = 64;
/// Bytes below the entry of an activation within which a handler on another stack finds it again.
const INTERRUPTED: i64 = 8 << 20;
/// Most stacks that are kept.
const MOST: usize = 1 << 16;

/// A stack that was left.
#[derive(Clone, Debug)]
struct Left {
    number: u32,
    low: i64,
    top: i64,
    segments: Vec<Segment>,
}

/// All stacks of a thread; the current one is the first until it is left.
#[derive(Clone, Debug)]
pub(super) struct Stacks {
    number: u32,
    top: i64,
    left: Vec<Left>,
    last: u32,
}

impl Default for Stacks {
    fn default() -> Stacks {
        Stacks {
            number: 0,
            top: i64::MAX,
            left: Vec::new(),
            last: 0,
        }
    }
}

impl Machine {
    /// Control arrives `here` by a call, a return or an indirect jump, and the stack pointer
    /// was loaded when it was `left`.
    pub(super) fn go(&mut self, kind: Kind, left: i64, here: &Place, sink: &mut dyn Sink) {
        let sp = self.stack.sp;
        // The stack pointer before a call or return.
        let at = match kind {
            Kind::Call => sp.wrapping_add(8),
            Kind::Return => sp.wrapping_sub(8),
            _ => sp,
        };
        let enters = kind != Kind::Call && here.entry;
        let is_own = (left..=self.stacks.top).contains(&at);
        let goes_on =
            |stack: &&Left| (stack.low..=stack.top).contains(&at) && (!is_own || stack.low >= left);
        let found = self.stacks.left.iter().filter(goes_on);
        let found = found
            .max_by_key(|stack| stack.low)
            .map(|stack| stack.number);
        let is_near = at < left && left.wrapping_sub(at) < FRAME;
        if found.is_none() && !enters && (is_own || is_near || self.is_interrupted_at(at)) {
            // The stack goes on; a call that comes before may not be the arrival yet.
            self.loaded = (kind == Kind::Call).then_some(left);
            return;
        }
        let caller = self.top().live.last().cloned();
        let was = self.stacks.number;
        let found = found.and_then(|number| self.stacks.take(number));
        let found = found.filter(|stack| {
            let mut live = stack.segments.iter().flat_map(|segment| &segment.live);
            !enters || stack.number == 0 || live.any(|live| live.entry_sp > sp)
        });
        self.switch(found, left, sink);
        let is_left = |live: &mut Activation| live.bridge && live.entry_sp <= at;
        while self.top().live.pop_if(is_left).is_some() {
            self.note(Event::Leave, sink);
        }
        if kind == Kind::Call {
            self.end_passed_at(at.wrapping_add(1), sink);
            if let Some(mut bridge) = caller {
                self.note(Event::Bridge(was), sink);
                (bridge.entry_sp, bridge.bridge) = (at, true);
                self.top().live.push(bridge);
            }
        } else if enters {
            self.end_passed_at(sp.wrapping_add(1), sink);
        }
    }

    /// The thread goes from its stack, `low` there, to one that it had left, or to a new one.
    fn switch(&mut self, found: Option<Left>, low: i64, sink: &mut dyn Sink) {
        let under_root = !self.is_maker();
        self.leave_stack(low);
        if let Some(stack) = found {
            (self.stacks.number, self.stacks.top) = (stack.number, stack.top);
            self.segments = stack.segments;
            return self.note(Event::Stack(stack.number), sink);
        }
        self.stacks.last += 1;
        let stack = self.stacks.last;
        (self.stacks.number, self.stacks.top) = (stack, self.stack.sp.wrapping_add(ABOVE));
        self.note(Event::NewStack { stack, under_root }, sink);
    }

    /// Whether what begins on a new stack is called by the current activation.
    fn is_maker(&self) -> bool {
        let mut live = self.segments.iter().flat_map(|segment| &segment.live);
        self.stacks.number == 0 && !live.any(|live| live.bridge)
    }

    /// A handler on a stack of its own may jump to what it interrupted.
    fn is_interrupted_at(&self, at: i64) -> bool {
        let mut live = self.segments.iter().flat_map(|segment| &segment.live);
        self.segments.len() > 1
            && live.any(|live| at <= live.entry_sp && live.entry_sp - at < INTERRUPTED)
    }

    /// Puts aside what is live on the current stack.
    fn leave_stack(&mut self, low: i64) {
        let segments = std::mem::replace(&mut self.segments, vec![Segment::default()]);
        let number = self.stacks.number;
        if number == 0 || segments.iter().any(|segment| !segment.live.is_empty()) {
            self.stacks.left.retain(|other| other.low != low);
            if self.stacks.left.len() == MOST {
                self.stacks.left.remove(0);
            }
            self.stacks.left.push(Left {
                number,
                low,
                top: self.stacks.top,
                segments,
            });
        }
    }
}

impl Stacks {
    fn take(&mut self, number: u32) -> Option<Left> {
        let at = self.left.iter().position(|stack| stack.number == number)?;
        Some(self.left.remove(at))
    }
}
