//! Code that counts what is as expected, and goes to a routine otherwise.

use isa::{Cc, Reg};

use super::{LINK, Lowering};
use crate::{Byte, Forecast, NoScratch, Op, Sink, Symbol, Value, Word};

/// A routine, and its facts.
type Otherwise = (Symbol, [u32; 4]);

impl<'a, S: Sink<'a>> Lowering<'_, S> {
    /// An [`Op::Again`] or [`Op::Expect`].
    pub(super) fn expected(&mut self, op: Op) -> Result<(), NoScratch> {
        match op {
            Op::Again {
                byte,
                word,
                routine,
                facts,
            } => self.again(byte, word, (routine, facts)),
            Op::Expect {
                value,
                forecast,
                routine,
                facts,
            } => self.expect(value, forecast, (routine, facts))?,
            _ => return Err(NoScratch),
        }
        Ok(())
    }

    fn again(&mut self, byte: Byte, word: Word, otherwise: Otherwise) {
        self.keep_flags(isa::Flags::ALL);
        self.out.asm().cmp_gs_imm8(byte.0.cast_signed(), 0);
        let no = self.out.asm().jcc_short(Cc(4));
        self.add_one(word);
        let over = self.out.asm().jmp_short();
        self.out.asm().bind(no);
        self.look(otherwise.0, otherwise.1);
        self.out.asm().bind(over);
    }

    fn expect(
        &mut self,
        value: Value,
        forecast: Forecast,
        otherwise: Otherwise,
    ) -> Result<(), NoScratch> {
        let Value::Memory {
            is_thread,
            base,
            index,
            displacement,
        } = value
        else {
            return Err(NoScratch);
        };
        self.keep_flags(isa::Flags::ALL);
        let base = base.map(|base| self.place(base)).transpose()?;
        let index = index.map(|(index, scale)| Ok((self.place(index)?, scale)));
        let index: Option<(Reg, u8)> = index.transpose()?;
        let asm = self.out.asm();
        asm.mov_r_gs(LINK, forecast.number.0.cast_signed());
        asm.imul_r_gs(LINK, forecast.step.0.cast_signed());
        asm.add_r_gs(LINK, forecast.less.0.cast_signed());
        if index.is_some() || displacement != 0 {
            asm.lea_any(LINK, Some(LINK), index, displacement, false);
        }
        if is_thread {
            asm.add_r_fs(LINK, 0);
        }
        match base {
            Some(base) => asm.add_r_r(LINK, base),
            None => asm.test_r_r(LINK, LINK),
        }
        let no = self.out.asm().jcc_short(Cc(5));
        self.add_one(forecast.counts[0]);
        let over = self.out.asm().jmp_short();
        self.out.asm().bind(no);
        let is_made = forecast.is_made.0.cast_signed();
        self.out.asm().cmp_gs_imm8(is_made, 0);
        let none = self.out.asm().jcc_short(Cc(4));
        self.add_one(forecast.counts[1]);
        let behind = self.out.asm().jmp_short();
        self.out.asm().bind(none);
        self.look(otherwise.0, otherwise.1);
        self.out.asm().bind(behind);
        self.out.asm().bind(over);
        Ok(())
    }

    /// Adds 1 to a word, and gives back flags on this way.
    fn add_one(&mut self, word: Word) {
        self.out.asm().inc_gs(word.0.cast_signed());
        self.give_back_flags();
    }
}
