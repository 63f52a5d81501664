//! Answers the engine: which functions are in a file that was just mapped.
//!
//! The engine increments the doorbell and waits on its process record; the
//! question is the newest `Map` record of its log. The answer is a `FuncTable`
//! in the pool. Tables are kept by path: libraries are mapped again and again.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use rustix::thread::futex;
use wire::log::{Kind, LogChunk, Map, Record};
use wire::view::Pool;
use wire::{FuncEntry, FuncTable, ProcessRecord};

use crate::Tables;

/// Serves until `done`.
pub(crate) fn serve(pool: Pool, tables: &mut (dyn Tables + Send), done: &AtomicBool) {
    let mut known = HashMap::new();
    while !done.load(Acquire) {
        let bell = pool.header().doorbell.load(Acquire);
        answer_all(&pool, tables, &mut known);
        let _ = futex::wait(&pool.header().doorbell, futex::Flags::empty(), bell, None);
    }
}

/// Wakes the server.
pub(crate) fn ring(pool: &Pool) {
    pool.header().doorbell.fetch_add(1, Release);
    let _ = futex::wake(&pool.header().doorbell, futex::Flags::empty(), 1);
}

fn answer_all(pool: &Pool, tables: &mut (dyn Tables + Send), known: &mut HashMap<PathBuf, u64>) {
    let mut at = pool.header().processes.load(Acquire);
    // A chain longer than this is damaged.
    for _ in 0..1 << 20 {
        let Some(process) = pool.at::<ProcessRecord>(at).filter(|_| at != 0) else {
            return;
        };
        let asked = process.asked.load(Acquire);
        if asked != process.answered.load(Relaxed) {
            let offset = match asked_path(pool, process) {
                Some(path) => table_for(pool, tables, known, path),
                None => 0,
            };
            process.answer.store(offset, Relaxed);
            process.answered.store(asked, Release);
            let _ = futex::wake(&process.answered, futex::Flags::empty(), 1);
        }
        at = process.next.load(Acquire);
    }
}

/// Path of the newest `Map` record at the time of the question.
fn asked_path(pool: &Pool, process: &ProcessRecord) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    let mut left = process.asked_records.load(Acquire);
    let mut path = None;
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
                pool.read_bytes(at + size_of::<Record>() as u64 + fixed, &mut bytes);
                path = Some(PathBuf::from(std::ffi::OsString::from_vec(bytes)));
            }
            at += (size_of::<Record>() as u64 + len).next_multiple_of(8);
            left -= 1;
        }
        chunk_at = chunk.next.load(Acquire);
    }
    path
}

fn table_for(
    pool: &Pool,
    tables: &mut (dyn Tables + Send),
    known: &mut HashMap<PathBuf, u64>,
    path: PathBuf,
) -> u64 {
    if let Some(&offset) = known.get(&path) {
        return offset;
    }
    let entries = tables.table(&path);
    let offset = if entries.is_empty() {
        0
    } else {
        write_table(pool, &entries).unwrap_or(0)
    };
    known.insert(path, offset);
    offset
}

fn write_table(pool: &Pool, entries: &[FuncEntry]) -> Option<u64> {
    let size = size_of::<FuncTable>() + size_of_val(entries);
    let offset = pool.reserve(size as u64)?;
    let mut bytes = Vec::with_capacity(size);
    for entry in entries {
        for word in [entry.start, entry.end, entry.owner, u64::from(entry.flags)] {
            bytes.extend_from_slice(&word.to_ne_bytes());
        }
    }
    pool.write_bytes(offset + size_of::<FuncTable>() as u64, &bytes);
    let functions = || {
        entries
            .iter()
            .filter(|entry| entry.flags & wire::func::ENTRY != 0)
    };
    let covered = functions().all(|entry| entry.flags & wire::func::SELECTED != 0);
    let table: &FuncTable = pool.at(offset)?;
    table
        .covered
        .store(u64::from(covered && functions().next().is_some()), Release);
    table.count.store(entries.len() as u64, Release);
    Some(offset)
}
