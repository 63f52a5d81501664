//! The gate: the one place that the engine's system calls are made from.
//!
//! Problem: a filter (seccomp) that the program installs is asked about the engine's calls, too.
//!
//! Approach: a filter is told the address of the instruction. In the target, [`open`] puts the
//! instruction into a page at an address that is the same in every process, also after exec; the
//! engine lets each filter allow what comes from there (`agent::filters`). Until then, and in
//! programs that are no target, it lies in the image.
//!
//! Limits: if something is mapped at the page already, the gate stays in the image, and filters
//! that are inherited over exec do not know it.

use core::arch::global_asm;
use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use crate::{nr, raw};

/// Address of the page: below 2 GB, where tools that lay out the address space themselves expect
/// mappings of programs, above what programs are linked at, and between what wine reserves.
pub const PAGE: u64 = 0x7e00_0000;
pub const SIZE: u64 = 4096;

/// The second way in, behind the first: goes on at r15 instead of returning, for calls that come
/// back on another stack.
const JUMP_AT: u64 = 16;

/// `syscall; ret` and `syscall; jmp r15`.
const CODE: [u8; 21] = [
    0x0F, 0x05, 0xC3, 0xCC, 0xCC, 0xCC, 0xCC, 0xCC, 0xCC, 0xCC, 0xCC, 0xCC, 0xCC, 0xCC, 0xCC, 0xCC,
    0x0F, 0x05, 0x41, 0xFF, 0xE7,
];

global_asm!(
    ".balign 16",
    "everypath_image_gate:",
    "syscall",
    "ret",
    ".balign 16",
    "everypath_image_gate_jump:",
    "syscall",
    "jmp r15",
);

// SAFETY: defined above; never called from Rust.
unsafe extern "C" {
    fn everypath_image_gate();
    fn everypath_image_gate_jump();
}

/// Address to call for a system call (`call`, with its number and arguments in registers).
pub static CALL: AtomicPtr<()> = AtomicPtr::new(everypath_image_gate as *const () as *mut ());
/// Address to jump to for a system call that goes on at r15.
pub static JUMP: AtomicPtr<()> = AtomicPtr::new(everypath_image_gate_jump as *const () as *mut ());

/// Makes the page and goes over to it. `false`: there is something else.
///
/// # Safety
/// Called once, by the only thread of a process that is a target.
pub unsafe fn open() -> bool {
    let rights = (crate::PROT_READ | crate::PROT_WRITE | crate::PROT_EXEC) as usize;
    let flags = crate::MAP_PRIVATE | crate::MAP_ANONYMOUS | crate::MAP_FIXED_NOREPLACE;
    let (page, size) = (PAGE as usize, SIZE as usize);
    // Filters allow this one call as it is.
    // SAFETY: nothing that exists is replaced.
    let mapped = unsafe {
        raw::syscall(
            nr::MMAP,
            [page, size, rights, flags as usize, usize::MAX, 0],
        )
    };
    if mapped != page as isize {
        if mapped > 0 {
            // SAFETY: just mapped: kernels before 4.17 take the address for a hint.
            let _ = unsafe { crate::munmap(mapped as u64, SIZE) };
        }
        return false;
    }
    // SAFETY: a fresh page that can be written.
    unsafe { core::ptr::copy_nonoverlapping(CODE.as_ptr(), page as *mut u8, CODE.len()) };
    CALL.store(page as *mut (), Relaxed);
    JUMP.store((PAGE + JUMP_AT) as *mut (), Relaxed);
    // SAFETY: nobody writes to it any more.
    let _ = unsafe { crate::mprotect(PAGE, SIZE, crate::PROT_READ | crate::PROT_EXEC) };
    true
}

/// The page that calls come from now.
pub fn page() -> u64 {
    CALL.load(Relaxed) as u64 & !(SIZE - 1)
}

/// The way in for a call that goes on at r15; `outside` the page, where filters decide about it.
pub fn jump(outside: bool) -> u64 {
    match outside {
        true => everypath_image_gate_jump as *const () as u64,
        false => JUMP.load(Relaxed) as u64,
    }
}

/// Whether an address is in the page.
pub fn contains(address: u64) -> bool {
    (PAGE..PAGE + SIZE).contains(&address)
}
