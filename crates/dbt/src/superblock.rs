//! Superblocks: code with one entry and many exits, the unit of translation.
//!
//! From the entry, follow fall-through and direct jumps; a conditional branch
//! is a side exit. Stop at calls, returns, indirect branches, system calls,
//! where a block already begins, and at the caps. Bytes are read from the
//! program's memory, which must be executable for the program.
//!
//! When something is counted, a superblock that ends with a branch back to its own
//! start goes on there for some more turns: a branch that is followed when it is taken
//! is *turned*, its side exit is where it falls through. One addition, or event, then
//! stands for several turns. For the same reason superblocks are longer than elsewhere
//! where basic blocks are counted (docs/design/0017-turns.md).

use alloc::vec::Vec;

use isa::insn::{DecodeError, MAX_LEN, Reader};
use isa::{Flow, Insn};

use crate::block::{Arrival, Key};
use crate::engine::Engine;

/// Most instructions and side exits of a superblock. Longer ones duplicate
/// more code than they save jumps (docs/design/0009-superblocks.md).
pub const MAX_INSNS: usize = 96;
const MAX_EXITS: usize = 12;
// Each instruction may begin a block.
const _: () = assert!(MAX_INSNS <= wire::log::MAX_PATH);
/// Least number of instructions of a superblock whose side exits are events, before it may end
/// because a block begins there already.
const DUPLICATED: usize = 24;
/// Most instructions and side exits of a superblock with several turns of a loop.
const MAX_TURNED_INSNS: usize = 48;
const MAX_TURNED_EXITS: usize = 8;

/// First and last byte of the vsyscall page (Linux ABI).
pub const VSYSCALL: core::ops::Range<u64> = 0xffff_ffff_ff60_0000..0xffff_ffff_ff60_1000;

/// How a superblock ends when its last instruction does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum End {
    /// The last instruction ends it (call, return, ...).
    #[default]
    Itself,
    /// Control goes on at a program address.
    Goto(Key),
    /// Control goes on at the key, in the middle of another function.
    Into(Key),
    /// No instruction can be fetched from here.
    Unfetchable(u64),
    /// Bytes that are no instruction we know: let the CPU say.
    Unknown(u64),
    Vsyscall(u64),
}

#[derive(Debug, Default)]
pub struct Superblock {
    pub insns: Vec<Insn>,
    pub end: End,
    /// Pages the bytes came from.
    pub pages: Vec<u64>,
    /// The bytes may change without notice: they are compared whenever the
    /// block is entered. Such a superblock is one straight run that ends with
    /// the first store, which may be to the bytes that follow.
    pub volatile: bool,
    /// How many bytes the instructions have.
    pub bytes: usize,
    /// Their outcomes are appended to streams.
    pub traced: bool,
    /// How many there are is counted before; if it is traced, each way out is at its end.
    pub counted: bool,
}

impl Superblock {
    /// Whether the branch at `i` is followed where it is taken.
    pub fn is_turned(&self, i: usize) -> bool {
        is_turned(&self.insns[i..])
    }
}

/// Returns true if the branch that `insns` begin with was inverted.
pub fn is_turned(insns: &[Insn]) -> bool {
    match insns {
        [branch, next, ..] => {
            matches!(branch.flow(), Flow::Cond(..)) && next.pc() != branch.next_pc()
        }
        _ => false,
    }
}

/// Bytes read ahead: about as many as a superblock's straight run has.
const WINDOW: usize = 192;

/// Program bytes from `start` on that are executable and readable.
struct Window {
    start: u64,
    bytes: [u8; WINDOW],
    valid: usize,
}

impl Window {
    /// No bytes.
    const NONE: Window = Window {
        start: 0,
        bytes: [0; WINDOW],
        valid: 0,
    };

    fn at(pc: u64, engine: &mut Engine) -> Option<Window> {
        let mut end = engine.process.regions.find(pc)?.end;
        // An instruction may go on in a neighbouring executable region.
        if end - pc < MAX_LEN as u64 {
            end = engine
                .process
                .regions
                .find(end)
                .map_or(end, |next| next.end);
        }
        let len = (engine.present_end(pc, end) - pc).min(WINDOW as u64) as usize;
        if !engine.is_volatile(pc) {
            engine.guard(pc, pc + len as u64);
        }
        let mut bytes = [0; WINDOW];
        let valid = agent::memory::read_some(pc, &mut bytes[..len]);
        Some(Window {
            start: pc,
            bytes,
            valid,
        })
    }

    fn reader(&self) -> Reader<'_> {
        Reader::new(&self.bytes[..self.valid], self.start)
    }

    /// Whether the whole of the instruction at `pc` is here, or all there is of it.
    fn holds(&self, pc: u64) -> bool {
        let offset = pc.wrapping_sub(self.start) as usize;
        offset == 0 || offset < WINDOW && offset + MAX_LEN <= self.valid
    }
}

/// A loop that a superblock may be.
struct Loop {
    start: u64,
    /// Branches go back to its start.
    is_head: bool,
    /// A branch was followed back to the start.
    is_turned: bool,
    met: Option<Met>,
}

/// A superblock as it was where it came to what begins a block already.
struct Met {
    insns: usize,
    pages: usize,
    bytes: usize,
    end: End,
}

impl Loop {
    /// A branch is followed back to the start.
    fn turn(&mut self) -> u64 {
        self.is_turned = true;
        self.met = None;
        self.start
    }

    /// `out` came to what begins a block already, where it would be over by `end`: whether
    /// it is, or may come back to its start.
    fn ends(&mut self, out: &Superblock, end: End) -> bool {
        if !self.is_head || self.is_turned || out.insns.len() >= MAX_TURNED_INSNS / 2 {
            return true;
        }
        self.met = Some(Met {
            insns: out.insns.len(),
            pages: out.pages.len(),
            bytes: out.bytes,
            end,
        });
        false
    }

    /// Whether it is none: another turn would be too long.
    fn is_none(&self, out: &Superblock) -> bool {
        self.met.is_some() && out.insns.len() > MAX_TURNED_INSNS / 2
    }
}

impl Engine {
    pub fn superblock(&mut self, key: Key) -> Superblock {
        let traced = self.is_traced(key);
        let mut turns = Loop {
            start: key.pc,
            is_head: self.counts_turns(key.arrival, traced) && self.heads.may_contain(key.pc),
            is_turned: false,
            met: None,
        };
        if self.counts_call(key) {
            return self.way_to_engine(key);
        }
        let mut out = self.follow(key, traced, &mut turns);
        if let Some(met) = turns.met {
            // It is no loop.
            out.insns.truncate(met.insns);
            out.pages.truncate(met.pages);
            (out.bytes, out.end) = (met.bytes, met.end);
        }
        out
    }

    /// Nothing but a way to the engine, which counts a call and goes on from there.
    fn way_to_engine(&mut self, key: Key) -> Superblock {
        let mut out = self.nothing_at(key, false);
        self.note_page(key.pc, &mut out.pages);
        let arrival = Arrival::Middle;
        out.end = End::Into(Key { arrival, ..key });
        out
    }

    /// A superblock without instructions yet.
    fn nothing_at(&mut self, key: Key, traced: bool) -> Superblock {
        let mut out = core::mem::take(&mut self.scratch.source);
        out.insns.clear();
        out.pages.clear();
        Superblock {
            end: End::Itself,
            volatile: self.is_volatile(key.pc),
            bytes: 0,
            traced,
            counted: self.counts_insns(key, traced),
            ..out
        }
    }

    // Long function: one loop whose cases end it or go on.
    fn follow(&mut self, key: Key, traced: bool, turns: &mut Loop) -> Superblock {
        let mut out = self.nothing_at(key, traced);
        self.look_at(key.pc);
        let (mut pc, mut side_exits) = (key.pc, 0);
        let mut window = Window::NONE;
        let mut reader = window.reader();
        loop {
            if VSYSCALL.contains(&pc) {
                let is_entry = pc & 0x3ff == 0 && pc & 0xfff < 0xc00;
                let ends = [End::Unfetchable(pc), End::Vsyscall(pc)];
                out.end = ends[usize::from(is_entry)];
                return out;
            }
            // Instructions that the superblock has already were checked before. Behind a branch
            // that was followed back it may not end: that branch is inverted.
            let is_again = turns.is_turned && out.insns.iter().any(|old| old.pc() == pc);
            if let Some(last) = out.insns.last().filter(|_| !is_again) {
                let arrival = self.arrival_behind(last, pc);
                let inside = self.goes_on(key, traced, Key { pc, arrival });
                if out.insns.len() >= self.most_insns(MAX_INSNS)
                    || side_exits >= MAX_EXITS
                    || self.is_traced(Key { pc, ..key }) != traced
                    || !out.volatile && self.enters_volatile(&out, pc)
                    || self.is_awaited(pc)
                {
                    out.end = End::Goto(inside);
                    return out;
                }
                let meets = turns.met.is_none()
                    && !(self.has_blocks() && out.insns.len() < DUPLICATED)
                    && self.map.get(inside, &self.blocks).is_some();
                if meets && turns.ends(&out, End::Goto(inside)) || turns.is_none(&out) {
                    out.end = End::Goto(inside);
                    return out;
                }
            }
            if !window.holds(pc) {
                window = Window::at(pc, self).unwrap_or(Window::NONE);
                reader = window.reader();
            }
            let decoded = push_decoded(&mut reader, pc, &mut out.insns);
            if decoded != Err(DecodeError::Truncated) {
                self.note_page(pc, &mut out.pages);
            }
            let (Ok(()), Some(insn)) = (decoded, out.insns.last()) else {
                out.end = match decoded {
                    Err(DecodeError::Unknown) => End::Unknown(pc),
                    _ => End::Unfetchable(pc),
                };
                return out;
            };
            let flow = insn.flow();
            if self.leaves_at_traps && flow == Flow::Trap {
                out.insns.pop();
                out.end = End::Unfetchable(pc);
                return out;
            }
            if pc & !4095 != (insn.next_pc() - 1) & !4095 {
                self.note_page(insn.next_pc() - 1, &mut out.pages);
            }
            out.bytes += insn.len();
            side_exits += usize::from(self.is_long(insn));
            if let Flow::Jump(target) | Flow::Cond(_, target) | Flow::CountJump(target) = flow {
                self.note_jump(insn.pc(), target);
                if target <= insn.pc() && self.counts_turns(key.arrival, traced) {
                    self.heads.add(target);
                }
            }
            match flow {
                Flow::Next | Flow::CountJump(_) => pc = insn.next_pc(),
                Flow::Cond(_, target) => {
                    side_exits += 1;
                    if self.can_turn(&out, key, target) {
                        pc = turns.turn();
                        continue;
                    }
                    pc = insn.next_pc();
                }
                Flow::Jump(target) => {
                    let start = key;
                    let key = self.arrive_by_jump(insn.pc(), target);
                    if self.jumps_into(insn.pc(), target) {
                        out.end = End::Into(key);
                        return out;
                    }
                    if self.can_turn(&out, start, target) {
                        pc = turns.turn();
                        continue;
                    }
                    // Else a loop is closed by a link.
                    let again = out.insns.iter().any(|old| old.pc() == target);
                    if key.arrival != Arrival::Inside
                        || again
                        || out.volatile
                        || self.process.regions.find(target).is_none()
                    {
                        out.end = End::Goto(key);
                        return out;
                    }
                    pc = target;
                    continue;
                }
                _ => return out,
            }
            if matches!(flow, Flow::CountJump(_)) {
                side_exits += 1;
            }
            let mut next = self.arrive_by_jump(insn.pc(), pc);
            let ends = out.volatile && insn.may_store()
                || out.counted && traced && matches!(flow, Flow::Cond(..) | Flow::CountJump(_));
            if next.arrival != Arrival::Inside || ends {
                if next.arrival == Arrival::Inside {
                    next.arrival = self.arrival_behind(insn, pc);
                }
                out.end = End::Goto(next);
                return out;
            }
        }
    }

    /// Whether anything is counted that one turn of a loop has as the next one, in code that
    /// is arrived at so.
    fn counts_turns(&self, arrival: Arrival, traced: bool) -> bool {
        let counts = self.settings.count_instructions || arrival == Arrival::Far;
        counts || self.edge_counters.is_some() || traced || self.has_blocks()
    }

    /// Whether `out`, which begins with `start` and ends with a branch to `target`, goes on
    /// there with one more turn of the loop that it is.
    fn can_turn(&self, out: &Superblock, start: Key, target: u64) -> bool {
        if !self.counts_turns(start.arrival, out.traced)
            || target != start.pc
            || !matches!(start.arrival, Arrival::Inside | Arrival::Far)
            || out.volatile
            || out.counted
        {
            return false;
        }
        let Some(branch) = out.insns.last() else {
            return false;
        };
        let leaves = |insn: &&Insn| matches!(insn.flow(), Flow::Cond(..) | Flow::CountJump(_));
        let turn = out.insns.iter().rposition(|insn| insn.pc() == target);
        let turn = &out.insns[turn.unwrap_or(0)..];
        let exits = turn.iter().filter(leaves).count();
        let all_exits = out.insns.iter().filter(leaves).count();
        branch.next_pc() != target
            && out.insns.len() + turn.len() <= self.most_insns(MAX_TURNED_INSNS)
            && all_exits + exits <= MAX_TURNED_EXITS
            && self.goes_on(start, out.traced, self.arrive_by_jump(branch.pc(), target)) == start
            && !self.jumps_into(branch.pc(), target)
    }

    /// Whether what `out` holds is guarded and what follows at `pc` is compared.
    fn enters_volatile(&self, out: &Superblock, pc: u64) -> bool {
        let last = out.insns.last().map_or(pc, Insn::pc);
        last & !4095 != pc & !4095 && self.is_volatile(pc)
    }

    /// The key for control that goes from `from` to `to` without a call.
    pub fn arrive_by_jump(&self, from: u64, to: u64) -> Key {
        match &self.contexts {
            Some(contexts) => contexts.arrive_by_jump(from, to, &self.process),
            None => self.arrive_in_trace(from, to),
        }
    }

    /// Whether a direct jump leaves its function for the middle of another.
    pub fn jumps_into(&self, from: u64, to: u64) -> bool {
        self.contexts
            .as_ref()
            .is_some_and(|contexts| contexts.jumps_into(from, to, &self.process))
    }

    fn note_page(&self, pc: u64, pages: &mut Vec<u64>) {
        let page = pc & !4095;
        if pages.contains(&page) {
            return;
        }
        // All pages count: unmapping makes code of any page stale.
        pages.push(page);
    }
}

/// Adds the instruction at `pc`, which is large and so decoded where it stays.
fn push_decoded(
    reader: &mut Reader<'_>,
    pc: u64,
    insns: &mut Vec<Insn>,
) -> Result<(), DecodeError> {
    let number = insns.len();
    insns.push(Insn::default());
    let decoded = reader.decode_into(pc, &mut insns[number]);
    if decoded.is_err() {
        insns.pop();
    }
    decoded
}

/// Whether a superblock ends with it, by itself.
pub fn ends(insn: &Insn) -> bool {
    !matches!(
        insn.flow(),
        Flow::Next | Flow::Jump(_) | Flow::Cond(..) | Flow::CountJump(_)
    )
}
