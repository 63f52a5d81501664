//! Bytes of a file by link address.

use image::{Image, LinkAddr};
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
