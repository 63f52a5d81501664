//! One [`Image`] per file on disk.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

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
    known: Mutex<HashMap<Key, Arc<Image>>>,
}

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
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(image) = known().get(&key) {
            return Ok(Arc::clone(image));
        }
        // Not under the lock: reading a large file must not stop the others.
        let image = Arc::new(Image::open(path)?);
        Ok(Arc::clone(known().entry(key).or_insert(image)))
    }
}
