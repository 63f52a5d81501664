//! Which activations are live: the definitions of design section 4, applied
//! after every executed instruction of one thread.
//!
//! An activation begins when control arrives at a function's entry by a call,
//! or by a jump or fall-through from another function; a return that arrives
//! at an entry is a jump (retpolines, `push` and `ret`), except that of a
//! signal handler. It ends when control arrives by a call, a return, an indirect jump or
//! a jump out of its function while the stack pointer is above its value at
//! entry, on the same stack ([`super::stacks`]). Stubs of the dynamic linker
//! are transparent: who arrives through them comes from another function.
//! From the entry of lazy binding until it jumps to what it has bound,
//! nothing counts. A jump into the middle of a function that is live below
//! ends the activations above it. A signal handler begins a segment of its
//! own under `[signal N]`, which ends by sigreturn, or when the stack pointer
//! has risen above the handler's entry.
//!
//! Invariant: in a segment, entry stack pointers do not rise from the bottom
//! to the top, because what the stack pointer has passed is removed first.

use std::ops::Range;

use analysis::cct::Event;
use trace::Label;

use super::code::{Code, Place, ProgramPc, ProgramSp};
use super::events::Moment;
use super::instruction::Kind;
use super::stacks::Stacks;

#[derive(Clone)]
pub(super) struct Activation {
    pub function: ProgramPc,
    pub entry_sp: ProgramSp,
    pub label: Label,
    /// It was called on another stack, and calls on this one.
    pub bridge: bool,
}

/// Activations that began under one root.
#[derive(Clone)]
pub(super) struct Segment {
    root: Label,
    /// Stack pointer where the root began; `None` for the thread itself.
    entry_sp: Option<ProgramSp>,
    pub live: Vec<Activation>,
    /// Stack pointer at the entry of lazy binding, while it runs.
    muted: Option<ProgramSp>,
    /// The stack pointer before it was loaded, if the signal came before control went elsewhere.
    loaded: Option<ProgramSp>,
}

impl Segment {
    /// The activations of a stack.
    pub fn new() -> Segment {
        Segment {
            root: Label::THREAD,
            entry_sp: None,
            live: Vec::new(),
            muted: None,
            loaded: None,
        }
    }
}

/// An instruction that was executed.
#[derive(Clone, Copy, Debug)]
pub struct Executed {
    /// Kind of the instruction.
    pub kind: Kind,
    /// It goes where a register or memory says.
    pub indirect: bool,
    /// Place of the instruction.
    pub place: Place,
}

/// The live activations of one thread, and all that began and ended in it.
pub struct Activations {
    pub(super) segments: Vec<Segment>,
    pub(super) stacks: Stacks,
    /// The stack pointer before the last instruction.
    sp: ProgramSp,
    /// The stack pointer before it was loaded, until control goes elsewhere.
    pub(super) loaded: Option<ProgramSp>,
    events: Vec<Moment>,
    /// Steps made in the whole run: the time of the next event.
    pub now: u64,
    /// Instructions that the thread retired until then.
    pub retired: u64,
    /// Ranges of them that ran where nothing counts.
    muted: Vec<Range<u64>>,
}

impl Activations {
    /// A thread that begins at `pc`, possibly the entry of a function.
    pub fn new(code: &mut Code, now: u64, pc: ProgramPc, sp: ProgramSp) -> Self {
        let mut activations = Self {
            segments: vec![Segment::new()],
            stacks: Stacks::first(sp),
            sp,
            loaded: None,
            events: Vec::new(),
            now,
            retired: 0,
            muted: Vec::new(),
        };
        activations.note(Event::Begin(Label::THREAD));
        if code.place(pc).entry {
            activations.begin(code, pc, sp);
        }
        activations
    }

    /// The thread of a forked child: what is live in its parent is live in it.
    /// The activations of the parent are the first events; they happened there.
    pub fn forked(&self) -> Self {
        let mut child = Self {
            segments: self.segments.clone(),
            stacks: self.stacks.clone(),
            sp: self.sp,
            loaded: self.loaded,
            events: Vec::new(),
            now: self.now,
            retired: 0,
            muted: Vec::new(),
        };
        for segment in &self.segments {
            child.note(Event::Begin(segment.root));
            for activation in &segment.live {
                child.note(Event::Enter(activation.label));
            }
        }
        child
    }

    /// Events so far.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Everything that began and ended, and which instructions ran where nothing
    /// counts.
    pub fn into_events(self) -> (Vec<Moment>, Vec<Range<u64>>) {
        (self.events, self.muted)
    }

    pub(super) fn note(&mut self, event: Event) {
        self.events.push(Moment {
            step: self.now,
            retired: self.retired,
            event,
        });
    }

    /// Control went from `last` to `pc` with the stack pointer `sp`.
    pub fn arrive(&mut self, code: &mut Code, last: Executed, pc: ProgramPc, sp: ProgramSp) {
        let before = std::mem::replace(&mut self.sp, sp);
        if last.kind == Kind::Stack {
            let top = self
                .top()
                .live
                .last()
                .map_or(u64::MAX, |top| top.entry_sp.0);
            let is_within = before.0 <= sp.0 && sp.0 <= top;
            self.loaded = (!is_within).then_some(before);
        }
        let goes = last.kind.transfers() && (last.kind == Kind::Call || last.indirect);
        if goes && let Some(left) = self.loaded.take() {
            self.go(code, last.kind, left, pc, sp);
        }
        if last.kind == Kind::Call {
            self.arrive_by_call(code, pc, sp);
            return;
        }
        let here = code.place(pc);
        let leaves = last.indirect || here.function != last.place.function;
        if last.kind.transfers() && leaves && self.top().muted.is_none() {
            self.end_passed(sp);
        }
        if here.function == last.place.function && !last.place.stub {
            return;
        }
        if self.still_muted(last.place, here, sp) {
            return;
        }
        if last.kind == Kind::Return && self.handler_returned() {
            // Into the restorer, whose address the kernel pushed: no call.
        } else if here.lazy_binding && here.entry {
            self.top().muted = Some(sp);
            self.muted.push(self.retired..u64::MAX);
        } else if here.entry {
            self.begin(code, pc, sp);
        } else if last.kind == Kind::Jump {
            self.end_above(here.function);
        }
    }

    fn arrive_by_call(&mut self, code: &mut Code, pc: ProgramPc, sp: ProgramSp) {
        // A call of what is no code arrives nowhere: it faults.
        if self.top().muted.is_some() || code.place(pc).stub || !code.executable_at(pc) {
            return;
        }
        if self.loaded.is_none() {
            self.end_passed(sp);
        }
        self.begin(code, pc, sp);
    }

    /// Lazy binding ends by a jump out of it from above its entry.
    fn still_muted(&mut self, last: Place, here: Place, sp: ProgramSp) -> bool {
        let segment = self.top();
        let Some(entry_sp) = segment.muted else {
            return false;
        };
        if last.lazy_binding && !here.lazy_binding && sp > entry_sp {
            segment.muted = None;
            if let Some(muted) = self.muted.last_mut() {
                muted.end = self.retired;
            }
            return false;
        }
        true
    }

    fn begin(&mut self, code: &mut Code, pc: ProgramPc, sp: ProgramSp) {
        let label = code.label(pc);
        self.top().live.push(Activation {
            function: pc,
            entry_sp: sp,
            label,
            bridge: false,
        });
        self.note(Event::Enter(label));
    }

    /// Whether the handler of the current signal has returned.
    fn handler_returned(&mut self) -> bool {
        let segment = self.top();
        segment.entry_sp.is_some() && segment.live.is_empty()
    }

    /// Ends what the stack pointer has passed.
    pub(super) fn end_passed(&mut self, sp: ProgramSp) {
        loop {
            while self.top().live.last().is_some_and(|top| top.entry_sp < sp) {
                self.top().live.pop();
                self.note(Event::Leave);
            }
            let segment = self.top();
            let left = segment.live.is_empty() && segment.entry_sp.is_some_and(|entry| entry < sp);
            if !left {
                return;
            }
            // The handler returned: `sigreturn` runs just above its entry.
            if segment.entry_sp.is_some_and(|entry| sp.0 - entry.0 <= 8) {
                return;
            }
            self.end_segment();
        }
    }

    /// Ends the topmost segment with all that is live in it.
    fn end_segment(&mut self) {
        let segment = self.segments.pop();
        self.loaded = segment.as_ref().and_then(|segment| segment.loaded);
        // Its root ends too.
        for _ in 0..=segment.map_or(0, |segment| segment.live.len()) {
            self.note(Event::Leave);
        }
    }

    /// Ends what lies above the topmost activation of `function`, if any.
    fn end_above(&mut self, function: Option<ProgramPc>) {
        let Some(function) = function else { return };
        let live = &mut self.top().live;
        let same = |activation: &Activation| activation.function == function;
        if let Some(position) = live.iter().rposition(same) {
            let ended = live.len() - (position + 1);
            live.truncate(position + 1);
            for _ in 0..ended {
                self.note(Event::Leave);
            }
        }
    }

    /// The handler of `signal` begins at `pc`.
    pub fn signal(&mut self, code: &mut Code, signal: i32, pc: ProgramPc, sp: ProgramSp) {
        let root = Label::signal(signal.cast_unsigned());
        self.note(Event::Begin(root));
        self.segments.push(Segment {
            root,
            entry_sp: Some(sp),
            loaded: self.loaded.take(),
            ..Segment::new()
        });
        self.sp = sp;
        self.begin(code, pc, sp);
    }

    /// `rt_sigreturn` was executed.
    pub fn signal_return(&mut self) {
        if self.segments.len() > 1 {
            self.end_segment();
        }
    }

    pub(super) fn top(&mut self) -> &mut Segment {
        self.segments
            .last_mut()
            .expect("a thread has its own segment")
    }
}
