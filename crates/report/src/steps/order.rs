//! The threads of a trace in one text, in the order of their time stamps.
//!
//! ```text
//! # 1,204,117 thread 4712, atomic
//!        118  401156  work+0x10        lock xadd [401234], rax
//! ```
//!
//! The instructions below a stamp were executed from then on, up to the thread's next one. Stamps are
//! shown as what the counter was beyond the first.
//!
//! Limits: each thread's code is decoded for itself.

use std::io::{self, Write};
use std::ops::Range;

use analysis::walk::{Event, Order, Pieces, Stamp, StampKind, Step, Walk};
use trace::{Process, Recording, Thread};

use super::texts::Texts;
use super::{Line, Names, ended, missing_before, stopped, title, went};
use crate::numbers::grouped;

/// Selection of the threads' instructions: between these times, of the thread with this number, and of
/// functions that one of these globs names, if there are any.
#[derive(Clone, Debug)]
pub struct Between {
    pub times: Range<u64>,
    /// Instructions of all threads that are read, counted from 1 in this order.
    pub range: Range<u64>,
    pub thread: Option<u32>,
    pub functions: Vec<String>,
}

/// One of the threads.
struct Reading<'a> {
    process: &'a Process,
    thread: &'a Thread,
    walk: Walk<'a>,
    texts: Texts<'a>,
    /// Number of the next instruction.
    number: u64,
    /// Instructions that the others have executed before this turn.
    others: u64,
    /// Time stamp at the beginning of its turn.
    stamp: Option<Stamp>,
    has_head: bool,
}

/// Writes what was executed, in the order of stamps. `false`: not all of it can be read.
pub fn dump(recording: &Recording, view: &Between, out: &mut dyn Write) -> io::Result<bool> {
    let processes = &recording.processes;
    let names: Vec<Names<'_>> = processes.iter().map(|p| Names::of(recording, p)).collect();
    let whose = processes.iter().zip(&names).flat_map(|(process, names)| {
        let threads = process.threads.iter();
        threads.map(move |thread| (process, thread, names))
    });
    let is_wanted = |thread: &Thread| view.thread.is_none_or(|tid| tid == thread.tid);
    let whose: Vec<_> = whose.filter(|(_, thread, _)| is_wanted(thread)).collect();
    let mut pieces: Vec<Pieces> = whose.iter().map(|(p, ..)| Pieces::of(p)).collect();
    let mut readings = Vec::new();
    for ((process, thread, names), pieces) in whose.into_iter().zip(&mut pieces) {
        writeln!(out, "{}", title(process, thread))?;
        if let Some(gap) = missing_before(thread) {
            writeln!(out, "# {gap}")?;
        }
        readings.push(Reading {
            process,
            thread,
            walk: Walk::new(pieces, thread).with_stamps(),
            texts: Texts::new(names, &view.functions),
            number: 1,
            others: 0,
            stamp: None,
            has_head: false,
        });
    }
    let (mut sound, mut first, mut all) = (true, None, 0);
    let mut order = Order::of(readings.len());
    while let Some(next) = order.next() {
        let reading = &mut readings[next];
        let time = reading.stamp.map_or(0, |stamp| {
            stamp.time.saturating_sub(*first.get_or_insert(stamp.time))
        });
        if time >= view.times.end || all + 1 >= view.range.end {
            // Nothing that comes is older.
            break;
        }
        let time = Some(time).filter(|time| view.times.contains(time));
        reading.others = all - (reading.number - 1);
        match reading.turn(time, &view.range, recording, out)? {
            Some(Ok(stamp)) => order.put(next, stamp.time),
            Some(Err(())) => sound = false,
            None => {}
        }
        all = reading.others + reading.number - 1;
    }
    writeln!(out, "# {}", ended(recording))?;
    Ok(sound)
}

impl Reading<'_> {
    /// Up to the next stamp, which it gives, or the end of the range; what happened is written if
    /// there is a time.
    fn turn(
        &mut self,
        time: Option<u64>,
        range: &Range<u64>,
        recording: &Recording,
        out: &mut dyn Write,
    ) -> io::Result<Option<Result<Stamp, ()>>> {
        self.has_head = false;
        let mut shown: Vec<Step> = Vec::new();
        loop {
            match self.walk.next() {
                Some(Ok(Event::Stamp(stamp))) => {
                    self.stamp = Some(stamp);
                    return Ok(Some(Ok(stamp)));
                }
                Some(Ok(Event::Executed(steps))) => {
                    shown.clear();
                    shown.extend(steps);
                    if let Some(time) = time {
                        self.lines(time, range, &shown, out)?;
                    }
                    self.number += shown.len() as u64;
                    if self.others + self.number >= range.end {
                        return Ok(None);
                    }
                }
                Some(Ok(Event::Went { why, to })) => {
                    let is_shown = range.contains(&(self.others + self.number));
                    if let Some(time) = time.filter(|_| is_shown && self.texts.has_all()) {
                        self.head(time, out)?;
                        went(why, to, out)?;
                    }
                }
                Some(Err(error)) => {
                    writeln!(out, "# thread {}: {error}", self.thread.tid)?;
                    return Ok(Some(Err(())));
                }
                None => {
                    let is_shown = range.contains(&(self.others + self.number));
                    if let Some(time) = time.filter(|_| is_shown) {
                        self.head(time, out)?;
                        writeln!(out, "# {}", stopped(recording, self.process, self.thread))?;
                    }
                    return Ok(None);
                }
            }
        }
    }

    /// Once in a turn.
    fn head(&mut self, time: u64, out: &mut dyn Write) -> io::Result<()> {
        if std::mem::replace(&mut self.has_head, true) {
            return Ok(());
        }
        let what = match self.stamp.map(|stamp| stamp.kind) {
            Some(StampKind::Sync) => ", atomic",
            Some(StampKind::Enter) => ", system call",
            Some(StampKind::Leave) => ", back from the system call",
            Some(StampKind::Came | StampKind::End | StampKind::Stack | StampKind::Frame) | None => {
                ""
            }
        };
        writeln!(out, "# {} thread {}{what}", grouped(time), self.thread.tid)
    }

    fn lines(
        &mut self,
        time: u64,
        range: &Range<u64>,
        steps: &[Step],
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let until = |end: u64| end.saturating_sub(self.others + self.number);
        let (before, wanted) = (until(range.start), until(range.end));
        let steps = (self.number..).zip(steps).take(wanted as usize);
        let mut line = Line::default();
        for (number, step) in steps.skip(before as usize) {
            if self.texts.get(self.walk.code(), step).is_some() {
                self.head(time, out)?;
            }
            if let Some(text) = self.texts.get(self.walk.code(), step) {
                line.number(number, 12).text("  ").text(text).end(out)?;
            }
        }
        Ok(())
    }
}
