//! Recordings made from random bytes, with every field in use.

use std::sync::Arc;

use arbtest::arbitrary::{Result, Unstructured};
use trace::{
    Block, BlockContexts, Cost, Costs, Cut, End, Event, EventKind, Fragment, Function, Gap, Jump,
    Keyframe, Label, Meta, Missing, Mode, Module, Node, Part, Piece, Process, Recording, SlotCount,
    Source, Thread,
};

type Bytes<'a, 'b> = &'a mut Unstructured<'b>;

fn few<T>(u: Bytes, most: usize, mut make: impl FnMut(Bytes) -> Result<T>) -> Result<Vec<T>> {
    let count = u.int_in_range(0..=most)?;
    (0..count).map(|_| make(u)).collect()
}

fn number(u: Bytes) -> Result<u64> {
    let bits: u32 = u.int_in_range(0..=64)?;
    let value: u64 = u.arbitrary()?;
    Ok(value.checked_shr(bits).unwrap_or(0))
}

fn end(u: Bytes) -> Result<End> {
    Ok(match u.int_in_range(0..=3)? {
        0 => End::Unknown,
        1 => End::Exited(u.arbitrary()?),
        2 => End::Signaled {
            signal: u.arbitrary()?,
            core: u.arbitrary()?,
        },
        _ => End::Execed,
    })
}

fn option<T>(u: Bytes, make: impl FnOnce(Bytes) -> Result<T>) -> Result<Option<T>> {
    let some: bool = u.arbitrary()?;
    some.then(|| make(u)).transpose()
}

fn module(u: Bytes) -> Result<Module> {
    Ok(Module {
        path: u.arbitrary()?,
        start: number(u)?,
        end: number(u)?,
        offset: number(u)?,
        build_id: option(u, |u| u.arbitrary())?,
        mapped_ns: number(u)?,
        unmapped_ns: option(u, number)?,
        file: Default::default(),
    })
}

fn function(u: Bytes) -> Result<Function> {
    Ok(Function {
        id: u.arbitrary()?,
        pc: number(u)?,
        module: u.arbitrary()?,
        file_offset: number(u)?,
        name: u.arbitrary()?,
        file: u.arbitrary()?,
        line: u.arbitrary()?,
    })
}

fn thread(u: Bytes, most_nodes: usize) -> Result<Thread> {
    let mut nodes: Vec<Node> = Vec::new();
    let count = u.int_in_range(0..=most_nodes)?;
    for index in 0..count as u32 {
        let parent = if index == 0 {
            None
        } else {
            option(u, |u| u.int_in_range(0..=index - 1))?
        };
        nodes.push(Node {
            label: Label(u.int_in_range(0..=300)?),
            parent,
            depth: parent.map_or(0, |parent| nodes[parent as usize].depth + 1),
            top: option(u, |u| u.int_in_range(0..=count as u32 - 1))?,
            count: number(u)?,
        });
    }
    Ok(Thread {
        tid: u.arbitrary()?,
        start_ns: number(u)?,
        end_ns: option(u, number)?,
        insns: number(u)?,
        truncated_events: number(u)?,
        max_depth: number(u)?,
        costs: costs(u, nodes.len())?,
        nodes,
        counts: Vec::new(),
        stream: Vec::new(),
        keyframes: Vec::new(),
        gap: None,
        missing: None,
    })
}

fn costs(u: Bytes, nodes: usize) -> Result<Vec<Costs>> {
    let mut costs = Vec::new();
    for cost in Cost::ALL {
        let values = (0..nodes)
            .map(|_| number(u))
            .collect::<Result<Vec<u64>>>()?;
        // A cost of no nodes leaves nothing in a file.
        if u.arbitrary()? && nodes > 0 {
            costs.push(Costs { cost, values });
        }
    }
    Ok(costs)
}

fn process(u: Bytes, index: usize, most_nodes: usize) -> Result<Process> {
    let parent = if index == 0 {
        None
    } else {
        option(u, |u| u.int_in_range(0..=index - 1))?
    };
    Ok(Process {
        pid: u.arbitrary()?,
        parent,
        by_fork: u.arbitrary()?,
        exe: u.arbitrary()?,
        args: few(u, 3, |u| u.arbitrary())?,
        start_ns: number(u)?,
        end_ns: option(u, number)?,
        end: end(u)?,
        modules: few(u, 3, module)?,
        functions: few(u, 4, function)?,
        threads: few(u, 3, |u| thread(u, most_nodes))?,
        stats: few(u, 4, number)?,
        ..Process::default()
    })
}

fn fragment(u: Bytes) -> Result<Fragment> {
    let pieces = few(u, 3, |u| {
        Ok(Piece {
            pc: number(u)?,
            len: u.int_in_range(1..=9)?,
            module: u.arbitrary()?,
        })
    })?;
    let code = pieces.iter().map(|piece| piece.len as usize).sum();
    Ok(Fragment {
        id: u.arbitrary()?,
        faults: u.arbitrary()?,
        code: (0..code).map(|_| u.arbitrary()).collect::<Result<_>>()?,
        pieces,
        first_slot: u.int_in_range(0..=(1 << 28) - 1)?,
        events: few(u, 4, |u| {
            let kinds = [
                EventKind::Executed,
                EventKind::Less,
                EventKind::Taken,
                EventKind::Fell,
                EventKind::Again,
            ];
            let from = u.int_in_range(0..=u16::MAX - 1)?;
            Ok(Event {
                from,
                to: u.int_in_range(from + 1..=u16::MAX)?,
                kind: *u.choose(&kinds)?,
            })
        })?,
    })
}

/// Adds the contents that only recordings of counts have.
fn counted(u: Bytes, process: &mut Process) -> Result<()> {
    process.fragments = few(u, 4, |u| fragment(u).map(Arc::new))?;
    process.cuts = few(u, 3, |u| {
        Ok(Cut {
            slot: number(u)?,
            fragment: u.arbitrary()?,
            at: u.arbitrary()?,
            ahead: u.arbitrary()?,
        })
    })?;
    process.jumps = few(u, 3, |u| {
        Ok(Jump {
            slot: number(u)?,
            fragment: u.arbitrary()?,
            pc: number(u)?,
            module: u.arbitrary()?,
        })
    })?;
    process.texts = few(u, 3, |u| u.arbitrary())?;
    process.sources = few(u, 4, |u| {
        Ok(Source {
            module: u.arbitrary()?,
            offset: number(u)?,
            function: u.arbitrary()?,
            line: u.arbitrary()?,
        })
    })?;
    for thread in &mut process.threads {
        thread.counts = few(u, 5, |u| {
            Ok(SlotCount {
                slot: number(u)?,
                count: number(u)?,
            })
        })?;
    }
    Ok(())
}

fn block_contexts(u: Bytes) -> Result<BlockContexts> {
    Ok(BlockContexts {
        intra: u.arbitrary()?,
        roll_loops: u.arbitrary()?,
        windows: u.arbitrary()?,
        dynamic: u.arbitrary()?,
    })
}

fn block(u: Bytes) -> Result<Block> {
    Ok(Block {
        id: u.arbitrary()?,
        function: u.arbitrary()?,
        offset: number(u)?,
        column: u
            .arbitrary::<Option<u16>>()?
            .filter(|&column| column > 0)
            .map(u32::from),
        code: few(u, 20, |u| u.arbitrary())?,
    })
}

/// Places to begin at, the first of them with numbers, and a gap.
fn streams(u: Bytes, thread: &mut Thread) -> Result<()> {
    thread.keyframes = few(u, 4, |u| {
        let mut keyframe = Keyframe::default();
        for at in &mut keyframe.at {
            *at = number(u)?;
        }
        keyframe.memory = [number(u)?, number(u)?];
        Ok(keyframe)
    })?;
    let numbered = u.int_in_range(0..=thread.keyframes.len())?;
    for keyframe in &mut thread.keyframes[..numbered] {
        keyframe.insns = Some(number(u)?);
    }
    thread.gap = option(u, |u| {
        let mut gap = Gap::default();
        for (parts, bytes) in gap.parts.iter_mut().zip(&mut gap.bytes) {
            (*parts, *bytes) = (u.arbitrary()?, number(u)?);
        }
        gap.stored = number(u)?;
        Ok(gap)
    })?;
    Ok(())
}

/// Adds the contents that only traces have, and removes the others.
fn traced(u: Bytes, processes: &mut [Process]) -> Result<()> {
    for index in 0..processes.len() {
        let mut fragments = few(u, 4, |u| fragment(u).map(Arc::new))?;
        let mut modules = processes[index].modules.clone();
        let parent = processes[index]
            .parent
            .map(|parent| processes[parent].clone());
        let process = &mut processes[index];
        if let Some(parent) = parent.filter(|_| process.by_fork) {
            fragments.splice(..0, parent.fragments.iter().take(2).cloned());
            modules.splice(..0, parent.modules.iter().take(1).cloned());
        }
        process.fragments = fragments;
        process.modules = modules;
        process.targets = few(u, 5, number)?;
        process.functions.clear();
        for thread in &mut process.threads {
            thread.nodes.clear();
            thread.costs.clear();
            streams(u, thread)?;
            thread.missing = option(u, |u| Ok(*u.choose(&Missing::ALL)?))?;
            thread.stream = few(u, 4, |u| {
                let raw: Vec<u8> = u.arbitrary()?;
                let mut part = Part::pack(&raw).expect("memory is enough");
                part.stream = u.int_in_range(0..=2)?;
                part.taken_unix_ns = number(u)?;
                Ok(part)
            })?;
        }
    }
    Ok(())
}

/// A recording that `write` accepts, with threads of at most `most_nodes`.
pub fn recording(u: Bytes, most_nodes: usize) -> Result<Recording> {
    let mode = *u.choose(&[Mode::Run, Mode::Contexts, Mode::Counts, Mode::Trace])?;
    let meta = Meta {
        producer: u.arbitrary()?,
        command: few(u, 3, |u| u.arbitrary())?,
        mode,
        blocks: match mode {
            Mode::Contexts => option(u, block_contexts)?,
            _ => None,
        },
        k: u.arbitrary()?,
        unroll: u.arbitrary()?,
        selected: u.arbitrary()?,
        options: few(u, 2, |u| u.arbitrary())?,
        started_unix_ns: number(u)?,
        duration_ns: number(u)?,
        end: end(u)?,
    };
    let count = u.int_in_range(0..=3)?;
    let mut processes = (0..count)
        .map(|index| process(u, index, most_nodes))
        .collect::<Result<Vec<_>>>()?;
    if meta.blocks.is_some() {
        for process in &mut processes {
            process.blocks = few(u, 4, block)?;
        }
    }
    if meta.mode == Mode::Counts {
        for process in &mut processes {
            counted(u, process)?;
        }
    }
    if meta.mode == Mode::Trace {
        traced(u, &mut processes)?;
    }
    let row = |u: &mut Unstructured<'_>| {
        Ok(trace::Denial {
            since_ns: u.arbitrary()?,
            pid: u.arbitrary()?,
            tid: u.arbitrary()?,
            why: u.arbitrary()?,
            times: u.arbitrary()?,
        })
    };
    let rows = u.int_in_range(0..=3)?;
    let denied = (0..rows).map(|_| row(u)).collect::<Result<_>>()?;
    let native = |u: &mut Unstructured<'_>| {
        Ok(trace::Native {
            name: u.arbitrary()?,
            why: u.arbitrary()?,
            times: u.arbitrary()?,
        })
    };
    let rows = u.int_in_range(0..=3)?;
    let natives = (0..rows).map(|_| native(u)).collect::<Result<_>>()?;
    Ok(Recording {
        meta,
        processes,
        denied,
        natives,
    })
}

/// A recording that uses everything, from a fixed seed.
pub fn sample(seed: u64) -> Recording {
    let mut random = Random(seed | 1);
    let bytes: Vec<u8> = (0..20_000).map(|_| random.below(256) as u8).collect();
    recording(&mut Unstructured::new(&bytes), 40).expect("there are bytes enough")
}

/// Marsaglia's xorshift: the tests need variety, not quality.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}
