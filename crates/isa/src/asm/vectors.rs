//! Moves from vector and mask registers, without flags: what a memory trace records of masks and
//! vectors of indices.

use super::Asm;
use crate::Reg;

impl Asm<'_> {
    /// `kmovq reg, k`; the caller knows the machine has AVX512BW. With `word`, `kmovw reg32, k`.
    pub fn mov_r_opmask(&mut self, reg: Reg, opmask: u8, word: bool) {
        let inverted = (1 - reg.high()) << 7;
        let code = match word {
            true => [0xC4, inverted | 0x61, 0x78, 0x93],
            false => [0xC4, inverted | 0x61, 0xFB, 0x93],
        };
        self.bytes(&code);
        self.byte(0xC0 | reg.low() << 3 | opmask);
    }

    /// Highest bits of the elements of a vector register: `vmovmskps`, `vmovmskpd`, or, of
    /// 16 bytes, `pmovmskb`; `size` is an element's. `vector` is one of the first sixteen.
    pub fn mov_r_signs(&mut self, reg: Reg, vector: u8, size: u8) {
        self.refuse(vector > 15);
        let (r, b) = (reg.high(), vector >> 3);
        let inverted = (1 - r) << 7 | 1 << 6 | (1 - b) << 5 | 1;
        match size {
            1 => self.bytes(&[0x66, 0x40 | r << 2 | b, 0x0F, 0xD7]),
            4 => self.bytes(&[0xC4, inverted, 0x7C, 0x50]),
            _ => self.bytes(&[0xC4, inverted, 0x7D, 0x50]),
        }
        self.byte(0xC0 | reg.low() << 3 | vector & 7);
    }

    /// `pmovmskb reg32, mm`
    pub fn mov_r_mmx_signs(&mut self, reg: Reg, mmx: u8) {
        self.bytes(&[0x40 | reg.high() << 2, 0x0F, 0xD7]);
        self.byte(0xC0 | reg.low() << 3 | mmx);
    }

    /// `movups [base + disp], xmm`, of the first sixteen.
    pub fn mov_mem_xmm(&mut self, base: Reg, disp: i32, vector: u8) {
        self.refuse(vector > 15);
        self.bytes(&[0x40 | vector >> 3 << 2 | base.high(), 0x0F, 0x11]);
        self.byte(0x80 | (vector & 7) << 3 | base.low());
        if base.low() == 4 {
            self.byte(0x24);
        }
        self.dword(disp as u32);
    }

    /// `reg = [base + disp]`, of 1, 2, 4 or 8 bytes, and no more than these.
    pub fn mov_r_mem_sized(&mut self, reg: Reg, base: Reg, disp: u8, size: u8) {
        let rex = 0x40 | reg.high() << 2 | base.high();
        match size {
            1 => self.bytes(&[rex, 0x0F, 0xB6]),
            2 => self.bytes(&[rex, 0x0F, 0xB7]),
            4 => self.bytes(&[rex, 0x8B]),
            _ => self.bytes(&[rex | 8, 0x8B]),
        }
        self.mem(reg, base, disp.into());
    }

    /// `vmovdqu64 gs:[disp], zmm`
    pub fn mov_gs_vector(&mut self, disp: i32, vector: u8) {
        self.vector_gs(0x7F, vector, disp);
    }

    /// `vmovdqu64 zmm, gs:[disp]`
    pub fn mov_vector_gs(&mut self, vector: u8, disp: i32) {
        self.vector_gs(0x6F, vector, disp);
    }

    fn vector_gs(&mut self, opcode: u8, vector: u8, disp: i32) {
        let (r, upper) = (1 - (vector >> 3 & 1), 1 - (vector >> 4));
        self.byte(0x65);
        self.bytes(&[0x62, r << 7 | 3 << 5 | upper << 4 | 1, 0xFE, 0x48, opcode]);
        self.absolute(vector & 7, disp);
    }

    /// `vmovdqu8`, `16`, `32` or `64` from `[base]` to a vector register, with zeros for the
    /// elements whose bit in the mask register is not set. The first two need AVX512BW; sizes
    /// below 64 bytes AVX512VL.
    pub fn mov_vector_mem_masked(
        &mut self,
        vector: u8,
        base: Reg,
        opmask: u8,
        [element, size]: [u8; 2],
    ) {
        let (r, upper) = (1 - (vector >> 3 & 1), 1 - (vector >> 4));
        let b = 1 - base.high();
        let prefix = if element < 4 { 3 } else { 2 };
        let wide_element = u8::from(matches!(element, 2 | 8));
        let length = size.ilog2() as u8 - 4;
        self.bytes(&[
            0x62,
            r << 7 | 1 << 6 | b << 5 | upper << 4 | 1,
            wide_element << 7 | 0x7C | prefix,
            0x88 | length << 5 | opmask,
            0x6F,
        ]);
        // A displacement of 8 bits would be scaled.
        self.byte(0x80 | (vector & 7) << 3 | base.low());
        if base.low() == 4 {
            self.byte(0x24);
        }
        self.dword(0);
    }

    /// `vmovdqu [base + disp], ymm`, of the first sixteen; with `wide`, `vmovdqu64 [...], zmm`.
    pub fn mov_mem_vector(&mut self, base: Reg, disp: i32, vector: u8, wide: bool) {
        self.refuse(vector > if wide { 31 } else { 15 });
        let b = 1 - base.high();
        let r = 1 - (vector >> 3 & 1);
        if wide {
            let upper = 1 - (vector >> 4);
            self.bytes(&[
                0x62,
                r << 7 | 1 << 6 | b << 5 | upper << 4 | 1,
                0xFE,
                0x48,
                0x7F,
            ]);
        } else {
            self.bytes(&[0xC4, r << 7 | 1 << 6 | b << 5 | 1, 0x7E, 0x7F]);
        }
        // A displacement of 8 bits would be scaled with EVEX.
        self.byte(0x80 | (vector & 7) << 3 | base.low());
        if base.low() == 4 {
            self.byte(0x24);
        }
        self.dword(disp as u32);
    }
}
