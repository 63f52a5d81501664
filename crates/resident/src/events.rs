//! Events of calls that are logged ([`wire::contexts::LANE_AT`]): `log_event` appends one to the thread's lane.
//!
//! Its facts at `r11` are the function, and whether it is called, returns, or goes on as another one; it goes on behind them, with all
//! registers as they were. Flags are free, and nothing is below the stack pointer but the word that inserted code keeps there.
//!
//! Approach: the thread has a copy of each record as the stream has it, at [`COPY`] from the record, and an event has those alone that
//! differ. All of a path are compared, as one that is the same may lie above one that is not.
//!
//! Invariant: an event counts once the lane's cursor is behind it, and copies are made only then. A handler of a signal may append one at
//! any moment: before, the cursor is not what it was, and the event is written once more behind it; behind, the handler's has what is
//! not copied yet once more.

use core::arch::global_asm;
use core::mem::offset_of;

use wire::contexts::{
    ALONE, CALLED, COPY, EVENT, HEAD, IS_LOST, Kind, LANE_AT, LOGGED, MORE, MOST_EVENT, RECORD, Record,
    SHORT, State,
};
use wire::counters::{FIRST, Lane};

global_asm!(
    ".section .text",
    ".balign 16",
    "log_event:",
    "lea rsp, [rsp - 128]",
    "push rax",
    "push rcx",
    "push rdx",
    "push rsi",
    "push rdi",
    "push r8",
    "2:",
    "mov rdi, gs:[{cursor}]",
    "mov r8d, [r11 + 4]",
    "lea rsi, [rdi + 8 * {short}]",
    "mov rax, [rsp + 8]",
    "cmp r8d, {called}",
    "jne 8f",
    "lea rsi, [rdi + 8 * {event}]",
    // Records that are not as the stream has them.
    "mov rax, gs:[{top}]",
    "3:",
    "cmp eax, {bottom}",
    "je 6f",
    "mov rcx, gs:[rax + {level}]",
    "cmp rcx, gs:[rax + {copy} + {level}]",
    "jne 4f",
    "mov rcx, gs:[rax + {own_number}]",
    "cmp rcx, gs:[rax + {copy} + {own_number}]",
    "jne 4f",
    "mov rcx, gs:[rax + {own_site}]",
    "cmp rcx, gs:[rax + {copy} + {own_site}]",
    "jne 4f",
    "mov rcx, gs:[rax + {entry}]",
    "cmp rcx, gs:[rax + {copy} + {entry}]",
    "jne 4f",
    "mov rcx, gs:[rax + {below}]",
    "cmp rcx, gs:[rax + {copy} + {below}]",
    "jne 4f",
    // A handler may have interrupted something else.
    "cmp dword ptr gs:[rax + {kind}], {handler}",
    "jne 5f",
    "4:",
    "lea rcx, [rdi + {most}]",
    "cmp rsi, rcx",
    "jle 7f",
    // The rest comes with the next event.
    "mov r8d, {more}",
    "jmp 6f",
    "7:",
    // All of it, behind its displacement.
    "mov gs:[rsi + {end}], rax",
    ".irp word, 0, 8, 16, 24, 32, 40, 48, 56",
    "mov rcx, gs:[rax + \\word]",
    "mov gs:[rsi + {end} + 8 + \\word], rcx",
    ".endr",
    "add rsi, 8 * {logged}",
    "5:",
    "mov eax, gs:[rax + {below}]",
    "jmp 3b",
    "6:",
    "mov rax, gs:[{number}]",
    "mov gs:[rdi + {end} + 32], rax",
    "mov rax, gs:[{site}]",
    "mov gs:[rdi + {end} + 40], rax",
    "mov rax, gs:[{top}]",
    "mov gs:[rdi + {end} + 48], rax",
    "mov rax, [rsp + 2 * 8]",
    "mov gs:[rdi + {end} + 56], rax",
    "mov rax, [rsp + 3 * 8]",
    "mov gs:[rdi + {end} + 64], rax",
    "lea rcx, [rsp + 128 + 6 * 8]",
    "xor eax, eax",
    "cmp gs:[{lost}], rcx",
    "setae al",
    "shl eax, {is_lost}",
    "or r8d, eax",
    "mov rax, [rsp + 8]",
    // A first argument, or a result.
    "8:",
    "cmp r8d, {returned}",
    "cmove rax, [rsp + 5 * 8]",
    "mov gs:[rdi + {end} + 24], rax",
    "rdtsc",
    "shl rdx, 32",
    "or rax, rdx",
    "mov gs:[rdi + {end} + 8], rax",
    "lea rax, [rsp + 128 + 6 * 8]",
    "mov gs:[rdi + {end} + 16], rax",
    "mov rcx, rsi",
    "sub rcx, rdi",
    "shl ecx, 16",
    "or ecx, r8d",
    "shl rcx, 32",
    "mov eax, [r11]",
    "or rcx, rax",
    "mov gs:[rdi + {end}], rcx",
    "mov rax, rdi",
    "cmpxchg gs:[{cursor}], rsi",
    "jne 2b",
    // The stream has these records now.
    "lea rdi, [rdi + 8 * {event}]",
    "3:",
    "cmp rdi, rsi",
    "jge 5f",
    "mov rax, gs:[rdi + {end}]",
    ".irp word, 0, 8, 16, 24, 32, 40, 48, 56",
    "mov rcx, gs:[rdi + {end} + 8 + \\word]",
    "mov gs:[rax + {copy} + \\word], rcx",
    ".endr",
    "add rdi, 8 * {logged}",
    "jmp 3b",
    "5:",
    "test rsi, rsi",
    "js 6f",
    "call full",
    "6:",
    "and r8d, {kinds}",
    "cmp r8d, {more}",
    "je 2b",
    "pop r8",
    "pop rdi",
    "pop rsi",
    "pop rdx",
    "pop rcx",
    "pop rax",
    "lea rsp, [rsp + 128]",
    "add r11, 16",
    "jmp r11",
    cursor = const FIRST + LANE_AT + offset_of!(Lane, cursor) as u64,
    end = const FIRST + LANE_AT + Lane::HEAD + Lane::ROOM,
    number = const FIRST as usize + offset_of!(State, number),
    site = const FIRST as usize + offset_of!(State, site),
    top = const FIRST as usize + offset_of!(State, top),
    lost = const FIRST as usize + offset_of!(State, lost),
    level = const offset_of!(Record, level),
    own_number = const offset_of!(Record, number),
    own_site = const offset_of!(Record, site),
    entry = const offset_of!(Record, entry),
    below = const offset_of!(Record, below),
    kind = const offset_of!(Record, kind),
    handler = const Kind::Handler as u32,
    copy = const COPY,
    bottom = const FIRST + HEAD,
    called = const CALLED,
    returned = const wire::contexts::RETURNED,
    more = const MORE,
    kinds = const (1u32 << IS_LOST) - 1,
    is_lost = const IS_LOST,
    event = const EVENT,
    short = const SHORT,
    logged = const LOGGED,
    most = const MOST_EVENT,
);

// An event that begins in front of the end of a lane ends in it; `below` and `kind`, and `entry` and `by`, are a word.
const _: () = assert!(
    Lane::HEAD + Lane::ROOM + MOST_EVENT + 8 * LOGGED as u64 <= Lane::BYTES
        && offset_of!(Record, by) == offset_of!(Record, entry) + 4
        && offset_of!(Record, kind) == offset_of!(Record, below) + 4
        && LOGGED as u64 * 8 == RECORD + 8
        && ALONE > CALLED
);
