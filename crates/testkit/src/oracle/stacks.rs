//! The stacks of a thread, by the definitions of docs/design/0047: apart from the live tool's
//! code, on purpose, and without what stepping does not need (slices of stacks, stacks that move
//! or go on in another thread).

use analysis::cct::Event;

use super::activation::{Activation, Activations, Segment};
use super::code::{Code, ProgramPc, ProgramSp};
use super::instruction::Kind;

/// A call with a stack pointer that is less below the one before is on the same stack.
const FRAME: u64 = 64 << 10;
/// Bytes above the first stack pointer of a stack that may be its, too.
const ABOVE: u64 = 64;
/// Bytes below the entry of an activation within which a handler on another stack finds it again.
const INTERRUPTED: u64 = 8 << 20;

/// A stack that was left.
#[derive(Clone)]
struct Left {
    number: u32,
    low: u64,
    top: u64,
    segments: Vec<Segment>,
    /// Return addresses at the entries of its activations.
    words: Vec<(u64, u64)>,
}

/// All stacks of a thread.
#[derive(Clone)]
pub struct Stacks {
    /// The current one.
    number: u32,
    top: u64,
    left: Vec<Left>,
    last: u32,
}

impl Stacks {
    /// The stack that a thread begins on.
    pub fn first(_sp: ProgramSp) -> Stacks {
        Stacks {
            number: 0,
            top: u64::MAX,
            left: Vec::new(),
            last: 0,
        }
    }
}

fn word(code: &Code, address: u64) -> u64 {
    let mut buffer = [0; 8];
    let got = code.read(ProgramPc(address), &mut buffer).len();
    if got == 8 {
        u64::from_le_bytes(buffer)
    } else {
        0
    }
}

impl Activations {
    fn entries(&self) -> impl Iterator<Item = u64> {
        let live = self.segments.iter().flat_map(|segment| &segment.live);
        live.filter(|live| !live.bridge).map(|live| live.entry_sp.0)
    }

    /// Control arrives at `pc` by a call, a return or an indirect jump, and the stack pointer
    /// was loaded when it was `left`.
    pub(super) fn go(
        &mut self,
        code: &mut Code,
        kind: Kind,
        left: ProgramSp,
        pc: ProgramPc,
        sp: ProgramSp,
    ) {
        // The stack pointer before a call or return.
        let at = match kind {
            Kind::Call => sp.0 + 8,
            Kind::Return => sp.0 - 8,
            _ => sp.0,
        };
        let enters = kind != Kind::Call && code.place(pc).entry;
        let is_own = (left.0..=self.stacks.top).contains(&at);
        let found = self.found(code, at, is_own.then_some(left.0));
        let is_near = at < left.0 && left.0 - at < FRAME;
        let is_handler = self.segments.len() > 1
            && (self.entries()).any(|entry| at <= entry && entry - at < INTERRUPTED);
        if found.is_none() && !enters && (is_own || is_near || is_handler) {
            // The stack goes on; a call that comes before may not be the arrival yet.
            self.loaded = (kind == Kind::Call).then_some(left);
            return;
        }
        let found = found.map(|at| self.stacks.left.remove(at));
        let found = found.filter(|stack| {
            let mut live = stack.segments.iter().flat_map(|segment| &segment.live);
            !enters || stack.number == 0 || live.any(|live| live.entry_sp > sp)
        });
        let caller = self.top().live.last().cloned();
        let was = self.stacks.number;
        self.switch(code, found, left.0, sp.0);
        let is_left = |live: &Activation| live.bridge && live.entry_sp.0 <= at;
        while self.top().live.pop_if(|live| is_left(live)).is_some() {
            self.note(Event::Leave);
        }
        if kind == Kind::Call {
            self.end_passed(ProgramSp(at + 1));
            if let Some(mut bridge) = caller {
                self.note(Event::Bridge(was));
                (bridge.entry_sp, bridge.bridge) = (ProgramSp(at), true);
                self.top().live.push(bridge);
            }
        } else if enters {
            self.end_passed(ProgramSp(sp.0 + 1));
        }
    }

    /// The stack that was left nearest below `at` and goes on there: the return addresses of
    /// its activations that have not ended are in memory. `own`: the same of the running one.
    fn found(&self, code: &Code, at: u64, own: Option<u64>) -> Option<usize> {
        let goes_on = |stack: &Left| {
            let mut live = stack.words.iter().filter(|&&(entry, _)| entry + 8 >= at);
            (stack.low..=stack.top).contains(&at)
                && own.is_none_or(|own| stack.low >= own)
                && live.all(|&(entry, old)| word(code, entry) == old)
        };
        let all = (0..self.stacks.left.len()).filter(|&at| goes_on(&self.stacks.left[at]));
        all.max_by_key(|&at| self.stacks.left[at].low)
    }

    /// From the current stack, `low` there, to one that was left, or to a new one.
    fn switch(&mut self, code: &Code, found: Option<Left>, low: u64, sp: u64) {
        let mut live = self.segments.iter().flat_map(|segment| &segment.live);
        let under_root = self.stacks.number != 0 || live.any(|live| live.bridge);
        let words = self.entries().map(|entry| (entry, word(code, entry)));
        let words = words.collect();
        let segments = std::mem::replace(&mut self.segments, vec![Segment::new()]);
        let (number, top) = (self.stacks.number, self.stacks.top);
        if number == 0 || segments.iter().any(|segment| !segment.live.is_empty()) {
            self.stacks.left.retain(|other| other.low != low);
            self.stacks.left.push(Left {
                number,
                low,
                top,
                segments,
                words,
            });
        }
        if let Some(stack) = found {
            (self.stacks.number, self.stacks.top) = (stack.number, stack.top);
            self.segments = stack.segments;
            return self.note(Event::Stack(stack.number));
        }
        self.stacks.last += 1;
        let stack = self.stacks.last;
        (self.stacks.number, self.stacks.top) = (stack, sp + ABOVE);
        self.note(Event::NewStack { stack, under_root });
    }
}
