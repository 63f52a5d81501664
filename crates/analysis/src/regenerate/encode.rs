//! From blocks to the streams of a recording (`wire::stream`).
//!
//! The branch at the end of a block is told when it is known which block came next: an outcome, the number of a target, or
//! nothing. Escapes are in all lanes, so outcomes that wait for more of them go first.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use isa::insn::Reader;
use isa::{Flow, Insn};
use trace::stream::{
    ADDRESS_STREAM, ESCAPE, LANES, OUTCOMES, PER_BYTE, TARGETS, TargetNumber, escape, lane, mark,
    went, why,
};
use trace::{Fragment, Part, Piece};

use super::CodeOf;
use super::graphs::{At, Graphs};
use super::told::{How, Told};

/// Bytes of a part before compression.
const PART: usize = 1 << 20;

/// The end of a block.
#[derive(Clone, Copy, Debug)]
enum Last {
    /// Control goes on at this address.
    Goes(u64),
    /// A conditional branch at an address, and its target and what is behind it.
    Either { pc: u64, taken: u64, behind: u64 },
    /// A branch that goes back.
    Always { pc: u64, to: u64 },
    /// A branch whose target is not in the code.
    Indirect,
}

/// A block as it is encoded.
#[derive(Clone, Copy, Debug)]
struct Known {
    start: u64,
    insns: u64,
    /// Address of its last instruction.
    last_pc: u64,
    last: Last,
}

/// Code and numbers of targets, which the threads of a process share.
pub struct Shared<'f> {
    graphs: &'f Graphs,
    code: CodeOf<'f>,
    /// By function, and by block.
    known: Vec<Vec<Option<Known>>>,
    fragments: Vec<Arc<Fragment>>,
    targets: Vec<u64>,
    numbers: HashMap<u64, TargetNumber>,
}

impl<'f> Shared<'f> {
    pub fn new(graphs: &'f Graphs, code: CodeOf<'f>) -> Shared<'f> {
        let functions = graphs.functions.iter();
        Shared {
            graphs,
            code,
            known: functions
                .map(|function| vec![None; function.blocks.len()])
                .collect(),
            fragments: Vec::new(),
            targets: vec![mark::SHORT],
            numbers: HashMap::new(),
        }
    }

    pub fn finish(self) -> (Vec<Arc<Fragment>>, Vec<u64>) {
        (self.fragments, self.targets)
    }

    /// A block, whose code is in the recording from then on.
    fn block(&mut self, at: At) -> Known {
        let own = &mut self.known[at.function as usize][at.block as usize];
        if let Some(known) = own {
            return *known;
        }
        let block = self.graphs.block(at);
        let start = block.start;
        let found = (self.code)(block.start);
        let (bytes, module) =
            found.map_or((&[][..], None), |(bytes, module)| (bytes, Some(module)));
        let bytes = &bytes[..bytes.len().min(block.len as usize)];
        let mut known = Known {
            start,
            insns: 0,
            last_pc: start,
            last: Last::Goes(start),
        };
        let mut reader = Reader::new(bytes, start);
        let mut pc = start;
        while let Ok(insn) = reader.decode(pc) {
            known.insns += 1;
            known.last_pc = pc;
            known.last = last(&insn);
            pc = insn.next_pc();
        }
        *own = Some(known);
        if !bytes.is_empty() {
            self.fragments.push(Arc::new(Fragment {
                pieces: vec![Piece {
                    pc: start,
                    len: bytes.len() as u32,
                    module,
                }],
                code: bytes.to_vec(),
                ..Fragment::default()
            }));
        }
        known
    }

    /// The number of a target.
    fn number(&mut self, to: u64) -> TargetNumber {
        const SHORTS: u32 = went::SHORTS;
        const MIDDLES: u32 = SHORTS + went::MIDDLES;
        const LONGS: u32 = MIDDLES + went::LONGS;
        if let Some(known) = self.numbers.get(&to) {
            return *known;
        }
        let next = self.numbers.len() as u32;
        match next {
            SHORTS => self.targets.push(mark::MIDDLE),
            MIDDLES => self.targets.push(mark::LONG),
            _ => {}
        }
        let number = match next {
            0..SHORTS => TargetNumber::Short(next as u8),
            SHORTS..MIDDLES => TargetNumber::Middle((next - SHORTS) as u16),
            MIDDLES..LONGS => TargetNumber::Long(next - MIDDLES),
            _ => return TargetNumber::To(to),
        };
        self.targets.push(to);
        self.numbers.insert(to, number);
        number
    }
}

fn last(insn: &Insn) -> Last {
    let pc = insn.pc();
    match insn.flow() {
        Flow::Cond(_, taken) | Flow::CountJump(taken) => Last::Either {
            pc,
            taken,
            behind: insn.next_pc(),
        },
        Flow::TransactionBegin(to) => Last::Always { pc, to },
        Flow::Jump(to) | Flow::Call(to) if to <= pc => Last::Always { pc, to },
        Flow::Jump(to) | Flow::Call(to) => Last::Goes(to),
        Flow::IndirectJump | Flow::IndirectCall | Flow::Return(_) => Last::Indirect,
        _ => Last::Goes(insn.next_pc()),
    }
}

/// The streams of a thread.
pub struct Streams<'s, 'f> {
    shared: &'s mut Shared<'f>,
    lanes: [Vec<u8>; LANES],
    /// Words of accesses.
    pub words: Vec<u8>,
    parts: Vec<Part>,
    /// Outcomes that are not in a lane yet, behind a 1, and their lane.
    outcomes: u32,
    lane: usize,
    /// The block that was executed last, if it is not told what came of it.
    before: Option<Known>,
    insns: u64,
}

impl<'s, 'f> Streams<'s, 'f> {
    pub fn new(shared: &'s mut Shared<'f>) -> Streams<'s, 'f> {
        Streams {
            shared,
            lanes: Default::default(),
            words: Vec::new(),
            parts: Vec::new(),
            outcomes: 1,
            lane: 0,
            before: None,
            insns: 0,
        }
    }

    /// Encodes the next thing that is told.
    pub fn add(&mut self, told: Told) -> io::Result<()> {
        match told {
            Told::Executed(at) => {
                let known = self.shared.block(at);
                self.go_to(known.start);
                self.insns += known.insns;
                self.before = Some(known);
            }
            Told::Values { .. } => {}
            Told::Came { to, how, .. } => {
                let to = self.shared.block(to).start;
                let why = match how {
                    How::Enters | How::FromElsewhere | How::Pad | How::Point(_) => why::UNSELECTED,
                    How::Interrupts(at) => {
                        let at = self.shared.block(at).start;
                        self.go_to(at);
                        self.escape(&at_address(at));
                        why::UNSELECTED
                    }
                    How::Back => why::SIGRETURN,
                };
                self.go_to(to);
                let mut bytes = vec![ESCAPE, escape::TO, why];
                bytes.extend_from_slice(&to.to_le_bytes());
                self.escape(&bytes);
            }
            Told::Left(None) => self.leave(),
            Told::Left(Some(at)) => {
                let at = self.shared.block(at).start;
                self.go_to(at);
                self.escape(&at_address(at));
            }
            Told::Forked(_) => {}
        }
        if self.lanes.iter().any(|lane| lane.len() >= PART) {
            self.pack()?;
        }
        if self.words.len() >= PART {
            self.pack_words()?;
        }
        Ok(())
    }

    fn pack_words(&mut self) -> io::Result<()> {
        if !self.words.is_empty() {
            self.parts
                .push(Part::of_stream(ADDRESS_STREAM, &self.words)?);
            self.words.clear();
        }
        Ok(())
    }

    /// All parts, and the number of instructions.
    pub fn finish(mut self) -> io::Result<(Vec<Part>, u64)> {
        match self.before {
            // It is not known where the branch went.
            Some(Known {
                last: Last::Either { pc, .. },
                ..
            }) => {
                self.insns -= 1;
                self.before = None;
                self.escape(&at_address(pc));
            }
            Some(_) => self.leave(),
            None => {}
        }
        self.flush();
        self.pack()?;
        self.pack_words()?;
        Ok((self.parts, self.insns))
    }

    /// Control went from the block before to an address.
    fn go_to(&mut self, to: u64) {
        match self.before.take().map(|before| before.last) {
            None | Some(Last::Goes(_)) => {}
            Some(Last::Either { pc, taken, behind }) => {
                self.outcome(pc, to == taken && to != behind)
            }
            Some(Last::Always { pc, .. }) => self.outcome(pc, true),
            Some(Last::Indirect) => self.target(to),
        }
    }

    /// Control went to code that is not in the recording.
    fn leave(&mut self) {
        let Some(before) = self.before else {
            return;
        };
        let to = match before.last {
            Last::Goes(to) | Last::Always { to, .. } => to,
            Last::Either { taken, .. } => taken,
            Last::Indirect => 0,
        };
        self.go_to(to);
        self.escape(&at_address(to));
    }

    fn outcome(&mut self, pc: u64, outcome: bool) {
        if self.outcomes == 1 {
            self.lane = lane(pc);
        }
        self.outcomes = self.outcomes << 1 | u32::from(outcome);
        if self.outcomes >> PER_BYTE != 0 {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if self.outcomes > 1 {
            debug_assert!(self.lane < OUTCOMES);
            self.lanes[self.lane].push(self.outcomes as u8);
            self.outcomes = 1;
        }
    }

    fn target(&mut self, to: u64) {
        self.flush();
        let (bytes, len) = self.shared.number(to).bytes();
        self.lanes[TARGETS].extend_from_slice(&bytes[..len]);
    }

    fn escape(&mut self, bytes: &[u8]) {
        self.flush();
        for lane in &mut self.lanes {
            lane.extend_from_slice(bytes);
        }
    }

    fn pack(&mut self) -> io::Result<()> {
        for (stream, lane) in (0..).zip(&mut self.lanes) {
            if !lane.is_empty() {
                let mut part = Part::pack(lane)?;
                part.stream = stream;
                self.parts.push(part);
                lane.clear();
            }
        }
        Ok(())
    }
}

/// The escape for control that came to an address.
fn at_address(addr: u64) -> Vec<u8> {
    let mut bytes = vec![ESCAPE, escape::AT];
    bytes.extend_from_slice(&addr.to_le_bytes());
    bytes
}
