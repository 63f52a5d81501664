//! The log of a process image, replayed: modules in time order, and for each
//! function the mapping that was newest where the log names it.
//!
//! A forked child begins a log of its own. What it has in memory is what its
//! parent had, so its effective log is the parent's effective log up to the
//! fork (`parent_log_mark` records of the parent's own), then its own. An
//! image made by exec starts from nothing.
//!
//! Complexity: every image replays its ancestors' records; [`MAX_REPLAYED`]
//! bounds the sum, beyond it an image keeps only what it logged itself.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use wire::log::{self, Func, Kind, LogChunk, Map, Record, Unmap, fragment_flag};
use wire::view::Pool;
use wire::{PATH_MAX, ProcessRecord, node};

use super::edges::{Mixed, Paths};
use super::{Walk, bytes, text};
use crate::model::{self, Block, Cut, Event, Fragment, Function, Jump, Module, Process, Thread};

/// Records replayed for one recording, all images together.
const MAX_REPLAYED: usize = 1 << 28;
/// More slots than a thread can have.
const MAX_SLOTS: u64 = 1 << 28;

pub(super) enum Entry {
    Map {
        time_ns: u64,
        map: Map,
        path: String,
    },
    Unmap {
        time_ns: u64,
        unmap: Unmap,
    },
    Func(Func),
    Fragment(Arc<Fragment>),
    Cut(Cut),
    Jump(Jump),
    Block(Block),
    Path(log::Path),
    Target(u64),
}

/// Entries that one image logged itself, and the image that it continues.
struct Own {
    entries: Vec<Entry>,
    /// The forked parent and how many of its own entries the fork saw.
    inherited: Option<(usize, usize)>,
}

/// The logs of all images read so far, by process index.
#[derive(Default)]
pub(super) struct Logs {
    own: Vec<Own>,
    replayed: usize,
}

impl Logs {
    /// Reads the log of the next image; `parent` is set if a fork made it.
    pub(super) fn push(&mut self, walk: &mut Walk, record: &ProcessRecord, parent: Option<usize>) {
        let mark = usize::try_from(record.parent_log_mark.load(Relaxed)).unwrap_or(usize::MAX);
        let entries = read(walk, record.log.load(Acquire));
        self.own.push(Own {
            entries,
            inherited: parent.map(|parent| (parent, mark)),
        });
    }

    /// Fills in the modules and functions of `process`, whose index is `index`
    /// and whose threads are already there. The paths that their edges are made of.
    pub(super) fn replay(&mut self, index: usize, process: &mut Process) -> Paths {
        // The end of the list is the image itself, the start its first ancestor.
        let mut pieces = vec![self.own[index].entries.as_slice()];
        let mut steps = pieces[0].len();
        let mut inherited = self.own[index].inherited;
        while let Some((parent, mark)) = inherited {
            let entries = &self.own[parent].entries;
            pieces.push(&entries[..mark.min(entries.len())]);
            steps += mark.min(entries.len());
            inherited = self.own[parent].inherited;
        }
        if self.replayed.saturating_add(steps) > MAX_REPLAYED {
            pieces.truncate(1);
        }
        self.replayed = self.replayed.saturating_add(steps);

        let mut replay = Replay::default();
        let own = pieces.remove(0);
        let named: HashSet<u32, Mixed> = match pieces.as_slice() {
            [] => HashSet::default(),
            ancestors => labels(
                &process.threads,
                ancestors.iter().copied().flatten().chain(own),
            ),
        };
        for entry in pieces.into_iter().rev().flatten() {
            replay.feed(entry, |id| named.contains(&id));
        }
        for entry in own {
            replay.feed(entry, |_| true);
        }
        replay.functions.sort_by_key(|function| function.id);
        replay.functions.dedup_by_key(|function| function.id);
        process.modules = replay.modules;
        process.functions = replay.functions;
        replay.fragments.sort_by_key(|fragment| fragment.first_slot);
        process.fragments = replay.fragments;
        process.cuts = replay.cuts;
        process.jumps = replay.jumps;
        replay.blocks.sort_by_key(|block| block.id);
        replay.blocks.dedup_by_key(|block| block.id);
        process.blocks = replay.blocks;
        replay.paths
    }
}

/// Every label that a node of these threads has, and the blocks of the paths among those,
/// which `entries` tell.
fn labels<'a>(threads: &[Thread], entries: impl Iterator<Item = &'a Entry>) -> HashSet<u32, Mixed> {
    let nodes = threads.iter().flat_map(|thread| &thread.nodes);
    let mut labels: HashSet<u32, Mixed> = nodes.map(|node| node.label.0).collect();
    let mut paths = Paths::default();
    for entry in entries {
        if let Entry::Path(path) = entry {
            paths.push(path);
        }
    }
    for path in labels.iter().copied().collect::<Vec<u32>>() {
        labels.extend(paths.blocks(path));
    }
    labels
}

/// Decodes the chain of chunks from `offset`.
fn read(walk: &mut Walk, mut offset: u64) -> Vec<Entry> {
    let mut entries = Vec::new();
    while walk.enter(offset) {
        let Some(chunk) = walk.pool.at::<LogChunk>(offset) else {
            break;
        };
        let used = chunk.used.load(Acquire).min(chunk.capacity.load(Relaxed));
        let next = chunk.next.load(Acquire);
        let first = offset + size_of::<LogChunk>() as u64;
        let end = first + walk.grant(first, used.into());
        read_chunk(walk, first, end, &mut entries);
        offset = next;
    }
    entries
}

fn read_chunk(walk: &Walk, at: u64, end: u64, entries: &mut Vec<Entry>) {
    for_each(&walk.pool, at, end, |entry| entries.extend(entry));
}

/// Every record in `at..end`; `None` for one that this build does not know.
fn for_each(pool: &Pool, mut at: u64, end: u64, mut found: impl FnMut(Option<Entry>)) -> u64 {
    while let Some(record) = pool.at::<Record>(at).copied() {
        let payload = at + size_of::<Record>() as u64;
        let payload_end = payload + u64::from(record.len);
        if payload_end > end {
            break;
        }
        found(entry(pool, record, payload));
        at = payload_end.next_multiple_of(8);
    }
    at
}

/// A log that is read while it is written.
#[derive(Debug, Default)]
pub(super) struct Tail {
    /// The chunk that is read next, and up to where it was.
    chunk: u64,
    at: u64,
    entered: HashSet<u64>,
}

impl Tail {
    /// The records that came since, of the log that begins at `first`.
    pub(super) fn read(&mut self, pool: &Pool, first: u64) -> Vec<Option<Entry>> {
        let mut entries = Vec::new();
        if self.chunk == 0 && self.entered.is_empty() {
            self.enter(first);
        }
        while let Some(chunk) = pool.at::<LogChunk>(self.chunk).filter(|_| self.chunk != 0) {
            // Once there is a next one, nothing is added to this one.
            let next = chunk.next.load(Acquire);
            let used = chunk.used.load(Acquire).min(chunk.capacity.load(Relaxed));
            let begin = self.chunk + size_of::<LogChunk>() as u64;
            let end = begin + u64::from(used);
            self.at = for_each(pool, self.at.max(begin), end, |entry| entries.push(entry));
            if next == 0 {
                break;
            }
            self.enter(next);
        }
        entries
    }

    /// No chunk is read twice.
    fn enter(&mut self, chunk: u64) {
        let is_new = chunk != 0 && self.entered.insert(chunk);
        self.chunk = if is_new { chunk } else { 0 };
        self.at = 0;
    }
}

/// `None` for a record of a kind or size that this build does not know.
fn entry(pool: &Pool, record: Record, payload: u64) -> Option<Entry> {
    const MAP: u16 = Kind::Map as u16;
    const UNMAP: u16 = Kind::Unmap as u16;
    const FUNC: u16 = Kind::Func as u16;
    const FRAGMENT: u16 = Kind::Fragment as u16;
    const CUT: u16 = Kind::Cut as u16;
    const JUMP: u16 = Kind::Jump as u16;
    const BLOCK: u16 = Kind::Block as u16;
    const PATH: u16 = Kind::Path as u16;
    const TARGET: u16 = Kind::Target as u16;
    let (len, time_ns) = (record.len as usize, record.time_ns);
    match record.kind {
        MAP => {
            let path_len = u32::try_from(len.checked_sub(size_of::<Map>())?).ok()?;
            let path_at = payload + size_of::<Map>() as u64;
            let map = *pool.at::<Map>(payload)?;
            let path = text(&bytes(pool, path_at, path_len, PATH_MAX));
            Some(Entry::Map { time_ns, map, path })
        }
        UNMAP if len >= size_of::<Unmap>() => Some(Entry::Unmap {
            time_ns,
            unmap: *pool.at::<Unmap>(payload)?,
        }),
        FUNC if len >= size_of::<Func>() => {
            let func = *pool.at::<Func>(payload)?;
            (node::FIRST_FUNC..=node::MAX_FUNC)
                .contains(&func.id)
                .then_some(Entry::Func(func))
        }
        BLOCK => {
            let code_len = u32::try_from(len.checked_sub(size_of::<log::Block>())?).ok()?;
            let code_at = payload + size_of::<log::Block>() as u64;
            let block = *pool.at::<log::Block>(payload)?;
            Some(Entry::Block(Block {
                id: block.id,
                code: bytes(pool, code_at, code_len, log::CHUNK as usize),
                ..Block::default()
            }))
        }
        PATH if len >= size_of::<log::Path>() => Some(Entry::Path(*pool.at::<log::Path>(payload)?)),
        TARGET if len >= size_of::<log::Target>() => {
            Some(Entry::Target(pool.at::<log::Target>(payload)?.pc))
        }
        FRAGMENT => fragment(pool, payload, len).map(|found| Entry::Fragment(Arc::new(found))),
        CUT if len >= size_of::<log::Cut>() => {
            let cut = *pool.at::<log::Cut>(payload)?;
            let (slot, ahead) = (cut.slot, i32::try_from(cut.ahead).ok()?);
            (slot < MAX_SLOTS).then_some(Entry::Cut(Cut {
                slot,
                fragment: cut.fragment,
                at: cut.at,
                ahead,
            }))
        }
        JUMP if len >= size_of::<log::Jump>() => jump(pool, payload),
        _ => None,
    }
}

fn jump(pool: &Pool, payload: u64) -> Option<Entry> {
    let jump = *pool.at::<log::Jump>(payload)?;
    (jump.slot < MAX_SLOTS).then_some(Entry::Jump(Jump {
        slot: jump.slot,
        fragment: jump.fragment,
        pc: jump.pc,
        module: None,
    }))
}

/// `None`: what it says does not fit together.
fn fragment(pool: &Pool, payload: u64, len: usize) -> Option<Fragment> {
    let head = *pool.at::<log::Fragment>(payload)?;
    let tail_len = u32::try_from(len.checked_sub(size_of::<log::Fragment>())?).ok()?;
    let tail_at = payload + size_of::<log::Fragment>() as u64;
    let tail = bytes(pool, tail_at, tail_len, log::CHUNK as usize);
    let pieces_len = (head.pieces as usize).checked_mul(16)?;
    let (pieces, rest) = tail.split_at_checked(pieces_len)?;
    let (events, code) = rest.split_at_checked((head.events as usize).checked_mul(8)?)?;
    let word = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
    let pieces: Option<Vec<model::Piece>> = pieces
        .as_chunks::<16>()
        .0
        .iter()
        .map(|bytes| {
            let (pc, len) = bytes.split_first_chunk::<8>()?;
            let len = u32::try_from(word(len.first_chunk()?)).ok()?;
            (len > 0).then_some(model::Piece {
                pc: word(pc),
                len,
                module: None,
            })
        })
        .collect();
    let event = |bytes: &[u8; 8]| {
        let event = log::Event::of(word(bytes))?;
        Some(Event {
            from: event.from,
            to: event.to,
            kind: event.kind,
        })
    };
    let fragment = Fragment {
        id: head.id,
        faults: head.flags & fragment_flag::FAULTS != 0,
        pieces: pieces?,
        code: code.to_vec(),
        first_slot: head.first_slot,
        events: events
            .as_chunks()
            .0
            .iter()
            .map(event)
            .collect::<Option<_>>()?,
    };
    let lens = fragment.pieces.iter().map(|piece| u64::from(piece.len));
    let sound = lens.sum::<u64>() == code.len() as u64 && head.first_slot < MAX_SLOTS;
    sound.then_some(fragment)
}

/// A stretch of addresses that still holds what module `module` put there.
#[derive(Clone, Copy)]
struct Piece {
    end: u64,
    module: u32,
}

#[derive(Default)]
pub(super) struct Replay {
    pub modules: Vec<Module>,
    /// Modules that are gone, in that order.
    pub gone: Vec<u32>,
    functions: Vec<Function>,
    fragments: Vec<Arc<Fragment>>,
    cuts: Vec<Cut>,
    jumps: Vec<Jump>,
    blocks: Vec<Block>,
    paths: Paths,
    /// Live pieces by start; they never overlap.
    live: BTreeMap<u64, Piece>,
    /// Number of live pieces of each module.
    pieces: Vec<u32>,
}

impl Replay {
    pub(super) fn feed(&mut self, entry: &Entry, keep_function: impl Fn(u32) -> bool) {
        match entry {
            Entry::Map { time_ns, map, path } => self.map(*time_ns, map, path),
            Entry::Unmap { time_ns, unmap } => self.carve(*time_ns, unmap.start, unmap.end),
            Entry::Func(func) if keep_function(func.id) => self.function(func),
            Entry::Func(_) => {}
            Entry::Block(block) if keep_function(block.id) => self.blocks.push(block.clone()),
            Entry::Block(_) => {}
            Entry::Path(path) => self.paths.push(path),
            Entry::Fragment(fragment) => self.fragment(fragment),
            Entry::Cut(cut) => self.cuts.push(*cut),
            Entry::Jump(jump) => self.jumps.push(Jump {
                module: self.module_at(jump.pc),
                ..*jump
            }),
            Entry::Target(_) => {}
        }
    }

    fn map(&mut self, time_ns: u64, map: &Map, path: &str) {
        let Ok(module) = u32::try_from(self.modules.len()) else {
            return;
        };
        if map.start >= map.end {
            return;
        }
        self.carve(time_ns, map.start, map.end);
        self.live.insert(
            map.start,
            Piece {
                end: map.end,
                module,
            },
        );
        self.pieces.push(1);
        self.modules.push(Module {
            path: path.to_owned(),
            start: map.start,
            end: map.end,
            offset: map.offset,
            file: map.file,
            mapped_ns: time_ns,
            ..Module::default()
        });
    }

    /// Takes `start..end` away from whatever lies there.
    ///
    /// Post-invariant (`live` has no overlaps): the pieces left are parts of
    /// pieces that were there before, cut at `start` and `end`.
    fn carve(&mut self, time_ns: u64, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let first = self
            .live
            .range(..=start)
            .next_back()
            .map_or(start, |(&at, _)| at);
        let touched: Vec<(u64, Piece)> = self
            .live
            .range(first..end)
            .filter(|(_, piece)| piece.end > start)
            .map(|(&at, &piece)| (at, piece))
            .collect();
        for (at, piece) in touched {
            self.live.remove(&at);
            let mut left = 0;
            if at < start {
                self.live.insert(
                    at,
                    Piece {
                        end: start,
                        ..piece
                    },
                );
                left += 1;
            }
            if piece.end > end {
                self.live.insert(end, piece);
                left += 1;
            }
            let module = piece.module as usize;
            self.pieces[module] = self.pieces[module] + left - 1;
            if self.pieces[module] == 0 {
                self.modules[module].unmapped_ns = Some(time_ns);
                self.gone.push(module as u32);
            }
        }
    }

    /// The module that has `pc` now.
    fn module_at(&self, pc: u64) -> Option<u32> {
        let (_, piece) = self.live.range(..=pc).next_back()?;
        (pc < piece.end).then_some(piece.module)
    }

    /// Code that is in no file, as a program writes it, needs no second copy.
    fn fragment(&mut self, fragment: &Arc<Fragment>) {
        let mut fragment = Arc::clone(fragment);
        let is_placed = |piece: &model::Piece| self.module_at(piece.pc).is_some();
        if fragment.pieces.iter().any(is_placed) {
            self.place(Arc::make_mut(&mut fragment));
        }
        self.fragments.push(fragment);
    }

    /// Says in which modules it is.
    pub(super) fn place(&self, fragment: &mut Fragment) {
        for piece in &mut fragment.pieces {
            piece.module = self.module_at(piece.pc);
        }
    }

    fn function(&mut self, func: &Func) {
        let module = self.module_at(func.pc);
        let file_offset = module.map_or(0, |module| {
            let module = &self.modules[module as usize];
            module.offset.wrapping_add(func.pc - module.start)
        });
        self.functions.push(Function {
            id: func.id,
            pc: func.pc,
            module,
            file_offset,
            ..Function::default()
        });
    }
}
