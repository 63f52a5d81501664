//! The shared pool as a [`Recording`].
//!
//! Problem: the pool was written by processes that may have been killed at any
//! instruction, may still run, or may have scribbled over it. What is in it is
//! offsets into itself.
//!
//! Approach: four walks, one per kind of chain: process records, their threads
//! (here), their logs ([`log`]), the nodes of a thread ([`nodes`]). What does
//! not make sense ends the chain or drops the record it stands in; everything
//! read before stays.
//!
//! Invariants that make every walk end:
//! - a record or chunk is entered at most once ([`Walk::enter`]), so chains
//!   cannot loop or share a tail;
//! - all chunks together are granted no more bytes than the pool has allocated
//!   ([`Walk::grant`]), so overlapping chunks cannot multiply the work;
//! - a parent is a record older than its child, so ancestry ends.
//!
//! Limits: a counter read while its process runs may be one event behind the
//! next one read. Nothing is locked.

mod children;
mod counts;
mod edges;
mod follow;
mod keyframes;
mod live;
mod log;
mod nodes;
mod ring;
mod rolled;
mod sink;
mod streams;
mod windows;

pub use follow::Follow;
pub use live::Live;
pub use sink::{Keep, Most, Names, Source as KeepSource};

use std::collections::{HashMap, HashSet};
use std::mem::offset_of;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use wire::denied::Denial;
use wire::view::Pool;
use wire::{
    CMDLINE_MAX, COST_WORDS, InsnWords, LiveStates, PATH_MAX, ProcessRecord, ThreadRecord, made,
    process_state,
};

use crate::model::{Cost, End, Meta, Native, Process, Recording, Thread};

/// Everything recorded in the pool until now. A pool of another version, or
/// bytes that are no pool, give a recording without processes.
///
/// For a trace ([`Mode::Trace`]) that leaves out the streams: [`Live`] takes them out
/// while they run.
pub fn from_pool(pool: &Pool, meta: Meta) -> Recording {
    from_pool_timed(pool, meta, None)
}

/// Nanoseconds that threads executed and waited, by the offset of the node in the pool, for each thread by the
/// offset of its record.
pub type Times = HashMap<u64, HashMap<u64, [u64; 2]>>;

/// [`from_pool`], with times as costs of nodes, if they were sampled. A time of a node that does not exist is
/// the first node's.
pub fn from_pool_timed(pool: &Pool, meta: Meta, times: Option<&Times>) -> Recording {
    let mut recording = Recording {
        meta,
        processes: Vec::new(),
        denied: Vec::new(),
        natives: Vec::new(),
    };
    if !pool.is_valid() {
        return recording;
    }
    let mut walk = Walk::new(*pool);
    let mut offsets = walk.chain(pool.header().processes.load(Acquire), |pool, offset| {
        Some(pool.at::<ProcessRecord>(offset)?.next.load(Acquire))
    });
    // Children nobody asked for; they have no others that were.
    offsets.retain(|&offset| {
        let record = pool.at::<ProcessRecord>(offset);
        record.is_some_and(|record| record.made.load(Relaxed) != made::BY_FORK_HIDDEN)
    });
    let index_of: HashMap<u64, usize> = offsets
        .iter()
        .enumerate()
        .map(|(index, &offset)| (offset, index))
        .collect();
    let mut logs = log::Logs::default();
    let rules = edges::Rules::of(&recording.meta);
    for (index, &offset) in offsets.iter().enumerate() {
        let Some(record) = pool.at::<ProcessRecord>(offset) else {
            continue;
        };
        let parent = index_of
            .get(&record.parent.load(Relaxed))
            .copied()
            .filter(|&parent| parent < index);
        let mut process = process(pool, offset, record, parent);
        let threads = threads(&mut walk, record, times);
        let counted: Vec<counts::Place> = threads.iter().map(|thread| thread.1).collect();
        process.threads = threads.into_iter().map(|thread| thread.0).collect();
        let inherited = process.by_fork.then_some(parent).flatten();
        logs.push(&mut walk, record, inherited);
        let paths = logs.replay(index, &mut process);
        if let Some(rules) = rules {
            for thread in &mut process.threads {
                edges::expand(thread, &paths, rules);
            }
        }
        counts::read(&mut walk, &mut process, &counted);
        recording.processes.push(process);
    }
    let end = recording.meta.end;
    if let Some(process) = last_image_of_first(&mut recording.processes) {
        process.end = end;
    }
    recording.denied = denied(pool);
    recording.natives = natives(pool);
    recording
}

/// Programs that were executed natively, those without a row together.
fn natives(pool: &Pool) -> Vec<Native> {
    let (rows, others) = pool.header().natives.rows();
    let named = rows.map(|row| {
        let end = row.name.iter().position(|&byte| byte == 0);
        let name = &row.name[..end.unwrap_or(row.name.len())];
        Native {
            name: String::from_utf8_lossy(name).replace(char::is_control, "?"),
            why: row.why,
            times: row.times,
        }
    });
    let others = (others > 0).then(|| Native {
        name: "others".into(),
        why: wire::natives::why::OTHER,
        times: others,
    });
    named.chain(others).collect()
}

/// Threads that did not get memory, in the order of time.
fn denied(pool: &Pool) -> Vec<Denial> {
    let mut rows: Vec<Denial> = pool.header().denied.rows().collect();
    rows.sort_unstable();
    rows
}

/// State of a walk over the pool.
struct Walk {
    pool: Pool,
    entered: HashSet<u64>,
    bytes_left: u64,
}

impl Walk {
    fn new(pool: Pool) -> Walk {
        let allocated = pool.header().bump.load(Acquire).min(pool.len());
        Walk {
            pool,
            entered: HashSet::new(),
            bytes_left: allocated,
        }
    }

    /// Whether something begins at `offset` that was not read before.
    fn enter(&mut self, offset: u64) -> bool {
        offset != 0 && self.entered.insert(offset)
    }

    /// How many of `wanted` bytes behind `offset` may be read.
    fn grant(&mut self, offset: u64, wanted: u64) -> u64 {
        let granted = wanted
            .min(self.pool.len().saturating_sub(offset))
            .min(self.bytes_left);
        self.bytes_left -= granted;
        granted
    }

    /// Offsets of a list that is published newest first, oldest first.
    fn chain(&mut self, newest: u64, next: impl Fn(&Pool, u64) -> Option<u64>) -> Vec<u64> {
        let mut offsets = Vec::new();
        let mut offset = newest;
        while self.enter(offset) {
            let Some(following) = next(&self.pool, offset) else {
                break;
            };
            offsets.push(offset);
            offset = following;
        }
        offsets.reverse();
        offsets
    }
}

/// The record's own fields; threads and log are filled in by the caller.
fn process(pool: &Pool, offset: u64, record: &ProcessRecord, parent: Option<usize>) -> Process {
    let (end, ended) = match record.state.load(Acquire) {
        process_state::EXECED => (End::Execed, true),
        process_state::EXITED => (
            End::Exited(record.end_status.load(Relaxed).cast_signed()),
            true,
        ),
        _ => (End::Unknown, false),
    };
    let exe_at = offset + offset_of!(ProcessRecord, exe) as u64;
    let cmdline_at = offset + offset_of!(ProcessRecord, cmdline) as u64;
    let cmdline = bytes(
        pool,
        cmdline_at,
        record.cmdline_len.load(Relaxed),
        CMDLINE_MAX,
    );
    Process {
        pid: record.pid.load(Relaxed),
        parent,
        by_fork: record.made.load(Relaxed) == made::BY_FORK,
        exe: text(&bytes(pool, exe_at, record.exe_len.load(Relaxed), PATH_MAX)),
        args: arguments(&cmdline),
        start_ns: record.start_ns.load(Relaxed),
        end_ns: ended.then(|| record.end_ns.load(Relaxed)),
        end,
        stats: record
            .stats
            .iter()
            .map(|value| value.load(Relaxed))
            .collect(),
        ..Process::default()
    }
}

fn threads(
    walk: &mut Walk,
    record: &ProcessRecord,
    times: Option<&Times>,
) -> Vec<(Thread, counts::Place)> {
    let layout = nodes::Layout {
        pool_base: record.pool_base.load(Relaxed),
        costs: walk.pool.header().config.costs.load(Relaxed),
    };
    let offsets = walk.chain(record.threads.load(Acquire), |pool, offset| {
        Some(pool.at::<ThreadRecord>(offset)?.next.load(Acquire))
    });
    let pool = walk.pool;
    let mut threads = Vec::with_capacity(offsets.len());
    for offset in offsets {
        let Some(record) = pool.at::<ThreadRecord>(offset) else {
            continue;
        };
        if record.hidden.load(Relaxed) == 1 {
            continue;
        }
        let ended = record.ended.load(Acquire) == 1;
        let place = counts::Place::of(record);
        let mut thread = Thread {
            tid: record.tid.load(Relaxed),
            start_ns: record.start_ns.load(Relaxed),
            end_ns: ended.then(|| record.end_ns.load(Relaxed)),
            insns: insns(&pool, record),
            truncated_events: record.truncated_events.load(Relaxed),
            max_depth: record.max_depth.load(Relaxed),
            ..Thread::default()
        };
        let unsettled = unsettled(&pool, record);
        let mut nodes = nodes::read(walk, record.nodes.load(Acquire), &layout);
        for (node, words) in unsettled {
            for (number, word) in (0..).zip(words) {
                let bit = wire::cost::of_word(layout.costs, number);
                let cost = Cost::ALL.into_iter().find(|cost| cost.bit() == bit);
                nodes.add(node, cost.unwrap_or(Cost::Instructions), word);
            }
        }
        if let Some(times) = times {
            nodes.add_times(times.get(&offset));
        }
        (thread.nodes, thread.costs) = (nodes.nodes, nodes.costs);
        if let Some(values) = thread.costs_of(Cost::Instructions) {
            thread.insns = values.iter().fold(0, |sum, &value| sum.wrapping_add(value));
        }
        threads.push((thread, place));
    }
    threads
}

/// Instructions that a thread counted: in its record once it ended, until then in a counter of
/// its own. In this order of loads a thread that ends meanwhile is not counted
/// twice.
fn insns(pool: &Pool, record: &ThreadRecord) -> u64 {
    let before = record.insns.load(Relaxed);
    let live_at = record.live_insns.load(Acquire);
    if live_at == 0 {
        return record.insns.load(Relaxed);
    }
    let live = pool.at::<InsnWords>(live_at);
    let words = live.into_iter().flat_map(|live| &live.words);
    words.fold(before, |sum, word| sum.wrapping_add(word.load(Relaxed)))
}

/// Costs, of a thread that was killed or runs, that its nodes have not got yet: offsets of nodes,
/// and a sum for each counter (`wire::cost::of_word`).
fn unsettled(pool: &Pool, record: &ThreadRecord) -> Vec<(u64, Vec<u64>)> {
    let states_at = record.live_states.load(Acquire);
    let states: Option<&LiveStates> = pool.at(states_at).filter(|_| states_at != 0);
    let words: Option<&InsnWords> = pool.at(record.live_insns.load(Acquire));
    let (Some(states), Some(words)) = (states, words) else {
        return Vec::new();
    };
    let from = record.states_from.load(Relaxed);
    let words = words.words.chunks(COST_WORDS);
    let rows = states.states.iter().zip(words).map(|(state, words)| {
        let node = from.wrapping_add(state.load(Relaxed));
        (node, words.iter().map(|word| word.load(Relaxed)).collect())
    });
    rows.collect()
}

/// The image in which the process that was started ended: it may have replaced
/// itself by exec any number of times.
fn last_image_of_first(processes: &mut [Process]) -> Option<&mut Process> {
    let mut last = 0;
    let pid = processes.first()?.pid;
    for (index, process) in processes.iter().enumerate().skip(1) {
        if process.parent == Some(last) && !process.by_fork && process.pid == pid {
            last = index;
        }
    }
    processes.get_mut(last)
}

fn bytes(pool: &Pool, offset: u64, len: u32, max: usize) -> Vec<u8> {
    let mut out = vec![0; (len as usize).min(max)];
    let read = pool.read_bytes(offset, &mut out);
    out.truncate(read);
    out
}

/// Arguments, each ended by a NUL; the last one may have been cut.
fn arguments(cmdline: &[u8]) -> Vec<String> {
    let cmdline = cmdline.strip_suffix(&[0]).unwrap_or(cmdline);
    if cmdline.is_empty() {
        return Vec::new();
    }
    cmdline.split(|&byte| byte == 0).map(text).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
