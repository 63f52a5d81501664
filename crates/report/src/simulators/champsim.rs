//! Traces for ChampSim: a file of records for each thread, and their values beside.
//!
//! ```text
//! ip u64 | is_branch u8 | branch_taken u8 | destinations 2 u8 | sources 4 u8
//!        | stores 2 u64 | loads 4 u64                                        64 bytes
//! ```
//!
//! Empty slots are 0 and come last. ChampSim finds the kind of a branch by the registers that it reads and
//! writes (`inc/instruction.h`), so branches have just these. Registers are whole ones, numbered as Pin
//! does it for its tracer: the stack pointer is 6, the flags 25, the instruction pointer 26.
//!
//! An instruction with more accesses than slots has several records with the same address and registers, as
//! does each step of a repeated one.
//!
//! Values, of a trace that has them, stand in the order of the records, of each the loads, then the stores:
//! `size u8 | 1 if it is known, else 0, u8 | value`.
//!
//! Limits: whether a branch was taken is told from where the thread went on, so a branch before a signal
//! handler counts as taken. An access to address 0, or to an area without a size, has no slot. Further
//! registers than there are slots are left out.

use std::collections::HashMap;
use std::io::{self, Read as Reader, Write};
use std::ops::Range;

use analysis::turns::{self, Turn};
use analysis::walk::{Accessed, Bytes, Code, Step, operations};
use isa::memory::Selection;
use isa::used::Whole;
use isa::{Flow, Insn};
use trace::{Process, Thread};

const STACK_POINTER: u8 = 6;
const FLAGS: u8 = 25;
const INSTRUCTION_POINTER: u8 = 26;
/// A register that stands for a target in memory, which no other register is part of.
const TARGET: u8 = 27;

/// Bytes of a record.
pub const LEN: usize = 64;

/// A record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    pub ip: u64,
    pub is_branch: bool,
    pub is_taken: bool,
    pub destinations: [u8; 2],
    pub sources: [u8; 4],
    pub stores: [u64; 2],
    pub loads: [u64; 4],
}

impl Record {
    fn bytes(&self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        bytes[..8].copy_from_slice(&self.ip.to_le_bytes());
        bytes[8] = u8::from(self.is_branch);
        bytes[9] = u8::from(self.is_taken);
        bytes[10..12].copy_from_slice(&self.destinations);
        bytes[12..16].copy_from_slice(&self.sources);
        let addresses = self.stores.iter().chain(&self.loads);
        for (place, address) in bytes[16..].chunks_exact_mut(8).zip(addresses) {
            place.copy_from_slice(&address.to_le_bytes());
        }
        bytes
    }

    /// The next record; `None`: there is no more.
    pub fn read(from: &mut dyn Reader) -> io::Result<Option<Record>> {
        let mut bytes = [0; LEN];
        if from.read(&mut bytes[..1])? == 0 {
            return Ok(None);
        }
        from.read_exact(&mut bytes[1..])?;
        let number = |at: usize| {
            let mut number = [0; 8];
            number.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(number)
        };
        Ok(Some(Record {
            ip: number(0),
            is_branch: bytes[8] != 0,
            is_taken: bytes[9] != 0,
            destinations: [bytes[10], bytes[11]],
            sources: [bytes[12], bytes[13], bytes[14], bytes[15]],
            stores: [16, 24].map(number),
            loads: [32, 40, 48, 56].map(number),
        }))
    }
}

/// Writes the records of a thread's instructions in `range`, and their values if there is a place for them.
/// Gives the reason if the thread could not be read to its end.
pub fn write<'o>(
    (process, thread): (&Process, &Thread),
    selection: Selection,
    range: Range<u64>,
    out: &'o mut dyn Write,
    values: Option<&'o mut dyn Write>,
) -> io::Result<Option<String>> {
    let mut records = Records {
        range,
        insns: 0,
        given: Vec::new(),
        slots: Vec::new(),
        bytes: Vec::new(),
        shapes: HashMap::new(),
        last: None,
        out,
        values,
    };
    let read = turns::apart(&[(process, thread)], selection, &mut records)?;
    records.finish()?;
    Ok(read.into_iter().find_map(|read| read.error))
}

/// The parts of a record that an instruction has each time.
#[derive(Clone, Copy)]
struct Shape {
    record: Record,
    is_conditional: bool,
}

/// An access that goes into a slot.
#[derive(Clone, Copy)]
struct Slot {
    repetition: u64,
    is_store: bool,
    address: u64,
    size: u32,
    /// Place of its value among the bytes, if it is known.
    value: Option<(usize, usize)>,
}

struct Records<'o> {
    range: Range<u64>,
    insns: u64,
    /// Instructions that have no records yet, and the end of the slots of each.
    given: Vec<(Step, usize)>,
    slots: Vec<Slot>,
    bytes: Vec<u8>,
    shapes: HashMap<(u32, u64), Shape>,
    /// A conditional branch, of which it is not known where it went; and the address behind it.
    last: Option<(Record, u64)>,
    out: &'o mut dyn Write,
    values: Option<&'o mut dyn Write>,
}

impl Turn for Records<'_> {
    fn executed(&mut self, _: usize, steps: &[Step], all: &[Accessed], bytes: Bytes<'_>) {
        let mut rest = all.chunk_by(|one, other| one.step == other.step).peekable();
        for (at, step) in (0..).zip(steps) {
            self.insns += 1;
            let own = rest.next_if(|own| own[0].step == at).unwrap_or_default();
            if !self.range.contains(&self.insns) {
                continue;
            }
            operations(own, |one| {
                let value = one.value.map(|value| {
                    let first = self.bytes.len();
                    self.bytes.extend_from_slice(bytes.of(value));
                    (first, self.bytes.len())
                });
                if one.address != 0 && one.size != 0 {
                    self.slots.push(Slot {
                        repetition: one.repetition,
                        is_store: one.is_store,
                        address: one.address,
                        size: one.size,
                        value,
                    });
                }
            });
            self.given.push((*step, self.slots.len()));
        }
    }

    fn written(&mut self, _: usize, code: &Code) -> io::Result<()> {
        let slots = std::mem::take(&mut self.slots);
        let mut first = 0;
        for (step, end) in std::mem::take(&mut self.given) {
            self.insn(code, &step, &slots[first..end])?;
            first = end;
        }
        self.bytes.clear();
        Ok(())
    }
}

impl Records<'_> {
    fn insn(&mut self, code: &Code, step: &Step, own: &[Slot]) -> io::Result<()> {
        if let Some((record, behind)) = self.last.take() {
            self.put(Record {
                is_taken: step.pc != behind,
                ..record
            })?;
        }
        let key = (step.fragment, step.pc);
        let shape = *self
            .shapes
            .entry(key)
            .or_insert_with(|| shape(code.find(step).as_ref(), step.pc));
        let mut rest = own;
        loop {
            let (record, taken) = filled(shape.record, rest);
            self.put_values(&rest[..taken])?;
            rest = &rest[taken..];
            if shape.is_conditional {
                self.last = Some((record, step.pc.wrapping_add(step.len.into())));
            } else {
                self.put(record)?;
            }
            if rest.is_empty() {
                return Ok(());
            }
        }
    }

    fn put(&mut self, record: Record) -> io::Result<()> {
        self.out.write_all(&record.bytes())
    }

    /// Writes values: of the loads of a record, then of its stores.
    fn put_values(&mut self, slots: &[Slot]) -> io::Result<()> {
        let Some(out) = &mut self.values else {
            return Ok(());
        };
        let ordered = [false, true].into_iter();
        let ordered =
            ordered.flat_map(|kind| slots.iter().filter(move |slot| slot.is_store == kind));
        for slot in ordered {
            let known = slot
                .value
                .map_or(&[][..], |(from, to)| &self.bytes[from..to]);
            let size = u8::try_from(slot.size).unwrap_or(0);
            out.write_all(&[size, u8::from(slot.value.is_some())])?;
            out.write_all(known)?;
            let missing = usize::from(size).saturating_sub(known.len());
            out.write_all(&vec![0; missing])?;
        }
        Ok(())
    }

    /// Writes the last branch, which went nowhere.
    fn finish(&mut self) -> io::Result<()> {
        match self.last.take() {
            Some((record, _)) => self.put(record),
            None => Ok(()),
        }
    }
}

/// A record with as many of the accesses, from the first on, as it has slots for, and how many. Of a
/// repeated instruction each record has one repetition.
fn filled(mut record: Record, slots: &[Slot]) -> (Record, usize) {
    let (mut loads, mut stores) = (record.loads.iter_mut(), record.stores.iter_mut());
    for (at, slot) in slots.iter().enumerate() {
        let place = match slot.is_store {
            true => stores.next(),
            false => loads.next(),
        };
        match place.filter(|_| slot.repetition == slots[0].repetition) {
            Some(place) => *place = slot.address,
            None => return (record, at),
        }
    }
    (record, slots.len())
}

/// Registers of an instruction, and what it is for ChampSim.
fn shape(insn: Option<&Insn>, ip: u64) -> Shape {
    let mut record = Record {
        ip,
        ..Record::default()
    };
    let Some(insn) = insn else {
        return Shape {
            record,
            is_conditional: false,
        };
    };
    let used = insn.registers();
    let read: Vec<u8> = used.read.iter().map(|&one| number(one)).collect();
    let written: Vec<u8> = used.written.iter().map(|&one| number(one)).collect();
    let others = || {
        let special = [STACK_POINTER, FLAGS, INSTRUCTION_POINTER];
        let others = read.iter().copied();
        let mut others: Vec<u8> = others.filter(|one| !special.contains(one)).collect();
        if others.is_empty() {
            others.push(TARGET);
        }
        others
    };
    let (ip, sp) = (INSTRUCTION_POINTER, STACK_POINTER);
    let (sources, destinations) = match insn.flow() {
        Flow::Jump(_) => (Vec::new(), vec![ip]),
        Flow::IndirectJump => (others(), vec![ip]),
        Flow::Cond(..) => (vec![ip, FLAGS], vec![ip]),
        Flow::CountJump(_) => ([vec![ip], others()].concat(), vec![ip]),
        Flow::Call(_) => (vec![sp, ip], vec![sp, ip]),
        Flow::IndirectCall => ([vec![sp, ip], others()].concat(), vec![sp, ip]),
        Flow::Return(_) => (vec![sp], vec![sp, ip]),
        _ => (read, written),
    };
    record.is_branch = destinations.contains(&ip);
    let is_conditional = matches!(insn.flow(), Flow::Cond(..) | Flow::CountJump(_));
    record.is_taken = record.is_branch && !is_conditional;
    fill(&mut record.sources, &sources);
    fill(&mut record.destinations, &destinations);
    Shape {
        record,
        is_conditional,
    }
}

fn fill(slots: &mut [u8], all: &[u8]) {
    slots
        .iter_mut()
        .zip(all)
        .for_each(|(slot, &one)| *slot = one);
}

/// The number that a register has in a trace, never 0.
fn number(register: Whole) -> u8 {
    match register {
        // rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 to r15.
        Whole::General(number) => {
            [10, 9, 8, 7, 6, 5, 4, 3, 11, 12, 13, 14, 15, 16, 17, 18][usize::from(number & 15)]
        }
        Whole::Flags => FLAGS,
        Whole::Vector(number) => 32 + (number & 31),
        Whole::Mask(number) => 64 + (number & 7),
        Whole::X87(number) => 72 + (number & 7),
        Whole::Segment(number) => 19 + (number & 3),
    }
}
