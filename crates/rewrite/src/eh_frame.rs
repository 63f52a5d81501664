//! Unwind tables of an edited file: one `.eh_frame` with all entries of the old one and some for moved code, and the table by
//! which it is searched.
//!
//! An entry of moved code has the instructions of the old one with other advances: the order of the code is the same, so the
//! rows are, too. Entries are copied byte for byte but for pointers relative to their place.
//!
//! Source: LSB Core 5.0, 10.6 (exception frames); DWARF 5, 6.4.

use std::collections::HashMap;
use std::ops::Range;

use image::LinkAddr;

use crate::address::{self, New};
use crate::cursor::Cursor;
use crate::layout::Moved;
use crate::skipped::Why;
use crate::versions::Label;

/// Encodings of pointers: relative to their place, of four bytes with a sign; the same, by a word that holds the address;
/// absolute of four bytes.
const RELATIVE: u8 = 0x1b;
const INDIRECT: u8 = 0x9b;
const ABSOLUTE_FOUR: u8 = 0x03;
const ABSOLUTE: u8 = 0x00;
const OMITTED: u8 = 0xff;
/// An address behind all code.
const ALL: LinkAddr = LinkAddr(u64::MAX);

/// Beginnings of code, and the places of their entries.
pub type Index = Vec<(New, New)>;

/// An entry that many others share.
#[derive(Clone, Copy, Debug)]
struct Cie {
    /// Offsets of the entry.
    start: usize,
    end: usize,
    /// The pointer to the personality, and its encoding.
    personality: Option<(usize, u8)>,
    /// Encoding of pointers to tables of landing pads.
    lsda: u8,
    code_align: u64,
    has_augmentation: bool,
}

/// An entry of a range of code.
#[derive(Clone, Copy, Debug)]
pub struct Fde {
    cie: usize,
    start: usize,
    end: usize,
    /// Its code.
    pub pc: LinkAddr,
    pub len: u64,
    /// The pointer to the table of landing pads, if it has one.
    lsda: Option<usize>,
    /// Offset of its instructions.
    program: usize,
}

/// The old section.
#[derive(Debug)]
pub struct EhFrame<'d> {
    bytes: &'d [u8],
    /// Its address.
    addr: LinkAddr,
    cies: HashMap<usize, Cie>,
    pub fdes: Vec<Fde>,
}

impl<'d> EhFrame<'d> {
    /// Takes apart a section at an address; `None`: something in it is not known.
    pub fn parse(bytes: &'d [u8], addr: LinkAddr) -> Option<EhFrame<'d>> {
        addr.0.checked_add(bytes.len() as u64)?;
        let mut frames = EhFrame {
            bytes,
            addr,
            cies: HashMap::new(),
            fdes: Vec::new(),
        };
        let mut at = 0;
        while at + 4 <= bytes.len() {
            let mut cursor = Cursor { bytes, at };
            let length = cursor.word()?;
            if length == 0 {
                // Its end; static programs have another table behind it.
                at += 4;
                continue;
            }
            if length == u32::MAX {
                return None;
            }
            let end = cursor.at.checked_add(length as usize)?;
            if end > bytes.len() {
                return None;
            }
            let id_at = cursor.at;
            let id = cursor.word()?;
            let mut own = Cursor {
                bytes: &bytes[..end],
                at: cursor.at,
            };
            match id {
                0 => {
                    let cie = frames.cie(&mut own, at, end)?;
                    frames.cies.insert(at, cie);
                }
                _ => {
                    let cie = id_at.checked_sub(id as usize)?;
                    let fde = frames.fde(&mut own, cie, at, end)?;
                    frames.fdes.push(fde);
                }
            }
            at = end;
        }
        Some(frames)
    }

    fn cie(&self, cursor: &mut Cursor<'_>, start: usize, end: usize) -> Option<Cie> {
        let version = cursor.byte()?;
        let name = cursor.at;
        while cursor.byte()? != 0 {}
        let augmentation = &self.bytes[name..cursor.at - 1];
        let code_align = cursor.uleb()?;
        // The alignment of data has a sign, which does not matter here.
        cursor.uleb()?;
        match version {
            1 => u64::from(cursor.byte()?),
            3 => cursor.uleb()?,
            _ => return None,
        };
        let mut cie = Cie {
            start,
            end,
            personality: None,
            lsda: OMITTED,
            code_align,
            has_augmentation: augmentation.first() == Some(&b'z'),
        };
        let mut pointers = None;
        for letter in augmentation {
            match letter {
                b'z' => {
                    cursor.uleb()?;
                }
                b'L' => cie.lsda = cursor.byte()?,
                b'R' => pointers = cursor.byte(),
                b'P' => {
                    let encoding = cursor.byte()?;
                    cie.personality = Some((cursor.at, encoding));
                    cursor.skip(match encoding {
                        RELATIVE | INDIRECT | ABSOLUTE_FOUR => 4,
                        ABSOLUTE => 8,
                        _ => return None,
                    })?;
                }
                b'S' | b'B' => {}
                _ => return None,
            }
        }
        (pointers == Some(RELATIVE)).then_some(cie)
    }

    fn fde(&self, cursor: &mut Cursor<'_>, cie: usize, start: usize, end: usize) -> Option<Fde> {
        let shared = self.cies.get(&cie)?;
        let place = self.addr + cursor.at as u64;
        let distance = i64::from(cursor.word()? as i32);
        let pc = LinkAddr(place.0.wrapping_add_signed(distance));
        let len = u64::from(cursor.word()?);
        pc.0.checked_add(len)?;
        let mut lsda = None;
        if shared.has_augmentation {
            let size = cursor.uleb()?;
            let data = cursor.at;
            match shared.lsda {
                OMITTED => {}
                RELATIVE | ABSOLUTE_FOUR => lsda = Some(data).filter(|_| size >= 4),
                ABSOLUTE => lsda = Some(data).filter(|_| size >= 8),
                _ => return None,
            }
            cursor.skip(size)?;
        }
        let size = if shared.lsda == ABSOLUTE { 8 } else { 4 };
        // A pointer of zeros is none.
        let lsda = lsda.filter(|&at| self.bytes[at..at + size].iter().any(|&byte| byte != 0));
        Some(Fde {
            cie,
            start,
            end,
            pc,
            len,
            lsda,
            program: cursor.at,
        })
    }

    /// Address of the table of landing pads of a range of code.
    pub fn lsda(&self, fde: &Fde) -> Option<LinkAddr> {
        let at = fde.lsda?;
        let four = || {
            let bytes = self.bytes[at..at + 4].first_chunk();
            u32::from_le_bytes(bytes.copied().unwrap_or_default())
        };
        let addr = match self.cies[&fde.cie].lsda {
            ABSOLUTE_FOUR => u64::from(four()),
            ABSOLUTE => {
                let bytes = self.bytes[at..at + 8].first_chunk();
                u64::from_le_bytes(bytes.copied().unwrap_or_default())
            }
            _ => {
                let place = self.addr + at as u64;
                place.0.wrapping_add_signed(i64::from(four() as i32))
            }
        };
        Some(LinkAddr(addr))
    }

    /// Whether the instructions of an entry can be written for moved code.
    pub fn is_known(&self, fde: &Fde) -> bool {
        let stays = |pc| Some(New::of_old(pc));
        self.program(fde, &stays, ALL).is_some()
    }

    /// Instructions of an entry with the advances that the new addresses need, as far as they are of code up to `last`.
    // Long function: the table of instructions.
    fn program(
        &self,
        fde: &Fde,
        new_of: &dyn Fn(LinkAddr) -> Option<New>,
        last: LinkAddr,
    ) -> Option<Vec<u8>> {
        let cie = &self.cies[&fde.cie];
        let mut cursor = Cursor {
            bytes: &self.bytes[..fde.end],
            at: fde.program,
        };
        let mut out = Vec::new();
        let (mut old, mut new) = (fde.pc, new_of(fde.pc)?);
        while cursor.at < fde.end {
            let from = cursor.at;
            let opcode = cursor.byte()?;
            let advance = match opcode {
                0x40..=0x7f => Some(u64::from(opcode & 0x3f)),
                0x02 => Some(u64::from(cursor.byte()?)),
                0x03 => Some(u64::from(u16::from_le_bytes([
                    cursor.byte()?,
                    cursor.byte()?,
                ]))),
                0x04 => Some(u64::from(cursor.word()?)),
                _ => None,
            };
            if let Some(advance) = advance {
                let advance = advance.checked_mul(cie.code_align)?;
                old = LinkAddr(old.0.checked_add(advance)?);
                if old > last {
                    break;
                }
                let next = new_of(old)?;
                advance_by(next.0.checked_sub(new.0)?, cie.code_align, &mut out)?;
                new = next;
                continue;
            }
            match opcode {
                // Nothing, remember, restore, and what has one operand in its own byte.
                0x00 | 0x0a | 0x0b | 0x2d | 0xc0..=0xff => {}
                0x06 | 0x07 | 0x08 | 0x0d | 0x0e | 0x13 | 0x2e | 0x80..=0xbf => {
                    cursor.uleb()?;
                }
                0x05 | 0x09 | 0x0c | 0x11 | 0x12 | 0x14 | 0x15 | 0x2f => {
                    cursor.uleb()?;
                    cursor.uleb()?;
                }
                0x0f => {
                    let size = cursor.uleb()?;
                    cursor.skip(size)?;
                }
                0x10 | 0x16 => {
                    cursor.uleb()?;
                    let size = cursor.uleb()?;
                    cursor.skip(size)?;
                }
                _ => return None,
            }
            out.extend_from_slice(&self.bytes[from..cursor.at]);
        }
        Some(out)
    }

    /// The new section at an address: old entries, then those of `moved`, whose tables of landing pads are at `lsdas` by
    /// the beginning of the code; then one for each range of `others`, whose frames are those of the old address beside it. Also the
    /// code and the place of each entry.
    pub fn write(
        &self,
        addr: New,
        moved: &[&Moved],
        lsdas: &HashMap<Label, New>,
        others: &[(Range<New>, LinkAddr)],
    ) -> Result<(Vec<u8>, Index), Why> {
        let mut writer = Writer {
            frames: self,
            addr,
            out: Vec::new(),
            cies: HashMap::new(),
            index: Vec::new(),
        };
        for fde in &self.fdes {
            let program = self.bytes[fde.program..fde.end].to_vec();
            let code = New::of_old(fde.pc)..New::of_old(fde.pc + fde.len);
            let lsda = self.lsda(fde).map(New::of_old);
            writer.fde(fde, code, &program, lsda)?;
        }
        let mut old: Vec<&Fde> = self.fdes.iter().collect();
        old.sort_by_key(|fde| fde.pc);
        for function in moved {
            for (part, _) in function.parts() {
                let end = function.part_end(part.old);
                let first = old.partition_point(|fde| fde.pc < part.old);
                for fde in old[first..].iter().take_while(|fde| fde.pc < end) {
                    let beginning_at = |pc| match pc == fde.pc {
                        true => function.at_or_behind(pc, part),
                        false => function.beginning_at(pc, part),
                    };
                    let program = self.program(fde, &beginning_at, ALL);
                    let program = program.ok_or(Why::Unwind)?;
                    let new_of = |pc| function.at_or_behind(pc, part).ok_or(Why::Unwind);
                    let start = new_of(fde.pc)?;
                    let stop = new_of(fde.pc + fde.len)?;
                    if stop > start {
                        let lsda = lsdas.get(&part.beside(fde.pc)).copied();
                        writer.fde(fde, start..stop, &program, lsda)?;
                    }
                }
            }
        }
        for (range, addr) in others {
            let near = old.partition_point(|fde| fde.pc <= *addr).checked_sub(1);
            let fde = near
                .map(|at| old[at])
                .filter(|fde| *addr < fde.pc + fde.len);
            // Code without a description has none for what is inserted, either.
            let Some(fde) = fde else { continue };
            let here = |_| Some(range.start);
            let program = self.program(fde, &here, *addr).ok_or(Why::Unwind)?;
            writer.fde(fde, range.clone(), &program, None)?;
        }
        writer.out.extend_from_slice(&[0; 4]);
        writer.index.sort_unstable();
        Ok((writer.out, writer.index))
    }
}

/// An instruction that goes on by so many bytes of code.
fn advance_by(bytes: u64, align: u64, out: &mut Vec<u8>) -> Option<()> {
    if align == 0 || !bytes.is_multiple_of(align) {
        return None;
    }
    let count = bytes / align;
    match count {
        0 => {}
        1..=0x3f => out.push(0x40 | count as u8),
        0x40..=0xff => out.extend_from_slice(&[0x02, count as u8]),
        0x100..=0xffff => {
            out.push(0x03);
            out.extend_from_slice(&(count as u16).to_le_bytes());
        }
        _ => {
            out.push(0x04);
            out.extend_from_slice(&u32::try_from(count).ok()?.to_le_bytes());
        }
    }
    Some(())
}

/// A section that is written.
struct Writer<'f, 'd> {
    frames: &'f EhFrame<'d>,
    addr: New,
    out: Vec<u8>,
    /// Places of shared entries by their old ones.
    cies: HashMap<usize, usize>,
    /// Beginning of code and place of its entry.
    index: Index,
}

impl Writer<'_, '_> {
    /// Writes the shared entry, if it is not there yet; gives its place.
    fn cie(&mut self, old: usize) -> Result<usize, Why> {
        if let Some(&place) = self.cies.get(&old) {
            return Ok(place);
        }
        let cie = self.frames.cies[&old];
        let place = self.out.len();
        self.out
            .extend_from_slice(&self.frames.bytes[cie.start..cie.end]);
        if let Some((at, encoding)) = cie.personality
            && matches!(encoding, RELATIVE | INDIRECT)
        {
            self.move_pointer(at, place + (at - cie.start))?;
        }
        self.cies.insert(old, place);
        Ok(place)
    }

    /// Corrects a relative pointer that was copied from an offset of the old section to one of the new.
    fn move_pointer(&mut self, from: usize, to: usize) -> Result<(), Why> {
        let field = &mut self.out[to..to + 4];
        let old = i32::from_le_bytes(field.try_into().map_err(|_| Why::Unwind)?);
        if old == 0 {
            return Ok(());
        }
        let place = self.frames.addr + from as u64;
        let target = LinkAddr(place.0.wrapping_add_signed(i64::from(old)));
        let new = New::of_old(target).displacement(self.addr + to as u64)?;
        field.copy_from_slice(&new);
        Ok(())
    }

    /// Writes the address of a table of landing pads into a field.
    fn set_lsda(&mut self, fde: &Fde, at: usize, lsda: New) -> Result<(), Why> {
        let four = match self.frames.cies[&fde.cie].lsda {
            ABSOLUTE => {
                self.out[at..at + 8].copy_from_slice(&lsda.0.to_le_bytes());
                return Ok(());
            }
            ABSOLUTE_FOUR => {
                let four = u32::try_from(lsda.0).map_err(|_| Why::TooFar)?;
                four.to_le_bytes()
            }
            _ => lsda.displacement(self.addr + at as u64)?,
        };
        self.out[at..at + 4].copy_from_slice(&four);
        Ok(())
    }

    /// Writes the entry of a range of code.
    fn fde(
        &mut self,
        fde: &Fde,
        code: Range<New>,
        program: &[u8],
        lsda: Option<New>,
    ) -> Result<(), Why> {
        let (pc, len) = (code.start, address::len(&code));
        let cie = self.cie(fde.cie)?;
        let place = self.out.len();
        self.index.push((pc, self.addr + place as u64));
        self.out.extend_from_slice(&[0; 4]);
        let back = (self.out.len() - cie) as u32;
        self.out.extend_from_slice(&back.to_le_bytes());
        let at = self.addr + self.out.len() as u64;
        self.out.extend_from_slice(&pc.displacement(at)?);
        self.out.extend_from_slice(&(len as u32).to_le_bytes());
        // The augmentation stands between the range and the instructions: its size, then the landing pads.
        let from = fde.start + 16;
        let to = self.out.len();
        self.out
            .extend_from_slice(&self.frames.bytes[from..fde.program]);
        if let Some(field) = fde.lsda {
            let at = to + (field - from);
            match lsda {
                Some(lsda) => self.set_lsda(fde, at, lsda)?,
                None => self.out[at..to + (fde.program - from)].fill(0),
            }
        }
        self.out.extend_from_slice(program);
        // Instructions that do nothing.
        while !(self.out.len() - place).is_multiple_of(8) {
            self.out.push(0);
        }
        let length = (self.out.len() - place - 4) as u32;
        self.out[place..place + 4].copy_from_slice(&length.to_le_bytes());
        Ok(())
    }
}

/// The table by which the section at `eh_frame` is searched, at an address.
pub fn search_table(addr: New, frames: New, index: &[(New, New)]) -> Result<Vec<u8>, Why> {
    // Version; a relative pointer, a number, and pairs relative to the table.
    let mut out = vec![1, RELATIVE, 0x03, 0x3b];
    out.extend_from_slice(&frames.displacement(addr + 4)?);
    out.extend_from_slice(&(index.len() as u32).to_le_bytes());
    for &(pc, entry) in index {
        out.extend_from_slice(&pc.displacement(addr)?);
        out.extend_from_slice(&entry.displacement(addr)?);
    }
    Ok(out)
}
