//! A run whose trace is kept while it runs.
//!
//! Invariants: before the program starts, the file has its beginning, or nothing is run;
//! when it starts, the file has its name. After that nothing that goes wrong with the file
//! changes the run: it is said when the program has ended, whose end wins.
//!
//! A [`Reader`] may follow the trace, or read it when the program has ended. The trace need not be
//! kept then.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Result, anyhow, bail};
use image::Images;
use trace::{KeepSource, Live, Meta, Most, Names, Recording, Thread, WriteError};
use wire::view::Pool;

use crate::controls::Selected;
use crate::exit_status::Ending;
use crate::output::{Kind, Output, mid_sentence, nameless, reason};
use crate::progress::Progress;
use crate::reader::Reader;
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

/// Writer of a trace.
type Keeper = Box<dyn trace::Keep + Send>;

/// Destination of a trace.
enum Place {
    File(Output),
    /// It is read once, when the program has ended.
    Nameless(File),
    /// It is followed, and not kept.
    Nowhere,
}

struct Drain {
    live: Live<Keeper>,
    place: Place,
    /// Why the file has not got its name.
    unnamed: Option<io::Error>,
    is_running: bool,
}

impl launch::Drain for Drain {
    fn drain(&mut self, pool: &Pool) -> bool {
        self.begin();
        self.live.drain(pool)
    }

    fn patience(&self) -> Duration {
        self.live.patience()
    }
}

impl Drain {
    /// The program runs.
    fn begin(&mut self) {
        if !self.is_running {
            self.is_running = true;
            if let Place::File(output) = &mut self.place {
                self.unnamed = output.publish().err();
            }
        }
    }

    /// The end of the trace. Gives a sentence for what went wrong.
    fn finish(&mut self, recording: &Recording) -> Option<String> {
        let finished = self.live.finish(recording);
        let synced = match &self.place {
            Place::File(output) => output.sync(),
            Place::Nameless(_) | Place::Nowhere => Ok(()),
        };
        let failed = finished.err().map(|error| match error {
            WriteError::Io(error) => reason(&error),
            error => mid_sentence(&error.to_string()),
        });
        let why = failed.or(synced.err().map(|error| reason(&error)))?;
        Some(match &self.place {
            Place::File(output) => {
                let shown = output.path().display();
                format!("cannot write '{shown}': {why}; what was recorded before that is in it")
            }
            _ => format!(
                "cannot keep the trace until it is read: {why}; what is made of it ends there"
            ),
        })
    }

    /// The trace that was written.
    fn read(self) -> Result<Recording> {
        let file = match self.place {
            Place::File(output) => File::open(output.path()),
            Place::Nameless(mut file) => file.rewind().map(|()| file),
            Place::Nowhere => Err(io::ErrorKind::NotFound.into()),
        };
        let prefix = trace::read_prefix(file?)?;
        if let Some(loss) = prefix.lost {
            say!("everypath: the trace that is read is not whole. {loss}");
        }
        Ok(prefix.recording)
    }
}

/// A program that was traced.
pub struct Traced {
    pub ending: Ending,
    /// The number of its instructions, if a reader has read them.
    pub insns: Option<u64>,
}

impl Session<'_> {
    /// Runs the program; of its trace no more than `most` is kept.
    pub fn trace(self, most: Most, reader: Option<Reader>) -> Result<Traced> {
        let images = Arc::new(Images::new());
        let request = self.request()?;
        selection::verify(&images, &self.selector, &request.program)?;
        let place = place(self.destination.output.as_deref(), reader.as_ref())?;
        let meta = self.meta_before(SystemTime::now());
        let live = begin(&place, &meta, most)?;
        let live = live.map_err(|error| refused(&mid_sentence(&error.to_string())))?;
        let mut drain = Drain {
            live: live.followed_by(reader.as_ref().and_then(Reader::follow)),
            place,
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
        let mut kept = drain.live.in_file(&recording);
        if let Place::File(_) = drain.place {
            progress.says("looking up names");
            symbolize::symbolize(&mut kept, &images);
        }
        progress.says("writing the end of the trace");
        let failed = drain.finish(&kept);
        drop(progress);
        self.warn(&report::denied::sentences(&recording));
        self.warn(&report::natives::sentences(&recording));
        if !self.destination.quiet {
            say_what_is_left_out(&drain.live);
        }
        if let Some(failed) = failed {
            say!("everypath: {failed}");
        }
        if let (Some(error), Place::File(output)) = (&drain.unnamed, &drain.place) {
            let shown = output.path().display();
            say!("everypath: cannot rename the file of the trace to '{shown}': {error}");
        }
        if let (Place::File(output), None) = (&drain.place, &reader)
            && !self.destination.quiet
        {
            say_what_is_kept(output.path(), most, &recording);
        }
        let insns = reader.and_then(|reader| self.have_read(reader, &recording, drain));
        let ending = Ending::of(run.ended);
        // As in `Session::run`.
        std::mem::forget((run, recording, kept, images));
        Ok(Traced { ending, insns })
    }

    /// Has the trace read; the number of its instructions, if that is known.
    fn have_read(&self, reader: Reader, recording: &Recording, drain: Drain) -> Option<u64> {
        let progress = Progress::new(self.destination.quiet);
        if reader.follow().is_some() {
            return Some(reader.finish(recording, progress));
        }
        match drain.read() {
            Ok(recording) => Some(reader.finish(&recording, progress)),
            Err(error) => {
                drop(progress);
                let error = mid_sentence(&error.to_string());
                say!("everypath: cannot read the trace again: {error}");
                None
            }
        }
    }
}

/// Size of the trace, and commands to read it with.
fn say_what_is_kept(path: &Path, most: Most, recording: &Recording) {
    let threads: Vec<&Thread> = recording
        .processes
        .iter()
        .flat_map(|p| &p.threads)
        .collect();
    let insns = threads.iter().map(|thread| thread.insns);
    let shown = path.display();
    // A pipe has no size.
    let size = fs::metadata(path).map_or(0, |meta| meta.len());
    let kept = match most {
        Most::All => "",
        Most::First(_) => "the first of ",
        Most::Newest(_) => "the newest of ",
    };
    say!(
        "everypath: '{shown}': {}, {kept}{}, {}; everypath dump {shown} --range 1..100 | everypath stats \
         {shown} | everypath report {shown} --as contexts",
        report::size(size),
        report::counted(insns.fold(0, u64::saturating_add), "instruction"),
        report::counted(threads.len() as u64, "thread"),
    );
}

fn say_what_is_left_out(live: &Live<Keeper>) {
    if live.is_at_limit() {
        say!("everypath: the trace ends where --limit was reached");
    }
    match live.names() {
        Names::All => {}
        Names::Functions => say!("everypath: --limit left no room for files and lines of code"),
        Names::None => say!(
            "everypath: --limit left no room for names of functions; the trace shows code by \
             file and offset"
        ),
    }
}

fn refused(error: &str) -> anyhow::Error {
    anyhow!("{error}; nothing was run")
}

fn place(path: Option<&Path>, reader: Option<&Reader>) -> Result<Place> {
    let read_later = reader.filter(|reader| reader.follow().is_none());
    let Some(path) = path else {
        return match read_later {
            None => Ok(Place::Nowhere),
            Some(reader) => {
                let beside = reader.beside();
                let file = nameless(&beside);
                let why =
                    |error| format!("cannot write '{}': {}", beside.display(), reason(&error));
                file.map(Place::Nameless)
                    .map_err(|error| refused(&why(error)))
            }
        };
    };
    let output = Output::prepare(path, Kind::Recording);
    let output = output.map_err(|error| refused(&error.to_string()))?;
    if let Some(reader) = read_later
        && !is_file(&output.file())
    {
        let (shown, option) = (output.path().display(), reader.option());
        bail!("{option} reads the trace again, and '{shown}' is no file; nothing was run");
    }
    Ok(Place::File(output))
}

fn is_file(file: &io::Result<File>) -> bool {
    let metadata = file.as_ref().map(File::metadata);
    metadata.is_ok_and(|metadata| metadata.is_ok_and(|metadata| metadata.is_file()))
}

/// The file's beginning.
fn begin(place: &Place, meta: &Meta, most: Most) -> Result<Result<Live<Keeper>, WriteError>> {
    let (file, path) = match place {
        Place::File(output) => (output.file(), output.path().to_owned()),
        Place::Nameless(file) => (file.try_clone(), PathBuf::new()),
        Place::Nowhere => return Ok(Live::new(Box::new(io::sink()), meta, most)),
    };
    if let (Most::Newest(_), false) = (most, is_file(&file)) {
        let shown = path.display();
        bail!("--ring needs a file, and '{shown}' is none; nothing was run");
    }
    let kept = |file| -> Keeper {
        Box::new(Kept {
            file,
            path,
            is_other: false,
        })
    };
    let file = file.map_err(WriteError::from);
    Ok(file.and_then(|file| Live::new(kept(file), meta, most)))
}
