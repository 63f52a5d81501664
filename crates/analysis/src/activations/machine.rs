//! One thread: what is live, by its stack pointer.
//!
//! Stack pointers are only compared with each other: in older traces they are distances from
//! the thread's first.
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
use super::stack::{Saved, Stack};
use super::stacks::Stacks;
use super::{Costs, Rules, Sink};
use crate::cct::Event;
use crate::walk::{Key, Run, Runs, Why};

/// Places to which calls returned that an activation remembers.
const RETURNED: usize = 6;
/// Most calls that are live in a thread. Each needs stack, but who made the recording may say
/// otherwise.
pub const MOST_LIVE: usize = 1 << 21;
/// Bytes below an interrupted stack pointer where a handler begins, about: what matters is
/// that it is below.
const FRAME: i64 = 4096;

#[derive(Clone, Debug)]
pub(super) struct Activation {
    function: u64,
    pub entry_sp: i64,
    label: Label,
    /// The stack pointer before its last call.
    call_sp: i64,
    /// Return addresses at which calls came back to it, and their number.
    returned: [u64; RETURNED],
    returns: usize,
    /// It goes on unwinding for its caller.
    resumes: bool,
    /// It was called on another stack, and calls on this one.
    pub bridge: bool,
}

/// Activations under one root.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    root: Label,
    /// `None` for the thread itself.
    entry_sp: Option<i64>,
    pub live: Vec<Activation>,
    muted: Option<i64>,
    /// State of the interrupted activation.
    saved: Saved,
    /// The stack pointer before it was loaded, if the signal came before control went elsewhere.
    loaded: Option<i64>,
}

/// The activations of a thread, or of a stack of it.
impl Default for Segment {
    fn default() -> Segment {
        Segment {
            root: Label::THREAD,
            entry_sp: None,
            live: Vec::new(),
            muted: None,
            saved: Saved::default(),
            loaded: None,
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Machine {
    rules: Rules,
    pub(super) segments: Vec<Segment>,
    pub(super) stack: Stack,
    pub(super) stacks: Stacks,
    /// The stack pointer before it was loaded, until control goes elsewhere.
    pub(super) loaded: Option<i64>,
    /// The stack pointer before the last effect that loads it.
    before: Option<i64>,
    /// A handler has begun, and where its stack is may be told.
    interrupted: bool,
    /// The stack pointer was loaded with what is not known, and control did not go
    /// elsewhere yet: when, and what the stack pointer was.
    lost: Option<(Costs, i64)>,
    /// Costs at the last event.
    noted: Costs,
    now: Costs,
    last: Option<Executed>,
    /// Address executed next, if there is a `last`.
    next: u64,
}

/// Shapes of the runs of a thread's process.
#[derive(Default)]
pub(super) struct Shapes(HashMap<Key, Option<Shape>>);

impl Machine {
    pub fn new(rules: Rules) -> Machine {
        Machine {
            rules,
            ..Machine::default()
        }
    }

    /// The machine for a forked child, which has executed nothing.
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
        self.stack.depth().max(live) > MOST_LIVE || self.segments.len() > MOST_LIVE
    }

    /// Return addresses of the open calls, newest first.
    pub fn returns(&self) -> impl Iterator<Item = u64> {
        self.stack.returns()
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
        (self.interrupted, self.before) = (false, None);
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
                Act::Effect(effect) => self.effect(effect, self.now),
                Act::Call(back) => self.call(back),
                Act::Kernel(back) => {
                    let place = Executed {
                        kind: Kind::Plain,
                        indirect: false,
                        place: shape.last.place,
                    };
                    let was = self.last.replace(place);
                    kernel(back, self);
                    self.last = was;
                }
                Act::Load(costs) => self.effect(StackEffect::Loads, plus(before, costs)),
            }
        }
        self.now = plus(before, shape.costs);
        self.last = Some(shape.last);
        self.next = next_of(runs, run, shape);
        if run.outcome.is_some() || !matches!(shape.flow, Flow::Return(_)) {
            self.leave(shape.flow, functions, sink);
        }
    }

    /// The trace says what the stack pointer is.
    pub fn tell(&mut self, sp: u64) {
        let sp = sp.cast_signed();
        if std::mem::take(&mut self.interrupted)
            && let Some(handler) = self.segments.last_mut()
        {
            handler.entry_sp = Some(sp);
            if let Some(first) = handler.live.first_mut() {
                (first.entry_sp, first.call_sp) = (sp, sp);
            }
        }
        let before = self.before.take().unwrap_or(self.stack.sp);
        if self.last.is_some_and(|last| last.kind == Kind::Stack) {
            let top = self.segments.last().and_then(|segment| segment.live.last());
            let is_within = before <= sp && top.is_none_or(|top| sp <= top.entry_sp);
            self.loaded = (!is_within).then_some(before);
        }
        self.stack.tell(sp, &floor(&self.segments));
        self.lost = None;
    }

    /// The last instruction of a run goes elsewhere.
    fn leave(&mut self, flow: Flow, functions: &mut Functions<'_>, sink: &mut dyn Sink) {
        let floor = floor(&self.segments);
        let is_exact = self.stack.is_exact();
        match flow {
            Flow::Return(extra) => {
                let pops = 8 + i64::from(extra);
                if is_exact {
                    self.stack.returns_exactly(pops, &floor);
                } else if self.stack.is_back(self.next, &floor) {
                    self.stack.returned(pops);
                    self.lost = None;
                } else if self.lost.is_some() {
                    self.land(pops, functions, sink);
                } else {
                    self.stack.returns_elsewhere(pops, self.next);
                }
            }
            Flow::IndirectJump if is_exact => self.stack.jumps_exactly(),
            Flow::IndirectJump if self.lost.is_some() => self.land(0, functions, sink),
            _ => {}
        }
    }

    fn effect(&mut self, effect: StackEffect, costs: Costs) {
        let live = self
            .segments
            .last()
            .map_or(&[][..], |segment| &segment.live);
        // The frame pointer, as `push rbp; mov rbp, rsp` sets it.
        let frame = |sp| {
            let own = live.iter().rev().find(|live| live.entry_sp >= sp)?;
            Some(own.entry_sp.wrapping_sub(8))
        };
        let before = self.stack.sp;
        if matches!(effect, StackEffect::From(..) | StackEffect::Loads) {
            self.before = Some(before);
        }
        if self.stack.effect(effect, frame) {
            self.lost = Some((costs, before));
        }
    }

    fn call(&mut self, back: u64) {
        let sp = self.stack.sp;
        if let Some(top) = self.top().live.last_mut() {
            top.call_sp = sp;
        }
        self.stack.call(back);
    }

    /// Which activation control goes back to, where the stack pointer is not known.
    fn landing(&self, place: &Place) -> Option<(usize, usize)> {
        let function = place.function.filter(|_| !place.entry)?;
        let mut newest = None;
        let mut resumes = false;
        for (at, segment) in self.segments.iter().enumerate().rev() {
            for (level, live) in segment.live.iter().enumerate().rev() {
                // An unwinder that goes on is not at the landing pad yet.
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
        // Activations above the loaded stack pointer ended at the load, all others at the branch.
        let now = self.now;
        self.now = if loaded[0] < self.noted[0] {
            self.noted
        } else {
            loaded
        };
        let rest = self.stack.sp.wrapping_sub(before).wrapping_add(pops);
        self.stack.sp = self.segments[at].live[level].call_sp.wrapping_sub(rest);
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
        let sp = landed.call_sp;
        self.stack.lands(sp);
    }

    fn start(&mut self, place: Place, functions: &mut Functions<'_>, sink: &mut dyn Sink) {
        self.segments.push(Segment::default());
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
        let goes = last.kind == Kind::Call || last.indirect;
        if goes && let Some(left) = self.loaded.take() {
            self.go(last.kind, left, &here, sink);
        }
        if last.kind == Kind::Call {
            if self.top().muted.is_none() && !here.stub {
                if self.loaded.is_none() {
                    self.end_passed(sink);
                }
                self.begin(here, functions, sink);
            }
            return;
        }
        let leaves = last.indirect || here.function != last.place.function;
        let branches = matches!(last.kind, Kind::Jump | Kind::Return);
        if branches && leaves && self.top().muted.is_none() {
            self.end_passed(sink);
            if last.kind == Kind::Return
                && let Some(top) = self.top().live.last_mut()
            {
                top.returned[top.returns % RETURNED] = here.pc;
                top.returns += 1;
            }
        }
        let is_again = self.rules.self_jumps && here.entry && last.kind == Kind::Jump;
        if here.function == last.place.function && !last.place.stub && !is_again {
            return;
        }
        if self.still_muted(last.place, here, sink) {
            return;
        }
        if last.kind == Kind::Return && self.handler_returned() {
            // Into the restorer, whose address the kernel pushed: no call.
        } else if here.lazy && here.entry {
            self.top().muted = Some(self.stack.sp);
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
        let sp = self.stack.sp;
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
        let sp = self.stack.sp;
        self.top().live.push(Activation {
            function: place.pc,
            entry_sp: sp,
            label,
            call_sp: sp,
            returned: [0; RETURNED],
            returns: 0,
            resumes: place.resumes,
            bridge: false,
        });
        self.note(Event::Enter(label), sink);
    }

    fn handler_returned(&mut self) -> bool {
        let segment = self.top();
        segment.entry_sp.is_some() && segment.live.is_empty()
    }

    /// Ends what the stack pointer has passed.
    fn end_passed(&mut self, sink: &mut dyn Sink) {
        self.end_passed_at(self.stack.sp, sink);
    }

    /// Ends what is below this stack pointer.
    pub(super) fn end_passed_at(&mut self, sp: i64, sink: &mut dyn Sink) {
        loop {
            while self.top().live.last().is_some_and(|top| top.entry_sp < sp) {
                self.top().live.pop();
                self.note(Event::Leave, sink);
            }
            let segment = self.top();
            let left = segment.live.is_empty() && segment.entry_sp.is_some_and(|entry| entry < sp);
            // `sigreturn` runs just above its entry.
            if !left
                || segment
                    .entry_sp
                    .is_some_and(|entry| sp.wrapping_sub(entry) <= 8)
            {
                return;
            }
            self.end_segment(sink);
        }
    }

    /// Ends the topmost segment with all that is live in it.
    fn end_segment(&mut self, sink: &mut dyn Sink) {
        let segment = self.segments.pop();
        self.loaded = segment.as_ref().and_then(|segment| segment.loaded);
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
        if why == Why::Far {
            // It arrives with the stack pointer that comes next.
            self.next = to;
            return;
        }
        if why == Why::Nowhere {
            // A call that faults calls nothing.
            self.last = self.last.take().filter(|last| last.kind != Kind::Call);
        }
        self.come(functions, sink);
        match why {
            Why::Signal(number) if !self.segments.is_empty() => {
                let saved = self.stack.save();
                let below = self.stack.sp.wrapping_sub(FRAME) & !15;
                self.stack.interrupt(below.wrapping_sub(8));
                self.interrupted = true;
                self.note(Event::Begin(Label::signal(number.into())), sink);
                self.segments.push(Segment {
                    root: Label::signal(number.into()),
                    entry_sp: Some(self.stack.sp),
                    saved,
                    loaded: self.loaded.take(),
                    ..Segment::default()
                });
                let place = functions.place(0, to);
                self.begin(place, functions, sink);
            }
            Why::Sigreturn if self.segments.len() > 1 => {
                let saved = floor(&self.segments);
                self.stack.restore(saved);
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

    pub(super) fn note(&mut self, event: Event, sink: &mut dyn Sink) {
        self.noted = self.now;
        sink.event(event, self.now);
    }

    pub(super) fn top(&mut self) -> &mut Segment {
        let at = self.segments.len() - 1;
        &mut self.segments[at]
    }
}

/// State that the newest handler has interrupted.
fn floor(segments: &[Segment]) -> Saved {
    segments
        .last()
        .map_or(Saved::default(), |segment| segment.saved)
}

/// Address executed after a run.
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
