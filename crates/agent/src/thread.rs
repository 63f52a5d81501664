//! One program thread as the engine sees it.
//!
//! ```text
//! gs base -> ThreadContext (one page, in the pool)      layout seen by emitted code
//!            transitions  [tag, state; 65536]           contexts mode only,
//!                                                       see dbt/contexts.rs
//!            cells        [tag, state, edge, count; 65536]   contexts of basic blocks,
//!                                                       see dbt/contexts/paths.rs
//!            slots [count; as many as are used]         counts mode only, see
//!                                                       dbt/edge_counters.rs
//!            two pages of files                         traces by request, see polls.rs
//!
//! stacks  -> guard | runtime stack | guard | signal stack      private memory
//! ```
//!
//! A block is used by one thread at a time and re-used after the thread's last
//! instruction (see `everypath_exit_thread`): "free" is stored by the dying
//! thread when it no longer needs stack or context.

use core::arch::{asm, global_asm};
use core::mem::offset_of;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use sys::signal::{SigAction, SigInfo, SigSet, SigStack};
use wire::view::Pool;

use crate::memory::map_over;
use crate::signals::SignalTable;

/// Entries of the transition cache (contexts mode): a negated tag and a state,
/// 32 bits each. The index is the place, which is even, times
/// 4 (`wire::node::transition`).
pub const TRANSITIONS: usize = 1 << 16;
/// Displacements of the first entry's words from the gs base.
pub const TRANSITION_TAGS: i32 = 4096;
pub const TRANSITION_STATES: i32 = TRANSITION_TAGS + 4;

/// For each path of basic blocks (`dbt::contexts::paths`) an edge that it often is: a
/// negated tag, the state that it leads to, the edge, and how often it was counted when
/// another edge asked for the cell. The index is the path's low half, the tag is the
/// state that it is taken from and the path's high half, added.
pub const CELLS: usize = 1 << 16;
/// Displacement of the first cell from the gs base: behind the transitions.
pub const CELL_TAGS: i32 = TRANSITION_TAGS + TRANSITIONS as i32 * 8;

/// Displacement of the first slot (counts mode) from the gs base.
pub const SLOTS: i32 = 4096;

/// Memory that follows a thread's context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContextTail {
    Nothing,
    /// A cache of the thread's own, in private memory ([`crate::memory::map_over`]).
    Transitions,
    /// And cells. Both are in the pool: cells hold counts.
    Cells,
    /// Pages that emitted code polls ([`crate::polls`]).
    Polls,
    /// Bytes of address space for slots, and how many of them are backed.
    Slots {
        space: u64,
        backed: u64,
    },
}

impl ContextTail {
    pub fn space(self) -> u64 {
        match self {
            ContextTail::Nothing => 0,
            ContextTail::Transitions => TRANSITIONS as u64 * 8,
            ContextTail::Cells => ContextTail::Transitions.space() + CELLS as u64 * 16,
            ContextTail::Polls => crate::polls::SPACE,
            ContextTail::Slots { space, .. } => space,
        }
    }

    /// Bytes of the pool that are needed at once.
    fn backed(self) -> u64 {
        match self {
            ContextTail::Slots { backed, .. } => backed,
            ContextTail::Cells => self.space(),
            _ => 0,
        }
    }
}

const RUNTIME_STACK: u64 = 128 << 10;
const SIGNAL_STACK: u64 = 96 << 10;
const GUARD: u64 = 4096;

/// Index of each register in [`ThreadContext::regs`]: its encoding number.
pub mod reg {
    pub const RAX: usize = 0;
    pub const RCX: usize = 1;
    pub const RDX: usize = 2;
    pub const RBX: usize = 3;
    pub const RSP: usize = 4;
    pub const RBP: usize = 5;
    pub const RSI: usize = 6;
    pub const RDI: usize = 7;
    pub const R8: usize = 8;
    pub const R9: usize = 9;
    pub const R10: usize = 10;
    pub const R11: usize = 11;
    pub const R15: usize = 15;
}

/// Words that instructions are counted in, in turn, far from where tracing begins.
pub const FAR_WORDS: usize = 8;

/// The thread's block at gs:0, as emitted code and the entry stubs see it. One definition; the
/// assembly takes its offsets from here with `offset_of!`.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct ThreadContext {
    /// Address of this structure.
    pub this: u64,
    /// Spill slots: rax (`everypath_lookup`), rcx, rdx, and one more register.
    pub spill: [u64; 4],
    /// Topmost record of the shadow stack (contexts mode).
    pub shadow_top: u64,
    /// Contexts mode: record being entered; cache address to go on at after an event.
    pub event_record: u64,
    pub event_return: u64,
    /// Contexts mode: the forest's index (`forest::Table`), for `everypath_lookup`;
    /// its origin as an address.
    pub index: u64,
    pub index_lines: u64,
    pub index_step: u64,
    pub index_homes: u64,
    pub index_origin: u64,
    pub index_scale: u64,
    /// Address at which the pool is mapped.
    pub pool_base: u64,
    /// Origin of the states of this thread (`dbt::contexts`): this
    /// structure, which lies in the pool before the thread's nodes.
    pub nodes_base: u64,
    /// Nonzero: nodes lie 4 GB from there, and no transition is remembered.
    pub far: u32,
    /// Nonzero: the thread is in a system call and will go on in this segment of
    /// the cache, less one (`dbt::evict`).
    pub waits_in: u32,
    /// Depth of the nodes whose children hang below their top nodes.
    pub wrap_depth: u64,
    /// Nonzero once counting has ended: nothing is to be looked up any more.
    pub stopped: u64,
    /// Registers saved by `everypath_lookup`: step, flags, rbx, rsi, rdi (and rax in
    /// the first spill slot).
    pub lookup_saves: [u64; 5],
    /// Nonzero while a signal waits for the next exact instruction boundary.
    pub pending: u64,
    /// Which exit the thread left the cache by.
    pub exit: u32,
    /// Why, see `dbt::entry::reason`.
    pub reason: u32,
    /// Program address to go on at (for `reason::RESUME`).
    pub resume_app: u64,
    /// Cache address to go on at.
    pub resume_host: u64,
    /// Top of the runtime stack.
    pub runtime_rsp: u64,
    /// The program's gs base, which it never has in the register.
    pub app_gs: u64,
    pub rflags: u64,
    pub regs: [u64; 16],
    /// [`Thread`] of this block.
    pub thread: u64,
    /// The tool's state of this thread (`dbt::contexts`), 0 if none.
    pub tool: u64,
    /// Eviction epoch at which the thread last was in the engine.
    pub epoch: u64,
    /// Retired instructions of the thread that has this block: `wire::InsnWords`.
    /// With costs, those since the last event.
    pub insns: [u64; wire::INSN_WORDS],
    /// With costs, `wire::LiveStates`: the states that those belong to, of the top
    /// activation and of a leaf (`dbt::contexts`).
    pub cost_state: u64,
    pub leaf_state: u64,
    /// xmm0 to xmm15: all vector state that engine code can change (it is
    /// compiled for baseline x86-64, whose SSE forms keep upper lanes).
    pub xmm: [[u64; 2]; 16],
    /// Contexts of basic blocks (`dbt::contexts::blocks`): 1 if they are recorded; the state of an
    /// activation that has executed nothing yet; and that of the activation on top.
    pub has_blocks: u64,
    pub entry_state: u64,
    pub block_state: u64,
    /// Address of the node that emitted code adds costs to.
    pub cost_node: u64,
    /// Contexts mode: the stack pointer before it was loaded with what may be on another stack,
    /// until control goes elsewhere; 0: it was not (`dbt::contexts`).
    pub stack_left: u64,
    /// Nonzero: something was added to it since control last arrived so, as where slices of a
    /// stack are switched.
    pub stack_added: u64,
    /// With cycles, up to which they were added to a node, as the time stamp counter
    /// has it; and where emitted code keeps what it reads there, and a register.
    pub cycles_from: u64,
    /// Nonzero: the program has forbidden the thread to read that counter (`PR_SET_TSC`),
    /// so nobody here does.
    pub tsc_forbidden: u64,
    pub cycles_now: [u64; 2],
    pub cycles_spill: u64,
    /// Address of the next byte of each of the thread's streams (`wire::stream`), and of the guard
    /// page after it.
    pub streams: [u64; wire::stream::ALL_LANES],
    pub stream_ends: [u64; wire::stream::ALL_LANES],
    /// Nonzero: the stream says where it begins.
    pub stream_begun: u64,
    /// Chunks filled since the last keyframe, and the number of that.
    pub stream_filled: u32,
    pub stream_keyframe: u32,
    /// Spill slots for registers and flags around a time stamp; and nonzero while
    /// it is the thread's turn (`wire::stream::Turn`).
    pub stamp_spill: [u64; 4],
    pub has_turn: u32,
    /// Which instructions of the thread are counted (`dbt::streams::skip_count`).
    pub stream_phase: u32,
    /// Address of the counter of edges that were in no cell and no table, shared by all threads.
    pub edge_lookups: u64,
    /// The indirect branch that was executed last (`dbt::edge_counters::indirect`).
    pub site: u32,
    /// Nonzero: what the thread executes is not traced, for that reason
    /// (`dbt::streams::controls`).
    pub stream_gap: u32,
    /// How many instructions are left in that phase.
    pub stream_left: u64,
    /// To be added to it when it is used up.
    pub stream_more: u64,
    /// Far from where tracing begins, these are left besides; each is less than 0 when it is
    /// used up.
    pub stream_far: [u64; FAR_WORDS],
    /// The program's fs base while the register has its gs base (`dbt::translate::operands`).
    pub app_fs: u64,
    /// Nonzero: `stream_left` is a part of what all threads have together
    /// (`dbt::streams::shared_budget`).
    pub stream_holds: u64,
    /// Since when the thread waits for those of others; 0: it does not.
    pub stream_waits: u64,
    /// The program's vector register, while emitted code loads elements (`dbt::accesses::values`).
    pub vector_spill: [u64; 8],
}

const _: () = {
    assert!(size_of::<ThreadContext>() <= 4096);
    assert!(offset_of!(ThreadContext, xmm) % 16 == 0);
};

/// A signal that is held until the thread is at an exact boundary.
#[derive(Clone, Copy, Debug)]
pub struct Pending {
    pub signal: u32,
    pub info: SigInfo,
    /// The program's action for it when the kernel took it.
    pub action: SigAction,
    /// The kernel mask in force when it arrived.
    pub mask: SigSet,
    /// Fault details for a synchronous signal that the engine raises itself:
    /// err, trapno, cr2.
    pub fault: Option<(u64, u64, u64)>,
    /// It interrupted a call that waited under this mask, which the program had not otherwise.
    pub temporary: Option<SigSet>,
}

/// Private state of a thread.
#[derive(Debug)]
pub struct Thread {
    pub context: *mut ThreadContext,
    pub tid: u32,
    /// Pool offset of its ThreadRecord.
    pub record: u64,
    /// Handlers; shared by the threads of a process, and by children with CLONE_SIGHAND.
    pub signals: *mut SignalTable,
    /// They are a copy that was made for this child, and go with it.
    pub owns_signals: bool,
    /// The alternate stack the program asked for.
    pub altstack: SigStack,
    /// Synchronous signals the program thinks it blocks (the kernel does not).
    pub blocked: SigSet,
    pub pending: Option<Pending>,
    /// The trap flag is set to reach a boundary.
    pub stepping: bool,
    /// No signal waits for the boundary, but fresh code after a store to its own page,
    /// or a keyframe.
    pub stepping_on: bool,
    /// An instruction of the cache is executed without AC, and the trap flag is set for that;
    /// whether it was before (`dbt::unaligned`).
    pub aligns: Option<bool>,
    /// Synchronous signals that were sent while the program "blocks" them, and
    /// what came with each (see `signals::hold`).
    pub held: SigSet,
    pub held_info: [SigInfo; 6],
    /// Held signals that a call being made for the program lets through.
    pub opened: SigSet,
    /// The thread is in, or about to begin, a call for which the kernel blocks what the program
    /// blocks (`dbt::awaits`).
    pub awaits: bool,
    /// The mask of a call that waits under one of its own, while it is being made.
    pub waits_under: Option<SigSet>,
    /// The code selector of the frame that the thread last returned from, where the kernel was
    /// given another one (`dbt::sigreturn`).
    pub foreign_cs: Option<u16>,
    /// A filter of the program trapped this call while the engine made it.
    pub trapped: Option<u32>,
    /// The newest of the program's filters (`filters::Filter`); null: none that is known.
    pub filters: AtomicPtr<crate::filters::Filter>,
    /// Strict seccomp: what a filter traps ends the thread.
    pub strict: bool,
    /// The program steps itself (trap flag) and has just been sent here.
    pub step_from: u64,
    /// The cache address of the last boundary that such a step came to, and its
    /// program address.
    pub stepped_to: (u64, u64),
    /// A vfork child: shares memory with its parent, not handlers.
    pub is_vfork_child: bool,
    /// A tracer waits for what the thread does next (PTRACE_TRACEME).
    pub is_traced: bool,
    /// The thread runs natively, for good (`dbt::detach`).
    pub has_left: bool,
    /// Memory that can be read can be executed (`personality(READ_IMPLIES_EXEC)`); the kernel is
    /// not told.
    pub implies_exec: bool,
    pub block: usize,
    pub signal_stack: SigStack,
}

/// Bit of `personality`: what can be read can be executed.
const READ_IMPLIES_EXEC: u32 = 0x40_0000;
/// Argument of `personality` that changes nothing.
const ONLY_ASKS: u32 = u32::MAX;

fn personality(wanted: u32) -> isize {
    // SAFETY: it changes how later calls of this thread behave, as the program wants.
    unsafe { sys::raw::syscall(sys::nr::PERSONALITY, [wanted as usize, 0, 0, 0, 0, 0]) }
}

impl Thread {
    /// The program's action for a signal that has just arrived.
    pub fn action_at_arrival(&self, signal: u32) -> SigAction {
        // SAFETY: the table lives as long as any thread that uses it; this part of it is atomic.
        unsafe { (*self.signals).at_arrival(signal) }
    }

    /// `personality(wanted)`, of which the kernel hears all but READ_IMPLIES_EXEC: it would make
    /// the program's pages executable in truth.
    pub fn set_personality(&mut self, wanted: u64) -> isize {
        let wanted = wanted as u32;
        let told = match wanted {
            ONLY_ASKS => ONLY_ASKS,
            _ => wanted & !READ_IMPLIES_EXEC,
        };
        let before = personality(told);
        if before < 0 {
            return before;
        }
        let implied = match self.implies_exec {
            true => READ_IMPLIES_EXEC,
            false => 0,
        };
        if wanted != ONLY_ASKS {
            self.implies_exec = wanted & READ_IMPLIES_EXEC != 0;
        }
        before | implied as isize
    }

    /// The kernel hears of READ_IMPLIES_EXEC, or no more: an exec of a program that runs
    /// natively passes it on. One of a 64-bit program ends it.
    pub fn tell_personality(&self, on: bool) {
        if !self.implies_exec {
            return;
        }
        let now = personality(ONLY_ASKS) as u32;
        personality(match on {
            true => now | READ_IMPLIES_EXEC,
            false => now & !READ_IMPLIES_EXEC,
        });
    }
}

/// Memory of a thread in the engine: stacks and context; re-used.
#[derive(Debug)]
struct Block {
    /// 1: in use. Stored as 0 by the dying thread itself.
    used: &'static AtomicU32,
    stacks: u64,
    context: u64,
}

/// All blocks of the process; only touched under the engine lock.
#[derive(Debug, Default)]
pub struct Blocks {
    list: alloc::vec::Vec<Block>,
}

impl Blocks {
    /// A free block with a clean context, as a [`Thread`] not yet running.
    // Long function: the fields of a thread, one a line.
    pub fn take(&mut self, pool: &Pool, behind: ContextTail) -> Option<alloc::boxed::Box<Thread>> {
        let free = self
            .list
            .iter()
            .position(|block| block.used.load(Ordering::Acquire) == 0);
        let index = match free {
            Some(index) => index,
            None => self.make(pool, behind)?,
        };
        let used_before = free.is_some();
        let block = &self.list[index];
        block.used.store(1, Ordering::Release);
        let context = block.context as *mut ThreadContext;
        // SAFETY: the block is free, so nothing else refers to its context;
        // it is page aligned memory of at least this size.
        unsafe {
            core::ptr::write_bytes(context, 0, 1);
            if matches!(behind, ContextTail::Transitions | ContextTail::Cells) && used_before {
                let tail = (block.context + TRANSITION_TAGS as u64) as *mut u8;
                core::ptr::write_bytes(tail, 0, behind.space() as usize);
            }
            (*context).this = block.context;
            (*context).runtime_rsp = block.stacks + GUARD + RUNTIME_STACK - 64;
        }
        let signal_stack = SigStack {
            sp: block.stacks + 2 * GUARD + RUNTIME_STACK,
            flags: 0,
            pad: 0,
            size: SIGNAL_STACK,
        };
        let thread = alloc::boxed::Box::new(Thread {
            context,
            tid: 0,
            record: 0,
            signals: core::ptr::null_mut(),
            altstack: SigStack {
                sp: 0,
                flags: sys::signal::SS_DISABLE,
                pad: 0,
                size: 0,
            },
            blocked: SigSet::EMPTY,
            pending: None,
            stepping: false,
            stepping_on: false,
            aligns: None,
            held: SigSet::EMPTY,
            awaits: false,
            held_info: [SigInfo::NONE; 6],
            opened: SigSet::EMPTY,
            waits_under: None,
            foreign_cs: None,
            trapped: None,
            filters: AtomicPtr::new(core::ptr::null_mut()),
            strict: false,
            step_from: 0,
            stepped_to: (0, 0),
            is_vfork_child: false,
            owns_signals: false,
            is_traced: false,
            has_left: false,
            implies_exec: false,
            block: index,
            signal_stack,
        });
        // SAFETY: as above; the thread box is kept until the block is given back.
        unsafe { (*context).thread = &raw const *thread as u64 };
        Some(thread)
    }

    fn make(&mut self, pool: &Pool, behind: ContextTail) -> Option<usize> {
        let stacks = crate::memory::map_needed(2 * GUARD + RUNTIME_STACK + SIGNAL_STACK)?;
        for guard in [stacks, stacks + GUARD + RUNTIME_STACK] {
            // SAFETY: our own fresh pages, used by nobody.
            let _ = unsafe { sys::mprotect(guard, GUARD, sys::PROT_NONE) };
        }
        let (size, backed) = (4096 + behind.space(), 4096 + behind.backed());
        let context = match crate::pool::allocate_backed(pool, size, backed) {
            Some(offset) => offset + pool.base(),
            // The thread runs; what it counts is lost, which it says itself.
            None if matches!(behind, ContextTail::Slots { .. }) => {
                crate::memory::map_private(size)?
            }
            None => return None,
        };
        match behind {
            ContextTail::Polls => crate::polls::map(context),
            // SAFETY: the pages behind a context that no thread has yet.
            ContextTail::Transitions => unsafe { map_over(context + 4096, behind.space()).ok()? },
            _ => {}
        }
        let used = alloc::boxed::Box::leak(alloc::boxed::Box::new(AtomicU32::new(0)));
        self.list.push(Block {
            used,
            stacks,
            context,
        });
        Some(self.list.len() - 1)
    }

    /// Backs the slots of all blocks from byte `from` to byte `to`; fails if the machine is
    /// full.
    pub fn back_slots(&self, from: u64, to: u64) -> Result<(), sys::Errno> {
        self.list.iter().try_for_each(|block| {
            let start = block.context + SLOTS as u64 + from;
            // SAFETY: within the space behind the block's context.
            unsafe { crate::pool::back(start, to - from) }
        })
    }

    /// Gives a block back that no thread ever ran on.
    pub fn give_back(&mut self, index: usize) {
        self.list[index].used.store(0, Ordering::Release);
    }

    pub fn free_flag(&self, index: usize) -> &'static AtomicU32 {
        self.list[index].used
    }

    /// In a forked child: every block but `keep` belongs to threads that do not exist.
    pub fn only(&mut self, keep: usize) {
        for (index, block) in self.list.iter().enumerate() {
            block
                .used
                .store(u32::from(index == keep), Ordering::Release);
        }
    }

    /// In a forked child: contexts in the pool belong to the parent; make
    /// blocks from here on with contexts of our own.
    pub fn forget_all(&mut self) {
        for block in self.list.drain(..) {
            // The stacks stay mapped: the caller may be running on one.
            let _ = block;
        }
    }
}

global_asm!(
    // rdi: address of the block's "used" word, esi: exit code. No stack from
    // the store on: another thread may take the block.
    ".global everypath_exit_thread",
    "everypath_exit_thread:",
    "mov dword ptr [rdi], 0",
    "mov edi, esi",
    "mov eax, 60",
    "jmp qword ptr [rip + {gate}]",
    gate = sym sys::gate::CALL,
);

// SAFETY: defined above, with these arguments.
unsafe extern "C" {
    /// Frees the block of the calling thread and ends it.
    pub fn everypath_exit_thread(used: *const AtomicU32, code: i32) -> !;
}

/// The context of the running thread.
pub fn current() -> *mut ThreadContext {
    let this: u64;
    // SAFETY: gs points to a ThreadContext whenever engine code runs after
    // start-up; `this` is its first word.
    unsafe { asm!("mov {}, gs:[0]", out(reg) this, options(nostack, pure, readonly)) };
    this as *mut ThreadContext
}

/// Whether this processor clears the base of gs when its selector becomes
/// null. Tried, once, before gs is in use: no feature bit says it everywhere.
pub fn null_clears_base() -> bool {
    let mut base = 4096u64;
    // SAFETY: FSGSBASE is enabled (the caller looked) and nothing uses gs yet.
    unsafe {
        asm!(
            "wrgsbase {base}", "mov gs, {null:e}", "rdgsbase {base}",
            base = inout(reg) base, null = in(reg) 0, options(nostack)
        );
    }
    base == 0
}

/// The program's fs base.
pub fn fs() -> u64 {
    let mut base = 0u64;
    // It cannot fail: the word is there.
    let _ = sys::arch_prctl(sys::ARCH_GET_FS, &raw mut base as u64);
    base
}

/// Gives the program its fs base back.
pub fn set_fs(base: u64) {
    // SAFETY: emitted code has read this value by `rdfsbase`, so FSGSBASE is enabled and it
    // is an address; the engine uses fs for nothing.
    unsafe { asm!("wrfsbase {}", in(reg) base, options(nostack)) };
}

/// Points gs at `context`.
pub fn set_gs(context: *const ThreadContext, fsgsbase: bool) {
    if fsgsbase {
        // SAFETY: the kernel has enabled FSGSBASE (AT_HWCAP2 bit 1); the
        // program's gs is virtual, so nothing else uses the register.
        unsafe { asm!("wrgsbase {}", in(reg) context as u64, options(nostack)) };
    } else {
        let _ = sys::arch_prctl(sys::ARCH_SET_GS, context as u64);
    }
}
