//! The `syscall` instruction.

use core::arch::asm;

use crate::gate;

/// Six-argument system call, through the gate. Returns what the kernel puts in rax: a result, or
/// `-errno` in `-4095..=-1`.
///
/// # Safety
/// The call must be one whose effect on memory, descriptors and this thread
/// the caller has thought about; pointers must satisfy that call.
#[inline(always)]
pub unsafe fn syscall(nr: usize, args: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the gate is `syscall; ret`. The kernel clobbers rax, rcx and r11 only; the rest is
    // the caller's duty.
    unsafe {
        asm!(
            "call qword ptr [rip + {gate}]",
            gate = sym gate::CALL,
            inlateout("rax") nr as isize => result,
            in("rdi") args[0], in("rsi") args[1], in("rdx") args[2],
            in("r10") args[3], in("r8") args[4], in("r9") args[5],
            lateout("rcx") _, lateout("r11") _,
        );
    }
    result
}

/// Makes a system call without the gate, so that a filter of the program decides about it.
///
/// # Safety
/// As above.
pub unsafe fn syscall_outside(nr: usize, args: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the kernel clobbers rax, rcx and r11 only; the rest is the
    // caller's duty.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") nr as isize => result,
            in("rdi") args[0], in("rsi") args[1], in("rdx") args[2],
            in("r10") args[3], in("r8") args[4], in("r9") args[5],
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result
}
