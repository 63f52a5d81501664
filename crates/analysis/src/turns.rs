//! Accesses of the threads of a process: of one thread after the other, or of all in the order of their
//! time stamps.
//!
//! Approach: time stamps cut what a thread did where its accesses are not cut, so a second walk of the
//! thread tells before how many of its instructions each stamp stands. What was read beyond a turn is
//! kept for the next one.

use std::io;

use isa::memory::Selection;
use trace::Process;

use crate::walk::{
    AccessEvent, Accessed, Accesses, Bytes, Code, Event, Order, Pieces, Step, Walk, Why,
};

/// Receiver of accesses.
pub trait Turn {
    /// The thread with this index executed these, with these accesses, one turn's part of them.
    fn executed(&mut self, thread: usize, steps: &[Step], all: &[Accessed], bytes: Bytes<'_>);

    /// It went somewhere without executing anything; [`apart`] tells it.
    fn went(&mut self, _thread: usize, _why: Why, _to: u64) {}

    /// All that was given is over; `code` is what it was executed from.
    fn written(&mut self, thread: usize, code: &Code) -> io::Result<()>;
}

/// The part of a thread that was read.
#[derive(Clone, Debug, Default)]
pub struct Read {
    pub insns: u64,
    /// Why not further.
    pub error: Option<String>,
}

/// Reads one thread after the other.
pub fn apart(
    of_process: &[(&Process, &trace::Thread)],
    selection: Selection,
    turn: &mut dyn Turn,
) -> io::Result<Vec<Read>> {
    let mut pieces = Pieces::of(of_process[0].0);
    let mut all = Vec::new();
    for (at, (_, thread)) in of_process.iter().enumerate() {
        let mut accesses = Accesses::new(&mut pieces, thread, selection);
        let mut read = Read::default();
        loop {
            match accesses.next() {
                None => break,
                Some(Err(error)) => {
                    read.error = Some(error.to_string());
                    break;
                }
                Some(Ok(AccessEvent::Went { why, to })) => {
                    turn.went(at, why, to);
                    continue;
                }
                Some(Ok(AccessEvent::Executed(steps, accessed, bytes))) => {
                    read.insns += steps.len() as u64;
                    turn.executed(at, steps, accessed, bytes);
                }
            }
            turn.written(at, accesses.code())?;
        }
        all.push(read);
    }
    Ok(all)
}

/// Reads one thread; `stamped` is told of the time at the end of each turn but the last.
pub fn one<T: Turn>(
    (process, thread): (&Process, &trace::Thread),
    selection: Selection,
    turn: &mut T,
    mut stamped: impl FnMut(&mut T, u64),
) -> io::Result<Read> {
    let (mut first, mut second) = (Pieces::of(process), Pieces::of(process));
    let mut thread = Thread::new(thread, (&mut first, &mut second), selection);
    loop {
        let stamp = thread.stamps.next();
        let end = stamp.map_or(u64::MAX, |(insns, _)| insns);
        thread.turn(0, end, turn)?;
        match stamp {
            Some((_, time)) if !thread.is_over => stamped(turn, time),
            _ => return Ok(thread.read),
        }
    }
}

/// Reads all threads in their order.
pub fn together(
    of_process: &[(&Process, &trace::Thread)],
    selection: Selection,
    turn: &mut dyn Turn,
) -> io::Result<Vec<Read>> {
    let pieces = || of_process.iter().map(|(process, _)| Pieces::of(process));
    let (mut first, mut second): (Vec<_>, Vec<_>) = (pieces().collect(), pieces().collect());
    let both = of_process.iter().zip(first.iter_mut().zip(&mut second));
    let mut threads: Vec<Thread<'_>> = both
        .map(|((_, thread), pieces)| Thread::new(thread, pieces, selection))
        .collect();
    let mut order = Order::of(threads.len());
    while let Some(next) = order.next() {
        let thread = &mut threads[next];
        loop {
            let stamp = thread.stamps.next();
            let end = stamp.map_or(u64::MAX, |(insns, _)| insns);
            thread.turn(next, end, turn)?;
            match stamp {
                Some((_, time)) if !thread.is_over => {
                    if !order.stays(next, time) {
                        break;
                    }
                }
                _ => break,
            }
        }
    }
    Ok(threads.into_iter().map(|thread| thread.read).collect())
}

/// Time stamps of a thread.
struct Stamps<'a> {
    walk: Walk<'a>,
    insns: u64,
}

impl Stamps<'_> {
    /// The next stamp: the number of instructions before it, and its time. What cannot be read has none.
    fn next(&mut self) -> Option<(u64, u64)> {
        loop {
            match self.walk.next()?.ok()? {
                Event::Executed(steps) => self.insns += steps.len() as u64,
                Event::Stamp(stamp) => return Some((self.insns, stamp.time)),
                Event::Went { .. } => {}
            }
        }
    }
}

/// Instructions and accesses that were read for later turns.
#[derive(Default)]
struct Ahead {
    steps: Vec<Step>,
    accesses: Vec<Accessed>,
    bytes: Vec<u8>,
    /// Instructions that were given.
    given: usize,
}

/// A thread that waits for its turn.
struct Thread<'a> {
    accesses: Accesses<'a>,
    stamps: Stamps<'a>,
    ahead: Ahead,
    read: Read,
    is_over: bool,
}

impl<'a> Thread<'a> {
    fn new(
        thread: &'a trace::Thread,
        (first, second): (&'a mut Pieces, &'a mut Pieces),
        selection: Selection,
    ) -> Thread<'a> {
        Thread {
            accesses: Accesses::new(first, thread, selection),
            stamps: Stamps {
                walk: Walk::new(second, thread).with_stamps(),
                insns: 0,
            },
            ahead: Ahead::default(),
            read: Read::default(),
            is_over: false,
        }
    }

    /// Gives what the thread did before it had executed `end` instructions.
    fn turn(&mut self, at: usize, end: u64, turn: &mut dyn Turn) -> io::Result<()> {
        while self.read.insns < end && self.fill() {
            let ahead = &mut self.ahead;
            let left = (ahead.steps.len() - ahead.given) as u64;
            let number = left.min(end - self.read.insns) as usize;
            let steps = &ahead.steps[ahead.given..ahead.given + number];
            let until = (ahead.given + number) as u32;
            let split = ahead.accesses.partition_point(|one| one.step < until);
            let mut own: Vec<Accessed> = ahead.accesses.drain(..split).collect();
            let first = ahead.given as u32;
            own.iter_mut().for_each(|one| one.step -= first);
            turn.executed(at, steps, &own, Bytes::new(&ahead.bytes));
            ahead.given += number;
            self.read.insns += number as u64;
            turn.written(at, self.accesses.code())?;
        }
        Ok(())
    }

    /// Reads on if everything was given. Whether there is something.
    fn fill(&mut self) -> bool {
        while self.ahead.given == self.ahead.steps.len() {
            match self.accesses.next() {
                Some(Ok(AccessEvent::Went { .. })) => {}
                Some(Ok(AccessEvent::Executed(steps, all, bytes))) => {
                    self.ahead = Ahead {
                        steps: steps.to_vec(),
                        accesses: all.to_vec(),
                        bytes: bytes.all().to_vec(),
                        given: 0,
                    };
                }
                end => {
                    let error = end.and_then(Result::err);
                    self.read.error = error.map(|error| error.to_string());
                    self.is_over = true;
                    return false;
                }
            }
        }
        true
    }
}
