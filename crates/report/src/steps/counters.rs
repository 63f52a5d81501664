//! Comparison of a thread's own counters (`dbt::streams::icount`) with the number of instructions
//! in its trace.
//!
//! Limits: of a thread that was killed, or ended by another one while it ran, counters and
//! trace say different things of its last instructions, and are not compared.

use analysis::walk::{Event, Pieces, Step, Walk, segments};
use trace::{Process, Thread};

use crate::numbers::grouped;

const SYSCALL: [u8; 2] = [0x0F, 0x05];

/// How many it counted, where the trace has to have as many.
pub fn expected(process: &Process, thread: &Thread) -> Option<u64> {
    let is_whole = thread.gap.is_none() && thread.missing.is_none();
    let is_counted = is_whole && thread.insns != 0 && thread.end_ns.is_some();
    (is_counted && ends_with_a_call(process, thread)).then_some(thread.insns)
}

/// Words about a thread whose trace has `number` instructions, and the error, if there is one.
pub fn compared(process: &Process, thread: &Thread, number: u64) -> (&'static str, Option<String>) {
    match expected(process, thread) {
        None => ("", None),
        Some(expected) if expected == number => (", as many as it counted", None),
        Some(expected) => {
            let expected = grouped(expected);
            let wrong = format!("the thread counted {expected} when it ran");
            ("", Some(wrong))
        }
    }
}

/// Whether the last thing that is known of it is a system call: that ended it, or it waited
/// there.
fn ends_with_a_call(process: &Process, thread: &Thread) -> bool {
    let mut pieces = Pieces::of(process);
    let mut walk = match segments::segments(thread).last() {
        Some(last) => Walk::of(&mut pieces, thread, last.onward()),
        None => Walk::new(&mut pieces, thread),
    };
    let mut last: Option<Step> = None;
    while let Some(Ok(event)) = walk.next() {
        match event {
            Event::Executed(steps) => last = steps.last().copied().or(last),
            // After a handler the thread is in the interrupted call again, which the trace does not have yet.
            Event::Went { .. } => last = None,
            Event::Stamp(_) => {}
        }
    }
    last.is_some_and(|step| *walk.code().bytes(&step) == SYSCALL)
}
