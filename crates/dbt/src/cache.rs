//! The code cache: one arena of segments, each filled from both ends.
//!
//! ```text
//!  arena: | thunks | segment 0                    | segment 1 | ...
//!                  hot -> blocks      free   <- cold: stubs, literals, late pads
//! ```
//!
//! A segment is evicted as a whole, see `evict.rs`. Its memory is written again
//! only when no thread can still be in it.
//!
//! Invariant: this is the only owner of executable memory; everything that
//! writes to it is a method here.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};

use isa::Asm;

use crate::entry::{Routine, routines};

const HUGE_PAGE: u64 = 2 << 20;
const THUNK: u64 = 16;
const THUNKS: u64 = 4096;
/// Segments of a full arena: 2 MB each.
const SEGMENTS: u64 = 256;
/// Segments of a tiny one.
const FEW_SEGMENTS: u64 = 8;
/// Most bytes of one block: 96 instructions at up to 130 bytes, with room to spare.
const BLOCK_MAX: u64 = 16 << 10;

#[derive(Debug)]
pub struct Segment {
    start: u64,
    end: u64,
    hot: u64,
    cold: u64,
    /// Most bytes it ever had in use.
    most: u64,
    /// The newest jump to the engine that stubs may share; 0: none.
    jump: u64,
    /// Blocks by where their code begins in the segment, ascending.
    pub blocks: Vec<(u32, u32)>,
    /// Their maps, see `pcmap`.
    pub maps: Vec<u8>,
    /// Epoch of the last eviction; 0: never used or clean.
    pub evicted_at: u64,
    /// How many were begun before it.
    pub begun: u64,
}

impl Segment {
    fn new(start: u64, size: u64) -> Segment {
        Segment {
            start,
            end: start + size,
            hot: start,
            cold: start + size,
            most: 0,
            jump: 0,
            blocks: Vec::new(),
            maps: Vec::new(),
            evicted_at: 0,
            begun: 0,
        }
    }

    fn used(&self) -> u64 {
        (self.hot - self.start) + (self.end - self.cold)
    }
}

#[derive(Debug)]
pub struct Cache {
    arena: u64,
    /// Part of the arena that is no segment yet.
    free: core::ops::Range<u64>,
    pub segments: Vec<Segment>,
    pub current: usize,
}

impl Cache {
    /// Lays out `arena`, which is fresh read-write-execute memory of the engine's own.
    /// `tiny` (chaos) uses only a little of it.
    pub fn new(arena: u64, len: u64, tiny: Option<u64>) -> Cache {
        let (count, size) = match tiny {
            Some(size) => (FEW_SEGMENTS, size),
            None => (SEGMENTS, ((len - THUNKS) / SEGMENTS) & !4095),
        };
        let segments = (0..count)
            .map(|i| Segment::new(arena + THUNKS + i * size, size))
            .collect();
        let free = arena + THUNKS + count * size..arena + len;
        // The first segment is filled from both ends: one fault for fifty.
        // SAFETY: advice on the engine's own memory.
        let _ = unsafe { sys::madvise(arena, HUGE_PAGE.min(len), sys::MADV_HUGEPAGE) };
        let mut cache = Cache {
            arena,
            free,
            segments,
            current: 0,
        };
        cache.write_thunks();
        cache
    }

    fn write_thunks(&mut self) {
        for (i, target) in routines().into_iter().enumerate() {
            let at = self.arena + i as u64 * THUNK;
            let mut code = [0u8; THUNK as usize];
            let mut asm = Asm::new(&mut code, at);
            asm.jmp_mem_rip(at + 8);
            code[8..].copy_from_slice(&target.to_le_bytes());
            self.write(at, &code);
        }
    }

    /// Address of the in-reach jump to an engine routine.
    pub fn thunk(&self, routine: Routine) -> u64 {
        self.arena + routine as u64 * THUNK
    }

    fn write(&mut self, at: u64, bytes: &[u8]) {
        // SAFETY: every caller passes an address inside the arena that was
        // allocated from a segment (or is a thunk); the arena is the engine's,
        // and no thread runs these bytes before their address is published.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), at as *mut u8, bytes.len()) };
    }

    /// Free space of the current segment, to assemble a block into. Cold
    /// allocations made meanwhile stay clear of it (`is_full`).
    pub fn open(&mut self) -> (u64, &'static mut [u8]) {
        let segment = &mut self.segments[self.current];
        // Blocks begin at a 16-byte boundary: fetch windows are aligned.
        let start = segment.hot.next_multiple_of(16);
        let room = BLOCK_MAX.min(segment.cold.saturating_sub(start)) as usize;
        // SAFETY: `start..start+room` is free memory of the arena; the engine
        // lock makes us its only user until `close`.
        (start, unsafe {
            core::slice::from_raw_parts_mut(start as *mut u8, room)
        })
    }

    /// Keeps `len` bytes of what `open` gave, as code of `block`.
    pub fn close(&mut self, start: u64, len: usize, block: u32) {
        let segment = &mut self.segments[self.current];
        segment.hot = start + len as u64;
        segment.blocks.push(((start - segment.start) as u32, block));
    }

    /// Puts bytes at the cold end; `None` if the segment is full.
    pub fn cold(&mut self, len: u64, align: u64, fill: impl FnOnce(&mut Asm<'_>)) -> Option<u64> {
        let segment = &mut self.segments[self.current];
        let at = (segment.cold.checked_sub(len)?) & !(align - 1);
        if at < segment.hot + BLOCK_MAX {
            return None;
        }
        segment.cold = at;
        // SAFETY: free memory of the arena until now; the engine lock makes us its only user, and no thread runs these
        // bytes before their address is published.
        let room = unsafe { core::slice::from_raw_parts_mut(at as *mut u8, len as usize) };
        let mut asm = Asm::new(room, at);
        fill(&mut asm);
        assert!(
            !asm.overflowed(),
            "cold code is within reach and has the size asked for"
        );
        Some(at)
    }

    /// A jump to the engine within reach of a short one that ends what is next put
    /// at the cold end (with alignment 1).
    pub fn shared_jump(&self) -> Option<u64> {
        let segment = &self.segments[self.current];
        let is_near = segment.jump != 0 && segment.jump - segment.cold <= i8::MAX as u64;
        is_near.then_some(segment.jump)
    }

    /// From now on others may use the jump at `at`.
    pub fn share_jump(&mut self, at: u64) {
        self.segments[self.current].jump = at;
    }

    /// Start of the arena; offsets in the cache are counted from there.
    pub fn arena(&self) -> u64 {
        self.arena
    }

    /// Stores a displacement so that the branch whose displacement field is at
    /// `site` goes to `target`. One aligned store: other threads may be running it.
    pub fn patch(&self, site: u64, target: u64) {
        let distance = target.wrapping_sub(site + 4) as i64;
        assert!(
            distance == i64::from(distance as i32),
            "the arena is smaller than 2 GB"
        );
        debug_assert!(site & 7 <= 4);
        // SAFETY: `site` is the displacement of a branch emitted by us, within
        // one aligned 8-byte word (`Asm::align_displacement`).
        unsafe { (*(site as *const AtomicU32)).store(distance as u32, Ordering::Release) };
    }

    /// Addresses of a segment.
    pub fn range(&self, index: usize) -> core::ops::Range<u64> {
        self.segments[index].start..self.segments[index].end
    }

    /// Whether the current segment is too full for another block.
    pub fn is_full(&self) -> bool {
        let segment = &self.segments[self.current];
        segment.cold - segment.hot.min(segment.cold) < 4 * BLOCK_MAX
    }

    /// Bytes in use now or before: memory that the process has.
    pub fn touched(&self) -> u64 {
        let most = |segment: &Segment| segment.most.max(segment.used());
        self.segments.iter().map(most).sum()
    }

    /// Segments that have been in use.
    pub fn touched_segments(&self) -> usize {
        let touched = |segment: &&Segment| segment.most.max(segment.used()) != 0;
        self.segments.iter().filter(touched).count()
    }

    /// Bytes of the lists of blocks and their maps.
    pub fn list_bytes(&self) -> u64 {
        let lists = |segment: &Segment| 8 * segment.blocks.capacity() + segment.maps.capacity();
        self.segments.iter().map(lists).sum::<usize>() as u64
    }

    /// A segment that is empty.
    pub fn clean(&self) -> Option<usize> {
        let count = self.segments.len();
        (1..count)
            .map(|step| (self.current + step) % count)
            .find(|&index| {
                let segment = &self.segments[index];
                segment.blocks.is_empty() && segment.evicted_at == 0
            })
    }

    /// Whether `addr` is in a block, a stub or a thunk. From the thunk of a
    /// lookup control may come back without the engine being asked, so a
    /// thread there is not on its way to it.
    pub fn contains(&self, addr: u64) -> bool {
        (self.arena..self.arena + THUNKS).contains(&addr)
            || self
                .segments
                .iter()
                .any(|segment| segment.start <= addr && addr < segment.end)
    }

    /// The block whose code holds `addr` (blocks of evicted segments included).
    pub fn block_at(&self, addr: u64) -> Option<u32> {
        let segment = self
            .segments
            .iter()
            .find(|segment| segment.start <= addr && addr < segment.hot)?;
        let inside = addr - segment.start;
        let after = segment
            .blocks
            .partition_point(|&(start, _)| u64::from(start) <= inside);
        segment.blocks[..after].last().map(|&(_, block)| block)
    }

    /// A new segment outside the arena, when threads may be in every other one.
    pub fn grow(&mut self) {
        let size = self.segments[0].end - self.segments[0].start;
        let start = if self.free.end - self.free.start >= size {
            self.free.start += size;
            self.free.start - size
        } else {
            let prot = sys::PROT_READ | sys::PROT_WRITE | sys::PROT_EXEC;
            let near = |start: &u64| start.abs_diff(self.arena) < 1 << 30;
            agent::memory::map_at(self.arena - size, size, prot, 0)
                .filter(near)
                .expect("there is memory for more code cache when every part of it may be running")
        };
        self.segments.push(Segment::new(start, size));
        self.switch(self.segments.len() - 1);
    }

    /// Goes on in another segment.
    pub fn switch(&mut self, index: usize) {
        let full = &mut self.segments[self.current];
        full.blocks.shrink_to_fit();
        full.maps.shrink_to_fit();
        let begun = full.begun + 1;
        self.segments[index].begun = begun;
        self.current = index;
    }

    /// Makes a segment empty. The caller knows that no thread is in it.
    pub fn reset(&mut self, index: usize) {
        let segment = &mut self.segments[index];
        segment.most = segment.most.max(segment.used());
        segment.hot = segment.start;
        segment.cold = segment.end;
        segment.jump = 0;
        segment.blocks.clear();
        segment.maps.clear();
        segment.evicted_at = 0;
    }
}
