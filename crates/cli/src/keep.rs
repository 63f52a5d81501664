//! A run whose trace is kept while it runs.
//!
//! Invariants: before the program starts, the file has its beginning, or nothing is run;
//! when it starts, the file has its name. After that nothing that goes wrong with the file
//! changes the run: it is said when the program has ended, whose end wins.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Result, anyhow};
use image::{Images, Selector};
use trace::{Live, Meta, WriteError};
use wire::view::Pool;

use crate::ending::Ending;
use crate::output::{Kind, Output, mid_sentence};
use crate::progress::Progress;
use crate::selection::Extents;
use crate::session::{self, Session};
use crate::symbolize;

/// The file, and how to take back what was written to it.
struct Kept(File);

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl trace::Keep for Kept {
    fn cut(&mut self, len: u64) -> io::Result<()> {
        self.0.set_len(len)?;
        self.0.seek(SeekFrom::Start(len)).map(|_| ())
    }
}

struct Drain {
    live: Live<Kept>,
    output: Output,
    /// Why the file has not got its name.
    unnamed: Option<io::Error>,
    is_running: bool,
}

impl launch::Drain for Drain {
    fn drain(&mut self, pool: &Pool) -> bool {
        self.begin();
        self.live.drain(pool)
    }
}

impl Drain {
    /// The program runs.
    fn begin(&mut self) {
        if !self.is_running {
            self.is_running = true;
            self.unnamed = self.output.publish().err();
        }
    }
}

impl Session<'_> {
    /// Runs the program; of its trace no more than `limit` bytes are kept.
    pub fn trace(self, limit: Option<u64>) -> Result<Ending> {
        let images = Arc::new(Images::new());
        let request = self.request()?;
        let path = self.destination.output.as_deref();
        let path = path.expect("a trace always has a file");
        let refused = |error: &str| anyhow!("{error}; nothing was run");
        let output = Output::prepare(path, Kind::Recording);
        let output = output.map_err(|error| refused(&error.to_string()))?;
        let meta = self.meta_before(SystemTime::now());
        let live = output.file().map_err(WriteError::from);
        let live = live.and_then(|file| Live::new(Kept(file), &meta, limit));
        let mut drain = Drain {
            live: live.map_err(|error| refused(&mid_sentence(&error.to_string())))?,
            output,
            unnamed: None,
            is_running: false,
        };
        let everything = Selector::everything();
        let mut tables = Extents::new(&images, &everything, &request.program, true);
        let run = launch::run(&request, &mut tables, Some(&mut drain))?;
        drain.begin();
        let progress = Progress::new(self.destination.quiet);
        let meta = Meta {
            duration_ns: u64::try_from(run.duration.as_nanos()).unwrap_or(u64::MAX),
            end: session::end_of(run.ended),
            ..meta
        };
        let mut recording = drain.live.settle(&run.pool.view(), meta);
        progress.says("looking up names");
        symbolize::symbolize(&mut recording, &images);
        progress.says("writing the end of the trace");
        let reached = drain.live.is_at_limit();
        let finished = drain.live.finish(&recording);
        let synced = drain.output.sync();
        drop(progress);
        self.warn(&run.warnings);
        if reached && !self.destination.quiet {
            eprintln!("everypath: the trace ends where --limit was reached");
        }
        let shown = drain.output.path().display();
        let failed = finished.err().map(|error| match error {
            WriteError::Io(error) => crate::output::reason(&error),
            error => mid_sentence(&error.to_string()),
        });
        let failed = failed.or(synced.err().map(|error| crate::output::reason(&error)));
        if let Some(why) = failed {
            eprintln!(
                "everypath: cannot write '{shown}': {why}; what was recorded before that is in it"
            );
        }
        if let Some(error) = drain.unnamed {
            eprintln!("everypath: cannot rename the file of the trace to '{shown}': {error}");
        }
        let ending = Ending::of(run.ended);
        // As in `Session::run`.
        std::mem::forget((run, recording, images));
        Ok(ending)
    }
}
