//! Instructions that threads make themselves heard by: atomic ones, and fences.

use iced_x86::{Mnemonic, OpKind};

use crate::Insn;

impl Insn {
    /// Whether it is atomic or orders stores before loads: with a lock prefix, an exchange
    /// with memory, or `mfence`.
    pub fn is_sync(&self) -> bool {
        let in_memory = || (0..self.raw.op_count()).any(|i| self.raw.op_kind(i) == OpKind::Memory);
        match self.raw.mnemonic() {
            Mnemonic::Mfence => true,
            Mnemonic::Xchg => in_memory(),
            _ => self.raw.has_lock_prefix(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn atomic_instructions_and_fences() {
        let cases: [(&[u8], bool); 7] = [
            (&[0xF0, 0x0F, 0xB1, 0x0F], true), // lock cmpxchg [rdi], ecx
            (&[0xF0, 0x48, 0xFF, 0x07], true), // lock inc qword [rdi]
            (&[0x87, 0x07], true),             // xchg [rdi], eax
            (&[0x0F, 0xAE, 0xF0], true),       // mfence
            (&[0x0F, 0xB1, 0x0F], false),      // cmpxchg [rdi], ecx
            (&[0x87, 0xC1], false),            // xchg ecx, eax
            (&[0x0F, 0xAE, 0xE8], false),      // lfence
        ];
        for (bytes, is_sync) in cases {
            let insn = Insn::decode(bytes, 0x1000).expect("an instruction");
            assert_eq!(insn.is_sync(), is_sync, "{bytes:x?}");
        }
    }
}
