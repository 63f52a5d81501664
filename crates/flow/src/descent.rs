//! Instructions of a function, by following control from its entries.
//!
//! Invariants: instructions do not overlap, but where [`Gate::Undecodable`] says so, and pairs of which one is the other with
//! the prefix `lock`; all are in the function's ranges.

use std::ops::Range;

use isa::{Flow, Insn};

use crate::code::Code;
use crate::{Failed, Gate};
use image::LinkAddr;

/// An instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub addr: u64,
    pub len: u8,
    pub flow: Flow,
    /// The word by which an indirect branch goes, if its address is constant.
    pub slot: Option<u64>,
    /// A call that does not come back.
    pub is_last: bool,
    /// All its bytes, or all but the first one, are those of another one (see [`Descent::locked`]).
    is_shared: bool,
}

impl Step {
    pub fn end(&self) -> u64 {
        self.addr + u64::from(self.len)
    }
}

/// Answers about calls.
pub(crate) trait Calls {
    /// Whether the function at an address returns.
    fn returns(&self, target: u64) -> bool;
    /// Whether the function that a word has the address of returns.
    fn slot_returns(&self, slot: u64) -> bool;
    /// Whether a function begins at an address.
    fn is_entry(&self, addr: u64) -> bool;
}

/// Bits of a byte: the first one of an instruction, another one, the first one of a block.
const FIRST: u8 = 1;
const OTHER: u8 = 2;
const LEADER: u8 = 4;

/// State of the search in a function.
pub(crate) struct Descent {
    ranges: Vec<Range<u64>>,
    /// For each byte of the ranges: 0 not reached, [`FIRST`] or [`OTHER`] of an instruction; and
    /// [`LEADER`].
    bytes: Vec<Vec<u8>>,
    pub steps: Vec<Step>,
    /// Addresses where blocks begin, in the order in which they were found.
    led: Vec<u64>,
    pub failed: Vec<Failed>,
    waiting: Vec<u64>,
    /// Addresses that instructions have, relative to themselves.
    pub references: Vec<u64>,
    /// Addresses of code that instructions take.
    pub taken: Vec<u64>,
    /// Ends of ranges, and the functions that control runs into from there.
    runs_into: Vec<(u64, u64)>,
}

impl Descent {
    pub fn new(ranges: &[Range<u64>]) -> Descent {
        let bytes = ranges.iter();
        Descent {
            bytes: bytes
                .map(|range| vec![0; (range.end - range.start) as usize])
                .collect(),
            ranges: ranges.to_vec(),
            steps: Vec::new(),
            led: Vec::new(),
            failed: Vec::new(),
            waiting: Vec::new(),
            references: Vec::new(),
            taken: Vec::new(),
            runs_into: Vec::new(),
        }
    }

    /// Whether an address is in the function's ranges.
    pub fn is_inside(&self, addr: u64) -> bool {
        self.ranges.iter().any(|range| range.contains(&addr))
    }

    /// Whether an address is the end of one of the function's ranges.
    pub fn is_end(&self, addr: u64) -> bool {
        self.ranges.iter().any(|range| range.end == addr) && !self.is_inside(addr)
    }

    pub fn ranges(&self) -> &[Range<u64>] {
        &self.ranges
    }

    /// Whether an address is inside an instruction that was found.
    pub fn is_middle(&self, addr: u64) -> bool {
        self.state(addr).is_some_and(|state| state & OTHER != 0)
    }

    /// Whether no instruction that was found has the byte at an address of the function.
    pub fn is_unexplained(&self, addr: u64) -> bool {
        let state = self.state(addr);
        state.is_some_and(|state| state & (FIRST | OTHER) == 0)
    }

    /// The end of the last instruction that was reached.
    pub fn reached(&self) -> Option<u64> {
        self.steps.iter().map(Step::end).max()
    }

    /// Whether there is code before an address that was not reached: anything but padding between instructions that were.
    pub fn has_unexplained(&self, code: &Code<'_>, until: u64) -> bool {
        let mut both = self.ranges.iter().zip(&self.bytes);
        both.any(|(range, bytes)| {
            let mut at = 0;
            let len = until.saturating_sub(range.start).min(bytes.len() as u64);
            let bytes = &bytes[..len as usize];
            while let Some(gap) = bytes[at..]
                .iter()
                .position(|state| state & (FIRST | OTHER) == 0)
            {
                at += gap;
                match code.insn(range.start + at as u64) {
                    Some(insn) if insn.is_nop() || insn.flow() == Flow::Trap => at += insn.len(),
                    _ => return true,
                }
                if at >= bytes.len() {
                    break;
                }
            }
            false
        })
    }

    /// Whether an instruction that was found begins there.
    pub fn is_start(&self, addr: u64) -> bool {
        self.state(addr).is_some_and(|state| state & FIRST != 0)
    }

    fn state(&self, addr: u64) -> Option<u8> {
        let mut both = self.ranges.iter().zip(&self.bytes);
        let (range, bytes) = both.find(|(range, _)| range.contains(&addr))?;
        bytes.get((addr - range.start) as usize).copied()
    }

    fn byte(&mut self, addr: u64) -> Option<&mut u8> {
        let mut both = self.ranges.iter().zip(&mut self.bytes);
        let (range, bytes) = both.find(|(range, _)| range.contains(&addr))?;
        bytes.get_mut((addr - range.start) as usize)
    }

    /// Whether a block begins there.
    pub fn is_leader(&self, addr: u64) -> bool {
        self.state(addr).is_some_and(|state| state & LEADER != 0)
    }

    /// Notes an instruction; `false`: it overlaps another one, or leaves the range.
    fn mark(&mut self, addr: u64, len: usize) -> bool {
        let mut both = self.ranges.iter().zip(&mut self.bytes);
        let Some((range, bytes)) = both.find(|(range, _)| range.contains(&addr)) else {
            return false;
        };
        let from = (addr - range.start) as usize;
        let Some(own) = bytes.get_mut(from..from + len) else {
            return false;
        };
        if own.iter().any(|&state| state & (FIRST | OTHER) != 0) {
            return false;
        }
        own.iter_mut().for_each(|byte| *byte |= OTHER);
        own[0] ^= FIRST | OTHER;
        true
    }

    /// Notes an instruction of which another one has all bytes, but perhaps the first: one of them has the prefix `lock`, and glibc
    /// jumps over that while there is one thread. Whether it is such a one.
    fn locked(&mut self, code: &Code<'_>, insn: &Insn) -> bool {
        const LOCK: u8 = 0xf0;
        let addr = insn.pc();
        let (with, without) = match insn.bytes().first() {
            Some(&LOCK) => (addr, addr + 1),
            _ => (addr.wrapping_sub(1), addr),
        };
        let other = if with == addr { without } else { with };
        if code.at(with).first() != Some(&LOCK) || !self.is_start(other) {
            return false;
        }
        let end = code.insn(other).map(|other| other.next_pc());
        let is_free = match self.state(addr) {
            Some(state) => (state & OTHER == 0) == (with == addr),
            None => false,
        };
        if !is_free || end != Some(insn.next_pc()) {
            return false;
        }
        if let Some(byte) = self.byte(addr) {
            *byte = *byte & LEADER | FIRST;
        }
        self.lead(other);
        true
    }

    fn fail(&mut self, gate: Gate, at: u64) {
        self.failed.push(Failed {
            gate,
            at: LinkAddr(at),
        });
    }

    /// Follows control from an address, which begins a block.
    pub fn follow(&mut self, code: &Code<'_>, calls: &dyn Calls, from: u64) {
        self.goto(from);
        while let Some(addr) = self.waiting.pop() {
            self.straight(code, calls, addr);
        }
    }

    /// As [`Descent::follow`], but takes everything back if it fails somewhere, or comes to an instruction that programs
    /// do not execute. Whether it did not.
    pub fn try_follow(&mut self, code: &Code<'_>, calls: &dyn Calls, from: u64) -> bool {
        let before = (self.steps.len(), self.led.len(), self.failed.len());
        self.follow(code, calls, from);
        let is_odd = |step: &Step| matches!(step.flow, Flow::Odd | Flow::Far(_));
        if self.failed.len() == before.2 && !self.steps[before.0..].iter().any(is_odd) {
            return true;
        }
        for step in self.steps.split_off(before.0).into_iter().rev() {
            if step.is_shared {
                let is_inner = step
                    .addr
                    .checked_sub(1)
                    .is_some_and(|lock| self.is_start(lock));
                if let Some(byte) = self.byte(step.addr) {
                    *byte = *byte & LEADER | if is_inner { OTHER } else { 0 };
                }
                continue;
            }
            let mut both = self.ranges.iter().zip(&mut self.bytes);
            if let Some((range, bytes)) = both.find(|(range, _)| range.contains(&step.addr)) {
                let from = (step.addr - range.start) as usize;
                let own = &mut bytes[from..from + usize::from(step.len)];
                own.iter_mut().for_each(|byte| *byte &= LEADER);
            }
        }
        for leader in self.led.split_off(before.1) {
            if let Some(byte) = self.byte(leader) {
                *byte &= !LEADER;
            }
        }
        self.failed.truncate(before.2);
        false
    }

    fn lead(&mut self, addr: u64) -> bool {
        let byte = self.byte(addr);
        let is_new = byte.is_some_and(|byte| {
            let before = *byte;
            *byte |= LEADER;
            before & LEADER == 0
        });
        if is_new {
            self.led.push(addr);
        }
        is_new
    }

    fn goto(&mut self, addr: u64) {
        if self.lead(addr) {
            self.waiting.push(addr);
        }
    }

    /// Instructions that are executed one after the other.
    fn straight(&mut self, code: &Code<'_>, calls: &dyn Calls, from: u64) {
        let mut addr = from;
        let mut reader = code.reader(from);
        loop {
            match self.state(addr) {
                None => return self.run_over(code, calls, addr),
                Some(state) if state & FIRST != 0 => return,
                Some(_) => {}
            }
            let Ok(insn) = reader.decode(addr) else {
                return self.fail(Gate::Undecodable, addr);
            };
            let is_shared = self.locked(code, &insn);
            if is_shared {
                // Each of the two is a block of its own.
                self.lead(addr);
                self.lead(insn.next_pc());
            } else if !self.mark(addr, insn.len()) {
                return self.fail(Gate::Undecodable, addr);
            }
            let address = insn.rip_relative().map(|(addr, _)| addr);
            self.references.extend(address);
            let constant = insn.constant().filter(|_| code.is_fixed());
            let taken = address.filter(|_| insn.is_lea()).or(constant);
            self.taken.extend(taken.filter(|&addr| code.contains(addr)));
            let step = Step {
                is_shared,
                ..self.step(&insn, calls)
            };
            self.steps.push(step);
            if !self.go_on(step) {
                return;
            }
            addr = step.end();
        }
    }

    /// Control runs over the end of the function: into another one, perhaps over padding, or the gate is failed.
    fn run_over(&mut self, code: &Code<'_>, calls: &dyn Calls, end: u64) {
        let mut addr = end;
        while !calls.is_entry(addr) {
            match code.insn(addr).filter(Insn::is_nop) {
                Some(nop) => addr = nop.next_pc(),
                None => return self.fail(Gate::RunsOver, end),
            }
        }
        self.runs_into.push((end, addr));
    }

    /// The function that code before an address runs into.
    pub fn runs_into(&self, end: u64) -> Option<u64> {
        let mut all = self.runs_into.iter();
        all.find(|(own, _)| *own == end).map(|(_, entry)| *entry)
    }

    fn step(&self, insn: &Insn, calls: &dyn Calls) -> Step {
        let flow = match insn.is_halt() {
            true => Flow::Trap,
            false => insn.flow(),
        };
        let is_indirect = matches!(flow, Flow::IndirectCall | Flow::IndirectJump);
        let address = insn.operand_address().filter(|_| is_indirect);
        let slot = address.filter(|address| address.base.is_none() && address.index.is_none());
        let slot = slot.map(|address| address.displacement);
        let end = insn.next_pc();
        let returns = match flow {
            Flow::Call(target) => calls.returns(target),
            Flow::IndirectCall => slot.is_none_or(|slot| calls.slot_returns(slot)),
            _ => true,
        };
        let is_call = matches!(flow, Flow::Call(_) | Flow::IndirectCall);
        Step {
            addr: insn.pc(),
            len: insn.len() as u8,
            flow,
            slot,
            // Code that a call at the end would come back to is another function's.
            is_last: is_call && (!returns || !self.is_inside(end)),
            is_shared: false,
        }
    }

    /// Whether the next instruction is executed behind this one, in the same block or one that is followed
    /// here.
    fn go_on(&mut self, step: Step) -> bool {
        let end = step.end();
        match step.flow {
            Flow::Next | Flow::Syscall | Flow::Int80 => true,
            Flow::Cond(_, target) | Flow::CountJump(target) => {
                if self.is_inside(target) {
                    self.goto(target);
                }
                self.lead(end);
                true
            }
            Flow::Jump(target) => {
                if self.is_inside(target) {
                    self.goto(target);
                }
                false
            }
            // Outside, it is the next function.
            Flow::Call(target) if target == end && self.is_inside(end) => {
                self.fail(Gate::OddInstruction, step.addr);
                self.lead(end);
                true
            }
            Flow::Call(_) | Flow::IndirectCall if step.is_last => false,
            Flow::Call(_) | Flow::IndirectCall => {
                self.lead(end);
                true
            }
            Flow::IndirectJump | Flow::Return(_) | Flow::Trap => false,
            Flow::TransactionBegin(target) => {
                self.fail(Gate::OddInstruction, step.addr);
                if self.is_inside(target) {
                    self.goto(target);
                }
                self.lead(end);
                true
            }
            Flow::Far(_) => {
                self.fail(Gate::OddInstruction, step.addr);
                false
            }
            // `hlt` and its like do not go on in a program.
            Flow::Odd => false,
        }
    }
}
