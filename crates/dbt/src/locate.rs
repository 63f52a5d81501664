//! Meaning of a cache address, for a signal handler.

use agent::memory;

use crate::block::BlockId;
use crate::engine;
use crate::pcmap;

#[derive(Clone, Copy, Debug)]
pub enum Where {
    /// About to run a program instruction, with the program's state.
    Boundary(pcmap::Place),
    /// Elsewhere in the cache.
    Inside,
    /// Not in the cache.
    Engine,
}

/// Meaning of a cache address. The engine lock is free for this thread
/// whenever the address is in the cache.
pub fn locate(rip: u64) -> Where {
    match place_of(rip) {
        None => Where::Engine,
        Some(Some(place)) if place.boundary => Where::Boundary(place),
        Some(_) => Where::Inside,
    }
}

/// Outer `None`: not in the cache.
pub fn place_of(rip: u64) -> Option<Option<pcmap::Place>> {
    if !memory::is_ours(rip, rip + 1) || !in_arena(rip) {
        return None;
    }
    engine::with(|engine| {
        if !engine.cache.contains(rip) {
            return None;
        }
        Some(engine.cache.block_at(rip).and_then(|block| {
            let (pc, host) = {
                let block = &engine.blocks[block as usize];
                (block.key().pc, block.host)
            };
            let block = BlockId(block);
            let place = pcmap::find(engine.map_of(block), pc, rip.checked_sub(host)?)?;
            let edge_counters = engine.edge_counters.as_ref();
            Some(pcmap::Place {
                fragment: edge_counters.map_or(0, |edge_counters| edge_counters.fragment_of(block)),
                ..place
            })
        }))
    })
}

/// Cheap test without the lock: engine code is never in the arena, and the gate only near it.
fn in_arena(rip: u64) -> bool {
    crate::start::arena_contains(rip) && !sys::gate::contains(rip)
}
