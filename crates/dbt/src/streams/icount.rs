//! How many instructions a thread has executed, told by what it appends anyway.
//!
//! Problem: a reader who wants the N-th instruction has to know at each keyframe how many there
//! were, and an addition for each run costs a seventh of the time that a trace takes.
//!
//! Approach: an entry in a lane for outcomes has two bytes while the program runs,
//! the stream's and how many instructions were executed since the thread's entry before. Both are one
//! store of a constant. Whoever reads the chunks adds the second ones up and keeps the
//! first ones.
//!
//! ```text
//!   mov rdx, gs:[lane]
//!   mov word [rdx], outcomes | n << 8       aligned, as the program may ask for that (EFLAGS.AC)
//!   lea rdx, [rdx + 2]
//!   mov gs:[lane], rdx
//! ```
//!
//! A stretch that is left without an outcome, as it only calls, returns, or goes on forward, has
//! no entry. It is added to words of the thread, where `counting` would add it. What the
//! engine knows it adds there, too: a thread that left a superblock in its middle, an
//! instruction that is executed once more.
//!
//! Invariant: at each boundary, entries and words together have all instructions before it,
//! but those that the map calls unaccounted.

use core::mem::offset_of;

use agent::thread::ThreadContext;
use isa::{Flow, Insn};

use crate::counting::{Compensation, Place, add_spilled, place_of};
use crate::pcmap::Recipe;
use crate::streams::Append;
use crate::translate::Emit;

const WORDS: i32 = offset_of!(ThreadContext, insns) as i32;

/// Instructions at the end of a superblock that no entry tells of.
#[derive(Clone, Copy, Debug)]
pub struct Rest {
    place: Place,
    /// The first of them.
    first: usize,
    number: usize,
}

impl Rest {
    /// Addition for the instructions from `first` on, if none of them has an outcome.
    fn plan(insns: &[Insn], first: usize) -> Option<Rest> {
        let rest = &insns[first..];
        let is_rest = !rest.is_empty() && !rest.iter().any(has_outcome);
        is_rest.then(|| Rest {
            place: place_of(rest, first),
            first,
            number: rest.len(),
        })
    }
}

/// Whether executing it puts an outcome into a stream (`wire::stream`).
fn has_outcome(insn: &Insn) -> bool {
    match insn.flow() {
        Flow::Cond(..) | Flow::CountJump(_) | Flow::TransactionBegin(_) => true,
        Flow::Jump(target) | Flow::Call(target) => target <= insn.pc(),
        _ => false,
    }
}

impl Emit<'_> {
    /// Before instruction `i`: no way out has more outcomes than can be appended at once, and
    /// what no entry tells of is added where it is to be.
    pub fn begin_accounted(&mut self, insns: &[Insn], i: usize) {
        if self.pending.is_on() {
            self.pending.over = i;
            self.keep_outcomes_few();
            self.add_rest(insns, i);
            self.pending.over = i + 1;
        }
    }

    fn add_rest(&mut self, insns: &[Insn], i: usize) {
        if self.pending.accounted == i && self.pending.rest.is_none() {
            self.pending.rest = Rest::plan(insns, i);
        }
        let Some(rest) = self.pending.rest else {
            return;
        };
        let word = self.word_of_insns();
        match rest.place {
            Place::Add(at) if at == i => self.asm.add_gs_imm(word, rest.number as i32),
            Place::Spilled if rest.first == i => {
                add_spilled(&mut self.asm, Compensation::add(word, rest.number as i32));
            }
            _ => return,
        }
        self.cover(true, Recipe::NONE);
        let end = rest.first + rest.number;
        self.map.accounted((end - i) as u8);
        self.pending.accounted = end;
    }

    /// Append of the indirect branch at the end, with its addition if no outcome says it.
    pub fn with_insns(&self, append: Append) -> Append {
        match self.pending.rest {
            Some(rest) if !append.has_outcomes() && matches!(rest.place, Place::AtBranch) => {
                append.and_add(self.word_of_insns(), rest.number as i32)
            }
            _ => append,
        }
    }

    /// Addition of the indirect branch at the end.
    pub fn insns_at_branch(&self) -> Option<Compensation> {
        let rest = self.pending.rest?;
        let word = self.word_of_insns();
        matches!(rest.place, Place::AtBranch)
            .then(|| Compensation::add_for_good(word, rest.number as i32))
    }

    /// Neighbours in time add to different words.
    fn word_of_insns(&self) -> i32 {
        WORDS + 8 * (self.id.0 % wire::INSN_WORDS as u32) as i32
    }
}
