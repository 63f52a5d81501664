//! Counting instructions: `run --count-instructions`.
//!
//! Problem: every instruction that retires is to be counted, exactly, at any
//! moment, in code that may be left at every branch; and an addition changes
//! flags.
//!
//! Approach: a *run* is what comes between two possible exits. It is counted at
//! once, where it is cheapest:
//!
//! | in the run | code |
//! |---|---|
//! | a place from which every flag is overwritten before anything reads it or can fault | `add gs:[word], n` |
//! | else, a return or indirect branch at its end | three instructions more where rcx and rdx are spilled anyway |
//! | else, a forward conditional branch at its end and another run behind it | nothing: with that run, or, if the branch is taken, on its way |
//! | else | spill rcx, load, `lea`, store, restore at its start |
//!
//! Forward branches are mostly not taken; and if one is, that costs the way its
//! spill and a jump, which the run would have cost always.
//!
//! The words are eight, used in turn: an addition waits for the one before it
//! to the same word. The map says at every instruction how many were counted
//! ahead or are to be counted yet (`pcmap`), for signals and faults.

use core::mem::offset_of;

use agent::thread::ThreadContext;
use isa::insn::Flags;
use isa::{Asm, Flow, Insn, Reg};

use crate::indirect::SPILL_RCX;
use crate::pcmap::Recipe;
use crate::translate::Emit;

const WORDS: i32 = offset_of!(ThreadContext, insns) as i32;
/// Most instructions of a run: the map has a byte for their number.
const MOST: usize = 200;

/// What a block being emitted has counted.
#[derive(Debug, Default)]
pub struct Counting {
    /// Runs begun.
    runs: usize,
    /// What the branch at the end of the run is to count.
    owed: usize,
    /// Instructions of runs that are counted with the next one.
    pending: usize,
}

/// Instructions `first..end` of a superblock: no exit but after the last.
#[derive(Debug, Default)]
pub struct Run {
    first: usize,
    pub end: usize,
    place: Place,
}

#[derive(Debug, Default)]
enum Place {
    /// Before this instruction, where flags are dead.
    Add(usize),
    AtBranch,
    /// With the next run, and on the way that the branch at its end takes.
    Later,
    #[default]
    Spilled,
}

impl Run {
    /// The run that begins at `first`, and where it is counted.
    pub fn plan(insns: &[Insn], first: usize) -> Run {
        let rest = &insns[first..];
        let until = rest
            .iter()
            .position(|insn| !matches!(insn.flow(), Flow::Next | Flow::Jump(_)))
            .map_or(rest.len(), |i| i + 1)
            .min(MOST);
        let insns = &rest[..until];
        let mut live = Flags::ALL;
        let mut dead = None;
        for (i, insn) in insns.iter().enumerate().rev() {
            live = live
                .without(insn.flags_overwritten())
                .with(insn.flags_read());
            if insn.may_fault() {
                // A handler sees the flags as they were.
                live = Flags::ALL;
            }
            if live == Flags::NONE {
                dead = Some(first + i);
            }
        }
        let branches = insns.last().is_some_and(|last| {
            matches!(
                last.flow(),
                Flow::Return(_) | Flow::IndirectJump | Flow::IndirectCall
            )
        });
        let skips = insns
            .last()
            .is_some_and(|last| matches!(last.flow(), Flow::Cond(_, target) if target > last.pc()));
        let place = match dead {
            Some(at) => Place::Add(at),
            None if branches => Place::AtBranch,
            None if skips && until < rest.len() => Place::Later,
            None => Place::Spilled,
        };
        Run {
            first,
            end: first + until,
            place,
        }
    }
}

/// An addition in rdx.
#[derive(Clone, Copy, Debug)]
pub struct Owed {
    word: i32,
    number: usize,
}

impl Owed {
    /// Most bytes of it.
    pub const BYTES: u64 = 9 + 7 + 9;

    pub fn emit(self, asm: &mut Asm<'_>) {
        add_in(asm, Reg::Rdx, self);
    }

    /// All but the branch itself, if there are any.
    pub fn without_last(self) -> Option<Owed> {
        let number = self.number - 1;
        (number > 0).then_some(Owed { number, ..self })
    }
}

/// Most bytes of [`add_spilled`].
pub const SPILLED_BYTES: u64 = 9 + Owed::BYTES + 9;

/// The same where no register is spilled.
pub fn add_spilled(asm: &mut Asm<'_>, owed: Owed) {
    asm.mov_gs_r(SPILL_RCX, Reg::Rcx);
    add_in(asm, Reg::Rcx, owed);
    asm.mov_r_gs(Reg::Rcx, SPILL_RCX);
}

fn add_in(asm: &mut Asm<'_>, scratch: Reg, owed: Owed) {
    asm.mov_r_gs(scratch, owed.word);
    asm.lea(scratch, scratch, owed.number as i32);
    asm.mov_gs_r(owed.word, scratch);
}

impl Emit<'_> {
    /// Says in the map that what comes is to be counted yet.
    pub fn begin_run(&mut self, run: &Run) {
        self.counting.runs += 1;
        self.counting.owed = 0;
        match run.place {
            Place::Add(at) if at == run.first => {}
            Place::Spilled => {}
            // Those before are still to be counted, and these are, too.
            _ if self.counting.pending > 0 => {}
            _ => self.map.counted(0),
        }
    }

    /// Before instruction `at`: the run is counted if this is the place.
    pub fn count_at(&mut self, run: &Run, at: usize) {
        let word = self.word();
        let all = self.counting.pending + run.end - run.first;
        match run.place {
            Place::Add(place) if place == at => {
                self.asm.add_gs_imm(word, all as i32);
            }
            Place::Spilled if at == run.first => {
                add_spilled(&mut self.asm, Owed { word, number: all });
            }
            Place::AtBranch if at + 1 == run.end => {
                self.counting.owed = all;
                self.counting.pending = 0;
                return;
            }
            Place::Later if at + 1 == run.end => {
                self.counting.pending = all;
                return;
            }
            _ => return,
        }
        self.counting.pending = 0;
        self.cover(true, Recipe::NONE);
        self.map.counted((run.end - at) as u8);
    }

    /// In a branch, where it can fault no more and rdx is free.
    pub fn count_in_rdx(&mut self) {
        if let Some(owed) = self.owed() {
            owed.emit(&mut self.asm);
        }
    }

    /// What the branch is to count, once, on each way that it can go.
    pub fn owed(&mut self) -> Option<Owed> {
        let number = core::mem::take(&mut self.counting.owed);
        let word = self.word();
        (number > 0).then_some(Owed { word, number })
    }

    /// What is pending, for the way out of a branch.
    pub fn pending_there(&self) -> Option<Owed> {
        let number = self.counting.pending;
        let word = self.word();
        (number > 0).then_some(Owed { word, number })
    }

    /// Neighbours in time count in different words.
    fn word(&self) -> i32 {
        let number = self.id.0 as usize + self.counting.runs;
        WORDS + 8 * (number % wire::INSN_WORDS) as i32
    }
}
