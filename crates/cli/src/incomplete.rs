//! Traces that end before their threads do, or that are damaged: what is made of one says so, and
//! ends with a status of its own.
//!
//! A trace is cut by `--limit`, by a full disk, or where nobody took it out in time. Whoever reads
//! numbers made of it must know; scripts look at the status only.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use report::counted;
use trace::{Missing, Recording};

use crate::FAILED;
use crate::exit_status::Ending;

/// A trace that was read is incomplete, or a file is damaged.
static IS_INCOMPLETE: AtomicBool = AtomicBool::new(false);

/// Says of an incomplete trace that it is; `is_sound`: its file is not damaged, which was said.
pub fn note(recording: &Recording, path: &Path, is_sound: bool) {
    let ends = say(recording, path);
    if ends || !is_sound {
        note_damage();
    }
}

/// Something was read of which a part is lost; that was said.
pub fn note_damage() {
    IS_INCOMPLETE.store(true, Relaxed);
}

/// Whether threads of the trace end early, which is said.
pub fn say(recording: &Recording, path: &Path) -> bool {
    let threads = || recording.processes.iter().flat_map(|p| &p.threads);
    let all = threads().count();
    let mut any = false;
    for why in Missing::ALL {
        let ends = threads()
            .filter(|thread| thread.missing == Some(why))
            .count();
        if ends == 0 {
            continue;
        }
        any = true;
        say!(
            "everypath: '{}' is not all of the run: {ends} of {} {} early, as {}",
            path.display(),
            counted(all as u64, "thread"),
            if ends == 1 { "ends" } else { "end" },
            match why {
                Missing::Limit => "--limit was reached",
                Missing::Memory => "there was no memory for more, or nobody took it",
                Missing::Place => "the file could not be written",
            }
        );
    }
    any
}

/// The ending of a command that has read traces: a failure if one was incomplete.
pub fn ending(ending: Ending) -> Ending {
    match ending {
        Ending::Exit(0) if IS_INCOMPLETE.load(Relaxed) => Ending::Exit(FAILED),
        other => other,
    }
}
