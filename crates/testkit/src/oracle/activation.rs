//! Which activations are live: the definitions of design section 4, applied
//! after every executed instruction of one thread.
//!
//! An activation begins when control arrives at a function's entry by a call,
//! or by a jump or fall-through from another function; a return that arrives
//! at an entry is a jump (retpolines, `push` and `ret`), except that of a
//! signal handler. It ends when the stack pointer has risen above its value at
//! entry. Stubs of the dynamic linker
//! are transparent: who arrives through them comes from another function.
//! From the entry of lazy binding until it jumps to what it has bound,
//! nothing counts. A jump into the middle of a function that is live below
//! ends the activations above it. A signal handler begins a segment of its
//! own under `[signal N]`, which ends by sigreturn, or when the stack pointer
//! has risen above the handler's entry.
//!
//! Invariant: in a segment, entry stack pointers do not rise from the bottom
//! to the top, because what the stack pointer has passed is removed first.

use crate::tree::{NodeIndex, Tree};

use super::code::{Code, Place, ProgramPc, ProgramSp};
use super::instruction::Kind;

/// What to do with a function that calls itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recursion {
    /// One node counts all.
    Rolled,
    /// One node per level.
    Unrolled,
}

struct Activation {
    function: ProgramPc,
    entry_sp: ProgramSp,
    node: NodeIndex,
}

/// Activations that began under one root.
struct Segment {
    root: NodeIndex,
    /// Stack pointer where the root began; `None` for the thread itself.
    entry_sp: Option<ProgramSp>,
    live: Vec<Activation>,
    /// Stack pointer at the entry of lazy binding, while it runs.
    muted: Option<ProgramSp>,
}

/// An instruction that was executed.
#[derive(Clone, Copy, Debug)]
pub struct Executed {
    /// What kind it was.
    pub kind: Kind,
    /// Where it was.
    pub place: Place,
}

/// The live activations and the contexts of one thread.
pub struct Activations {
    segments: Vec<Segment>,
    tree: Tree,
    recursion: Recursion,
}

impl Activations {
    /// A thread that begins at `pc`, possibly the entry of a function.
    pub fn new(code: &mut Code, recursion: Recursion, pc: ProgramPc, sp: ProgramSp) -> Self {
        let mut tree = Tree::default();
        let root = tree.child(None, "[thread]");
        tree.count(root, 1);
        let segment = Segment {
            root,
            entry_sp: None,
            live: Vec::new(),
            muted: None,
        };
        let mut activations = Self {
            segments: vec![segment],
            tree,
            recursion,
        };
        if code.place(pc).entry {
            activations.begin(code, pc, sp);
        }
        activations
    }

    /// The contexts counted.
    pub fn into_tree(self) -> Tree {
        self.tree
    }

    /// Control went from `last` to `pc` with the stack pointer `sp`.
    pub fn arrive(&mut self, code: &mut Code, last: Executed, pc: ProgramPc, sp: ProgramSp) {
        if last.kind == Kind::Call {
            self.arrive_by_call(code, pc, sp);
            return;
        }
        let here = code.place(pc);
        if last.kind.transfers() && self.top().muted.is_none() {
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
        } else if here.entry {
            self.begin(code, pc, sp);
        } else if last.kind == Kind::Jump {
            self.end_above(here.function);
        }
    }

    fn arrive_by_call(&mut self, code: &mut Code, pc: ProgramPc, sp: ProgramSp) {
        if self.top().muted.is_some() || code.place(pc).stub {
            return;
        }
        code.called(pc);
        self.end_passed(sp);
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
            return false;
        }
        true
    }

    fn begin(&mut self, code: &mut Code, pc: ProgramPc, sp: ProgramSp) {
        let function = pc;
        let name = code.name(pc);
        let segment = self
            .segments
            .last_mut()
            .expect("a thread has its own segment");
        let node = match segment.live.last() {
            Some(top) if top.function == function && self.recursion == Recursion::Rolled => {
                top.node
            }
            top => self
                .tree
                .child(Some(top.map_or(segment.root, |top| top.node)), &name),
        };
        self.tree.count(node, 1);
        segment.live.push(Activation {
            function,
            entry_sp: sp,
            node,
        });
    }

    /// Whether the handler of the current signal has returned.
    fn handler_returned(&mut self) -> bool {
        let segment = self.top();
        segment.entry_sp.is_some() && segment.live.is_empty()
    }

    /// Ends what the stack pointer has passed.
    fn end_passed(&mut self, sp: ProgramSp) {
        loop {
            let segment = self.top();
            while segment.live.last().is_some_and(|top| top.entry_sp < sp) {
                segment.live.pop();
            }
            let left = segment.live.is_empty() && segment.entry_sp.is_some_and(|entry| entry < sp);
            if !left {
                return;
            }
            // The handler returned: `sigreturn` runs just above its entry.
            if segment.entry_sp.is_some_and(|entry| sp.0 - entry.0 <= 8) {
                return;
            }
            self.segments.pop();
        }
    }

    /// Ends what lies above the topmost activation of `function`, if any.
    fn end_above(&mut self, function: Option<ProgramPc>) {
        let Some(function) = function else { return };
        let live = &mut self.top().live;
        if let Some(position) = live
            .iter()
            .rposition(|activation| activation.function == function)
        {
            live.truncate(position + 1);
        }
    }

    /// The handler of `signal` begins at `pc`.
    pub fn signal(&mut self, code: &mut Code, signal: i32, pc: ProgramPc, sp: ProgramSp) {
        let root = self.tree.child(None, &format!("[signal {signal}]"));
        self.tree.count(root, 1);
        self.segments.push(Segment {
            root,
            entry_sp: Some(sp),
            live: Vec::new(),
            muted: None,
        });
        code.called(pc);
        self.begin(code, pc, sp);
    }

    /// `rt_sigreturn` was executed.
    pub fn signal_return(&mut self) {
        if self.segments.len() > 1 {
            self.segments.pop();
        }
    }

    fn top(&mut self) -> &mut Segment {
        self.segments
            .last_mut()
            .expect("a thread has its own segment")
    }
}
