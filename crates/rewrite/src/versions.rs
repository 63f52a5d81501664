//! Versions of a function's code.
//!
//! Problem: a loop may have an instrumented copy and one that is as it was, and go on in either. So an instruction of the old code
//! may have more than one new place.
//!
//! Approach: new code is found by a [`Label`], a version and an old address. The first version has all blocks, callers enter it, and
//! whoever comes from elsewhere does. Others have the blocks that a tool asks for, and what these throw to. Registers and memory mean
//! the same at one old address in every version, so a jump from one to another ([`probe::Exit::To`]) needs nothing else.
//!
//! Invariant: where a version goes on in a block that it has not, it goes on in the first one.

use std::collections::BTreeSet;

use flow::{Block, Function};
use image::LinkAddr;
use probe::Symbol;

/// Number of a version of a function's code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u8);

impl Version {
    /// The one with all blocks, which callers enter.
    pub const FIRST: Version = Version(0);

    /// The instruction of this version that was at an old address.
    #[must_use]
    pub const fn at(self, old: LinkAddr) -> Label {
        Label { version: self, old }
    }
}

/// An instruction of new code: the old address, in one of the versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label {
    pub version: Version,
    pub old: LinkAddr,
}

/// Set in symbols that are labels; the version is above the address.
const IS_LABEL: u64 = 1 << 63;
const VERSION_AT: u32 = 55;

impl Label {
    /// This instruction in the version that has all.
    pub(crate) const fn in_first(self) -> Label {
        Version::FIRST.at(self.old)
    }

    /// Another instruction of the same version.
    pub(crate) const fn beside(self, old: LinkAddr) -> Label {
        self.version.at(old)
    }

    /// The name of it in inserted code.
    #[must_use]
    pub const fn symbol(self) -> Symbol {
        Symbol(IS_LABEL | (self.version.0 as u64) << VERSION_AT | self.old.0)
    }

    /// The label that a symbol is, if it is one.
    pub(crate) const fn of(symbol: Symbol) -> Option<Label> {
        if symbol.0 & IS_LABEL == 0 {
            return None;
        }
        let version = Version((symbol.0 >> VERSION_AT) as u8);
        Some(version.at(LinkAddr(symbol.0 & ((1 << VERSION_AT) - 1))))
    }
}

/// Versions of a function's code that are made beside the first.
#[derive(Clone, Debug, Default)]
pub struct Versions {
    others: Vec<BTreeSet<u32>>,
}

impl Versions {
    /// The first version alone.
    pub const ONE: Versions = Versions { others: Vec::new() };
    /// Most of them beside the first.
    const MOST: usize = 127;

    /// Adds a version with some blocks, by their numbers; `None`: there are too many.
    pub fn add(&mut self, blocks: impl IntoIterator<Item = u32>) -> Option<Version> {
        if self.others.len() == Self::MOST {
            return None;
        }
        self.others.push(blocks.into_iter().collect());
        self.all().last()
    }

    /// All versions.
    pub fn all(&self) -> impl Iterator<Item = Version> + use<> {
        (0..=self.others.len() as u8).map(Version)
    }

    /// Whether a version has a block.
    #[must_use]
    pub fn has(&self, version: Version, block: u32) -> bool {
        match usize::from(version.0).checked_sub(1) {
            None => true,
            Some(other) => self
                .others
                .get(other)
                .is_some_and(|blocks| blocks.contains(&block)),
        }
    }

    /// Adds the blocks to which those of a version may throw, as `pads` has them for code of the function: a table of landing
    /// pads has no place for another version's.
    pub(crate) fn add_landing_pads(
        &mut self,
        function: &Function,
        pads: &dyn Fn(&Block) -> Vec<LinkAddr>,
    ) {
        let graph = &function.graph;
        for blocks in &mut self.others {
            let mut waiting: Vec<u32> = blocks.iter().copied().collect();
            while let Some(block) = waiting.pop() {
                let Some(block) = graph.blocks.get(block as usize) else {
                    continue;
                };
                let pads = pads(block).into_iter();
                let pads = pads.filter_map(|pad| graph.block_from(pad));
                waiting.extend(pads.map(|pad| pad as u32).filter(|pad| blocks.insert(*pad)));
            }
        }
    }
}
