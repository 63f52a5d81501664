//! Activations of functions from a trace: what begins, what ends, in order.
//!
//! Problem: the live tool ends activations by the stack pointer (docs/design/0004), and a
//! trace has none.
//!
//! Approach: the stack pointer is followed from the instructions that were executed
//! ([`machine`]), as far as these say what they do to it, and put right at each return that
//! goes where its call came from. Where it is loaded from elsewhere (longjmp, exceptions),
//! where control goes then says which activation is gone back to: the newest one of that
//! function to which a call returned there, or the newest of that function; but where
//! unwinding goes on (`_Unwind_Resume`), not that which said so. Everything else is by the
//! definitions that the live tool has.
//!
//! A forked child begins with what was live in its parent when that executed the system
//! call behind which the child begins: of several children that begin at one place, in
//! order. So does what vfork makes, which is a thread of the process here.
//!
//! Limits: a longjmp or an exception that leaves several activations of one function, in
//! which the same call returned, ends too few of them; so do coroutines. Children that several threads
//! fork at one place at a time may have each other's callers.

pub mod contexts;
mod extents;
mod machine;
mod shape;

use hashbrown::HashMap;
use trace::{Process, Recording, Thread};

use crate::cct::Event;
use crate::walk::{Did, Pieces, Runs, Why};
pub use extents::{Extent, Functions, Met};
use machine::{Machine, Shapes};
use shape::Back;

/// Instructions, and of them branches, loads and stores, up to a moment.
pub type Costs = [u64; 4];

/// Who is told what happens in one thread.
pub trait Sink {
    /// `at`: what the thread has executed.
    fn event(&mut self, event: Event, at: Costs);
    /// Lazy binding begins or ends: what runs in between is no function's.
    fn muted(&mut self, _is: bool, _at: Costs) {}
    /// What was live in the parent of a forked child, whose thread this is.
    fn inherited(&mut self, events: &[Event]) {
        let _ = events;
    }
    /// There is nothing more.
    fn end(&mut self, at: Costs);
}

/// Everything of a trace. `extents`: the functions of a file; `sink`: for a thread, by the
/// indices of process and thread. Gives the functions that were entered, by process, and a
/// sentence for each thread whose stream ends too early.
pub fn of_recording<S: Sink>(
    traced: &Recording,
    extents: &mut dyn FnMut(&trace::Module) -> Vec<Extent>,
    mut sink: impl FnMut(usize, usize) -> S,
    mut finished: impl FnMut(usize, usize, S),
) -> (Vec<Vec<Met>>, Vec<String>) {
    let mut forks = Forks::of(traced);
    let mut functions: Vec<Vec<Met>> = Vec::new();
    let mut failures = Vec::new();
    for (index, process) in traced.processes.iter().enumerate() {
        let met = match process.parent {
            Some(parent) if process.by_fork => functions[parent].clone(),
            _ => Vec::new(),
        };
        let mut known = Functions::new(process, extents, met);
        let mut pieces = Pieces::of(process);
        let mut shapes = Shapes::default();
        for (at, thread) in process.threads.iter().enumerate() {
            let mut runs = Runs::new(&mut pieces, thread);
            let mut told = sink(index, at);
            let mut machine = match forks.taken.remove(&(index, at)) {
                Some(machine) => {
                    told.inherited(&machine.live());
                    machine.child()
                }
                None => Machine::new(),
            };
            while let Some(did) = runs.next() {
                match did {
                    Ok(Did::Ran(run)) => {
                        let mut kernel = |back, machine: &Machine| forks.at(index, back, machine);
                        machine.run(&runs, &run, &mut shapes, &mut known, &mut told, &mut kernel);
                    }
                    Ok(Did::Went { why, to }) => machine.went(why, to, &mut known, &mut told),
                    Ok(Did::Entered) => {}
                    Err(error) => failures.push(format!("thread {}: {error}", thread.tid)),
                }
            }
            machine.end(&mut told);
            finished(index, at, told);
        }
        functions.push(known.into_met());
    }
    (functions, failures)
}

/// Threads that wait for the activations of who made them, by indices of process and thread.
struct Forks {
    /// By process of the parent, where they begin, and whether they are threads of that: the
    /// last to come first.
    wanted: HashMap<(usize, u64, bool), Vec<(usize, usize)>>,
    taken: HashMap<(usize, usize), Machine>,
}

impl Forks {
    fn of(traced: &Recording) -> Forks {
        let mut wanted: HashMap<_, Vec<(usize, usize)>> = HashMap::new();
        for (index, process) in traced.processes.iter().enumerate().rev() {
            for (at, thread) in process.threads.iter().enumerate().rev() {
                let parent = match at {
                    0 if process.by_fork => process.parent,
                    0 => None,
                    // Perhaps by vfork.
                    _ => Some(index),
                };
                if let (Some(parent), Some(start)) = (parent, start_of(thread)) {
                    let waiting = wanted.entry((parent, start, at > 0)).or_default();
                    waiting.push((index, at));
                }
            }
        }
        Forks {
            wanted,
            taken: HashMap::new(),
        }
    }

    /// A thread of the process comes back from the kernel there.
    fn at(&mut self, process: usize, back: Back, machine: &Machine) {
        let wanted = (process, back.pc, back.from_vfork);
        if let Some(child) = self.wanted.get_mut(&wanted).and_then(Vec::pop) {
            self.taken.insert(child, machine.clone());
        }
    }
}

/// Where a thread begins.
fn start_of(thread: &Thread) -> Option<u64> {
    // Of its code nothing is executed.
    let mut pieces = Pieces::of(&Process::default());
    match Runs::new(&mut pieces, thread).next()? {
        Ok(Did::Went {
            why: Why::Start,
            to,
        }) => Some(to),
        _ => None,
    }
}
