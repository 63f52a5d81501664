//! Null relocation: all functions that can be are moved, and nothing else is done to them.
//!
//! The old code stays where it is. At every address by which control may come from elsewhere, the old entry, another
//! entry, a target of a jump table, it gets a jump to the new code; so pointers to functions keep their values, and code that
//! came to the old by a way that was not foreseen runs on unchanged.

use std::collections::{BTreeMap, HashMap, HashSet};

use flow::{EdgeKind, Function, Program, To};
use image::{Image, ImageKind, LinkAddr};
use isa::Insn;
use object::elf;

use crate::file::File;
use crate::frames::{self, Fde, Frames};
use crate::left::Why;
use crate::pads::Pads;
use crate::references::References;
use crate::relocate::{Moved, Targets};
use crate::segment::{Contents, Plan};
use crate::switches::Switches;
use crate::{Edited, Functions, Options, Refused, debug, finish, libraries, mark};

/// Bytes of the jump from an old place to the new code.
const PATCH: u64 = 5;
/// Most bytes of the last table of landing pads.
const LAST_TABLE: usize = 4096;
const PADS: &str = ".everypath.except_table";
const TEXT: &str = ".everypath.text";
const TABLES: &str = ".everypath.switches";
const FRAMES: &str = ".eh_frame";
const INDEX: &str = ".eh_frame_hdr";
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
    owners: Vec<(u64, u64, usize)>,
    /// Functions by their number.
    moved: BTreeMap<usize, Moved>,
    left: Vec<(usize, Why)>,
    /// Tables of landing pads by function, with the beginnings of the code that each is of.
    pads: BTreeMap<usize, Vec<(u64, Pads)>>,
    /// Places for jumps to the new code, with the functions that they are of.
    patches: BTreeMap<u64, usize>,
}

/// Ranges of all functions, by start.
fn owners(program: &Program) -> Vec<(u64, u64, usize)> {
    let functions = (0..).zip(&program.functions);
    let ranges = functions.flat_map(|(number, function)| {
        let ranges = function.ranges.iter();
        ranges.map(move |range| (range.start.0, range.end.0, number))
    });
    let mut owners: Vec<_> = ranges.collect();
    owners.sort_unstable();
    owners
}

/// New addresses of entries.
struct Entries(HashMap<u64, u64>);

impl Targets for Entries {
    fn moved(&self, old: u64) -> Option<u64> {
        self.0.get(&old).copied()
    }
}

/// Edits a file so that its functions run at another place.
///
/// # Errors
/// [`Refused`] says why the file is left as it is.
pub fn null_relocation(
    input: &[u8],
    image: &Image,
    program: &Program,
    options: Options<'_>,
) -> Result<Edited, Refused> {
    if mark::is_edited(input) {
        return Err(Refused::Edited);
    }
    let mut file = File::parse(input)?;
    let (addr, bytes) = file.section(FRAMES).ok_or(Refused::NoUnwind)?;
    let old_frames = Frames::parse(bytes, addr).ok_or(Refused::Malformed("unwind table"))?;
    let mut mover = Mover {
        image,
        program,
        owners: owners(program),
        moved: BTreeMap::new(),
        left: Vec::new(),
        pads: BTreeMap::new(),
        patches: BTreeMap::new(),
    };
    mover.choose(&old_frames);
    mover.find_patches();
    let references = References::of(image, program);
    mover.leave_what_is_read(&file, &references);

    let mut plan = mover.plan(&mut file, &old_frames)?;
    if let Some(folder) = options.libraries {
        libraries::search_first(&mut file, &mut plan, folder)?;
    }
    mover.patch(&mut file)?;
    if options.old_code == OldCode::Traps {
        mover.fill(&mut file);
    }
    // The note comes first, then the code.
    file.move_symbols(1, &|old| mover.symbol(old));
    if image.kind() != ImageKind::Fixed {
        let exported = mover.exported(&file, &references);
        file.move_dynamic_symbols(&|old| mover.symbol(old).filter(|_| exported.contains(&old)));
    }
    debug::move_all(&mut file, &mover.moves());
    let functions = Functions {
        moved: mover.moved.len(),
        left: mover.left(),
        tables: mover.tables(),
    };
    finish(input, file, plan, functions)
}

impl Mover<'_> {
    /// Lays out the new segment: the note, code, tables of switches and of landing pads, unwind tables and their index, which takes the place
    /// of the old one.
    fn plan(&mut self, file: &mut File<'_>, old: &Frames<'_>) -> Result<Plan, Refused> {
        let unreachable = |_| Refused::NoRoom;
        let mut plan = Plan::new(file)?;
        let push = |plan: &mut Plan, name, align, bytes| {
            plan.push(Contents {
                name,
                kind: match name {
                    mark::SECTION => elf::SHT_NOTE,
                    _ => elf::SHT_PROGBITS,
                },
                is_code: name == TEXT,
                align,
                bytes,
            });
        };
        push(&mut plan, mark::SECTION, mark::ALIGN, mark::note());
        let text = self.lay_out(plan.next(ALIGN_TEXT))?;
        push(&mut plan, TEXT, ALIGN_TEXT, text);
        let switches = self.write_tables(plan.next(8))?;
        push(&mut plan, TABLES, 8, switches);
        let (tables, pads) = self.write_pads(plan.next(8)).map_err(unreachable)?;
        push(&mut plan, PADS, 8, tables);
        let moved: Vec<Moved> = self.moved.values().cloned().collect();
        let at = plan.next(8);
        let (frames, index) = old.write(at, &moved, &pads).map_err(unreachable)?;
        push(&mut plan, FRAMES, 8, frames);
        let index_at = plan.next(4);
        let index = frames::search_table(index_at, at, &index).map_err(unreachable)?;
        let size = index.len() as u64;
        push(&mut plan, INDEX, 4, index);
        file.rename(FRAMES, ".everypath.old_eh_frame");
        file.rename(INDEX, ".everypath.old_eh_frame_hdr");
        file.set_unwind_table(plan.offset_of(index_at), index_at, size)?;
        Ok(plan)
    }

    fn leave(&mut self, function: usize, why: Why) {
        if self.moved.remove(&function).is_some() {
            self.left.push((function, why));
        }
    }

    /// Takes the functions whose code and frames can be written elsewhere.
    fn choose(&mut self, frames: &Frames<'_>) {
        let mut described: Vec<&Fde> = frames.fdes.iter().collect();
        described.sort_by_key(|fde| fde.pc);
        let tables = Tables::of(self.image, frames);
        for (number, function) in self.program.functions.iter().enumerate() {
            let mut own: Vec<&Fde> = Vec::new();
            for range in &function.ranges {
                let first = described.partition_point(|fde| fde.pc < range.start.0);
                let fdes = described[first..].iter().copied();
                own.extend(fdes.take_while(|fde| fde.pc < range.end.0));
            }
            let why = match function.failed.first() {
                Some(failed) => Some(Why::Flow(failed.gate)),
                None if own.is_empty() => Some(Why::Unwind),
                None if !own.iter().all(|fde| frames.is_known(fde)) => Some(Why::Unwind),
                None if is_start_up(function) => Some(Why::StartUp),
                None => None,
            };
            let image = self.image;
            let bytes = |addr: u64| image.bytes_from(LinkAddr(addr));
            let moved = match why {
                Some(why) => Err(why),
                None => {
                    let is_fixed = image.kind() == ImageKind::Fixed;
                    let switches = Switches::of(function, is_fixed, &bytes);
                    Moved::new(function, switches, &bytes)
                }
            };
            let with_pads = moved.and_then(|moved| {
                let pads = own.iter().map(|fde| tables.of_range(frames, fde));
                let pads = pads.collect::<Option<Vec<_>>>().ok_or(Why::LandingPads)?;
                let pads: Vec<(u64, Pads)> = pads.into_iter().flatten().collect();
                match pads.iter().all(|(_, pads)| pads.fits(&moved)) {
                    true => Ok((moved, pads)),
                    false => Err(Why::LandingPads),
                }
            });
            match with_pads {
                Ok((moved, pads)) => {
                    self.moved.insert(number, moved);
                    self.pads.insert(number, pads);
                }
                Err(why) => self.left.push((number, why)),
            }
        }
    }

    /// Places where control comes in, as far as there is room for a jump at each.
    fn find_patches(&mut self) {
        loop {
            let mut patches = BTreeMap::new();
            for &number in self.moved.keys() {
                let function = &self.program.functions[number];
                for place in places(function, &self.moved[&number]) {
                    patches.insert(place, number);
                }
            }
            let mut tight = self.tight(&patches);
            tight.extend(self.left_into(&patches));
            self.patches = patches;
            if tight.is_empty() {
                return;
            }
            for number in tight {
                self.leave(number, Why::NoRoom);
            }
        }
    }

    /// Functions with a patch that would overlap another one, or other code.
    fn tight(&self, patches: &BTreeMap<u64, usize>) -> Vec<usize> {
        let mut tight = Vec::new();
        let mut last: Option<u64> = None;
        for (&place, &number) in patches {
            if last.is_some_and(|before| place - before < PATCH) {
                tight.push(number);
                continue;
            }
            let next = self.owners.partition_point(|(start, ..)| *start <= place);
            let runs_into = self
                .owners
                .get(next)
                .is_some_and(|(start, _, other)| *start < place + PATCH && *other != number);
            let is_code = self.image.bytes_from(LinkAddr(place)).len() as u64 >= PATCH;
            let is_end = self
                .function_end(number, place)
                .is_none_or(|end| end < place + PATCH && !self.is_padding(end, place + PATCH));
            if runs_into || !is_code || is_end {
                tight.push(number);
                continue;
            }
            last = Some(place);
        }
        tight
    }

    /// Functions that go on in old code where a patch is.
    fn left_into(&self, patches: &BTreeMap<u64, usize>) -> Vec<usize> {
        let is_patched = |addr: u64| {
            let before = patches.range(..addr).next_back();
            before.is_some_and(|(place, _)| addr < place + PATCH)
        };
        let all = self.moved.iter();
        let found = all.filter(|(_, moved)| moved.exits().any(is_patched));
        found.map(|(&number, _)| number).collect()
    }

    /// End of the range of a function with an address.
    fn function_end(&self, number: usize, place: u64) -> Option<u64> {
        let ranges = self.program.functions[number].ranges.iter();
        let mut own = ranges.filter(|range| range.contains(&LinkAddr(place)));
        own.next().map(|range| range.end.0)
    }

    /// Whether bytes between functions are padding of compilers and linkers.
    fn is_padding(&self, from: u64, to: u64) -> bool {
        let bytes = self.image.bytes_from(LinkAddr(from));
        let bytes = bytes.get(..(to - from) as usize).unwrap_or_default();
        let mut at = 0;
        while at < bytes.len() {
            let rest = self.image.bytes_from(LinkAddr(from + at as u64));
            match Insn::decode(&rest[..rest.len().min(15)], from + at as u64) {
                Ok(insn) if insn.is_nop() || insn.bytes() == [0xcc] => at += insn.len(),
                _ => return bytes[at..].iter().all(|&byte| byte == 0),
            }
        }
        !bytes.is_empty()
    }

    /// Leaves functions whose patched bytes are read, and those with an address inside that is taken, where no jump to
    /// the new code is: by code, by a pointer, or by a table of return addresses, as OCaml's collector has one.
    fn leave_what_is_read(&mut self, file: &File<'_>, references: &References) {
        let mut tight = self.in_return_tables(file);
        let mut look = |addr: u64, is_read: bool| {
            if let Some((&place, &number)) = self.patches.range(..=addr).next_back()
                && addr < place + PATCH
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
                moved.is_some_and(|moved| moved.new_of(addr).is_some())
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
            self.leave(number, why);
        }
        let moved = &self.moved;
        self.patches.retain(|_, number| moved.contains_key(number));
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
    fn number_at(&self, addr: u64) -> Option<usize> {
        let after = self.owners.partition_point(|(start, ..)| *start <= addr);
        let &(_, end, number) = self.owners.get(after.checked_sub(1)?)?;
        (addr < end).then_some(number)
    }

    /// Gives each function its place from an address on, and writes their code.
    fn lay_out(&mut self, start: u64) -> Result<Vec<u8>, Refused> {
        let mut next = start;
        for moved in self.moved.values_mut() {
            next = moved.place(next);
        }
        let mut tables = next.next_multiple_of(8);
        for moved in self.moved.values_mut() {
            tables = moved.place_tables(tables);
        }
        let entries = self.entries();
        // Bytes between functions stop whoever gets there.
        let mut text = vec![0xcc; (next - start) as usize];
        for moved in self.moved.values() {
            let written = moved.write(&mut text, start, &entries);
            written.map_err(|_| Refused::NoRoom)?;
        }
        let is_same = |moved: &Moved| moved.is_same(&text, start, &entries);
        match self.moved.values().all(is_same) {
            true => Ok(text),
            false => Err(Refused::Check("moved code is not the same as the old")),
        }
    }

    /// Tables of switches of what is moved, at the address where they were placed.
    fn write_tables(&self, start: u64) -> Result<Vec<u8>, Refused> {
        let ends = self.moved.values().filter_map(Moved::tables_end);
        let end = ends.max().unwrap_or(start);
        let mut out = vec![0; (end - start) as usize];
        let entries = self.entries();
        for moved in self.moved.values() {
            let written = moved.write_tables(&mut out, start, &entries);
            written.map_err(|_| Refused::NoRoom)?;
        }
        let old = |addr: u64| self.image.bytes_from(LinkAddr(addr));
        let mut all = self.moved.values();
        match all.all(|moved| moved.are_tables_same(&out, start, &entries, &old)) {
            true => Ok(out),
            false => Err(Refused::Check("a table of a switch leads elsewhere")),
        }
    }

    /// Tables of landing pads of what is moved, at an address; and the address of each by the beginning of the old code.
    fn write_pads(&self, start: u64) -> Result<(Vec<u8>, HashMap<u64, u64>), Why> {
        let (mut out, mut places) = (Vec::new(), HashMap::new());
        for (number, moved) in &self.moved {
            for (code, pads) in self.pads.get(number).into_iter().flatten() {
                out.resize(out.len().next_multiple_of(4), 0);
                let addr = start + out.len() as u64;
                out.extend_from_slice(&pads.write(addr, moved)?);
                places.insert(*code, addr);
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
                all.extend(moved.new_of(entry.0).map(|new| (entry.0, new)));
            }
        }
        Entries(all)
    }

    /// Puts jumps to the new code at the old places.
    fn patch(&self, file: &mut File<'_>) -> Result<(), Refused> {
        for (&place, number) in &self.patches {
            let new = self.moved[number].new_of(place);
            let offset = self.image.file_offset(LinkAddr(place));
            let (Some(new), Some(offset)) = (new, offset) else {
                return Err(Refused::Check("a place of a jump is not in the file"));
            };
            let distance = new.wrapping_sub(place + PATCH) as i64;
            let distance = i32::try_from(distance).map_err(|_| Refused::NoRoom)?;
            let mut jump = vec![0xe9];
            jump.extend_from_slice(&distance.to_le_bytes());
            file.patch(offset.0, jump, "jump to moved code");
        }
        Ok(())
    }

    /// Fills old code with traps, but for the jumps.
    fn fill(&self, file: &mut File<'_>) {
        let is_jump = |at: u64| {
            let before = self.patches.range(..=at).next_back();
            before.is_some_and(|(place, _)| at < place + PATCH)
        };
        let mut runs: Vec<(u64, u64)> = Vec::new();
        let code = self.moved.values().flat_map(Moved::old_code).flatten();
        let mut code: Vec<u64> = code.filter(|at| !is_jump(*at)).collect();
        code.sort_unstable();
        code.dedup();
        for at in code {
            match runs.last_mut().filter(|run| run.1 == at) {
                Some(run) => run.1 += 1,
                None => runs.push((at, at + 1)),
            }
        }
        for (from, to) in runs {
            if let Some(offset) = self.image.file_offset(LinkAddr(from)) {
                file.patch(
                    offset.0,
                    vec![0xcc; (to - from) as usize],
                    "trap in old code",
                );
            }
        }
    }

    /// New address and size of what a symbol of an old address is of.
    fn symbol(&self, old: u64) -> Option<(u64, u64)> {
        let number = self.number_at(old)?;
        let function = &self.program.functions[number];
        let moved = self.moved.get(&number)?;
        let mut parts = moved.parts();
        if let Some((_, new)) = parts.find(|(start, _)| *start == old) {
            return Some((new.start, new.end - new.start));
        }
        function.others.contains(&LinkAddr(old)).then_some(())?;
        moved.new_of(old).map(|new| (new, 0))
    }

    /// Entries of moved functions that other files know by a symbol, and this one in no other way: calls of them need not go by
    /// the old code, and nobody sees two addresses of one function.
    fn exported(&self, file: &File<'_>, references: &References) -> HashSet<u64> {
        let mut entries: HashSet<u64> = file.dynamic_functions().collect();
        entries.retain(|&addr| {
            let number = self
                .number_at(addr)
                .filter(|number| self.moved.contains_key(number));
            number.is_some_and(|number| self.program.functions[number].entry.0 == addr)
        });
        references.by_symbol_only(self.image, self.program, entries)
    }

    fn moves(&self) -> debug::Moves<'_> {
        let functions = (0..).zip(&self.program.functions);
        let stay = functions.filter(|(number, _)| !self.moved.contains_key(number));
        let ranges = stay.flat_map(|(_, function)| &function.ranges);
        let stay = ranges.map(|range| range.start.0..range.end.0).collect();
        debug::Moves::new(self.moved.values(), stay)
    }

    /// Jumps by tables that were made anew, and all of them.
    fn tables(&self) -> (usize, usize) {
        let both = self.moved.iter().map(|(&number, moved)| {
            let tables = &self.program.functions[number].tables;
            let new = tables
                .iter()
                .filter(|table| moved.has_table_of(table.jump.0));
            (new.count(), tables.len())
        });
        both.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    /// Functions that were left, by entry.
    fn left(&self) -> Vec<(u64, Why)> {
        let functions = &self.program.functions;
        let left = self.left.iter();
        let mut left: Vec<_> = left
            .map(|&(number, why)| (functions[number].entry.0, why))
            .collect();
        left.sort_unstable();
        left
    }
}

/// Tables of landing pads of a file.
struct Tables<'d> {
    image: &'d Image,
    /// Their addresses, sorted: each ends before the next one.
    starts: Vec<u64>,
}

impl<'d> Tables<'d> {
    fn of(image: &'d Image, frames: &Frames<'_>) -> Tables<'d> {
        let starts = frames.fdes.iter().filter_map(|fde| frames.pads(fde));
        let mut starts: Vec<u64> = starts.collect();
        starts.sort_unstable();
        starts.dedup();
        Tables { image, starts }
    }

    /// The table of a range of code, if it has one, with the beginning of the code; `None`: it cannot be read.
    fn of_range(&self, frames: &Frames<'_>, fde: &Fde) -> Option<Option<(u64, Pads)>> {
        let Some(addr) = frames.pads(fde) else {
            return Some(None);
        };
        let next = self.starts.partition_point(|start| *start <= addr);
        let bytes = self.image.bytes_from(LinkAddr(addr));
        let size = self.starts.get(next).map(|next| (next - addr) as usize);
        // The last one ends with its section; what is behind it does no harm.
        let bytes = &bytes[..size.unwrap_or(LAST_TABLE).min(bytes.len())];
        Pads::parse(bytes, addr, fde.pc).map(|pads| Some((fde.pc, pads)))
    }
}

/// Old addresses by which control comes into a function.
fn places(function: &Function, moved: &Moved) -> Vec<u64> {
    let entries = function.others.iter().chain([&function.entry]);
    let mut places: Vec<u64> = entries.map(|entry| entry.0).collect();
    for edge in &function.graph.edges {
        let jump = function.graph.blocks[edge.from as usize].last;
        if let (EdgeKind::Case, To::Block(to)) = (edge.kind, edge.to)
            && !moved.has_table_of(jump.0)
        {
            places.push(function.graph.blocks[to as usize].start.0);
        }
    }
    places
}

/// Whether the kernel or the dynamic linker calls it before all relocations are done.
fn is_start_up(function: &Function) -> bool {
    let name = function.name.as_deref();
    matches!(name, Some("_start" | "_dl_start" | "_init" | "_fini"))
}
