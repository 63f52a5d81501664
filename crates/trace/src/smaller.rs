//! Streams about memory, compressed once more and better than while the program waited.

use std::num::NonZero;
use std::sync::Mutex;
use std::thread;

use wire::stream::is_of_memory;

use crate::error::ReadError;
use crate::model::Recording;
use crate::part::{Packer, Part};

/// Level of zstd: the next ones take twice as long for a twentieth less.
const LEVEL: i32 = 6;

/// Compresses all parts about memory of a recording again, on all processors.
///
/// # Errors
/// A part cannot be read.
pub fn compress_memory(recording: &mut Recording) -> Result<(), ReadError> {
    let threads = recording
        .processes
        .iter_mut()
        .flat_map(|process| &mut process.threads);
    let parts = threads.flat_map(|thread| &mut thread.stream);
    let parts = parts.filter(|part| is_of_memory(part.stream) && !part.is_lost());
    let parts = Mutex::new(parts);
    let next = || parts.lock().ok().and_then(|mut parts| parts.next());
    let worker = || -> Result<(), ReadError> {
        let mut packer = None;
        while let Some(part) = next() {
            again(&mut packer, part)?;
        }
        Ok(())
    };
    let workers = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(worker)).collect();
        let mut done = workers.into_iter().map(|worker| worker.join());
        done.try_for_each(|done| done.expect("packing gives errors, no panics"))
    })
}

/// Keeps the smaller one.
fn again(packer: &mut Option<Packer>, part: &mut Part) -> Result<(), ReadError> {
    let raw = part.unpack()?;
    let packer = match packer {
        Some(packer) => packer,
        None => packer.insert(Packer::at_level(LEVEL)?),
    };
    let new = packer.pack(Some(part.stream), &raw)?;
    if new.stored_len() < part.stored_len() {
        part.stored = new.stored;
    }
    Ok(())
}
