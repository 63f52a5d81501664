//! The code that lives in an edited file: it gives each thread of each process its counters.
//!
//! Problem: code that was inserted adds to `%gs:DISTANCE`, so each thread needs memory at its `%gs` before it comes to such code, and
//! a forked child needs memory of its own. Nothing that goes wrong here may change what the program does.
//!
//! Approach: threads come to edited code by its old entries only, and children by `fork` returning. At each of these places
//! inserted code compares the thread pointer with the owner of the memory at `%gs`. A new thread has its creator's `%gs`, a
//! child has memory that is zero: both come here. So does the first thread that comes to a file: its counters are
//! mapped into the memory of all threads that have some ([`modules`]). The counters are mapped from a file that is made with the
//! process's first thread ([`wire::counters`]). Where no file can be made, or it has no room, they are memory that nobody
//! reads, and standard error says so once.
//!
//! In a static program the first thread has no thread pointer until the program has set it up: it comes here at every entry, and has
//! counters without an owner so long.
//!
//! Files that were edited together have one state, at an address that all of them know ([`modules::state`]).
//!
//! Rules of the house: no data that is written, no relocation, no panic: the linker's script says so. A caller's registers
//! are kept, vectors too. All system calls are the kernel's own, and no descriptor stays open.
//!
//! Limits: a filter of system calls that kills the process for one of ours; threads that share a thread pointer; programs that
//! use `%gs` themselves. Where files were edited together and the kernel has no address space for their state when the first of
//! them is entered, or another group of files has the threads' `%gs`, the program ends with a sentence.
#![no_std]
#![no_main]

mod calls;
mod contexts;
mod counted;
mod events;
mod files;
mod fuzzer;
mod loops;
mod memory;
mod modules;
mod slots;
mod stream;

use core::arch::global_asm;

use wire::counters::{CONTEXTS_AT, Configuration, FOLDER, FULL_AT, ID, Process, TALLY_AT, TURNS_AT};

global_asm!(
    ".section .text.first, \"ax\"",
    ".global resident",
    // The address to go on at is in r11; all other registers are the program's.
    "resident:",
    ".byte 0xe9",
    ".long 2f - 1f",
    "1:",
    ".balign 8",
    ".global told",
    "told:",
    ".zero 1104",
    // Values are counted here, see `tally`.
    ".byte 0xe9",
    ".long tally - 3f",
    "3:",
    ".balign 8",
    "jmp turns",
    ".balign 32",
    // The address to go on at is in a register: one for each, by number.
    ".macro full register",
    ".balign 32",
    "lea rsp, [rsp - 128]",
    "push \\register",
    "call full",
    "pop \\register",
    "lea rsp, [rsp + 128]",
    "jmp \\register",
    ".endm",
    "full rax",
    "full rcx",
    "full rdx",
    "full rbx",
    "full rsp",
    "full rbp",
    "full rsi",
    "full rdi",
    "full r8",
    "full r9",
    "full r10",
    "full r11",
    "full r12",
    "full r13",
    "full r14",
    "full r15",
    // Records of contexts, see `contexts`, and nests of loops, see `loops`.
    ".irp routine, push_record, enter_record, restore, leave_handler, log_event, count_call, tell_jump, loop_head, loop_leave, loop_refer",
    ".balign 8",
    "jmp \\routine",
    ".endr",
    ".balign 8",
    "2:",
    // The program may have something below its stack pointer.
    "lea rsp, [rsp - 128]",
    "pushfq",
    "push r11",
    "push rax",
    "push rcx",
    "push rdx",
    "push rsi",
    "push rdi",
    "push r8",
    "push r9",
    "push r10",
    "push rbp",
    "mov rbp, rsp",
    "sub rsp, 512",
    "and rsp, -64",
    "fxsave64 [rsp]",
    "cld",
    "lea rdi, [rip + told]",
    "call {enter}",
    "fxrstor64 [rsp]",
    "mov rsp, rbp",
    "pop rbp",
    "pop r10",
    "pop r9",
    "pop r8",
    "pop rdi",
    "pop rsi",
    "pop rdx",
    "pop rcx",
    "pop rax",
    "pop r11",
    "popfq",
    "lea rsp, [rsp + 128]",
    "jmp r11",
    enter = sym enter,
);

global_asm!(
    ".section .text",
    // Flags are free, or somewhere else; all registers are the program's.
    "full:",
    "push rax",
    "push rcx",
    "push rdx",
    "push rsi",
    "push rdi",
    "push r8",
    "push r9",
    "push r10",
    "push r11",
    "push rbp",
    "mov rbp, rsp",
    "sub rsp, 512",
    "and rsp, -64",
    "fxsave64 [rsp]",
    "cld",
    "lea rdi, [rip + told]",
    "call {make_room}",
    "fxrstor64 [rsp]",
    "mov rsp, rbp",
    "pop rbp",
    "pop r11",
    "pop r10",
    "pop r9",
    "pop r8",
    "pop rdi",
    "pop rsi",
    "pop rdx",
    "pop rcx",
    "pop rax",
    "ret",
    make_room = sym make_room,
);

const _: () = assert!(size_of::<Configuration>() == 64 + ID + 2 * FOLDER);
const _: () = assert!(TALLY_AT == 8 + 1104);
const _: () = assert!(TURNS_AT == TALLY_AT + 8);
const _: () = assert!(FULL_AT == 1152);
const _: () = assert!(CONTEXTS_AT == 1664);

global_asm!(
    ".section .text",
    // Its facts are at r11 (`probe::Tallied`); flags are free, all other registers are the program's.
    // A handler of a signal may count in the same table at any moment: each word is changed by one instruction.
    "tally:",
    // The program may have something below its stack pointer.
    "lea rsp, [rsp - 128]",
    // Registers by their numbers.
    "push r15",
    "push r14",
    "push r13",
    "push r12",
    "push r11",
    "push r10",
    "push r9",
    "push r8",
    "push rdi",
    "push rsi",
    "push rbp",
    "push rsp",
    "push rbx",
    "push rdx",
    "push rcx",
    "push rax",
    // The stack pointer as it was: 11 registers and 128 bytes above the one that was pushed.
    "add qword ptr [rsp + 32], 128 + 11 * 8",
    "movzx eax, byte ptr [r11 + 12]",
    "movzx ecx, byte ptr [r11 + 14]",
    "test cl, 0x80",
    "jz 2f",
    "mov rax, [rsp + 8 * rax]",
    "jmp 5f",
    // The value is in memory: its address is the sum in rdx.
    "2:",
    "movsxd rdx, dword ptr [r11 + 8]",
    "cmp al, 0xff",
    "je 3f",
    "cmp al, 0xfe",
    "jne 4f",
    "add rdx, r11",
    "jmp 3f",
    "4:",
    "add rdx, [rsp + 8 * rax]",
    "3:",
    "movzx eax, byte ptr [r11 + 13]",
    "cmp al, 0xff",
    "je 4f",
    "mov rax, [rsp + 8 * rax]",
    // The processor takes the lowest bits of cl.
    "shl rax, cl",
    "add rdx, rax",
    "4:",
    "test cl, 0x40",
    "jz 4f",
    "add rdx, fs:[0]",
    "4:",
    "mov rax, [rdx]",
    // The value is in rbx, the site's table at rdx.
    "5:",
    "mov rbx, rax",
    "mov edx, [r11 + 4]",
    "mov ecx, 4",
    "6:",
    "mov rax, gs:[rdx]",
    "cmp rax, rbx",
    "je 8f",
    "test rax, rax",
    "jnz 7f",
    // This pair is free, unless a handler takes it meanwhile.
    "cmpxchg gs:[rdx], rbx",
    "je 8f",
    "jmp 6b",
    "7:",
    "add rdx, 16",
    "dec ecx",
    "jnz 6b",
    // The table that sites share: the value is looked for with the number of the site, from a place on that a hash says.
    "movzx ecx, byte ptr [r11 + 15]",
    "test ecx, ecx",
    "jz 9f",
    "mov rax, rbx",
    "shr rax, 47",
    "jnz 9f",
    "mov eax, [r11 + 20]",
    "shl rax, 47",
    "or rbx, rax",
    "mov esi, 1",
    "shl esi, cl",
    "dec esi",
    "movabs rdi, 0x9e3779b97f4a7c15",
    "imul rdi, rbx",
    "neg ecx",
    "shr rdi, cl",
    "mov ecx, 64",
    "6:",
    "mov edx, edi",
    "shl rdx, 4",
    "mov eax, [r11 + 16]",
    "add rdx, rax",
    "4:",
    "mov rax, gs:[rdx]",
    "cmp rax, rbx",
    "je 8f",
    "test rax, rax",
    "jnz 7f",
    "cmpxchg gs:[rdx], rbx",
    "je 8f",
    "jmp 4b",
    "7:",
    "inc edi",
    "and edi, esi",
    "dec ecx",
    "jnz 6b",
    "jmp 9f",
    "8:",
    "inc qword ptr gs:[rdx + 8]",
    "9:",
    "movsxd rax, dword ptr [r11]",
    "add r11, rax",
    "pop rax",
    "pop rcx",
    "pop rdx",
    "pop rbx",
    "pop rbp",
    "pop rbp",
    "pop rsi",
    "pop rdi",
    "pop r8",
    "pop r9",
    "pop r10",
    "lea rsp, [rsp + 8]",
    "pop r12",
    "pop r13",
    "pop r14",
    "pop r15",
    "lea rsp, [rsp + 128]",
    "jmp r11",
);

/// Gives the thread that calls its counters.
///
/// # Safety
/// Called by the code above only, with what the editor wrote.
unsafe extern "C" fn enter(configuration: *const Configuration) {
    // A handler of a signal would come here again while the lock is held.
    let mask = calls::block_signals();
    // SAFETY: the editor keeps room for this file's own data, writable and zero at first, at this distance.
    let own = unsafe {
        configuration
            .cast::<u8>()
            .offset((*configuration).state as isize)
    };
    // SAFETY: all are valid as long as the file is mapped, and only the holder of the lock uses the state.
    unsafe {
        let state = modules::state(&*configuration, own.cast_mut().cast());
        let started = own.cast_mut().cast::<u32>();
        slots::lock(state);
        let process = (*state).process as *mut Process;
        let is_first = process.is_null();
        if is_first || (*process).alive == 0 {
            files::begin(&*configuration, state, !is_first);
        }
        if started.read_volatile() == 0 {
            modules::add(&*configuration, state);
        }
        let thread = calls::thread();
        slots::take(&*configuration, state, thread);
        // Code in front of entries reads the thread pointer from then on.
        if (*state).process != 0 && thread != 0 {
            started.write_volatile(1);
        }
        let process = (*state).process as *mut Process;
        if is_first && !process.is_null() && (*process).fuzzer != 0 {
            fuzzer::serve((*configuration).window);
        }
        slots::unlock(state);
    }
    calls::restore_signals(mask);
}

/// Has a thread's full lane written to the file.
///
/// # Safety
/// Called by the code above only, with what the editor wrote.
unsafe extern "C" fn make_room(configuration: *const Configuration) {
    let mask = calls::block_signals();
    // SAFETY: as in `enter`; the thread has memory at its `%gs`, as it appended there.
    unsafe {
        let own = configuration
            .cast::<u8>()
            .offset((*configuration).state as isize);
        let state = modules::state(&*configuration, own.cast_mut().cast());
        slots::lock(state);
        stream::write(&*configuration, state);
        slots::unlock(state);
    }
    calls::restore_signals(mask);
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
