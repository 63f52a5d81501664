//! Files that results go to: refused before the run if they cannot be written,
//! and never the reason why something recorded is lost.
//!
//! A regular file is written beside its final name and renamed when it is
//! complete, so an older file of that name survives until then. Before the run
//! some of its space is really written, because a full disk says so only then.
//! If the write fails after the run, the same data goes to a file in the
//! temporary folder instead, and the message says where.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Seek, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};

/// What is written.
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

    /// Writes with `write` what can be written again; if that fails, the file is
    /// as it was.
    pub fn replace<E: std::fmt::Display>(
        mut self,
        write: impl Fn(&mut dyn Write) -> Result<(), E>,
    ) -> Result<()> {
        let written = self.try_save(&write);
        written.map_err(|failure| anyhow!("cannot write '{}': {failure}", self.path.display()))
    }

    /// Writes with `write`, and keeps the data elsewhere if that fails.
    pub fn save<E: std::fmt::Display>(
        mut self,
        write: impl Fn(&mut dyn Write) -> Result<(), E>,
    ) -> Result<()> {
        let Err(failure) = self.try_save(&write) else {
            return Ok(());
        };
        let shown = self.path.display();
        let name = self
            .path
            .file_name()
            .unwrap_or_else(|| "recording".as_ref());
        let elsewhere = unused(&std::env::temp_dir().join(name));
        let saved = File::create_new(&elsewhere)
            .map_err(|error| reason(&error))
            .and_then(|file| write_all(file, self.kind, &write));
        Err(match saved {
            Ok(()) => anyhow!(
                "cannot write '{shown}': {failure}; what was recorded is in '{}'",
                elsewhere.display()
            ),
            Err(second) => anyhow!(
                "cannot write '{shown}': {failure}; nor '{}': {second}; \
                what was recorded is lost",
                elsewhere.display()
            ),
        })
    }

    fn try_save<E: std::fmt::Display>(
        &mut self,
        write: &impl Fn(&mut dyn Write) -> Result<(), E>,
    ) -> Result<(), String> {
        let file = self.file.try_clone().map_err(|error| reason(&error))?;
        write_all(file, self.kind, write)?;
        if let Some(temporary) = &self.temporary {
            fs::rename(temporary, &self.path).map_err(|error| reason(&error))?;
            self.temporary = None;
        }
        Ok(())
    }
}

/// What was never completed leaves no file behind.
impl Drop for Output {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // Nothing can be done about a file that cannot be removed, and the
            // run must not fail for it.
            let _ = fs::remove_file(temporary);
        }
    }
}

/// What the system says, without its error number, for the middle of a sentence.
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

fn write_all<E: std::fmt::Display>(
    file: File,
    kind: Kind,
    write: &impl Fn(&mut dyn Write) -> Result<(), E>,
) -> Result<(), String> {
    let mut buffered = BufWriter::with_capacity(1 << 18, file);
    write(&mut buffered).map_err(|error| mid_sentence(&error.to_string()))?;
    let file = buffered
        .into_inner()
        .map_err(|error| reason(error.error()))?;
    match kind.sync(&file) {
        Ok(()) => Ok(()),
        // Pipes and devices cannot be synchronized and need not be.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        Err(error) => Err(reason(&error)),
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
