//! `two-versions`: two versions of every function, between which the program changes at random blocks. A test of the editor.
//!
//! Approach: the second version has all blocks of half of the functions, and three quarters of the others'. At random blocks, and on
//! random edges to them, each jumps to the same block of the other one; never both at one block, so that this ends. What is random is
//! made of the addresses: the same file is edited in the same way each time.
//!
//! Invariant: the program does what it did. It needs no memory, and no register.

use probe::{At, Op};
use rewrite::unit::Node;
use rewrite::{Label, Plan, StaticTool, Unit, Version, Versions, Why};

/// A version is left at one in so many blocks and edges.
const CHANGES: u64 = 4;
/// One in so many blocks is missing where some are.
const MISSING: u64 = 4;

/// The second version.
const SECOND: Version = Version(1);

#[derive(Debug, Default)]
pub struct TwoVersions {
    /// Jumps from one version to the other.
    jumps: u64,
}

/// A number without a pattern, for each number.
const fn mixed(number: u64) -> u64 {
    // The finalizer of SplitMix64.
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

/// Whether the second version has a block.
fn has(unit: &Unit<'_>, block: u32) -> bool {
    let entry = unit.function.entry.0;
    mixed(entry).is_multiple_of(2)
        || !mixed(mixed(entry) ^ u64::from(block)).is_multiple_of(MISSING)
}

/// Label of the block in the other version, if that has it.
fn other(unit: &Unit<'_>, version: Version, block: u32) -> Option<Label> {
    match version {
        Version::FIRST if has(unit, block) => unit.label(SECOND, block),
        Version::FIRST => None,
        _ => unit.label(Version::FIRST, block),
    }
}

impl StaticTool for TwoVersions {
    fn versions(&mut self, unit: &Unit<'_>) -> Versions {
        let mut versions = Versions::ONE;
        let blocks = 0..unit.function.graph.blocks.len() as u32;
        let added = versions.add(blocks.filter(|block| has(unit, *block)));
        debug_assert_eq!(added, Some(SECOND));
        versions
    }

    fn plan(&mut self, unit: &Unit<'_>, version: Version, out: &mut Plan) -> Result<(), Why> {
        let is_there = |block| version == Version::FIRST || has(unit, block);
        for (number, edge) in (0..).zip(&unit.edges) {
            let (at, block) = match (edge.from, edge.to) {
                (Node::Start(block), Node::End(_)) if is_there(block) => {
                    let start = unit.function.graph.blocks[block as usize].start.0;
                    if mixed(start) % CHANGES != u64::from(version.0) {
                        continue;
                    }
                    (At::Block(block), block)
                }
                (Node::End(from), Node::Start(to)) if is_there(from) && edge.has_place() => {
                    let own = mixed(unit.function.entry.0) ^ u64::from(number);
                    if !mixed(own).is_multiple_of(CHANGES) {
                        continue;
                    }
                    (At::Edge(number), to)
                }
                _ => continue,
            };
            if let Some(label) = other(unit, version, block) {
                let to = label.symbol();
                out.add(unit, at, Op::Jump { to })?;
                self.jumps += 1;
            }
        }
        Ok(())
    }

    fn says(&self) -> String {
        format!("{} jumps between two versions of each", self.jumps)
    }
}
