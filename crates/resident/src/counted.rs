//! Counters of calls by context ([`wire::contexts::Calls`]): `count_call` adds one to that of the context of the function which is
//! entered.
//!
//! Its facts at `r11` are the function, [`COUNTED`], and the function's word ([`wire::contexts::last_context`]), which it sets: code at
//! the entry itself counts the next call, if that has the same context ([`probe::Op::Count`]). It goes on behind them, with all registers as they were. Flags are free, and
//! nothing is below the stack pointer but the word that inserted code keeps there.
//!
//! Approach: a record has the number of its node, once it has one; what puts a record on top makes it 0. So a call of a known context
//! is one lookup, and one with a new record, as behind a call by a pointer, two. All else is done by [`count`], with signals blocked:
//! contexts that come for the first time, handlers of signals, which have no room for the number of a node, and what is not known.
//!
//! Invariant: two contexts have one entry only if readers make the same path of both. The words of an entry are all that the path
//! follows from ([`analysis::encoded`]'s `path_to`): distances between stack pointers only say which records are skipped, and entries
//! name the record that is not. A table is never given back, as a call that a handler interrupted may read it; its shift and mask
//! stand in front of it, so they are always those of the table that is read.
//!
//! [`probe::Op::Count`]: ../../probe/src/lib.rs
//! [`analysis::encoded`]: ../../analysis/src/encoded.rs

mod table;
mod thread;

use core::arch::global_asm;
use core::mem::offset_of;

use wire::contexts::{
    CALLS_AT, CONTEXT, Calls, Entry, FACTOR, Kind, MOST_CONTEXTS, NODE_JUMP, NODE_KIND, NODE_UNKNOWN,
    Record, State as Numbers,
};
use wire::counters::{Configuration, FIRST, Process, SPARE};

use table::ENTRY;
use thread::Thread;

use crate::{calls, modules, slots};

global_asm!(
    ".section .text",
    // The value of the entry with the words rsi, rdi, r8 is in rdx, and its address in rax; rcx is lost.
    ".macro look_up",
    "movabs rax, {factor}",
    "mov rdx, rsi",
    "imul rdx, rax",
    "xor rdx, rdi",
    "imul rdx, rax",
    "xor rdx, r8",
    "imul rdx, rax",
    "mov rax, gs:[{table}]",
    "test rax, rax",
    "jz 50f",
    "mov rcx, [rax - 16]",
    "shr rdx, cl",
    "shl rdx, 5",
    "40:",
    "mov rcx, [rax + rdx + 24]",
    "test rcx, rcx",
    "jz 50f",
    "cmp [rax + rdx], rsi",
    "jne 41f",
    "cmp [rax + rdx + 8], rdi",
    "jne 41f",
    "cmp [rax + rdx + 16], r8",
    "je 42f",
    "41:",
    "add rdx, {entry_bytes}",
    "and rdx, [rax - 8]",
    "jmp 40b",
    "42:",
    "add rax, rdx",
    "mov rdx, rcx",
    ".endm",
    ".balign 16",
    "count_call:",
    "lea rsp, [rsp - 128]",
    "push rax",
    "push rcx",
    "push rdx",
    "push rsi",
    "push rdi",
    "push r8",
    "push r9",
    "lea rcx, [rsp + 128 + 7 * 8]",
    "cmp gs:[{lost}], rcx",
    "jae 50f",
    // The first record that holds, and is no mark.
    "mov rax, gs:[{top}]",
    "2:",
    "cmp gs:[rax + {level}], rcx",
    "jb 3f",
    "mov edx, gs:[rax + {kind}]",
    "cmp edx, {mark}",
    "jb 4f",
    "jne 50f",
    "3:",
    "mov eax, gs:[rax + {below}]",
    "jmp 2b",
    "4:",
    "mov r8d, gs:[rax + {node}]",
    "test r8d, r8d",
    "jz 10f",
    // The context. A mark on top is as the record below it.
    "5:",
    "mov rax, gs:[{top}]",
    "cmp dword ptr gs:[rax + {kind}], {mark}",
    "jne 7f",
    "mov gs:[rax + {node}], r8d",
    "7:",
    "mov esi, [r11]",
    "movabs rdx, {context}",
    "or rsi, rdx",
    "mov rdi, gs:[{number}]",
    "look_up",
    "inc qword ptr [rdx]",
    "mov ecx, [r11 + 8]",
    "mov gs:[rcx], rax",
    "6:",
    "pop r9",
    "pop r8",
    "pop rdi",
    "pop rsi",
    "pop rdx",
    "pop rcx",
    "pop rax",
    "lea rsp, [rsp + 128]",
    "add r11, 16",
    "jmp r11",
    // The node of the record at rax, whose kind is in edx.
    "10:",
    "test edx, edx",
    "jz 50f",
    "mov r9d, edx",
    "shl r9d, {node_kind}",
    "mov rcx, gs:[rax + {level}]",
    "cmp edx, {call}",
    "jne 11f",
    "add rcx, 8",
    "jmp 13f",
    "11:",
    "mov rdx, gs:[rax + {own_site}]",
    "test rdx, rdx",
    "jz 17f",
    "mov r8, rdx",
    "shr r8, 32",
    "shl r8, 32",
    "or r9, r8",
    "sub edx, ecx",
    "js 50f",
    "jnz 12f",
    "bts r9, {node_jump}",
    "12:",
    "add rcx, rdx",
    // The record below it that holds at the stack pointer in rcx.
    "13:",
    "mov edi, gs:[rax + {below}]",
    "14:",
    "cmp gs:[rdi + {level}], rcx",
    "jb 15f",
    "cmp dword ptr gs:[rdi + {kind}], {mark}",
    "jb 16f",
    "jne 50f",
    "15:",
    "mov edi, gs:[rdi + {below}]",
    "jmp 14b",
    "16:",
    "mov r8d, gs:[rdi + {node}]",
    "cmp r8d, {unknown}",
    "jbe 50f",
    "or r9, r8",
    "17:",
    // The word was stored in halves: to read it as a whole would wait for them.
    "mov esi, gs:[rax + {by}]",
    "shl rsi, 32",
    "mov ecx, gs:[rax + {entry}]",
    "or rsi, rcx",
    "mov rdi, gs:[rax + {own_number}]",
    "mov r8, r9",
    "mov r9, rax",
    "look_up",
    "mov gs:[r9 + {node}], edx",
    "mov r8d, edx",
    "jmp 5b",
    // All else.
    "50:",
    "push r10",
    "push r11",
    "push rbp",
    "mov rbp, rsp",
    "sub rsp, 512",
    "and rsp, -64",
    "fxsave64 [rsp]",
    "cld",
    "lea rdi, [rip + told]",
    "mov esi, [r11]",
    "lea rdx, [rbp + 128 + 10 * 8]",
    "call {count}",
    "fxrstor64 [rsp]",
    "mov rsp, rbp",
    "pop rbp",
    "pop r11",
    "pop r10",
    "jmp 6b",
    factor = const FACTOR,
    context = const (CONTEXT as u64) << 32,
    table = const FIRST + CALLS_AT + offset_of!(Calls, table) as u64,
    entry_bytes = const ENTRY,
    number = const FIRST as usize + offset_of!(Numbers, number),
    top = const FIRST as usize + offset_of!(Numbers, top),
    lost = const FIRST as usize + offset_of!(Numbers, lost),
    level = const offset_of!(Record, level),
    own_number = const offset_of!(Record, number),
    own_site = const offset_of!(Record, site),
    node = const offset_of!(Record, interrupted),
    entry = const offset_of!(Record, entry),
    by = const offset_of!(Record, by),
    below = const offset_of!(Record, below),
    kind = const offset_of!(Record, kind),
    mark = const Kind::Mark as u32,
    call = const Kind::Call as u32,
    unknown = const NODE_UNKNOWN,
    node_kind = const NODE_KIND,
    node_jump = const NODE_JUMP,
    count = sym count,
);

// The words of an entry, and its number behind them, are where the code above looks for them; so is a record's `by`.
const _: () = assert!(
    ENTRY == 1 << 5
        && offset_of!(Entry, value) == 24
        && offset_of!(Record, by) == offset_of!(Record, entry) + 4
        && MOST_CONTEXTS <= 1 << NODE_KIND
);

/// Counts a call of a function, whose stack pointer is told.
///
/// # Safety
/// Called by the code above only, with what the editor wrote.
unsafe extern "C" fn count(configuration: *const Configuration, token: u32, stack: u64) {
    // A handler of a signal would come here again while the lock is held.
    let mask = calls::block_signals();
    // SAFETY: as in `enter`; the thread has memory at its `%gs`, as it counts there.
    unsafe {
        let own = configuration.cast::<u8>().offset((*configuration).state as isize);
        let state = modules::state(&*configuration, own.cast_mut().cast());
        slots::lock(state);
        let slot = calls::gs();
        let process = (*state).process as *mut Process;
        // Nobody reads what is counted where threads without memory of their own count.
        if slot != state as u64 + SPARE && !process.is_null() {
            let thread = Thread {
                configuration: &*configuration,
                state,
                process,
                slot,
                calls: (slot + FIRST + CALLS_AT) as *mut Calls,
            };
            thread.count(token, stack);
        }
        slots::unlock(state);
    }
    calls::restore_signals(mask);
}
