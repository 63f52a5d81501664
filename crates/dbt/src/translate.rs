//! From a superblock to code: one rule per kind of control flow.
//!
//! | program | cache |
//! |---|---|
//! | any other instruction | the same bytes; a rip-relative displacement re-based |
//! | rip-relative, out of reach; eip-relative | spill r; `mov r, address`; the instruction with `[r]`; restore r |
//! | `gs:` operand | spill; address plus the program's gs base; the instruction with `[r]`; restore |
//! | the same of an implied operand, or by a vector | fs gets that base; the instruction with `fs:`; fs gets its own |
//! | `rdgsbase r`, `wrgsbase r` | load or store of the virtual base |
//! | `mov gs, x`, `pop gs` | the selector is loaded into es and es restored; the virtual base becomes 0 |
//! | `jmp` | nothing: translation goes on at the target |
//! | `jcc` | `jcc` to a linked exit |
//! | `loop`, `jrcxz` | the same over two exits |
//! | `call` | push of the program's return address from a literal; `jmp` to a linked exit |
//! | `call *`, `jmp *` | spill rcx, rdx; load the target; push; table lookup, or a guess (`indirect`) |
//! | `ret` | spill rcx, rdx; pop rcx; table lookup |
//! | `syscall` | itself, then rcx = program address; bent calls leave first |
//! | far branches | left to the engine (`far`) |
//! | `xbegin` | an abort: eax = 0, to the fallback; where cpuid has no RTM behind an `xbegin` of its own, which may fault |
//!
//! Every rule writes the block's map as it goes (`pcmap`).

mod ends;
mod operands;

use agent::syscalls::Kind;
use isa::{Asm, Cc, Flow, GsUse, Insn, Reg, StackMove};
use wire::stat;

use crate::accesses::{Accesses, Bytes};
use crate::block::{Arrival, Block, BlockId, ExitKind, Key, Landing};
use crate::contexts::Paths;
use crate::counting::{Counting, Run, add_spilled};
use crate::edge_counters::LastBranch;
use crate::engine::Engine;
use crate::indirect::{emit_restores, emit_spills};
use crate::pcmap::{Recipe, Writer};
use crate::streams::{Pending, skip_count};
use crate::superblock::{End, Superblock, ends};

use operands::emit_gs_base;

const APP_GS: i32 = core::mem::offset_of!(agent::thread::ThreadContext, app_gs) as i32;
const OPERAND_SIZE: u8 = 0x66;
const WAITS_IN: i32 = core::mem::offset_of!(agent::thread::ThreadContext, waits_in) as i32;

/// A block being emitted.
pub struct Emit<'a> {
    pub asm: Asm<'a>,
    pub map: Writer,
    pub id: BlockId,
    /// Cache address up to which the map is written.
    mapped: u64,
    start_pc: u64,
    /// Counting instructions (`counting.rs`).
    pub counting: Counting,
    /// Contexts of basic blocks.
    pub paths: Paths,
    /// Streams.
    pub pending: Pending,
    /// Accesses to memory.
    pub accesses: Accesses,
}

impl core::fmt::Debug for Emit<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Emit({:?})", self.id)
    }
}

impl Emit<'_> {
    /// Covers what was emitted since the last call as part of the instruction
    /// the map's program cursor stands at.
    pub fn cover(&mut self, boundary: bool, recipe: Recipe) {
        let len = (self.asm.here() - self.mapped) as usize;
        if len > 0 {
            self.map.piece(boundary, recipe, len);
        }
        self.mapped = self.asm.here();
    }

    /// As [`Self::cover`], for code that reads memory to record it, with two registers spilled.
    pub fn cover_reading(&mut self, boundary: bool, registers: [Reg; 2]) {
        let len = (self.asm.here() - self.mapped) as usize;
        self.map.reading(boundary, registers, len);
        self.mapped = self.asm.here();
    }

    /// The instruction is over.
    fn over(&mut self, insn: &Insn) {
        self.cover(true, Recipe::NONE);
        self.map.advance(insn.len());
    }

    /// A direct jump is followed.
    fn jump(&mut self, insn: &Insn, target: u64) {
        self.map.advance(insn.len());
        self.goto(target);
        self.went(insn.pc(), target);
    }

    /// Sets the instruction, within 2 GB, that the next emitted bytes belong to.
    fn goto(&mut self, pc: u64) {
        self.map.goto(pc.wrapping_sub(self.start_pc) as i32);
    }
}

/// Which way of a conditional branch leaves the superblock.
#[derive(Clone, Copy, Debug)]
enum Way {
    Taken(u64),
    /// It is turned.
    Through,
}

impl Engine {
    /// Translates the code at `key`. The block is entered in the map; `pad`
    /// says for whom it gets a landing pad in front.
    // Long function: the steps of one translation.
    pub fn translate(&mut self, key: Key, pad: Option<Landing>) -> BlockId {
        let before = self.clock();
        self.make_room();
        let event = key.arrival.is_event();
        if event {
            // A call into the middle of a function.
            self.enter_inside(key.pc);
        }
        let source = self.superblock(key);
        let segment = self.cache.current;
        let maps = self.cache.segments[segment].maps.len();
        let id = self.add_block(Block::new(key, segment, maps));
        let far = skip_count::far(id, key.arrival);
        let counting = far.unwrap_or_else(|| self.count_ways(id, &source));
        let paths = self.plan_paths(&source, key.arrival);
        let fragment = self.describe_code(&source);
        let went = pad.and_then(|_| self.went_by(key));
        let site = pad
            .and_then(|pad| pad.site)
            .filter(|site| site.is_counted());
        let counted = site.map(|site| self.jump_slot(site, key.pc));
        let (start, room) = self.cache.open();
        let mut emit = Emit {
            asm: Asm::new(room, start),
            map: Writer {
                bytes: core::mem::take(&mut self.scratch.map),
                accessing: Bytes::default(),
            },
            id,
            mapped: start,
            start_pc: key.pc,
            counting,
            paths,
            pending: Pending::new(&source),
            accesses: Accesses::new(self.settings.memory, &source),
        };
        let pad = pad.map(|Landing { call, .. }| {
            let miss = self.cache.thunk(if call {
                crate::entry::Routine::VerifyCall
            } else {
                crate::entry::Routine::VerifyJump
            });
            let (pad, host) = crate::indirect::emit_pad(&mut emit.asm, key, miss, went, counted);
            emit.mapped = host;
            (call, pad)
        });
        if pad.is_none() && event {
            crate::indirect::emit_spills(&mut emit.asm);
        }
        let host = emit.mapped;
        if event {
            self.emit_event(&mut emit, key);
        }
        self.emit_beginning(&mut emit, &source, key, fragment);
        self.emit_superblock(&mut emit, &source);
        assert!(
            !emit.asm.overflowed(),
            "a superblock fits the room that make_room guarantees"
        );
        let (len, mut map) = (emit.asm.len(), emit.map.bytes);
        self.scratch.paths = emit.paths;
        let unfetchable = source.insns.is_empty() && matches!(source.end, End::Unfetchable(_));
        self.cache.close(start, len, id.0);
        self.cache.segments[segment].maps.extend_from_slice(&map);
        let block = self.block(id);
        block.host = host;
        if let Some((call, pad)) = pad {
            block.set_pad(call, pad);
            if let Some(site) = site {
                self.keep_pad_of(id, site);
            }
        }
        let block = self.block(id);
        block.map_len = u16::try_from(map.len()).expect("a block's map is short");
        block.unfetchable = unfetchable;
        self.map.insert(id, &self.blocks);
        map.clear();
        self.scratch.map = map;
        if source.volatile {
            let len = source.bytes as u32;
            self.block(id).volatile = true;
            let sum = crate::code_change::checksum(key.pc, len);
            self.volatiles.insert(id, (len, sum));
        }
        self.watch(id, &source);
        self.add(stat::APP_INSNS_TRANSLATED, source.insns.len() as u64);
        self.note_translated(key.pc, source.bytes as u64);
        self.scratch.source = source;
        self.count(stat::BLOCKS);
        let took = self.clock() - before;
        self.add(stat::TRANSLATE_CYCLES, took);
        crate::contexts::leave_out(self, took);
        id
    }

    // Long function: one row per kind of control flow.
    fn emit_superblock(&mut self, emit: &mut Emit<'_>, source: &Superblock) {
        // rsp was loaded; or the next indirect jump is a return by hand.
        let (mut loaded, mut unwinding) = (self.is_behind_load(emit.start_pc), false);
        let has_activations = self.contexts.is_some() && self.has_activations();
        let mut at = emit.start_pc;
        let mut run = Run::default();
        for (i, insn) in source.insns.iter().enumerate() {
            if insn.pc() != at {
                emit.goto(insn.pc());
            }
            at = insn.next_pc();
            emit.begin_insn(i);
            emit.begin_accounted(&source.insns, i);
            if emit.counting.is_on() {
                if emit.counting.has_classes() {
                    emit.map.class(insn.class());
                }
                if i >= run.end {
                    run = emit.plan_run(&source.insns, i);
                    emit.begin_run(&run);
                }
                self.count_run(emit, &run, insn, i);
            }
            emit.begin_accesses(&source.insns, i);
            match insn.flow() {
                Flow::Next => {
                    let loads =
                        self.contexts.is_some() && insn.stack_move() == StackMove::Arbitrary;
                    if loads && has_activations {
                        self.emit_before_load(emit, insn.adds_to_stack());
                    }
                    self.emit_next(emit, insn);
                    match loads {
                        true if has_activations => self.emit_after_load(emit),
                        true => self.emit_stack_check(emit),
                        false => {}
                    }
                    loaded |= loads;
                }
                Flow::Jump(target) => {
                    emit.jump(insn, target);
                    at = target;
                }
                Flow::Cond(cc, target) => {
                    let way = match source.is_turned(i) {
                        true => Way::Through,
                        false => Way::Taken(target),
                    };
                    let last = i + 1 == source.insns.len();
                    self.emit_cond(emit, insn, cc, way, (i, last));
                }
                Flow::CountJump(target) => self.emit_count_jump(emit, insn, target, i),
                Flow::Call(target) => {
                    self.record(emit, i);
                    if loaded && has_activations {
                        self.emit_call_check(emit);
                    }
                    self.emit_call(emit, insn, target);
                }
                Flow::IndirectJump | Flow::IndirectCall => {
                    // `pop r; jmp *r` is a return by hand; the unwinder ends so.
                    unwinding |= loaded || i > 0 && source.insns[i - 1].is_pop();
                    let jumps = insn.flow() == Flow::IndirectJump;
                    let is_checked = has_activations && (loaded || unwinding && jumps);
                    if is_checked {
                        self.record(emit, i);
                        match jumps {
                            true => self.emit_jump_check(emit, insn.pc()),
                            false => self.emit_call_check(emit),
                        }
                    }
                    let stays = |insn: &Insn| insn.stack_delta() == Some(0);
                    let called = self.block(emit.id).key().arrival == Arrival::Stub
                        && source.insns[..i].iter().all(stays);
                    let path = (!is_checked).then(|| emit.path_through(i)).flatten();
                    self.emit_indirect(emit, insn, called, path);
                }
                Flow::Return(extra) => {
                    let path = emit.path_through(i);
                    self.emit_return(emit, insn, extra, path);
                }
                Flow::Syscall => {
                    self.record(emit, i);
                    let number = Insn::known_eax(&source.insns[..i]);
                    self.emit_syscall(emit, insn, number);
                }
                Flow::TransactionBegin(target) => {
                    // A processor without RTM faults here, or aborts at once if its microcode took TSX away.
                    if !self.settings.rtm {
                        emit.asm.xbegin_xabort();
                        emit.cover(true, Recipe::NONE);
                    }
                    self.emit_abort(emit, insn, target, i);
                }
                Flow::Int80 | Flow::Trap | Flow::Far(_) | Flow::Odd => self.emit_odd(emit, insn, i),
            }
            if !ends(insn) {
                emit.end_accesses(i);
                emit.end_insn(i);
            }
        }
        if let Some(compensation) = emit.last_branch(LastBranch::Fell) {
            add_spilled(&mut emit.asm, compensation);
            // No boundary: a signal here would be one before it was counted.
            emit.cover(false, Recipe::NONE);
        }
        if source.end != End::Itself
            && let Some(last) = source.insns.len().checked_sub(1)
        {
            let middle = matches!(source.end, End::Goto(key) if key.arrival == Arrival::Middle);
            self.record_end(emit, last, middle);
            self.end_behind_load(loaded, source.end);
        }
        self.emit_end(emit, source, at);
    }

    /// An instruction that is not a branch.
    pub fn emit_plain(&mut self, emit: &mut Emit<'_>, insn: &Insn) {
        match insn.may_name_gs() {
            true => self.emit_gs(emit, insn),
            false => self.emit_copied(emit, insn),
        }
    }

    /// An instruction that may name gs.
    fn emit_gs(&mut self, emit: &mut Emit<'_>, insn: &Insn) {
        if let Some(access) = insn.gs_base_access().filter(|_| self.settings.fsgsbase) {
            return emit_gs_base(emit, insn, access);
        }
        if let Some(popped) = insn.gs_selector_write() {
            return self.emit_gs_selector(emit, insn, popped);
        }
        if insn.writes_gs_from_memory() {
            // A limit: gs is the engine's.
            emit.asm.bytes(&[0x0F, 0x0B]);
            return emit.over(insn);
        }
        match insn.gs_use() {
            GsUse::Nothing => self.emit_copied(emit, &insn.without_idle_gs()),
            GsUse::Operand => self.emit_gs_operand(emit, insn),
            GsUse::Base => self.emit_by_fs(emit, insn),
        }
    }

    /// Copies an instruction; if it has a rip-relative operand, with another displacement.
    fn emit_copied(&mut self, emit: &mut Emit<'_>, insn: &Insn) {
        let (bytes, len) = (insn.all_bytes(), insn.len());
        if let Some(target) = insn.eip_relative() {
            return self.emit_far_operand(emit, insn, target);
        }
        if let Some((target, position)) = insn.rip_relative() {
            let distance = target.wrapping_sub(emit.asm.here() + len as u64) as i64;
            if distance != i64::from(distance as i32) {
                return self.emit_far_operand(emit, insn, target);
            }
            emit.asm.bytes(&bytes[..position]);
            emit.asm.bytes(&(distance as i32).to_le_bytes());
            emit.asm.bytes(&bytes[position + 4..len]);
        } else {
            emit.asm.first_bytes(bytes, len);
        }
        emit.map.verbatim(len);
        emit.mapped = emit.asm.here();
        if insn.is_pop_flags() {
            // If the trap flag becomes set, the processor first traps behind this (`single_step`).
            emit.asm.nop(1);
            emit.cover(true, Recipe::NONE);
        }
    }

    /// The last operand: index of the instruction, and whether it is the last one.
    fn emit_cond(
        &mut self,
        emit: &mut Emit<'_>,
        insn: &Insn,
        cc: Cc,
        way: Way,
        (i, last): (usize, bool),
    ) {
        let (cc, kind) = match way {
            Way::Taken(target) => {
                let key = self.arrive_by_jump(insn.pc(), target);
                let kind = match self.jumps_into(insn.pc(), target) {
                    true => ExitKind::Event(key),
                    false => ExitKind::Direct(key),
                };
                (cc, kind)
            }
            Way::Through => {
                let key = self.arrive_by_jump(insn.pc(), insn.next_pc());
                (cc.inverted(), ExitKind::Direct(key))
            }
        };
        emit.asm.align_displacement(2);
        let site = emit.asm.jcc(cc, emit.asm.here());
        emit.over(insn);
        if let Some(path) = emit.path_at(i) {
            return self.attach_path(emit, site, kind, path);
        }
        let taken = matches!(way, Way::Taken(_));
        let pending = &emit.pending;
        let onward = pending.compensation_onward(insn.pc(), insn.next_pc());
        let compensation = match taken {
            false if onward.is_some() => onward,
            _ => pending.compensation(insn.pc(), taken, i),
        };
        let compensation = compensation.or_else(|| match last {
            true => emit.last_branch(LastBranch::Taken),
            false => emit.pending_there(),
        });
        emit.passed(insn.pc(), !taken);
        match compensation {
            Some(compensation) => self.attach_compensation(emit.id, site, kind, compensation),
            None => self.attach(emit.id, site, kind),
        }
    }

    /// ```text
    ///   loop  taken        the program's instruction with its own opcode
    ///   jmp   over
    /// taken: jmp exit
    /// over:
    /// ```
    fn emit_count_jump(&mut self, emit: &mut Emit<'_>, insn: &Insn, target: u64, i: usize) {
        let (_, opcode) = insn.bytes().split_last().expect("an instruction has bytes");
        // The operand size is that of the target, and this one's is in the cache.
        for byte in opcode.iter().filter(|byte| **byte != OPERAND_SIZE) {
            emit.asm.bytes(&[*byte]);
        }
        emit.asm.bytes(&[2]);
        let over = emit.asm.jmp_short();
        emit.asm.align_displacement(1);
        let key = self.arrive_by_jump(insn.pc(), target);
        let site = emit.asm.jmp(emit.asm.here());
        emit.asm.bind(over);
        emit.over(insn);
        let kind = ExitKind::Direct(key);
        if let Some(path) = emit.path_at(i) {
            return self.attach_path(emit, site, kind, path);
        }
        if let Some(compensation) = emit.pending.compensation(insn.pc(), true, i) {
            emit.passed(insn.pc(), false);
            return self.attach_compensation(emit.id, site, kind, compensation);
        }
        self.attach(emit.id, site, kind);
    }

    fn emit_call(&mut self, emit: &mut Emit<'_>, insn: &Insn, target: u64) {
        self.emit_push_return(emit, insn);
        if self.settings.mistranslate {
            const CMC: u8 = 0xF5;
            emit.asm.bytes(&[CMC]);
        }
        emit.cover(true, Recipe::NONE);
        emit.map.advance(insn.len());
        // The call is done when the push is: from here the state is that of
        // the target's first instruction.
        emit.goto(target);
        emit.recorded(false);
        emit.went(insn.pc(), target);
        let key = self.called_from(insn.pc(), target);
        self.emit_exit(emit, ExitKind::Direct(key));
    }

    /// `called`: the stack pointer is that of a call, to a stub that this jump ends.
    fn emit_indirect(&mut self, emit: &mut Emit<'_>, insn: &Insn, called: bool, path: Option<u32>) {
        let call = insn.flow() == Flow::IndirectCall;
        emit_spills(&mut emit.asm);
        if let Some(path) = path {
            self.emit_path(emit, path);
            emit.cover(true, Recipe::RCX_RDX);
            emit.recorded(true);
            emit_restores(&mut emit.asm);
        }
        self.emit_target_load(emit, insn);
        emit.cover(path.is_none(), Recipe::RCX_RDX);
        if call {
            self.emit_push_return(emit, insn);
        }
        let prediction = emit.counting.prediction();
        let prediction = prediction.unwrap_or_else(|| self.prediction(insn));
        // A jump that is made again would go on record again.
        let prediction = prediction.filter(|prediction| !prediction.lazy || path.is_none());
        if let Some(prediction) = prediction {
            let key = self.predicted_key(prediction.target, call, called);
            return self.emit_predicted(emit, insn, key, prediction.lazy);
        }
        self.emit_lookup(emit, call);
        emit.cover(false, Recipe::RCX_RDX);
        emit.map.advance(insn.len());
    }

    /// How the guessed target of a call or jump is arrived at. A stub that was
    /// called jumps with the stack pointer of a call, so what is an event by jump
    /// is the same event by call, which has nothing to compare.
    fn predicted_key(&mut self, pc: u64, call: bool, called: bool) -> Key {
        let by = |arrival| Key { pc, arrival };
        if call {
            return by(Arrival::Call);
        }
        self.enter_inside(pc);
        let jump = self.canonical(by(Arrival::Jump));
        match called && jump.arrival == Arrival::Jump {
            true => by(Arrival::Call),
            false => jump,
        }
    }

    fn emit_return(&mut self, emit: &mut Emit<'_>, insn: &Insn, extra: u16, path: Option<u32>) {
        emit_spills(&mut emit.asm);
        let mut begun = self.settings.costs != 0 && emit.count_before_event();
        if let Some(path) = path {
            self.emit_path(emit, path);
            emit.cover(true, Recipe::RCX_RDX);
            emit.recorded(true);
            begun = true;
        }
        self.emit_return_event(emit, insn.pc());
        if insn.is_16_bit_branch() {
            emit.asm.movzx_r32_mem16(Reg::Rcx, Reg::Rsp);
            emit.asm.lea(Reg::Rsp, Reg::Rsp, 2);
        } else {
            emit.asm.pop(Reg::Rcx);
        }
        if extra > 0 {
            emit.asm.lea(Reg::Rsp, Reg::Rsp, i32::from(extra));
        }
        self.emit_lookup(emit, false);
        emit.cover(!begun, Recipe::RCX_RDX);
        emit.map.advance(insn.len());
    }

    /// ```text
    ///   [jmp stub]            if the number is bent or not known
    /// raw:
    ///   mov waits_in, segment
    ///   syscall
    ///   mov rcx, next         what the instruction leaves there natively
    ///   mov waits_in, 0
    /// ```
    fn emit_syscall(&mut self, emit: &mut Emit<'_>, insn: &Insn, number: Option<u32>) {
        let plain = number.is_some_and(|number| match agent::syscalls::kind(u64::from(number)) {
            None => true,
            Some(Kind::Stores) => !self.memory_opened,
            Some(_) => false,
        }) && self.settings.lockstep == 0
            && !self.calls_watched;
        // It is over when it has been told to the kernel.
        emit.write_outcomes(1);
        self.emit_enter(emit);
        if !plain {
            let site = self.emit_unlinked_jump(emit);
            let kind = ExitKind::Syscall {
                pc: insn.pc(),
                len: insn.len() as u8,
            };
            self.attach(emit.id, site, kind);
            emit.cover(true, Recipe::NONE);
        }
        let here = self.cache.current as u32 + 1;
        emit.asm.mov_gs_imm32(WAITS_IN, here);
        emit.cover(true, Recipe::NONE);
        emit.asm.bytes(&[0x0F, 0x05]);
        emit.cover(true, Recipe::NONE);
        emit.asm.mov_r_imm(Reg::Rcx, insn.next_pc());
        emit.cover(false, Recipe::NONE);
        emit.map.advance(insn.len());
        emit.recorded(false);
        self.emit_leave(emit);
        self.emit_exit(
            emit,
            ExitKind::Direct(Key {
                pc: insn.next_pc(),
                arrival: Arrival::Inside,
            }),
        );
    }
}
