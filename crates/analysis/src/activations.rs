//! Activations of functions from a trace: what begins, what ends, in order.
//!
//! Problem: the live tool ends activations by the stack pointer (docs/design/0004), and a
//! trace has it in few places.
//!
//! Approach: the stack pointer is followed from the instructions that were executed
//! ([`stack`]), and taken from the trace where these do not say what they do to it. Activations
//! are then by the definitions that the live tool has ([`machine`]). Older traces have it
//! nowhere: it is put right at each return that goes where its call came from, and where it
//! is loaded (longjmp, exceptions), where control goes then says which activation is gone back
//! to: the newest one of that function to which a call returned there, or the newest of that
//! function; but where unwinding goes on (`_Unwind_Resume`), not that which said so.
//!
//! A forked child begins with what was live in its parent when that executed the system
//! call behind which the child begins ([`forks`]). So does what vfork makes, which is a
//! thread of the process here.
//!
//! Limits: docs/design/0023.

pub mod contexts;
mod extents;
mod forks;
mod machine;
mod shape;
mod stack;
mod stacks;

use trace::{Process, Recording};

use crate::cct::Event;
use crate::walk::{Pieces, RunEvent, Runs};
pub use extents::{Extent, Functions, Met};
use forks::Forks;
use machine::{MOST_LIVE, Machine, Shapes};

/// Instructions, and of them branches, loads and stores, up to a moment.
pub type Costs = [u64; 4];

/// Receiver of the events of one thread.
pub trait Sink {
    /// `at`: what the thread has executed.
    fn event(&mut self, event: Event, at: Costs);
    /// Lazy binding begins or ends: what runs in between is no function's.
    fn muted(&mut self, _is: bool, _at: Costs) {}
    /// Takes over the activations that were live in the parent of a forked child, whose thread this is.
    fn inherited(&mut self, events: &[Event]) {
        let _ = events;
    }
    /// There is nothing more.
    fn end(&mut self, at: Costs);
}

/// Rules for the beginning of an activation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// A jump of a function to its own first instruction begins one.
    pub self_jumps: bool,
}

/// Everything of a trace. `extents`: the functions of a module, by its index; `sink`: for a thread, by the
/// indices of process and thread. Gives the functions that were entered, by process, and a
/// sentence for each thread whose stream ends too early.
pub fn of_recording<S: Sink>(
    traced: &Recording,
    rules: Rules,
    extents: &mut dyn FnMut(&Process, u32) -> Vec<Extent>,
    mut sink: impl FnMut(usize, usize) -> S,
    mut finished: impl FnMut(usize, usize, S),
) -> (Vec<Vec<Met>>, Vec<String>) {
    let mut forks = Forks::of(traced);
    let mut functions: Vec<Vec<Met>> = Vec::new();
    let mut failures = Vec::new();
    for (index, process) in traced.processes.iter().enumerate() {
        let met = match process.parent {
            Some(parent) if process.by_fork => functions.get(parent).cloned().unwrap_or_default(),
            _ => Vec::new(),
        };
        let mut known = Functions::new(process, extents, met);
        let mut pieces = Pieces::of(process);
        let mut shapes = Shapes::default();
        for (at, thread) in process.threads.iter().enumerate() {
            let mut runs = Runs::new(&mut pieces, thread).with_stacks();
            let mut told = sink(index, at);
            let mut machine = match forks.of_thread(index, at) {
                Some(machine) => {
                    told.inherited(&machine.live());
                    machine.child()
                }
                None => Machine::new(rules),
            };
            while let Some(did) = runs.next() {
                match did {
                    Ok(RunEvent::Ran(run)) => {
                        let mut kernel = |back, machine: &Machine| forks.at(index, back, machine);
                        machine.run(&runs, &run, &mut shapes, &mut known, &mut told, &mut kernel);
                    }
                    Ok(RunEvent::Went { why, to }) => machine.went(why, to, &mut known, &mut told),
                    Ok(RunEvent::Stack(sp)) => machine.tell(sp),
                    Ok(RunEvent::Entered) => {}
                    Err(error) => failures.push(format!("thread {}: {error}", thread.tid)),
                }
                if machine.is_too_deep() {
                    failures.push(format!(
                        "thread {}: more than {MOST_LIVE} calls are live; what follows is left out",
                        thread.tid
                    ));
                    break;
                }
            }
            machine.end(&mut told);
            finished(index, at, told);
        }
        functions.push(known.into_met());
    }
    (functions, failures)
}
