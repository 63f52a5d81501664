//! Eviction: which part of the cache is given up, when, and when its memory is
//! used again.
//!
//! Problem: most code of a large program runs once, and a translated block costs
//! ten times its program bytes. Approach: segments are filled one after the
//! other, and beyond a [budget](Engine::is_over_budget) the oldest is evicted: its
//! blocks are severed, and come back by translation if they are needed. When
//! much of what is translated was evicted before, the program's working set is
//! larger than the budget, and the cache grows instead (as DynamoRIO's does).
//!
//! A segment's memory is written again when no thread can be in it. Each other
//! thread either
//!
//! - has been in the engine since the eviction (`ThreadContext::epoch`), or
//! - is in a system call of another segment (`ThreadContext::waits_in`), and the
//!   eviction was over when the last segment was begun. When such a thread wakes,
//!   it goes on in its own segment, whose branches to the evicted one were
//!   redirected then. The time between that and the look at its word, a segment's
//!   translation and in chaos a block's, stands for the barrier that its code does
//!   not have: what it fetched before is long executed.

use core::sync::atomic::Ordering;

use agent::thread::ThreadContext;
use wire::stat;

use crate::block::{BlockId, Exit, ExitId, NO_BLOCK, NO_EXIT, Pad, Seen};
use crate::engine::Engine;

/// Limit of the cache and of what is remembered of it: a constant part (of the 24 MB
/// that the engine is allowed, 8 are for everything else), and a part per byte of program
/// code that ran.
const BUDGET: u64 = 16 << 20;
const BUDGET_PER_BYTE: u64 = 5;
/// Part of a segment's program code that may have been evicted before.
const COMES_BACK: (u64, u64) = (2, 3);

/// Figures that decide whether the cache grows.
#[derive(Debug, Default)]
pub struct Evictions {
    /// Addresses of blocks that were evicted; made with the first of them.
    gone: Option<Seen<{ 1 << 22 }>>,
    /// Program bytes translated when the current segment was begun, and those of
    /// them translated again.
    begun: (u64, u64),
    layouts: Layouts,
}

/// When everything was translated anew.
#[derive(Debug, Default)]
struct Layouts {
    /// Blocks translated, when the first were, and after how long everything was
    /// last translated anew; nanoseconds.
    asked: u64,
    began: u64,
    last: u64,
    stopped: bool,
}

impl Evictions {
    /// `steady`: code is never laid out anew by the clock.
    pub fn new(steady: bool) -> Evictions {
        let layouts = Layouts {
            stopped: steady,
            ..Layouts::default()
        };
        Evictions {
            layouts,
            ..Evictions::default()
        }
    }
}

/// Sizes are said for one block in so many.
const GAUGES: u64 = 64;
/// The clock is read for one block in so many.
const ASKS_CLOCK: u64 = 16;
/// Time after which everything is translated anew: at least, and per block that
/// was translated, which takes a seventh of it.
const FIRST_LAYOUT_NS: u64 = 100_000_000;
const BLOCK_NS: u64 = 10_000;

/// Addresses a few megabytes apart are not to meet in `gone`.
fn spread(pc: u64) -> u64 {
    pc.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32
}

impl Engine {
    /// Room for one more block in the current segment, evicting if need be.
    pub fn make_room(&mut self) {
        // For a process that is killed, which says nothing at its end.
        let blocks = self.stat(stat::BLOCKS).load(Ordering::Relaxed);
        if blocks.is_multiple_of(GAUGES) {
            self.publish_gauges(crate::start::heap_bytes());
        }
        if self.settings.chaos != 0 && self.roll().is_multiple_of(512) {
            let old = self.cache.current;
            self.next_segment();
            if self.roll().is_multiple_of(2) {
                self.evict(old);
            }
        }
        if self.is_time_to_lay_out() {
            self.lay_out_anew();
        }
        if self.cache.is_full() {
            self.next_segment();
        }
    }

    /// Whether what was translated so far is to be translated anew, in the order
    /// in which it is needed now. That costs a part of the time that translation
    /// took so far, and that is a seventh of the time that must have passed; and then each
    /// time four times as much.
    fn is_time_to_lay_out(&mut self) -> bool {
        if self.settings.chaos != 0 {
            return self.roll().is_multiple_of(4096);
        }
        let layouts = &mut self.evictions.layouts;
        layouts.asked += 1;
        if layouts.stopped || !layouts.asked.is_multiple_of(ASKS_CLOCK) {
            return false;
        }
        let now = sys::monotonic_ns();
        if layouts.began == 0 {
            layouts.began = now;
        }
        let passed = now.saturating_sub(layouts.began);
        let wait = if layouts.last == 0 {
            FIRST_LAYOUT_NS.max(layouts.asked * BLOCK_NS)
        } else {
            4 * layouts.last
        };
        if passed < wait {
            return false;
        }
        layouts.last = passed;
        true
    }

    /// A forked child has its own time.
    pub fn forget_layouts(&mut self) {
        self.evictions.layouts = Layouts {
            stopped: self.evictions.layouts.stopped,
            ..Layouts::default()
        };
    }

    /// The program filters its calls: one for the clock may be its last.
    pub fn stop_layouts(&mut self) {
        self.evictions.layouts.stopped = true;
    }

    /// Evicts everything. What comes back is what runs, block by block in the order
    /// of that, with landing pads where they are needed; what only began the program
    /// lies between it no more.
    fn lay_out_anew(&mut self) {
        let Some(clean) = self.cache.clean() else {
            return;
        };
        self.mark_targets();
        self.cache.switch(clean);
        for index in (0..self.cache.segments.len()).filter(|&index| index != clean) {
            self.abandon(index);
        }
        self.evictions.begun = self.translated();
    }

    /// Notes that `len` bytes of the program were translated from `pc` on.
    pub fn note_translated(&mut self, pc: u64, len: u64) {
        self.add(stat::APP_BYTES_TRANSLATED, len);
        let gone = &self.evictions.gone;
        if gone
            .as_ref()
            .is_some_and(|gone| gone.may_contain(spread(pc)))
        {
            self.add(stat::APP_BYTES_AGAIN, len);
        }
    }

    /// Program bytes translated, and those of them that had been evicted.
    fn translated(&self) -> (u64, u64) {
        let read = |index| self.stat(index).load(Ordering::Relaxed);
        (
            read(stat::APP_BYTES_TRANSLATED),
            read(stat::APP_BYTES_AGAIN),
        )
    }

    /// Whether another segment, full, is more than the engine may have. Nothing of
    /// what a tool keeps would be freed by eviction, so it does not count.
    fn is_over_budget(&self) -> bool {
        let (all, again) = self.translated();
        let used = self.cache.touched() + self.metadata_bytes();
        let full = (self.cache.touched_segments() as u64).max(1);
        let more = used + used / full;
        more > BUDGET + BUDGET_PER_BYTE * (all - again)
    }

    /// Whether two thirds of what the current segment holds were translated before.
    fn is_working_set(&self) -> bool {
        let ((all, again), (all_then, again_then)) = (self.translated(), self.evictions.begun);
        let (part, whole) = COMES_BACK;
        (again - again_then) * whole >= (all - all_then) * part
    }

    /// Makes another segment current.
    pub fn next_segment(&mut self) {
        let settled = self.epoch;
        let evicts = self.is_over_budget() && !self.is_working_set()
            || self.settings.chaos != 0 && self.roll().is_multiple_of(2);
        let clean = self.cache.clean();
        // One is taken now, and one ahead gives threads time to leave it.
        if (clean.is_none() || evicts) && self.left(settled).count() < 2 {
            self.evict_oldest();
        }
        let ready = self.left(settled).next();
        match (ready, clean) {
            (Some(index), _) => {
                self.recycle(index);
                self.cache.switch(index);
            }
            (None, Some(index)) => self.cache.switch(index),
            // Some thread may still be in every one of them: take new memory.
            (None, None) => self.cache.grow(),
        }
        self.evictions.begun = self.translated();
    }

    /// Evicts the oldest segment, in chaos any.
    fn evict_oldest(&mut self) {
        let segments = &self.cache.segments;
        let mut whole: alloc::vec::Vec<usize> = (0..segments.len())
            .filter(|&index| index != self.cache.current)
            .filter(|&index| segments[index].evicted_at == 0 && !segments[index].blocks.is_empty())
            .collect();
        whole.sort_unstable_by_key(|&index| segments[index].begun);
        let random = match self.settings.chaos {
            0 => 0,
            _ => self.roll() as usize % whole.len().max(1),
        };
        if let Some(&victim) = whole.get(random) {
            self.evict(victim);
        }
    }

    /// Evicted segments whose memory can be written again.
    fn left(&self, settled: u64) -> impl Iterator<Item = usize> {
        (0..self.cache.segments.len()).filter(move |&index| self.is_left(index, settled))
    }

    /// Whether no other thread can be in an evicted segment.
    fn is_left(&self, index: usize, settled: u64) -> bool {
        let evicted_at = self.cache.segments[index].evicted_at;
        let caller = agent::thread::current();
        evicted_at != 0
            && self.threads.iter().all(|&context| {
                // SAFETY: the list holds contexts of live threads, under the
                // lock; the words are only compared.
                let (epoch, waits_in) = unsafe {
                    (
                        core::ptr::read_volatile(&raw const (*context).epoch),
                        core::ptr::read_volatile(&raw const (*context).waits_in),
                    )
                };
                let waits = waits_in != 0 && waits_in as usize != index + 1;
                context == caller || epoch >= evicted_at || waits && evicted_at <= settled
            })
    }

    /// Severs the blocks of a segment. `false`: there are none.
    fn abandon(&mut self, index: usize) -> bool {
        let segment = &self.cache.segments[index];
        if segment.evicted_at != 0 || segment.blocks.is_empty() {
            return false;
        }
        self.epoch += 1;
        self.cache.segments[index].evicted_at = self.epoch;
        let blocks: alloc::vec::Vec<u32> = self.cache.segments[index]
            .blocks
            .iter()
            .map(|&(_, block)| block)
            .collect();
        for id in blocks.into_iter().map(BlockId) {
            let block = self.block(id);
            let (pc, dead) = (block.key().pc, block.dead);
            if !dead {
                self.evictions.gone.get_or_insert_default().add(spread(pc));
            }
            self.sever(id);
        }
        self.count(stat::FLUSHES);
        true
    }

    fn evict(&mut self, index: usize) {
        if !self.abandon(index) {
            return;
        }
        // Chains, and pads made late, may lie here for blocks elsewhere. A chain
        // jumps to the pads of its members from wherever it lies.
        let range = self.cache.range(index);
        self.cut_chains_through(&range);
        let lies_here = |pad: Option<Pad>| pad.is_some_and(|pad| range.contains(&pad.start));
        let late: alloc::vec::Vec<(BlockId, bool)> = self
            .blocks
            .iter()
            .enumerate()
            .flat_map(|(id, block)| [(id, block, false), (id, block, true)])
            .filter(|&(_, block, call)| lies_here(block.pad(call)))
            .map(|(id, _, call)| (BlockId(id as u32), call))
            .collect();
        for (id, call) in late {
            self.unpublish_indirect(id);
            self.block(id).forget_pad(call);
        }
    }

    /// The segment's memory will be written again, and the ids of its blocks
    /// and exits used again. Nothing refers to them after this: keys, tables
    /// and chains lost them when they were severed; lists of incoming exits and
    /// of the blocks on a page are swept here. The sweep costs a constant per
    /// translated block: it looks at what all segments hold, once per segment.
    fn recycle(&mut self, index: usize) {
        let (arena, range) = (self.cache.arena(), self.cache.range(index));
        let segment = &self.cache.segments[index];
        let gone: alloc::vec::Vec<BlockId> = segment
            .blocks
            .iter()
            .map(|&(_, block)| BlockId(block))
            .collect();
        for &id in &gone {
            self.block(id).host = 0;
        }
        for block in self.blocks.iter_mut().filter(|block| !block.dead) {
            let mut kept = NO_EXIT;
            let mut at = core::mem::replace(&mut block.incoming, NO_EXIT);
            while at != NO_EXIT {
                let exit = &mut self.exits[at as usize];
                let next = exit.next_incoming;
                if !range.contains(&exit.site(arena)) {
                    exit.next_incoming = kept;
                    kept = at;
                }
                at = next;
            }
            block.incoming = kept;
        }
        for (id, exit) in self.exits.iter_mut().enumerate() {
            if exit.block != NO_BLOCK && range.contains(&exit.site(arena)) {
                *exit = Exit::FREE;
                self.free_exits.push(ExitId(id as u32));
            }
        }
        let blocks = &self.blocks;
        self.pages.retain(|_, ids| {
            ids.retain(|id| !blocks[id.0 as usize].dead);
            !ids.is_empty()
        });
        self.free_blocks.extend(gone);
        self.recycled += 1;
        self.cache.reset(index);
    }

    /// The thread is in the engine: whatever was evicted before, it has left.
    pub fn arrive(&self, context: &mut ThreadContext) {
        // SAFETY: the calling thread's own words; volatile because other threads
        // compare them.
        unsafe {
            core::ptr::write_volatile(&raw mut context.epoch, self.epoch);
            core::ptr::write_volatile(&raw mut context.waits_in, 0);
        }
    }

    /// The thread is in a system call that may last, and then goes on in `block`
    /// or by way of [`Engine::arrive`].
    pub fn waits(&self, context: &mut ThreadContext, block: BlockId) {
        let segment = u32::from(self.blocks[block.0 as usize].segment);
        // SAFETY: as above.
        unsafe { core::ptr::write_volatile(&raw mut context.waits_in, segment + 1) };
    }
}
