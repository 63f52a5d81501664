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

use image::LinkAddr;
use isa::Asm;
use probe::{Exit, Op, Placed, Site, Symbol};

use super::{Behind, JUMP, Moved, Targets};
use crate::address::New;
use crate::skipped::Why;
use crate::versions::{Label, Version};

/// The code that gives threads their memory, as what is inserted names it.
pub const RESIDENT: Symbol = Symbol(0);
/// Its state.
pub const STATE: Symbol = Symbol(1);
/// The part of it that counts values in tables ([`Op::Tally`]).
pub const TALLY: Symbol = Symbol(3);
/// The part of it that executes a function once more for each input of a fuzzer.
pub const TURNS: Symbol = Symbol(4);
/// The parts of it that make room in a lane ([`probe::Lane::routine`]).
pub const FULL: Symbol = Symbol(5);
/// The parts of it that put records on top, take them off, log calls and count them ([`wire::contexts`]).
pub const PUSH: Symbol = Symbol(6);
pub const ENTER: Symbol = Symbol(7);
pub const RESTORE: Symbol = Symbol(8);
pub const LEAVE: Symbol = Symbol(9);
pub const LOG: Symbol = Symbol(10);
pub const COUNT: Symbol = Symbol(11);
pub const GOES: Symbol = Symbol(12);
/// The parts of it that follow nests of loops ([`wire::loops`]).
pub const HEAD: Symbol = Symbol(13);
pub const LEFT: Symbol = Symbol(14);
pub const REFER: Symbol = Symbol(15);

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

    /// Instructions to which they may go.
    fn labels(&self) -> impl Iterator<Item = Label> + '_ {
        let ops = match &self.0 {
            Form::Code(_) => &[][..],
            Form::Ops(ops) => &ops.0,
        };
        ops.iter().filter_map(|op| match *op {
            Op::Guard {
                exit: Exit::To(to), ..
            }
            | Op::Jump { to } => Label::of(to),
            _ => None,
        })
    }

    /// Bytes of their code.
    fn size(&self) -> u16 {
        match &self.0 {
            Form::Code(code) => code.len() as u16,
            Form::Ops(ops) => ops.2,
        }
    }

    /// Writes their code, for an address.
    fn write(&self, out: &mut [u8], addr: New, address: &dyn Fn(Symbol) -> New) -> Result<(), Why> {
        let out = &mut out[..usize::from(self.size())];
        let (ops, site) = match &self.0 {
            Form::Code(code) => {
                out.copy_from_slice(code);
                return Ok(());
            }
            Form::Ops(ops) => (&ops.0, &ops.1),
        };
        let mut placed = Placed {
            asm: Asm::new(out, addr.0),
            address: |symbol| address(symbol).0,
        };
        let lowered = probe::lower(ops, site, &mut placed);
        match lowered.is_err() || placed.asm.overflowed() {
            true => Err(Why::TooFar),
            false => Ok(()),
        }
    }
}

/// Code to be inserted into a version; places are old addresses.
#[derive(Clone, Debug, Default)]
pub struct Insertions {
    /// Before the first instruction of a block, or its last.
    pub blocks: HashMap<LinkAddr, Inserted>,
    /// At the entry, for callers.
    pub entry: Option<Inserted>,
    /// Between the code before a block and the block.
    pub falls: HashMap<LinkAddr, Inserted>,
    /// When a branch at the first address goes to the second, or the table at the first leads there.
    pub taken: BTreeMap<(LinkAddr, LinkAddr), Inserted>,
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
    target: Label,
    pub(super) offset: u64,
}

impl Stub {
    pub(super) fn size(&self) -> u64 {
        u64::from(self.code.size()) + JUMP
    }
}

impl Moved {
    /// Gives each insertion its place.
    pub(super) fn insert(
        &mut self,
        insertions: impl Iterator<Item = (Version, Insertions)>,
    ) -> Result<(), Why> {
        for (version, insertions) in insertions {
            self.insert_in(version, insertions);
        }
        for part in &self.parts {
            for item in &mut self.items[part.items.clone()] {
                if let Some(before) = self.before.get(&part.version.at(item.old)) {
                    let size = |code: &Option<Inserted>| code.as_ref().map_or(0, Inserted::size);
                    item.falls = size(&before.falls);
                    item.inserted = size(&before.inserted);
                }
            }
        }
        let before = self.before.values();
        let before = before.flat_map(|before| before.falls.iter().chain(&before.inserted));
        let stubs = self.stubs.iter().map(|stub| &stub.code);
        let mut labels = before.chain(stubs).flat_map(Inserted::labels);
        match labels.all(|label| self.item(label).is_some()) {
            true => Ok(()),
            false => Err(Why::NoPlace),
        }
    }

    /// Gives each insertion of a version its place.
    fn insert_in(&mut self, version: Version, insertions: Insertions) {
        let mut before: HashMap<LinkAddr, Before> = HashMap::new();
        for (at, code) in insertions.blocks {
            before.entry(at).or_default().inserted = Some(code);
        }
        for (at, code) in insertions.falls {
            match self.item(version.at(at)) {
                Some(_) => before.entry(at).or_default().falls = Some(code),
                None => self.add_stub((version.at(at), at), code),
            }
        }
        if let Some(code) = insertions.entry {
            before.entry(self.entry).or_default().falls = Some(code);
        }
        if !insertions.taken.is_empty() {
            let mut free = self.not_fallen_to(version);
            for ((from, target), code) in insertions.taken {
                let from = version.at(from);
                let is_branch = self.item(from).is_some();
                if is_branch && free.remove(&target) {
                    before.entry(target).or_default().falls = Some(code);
                    self.ways.insert((from, target), Way::Before);
                    continue;
                }
                self.add_stub((from, target), code);
            }
        }
        let before = before.into_iter();
        let before = before.map(|(at, before)| (version.at(at), before));
        self.before.extend(before);
    }

    /// Has a way of a branch lead by code behind the function.
    fn add_stub(&mut self, way: (Label, LinkAddr), code: Inserted) {
        let own = way.0.beside(way.1);
        self.ways.insert(way, Way::Stub(self.stubs.len()));
        self.stubs.push(Stub {
            code,
            target: match self.item(own) {
                Some(_) => own,
                None => own.in_first(),
            },
            offset: 0,
        });
    }

    /// Instructions of a version to which nobody falls through: behind a jump, and at the beginning of a part. Callers come to the
    /// entry.
    fn not_fallen_to(&self, version: Version) -> HashSet<LinkAddr> {
        let mut free: HashSet<LinkAddr> = HashSet::new();
        for part in self.parts.iter().filter(|part| part.version == version) {
            let mut goes_on = false;
            for item in &self.items[part.items.clone()] {
                if !goes_on {
                    free.insert(item.old);
                }
                goes_on = item.goes_on && item.behind == Behind::Nothing;
            }
        }
        free.remove(&self.entry);
        free
    }

    /// Writes what is inserted.
    pub(super) fn write_inserted(
        &self,
        text: &mut [u8],
        start: New,
        targets: &dyn Targets,
    ) -> Result<(), Why> {
        for (version, item) in self.all() {
            if item.falls + item.inserted == 0 {
                continue;
            }
            let before = &self.before[&version.at(item.old)];
            let places = [
                (&before.falls, self.base + item.start()),
                (&before.inserted, self.base + item.label()),
            ];
            for (code, at) in places {
                if let Some(code) = code {
                    let out = &mut text[at.behind(start) as usize..];
                    code.write(out, at, &|symbol| self.address(symbol, targets))?;
                }
            }
        }
        for stub in &self.stubs {
            let own = self.new_of(stub.target);
            let target = match self.has_part(stub.target) {
                true => own.ok_or(Why::Code)?,
                // The code runs into another function.
                false => {
                    let entry = stub.target.old;
                    targets.moved(entry).unwrap_or(New::of_old(entry))
                }
            };
            let at = self.base + stub.offset;
            let out = &mut text[at.behind(start) as usize..][..stub.size() as usize];
            let address = |symbol| self.address(symbol, targets);
            stub.code.write(out, at, &address)?;
            let jump = &mut out[usize::from(stub.code.size())..];
            jump[0] = 0xe9;
            jump[1..].copy_from_slice(&target.displacement(at + stub.size())?);
        }
        Ok(())
    }

    /// Address of something that inserted code names.
    fn address(&self, symbol: Symbol, targets: &dyn Targets) -> New {
        match Label::of(symbol) {
            // It was looked for when the code was given its place.
            Some(label) => self.new_of(label).unwrap_or_default(),
            None => targets.address(symbol),
        }
    }

    /// New places of code behind the function, with the old addresses at which it goes on.
    pub fn stubs(&self) -> impl Iterator<Item = (Range<New>, LinkAddr)> + '_ {
        self.stubs.iter().map(|stub| {
            let start = self.base + stub.offset;
            (start..start + stub.size(), stub.target.old)
        })
    }
}
