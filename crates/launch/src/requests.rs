//! Answers the engine: which functions are in a file that was just mapped.
//!
//! Tables lie in the pool, in a list that the engine looks through first. If it
//! finds none there, it increments the doorbell and waits on its process record;
//! the question is the newest `Map` record of its log.
//!
//! Between questions the tables of the files that a program starts with are
//! made, so that it finds them.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use rustix::thread::futex;
use wire::log::{Kind, LogChunk, Map, Record};
use wire::view::Pool;
use wire::{FileId, FuncEntry, FuncTable, ProcessRecord};

use crate::Tables;

/// Serves until `done`.
pub(crate) fn serve(pool: Pool, tables: &mut (dyn Tables + Send), done: &AtomicBool) {
    let mut known = HashMap::new();
    while !done.load(Acquire) {
        let bell = pool.header().doorbell.load(Acquire);
        answer_all(&pool, tables, &mut known);
        // The answers to come are made here and not by a thread beside it: where
        // that one runs, the scheduler would put the program when it is woken.
        match tables.expected() {
            Some(path) => {
                let key = (path.clone(), id_of(&path));
                table_for(&pool, tables, &mut known, key, &path);
            }
            None => {
                let _ = futex::wait(&pool.header().doorbell, futex::Flags::empty(), bell, None);
            }
        }
    }
}

/// Wakes the server.
pub(crate) fn ring(pool: &Pool) {
    pool.header().doorbell.fetch_add(1, Release);
    let _ = futex::wake(&pool.header().doorbell, futex::Flags::empty(), 1);
}

fn answer_all(pool: &Pool, tables: &mut (dyn Tables + Send), known: &mut Known) {
    let mut at = pool.header().processes.load(Acquire);
    // A chain longer than this is damaged.
    for _ in 0..1 << 20 {
        let Some(process) = pool.at::<ProcessRecord>(at).filter(|_| at != 0) else {
            return;
        };
        let asked = process.asked.load(Acquire);
        if asked != process.answered.load(Relaxed) {
            let offset = match asked_file(pool, process) {
                Some((path, file)) => {
                    let root = format!("/proc/{}/root", process.pid.load(Relaxed));
                    match seen_from_here(&path, file, root) {
                        Some(place) => table_for(pool, tables, known, (path, file), &place),
                        None => 0,
                    }
                }
                None => 0,
            };
            process.answer.store(offset, Relaxed);
            process.answered.store(asked, Release);
            let _ = futex::wake(&process.answered, futex::Flags::empty(), 1);
        }
        at = process.next.load(Acquire);
    }
}

/// The file of the newest `Map` record at the time of the question.
fn asked_file(pool: &Pool, process: &ProcessRecord) -> Option<Key> {
    use std::os::unix::ffi::OsStringExt;
    let mut left = process.asked_records.load(Acquire);
    let mut asked = None;
    let mut chunk_at = process.log.load(Acquire);
    while left > 0 {
        let chunk: &LogChunk = pool.at(chunk_at).filter(|_| chunk_at != 0)?;
        let used = u64::from(chunk.used.load(Acquire));
        let start = chunk_at + size_of::<LogChunk>() as u64;
        let mut at = start;
        while at < start + used && left > 0 {
            let record: &Record = pool.at(at)?;
            let (len, kind) = (u64::from(record.len), record.kind);
            if kind == Kind::Map as u16 {
                let fixed = size_of::<Map>() as u64;
                let mut bytes = vec![0u8; len.saturating_sub(fixed).min(4096) as usize];
                let payload = at + size_of::<Record>() as u64;
                pool.read_bytes(payload + fixed, &mut bytes);
                let path = PathBuf::from(OsString::from_vec(bytes));
                asked = Some((path, pool.at::<Map>(payload)?.file));
            }
            at += (size_of::<Record>() as u64 + len).next_multiple_of(8);
            left -= 1;
        }
        chunk_at = chunk.next.load(Acquire);
    }
    asked
}

/// Offsets of the tables that were made, 0 for files without functions.
type Known = HashMap<Key, u64>;
/// A file by the path it was mapped from. Where it is opened is another matter:
/// processes of one other root share its tables.
type Key = (PathBuf, FileId);

fn table_for(
    pool: &Pool,
    tables: &mut (dyn Tables + Send),
    known: &mut Known,
    key: Key,
    place: &Path,
) -> u64 {
    if let Some(&offset) = known.get(&key) {
        return offset;
    }
    let entries = tables.table(place);
    let offset = if entries.is_empty() {
        0
    } else {
        write_table(pool, &entries, &key).unwrap_or(0)
    };
    known.insert(key, offset);
    offset
}

/// Path by which the file that a process mapped can be opened here: its own, or below the
/// root that the process has. `None` if another file is there by now.
fn seen_from_here(path: &Path, file: FileId, root: String) -> Option<PathBuf> {
    if id_of(path) == file {
        return Some(path.to_owned());
    }
    let mut below = OsString::from(root);
    below.push(path);
    let below = PathBuf::from(below);
    (id_of(&below) == file).then_some(below)
}

/// Identity of the file that is at `path` now; the vdso has none.
fn id_of(path: &Path) -> FileId {
    std::fs::metadata(path).map_or(FileId::default(), |meta| {
        let (s, ns) = (meta.ctime() as u64, meta.ctime_nsec() as u64);
        FileId::new(meta.dev(), meta.ino(), s, ns)
    })
}

fn write_table(pool: &Pool, entries: &[FuncEntry], (path, id): &Key) -> Option<u64> {
    let path = path.as_os_str().as_bytes();
    let size = size_of::<FuncTable>() + size_of_val(entries) + path.len();
    let offset = pool.reserve(size as u64)?;
    let mut bytes = Vec::with_capacity(size);
    for entry in entries {
        for word in [entry.start, entry.end, entry.owner, u64::from(entry.flags)] {
            bytes.extend_from_slice(&word.to_ne_bytes());
        }
    }
    bytes.extend_from_slice(path);
    pool.write_bytes(offset + size_of::<FuncTable>() as u64, &bytes);
    let functions = || {
        entries
            .iter()
            .filter(|entry| entry.flags & wire::func::ENTRY != 0)
    };
    let covered = functions().all(|entry| entry.flags & wire::func::SELECTED != 0);
    let table: &FuncTable = pool.at(offset)?;
    let covered = u64::from(covered && functions().next().is_some());
    table.covered.store(covered, Relaxed);
    table.count.store(entries.len() as u64, Relaxed);
    table.dev.store(id.dev, Relaxed);
    table.ino.store(id.ino, Relaxed);
    table.changed.store(id.changed, Relaxed);
    table.path_len.store(path.len() as u64, Relaxed);
    // This thread alone adds to the list.
    let list = &pool.header().tables;
    table.next.store(list.load(Relaxed), Relaxed);
    list.store(offset, Release);
    Some(offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes tables of one entry, and counts them.
    struct Counted(Vec<PathBuf>);

    impl Tables for Counted {
        fn table(&mut self, path: &Path) -> Vec<FuncEntry> {
            self.0.push(path.to_owned());
            vec![FuncEntry {
                start: 0x1000,
                end: 0x1010,
                owner: 0x1000,
                flags: wire::func::ENTRY,
                reserved: 0,
            }]
        }
    }

    #[test]
    fn a_file_has_one_table_wherever_it_is_opened() {
        let owned = crate::OwnedPool::create(wire::Mode::Contexts).unwrap();
        let pool = owned.view();
        pool.header().bump.store(wire::PAGE, Relaxed);
        pool.header().size.store(pool.len(), Relaxed);
        let mut tables = Counted(Vec::new());
        let mut known = Known::new();
        let mut table = |changed, place: &str| {
            let file = FileId {
                dev: 1,
                ino: 2,
                changed,
            };
            let key = (PathBuf::from("/inside"), file);
            table_for(&pool, &mut tables, &mut known, key, Path::new(place))
        };
        let first = table(3, "/there/inside");
        assert_eq!(table(3, "/elsewhere/inside"), first);
        // Other contents are another file.
        let second = table(4, "/somewhere/inside");
        assert_ne!(second, first);
        assert_eq!(tables.0.len(), 2);
        // The engine finds both, by what was mapped.
        assert_eq!(pool.header().tables.load(Relaxed), second);
        let listed: &FuncTable = pool.at(second).unwrap();
        assert_eq!(listed.next.load(Relaxed), first);
        assert_eq!(listed.path_len.load(Relaxed), "/inside".len() as u64);
    }

    #[test]
    fn a_file_is_found_below_the_root_of_its_process() {
        let root = std::env::temp_dir().join(format!("everypath-root-{}", std::process::id()));
        std::fs::create_dir_all(&root).unwrap();
        std::fs::write(root.join("inside"), "one").unwrap();
        let id = id_of(&root.join("inside"));
        let seen = |path: &str, id| {
            let root = root.clone().into_os_string().into_string().unwrap();
            seen_from_here(Path::new(path), id, root)
        };
        assert_eq!(seen("/inside", id), Some(root.join("inside")));
        let here = root.join("inside");
        assert_eq!(seen(here.to_str().unwrap(), id), Some(here));
        // Another file of that name, and none.
        let other = FileId {
            ino: id.ino + 1,
            ..id
        };
        assert_eq!(seen("/inside", other), None);
        assert_eq!(seen("/outside", id), None);
        std::fs::remove_dir_all(&root).unwrap();
    }
}
