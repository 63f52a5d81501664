//! Items of `LOGS` chunks: what a trace says of processes, code and threads, in the order in
//! which that became known. One row per kind of item, written and read here.
//!
//! Numbers are differences to those of the item of the same kind before in the chunk.
//!
//! Limits: of code that forked children share, no more than [`MAX_SHARED`] pieces in all.

use std::sync::Arc;

use wire::stream::LANES;

use super::codec::{Decoder, Encoder};
use super::{counts, read, write};
use crate::error::ReadError;
use crate::keyframe::{Gap, Keyframe};
use crate::model::{Fragment, Missing, Module, Process, Recording, Source, Thread};

/// Fragments that forked children have from their parents, all together.
pub(crate) const MAX_SHARED: u64 = 1 << 26;

/// Tags of items.
mod tag {
    /// The items that follow are about this process.
    pub const OF: u64 = 0;
    pub const PROCESS: u64 = 1;
    pub const MODULE: u64 = 2;
    pub const FRAGMENT: u64 = 3;
    pub const TARGET: u64 = 4;
    pub const THREAD: u64 = 5;
    pub const GONE: u64 = 6;
    pub const BUILD: u64 = 7;
    pub const TEXT: u64 = 8;
    pub const SOURCE: u64 = 9;
    pub const ENDED: u64 = 10;
    pub const THREAD_ENDED: u64 = 11;
    pub const KEYFRAME: u64 = 12;
    pub const NUMBERS: u64 = 13;
    pub const GAP: u64 = 14;
    /// Keyframes and gaps of threads with a stream of addresses.
    pub const KEYFRAME_WITH_ADDRESSES: u64 = 15;
    pub const GAP_WITH_ADDRESSES: u64 = 16;
    /// Keyframes and gaps of threads that have a stream of values, too.
    pub const KEYFRAME_WITH_VALUES: u64 = 17;
    pub const GAP_WITH_VALUES: u64 = 18;

    /// By the number of streams about memory.
    pub const KEYFRAMES: [u64; 3] = [KEYFRAME, KEYFRAME_WITH_ADDRESSES, KEYFRAME_WITH_VALUES];
    pub const GAPS: [u64; 3] = [GAP, GAP_WITH_ADDRESSES, GAP_WITH_VALUES];

    /// Whether nothing else depends on it: a file may be rewritten without it.
    pub fn is_mark(tag: u64) -> bool {
        tag == OF || KEYFRAMES.contains(&tag) || GAPS.contains(&tag)
    }
}

/// How much of what its parent had a forked child begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shared {
    pub modules: usize,
    pub fragments: usize,
    pub targets: usize,
}

/// Base of the differences in items.
#[derive(Default)]
struct Before {
    process: Option<usize>,
    fragment: counts::Before,
    target: u64,
    source: u64,
}

/// Things of a process that an item begins.
#[derive(Clone, Copy)]
pub(super) enum Begun {
    Process(Shared),
    Module,
    Fragment,
    Thread,
    /// The index is the thread's.
    Keyframe(usize),
}

/// Items of the chunk being written.
#[derive(Default)]
pub(super) struct Items {
    pub out: Encoder,
    /// How many there are.
    count: u64,
    /// And of them, those that are not [marks](tag::is_mark).
    told: u64,
    /// Things that begin in it, by process.
    begun: Vec<(usize, Begun)>,
    before: Before,
}

impl Items {
    /// The contents of the chunk; the next one begins.
    pub(super) fn take(&mut self) -> (Vec<u8>, u64, Vec<(usize, Begun)>) {
        let all = std::mem::take(self);
        (all.out.bytes, all.count, all.begun)
    }

    /// How many there are that are not marks.
    pub(super) fn told(&self) -> u64 {
        self.told
    }

    fn begin(&mut self, process: usize, tag: u64) {
        if self.before.process != Some(process) {
            self.before.process = Some(process);
            self.out.uint(tag::OF);
            self.out.uint(process as u64);
            self.count += 1;
        }
        self.out.uint(tag);
        self.count += 1;
        self.told += u64::from(!tag::is_mark(tag));
    }

    pub(super) fn process(&mut self, index: usize, process: &Process, shared: Option<Shared>) {
        // It is the process that follows.
        self.before.process = Some(index);
        self.begin(index, tag::PROCESS);
        let begun = Begun::Process(shared.unwrap_or_default());
        self.begun.push((index, begun));
        write::put_process_head(&mut self.out, process);
        self.out.option(shared, |out, shared| {
            out.uint(shared.modules as u64);
            out.uint(shared.fragments as u64);
            out.uint(shared.targets as u64);
        });
    }

    pub(super) fn module(&mut self, process: usize, module: &Module) {
        self.begin(process, tag::MODULE);
        self.begun.push((process, Begun::Module));
        write::module(&mut self.out, module);
    }

    pub(super) fn fragment(&mut self, process: usize, fragment: &Fragment) {
        self.begin(process, tag::FRAGMENT);
        self.begun.push((process, Begun::Fragment));
        counts::put_fragment(&mut self.out, self.before.fragment, fragment);
        self.before.fragment = counts::Before::after(fragment);
    }

    pub(super) fn target(&mut self, process: usize, target: u64) {
        self.begin(process, tag::TARGET);
        let delta = target.wrapping_sub(self.before.target).cast_signed();
        self.out.int(delta);
        self.before.target = target;
    }

    pub(super) fn thread(&mut self, process: usize, thread: &Thread) {
        self.begin(process, tag::THREAD);
        self.begun.push((process, Begun::Thread));
        write::put_thread_head(&mut self.out, thread);
    }

    pub(super) fn gone(&mut self, process: usize, module: usize, unmapped_ns: u64) {
        self.begin(process, tag::GONE);
        self.out.uint(module as u64);
        self.out.uint(unmapped_ns);
    }

    pub(super) fn build(&mut self, process: usize, module: usize, id: &[u8]) {
        self.begin(process, tag::BUILD);
        self.out.uint(module as u64);
        self.out.blob(id);
    }

    pub(super) fn text(&mut self, process: usize, text: &str) {
        self.begin(process, tag::TEXT);
        self.out.text(text);
    }

    pub(super) fn source(&mut self, process: usize, source: &Source) {
        self.begin(process, tag::SOURCE);
        counts::put_source(&mut self.out, self.before.source, source);
        self.before.source = source.offset;
    }

    pub(super) fn ended(&mut self, index: usize, process: &Process) {
        self.begin(index, tag::ENDED);
        self.out.option(process.end_ns, Encoder::uint);
        write::end(&mut self.out, process.end);
        self.out.list(&process.stats, |out, &value| out.uint(value));
    }

    pub(super) fn thread_ended(&mut self, process: usize, index: usize, thread: &Thread) {
        self.begin(process, tag::THREAD_ENDED);
        self.out.uint(index as u64);
        self.out.option(thread.end_ns, Encoder::uint);
        self.out.uint(thread.insns);
        let number = |missing| Missing::ALL.iter().position(|&known| known == missing);
        let missing = thread.missing.and_then(number);
        self.out.uint(missing.map_or(0, |number| number as u64 + 1));
    }
}

/// Items about streams.
impl Items {
    pub(super) fn keyframe(&mut self, process: usize, thread: usize, keyframe: &Keyframe) {
        let memory = used(&keyframe.memory, |&bytes| bytes != 0);
        self.begin(process, tag::KEYFRAMES[memory]);
        self.begun.push((process, Begun::Keyframe(thread)));
        self.out.uint(thread as u64);
        keyframe.at.iter().for_each(|&at| self.out.uint(at));
        let memory = keyframe.memory.iter().take(memory);
        memory.for_each(|&bytes| self.out.uint(bytes));
    }

    /// How many instructions are before each of the first keyframes.
    pub(super) fn numbers(&mut self, process: usize, thread: usize, insns: &[u64]) {
        self.begin(process, tag::NUMBERS);
        self.out.uint(thread as u64);
        let mut before = 0u64;
        self.out.list(insns, |out, &insns| {
            out.int(insns.wrapping_sub(before).cast_signed());
            before = insns;
        });
    }

    pub(super) fn gap(&mut self, process: usize, thread: usize, gap: &Gap) {
        let lanes: Vec<_> = gap.parts.into_iter().zip(gap.bytes).collect();
        let memory = used(&lanes[LANES..], |&lane| lane != (0, 0));
        self.begin(process, tag::GAPS[memory]);
        self.out.uint(thread as u64);
        for (parts, bytes) in lanes.into_iter().take(LANES + memory) {
            self.out.uint(parts.into());
            self.out.uint(bytes);
        }
        self.out.uint(gap.stored);
    }
}

/// Number of elements up to the last one that is used.
fn used<T>(all: &[T], is_used: impl Fn(&T) -> bool) -> usize {
    all.iter().rposition(is_used).map_or(0, |last| last + 1)
}

/// Reads items into a recording.
#[derive(Default)]
pub(super) struct Reader {
    pub count: u64,
    /// Number of those that are not [marks](tag::is_mark).
    pub told: u64,
    shared: u64,
}

impl Reader {
    /// All items of a chunk. Those before one that is refused are in the recording.
    pub(super) fn feed(
        &mut self,
        recording: &mut Recording,
        mut input: Decoder<'_>,
    ) -> Result<(), ReadError> {
        let mut before = Before::default();
        while !input.is_empty() {
            self.item(recording, &mut input, &mut before)?;
            self.count += 1;
        }
        Ok(())
    }

    // Long function: one row per kind of item.
    fn item(
        &mut self,
        recording: &mut Recording,
        input: &mut Decoder<'_>,
        before: &mut Before,
    ) -> Result<(), ReadError> {
        let tag = input.uint()?;
        self.told += u64::from(!tag::is_mark(tag));
        if tag == tag::PROCESS {
            self.process(recording, input)?;
            before.process = Some(recording.processes.len() - 1);
            return Ok(());
        }
        if tag == tag::OF {
            before.process = Some(index(input)?);
            return Ok(());
        }
        let process = before
            .process
            .and_then(|process| recording.processes.get_mut(process))
            .ok_or_else(|| input.malformed("an item is about no process"))?;
        match tag {
            tag::MODULE => process.modules.push(read::module(input)?),
            tag::FRAGMENT => {
                let fragment = counts::fragment(input, before.fragment)?;
                before.fragment = counts::Before::after(&fragment);
                process.fragments.push(Arc::new(fragment));
            }
            tag::TARGET => {
                before.target = before.target.wrapping_add_signed(input.int()?);
                process.targets.push(before.target);
            }
            tag::THREAD => process.threads.push(read::thread_head(input)?),
            tag::GONE => {
                let (module, time) = (index(input)?, input.uint()?);
                known(process.modules.get_mut(module), input)?.unmapped_ns = Some(time);
            }
            tag::BUILD => {
                let (module, id) = (index(input)?, input.blob()?);
                known(process.modules.get_mut(module), input)?.build_id = Some(id.to_vec());
            }
            tag::TEXT => process.texts.push(input.text()?),
            tag::SOURCE => {
                let source = counts::source(input, before.source)?;
                before.source = source.offset;
                process.sources.push(source);
            }
            tag::ENDED => {
                process.end_ns = input.option(Decoder::uint)?;
                process.end = read::end(input)?;
                process.stats = input.list(Decoder::uint)?;
            }
            tag::THREAD_ENDED => thread_ended(process, input)?,
            tag::KEYFRAME | tag::KEYFRAME_WITH_ADDRESSES | tag::KEYFRAME_WITH_VALUES => {
                let thread = thread(process, input)?;
                let keyframe = keyframe(input, of_memory(&tag::KEYFRAMES, tag))?;
                thread.keyframes.push(keyframe);
            }
            tag::NUMBERS => numbers(thread(process, input)?, input)?,
            tag::GAP | tag::GAP_WITH_ADDRESSES | tag::GAP_WITH_VALUES => {
                let thread = thread(process, input)?;
                let lanes = LANES + of_memory(&tag::GAPS, tag);
                thread.gap = Some(gap(input, lanes)?);
            }
            _ => return Err(input.malformed("an item is of no known kind")),
        }
        Ok(())
    }

    fn process(
        &mut self,
        recording: &mut Recording,
        input: &mut Decoder<'_>,
    ) -> Result<(), ReadError> {
        let mut process = read::process_head(input, recording.processes.len())?;
        let shared = input.option(|input| {
            Ok(Shared {
                modules: index(input)?,
                fragments: index(input)?,
                targets: index(input)?,
            })
        })?;
        if let Some(shared) = shared {
            let parent = process.parent.and_then(|at| recording.processes.get(at));
            let parent = known(parent, input)?;
            self.shared += (shared.fragments + shared.modules + shared.targets) as u64;
            if self.shared > MAX_SHARED {
                return Err(input.malformed("processes share more than the format allows"));
            }
            let modules = known(parent.modules.get(..shared.modules), input)?;
            process.modules = modules.to_vec();
            for module in &mut process.modules {
                (module.unmapped_ns, module.build_id) = (None, None);
            }
            process.fragments = known(parent.fragments.get(..shared.fragments), input)?.to_vec();
            process.targets = known(parent.targets.get(..shared.targets), input)?.to_vec();
        }
        recording.processes.push(process);
        Ok(())
    }
}

/// The thread that an item is about.
fn thread<'a>(
    process: &'a mut Process,
    input: &mut Decoder<'_>,
) -> Result<&'a mut Thread, ReadError> {
    let thread = index(input)?;
    known(process.threads.get_mut(thread), input)
}

/// Streams about memory that an item of such a kind tells of.
fn of_memory(kinds: &[u64], tag: u64) -> usize {
    kinds.iter().position(|&kind| kind == tag).unwrap_or(0)
}

fn keyframe(input: &mut Decoder<'_>, memory: usize) -> Result<Keyframe, ReadError> {
    let mut keyframe = Keyframe::default();
    for at in &mut keyframe.at {
        *at = input.uint()?;
    }
    for bytes in keyframe.memory.iter_mut().take(memory) {
        *bytes = input.uint()?;
    }
    Ok(keyframe)
}

fn gap(input: &mut Decoder<'_>, lanes: usize) -> Result<Gap, ReadError> {
    let mut gap = Gap::default();
    for (parts, bytes) in gap.parts.iter_mut().zip(&mut gap.bytes).take(lanes) {
        (*parts, *bytes) = (input.u32()?, input.uint()?);
    }
    gap.stored = input.uint()?;
    Ok(gap)
}

fn numbers(thread: &mut Thread, input: &mut Decoder<'_>) -> Result<(), ReadError> {
    let mut before = 0u64;
    let numbers = input.list(|input| {
        before = before.wrapping_add_signed(input.int()?);
        Ok(before)
    })?;
    if numbers.len() > thread.keyframes.len() {
        return Err(input.malformed("it has numbers of more keyframes than there are"));
    }
    for (keyframe, insns) in thread.keyframes.iter_mut().zip(numbers) {
        keyframe.insns = Some(insns);
    }
    Ok(())
}

fn thread_ended(process: &mut Process, input: &mut Decoder<'_>) -> Result<(), ReadError> {
    let thread = thread(process, input)?;
    thread.end_ns = input.option(Decoder::uint)?;
    thread.insns = input.uint()?;
    thread.missing = match index(input)? {
        0 => None,
        number => Some(*known(Missing::ALL.get(number - 1), input)?),
    };
    Ok(())
}

fn index(input: &mut Decoder<'_>) -> Result<usize, ReadError> {
    Ok(input.u32()? as usize)
}

fn known<T>(found: Option<T>, input: &Decoder<'_>) -> Result<T, ReadError> {
    found.ok_or_else(|| input.malformed("an item names what is not there"))
}
