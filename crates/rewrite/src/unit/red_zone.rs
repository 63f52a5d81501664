//! Functions that have nothing below the stack pointer, so that inserted code may keep registers there.
//!
//! Handlers of signals leave 128 bytes below the stack pointer alone (System V ABI, x86-64, 3.2.2), and compilers use them in functions
//! that call nothing. Such use is seen: an address below the stack pointer, or, in a function that calls nothing, below the
//! frame pointer.

use flow::{EdgeKind, Function};
use image::LinkAddr;
use isa::Reg;
use isa::insn::Reader;

/// Whether a function leaves the memory below its stack pointer alone.
pub(super) fn is_free<'b>(function: &Function, bytes: &dyn Fn(LinkAddr) -> &'b [u8]) -> bool {
    let mut edges = function.graph.edges.iter();
    let calls = edges.any(|edge| matches!(edge.kind, EdgeKind::Call | EdgeKind::NoReturn));
    function.graph.blocks.iter().all(|block| {
        let mut reader = Reader::new(bytes(block.start), block.start.0);
        let mut at = block.start.0;
        while at < block.end.0 {
            let Ok(insn) = reader.decode(at) else {
                return false;
            };
            let address = insn.operand_address();
            let is_below = address.is_some_and(|address| {
                let is_stack =
                    |register: Reg| register == Reg::Rsp || register == Reg::Rbp && !calls;
                address.base.is_some_and(is_stack) && address.displacement.cast_signed() < 0
            });
            if is_below {
                return false;
            }
            at = insn.next_pc();
        }
        true
    })
}
