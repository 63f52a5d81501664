//! Moving, filling and comparing bytes, for programs without libc: what the compiler calls `memcpy`, `memmove`, `memset`, `memcmp`.
//!
//! Problem: the translator copies instructions, which have 1 to 15 bytes, hundred thousands of times while a program starts; a
//! `rep movsb` takes some 30 cycles to begin.
//!
//! Approach: up to 32 bytes are loaded whole, by two loads that may overlap, and then stored; longer ones go by 16
//! bytes, and from [`LONG`] on by `rep`, which processors with ERMS do by whole lines. The end that a loop does not
//! reach is loaded before it stores anything, so sources and destinations may overlap.
//!
//! Invariant: no registers but rax, rcx, rdx, rsi, rdi, r8, r9, xmm0 and xmm1 are changed, and the direction flag is clear.

use core::arch::global_asm;

/// Bytes from which on `rep` is quicker than a loop.
const LONG: usize = 1024;

// SAFETY: the System V calling convention; each reads `rdx` bytes at rsi and writes as many at rdi, or only reads
// both, or only writes; no byte beside them is touched.
global_asm!(
    ".global everypath_move",
    "everypath_move:",
    "mov rax, rdi",
    "cmp rdx, 16",
    "jb 2f",
    "movups xmm1, [rsi + rdx - 16]",
    "movups xmm0, [rsi]",
    "cmp rdx, 32",
    "ja 6f",
    "movups [rdi], xmm0",
    "movups [rdi + rdx - 16], xmm1",
    "ret",
    // Less than 16.
    "2:",
    "cmp edx, 8",
    "jb 3f",
    "mov rcx, [rsi]",
    "mov r8, [rsi + rdx - 8]",
    "mov [rdi], rcx",
    "mov [rdi + rdx - 8], r8",
    "ret",
    "3:",
    "cmp edx, 4",
    "jb 4f",
    "mov ecx, [rsi]",
    "mov r8d, [rsi + rdx - 4]",
    "mov [rdi], ecx",
    "mov [rdi + rdx - 4], r8d",
    "ret",
    // Up to three: the first, the last, and that in the middle.
    "4:",
    "test edx, edx",
    "je 5f",
    "movzx ecx, byte ptr [rsi]",
    "movzx r8d, byte ptr [rsi + rdx - 1]",
    "mov r9d, edx",
    "shr r9d, 1",
    "movzx esi, byte ptr [rsi + r9]",
    "mov [rdi + r9], sil",
    "mov [rdi], cl",
    "mov [rdi + rdx - 1], r8b",
    "5:",
    "ret",
    // More than 32. Backwards, if the destination begins within the source.
    "6:",
    "mov r8, rdi",
    "sub r8, rsi",
    "cmp r8, rdx",
    "jb 8f",
    "cmp rdx, {long}",
    "jae 10f",
    // xmm1: the last 16 bytes, which go to r8.
    "lea r8, [rdi + rdx - 16]",
    "7:",
    "movups [rdi], xmm0",
    "add rsi, 16",
    "add rdi, 16",
    "cmp rdi, r8",
    "jae 11f",
    "movups xmm0, [rsi]",
    "jmp 7b",
    "11:",
    "movups [r8], xmm1",
    "ret",
    // xmm0: the first 16 bytes, which go to rdi.
    "8:",
    "lea r8, [rdi + rdx - 16]",
    "lea r9, [rsi + rdx - 16]",
    "9:",
    "movups [r8], xmm1",
    "sub r8, 16",
    "sub r9, 16",
    "cmp r8, rdi",
    "jbe 12f",
    "movups xmm1, [r9]",
    "jmp 9b",
    "12:",
    "movups [rdi], xmm0",
    "ret",
    "10:",
    "mov rcx, rdx",
    "rep movsb",
    "ret",
    //
    ".global everypath_fill",
    "everypath_fill:",
    "mov rax, rdi",
    "movzx esi, sil",
    "mov rcx, 0x0101010101010101",
    "imul rcx, rsi",
    "cmp rdx, 16",
    "jb 2f",
    "cmp rdx, {long}",
    "jae 7f",
    "movq xmm0, rcx",
    "punpcklqdq xmm0, xmm0",
    "lea r8, [rdi + rdx - 16]",
    "3:",
    "movups [rdi], xmm0",
    "add rdi, 16",
    "cmp rdi, r8",
    "jb 3b",
    "movups [r8], xmm0",
    "ret",
    "2:",
    "cmp edx, 8",
    "jb 4f",
    "mov [rdi], rcx",
    "mov [rdi + rdx - 8], rcx",
    "ret",
    "4:",
    "cmp edx, 4",
    "jb 5f",
    "mov [rdi], ecx",
    "mov [rdi + rdx - 4], ecx",
    "ret",
    "5:",
    "test edx, edx",
    "je 6f",
    "mov r9d, edx",
    "shr r9d, 1",
    "mov [rdi], cl",
    "mov [rdi + r9], cl",
    "mov [rdi + rdx - 1], cl",
    "6:",
    "ret",
    "7:",
    "mov r8, rdi",
    "mov eax, esi",
    "mov rcx, rdx",
    "rep stosb",
    "mov rax, r8",
    "ret",
    //
    ".global everypath_compare",
    "everypath_compare:",
    "xor ecx, ecx",
    "sub rdx, 8",
    "jb 3f",
    "2:",
    "mov rax, [rdi + rcx]",
    "mov r8, [rsi + rcx]",
    "cmp rax, r8",
    "jne 5f",
    "add rcx, 8",
    "cmp rcx, rdx",
    "jbe 2b",
    // rcx of rdx + 8 bytes are equal: less than 8 are left.
    "3:",
    "add rdx, 8",
    "4:",
    "xor eax, eax",
    "cmp rcx, rdx",
    "jae 6f",
    "movzx eax, byte ptr [rdi + rcx]",
    "movzx r8d, byte ptr [rsi + rcx]",
    "inc rcx",
    "sub eax, r8d",
    "je 4b",
    "ret",
    // The first byte that differs decides.
    "5:",
    "bswap rax",
    "bswap r8",
    "cmp rax, r8",
    "sbb eax, eax",
    "or eax, 1",
    "6:",
    "ret",
    long = const LONG,
);

// SAFETY: defined above.
unsafe extern "C" {
    /// Copies `len` bytes, which may overlap. Gives `to`.
    ///
    /// # Safety
    /// The bytes at `from` can be read and those at `to` written.
    pub fn everypath_move(to: *mut u8, from: *const u8, len: usize) -> *mut u8;

    /// Sets `len` bytes to the low byte of `value`. Gives `to`.
    ///
    /// # Safety
    /// The bytes at `to` can be written.
    pub fn everypath_fill(to: *mut u8, value: i32, len: usize) -> *mut u8;

    /// Less than, equal to or more than 0, as the first byte that differs is in `left`.
    ///
    /// # Safety
    /// `len` bytes can be read at both.
    pub fn everypath_compare(left: *const u8, right: *const u8, len: usize) -> i32;
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::{LONG, everypath_compare, everypath_fill, everypath_move};

    /// Lengths at which another way is taken, and those beside them.
    fn lens() -> impl Iterator<Item = usize> {
        (0..200).chain(LONG - 20..LONG + 20).chain([4096, 70_000])
    }

    fn numbered(len: usize) -> Vec<u8> {
        (0..len).map(|at| (at * 7 + at / 251) as u8).collect()
    }

    #[test]
    fn bytes_move_also_over_themselves() {
        for len in lens() {
            for (from, to) in [
                (0, 0),
                (3, 0),
                (0, 3),
                (16, 0),
                (0, 16),
                (40, 1),
                (1, 40),
                (len + 5, 2),
            ] {
                let mut is = numbered(2 * len + 100);
                let mut expected = is.clone();
                expected.copy_within(from..from + len, to);
                let start = is.as_mut_ptr();
                // SAFETY: both ranges are in the vector.
                let at = unsafe { everypath_move(start.add(to), start.add(from), len) };
                assert_eq!(at, start.wrapping_add(to));
                assert!(is == expected, "{len} from {from} to {to}");
            }
        }
    }

    #[test]
    fn nothing_beside_the_bytes_is_touched() {
        const PAGE: usize = 4096;
        let flags = crate::MAP_PRIVATE | crate::MAP_ANONYMOUS;
        let prot = crate::PROT_READ | crate::PROT_WRITE;
        let all = 5 * PAGE as u64;
        // SAFETY: a new mapping, of which the first, third and fifth page are then closed.
        let start = unsafe { crate::mmap(0, all, prot, flags, -1, 0) }.expect("there is memory");
        for closed in [0, 2, 4] {
            let page = start + closed * PAGE as u64;
            // SAFETY: a page of the mapping.
            unsafe { crate::mprotect(page, PAGE as u64, 0) }.expect("it can be closed");
        }
        let [first, second] = [PAGE, 3 * PAGE].map(|at| (start as *mut u8).wrapping_add(at));
        for len in lens().filter(|len| *len <= PAGE) {
            for at in [0, PAGE - len] {
                let [from, to] = [first, second].map(|page| page.wrapping_add(at));
                // SAFETY: the bytes are in one of the open pages.
                unsafe {
                    everypath_fill(from, 3, len);
                    everypath_move(to, from, len);
                    everypath_move(to, to, len);
                    assert_eq!(everypath_compare(to, from, len), 0);
                }
            }
        }
        // SAFETY: it is ours and no longer used.
        unsafe { crate::munmap(start, all) }.expect("it is mapped");
    }

    #[test]
    fn bytes_are_filled_and_none_beside_them() {
        for len in lens() {
            for at in [0, 1, 9] {
                let mut is = numbered(len + 50);
                let mut expected = is.clone();
                expected[at..at + len].fill(0xA7);
                let start = is.as_mut_ptr().wrapping_add(at);
                // SAFETY: the range is in the vector. The upper bytes of the value do not count.
                let got = unsafe { everypath_fill(start, 0x5A7, len) };
                assert_eq!(got, start);
                assert!(is == expected, "{len} at {at}");
            }
        }
    }

    #[test]
    fn the_first_byte_that_differs_decides() {
        for len in lens() {
            let left = numbered(len);
            let compare = |right: &[u8]| {
                // SAFETY: both have `len` bytes.
                let sign = unsafe { everypath_compare(left.as_ptr(), right.as_ptr(), len) };
                assert_eq!(sign.signum(), left[..].cmp(right) as i32, "{len}");
            };
            compare(&left);
            for at in (0..len).filter(|at| *at < 40 || at + 40 > len) {
                for (other, behind) in [(1, 0xFF), (0xFF, 1), (0x80, 0x80)] {
                    let mut right = left.clone();
                    right[at] = left[at].wrapping_add(other);
                    for byte in &mut right[at + 1..] {
                        *byte = byte.wrapping_add(behind);
                    }
                    compare(&right);
                }
            }
        }
    }
}
