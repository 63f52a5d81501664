//! A trace as text, instruction by instruction, and whether it can be read at all.
//!
//! ```text
//! # process 4711 prog, thread 4711
//!          1  7f3c1f2a0540  _start+0x0        mov rdi, rsp
//!          2  7f3c1f2a0543  _start+0x3        call _dl_start
//! # signal SIGALRM, to 401136
//! ```

mod accesses;
pub mod counters;
mod line;
mod memory;
mod names;
mod order;
mod texts;

use std::io::{self, Write};
use std::ops::Range;

use analysis::walk::packed::is_packed;
use analysis::walk::segments::{self, Segment, Task};
use analysis::walk::{Event, Pieces, Step, Unsound, Walk, Why};
use trace::{End, Missing, Process, Recording, Thread};

pub use accesses::{dump as dump_accesses, dump_in_order as dump_accesses_in_order};
use line::Line;
pub use memory::Memory;
pub use order::{Between, dump as dump_in_order};

use crate::numbers::{counted, grouped};
use crate::signals;
pub use names::Names;
use texts::Texts;

/// Selection of the instructions that are shown.
#[derive(Clone, Debug)]
pub struct View {
    /// Instructions of each thread, counted from 1.
    pub range: Range<u64>,
    /// Only of the threads with this number.
    pub thread: Option<u32>,
    /// Only code of functions that one of these globs names; none: all code.
    pub functions: Vec<String>,
    /// Only instructions that access this, and their source lines with them.
    pub memory: Option<Memory>,
}

impl View {
    /// Nothing that happens is left out for what it is.
    fn shows_all(&self) -> bool {
        self.functions.is_empty() && self.memory.is_none()
    }

    /// Whether an instruction is shown that has these of the accesses that are.
    fn shows_step<T>(&self, accesses: &[T]) -> bool {
        self.memory.is_none() || !accesses.is_empty()
    }

    fn shows(&self, thread: &Thread) -> bool {
        self.thread.is_none_or(|tid| tid == thread.tid)
    }

    /// Counts what has to be counted to find where it begins, and notes that in the recording.
    /// How many stretches between keyframes that were.
    pub fn find(&self, recording: &mut Recording) -> usize {
        let mut wanted = Vec::new();
        for (of_process, process) in recording.processes.iter().enumerate() {
            for (of_thread, thread) in process.threads.iter().enumerate() {
                wanted.extend(self.shows(thread).then_some((of_process, of_thread)));
            }
        }
        let find = |whose| segments::number_up_to(recording, whose, self.range.start);
        wanted.into_iter().map(find).sum()
    }
}

/// Writes what was executed; what the view has to [find](View::find) should be found, or
/// it is read from further back. Threads whose streams cannot be read to their end say so
/// where they stop, and make this `false`.
pub fn dump(recording: &Recording, view: &View, out: &mut dyn Write) -> io::Result<bool> {
    let mut sound = true;
    for process in &recording.processes {
        let names = Names::of(recording, process);
        let mut pieces = Pieces::of(process);
        for thread in process.threads.iter().filter(|thread| view.shows(thread)) {
            sound &= begin(process, thread, out)?;
            let (walk, before) = match seek(thread, view.range.start) {
                Some((start, before)) => (Walk::of(&mut pieces, thread, start.onward()), before),
                None => (Walk::new(&mut pieces, thread), 0),
            };
            let mut walk = walk.past_losses(thread);
            let mut lines = Lines {
                texts: Texts::new(&names, &view.functions),
                number: before + 1,
                range: &view.range,
            };
            if let Err(error) = lines.write(&mut walk, out)? {
                writeln!(out, "# {error}")?;
                sound = false;
            } else if lines.number < view.range.end {
                writeln!(out, "# {}", stopped(recording, process, thread))?;
            }
        }
    }
    writeln!(out, "# {}", ended(recording))?;
    Ok(sound)
}

/// Writes which thread comes, and what of it is not kept. `false`: the file has lost some of it.
fn begin(process: &Process, thread: &Thread, out: &mut dyn Write) -> io::Result<bool> {
    writeln!(out, "{}", title(process, thread))?;
    if let Some(gap) = missing_before(thread) {
        writeln!(out, "# {gap}")?;
    }
    let lost = lost(thread);
    if let Some(lost) = &lost {
        writeln!(out, "# {lost}")?;
    }
    Ok(lost.is_none())
}

/// A sentence about the missing beginning of a thread.
fn missing_before(thread: &Thread) -> Option<String> {
    let gap = thread.gap?;
    let parts = gap.parts.iter().map(|&parts| u64::from(parts)).sum();
    Some(format!(
        "its beginning, {} of {} bytes, is not kept; {}",
        counted(parts, "part"),
        grouped(gap.stored),
        match segments::segments(thread).first() {
            Some(_) => "what is shown begins at a keyframe, with number 1",
            None => "nothing of it can be read",
        }
    ))
}

/// A sentence about the parts of a thread that the file has lost.
pub fn lost(thread: &Thread) -> Option<String> {
    let lost = thread.stream.iter().filter(|part| part.is_lost());
    let (parts, bytes) = lost.fold((0, 0), |(parts, bytes), part| {
        (parts + 1, bytes + part.len())
    });
    (parts > 0).then(|| {
        format!(
            "the file has lost {} of its streams, {} before compression; behind that it goes \
             on at a keyframe, and what is lost has no numbers",
            counted(parts, "part"),
            counted(bytes, "byte"),
        )
    })
}

/// Segment at which to begin to read a thread whose instruction `number` is wanted, and the number
/// of instructions before it.
pub fn seek(thread: &Thread, number: u64) -> Option<(Segment, u64)> {
    let segments = segments::segments(thread);
    let before = |segment: &Segment| segment.before.filter(|&before| before < number);
    let known = segments
        .into_iter()
        .map_while(|segment| Some((segment, before(&segment)?)));
    known.last()
}

/// How it comes that nothing more is known of a thread.
pub fn stopped(recording: &Recording, process: &Process, thread: &Thread) -> &'static str {
    match thread.missing {
        Some(Missing::Limit) => "more is not kept: the limit of the trace was reached",
        Some(Missing::Memory) => "more is not known: there was no memory for it, or nobody took it",
        Some(Missing::Place) => "more is not kept: the file could not be written",
        None if crate::denied::ends_natively(recording, process.pid) => {
            "a debugger traced it, and it ran natively from there on"
        }
        None if thread.end_ns.is_some() => "the thread ended",
        None if process.end == End::Execed => "the process executed another program",
        None if matches!(process.end, End::Exited(_)) => "the process ended",
        None if recording.meta.end == End::Unknown => "more is not in the recording",
        None => "killed, or it still ran when the recording ended",
    }
}

/// The sentence on the end of the recording, and on names that its limit left out.
fn ended(recording: &Recording) -> String {
    let processes = &recording.processes;
    let mut threads = processes.iter().flat_map(|process| &process.threads);
    let is_cut = threads.any(|thread| thread.missing == Some(Missing::Limit));
    let has_names = processes.iter().any(|process| !process.texts.is_empty());
    let names = match is_cut && !has_names {
        true => "; no names of functions are kept: the limit of the trace was reached",
        false => "",
    };
    format!("{}{names}", how_it_ended(recording))
}

fn how_it_ended(recording: &Recording) -> String {
    let meta = &recording.meta;
    let after = |ns: u64| {
        format!(
            "after {}.{:03} s",
            ns / 1_000_000_000,
            ns / 1_000_000 % 1000
        )
    };
    let ran = after(meta.duration_ns);
    match meta.end {
        End::Exited(status) => format!("ended: exited with status {status} {ran}"),
        End::Signaled { signal, .. } => format!("ended: killed by {} {ran}", signals::name(signal)),
        End::Execed | End::Unknown => {
            let threads = recording
                .processes
                .iter()
                .flat_map(|process| &process.threads);
            let parts = threads.flat_map(|thread| &thread.stream);
            let last = parts.map(|part| part.taken_unix_ns).max().unwrap_or(0);
            match last.checked_sub(meta.started_unix_ns) {
                Some(ns) => format!("not finished: what is last was recorded {}", after(ns)),
                None => "not finished".to_owned(),
            }
        }
    }
}

fn title(process: &Process, thread: &Thread) -> String {
    let (pid, tid) = (process.pid, thread.tid);
    format!("# process {pid} {}, thread {tid}", process.program())
}

/// Reads everything; what of each thread can be read, and whether that is all.
pub fn verify(recording: &Recording, out: &mut dyn Write) -> io::Result<bool> {
    let mut sound = true;
    let (mut insns, mut stored, mut raw, mut keyframes) = (0, 0, 0, 0);
    let counts = count(recording);
    for (process, counts) in recording.processes.iter().zip(counts) {
        for (thread, (number, error)) in process.threads.iter().zip(counts) {
            insns += number;
            keyframes += segments::segments(thread).len().saturating_sub(1) as u64;
            stored += thread
                .stream
                .iter()
                .map(trace::Part::stored_len)
                .sum::<u64>();
            let kept = thread.stream.iter().filter(|part| !part.is_lost());
            raw += kept.map(trace::Part::len).sum::<u64>();
            let title = title(process, thread);
            let insns = counted(number, "instruction");
            let (as_counted, miscounted) = counters::compared(process, thread, number);
            let stopped = stopped(recording, process, thread);
            writeln!(out, "{title}: {insns}{as_counted}; {stopped}")?;
            let lost = lost(thread);
            if let Some(lost) = &lost {
                writeln!(out, "# {lost}")?;
                sound = false;
            }
            if let Some(miscounted) = miscounted {
                // Lost instructions are part of the difference.
                let fault = if lost.is_some() { "" } else { "not sound: " };
                writeln!(out, "# {fault}{miscounted}")?;
                sound = false;
            }
            if let Some(gap) = missing_before(thread) {
                writeln!(out, "# {gap}")?;
            }
            if let Some(error) = error {
                let fault = fault_of(recording, process, thread);
                writeln!(out, "# {fault}{error}")?;
                sound = false;
            }
        }
    }
    let threads = recording.processes.iter().flat_map(|p| &p.threads);
    let bits = |bytes: u64| bytes as f64 * 8.0 / insns.max(1) as f64;
    writeln!(
        out,
        "{} in {} bytes of streams: {:.4} bits each, {}; {}",
        counted(insns, "instruction"),
        grouped(stored),
        bits(stored),
        match threads.into_iter().any(is_packed) {
            true => "packed".to_owned(),
            false => format!("{:.4} as written by the program", bits(raw)),
        },
        counted(keyframes, "keyframe")
    )?;
    sound &= accesses::verify(recording, out)?;
    writeln!(out, "{}", ended(recording))?;
    sound &= write_denied(recording, out)?;
    Ok(sound)
}

/// The words before an error in a thread's streams: none if the thread had no room, which another
/// line says.
fn fault_of(recording: &Recording, process: &Process, thread: &Thread) -> &'static str {
    let mut denied = recording.denied.iter();
    match denied.any(|denial| (denial.pid, denial.tid) == (process.pid, thread.tid)) {
        true => "",
        false => "not sound: ",
    }
}

/// Writes which threads had no room; whether there are none.
fn write_denied(recording: &Recording, out: &mut dyn Write) -> io::Result<bool> {
    let sentences = crate::denied::sentences(recording);
    for sentence in &sentences {
        writeln!(out, "# not whole: {sentence}")?;
    }
    Ok(sentences.is_empty())
}

/// By process and thread: instructions, and why there are no more, if that is no end.
fn count(recording: &Recording) -> Vec<Vec<(u64, Option<Unsound>)>> {
    let threads = |process: &Process| process.threads.iter().map(|_| (0, None)).collect();
    let mut all: Vec<Vec<_>> = recording.processes.iter().map(threads).collect();
    let tasks = Task::all(recording);
    let counts = segments::each(recording, &tasks, segments::count);
    for (task, (insns, error)) in tasks.iter().zip(counts) {
        let (sum, failed) = &mut all[task.process][task.thread];
        if failed.is_none() {
            let is_wrong = task.segment.before.is_some_and(|before| before != *sum);
            *sum += insns;
            // It goes on at the next one.
            let error = error.filter(|error| !matches!(error, Unsound::Lost));
            *failed = is_wrong.then_some(Unsound::Keyframe).or(error);
        }
    }
    all
}

struct Lines<'a> {
    texts: Texts<'a>,
    number: u64,
    range: &'a Range<u64>,
}

impl Lines<'_> {
    fn write(
        &mut self,
        walk: &mut Walk<'_>,
        out: &mut dyn Write,
    ) -> io::Result<Result<(), Unsound>> {
        let mut shown: Vec<Step> = Vec::new();
        let mut line = Line::default();
        while self.number < self.range.end {
            match walk.next() {
                None => break,
                Some(Err(error)) => return Ok(Err(error)),
                Some(Ok(Event::Went { why, to }))
                    if self.texts.has_all() && self.range.contains(&self.number) =>
                {
                    went(why, to, out)?;
                }
                Some(Ok(Event::Went { .. } | Event::Stamp(_))) => {}
                Some(Ok(Event::Executed(steps))) => {
                    let before = self.range.start.saturating_sub(self.number);
                    let before =
                        usize::try_from(before).map_or(steps.len(), |n| n.min(steps.len()));
                    self.number += before as u64;
                    shown.clear();
                    shown.extend(&steps[before..]);
                }
            }
            for step in shown.drain(..) {
                if self.number >= self.range.end {
                    break;
                }
                if let Some(text) = self.texts.get(walk.code(), &step) {
                    line.number(self.number, 12)
                        .text("  ")
                        .text(text)
                        .end(out)?;
                }
                self.number += 1;
            }
        }
        Ok(Ok(()))
    }
}

fn went(why: Why, to: u64, out: &mut dyn Write) -> io::Result<()> {
    match why {
        Why::Start => writeln!(out, "# begins at {to:x}"),
        Why::Signal(number) => {
            writeln!(out, "# {}, to {to:x}", signals::name(number.into()))
        }
        Why::Sigreturn => writeln!(out, "# return from a handler, to {to:x}"),
        Why::Vsyscall => writeln!(out, "# back from the vsyscall page, to {to:x}"),
        Why::Unselected => writeln!(out, "# other code, not traced, then at {to:x}"),
        Why::Off => writeln!(out, "# some time not traced, then at {to:x}"),
        Why::Nowhere => writeln!(out, "# nothing can be executed at {to:x}"),
        Why::Far => writeln!(out, "# far branch, to {to:x}"),
        Why::Lost => writeln!(out, "# what comes here is lost, then at {to:x}"),
        Why::Unknown(number) => writeln!(out, "# for reason {number}, to {to:x}"),
    }
}
