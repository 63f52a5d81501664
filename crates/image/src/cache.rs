//! One [`Image`] per file on disk.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::ImageError;
use crate::image::Image;

/// What makes two openings of a path the same file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    path: PathBuf,
    dev: u64,
    ino: u64,
    mtime: (i64, i64),
    size: u64,
}

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

    pub fn open(&self, path: impl AsRef<Path>) -> Result<Arc<Image>, ImageError> {
        let path = path.as_ref();
        let meta = fs::metadata(path).map_err(|source| ImageError::Unreadable {
            path: path.to_owned(),
            source,
        })?;
        let key = Key {
            path: path.to_owned(),
            dev: meta.dev(),
            ino: meta.ino(),
            mtime: (meta.mtime(), meta.mtime_nsec()),
            size: meta.size(),
        };
        // Not under the lock of all: reading a large file must not stop those
        // who want another one.
        let slot = Arc::clone(lock(&self.known).entry(key).or_default());
        let mut slot = lock(&slot);
        if let Some(image) = &*slot {
            return Ok(Arc::clone(image));
        }
        let image = Arc::new(Image::open(path)?);
        *slot = Some(Arc::clone(&image));
        Ok(image)
    }
}

/// Nothing here is left half done by a panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
