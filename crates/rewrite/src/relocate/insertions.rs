//! Code that is inserted into a function.
//!
//! | place | who comes by it |
//! |---|---|
//! | before an instruction | everybody |
//! | before that, between the code before and the place where branches come in | who falls through, callers at the entry, or one branch if nobody falls through |
//! | behind the function, with a jump | a branch, or elements of a table |
//!
//! Inserted code does not depend on where it stands, but for the check behind calls that may return in a forked child.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

use super::{JUMP, Moved, Targets, distance};
use crate::left::Why;

/// `mov %fs:0, %r11`; `cmp %gs:0, %r11`: whether the memory at `%gs` is the thread's own.
pub const COMPARE: [u8; 18] = [
    0x64, 0x4c, 0x8b, 0x1c, 0x25, 0, 0, 0, 0, 0x65, 0x4c, 0x3b, 0x1c, 0x25, 0, 0, 0, 0,
];
/// Bytes of the way to the resident code: `lea`, `jmp`.
pub const TO_RESIDENT: usize = 12;
/// `je` over it.
const UNLESS: [u8; 2] = [0x74, TO_RESIDENT as u8];
const CHECK: usize = COMPARE.len() + UNLESS.len() + TO_RESIDENT;

/// Code to be inserted; places are old addresses.
#[derive(Clone, Debug, Default)]
pub struct Insertions {
    /// Before the first instruction of a block.
    pub blocks: HashMap<u64, Vec<u8>>,
    /// At the entry, for callers.
    pub entry: Vec<u8>,
    /// Between the code before a block and the block.
    pub falls: HashMap<u64, Vec<u8>>,
    /// When a branch at the first address goes to the second, or the table at the first leads there.
    pub taken: BTreeMap<(u64, u64), Vec<u8>>,
    /// Calls that return to these blocks may return in a forked child: the thread is given counters then.
    pub forks: HashSet<u64>,
}

/// Inserted before an instruction.
#[derive(Clone, Debug, Default)]
pub(super) struct Before {
    /// It begins with a check.
    checks: bool,
    falls: Vec<u8>,
    inserted: Vec<u8>,
}

/// Way of a branch to its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// By what is inserted before the target.
    Before,
    Stub(usize),
}

/// Code behind a function that goes on elsewhere in it.
#[derive(Clone, Debug)]
pub(super) struct Stub {
    code: Vec<u8>,
    target: u64,
    pub(super) offset: u64,
}

impl Stub {
    pub(super) fn size(&self) -> u64 {
        self.code.len() as u64 + JUMP
    }
}

impl Moved {
    /// Gives each insertion its place.
    pub(super) fn insert(&mut self, insertions: Insertions) -> Result<(), Why> {
        let mut before: HashMap<u64, Before> = HashMap::new();
        for (at, code) in insertions.blocks {
            before.entry(at).or_default().inserted = code;
        }
        for (at, code) in insertions.falls {
            before.entry(at).or_default().falls = code;
        }
        for at in insertions.forks {
            before.entry(at).or_default().checks = true;
        }
        if !insertions.entry.is_empty() {
            before.entry(self.entry).or_default().falls = insertions.entry;
        }
        // Nobody falls through to what stands behind a jump, nor to the beginning of a part.
        let mut free: HashSet<u64> = HashSet::new();
        let mut goes_on = false;
        for item in &self.items {
            if !goes_on {
                free.insert(item.old);
            }
            goes_on = item.goes_on && !item.is_last;
        }
        for part in &self.parts {
            free.insert(self.items[part.items.start].old);
        }
        free.remove(&self.entry);
        for ((from, target), code) in insertions.taken {
            let is_branch = self.item(from).is_some();
            if is_branch && free.remove(&target) {
                before.entry(target).or_default().falls = code;
                self.ways.insert((from, target), Way::Before);
                continue;
            }
            self.ways
                .insert((from, target), Way::Stub(self.stubs.len()));
            self.stubs.push(Stub {
                code,
                target,
                offset: 0,
            });
        }
        for item in &mut self.items {
            if let Some(before) = before.get(&item.old) {
                let check = if before.checks { CHECK } else { 0 };
                item.falls = (check + before.falls.len()) as u16;
                item.inserted = before.inserted.len() as u16;
            }
        }
        self.before = before;
        Ok(())
    }

    /// Writes what is inserted.
    pub(super) fn write_inserted(
        &self,
        text: &mut [u8],
        start: u64,
        targets: &dyn Targets,
    ) -> Result<(), Why> {
        for item in self
            .items
            .iter()
            .filter(|item| item.falls + item.inserted > 0)
        {
            let before = &self.before[&item.old];
            let label = self.base + item.label();
            let mut code = Vec::new();
            if before.checks {
                code.extend_from_slice(&COMPARE);
                code.extend_from_slice(&UNLESS);
                let here = self.base + item.start() + code.len() as u64;
                code.extend_from_slice(&to_resident(here, here + TO_RESIDENT as u64, targets)?);
            }
            code.extend_from_slice(&before.falls);
            code.extend_from_slice(&before.inserted);
            let at = (label - start) as usize - usize::from(item.falls);
            text[at..at + code.len()].copy_from_slice(&code);
        }
        for stub in &self.stubs {
            let target = self.new_of(stub.target).ok_or(Why::Code)?;
            let at = self.base + stub.offset;
            let mut code = stub.code.clone();
            code.push(0xe9);
            code.extend_from_slice(&distance(target, at + stub.size())?);
            let at = (at - start) as usize;
            text[at..at + code.len()].copy_from_slice(&code);
        }
        Ok(())
    }

    /// New places of code behind the function, with the old addresses at which it goes on.
    pub fn stubs(&self) -> impl Iterator<Item = (Range<u64>, u64)> + '_ {
        self.stubs.iter().map(|stub| {
            let start = self.base + stub.offset;
            (start..start + stub.size(), stub.target)
        })
    }
}

/// `lea next(%rip), %r11`; `jmp resident`: to have the thread given counters, and to go on at `next`.
pub fn to_resident(at: u64, next: u64, targets: &dyn Targets) -> Result<[u8; TO_RESIDENT], Why> {
    let mut code = [0x4c, 0x8d, 0x1d, 0, 0, 0, 0, 0xe9, 0, 0, 0, 0];
    code[3..7].copy_from_slice(&distance(next, at + 7)?);
    code[8..].copy_from_slice(&distance(targets.resident(), at + TO_RESIDENT as u64)?);
    Ok(code)
}
