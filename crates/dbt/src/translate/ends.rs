//! Ends of superblocks without a branch of the program, or with an instruction that is no branch.

use isa::memory::recorded::falls_through;
use isa::{Flow, Insn, Reg};

use super::Emit;
use crate::block::{Arrival, ExitKind, Key};
use crate::engine::Engine;
use crate::pcmap::Recipe;
use crate::superblock::{End, Superblock};

impl Engine {
    /// The end of a superblock behind its last instruction, which `at` follows.
    pub(super) fn emit_end(&mut self, emit: &mut Emit<'_>, source: &Superblock, at: u64) {
        let last = source.insns.last().map(Insn::flow);
        let falls = last.is_some_and(|flow| falls_through(flow, false));
        match source.end {
            End::Itself => {}
            End::Goto(key) => {
                if key.pc != at {
                    emit.goto(key.pc);
                }
                if falls {
                    emit.end_onward(key.pc);
                }
                self.emit_exit(emit, ExitKind::Direct(key));
            }
            End::Into(key) => {
                if falls {
                    emit.end_onward(key.pc);
                }
                self.emit_exit(emit, ExitKind::Event(key));
            }
            End::Vsyscall(pc) => self.emit_exit(emit, ExitKind::Vsyscall(pc)),
            End::Unfetchable(pc) => self.emit_exit(emit, ExitKind::Unfetchable(pc)),
            End::Unknown(pc) => {
                let mut bytes = [0u8; 15];
                let room = self.present_end(pc, pc + bytes.len() as u64) - pc;
                let got = agent::memory::read_some(pc, &mut bytes[..room as usize]);
                emit.asm.bytes(&bytes[..got]);
                emit.asm.bytes(&[0x0F, 0x0B]);
                emit.cover(true, Recipe::NONE);
            }
        }
    }

    /// A transaction that aborts at once.
    pub(super) fn emit_abort(&mut self, emit: &mut Emit<'_>, insn: &Insn, target: u64, i: usize) {
        self.record(emit, i);
        emit.asm.mov_r_imm(Reg::Rax, 0);
        emit.over(insn);
        emit.goto(target);
        emit.passed(insn.pc(), true);
        emit.recorded(false);
        let arrival = Arrival::Inside;
        let key = Key {
            pc: target,
            arrival,
        };
        self.emit_exit(emit, ExitKind::Direct(key));
    }

    /// Emits an instruction that ends a superblock and is no branch.
    pub(super) fn emit_odd(&mut self, emit: &mut Emit<'_>, insn: &Insn, i: usize) {
        if let Flow::Far(_) = insn.flow() {
            return self.emit_far(emit, insn, i);
        }
        self.emit_plain(emit, insn);
        let pc = insn.next_pc();
        let arrival = self.arrival_behind(insn, pc);
        // The block is entered when this has been executed: it may fault.
        emit.end_insn(i);
        self.record_end(emit, i, arrival == Arrival::Middle);
        self.emit_exit(emit, ExitKind::Direct(Key { pc, arrival }));
    }
}
