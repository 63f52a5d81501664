//! Memory of the engine itself, and careful access to memory of the program.
//!
//! Every range the engine maps is noted, so that `/proc/self/maps` can hide it
//! and the program's `mmap(MAP_FIXED)` cannot land on it. Access to program
//! memory goes through [`read`] and [`write`], which fault harmlessly: the two
//! `rep movsb` below are at known addresses, and the signal handler moves a
//! thread that faults there to the recovery label (see [`recovery_for`]).
//!
//! All but the code cache and the tables of indirect branches, which have their places from the start, is mapped in a
//! zone of addresses that the kernel gives to nobody who does not ask for them ([`map_in_zone`]).

use core::arch::global_asm;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Ranges of the engine. Append-only apart from exact removal; a slot with
/// length 0 is free. Lock-free because the signal handler reads it.
const MAX_RANGES: usize = 4096;
static STARTS: [AtomicU64; MAX_RANGES] = [const { AtomicU64::new(0) }; MAX_RANGES];
static ENDS: [AtomicU64; MAX_RANGES] = [const { AtomicU64::new(0) }; MAX_RANGES];
static USED: AtomicUsize = AtomicUsize::new(0);

/// Whether the program has, or had, a descriptor of userfaultfd: any page of its anonymous or
/// shared memory may have to be provided by one of its threads.
static SERVED: AtomicBool = AtomicBool::new(false);

/// Notes that pages may have to be provided by the program.
pub fn set_served() {
    SERVED.store(true, Ordering::Release);
}

/// Whether a read of anonymous or shared memory may wait for another thread.
pub fn is_served() -> bool {
    SERVED.load(Ordering::Acquire)
}

/// Notes `start..start+len` as the engine's.
pub fn note(start: u64, len: u64) {
    let used = USED.load(Ordering::Acquire);
    for slot in 0..used {
        if ENDS[slot].load(Ordering::Acquire) == 0
            && ENDS[slot]
                .compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        {
            STARTS[slot].store(start, Ordering::Release);
            ENDS[slot].store(start + len, Ordering::Release);
            return;
        }
    }
    let slot = USED.fetch_add(1, Ordering::AcqRel);
    if slot < MAX_RANGES {
        STARTS[slot].store(start, Ordering::Release);
        ENDS[slot].store(start + len, Ordering::Release);
    } else {
        // A range that is not noted is only not hidden; nothing breaks.
        USED.store(MAX_RANGES, Ordering::Release);
    }
}

/// Undoes [`note`].
pub fn forget(start: u64, len: u64) {
    for slot in 0..USED.load(Ordering::Acquire).min(MAX_RANGES) {
        if STARTS[slot].load(Ordering::Acquire) == start
            && ENDS[slot].load(Ordering::Acquire) == start + len
        {
            STARTS[slot].store(0, Ordering::Release);
            ENDS[slot].store(0, Ordering::Release);
            return;
        }
    }
}

/// Whether `start..end` meets memory of the engine.
pub fn is_ours(start: u64, end: u64) -> bool {
    (0..USED.load(Ordering::Acquire).min(MAX_RANGES)).any(|slot| {
        let (ours, ours_end) = (
            STARTS[slot].load(Ordering::Acquire),
            ENDS[slot].load(Ordering::Acquire),
        );
        ours_end > 1 && start < ours_end && ours < end
    })
}

/// Calls `each` with every range of the engine.
pub fn for_each_range(mut each: impl FnMut(u64, u64)) {
    for slot in 0..USED.load(Ordering::Acquire).min(MAX_RANGES) {
        let (start, end) = (
            STARTS[slot].load(Ordering::Acquire),
            ENDS[slot].load(Ordering::Acquire),
        );
        if end > 1 {
            each(start, end);
        }
    }
}

/// Addresses of the engine's mappings: far from stacks and libraries (from 0x7f00_0000_0000 on), from programs and their
/// heaps (0x5500_0000_0000 on), and in none of the shadows of LLVM's sanitizers, so that no mapping of the program
/// grows into them and none lands where the program has just unmapped something.
const ZONE: Range<u64> = 0x4800_0000_0000..0x4f00_0000_0000;
/// Steps over a place that the program took.
const STEP: u64 = 1 << 30;
const MOST_STEPS: u32 = 64;
/// Large mappings begin where huge pages do.
const HUGE: u64 = 2 << 20;
/// Address of the next mapping.
static NEXT: AtomicU64 = AtomicU64::new(ZONE.start);

/// Has `map` map `len` bytes in [`ZONE`], at an address and with flags that it gets; elsewhere only if the zone is taken.
pub fn map_in_zone(len: u64, map: impl Fn(u64, u32) -> sys::Result<u64>) -> Option<u64> {
    let len = len.next_multiple_of(wire::PAGE);
    let align = if len < HUGE { wire::PAGE } else { HUGE };
    for _ in 0..MOST_STEPS {
        let at = place_next(len, align)?;
        match map(at, sys::MAP_FIXED_NOREPLACE) {
            Err(sys::Errno::EEXIST) => {
                NEXT.fetch_add(STEP, Ordering::Relaxed);
            }
            // Kernels before 4.17 take the address for a hint.
            mapped => return mapped.ok(),
        }
    }
    map(0, 0).ok()
}

/// Takes the next `len` addresses of the zone, from the beginning again at its end.
fn place_next(len: u64, align: u64) -> Option<u64> {
    let place = |next: u64| {
        let at = next.next_multiple_of(align);
        let fits = at.checked_add(len).is_some_and(|end| end <= ZONE.end);
        if fits { at } else { ZONE.start }
    };
    let taken = NEXT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| {
        Some(place(next) + len)
    });
    taken.ok().map(place)
}

/// Fresh zeroed private memory, hidden from the program.
pub fn map_private(len: u64) -> Option<u64> {
    let prot = sys::PROT_READ | sys::PROT_WRITE;
    let flags = sys::MAP_PRIVATE | sys::MAP_ANONYMOUS | sys::MAP_NORESERVE;
    // SAFETY: a new mapping; nothing existing is touched.
    let map = |at, how| unsafe { sys::mmap(at, len, prot, flags | how, -1, 0) };
    map_in_zone(len, map).inspect(|&got| own(got, len))
}

/// Maps memory that a forked child cannot do without: where the program has
/// limited its address space, from the heap's reserve. More than
/// 256 kB are then a mapping, too; less must never be given back.
pub fn map_needed(len: u64) -> Option<u64> {
    map_private(len).or_else(|| {
        let layout = core::alloc::Layout::from_size_align(len as usize, 4096).ok()?;
        // SAFETY: `len` is not zero.
        let block = unsafe { alloc::alloc::alloc(layout) };
        (!block.is_null()).then_some(block as u64)
    })
}

/// Fresh private memory at a hint or, with `MAP_FIXED_NOREPLACE` in `flags`,
/// exactly there.
pub fn map_at(addr: u64, len: u64, prot: u32, flags: u32) -> Option<u64> {
    let flags = flags | sys::MAP_PRIVATE | sys::MAP_ANONYMOUS | sys::MAP_NORESERVE;
    // SAFETY: without MAP_FIXED no existing mapping is touched.
    let got = unsafe { sys::mmap(addr, len, prot, flags, -1, 0) }.ok()?;
    if flags & sys::MAP_FIXED_NOREPLACE != 0 && got != addr {
        // Kernels before 4.17 take the flag for a hint.
        // SAFETY: just mapped, used by nobody.
        let _ = unsafe { sys::munmap(got, len) };
        return None;
    }
    own(got, len);
    Some(got)
}

/// Replaces a part of the engine's own memory, which nobody uses yet, by zeroed private memory, of which a
/// forked child has an empty one: it is given free with the process, where memory of the pool is kept.
/// Where the kernel grants no mapping, the part is backed as it is.
///
/// # Safety
/// The pages are the caller's, and nothing refers to them.
pub unsafe fn map_over(start: u64, len: u64) -> sys::Result<()> {
    let prot = sys::PROT_READ | sys::PROT_WRITE;
    let flags = sys::MAP_PRIVATE | sys::MAP_ANONYMOUS | sys::MAP_NORESERVE | sys::MAP_FIXED;
    // SAFETY: over memory that nobody uses, as the caller says.
    match unsafe { sys::mmap(start, len, prot, flags, -1, 0) } {
        Ok(_) => {
            for advice in [sys::MADV_WIPEONFORK, sys::MADV_DONTDUMP] {
                // SAFETY: advice on the range just mapped. Without it a child copies the memory.
                let _ = unsafe { sys::madvise(start, len, advice) };
            }
            Ok(())
        }
        // SAFETY: the same range, which is still the pool's.
        Err(_) => unsafe { crate::pool::back(start, len) },
    }
}

/// Notes a fresh mapping, and keeps it out of core dumps; failure changes nothing.
fn own(start: u64, len: u64) {
    note(start, len);
    // SAFETY: advice on our own range.
    let _ = unsafe { sys::madvise(start, len, sys::MADV_DONTDUMP) };
}

global_asm!(
    // rdi: destination, rsi: source, rdx: length. Returns in rax the bytes not copied.
    ".global everypath_copy",
    ".global everypath_copy_access",
    ".global everypath_copy_end",
    "everypath_copy:",
    "mov rcx, rdx",
    "everypath_copy_access:",
    "rep movsb",
    "everypath_copy_end:",
    "mov rax, rcx",
    "ret",
);

// SAFETY: defined above, with these arguments; the statics are labels, only their
// addresses are taken.
unsafe extern "C" {
    fn everypath_copy(to: u64, from: u64, len: u64) -> u64;
    static everypath_copy_access: u8;
    static everypath_copy_end: u8;
}

/// If a fault at `rip` is one of ours to survive: where to go on.
pub fn recovery_for(rip: u64) -> Option<u64> {
    (rip == &raw const everypath_copy_access as u64).then_some(&raw const everypath_copy_end as u64)
}

/// Copies from the program; returns how many bytes could be read.
pub fn read_some(addr: u64, out: &mut [u8]) -> usize {
    // SAFETY: the destination is `out`; a fault on the source is recovered.
    let left = unsafe { everypath_copy(out.as_mut_ptr() as u64, addr, out.len() as u64) };
    out.len() - left as usize
}

/// Copies to the program; `false` if not all of it could be written.
pub fn write_bytes(addr: u64, bytes: &[u8]) -> bool {
    // SAFETY: the source is `bytes`; a fault on the destination is recovered.
    // The program's memory is only written where a system call of its own
    // asked for it.
    unsafe { everypath_copy(addr, bytes.as_ptr() as u64, bytes.len() as u64) == 0 }
}

/// Plain structures of integers that may be copied as bytes.
///
/// # Safety
/// Any bit pattern must be valid and there must be no padding that matters.
pub unsafe trait Plain: Copy {}
// SAFETY: integers and kernel structures of integers only.
unsafe impl Plain for u8 {}
// SAFETY: as above.
unsafe impl Plain for u16 {}
// SAFETY: as above.
unsafe impl Plain for i32 {}
// SAFETY: as above.
unsafe impl Plain for u32 {}
// SAFETY: as above.
unsafe impl Plain for u64 {}
// SAFETY: as above.
unsafe impl Plain for sys::signal::SigAction {}
// SAFETY: as above.
unsafe impl Plain for sys::signal::SigStack {}
// SAFETY: as above.
unsafe impl Plain for sys::signal::SigFrame {}
// SAFETY: as above.
unsafe impl Plain for sys::signal::UContext {}
// SAFETY: as above.
unsafe impl Plain for sys::signal::SigSet {}
// SAFETY: as above.
unsafe impl Plain for sys::signal::SigInfo {}
// SAFETY: as above.
unsafe impl Plain for sys::CloneArgs {}
// SAFETY: as above.
unsafe impl<const N: usize> Plain for [u8; N] {}

/// Reads a structure of the program.
pub fn read<T: Plain>(addr: u64) -> Option<T> {
    let mut value = core::mem::MaybeUninit::<T>::zeroed();
    // SAFETY: the slice covers exactly the zeroed value.
    let bytes =
        unsafe { core::slice::from_raw_parts_mut(value.as_mut_ptr().cast::<u8>(), size_of::<T>()) };
    // SAFETY: `T: Plain` is valid for any bits.
    (read_some(addr, bytes) == size_of::<T>()).then(|| unsafe { value.assume_init() })
}

/// Reads the first `len` bytes of a structure; the rest is zero.
pub fn read_prefix<T: Plain>(addr: u64, len: usize) -> Option<T> {
    let mut value = core::mem::MaybeUninit::<T>::zeroed();
    let len = len.min(size_of::<T>());
    // SAFETY: the slice covers a part of the zeroed value.
    let bytes = unsafe { core::slice::from_raw_parts_mut(value.as_mut_ptr().cast::<u8>(), len) };
    // SAFETY: `T: Plain` is valid for any bits.
    (read_some(addr, bytes) == len).then(|| unsafe { value.assume_init() })
}

/// Writes a structure of the program.
pub fn write<T: Plain>(addr: u64, value: &T) -> bool {
    // SAFETY: the slice covers exactly the value, and `T: Plain` has no padding that matters.
    write_bytes(addr, unsafe {
        core::slice::from_raw_parts((value as *const T).cast::<u8>(), size_of::<T>())
    })
}

/// Reads a NUL-terminated string of the program, at most `out.len() - 1` bytes;
/// returns its length. `None` if unreadable or too long.
pub fn read_string(addr: u64, out: &mut [u8]) -> Option<usize> {
    let mut at = 0;
    while at < out.len() {
        // Up to the end of the page, so that a string before an unmapped page is read whole.
        let room = (4096 - ((addr + at as u64) & 4095)) as usize;
        let end = (at + room).min(out.len());
        let got = read_some(addr + at as u64, &mut out[at..end]);
        if let Some(nul) = out[at..at + got].iter().position(|&byte| byte == 0) {
            return Some(at + nul);
        }
        if got < end - at {
            return None;
        }
        at = end;
    }
    None
}
