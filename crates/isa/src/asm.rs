//! A small assembler: the instruction forms that the engine emits, and no more.
//!
//! Each method is one form of the manual; its name is `mnemonic_operands`.
//! Bytes go to a slice that stands for memory at `origin`, so rip-relative
//! forms can be given absolute targets. Overflowing the slice sets a flag
//! instead of writing ([`Asm::overflowed`]); the caller starts again elsewhere.

mod inserted;
mod segments;
mod vectors;

use crate::Reg;
use crate::insn::KEPT;

/// Condition codes (Intel SDM vol. 2, appendix B, table B-10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cc(pub u8);

impl Cc {
    /// The condition that holds where this one does not.
    pub fn inverted(self) -> Cc {
        Cc(self.0 ^ 1)
    }
}

/// A forward 8-bit jump whose target is not yet known.
#[must_use]
#[derive(Debug)]
pub struct Short(usize);

#[derive(Debug)]
pub struct Asm<'a> {
    out: &'a mut [u8],
    origin: u64,
    len: usize,
    overflow: bool,
}

impl<'a> Asm<'a> {
    /// Emits into `out`, which will run at `origin`.
    pub fn new(out: &'a mut [u8], origin: u64) -> Asm<'a> {
        Asm {
            out,
            origin,
            len: 0,
            overflow: false,
        }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether something did not fit.
    pub fn overflowed(&self) -> bool {
        self.overflow
    }

    /// Address of the next byte.
    pub fn here(&self) -> u64 {
        self.origin + self.len as u64
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        match self.out.get_mut(self.len..self.len + bytes.len()) {
            Some(room) => room.copy_from_slice(bytes),
            None => {
                self.overflow = true;
                return;
            }
        }
        self.len += bytes.len();
    }

    /// The first `len` of `bytes`: a program's instruction. Others are written behind them, too, where there is room.
    pub fn first_bytes(&mut self, bytes: &[u8; KEPT], len: usize) {
        match self.out.get_mut(self.len..self.len + KEPT) {
            Some(room) => {
                room.copy_from_slice(bytes);
                self.len += len;
            }
            None => self.bytes(&bytes[..len]),
        }
    }

    fn byte(&mut self, byte: u8) {
        self.some([byte]);
    }

    fn dword(&mut self, value: u32) {
        self.some(value.to_le_bytes());
    }

    /// As [`Self::bytes`], of a number that the compiler knows.
    fn some<const N: usize>(&mut self, bytes: [u8; N]) {
        match self
            .out
            .get_mut(self.len..)
            .and_then(<[u8]>::first_chunk_mut)
        {
            Some(room) => *room = bytes,
            None => {
                self.overflow = true;
                return;
            }
        }
        self.len += N;
    }

    /// `rel32` to an absolute target, as the last four bytes of an instruction.
    fn rel32(&mut self, target: u64) {
        let distance = target.wrapping_sub(self.here() + 4) as i64;
        if distance != i64::from(distance as i32) {
            self.overflow = true;
        }
        self.dword(distance as u32);
    }

    /// `rel8` to an absolute target, as the last byte of an instruction.
    fn rel8(&mut self, target: u64) {
        let distance = target.wrapping_sub(self.here() + 1) as i64;
        match i8::try_from(distance) {
            Ok(distance) => self.byte(distance as u8),
            Err(_) => self.overflow = true,
        }
    }

    /// Operands that have no encoding: nothing that is emitted may be executed.
    fn refuse(&mut self, is_impossible: bool) {
        debug_assert!(!is_impossible, "operands without an encoding");
        self.overflow |= is_impossible;
    }

    fn rex_w(&mut self, reg: Reg, index: u8, base: u8) {
        self.byte(0x48 | reg.high() << 2 | index << 1 | base);
    }

    /// A prefix for operands of 32 bits or less, if they need one.
    fn rex(&mut self, reg: Reg, base: Reg) {
        let bits = reg.high() << 2 | base.high();
        if bits != 0 {
            self.byte(0x40 | bits);
        }
    }

    /// ModRM (and SIB) for `[base + disp]`.
    fn mem(&mut self, reg: Reg, base: Reg, disp: i32) {
        let need_sib = base.low() == 4;
        let (mode, small) = match disp {
            0 if base.low() != 5 => (0x00, true),
            -128..=127 => (0x40, true),
            _ => (0x80, false),
        };
        self.byte(mode | reg.low() << 3 | base.low());
        if need_sib {
            self.byte(0x24);
        }
        match (mode, small) {
            (0x00, _) => {}
            (_, true) => self.byte(disp as u8),
            _ => self.dword(disp as u32),
        }
    }

    /// ModRM and SIB for `gs:[disp32]` (no base, no index).
    fn absolute(&mut self, reg: u8, disp: i32) {
        self.byte(reg << 3 | 4);
        self.byte(0x25);
        self.dword(disp as u32);
    }

    // ---- moves and address arithmetic, all flag-free ----------------------

    /// `mov dst32, src32` (zero-extends)
    pub fn mov_r32_r32(&mut self, dst: Reg, src: Reg) {
        self.byte(0x40 | src.high() << 2 | dst.high());
        self.bytes(&[0x89, 0xC0 | src.low() << 3 | dst.low()]);
    }

    /// Shortest of `mov r32, imm32`, `mov r64, simm32`, `mov r64, imm64`.
    pub fn mov_r_imm(&mut self, reg: Reg, imm: u64) {
        if let Ok(small) = u32::try_from(imm) {
            if reg.high() == 1 {
                self.byte(0x41);
            }
            self.byte(0xB8 | reg.low());
            self.dword(small);
        } else if imm as i64 == i64::from(imm as i32) {
            self.byte(0x48 | reg.high());
            self.bytes(&[0xC7, 0xC0 | reg.low()]);
            self.dword(imm as u32);
        } else {
            self.byte(0x48 | reg.high());
            self.byte(0xB8 | reg.low());
            self.bytes(&imm.to_le_bytes());
        }
    }

    /// `mov reg, [base + disp]`
    pub fn mov_r_mem(&mut self, reg: Reg, base: Reg, disp: i32) {
        self.rex_w(reg, 0, base.high());
        self.byte(0x8B);
        self.mem(reg, base, disp);
    }

    /// `mov dword [base + disp], reg32`
    pub fn mov_mem_r32(&mut self, base: Reg, disp: i8, reg: Reg) {
        self.rex(reg, base);
        self.byte(0x89);
        self.mem(reg, base, disp.into());
    }

    /// `mov reg32, [base]`
    pub fn mov_r32_mem(&mut self, reg: Reg, base: Reg) {
        self.rex(reg, base);
        self.byte(0x8B);
        self.mem(reg, base, 0);
    }

    /// `xchg [base], reg32`, which is atomic.
    pub fn xchg_mem_r32(&mut self, base: Reg, reg: Reg) {
        self.rex(reg, base);
        self.byte(0x87);
        self.mem(reg, base, 0);
    }

    /// `mov [base + disp], reg`
    pub fn mov_mem_r(&mut self, base: Reg, disp: i32, reg: Reg) {
        self.rex_w(reg, 0, base.high());
        self.byte(0x89);
        self.mem(reg, base, disp);
    }

    /// `mov byte [base + disp], imm`
    pub fn mov_mem_imm8(&mut self, base: Reg, disp: i8, imm: u8) {
        self.rex(Reg::Rax, base);
        self.byte(0xC6);
        self.mem(Reg::Rax, base, disp.into());
        self.byte(imm);
    }

    /// `mov word [base + disp], imm`
    pub fn mov_mem_imm16(&mut self, base: Reg, disp: i8, imm: u16) {
        self.byte(0x66);
        self.rex(Reg::Rax, base);
        self.byte(0xC7);
        self.mem(Reg::Rax, base, disp.into());
        self.bytes(&imm.to_le_bytes());
    }

    /// `mov dword [base + disp], imm`
    pub fn mov_mem_imm32(&mut self, base: Reg, disp: i8, imm: u32) {
        self.rex(Reg::Rax, base);
        self.byte(0xC7);
        self.mem(Reg::Rax, base, disp.into());
        self.dword(imm);
    }

    /// `mov word [base + disp], reg16`
    pub fn mov_mem_r16(&mut self, base: Reg, disp: i8, reg: Reg) {
        self.byte(0x66);
        self.rex(reg, base);
        self.byte(0x89);
        self.mem(reg, base, disp.into());
    }

    /// `lea reg, [base + disp]`
    pub fn lea(&mut self, reg: Reg, base: Reg, disp: i32) {
        self.rex_w(reg, 0, base.high());
        self.byte(0x8D);
        self.mem(reg, base, disp);
    }

    /// `lea reg, [base + index + disp8]`; `index` is not rsp.
    pub fn lea_sum(&mut self, reg: Reg, base: Reg, index: Reg, disp: i8) {
        self.refuse(index == Reg::Rsp);
        self.rex_w(reg, index.high(), base.high());
        self.sum(0x8D, reg, base, index, disp);
    }

    /// `lea reg, [base + index * scale + disp32]`, with 32-bit addresses if `short`. `index` is not
    /// rsp; without a base, the displacement is sign extended.
    pub fn lea_any(
        &mut self,
        reg: Reg,
        base: Option<Reg>,
        index: Option<(Reg, u8)>,
        disp: i32,
        short: bool,
    ) {
        if short {
            self.byte(0x67);
        }
        self.any(0x8D, reg, base, index, disp);
    }

    /// `mov reg, [base + index * scale + disp32]`, as for [`Asm::lea_any`]; of `%fs`, if it is a thread's.
    pub fn mov_r_any(
        &mut self,
        reg: Reg,
        is_thread: bool,
        (base, index, disp): (Option<Reg>, Option<(Reg, u8)>, i32),
    ) {
        if is_thread {
            self.byte(0x64);
        }
        self.any(0x8B, reg, base, index, disp);
    }

    /// An opcode with `reg` and `[base + index * scale + disp32]`.
    fn any(
        &mut self,
        opcode: u8,
        reg: Reg,
        base: Option<Reg>,
        index: Option<(Reg, u8)>,
        disp: i32,
    ) {
        self.refuse(index.is_some_and(|(index, _)| index == Reg::Rsp));
        let high = |reg: Option<Reg>| reg.map_or(0, Reg::high);
        self.rex_w(reg, high(index.map(|(index, _)| index)), high(base));
        // ModRM with SIB; without a base, mod is 0 and the base field 5.
        let mode = if base.is_some() { 0x80 } else { 0 };
        self.bytes(&[opcode, mode | reg.low() << 3 | 4]);
        let (index, scale) = index.map_or((4, 0), |(index, scale)| {
            (index.low(), scale.trailing_zeros() as u8)
        });
        self.byte(scale << 6 | index << 3 | base.map_or(5, Reg::low));
        self.dword(disp as u32);
    }

    /// An opcode with `reg` and `[base + index + disp8]`.
    fn sum(&mut self, opcode: u8, reg: Reg, base: Reg, index: Reg, disp: i8) {
        self.bytes(&[
            opcode,
            0x40 | reg.low() << 3 | 4,
            index.low() << 3 | base.low(),
            disp as u8,
        ]);
    }

    /// `mov reg, [rip + target]`
    pub fn mov_r_rip(&mut self, reg: Reg, target: u64) {
        self.rex_w(reg, 0, 0);
        self.bytes(&[0x8B, reg.low() << 3 | 5]);
        self.rel32(target);
    }

    /// `lea reg, [rip + target]`
    pub fn lea_rip(&mut self, reg: Reg, target: u64) {
        self.rex_w(reg, 0, 0);
        self.bytes(&[0x8D, reg.low() << 3 | 5]);
        self.rel32(target);
    }

    /// `lea reg32, [base + disp32]`; `base` is neither rsp nor r12. Clears the
    /// upper half of `reg`.
    pub fn lea32(&mut self, reg: Reg, base: Reg, disp: u32) {
        self.refuse(base.low() == 4);
        self.byte(0x40 | reg.high() << 2 | base.high());
        self.bytes(&[0x8D, 0x80 | reg.low() << 3 | base.low()]);
        self.dword(disp);
    }

    /// `lea reg32, [base + index + disp8]`; `index` is not rsp.
    pub fn lea_sum32(&mut self, reg: Reg, base: Reg, index: Reg, disp: i8) {
        self.refuse(index == Reg::Rsp);
        self.byte(0x40 | reg.high() << 2 | index.high() << 1 | base.high());
        self.sum(0x8D, reg, base, index, disp);
    }

    /// `lfence`: what comes later waits until what came before was executed.
    pub fn lfence(&mut self) {
        self.bytes(&[0x0F, 0xAE, 0xE8]);
    }

    /// `rdtsc`: to edx:eax.
    pub fn rdtsc(&mut self) {
        self.bytes(&[0x0F, 0x31]);
    }

    /// `not reg`
    pub fn not(&mut self, reg: Reg) {
        self.byte(0x48 | reg.high());
        self.bytes(&[0xF7, 0xD0 | reg.low()]);
    }

    /// `movzx dst32, src16`
    pub fn movzx_r32_r16(&mut self, dst: Reg, src: Reg) {
        self.byte(0x40 | dst.high() << 2 | src.high());
        self.bytes(&[0x0F, 0xB7, 0xC0 | dst.low() << 3 | src.low()]);
    }

    /// `movzx dst32, src8` (low byte)
    pub fn movzx_r32_r8(&mut self, dst: Reg, src: Reg) {
        self.byte(0x40 | dst.high() << 2 | src.high());
        self.bytes(&[0x0F, 0xB6, 0xC0 | dst.low() << 3 | src.low()]);
    }

    /// `bswap reg`
    pub fn bswap(&mut self, reg: Reg) {
        self.byte(0x48 | reg.high());
        self.bytes(&[0x0F, 0xC8 | reg.low()]);
    }

    /// `rorx dst, src, imm8` (BMI2; the caller knows the machine has it)
    pub fn rorx(&mut self, dst: Reg, src: Reg, imm: u8) {
        // VEX.LZ.F2.0F3A.W1 F0 /r ib; R, X, B are stored inverted.
        let rxb = (1 - dst.high()) << 7 | 1 << 6 | (1 - src.high()) << 5;
        self.bytes(&[
            0xC4,
            rxb | 0x03,
            0xFB,
            0xF0,
            0xC0 | dst.low() << 3 | src.low(),
            imm,
        ]);
    }

    // ---- stack ------------------------------------------------------------

    /// `push qword [rip -> target]`
    pub fn push_mem_rip(&mut self, target: u64) {
        self.bytes(&[0xFF, 0x35]);
        self.rel32(target);
    }

    /// `push imm16`: two bytes.
    pub fn push_imm16(&mut self, imm: u16) {
        self.bytes(&[0x66, 0x68]);
        self.bytes(&imm.to_le_bytes());
    }

    /// `movzx reg32, word [base]`
    pub fn movzx_r32_mem16(&mut self, reg: Reg, base: Reg) {
        self.rex(reg, base);
        self.bytes(&[0x0F, 0xB7]);
        self.mem(reg, base, 0);
    }

    /// `push simm32`
    pub fn push_imm32(&mut self, imm: i32) {
        self.byte(0x68);
        self.dword(imm as u32);
    }

    /// `pop reg`
    pub fn pop(&mut self, reg: Reg) {
        if reg.high() == 1 {
            self.byte(0x41);
        }
        self.byte(0x58 | reg.low());
    }

    // ---- control ------------------------------------------------------------

    /// `jmp rel32`; returns the address of its displacement.
    pub fn jmp(&mut self, target: u64) -> u64 {
        self.byte(0xE9);
        let site = self.here();
        self.rel32(target);
        site
    }

    /// `jcc rel32`; returns the address of its displacement.
    pub fn jcc(&mut self, cc: Cc, target: u64) -> u64 {
        self.bytes(&[0x0F, 0x80 | cc.0]);
        let site = self.here();
        self.rel32(target);
        site
    }

    /// Pads so that a displacement `skip` bytes ahead lies within one aligned
    /// 8-byte word and can be stored atomically (AMD APM vol. 2, 7.3.2).
    pub fn align_displacement(&mut self, skip: u64) {
        let over = (self.here() + skip) & 7;
        if over > 4 {
            self.nop((8 - over) as usize);
        }
    }

    /// `jmp qword [index*8 + table]`, table in the low 2 GB; `index` is not rsp.
    pub fn jmp_table(&mut self, index: Reg, table: u32) {
        self.refuse(index == Reg::Rsp);
        if index.high() == 1 {
            self.byte(0x42);
        }
        self.bytes(&[0xFF, 0x24, 0xC5 | index.low() << 3]);
        self.dword(table);
    }

    /// `jmp qword [rip -> slot]`
    pub fn jmp_mem_rip(&mut self, slot: u64) {
        self.bytes(&[0xFF, 0x25]);
        self.rel32(slot);
    }

    /// `jrcxz` forward, to where [`Asm::bind`] is called.
    pub fn jrcxz(&mut self) -> Short {
        self.bytes(&[0xE3, 0]);
        Short(self.len)
    }

    /// `jmp rel8` to a target that is known to be near.
    pub fn jmp_near(&mut self, target: u64) {
        self.byte(0xEB);
        self.rel8(target);
    }

    /// `xbegin; xabort 0` whose fallback is the code behind: a transaction that comes to nothing.
    pub fn xbegin_xabort(&mut self) {
        self.bytes(&[0xC7, 0xF8, 3, 0, 0, 0]);
        self.bytes(&[0xC6, 0xF8, 0]);
    }

    /// `jmp rel8` forward.
    pub fn jmp_short(&mut self) -> Short {
        self.bytes(&[0xEB, 0]);
        Short(self.len)
    }

    /// Makes `jump` land here.
    pub fn bind(&mut self, jump: Short) {
        if self.overflow {
            return;
        }
        match u8::try_from(self.len - jump.0) {
            Ok(distance @ 0..=127) => self.out[jump.0 - 1] = distance,
            _ => self.overflow = true,
        }
    }

    /// Recommended multi-byte nops (Intel SDM vol. 2, NOP, table 4-12).
    pub fn nop(&mut self, count: usize) {
        const NOPS: [&[u8]; 8] = [
            &[],
            &[0x90],
            &[0x66, 0x90],
            &[0x0F, 0x1F, 0x00],
            &[0x0F, 0x1F, 0x40, 0x00],
            &[0x0F, 0x1F, 0x44, 0x00, 0x00],
            &[0x66, 0x0F, 0x1F, 0x44, 0x00, 0x00],
            &[0x0F, 0x1F, 0x80, 0x00, 0x00, 0x00, 0x00],
        ];
        let mut left = count;
        while left > 0 {
            let step = left.min(7);
            self.bytes(NOPS[step]);
            left -= step;
        }
    }
}
