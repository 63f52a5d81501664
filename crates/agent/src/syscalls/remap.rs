//! Memory that moves, grows, or appears a second time: mremap and brk.
//!
//! An old length of 0 makes a second mapping of shared memory (`mm/mremap.c`). Code there can be
//! changed through the other one, so both are compared when they are entered.

use sys::{Errno, nr};

use super::engine_ranges::{meets_engine, on_nothing, pages};
use super::{Effect, Process};
use crate::regions::Region;

const PAGE: u64 = 4096;
const MREMAP_FIXED: u64 = 2;
const MREMAP_DONTUNMAP: u64 = 4;

impl Process {
    pub(super) fn mremap(&mut self, args: [u64; 6]) -> Effect {
        let [old, old_len, new_len, flags, new, _] = args;
        let copies = old_len == 0;
        let (_, old_end) = pages(old, if copies { new_len } else { old_len });
        let fixed = flags & MREMAP_FIXED != 0;
        if meets_engine(old, old_len.max(1)) || fixed && meets_engine(new, new_len) {
            // Below what can be mapped, also where the kernel frees the new range first.
            let harmless = [old, old_len, new_len.min(PAGE), flags, PAGE, 0];
            let harmless = match new.is_multiple_of(PAGE) {
                true => harmless,
                false => args,
            };
            return Effect::Done(on_nothing(harmless, nr::MREMAP, Errno::EFAULT));
        }
        let is_known =
            |start, end| self.regions.overlaps(start, end) || self.shared.meets(start, end);
        let replaces_known = fixed && is_known(new, pages(new, new_len).1);
        if !is_known(old, old_end) && !replaces_known {
            return Effect::Forward;
        }
        // SAFETY: the program's own call, not touching the engine.
        let result = unsafe { sys::raw::syscall(nr::MREMAP, args.map(|arg| arg as usize)) };
        let Ok(got) = sys::check(result) else {
            return Effect::Done(result);
        };
        let (start, end) = pages(got as u64, new_len);
        let keeps = copies || flags & MREMAP_DONTUNMAP != 0;
        self.moved((old, old_end), (start, end), keeps);
        if copies {
            // Translations of the old range are not compared with its bytes yet.
            self.set_volatile(old, old_end);
        }
        Effect::Invalidate2(result, (old, old_end), (start, end))
    }

    /// Memory of the program is at `to` as it was at `from`, and still there if `keeps`.
    fn moved(&mut self, from: (u64, u64), to: (u64, u64), keeps: bool) {
        let pieces = self.regions.pieces(from.0, from.1);
        let shared = self.shared.parts(from.0, from.1);
        if !keeps {
            self.drop_code(from.0, from.1);
            self.shared.remove(from.0, from.1);
        }
        self.drop_code(to.0, to.1);
        self.shared.remove(to.0, to.1);
        // Records that ended where the old range ended end with the new one, which may be longer.
        let place = |start: u64, end: u64| {
            let moved = |at: u64| at.wrapping_sub(from.0).wrapping_add(to.0);
            let end = match end == from.1 {
                true => to.1,
                false => moved(end).min(to.1),
            };
            (moved(start), end)
        };
        for (start, end) in shared {
            let (start, end) = place(start, end);
            if start < end {
                self.shared.insert(start, end);
            }
        }
        for piece in pieces {
            let (start, end) = place(piece.start, piece.end);
            if start < end {
                let is_shared = self.shared.meets(start, end);
                self.regions.insert(Region {
                    start,
                    end,
                    volatile: piece.volatile || is_shared,
                    ..piece
                });
                if piece.of_file {
                    self.file_moved(piece.start, start, end);
                }
            }
        }
        self.recognise_pages(to.0, to.1);
    }

    /// `brk(end)` of a thread whose readable memory can be executed.
    pub(super) fn brk(&mut self, wanted: u64) -> Effect {
        let before = sys::brk(0).next_multiple_of(4096);
        let got = sys::brk(wanted);
        let after = got.next_multiple_of(4096);
        if after < before {
            self.drop_code(after, before);
            return Effect::Invalidate(got as isize, after, before);
        }
        if before < after {
            let prot = sys::PROT_READ | sys::PROT_WRITE | sys::PROT_EXEC;
            self.new_code(before, after, prot);
        }
        Effect::Done(got as isize)
    }
}
