//! Classes of instructions that are counted apart: branches, loads, stores.
//!
//! The definitions are those of the processors' own counters of retired
//! instructions (Intel SDM vol. 3, `BR_INST_RETIRED`, `MEM_INST_RETIRED`): an
//! instruction is a load or not, however often or much it reads.

use iced_x86::{InstructionInfoFactory, InstructionInfoOptions, OpAccess};

use crate::{Flow, Insn};

/// Classes of an instruction, a bit each. An instruction that reads or writes several times, as
/// repeated string instructions do, is one load or store, and so is one that turns out to read or
/// write nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Class(pub u8);

impl Class {
    /// Near branches: jumps, conditional or not, calls and returns.
    pub const BRANCH: Class = Class(1);
    /// It reads memory, the stack included.
    pub const LOAD: Class = Class(2);
    /// It writes memory, the stack included.
    pub const STORE: Class = Class(4);

    /// Branches, loads, stores: 1 for each that it is.
    pub fn amounts(self) -> [u8; 3] {
        [self.0 & 1, self.0 >> 1 & 1, self.0 >> 2 & 1]
    }
}

impl Insn {
    /// Classes that are counted each time the instruction retires.
    pub fn class(&self) -> Class {
        let branches = matches!(
            self.flow(),
            Flow::Jump(_)
                | Flow::Cond(..)
                | Flow::CountJump(_)
                | Flow::Call(_)
                | Flow::IndirectJump
                | Flow::IndirectCall
                | Flow::Return(_)
        );
        let mut class = if branches { Class::BRANCH.0 } else { 0 };
        let mut factory = InstructionInfoFactory::new();
        let without = InstructionInfoOptions::NO_REGISTER_USAGE;
        for memory in factory.info_options(&self.raw, without).used_memory() {
            class |= match memory.access() {
                OpAccess::Read | OpAccess::CondRead => Class::LOAD.0,
                OpAccess::Write | OpAccess::CondWrite => Class::STORE.0,
                OpAccess::ReadWrite | OpAccess::ReadCondWrite => Class::LOAD.0 | Class::STORE.0,
                OpAccess::None | OpAccess::NoMemAccess => 0,
            };
        }
        Class(class)
    }
}

#[cfg(test)]
mod tests {
    use super::Class;
    use crate::Insn;

    /// By hand from the descriptions in the Intel SDM, vol. 2.
    const FORMS: [(&[u8], &str, &str); 40] = [
        (&[0x90], "nop", ""),
        (&[0x0F, 0x1F, 0x00], "nop [rax]", ""),
        (&[0xF3, 0x0F, 0x1E, 0xFA], "endbr64", ""),
        (&[0x48, 0x8D, 0x04, 0x08], "lea rax, [rax+rcx]", ""),
        (&[0x0F, 0x18, 0x08], "prefetcht0 [rax]", ""),
        (&[0x48, 0x89, 0xC8], "mov rax, rcx", ""),
        (&[0x48, 0x8B, 0x01], "mov rax, [rcx]", "l"),
        (&[0x48, 0x89, 0x01], "mov [rcx], rax", "s"),
        (&[0x48, 0x01, 0x01], "add [rcx], rax", "ls"),
        (&[0x48, 0x03, 0x01], "add rax, [rcx]", "l"),
        (&[0x48, 0x39, 0x01], "cmp [rcx], rax", "l"),
        (&[0x48, 0x85, 0x01], "test [rcx], rax", "l"),
        (&[0x48, 0x87, 0x01], "xchg [rcx], rax", "ls"),
        (
            &[0xF0, 0x48, 0x0F, 0xB1, 0x11],
            "lock cmpxchg [rcx], rdx",
            "ls",
        ),
        (&[0x48, 0x0F, 0x44, 0x01], "cmove rax, [rcx]", "l"),
        (&[0x0F, 0x94, 0x00], "sete [rax]", "s"),
        (&[0xFF, 0x00], "inc dword [rax]", "ls"),
        (&[0x50], "push rax", "s"),
        (&[0x58], "pop rax", "l"),
        (&[0xFF, 0x30], "push qword [rax]", "ls"),
        (&[0x8F, 0x00], "pop qword [rax]", "ls"),
        (&[0x9C], "pushfq", "s"),
        (&[0xC9], "leave", "l"),
        (&[0xE8, 0, 0, 0, 0], "call", "bs"),
        (&[0xFF, 0x10], "call [rax]", "bls"),
        (&[0xFF, 0xD0], "call rax", "bs"),
        (&[0xC3], "ret", "bl"),
        (&[0xEB, 0x00], "jmp", "b"),
        (&[0x74, 0x00], "je", "b"),
        (&[0xE3, 0x00], "jrcxz", "b"),
        (&[0xFF, 0xE0], "jmp rax", "b"),
        (&[0xFF, 0x20], "jmp [rax]", "bl"),
        (&[0xF3, 0xA4], "rep movsb", "ls"),
        (&[0xF3, 0xAA], "rep stosb", "s"),
        (&[0xF2, 0xAE], "repne scasb", "l"),
        (&[0xF3, 0xA6], "repe cmpsb", "l"),
        (&[0xAC], "lodsb", "l"),
        (&[0x66, 0x0F, 0x6F, 0x00], "movdqa xmm0, [rax]", "l"),
        (&[0xF3, 0x0F, 0x7F, 0x00], "movdqu [rax], xmm0", "s"),
        (&[0x0F, 0x05], "syscall", ""),
    ];

    #[test]
    fn forms_have_the_classes_of_the_manual() {
        for (bytes, text, expected) in FORMS {
            let insn = Insn::decode(bytes, 0x1000).unwrap();
            assert_eq!(insn.len(), bytes.len(), "{text}");
            let class = insn.class();
            let has = |one: Class, letter| (class.0 & one.0 != 0).then_some(letter);
            let found = [
                has(Class::BRANCH, 'b'),
                has(Class::LOAD, 'l'),
                has(Class::STORE, 's'),
            ];
            let found: alloc::string::String = found.into_iter().flatten().collect();
            assert_eq!(found, expected, "{text}");
        }
    }
}
