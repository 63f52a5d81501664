//! Descriptors of files that are shown, so that a text is made anew when it is read again.
//!
//! Problem: the kernel makes the text of such a file whenever it is read from the beginning. Ours
//! is in a memory file, made when the file was opened.
//!
//! Approach: the descriptor and the inode of each memory file are kept here. A read of such a
//! descriptor from offset 0 gets a new text first.
//!
//! Invariant: entries are changed under the engine's lock only. [`may_be`] is read without it.
//!
//! Limits: the newest [`MOST`] files. A descriptor that was duplicated or inherited keeps its
//! text.

use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

use super::{Shown, ShownFile};

const MOST: usize = 16;
const FREE: i32 = -1;

struct Entry {
    fd: AtomicI32,
    inode: AtomicU64,
    /// Place in [`ShownFile::ALL`].
    file: AtomicUsize,
    /// 0: the process's own file.
    task: AtomicU32,
}

static ENTRIES: [Entry; MOST] = [const {
    Entry {
        fd: AtomicI32::new(FREE),
        inode: AtomicU64::new(0),
        file: AtomicUsize::new(0),
        task: AtomicU32::new(0),
    }
}; MOST];
static NEXT: AtomicUsize = AtomicUsize::new(0);
/// A bit for all descriptors that were ever here, modulo 64.
static EVER: AtomicU64 = AtomicU64::new(0);

fn bit(fd: i32) -> u64 {
    1 << (fd & 63)
}

/// Whether a descriptor may be one of those: nearly free, as every read of the program asks.
pub fn may_be(fd: i32) -> bool {
    EVER.load(Relaxed) & bit(fd) != 0
}

/// Remembers the memory file of `shown`, at `fd`.
pub fn add(fd: i32, shown: Shown) {
    let Ok(stat) = sys::fstat(fd) else {
        return;
    };
    let is_same = |entry: &&Entry| entry.fd.load(Relaxed) == fd;
    let oldest = || &ENTRIES[NEXT.fetch_add(1, Relaxed) % MOST];
    let entry = ENTRIES.iter().find(is_same).unwrap_or_else(oldest);
    let is_file = |file: &ShownFile| *file == shown.file;
    let file = ShownFile::ALL.iter().position(is_file).unwrap_or(0);
    entry.inode.store(stat.ino, Relaxed);
    entry.file.store(file, Relaxed);
    entry.task.store(shown.task.unwrap_or(0), Relaxed);
    entry.fd.store(fd, Relaxed);
    EVER.fetch_or(bit(fd), Relaxed);
}

/// Which file `fd` shows. One whose descriptor has become another file's is forgotten.
pub fn find(fd: i32) -> Option<Shown> {
    let mut entries = ENTRIES.iter();
    let entry = entries.find(|entry| entry.fd.load(Relaxed) == fd)?;
    let inode = entry.inode.load(Relaxed);
    if !sys::fstat(fd).is_ok_and(|stat| stat.ino == inode) {
        entry.fd.store(FREE, Relaxed);
        return None;
    }
    let task = entry.task.load(Relaxed);
    Some(Shown {
        file: ShownFile::ALL[entry.file.load(Relaxed) % ShownFile::ALL.len()],
        task: (task != 0).then_some(task),
    })
}

/// A forked child shares the files with its parent, which they are about.
pub fn clear() {
    for entry in &ENTRIES {
        entry.fd.store(FREE, Relaxed);
    }
}
