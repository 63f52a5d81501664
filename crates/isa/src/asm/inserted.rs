//! Forms that code which is inserted into a program needs: flags kept in a register, single words and bytes of a thread, and
//! comparisons.

use super::Asm;
use crate::Reg;

impl Asm<'_> {
    /// `mov dst, src`
    pub fn mov_r_r(&mut self, dst: Reg, src: Reg) {
        self.rex_w(src, 0, dst.high());
        self.bytes(&[0x89, 0xC0 | src.low() << 3 | dst.low()]);
    }

    /// `lahf`: SF, ZF, AF, PF and CF to ah.
    pub fn lahf(&mut self) {
        self.byte(0x9F);
    }

    /// `sahf`: the same from ah; OF stays.
    pub fn sahf(&mut self) {
        self.byte(0x9E);
    }

    /// `seto al`
    pub fn seto_al(&mut self) {
        self.bytes(&[0x0F, 0x90, 0xC0]);
    }

    /// `add al, imm8` (writes flags)
    pub fn add_al_imm(&mut self, imm: u8) {
        self.bytes(&[0x04, imm]);
    }

    /// `inc qword gs:[disp]`: CF stays.
    pub fn inc_gs(&mut self, disp: i32) {
        self.bytes(&[0x65, 0x48, 0xFF]);
        self.absolute(0, disp);
    }

    /// `dec qword gs:[disp]`: CF stays.
    pub fn dec_gs(&mut self, disp: i32) {
        self.bytes(&[0x65, 0x48, 0xFF]);
        self.absolute(1, disp);
    }

    /// `inc byte gs:[disp]`: CF stays.
    pub fn inc_gs8(&mut self, disp: i32) {
        self.bytes(&[0x65, 0xFE]);
        self.absolute(0, disp);
    }

    /// `mov byte gs:[disp], imm8`
    pub fn mov_gs_imm8(&mut self, disp: i32, imm: u8) {
        self.bytes(&[0x65, 0xC6]);
        self.absolute(0, disp);
        self.byte(imm);
    }

    /// `xadd qword gs:[disp], reg` (writes flags)
    pub fn xadd_gs_r(&mut self, disp: i32, reg: Reg) {
        self.byte(0x65);
        self.rex_w(reg, 0, 0);
        self.bytes(&[0x0F, 0xC1]);
        self.absolute(reg.low(), disp);
    }

    /// `mov byte gs:[base + disp], imm8`
    pub fn mov_gs_mem_imm8(&mut self, base: Reg, disp: i32, imm: u8) {
        self.byte(0x65);
        self.rex(Reg::Rax, base);
        self.byte(0xC6);
        self.mem(Reg::Rax, base, disp);
        self.byte(imm);
    }

    /// `mov word gs:[base + disp], imm16`
    pub fn mov_gs_mem_imm16(&mut self, base: Reg, disp: i32, imm: u16) {
        self.bytes(&[0x65, 0x66]);
        self.rex(Reg::Rax, base);
        self.byte(0xC7);
        self.mem(Reg::Rax, base, disp);
        self.bytes(&imm.to_le_bytes());
    }

    /// `mov dword gs:[base + disp], imm32`
    pub fn mov_gs_mem_imm32(&mut self, base: Reg, disp: i32, imm: u32) {
        self.byte(0x65);
        self.rex(Reg::Rax, base);
        self.byte(0xC7);
        self.mem(Reg::Rax, base, disp);
        self.dword(imm);
    }

    /// `mov byte gs:[base + disp], reg8`
    pub fn mov_gs_mem_r8(&mut self, base: Reg, disp: i32, reg: Reg) {
        // Without a prefix, numbers from 4 on are ah to bh.
        self.bytes(&[0x65, 0x40 | reg.high() << 2 | base.high(), 0x88]);
        self.mem(reg, base, disp);
    }

    /// `mov word gs:[base + disp], reg16`
    pub fn mov_gs_mem_r16(&mut self, base: Reg, disp: i32, reg: Reg) {
        self.byte(0x66);
        self.mov_gs_mem_r32(base, disp, reg);
    }

    /// `mov dword gs:[base + disp], reg32`
    pub fn mov_gs_mem_r32(&mut self, base: Reg, disp: i32, reg: Reg) {
        self.bytes(&[0x65, 0x40 | reg.high() << 2 | base.high(), 0x89]);
        self.mem(reg, base, disp);
    }

    /// `cmp byte gs:[disp], imm8` (writes flags)
    pub fn cmp_gs_imm8(&mut self, disp: i32, imm: u8) {
        self.bytes(&[0x65, 0x80]);
        self.absolute(7, disp);
        self.byte(imm);
    }

    /// `cmp qword gs:[base + disp], reg` (writes flags)
    pub fn cmp_gs_mem_r(&mut self, base: Reg, disp: i32, reg: Reg) {
        self.byte(0x65);
        self.rex(reg, base);
        self.byte(0x39);
        self.mem(reg, base, disp);
    }

    /// `cmp reg, qword [base + disp]` (writes flags)
    pub fn cmp_r_mem(&mut self, reg: Reg, base: Reg, disp: i32) {
        self.rex(reg, base);
        self.byte(0x3B);
        self.mem(reg, base, disp);
    }

    /// `inc qword [base]`: CF stays.
    pub fn inc_mem(&mut self, base: Reg) {
        self.rex(Reg::Rax, base);
        self.byte(0xFF);
        self.mem(Reg::Rax, base, 0);
    }

    /// `cmp dst, src` (writes flags)
    pub fn cmp_r_r(&mut self, dst: Reg, src: Reg) {
        self.rex_w(src, 0, dst.high());
        self.bytes(&[0x39, 0xC0 | src.low() << 3 | dst.low()]);
    }

    /// `cmp reg32, imm32` (writes flags)
    pub fn cmp_r32_imm(&mut self, reg: Reg, imm: u32) {
        self.bytes(&[0x40 | reg.high(), 0x81, 0xF8 | reg.low()]);
        self.dword(imm);
    }

    /// `imul reg, qword gs:[disp]` (writes flags)
    pub fn imul_r_gs(&mut self, reg: Reg, disp: i32) {
        self.byte(0x65);
        self.rex_w(reg, 0, 0);
        self.bytes(&[0x0F, 0xAF]);
        self.absolute(reg.low(), disp);
    }

    /// `add reg, qword gs:[disp]` (writes flags)
    pub fn add_r_gs(&mut self, reg: Reg, disp: i32) {
        self.byte(0x65);
        self.rex_w(reg, 0, 0);
        self.byte(0x03);
        self.absolute(reg.low(), disp);
    }

    /// `add reg, qword fs:[disp]` (writes flags)
    pub fn add_r_fs(&mut self, reg: Reg, disp: i32) {
        self.byte(0x64);
        self.rex_w(reg, 0, 0);
        self.byte(0x03);
        self.absolute(reg.low(), disp);
    }

    /// `add dst, src` (writes flags)
    pub fn add_r_r(&mut self, dst: Reg, src: Reg) {
        self.rex_w(src, 0, dst.high());
        self.bytes(&[0x01, 0xC0 | src.low() << 3 | dst.low()]);
    }

    /// `test dst, src` (writes flags)
    pub fn test_r_r(&mut self, dst: Reg, src: Reg) {
        self.rex_w(src, 0, dst.high());
        self.bytes(&[0x85, 0xC0 | src.low() << 3 | dst.low()]);
    }

    /// `cmp reg, qword gs:[disp]` (writes flags)
    pub fn cmp_r_gs(&mut self, reg: Reg, disp: i32) {
        self.byte(0x65);
        self.rex_w(reg, 0, 0);
        self.byte(0x3B);
        self.absolute(reg.low(), disp);
    }

    /// `mov reg, qword fs:[disp]`
    pub fn mov_r_fs(&mut self, reg: Reg, disp: i32) {
        self.byte(0x64);
        self.rex_w(reg, 0, 0);
        self.byte(0x8B);
        self.absolute(reg.low(), disp);
    }

    /// `cmp dword [rip -> target], imm8`, sign extended (writes flags)
    pub fn cmp_mem_rip_imm8(&mut self, target: u64, imm: u8) {
        self.bytes(&[0x83, 0x3D]);
        // The immediate stands behind the displacement.
        self.rel32(target.wrapping_sub(1));
        self.byte(imm);
    }

    /// `jcc rel8` to a target that is known to be near.
    pub fn jcc_near(&mut self, cc: super::Cc, target: u64) {
        self.byte(0x70 | cc.0);
        self.rel8(target);
    }

    /// `jcc rel8` forward, to where [`Asm::bind`] is called.
    pub fn jcc_short(&mut self, cc: super::Cc) -> super::Short {
        self.bytes(&[0x70 | cc.0, 0]);
        super::Short(self.len)
    }
}
