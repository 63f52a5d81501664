//! Calls about ranges of addresses that meet the engine's memory, which is free memory to the
//! program.
//!
//! Where the kernel would refuse a call before it looks at what is mapped, it is asked with a
//! range that holds nothing, so that its own checks and their order decide. What is the
//! program's in such a range is changed as the kernel changes what lies beside a gap.

use sys::{Errno, nr};

use super::{Effect, Process};
use crate::loader::real_prot;
use crate::memory;

const EEXIST: Errno = Errno(17);
const PAGE: u64 = 4096;
/// First address behind user space with four levels of page tables (TASK_SIZE_MAX).
const TASK_SIZE: u64 = (1 << 47) - PAGE;

/// The addresses of the whole pages of a range, which end with user space.
pub(super) fn pages(addr: u64, len: u64) -> (u64, u64) {
    let end = addr.saturating_add(len).min(TASK_SIZE);
    (addr, end.next_multiple_of(PAGE))
}

/// Whether a range has memory of the engine, and is one that the kernel accepts.
pub(super) fn meets_engine(addr: u64, len: u64) -> bool {
    let is_valid = addr.is_multiple_of(PAGE)
        && len != 0
        && addr.checked_add(len).is_some_and(|end| end <= TASK_SIZE);
    is_valid && memory::is_ours(addr, pages(addr, len).1)
}

/// Calls `each` with the parts of `addr..end` that are not the engine's, in order, until it
/// says `false`.
fn for_each_part(addr: u64, end: u64, mut each: impl FnMut(u64, u64) -> bool) {
    let mut at = addr;
    while at < end {
        let mut next = end;
        let mut inside = None;
        memory::for_each_range(|start, stop| {
            if start <= at && at < stop {
                inside = Some(stop);
            } else if at < start && start < next {
                next = start;
            }
        });
        match inside {
            Some(stop) => at = stop.min(end),
            None => {
                if !each(at, next) {
                    return;
                }
                at = next;
            }
        }
    }
}

/// The kernel's answer to the call where nothing is mapped, found at the first page;
/// `none`, if something is mapped there.
pub(super) fn on_nothing(args: [u64; 6], number: usize, none: Errno) -> isize {
    let mut resident = 0u8;
    let ask = [0, PAGE as usize, &raw mut resident as usize, 0, 0, 0];
    // SAFETY: asks about one page; the kernel writes one byte.
    let asked = unsafe { sys::raw::syscall(nr::MINCORE, ask) };
    if sys::check(asked) != Err(Errno::ENOMEM) {
        return none.as_result();
    }
    let mut args = args.map(|arg| arg as usize);
    (args[0], args[1]) = (0, PAGE as usize);
    // SAFETY: a call of the program about a page that is not mapped.
    unsafe { sys::raw::syscall(number, args) }
}

/// The error of `mmap(MAP_FIXED)` over the engine: the kernel's, if it finds another fault.
pub(super) fn refusal_to_map(args: [u64; 6]) -> isize {
    let [_, len, prot, flags, fd, offset] = args;
    let fixed = u64::from(sys::MAP_FIXED | sys::MAP_FIXED_NOREPLACE);
    let elsewhere = [
        0,
        len as usize,
        real_prot(prot as u32) as usize,
        (flags & !fixed) as usize,
        fd as usize,
        offset as usize,
    ];
    // SAFETY: no existing mapping is replaced.
    let result = unsafe { sys::raw::syscall(nr::MMAP, elsewhere) };
    match sys::check(result) {
        Err(_) => result,
        Ok(got) => {
            // SAFETY: just mapped, used by nobody.
            let _ = unsafe { sys::munmap(got as u64, len) };
            match flags & u64::from(sys::MAP_FIXED_NOREPLACE) {
                0 => Errno::ENOMEM.as_result(),
                _ => EEXIST.as_result(),
            }
        }
    }
}

/// mincore, msync, mlock, mlock2, munlock. All but msync end at the first gap.
pub(super) fn looks(mut args: [u64; 6], number: u64) -> Effect {
    if matches!(number as usize, nr::MLOCK | nr::MLOCK2 | nr::MUNLOCK) {
        // These take the whole of the pages.
        let before = args[0] % PAGE;
        args[0] -= before;
        args[1] = args[1].saturating_add(before);
    }
    let [addr, len, ..] = args;
    if !meets_engine(addr, len) {
        return Effect::Forward;
    }
    let goes_on = number == nr::MSYNC as u64;
    Effect::Done(call_around(args, number, goes_on))
}

/// The program's own call on those parts of its range that are not the engine's.
fn call_around(args: [u64; 6], number: u64, goes_on: bool) -> isize {
    const ENOMEM: isize = Errno::ENOMEM.as_result();
    let [addr, len, ..] = args;
    let mut result = on_nothing(args, number as usize, Errno::ENOMEM);
    if result != ENOMEM {
        return result;
    }
    for_each_part(addr, pages(addr, len).1, |start, end| {
        if !goes_on && start != addr {
            return false;
        }
        let mut part = args.map(|arg| arg as usize);
        (part[0], part[1]) = (start as usize, (end - start) as usize);
        // SAFETY: the program's own call, not touching the engine.
        match unsafe { sys::raw::syscall(number as usize, part) } {
            0 | ENOMEM => goes_on,
            error => {
                result = error;
                false
            }
        }
    });
    result
}

impl Process {
    /// The engine's parts are left out, as if nothing were mapped there.
    pub(super) fn munmap_around(&mut self, addr: u64, end: u64) -> Effect {
        for_each_part(addr, end, |start, end| {
            // SAFETY: `start..end` holds nothing of the engine.
            let _ = unsafe { sys::munmap(start, end - start) };
            true
        });
        self.unmapped(0, addr, end)
    }

    /// The kernel changes what is before the first gap.
    pub(super) fn mprotect_before_engine(&mut self, args: [u64; 6], number: u64) -> Effect {
        let [addr, len, ..] = args;
        let mut before = addr;
        for_each_part(addr, pages(addr, len).1, |start, end| {
            if start == addr {
                before = end;
            }
            false
        });
        let refused = Errno::ENOMEM.as_result();
        if before == addr {
            return Effect::Done(on_nothing(args, number as usize, Errno::ENOMEM));
        }
        let mut part = args;
        part[1] = before - addr;
        match self.mprotect(part, number) {
            Effect::Invalidate(0, start, end) => Effect::Invalidate(refused, start, end),
            Effect::Forward => {
                let part = part.map(|arg| arg as usize);
                // SAFETY: the program's own call, not touching the engine.
                let result = unsafe { sys::raw::syscall(number as usize, part) };
                Effect::Done(if result == 0 { refused } else { result })
            }
            effect => effect,
        }
    }

    pub(super) fn madvise(&mut self, args: [u64; 6]) -> Effect {
        let [addr, len, ..] = args;
        let (_, end) = pages(addr, len);
        let result = match meets_engine(addr, len) {
            true => call_around(args, nr::MADVISE as u64, true),
            false if !self.regions.overlaps(addr, end) => return Effect::Forward,
            // SAFETY: the program's own call, not touching the engine.
            false => unsafe { sys::raw::syscall(nr::MADVISE, args.map(|arg| arg as usize)) },
        };
        Effect::Invalidate(result, addr, end)
    }
}
