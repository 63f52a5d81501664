//! Unwind tables by address: ranges, the canonical frame address inside them, landing pads.
//!
//! Approach: all frame descriptions of `.eh_frame` are kept as read, sorted; the rule at an address
//! is found when it is asked for, as few are. Landing pads are in the table of call sites of a
//! language-specific data area (LSDA: Itanium C++ ABI, "Exception Handling Tables", as gcc and rustc
//! write it).
//!
//! Limits: call sites in other encodings than ULEB128 and four bytes are unreadable.

use std::sync::{Mutex, PoisonError};

use gimli::{
    BaseAddresses, CfaRule, CieOrFde, EhFrame, EndianSlice, FrameDescriptionEntry, LittleEndian,
    Pointer, UnwindContext, UnwindSection, X86_64,
};
use hashbrown::HashMap;
use object::LittleEndian as LE;
use object::read::elf::SectionHeader;

use crate::addr::LinkAddr;
use crate::elf::Elf;
use crate::frames;
use crate::image::Image;

type Bytes<'d> = EndianSlice<'d, LittleEndian>;

/// The canonical frame address, the stack pointer before the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cfa {
    /// rsp plus so many bytes.
    Sp(i64),
    /// By another register, or an expression.
    Other,
    /// The table cannot be read there.
    Unreadable,
}

/// The place of a canonical frame address that follows from the stack pointer, or from `rbp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameBase {
    pub is_frame_pointer: bool,
    pub offset: i64,
}

/// A range that an unwind table describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnwindRange {
    pub start: LinkAddr,
    pub end: LinkAddr,
    /// The frame that a signal made.
    pub is_signal: bool,
    /// It has a table of call sites.
    pub has_pads: bool,
}

/// Code whose calls go to a landing pad when they throw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallSite {
    pub start: LinkAddr,
    pub end: LinkAddr,
    pub pad: LinkAddr,
}

/// All unwind tables of an image.
pub struct Unwind<'d> {
    image: &'d Image,
    section: EhFrame<Bytes<'d>>,
    bases: BaseAddresses,
    /// By address.
    ranges: Vec<FrameDescriptionEntry<Bytes<'d>>>,
    /// Answers about one range: questions come function by function.
    last: Mutex<Frames>,
}

/// Frame addresses of the range that begins at `start`: each up to an address.
#[derive(Default)]
struct Frames {
    start: Option<u64>,
    rows: Vec<(u64, Cfa, Option<FrameBase>)>,
}

impl<'d> Unwind<'d> {
    /// Tables of `image`, up to the first entry that cannot be read; none if there are none.
    pub fn of(image: &'d Image) -> Unwind<'d> {
        let elf = Elf::parse(image.bytes()).ok();
        let located = elf.as_ref().and_then(frames::locate);
        let (addr, bytes) = located.unwrap_or_default();
        let mut section = EhFrame::new(bytes, LittleEndian);
        section.set_address_size(8);
        let mut bases = BaseAddresses::default().set_eh_frame(addr);
        if let Some(text) = elf.as_ref().and_then(|elf| elf.section(b".text")) {
            bases = bases.set_text(text.sh_addr(LE));
        }
        let mut cies = HashMap::new();
        let mut ranges = Vec::with_capacity(bytes.len() / 48);
        let mut entries = section.entries(&bases);
        while let Ok(Some(entry)) = entries.next() {
            let CieOrFde::Fde(partial) = entry else {
                continue;
            };
            let fde = partial.parse(|section, bases, offset| match cies.get(&offset.0) {
                Some(cie) => Ok(gimli::CommonInformationEntry::clone(cie)),
                None => {
                    let cie = section.cie_from_offset(bases, offset)?;
                    cies.insert(offset.0, cie.clone());
                    Ok(cie)
                }
            });
            let sound = |fde: &FrameDescriptionEntry<_>| {
                fde.len() > 0 && fde.initial_address().checked_add(fde.len()).is_some()
            };
            ranges.extend(fde.ok().filter(sound));
        }
        ranges.sort_by_key(|fde| fde.initial_address());
        Unwind {
            image,
            section,
            bases,
            ranges,
            last: Mutex::default(),
        }
    }

    pub fn ranges(&self) -> impl Iterator<Item = UnwindRange> + '_ {
        self.ranges.iter().map(range)
    }

    /// The range with an address.
    pub fn range(&self, addr: LinkAddr) -> Option<UnwindRange> {
        self.at(addr).map(range)
    }

    /// Whether the instructions of the table of the range with an address are all known.
    pub fn is_readable(&self, addr: LinkAddr) -> bool {
        self.at(addr).is_some_and(|fde| {
            let mut own = fde.instructions(&self.section, &self.bases);
            let mut shared = fde.cie().instructions(&self.section, &self.bases);
            let all = |next: &mut dyn FnMut() -> gimli::Result<bool>| loop {
                match next() {
                    Ok(true) => {}
                    Ok(false) => return true,
                    Err(_) => return false,
                }
            };
            all(&mut || own.next().map(|one| one.is_some()))
                && all(&mut || shared.next().map(|one| one.is_some()))
        })
    }

    fn at(&self, addr: LinkAddr) -> Option<&FrameDescriptionEntry<Bytes<'d>>> {
        let after = self
            .ranges
            .partition_point(|fde| fde.initial_address() <= addr.0);
        let fde = self.ranges.get(after.checked_sub(1)?)?;
        (addr.0 - fde.initial_address() < fde.len()).then_some(fde)
    }

    /// The canonical frame address at an instruction; `None`: no table describes it.
    pub fn cfa(&self, addr: LinkAddr) -> Option<Cfa> {
        self.row(addr).map(|(cfa, _)| cfa)
    }

    /// The register from which the canonical frame address at an instruction follows; `None`: it is none of these, or not known.
    pub fn frame(&self, addr: LinkAddr) -> Option<FrameBase> {
        self.row(addr)?.1
    }

    fn row(&self, addr: LinkAddr) -> Option<(Cfa, Option<FrameBase>)> {
        let fde = self.at(addr)?;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.start != Some(fde.initial_address()) {
            *last = self.frames(fde);
        }
        let row = last.rows.iter().find(|(end, ..)| addr.0 < *end);
        Some(row.map_or((Cfa::Unreadable, None), |(_, cfa, base)| (*cfa, *base)))
    }

    /// All frame addresses of a range, up to what cannot be read.
    fn frames(&self, fde: &FrameDescriptionEntry<Bytes<'d>>) -> Frames {
        let mut frames = Frames {
            start: Some(fde.initial_address()),
            rows: Vec::new(),
        };
        let mut context = UnwindContext::new();
        let Ok(mut table) = fde.rows(&self.section, &self.bases, &mut context) else {
            return frames;
        };
        while let Ok(Some(row)) = table.next_row() {
            let cfa = match row.cfa() {
                CfaRule::RegisterAndOffset { register, offset } if *register == X86_64::RSP => {
                    Cfa::Sp(*offset)
                }
                _ => Cfa::Other,
            };
            let base = match row.cfa() {
                CfaRule::RegisterAndOffset { register, offset }
                    if [X86_64::RSP, X86_64::RBP].contains(register) =>
                {
                    Some(FrameBase {
                        is_frame_pointer: *register == X86_64::RBP,
                        offset: *offset,
                    })
                }
                _ => None,
            };
            frames.rows.push((row.end_address(), cfa, base));
        }
        frames
    }

    /// Call sites with landing pads of the range with an address; `None`: their table cannot be read.
    pub fn call_sites(&self, addr: LinkAddr) -> Option<Vec<CallSite>> {
        let Some(fde) = self.at(addr) else {
            return Some(Vec::new());
        };
        let address = match fde.lsda() {
            None => return Some(Vec::new()),
            Some(Pointer::Direct(address)) => address,
            Some(Pointer::Indirect(_)) => return None,
        };
        let bytes = self.image.bytes_from(LinkAddr(address));
        call_sites(bytes, address, fde.initial_address())
    }
}

fn range(fde: &FrameDescriptionEntry<Bytes<'_>>) -> UnwindRange {
    UnwindRange {
        start: LinkAddr(fde.initial_address()),
        end: LinkAddr(fde.initial_address() + fde.len()),
        is_signal: fde.is_signal_trampoline(),
        has_pads: fde.lsda().is_some(),
    }
}

/// Call sites with pads of an LSDA at `address`, of a range that begins at `start`.
fn call_sites(bytes: &[u8], address: u64, start: u64) -> Option<Vec<CallSite>> {
    const OMITTED: u8 = 0xFF;
    const ULEB128: u8 = 0x01;
    const FOUR_BYTES: u8 = 0x03;
    let mut cursor = Cursor { bytes, at: 0 };
    let base = match cursor.byte()? {
        OMITTED => start,
        // Relative to the field: 0x1B is what linkers write.
        0x1B => {
            let field = address.wrapping_add(cursor.at as u64);
            field.wrapping_add_signed(i64::from(cursor.word()?.cast_signed()))
        }
        _ => return None,
    };
    if cursor.byte()? != OMITTED {
        cursor.uleb()?;
    }
    let encoding = cursor.byte()?;
    let len = usize::try_from(cursor.uleb()?).ok()?;
    let end = cursor
        .at
        .checked_add(len)
        .filter(|&end| end <= bytes.len())?;
    let field = |cursor: &mut Cursor<'_>| match encoding {
        ULEB128 => cursor.uleb(),
        FOUR_BYTES => cursor.word().map(u64::from),
        _ => None,
    };
    let mut sites = Vec::new();
    while cursor.at < end {
        let (from, len) = (field(&mut cursor)?, field(&mut cursor)?);
        let pad = field(&mut cursor)?;
        let _action = cursor.uleb()?;
        if pad != 0 {
            let from = start.wrapping_add(from);
            sites.push(CallSite {
                start: LinkAddr(from),
                end: LinkAddr(from.wrapping_add(len)),
                pad: LinkAddr(base.wrapping_add(pad)),
            });
        }
    }
    Some(sites)
}

struct Cursor<'d> {
    bytes: &'d [u8],
    at: usize,
}

impl Cursor<'_> {
    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn word(&mut self) -> Option<u32> {
        let bytes = self.bytes.get(self.at..)?.first_chunk()?;
        self.at += 4;
        Some(u32::from_le_bytes(*bytes))
    }

    fn uleb(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn landing_pads_are_read() {
        // No base of its own, no types, ULEB128; two call sites, one with a pad.
        let bytes = [0xFF, 0xFF, 0x01, 8, 0x10, 5, 0, 0, 0x20, 5, 0xC0, 0x01];
        assert_eq!(call_sites(&bytes, 0x9000, 0x1000), None);
        let bytes = [0xFF, 0xFF, 0x01, 9, 0x10, 5, 0, 0, 0x20, 5, 0xC0, 0x01, 1];
        let site = CallSite {
            start: LinkAddr(0x1020),
            end: LinkAddr(0x1025),
            pad: LinkAddr(0x10C0),
        };
        assert_eq!(call_sites(&bytes, 0x9000, 0x1000), Some(vec![site]));
        assert_eq!(call_sites(&bytes[..9], 0x9000, 0x1000), None);
        assert_eq!(call_sites(&[0xFF, 0xFF, 0x07, 1, 0], 0, 0), None);
    }
}
