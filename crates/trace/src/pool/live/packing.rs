//! Bytes of streams to parts: at once, or by [threads](super::packers) that compress.

use std::mem;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use wire::stream::{ADDRESS_STREAM, is_of_memory};

use super::super::sink::Keep;
use super::packers::{Job, Slot};
use super::{Live, Ready, Writer};
use crate::container::journal::Place;
use crate::model::Missing;
use crate::part::Part;

/// Bytes of a part that another thread is asked to pack.
const WORTH: usize = 64 << 10;

/// A part that is packed, or will be, with what is known of it.
pub(super) struct Coming {
    image: usize,
    place: Place,
    taken_unix_ns: u64,
    packing: Packing,
}

enum Packing {
    Done(Part),
    Asked(Arc<Slot>),
}

impl<W: Keep> Live<W> {
    /// Makes a part of what was read of a thread's stream.
    pub(super) fn pack(&mut self, at: usize) {
        let writer = &mut self.threads[at];
        let chain = &mut writer.chain;
        let raw = mem::take(&mut chain.raw);
        let found = mem::take(&mut chain.keyframes);
        let place = self.images[writer.image].index.zip(writer.thread);
        let Some((process, thread)) = place else {
            return;
        };
        for marked in found {
            let stream = (chain.stream, writer.of_memory);
            let keyframe = self.keyframes.add((process, thread), stream, marked);
            self.found
                .extend(keyframe.map(|keyframe| (process, thread, keyframe)));
        }
        if chain.is_lost {
            self.sink.lost(process, thread, Missing::Memory);
        }
        if raw.is_empty() {
            return;
        }
        if let Some(why) = self.sink.stopped {
            self.sink.lost(process, thread, why);
            if self.follow.is_none() {
                return;
            }
        }
        self.pack_bytes(at, (process, thread), raw);
    }

    /// Packs bytes, or has them packed: they come next in their stream.
    fn pack_bytes(&mut self, at: usize, (process, thread): (usize, usize), raw: Vec<u8>) {
        let Writer { image, chain, .. } = &mut self.threads[at];
        let taken_unix_ns = unix_ns();
        // Words of addresses stay whole.
        let size = match chain.stream {
            ADDRESS_STREAM => self.piece - self.piece % 6,
            _ => self.piece,
        };
        let mut coming = |len: usize, packing| {
            let place = Place {
                process,
                thread,
                sequence: chain.parts,
                before: chain.packed,
            };
            self.ready.push(Coming {
                image: *image,
                place,
                taken_unix_ns,
                packing,
            });
            chain.parts += 1;
            chain.packed += len as u64;
        };
        if is_of_memory(chain.stream) && raw.len() <= size && raw.len() >= WORTH {
            let len = raw.len();
            let slot = self.packers.ask(Job {
                stream: chain.stream,
                raw,
                haste: self.haste,
            });
            coming(len, Packing::Asked(slot));
            chain.raw = self.spare.pop().unwrap_or_default();
            return;
        }
        for piece in raw.chunks(size) {
            match self.packer.pack(Some(chain.stream), piece) {
                Ok(part) => coming(piece.len(), Packing::Done(part)),
                Err(error) => return self.sink.fail(error.into()),
            }
        }
        chain.raw = raw;
        chain.raw.clear();
    }

    /// The parts that are to be written, packed.
    pub(super) fn take_ready(&mut self) -> Vec<Ready> {
        let mut all = Vec::with_capacity(self.ready.len());
        for coming in mem::take(&mut self.ready) {
            let part = match coming.packing {
                Packing::Done(part) => part,
                Packing::Asked(slot) => match self.packers.wait(&slot, &mut self.packer) {
                    Ok((part, room)) => {
                        self.spare.push(room);
                        part
                    }
                    Err(error) => {
                        self.sink.fail(error.into());
                        continue;
                    }
                },
            };
            all.push(Ready {
                image: coming.image,
                place: coming.place,
                part: Part {
                    taken_unix_ns: coming.taken_unix_ns,
                    ..part
                },
            });
        }
        all
    }
}

/// Now.
fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX)
}
