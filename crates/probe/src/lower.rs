//! Code of ops.

mod records;
mod tables;

use alloc::vec::Vec;

use isa::{Asm, Cc, Flags, Reg};

use crate::{
    Exit, Item, Lane, NoScratch, Op, Placed, Sink, Site, Spill, Symbol, Test, Value, Word,
};

/// All flags but the carry, which `inc` and `dec` leave as it was.
const OF_INC: Flags = Flags(0x2f);
/// Bytes that all ops of a site have at most.
const MOST: usize = 1024;
/// The register in which routines find where to go on.
const LINK: Reg = Reg::R11;
/// Below the stack pointer, where registers are kept.
const BELOW: [i32; 2] = [-8, -16];

/// Whether registers are left for ops.
pub fn fits(ops: &[Op], site: &Site) -> bool {
    Scratch::of(ops, site).is_ok()
}

/// Bytes of the code of ops.
///
/// # Errors
/// As [`lower`].
pub fn size(ops: &[Op], site: &Site) -> Result<usize, NoScratch> {
    with_code(ops, site, <[u8]>::len)
}

/// Code of ops that is the same wherever it stands; `None`: theirs is not.
///
/// # Errors
/// As [`lower`].
pub fn code(ops: &[Op], site: &Site) -> Result<Option<Vec<u8>>, NoScratch> {
    let names = |op: &Op| match op {
        Op::Guard { .. }
        | Op::Jump { .. }
        | Op::Call { .. }
        | Op::Tell { .. }
        | Op::Put { .. }
        | Op::Count { .. }
        | Op::Unwind { .. }
        | Op::Tally { .. }
        | Op::Append { .. } => true,
        Op::Add { .. }
        | Op::Here { .. }
        | Op::Set { .. }
        | Op::Bump { .. }
        | Op::Let { .. }
        | Op::Sum { .. } => false,
    };
    with_code(ops, site, |code| {
        (!ops.iter().any(names)).then(|| code.to_vec())
    })
}

/// Lets something look at the code for one place.
fn with_code<T>(ops: &[Op], site: &Site, look: impl FnOnce(&[u8]) -> T) -> Result<T, NoScratch> {
    let mut bytes = [0; MOST];
    // Near what it reads.
    let mut near = ops.iter().filter_map(|op| match op {
        Op::Tally {
            value: Value::At(address),
            ..
        } => Some(*address),
        _ => None,
    });
    let origin = near.next().unwrap_or(0);
    let mut sink = Placed {
        asm: Asm::new(&mut bytes, origin),
        address: |_| origin,
    };
    lower(ops, site, &mut sink)?;
    match sink.asm.overflowed() {
        true => Err(NoScratch),
        false => {
            let len = sink.asm.len();
            Ok(look(&bytes[..len]))
        }
    }
}

/// Code of ops, one after the other, at a site.
///
/// # Errors
/// No register is left for it.
pub fn lower<'a>(ops: &[Op], site: &Site, out: &mut impl Sink<'a>) -> Result<(), NoScratch> {
    let ops = merged(ops);
    let scratch = Scratch::of(&ops, site)?;
    let mut lowering = Lowering {
        out,
        scratch,
        has_flags: false,
    };
    lowering.begin();
    let mut rest = &ops[..];
    while let [op, behind @ ..] = rest {
        rest = behind;
        match *op {
            Op::Add { word, amount } => {
                lowering.keep_flags(written(op));
                lowering.add(word, amount);
            }
            Op::Here { word, value } => lowering.here(word, value),
            Op::Tell { routine, facts } => lowering.tell(routine, facts),
            Op::Put { routine, facts } => lowering.put(routine, facts)?,
            Op::Count { routine, facts } => lowering.count(routine, facts)?,
            Op::Unwind { top, record, word } => lowering.unwind(top, record, word)?,
            Op::Set { byte } => lowering.out.asm().mov_gs_imm8(byte.0.cast_signed(), 1),
            Op::Bump { byte } => {
                lowering.keep_flags(written(op));
                lowering.out.asm().inc_gs8(byte.0.cast_signed());
            }
            Op::Append { lane, item } => {
                let items = items(lane, item, rest);
                rest = &rest[items.len() - 1..];
                lowering.append(lane, &items)?;
            }
            Op::Let { register, value } => {
                let place = lowering.place(register)?;
                lowering.out.asm().mov_r_imm(place, value.into());
            }
            Op::Sum { register, amount } => {
                let place = lowering.place(register)?;
                lowering.out.asm().lea(place, place, amount);
            }
            Op::Guard { test, exit } => lowering.guard(test, exit),
            Op::Call { routine } => lowering.leave(Exit::Routine(routine)),
            Op::Tally {
                value,
                tables,
                routine,
            } => lowering.tally(value, tables, routine),
            Op::Jump { to } => {
                lowering.leave(Exit::To(to));
                return Ok(());
            }
        }
    }
    lowering.end();
    Ok(())
}

/// An item and those that are appended to its lane behind it.
fn items(lane: Lane, first: Item, rest: &[Op]) -> Vec<Item> {
    let is_same = |next: &&Op| matches!(**next, Op::Append { lane: other, .. } if other == lane);
    let more = rest.iter().take_while(is_same).map(item_of);
    [first].into_iter().chain(more).collect()
}

fn item_of(op: &Op) -> Item {
    match *op {
        Op::Append { item, .. } => item,
        _ => Item::Imm8(0),
    }
}

/// Ops without those that come to the same: sums of a word, and marks of a byte, between guards and items.
fn merged(ops: &[Op]) -> Vec<Op> {
    let mut merged: Vec<Op> = Vec::new();
    let mut first = 0;
    for &op in ops {
        match op {
            Op::Guard { .. }
            | Op::Jump { .. }
            | Op::Call { .. }
            | Op::Here { .. }
            | Op::Tell { .. }
            | Op::Put { .. }
            | Op::Count { .. }
            | Op::Unwind { .. }
            | Op::Append { .. } => {
                merged.push(op);
                first = merged.len();
            }
            Op::Bump { .. } | Op::Tally { .. } | Op::Let { .. } | Op::Sum { .. } => merged.push(op),
            Op::Set { byte } => {
                let own = merged[first..].iter().rev();
                let own = own.take_while(|before| **before != Op::Bump { byte });
                if !own.into_iter().any(|before| *before == op) {
                    merged.push(op);
                }
            }
            Op::Add { word, amount } => {
                let sum = merged[first..].iter_mut().find_map(|before| match before {
                    Op::Add {
                        word: own,
                        amount: sum,
                    } if *own == word => sum.checked_add(amount).map(|new| (sum, new)),
                    _ => None,
                });
                match sum {
                    Some((sum, new)) => *sum = new,
                    None => merged.push(op),
                }
            }
        }
    }
    // Items stay apart between which nothing is left.
    let mut kept: Vec<Op> = Vec::new();
    for op in merged {
        let is_nothing = matches!(op, Op::Add { amount: 0, .. });
        if !is_nothing || matches!(kept.last(), Some(Op::Append { .. })) {
            kept.push(op);
        }
    }
    kept
}

/// Flags that the code of an op writes.
fn written(op: &Op) -> Flags {
    match op {
        Op::Add { amount: 1 | -1, .. } | Op::Bump { .. } => OF_INC,
        Op::Add { .. }
        | Op::Guard { .. }
        | Op::Tally { .. }
        | Op::Tell { .. }
        | Op::Put { .. }
        | Op::Count { .. }
        | Op::Unwind { .. }
        | Op::Append { .. } => Flags::ALL,
        Op::Set { .. }
        | Op::Here { .. }
        | Op::Jump { .. }
        | Op::Call { .. }
        | Op::Let { .. }
        | Op::Sum { .. } => Flags::NONE,
    }
}

/// A place where the value of a register is kept.
#[derive(Clone, Copy, Debug)]
enum Kept {
    In(Reg),
    Word(i32),
    BelowStack(i32),
}

/// Registers that the ops of a site use.
#[derive(Clone, Copy, Debug, Default)]
struct Scratch {
    /// For cursors and comparisons, and where its value is kept.
    work: Option<(Reg, Option<Kept>)>,
    live_flags: u8,
    /// The place of the value of rax meanwhile.
    rax: Option<Kept>,
    /// For what is copied, and where its value is kept, which is free below the stack pointer.
    copy: Option<(Reg, Option<Kept>)>,
    /// Two dead ones, for a word that is made of two halves.
    pair: Option<(Reg, Reg)>,
}

impl Scratch {
    fn of(ops: &[Op], site: &Site) -> Result<Scratch, NoScratch> {
        let live_flags = site.live.flags.0;
        if !ops.iter().all(|op| is_possible(op, site)) {
            return Err(NoScratch);
        }
        let flags = ops.iter().any(|op| written(op).0 & live_flags != 0);
        let mut slots = slots(site.spill);
        let read = read_by(ops);
        let rax = 1u16 << Reg::Rax as u8;
        let live = site.live.general;
        let mut taken = read | if flags { rax } else { 0 };
        let dead = |taken: u16| {
            let free = |register: &&Reg| (live | taken) >> **register as u8 & 1 == 0;
            Reg::ALL.iter().find(free).copied()
        };
        let work = match (ops.iter().any(uses_work), ops.iter().any(uses_link)) {
            (false, _) => None,
            (true, true) => {
                if taken >> LINK as u8 & 1 != 0 {
                    return Err(NoScratch);
                }
                let is_live = live >> LINK as u8 & 1 != 0;
                let kept = is_live.then(|| slots.next().ok_or(NoScratch));
                Some((LINK, kept.transpose()?))
            }
            (true, false) => match dead(taken) {
                Some(register) => Some((register, None)),
                None => {
                    let other = |register: &&Reg| taken >> **register as u8 & 1 == 0;
                    let register = Reg::ALL.iter().rfind(other).copied();
                    let kept = slots.next().ok_or(NoScratch)?;
                    Some((register.ok_or(NoScratch)?, Some(kept)))
                }
            },
        };
        taken |= work.map_or(0, |(register, _)| 1 << register as u8);
        let is_needed = flags && (live | read) & rax != 0;
        let rax = is_needed.then(|| match dead(taken) {
            Some(register) => Ok(Kept::In(register)),
            None => slots.next().ok_or(NoScratch),
        });
        let rax = rax.transpose()?;
        let copies = ops
            .iter()
            .any(|op| matches!(op, Op::Put { .. } | Op::Count { .. }));
        let copy = copies.then(|| match dead(taken) {
            Some(register) => (register, None),
            None => (Reg::Rax, Some(Kept::BelowStack(BELOW[1]))),
        });
        let taken = taken | rax_of(rax) | copy.map_or(0, |(register, _)| 1 << register as u8);
        let pair = dead(taken).and_then(|one| Some((one, dead(taken | 1 << one as u8)?)));
        Ok(Scratch {
            pair,
            copy,
            work,
            live_flags,
            rax,
        })
    }
}

/// Registers that ops read, and the stack pointer.
fn read_by(ops: &[Op]) -> u16 {
    let registers = ops.iter().flat_map(|op| match *op {
        Op::Append { item, .. } => [item.register(), None],
        Op::Let { register, .. } | Op::Sum { register, .. } => [Some(register), None],
        Op::Put { .. } => [Some(Reg::Rdx), None],
        Op::Tally { value, .. } => registers_of(value),
        _ => [None, None],
    });
    let registers = registers.flatten();
    registers.fold(1 << Reg::Rsp as u8, |read, register| {
        read | 1 << register as u8
    })
}

/// Registers that a value is in, or at.
fn registers_of(value: Value) -> [Option<Reg>; 2] {
    match value {
        Value::Register(register) => [Some(register), None],
        Value::Memory { base, index, .. } => [base, index.map(|(index, _)| index)],
        Value::At(_) => [None, None],
    }
}

/// The register that the value of rax is in meanwhile, as a bit.
fn rax_of(kept: Option<Kept>) -> u16 {
    match kept {
        Some(Kept::In(register)) => 1 << register as u8,
        _ => 0,
    }
}

/// Places for registers of a site.
fn slots(spill: Spill) -> impl Iterator<Item = Kept> {
    let both = match spill {
        Spill::Never => None,
        Spill::Words(words) => Some(words.map(|word| Kept::Word(word.0.cast_signed()))),
        Spill::RedZone => Some(BELOW.map(Kept::BelowStack)),
    };
    both.into_iter().flatten()
}

/// Whether an op finds free what it cannot keep.
fn is_possible(op: &Op, site: &Site) -> bool {
    let value = match op {
        Op::Tally { value, .. } => value,
        Op::Tell { .. } | Op::Put { .. } | Op::Count { .. } => {
            return site.live.flags == Flags::NONE;
        }
        _ => return true,
    };
    let read = registers_of(*value);
    let is_live = site.live.general >> LINK as u8 & 1 != 0 || site.live.flags != Flags::NONE;
    !is_live && !read.contains(&Some(LINK))
}

fn uses_work(op: &Op) -> bool {
    uses_link(op) || matches!(op, Op::Append { .. } | Op::Unwind { .. })
}

/// Whether a routine is called, or a comparison uses its register.
fn uses_link(op: &Op) -> bool {
    match op {
        Op::Guard { test, exit } => {
            matches!(exit, Exit::Routine(_)) || matches!(test, Test::IsOtherThread)
        }
        Op::Tally { .. }
        | Op::Tell { .. }
        | Op::Put { .. }
        | Op::Count { .. }
        | Op::Call { .. } => true,
        Op::Append { .. }
        | Op::Unwind { .. }
        | Op::Here { .. }
        | Op::Add { .. }
        | Op::Set { .. }
        | Op::Bump { .. }
        | Op::Jump { .. }
        | Op::Let { .. }
        | Op::Sum { .. } => false,
    }
}

/// Code of the ops of one site.
struct Lowering<'s, S> {
    out: &'s mut S,
    scratch: Scratch,
    /// Flags are in rax.
    has_flags: bool,
}

impl<'a, S: Sink<'a>> Lowering<'_, S> {
    fn begin(&mut self) {
        if let Some((register, Some(kept))) = self.scratch.work {
            keep(self.out.asm(), register, kept);
        }
    }

    /// Keeps flags, if some are live that will be written.
    fn keep_flags(&mut self, written: Flags) {
        if self.has_flags || written.0 & self.scratch.live_flags == 0 {
            return;
        }
        self.has_flags = true;
        let asm = self.out.asm();
        if let Some(kept) = self.scratch.rax {
            keep(asm, Reg::Rax, kept);
        }
        asm.lahf();
        asm.seto_al();
    }

    /// Gives back what is kept.
    fn give_back(&mut self) {
        let asm = self.out.asm();
        if self.has_flags {
            // It overflows if al is 1; sahf leaves the overflow as it is.
            asm.add_al_imm(0x7f);
            asm.sahf();
            if let Some(kept) = self.scratch.rax {
                give_back(asm, Reg::Rax, kept);
            }
        }
        if let Some((register, Some(kept))) = self.scratch.work {
            give_back(asm, register, kept);
        }
    }

    fn end(&mut self) {
        self.give_back();
    }

    fn add(&mut self, word: Word, amount: i32) {
        let (asm, at) = (self.out.asm(), word.0.cast_signed());
        match amount {
            1 => asm.inc_gs(at),
            -1 => asm.dec_gs(at),
            _ => asm.add_gs_imm(at, amount),
        }
    }

    /// The register that has the value of one meanwhile.
    fn place(&self, register: Reg) -> Result<Reg, NoScratch> {
        match (register, self.has_flags, self.scratch.rax) {
            (Reg::Rax, true, Some(Kept::In(other))) => Ok(other),
            (Reg::Rax, true, _) => Err(NoScratch),
            _ => Ok(register),
        }
    }

    /// Appends items. All bytes of several are taken at once, and the first item, without which the others are nothing, is stored last.
    fn append(&mut self, lane: Lane, items: &[Item]) -> Result<(), NoScratch> {
        self.keep_flags(Flags::ALL);
        let (work, _) = self.scratch.work.ok_or(NoScratch)?;
        let cursor = lane.cursor.0.cast_signed();
        let mut at: i32 = items.iter().map(|item| item.size()).sum();
        let is_byte = at == 1;
        let asm = self.out.asm();
        if is_byte {
            asm.mov_r_gs(work, cursor);
        } else {
            at += 1;
            asm.mov_r_imm(work, u64::from(at.cast_unsigned()));
            asm.xadd_gs_r(cursor, work);
        }
        for item in items.iter().rev() {
            at -= item.size();
            let disp = lane.end + at;
            let place = match item.register() {
                Some(register) => self.place(register)?,
                None => work,
            };
            let asm = self.out.asm();
            match *item {
                Item::Imm8(value) => asm.mov_gs_mem_imm8(work, disp, value),
                Item::Imm16(value) => asm.mov_gs_mem_imm16(work, disp, value),
                Item::Imm32(value) => asm.mov_gs_mem_imm32(work, disp, value),
                Item::Register(_) => asm.mov_gs_mem_r(work, disp, place),
                Item::Low(_) => asm.mov_gs_mem_r8(work, disp, place),
                Item::Low16(_) => asm.mov_gs_mem_r16(work, disp, place),
                Item::Low32(_) => asm.mov_gs_mem_r32(work, disp, place),
            }
        }
        if is_byte {
            self.out.asm().inc_gs(cursor);
        }
        // Moves leave the sign of the sum.
        let over = self.out.asm().jcc_short(Cc(8));
        let routine = self.out.address(lane.routine) + Lane::ROUTINE * work as u64;
        let behind = self.out.asm().here() + TO_ROUTINE;
        let asm = self.out.asm();
        asm.lea_rip(work, behind);
        asm.jmp(routine);
        asm.bind(over);
        Ok(())
    }

    fn guard(&mut self, test: Test, exit: Exit) {
        self.keep_flags(Flags::ALL);
        let holds = compare(self.out, test);
        if let (Exit::To(target), false, None | Some((_, None))) =
            (exit, self.has_flags, self.scratch.work)
        {
            let target = self.out.address(target);
            self.out.asm().jcc(holds, target);
            return;
        }
        let over = self.out.asm().jcc_short(holds.inverted());
        self.leave(exit);
        self.out.asm().bind(over);
    }

    fn leave(&mut self, exit: Exit) {
        match exit {
            Exit::Routine(routine) => {
                let behind = self.out.asm().here() + TO_ROUTINE;
                to_routine(self.out, routine, behind);
            }
            Exit::To(target) => {
                self.give_back();
                let target = self.out.address(target);
                self.out.asm().jmp(target);
            }
        }
    }
}

/// Bytes of [`to_routine`].
pub(crate) const TO_ROUTINE: u64 = 12;

/// `lea behind(%rip), %r11; jmp routine`
pub(crate) fn to_routine<'a>(out: &mut impl Sink<'a>, routine: Symbol, behind: u64) {
    let routine = out.address(routine);
    let asm = out.asm();
    asm.lea_rip(LINK, behind);
    asm.jmp(routine);
}

/// The comparison of a test; the condition is that it holds.
pub(crate) fn compare<'a>(out: &mut impl Sink<'a>, test: Test) -> Cc {
    match test {
        Test::IsZero(symbol) => {
            let address = out.address(symbol);
            out.asm().cmp_mem_rip_imm8(address, 0);
            Cc(4)
        }
        Test::IsSet(byte) => {
            out.asm().cmp_gs_imm8(byte.0.cast_signed(), 0);
            Cc(5)
        }
        Test::IsOtherThread => {
            let asm = out.asm();
            asm.mov_r_fs(LINK, 0);
            asm.cmp_r_gs(LINK, 0);
            Cc(5)
        }
    }
}

fn keep(asm: &mut Asm<'_>, register: Reg, kept: Kept) {
    match kept {
        Kept::In(other) => asm.mov_r_r(other, register),
        Kept::Word(at) => asm.mov_gs_r(at, register),
        Kept::BelowStack(at) => asm.mov_mem_r(Reg::Rsp, at, register),
    }
}

fn give_back(asm: &mut Asm<'_>, register: Reg, kept: Kept) {
    match kept {
        Kept::In(other) => asm.mov_r_r(register, other),
        Kept::Word(at) => asm.mov_r_gs(register, at),
        Kept::BelowStack(at) => asm.mov_r_mem(register, Reg::Rsp, at),
    }
}
