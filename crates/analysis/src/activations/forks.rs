//! With what was live in its parent a forked child begins.
//!
//! Problem: a trace says behind which system call a child begins, and not the how manieth:
//! `fork` has a place of its own in the C library, but `syscall(2)` comes to one place for
//! all calls.
//!
//! Approach: a child goes on where its parent was, so it returns to its parent's callers. The
//! first places to which it returns from what it has not called are compared with the calls
//! that are live in the parent when that comes back from the kernel there. Of several
//! children for which that is so, the first.
//!
//! Limits: where all of them are the same, the first system call of those is taken, also if it
//! made no child (`syscall` called twice by one loop, of which the second made one; a fork
//! that failed; several threads at a time). A child that does not return, as one that
//! executes another program at once, is known by its place alone.

use hashbrown::HashMap;
use trace::{Process, Recording, Thread};

use super::machine::Machine;
use super::shape::Back;
use crate::walk::{Pieces, RunEvent, Runs, Why};
use isa::Flow;

/// Most returns that are compared.
const RETURNS: usize = 8;
/// Most runs in which they are looked for.
const RUNS: usize = 1 << 12;

/// A thread, by the indices of process and thread, that waits for the activations of who
/// made it.
struct Child {
    of: (usize, usize),
    /// Return addresses of the calls that it did not make itself.
    returns: Option<Vec<u64>>,
}

/// Threads that were made by fork, and their parents' activations.
pub(super) struct Forks<'a> {
    traced: &'a Recording,
    /// By process of the parent, where they begin, and whether they are threads of that: the
    /// last to come first.
    wanted: HashMap<(usize, u64, bool), Vec<Child>>,
    taken: HashMap<(usize, usize), Machine>,
}

impl Forks<'_> {
    pub fn of(traced: &Recording) -> Forks<'_> {
        let mut wanted: HashMap<_, Vec<Child>> = HashMap::new();
        for (index, process) in traced.processes.iter().enumerate().rev() {
            for (at, thread) in process.threads.iter().enumerate().rev() {
                let parent = match at {
                    0 if process.by_fork => process.parent,
                    0 => None,
                    // Perhaps by vfork.
                    _ => Some(index),
                };
                if let (Some(parent), Some(start)) = (parent, start_of(thread)) {
                    wanted
                        .entry((parent, start, at > 0))
                        .or_default()
                        .push(Child {
                            of: (index, at),
                            returns: None,
                        });
                }
            }
        }
        Forks {
            traced,
            wanted,
            taken: HashMap::new(),
        }
    }

    /// A thread of the process comes back from the kernel there.
    pub fn at(&mut self, process: usize, back: Back, machine: &Machine) {
        let wanted = (process, back.pc, back.from_vfork);
        let Some(children) = self.wanted.get_mut(&wanted) else {
            return;
        };
        let processes = &self.traced.processes;
        let goes_on = |child: &mut Child| {
            let (index, at) = child.of;
            let returns = child.returns.get_or_insert_with(|| {
                let process = &processes[index];
                returns_of(process, &process.threads[at])
            });
            machine.returns().zip(returns).all(|(back, to)| back == *to)
        };
        if let Some(found) = children.iter_mut().rposition(goes_on) {
            let child = children.remove(found);
            self.taken.insert(child.of, machine.clone());
        }
    }

    /// With what a thread begins, if that was found.
    pub fn of_thread(&mut self, process: usize, at: usize) -> Option<Machine> {
        self.taken.remove(&(process, at))
    }
}

/// Address at which a thread begins.
fn start_of(thread: &Thread) -> Option<u64> {
    // None of the child's code is executed.
    let mut pieces = Pieces::of(&Process::default());
    match Runs::new(&mut pieces, thread).next()? {
        Ok(RunEvent::Went {
            why: Why::Start,
            to,
        }) => Some(to),
        _ => None,
    }
}

/// Addresses to which a thread first returns from calls that it did not make.
fn returns_of(process: &Process, thread: &Thread) -> Vec<u64> {
    let mut pieces = Pieces::of(process);
    let mut runs = Runs::new(&mut pieces, thread);
    let (mut calls, mut returns) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let run = match runs.next() {
            Some(Ok(RunEvent::Ran(run))) => run,
            Some(Ok(
                RunEvent::Went {
                    why: Why::Start, ..
                }
                | RunEvent::Entered,
            )) => continue,
            _ => break,
        };
        for step in runs.steps(&run) {
            if let Flow::Call(_) | Flow::IndirectCall = step.flow {
                calls.push(step.pc.wrapping_add(step.len.into()));
            }
        }
        let last = runs.steps(&run).last();
        let is_return = last.is_some_and(|last| matches!(last.flow, Flow::Return(_)));
        if !is_return || run.outcome.is_none() {
            continue;
        }
        match calls.pop() {
            None => returns.push(runs.here()),
            Some(back) if back == runs.here() => {}
            // Its stack is not what it seems to be.
            Some(_) => break,
        }
        if returns.len() == RETURNS {
            break;
        }
    }
    returns
}
