//! A run whose trace is kept while it runs.
//!
//! Invariants: before the program starts, the file has its beginning, or nothing is run;
//! when it starts, the file has its name. After that nothing that goes wrong with the file
//! changes the run: it is said when the program has ended, whose end wins.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Result, anyhow, bail};
use image::Images;
use trace::{KeepSource, Live, Meta, Most, WriteError};
use wire::view::Pool;

use crate::controls::Selected;
use crate::ending::Ending;
use crate::output::{Kind, Output, mid_sentence};
use crate::progress::Progress;
use crate::selection;
use crate::session::{self, Session};
use crate::symbolize;

/// The file, and how to take back what was written to it.
struct Kept {
    file: File,
    path: PathBuf,
    /// It is not the one that the output knows.
    is_other: bool,
}

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.is_other {
            true => self.file.sync_data(),
            false => self.file.flush(),
        }
    }
}

impl trace::Keep for Kept {
    fn cut(&mut self, len: u64) -> io::Result<()> {
        self.file.set_len(len)?;
        self.file.seek(SeekFrom::Start(len)).map(|_| ())
    }

    /// The file beside it takes its name: whoever is killed, one of them is there.
    fn rewrite(&mut self, pieces: &[KeepSource<'_>]) -> io::Result<()> {
        let (beside, new) = self.create_beside()?;
        let copied = self.copy(new, pieces);
        let renamed = copied.and_then(|new| fs::rename(&beside, &self.path).map(|()| new));
        match renamed {
            Ok(new) => {
                (self.file, self.is_other) = (new, true);
                Ok(())
            }
            Err(error) => {
                let _ = fs::remove_file(&beside);
                Err(error)
            }
        }
    }
}

impl Kept {
    /// A file beside it, with a name that nobody has.
    fn create_beside(&self) -> io::Result<(PathBuf, File)> {
        let mut number = 0;
        loop {
            let mut name = self.path.clone().into_os_string();
            name.push(format!(".{}", u64::from(std::process::id()) + number));
            let beside = PathBuf::from(name);
            let mut options = File::options();
            match options
                .read(true)
                .write(true)
                .create_new(true)
                .open(&beside)
            {
                Ok(file) => return Ok((beside, file)),
                // Left by somebody who was killed.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(error),
            }
        }
    }

    fn copy(&self, mut new: File, pieces: &[KeepSource<'_>]) -> io::Result<File> {
        new.set_permissions(self.file.metadata()?.permissions())?;
        // Its name may be another file's by now.
        let mut old = File::open(format!("/proc/self/fd/{}", self.file.as_raw_fd()))?;
        for piece in pieces {
            match piece {
                KeepSource::New(bytes) => new.write_all(bytes)?,
                KeepSource::Old(range) => {
                    old.seek(SeekFrom::Start(range.start))?;
                    let len = range.end - range.start;
                    if io::copy(&mut (&mut old).take(len), &mut new)? < len {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
            }
        }
        Ok(new)
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
    /// Runs the program; of its trace no more than `most` is kept.
    pub fn trace(self, most: Most) -> Result<Ending> {
        let images = Arc::new(Images::new());
        let request = self.request()?;
        selection::verify(&images, &self.selector, &request.program)?;
        let path = self.destination.output.as_deref();
        let path = path.expect("a trace always has a file");
        let refused = |error: &str| anyhow!("{error}; nothing was run");
        let output = Output::prepare(path, Kind::Recording);
        let output = output.map_err(|error| refused(&error.to_string()))?;
        let meta = self.meta_before(SystemTime::now());
        let live = begin(&output, &meta, most)?;
        let mut drain = Drain {
            live: live.map_err(|error| refused(&mid_sentence(&error.to_string())))?,
            output,
            unnamed: None,
            is_running: false,
        };
        let mut tables = Selected::new(&images, &self.selector, &request.program);
        let run = launch::run(&request, &mut tables, Some(&mut drain))?;
        drain.begin();
        let progress = Progress::new(self.destination.quiet);
        let meta = Meta {
            duration_ns: u64::try_from(run.duration.as_nanos()).unwrap_or(u64::MAX),
            end: session::end_of(run.ended),
            ..meta
        };
        let mut recording = drain.live.settle(&run.pool.view(), meta);
        if let Some(ticks) = run.ticks_per_second {
            recording.set_ticks_per_second(ticks);
        }
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

/// The file's beginning.
fn begin(output: &Output, meta: &Meta, most: Most) -> Result<Result<Live<Kept>, WriteError>> {
    let file = output.file().map_err(WriteError::from);
    if let (Most::Newest(_), Ok(file)) = (most, &file)
        && !file.metadata().is_ok_and(|metadata| metadata.is_file())
    {
        let shown = output.path().display();
        bail!("--ring needs a file, and '{shown}' is none; nothing was run");
    }
    let kept = |file| Kept {
        file,
        path: output.path().to_owned(),
        is_other: false,
    };
    Ok(file.and_then(|file| Live::new(kept(file), meta, most)))
}
