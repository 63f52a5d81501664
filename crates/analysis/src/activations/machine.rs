//! One thread: its stack pointer as far as it can be followed, and what is live.
//!
//! Stack pointers are distances from the thread's first, and only compared with each other.
//!
//! The testkit's oracle has the definitions of activations, too, with the true stack pointer:
//! apart, on purpose, as live contexts are compared with it.
//!
//! Invariant: in a segment, the stack pointers at entries do not rise from the bottom to
//! the top, because what the stack pointer has passed is removed first.

use hashbrown::HashMap;
use isa::{Flow, StackEffect};
use trace::Label;

use super::extents::{Functions, Place};
use super::shape::{self, Act, Back, Executed, Kind, Shape};
use super::{Costs, Sink};
use crate::cct::Event;
use crate::walk::{Key, Run, Runs, Why};

/// Places to which calls returned that an activation remembers.
const RETURNED: usize = 6;
/// Most calls that are live in a thread. Each needs stack, but who made the recording may say
/// otherwise.
pub const MOST_LIVE: usize = 1 << 21;
/// Among how many of the newest calls a return looks for its own, if it is not the newest's.
const NEAR: usize = 1 << 12;
/// Bytes below an interrupted stack pointer where a handler begins, about: what matters is
/// that it is below.
const FRAME: i64 = 4096;

/// Registers that calls keep, if they hold what was made of the stack pointer.
type Kept = [Option<i64>; isa::stack::KEPT.len()];
/// Its place among them.
pub(super) const RBP: u8 = 1;

#[derive(Clone, Debug)]
struct Activation {
    function: u64,
    entry_sp: i64,
    label: Label,
    /// The stack pointer before its last call.
    call_sp: i64,
    /// Where calls came back to it, and how many did.
    returned: [u64; RETURNED],
    returns: usize,
    /// It goes on unwinding for its caller.
    resumes: bool,
}

/// A call that has not returned.
#[derive(Clone, Copy, Debug)]
struct Call {
    back: u64,
    /// Behind the push of that address.
    sp: i64,
    kept: Kept,
}

/// What began under one root.
#[derive(Clone, Debug)]
struct Segment {
    root: Label,
    /// `None` for the thread itself.
    entry_sp: Option<i64>,
    live: Vec<Activation>,
    muted: Option<i64>,
    /// What was interrupted.
    sp: i64,
    kept: Kept,
    calls: usize,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Machine {
    segments: Vec<Segment>,
    sp: i64,
    kept: Kept,
    calls: Vec<Call>,
    /// The stack pointer was loaded with what is not known, and control did not go
    /// elsewhere yet: when, and what the stack pointer was.
    lost: Option<(Costs, i64)>,
    /// Of the last event.
    noted: Costs,
    now: Costs,
    last: Option<Executed>,
    /// What is executed next, if `last` is said.
    next: u64,
}

/// What runs are known, by thread's process.
#[derive(Default)]
pub(super) struct Shapes(HashMap<Key, Option<Shape>>);

impl Machine {
    pub fn new() -> Machine {
        Machine::default()
    }

    /// The same in a forked child, which has executed nothing.
    pub fn child(mut self) -> Machine {
        self.now = [0; 4];
        self.noted = [0; 4];
        self.lost = self.lost.map(|(_, sp)| ([0; 4], sp));
        self
    }

    /// Everything live, oldest first.
    pub fn live(&self) -> Vec<Event> {
        let mut events = Vec::new();
        for segment in &self.segments {
            events.push(Event::Begin(segment.root));
            let live = segment.live.iter();
            events.extend(live.map(|activation| Event::Enter(activation.label)));
        }
        events
    }

    /// Whether more than [`MOST_LIVE`] calls are live: none should be added.
    pub fn is_too_deep(&self) -> bool {
        let live = self.segments.last().map_or(0, |segment| segment.live.len());
        self.calls.len().max(live) > MOST_LIVE || self.segments.len() > MOST_LIVE
    }

    /// Where what was called returns to, newest first.
    pub fn returns(&self) -> impl Iterator<Item = u64> {
        self.calls.iter().rev().map(|call| call.back)
    }

    /// `kernel` is told where the kernel comes back to, before anything of that is executed.
    pub fn run(
        &mut self,
        runs: &Runs<'_>,
        run: &Run,
        shapes: &mut Shapes,
        functions: &mut Functions<'_>,
        sink: &mut dyn Sink,
        kernel: &mut dyn FnMut(Back, &Machine),
    ) {
        let known = shapes.0.entry(run.key());
        let shape = known.or_insert_with(|| shape::of(runs.steps(run), runs.code(), functions));
        let Some(shape) = shape else { return };
        let before = self.now;
        match self.last.take() {
            Some(last) => self.arrive(last, shape.start, functions, sink),
            None if self.segments.is_empty() => self.start(shape.start, functions, sink),
            None => {}
        }
        for act in &shape.acts {
            match *act {
                Act::Arrive { costs, last, place } => {
                    self.now = plus(before, costs);
                    self.arrive(last, place, functions, sink);
                }
                Act::Effect(effect) => self.effect(effect),
                Act::Call(back) => self.call(back),
                Act::Kernel(back) => {
                    let place = Executed {
                        kind: Kind::Plain,
                        place: shape.last.place,
                    };
                    let was = self.last.replace(place);
                    kernel(back, self);
                    self.last = was;
                }
                Act::Load(costs) => self.lost = Some((plus(before, costs), self.sp)),
            }
        }
        self.now = plus(before, shape.costs);
        self.last = Some(shape.last);
        self.next = next_of(runs, run, shape);
        if run.outcome.is_some() || !matches!(shape.flow, Flow::Return(_)) {
            self.leave(shape.flow, functions, sink);
        }
    }

    /// The last instruction of a run goes elsewhere.
    fn leave(&mut self, flow: Flow, functions: &mut Functions<'_>, sink: &mut dyn Sink) {
        match flow {
            Flow::Return(_) if self.is_back() => {
                let call = self.calls.pop();
                self.returned(call, flow);
            }
            Flow::Return(extra) if self.lost.is_some() => {
                self.land(8 + i64::from(extra), functions, sink);
            }
            Flow::IndirectJump if self.lost.is_some() => self.land(0, functions, sink),
            Flow::Return(extra) => {
                let sp = self.sp + 8 + i64::from(extra);
                let first = self.calls.len().saturating_sub(NEAR);
                let near = &self.calls[first..];
                let exact = near.iter().rposition(|call| call.sp == self.sp);
                let named = near.iter().rposition(|call| call.back == self.next);
                let named = named.map(|at| first + at);
                match (exact, named) {
                    // Something was left out, on a stack that was not followed exactly.
                    (None, Some(at)) if self.calls[at].sp >= self.sp => {
                        self.calls.truncate(at + 1);
                        let call = self.calls.pop();
                        self.returned(call, flow);
                    }
                    _ => {
                        self.sp = sp;
                        while self.calls.last().is_some_and(|call| call.sp < sp) {
                            self.calls.pop();
                        }
                    }
                }
            }
            _ => {}
        }
    }

    /// Whether a return goes where the newest call came from.
    fn is_back(&self) -> bool {
        let floor = self.segments.last().map_or(0, |segment| segment.calls);
        self.calls.len() > floor && self.calls.last().is_some_and(|call| call.back == self.next)
    }

    fn returned(&mut self, call: Option<Call>, flow: Flow) {
        let Some(call) = call else { return };
        let extra = match flow {
            Flow::Return(extra) => i64::from(extra),
            _ => 0,
        };
        self.sp = call.sp + 8 + extra;
        self.kept = call.kept;
        self.lost = None;
    }

    fn effect(&mut self, effect: StackEffect) {
        let kept = &mut self.kept;
        let caller = |register: usize| self.calls.last().and_then(|call| call.kept[register]);
        match effect {
            StackEffect::Adds(n) => self.sp = self.sp.wrapping_add(n),
            StackEffect::Pops(register) => {
                self.sp += 8;
                kept[usize::from(register)] = caller(register.into());
            }
            StackEffect::From(register, n) => match kept[usize::from(register)] {
                Some(value) => self.sp = value + n,
                None if n == 0 && register != RBP => self.lost = Some((self.now, self.sp)),
                None => {}
            },
            StackEffect::Into(register, n) => kept[usize::from(register)] = Some(self.sp + n),
            StackEffect::Leave => {
                self.sp = kept[usize::from(RBP)].map_or(self.sp, |frame| frame + 8);
                kept[usize::from(RBP)] = caller(RBP.into());
            }
            StackEffect::Aligns(mask) => self.sp &= mask,
            StackEffect::Loses(registers) => {
                let lost = (0..kept.len()).filter(|register| registers >> register & 1 != 0);
                lost.for_each(|register| kept[register] = None);
            }
            StackEffect::Nothing | StackEffect::Loads => {}
        }
    }

    fn call(&mut self, back: u64) {
        let sp = self.sp;
        if let Some(top) = self.top().live.last_mut() {
            top.call_sp = sp;
        }
        self.sp -= 8;
        self.calls.push(Call {
            back,
            sp: self.sp,
            kept: self.kept,
        });
    }

    /// Which activation control goes back to, where the stack pointer is not known.
    fn landing(&self, place: &Place) -> Option<(usize, usize)> {
        let function = place.function.filter(|_| !place.entry)?;
        let mut newest = None;
        let mut resumes = false;
        for (at, segment) in self.segments.iter().enumerate().rev() {
            for (level, live) in segment.live.iter().enumerate().rev() {
                // Who goes on unwinding is not where that leads.
                let skipped = std::mem::replace(&mut resumes, live.resumes);
                if live.function != function || skipped {
                    continue;
                }
                if live.returned.contains(&place.pc) {
                    return Some((at, level));
                }
                newest = newest.or(Some((at, level)));
            }
        }
        newest
    }

    /// Control goes to `self.next` with a stack pointer that is not known, by a branch that
    /// pops so much: to an activation that is live already.
    fn land(&mut self, pops: i64, functions: &mut Functions<'_>, sink: &mut dyn Sink) {
        let Some((loaded, before)) = self.lost.take() else {
            return;
        };
        if self.top().muted.is_some() {
            return;
        }
        let place = functions.place(0, self.next);
        let Some((at, level)) = self.landing(&place) else {
            return;
        };
        if at + 1 == self.segments.len() && level + 1 == self.top().live.len() {
            // Within an activation, which has freed what it had on the stack.
            return;
        }
        // What the load passed ended then, and all else by the branch.
        let now = self.now;
        self.now = if loaded[0] < self.noted[0] {
            self.noted
        } else {
            loaded
        };
        let rest = self.sp - before + pops;
        self.sp = self.segments[at].live[level].call_sp - rest;
        self.end_passed(sink);
        self.now = now;
        while self.segments.len() > at + 1 {
            self.end_segment(sink);
        }
        while self.top().live.len() > level + 1 {
            self.top().live.pop();
            self.note(Event::Leave, sink);
        }
        let Some(landed) = self.top().live.get(level) else {
            return;
        };
        self.sp = landed.call_sp;
        self.kept = Kept::default();
        while let Some(call) = self.calls.pop_if(|call| call.sp < self.sp) {
            self.kept = call.kept;
        }
    }

    fn start(&mut self, place: Place, functions: &mut Functions<'_>, sink: &mut dyn Sink) {
        self.segments.push(Segment {
            root: Label::THREAD,
            entry_sp: None,
            live: Vec::new(),
            muted: None,
            sp: 0,
            kept: Kept::default(),
            calls: 0,
        });
        self.note(Event::Begin(Label::THREAD), sink);
        if place.entry {
            self.begin(place, functions, sink);
        }
    }

    /// Control went from `last` to `here`.
    fn arrive(
        &mut self,
        last: Executed,
        here: Place,
        functions: &mut Functions<'_>,
        sink: &mut dyn Sink,
    ) {
        if last.kind == Kind::Call {
            if self.top().muted.is_none() && !here.stub {
                self.end_passed(sink);
                self.begin(here, functions, sink);
            }
            return;
        }
        if last.kind != Kind::Plain && self.top().muted.is_none() {
            self.end_passed(sink);
            if last.kind == Kind::Return
                && let Some(top) = self.top().live.last_mut()
            {
                top.returned[top.returns % RETURNED] = here.pc;
                top.returns += 1;
            }
        }
        if here.function == last.place.function && !last.place.stub {
            return;
        }
        if self.still_muted(last.place, here, sink) {
            return;
        }
        if last.kind == Kind::Return && self.handler_returned() {
            // Into the restorer, whose address the kernel pushed: no call.
        } else if here.lazy && here.entry {
            self.top().muted = Some(self.sp);
            sink.muted(true, self.now);
            self.noted = self.now;
        } else if here.entry {
            self.begin(here, functions, sink);
        } else if last.kind == Kind::Jump {
            self.end_above(here.function, sink);
        }
    }

    /// Lazy binding ends by a jump out of it from above its entry.
    fn still_muted(&mut self, last: Place, here: Place, sink: &mut dyn Sink) -> bool {
        let sp = self.sp;
        let segment = self.top();
        let Some(entry_sp) = segment.muted else {
            return false;
        };
        if last.lazy && !here.lazy && sp > entry_sp {
            segment.muted = None;
            sink.muted(false, self.now);
            self.noted = self.now;
            return false;
        }
        true
    }

    fn begin(&mut self, place: Place, functions: &mut Functions<'_>, sink: &mut dyn Sink) {
        let label = functions.label(&place);
        let sp = self.sp;
        self.top().live.push(Activation {
            function: place.pc,
            entry_sp: sp,
            label,
            call_sp: sp,
            returned: [0; RETURNED],
            returns: 0,
            resumes: place.resumes,
        });
        self.note(Event::Enter(label), sink);
    }

    fn handler_returned(&mut self) -> bool {
        let segment = self.top();
        segment.entry_sp.is_some() && segment.live.is_empty()
    }

    /// Ends what the stack pointer has passed.
    fn end_passed(&mut self, sink: &mut dyn Sink) {
        let sp = self.sp;
        loop {
            while self.top().live.last().is_some_and(|top| top.entry_sp < sp) {
                self.top().live.pop();
                self.note(Event::Leave, sink);
            }
            let segment = self.top();
            let left = segment.live.is_empty() && segment.entry_sp.is_some_and(|entry| entry < sp);
            // `sigreturn` runs just above its entry.
            if !left || segment.entry_sp.is_some_and(|entry| sp - entry <= 8) {
                return;
            }
            self.end_segment(sink);
        }
    }

    /// Ends the topmost segment with all that is live in it.
    fn end_segment(&mut self, sink: &mut dyn Sink) {
        let segment = self.segments.pop();
        if segment
            .as_ref()
            .is_some_and(|segment| segment.muted.is_some())
        {
            sink.muted(false, self.now);
            self.noted = self.now;
        }
        // Its root ends too.
        for _ in 0..=segment.map_or(0, |segment| segment.live.len()) {
            self.note(Event::Leave, sink);
        }
    }

    /// Ends what lies above the topmost activation of `function`, if any.
    fn end_above(&mut self, function: Option<u64>, sink: &mut dyn Sink) {
        let Some(function) = function else { return };
        let live = &mut self.top().live;
        let Some(at) = live.iter().rposition(|live| live.function == function) else {
            return;
        };
        let ended = live.len() - (at + 1);
        live.truncate(at + 1);
        for _ in 0..ended {
            self.note(Event::Leave, sink);
        }
    }

    /// Control went elsewhere without a branch.
    pub fn went(&mut self, why: Why, to: u64, functions: &mut Functions<'_>, sink: &mut dyn Sink) {
        if why == Why::Start {
            return;
        }
        self.come(functions, sink);
        match why {
            Why::Signal(number) if !self.segments.is_empty() => {
                let (sp, kept, calls) = (self.sp, self.kept, self.calls.len());
                self.sp = (self.sp - FRAME) & !15;
                self.sp -= 8;
                self.note(Event::Begin(Label::signal(number.into())), sink);
                self.segments.push(Segment {
                    root: Label::signal(number.into()),
                    entry_sp: Some(self.sp),
                    live: Vec::new(),
                    muted: None,
                    sp,
                    kept,
                    calls,
                });
                let place = functions.place(0, to);
                self.begin(place, functions, sink);
            }
            Why::Sigreturn if self.segments.len() > 1 => {
                let segment = &self.segments[self.segments.len() - 1];
                (self.sp, self.kept) = (segment.sp, segment.kept);
                self.calls.truncate(segment.calls);
                self.end_segment(sink);
            }
            _ => {}
        }
    }

    /// Something comes in between: who has executed the last instruction has arrived.
    fn come(&mut self, functions: &mut Functions<'_>, sink: &mut dyn Sink) {
        let next = self.next;
        if let Some(last) = self.last.take()
            && functions.has(next)
            && !self.segments.is_empty()
        {
            let place = functions.place(0, next);
            self.arrive(last, place, functions, sink);
        }
    }

    /// There is nothing more.
    pub fn end(&mut self, sink: &mut dyn Sink) {
        sink.end(self.now);
    }

    fn note(&mut self, event: Event, sink: &mut dyn Sink) {
        self.noted = self.now;
        sink.event(event, self.now);
    }

    fn top(&mut self) -> &mut Segment {
        let at = self.segments.len() - 1;
        &mut self.segments[at]
    }
}

/// What is executed behind a run.
fn next_of(runs: &Runs<'_>, run: &Run, shape: &Shape) -> u64 {
    match shape.flow {
        Flow::IndirectJump | Flow::IndirectCall | Flow::Return(_) if run.outcome.is_some() => {
            runs.here()
        }
        Flow::Cond(_, target) | Flow::CountJump(target) if run.outcome == Some(true) => target,
        Flow::Jump(target) | Flow::Call(target) | Flow::TransactionBegin(target) => target,
        _ => shape.next,
    }
}

fn plus(a: Costs, b: Costs) -> Costs {
    std::array::from_fn(|at| a[at] + b[at])
}
