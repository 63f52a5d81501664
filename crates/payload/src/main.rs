//! The freestanding binary that runs inside the target. No logic: entry,
//! self-relocation, memory routines, allocator, panic.
//!
//! Rules of the house: a static-PIE without libc, interpreter, thread-local
//! storage or undefined symbols; only `R_X86_64_RELATIVE` relocations; no
//! vector registers beyond the xmm state that `dbt::entry` saves.
#![no_std]
#![no_main]

use core::arch::global_asm;

#[global_allocator]
static HEAP: agent::heap::Heap = agent::heap::Heap::new();

global_asm!(
    ".global _start",
    "_start:",
    "mov rdi, rsp",
    "lea rsi, [rip + __ehdr_start]",
    "lea rdx, [rip + _end]",
    "lea rcx, [rip + _DYNAMIC]",
    "xor ebp, ebp",
    "and rsp, -16",
    // The kernel's stack becomes the program's: run on one of our own.
    "lea rsp, [rip + boot_stack_end]",
    "call {begin}",
    "ud2",
    ".section .bss",
    ".balign 64",
    "boot_stack:",
    ".zero 262144",
    "boot_stack_end:",
    ".text",
    // Memory routines that the compiler calls.
    ".global memcpy",
    ".global memmove",
    ".global memset",
    ".global memcmp",
    ".global bcmp",
    "memcpy:",
    "memmove:",
    "jmp {everypath_move}",
    "memset:",
    "jmp {everypath_fill}",
    "memcmp:",
    "bcmp:",
    "jmp {everypath_compare}",
    ".global strlen",
    "strlen:",
    "xor eax, eax",
    "4:",
    "cmp byte ptr [rdi + rax], 0",
    "je 5f",
    "inc rax",
    "jmp 4b",
    "5:",
    "ret",
    begin = sym begin,
    everypath_move = sym sys::bytes::everypath_move,
    everypath_fill = sym sys::bytes::everypath_fill,
    everypath_compare = sym sys::bytes::everypath_compare,
);

/// Applies our relative relocations, then starts the engine.
///
/// # Safety
/// Called once by `_start` with the kernel's rsp, our own image's bounds and
/// our dynamic section.
unsafe extern "C" fn begin(sp: u64, start: u64, end: u64, dynamic: *const [u64; 2]) -> ! {
    const DT_NULL: u64 = 0;
    const DT_RELA: u64 = 7;
    const DT_RELASZ: u64 = 8;
    const R_X86_64_RELATIVE: u64 = 8;
    let (mut table, mut size) = (0, 0);
    let mut at = dynamic;
    // SAFETY: the linker ends the dynamic section with DT_NULL; relocations
    // point into our own writable data. Nothing relocated is used before.
    unsafe {
        while (*at)[0] != DT_NULL {
            match (*at)[0] {
                DT_RELA => table = (*at)[1],
                DT_RELASZ => size = (*at)[1],
                _ => {}
            }
            at = at.add(1);
        }
        let mut rela = (start + table) as *const [u64; 3];
        let stop = (start + table + size) as *const [u64; 3];
        while rela < stop {
            let [offset, kind, addend] = *rela;
            if kind & 0xffff_ffff == R_X86_64_RELATIVE {
                *((start + offset) as *mut u64) = start + addend;
            }
            rela = rela.add(1);
        }
    }
    // Before any other system call: a filter that was inherited may allow only what comes
    // through the gate. Where that cannot be, filters decide about ours.
    // SAFETY: the only thread of this process, which has made no call yet.
    let _ = unsafe { sys::gate::open() };
    let end = end.next_multiple_of(4096);
    // SAFETY: the kernel's rsp at our first instruction, and our own image.
    unsafe { dbt::start::main(sp, start..end, &HEAP) }
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    struct Stderr;
    impl core::fmt::Write for Stderr {
        fn write_str(&mut self, text: &str) -> core::fmt::Result {
            let _ = sys::write(2, text.as_bytes());
            Ok(())
        }
    }
    let _ = core::fmt::Write::write_fmt(
        &mut Stderr,
        format_args!(
            "everypath: internal error: {info}; what was recorded so far is kept, please report this\n"
        ),
    );
    sys::exit_group(125)
}

/// Named by precompiled `core`; never called, panics abort.
// SAFETY: nothing else has this name: the program is linked without libraries.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

/// Entry of the unwinder, which the linker asks for and nothing calls.
// SAFETY: nothing else has this name, either: it is libgcc's, which is not linked.
#[unsafe(no_mangle)]
extern "C" fn _Unwind_Resume() -> ! {
    loop {}
}
