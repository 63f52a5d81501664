//! The engine's heap: size classes over chunks of anonymous memory.
//!
//! Problem: the engine needs `alloc` collections, and there is no libc.
//! Approach: powers of two (and the steps half-way between) from 16 bytes up,
//! one free list each; larger than 256 KB goes to mmap. Freed blocks return to
//! their list; chunks are never returned, the engine's data only grows. A chunk
//! is a huge page where the kernel has one: every program uses most of the first,
//! and 256 small pages take ten times as long to get and to give back.
//!
//! Invariant: used only under the engine lock or before the second thread
//! exists, so the inner spin is never contended across a fork.

use core::alloc::{GlobalAlloc, Layout};
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::lock::Lock;

const CHUNK: u64 = 2 << 20;
/// Bytes of the first chunk that every program uses: the decoder's tables alone are half of them.
const FIRST: u64 = 1 << 20;
const LARGE: usize = 256 << 10;
/// From this size on huge pages are asked for: chunks, and tables in which two of them fit.
const HUGE: u64 = 4 << 20;
const CLASSES: usize = 32;

struct Lists {
    free: [u64; CLASSES],
    next: u64,
    end: u64,
}

/// The allocator; `payload` makes it the global one.
#[expect(missing_debug_implementations, reason = "a unit-like global")]
pub struct Heap {
    lists: Lock<Lists>,
    mapped: AtomicU64,
    /// Memory set aside for when the kernel grants no more mappings.
    reserve: Lock<Range<u64>>,
}

/// Size class of a request and the size it hands out.
const fn class(size: usize) -> (usize, usize) {
    let size = if size < 16 { 16 } else { size };
    let log = (usize::BITS - 1 - (size - 1).leading_zeros()) as usize; // floor(log2(size-1))
    let half = (1 << log) + (1 << log) / 2;
    let base = (log - 3) * 2;
    if size <= half {
        (base, half)
    } else {
        (base + 1, 2 << log)
    }
}

impl Heap {
    #[expect(clippy::new_without_default, reason = "const constructor of a static")]
    pub const fn new() -> Heap {
        Heap {
            lists: Lock::new(Lists {
                free: [0; CLASSES],
                next: 0,
                end: 0,
            }),
            mapped: AtomicU64::new(0),
            reserve: Lock::new(0..0),
        }
    }

    /// Sets memory aside for a program that may use up its address space.
    pub fn keep(&self, len: u64) {
        if !self.reserve.lock().is_empty() {
            return;
        }
        if let Some(start) = crate::memory::map_private(len) {
            *self.reserve.lock() = start..start + len;
        }
    }

    /// A part of the reserve, noted as a mapping of its own: it may be given up
    /// like one.
    fn map_from_reserve(&self, len: u64) -> Option<u64> {
        let mut reserve = self.reserve.lock();
        let (start, end) = (reserve.start, reserve.end);
        if end - start < len {
            return None;
        }
        crate::memory::forget(start, end - start);
        crate::memory::note(start, len);
        if start + len < end {
            crate::memory::note(start + len, end - start - len);
        }
        reserve.start += len;
        self.mapped.fetch_add(len, Ordering::Relaxed);
        Some(start)
    }

    /// Bytes mapped so far.
    pub fn mapped(&self) -> u64 {
        self.mapped.load(Ordering::Relaxed)
    }

    fn map(&self, len: u64) -> Option<u64> {
        let len = len.next_multiple_of(wire::PAGE);
        let addr = match crate::memory::map_private(len) {
            Some(addr) => addr,
            None => return self.map_from_reserve(len),
        };
        if len >= HUGE || len == CHUNK {
            // SAFETY: advice on our own mapping. Large tables are read at
            // random: with small pages every access misses the TLB, too.
            let _ = unsafe { sys::madvise(addr, len, sys::MADV_HUGEPAGE) };
        }
        self.mapped.fetch_add(len, Ordering::Relaxed);
        Some(addr)
    }
}

// SAFETY: both methods take a layout to the same class, and a block is either its
// owner's or in the list of its class; neither unwinds.
unsafe impl GlobalAlloc for Heap {
    // SAFETY: the block comes from fresh anonymous memory or from the free list of its class,
    // so it overlaps no other. It begins at a multiple of 16; for alignments above that the
    // class is a power of two and no less than them, and blocks of such a class begin at
    // multiples of it, up to a page's: nothing of the engine is aligned to more.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let size = layout.size().max(layout.align());
        if size > LARGE {
            return self.map(size as u64).unwrap_or(0) as *mut u8;
        }
        // Half-way classes are not aligned to more than 16.
        let (mut index, mut size) = class(size);
        if layout.align() > 16 && !size.is_power_of_two() {
            (index, size) = class(size + 1);
        }
        let mut lists = self.lists.lock();
        let head = lists.free[index];
        if head != 0 {
            // SAFETY: a free block of ours holds the next one's address.
            lists.free[index] = unsafe { *(head as *const u64) };
            return head as *mut u8;
        }
        let start = lists.next.next_multiple_of(if size.is_power_of_two() {
            size.min(4096) as u64
        } else {
            16
        });
        if lists.next == 0 || start + size as u64 > lists.end {
            let Some(chunk) = self.map(CHUNK) else {
                return core::ptr::null_mut();
            };
            if lists.next == 0 {
                // One call for one fault, or 256. Kernels before 5.14 do not know it.
                // SAFETY: advice on our own mapping.
                let _ = unsafe { sys::madvise(chunk, FIRST, sys::MADV_POPULATE_WRITE) };
            }
            lists.next = chunk + size as u64;
            lists.end = chunk + CHUNK;
            return chunk as *mut u8;
        }
        lists.next = start + size as u64;
        start as *mut u8
    }

    // SAFETY: the caller gives up a block of this layout, so its size says again whether it
    // is a mapping of its own or which list it goes to; the list's link is all that is
    // written to it.
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let size = layout.size().max(layout.align());
        if size > LARGE {
            let len = (size as u64).next_multiple_of(wire::PAGE);
            crate::memory::forget(block as u64, len);
            // SAFETY: the block is a mapping of its own, given up here.
            let _ = unsafe { sys::munmap(block as u64, len) };
            self.mapped.fetch_sub(len, Ordering::Relaxed);
            return;
        }
        let (mut index, size) = class(size);
        if layout.align() > 16 && !size.is_power_of_two() {
            index = class(size + 1).0;
        }
        let mut lists = self.lists.lock();
        // SAFETY: the block is ours again and at least 16 bytes.
        unsafe { *(block as *mut u64) = lists.free[index] };
        lists.free[index] = block as u64;
    }
}
