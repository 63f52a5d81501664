//! Code of ops.

mod expected;
mod records;
mod scratch;
mod tables;

use alloc::vec::Vec;

use isa::{Asm, Cc, Flags, Reg};

use self::scratch::{Kept, Scratch, give_back, keep};
use crate::{Exit, Item, Lane, NoScratch, Op, Placed, Sink, Site, Symbol, Test, Value, Word};

/// All flags but the carry, which `inc` and `dec` leave as it was.
const OF_INC: Flags = Flags(0x2f);
/// Bytes that all ops of a site have at most.
const MOST: usize = 1024;
/// The register in which routines find where to go on.
const LINK: Reg = Reg::R11;

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
        | Op::Look { .. }
        | Op::Again { .. }
        | Op::Expect { .. }
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
            Op::Look { routine, facts } => lowering.look(routine, facts),
            Op::Again { .. } | Op::Expect { .. } => lowering.expected(*op)?,
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
            | Op::Look { .. }
            | Op::Again { .. }
            | Op::Expect { .. }
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
        | Op::Again { .. }
        | Op::Expect { .. }
        | Op::Put { .. }
        | Op::Count { .. }
        | Op::Unwind { .. }
        | Op::Append { .. } => Flags::ALL,
        Op::Set { .. }
        | Op::Here { .. }
        | Op::Look { .. }
        | Op::Jump { .. }
        | Op::Call { .. }
        | Op::Let { .. }
        | Op::Sum { .. } => Flags::NONE,
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

    /// Gives back flags, and the register that they are in.
    fn give_back_flags(&mut self) {
        let asm = self.out.asm();
        if self.has_flags {
            // It overflows if al is 1; sahf leaves the overflow as it is.
            asm.add_al_imm(0x7f);
            asm.sahf();
            if let Some(kept) = self.scratch.rax {
                give_back(asm, Reg::Rax, kept);
            }
        }
    }

    /// Gives back what is kept.
    fn give_back(&mut self) {
        self.give_back_flags();
        let asm = self.out.asm();
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
        Test::IsBelow(byte, limit) => {
            out.asm().cmp_gs_imm8(byte.0.cast_signed(), limit);
            Cc(2)
        }
        Test::IsOtherThread => {
            let asm = out.asm();
            asm.mov_r_fs(LINK, 0);
            asm.cmp_r_gs(LINK, 0);
            Cc(5)
        }
    }
}
