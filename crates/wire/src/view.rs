//! Reading and allocating in a mapped pool, for both sides.
//!
//! Memory that another process writes is never behind `&` of plain data: every
//! access goes through atomics or volatile reads, and every offset is checked
//! against the mapping before use. A hostile or broken target can make the
//! reader see nonsense, never out of bounds.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::{MAGIC, PAGE, PoolHeader, VERSION};

/// Types that consist of atomics and plain integers only.
///
/// # Safety
/// Every bit pattern must be valid, alignment at most 8, and all mutation of a
/// shared value must go through atomics or happen before it is published.
pub unsafe trait Shared {}
// SAFETY: integers and atomics of integers only, alignment 8.
unsafe impl Shared for PoolHeader {}
// SAFETY: as above.
unsafe impl Shared for crate::ProcessRecord {}
// SAFETY: as above.
unsafe impl Shared for crate::ThreadRecord {}
// SAFETY: as above.
unsafe impl Shared for crate::SavedCounts {}
// SAFETY: as above.
unsafe impl Shared for crate::SavedCount {}
// SAFETY: as above.
unsafe impl Shared for AtomicU64 {}
// SAFETY: as above.
unsafe impl Shared for crate::log::Fragment {}
// SAFETY: as above.
unsafe impl Shared for crate::log::Cut {}
// SAFETY: as above.
unsafe impl Shared for crate::log::Jump {}
// SAFETY: as above.
unsafe impl Shared for crate::log::Block {}
// SAFETY: as above.
unsafe impl Shared for crate::log::Path {}
// SAFETY: as above.
unsafe impl Shared for crate::InsnWords {}
// SAFETY: as above.
unsafe impl Shared for crate::LiveStates {}
// SAFETY: as above.
unsafe impl Shared for crate::NodeChunk {}
// SAFETY: as above.
unsafe impl Shared for crate::FuncTable {}
// SAFETY: as above.
unsafe impl Shared for crate::FuncEntry {}
// SAFETY: as above.
unsafe impl Shared for crate::node::Node {}
// SAFETY: as above.
unsafe impl Shared for crate::log::LogChunk {}
// SAFETY: as above.
unsafe impl Shared for crate::log::Record {}
// SAFETY: as above.
unsafe impl Shared for crate::log::Map {}
// SAFETY: as above.
unsafe impl Shared for crate::log::Unmap {}
// SAFETY: as above.
unsafe impl Shared for crate::log::Func {}
// SAFETY: as above.
unsafe impl Shared for crate::log::Target {}
// SAFETY: as above.
unsafe impl Shared for crate::stream::Chunk {}

/// A mapped pool. Copyable handle; the mapping outlives it by contract of [`Pool::new`].
#[derive(Clone, Copy, Debug)]
pub struct Pool {
    base: *mut u8,
    len: u64,
}

// SAFETY: all access through `Pool` is by atomics or volatile reads.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

impl Pool {
    /// # Safety
    /// `base..base+len` must stay mapped readable and writable as long as any
    /// copy of the handle is used; `base` must be page aligned.
    pub const unsafe fn new(base: *mut u8, len: u64) -> Pool {
        Pool { base, len }
    }

    pub fn base(&self) -> u64 {
        self.base as u64
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether an address is in its mapping.
    pub fn has(&self, address: u64) -> bool {
        address.wrapping_sub(self.base()) < self.len
    }

    pub fn header(&self) -> &PoolHeader {
        self.at(0).expect("a pool is at least one page")
    }

    /// Whether the first page is that of a pool this build understands.
    pub fn is_valid(&self) -> bool {
        self.len >= PAGE
            && self.header().magic.load(Ordering::Acquire) == MAGIC
            && self.header().version.load(Ordering::Relaxed) == VERSION
    }

    /// The structure at `offset`, if it lies in the mapping.
    pub fn at<T: Shared>(&self, offset: u64) -> Option<&T> {
        let end = offset.checked_add(size_of::<T>() as u64)?;
        if end > self.len || !offset.is_multiple_of(align_of::<T>() as u64) {
            return None;
        }
        // SAFETY: in bounds and aligned by the test above (the base is page
        // aligned), valid for any bits and shared soundly by `T: Shared`.
        Some(unsafe { &*self.base.add(offset as usize).cast::<T>() })
    }

    /// The `count` structures from `offset` on, if they lie in the mapping.
    pub fn slice<T: Shared>(&self, offset: u64, count: u64) -> Option<&[T]> {
        let bytes = count.checked_mul(size_of::<T>() as u64)?;
        let end = offset.checked_add(bytes)?;
        if end > self.len || !offset.is_multiple_of(align_of::<T>() as u64) {
            return None;
        }
        // SAFETY: in bounds and aligned by the test above (the base is page aligned), valid for any bits and shared
        // soundly by `T: Shared`.
        Some(unsafe {
            core::slice::from_raw_parts(self.base.add(offset as usize).cast::<T>(), count as usize)
        })
    }

    /// Copies 16-bit words out, as many as lie in the mapping and fit `out`; `offset` is even.
    pub fn read_words(&self, offset: u64, out: &mut [u16]) -> usize {
        if !offset.is_multiple_of(2) {
            return 0;
        }
        let room = (self.len.saturating_sub(offset) / 2).min(out.len() as u64) as usize;
        // SAFETY: `offset + 2 * i + 2 <= len` by `room`, and aligned, as the base is; volatile as
        // below.
        let word = |i: usize| unsafe {
            let at = self.base.add(offset as usize + 2 * i);
            at.cast::<u16>().read_volatile()
        };
        let lone = (offset.next_multiple_of(8) - offset) as usize / 2;
        let (head, rest) = out[..room].split_at_mut(lone.min(room));
        for (i, out) in head.iter_mut().enumerate() {
            *out = word(i);
        }
        let (fours, tail) = rest.as_chunks_mut::<4>();
        let mut at = lone;
        for four in fours {
            // SAFETY: as above, of four words, the first of which is at a multiple of 8.
            let read = unsafe {
                let at = self.base.add(offset as usize + 2 * at);
                at.cast::<u64>().read_volatile()
            };
            *four = [0, 16, 32, 48].map(|shift| (read >> shift) as u16);
            at += 4;
        }
        for (i, out) in (at..).zip(tail) {
            *out = word(i);
        }
        room
    }

    /// Copies bytes out, as many as lie in the mapping and fit `out`.
    pub fn read_bytes(&self, offset: u64, out: &mut [u8]) -> usize {
        let room = self.len.saturating_sub(offset).min(out.len() as u64) as usize;
        let mut at = 0;
        // Up to the first whole word.
        let head = (offset.next_multiple_of(8) - offset).min(room as u64) as usize;
        for byte in &mut out[..head] {
            // SAFETY: as at the end.
            *byte = unsafe { self.base.add(offset as usize + at).read_volatile() };
            at += 1;
        }
        {
            let (words, _) = out[head..room].as_chunks_mut::<8>();
            for word in words {
                // SAFETY: `offset + at + 8 <= len` by `room`, and aligned, as the base is;
                // volatile as below.
                let read = unsafe {
                    self.base
                        .add(offset as usize + at)
                        .cast::<u64>()
                        .read_volatile()
                };
                *word = read.to_ne_bytes();
                at += 8;
            }
        }
        for (i, byte) in (at..).zip(&mut out[at..room]) {
            // SAFETY: `offset + i < len` by `room`; volatile because another
            // process may write.
            *byte = unsafe { self.base.add(offset as usize + i).read_volatile() };
        }
        room
    }

    /// Copies bytes in; `false` if they do not fit the mapping.
    pub fn write_bytes(&self, offset: u64, bytes: &[u8]) -> bool {
        if offset
            .checked_add(bytes.len() as u64)
            .is_none_or(|end| end > self.len)
        {
            return false;
        }
        for (i, byte) in bytes.iter().enumerate() {
            // SAFETY: in bounds by the test above; volatile as above. The
            // caller owns the range: it is freshly allocated or its own record.
            unsafe { self.base.add(offset as usize + i).write_volatile(*byte) };
        }
        true
    }

    /// Reserves `bytes` (rounded up to pages) and returns their offset. The
    /// bytes are zero but not yet backed: the caller populates them first.
    pub fn reserve(&self, bytes: u64) -> Option<u64> {
        let bytes = bytes.checked_next_multiple_of(PAGE)?;
        let bump: &AtomicU64 = &self.header().bump;
        let offset = bump.fetch_add(bytes, Ordering::Relaxed);
        if offset.checked_add(bytes).is_none_or(|end| end > self.len) {
            bump.fetch_sub(bytes, Ordering::Relaxed);
            return None;
        }
        Some(offset)
    }
}
