//! mcfTRaptor while the program runs, as the thesis has it: every thread's predictors, private
//! to it, follow its streams, and what they have read is kept nowhere.
//!
//! Each thread of the program has one here. Descriptors of the first thread are written as they
//! come; those of the others wait in a [spool](Place), since theirs come behind, and the
//! numbers of threads are known at the end only.
//!
//! Invariants: descriptors and statistics are those that [`write`](super::write) makes of the
//! same trace; what cannot be written does not keep anybody from counting on.
//!
//! Limits: predictors that threads share need an order, which is known when all has come.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use analysis::raptor::{Config, Counts};
use analysis::walk::{Branches, LiveProcess, Pieces, Room, Tail};
use trace::{Fragment, Part, Recording};

pub use super::spool::Place;
use super::spool::Spool;
use super::{Figures, Row, View, make, put};
use crate::mcf::Numbered;

/// Threads that descriptors can name.
const MOST: usize = 1 << 8;

/// Form and destination of the descriptors.
pub struct Wanted {
    pub view: View,
    /// Destination of the first thread's, at once; [`Live::finish`] gets that of the others.
    pub first: Box<dyn Write + Send>,
    /// Storage of the other threads' descriptors, until all have ended.
    pub place: Place,
}

/// Follows a trace.
pub struct Live {
    config: Config,
    view: Option<View>,
    place: Option<Place>,
    room: Arc<Room>,
    state: Mutex<State>,
}

struct State {
    first: Option<Box<dyn Write + Send>>,
    processes: Vec<Process>,
}

struct Process {
    coming: Arc<LiveProcess>,
    readers: Vec<io::Result<JoinHandle<Done>>>,
}

/// A thread that was read to its end.
struct Done {
    made: Figures,
    /// Descriptors that are not written yet.
    spool: Option<Spool>,
    failed: Option<io::Error>,
}

/// Figures of all threads.
pub struct Finished<'a> {
    pub rows: Vec<Row<'a>>,
    /// Threads that have no number.
    pub left_out: usize,
    /// Why not all descriptors are written.
    pub failed: Option<io::Error>,
}

impl Live {
    /// With predictors as `config` says. Parts of up to `most` bytes wait for being read.
    pub fn new(config: Config, most: u64, wanted: Option<Wanted>) -> Live {
        let view = wanted.as_ref().map(|wanted| wanted.view);
        let place = wanted.as_ref().map(|wanted| Arc::clone(&wanted.place));
        Live {
            config,
            view,
            place,
            room: Arc::new(Room::new(most)),
            state: Mutex::new(State {
                first: wanted.map(|wanted| wanted.first),
                processes: Vec::new(),
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When all has ended, which is `recording`: reads what has come, and writes the
    /// descriptors that were not to `rest`.
    pub fn finish<'a>(&self, recording: &'a Recording, rest: &mut dyn Write) -> Finished<'a> {
        let processes = std::mem::take(&mut self.state().processes);
        processes.iter().for_each(|process| process.coming.end());
        let mut finished = Finished {
            rows: Vec::new(),
            left_out: 0,
            failed: None,
        };
        let threads = recording.processes.iter();
        let threads = threads.flat_map(|process| process.threads.iter().map(move |t| (process, t)));
        let readers = processes.into_iter().flat_map(|process| process.readers);
        for (number, ((process, thread), reader)) in threads.zip(readers).enumerate() {
            let done = done(reader);
            let Some(number) = u8::try_from(number).ok().filter(|_| number < MOST) else {
                finished.left_out += 1;
                continue;
            };
            let thread = Numbered {
                number,
                process,
                thread,
            };
            finished.rows.push(Row::of(thread, done.made));
            let mut failed = done.failed;
            if let (Some(view), Some(spool)) = (self.view, done.spool)
                && failed.is_none()
                && finished.failed.is_none()
            {
                failed = spool.copy(view.form, number, rest).err();
            }
            finished.failed = finished.failed.take().or(failed);
        }
        finished
    }
}

/// Waits for a reader.
fn done(reader: io::Result<JoinHandle<Done>>) -> Done {
    let read = match reader {
        Ok(reader) => reader.join().map_err(|_| "its reader failed".to_owned()),
        Err(error) => Err(format!("there is no thread to read it ({error})")),
    };
    read.unwrap_or_else(|error| Done {
        made: Figures {
            insns: 0,
            counts: Counts::default(),
            error: Some(error),
        },
        spool: None,
        failed: None,
    })
}

impl trace::Follow for Live {
    fn has_room(&self) -> bool {
        self.room.is_left()
    }

    fn starves(&self) -> bool {
        self.room.is_in_vain()
    }

    fn process(&self, _: usize, has: Option<(usize, usize, usize)>) {
        let mut state = self.state();
        let parent = has.and_then(|(parent, fragments, targets)| {
            let parent = state.processes.get(parent)?;
            Some((&*parent.coming, fragments, targets))
        });
        let coming = Arc::new(LiveProcess::new(&self.room, parent));
        state.processes.push(Process {
            coming,
            readers: Vec::new(),
        });
    }

    fn fragment(&self, process: usize, fragment: &Arc<Fragment>) {
        if let Some(process) = self.state().processes.get(process) {
            process.coming.fragment(fragment);
        }
    }

    fn target(&self, process: usize, target: u64) {
        if let Some(process) = self.state().processes.get(process) {
            process.coming.target(target);
        }
    }

    fn thread(&self, process: usize) {
        let mut state = self.state();
        let State { first, processes } = &mut *state;
        let is_first = process == 0;
        let Some(process) = processes.get_mut(process) else {
            return;
        };
        let first = match is_first && process.readers.is_empty() {
            true => first.take(),
            false => None,
        };
        let tail = process.coming.thread();
        let (config, view, place) = (self.config, self.view, self.place.clone());
        let reader = thread::Builder::new().spawn(move || read(&tail, &config, view, first, place));
        process.readers.push(reader);
    }

    fn part(&self, process: usize, thread: usize, part: Part) {
        if let Some(process) = self.state().processes.get(process) {
            process.coming.part(thread, part);
        }
    }

    fn over(&self, process: usize, thread: usize, stream: u16) {
        if let Some(process) = self.state().processes.get(process) {
            process.coming.over(thread, stream);
        }
    }
}

/// Reads a thread to its end.
fn read(
    tail: &Tail,
    config: &Config,
    view: Option<View>,
    first: Option<Box<dyn Write + Send>>,
    place: Option<Place>,
) -> Done {
    let mut pieces = Pieces::of_live(tail.process());
    let branches = Branches::of_live(&mut pieces, tail);
    let mut spool = place.filter(|_| first.is_none()).as_ref().map(Spool::new);
    let mut first = first;
    let mut failed = None;
    let disassemble = view.is_some_and(|view| view.disassemble);
    let made = make(branches, config, disassemble, &mut |descriptor, text| {
        let out: Option<&mut dyn Write> = match (&mut first, &mut spool) {
            (Some(first), _) => Some(first),
            (None, Some(spool)) => Some(spool),
            _ => None,
        };
        if let (Some(view), Some(out), None) = (view, out, &failed) {
            failed = put(0, descriptor, view.form, text, out).err();
        }
        Ok(())
    });
    if let (Some(first), None) = (&mut first, &failed) {
        failed = first.flush().err();
    }
    Done {
        made: made.expect("failures to write are kept"),
        spool,
        failed,
    }
}
