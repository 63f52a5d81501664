//! The time of contexts: each thread is looked at a thousand times a second.
//!
//! Problem: instructions are not time. A timer's signal within the program would be seen by it, and reading a clock at
//! each call costs more than the calls.
//!
//! Approach: the engine keeps the state that a thread's instructions count for in the pool, for the sake of programs that are
//! killed ([`LiveStates`]). Here it is read from outside, so the program executes not one instruction more. With each look
//! the kernel says whether the thread executes, or is ready to, or waits, and the time since the last look is the state's.
//! At its end, the time that a process has executed, which the kernel measures exactly, is shared out to its states as
//! the looks that found them executing.
//!
//! Invariants: of the pool only words at checked offsets are read. An offset that is no node's counts for the first node
//! of the thread (`trace::from_pool_timed`).
//!
//! While a process waits for an answer of the recorder (`requests`), waiting is nobody's.
//!
//! Limits: what comes before the first look at a process, and after the last one, up to a millisecond each, is missing. A
//! sweep over all threads takes no more than a tenth of a processor, so many threads are looked at less often. Where
//! threads are more than processors, those that are ready get the time of those that execute. Processes of another PID
//! namespace have numbers that mean others here, or nobody.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};

use rustix::process::{Resource, getrlimit, setrlimit};
use wire::view::Pool;
use wire::{COST_WORDS, InsnWords, LiveStates, ProcessRecord, ThreadRecord, process_state};

/// Time between two sweeps.
const INTERVAL: Duration = Duration::from_millis(1);
/// A sweep takes no more than one part in so many of the time.
const SHARE: u32 = 10;
/// A chain of records that is longer is damaged.
const LONGEST: usize = 1 << 20;

/// Nanoseconds that a thread executed in a node, and waited there, by the node's offset in the pool.
pub type Times = HashMap<u64, [u64; 2]>;

/// Times of each thread, by the offset of its record in the pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Samples {
    pub threads: HashMap<u64, Times>,
    /// Number of looks at threads, all together.
    pub looks: u64,
}

impl Samples {
    /// Nanoseconds that all threads executed.
    pub fn executed_ns(&self) -> u64 {
        let nodes = self.threads.values().flat_map(HashMap::values);
        nodes.map(|[executed, _]| executed).sum()
    }
}

/// Looks until `done`.
pub(crate) fn serve(pool: &Pool, done: &AtomicBool) -> Samples {
    // One descriptor a thread. The program has been started, with its own limit.
    let limit = getrlimit(Resource::Nofile);
    let raised = rustix::process::Rlimit {
        current: limit.maximum,
        ..limit
    };
    let _ = setrlimit(Resource::Nofile, raised);
    let mut sampler = Sampler::default();
    while !done.load(Acquire) {
        let begin = Instant::now();
        sampler.sweep(pool, begin);
        std::thread::sleep(INTERVAL.max(begin.elapsed() * SHARE));
    }
    let _ = setrlimit(Resource::Nofile, limit);
    sampler.finish()
}

#[derive(Default)]
struct Sampler {
    /// Processes that may execute, by the offset of their record.
    processes: HashMap<u64, Process>,
    /// The newest process that is known; the list in the pool begins with the newest.
    newest: u64,
    samples: Samples,
}

struct Process {
    pid: u32,
    /// Nanoseconds that it had executed at the first look and at the last; `None`: that is not known.
    executed: Option<[u64; 2]>,
    last_look: Instant,
    /// The newest thread that is known.
    newest: u64,
    /// Threads that have not ended: their records, and the kernel's view of them.
    tasks: HashMap<u64, File>,
    /// Times by looks alone.
    times: HashMap<u64, Times>,
}

impl Sampler {
    /// One look at every thread.
    fn sweep(&mut self, pool: &Pool, now: Instant) {
        let head = pool.header().processes.load(Acquire);
        let following = |at| Some(pool.at::<ProcessRecord>(at)?.next.load(Acquire));
        for at in fresh(head, &mut self.newest, following) {
            if let Some(record) = pool.at::<ProcessRecord>(at) {
                let process = Process::new(record.pid.load(Relaxed), now);
                self.processes.insert(at, process);
            }
        }
        let samples = &mut self.samples;
        self.processes.retain(|&at, process| {
            let Some(record) = pool.at::<ProcessRecord>(at) else {
                return false;
            };
            let state = record.state.load(Acquire);
            let is_over = [process_state::EXECED, process_state::EXITED].contains(&state);
            match is_over {
                true => process.end(samples),
                false => samples.looks += process.look(pool, record, now),
            }
            !is_over
        });
    }

    fn finish(mut self) -> Samples {
        for process in self.processes.values_mut() {
            process.end(&mut self.samples);
        }
        self.samples
    }
}

/// Records before the one that was the newest, which becomes the head of the list.
fn fresh(head: u64, newest: &mut u64, following: impl Fn(u64) -> Option<u64>) -> Vec<u64> {
    let known = std::mem::replace(newest, head);
    let chain = std::iter::successors(Some(head), |&at| following(at));
    let new = chain.take_while(|&at| at != 0 && at != known);
    new.take(LONGEST).collect()
}

impl Process {
    fn new(pid: u32, now: Instant) -> Process {
        Process {
            pid,
            executed: sys::executed_ns(pid).map(|ns| [ns; 2]),
            last_look: now,
            newest: 0,
            tasks: HashMap::new(),
            times: HashMap::new(),
        }
    }

    /// Looks at each thread, and says how many there are.
    fn look(&mut self, pool: &Pool, record: &ProcessRecord, now: Instant) -> u64 {
        let following = |at| Some(pool.at::<ThreadRecord>(at)?.next.load(Acquire));
        let head = record.threads.load(Acquire);
        for at in fresh(head, &mut self.newest, following) {
            let record = pool.at::<ThreadRecord>(at);
            let tid = record.map_or(0, |record| record.tid.load(Relaxed));
            if let Ok(stat) = File::open(format!("/proc/{}/task/{tid}/stat", self.pid)) {
                self.tasks.insert(at, stat);
            }
        }
        if let (Some([_, last]), Some(ns)) = (&mut self.executed, sys::executed_ns(self.pid)) {
            *last = ns;
        }
        // A thread that waits now may wait for this recorder, which reads the functions of a file.
        let asks = record.asked.load(Acquire) != record.answered.load(Acquire);
        let passed = now.duration_since(self.last_look).as_nanos() as u64;
        self.last_look = now;
        let times = &mut self.times;
        self.tasks.retain(|&at, stat| {
            let Some(executes) = executes(stat) else {
                return false;
            };
            let record = pool.at::<ThreadRecord>(at);
            let is_ours = asks && !executes;
            if let Some(node) = record
                .filter(|_| !is_ours)
                .and_then(|record| node(pool, record))
            {
                let times = times.entry(at).or_default().entry(node).or_default();
                times[usize::from(!executes)] += passed;
            }
            true
        });
        self.tasks.len() as u64
    }

    /// Gives its times away, as the kernel measured them.
    fn end(&mut self, samples: &mut Samples) {
        let looked: u64 = self
            .times
            .values()
            .flat_map(HashMap::values)
            .map(|own| own[0])
            .sum();
        let measured = self
            .executed
            .map_or(looked, |[first, last]| last.saturating_sub(first));
        for (at, mut times) in self.times.drain() {
            for own in times.values_mut() {
                let share = u128::from(own[0]) * u128::from(measured);
                own[0] = share.checked_div(looked.into()).unwrap_or(0) as u64;
            }
            samples.threads.insert(at, times);
        }
    }
}

/// The node that a thread's instructions count for; `None`: it counts none.
fn node(pool: &Pool, record: &ThreadRecord) -> Option<u64> {
    let states_at = record.live_states.load(Acquire);
    let words_at = record.live_insns.load(Acquire);
    if states_at == 0 || words_at == 0 {
        return None;
    }
    let states: &LiveStates = pool.at(states_at)?;
    let words: &InsnWords = pool.at(words_at)?;
    // A leaf has words of its own, which are 0 but while it executes.
    let is_leaf = words.words[COST_WORDS..]
        .iter()
        .any(|word| word.load(Relaxed) != 0);
    let state = states.states[usize::from(is_leaf)].load(Relaxed);
    Some(record.states_from.load(Relaxed).wrapping_add(state))
}

/// Whether a thread executes or is ready to, by its `stat` (proc(5)); `None`: it has ended.
fn executes(stat: &File) -> Option<bool> {
    let mut text = [0; 128];
    let read = stat.read_at(&mut text, 0).ok()?;
    // TID (NAME) STATE ...: the name may have any character.
    let name_end = text[..read].iter().rposition(|byte| *byte == b')')?;
    match text.get(name_end + 2)? {
        b'Z' | b'X' => None,
        state => Some(*state == b'R'),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use wire::Mode;

    use super::*;
    use crate::pool::OwnedPool;

    /// Records in the pool of a test.
    const PROCESS: u64 = 0x1000;
    const THREADS: [u64; 2] = [0x2000, 0x2800];
    const STATES: [u64; 2] = [0x3000, 0x3800];
    const WORDS: [u64; 2] = [0x4000, 0x4800];
    /// Offset of the node of state 0.
    const NODES: u64 = 0x5000;

    /// A process with these threads; each is in the state 8, and 16 in its leaf.
    fn pool(tids: [u32; 2]) -> OwnedPool {
        let owned = OwnedPool::create(Mode::Contexts).unwrap();
        let pool = owned.view();
        let process: &ProcessRecord = pool.at(PROCESS).unwrap();
        process.pid.store(std::process::id(), Relaxed);
        process.state.store(process_state::RUNNING, Relaxed);
        for (at, tid) in tids.into_iter().enumerate() {
            let thread: &ThreadRecord = pool.at(THREADS[at]).unwrap();
            thread.tid.store(tid, Relaxed);
            thread
                .next
                .store(if at == 0 { 0 } else { THREADS[0] }, Relaxed);
            thread.live_states.store(STATES[at], Relaxed);
            thread.live_insns.store(WORDS[at], Relaxed);
            thread.states_from.store(NODES, Relaxed);
            let states: &LiveStates = pool.at(STATES[at]).unwrap();
            states.states[0].store(8, Relaxed);
            states.states[1].store(16, Relaxed);
        }
        process.threads.store(THREADS[1], Relaxed);
        pool.header().processes.store(PROCESS, Relaxed);
        owned
    }

    fn tid() -> u32 {
        rustix::thread::gettid()
            .as_raw_nonzero()
            .get()
            .cast_unsigned()
    }

    #[test]
    fn looks_find_states_and_whether_threads_execute() {
        let (told, tids) = mpsc::channel();
        let (release, held) = mpsc::channel::<()>();
        let waiting = std::thread::spawn(move || {
            told.send(tid()).unwrap();
            let _ = held.recv();
        });
        let other = tids.recv().unwrap();
        let stat = File::open(format!("/proc/self/task/{other}/stat")).unwrap();
        while executes(&stat) != Some(false) {
            std::thread::yield_now();
        }
        let owned = pool([tid(), other]);
        let pool = owned.view();
        let mut sampler = Sampler::default();
        let begin = Instant::now();
        let later = |ms| begin + Duration::from_millis(ms);
        sampler.sweep(&pool, begin);
        sampler.sweep(&pool, later(3));
        // The first thread comes into a leaf.
        let words: &InsnWords = pool.at(WORDS[0]).unwrap();
        words.words[COST_WORDS].store(1, Relaxed);
        sampler.sweep(&pool, later(4));
        // A file is asked for, and the other thread may wait for that.
        let process: &ProcessRecord = pool.at(PROCESS).unwrap();
        process.asked.store(1, Relaxed);
        sampler.sweep(&pool, later(5));
        // The process has executed twice as long as looks found: shares stay.
        sampler.processes.get_mut(&PROCESS).unwrap().executed = Some([1_000, 10_001_000]);
        process.state.store(process_state::EXITED, Relaxed);
        sampler.sweep(&pool, later(9));
        assert!(sampler.processes.is_empty());
        let samples = sampler.finish();
        assert_eq!(samples.looks, 8);
        let mine = &samples.threads[&THREADS[0]];
        assert_eq!(mine[&(NODES + 8)], [6_000_000, 0]);
        assert_eq!(mine[&(NODES + 16)], [4_000_000, 0]);
        let others = &samples.threads[&THREADS[1]];
        assert_eq!(others[&(NODES + 8)], [0, 4_000_000]);
        drop(release);
        waiting.join().unwrap();
    }

    #[test]
    fn ended_threads_and_damaged_chains_are_passed_over() {
        // Numbers beyond those that Linux gives.
        let owned = pool([u32::MAX; 2]);
        let pool = owned.view();
        let mut sampler = Sampler::default();
        sampler.sweep(&pool, Instant::now());
        assert_eq!(sampler.samples.looks, 0);
        let first: &ThreadRecord = pool.at(THREADS[0]).unwrap();
        first.next.store(THREADS[1], Relaxed);
        let chain = |at| Some(pool.at::<ThreadRecord>(at)?.next.load(Acquire));
        assert_eq!(fresh(THREADS[1], &mut 0, chain).len(), LONGEST);
        assert_eq!(fresh(u64::MAX - 7, &mut 0, chain).len(), 1);
        assert_eq!(sampler.finish(), Samples::default());
    }
}
