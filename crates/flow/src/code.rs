//! Bytes of a file by link address.

use image::{Image, ImageKind, LinkAddr};
use isa::Insn;
use isa::insn::Reader;

/// Most bytes of an instruction.
const LONGEST: usize = 15;

/// Code and data of an image.
pub(crate) struct Code<'d> {
    image: &'d Image,
    /// Sorted by address.
    ranges: Vec<(u64, &'d [u8])>,
}

impl<'d> Code<'d> {
    pub fn of(image: &'d Image) -> Code<'d> {
        let code = image.code().into_iter();
        let mut ranges: Vec<(u64, &[u8])> = code.map(|(start, bytes)| (start.0, bytes)).collect();
        ranges.sort_by_key(|range| range.0);
        Code { image, ranges }
    }

    /// Whether the file is linked for fixed addresses, so that constants may be addresses.
    pub fn is_fixed(&self) -> bool {
        self.image.kind() == ImageKind::Fixed
    }

    /// Bytes of code.
    pub fn len(&self) -> usize {
        self.ranges.iter().map(|(_, bytes)| bytes.len()).sum()
    }

    /// Code from an address to the end of its section; empty where there is none.
    pub fn at(&self, addr: u64) -> &'d [u8] {
        let after = self.ranges.partition_point(|range| range.0 <= addr);
        let range = after.checked_sub(1).and_then(|at| self.ranges.get(at));
        range
            .and_then(|(start, bytes)| bytes.get(usize::try_from(addr - start).ok()?..))
            .unwrap_or_default()
    }

    /// Start and end of each section.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let ranges = self.ranges.iter();
        ranges.map(|(start, bytes)| (*start, start + bytes.len() as u64))
    }

    /// Bytes from one address to another, without the padding before the first instruction and behind the last one.
    pub fn without_padding(&self, from: u64, to: u64) -> u64 {
        let bytes = self.at(from);
        let bytes = &bytes[..bytes.len().min(to.saturating_sub(from) as usize)];
        let zeros = bytes.iter().rev().take_while(|&&byte| byte == 0).count();
        let len = bytes.len() - zeros;
        let (mut at, mut first, mut last) = (0, None, 0);
        while at < len {
            let insn = self.insn(from + at as u64);
            let is_padding = insn.is_some_and(|insn| insn.is_nop() || insn.bytes() == [0xcc]);
            let next = at + insn.map_or(1, |insn| insn.len());
            if !is_padding {
                first = first.or(Some(at));
                last = next.min(bytes.len());
            }
            at = next;
        }
        first.map_or(0, |first| (last - first) as u64)
    }

    pub fn contains(&self, addr: u64) -> bool {
        !self.at(addr).is_empty()
    }

    /// End of the section with an address.
    pub fn end(&self, addr: u64) -> u64 {
        addr + self.at(addr).len() as u64
    }

    /// The instruction at an address.
    pub fn insn(&self, addr: u64) -> Option<Insn> {
        let bytes = self.at(addr);
        Insn::decode(&bytes[..bytes.len().min(LONGEST)], addr).ok()
    }

    /// A decoder for the section with an address.
    pub fn reader(&self, addr: u64) -> Reader<'d> {
        Reader::new(self.at(addr), addr)
    }

    /// The instruction of a stub of the dynamic linker.
    pub fn stub_insn(&self, addr: u64) -> Option<Insn> {
        let bytes = self.image.bytes_from(LinkAddr(addr));
        Insn::decode(&bytes[..bytes.len().min(LONGEST)], addr).ok()
    }

    /// Four or eight bytes of a file's data or code.
    pub fn word<const N: usize>(&self, addr: u64) -> Option<[u8; N]> {
        self.image.bytes_from(LinkAddr(addr)).first_chunk().copied()
    }
}
