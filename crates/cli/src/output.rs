//! Files that results go to: refused before the run if they cannot be written,
//! and never the reason why something recorded is lost.
//!
//! A regular file is written beside its final name and renamed when it is
//! complete, so an older file of that name survives until then. Before the run
//! some of its space is really written, because a full disk says so only then.
//! If the write fails after the run, the same data goes to a file in the
//! temporary folder instead, and the message says where. What is not there to be
//! written, as a form of report refuses some recordings, is tried nowhere else:
//! then the recording itself is kept ([`keep`]). A report's file `-` is standard output.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use anyhow::{Result, anyhow};
use trace::{Recording, WriteError};

/// Kind of an output.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// All that is kept of a run: it is on the disk when the command ends, and
    /// that the disk has room for it is made sure of before.
    Recording,
    /// Text, written as other programs write theirs; waiting for a disk would
    /// take longer than a short run.
    Report,
}

impl Kind {
    /// Bytes that must be writable before the run.
    fn probe(self) -> usize {
        match self {
            Kind::Recording => 256 << 10,
            Kind::Report => 4096,
        }
    }

    fn sync(self, file: &File) -> io::Result<()> {
        match self {
            Kind::Recording => file.sync_data(),
            Kind::Report => Ok(()),
        }
    }
}

/// Why what was to be written did not come.
#[derive(Debug)]
pub enum Failure {
    /// Another place may take it.
    Place(String),
    /// It is not there to be written, wherever to.
    Refused(String),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            // Report writers give their refusals of a recording this kind.
            io::ErrorKind::Other => Failure::Refused(mid_sentence(&error.to_string())),
            _ => Failure::Place(reason(&error)),
        }
    }
}

impl From<WriteError> for Failure {
    fn from(error: WriteError) -> Failure {
        let sentence = mid_sentence(&error.to_string());
        match error {
            WriteError::Io(_) => Failure::Place(sentence),
            _ => Failure::Refused(sentence),
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let (Failure::Place(why) | Failure::Refused(why)) = self;
        f.write_str(why)
    }
}

/// Fate of data that is not at its destination.
#[derive(Debug, thiserror::Error)]
pub enum Unsaved {
    /// There was nothing to write.
    #[error("{why}")]
    Refused {
        why: String,
        /// The destination, if that is a file among others.
        path: Option<PathBuf>,
    },
    #[error("cannot write '{}': {why}; what was recorded is in '{}'", path.display(), place.display())]
    Elsewhere {
        path: PathBuf,
        why: String,
        place: PathBuf,
    },
    #[error("cannot write '{}': {why}; nor '{}': {second}", path.display(), place.display())]
    Lost {
        path: PathBuf,
        why: String,
        place: PathBuf,
        second: String,
    },
}

/// A place that was writable before the run.
pub struct Output {
    path: PathBuf,
    /// Set if the data is renamed to `path` when complete.
    temporary: Option<PathBuf>,
    file: File,
    kind: Kind,
}

impl Output {
    /// Opens `path` and makes sure that it takes data.
    pub fn prepare(path: &Path, kind: Kind) -> Result<Output> {
        let refuse =
            |error: io::Error| anyhow!("cannot write '{}': {}", path.display(), reason(&error));
        open(path, kind).and_then(probe).map_err(refuse)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Path of the file that is renamed when it is complete.
    pub fn temporary(&self) -> Option<&Path> {
        self.temporary.as_deref()
    }

    /// Gives the file its name before it is complete: whoever is killed, it stays. What is
    /// written from now on goes to what this gives.
    pub fn publish(&mut self) -> io::Result<()> {
        if let Some(temporary) = &self.temporary {
            fs::rename(temporary, &self.path)?;
            self.temporary = None;
        }
        Ok(())
    }

    /// The file itself.
    pub fn file(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Makes sure that it is on the disk.
    pub fn sync(&self) -> io::Result<()> {
        match self.kind.sync(&self.file) {
            // Pipes and devices cannot be synchronized and need not be.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            done => done,
        }
    }

    /// Writes with `write` what can be written again; if that fails, the file is
    /// as it was.
    pub fn replace<E: Into<Failure>>(
        mut self,
        write: impl Fn(&mut dyn Write) -> Result<(), E>,
    ) -> Result<()> {
        let written = self.try_save(&write);
        written.map_err(|failure| anyhow!("cannot write '{}': {failure}", self.path.display()))
    }

    /// Writes with `write`, and keeps the data elsewhere if that fails.
    pub fn save<E: Into<Failure>>(
        mut self,
        write: impl Fn(&mut dyn Write) -> Result<(), E>,
    ) -> Result<(), Unsaved> {
        let path = self.path.clone();
        let why = match self.try_save(&write) {
            Ok(()) => return Ok(()),
            Err(Failure::Refused(why)) => {
                return Err(Unsaved::Refused {
                    why: format!("cannot write '{}': {why}", path.display()),
                    path: self.temporary.is_some().then_some(path),
                });
            }
            Err(Failure::Place(why)) => why,
        };
        let name = path.file_name().unwrap_or_else(|| "recording".as_ref());
        let place = unused(&std::env::temp_dir().join(name));
        let saved = File::create_new(&place)
            .map_err(Failure::from)
            .and_then(|file| write_all(file, self.kind, &write));
        Err(match saved {
            Ok(()) => Unsaved::Elsewhere { path, why, place },
            Err(second) => Unsaved::Lost {
                path,
                why,
                place,
                second: second.to_string(),
            },
        })
    }

    fn try_save<E: Into<Failure>>(
        &mut self,
        write: &impl Fn(&mut dyn Write) -> Result<(), E>,
    ) -> Result<(), Failure> {
        let file = self.file.try_clone()?;
        write_all(file, self.kind, write)?;
        Ok(self.publish()?)
    }
}

/// Keeps a recording that nobody asked to be kept, as a report of it was refused:
/// beside the report, else in the temporary folder. Gives its path.
pub fn keep(recording: &Recording, report: Option<&Path>) -> Result<PathBuf, String> {
    let beside = report.map(|report| {
        let mut name = report.as_os_str().to_owned();
        name.push(".evp");
        PathBuf::from(name)
    });
    let name = format!("everypath-{}.evp", std::process::id());
    let places = beside
        .into_iter()
        .chain([std::env::temp_dir().join(name)])
        .map(|place| own_or_unused(&place, recording));
    let mut last = String::new();
    for place in places {
        let output = open(&place, Kind::Recording).map_err(Failure::from);
        let written = output
            .and_then(|mut output| output.try_save(&|out: &mut _| trace::write(recording, out)));
        match written {
            Ok(()) => return Ok(place),
            Err(failure) => last = format!("cannot write '{}': {failure}", place.display()),
        }
    }
    Err(last)
}

/// A file that is gone when nobody has it any more, however that comes: it has a name, which
/// begins with `path`, for a moment only.
pub fn nameless(path: &Path) -> io::Result<File> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    loop {
        let mut name = path.to_path_buf().into_os_string();
        name.push(format!(".{}", NUMBER.fetch_add(1, Relaxed)));
        let mut options = File::options();
        match options.read(true).write(true).create_new(true).open(&name) {
            Ok(file) => return fs::remove_file(&name).map(|()| file),
            // Left by somebody who was killed.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

/// Removes an output that was never completed.
impl Drop for Output {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // Nothing can be done about a file that cannot be removed, and the
            // run must not fail for it.
            let _ = fs::remove_file(temporary);
        }
    }
}

/// Message of the system, without its error number, for the middle of a sentence.
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    let end = text.find(" (os error").unwrap_or(text.len());
    mid_sentence(&text[..end])
}

/// A sentence as the end of another one: no capital, no full stop.
pub fn mid_sentence(text: &str) -> String {
    let mut letters = text.strip_suffix('.').unwrap_or(text).chars();
    match letters.next() {
        Some(first) => first.to_lowercase().chain(letters).collect(),
        None => String::new(),
    }
}

fn open(path: &Path, kind: Kind) -> io::Result<Output> {
    if kind == Kind::Report && path == Path::new("-") {
        let file = io::stdout().as_fd().try_clone_to_owned()?;
        return Ok(Output {
            path: path.to_path_buf(),
            temporary: None,
            file: file.into(),
            kind,
        });
    }
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let is_regular = match fs::metadata(&target) {
        Ok(meta) if meta.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
        Ok(meta) => meta.is_file(),
        Err(_) => true,
    };
    if !is_regular {
        let file = OpenOptions::new().write(true).open(&target)?;
        return Ok(Output {
            path: target,
            temporary: None,
            file,
            kind,
        });
    }
    if target.exists() {
        // A read-only file in a writable folder is not to be replaced.
        OpenOptions::new().write(true).open(&target)?;
    }
    let mut name = target
        .file_name()
        .ok_or(io::ErrorKind::InvalidInput)?
        .to_owned();
    name.push(format!(".{}.part", std::process::id()));
    let temporary = target.with_file_name(name);
    let file = File::create(&temporary)?;
    Ok(Output {
        path: target,
        temporary: Some(temporary),
        file,
        kind,
    })
}

/// Writes and takes back some bytes. Devices other than terminals get one byte;
/// pipes and terminals none, because what is written there cannot be taken back.
fn probe(mut output: Output) -> io::Result<Output> {
    if output.temporary.is_some() {
        output.file.write_all(&vec![0; output.kind.probe()])?;
        output.kind.sync(&output.file)?;
        output.file.rewind()?;
        output.file.set_len(0)?;
    } else if output.file.metadata()?.file_type().is_char_device()
        && !io::IsTerminal::is_terminal(&output.file)
    {
        output.file.write_all(&[0])?;
    }
    Ok(output)
}

fn write_all<E: Into<Failure>>(
    file: File,
    kind: Kind,
    write: &impl Fn(&mut dyn Write) -> Result<(), E>,
) -> Result<(), Failure> {
    let mut buffered = BufWriter::with_capacity(1 << 18, file);
    write(&mut buffered).map_err(Into::into)?;
    let file = buffered
        .into_inner()
        .map_err(|error| Failure::from(error.into_error()))?;
    match kind.sync(&file) {
        // Pipes and devices cannot be synchronized and need not be.
        Err(error) if error.kind() != io::ErrorKind::InvalidInput => Err(error.into()),
        _ => Ok(()),
    }
}

/// A path where nothing is, or where a recording of the same command is, which a run before kept: failed
/// runs are not to pile up.
fn own_or_unused(path: &Path, recording: &Recording) -> PathBuf {
    let kept = File::open(path)
        .ok()
        .and_then(|file| trace::read_prefix(file).ok());
    let is_same = kept.is_some_and(|kept| {
        let (before, now) = (&kept.recording.meta, &recording.meta);
        (&before.command, before.mode) == (&now.command, now.mode)
    });
    match is_same {
        true => path.to_path_buf(),
        false => unused(path),
    }
}

/// `path`, or with a number if there is a file of that name.
fn unused(path: &Path) -> PathBuf {
    let numbered = |number: u32| match number {
        0 => path.to_path_buf(),
        _ => {
            let mut name = path.as_os_str().to_owned();
            name.push(format!(".{number}"));
            PathBuf::from(name)
        }
    };
    (0..)
        .map(numbered)
        .find(|path| !path.exists())
        .unwrap_or_else(|| path.to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("everypath-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("the temporary folder is writable");
        folder
    }

    #[test]
    fn a_file_appears_when_it_is_complete_and_not_before() {
        let folder = folder("complete");
        let path = folder.join("a");
        fs::write(&path, "old").unwrap();
        drop(Output::prepare(&path, Kind::Report).unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"old");
        let output = Output::prepare(&path, Kind::Recording).unwrap();
        output.save(|out| out.write_all(b"new")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn data_of_a_failed_write_is_kept_elsewhere() {
        let folder = folder("failed");
        let output = Output::prepare(&folder.join("kept.evp"), Kind::Recording).unwrap();
        // The folder goes away while the program runs.
        fs::remove_dir_all(&folder).unwrap();
        let error = output
            .save(|out| out.write_all(b"data"))
            .unwrap_err()
            .to_string();
        let kept = error.rsplit('\'').nth(1).expect("the message names a file");
        assert!(error.contains("; what was recorded is in '"), "{error}");
        assert_eq!(fs::read(kept).unwrap(), b"data");
        fs::remove_file(kept).unwrap();
    }

    #[test]
    fn reasons_have_no_numbers() {
        assert_eq!(
            reason(&io::Error::from_raw_os_error(28)),
            "no space left on device"
        );
    }
}
