//! Layout of the address space: the engine's cache and the program's mappings near it.
//!
//! Problem: code in the cache keeps the rip-relative operands of the original,
//! so the cache must lie within 2 GB of every module. Approach: choose the
//! cache's place before anything of the program is mapped, and give the
//! program's own file mappings *hints* near it. Hints never fail: a module
//! that lands elsewhere is translated with the slower far forms.
//!
//! ```text
//! PIE, shared:   vdso, payload ... 1 GB for the kernel's own choices ... arena  <- modules grow down ... program
//! non-PIE:       image, brk ... 0x40000000 arena  modules grow up -> 0x7fff0000
//!                (elsewhere below 2 GB if the image lies there)
//! ```

use core::ops::Range;

use crate::memory;

/// Address space reserved for the code cache.
const ARENA: u64 = 512 << 20;
/// Distance kept free for the kernel's own choices above the arena.
const HEADROOM: u64 = 1 << 30;
const ALIGN: u64 = 2 << 20;
/// The zone for modules: with the arena it must stay below 2 GB.
const ZONE: u64 = 1400 << 20;
/// Modules larger than this are not steered.
const MAX_STEERED: u64 = 512 << 20;

#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub arena: u64,
    pub arena_len: u64,
    zone_start: u64,
    zone_end: u64,
    cursor: u64,
    upwards: bool,
}

impl Place {
    /// Reserves the arena. `fixed` is the span of a program that is linked at
    /// fixed addresses; `limit` is the address space that is left, if that is
    /// limited.
    pub fn choose(fixed: Option<Range<u64>>, limit: Option<u64>) -> Option<Place> {
        let low = fixed.is_some();
        let fixed = fixed.unwrap_or_default();
        let mut len = ARENA;
        if let Some(limit) = limit {
            len = len.min((limit / 8) & !(ALIGN - 1)).max(4 << 20);
        }
        let prot = sys::PROT_READ | sys::PROT_WRITE | sys::PROT_EXEC;
        while len >= 1 << 20 {
            let candidates = if low {
                Self::low_candidates()
            } else {
                Self::high_candidates(len)
            };
            let free = |base: &u64| *base + len <= fixed.start || fixed.end <= *base;
            for base in candidates.into_iter().filter(free) {
                if let Some(arena) = memory::map_at(base, len, prot, sys::MAP_FIXED_NOREPLACE) {
                    return Some(Self::around(arena, len, low));
                }
            }
            if let Some(arena) = memory::map_at(0, len, prot, 0) {
                return Some(Self::around(arena, len, low));
            }
            len /= 2;
        }
        None
    }

    /// All end below the gate.
    fn low_candidates() -> [u64; 4] {
        [0x4000_0000, 0x5000_0000, 0x2000_0000, 0x5e00_0000]
    }

    fn high_candidates(len: u64) -> [u64; 4] {
        // Ask the kernel where it would map next: the top of the free zone.
        // SAFETY: a fresh page, given back at once.
        let top = unsafe {
            let flags = sys::MAP_PRIVATE | sys::MAP_ANONYMOUS;
            let probe =
                sys::mmap(0, 4096, sys::PROT_NONE, flags, -1, 0).unwrap_or(0x7fff_0000_0000);
            let _ = sys::munmap(probe, 4096);
            probe
        };
        let first = (top - HEADROOM - len) & !(ALIGN - 1);
        [
            first,
            first - (64 << 20),
            first - (256 << 20),
            first - (512 << 20),
        ]
    }

    fn around(arena: u64, arena_len: u64, low: bool) -> Place {
        if low {
            let zone_start = arena + arena_len;
            Place {
                arena,
                arena_len,
                zone_start,
                zone_end: 0x7fff_0000,
                cursor: zone_start,
                upwards: true,
            }
        } else {
            Place {
                arena,
                arena_len,
                zone_start: arena - ZONE,
                zone_end: arena,
                cursor: arena,
                upwards: false,
            }
        }
    }

    /// A hint for the program: below everything that it maps later, as natively. (Many look for
    /// themselves in the first lines of `/proc/self/maps`.)
    pub fn program_hint(&mut self, len: u64) -> u64 {
        let len = len.next_multiple_of(4096);
        if self.upwards || len > MAX_STEERED {
            return self.hint(len);
        }
        let hint = self.zone_start;
        self.zone_start += len;
        hint
    }

    /// A hint for a module of `len` bytes; 0: none.
    pub fn hint(&mut self, len: u64) -> u64 {
        let len = len.next_multiple_of(4096);
        if len > MAX_STEERED {
            return 0;
        }
        // Once the zone is used up, begin again: holes may have come free.
        if self.upwards {
            if self.cursor + len > self.zone_end {
                self.cursor = self.zone_start;
            }
            let hint = self.cursor;
            self.cursor += len;
            hint
        } else {
            if self.cursor - len < self.zone_start {
                self.cursor = self.zone_end;
            }
            self.cursor -= len;
            self.cursor
        }
    }
}
