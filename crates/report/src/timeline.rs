//! Calls in time, for tools that show them so: uftrace, Perfetto, Chrome.
//!
//! Time is that of the trace's time stamps ([`Times`]), or the number of instructions that
//! the thread has executed: then each thread has its own, and they cannot be compared. (uftrace
//! reads it as nanoseconds, Perfetto as microseconds.)
//!
//! Approach: who asks says first what calls there are, from contexts with k = 1: these have
//! names, and numbers that say how much would be written. Activations then come one after the other
//! ([`analysis::activations`]).
//!
//! Limits: activations that a forked child has from its parent are not shown in the child,
//! as the calls were the parent's.

mod chrome;
mod times;
mod uftrace;

use std::collections::HashMap;
use std::io;

use analysis::activations::{Costs, Sink};
use analysis::cct::{Event, Live};
use trace::{Label, Recording};

pub use chrome::Chrome;
use times::Cursor;
pub use times::Times;
pub use uftrace::{MOST_LEVELS, Uftrace};

use crate::names::label_name;

/// Selection of the calls that are shown.
pub struct View<'a> {
    /// Only functions with such names.
    pub wants: &'a dyn Fn(&str) -> bool,
    /// No deeper than so many that are shown.
    pub depth: u32,
    pub thread: Option<u32>,
}

/// Unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Nanoseconds,
    /// Instructions of the thread.
    Instructions,
}

/// Time of threads: one that executes another program has its number again, and its
/// instructions go on where those ended.
#[derive(Debug)]
struct Clock {
    unit: Unit,
    /// By thread number, of its last event.
    last: HashMap<u32, u64>,
    /// The thread that is written, and the summand of its time.
    current: Option<At>,
    before: u64,
}

impl Clock {
    fn new(unit: Unit) -> Clock {
        Clock {
            unit,
            last: HashMap::new(),
            current: None,
            before: 0,
        }
    }

    fn time(&mut self, at: At, tid: u32, time: u64) -> u64 {
        let last = self.last.entry(tid).or_default();
        if self.current.replace(at) != Some(at) {
            self.before = *last;
        }
        *last = match self.unit {
            Unit::Nanoseconds => time.max(*last),
            Unit::Instructions => self.before + time,
        };
        *last
    }
}

/// Writer of a timeline's form.
pub trait Form {
    fn enter(&mut self, thread: At, name: u32, depth: u32, time: u64) -> io::Result<()>;
    fn leave(&mut self, thread: At, name: u32, depth: u32, time: u64) -> io::Result<()>;
    /// A thread has nothing more.
    fn end(&mut self, thread: At) -> io::Result<()>;
}

/// Indices of process and thread.
pub type At = (usize, usize);

/// Names of everything that is called.
#[derive(Debug, Default)]
pub struct Names {
    pub all: Vec<String>,
    /// By process and label, those that are wanted.
    known: HashMap<(usize, Label), u32>,
    /// Calls of these.
    pub calls: u64,
}

impl Names {
    /// Names in contexts with k = 1 of the trace.
    pub fn of(contexts: &Recording, view: &View<'_>) -> Names {
        let mut names = Names::default();
        let mut numbers: HashMap<String, u32> = HashMap::new();
        for (index, process) in contexts.processes.iter().enumerate() {
            let wanted = |tid: u32| view.thread.is_none_or(|thread| thread == tid);
            for thread in process.threads.iter().filter(|thread| wanted(thread.tid)) {
                for node in &thread.nodes {
                    let name = label_name(process, node.label);
                    if matches!(node.label, Label::THREAD | Label::MUTED) || !(view.wants)(&name) {
                        continue;
                    }
                    let next = names.all.len() as u32;
                    let number = *numbers.entry(name.clone()).or_insert_with(|| {
                        names.all.push(name);
                        next
                    });
                    names.known.insert((index, node.label), number);
                    names.calls += node.count;
                }
            }
        }
        names
    }
}

/// One thread.
pub struct Thread<'a, F> {
    pub at: At,
    pub names: &'a Names,
    pub depth: u32,
    pub form: &'a std::cell::RefCell<F>,
    /// `None`: time is instructions.
    cursor: Option<Cursor<'a>>,
    /// The names of what is live; `None` for what is not shown.
    live: Live<Option<u32>>,
    shown: u32,
    pub failed: io::Result<()>,
}

impl<'a, F: Form> Thread<'a, F> {
    pub fn new(
        at: At,
        names: &'a Names,
        depth: u32,
        times: Option<&'a Times>,
        form: &'a std::cell::RefCell<F>,
    ) -> Self {
        Thread {
            at,
            names,
            depth,
            form,
            cursor: times.map(|times| times.cursor(at)),
            live: Live::default(),
            shown: 0,
            failed: Ok(()),
        }
    }

    /// When it had executed so many instructions.
    fn time(&mut self, insns: u64) -> u64 {
        self.cursor
            .as_mut()
            .map_or(insns, |cursor| cursor.at(insns))
    }

    fn pop(&mut self, time: u64) {
        if let Some(Some(name)) = self.live.pop() {
            self.leave(name, time);
        }
    }

    fn enter(&mut self, name: u32, time: u64) {
        if self.failed.is_ok() {
            let form = &mut *self.form.borrow_mut();
            self.failed = form.enter(self.at, name, self.shown, time);
        }
        self.shown += 1;
    }

    fn leave(&mut self, name: u32, time: u64) {
        self.shown -= 1;
        if self.failed.is_ok() {
            let form = &mut *self.form.borrow_mut();
            self.failed = form.leave(self.at, name, self.shown, time);
        }
    }

    /// Another stack's activations are shown in place of what was.
    fn switch(&mut self, event: Event, time: u64) {
        let before: Vec<_> = self.live.items().iter().copied().flatten().collect();
        self.live.switch(event);
        let now: Vec<_> = self.live.items().iter().copied().flatten().collect();
        let same = before.iter().zip(&now).take_while(|(a, b)| a == b).count();
        for &name in before[same..].iter().rev() {
            self.leave(name, time);
        }
        for &name in &now[same..] {
            self.enter(name, time);
        }
    }
}

impl<F: Form> Sink for Thread<'_, F> {
    fn event(&mut self, event: Event, at: Costs) {
        let label = match event {
            Event::Leave => {
                let time = self.time(at[0]);
                return self.pop(time);
            }
            Event::Enter(label) | Event::Begin(label) => label,
            Event::NewStack { .. } | Event::Stack(_) | Event::Bridge(_) => {
                let time = self.time(at[0]);
                return self.switch(event, time);
            }
        };
        let name = self.names.known.get(&(self.at.0, label)).copied();
        let name = name.filter(|_| self.shown < self.depth);
        self.live.push(name);
        if let Some(name) = name {
            let time = self.time(at[0]);
            self.enter(name, time);
        }
    }

    fn inherited(&mut self, events: &[Event]) {
        events.iter().for_each(|_| self.live.push(None));
    }

    fn end(&mut self, at: Costs) {
        let time = self.time(at[0]);
        while !self.live.items().is_empty() {
            self.pop(time);
        }
        if self.failed.is_ok() {
            self.failed = self.form.borrow_mut().end(self.at);
        }
    }
}
