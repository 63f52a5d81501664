//! The engine's state, in one place behind one lock.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};

use agent::lock::Lock;
use agent::syscalls::Process;
use agent::thread::ThreadContext;
use hashbrown::HashMap;
use wire::stat;

use crate::block::{Block, BlockId, BlockMap, Exit, ExitId, Heads, Key, Landing, PcHasher};
use crate::cache::Cache;
use crate::contexts::Contexts;
use crate::edge_counters::EdgeCounters;
use crate::evict::Evictions;
use crate::indirect::{Chains, Tables};
use crate::slab::Slab;
use crate::streams::Streams;

/// Options of the engine.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub count_instructions: bool,
    /// Costs that contexts carry besides calls (`wire::cost`).
    pub costs: u32,
    pub follow: bool,
    /// Measure translation; reads the counter that a program can forbid.
    pub clock: bool,
    pub fsgsbase: bool,
    /// A null selector in gs makes its base 0.
    pub null_clears_base: bool,
    pub bmi2: bool,
    /// The machine has transactions; ours abort at once.
    pub rtm: bool,
    /// Nonzero: chaos.
    pub chaos: u64,
    /// Nonzero: windows of lockstep (`lockstep.rs`), from about every how many exits.
    pub lockstep: u32,
    /// A wrong translation on purpose, see [`wire::flag::MISTRANSLATE`].
    pub mistranslate: bool,
    /// Events that have time stamps ([`wire::stream::order`]).
    pub order: u32,
    /// Memory operands that a trace records.
    pub memory: Option<isa::memory::Selection>,
}

/// Pool and payload paths to hand to a program that is exec'd.
#[derive(Clone, Debug)]
pub struct Heritage {
    pub pool: Vec<u8>,
    pub payload: Vec<u8>,
}

#[derive(Debug)]
pub struct Engine {
    pub process: Process,
    pub settings: Settings,
    pub heritage: Heritage,
    pub cache: Cache,
    pub tables: Tables,
    pub blocks: Slab<Block>,
    pub map: BlockMap,
    /// Loop heads, if they are of interest.
    pub heads: Heads,
    pub exits: Slab<Exit>,
    /// Ids that can be used again: their code is gone.
    pub free_blocks: Vec<BlockId>,
    pub free_exits: Vec<ExitId>,
    /// Segments whose memory, and ids, were given free so far.
    pub recycled: u64,
    pub evictions: Evictions,
    /// Blocks with code from a page, for pages whose bytes may change.
    pub pages: HashMap<u64, Vec<BlockId>, core::hash::BuildHasherDefault<crate::block::PcHasher>>,
    /// Pages made read-only because code was translated from them.
    pub protected: HashMap<u64, (), core::hash::BuildHasherDefault<crate::block::PcHasher>>,
    /// Indirect targets by slot.
    pub chains: Chains,
    /// Length and checksum of the source of blocks that are volatile.
    pub volatiles: HashMap<BlockId, (u32, u64), core::hash::BuildHasherDefault<PcHasher>>,
    /// Stores per page that hit translated code.
    pub thrash: HashMap<u64, u32, core::hash::BuildHasherDefault<crate::block::PcHasher>>,
    /// The program has opened its memory as a file for writing.
    pub memory_opened: bool,
    /// Every system call of the program comes to the engine (`filters`, `streams::shared_budget`).
    pub calls_watched: bool,
    /// A tracer waits for the program: an instruction that traps is for the processor (`detach`).
    pub leaves_at_traps: bool,
    pub contexts: Option<Contexts>,
    pub edge_counters: Option<EdgeCounters>,
    pub streams: Option<Streams>,
    /// Chaos: pseudo-random state.
    pub dice: u64,
    /// Raised by every eviction.
    pub epoch: u64,
    /// Threads that run in the cache, for eviction.
    pub threads: Vec<*mut ThreadContext>,
    pub scratch: Scratch,
}

/// Buffers of the last translation, for the next one, and what is true of this one only.
#[derive(Debug, Default)]
pub struct Scratch {
    pub source: crate::superblock::Superblock,
    pub paths: crate::contexts::Paths,
    pub map: Vec<u8>,
    /// Pages of code that the thread which holds the lock has touched (`presence`).
    pub touched: core::ops::Range<u64>,
}

// SAFETY: the raw pointers are to thread blocks, which are only looked at
// under the lock that holds the engine.
unsafe impl Send for Engine {}

/// The one engine of the process; set by `start`.
pub static ENGINE: Lock<Option<Engine>> = Lock::new(None);

/// Runs `work` with the engine locked.
pub fn with<R>(work: impl FnOnce(&mut Engine) -> R) -> R {
    let mut guard = ENGINE.lock();
    work(
        guard
            .as_mut()
            .expect("start sets the engine before any thread runs"),
    )
}

impl Engine {
    pub fn block(&mut self, id: BlockId) -> &mut Block {
        &mut self.blocks[id.0 as usize]
    }

    pub fn add_block(&mut self, block: Block) -> BlockId {
        if let Some(id) = self.free_blocks.pop() {
            self.blocks[id.0 as usize] = block;
            return id;
        }
        BlockId(self.blocks.push(block) as u32)
    }

    /// An id for an exit that `attach` describes.
    pub fn new_exit(&mut self) -> ExitId {
        self.free_exits
            .pop()
            .unwrap_or_else(|| ExitId(self.exits.push(Exit::FREE) as u32))
    }

    pub fn stat(&self, index: usize) -> &AtomicU64 {
        &self.process.log.process().stats[index]
    }

    /// The time-stamp counter if translation is measured and it may be read, else 0.
    pub fn clock(&self) -> u64 {
        // SAFETY: the running thread's own block.
        let is_forbidden = || unsafe { (*agent::thread::current()).tsc_forbidden != 0 };
        if !self.settings.clock || is_forbidden() {
            return 0;
        }
        // SAFETY: rdtsc reads a counter.
        unsafe { core::arch::x86_64::_rdtsc() }
    }

    pub fn count(&self, index: usize) {
        let counter = self.stat(index);
        counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    pub fn add(&self, index: usize, amount: u64) {
        let counter = self.stat(index);
        counter.store(counter.load(Ordering::Relaxed) + amount, Ordering::Relaxed);
    }

    /// The block for `key`, translated if need be. `pad`: control comes
    /// through a table, so a new block gets its landing pad in line.
    pub fn find(&mut self, key: Key, pad: Option<Landing>) -> BlockId {
        self.process.recognise(key.pc);
        let key = self.canonical(key);
        match self.map.get(key, &self.blocks) {
            Some(id) if self.is_stale(id) => {
                self.sever(id);
                self.translate(key, pad)
            }
            Some(id) => id,
            None => self.translate(key, pad),
        }
    }

    /// Without a tool, and where no function begins, arrivals are all alike.
    pub fn canonical(&self, key: Key) -> Key {
        match &self.contexts {
            Some(contexts) => contexts.canonical(key, &self.process),
            None => self.canonical_in_trace(key),
        }
    }

    /// Map bytes of a block.
    pub fn map_of(&self, id: BlockId) -> &[u8] {
        let block = &self.blocks[id.0 as usize];
        let maps = &self.cache.segments[block.segment as usize].maps;
        &maps[block.map as usize..][..block.map_len as usize]
    }

    /// Bytes of what is remembered of the code in the cache.
    pub fn metadata_bytes(&self) -> u64 {
        let slabs = self.blocks.bytes() + self.exits.bytes();
        let tables = self.map.bytes() + self.chains.bytes();
        (slabs + tables) as u64 + self.cache.list_bytes()
    }

    /// A pseudo-random number for chaos (xorshift64).
    pub fn roll(&mut self) -> u64 {
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        self.dice
    }

    /// Copies gauges to the shared statistics.
    pub fn publish_gauges(&self, heap: u64) {
        self.stat(stat::CACHE_BYTES)
            .store(self.cache.touched(), Ordering::Relaxed);
        self.stat(stat::HEAP_BYTES).store(heap, Ordering::Relaxed);
    }
}
