//! One [`Image`] per file on disk.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::ImageError;
use crate::image::Image;
use crate::lossy::on_disk;

/// One state of the file at a path: another file there, or other contents, have
/// another version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Version {
    pub dev: u64,
    pub ino: u64,
    /// Last change of the inode, in nanoseconds since 1970.
    pub changed: u64,
}

impl Version {
    /// Version of the file that is at `path` now.
    pub fn of(path: &Path) -> std::io::Result<Version> {
        Ok(Version::from(&fs::metadata(on_disk(path))?))
    }
}

impl From<&fs::Metadata> for Version {
    fn from(meta: &fs::Metadata) -> Version {
        let seconds = (meta.ctime() as u64).wrapping_mul(1_000_000_000);
        Version {
            dev: meta.dev(),
            ino: meta.ino(),
            changed: seconds.wrapping_add(meta.ctime_nsec() as u64),
        }
    }
}

type Key = (PathBuf, Version);

/// Images already opened. A file that was replaced is opened anew; the old
/// image stays valid for whoever holds it.
#[derive(Debug, Default)]
pub struct Images {
    known: Mutex<HashMap<Key, Slot>>,
}

/// Locked while one thread opens the file and others wait for it. Empty again
/// after that failed: the next one tries too, and gets an error of its own.
type Slot = Arc<Mutex<Option<Arc<Image>>>>;

impl Images {
    pub fn new() -> Images {
        Images::default()
    }

    /// The file as it was in `version`: opened then, here or by another path (it
    /// was mapped under another root), or the same now.
    pub fn open_version(&self, path: &Path, version: Version) -> Option<Arc<Image>> {
        let known: Vec<Slot> = {
            let known = lock(&self.known);
            match known.get(&(path.to_owned(), version)) {
                Some(slot) => vec![Arc::clone(slot)],
                None => known
                    .iter()
                    .filter(|((_, other), _)| *other == version)
                    .map(|(_, slot)| Arc::clone(slot))
                    .collect(),
            }
        };
        if let Some(image) = known.iter().find_map(|slot| lock(slot).clone()) {
            return Some(image);
        }
        let is_there = || Version::of(path).is_ok_and(|now| now == version);
        let image = is_there().then(|| self.open(path).ok()).flatten()?;
        // Nor was it replaced while it was read.
        is_there().then_some(image)
    }

    pub fn open(&self, path: impl AsRef<Path>) -> Result<Arc<Image>, ImageError> {
        let path = path.as_ref();
        let version = Version::of(path).map_err(|source| ImageError::Unreadable {
            path: path.to_owned(),
            source,
        })?;
        let key = (path.to_owned(), version);
        // Not under the lock of all: reading a large file must not stop those
        // who want another one.
        let slot = Arc::clone(lock(&self.known).entry(key).or_default());
        let mut slot = lock(&slot);
        if let Some(image) = &*slot {
            return Ok(Arc::clone(image));
        }
        let image = Arc::new(Image::open(path)?);
        // A file that was replaced while it was read is not cached.
        if Version::of(path).is_ok_and(|now| now == version) {
            *slot = Some(Arc::clone(&image));
        }
        Ok(image)
    }
}

/// Nothing here is left half done by a panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
