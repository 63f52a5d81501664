//! Direct links between blocks.
//!
//! An exit is a branch with a 32-bit displacement inside one aligned word. It
//! goes to its stub until the target exists, then to the target. Unlinking
//! stores the stub's distance again: bodies of blocks are never rewritten.
//!
//! ```text
//! stub:  mov dword gs:[exit], id ; jmp engine
//! stub:  mov dword gs:[exit], id ; jmp short to the jump of a stub close above
//! ```
//!
//! The stub of an exit that leaves with rcx and rdx spilled restores them first.

use isa::Reg;
use wire::stat;

use crate::block::{BlockId, ExitId, ExitKind, NO_BLOCK, NO_EXIT};
use crate::engine::Engine;
use crate::entry::Routine;
use crate::indirect::{RCX_RDX_SPILLS, SPILL_RCX, SPILL_RDX};

const EXIT: i32 = core::mem::offset_of!(agent::thread::ThreadContext, exit) as i32;
/// `mov dword gs:[disp32], imm32`, `jmp rel32`, `jmp rel8`.
const MOV: u64 = 12;
const JMP: u64 = 5;
const STUB: u64 = MOV + JMP;
const SHORT_STUB: u64 = MOV + 2;

impl Engine {
    /// Points an exit at a block.
    pub fn link(&mut self, exit: ExitId, target: BlockId) {
        if self.block(target).volatile {
            return;
        }
        let next = self.block(target).incoming;
        let is_event = self.block(target).key().arrival.is_event();
        let arena = self.cache.arena();
        let entry = &mut self.exits[exit.0 as usize];
        if entry.is_linked() || entry.block == NO_BLOCK {
            return;
        }
        let spilled = matches!(entry.kind(), ExitKind::Spilled(_));
        if spilled && !is_event {
            // Other code was mapped there since.
            return;
        }
        entry.set_linked(true);
        entry.next_incoming = next;
        let site = entry.site(arena);
        self.block(target).incoming = exit.0;
        let host = self.block(target).host;
        self.cache
            .patch(site, if spilled { host + RCX_RDX_SPILLS } else { host });
        self.count(stat::LINKS);
    }

    /// Points an exit at its stub.
    pub fn unlink(&mut self, exit: ExitId) {
        let arena = self.cache.arena();
        let entry = &mut self.exits[exit.0 as usize];
        entry.set_linked(false);
        let (site, stub) = (entry.site(arena), entry.stub(arena));
        self.cache.patch(site, stub);
    }

    /// The stub of an exit. It is made with the block and in its segment, so
    /// that it lives as long as the branch that may go to it.
    pub fn make_stub(&mut self, exit: ExitId, kind: ExitKind) -> u64 {
        let engine = self.cache.thunk(Routine::Exit);
        let (mut len, shared) = match self.cache.shared_jump() {
            Some(jump) => (SHORT_STUB, Some(jump)),
            None => (STUB, None),
        };
        let spilled = matches!(kind, ExitKind::Spilled(_) | ExitKind::Bound(_));
        if spilled {
            len += RCX_RDX_SPILLS;
        }
        let stub = self
            .cache
            .cold(len, 1, |asm| {
                if spilled {
                    asm.mov_r_gs(Reg::Rcx, SPILL_RCX);
                    asm.mov_r_gs(Reg::Rdx, SPILL_RDX);
                }
                asm.mov_gs_imm32(EXIT, exit.0);
                match shared {
                    Some(jump) => asm.jmp_near(jump),
                    None => {
                        asm.jmp(engine);
                    }
                }
            })
            .expect("make_room leaves room for a block's stubs");
        if shared.is_none() {
            self.cache.share_jump(stub + len - JMP);
        }
        stub
    }

    /// Cuts a block off: nothing leads to it any more. Threads inside finish
    /// what they are in and leave by its exits.
    pub fn sever(&mut self, id: BlockId) {
        if self.block(id).dead {
            return;
        }
        self.block(id).dead = true;
        if self.block(id).volatile {
            self.volatiles.remove(&id);
        }
        self.map.remove(id, &self.blocks);
        self.unpublish_indirect(id);
        let mut incoming = core::mem::replace(&mut self.block(id).incoming, NO_EXIT);
        while incoming != NO_EXIT {
            let exit = ExitId(incoming);
            incoming = self.exits[exit.0 as usize].next_incoming;
            // A dead block may still be running: its exits must leave, too.
            if self.exits[exit.0 as usize].is_linked() {
                self.unlink(exit);
            }
        }
        self.count(stat::INVALIDATIONS);
    }
}
