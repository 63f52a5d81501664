//! The code of a process as its streams are read with: straight pieces up to the next
//! outcome.
//!
//! A byte of code is what was known first of its address; a fragment with an id has code of
//! its own, and is followed until it is left.

use hashbrown::HashMap;
use isa::insn::{MAX_LEN, Reader};
use isa::{Flow, Insn};
use trace::{Fragment, Process};

use super::targets::Targets;

/// Most instructions of a piece. Pieces overlap, and whoever made the recording could have
/// them begin everywhere.
const LONGEST: usize = 256;

/// Place of control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Place {
    At(u64),
    /// Before the instruction with that index of one of the fragments that have an id.
    In(u32, u32),
}

/// Continuation of a straight piece.
#[derive(Clone, Copy, Debug)]
pub(super) enum Turn {
    /// Taken, or not.
    Either([Place; 2]),
    /// Has an outcome, and goes nowhere else.
    Always(Place),
    Indirect,
    /// Has no outcome: the piece is only long enough.
    Goes(Place),
    /// Nothing is known of what is there.
    Unknown,
}

/// One instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    pub pc: u64,
    /// Bytes.
    pub len: u8,
    /// Fragment whose code it is; 0: the code that its address had first.
    pub fragment: u32,
    pub flow: Flow,
}

/// Reason for which an instruction has a stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// It is atomic or a fence: the time behind it.
    Sync,
    /// It is a system call: the times before and behind it.
    Call,
    /// The stack pointer behind it.
    Stack,
    /// It loads the stack pointer from the frame pointer.
    Frame,
}

/// Instructions that are executed one after the other, without an outcome before the last.
#[derive(Clone, Debug)]
pub(super) struct Straight {
    pub steps: Vec<Step>,
    pub turn: Turn,
    /// Instructions among them that have stamps.
    pub stamped: Vec<(u32, Mark)>,
}

impl Straight {
    fn new(steps: Vec<Step>, turn: Turn, stamped: Vec<(u32, Mark)>) -> Straight {
        Straight {
            steps,
            turn,
            stamped,
        }
    }
}

/// Bytes of one page, and which of them are known.
#[derive(Debug)]
struct Page {
    bytes: [u8; 4096],
    known: [u64; 64],
}

/// All code of a process.
#[derive(Debug, Default)]
pub struct Code {
    pages: HashMap<u64, Box<Page>>,
    others: HashMap<u32, Vec<Insn>>,
    targets: Targets,
}

impl Code {
    pub fn of(process: &Process) -> Code {
        let mut code = Code::default();
        process.fragments.iter().for_each(|own| code.add(own));
        process.targets.iter().for_each(|&to| code.add_target(to));
        code
    }

    /// The next fragment of the process.
    pub(super) fn add(&mut self, fragment: &Fragment) {
        match fragment.id {
            0 => self.learn(fragment),
            id => {
                self.others.insert(id, insns(fragment));
            }
        }
    }

    /// Its next target.
    pub(super) fn add_target(&mut self, target: u64) {
        self.targets.add(target);
    }

    pub(super) fn targets(&self) -> &Targets {
        &self.targets
    }

    fn learn(&mut self, fragment: &Fragment) {
        let mut bytes = fragment.code.iter();
        for piece in &fragment.pieces {
            for offset in 0..u64::from(piece.len) {
                let Some(&byte) = bytes.next() else { return };
                let address = piece.pc.wrapping_add(offset);
                let page = self.pages.entry(address >> 12).or_insert_with(|| {
                    Box::new(Page {
                        bytes: [0; 4096],
                        known: [0; 64],
                    })
                });
                let at = (address & 4095) as usize;
                let bit = 1 << (at % 64);
                if page.known[at / 64] & bit == 0 {
                    page.known[at / 64] |= bit;
                    page.bytes[at] = byte;
                }
            }
        }
    }

    /// First address of the fragment.
    pub(super) fn start_of(&self, fragment: u32) -> Option<u64> {
        Some(self.others.get(&fragment)?.first()?.pc())
    }

    fn insn(&self, pc: u64) -> Option<Insn> {
        let mut bytes = [0; MAX_LEN];
        let mut len = 0;
        for (offset, byte) in (0..).zip(&mut bytes) {
            let address = pc.wrapping_add(offset);
            let at = (address & 4095) as usize;
            match self.pages.get(&(address >> 12)) {
                Some(page) if page.known[at / 64] & 1 << (at % 64) != 0 => *byte = page.bytes[at],
                _ => break,
            }
            len += 1;
        }
        Reader::new(&bytes[..len], pc).decode(pc).ok()
    }

    /// The instruction of a step.
    pub fn find(&self, step: &Step) -> Option<Insn> {
        match step.fragment {
            0 => self.insn(step.pc),
            id => {
                let insns = self.others.get(&id).into_iter().flatten();
                insns.copied().find(|insn| insn.pc() == step.pc)
            }
        }
    }

    /// The bytes of an instruction.
    pub fn bytes(&self, step: &Step) -> Vec<u8> {
        self.find(step)
            .map_or_else(Vec::new, |insn| insn.bytes().to_vec())
    }

    fn at(&self, place: Place) -> Option<Insn> {
        match place {
            Place::At(pc) => self.insn(pc),
            Place::In(id, index) => self.others.get(&id)?.get(index as usize).copied(),
        }
    }

    /// Instructions executed from `place` on up to the next outcome. Ends, because without an
    /// outcome control only goes forward.
    pub(super) fn straight(&self, mut place: Place) -> Straight {
        let mut steps = Vec::new();
        let mut stamped = Vec::new();
        loop {
            if steps.len() == LONGEST {
                let turn = Turn::Goes(place);
                return Straight::new(steps, turn, stamped);
            }
            let Some(insn) = self.at(place) else {
                let turn = Turn::Unknown;
                return Straight::new(steps, turn, stamped);
            };
            steps.push(Step {
                pc: insn.pc(),
                len: insn.len() as u8,
                fragment: match place {
                    Place::At(_) => 0,
                    Place::In(id, _) => id,
                },
                flow: insn.flow(),
            });
            let at = steps.len() as u32 - 1;
            let marks = [
                (insn.is_sync(), Mark::Sync),
                (insn.flow() == Flow::Syscall, Mark::Call),
                (insn.flow() == Flow::Next && insn.tells_stack(), Mark::Stack),
                (insn.flow() == Flow::Next && insn.tells_frame(), Mark::Frame),
            ];
            let has = marks.into_iter().filter(|(has, _)| *has);
            stamped.extend(has.map(|(_, mark)| (at, mark)));
            let then = |pc| self.then(place, pc);
            let turn = match insn.flow() {
                Flow::Cond(_, target) | Flow::CountJump(target) => {
                    Turn::Either([then(insn.next_pc()), then(target)])
                }
                Flow::TransactionBegin(target) => Turn::Always(then(target)),
                Flow::Jump(target) | Flow::Call(target) if target <= insn.pc() => {
                    Turn::Always(then(target))
                }
                Flow::IndirectJump | Flow::IndirectCall | Flow::Return(_) => Turn::Indirect,
                Flow::Jump(target) | Flow::Call(target) => {
                    place = then(target);
                    continue;
                }
                // Without a branch, or an escape says where it went.
                _ => {
                    // The last address has none behind it.
                    if insn.next_pc() < insn.pc() {
                        Turn::Unknown
                    } else {
                        place = then(insn.next_pc());
                        continue;
                    }
                }
            };
            return Straight::new(steps, turn, stamped);
        }
    }

    /// Control goes from `place` to `pc`: within the fragment, if it goes on there.
    fn then(&self, place: Place, pc: u64) -> Place {
        if let Place::In(id, index) = place {
            let next = Place::In(id, index + 1);
            if self.at(next).is_some_and(|insn| insn.pc() == pc) {
                return next;
            }
        }
        Place::At(pc)
    }
}

/// The instructions of a fragment, as far as they are some.
fn insns(fragment: &Fragment) -> Vec<Insn> {
    let mut all = Vec::new();
    for (piece, bytes) in fragment.code_of_pieces() {
        let mut reader = Reader::new(bytes, piece.pc);
        let mut pc = piece.pc;
        let end = piece.pc.wrapping_add(piece.len.into());
        while pc != end {
            let Ok(insn) = reader.decode(pc) else {
                return all;
            };
            pc = insn.next_pc();
            all.push(insn);
        }
    }
    all
}
