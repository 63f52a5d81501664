//! How quickly parts have to be packed: programs wait for who takes their chunks.

use std::sync::atomic::Ordering::Relaxed;

use wire::view::Pool;

use super::super::sink::Keep;
use super::Live;

impl<W: Keep> Live<W> {
    /// Packs as quickly as there is need.
    pub(super) fn hurry(&mut self, pool: &Pool) {
        if let Err(error) = self.packer.hurry(haste(pool)) {
            self.sink.fail(error.into());
        }
    }
}

/// How much of the room for chunks that are not read is taken: 0 if little is, 2 if most is.
fn haste(pool: &Pool) -> usize {
    let header = pool.header();
    let waiting = header.chunks.waiting.load(Relaxed);
    let most = header.config.max_chunks.load(Relaxed);
    [most / 8, most / 2]
        .iter()
        .filter(|&&some| waiting > some)
        .count()
}
