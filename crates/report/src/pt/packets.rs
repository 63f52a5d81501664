//! Packets of Intel Processor Trace as bytes (Intel SDM, vol. 3, "Packet Definitions").
//!
//! Invariant: outcomes come before whatever was asked for after them.

use std::io::{self, Write};

/// Packets with an address, by the low five bits of their first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tip {
    /// TIP: an indirect branch went there.
    To = 0x0d,
    /// TIP.PGE: tracing begins there.
    Enable = 0x11,
    /// TIP.PGD: tracing ends; with an address, by the branch that goes there.
    Disable = 0x01,
    /// FUP: what happened, happened there.
    From = 0x1d,
}

const PSB: [u8; 16] = [
    0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82,
];
/// MODE.Exec: 64 bits.
const MODE: [u8; 2] = [0x99, 0x01];
const PSBEND: [u8; 2] = [0x02, 0x23];
/// PTWRITE with 4 bytes, followed by a FUP.
const PTWRITE: [u8; 2] = [0x02, 0x92];
/// Outcomes that a byte holds.
const PER_BYTE: u32 = 6;

pub(super) struct Packets<'a> {
    out: &'a mut dyn Write,
    buffer: Vec<u8>,
    flushed: u64,
    /// Outcomes that wait, behind a 1.
    outcomes: u8,
    count: u32,
    last_ip: u64,
}

impl<'a> Packets<'a> {
    pub fn new(out: &'a mut dyn Write) -> Packets<'a> {
        Packets {
            out,
            buffer: Vec::new(),
            flushed: 0,
            outcomes: 1,
            count: 0,
            last_ip: 0,
        }
    }

    /// Bytes so far.
    pub fn len(&self) -> u64 {
        self.flushed + self.buffer.len() as u64
    }

    /// A place where a decoder may begin; the address, if tracing is on.
    pub fn sync(&mut self, pc: Option<u64>) -> io::Result<()> {
        self.put(&PSB)?;
        self.last_ip = 0;
        self.put(&MODE)?;
        if let Some(pc) = pc {
            self.tip(Tip::From, Some(pc))?;
        }
        self.put(&PSBEND)
    }

    pub fn bit(&mut self, taken: bool) -> io::Result<()> {
        self.outcomes = self.outcomes << 1 | u8::from(taken);
        self.count += 1;
        match self.count {
            PER_BYTE => self.put(&[]),
            _ => Ok(()),
        }
    }

    pub fn tip(&mut self, kind: Tip, pc: Option<u64>) -> io::Result<()> {
        let Some(pc) = pc else {
            return self.put(&[kind as u8]);
        };
        let same = self.last_ip ^ pc;
        let extended = (pc as i64) << 16 >> 16;
        let (code, len) = match () {
            () if same >> 16 == 0 => (1, 2),
            () if same >> 32 == 0 => (2, 4),
            () if extended as u64 == pc => (3, 6),
            () => (6, 8),
        };
        self.last_ip = pc;
        let mut bytes = [0; 9];
        bytes[0] = kind as u8 | code << 5;
        bytes[1..].copy_from_slice(&pc.to_le_bytes());
        self.put(&bytes[..=len])
    }

    /// A number, before what is executed at an address.
    pub fn payload(&mut self, number: u32, pc: u64) -> io::Result<()> {
        self.put(&PTWRITE)?;
        self.put(&number.to_le_bytes())?;
        self.tip(Tip::From, Some(pc))
    }

    pub fn finish(mut self) -> io::Result<()> {
        self.put(&[])?;
        self.out.write_all(&self.buffer)
    }

    /// Appends a packet after flushing pending TNT bits.
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.count > 0 {
            self.buffer.push(self.outcomes << 1);
            (self.outcomes, self.count) = (1, 0);
        }
        self.buffer.extend(bytes);
        if self.buffer.len() >= 1 << 16 {
            self.out.write_all(&self.buffer)?;
            self.flushed += self.buffer.len() as u64;
            self.buffer.clear();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand from the manual.
    #[test]
    fn packets_are_those_of_the_manual() {
        let mut out = Vec::new();
        let mut packets = Packets::new(&mut out);
        packets.sync(None).unwrap();
        packets.tip(Tip::Enable, Some(0x40_1000)).unwrap();
        for taken in [true, false, true] {
            packets.bit(taken).unwrap();
        }
        packets.tip(Tip::To, Some(0x40_1234)).unwrap();
        packets.tip(Tip::To, Some(0x7fff_1234_5678)).unwrap();
        packets.tip(Tip::From, Some(0xffff_ffff_ff60_0000)).unwrap();
        packets.tip(Tip::To, Some(0x8000_0000_0000_0000)).unwrap();
        packets.tip(Tip::Disable, None).unwrap();
        packets.finish().unwrap();
        let expected = [
            &[0x99, 0x01, 0x02, 0x23][..],
            &[0x51, 0x00, 0x10, 0x40, 0x00],
            &[0b0001_1010],
            &[0x2d, 0x34, 0x12],
            &[0x6d, 0x78, 0x56, 0x34, 0x12, 0xff, 0x7f],
            &[0x7d, 0x00, 0x00, 0x60, 0xff, 0xff, 0xff],
            &[0xcd, 0, 0, 0, 0, 0, 0, 0, 0x80],
            &[0x01],
        ];
        assert_eq!(out[16..], expected.concat());
    }
}
