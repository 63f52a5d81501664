//! Code that is inserted into a function.
//!
//! | place | who comes by it |
//! |---|---|
//! | before an instruction | everybody |
//! | before that, between the code before and the place where branches come in | who falls through, callers at the entry, or one branch if nobody falls through |
//! | behind the function, with a jump | a branch, or elements of a table |
//!
//! It is kept as ops ([`probe`]), and its bytes are made where it stands: their number does not depend on that.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

use isa::Asm;
use probe::{Op, Placed, Site, Symbol};

use super::{JUMP, Moved, Targets, distance};
use crate::skipped::Why;

/// The code that gives threads their memory, as what is inserted names it.
pub const RESIDENT: Symbol = Symbol(0);
/// Its state.
pub const STATE: Symbol = Symbol(1);

/// Ops of one place.
#[derive(Clone, Debug)]
pub struct Inserted(Form);

#[derive(Clone, Debug)]
enum Form {
    /// Their code, which is the same everywhere.
    Code(Box<[u8]>),
    /// Ops that name addresses, with the number of their bytes: their code is made where it stands.
    Ops(Box<(Vec<Op>, Site, u16)>),
}

impl Inserted {
    /// Ops of a site.
    ///
    /// # Errors
    /// They cannot be done there.
    pub fn of(ops: Vec<Op>, site: Site) -> Result<Inserted, Why> {
        let code = probe::code(&ops, &site).map_err(|_| Why::NoPlace)?;
        if let Some(code) = code {
            return Ok(Inserted(Form::Code(code.into())));
        }
        let size = probe::size(&ops, &site).map_err(|_| Why::NoPlace)?;
        let size = u16::try_from(size).map_err(|_| Why::Code)?;
        Ok(Inserted(Form::Ops(Box::new((ops, site, size)))))
    }

    /// Bytes of their code.
    fn size(&self) -> u16 {
        match &self.0 {
            Form::Code(code) => code.len() as u16,
            Form::Ops(ops) => ops.2,
        }
    }

    /// Writes their code, for an address.
    fn write(&self, out: &mut [u8], addr: u64, targets: &dyn Targets) -> Result<(), Why> {
        let out = &mut out[..usize::from(self.size())];
        let (ops, site) = match &self.0 {
            Form::Code(code) => {
                out.copy_from_slice(code);
                return Ok(());
            }
            Form::Ops(ops) => (&ops.0, &ops.1),
        };
        let mut placed = Placed {
            asm: Asm::new(out, addr),
            address: |symbol| targets.address(symbol),
        };
        let lowered = probe::lower(ops, site, &mut placed);
        match lowered.is_err() || placed.asm.overflowed() {
            true => Err(Why::TooFar),
            false => Ok(()),
        }
    }
}

/// Code to be inserted; places are old addresses.
#[derive(Clone, Debug, Default)]
pub struct Insertions {
    /// Before the first instruction of a block.
    pub blocks: HashMap<u64, Inserted>,
    /// At the entry, for callers.
    pub entry: Option<Inserted>,
    /// Between the code before a block and the block.
    pub falls: HashMap<u64, Inserted>,
    /// When a branch at the first address goes to the second, or the table at the first leads there.
    pub taken: BTreeMap<(u64, u64), Inserted>,
}

/// Inserted before an instruction.
#[derive(Clone, Debug, Default)]
pub(super) struct Before {
    falls: Option<Inserted>,
    inserted: Option<Inserted>,
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
    code: Inserted,
    target: u64,
    pub(super) offset: u64,
}

impl Stub {
    pub(super) fn size(&self) -> u64 {
        u64::from(self.code.size()) + JUMP
    }
}

impl Moved {
    /// Gives each insertion its place.
    pub(super) fn insert(&mut self, insertions: Insertions) -> Result<(), Why> {
        let mut before: HashMap<u64, Before> = HashMap::new();
        for (at, code) in insertions.blocks {
            before.entry(at).or_default().inserted = Some(code);
        }
        for (at, code) in insertions.falls {
            before.entry(at).or_default().falls = Some(code);
        }
        if let Some(code) = insertions.entry {
            before.entry(self.entry).or_default().falls = Some(code);
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
                before.entry(target).or_default().falls = Some(code);
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
                let size = |code: &Option<Inserted>| code.as_ref().map_or(0, Inserted::size);
                item.falls = size(&before.falls);
                item.inserted = size(&before.inserted);
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
            let places = [
                (&before.falls, self.base + item.start()),
                (&before.inserted, self.base + item.label()),
            ];
            for (code, at) in places {
                if let Some(code) = code {
                    code.write(&mut text[(at - start) as usize..], at, targets)?;
                }
            }
        }
        for stub in &self.stubs {
            let target = self.new_of(stub.target).ok_or(Why::Code)?;
            let at = self.base + stub.offset;
            let out = &mut text[(at - start) as usize..][..stub.size() as usize];
            stub.code.write(out, at, targets)?;
            let jump = &mut out[usize::from(stub.code.size())..];
            jump[0] = 0xe9;
            jump[1..].copy_from_slice(&distance(target, at + stub.size())?);
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
