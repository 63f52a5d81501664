//! Exits: the branches by which a block is left, while it is emitted.
//!
//! An exit that has nothing to do on its way is the branch itself. One that owes
//! a count (`counting.rs`) is the jump at the end of cold code:
//!
//! ```text
//!   jcc  way                  never rewritten
//!   way (cold): spill rcx; count; restore rcx; jmp target      the exit
//! ```

use isa::Asm;

use crate::block::{BlockId, Exit, ExitId, ExitKind};
use crate::counting::{Compensation, add_spilled};
use crate::engine::Engine;
use crate::pcmap::Recipe;
use crate::translate::Emit;

impl Engine {
    /// A jump that is to become an exit; returns the address of its displacement.
    pub fn emit_unlinked_jump(&mut self, emit: &mut Emit<'_>) -> u64 {
        emit.asm.align_displacement(1);
        emit.asm.jmp(emit.asm.here())
    }

    /// Control goes on elsewhere; the map's program cursor is already there.
    /// The jump is an exact boundary unless an event stands between it and the
    /// next instruction: a signal must not come in between and lose it.
    pub fn emit_exit(&mut self, emit: &mut Emit<'_>, kind: ExitKind) {
        emit.write_outcomes(0);
        let site = self.emit_unlinked_jump(emit);
        let event = match kind {
            ExitKind::Direct(key) => {
                self.canonical(key).arrival.is_event() || self.counts_call(key)
            }
            ExitKind::Spilled(_) => true,
            ExitKind::Event(_) => self.streams.is_some(),
            _ => false,
        };
        emit.cover(!event, Recipe::NONE);
        self.attach(emit.id, site, kind);
    }

    /// Makes an exit of the branch at `site`: linked if its target exists,
    /// else to a stub.
    pub fn attach(&mut self, block: BlockId, site: u64, kind: ExitKind) {
        let id = self.new_exit();
        let kind = self.canonical_kind(block, kind);
        let stub = self.make_stub(id, kind);
        let arena = self.cache.arena();
        self.exits[id.0 as usize] = Exit::new(kind, block, arena, site, stub);
        self.unlink(id);
        self.link_if_there(id, kind);
    }

    /// As `attach`, with what `emit` puts, in at most `room` bytes, on the way: the
    /// branch at `site` goes to cold code, whose jump is the exit. `emit` says where that
    /// is entered.
    pub fn attach_way(
        &mut self,
        block: BlockId,
        site: u64,
        kind: ExitKind,
        room: u64,
        emit: impl FnOnce(&mut Asm<'_>) -> u64,
    ) {
        const JUMP: u64 = 5 + 7;
        let id = self.new_exit();
        let kind = self.canonical_kind(block, kind);
        // Before the code, so that it lies behind it.
        let stub = self.make_stub(id, kind);
        let (mut entry, mut jump) = (0, 0);
        let way = self.cache.cold(room + JUMP, 8, |asm| {
            entry = emit(asm);
            asm.align_displacement(1);
            jump = asm.jmp(stub);
        });
        way.expect("make_room leaves room for a block's exits");
        self.cache.patch(site, entry);
        self.exits[id.0 as usize] = Exit::new(kind, block, self.cache.arena(), jump, stub);
        self.link_if_there(id, kind);
    }

    /// An exit that does that on its way.
    pub fn attach_compensation(
        &mut self,
        block: BlockId,
        site: u64,
        kind: ExitKind,
        compensation: Compensation,
    ) {
        self.attach_way(block, site, kind, compensation.spilled_bytes(), |asm| {
            let entry = asm.here();
            add_spilled(asm, compensation);
            entry
        });
    }

    fn canonical_kind(&self, block: BlockId, kind: ExitKind) -> ExitKind {
        match kind {
            ExitKind::Direct(key) => ExitKind::Direct(self.canonical(self.left_from(block, key))),
            other => other,
        }
    }

    /// Links a new exit whose target exists.
    fn link_if_there(&mut self, id: ExitId, kind: ExitKind) {
        let target = match kind {
            ExitKind::Direct(key) | ExitKind::Spilled(key) => self.map.get(key, &self.blocks),
            _ => None,
        };
        // A block being emitted (a loop to its own start) is linked later.
        if let Some(target) = target.filter(|&target| self.block(target).host != 0) {
            self.link(id, target);
        }
    }
}
