//! Copying and filling of memory. The compiler would call functions of a library for it, and there is none.
//!
//! Source: Intel SDM volume 2, `MOVS`, `STOS`.

use core::arch::asm;

/// Copies bytes to the beginning of others, of which there are as many or more.
pub fn copy(to: &mut [u8], from: &[u8]) {
    let len = from.len().min(to.len());
    // SAFETY: both are so long, and the direction flag is clear, as the convention has it. String instructions begin slowly, so
    // eight bytes at a time are copied while there are few.
    unsafe {
        asm!(
            "cmp rcx, 256",
            "ja 5f",
            "2:",
            "sub rcx, 8",
            "jb 3f",
            "mov rax, [rsi]",
            "mov [rdi], rax",
            "add rsi, 8",
            "add rdi, 8",
            "jmp 2b",
            "3:",
            "add rcx, 8",
            "jz 6f",
            "4:",
            "mov al, [rsi]",
            "mov [rdi], al",
            "inc rsi",
            "inc rdi",
            "dec rcx",
            "jnz 4b",
            "jmp 6f",
            "5:",
            "rep movsb",
            "6:",
            inout("rcx") len => _,
            inout("rsi") from.as_ptr() => _,
            inout("rdi") to.as_mut_ptr() => _,
            out("rax") _,
            options(nostack),
        );
    }
}

/// Fills numbers with zeros.
pub fn clear(numbers: &mut [u16]) {
    // SAFETY: there are so many, and the direction flag is clear, as the convention has it.
    unsafe {
        asm!(
            "rep stosw",
            inout("rcx") numbers.len() => _,
            inout("rdi") numbers.as_mut_ptr() => _,
            in("ax") 0u16,
            options(nostack),
        );
    }
}
