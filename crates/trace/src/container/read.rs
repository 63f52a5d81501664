//! Reading: chunks in, model out, strict or as far as the file is good.

use std::fmt;
use std::io::{BufReader, Read};
use std::sync::Arc;

use super::chunk::{Chunk, Chunks, Kind};
use super::codec::{Base, Decoder};
use super::index::Identity;
use super::{MAGIC, VERSION, blocks, costs, counts, denied, journal, natives, nodes};
use crate::error::ReadError;
use crate::model::{
    BlockContexts, End, Function, Jump, Meta, Mode, Module, Process, Recording, SlotCount, Thread,
};
use crate::part::Part;

/// The first version with [`Kind::JUMP`].
const JUMPS: u32 = 6;

/// Reads a whole recording; any damage is an error.
pub fn read(input: impl Read) -> Result<Recording, ReadError> {
    let prefix = read_prefix(input)?;
    match prefix.lost {
        None => Ok(prefix.recording),
        Some(loss) => Err(loss.error),
    }
}

/// The readable part of a file.
#[derive(Debug)]
pub struct Prefix {
    pub recording: Recording,
    /// `None`: the file is whole.
    pub lost: Option<Loss>,
    /// Identity of the chunks that were read.
    pub identity: Identity,
}

/// Damage in a file: its place and kind. Everything before is in the recording.
#[derive(Debug)]
pub struct Loss {
    /// Offset of the first chunk that is lost.
    pub at: u64,
    /// Offset from which the file is good again, and read. `None`: nothing after it is in the recording.
    pub to: Option<u64>,
    pub error: ReadError,
    /// The next one.
    pub next: Option<Box<Loss>>,
}

impl Loss {
    pub(super) fn onward(at: u64, error: ReadError) -> Loss {
        Loss {
            at,
            to: None,
            error,
            next: None,
        }
    }

    pub(super) fn between(at: u64, to: u64, error: ReadError) -> Loss {
        Loss {
            to: Some(to),
            ..Loss::onward(at, error)
        }
    }

    /// They are in order.
    pub(super) fn all(losses: Vec<Loss>) -> Option<Loss> {
        losses.into_iter().rev().fold(None, |next, loss| {
            let next = next.map(Box::new);
            Some(Loss { next, ..loss })
        })
    }

    /// This one and those behind it.
    pub fn each(&self) -> impl Iterator<Item = &Loss> {
        std::iter::successors(Some(self), |loss| loss.next.as_deref())
    }
}

/// How many places are told, and the last.
const MOST_SAID: usize = 3;

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, loss) in self.each().enumerate() {
            let (at, before) = (loss.at, if number > 0 { " " } else { "" });
            match loss.to {
                // Many have nothing else to say.
                Some(_) if number >= MOST_SAID && loss.next.is_some() => continue,
                None => write!(f, "{before}Everything from byte {at} on is lost. ")?,
                Some(to) if to == at => write!(f, "{before}Something before byte {at} is lost. ")?,
                Some(to) => write!(
                    f,
                    "{before}What was in {} bytes from byte {at} on is lost. ",
                    to - at
                )?,
            }
            write!(f, "{}", loss.error)?;
        }
        Ok(())
    }
}

/// Reads everything up to the first bad chunk. An error only where nothing is
/// left: the header or the first chunk is bad, or it is no recording at all.
///
/// The last thread of a cut file has the nodes that came before the cut; tops
/// among the lost ones become `None`, which costs their own counters only.
pub fn read_prefix(input: impl Read) -> Result<Prefix, ReadError> {
    let mut chunks = Chunks::new(BufReader::new(input));
    let version = header_of(&mut chunks, MAGIC, VERSION)?;
    let first = chunks.next()?;
    if first.kind != Kind::META {
        return Err(unexpected(&first));
    }
    let mut recording = Recording {
        meta: meta(&first)?,
        processes: Vec::new(),
        denied: Vec::new(),
        natives: Vec::new(),
    };
    if version >= JOURNALS && recording.meta.mode == Mode::Trace {
        let lost = journal::read(&mut recording, &mut chunks);
        return Ok(Prefix {
            recording,
            lost,
            identity: chunks.identity,
        });
    }
    let lost = loop {
        let at = chunks.at;
        let step = chunks
            .next()
            .and_then(|chunk| feed(&mut recording, &chunk, version));
        match step {
            Ok(Step::More) => {}
            Ok(Step::Done) => break trailing(&mut chunks),
            Err(error) => break Some(Loss::onward(at, error)),
        }
    };
    if lost.is_some() {
        mend_thread(
            recording
                .processes
                .last_mut()
                .and_then(|p| p.threads.last_mut()),
        );
    }
    Ok(Prefix {
        recording,
        lost,
        identity: chunks.identity,
    })
}

/// Since this version traces are written while the program runs.
const JOURNALS: u32 = 6;

/// The format's version, in a file that begins with `first` and of which versions up to
/// `newest` are known.
pub(super) fn header_of<R: Read>(
    chunks: &mut Chunks<R>,
    first: [u8; 8],
    newest: u32,
) -> Result<u32, ReadError> {
    let magic: [u8; 8] = chunks.bytes()?.map_err(|_| ReadError::NotARecording)?;
    if magic != first {
        return Err(ReadError::NotARecording);
    }
    let cut = |read: usize| ReadError::Truncated {
        at: first.len() as u64 + read as u64,
    };
    let version: [u8; 4] = chunks.bytes()?.map_err(cut)?;
    let sum: [u8; 4] = chunks.bytes()?.map_err(|read| cut(version.len() + read))?;
    if crc32c::crc32c_append(crc32c::crc32c(&magic), &version) != u32::from_le_bytes(sum) {
        return Err(ReadError::DamagedHeader);
    }
    match u32::from_le_bytes(version) {
        version if (1..=newest).contains(&version) => Ok(version),
        found => Err(ReadError::UnknownVersion { found }),
    }
}

pub(super) fn trailing<R: Read>(chunks: &mut Chunks<R>) -> Option<Loss> {
    let at = chunks.at;
    match chunks.bytes::<1>() {
        Ok(Err(_)) => None,
        Ok(Ok(_)) => Some(Loss::onward(at, ReadError::TrailingBytes { at })),
        Err(error) => Some(Loss::onward(at, error)),
    }
}

enum Step {
    More,
    Done,
}

/// Takes one chunk into the recording, or leaves the recording as it was.
// Long function: one row per kind of chunk.
fn feed(recording: &mut Recording, chunk: &Chunk, version: u32) -> Result<Step, ReadError> {
    let mut input = Decoder::new(chunk);
    let process = recording.processes.last_mut();
    match (chunk.kind, process) {
        (Kind::PROC, process) => {
            check_thread(process.and_then(|process| process.threads.last()), &input)?;
            let process = process_head(&mut input, recording.processes.len())?;
            input.end()?;
            recording.processes.push(process);
        }
        (Kind::MODS, Some(process)) if process.threads.is_empty() => {
            process.modules.extend(items(input, module)?);
        }
        (Kind::FUNC, Some(process)) if process.threads.is_empty() => {
            let mut before = Base::default();
            process.functions.extend(items(input, |input| {
                let function = function(input, before)?;
                before = Base::from(&function);
                Ok(function)
            })?);
        }
        (Kind::BLKS, Some(process)) if process.threads.is_empty() => {
            process.blocks.extend(items(input, blocks::get)?);
        }
        (Kind::COLS, Some(process)) if process.threads.is_empty() => {
            let refused = input.malformed("it has columns of more blocks than there are");
            if !blocks::get_columns(&mut input, &mut process.blocks)? {
                return Err(refused);
            }
        }
        (kind, Some(process)) if is_counted(kind) && process.threads.is_empty() => {
            counted(kind, input, process)?;
        }
        (Kind::CNTS, Some(Process { threads, .. })) if !threads.is_empty() => {
            let counts = &mut threads.last_mut().expect("tested by the guard").counts;
            counts.extend(slot_counts(input)?);
        }
        (Kind::STRM, Some(Process { threads, .. })) if !threads.is_empty() => {
            let thread = threads.last_mut().expect("tested by the guard");
            thread.stream.push(chunk.part.clone());
        }
        (Kind::THRD, Some(process)) => {
            check_thread(process.threads.last(), &input)?;
            let thread = thread_head(&mut input)?;
            input.end()?;
            process.threads.push(thread);
        }
        (Kind::NODE, Some(Process { threads, .. })) if !threads.is_empty() => {
            let nodes = &mut threads.last_mut().expect("tested by the guard").nodes;
            let before = nodes.len();
            if let Err(error) = nodes::decode(&mut input, nodes).and_then(|()| input.end()) {
                nodes.truncate(before);
                return Err(error);
            }
        }
        (Kind::COST, Some(Process { threads, .. })) if !threads.is_empty() => {
            let thread = threads.last_mut().expect("tested by the guard");
            let run = costs::decode(&mut input)?;
            let refused = input.malformed("it has costs of more nodes than there are");
            input.end()?;
            if !run.append_to(thread) {
                return Err(refused);
            }
        }
        (Kind::DONE, process) => {
            check_thread(process.and_then(|process| process.threads.last()), &input)?;
            for total in totals(recording, version) {
                if input.uint()? != total {
                    return Err(input.malformed("its totals are not those of the file"));
                }
            }
            input.end()?;
            return Ok(Step::Done);
        }
        (Kind::DENY, _) => recording.denied = denied::get(&mut input)?,
        (Kind::NATV, _) => recording.natives = natives::get(&mut input)?,
        (kind, _) if kind.may_be_skipped() => {}
        _ => return Err(unexpected(chunk)),
    }
    Ok(Step::More)
}

fn slot_counts(input: Decoder<'_>) -> Result<Vec<SlotCount>, ReadError> {
    let mut before = 0;
    items(input, |input| {
        let counted = counts::count(input, before)?;
        before = counted.slot;
        Ok(counted)
    })
}

/// Whether it is about a process whose code was counted.
fn is_counted(kind: Kind) -> bool {
    const KINDS: [Kind; 6] = [
        Kind::FRAG,
        Kind::CUTS,
        Kind::JUMP,
        Kind::TRGT,
        Kind::TEXT,
        Kind::SRCS,
    ];
    KINDS.contains(&kind)
}

fn counted(kind: Kind, input: Decoder<'_>, process: &mut Process) -> Result<(), ReadError> {
    match kind {
        Kind::FRAG => {
            let mut before = counts::Before::default();
            process.fragments.extend(items(input, |input| {
                let fragment = counts::fragment(input, before)?;
                before = counts::Before::after(&fragment);
                Ok(Arc::new(fragment))
            })?);
        }
        Kind::CUTS => process.cuts.extend(items(input, counts::cut)?),
        Kind::JUMP => {
            let mut before = Jump::default();
            process.jumps.extend(items(input, |input| {
                before = counts::jump(input, before)?;
                Ok(before)
            })?);
        }
        Kind::TRGT => {
            let mut before = 0u64;
            process.targets.extend(items(input, |input| {
                before = before.wrapping_add_signed(input.int()?);
                Ok(before)
            })?);
        }
        Kind::TEXT => process.texts.extend(items(input, Decoder::text)?),
        _ => {
            let mut before = 0;
            process.sources.extend(items(input, |input| {
                let source = counts::source(input, before)?;
                before = source.offset;
                Ok(source)
            })?);
        }
    }
    Ok(())
}

/// The error for a chunk of unknown kind or in the wrong place.
pub(super) fn unexpected(chunk: &Chunk) -> ReadError {
    const KNOWN: [Kind; 17] = [
        Kind::META,
        Kind::PROC,
        Kind::MODS,
        Kind::FUNC,
        Kind::THRD,
        Kind::NODE,
        Kind::FRAG,
        Kind::CUTS,
        Kind::JUMP,
        Kind::TEXT,
        Kind::SRCS,
        Kind::CNTS,
        Kind::TRGT,
        Kind::STRM,
        Kind::LOGS,
        Kind::BLKS,
        Kind::DONE,
    ];
    let (kind, at) = (chunk.kind, chunk.at);
    if KNOWN.contains(&kind) {
        ReadError::Malformed {
            kind,
            at,
            what: "such a chunk does not belong there",
        }
    } else {
        ReadError::UnknownChunk { kind, at }
    }
}

/// Totals that the last chunk states: processes, modules, functions, threads,
/// nodes; if code was counted, fragments, cuts, texts, sources, counts, jumps (from version 6
/// on); and if contexts
/// are of basic blocks, those. Of a trace: fragments, targets, parts of streams and their
/// bytes.
pub(super) fn totals(recording: &Recording, version: u32) -> Vec<u64> {
    let mut totals = vec![recording.processes.len() as u64, 0, 0, 0, 0];
    for process in &recording.processes {
        totals[1] += process.modules.len() as u64;
        totals[2] += process.functions.len() as u64;
        totals[3] += process.threads.len() as u64;
        totals[4] += process
            .threads
            .iter()
            .map(|thread| thread.nodes.len() as u64)
            .sum::<u64>();
    }
    if recording.meta.mode == Mode::Counts {
        let sum = |of: fn(&Process) -> usize| {
            let all = recording.processes.iter().map(of);
            all.sum::<usize>() as u64
        };
        totals.push(sum(|process| process.fragments.len()));
        totals.push(sum(|process| process.cuts.len()));
        totals.push(sum(|process| process.texts.len()));
        totals.push(sum(|process| process.sources.len()));
        totals.push(sum(|process| {
            let counts = process.threads.iter().map(|thread| thread.counts.len());
            counts.sum()
        }));
        if version >= JUMPS {
            totals.push(sum(|process| process.jumps.len()));
        }
    }
    if recording.meta.mode == Mode::Trace {
        let threads = || {
            recording
                .processes
                .iter()
                .flat_map(|process| &process.threads)
        };
        let parts = || threads().flat_map(|thread| &thread.stream);
        let processes = || recording.processes.iter();
        totals.push(processes().map(|p| p.fragments.len() as u64).sum());
        totals.push(processes().map(|p| p.targets.len() as u64).sum());
        totals.push(parts().count() as u64);
        totals.push(parts().map(Part::len).sum());
    }
    if recording.meta.blocks.is_some() {
        let blocks = recording
            .processes
            .iter()
            .map(|process| process.blocks.len());
        totals.push(blocks.sum::<usize>() as u64);
    }
    totals
}

/// Called when a thread is complete: its tops are nodes of its own, and every node
/// has its costs.
fn check_thread(thread: Option<&Thread>, input: &Decoder<'_>) -> Result<(), ReadError> {
    let Some(thread) = thread else { return Ok(()) };
    let len = thread.nodes.len();
    if thread.costs.iter().any(|costs| costs.values.len() != len) {
        return Err(input.malformed("the thread before it has nodes without costs"));
    }
    let sound = thread
        .nodes
        .iter()
        .all(|node| node.top.is_none_or(|top| (top as usize) < len));
    sound
        .then_some(())
        .ok_or_else(|| input.malformed("the thread before it has a lost top node"))
}

/// Makes a thread whole that was cut.
fn mend_thread(thread: Option<&mut Thread>) {
    let Some(thread) = thread else { return };
    let len = thread.nodes.len();
    for node in &mut thread.nodes {
        node.top = node.top.filter(|&top| (top as usize) < len);
    }
    for costs in &mut thread.costs {
        costs.values.resize(len, 0);
    }
}

/// Items to the end of the chunk.
fn items<'a, T>(
    mut input: Decoder<'a>,
    mut get: impl FnMut(&mut Decoder<'a>) -> Result<T, ReadError>,
) -> Result<Vec<T>, ReadError> {
    let mut items = Vec::new();
    while !input.is_empty() {
        items.push(get(&mut input)?);
    }
    Ok(items)
}

fn meta(chunk: &Chunk) -> Result<Meta, ReadError> {
    let mut input = Decoder::new(chunk);
    let producer = input.text()?;
    let command = input.list(Decoder::text)?;
    let (mode, blocks) = match input.uint()? {
        0 => (Mode::Run, None),
        1 => (Mode::Contexts, None),
        2 => (Mode::Counts, None),
        mode @ 3..=4 => (
            Mode::Contexts,
            Some(BlockContexts {
                intra: input.flag()?,
                roll_loops: input.flag()?,
                dynamic: input.flag()?,
                windows: mode == 4,
            }),
        ),
        5 => (Mode::Trace, None),
        _ => return Err(input.malformed("its mode is unknown")),
    };
    let meta = Meta {
        producer,
        command,
        mode,
        blocks,
        k: input.option(Decoder::u32)?,
        unroll: input.flag()?,
        selected: input.flag()?,
        options: input.list(|input| Ok((input.text()?, input.text()?)))?,
        started_unix_ns: input.uint()?,
        duration_ns: input.uint()?,
        end: end(&mut input)?,
    };
    input.end()?;
    Ok(meta)
}

pub(super) fn end(input: &mut Decoder<'_>) -> Result<End, ReadError> {
    Ok(match input.uint()? {
        0 => End::Unknown,
        1 => End::Exited(input.i32()?),
        2 => End::Signaled {
            signal: input.i32()?,
            core: input.flag()?,
        },
        3 => End::Execed,
        _ => return Err(input.malformed("a process ends in an unknown way")),
    })
}

pub(super) fn process_head(input: &mut Decoder<'_>, index: usize) -> Result<Process, ReadError> {
    let pid = input.u32()?;
    let parent = match input.option(Decoder::uint)? {
        None => None,
        Some(parent) => {
            let earlier = usize::try_from(parent)
                .ok()
                .filter(|&parent| parent < index);
            Some(earlier.ok_or_else(|| input.malformed("a process comes before its parent"))?)
        }
    };
    Ok(Process {
        pid,
        parent,
        by_fork: input.flag()?,
        exe: input.text()?,
        args: input.list(Decoder::text)?,
        start_ns: input.uint()?,
        end_ns: input.option(Decoder::uint)?,
        end: end(input)?,
        stats: input.list(Decoder::uint)?,
        ..Process::default()
    })
}

pub(super) fn module(input: &mut Decoder<'_>) -> Result<Module, ReadError> {
    Ok(Module {
        path: input.text()?,
        start: input.uint()?,
        end: input.uint()?,
        offset: input.uint()?,
        build_id: input.option(|input| input.blob().map(<[u8]>::to_vec))?,
        mapped_ns: input.uint()?,
        unmapped_ns: input.option(Decoder::uint)?,
        file: Default::default(),
    })
}

fn function(input: &mut Decoder<'_>, before: Base) -> Result<Function, ReadError> {
    let id = i64::from(before.id)
        .checked_add(input.int()?)
        .and_then(|id| u32::try_from(id).ok());
    Ok(Function {
        id: id.ok_or_else(|| input.malformed("a function id is longer than 32 bits"))?,
        pc: before.pc.wrapping_add_signed(input.int()?),
        module: input.option(Decoder::u32)?,
        file_offset: before.file_offset.wrapping_add_signed(input.int()?),
        name: input.option(Decoder::text)?,
        file: input.option(Decoder::text)?,
        line: input.option(Decoder::u32)?,
    })
}

pub(super) fn thread_head(input: &mut Decoder<'_>) -> Result<Thread, ReadError> {
    Ok(Thread {
        tid: input.u32()?,
        start_ns: input.uint()?,
        end_ns: input.option(Decoder::uint)?,
        insns: input.uint()?,
        truncated_events: input.uint()?,
        max_depth: input.uint()?,
        nodes: Vec::new(),
        costs: Vec::new(),
        counts: Vec::new(),
        stream: Vec::new(),
        keyframes: Vec::new(),
        gap: None,
        missing: None,
    })
}
