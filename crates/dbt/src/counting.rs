//! Counting instructions: `run --count-instructions`, and what contexts cost.
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
//! | a branch at its end that hardly ever leaves the superblock, as `edge_counters` has seen | with the next run, or on its way |
//! | a place from which every flag is overwritten before anything reads it or can fault | `add gs:[word], n` |
//! | else, a return or indirect branch at its end | three instructions more where rcx and rdx are spilled anyway |
//! | else, a forward conditional branch at its end and another run behind it | nothing: with that run, or, if the branch is taken, on its way |
//! | else | spill rcx, load, `lea`, store, restore at its start |
//!
//! Forward branches are mostly not taken; and if one is, that costs the way its
//! spill and a jump, which the run would have cost always.
//!
//! `count` (`edge_counters`) counts runs at the same places, each in a word of its own; but what ends
//! with an indirect branch always there, as the word says where that goes (`edge_counters::indirect`).
//!
//! Otherwise the words are eight, used in turn: an addition waits for the one before it
//! to the same word. Where events add them up (`contexts::costs`) there is one for each
//! cost, branches, loads and stores being counted with the run as well ([`Amounts`]); and a
//! run ends where one may end activations, too. The map says at every instruction how many were counted
//! ahead or are to be counted yet (`pcmap`), for signals and faults.

mod countdown;
mod placement;

use core::mem::offset_of;

use agent::thread::ThreadContext;
use isa::{Asm, Flow, Insn, Reg, StackMove};
use wire::{COST_WORDS, cost};

pub use placement::{Place, place_of};
use placement::{dead_flags, is_indirect};

use crate::edge_counters::{LastBranch, Rare};
use crate::indirect::SPILL_RCX;
use crate::pcmap::Recipe;
use crate::prediction::Prediction;
use crate::streams::Append;
use crate::superblock::is_turned;
use crate::translate::Emit;

const WORDS: i32 = offset_of!(ThreadContext, insns) as i32;
/// Words that instructions have if contexts carry nothing else of them. Each is three
/// instructions more where it is settled.
const INSN_WORDS_ALONE: usize = 2;
/// Most instructions of a run: the map has a byte for their number.
const MOST: usize = 200;

/// Quantity that is counted.
#[derive(Clone, Copy, Debug)]
enum What {
    Nothing,
    Instructions(Words),
    /// Executions; the next place counts in the slot at this displacement from gs.
    EdgeCounters(i32),
    /// Instructions, taken from what is left in the word at this displacement.
    Left(i32),
}

/// Counting in a block that is being emitted.
#[derive(Debug)]
pub struct Counting {
    what: What,
    /// Predicted target of the jump at the end, if that was asked already.
    prediction: Option<Option<Prediction>>,
    last: LastBranch,
    /// Costs that are counted (`wire::cost`).
    costs: u32,
    /// Runs begun.
    runs: usize,
    /// Amounts that the branch at the end of the run is to count.
    at_branch: Amounts,
    /// Amounts of runs that are counted with the next one.
    pending: Amounts,
    /// Amounts of the last instruction of the run.
    last_insn: Amounts,
    rare: Rare,
}

/// Amounts that some instructions count, in the order of the counters ([`COST_WORDS`]); 0 for what
/// is not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts([i32; COST_WORDS]);

impl Amounts {
    /// One execution, of whatever it is.
    const ONE: Amounts = Amounts([1, 0, 0, 0]);

    /// Amounts of these instructions, of the kinds in `costs`.
    fn of(insns: &[Insn], costs: u32) -> Amounts {
        let mut amounts = Amounts([insns.len() as i32, 0, 0, 0]);
        if has_classes(costs) {
            for insn in insns {
                for (amount, one) in amounts.0[1..].iter_mut().zip(insn.class().amounts()) {
                    *amount += i32::from(one);
                }
            }
        }
        for (bit, amount) in amounts.0.iter_mut().enumerate().skip(1) {
            if costs & 1 << bit == 0 {
                *amount = 0;
            }
        }
        amounts
    }

    fn plus(self, other: Amounts) -> Amounts {
        Amounts(core::array::from_fn(|i| self.0[i] + other.0[i]))
    }

    fn minus(self, other: Amounts) -> Amounts {
        Amounts(core::array::from_fn(|i| self.0[i] - other.0[i]))
    }

    /// Returns true if nothing is counted.
    fn is_nothing(self) -> bool {
        self == Amounts::default()
    }

    /// Words, from the first one on, and what is added there.
    fn additions(self, first: i32) -> impl Iterator<Item = (i32, i32)> {
        let words = (0..).map(move |i| first + 8 * i).zip(self.0);
        words.filter(|(_, amount)| *amount != 0)
    }
}

/// Whether what an instruction counts depends on which it is.
pub fn has_classes(costs: u32) -> bool {
    costs & cost::OF_INSTRUCTIONS & !cost::INSTRUCTIONS != 0
}

/// The words that a block counts in.
#[derive(Clone, Copy, Debug)]
pub enum Words {
    All,
    /// Counters of the activation on top, or of a leaf, while contexts carry costs.
    Own,
    Leaf,
}

impl Words {
    /// The first of them, for the map.
    fn number(self) -> u8 {
        match self {
            Words::All | Words::Own => 0,
            Words::Leaf => COST_WORDS as u8,
        }
    }

    /// The word of the cost with this bit, as a displacement from gs.
    fn of_cost(self, bit: u32) -> i32 {
        WORDS + 8 * (i32::from(self.number()) + bit as i32)
    }

    /// The words that count `costs`: displacement and bit of the cost.
    pub fn of_costs(self, costs: u32) -> impl Iterator<Item = (i32, u32)> {
        let used = match has_classes(costs) {
            true => costs & cost::OF_INSTRUCTIONS,
            false if costs & cost::INSTRUCTIONS == 0 => 0,
            false => (1 << INSN_WORDS_ALONE) - 1,
        };
        let words = (0..COST_WORDS as u32).filter(move |word| used & 1 << word != 0);
        words.map(move |word| {
            let bit = cost::of_word(costs, word).trailing_zeros();
            (self.of_cost(word), bit)
        })
    }

    /// Counter of a run's instructions; those of their other
    /// `costs` follow it.
    fn in_turn(self, turn: usize, costs: u32) -> i32 {
        let words = match self {
            Words::All => wire::INSN_WORDS,
            Words::Own | Words::Leaf if has_classes(costs) => 1,
            Words::Own | Words::Leaf => INSN_WORDS_ALONE,
        };
        self.of_cost((turn % words) as u32)
    }
}

impl Counting {
    fn new(what: What, prediction: Option<Option<Prediction>>) -> Counting {
        Counting {
            what,
            prediction,
            last: LastBranch::None,
            costs: 0,
            runs: 0,
            at_branch: Amounts::default(),
            pending: Amounts::default(),
            last_insn: Amounts::ONE,
            rare: Rare::NONE,
        }
    }

    /// Counts instructions and their other `costs`; `None`: nothing is
    /// counted.
    pub fn of_instructions(words: Option<Words>, costs: u32) -> Counting {
        let what = words.map_or(What::Nothing, What::Instructions);
        Counting {
            costs,
            ..Counting::new(what, None)
        }
    }

    /// Counts executions, in slots from the one at `displacement` on (`edge_counters`).
    pub fn of_edges(
        displacement: i32,
        prediction: Option<Prediction>,
        last: LastBranch,
        rare: Rare,
    ) -> Counting {
        Counting {
            last,
            rare,
            ..Counting::new(What::EdgeCounters(displacement), Some(prediction))
        }
    }

    pub fn of_nothing(prediction: Option<Prediction>) -> Counting {
        Counting::new(What::Nothing, Some(prediction))
    }

    /// The word that the map names.
    fn number(&self) -> u8 {
        match self.what {
            What::Instructions(words) => words.number(),
            What::Nothing | What::EdgeCounters(_) | What::Left(_) => 0,
        }
    }

    /// Whether the map has to know of what class instructions are.
    pub fn has_classes(&self) -> bool {
        has_classes(self.costs)
    }

    pub fn is_on(&self) -> bool {
        !matches!(self.what, What::Nothing)
    }

    /// Whether indirect branches count for themselves where they go.
    fn names_targets(&self) -> bool {
        matches!(self.what, What::EdgeCounters(_))
    }

    /// Predicted target of the indirect branch, if that was asked already.
    pub fn prediction(&self) -> Option<Option<Prediction>> {
        self.prediction
    }
}

/// Instructions `first..end` of a superblock: no exit but after the last.
#[derive(Debug, Default)]
pub struct Run {
    pub first: usize,
    pub end: usize,
    pub place: Place,
    amounts: Amounts,
    /// Amounts of its last instruction.
    last: Amounts,
}

impl Run {
    /// The run that begins at `first`, and where it is counted. `named`: indirect branches
    /// count for themselves.
    pub fn plan(insns: &[Insn], first: usize, costs: u32, named: bool, rare: Rare) -> Run {
        let rest = &insns[first..];
        let ends = |insn: &Insn| {
            !matches!(insn.flow(), Flow::Next | Flow::Jump(_))
                || insn.stack_move() == StackMove::Arbitrary
        };
        let until = rest
            .iter()
            .position(ends)
            .map_or(rest.len(), |i| i + 1)
            .min(MOST);
        let insns = &rest[..until];
        let dead = dead_flags(insns).map(|i| first + i);
        let branches = insns.last().is_some_and(is_indirect);
        // A turned branch, too, mostly goes on in the superblock.
        let skips = insns.last().is_some_and(|last| match last.flow() {
            Flow::Cond(_, target) => target > last.pc() || is_turned(&rest[until - 1..]),
            _ => false,
        });
        let place = match dead {
            Some(_) if named && branches => Place::AtBranch,
            Some(_) if rare.has(first + until - 1) && until < rest.len() => Place::Later,
            Some(at) => Place::Add(at),
            None if branches => Place::AtBranch,
            None if skips && until < rest.len() => Place::Later,
            None => Place::Spilled,
        };
        Run {
            first,
            end: first + until,
            place,
            amounts: Amounts::of(insns, costs),
            last: Amounts::of(&insns[until - 1..], costs),
        }
    }
}

/// Compensation that a branch has to execute on a side exit, in rdx.
#[derive(Clone, Copy, Debug)]
pub enum Compensation {
    Added(Addition),
    Appended(Append),
}

impl Compensation {
    /// Adds `number` to a counter.
    pub fn add(word: i32, number: i32) -> Compensation {
        Compensation::Added(Addition {
            word,
            added: Amounts([number, 0, 0, 0]),
            instructions: number,
            last: Amounts::default(),
            apart: false,
        })
    }

    /// Adds `number` also where the branch itself is made again: the engine takes that back.
    pub fn add_for_good(word: i32, number: i32) -> Compensation {
        match Compensation::add(word, number) {
            Compensation::Added(addition) => Compensation::Added(Addition {
                instructions: number + 1,
                ..addition
            }),
            other => other,
        }
    }

    /// Most bytes of it.
    pub fn bytes(self) -> u64 {
        match self {
            Compensation::Added(addition) => addition.bytes(),
            Compensation::Appended(append) => append.bytes(),
        }
    }

    /// Most bytes of [`add_spilled`].
    pub fn spilled_bytes(self) -> u64 {
        match self {
            Compensation::Added(addition) => 9 + addition.bytes() + 9,
            Compensation::Appended(append) => append.spilled_bytes(),
        }
    }

    /// The one word of an addition.
    pub fn word(self) -> Option<i32> {
        match self {
            Compensation::Added(addition) => Some(addition.word),
            Compensation::Appended(_) => None,
        }
    }

    pub fn emit(self, asm: &mut Asm<'_>) {
        match self {
            Compensation::Added(addition) => add_in(asm, Reg::Rdx, addition),
            Compensation::Appended(append) => append.emit(asm),
        }
    }

    /// All but the branch itself, if there are any or that is counted, too.
    pub fn without_last(self) -> Option<Compensation> {
        match self {
            Compensation::Added(addition) => addition.without_last().map(Compensation::Added),
            Compensation::Appended(append) => Some(Compensation::Appended(append.without_last())),
        }
    }
}

/// An addition in a register.
#[derive(Clone, Copy, Debug)]
pub struct Addition {
    /// The first word, and what is added from there on.
    word: i32,
    added: Amounts,
    /// How many instructions that stands for.
    instructions: i32,
    last: Amounts,
    /// The next addition has a counter of its own.
    apart: bool,
}

impl Addition {
    fn bytes(self) -> u64 {
        (9 + 7 + 9) * self.added.additions(0).count() as u64
    }

    fn without_last(self) -> Option<Addition> {
        let instructions = self.instructions - 1;
        let rest = match self.apart {
            true => Addition {
                word: self.word + 8,
                instructions,
                ..self
            },
            false => Addition {
                added: self.added.minus(self.last),
                instructions,
                ..self
            },
        };
        (self.apart || instructions > 0).then_some(rest)
    }
}

/// Emits compensation where no register is spilled.
pub fn add_spilled(asm: &mut Asm<'_>, compensation: Compensation) {
    match compensation {
        Compensation::Added(addition) => {
            asm.mov_gs_r(SPILL_RCX, Reg::Rcx);
            add_in(asm, Reg::Rcx, addition);
            asm.mov_r_gs(Reg::Rcx, SPILL_RCX);
        }
        Compensation::Appended(append) => append.emit_spilled(asm),
    }
}

fn add_in(asm: &mut Asm<'_>, scratch: Reg, addition: Addition) {
    for (word, number) in addition.added.additions(addition.word) {
        asm.mov_r_gs(scratch, word);
        asm.lea(scratch, scratch, number);
        asm.mov_gs_r(word, scratch);
    }
}

impl Emit<'_> {
    /// The run that begins at `first`.
    pub fn plan_run(&self, insns: &[Insn], first: usize) -> Run {
        let Counting { costs, rare, .. } = self.counting;
        let mut run = Run::plan(insns, first, costs, self.counting.names_targets(), rare);
        let is_checked = first == 0 && self.counting.left().is_some();
        if is_checked && !matches!(run.place, Place::Add(_)) {
            // Branches owe nothing.
            run.place = Place::Spilled;
        }
        run
    }

    /// Says in the map that what comes is to be counted yet.
    pub fn begin_run(&mut self, run: &Run) {
        self.counting.runs += 1;
        self.counting.at_branch = Amounts::default();
        self.counting.last_insn = run.last;
        match run.place {
            Place::Add(at) if at == run.first => {}
            Place::Spilled => {}
            // The pending instructions and these are counted later, together.
            _ if !self.counting.pending.is_nothing() => {}
            _ => self.map.counted(0, self.counting.number()),
        }
    }

    /// Before instruction `at`: the run is counted if this is the place.
    pub fn count_at(&mut self, run: &Run, at: usize) {
        let all = self.counting.pending.plus(run.amounts);
        match run.place {
            Place::Add(place) if place == at => {
                let compensation = self.amounts(all);
                for (word, number) in compensation.added.additions(compensation.word) {
                    self.asm.add_gs_imm(word, number);
                }
            }
            Place::Spilled if at == run.first => {
                let compensation = self.addition(all);
                add_spilled(&mut self.asm, compensation);
            }
            Place::AtBranch if at + 1 == run.end => {
                self.counting.at_branch = all;
                self.counting.pending = Amounts::default();
                return;
            }
            Place::Later if at + 1 == run.end => {
                self.counting.pending = all;
                return;
            }
            _ => return,
        }
        self.counting.pending = Amounts::default();
        self.cover(true, Recipe::NONE);
        let word = self.counting.number();
        self.map.counted((run.end - at) as u8, word);
    }

    /// Counts where no register is spilled, and before anything of the branch.
    pub fn count_before_check(&mut self) {
        if let Some(compensation) = self.compensation() {
            add_spilled(&mut self.asm, compensation);
            self.cover(true, Recipe::NONE);
            self.map.counted(1, self.counting.number());
        }
    }

    /// Emits the branch's count after its spills, before it has done anything else: what it
    /// does next is an event. Returns true if there was anything to count: then its first
    /// byte, which is a boundary, is in the map already.
    pub fn count_before_event(&mut self) -> bool {
        let Some(compensation) = self.compensation() else {
            return false;
        };
        self.cover(true, Recipe::RCX_RDX);
        compensation.emit(&mut self.asm);
        self.cover(false, Recipe::RCX_RDX);
        self.map.counted(1, self.counting.number());
        true
    }

    /// Count of the branch, made once on each way that it can go.
    pub fn compensation(&mut self) -> Option<Compensation> {
        if self.pending.is_on() {
            return match self.pending.not_appended() {
                None => self.insns_at_branch(),
                Some(append) => Some(Compensation::Appended(self.with_insns(append))),
            };
        }
        let amounts = core::mem::take(&mut self.counting.at_branch);
        (!amounts.is_nothing()).then(|| self.addition(amounts))
    }

    /// Pending count, for the side exit of a branch.
    pub fn pending_there(&mut self) -> Option<Compensation> {
        let pending = self.counting.pending;
        (!pending.is_nothing()).then(|| self.addition(pending))
    }

    /// For the way out of the branch that ends the superblock, if it is `way` that
    /// is counted apart.
    pub fn last_branch(&mut self, way: LastBranch) -> Option<Compensation> {
        let counts =
            matches!(self.counting.what, What::EdgeCounters(_)) && self.counting.last == way;
        counts.then(|| self.addition(Amounts::ONE))
    }

    /// For a branch that was counted, and is made again instead of executed.
    pub fn not_executed(&mut self) -> Option<Compensation> {
        let jump = self.counting.last_insn;
        self.counting.is_on().then(|| match self.counting.what {
            What::EdgeCounters(_) => self.addition(Amounts::ONE),
            _ => self.addition(Amounts::default().minus(jump)),
        })
    }

    /// Addition for one more execution of instructions that have these amounts.
    fn addition(&mut self, amounts: Amounts) -> Compensation {
        Compensation::Added(self.amounts(amounts))
    }

    fn amounts(&mut self, amounts: Amounts) -> Addition {
        let [instructions, ..] = amounts.0;
        let last = self.counting.last_insn;
        if let What::EdgeCounters(next) = &mut self.counting.what {
            let word = *next;
            *next += 8;
            return Addition {
                word,
                added: Amounts::ONE,
                instructions,
                last,
                apart: true,
            };
        }
        // Neighbours in time count in different words.
        let turn = self.id.0 as usize + self.counting.runs;
        let words = match self.counting.what {
            What::Instructions(words) => words,
            What::Left(word) => return Addition::taken(word, amounts, last),
            What::Nothing | What::EdgeCounters(_) => Words::All,
        };
        Addition {
            word: words.in_turn(turn, self.counting.costs),
            added: amounts,
            instructions,
            last,
            apart: false,
        }
    }
}
