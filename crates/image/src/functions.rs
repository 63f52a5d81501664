//! Evidence to disjoint extents.
//!
//! Problem: symbols, unwind ranges and entry points overlap, nest, lack sizes
//! and contradict each other; whoever asks "which function is at this byte"
//! wants one answer.
//!
//! Approach: every address somebody calls a function's first byte becomes a
//! *start* (`Start`), merged over all sources. One sweep in address order,
//! with a stack of the starts that are still open, cuts the code into
//! extents. What is left of an outer function behind a nested one becomes a
//! part of the outer one:
//!
//! ```text
//!   outer  [........................)        FUNC, sized
//!   inner         [......)                   FUNC inside it
//!   gives  [outer )[inner )[outer's part)
//! ```
//!
//! Which evidence wins:
//!
//! | at an address | becomes |
//! |---|---|
//! | FUNC symbol | function, or part when all its names end in `.cold` and the like |
//! | unwind range, CFA = rsp + 8, no symbol | function, unless inside a sized FUNC |
//! | unwind range, other CFA, no symbol | part, unless inside a sized FUNC |
//! | global NOTYPE symbol | function, unless inside a sized FUNC |
//! | `e_entry`, `DT_INIT`, `DT_FINI`, elements of init arrays | function, unless inside one |
//!
//! A start ends at its size (the larger of symbol and unwind range); one
//! without a size ends at the next start, or where the start around it ends,
//! or with its section.
//!
//! Invariants of the result: sorted by `start`, not empty, disjoint; `owner`
//! is the start of a `Function` extent, or of the extent itself.
//!
//! Complexity: O(n log n) in the number of symbols and unwind ranges.
//!
//! Limits: in a stripped file a part whose first CFA is rsp + 8 cannot be told
//! from a function; crt functions without unwind range (`frame_dummy`'s
//! helpers) are not seen.

use std::ops::Range;

use crate::addr::{FileOffset, LinkAddr, Segment, to_file};
use crate::frames::{Frame, Start as Cfa};
use crate::ifuncs;
use crate::names::{NameId, Names};
use crate::owners;
use crate::sparse::Holes;
use crate::symbols::{Evidence, Ifunc};

/// Role of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtentKind {
    /// Begins a function.
    Function,
    /// Belongs to the function at `owner` and is entered by jumps from it.
    Part,
    /// A section of stubs of the dynamic linker.
    Plt,
}

/// One extent of code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    pub start: FileOffset,
    pub end: FileOffset,
    /// Start of the function this belongs to: itself, except for parts.
    pub owner: FileOffset,
    pub kind: ExtentKind,
    /// The name a person would use; `Image::aliases` has the others.
    pub name: Option<NameId>,
    /// Lazy binding: neither it nor what it calls is the program's doing.
    pub lazy_binding: bool,
    /// Range in [`Table::names_of`], best name first.
    pub(crate) names: (u32, u32),
}

impl Function {
    /// Bytes of this extent.
    pub fn size(&self) -> u64 {
        self.end.0 - self.start.0
    }

    pub fn contains(&self, offset: FileOffset) -> bool {
        (self.start..self.end).contains(&offset)
    }
}

/// All a file says, in link addresses.
#[derive(Default)]
pub(crate) struct Input<'d> {
    pub(crate) symbols: Vec<Evidence>,
    pub(crate) ifuncs: Vec<Ifunc>,
    pub(crate) frames: Vec<Frame>,
    /// `e_entry` and what the dynamic section names; with the name the ABI
    /// gives it when no symbol does.
    pub(crate) entries: Vec<(u64, Option<NameId>)>,
    /// Executable ranges with their bytes, without PLT sections.
    pub(crate) code: Vec<Code<'d>>,
    /// Parts of the file that those bytes lack, and how to read them.
    pub(crate) holes: Option<&'d Holes>,
    pub(crate) segments: &'d [Segment],
    pub(crate) plts: Vec<Range<u64>>,
    /// The file is a dynamic linker, so rsp + 24 means lazy binding.
    pub(crate) is_linker: bool,
}

/// One executable section, or segment of a file without sections.
#[derive(Clone, Copy)]
pub(crate) struct Code<'d> {
    pub(crate) start: u64,
    pub(crate) bytes: &'d [u8],
}

impl Code<'_> {
    /// Invariant: `bytes` was cut so that this does not overflow.
    pub(crate) fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

/// The result.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) extents: Vec<Function>,
    pub(crate) names_of: Vec<NameId>,
}

/// Why a start is believed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    Typed,
    Label,
    Frame(Cfa),
    Entry,
}

/// One address that begins a function or a part.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    pub(crate) addr: u64,
    /// 0: unknown.
    pub(crate) size: u64,
    pub(crate) source: Source,
    pub(crate) unit: u32,
    pub(crate) names: (u32, u32),
    pub(crate) name: Option<NameId>,
    pub(crate) kind: ExtentKind,
    /// Index of the start this part belongs to; itself otherwise.
    pub(crate) owner: u32,
}

pub(crate) fn build(mut input: Input<'_>, names: &Names, segments: &[Segment]) -> Table {
    let mut table = Table::default();
    disjoin(&mut input.code);
    let mut starts = from_symbols(&mut input, names, &mut table.names_of);
    starts = merge(starts, from_frames(&input));
    starts = without_covered(starts);
    starts = with_entries(starts, &input, &mut table.names_of);
    ifuncs::name_chosen(&mut starts, &input, names, &mut table.names_of);
    owners::assign(&mut starts, &input, names);
    for (code, inside) in per_code(&input.code, &starts) {
        Sweep::new(&starts, code.end(), segments, &mut table.extents).run(inside);
    }
    add_plts(&input, segments, &mut table.extents);
    finish(&mut table);
    mark_lazy_binding(&mut table, &input, names, segments);
    table
}

/// Sorts the code ranges and cuts overlaps (damaged files only).
fn disjoin(code: &mut Vec<Code<'_>>) {
    code.sort_by_key(|code| code.start);
    let mut reached = 0;
    for range in code.iter_mut() {
        let hidden = reached.max(range.start) - range.start;
        let hidden = hidden.min(range.bytes.len() as u64);
        range.bytes = &range.bytes[hidden as usize..];
        range.start += hidden;
        reached = reached.max(range.end());
    }
    code.retain(|code| !code.bytes.is_empty());
}

pub(crate) fn in_code(code: &[Code<'_>], addr: u64) -> bool {
    let after = code.partition_point(|code| code.start <= addr);
    after > 0 && addr < code[after - 1].end()
}

/// One start per address that has symbols; names sorted best first.
fn from_symbols(input: &mut Input<'_>, names: &Names, all: &mut Vec<NameId>) -> Vec<Start> {
    let code = &input.code;
    input.symbols.retain(|symbol| in_code(code, symbol.addr));
    input.symbols.sort_unstable_by(|a, b| {
        (a.addr, a.rank)
            .cmp(&(b.addr, b.rank))
            .then_with(|| names.get(a.name).cmp(names.get(b.name)))
    });
    let groups = input.symbols.chunk_by(|a, b| a.addr == b.addr);
    let start_of = |group: &[Evidence]| {
        let best = &group[0];
        let first = all.len();
        for symbol in group {
            let text = names.get(symbol.name);
            if !all[first..].iter().any(|&name| names.get(name) == text) {
                all.push(symbol.name);
            }
        }
        let part = group
            .iter()
            .all(|symbol| owners::owner_name(names.get(symbol.name)).is_some());
        let sizes = group.iter().filter(|symbol| symbol.typed == best.typed);
        Start {
            addr: best.addr,
            size: sizes.map(|symbol| symbol.size).max().unwrap_or(0),
            source: if best.typed {
                Source::Typed
            } else {
                Source::Label
            },
            unit: best.unit,
            names: (first as u32, all.len() as u32),
            name: Some(best.name),
            kind: if part {
                ExtentKind::Part
            } else {
                ExtentKind::Function
            },
            owner: 0,
        }
    };
    groups.map(start_of).collect()
}

fn from_frames(input: &Input<'_>) -> Vec<Start> {
    let entry = input.entries.first().map(|&(addr, _)| addr);
    let frames = input
        .frames
        .iter()
        .filter(|frame| in_code(&input.code, frame.addr));
    let mut starts: Vec<Start> = frames
        .map(|frame| Start {
            addr: frame.addr,
            size: frame.len,
            source: Source::Frame(frame.start),
            unit: 0,
            names: (0, 0),
            name: None,
            kind: match frame.start {
                Cfa::Call => ExtentKind::Function,
                Cfa::NoCaller if entry == Some(frame.addr) => ExtentKind::Function,
                Cfa::LazyBinding if input.is_linker => ExtentKind::Function,
                _ => ExtentKind::Part,
            },
            owner: 0,
        })
        .collect();
    starts.sort_by_key(|start| start.addr);
    starts.dedup_by_key(|start| start.addr);
    starts
}

/// Two sorted lists to one; at one address the symbol gives all but the size.
fn merge(symbols: Vec<Start>, frames: Vec<Start>) -> Vec<Start> {
    let mut merged = Vec::with_capacity(symbols.len() + frames.len());
    let mut frames = frames.into_iter().peekable();
    for mut symbol in symbols {
        while let Some(frame) = frames.next_if(|frame| frame.addr < symbol.addr) {
            merged.push(frame);
        }
        if let Some(frame) = frames.next_if(|frame| frame.addr == symbol.addr) {
            symbol.size = symbol.size.max(frame.size);
        }
        merged.push(symbol);
    }
    merged.extend(frames);
    merged
}

/// Drops labels and unwind ranges strictly inside sized FUNC symbols.
fn without_covered(mut starts: Vec<Start>) -> Vec<Start> {
    let mut covered_to = 0;
    starts.retain(|start| {
        let typed = start.source == Source::Typed;
        if !typed && start.addr < covered_to {
            return false;
        }
        if typed {
            covered_to = covered_to.max(start.addr.saturating_add(start.size));
        }
        true
    });
    starts
}

/// Adds the entry points the headers know and nothing else covers.
fn with_entries(mut starts: Vec<Start>, input: &Input<'_>, all: &mut Vec<NameId>) -> Vec<Start> {
    let mut extra: Vec<Start> = Vec::new();
    let mut entries = input.entries.clone();
    // With two claims on one address the named one comes first.
    entries.sort_by_key(|&(addr, name)| (addr, name.is_none()));
    entries.dedup_by_key(|&mut (addr, _)| addr);
    for (addr, name) in entries {
        let names = match name {
            Some(name) => {
                all.push(name);
                (all.len() as u32 - 1, all.len() as u32)
            }
            None => (0, 0),
        };
        let after = starts.partition_point(|start| start.addr <= addr);
        if let Some(before) = after.checked_sub(1).map(|at| &mut starts[at]) {
            if before.addr == addr && before.name.is_none() {
                before.kind = ExtentKind::Function;
                (before.name, before.names) = (name, names);
            }
            if before.addr == addr || addr - before.addr < before.size {
                continue;
            }
        }
        if in_code(&input.code, addr) {
            extra.push(Start {
                addr,
                size: 0,
                source: Source::Entry,
                unit: 0,
                names,
                name,
                kind: ExtentKind::Function,
                owner: 0,
            });
        }
    }
    starts.extend(extra);
    starts.sort_by_key(|start| start.addr);
    starts
}

/// Each code range with the indices of the starts in it.
fn per_code<'a, 'd>(
    code: &'a [Code<'d>],
    starts: &'a [Start],
) -> impl Iterator<Item = (&'a Code<'d>, Range<usize>)> {
    code.iter().map(|code| {
        let first = starts.partition_point(|start| start.addr < code.start);
        let last = starts.partition_point(|start| start.addr < code.end());
        (code, first..last)
    })
}

/// The sweep over one code range.
struct Sweep<'a> {
    starts: &'a [Start],
    code_end: u64,
    segments: &'a [Segment],
    out: &'a mut Vec<Function>,
    open: Vec<Open>,
    /// All below is settled. Grows only.
    cursor: u64,
}

struct Open {
    index: usize,
    end: u64,
    /// No size was known: the next start ends it.
    soft: bool,
    /// Its first extent has been written.
    begun: bool,
}

impl<'a> Sweep<'a> {
    fn new(
        starts: &'a [Start],
        code_end: u64,
        segments: &'a [Segment],
        out: &'a mut Vec<Function>,
    ) -> Self {
        Sweep {
            starts,
            code_end,
            segments,
            out,
            open: Vec::new(),
            cursor: 0,
        }
    }

    fn run(mut self, inside: Range<usize>) {
        for index in inside {
            let start = &self.starts[index];
            self.close_until(start.addr);
            self.emit_top(start.addr);
            if self.open.last().is_some_and(|top| top.soft) {
                self.open.pop();
            }
            self.cursor = start.addr;
            let around = self.open.last().map_or(self.code_end, |top| top.end);
            let end = start.addr.saturating_add(start.size).min(self.code_end);
            let soft = start.size == 0;
            self.open.push(Open {
                index,
                end: if soft { around } else { end },
                soft,
                begun: false,
            });
        }
        self.close_until(self.code_end);
    }

    /// Closes all starts that end at or before `addr`.
    fn close_until(&mut self, addr: u64) {
        while let Some(top) = self.open.last().filter(|top| top.end <= addr) {
            let end = top.end;
            self.emit_top(end);
            self.open.pop();
        }
    }

    /// Gives the bytes from the cursor to `end` to the innermost open start.
    fn emit_top(&mut self, end: u64) {
        let Some(top) = self.open.last_mut() else {
            return;
        };
        if self.cursor >= end {
            return;
        }
        let start = &self.starts[top.index];
        let begins = !top.begun;
        top.begun = true;
        let (from, to) = (LinkAddr(self.cursor), end);
        self.cursor = end;
        let owner = &self.starts[start.owner as usize];
        let (Some(offset), Some(owner)) = (
            to_file(self.segments, from),
            to_file(self.segments, LinkAddr(owner.addr)),
        ) else {
            return;
        };
        let own = begins && start.kind == ExtentKind::Function;
        self.out.push(Function {
            start: offset,
            end: FileOffset(offset.0.saturating_add(to - from.0)),
            owner: if own { offset } else { owner },
            kind: if own {
                ExtentKind::Function
            } else {
                ExtentKind::Part
            },
            name: start.name.filter(|_| begins),
            lazy_binding: false,
            names: if begins { start.names } else { (0, 0) },
        });
    }
}

fn add_plts(input: &Input<'_>, segments: &[Segment], out: &mut Vec<Function>) {
    for plt in &input.plts {
        let Some(start) = to_file(segments, LinkAddr(plt.start)) else {
            continue;
        };
        out.push(Function {
            start,
            end: FileOffset(start.0.saturating_add(plt.end - plt.start)),
            owner: start,
            kind: ExtentKind::Plt,
            name: None,
            lazy_binding: false,
            names: (0, 0),
        });
    }
}

/// Establishes the invariants of the result for damaged files too, where two
/// segments may show the same bytes.
fn finish(table: &mut Table) {
    let extents = &mut table.extents;
    extents.sort_by_key(|extent| extent.start);
    let mut reached = FileOffset(0);
    extents.retain(|extent| {
        let fits = extent.start >= reached && extent.end > extent.start;
        if fits {
            reached = extent.end;
        }
        fits
    });
    let functions: Vec<FileOffset> = extents
        .iter()
        .filter(|extent| extent.kind == ExtentKind::Function)
        .map(|extent| extent.start)
        .collect();
    for extent in extents.iter_mut() {
        if extent.kind == ExtentKind::Part && functions.binary_search(&extent.owner).is_err() {
            // Nobody to belong to: better a function than lost.
            extent.kind = ExtentKind::Function;
            extent.owner = extent.start;
        }
    }
}

/// Names of glibc's trampolines, and what they look like without names.
fn mark_lazy_binding(table: &mut Table, input: &Input<'_>, names: &Names, segments: &[Segment]) {
    const TRAMPOLINES: [&str; 3] = ["_dl_runtime_resolve", "_dl_runtime_profile", "_dl_tlsdesc_"];
    let mut unnamed: Vec<FileOffset> = Vec::new();
    if input.is_linker {
        let frames = input
            .frames
            .iter()
            .filter(|frame| frame.start == Cfa::LazyBinding);
        unnamed.extend(frames.filter_map(|frame| to_file(segments, LinkAddr(frame.addr))));
        unnamed.sort_unstable();
    }
    for extent in &mut table.extents {
        let (first, last) = (extent.names.0 as usize, extent.names.1 as usize);
        let named = table.names_of[first..last].iter().any(|&name| {
            let name = names.get(name);
            TRAMPOLINES.iter().any(|prefix| name.starts_with(prefix))
        });
        extent.lazy_binding = named || unnamed.binary_search(&extent.start).is_ok();
    }
}
