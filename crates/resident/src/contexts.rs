//! Records of calling contexts ([`wire::contexts`]): what inserted code does not do itself.
//!
//! | routine | facts at `r11` | what |
//! |---|---|---|
//! | `push_record` | entry, site, kind, level from the stack pointer | puts a record on top |
//! | `enter_record` | entry, 0, kind, 1 if records have nodes | other code comes to an entry: puts a record on top, another one if it is the kernel with a signal |
//! | `restore` | entry, 1 if from `rbp`, kind, level from that register | control comes to a landing pad, or once more from a call: gives back what the function had when it was entered |
//! | `tell_jump` | site, 0, 0, 0 | a function goes on as other code: tells the site; if other code called it, takes back its own |
//! | `leave_handler` | none | a function is left that may be a handler of a signal: takes off its record |
//!
//! They go on behind the facts, or at `r11`. Flags are free; all other registers are the program's, and nothing is below the stack
//! pointer but the word that code in front of entries keeps there: at entries, at calls, behind them and at returns.
//!
//! Invariant: a handler of a signal may come at any moment. Its record leaves one free above the top, which what was interrupted may be
//! writing, and the top is as it was when the handler has returned.

use core::arch::global_asm;
use core::mem::offset_of;

use wire::contexts::{BYTES, HEAD, Kind, MAGIC, RECORD, Record, State};
use wire::counters::FIRST;

use crate::memory;

global_asm!(
    ".section .text",
    // The record above the one at rax becomes the top; its level is in rcx.
    ".macro put",
    "mov gs:[rax + {record} + {level}], rcx",
    "mov rcx, gs:[{number}]",
    "mov gs:[rax + {record} + {own_number}], rcx",
    "mov rcx, gs:[{site}]",
    "mov gs:[rax + {record} + {own_site}], rcx",
    "mov rcx, [r11]",
    "mov gs:[rax + {record} + {entry}], rcx",
    "mov ecx, [r11 + 8]",
    "mov gs:[rax + {record} + {kind}], ecx",
    "mov gs:[rax + {record} + {below}], eax",
    "mov dword ptr gs:[rax + {record} + {interrupted}], 0",
    "add rax, {record}",
    "mov gs:[{top}], rax",
    ".endm",
    ".macro go_on",
    "mov rax, [rsp - 16]",
    "mov rcx, [rsp - 24]",
    "add r11, 16",
    "jmp r11",
    ".endm",
    ".balign 16",
    "push_record:",
    "mov [rsp - 16], rax",
    "mov [rsp - 24], rcx",
    "mov rax, gs:[{top}]",
    "movsxd rcx, dword ptr [r11 + 12]",
    "add rcx, rsp",
    "1:",
    "cmp gs:[rax + {level}], rcx",
    "jbe 3f",
    "cmp rax, {last}",
    "ja no_room",
    "2:",
    "put",
    "go_on",
    "3:",
    "mov eax, gs:[rax + {below}]",
    "jmp 1b",
    ".balign 16",
    "enter_record:",
    "mov [rsp - 16], rax",
    "mov [rsp - 24], rcx",
    "mov rax, gs:[{top}]",
    "1:",
    "cmp gs:[rax + {level}], rsp",
    "jb 3f",
    "je 9f",
    "7:",
    "cmp rax, {last}",
    "mov rcx, rsp",
    "ja no_room",
    // The third argument of a handler is what the kernel puts behind its return address.
    "lea rcx, [rsp + 8]",
    "cmp rcx, rdx",
    "mov rcx, rsp",
    "je 4f",
    "2:",
    "put",
    "go_on",
    "3:",
    "mov eax, gs:[rax + {below}]",
    "jmp 1b",
    // A function that was entered with this stack pointer goes on as this one, if it told so: its record says who called. Of those
    // that did so one after the other, two are kept.
    "9:",
    "cmp gs:[{site}], esp",
    "jne 3b",
    "mov ecx, gs:[rax + {below}]",
    "cmp gs:[rcx + {level}], rsp",
    "jne 7b",
    "jmp 3b",
    // The first argument is a signal, and it returns to `mov $15, %rax; syscall`.
    "4:",
    "lea rcx, [rdi - 1]",
    "cmp rcx, 63",
    "ja 5f",
    "mov rcx, [rsp]",
    "cmp dword ptr [rcx], 0x0fc0c748",
    "jne 5f",
    "cmp dword ptr [rcx + 4], 0x0f000000",
    "je 6f",
    "5:",
    "mov rcx, rsp",
    "jmp 2b",
    "6:",
    "cmp dword ptr [r11 + 8], {leaves}",
    "jne 8f",
    "mov [rsp - 32], rdx",
    "mov rdx, rax",
    "add rax, {record}",
    "mov rcx, [rsp + 8 + 168]",
    "mov gs:[rax + {record} + {interrupted}], rcx",
    "mov rcx, [rsp + 8 + 160]",
    "mov gs:[rax + {record} + {stack_before}], rcx",
    "mov gs:[rax + {record} + {stack}], rsp",
    "mov rcx, gs:[{number}]",
    "mov gs:[rax + {record} + {own_number}], rcx",
    "mov rcx, gs:[{site}]",
    "mov gs:[rax + {record} + {own_site}], rcx",
    "mov ecx, [r11]",
    "mov gs:[rax + {record} + {entry}], ecx",
    // On another stack, if the kernel knows one: so many bytes of it are free.
    "mov rcx, rsp",
    "sub rcx, [rsp + 8 + 16]",
    "cmp rcx, [rsp + 8 + 32]",
    "jb 7f",
    "xor ecx, ecx",
    "7:",
    "mov gs:[rax + {record} + {by}], ecx",
    "mov dword ptr gs:[rax + {record} + {kind}], {handler}",
    "mov gs:[rax + {record} + {below}], edx",
    "mov rcx, -1",
    "mov gs:[rax + {record} + {level}], rcx",
    "add rax, {record}",
    "mov gs:[{top}], rax",
    "inc qword ptr gs:[{handlers}]",
    "mov rdx, [rsp - 32]",
    "go_on",
    // Nobody would take it off.
    "8:",
    "mov rcx, -1",
    "mov gs:[{lost}], rcx",
    "go_on",
    // The level is in rcx.
    "no_room:",
    "cmp gs:[{lost}], rcx",
    "jae 1f",
    "mov gs:[{lost}], rcx",
    "1:",
    "go_on",
    ".balign 16",
    "restore:",
    "mov [rsp - 16], rax",
    "mov [rsp - 24], rcx",
    "mov [rsp - 32], rdx",
    "mov [rsp - 40], rsi",
    "mov rcx, rsp",
    "cmp dword ptr [r11 + 4], 0",
    "je 1f",
    "mov rcx, rbp",
    "1:",
    "movsxd rdx, dword ptr [r11 + 12]",
    "add rcx, rdx",
    "mov edx, [r11]",
    // Number of handlers that control has left.
    "xor esi, esi",
    "mov rax, gs:[{top}]",
    "2:",
    "cmp gs:[rax + {level}], rcx",
    "jne 3f",
    "cmp gs:[rax + {entry}], edx",
    "jne 3f",
    "cmp dword ptr gs:[rax + {kind}], {mark}",
    "je 5f",
    "cmp dword ptr gs:[rax + {kind}], {unknown}",
    "je 5f",
    "3:",
    "cmp eax, {bottom}",
    "je 6f",
    "cmp dword ptr gs:[rax + {kind}], {handler}",
    "jne 4f",
    "inc esi",
    "4:",
    "mov eax, gs:[rax + {below}]",
    "jmp 2b",
    "5:",
    "sub gs:[{handlers}], rsi",
    "mov gs:[{top}], rax",
    "mov rcx, gs:[rax + {own_number}]",
    "mov gs:[{number}], rcx",
    "mov rcx, gs:[rax + {own_site}]",
    "mov gs:[{site}], rcx",
    "jmp 9f",
    // The function's own mark was taken off, as a stack was left that is above this one.
    "6:",
    "mov qword ptr gs:[{site}], 0",
    "mov rax, gs:[{top}]",
    "7:",
    "cmp gs:[rax + {level}], rcx",
    "ja 8f",
    "mov eax, gs:[rax + {below}]",
    "jmp 7b",
    "8:",
    "cmp rax, {last}",
    "ja 4f",
    "put",
    "jmp 9f",
    "4:",
    "cmp gs:[{lost}], rcx",
    "jae 9f",
    "mov gs:[{lost}], rcx",
    "9:",
    "mov rdx, [rsp - 32]",
    "mov rsi, [rsp - 40]",
    "go_on",
    // The code as which the function goes on returns to the function's caller. Encoded code takes its site back there; other code
    // does not, and what that calls next would seem to be called by the function that is left.
    ".balign 16",
    "tell_jump:",
    "mov [rsp - 16], rax",
    "mov [rsp - 24], rcx",
    "mov rax, gs:[{top}]",
    "1:",
    "cmp gs:[rax + {level}], rsp",
    "jb 3f",
    "je 4f",
    "2:",
    "mov ecx, [r11]",
    "shl rcx, 32",
    "mov eax, esp",
    "or rcx, rax",
    "mov gs:[{site}], rcx",
    "go_on",
    "3:",
    "mov eax, gs:[rax + {below}]",
    "jmp 1b",
    // Its record is there, if other code came to it: that is left as well.
    "4:",
    "mov ecx, gs:[rax + {kind}]",
    "cmp ecx, {leaves}",
    "ja 2b",
    "mov rcx, gs:[rax + {own_site}]",
    "mov eax, gs:[rax + {below}]",
    "mov gs:[{site}], rcx",
    "mov gs:[{top}], rax",
    "go_on",
    ".balign 16",
    "leave_handler:",
    "mov [rsp - 16], rax",
    "mov [rsp - 24], rcx",
    "mov rax, gs:[{top}]",
    "1:",
    "cmp dword ptr gs:[rax + {kind}], {handler}",
    "je 2f",
    "cmp gs:[rax + {level}], rsp",
    "ja 3f",
    "mov eax, gs:[rax + {below}]",
    "jmp 1b",
    "2:",
    "cmp gs:[rax + {stack}], rsp",
    "jne 3f",
    "mov rcx, gs:[rax + {own_site}]",
    "mov eax, gs:[rax + {below}]",
    "mov gs:[{top}], rax",
    "mov gs:[{site}], rcx",
    "dec qword ptr gs:[{handlers}]",
    "3:",
    "mov rax, [rsp - 16]",
    "mov rcx, [rsp - 24]",
    "jmp r11",
    number = const FIRST as usize + offset_of!(State, number),
    site = const FIRST as usize + offset_of!(State, site),
    top = const FIRST as usize + offset_of!(State, top),
    lost = const FIRST as usize + offset_of!(State, lost),
    handlers = const FIRST as usize + offset_of!(State, handlers),
    level = const offset_of!(Record, level),
    own_number = const offset_of!(Record, number),
    own_site = const offset_of!(Record, site),
    interrupted = const offset_of!(Record, interrupted),
    stack = const offset_of!(Record, stack),
    stack_before = const offset_of!(Record, stack_before),
    entry = const offset_of!(Record, entry),
    by = const offset_of!(Record, by),
    below = const offset_of!(Record, below),
    kind = const offset_of!(Record, kind),
    leaves = const Kind::EnteredLeaves as u32,
    mark = const Kind::Mark as u32,
    unknown = const Kind::Lost as u32,
    handler = const Kind::Handler as u32,
    record = const RECORD,
    bottom = const FIRST + HEAD,
    // Two records fit behind it: that of a handler leaves one free.
    last = const FIRST + BYTES - 4 * RECORD,
);

const _: () = assert!(offset_of!(Record, by) == offset_of!(Record, entry) + 4);

/// Has a thread's memory begin: nothing is known of it yet.
///
/// # Safety
/// The memory is there.
pub unsafe fn begin(memory: u64) {
    // SAFETY: the caller's duty.
    unsafe {
        let state = memory as *mut State;
        state.write_volatile(State {
            top: FIRST + HEAD,
            magic: MAGIC,
            ..State::default()
        });
        let bottom = (memory + HEAD) as *mut Record;
        bottom.write_volatile(Record {
            level: u64::MAX,
            ..Record::default()
        });
    }
}

/// Has a thread's memory begin as another one: that of the same thread before the process was forked.
///
/// # Safety
/// Both are there, and the other one has begun.
pub unsafe fn copy(from: u64, to: u64) {
    // SAFETY: the caller's duty; what is in use ends at the top record.
    unsafe {
        let top = (*(from as *const State)).top;
        let bytes = top.wrapping_sub(FIRST) + RECORD;
        if bytes > BYTES {
            begin(to);
            return;
        }
        let records = bytes - HEAD;
        let from = core::slice::from_raw_parts(from as *const u8, bytes as usize);
        memory::copy(core::slice::from_raw_parts_mut(to as *mut u8, bytes as usize), from);
        // It has a table of its own.
        let mut at = 0;
        while at < records {
            let record = (to + HEAD + at) as *mut Record;
            if (*record).kind != Kind::Handler as u32 {
                (*record).interrupted = 0;
            }
            at += RECORD;
        }
    }
}
