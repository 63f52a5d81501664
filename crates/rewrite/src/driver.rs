//! The driver: all functions that can be are moved, with what a tool inserts into them.
//!
//! The old code stays where it is. At every address by which control may come from elsewhere, the old entry, another
//! entry, a target of a jump table, it gets a jump to the new code; so pointers to functions keep their values, and code that
//! came to the old by a way that was not foreseen runs on unchanged.

mod choice;
mod hops;
mod patches;
mod residency;

use std::collections::{BTreeMap, HashMap, HashSet};

use flow::{EdgeKind, Program, To};
use image::{Image, ImageKind, LinkAddr};
use object::elf;
use probe::Symbol;
use rayon::prelude::*;
use wire::counters::{CONTEXTS_AT, CONTEXTS_BYTES, FIRST, FULL_AT, SPARE, TALLY_AT, TURNS_AT};

use hops::Hops;
use patches::Ways;
use residency::{Residency, has_room_at_gs};

use crate::address::{self, New};
use crate::eh_frame::{self, EhFrame};
use crate::file::File;
use crate::layout::{self, FULL, Moved, PUSH, REFER, STATE, TALLY, TURNS, Targets};
use crate::lsda::Lsda;
use crate::references::References;
use crate::segment::{Contents, Plan};
use crate::skipped::Why;
use crate::tool::{Outcome, StaticTool};
use crate::unit::Units;
use crate::versions::{Label, Version};
use crate::{
    Edited, Functions, MOVES, Options, PLAN, Refused, debug, finish, libraries, mark, resident,
};

/// Bytes of the jump from an old place to the new code.
const PATCH: u64 = 5;
const LSDAS: &str = ".everypath.except_table";
const TEXT: &str = ".everypath.text";
const TABLES: &str = ".everypath.switches";
const EH_FRAME: &str = ".eh_frame";
const EH_FRAME_HDR: &str = ".eh_frame_hdr";
const ALIGN_TEXT: u64 = 64;

/// The rest of code whose functions moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OldCode {
    /// It stays, and what comes there by a way that was not foreseen runs on.
    #[default]
    Stays,
    /// It is filled with `int3`: that nobody comes there is to be shown.
    Traps,
}

/// Moves what can be moved of a program.
struct Mover<'d> {
    image: &'d Image,
    program: &'d Program,
    /// Starts and ends of the functions' ranges with the functions' numbers, by start.
    owners: Vec<Owner>,
    /// Functions by their number.
    moved: BTreeMap<usize, Moved>,
    skipped: Vec<(usize, Why)>,
    /// Tables of landing pads by function, with the beginnings of the code that each is of.
    lsdas: BTreeMap<usize, Vec<(LinkAddr, Lsda)>>,
    /// By function that moves.
    ways: HashMap<usize, Ways>,
    /// Places for jumps to the new code, with the functions that they are of.
    patches: BTreeMap<LinkAddr, usize>,
    hops: Hops,
    tool: &'d mut dyn StaticTool,
    /// Functions as the tool sees them, if it inserts anything.
    units: Option<Units<'d>>,
    /// Memory of threads, if the tool needs some.
    residency: Option<Residency>,
    /// As [`Edited::apart`].
    apart: Vec<u8>,
}

/// Start and end of a range of a function, and the function's number.
type Owner = (LinkAddr, LinkAddr, usize);

/// Ranges of all functions, by start.
fn owners(program: &Program) -> Vec<Owner> {
    let functions = (0..).zip(&program.functions);
    let ranges = functions.flat_map(|(number, function)| {
        let ranges = function.ranges.iter();
        ranges.map(move |range| (range.start, range.end, number))
    });
    let mut owners: Vec<_> = ranges.collect();
    owners.sort_unstable();
    owners
}

/// New addresses of entries, and of the resident code and its state.
struct Entries {
    moved: HashMap<LinkAddr, New>,
    resident: New,
    state: New,
}

impl Targets for Entries {
    fn moved(&self, old: LinkAddr) -> Option<New> {
        self.moved.get(&old).copied()
    }

    fn address(&self, symbol: Symbol) -> New {
        match symbol {
            STATE => self.state,
            TALLY => self.resident + TALLY_AT as u64,
            TURNS => self.resident + TURNS_AT as u64,
            FULL => self.resident + FULL_AT as u64,
            Symbol(number) if (PUSH.0..=REFER.0).contains(&number) => {
                let number = (symbol.0 - PUSH.0) as usize;
                self.resident + (CONTEXTS_AT + CONTEXTS_BYTES * number) as u64
            }
            _ => self.resident,
        }
    }
}

/// Edits a file so that its functions run at another place.
///
/// # Errors
/// [`Refused`] says why the file is left as it is.
pub fn edit(
    input: &[u8],
    image: &Image,
    program: &Program,
    options: Options<'_>,
    tool: &mut dyn StaticTool,
) -> Result<Edited, Refused> {
    flow::with_processors(|| edit_here(input, image, program, options, tool))
}

fn edit_here(
    input: &[u8],
    image: &Image,
    program: &Program,
    options: Options<'_>,
    tool: &mut dyn StaticTool,
) -> Result<Edited, Refused> {
    if mark::is_edited(input) {
        return Err(Refused::Edited);
    }
    if let Some(memory) = tool.memory() {
        has_room_at_gs(image, program, memory)?;
    }
    let mut file = File::parse(input)?;
    let (addr, bytes) = file.section(EH_FRAME).unwrap_or_default();
    let old_frames = EhFrame::parse(bytes, addr).ok_or(Refused::Malformed("unwind table"))?;
    let mut mover = Mover::new(image, program, tool);
    mover.choose(&old_frames);
    let references = References::of(image, program);
    mover.find_patches(&references);
    // Hops are in functions that are moved.
    while mover.skip_what_is_read(&file, &references) && !mover.hops.is_empty() {
        mover.find_patches(&references);
    }

    let mut plan = mover.plan(input, &mut file, &old_frames)?;
    if let Some(folder) = options.libraries {
        libraries::search_first(&mut file, &mut plan, folder)?;
    }
    mover.patch(&mut file)?;
    if options.old_code == OldCode::Traps {
        mover.fill(&mut file);
    }
    // The note comes first, then the resident code if there is some, then the functions.
    let text = 1 + usize::from(mover.residency.is_some());
    file.move_symbols(text, &|old| mover.symbol(old));
    if image.kind() != ImageKind::Fixed {
        let exported = mover.exported(&file, &references);
        file.move_dynamic_symbols(&|old| mover.entered(old).filter(|_| exported.contains(&old)));
    }
    debug::move_all(&mut file, &mover.moves());
    let functions = Functions {
        moved: mover.moved.len(),
        skipped: mover.skipped(),
        tables: mover.tables(),
        says: mover.tool.says(),
        code: match mover.tool.is_apart() {
            true => layout::code(mover.moved.values()),
            false => Vec::new(),
        },
        apart: std::mem::take(&mut mover.apart),
    };
    finish(input, file, plan, functions)
}

impl<'d> Mover<'d> {
    fn new(image: &'d Image, program: &'d Program, tool: &'d mut dyn StaticTool) -> Mover<'d> {
        Mover {
            image,
            program,
            owners: owners(program),
            moved: BTreeMap::new(),
            skipped: Vec::new(),
            lsdas: BTreeMap::new(),
            ways: HashMap::new(),
            patches: BTreeMap::new(),
            hops: Hops::default(),
            units: tool.inserts().then(|| Units::new(image, program)),
            residency: tool.memory().map(|_| Residency::new(&*tool)),
            apart: Vec::new(),
            tool,
        }
    }
}

impl Mover<'_> {
    /// Lays out the new segment: the note, code, tables of switches and of landing pads, unwind tables and their index, which takes the place
    /// of the old one.
    // Long function: the order of the sections in one view.
    fn plan(
        &mut self,
        input: &[u8],
        file: &mut File<'_>,
        old: &EhFrame<'_>,
    ) -> Result<Plan, Refused> {
        let unreachable = |_| Refused::NoRoom;
        let mut plan = Plan::new(file)?;
        let push = |plan: &mut Plan, name, align, bytes| {
            plan.push(Contents {
                name,
                kind: match name {
                    mark::SECTION => elf::SHT_NOTE,
                    _ => elf::SHT_PROGBITS,
                },
                is_code: name == TEXT || name == resident::SECTION,
                align,
                bytes,
            });
        };
        let outcome = Outcome {
            input,
            program: self.program,
            skipped: &self.skipped,
        };
        let mut section = self.tool.section(&outcome);
        if let Some(section) = section.as_mut().filter(|_| self.tool.is_apart()) {
            self.apart = std::mem::replace(&mut section.bytes, section.id.to_vec());
        }
        let memory = self.tool.memory();
        if let (Some(residency), Some(memory)) = (&mut self.residency, memory) {
            let own = match memory.part {
                None => SPARE + FIRST + memory.window(),
                Some(part) if memory.bytes > part.most => return Err(Refused::NoCounters),
                // The state is elsewhere.
                Some(_) => FIRST,
            };
            residency.state = plan.grow(file, own)?;
        }
        push(&mut plan, mark::SECTION, mark::ALIGN, mark::note());
        if let (Some(residency), Some(memory)) = (&mut self.residency, memory) {
            residency.resident = plan.next(resident::ALIGN);
            let id = section.as_ref().map_or([0; 16], |section| section.id);
            let code = resident::at(residency.resident, residency.state, id, memory);
            push(&mut plan, resident::SECTION, resident::ALIGN, code);
        }
        let text = self.lay_out(plan.next(ALIGN_TEXT))?;
        push(&mut plan, TEXT, ALIGN_TEXT, text);
        let switches = self.write_tables(plan.next(8))?;
        push(&mut plan, TABLES, 8, switches);
        let (tables, lsdas) = self.write_lsdas(plan.next(8)).map_err(unreachable)?;
        push(&mut plan, LSDAS, 8, tables);
        let moved: Vec<&Moved> = self.moved.values().collect();
        let stubs = moved.iter().flat_map(|moved| moved.stubs());
        let entry_stubs = self.residency.iter();
        let entry_stubs = entry_stubs.flat_map(Residency::code_in_front);
        let others: Vec<_> = stubs.chain(entry_stubs).collect();
        let at = plan.next(8);
        let mut index_at = None;
        if !old.fdes.is_empty() {
            let (frames, index) = old
                .write(at, &moved, &lsdas, &others)
                .map_err(unreachable)?;
            push(&mut plan, EH_FRAME, 8, frames);
            let table = plan.next(4);
            let index = eh_frame::search_table(table, at, &index).map_err(unreachable)?;
            index_at = Some((table, index.len() as u64));
            push(&mut plan, EH_FRAME_HDR, 4, index);
        }
        if let Some(section) = section {
            push(&mut plan, PLAN, 8, section.bytes);
        }
        if self.tool.records_targets() {
            push(&mut plan, MOVES, 8, self.targets());
        }
        if let Some(residency) = &self.residency {
            plan.cover(".everypath.bss", residency.state);
        }
        if let Some((index, size)) = index_at {
            file.rename(EH_FRAME, ".everypath.old_eh_frame");
            file.rename(EH_FRAME_HDR, ".everypath.old_eh_frame_hdr");
            file.set_unwind_table(plan.offset_of(index), index, size)?;
        }
        Ok(plan)
    }

    /// Leaves functions with an entry that no code can be in front of, if one leads there that stays. Whether there were any.
    fn skip_without_entry_stub(&mut self) -> bool {
        let mut has_left = false;
        while let Some(residency) = &self.residency {
            let found = residency.without_entry_stub(self.program, &self.moved);
            if found.is_empty() {
                break;
            }
            has_left = true;
            for number in found {
                self.skip(number, Why::NoPlace);
            }
        }
        has_left
    }

    fn skip(&mut self, function: usize, why: Why) {
        if self.moved.remove(&function).is_some() {
            self.tool.skip(function);
            self.skipped.push((function, why));
        }
    }

    /// Leaves functions whose patched bytes are read, and those with an address inside that is taken, where no jump to
    /// the new code is: by code, by a pointer, or by a table of return addresses, as OCaml's collector has one.
    /// Whether there were any.
    fn skip_what_is_read(&mut self, file: &File<'_>, references: &References) -> bool {
        let before = self.moved.len();
        let mut tight = self.in_return_tables(file);
        let mut look = |addr: LinkAddr, is_read: bool| {
            if let Some((&place, &number)) = self.patches.range(..=addr).next_back()
                && addr < place + self.width(place)
            {
                if is_read {
                    tight.push((number, Why::ReadsText));
                } else if addr > place {
                    tight.push((number, Why::TakenInside));
                }
                return;
            }
            let owner = self.number_at(addr).filter(|_| !is_read);
            if let Some(number) = owner.filter(|number| {
                let moved = self.moved.get(number);
                moved.is_some_and(|moved| moved.new_of(Version::FIRST.at(addr)).is_some())
            }) {
                tight.push((number, Why::TakenInside));
            }
        };
        for &addr in references.pointers.iter().chain(&references.taken) {
            look(addr, false);
        }
        for &addr in &references.read {
            look(addr, true);
        }
        for (number, why) in tight {
            self.skip(number, why);
        }
        self.skip_without_entry_stub();
        let moved = &self.moved;
        self.patches.retain(|_, number| moved.contains_key(number));
        moved.len() < before
    }

    /// Functions with a return address in the data of a program that has no relocations to say so.
    fn in_return_tables(&self, file: &File<'_>) -> Vec<(usize, Why)> {
        if self.image.kind() != ImageKind::Fixed {
            return Vec::new();
        }
        let mut returns = HashMap::new();
        for (&number, moved) in &self.moved {
            returns.extend(moved.returns().map(|addr| (addr, number)));
        }
        let found = file.data_words().filter_map(|word| returns.get(&word));
        found.map(|&number| (number, Why::TakenInside)).collect()
    }

    /// Number of the function with an address.
    fn number_at(&self, addr: LinkAddr) -> Option<usize> {
        let after = self.owners.partition_point(|(start, ..)| *start <= addr);
        let &(_, end, number) = self.owners.get(after.checked_sub(1)?)?;
        (addr < end).then_some(number)
    }

    /// Gives each function its place from an address on, and writes their code.
    fn lay_out(&mut self, start: New) -> Result<Vec<u8>, Refused> {
        let mut next = start;
        for moved in self.moved.values_mut() {
            let residency = self.residency.as_mut();
            let in_front = residency.map_or(0, |residency| residency.in_front_of(moved.entry));
            next = moved.place(next, in_front);
            if let Some(residency) = &mut self.residency {
                residency.place_in_front(moved.entry, moved.called_at());
            }
        }
        if let Some(residency) = &mut self.residency {
            next = residency.place_entry_stubs(next, self.program, &self.patches);
        }
        let mut tables = next.aligned(8);
        for moved in self.moved.values_mut() {
            tables = moved.place_tables(tables);
        }
        let entries = self.entries();
        // Bytes between functions stop whoever gets there.
        let mut text = vec![0xcc; next.behind(start) as usize];
        if let Some(residency) = &self.residency {
            let ops = |entry| self.tool.entered(entry);
            residency.write_entry_stubs(&mut text, start, (&entries, &ops))?;
        }
        let mut own_texts = Vec::with_capacity(self.moved.len());
        let (mut rest, mut at) = (&mut text[..], start);
        for moved in self.moved.values() {
            let (own, behind) =
                rest[moved.base.behind(at) as usize..].split_at_mut(moved.size as usize);
            own_texts.push((moved, own));
            (rest, at) = (behind, moved.base + moved.size);
        }
        let image = self.image;
        let old = |addr: LinkAddr| image.bytes_from(addr);
        own_texts.into_par_iter().try_for_each(|(moved, own)| {
            let written = moved.write(own, moved.base, &entries, &old);
            written.map_err(|_| Refused::NoRoom)?;
            match moved.is_same(own, moved.base, &entries, &old) {
                true => Ok(()),
                false => Err(Refused::Check("moved code is not the same as the old")),
            }
        })?;
        Ok(text)
    }

    /// Tables of switches of what is moved, at the address where they were placed.
    fn write_tables(&self, start: New) -> Result<Vec<u8>, Refused> {
        let ends = self.moved.values().filter_map(Moved::tables_end);
        let end = ends.max().unwrap_or(start);
        let mut out = vec![0; end.behind(start) as usize];
        let entries = self.entries();
        for moved in self.moved.values() {
            let written = moved.write_tables(&mut out, start, &entries);
            written.map_err(|_| Refused::NoRoom)?;
        }
        let old = |addr: LinkAddr| self.image.bytes_from(addr);
        let mut all = self.moved.values();
        match all.all(|moved| moved.are_tables_same(&out, start, &entries, &old)) {
            true => Ok(out),
            false => Err(Refused::Check("a table of a switch leads elsewhere")),
        }
    }

    /// Tables of landing pads of what is moved, at an address; and the address of each by the beginning of the old code.
    fn write_lsdas(&self, start: New) -> Result<(Vec<u8>, HashMap<Label, New>), Why> {
        let (mut out, mut places) = (Vec::new(), HashMap::new());
        for (number, moved) in &self.moved {
            let Some(all) = self.lsdas.get(number) else {
                continue;
            };
            for version in moved.versions() {
                for (code, lsda) in all {
                    let code = version.at(*code);
                    if !moved.has_part(code) {
                        continue;
                    }
                    out.resize(out.len().next_multiple_of(4), 0);
                    let addr = start + out.len() as u64;
                    out.extend_from_slice(&lsda.write(addr, moved, version)?);
                    places.insert(code, addr);
                }
            }
        }
        Ok((out, places))
    }

    /// New addresses of all entries.
    fn entries(&self) -> Entries {
        let mut all = HashMap::new();
        for (&number, moved) in &self.moved {
            let function = &self.program.functions[number];
            let entries = function.others.iter().chain([&function.entry]);
            for entry in entries {
                let new = moved.new_of(Version::FIRST.at(*entry));
                all.extend(new.map(|new| (*entry, new)));
            }
            all.insert(function.entry, moved.called_at());
        }
        let residency = self.residency.as_ref();
        Entries {
            moved: all,
            resident: residency.map_or(New(0), |residency| residency.resident),
            state: residency.map_or(New(0), |residency| residency.state),
        }
    }

    /// New addresses to which calls and jumps by an address may go, with the old ones: entries, and cases of tables.
    fn targets(&self) -> Vec<u8> {
        let mut all = Vec::new();
        for (&number, moved) in &self.moved {
            let function = &self.program.functions[number];
            let entries = function.others.iter().chain([&function.entry]);
            for &entry in entries {
                let called = moved.new_of(Version::FIRST.at(entry));
                let entered = self.entered(entry).map(|(entered, _)| entered);
                all.extend(called.into_iter().chain(entered).map(|new| (new, entry)));
            }
            let graph = &function.graph;
            let cases = graph
                .edges
                .iter()
                .filter(|edge| edge.kind == EdgeKind::Case);
            for edge in cases {
                let To::Block(to) = edge.to else {
                    continue;
                };
                let old = graph.blocks[to as usize].start;
                let versions = moved.versions();
                let new = versions.filter_map(|version| moved.new_of(version.at(old)));
                all.extend(new.map(|new| (new, old)));
            }
            // A table may lead to code on the way to a case.
            all.extend(moved.stubs().map(|(new, old)| (new.start, old)));
        }
        all.sort_unstable();
        all.dedup();
        let pairs = all.iter().flat_map(|(new, old)| [new.0, old.0]);
        pairs.flat_map(u64::to_le_bytes).collect()
    }

    /// New address and size of what a symbol of an old address is of.
    fn symbol(&self, old: LinkAddr) -> Option<(New, u64)> {
        let number = self.number_at(old)?;
        let function = &self.program.functions[number];
        let moved = self.moved.get(&number)?;
        let first = Version::FIRST.at(old);
        if old == moved.entry && moved.versions().nth(1).is_some() {
            // Other versions stand behind the first one.
            let called = moved.called_at();
            return Some((called, (moved.base + moved.size).behind(called)));
        }
        let mut parts = moved.parts();
        if let Some((_, new)) = parts.find(|(start, _)| *start == first) {
            return Some((new.start, address::len(&new)));
        }
        function.others.contains(&old).then_some(())?;
        moved.new_of(first).map(|new| (new, 0))
    }

    /// Address and size that other files know of a function: its code begins with that in front of its entry, if it has some.
    fn entered(&self, old: LinkAddr) -> Option<(New, u64)> {
        let (called, size) = self.symbol(old)?;
        let Some(residency) = &self.residency else {
            return Some((called, size));
        };
        let entered = residency.entered_at(old)?;
        (entered < called).then(|| (entered, (called + size).behind(entered)))
    }

    /// Entries of moved functions that other files know by a symbol, and this one in no other way: calls of them need not go by
    /// the old code, and nobody sees two addresses of one function.
    fn exported(&self, file: &File<'_>, references: &References) -> HashSet<LinkAddr> {
        let mut entries: HashSet<LinkAddr> = file.dynamic_functions().collect();
        entries.retain(|&addr| {
            let number = self
                .number_at(addr)
                .filter(|number| self.moved.contains_key(number));
            number.is_some_and(|number| self.program.functions[number].entry == addr)
        });
        references.by_symbol_only(self.image, self.program, entries)
    }

    fn moves(&self) -> debug::Moves<'_> {
        let functions = (0..).zip(&self.program.functions);
        let stay = functions.filter(|(number, _)| !self.moved.contains_key(number));
        let ranges = stay.flat_map(|(_, function)| &function.ranges);
        let stay = ranges.map(|range| range.start..range.end).collect();
        debug::Moves::new(self.moved.values(), stay)
    }

    /// Jumps by tables that were made anew, and all of them.
    fn tables(&self) -> (usize, usize) {
        let both = self.moved.iter().map(|(&number, moved)| {
            let tables = &self.program.functions[number].tables;
            let new = tables.iter().filter(|table| moved.has_table_of(table.jump));
            (new.count(), tables.len())
        });
        both.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    /// Functions that were left, by entry.
    fn skipped(&self) -> Vec<(LinkAddr, Why)> {
        let functions = &self.program.functions;
        let skipped = self.skipped.iter();
        let mut skipped: Vec<_> = skipped
            .map(|&(number, why)| (functions[number].entry, why))
            .collect();
        skipped.sort_unstable();
        skipped
    }
}
