//! Forms with the thread's memory at `%gs`, and with segment registers and their bases.

use super::Asm;
use crate::Reg;

impl Asm<'_> {
    /// `mov qword gs:[disp], reg`
    pub fn mov_gs_r(&mut self, disp: i32, reg: Reg) {
        self.byte(0x65);
        self.rex_w(reg, 0, 0);
        self.byte(0x89);
        self.absolute(reg.low(), disp);
    }

    /// `mov dword gs:[disp], reg32`
    pub fn mov_gs_r32(&mut self, disp: i32, reg: Reg) {
        self.byte(0x65);
        if reg.high() != 0 {
            self.byte(0x44);
        }
        self.byte(0x89);
        self.absolute(reg.low(), disp);
    }

    /// `mov reg, qword gs:[disp]`
    pub fn mov_r_gs(&mut self, reg: Reg, disp: i32) {
        self.byte(0x65);
        self.rex_w(reg, 0, 0);
        self.byte(0x8B);
        self.absolute(reg.low(), disp);
    }

    /// `mov reg, es` and back (the low 32 bits of `reg`).
    pub fn mov_r_es(&mut self, reg: Reg) {
        self.es(reg, 0x8C);
    }

    pub fn mov_es_r(&mut self, reg: Reg) {
        self.es(reg, 0x8E);
    }

    fn es(&mut self, reg: Reg, opcode: u8) {
        if reg.high() == 1 {
            self.byte(0x41);
        }
        self.bytes(&[opcode, 0xC0 | reg.low()]);
    }

    /// `mov dword gs:[disp], imm32`
    pub fn mov_gs_imm32(&mut self, disp: i32, imm: u32) {
        self.bytes(&[0x65, 0xC7]);
        self.absolute(0, disp);
        self.dword(imm);
    }

    /// `mov qword gs:[disp], imm32`, sign extended
    pub fn mov_gs_imm64(&mut self, disp: i32, imm: i32) {
        self.bytes(&[0x65, 0x48, 0xC7]);
        self.absolute(0, disp);
        self.dword(imm.cast_unsigned());
    }

    /// `mov reg32, dword [base + index + disp8]`; `index` is not rsp.
    pub fn mov_r32_sum(&mut self, reg: Reg, base: Reg, index: Reg, disp: i8) {
        self.refuse(index == Reg::Rsp);
        self.byte(0x40 | reg.high() << 2 | index.high() << 1 | base.high());
        self.sum(0x8B, reg, base, index, disp);
    }

    /// `mov reg, qword gs:[base + disp]`
    pub fn mov_r_gs_mem(&mut self, reg: Reg, base: Reg, disp: i32) {
        self.byte(0x65);
        self.mov_r_mem(reg, base, disp);
    }

    /// `mov qword gs:[base + disp], reg`
    pub fn mov_gs_mem_r(&mut self, base: Reg, disp: i32, reg: Reg) {
        self.byte(0x65);
        self.mov_mem_r(base, disp, reg);
    }

    /// `mov reg32, dword gs:[base + disp]`
    pub fn mov_r32_gs_mem(&mut self, reg: Reg, base: Reg, disp: i32) {
        self.bytes(&[0x65, 0x40 | reg.high() << 2 | base.high(), 0x8B]);
        self.mem(reg, base, disp);
    }

    /// `mov reg32, dword gs:[index*4 + disp]`; `index` is not rsp.
    pub fn mov_r32_gs_index4(&mut self, reg: Reg, index: Reg, disp: i32) {
        self.refuse(index == Reg::Rsp);
        self.bytes(&[0x65, 0x40 | reg.high() << 2 | index.high() << 1]);
        self.bytes(&[0x8B, reg.low() << 3 | 4, 0x85 | index.low() << 3]);
        self.dword(disp as u32);
    }

    /// `mov reg32, dword gs:[disp]`
    pub fn mov_r32_gs(&mut self, reg: Reg, disp: i32) {
        self.byte(0x65);
        if reg.high() != 0 {
            self.byte(0x44);
        }
        self.byte(0x8B);
        self.absolute(reg.low(), disp);
    }

    /// `add qword gs:[disp], imm8/imm32` (writes flags)
    pub fn add_gs_imm(&mut self, disp: i32, imm: i32) {
        self.bytes(&[0x65, 0x48]);
        if (-128..=127).contains(&imm) {
            self.byte(0x83);
            self.absolute(0, disp);
            self.byte(imm as u8);
        } else {
            self.byte(0x81);
            self.absolute(0, disp);
            self.dword(imm as u32);
        }
    }

    /// `rdfsbase reg`
    pub fn rdfsbase(&mut self, reg: Reg) {
        self.fs_base(reg, 0);
    }

    /// `wrfsbase reg`
    pub fn wrfsbase(&mut self, reg: Reg) {
        self.fs_base(reg, 2);
    }

    fn fs_base(&mut self, reg: Reg, operation: u8) {
        self.bytes(&[0xF3, 0x48 | reg.high()]);
        self.bytes(&[0x0F, 0xAE, 0xC0 | operation << 3 | reg.low()]);
    }
}
