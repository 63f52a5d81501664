//! Index of a trace: numbers of instructions that were counted once, kept in a file beside the
//! trace, so that the middle of a long trace is waited for once.
//!
//! Problem: where keyframes have no numbers (a ring, an Everypath that was killed, an old trace),
//! the instructions before the N-th are counted, at some 700 million per second and processor.
//!
//! Approach: `FILE.evp.idx` has what was counted, each time up to what was asked for
//! (`trace::write_index`). It appears whole, under its name, or not at all; two that count at
//! once each keep what they have, and the later one stays.
//!
//! Invariants: the trace itself is not touched. A file of that name that is another's, damaged
//! or about another trace changes no result, and what is another's stays. That nothing can be
//! kept is no error.
//!
//! Limits: what is counted of a trace that still grows is of use until it has grown.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use report::steps::View;
use trace::{Identity, ReadError, Recording, WriteError};

use crate::output::{mid_sentence, reason};
use crate::progress::Progress;

/// From so many stretches between keyframes on, what was counted is kept: a second's work of
/// one processor.
const MANY: usize = 16;

/// Finds where a dump begins, with the help of what was counted before, and keeps what is
/// counted now.
pub fn find(recording: &mut Recording, identity: Identity, path: &Path, view: &View) {
    let beside = beside(path);
    let is_free = match &beside {
        Some(beside) => recall(recording, identity, beside),
        None => false,
    };
    let progress = Progress::new(false);
    progress.says("counting up to the first instruction that is shown");
    let counted = view.find(recording);
    drop(progress);
    let Some(beside) = beside.filter(|_| counted >= MANY) else {
        return;
    };
    let shown = beside.display();
    if !is_free {
        say!("everypath: '{shown}' is another file, so what was counted is not kept");
        return;
    }
    match keep(recording, identity, path, &beside) {
        Ok(()) => say!("everypath: what was counted is kept in '{shown}', for next time"),
        Err(WriteError::Io(error)) => {
            let reason = reason(&error);
            say!("everypath: what was counted is not kept in '{shown}': {reason}");
        }
        Err(error) => {
            let error = mid_sentence(&error.to_string());
            say!("everypath: what was counted is not kept in '{shown}': {error}");
        }
    }
}

/// Path of the index; `None`, if the trace is no file.
fn beside(path: &Path) -> Option<PathBuf> {
    let path = fs::canonicalize(path).ok()?;
    let mut name = path.file_name().filter(|_| path.is_file())?.to_owned();
    name.push(".idx");
    Some(path.with_file_name(name))
}

/// Takes over what is known. Whether a new file may take the place of that one.
fn recall(recording: &mut Recording, identity: Identity, beside: &Path) -> bool {
    match fs::symlink_metadata(beside) {
        Err(error) => return error.kind() == io::ErrorKind::NotFound,
        Ok(found) if !found.is_file() => return false,
        Ok(found) if found.len() == 0 => return true,
        Ok(_) => {}
    }
    let Ok(file) = File::open(beside) else {
        return false;
    };
    let read = trace::read_index(recording, identity, file);
    !matches!(read, Err(ReadError::NotARecording | ReadError::Io(_)))
}

/// Writes the index, with the rights of the trace.
fn keep(
    recording: &Recording,
    identity: Identity,
    path: &Path,
    beside: &Path,
) -> Result<(), WriteError> {
    let mut name = beside.as_os_str().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    let temporary = PathBuf::from(name);
    let mut file = File::create_new(&temporary)?;
    let written = trace::write_index(recording, identity, &mut file).and_then(|()| {
        file.set_permissions(fs::metadata(path)?.permissions())?;
        Ok(fs::rename(&temporary, beside)?)
    });
    if written.is_err() {
        // A temporary file that cannot be removed stays; it harms nothing.
        let _ = fs::remove_file(&temporary);
    }
    written
}
