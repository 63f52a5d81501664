//! The border between program code in the cache and the engine.
//!
//! Leaving: a stub stores why (`reason`) in the thread block and comes here
//! with every register still the program's. All general registers, the flags
//! and xmm0..15 go to the thread block; the engine runs on its own stack.
//!
//! Entering: the reverse, ending in `jmp gs:[resume_host]`. From the label
//! `everypath_window` on, no instruction writes flags, so a signal that finds
//! the thread there can set the trap flag and step to the next exact boundary
//! (`signals.rs`). A signal that came earlier has set `pending`; then the
//! thread traps at `everypath_deliver` with exactly the program's state.
//!
//! ```text
//!   cache --stub--> everypath_*_exit -> save -> dispatch() -> everypath_enter
//!                                                 window: pending? -> int3
//!   cache <------------- jmp gs:[resume_host] <---'
//! ```

use core::arch::global_asm;
use core::mem::offset_of;

use agent::thread::{CELL_TAGS, TRANSITION_STATES, TRANSITION_TAGS, ThreadContext};
use wire::node::{FUNC_SHIFT, Node, PLACE_HIGH, PLACE_LOW, PLACED_FUNCS, PLACES, TAG_BITS};

/// How often an edge must be counted between two others that ask for its cell, to keep it.
const DEFENDED: u32 = 64;

/// Values of [`ThreadContext::reason`].
pub mod reason {
    /// A stub: `exit` says which.
    pub const EXIT: u32 = 0;
    /// An indirect jump or return met an empty table slot; rcx is the target.
    pub const EMPTY_JUMP: u32 = 1;
    /// An indirect call met an empty table slot.
    pub const EMPTY_CALL: u32 = 2;
    /// A landing pad was not the target's: rcx - rdx is the target.
    pub const VERIFY_JUMP: u32 = 3;
    pub const VERIFY_CALL: u32 = 4;
    /// A tool event in the middle of a block; `event_return` is where it goes on.
    pub const EVENT: u32 = 5;
    /// Go to `resume_app` (after a signal or a new thread).
    pub const RESUME: u32 = 6;
}

global_asm!(
    ".macro everypath_leave name, why",
    ".global \\name",
    "\\name:",
    "mov dword ptr gs:[{reason}], \\why",
    "jmp everypath_save",
    ".endm",
    "everypath_leave everypath_exit, 0",
    "everypath_leave everypath_empty_jump, 1",
    "everypath_leave everypath_empty_call, 2",
    "everypath_leave everypath_verify_jump, 3",
    "everypath_leave everypath_verify_call, 4",
    "everypath_leave everypath_event, 5",
    "everypath_leave everypath_resume, 6",
    // Is the entry at rcx, in the fallback, the one with tag esi for name rbx?
    // Goes to 3 if it is, to 8 if there is none here or further on, else rcx is
    // the next one.
    ".macro everypath_try",
    "mov edi, [rcx]",
    "cmp esi, [rcx + 4]",
    "jne 66f",
    "shl rdi, 3",
    "jz 8f",
    "add rdi, gs:[{pool}]",
    "mov rdi, [rdi + {neg_key}]",
    "add rdi, rbx",
    "mov edi, [rcx]",
    "jz 3f",
    "66:",
    "test edi, edi",
    "jz 8f",
    "add rcx, 8",
    ".endm",
    // eax becomes the place of the transition of function ecx from state edx, and ecx its
    // tag, negated (`wire::node::transition`).
    ".macro everypath_place",
    "mov eax, ecx",
    "shr eax, {tag_bits}",
    "imul eax, eax, {place_high}",
    "and ecx, (1 << {tag_bits}) - 1",
    "imul esi, ecx, {place_low}",
    "add eax, esi",
    "and eax, {places} - 1",
    "add eax, eax",
    "movzx esi, dx",
    "add eax, esi",
    "add ecx, edx",
    "neg ecx",
    ".endm",
    // Contexts of basic blocks: an edge that the table holds, rdx. What it leads to becomes
    // the thread's state, and no flag is touched; but when it was counted 256 times it is
    // looked up, to get its path's cell (its key has the path's step).
    ".global everypath_known, everypath_known_first, everypath_edge",
    "everypath_known:",
    "movzx ecx, byte ptr gs:[rdx - {first_state} + {count}]",
    "jrcxz 2f",
    "3:",
    "mov ecx, gs:[rdx - {first_state} + {depth}]",
    "mov gs:[{block_state}], rcx",
    "jmp qword ptr gs:[{event_return}]",
    "2:",
    "mov rcx, gs:[{block_state}]",
    "jmp 4f",
    // As above, in the state of a function's entry.
    "everypath_known_first:",
    "movzx ecx, byte ptr gs:[rdx - {first_state} + {count}]",
    "jrcxz 2f",
    "jmp 3b",
    "2:",
    "mov rcx, gs:[{entry_state}]",
    "4:",
    "mov gs:[{saves}], rcx",
    "mov rcx, gs:[rdx - {first_state} + {neg_key}]",
    "mov rdx, gs:[{nodes}]",
    "lea rcx, [rcx + rdx]",
    "not rcx",
    "lea rcx, [rcx + 1]",
    "mov rdx, gs:[{saves}]",
    "5:",
    "mov dword ptr gs:[{exit}], {lookup}",
    "jmp everypath_lookup",
    // One that the table does not hold, either. rdx: the state, rcx: the path.
    "everypath_edge:",
    "mov dword ptr gs:[{saves}], 0",
    "mov gs:[{saves} + 4], ecx",
    "mov rcx, gs:[{saves}]",
    "lea rcx, [rcx * 8]",
    "lea rcx, [rcx * 4]",
    "jmp 5b",
    // Contexts: a transition that the table does not hold; or, of basic blocks, one that it
    // may hold, and asks for its path's cell. rdx: the state, rcx: the function's step. The
    // name in the index is the key, or for the children of the deepest nodes that of their
    // top (crate forest). rdx becomes the next state. Nothing here writes the trap flag.
    ".global everypath_lookup",
    "everypath_lookup:",
    "mov gs:[{saves} + 0], rcx",
    "mov gs:[{spill} + 0], rax",
    "lahf",
    "seto al",
    "mov gs:[{saves} + 8], rax",
    "mov gs:[{saves} + 16], rbx",
    "mov gs:[{saves} + 24], rsi",
    "mov gs:[{saves} + 32], rdi",
    "cmp qword ptr gs:[{stopped}], 0",
    "jne 8f",
    "cmp dword ptr gs:[{has_blocks}], 0",
    "je 4f",
    "mov rdi, gs:[{edge_lookups}]",
    "inc qword ptr [rdi]",
    "shr rcx, {func_shift}",
    "mov rdi, rcx",
    "shl rdi, {func_shift}",
    "mov gs:[{saves} + 0], rdi",
    "cmp ecx, {placed}",
    "jae 6f",
    "everypath_place",
    "mov edi, gs:[rax * 4 + {states}]",
    "cmp ecx, gs:[rax * 4 + {tags}]",
    "je everypath_found_edge",
    "6:",
    "mov rcx, gs:[{saves} + 0]",
    "4:",
    "mov rdi, rdx",
    "add rdi, gs:[{nodes}]",
    "mov eax, [rdi + {depth}]",
    "cmp rax, gs:[{wrap}]",
    "jne 4f",
    "mov edi, [rdi + {top}]",
    "shl rdi, 3",
    "add rdi, gs:[{pool}]",
    "4:",
    "lea rbx, [rdi + rcx]",
    "movabs rax, {hash}",
    "imul rax, rbx",
    // The first line of the fallback, in case: both may be far away.
    "shr rax, 32",
    "imul rax, gs:[{lines}]",
    "shr rax, 32",
    "shl rax, 6",
    "add rax, gs:[{index}]",
    "prefetcht0 [rax]",
    // The home of the children of rdi.
    "sub rdi, gs:[{origin}]",
    "cmp rdi, gs:[{homes}]",
    "jae 2f",
    "shr rcx, {func_shift}",
    "cmp ecx, {placed}",
    "jae 2f",
    "mov esi, edi",
    "shl esi, {home_shift} - 3",
    "and esi, {home_mask}",
    "or esi, ecx",
    "imul rdi, gs:[{scale}]",
    "shr rdi, 32",
    "and edi, -{line}",
    "mov rcx, gs:[{index}]",
    "lea rcx, [rcx + rdi * 8]",
    "lea rax, [rcx + {home} * 8]",
    // rcx: an entry, rax: their end, esi: tag.
    "5:",
    "mov edi, [rcx]",
    "cmp esi, [rcx + 4]",
    "je 3f",
    "test edi, edi",
    "jz 8f",
    "add rcx, 8",
    "cmp rcx, rax",
    "jne 5b",
    // Full, and not among them: the fallback.
    "2:",
    "movabs rax, {hash}",
    "imul rax, rbx",
    "mov esi, eax",
    "or esi, {fallback}",
    "shr rax, 32",
    "imul rax, gs:[{lines}]",
    "shr rax, 32",
    // rax: a line.
    "9:",
    "mov rcx, rax",
    "shl rcx, 6",
    "add rcx, gs:[{index}]",
    "7:",
    "everypath_try",
    "test cl, 63",
    "jnz 7b",
    "add rax, gs:[{step}]",
    "cmp rax, gs:[{lines}]",
    "jb 9b",
    "sub rax, gs:[{lines}]",
    "jmp 9b",
    "3:",
    "shl rdi, 3",
    "add rdi, gs:[{pool}]",
    "sub rdi, gs:[{nodes}]",
    // rdi: the next state. Remember it, if place and tag are exact.
    "cmp dword ptr gs:[{far}], 0",
    "jne 6f",
    "mov rcx, gs:[{saves} + 0]",
    "shr rcx, {func_shift}",
    "cmp ecx, {placed}",
    "jae 6f",
    "everypath_place",
    "mov gs:[rax * 4 + {tags}], ecx",
    "mov gs:[rax * 4 + {states}], edi",
    "6:",
    "cmp dword ptr gs:[{has_blocks}], 0",
    "jne everypath_found_edge",
    "mov rdx, rdi",
    // A callee of an unknown context is unknown, too: the
    // home of its children.
    "mov rcx, rdx",
    "add rcx, gs:[{nodes}]",
    "sub rcx, gs:[{origin}]",
    "imul rcx, gs:[{scale}]",
    "shr rcx, 32",
    "and ecx, -{line}",
    "mov rax, gs:[{index}]",
    "prefetcht0 [rax + rcx * 8]",
    "5:",
    "mov rax, gs:[{saves} + 8]",
    "add al, 127",
    "sahf",
    "mov rax, gs:[{spill} + 0]",
    "mov rbx, gs:[{saves} + 16]",
    "mov rsi, gs:[{saves} + 24]",
    "mov rdi, gs:[{saves} + 32]",
    "jmp qword ptr gs:[{event_return}]",
    // edi: an edge, edx: the state that it comes from; edx becomes the edge. It leads to
    // another state. It gets its path's cell, unless the edge there was counted often
    // since the last time that another one asked.
    "everypath_found_edge:",
    "mov rsi, rdi",
    "add rsi, gs:[{nodes}]",
    "mov ebx, [rsi + {count}]",
    "mov esi, [rsi + {depth}]",
    "mov gs:[{block_state}], rsi",
    "mov rcx, gs:[{saves} + 0]",
    "shr rcx, {func_shift}",
    "cmp ecx, {placed}",
    "jae 4f",
    "movzx eax, cx",
    "shl eax, 4",
    "shr ecx, 16",
    "add ecx, edx",
    "neg ecx",
    "mov edx, gs:[rax + {cells} + 8]",
    "test edx, edx",
    "jz 6f",
    "add rdx, gs:[{nodes}]",
    "mov edx, [rdx + {count}]",
    "xchg edx, gs:[rax + {cells} + 12]",
    "sub edx, gs:[rax + {cells} + 12]",
    "neg edx",
    "cmp edx, {defended}",
    "jae 4f",
    "6:",
    "mov gs:[rax + {cells}], ecx",
    "mov gs:[rax + {cells} + 4], esi",
    "mov gs:[rax + {cells} + 8], edi",
    "mov gs:[rax + {cells} + 12], ebx",
    "4:",
    "mov edx, edi",
    "jmp 5b",
    // Not known: the engine makes it.
    "8:",
    "mov rax, gs:[{saves} + 8]",
    "add al, 127",
    "sahf",
    "mov rax, gs:[{spill} + 0]",
    "mov rcx, gs:[{saves} + 0]",
    "mov rbx, gs:[{saves} + 16]",
    "mov rsi, gs:[{saves} + 24]",
    "mov rdi, gs:[{saves} + 32]",
    ".global everypath_lookup_end",
    "everypath_lookup_end:",
    "jmp everypath_event",
    "everypath_save:",
    "mov gs:[{regs} + 0], rax",
    "mov gs:[{regs} + 8], rcx",
    "mov gs:[{regs} + 16], rdx",
    "mov gs:[{regs} + 24], rbx",
    "mov gs:[{regs} + 32], rsp",
    "mov gs:[{regs} + 40], rbp",
    "mov gs:[{regs} + 48], rsi",
    "mov gs:[{regs} + 56], rdi",
    "mov gs:[{regs} + 64], r8",
    "mov gs:[{regs} + 72], r9",
    "mov gs:[{regs} + 80], r10",
    "mov gs:[{regs} + 88], r11",
    "mov gs:[{regs} + 96], r12",
    "mov gs:[{regs} + 104], r13",
    "mov gs:[{regs} + 112], r14",
    "mov gs:[{regs} + 120], r15",
    "mov rsp, gs:[{stack}]",
    "pushfq",
    "pop qword ptr gs:[{flags}]",
    // The engine runs with DF, AC and NT clear, whatever the program set.
    "push 0x202; popfq",
    "mov rdi, gs:[{this}]",
    "movaps [rdi + {xmm} + 0], xmm0",
    "movaps [rdi + {xmm} + 16], xmm1",
    "movaps [rdi + {xmm} + 32], xmm2",
    "movaps [rdi + {xmm} + 48], xmm3",
    "movaps [rdi + {xmm} + 64], xmm4",
    "movaps [rdi + {xmm} + 80], xmm5",
    "movaps [rdi + {xmm} + 96], xmm6",
    "movaps [rdi + {xmm} + 112], xmm7",
    "movaps [rdi + {xmm} + 128], xmm8",
    "movaps [rdi + {xmm} + 144], xmm9",
    "movaps [rdi + {xmm} + 160], xmm10",
    "movaps [rdi + {xmm} + 176], xmm11",
    "movaps [rdi + {xmm} + 192], xmm12",
    "movaps [rdi + {xmm} + 208], xmm13",
    "movaps [rdi + {xmm} + 224], xmm14",
    "movaps [rdi + {xmm} + 240], xmm15",
    "call {dispatch}",
    // rdi: the context; the engine's stack is empty from here on.
    ".global everypath_enter",
    "everypath_enter:",
    "mov rdi, gs:[{this}]",
    "movaps xmm0, [rdi + {xmm} + 0]",
    "movaps xmm1, [rdi + {xmm} + 16]",
    "movaps xmm2, [rdi + {xmm} + 32]",
    "movaps xmm3, [rdi + {xmm} + 48]",
    "movaps xmm4, [rdi + {xmm} + 64]",
    "movaps xmm5, [rdi + {xmm} + 80]",
    "movaps xmm6, [rdi + {xmm} + 96]",
    "movaps xmm7, [rdi + {xmm} + 112]",
    "movaps xmm8, [rdi + {xmm} + 128]",
    "movaps xmm9, [rdi + {xmm} + 144]",
    "movaps xmm10, [rdi + {xmm} + 160]",
    "movaps xmm11, [rdi + {xmm} + 176]",
    "movaps xmm12, [rdi + {xmm} + 192]",
    "movaps xmm13, [rdi + {xmm} + 208]",
    "movaps xmm14, [rdi + {xmm} + 224]",
    "movaps xmm15, [rdi + {xmm} + 240]",
    "mov rsp, gs:[{stack}]",
    "push qword ptr gs:[{flags}]",
    "popfq",
    ".global everypath_window",
    "everypath_window:",
    "mov rcx, gs:[{pending}]",
    "mov rax, gs:[{regs} + 0]",
    "mov rdx, gs:[{regs} + 16]",
    "mov rbx, gs:[{regs} + 24]",
    "mov rsp, gs:[{regs} + 32]",
    "mov rbp, gs:[{regs} + 40]",
    "mov rsi, gs:[{regs} + 48]",
    "mov rdi, gs:[{regs} + 56]",
    "mov r8, gs:[{regs} + 64]",
    "mov r9, gs:[{regs} + 72]",
    "mov r10, gs:[{regs} + 80]",
    "mov r11, gs:[{regs} + 88]",
    "mov r12, gs:[{regs} + 96]",
    "mov r13, gs:[{regs} + 104]",
    "mov r14, gs:[{regs} + 112]",
    "mov r15, gs:[{regs} + 120]",
    "jrcxz 2f",
    "mov rcx, gs:[{regs} + 8]",
    ".global everypath_deliver",
    "everypath_deliver:",
    "int3",
    // Keeps the address after the trap apart from the one after the branch.
    "ud2",
    "2:",
    "mov rcx, gs:[{regs} + 8]",
    "jmp qword ptr gs:[{host}]",
    ".global everypath_window_end",
    "everypath_window_end:",
    // Signal handler, with flags as above, and its return. The kernel neither clears NT and
    // ID for a handler nor restores them behind it, so they stay.
    ".global everypath_signal",
    "everypath_signal:",
    "pushfq; and qword ptr [rsp], {kept_flags}",
    "or qword ptr [rsp], 0x202; popfq",
    "sub rsp, 8; call {signal}",
    "add rsp, 8; ret",
    ".global everypath_restorer",
    "everypath_restorer:",
    "mov eax, 15; jmp qword ptr [rip + {gate}]",
    // rdi: a signal frame; returns through it. rsi: the flags, of which NT and ID are not in it.
    ".global everypath_sigreturn",
    "everypath_sigreturn:",
    "and esi, {kept_flags}; or esi, 0x202; push rsi; popfq",
    "lea rsp, [rdi + 8]; mov eax, 15",
    "jmp qword ptr [rip + {gate}]",
    // rdi: [nr, six arguments], rsi: context of a child that shares memory, or 0; rdx: the way
    // through the gate that goes on at r15.
    ".global everypath_clone",
    "everypath_clone:",
    "push rbx; push r14; push r15",
    "mov r15, rdi; mov r14, rsi",
    "mov rbx, rdx",
    "mov rax, [r15]",
    "mov rdi, [r15 + 8]",
    "mov rsi, [r15 + 16]",
    "mov rdx, [r15 + 24]",
    "mov r10, [r15 + 32]",
    "mov r8, [r15 + 40]",
    "mov r9, [r15 + 48]",
    "lea r15, [rip + 9f]",
    "jmp rbx",
    "9: test rax, rax",
    "jnz 3f",
    "test r14, r14",
    "jz 3f",
    // The child of a clone with shared memory: nothing of the parent's is
    // touched from here on, it may have gone on already.
    "mov rsp, [r14 + {stack}]",
    "mov rdi, r14",
    "call {child}",
    "jmp everypath_enter",
    "3:",
    "pop r15; pop r14; pop rbx",
    "ret",
    gate = sym sys::gate::CALL,
    reason = const offset_of!(ThreadContext, reason),
    regs = const offset_of!(ThreadContext, regs),
    stack = const offset_of!(ThreadContext, runtime_rsp),
    flags = const offset_of!(ThreadContext, rflags),
    kept_flags = const 1 << 14 | 1 << 21,
    this = const offset_of!(ThreadContext, this),
    xmm = const offset_of!(ThreadContext, xmm),
    pending = const offset_of!(ThreadContext, pending),
    host = const offset_of!(ThreadContext, resume_host),
    saves = const offset_of!(ThreadContext, lookup_saves),
    spill = const offset_of!(ThreadContext, spill),
    stopped = const offset_of!(ThreadContext, stopped),
    has_blocks = const offset_of!(ThreadContext, has_blocks),
    edge_lookups = const offset_of!(ThreadContext, edge_lookups),
    block_state = const offset_of!(ThreadContext, block_state),
    entry_state = const offset_of!(ThreadContext, entry_state),
    exit = const offset_of!(ThreadContext, exit),
    lookup = const crate::contexts::LOOKUP,
    wrap = const offset_of!(ThreadContext, wrap_depth),
    pool = const offset_of!(ThreadContext, pool_base),
    nodes = const offset_of!(ThreadContext, nodes_base),
    far = const offset_of!(ThreadContext, far),
    tag_bits = const TAG_BITS,
    index = const offset_of!(ThreadContext, index),
    lines = const offset_of!(ThreadContext, index_lines),
    step = const offset_of!(ThreadContext, index_step),
    homes = const offset_of!(ThreadContext, index_homes),
    origin = const offset_of!(ThreadContext, index_origin),
    scale = const offset_of!(ThreadContext, index_scale),
    line = const forest::LINE,
    home = const forest::HOME,
    home_shift = const forest::HOME_SHIFT,
    home_mask = const forest::HOME_MASK,
    fallback = const forest::FALLBACK,
    event_return = const offset_of!(ThreadContext, event_return),
    tags = const TRANSITION_TAGS,
    cells = const CELL_TAGS,
    defended = const DEFENDED,
    count = const offset_of!(Node, count),
    first_state = const wire::node::FIRST_STATE,
    func_shift = const FUNC_SHIFT,
    placed = const PLACED_FUNCS,
    place_high = const PLACE_HIGH,
    place_low = const PLACE_LOW,
    places = const PLACES,
    states = const TRANSITION_STATES,
    depth = const offset_of!(Node, depth_flags),
    top = const offset_of!(Node, top),
    neg_key = const offset_of!(Node, neg_key),
    hash = const forest::HASH,
    dispatch = sym crate::dispatch::dispatch,
    signal = sym crate::signals::on_signal,
    child = sym crate::process::child_start,
);

// SAFETY: defined above; the statics are labels, only their addresses are taken.
unsafe extern "C" {
    static everypath_exit: u8;
    static everypath_empty_jump: u8;
    static everypath_empty_call: u8;
    static everypath_verify_jump: u8;
    static everypath_verify_call: u8;
    static everypath_event: u8;
    static everypath_known: u8;
    static everypath_known_first: u8;
    static everypath_edge: u8;
    static everypath_lookup: u8;
    static everypath_lookup_end: u8;
    static everypath_resume: u8;
    static everypath_window: u8;
    static everypath_window_end: u8;
    static everypath_deliver: u8;
    static everypath_signal: u8;
    static everypath_restorer: u8;
    /// Loads the program's state from the thread block and continues there.
    pub fn everypath_enter() -> !;
    /// Real rt_sigreturn through the frame.
    pub fn everypath_sigreturn(frame: *const sys::signal::SigFrame, flags: u64) -> !;
    /// The clone family; see the comment in the assembly.
    pub fn everypath_clone(call: *const [u64; 7], child: *mut ThreadContext, gate: u64) -> isize;
}

/// Routines that cache code jumps to, in the order of the thunks.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
pub enum Routine {
    Exit = 0,
    EmptyJump = 1,
    EmptyCall = 2,
    VerifyJump = 3,
    VerifyCall = 4,
    Event = 5,
    Lookup = 6,
    Edge = 7,
    Known = 8,
    KnownFirst = 9,
}

/// Their addresses.
pub fn routines() -> [u64; 10] {
    [
        &raw const everypath_exit as u64,
        &raw const everypath_empty_jump as u64,
        &raw const everypath_empty_call as u64,
        &raw const everypath_verify_jump as u64,
        &raw const everypath_verify_call as u64,
        &raw const everypath_event as u64,
        &raw const everypath_lookup as u64,
        &raw const everypath_edge as u64,
        &raw const everypath_known as u64,
        &raw const everypath_known_first as u64,
    ]
}

/// Address to which a signal handler sends the thread to go on at `resume_app`.
pub fn resume_address() -> u64 {
    &raw const everypath_resume as u64
}

/// Handler and restorer for the kernel.
pub fn signal_entry() -> agent::signals::Entry {
    agent::signals::Entry {
        handler: &raw const everypath_signal as u64,
        restorer: &raw const everypath_restorer as u64,
    }
}

/// Whether `rip` is on the way into the cache, past the last write of the trap
/// flag, or in the routines that only look something up.
pub fn in_window(rip: u64) -> bool {
    (&raw const everypath_window as u64..&raw const everypath_window_end as u64).contains(&rip)
        || (&raw const everypath_known as u64..&raw const everypath_lookup_end as u64)
            .contains(&rip)
}

/// Whether `rip` is just after the trap that asks for delivery.
pub fn at_delivery(rip: u64) -> bool {
    rip == &raw const everypath_deliver as u64 + 1
}
