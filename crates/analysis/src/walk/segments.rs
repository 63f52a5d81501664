//! Stretches of a trace between keyframes, which are read without what comes before; so
//! several at once.
//!
//! Invariant: what the segments of a thread give, one after the other, is what a walk of all
//! of it gives; each is read up to the keyframe behind it, and that has to be where control
//! comes to then. One of which something is lost ends there, with [`Unsound::Lost`].
//!
//! Limits: each worker decodes code for itself.

use std::num::NonZero;
use std::ops::Range;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use trace::stream::{LANES, MEMORY_LANES, escape};
use trace::{Keyframe, Recording, Thread};

use super::{Pieces, Unsound, Walk, packed};

/// A stretch of the streams of a thread: from a keyframe, or from their beginning, to the
/// next one, or to their end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    pub(super) from: Option<[u64; LANES]>,
    pub(super) to: Option<[u64; LANES]>,
    /// Bytes of the streams of addresses and values before it.
    pub(super) memory: [u64; MEMORY_LANES],
    /// Instructions that are kept and before it, if the recording says that.
    pub before: Option<u64>,
}

impl Segment {
    /// From where it begins to the end of the thread.
    pub fn onward(self) -> Segment {
        Segment { to: None, ..self }
    }

    /// Bytes from one keyframe to the other.
    pub(super) fn len(self) -> Option<u64> {
        let from = self.from.unwrap_or_default();
        let lens = from.iter().zip(self.to?).map(|(from, to)| to - from);
        Some(lens.sum())
    }
}

/// Kept bytes of each lane of a thread, as offsets from its beginning.
struct Kept {
    ends: [u64; LANES],
    lost: [Vec<Range<u64>>; LANES],
}

impl Kept {
    /// Kept bytes of a thread's lanes, after those that are gone; or of its streams from `first` on, if it is packed.
    fn of(thread: &Thread, first: u16, gone: [u64; LANES]) -> Kept {
        let mut ends = gone;
        let mut lost: [Vec<Range<u64>>; LANES] = Default::default();
        for part in &thread.stream {
            let stream = usize::from(part.stream.wrapping_sub(first));
            if let Some(end) = ends.get_mut(stream) {
                let begin = *end;
                *end = end.saturating_add(part.len());
                if part.is_lost() {
                    lost[stream].push(begin..*end);
                }
            }
        }
        Kept { ends, lost }
    }

    fn is_lost(&self, lane: usize, from: u64, to: u64) -> bool {
        let lost = &self.lost[lane];
        let next = lost.get(lost.partition_point(|lost| lost.end <= from));
        next.is_some_and(|lost| lost.start < to)
    }
}

/// The segments of a thread, in order; none, if nothing of it can be read.
pub fn segments(thread: &Thread) -> Vec<Segment> {
    if packed::is_packed(thread) {
        return of_packed(thread);
    }
    let gone = thread.gap.map(|gap| gap.lanes());
    let kept = Kept::of(thread, 0, gone.unwrap_or_default());
    let is_lost = |lane, from, to| kept.is_lost(lane, from, to);
    let (mut segments, mut has_lost) = (Vec::new(), false);
    let mut open = gone.is_none().then(Segment::default);
    let mut least = gone.unwrap_or([1; LANES]);
    for keyframe in &thread.keyframes {
        let behind = keyframe
            .at
            .map(|at| at.saturating_add(escape::AT_LEN as u64));
        let is_kept = keyframe
            .at
            .iter()
            .zip(&least)
            .all(|(at, least)| at >= least)
            && behind
                .iter()
                .zip(&kept.ends)
                .all(|(behind, end)| behind <= end)
            && (0..LANES).all(|lane| !is_lost(lane, keyframe.at[lane], behind[lane]));
        if !is_kept {
            continue;
        }
        let from = open.and_then(|segment| segment.from).unwrap_or_default();
        has_lost |= (0..LANES).any(|lane| is_lost(lane, from[lane], keyframe.at[lane]));
        least = behind;
        let next = Segment {
            from: Some(keyframe.at),
            to: None,
            memory: keyframe.memory,
            // Instructions that are lost do not count.
            before: keyframe.insns.filter(|_| !has_lost),
        };
        segments.extend(open.replace(next).map(|segment| Segment {
            to: Some(keyframe.at),
            ..segment
        }));
    }
    segments.extend(open);
    if let Some(first) = segments.first_mut() {
        first.before = Some(0);
    }
    segments
}

/// Segments of a packed thread: its keyframes say where the streams of segments begin, also of
/// those that are lost.
fn of_packed(thread: &Thread) -> Vec<Segment> {
    let kept = Kept::of(thread, packed::BRANCHES, [0; LANES]);
    let streams = 0..packed::streams(thread);
    let mut last = Segment {
        before: Some(0),
        ..Segment::default()
    };
    let (mut segments, mut has_lost) = (Vec::new(), false);
    for keyframe in &thread.keyframes {
        let (at, from) = (keyframe.at, last.from.unwrap_or_default());
        let is_there = |stream: usize| from[stream] < at[stream] && at[stream] < kept.ends[stream];
        if !streams.clone().all(is_there) {
            continue;
        }
        has_lost |= streams
            .clone()
            .any(|stream| kept.is_lost(stream, from[stream], at[stream]));
        segments.push(Segment {
            to: Some(at),
            ..last
        });
        last = Segment {
            from: Some(at),
            to: None,
            memory: keyframe.memory,
            before: keyframe.insns.filter(|_| !has_lost),
        };
    }
    segments.push(last);
    segments
}

/// A segment of one of the threads of a recording.
#[derive(Clone, Copy, Debug)]
pub struct Task {
    pub process: usize,
    pub thread: usize,
    pub segment: Segment,
}

impl Task {
    /// The threads of a recording, each as a whole.
    pub fn whole(recording: &Recording) -> Vec<Task> {
        let mut tasks = Vec::new();
        for (process, threads) in recording.processes.iter().enumerate() {
            for (thread, streams) in threads.threads.iter().enumerate() {
                let first = segments(streams).first().copied();
                tasks.push(Task {
                    process,
                    thread,
                    segment: first.unwrap_or_default().onward(),
                });
            }
        }
        tasks
    }

    /// All of a recording.
    pub fn all(recording: &Recording) -> Vec<Task> {
        Task::of(recording, segments)
    }

    /// The segments of threads.
    pub fn of(recording: &Recording, segments: impl Fn(&Thread) -> Vec<Segment>) -> Vec<Task> {
        let mut tasks = Vec::new();
        for (process, threads) in recording.processes.iter().enumerate() {
            for (thread, streams) in threads.threads.iter().enumerate() {
                tasks.extend(segments(streams).into_iter().map(|segment| Task {
                    process,
                    thread,
                    segment,
                }));
            }
        }
        tasks
    }
}

/// Does the work for each of them, on as many processors as there are; what it gave, in
/// their order.
pub fn each<T: Send>(
    recording: &Recording,
    tasks: &[Task],
    work: impl Fn(Walk<'_>) -> T + Sync,
) -> Vec<T> {
    let work =
        |pieces: &mut Pieces, thread: &Thread, segment| work(Walk::of(pieces, thread, segment));
    each_of(recording, tasks, work)
}

/// As [`each`], for work that does not begin with a walk.
pub(super) fn each_of<T: Send>(
    recording: &Recording,
    tasks: &[Task],
    work: impl Fn(&mut Pieces, &Thread, Segment) -> T + Sync,
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut done = Vec::new();
        let mut known: Option<(usize, Pieces)> = None;
        while let index = next.fetch_add(1, Relaxed)
            && let Some(task) = tasks.get(index)
        {
            let process = &recording.processes[task.process];
            let pieces = match known.take() {
                Some((of, pieces)) if of == task.process => pieces,
                _ => Pieces::of(process),
            };
            let (_, pieces) = known.insert((task.process, pieces));
            let thread = &process.threads[task.thread];
            done.push((index, work(pieces, thread, task.segment)));
        }
        done
    };
    let workers = thread::available_parallelism().map_or(1, NonZero::get);
    let workers = workers.min(tasks.len());
    let mut all: Vec<(usize, T)> = match workers {
        0 | 1 => worker(),
        _ => thread::scope(|scope| {
            let started: Vec<_> = (0..workers).map(|_| scope.spawn(worker)).collect();
            let done = started.into_iter().map(|worker| worker.join());
            done.flat_map(|done| done.expect("a walk gives errors, no panics"))
                .collect()
        }),
    };
    all.sort_unstable_by_key(|(index, _)| *index);
    all.into_iter().map(|(_, given)| given).collect()
}

/// Instructions of the rest of a walk, and why there are no more, if that is no end. All of
/// what is packed is read, also stamps.
pub fn count(mut walk: Walk<'_>) -> (u64, Option<Unsound>) {
    if let Some(rest) = &mut walk.rest {
        rest.reads_stamps = true;
    }
    let mut insns = walk.hurry();
    while let Some(found) = walk.found() {
        match found {
            Ok(super::Found::Executed { from, to, .. }) => insns += u64::from(to - from),
            Ok(_) => {}
            Err(error) => return (insns, Some(error)),
        }
        insns += walk.hurry();
    }
    (insns, None)
}

/// Notes how many instructions are before the keyframes of a thread, up to the one behind which
/// its instruction `number` is, or as far as it can be read. How many stretches were counted
/// for that: those that are known already are not.
pub fn number_up_to(recording: &mut Recording, whose: (usize, usize), number: u64) -> usize {
    let (process, thread) = whose;
    let mut segments = segments(&recording.processes[process].threads[thread]);
    let known = segments.iter().take_while(|known| known.before.is_some());
    let Some(first) = known.count().checked_sub(1) else {
        return 0;
    };
    let mut at = first;
    let is_far = |segment: &Segment| segment.before < number.checked_sub(FEW);
    'counting: while at + 1 < segments.len() && is_far(&segments[at]) {
        let some = (at - first).clamp(2, AT_ONCE);
        let some = &segments[at..segments.len().min(at + some + 1) - 1];
        let task = |&segment| Task {
            process,
            thread,
            segment,
        };
        let tasks: Vec<Task> = some.iter().map(task).collect();
        for (insns, error) in each(recording, &tasks, count) {
            let sum = segments[at].before.and_then(|sum| sum.checked_add(insns));
            if error.is_some() || sum.is_none() {
                break 'counting;
            }
            at += 1;
            segments[at].before = sum;
        }
    }
    let mut counted = segments[first + 1..=at].iter().peekable();
    for keyframe in &mut recording.processes[process].threads[thread].keyframes {
        if let Some(segment) = counted.next_if(|segment| segment.from == Some(keyframe.at)) {
            keyframe.insns = segment.before;
        }
    }
    at - first
}

/// Number of instructions that are read as quickly as other threads begin to count.
const FEW: u64 = 4096;

/// Most stretches that are counted before it is looked whether that is far enough; first two,
/// then as many as were.
const AT_ONCE: usize = 32;

/// Notes how many instructions are before each keyframe, as far as a thread can be read;
/// others are forgotten. Why one cannot be read to its end, if that is so.
pub fn number(recording: &mut Recording) -> Option<Unsound> {
    let tasks = Task::all(recording);
    let counts = each(recording, &tasks, count);
    let threads = |process: &mut trace::Process| {
        let threads = process.threads.iter_mut();
        threads.for_each(|thread| thread.keyframes.clear());
    };
    recording.processes.iter_mut().for_each(threads);
    let (mut failed, mut last, mut before, mut is_whole) = (None, None, 0, true);
    for (task, (insns, error)) in tasks.iter().zip(counts) {
        let whose = (task.process, task.thread);
        if last.replace(whose) != Some(whose) {
            (before, is_whole) = (0, true);
        }
        let thread = &mut recording.processes[task.process].threads[task.thread];
        thread
            .keyframes
            .extend(task.segment.from.map(|at| Keyframe {
                memory: task.segment.memory,
                at,
                insns: is_whole.then_some(before),
            }));
        before += insns;
        if let Some(error) = error {
            is_whole = false;
            failed.get_or_insert(error);
        }
    }
    failed
}
