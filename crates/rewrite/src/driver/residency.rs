//! Memory of threads of the edited program: code in front of entries that gives each thread its own.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

use flow::{Block, Program, To};
use image::{Image, LinkAddr};
use isa::insn::Reader;
use isa::{Asm, Flags, Reg, RegisterSet};
use probe::{FRONT, Op, Placed, Site, Spill, Symbol, Test};

use super::Entries;
use crate::address::New;
use crate::layout::{Moved, RESIDENT, STATE, Targets};
use crate::{Memory, Refused, StaticTool, unit};

/// Threads may have memory, and this one has its own.
const TESTS: [Test; 2] = [Test::IsZero(STATE), Test::IsOtherThread];

/// Memory of threads, and how they come by it.
#[derive(Debug, Default)]
pub(super) struct Residency {
    /// Bytes of the code in front of an entry.
    stub_size: u64,
    /// Entries that no code can be in front of, and their functions.
    bare: HashMap<LinkAddr, usize>,
    /// Entries whose callers may know what the function leaves as it is: the code in front of them keeps all registers.
    keeps: HashSet<LinkAddr>,
    /// Code in front of entries by their old places, and the code that gives threads their memory.
    pub entry_stubs: BTreeMap<LinkAddr, New>,
    pub resident: New,
    /// State of the resident code.
    pub state: New,
}

/// Whether threads of a program can be given memory at `%gs`.
pub(super) fn has_room_at_gs(
    image: &Image,
    program: &Program,
    memory: Memory<'_>,
) -> Result<(), Refused> {
    if !image.is_static() && image.interpreter().is_none() && memory.part.is_none() {
        return Err(Refused::Library);
    }
    let is_setter = |name: &String| name.split('@').next() == Some("arch_prctl");
    let functions = program.functions.iter();
    let mut blocks = functions.flat_map(|function| &function.graph.blocks);
    match program.slots.values().any(is_setter) || blocks.any(|block| uses_gs(image, block)) {
        true => Err(Refused::UsesGs),
        false => Ok(()),
    }
}

/// Whether an instruction of a block reads, writes or uses `%gs`.
fn uses_gs(image: &Image, block: &Block) -> bool {
    let code = image.bytes_from(block.start);
    let mut reader = Reader::new(code, block.start.0);
    let mut at = block.start.0;
    while at < block.end.0 {
        let Ok(insn) = reader.decode(at) else {
            return false;
        };
        if insn.uses_gs()
            || insn.gs_base_access().is_some()
            || insn.gs_selector_write().is_some()
            || insn.writes_gs_from_memory()
        {
            return true;
        }
        at = insn.next_pc();
    }
    false
}

impl Residency {
    /// With what a tool has done in front of entries, which is the same for each but for its address.
    pub fn new(tool: &dyn StaticTool) -> Residency {
        let size = probe::stub_size(&TESTS, &tool.entered(LinkAddr(0)));
        Residency {
            // Without a size nothing can be written, and the file is refused.
            stub_size: size.unwrap_or(0),
            ..Residency::default()
        }
    }

    /// Facts of the entries of a function that moves.
    pub fn add(&mut self, number: usize, entry: LinkAddr, entries: unit::Entries) {
        let bare = entries.bare.into_iter();
        self.bare.extend(bare.map(|entry| (entry, number)));
        if entries.keeps_r11 {
            self.keeps.insert(entry);
        }
    }

    /// Functions with an entry that no code can be in front of, and to which a function leads that stays.
    pub fn without_entry_stub(
        &self,
        program: &Program,
        moved: &BTreeMap<usize, Moved>,
    ) -> Vec<usize> {
        if self.bare.is_empty() {
            return Vec::new();
        }
        let functions = (0..).zip(&program.functions);
        let stay = functions.filter(|(number, _)| !moved.contains_key(number));
        let edges = stay.flat_map(|(_, function)| &function.graph.edges);
        let targets = edges.filter_map(|edge| match edge.to {
            To::Address(target) => self.bare.get(&target),
            _ => None,
        });
        let found: HashSet<usize> = targets.copied().collect();
        let found = found.into_iter();
        found.filter(|number| moved.contains_key(number)).collect()
    }

    /// Bytes in front of a function for the code of its entry; 0: it has none.
    pub fn in_front_of(&self, entry: LinkAddr) -> u64 {
        if self.bare.contains_key(&entry) {
            0
        } else {
            self.stub_size
        }
    }

    /// Gives the code of a function's entry its place, which ends where the function begins.
    pub fn place_in_front(&mut self, entry: LinkAddr, called: New) {
        if !self.bare.contains_key(&entry) {
            self.entry_stubs
                .insert(entry, New(called.0 - self.stub_size));
        }
    }

    /// Gives the code in front of other entries its places, from an address on; gives the address behind it.
    pub fn place_entry_stubs(
        &mut self,
        mut next: New,
        program: &Program,
        patches: &BTreeMap<LinkAddr, usize>,
    ) -> New {
        for (&place, number) in patches {
            let mut others = program.functions[*number].others.iter();
            if others.any(|entry| *entry == place) && !self.bare.contains_key(&place) {
                self.entry_stubs.insert(place, next);
                next = next + self.stub_size;
            }
        }
        next
    }

    /// New places of code in front of entries, with those.
    pub fn code_in_front(&self) -> impl Iterator<Item = (Range<New>, LinkAddr)> + '_ {
        let stubs = self.entry_stubs.iter();
        stubs.map(|(&place, &stub)| (stub..stub + self.stub_size, place))
    }

    /// Address to which others than this file's moved code come for an entry.
    pub fn entered_at(&self, place: LinkAddr) -> Option<New> {
        self.entry_stubs.get(&place).map(|stub| *stub + FRONT)
    }

    /// Writes the code in front of entries to `text`, which begins at the address `start`.
    pub fn write_entry_stubs(
        &self,
        text: &mut [u8],
        start: New,
        (entries, ops): (&Entries, &dyn Fn(LinkAddr) -> Vec<Op>),
    ) -> Result<(), Refused> {
        for (place, &stub) in &self.entry_stubs {
            let out = &mut text[stub.behind(start) as usize..];
            let written = self.write_entry_stub((*place, &ops(*place)), stub, entries, out);
            written.ok_or(Refused::NoRoom)?;
        }
        Ok(())
    }

    /// Writes the code in front of an entry: a thread that has no memory, or that of another one, is given some.
    fn write_entry_stub(
        &self,
        (place, ops): (LinkAddr, &[Op]),
        stub: New,
        entries: &Entries,
        out: &mut [u8],
    ) -> Option<()> {
        const CALLED: Symbol = Symbol(2);
        let called = entries.moved(place)?;
        let mut live = RegisterSet {
            flags: Flags::NONE,
            ..RegisterSet::ALL
        };
        if !self.keeps.contains(&place) {
            live.general &= !(1 << Reg::R11 as u8);
        }
        let site = Site {
            live,
            spill: Spill::RedZone,
        };
        let mut placed = Placed {
            asm: Asm::new(&mut out[..self.stub_size as usize], stub.0),
            address: |symbol| match symbol {
                CALLED => called.0,
                symbol => entries.address(symbol).0,
            },
        };
        probe::entry_stub((&TESTS, ops), RESIDENT, CALLED, &site, &mut placed).ok()?;
        (!placed.asm.overflowed()).then_some(())
    }
}
