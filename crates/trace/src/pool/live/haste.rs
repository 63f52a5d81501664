//! The speed at which parts have to be packed: programs wait for who takes their chunks.

use std::mem;
use std::sync::atomic::Ordering::Relaxed;

use wire::stream::{BEGIN, END};
use wire::view::Pool;

use super::super::sink::Keep;
use super::Live;
use crate::part::PART;

/// Chunks that are read of one stream before anything is written, while the program runs.
const AT_ONCE: usize = 64;

impl<W: Keep> Live<W> {
    /// Reads and frees closed chunks of a stream, and packs them. Whether there was one, and
    /// whether the open one is next.
    pub(super) fn take_closed(&mut self, pool: &Pool, at: usize) -> (bool, bool) {
        let chain = &mut self.threads[at].chain;
        if chain.raw.is_empty() {
            chain.raw = self.spare.pop().unwrap_or_default();
        }
        let at_once = self.at_once(pool);
        let (mut taken, mut has_room) = (0, self.has_room());
        while has_room && taken < at_once && self.threads[at].chain.take_closed(pool) {
            taken += 1;
            if self.threads[at].chain.raw.len() + (END - BEGIN) as usize > PART {
                self.hurry(pool);
                self.pack(at);
            }
            has_room = self.has_room();
        }
        let chain = &mut self.threads[at].chain;
        if chain.raw.is_empty() {
            self.spare.push(mem::take(&mut chain.raw));
        }
        (taken > 0, has_room && taken < at_once)
    }

    /// Chunks of a stream that are read before anything is written. Parts are written now and
    /// then also if the thread writes all the time; but what is read last is read to its end, and
    /// if only the beginning is kept, all lanes come equally far.
    fn at_once(&self, pool: &Pool) -> usize {
        match self.settles || self.is_cut {
            true => (pool.header().config.max_chunks.load(Relaxed) as usize).max(AT_ONCE),
            false => AT_ONCE,
        }
    }

    /// Packs as quickly as there is need.
    fn hurry(&mut self, pool: &Pool) {
        self.haste = haste(pool);
        if let Err(error) = self.packer.hurry(self.haste) {
            self.sink.fail(error.into());
        }
    }
}

/// Share of the room for chunks that is taken by those not read yet: 0 if little is, 2 if most is.
fn haste(pool: &Pool) -> usize {
    let header = pool.header();
    let waiting = header.chunks.waiting.load(Relaxed);
    let most = header.config.max_chunks.load(Relaxed);
    [most / 8, most / 2]
        .iter()
        .filter(|&&some| waiting > some)
        .count()
}
