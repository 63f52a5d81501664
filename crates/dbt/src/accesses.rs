//! Addresses of memory accesses, recorded beside the control flow (`trace --memory`).
//!
//! Problem: an instruction's addresses are to be in the thread's stream exactly if it was executed,
//! also where the next one faults, a signal comes, or the process is killed.
//!
//! Approach: before an instruction its words (`isa::memory::recorded`) are stored behind the end of
//! the lane, at constant distances from it. Where the superblock is left, the same append that
//! has the outcomes moves the end of the lane behind them.
//!
//! ```text
//!   mov gs:[spill], r             r: not used by this instruction, and not soon
//!   mov r, gs:[lane]
//!   mov [r + 12], rbx             the third word; faults if the chunk is full
//!   mov r, gs:[spill]
//!   mov rax, [rbx + 8]            the instruction: [rbx + 8] was not known
//!   mov rcx, [rbx + 16]           this address follows
//!   ...
//!   way out: mov rdx, gs:[lane];  lea rdx, [rdx + 18];  mov gs:[lane], rdx
//! ```
//!
//! The map says at each instruction how many bytes are stored (`pcmap`, code 0xE2), for who
//! leaves in the middle.
//!
//! The reader knows registers by the same rules (`isa::memory::Known`): the stack
//! pointer always, nothing else behind a branch that is taken, or an escape. Nothing else is known
//! where a superblock begins; if it is entered otherwise while something is, a mark before it
//! says so. The stack pointer follows each escape that says where control is, or went.
//!
//! Invariants: an instruction of the program never sees that a register was used here; no flag
//! changes; between the end of the lane and the end of the chunk is room for what is stored, or
//! storing it faults (`streams::overflowed`).
//!
//! Limits: those of `isa::memory::recorded`. Without instructions for bases of segments nothing is
//! recorded.

use alloc::vec::Vec;
use core::mem::offset_of;

use agent::thread::ThreadContext;
use isa::memory::recorded::{self, Recorded, falls_through};
use isa::memory::{Address, Known, Mask, Operand, Segment, Selection, Word};
use isa::{Asm, Insn, Reg};
use wire::stream::{ADDRESSES, VALUES, memory};

use crate::engine::Engine;
use crate::indirect::{SPILL_OTHER, SPILL_RCX};
use crate::pcmap::Recipe;
use crate::superblock::{Superblock, is_turned};
use crate::translate::Emit;

mod values;

use values::Value;
pub use values::{passed_over, reads};

/// The thread's ends of the lanes: of addresses, and of values.
const LANES: [i32; 2] = [end_of(ADDRESSES), end_of(VALUES)];
const APP_GS: i32 = offset_of!(ThreadContext, app_gs) as i32;

const fn end_of(lane: usize) -> i32 {
    offset_of!(ThreadContext, streams) as i32 + 8 * lane as i32
}

/// Number of instructions ahead that do not use a scratch register, if there is such a one.
const AHEAD: usize = 6;

/// Registers to use in between, those first that calls do not keep.
const SCRATCH: [Reg; 14] = [
    Reg::R11,
    Reg::R10,
    Reg::R9,
    Reg::R8,
    Reg::Rsi,
    Reg::Rdi,
    Reg::Rdx,
    Reg::Rcx,
    Reg::Rax,
    Reg::R15,
    Reg::R14,
    Reg::R13,
    Reg::Rbx,
    Reg::Rbp,
];

/// Recording in a block that is being emitted.
#[derive(Debug, Default)]
pub struct Accesses {
    selection: Option<Selection>,
    /// One for each instruction; none: nothing is recorded.
    plans: Vec<Recorded>,
    known: Known,
    /// Words and values of the instruction being emitted that come after it.
    behind: (Vec<Word>, Vec<Value>),
    /// Index in [`SCRATCH`] from which registers are looked for: one that was just restored is not
    /// there for some cycles.
    turn: usize,
}

/// Words and values that are stored behind the ends of their lanes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// In bytes, up to the instruction being emitted.
    pub bytes: Bytes,
    /// Bytes of that instruction among them.
    pub last: Bytes,
    /// Something is known of registers after it.
    pub is_known: bool,
}

/// Bytes in the lanes of addresses and of values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    pub addresses: u8,
    pub values: u8,
}

impl Bytes {
    pub fn is_none(self) -> bool {
        self == Bytes::default()
    }

    pub fn and(self, other: Bytes) -> Bytes {
        Bytes {
            addresses: self.addresses + other.addresses,
            values: self.values + other.values,
        }
    }

    pub fn without(self, other: Bytes) -> Bytes {
        Bytes {
            addresses: self.addresses - other.addresses,
            values: self.values - other.values,
        }
    }

    /// More than may be stored and not in the streams.
    fn are_too_many(self) -> bool {
        usize::from(self.addresses.max(self.values)) > memory::PENDING
    }
}

impl Accesses {
    pub fn new(selection: Option<Selection>, source: &Superblock) -> Accesses {
        let selection = selection.filter(|_| source.traced);
        let plan = |selection| {
            let insns = source.insns.iter();
            insns.map(|insn| Recorded::of(insn, selection)).collect()
        };
        Accesses {
            selection,
            plans: selection.map(plan).unwrap_or_default(),
            turn: source.bytes % SCRATCH.len(),
            ..Accesses::default()
        }
    }

    /// Two registers that instruction `i` does not use, and those after it not soon.
    fn scratch(&self, i: usize) -> [Reg; 2] {
        let own = self.plans[i].uses;
        let soon = |plan: &Recorded| plan.uses;
        let next = self.plans[i..].iter().take(AHEAD).map(soon);
        let all = next.fold(0, |all, uses| all | uses);
        let mut found = [Reg::R11; 2];
        let mut number = 0;
        let in_turn = SCRATCH.iter().cycle().skip(self.turn).take(SCRATCH.len());
        for used in [all, own] {
            for &register in in_turn.clone() {
                let is_free = used & 1 << register as u16 == 0;
                if number < 2 && is_free && !found[..number].contains(&register) {
                    found[number] = register;
                    number += 1;
                }
            }
        }
        assert!(number == 2, "no instruction uses thirteen registers");
        found
    }
}

impl Emit<'_> {
    /// Before instruction `i`: stores the words of its operands.
    #[inline]
    pub fn begin_accesses(&mut self, insns: &[Insn], i: usize) {
        if let Some(selection) = self.accesses.selection {
            self.store_before(insns, i, selection);
        }
    }

    fn store_before(&mut self, insns: &[Insn], i: usize, selection: Selection) {
        self.pending.stored.last = Bytes::default();
        let Accesses { plans, known, .. } = &mut self.accesses;
        if i > 0 && !falls_through(insns[i - 1].flow(), is_turned(&insns[i - 1..])) {
            known.clear();
        }
        let plan = &plans[i];
        let (mut before, mut behind) = (Vec::new(), Vec::new());
        for operand in &plan.operands {
            let words = known.words(operand, selection);
            if !words.is_empty() {
                known.recorded(operand, selection, 0);
            }
            for word in words {
                match word.is_behind() {
                    true => behind.push(word),
                    false => before.push((word, *operand)),
                }
            }
        }
        if known.executed(plan, selection) {
            behind.push(Word::Stack);
        }
        let words = before.iter().map(|(word, _)| word).chain(&behind);
        let values = [false, true].map(|is_behind| {
            let values = values::recorded(&plan.values, is_behind);
            values.collect::<Vec<Value>>()
        });
        let all = Bytes {
            addresses: words.map(|word| word.len() as u8).sum(),
            values: values.iter().flatten().map(|value| value.size).sum(),
        };
        if self.pending.stored.bytes.and(all).are_too_many() {
            self.write_addresses();
        }
        self.pending.stored.is_known = !self.accesses.known.is_empty();
        let [values, values_behind] = values;
        self.accesses.behind = (behind, values_behind);
        if !before.is_empty() || !values.is_empty() {
            let words = before.iter();
            let words = words.map(|(word, operand)| (*word, Some(*operand)));
            self.store(i, words, &values, true);
        }
        self.pending.stored.last = all;
        self.map.accessing = all;
    }

    /// After instruction `i`, which is no branch.
    #[inline]
    pub fn end_accesses(&mut self, i: usize) {
        if self.accesses.selection.is_some() {
            self.store_behind(i);
        }
    }

    fn store_behind(&mut self, i: usize) {
        let (behind, values) = core::mem::take(&mut self.accesses.behind);
        if !behind.is_empty() || !values.is_empty() {
            let words = behind.into_iter().map(|word| (word, None));
            self.store(i, words, &values, false);
        }
    }

    /// Stores words and values of instruction `i`; the code begins at a boundary or not.
    fn store(
        &mut self,
        i: usize,
        words: impl Iterator<Item = (Word, Option<Operand>)> + Clone,
        values: &[Value],
        is_boundary: bool,
    ) {
        let [pointer, scratch] = self.accesses.scratch(i);
        self.accesses.turn = (self.accesses.turn + 3) % SCRATCH.len();
        let is_plain = |word: Word| {
            matches!(
                word,
                Word::Base(_)
                    | Word::Number(_)
                    | Word::Indices(..)
                    | Word::Components
                    | Word::Stack
            )
        };
        let reads = values.iter().any(|value| value.is_memory());
        let is_computed = reads || words.clone().any(|(word, _)| !is_plain(word));
        let asm = &mut self.asm;
        asm.mov_gs_r(SPILL_OTHER, pointer);
        if is_computed {
            asm.mov_gs_r(SPILL_RCX, scratch);
        }
        let stored = &mut self.pending.stored.bytes;
        let mut words = words.peekable();
        if words.peek().is_some() {
            asm.mov_r_gs(pointer, LANES[0]);
        }
        for (word, operand) in words {
            let at = i32::from(stored.addresses) + word.skips() as i32;
            store_word(asm, word, operand, [pointer, scratch], at);
            stored.addresses += word.len() as u8;
        }
        if !values.is_empty() {
            asm.mov_r_gs(pointer, LANES[1]);
        }
        for value in values {
            values::store(asm, *value, [pointer, scratch], stored.values.into());
            stored.values += value.size;
        }
        if is_computed {
            asm.mov_r_gs(scratch, SPILL_RCX);
        }
        asm.mov_r_gs(pointer, SPILL_OTHER);
        match reads {
            true => self.cover_reading(is_boundary, [pointer, scratch]),
            false => self.cover(is_boundary, Recipe::NONE),
        }
    }
}

/// Stores a word at `pointer + at`.
fn store_word(
    asm: &mut Asm<'_>,
    word: Word,
    operand: Option<Operand>,
    [pointer, scratch]: [Reg; 2],
    at: i32,
) {
    let register = match word {
        Word::Base(register) | Word::Number(register) => register,
        Word::Stack => Reg::Rsp,
        Word::Address(address) | Word::Wide(address) | Word::Behind(address) => {
            load_address(asm, address, [pointer, scratch], LANES[0]);
            scratch
        }
        Word::Mask(mask) => {
            load_mask(asm, mask, operand, scratch);
            scratch
        }
        Word::Indices(vector, len) => {
            let is_wide = len > isa::memory::recorded::VECTOR / 2;
            return asm.mov_mem_vector(pointer, at, vector, is_wide);
        }
        Word::Components => {
            // The upper half of the second store does not count.
            asm.mov_mem_r(pointer, at, Reg::Rax);
            asm.mov_mem_r(pointer, at + 4, Reg::Rdx);
            return;
        }
    };
    asm.mov_mem_r(pointer, at, register);
}

/// scratch = the address; `pointer` is the end of the lane again.
fn load_address(asm: &mut Asm<'_>, address: Address, [pointer, scratch]: [Reg; 2], lane: i32) {
    let displacement = address.displacement as i32;
    match (address.base, address.index) {
        (None, None) => asm.mov_r_imm(scratch, address.displacement),
        (base, Some(index)) if index.is_byte => {
            asm.movzx_r32_r8(scratch, index.register);
            let index = Some((scratch, index.scale));
            asm.lea_any(scratch, base, index, displacement, address.is_32_bit);
        }
        (base, index) => {
            let index = index.map(|index| (index.register, index.scale));
            asm.lea_any(scratch, base, index, displacement, address.is_32_bit);
        }
    }
    match address.segment {
        None => return,
        Some(Segment::Fs) => asm.rdfsbase(pointer),
        Some(Segment::Gs) => asm.mov_r_gs(pointer, APP_GS),
    }
    asm.lea_sum(scratch, scratch, pointer, 0);
    asm.mov_r_gs(pointer, lane);
}

/// scratch = a bit for each element.
fn load_mask(asm: &mut Asm<'_>, mask: Mask, operand: Option<Operand>, scratch: Reg) {
    match mask {
        // Machines without AVX512BW have masks of 16 bits, for elements of 4 bytes.
        Mask::Opmask(number) => {
            let is_short = operand.is_some_and(|operand| operand.size >= 4);
            asm.mov_r_opmask(scratch, number, is_short);
        }
        Mask::Signs(number, size) => asm.mov_r_signs(scratch, number, size),
        Mask::Mmx(number) => asm.mov_r_mmx_signs(scratch, number),
    }
}

/// The register that emitted code stores by, of a store that begins with `code`: rdx, if it
/// stores a constant.
pub fn stored_by(code: &[u8]) -> usize {
    match *code {
        [rex @ 0x48..=0x4F, 0x89, modrm, ..] | [rex @ 0x40..=0x47, 0x0F, 0x11, modrm, ..] => {
            usize::from(rex & 1) << 3 | usize::from(modrm & 7)
        }
        [0xC4, second, _, 0x7F, modrm, ..] => {
            usize::from(!second >> 5 & 1) << 3 | usize::from(modrm & 7)
        }
        [0x62, second, _, _, 0x7F, modrm, ..] => {
            usize::from(!second >> 5 & 1) << 3 | usize::from(modrm & 7)
        }
        _ => Reg::Rdx as usize,
    }
}

/// Appends the stack pointer, where control has gone otherwise; rdx is free.
pub fn append_stack(asm: &mut Asm<'_>) {
    asm.mov_r_gs(Reg::Rdx, LANES[0]);
    asm.mov_mem_r(Reg::Rdx, 0, Reg::Rsp);
    asm.lea(Reg::Rdx, Reg::Rdx, recorded::SHORT as i32);
    asm.mov_gs_r(LANES[0], Reg::Rdx);
}

impl Engine {
    /// Whether the reader knows the stack pointer.
    pub fn follows_stack(&self) -> bool {
        self.settings
            .memory
            .is_some_and(|selection| selection.elision)
    }

    /// The thread's stack pointer is this, where it is now.
    pub fn follow_stack(&mut self, context: &mut ThreadContext, sp: u64) {
        if self.follows_stack() {
            self.append(context, ADDRESSES, &sp.to_le_bytes()[..recorded::SHORT]);
        }
    }
}
