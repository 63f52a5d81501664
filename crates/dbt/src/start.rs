//! The payload's main: from the kernel's stack to the first program instruction.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ffi::CStr;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use agent::address_space::Place;
use agent::filters::Filter;
use agent::heap::Heap;
use agent::loader::Loaded;
use agent::pool::{self, ProcessLog};
use agent::start::{InitialStack, Orders, Program};
use agent::syscalls::Process;
use agent::thread::{self, Blocks, Thread, reg};
use hashbrown::HashMap;
use sys::signal::{SIG_BLOCK, SIG_UNBLOCK, SigSet};
use wire::view::Pool;
use wire::{Mode, flag, stat};

use crate::block::{Arrival, BlockMap, Heads, Key};
use crate::cache::Cache;
use crate::contexts::{self, Contexts};
use crate::edge_counters::{self, EdgeCounters};
use crate::engine::{ENGINE, Engine, Heritage, Settings};
use crate::entry::{self, Routine};
use crate::evict::Evictions;
use crate::indirect::{Chains, Tables};
use crate::slab::Slab;
use crate::streams::Streams;

/// Facts that the signal handler needs without the lock. Set once, here.
static ARENA: AtomicU64 = AtomicU64::new(0);
static ARENA_END: AtomicU64 = AtomicU64::new(0);
static PAYLOAD: AtomicU64 = AtomicU64::new(0);
static HEAP: AtomicU64 = AtomicU64::new(0);

/// Kept for the engine where the address space is limited.
const RESERVE: u64 = 48 << 20;

/// Whether an address can be in the code cache.
pub fn arena_contains(addr: u64) -> bool {
    // Segments grown outside the arena are within a gigabyte of it.
    let (start, end) = (ARENA.load(Relaxed), ARENA_END.load(Relaxed));
    addr.wrapping_sub(start.wrapping_sub(1 << 30)) < end.wrapping_sub(start).wrapping_add(2 << 30)
}

pub fn payload_base() -> u64 {
    PAYLOAD.load(Relaxed)
}

pub fn heap_bytes() -> u64 {
    // SAFETY: the address of the payload's static heap.
    unsafe { (HEAP.load(Relaxed) as *const Heap).as_ref() }.map_or(0, Heap::mapped)
}

/// The program is about to limit its memory, of which the engine's is a part.
pub fn keep_reserve() {
    // SAFETY: the address of the payload's static heap.
    if let Some(heap) = unsafe { (HEAP.load(Relaxed) as *const Heap).as_ref() } {
        heap.keep(RESERVE);
    }
}

/// Ends the start-up with a sentence and the status that fits the error.
fn fail(what: &str, path: &CStr, errno: sys::Errno) -> ! {
    let mut text = agent::procfs::Text::default();
    let path = core::str::from_utf8(path.to_bytes()).unwrap_or("?");
    let _ = core::fmt::Write::write_fmt(
        &mut text,
        format_args!("everypath: {what} {path} (error {})\n", errno.0),
    );
    let _ = sys::write(2, &text.0);
    sys::exit_group(126)
}

/// # Safety
/// `sp` is rsp at the first instruction of the process; `payload` is the range
/// of the payload's own image.
pub unsafe fn main(sp: u64, payload: core::ops::Range<u64>, heap: &'static Heap) -> ! {
    let began = sys::monotonic_ns();
    HEAP.store(heap as *const Heap as u64, Relaxed);
    PAYLOAD.store(payload.start, Relaxed);
    // SAFETY: the payload's own image, as the caller says.
    unsafe { agent::image_gaps::note_image(payload) };
    // SAFETY: passed on from the caller.
    let stack = unsafe { InitialStack::at(sp) };
    let Some((orders, stack)) = Orders::take(stack) else {
        let text = "everypath: this file is the engine inside everypath; run `everypath` instead\n";
        let _ = sys::write(2, text.as_bytes());
        sys::exit_group(125)
    };
    let limit = address_space_limit();
    let pool_path = CStr::from_bytes_with_nul(&orders.pool).unwrap_or(c"");
    let Some(pool) = pool::attach(pool_path, limit) else {
        fail(
            "no memory to record into while starting",
            orders.file,
            sys::Errno::ENOMEM,
        )
    };
    agent::polls::attach(&pool);
    let fixed = match agent::start::fixed_span(orders.file) {
        Ok(fixed) => fixed,
        Err(errno) => fail("cannot load", orders.file, errno),
    };
    if let Some(limit) = limit {
        heap.keep((limit / 32).min(RESERVE) & !4095);
    }
    let Some(mut place) = Place::choose(fixed, limit) else {
        fail(
            "no address space for the code cache while starting",
            orders.file,
            sys::Errno::ENOMEM,
        )
    };
    ARENA.store(place.arena, Relaxed);
    ARENA_END.store(place.arena + place.arena_len, Relaxed);
    let program = match agent::start::load(&stack, &orders, &mut place) {
        Ok(program) => program,
        Err(errno) => fail("cannot load", orders.file, errno),
    };
    let entry = program.entry;
    let sp = program.sp;
    let context = boot(&stack, orders, pool, place, program, began);
    // SAFETY: the thread's block, made by `boot`; gs points to it.
    let context = unsafe { &mut *context };
    context.regs[reg::RSP] = sp;
    context.rflags = 0x202;
    crate::dispatch::go_to(
        context,
        Key {
            pc: entry,
            arrival: Arrival::Call,
        },
    );
    // SAFETY: the program's initial state is in the block.
    unsafe { entry::everypath_enter() }
}

fn address_space_limit() -> Option<u64> {
    let mut limit = [0u64; 2];
    const RLIMIT_AS: usize = 9;
    // SAFETY: the kernel fills two words.
    unsafe {
        sys::raw::syscall(
            sys::nr::PRLIMIT64,
            [0, RLIMIT_AS, 0, &raw mut limit as usize, 0, 0],
        )
    };
    (limit[0] != 0 && limit[0] < 1 << 46).then_some(limit[0])
}

fn settings(pool: &Pool, stack: &InitialStack) -> Settings {
    let config = &pool.header().config;
    let flags = config.flags.load(Relaxed);
    let features = core::arch::x86_64::__cpuid_count(7, 0).ebx;
    let costs = match config.mode.load(Relaxed) == Mode::Contexts as u32 {
        true => config.costs.load(Relaxed) & wire::cost::ALL,
        false => 0,
    };
    // A trace tells of them without (`streams::icount`).
    let is_trace = config.mode.load(Relaxed) == Mode::Trace as u32;
    Settings {
        count_instructions: flags & flag::COUNT_INSNS != 0 && !is_trace
            || costs & wire::cost::OF_INSTRUCTIONS != 0,
        costs,
        follow: flags & flag::FOLLOW != 0,
        clock: flags & flag::CLOCK != 0 || costs & wire::cost::CYCLES != 0,
        fsgsbase: stack.has_fsgsbase(),
        null_clears_base: !stack.has_fsgsbase() || thread::null_clears_base(),
        bmi2: features & 1 << 8 != 0,
        rtm: features & 1 << 11 != 0,
        chaos: config.chaos_seed.load(Relaxed),
        lockstep: config.lockstep.load(Relaxed),
        mistranslate: flags & flag::MISTRANSLATE != 0,
        order: config.order.load(Relaxed),
        memory: memory(config.memory.load(Relaxed)).filter(|_| stack.has_fsgsbase()),
    }
}

/// Memory operands that are recorded, by bits of [`wire::stream::memory`].
fn memory(bits: u32) -> Option<isa::memory::Selection> {
    use wire::stream::memory;
    (bits != 0).then_some(isa::memory::Selection {
        loads: bits & memory::LOADS != 0,
        stores: bits & memory::STORES != 0,
        elision: bits & memory::ALL_WORDS == 0,
        values: bits & memory::VALUES != 0,
        elements: true,
    })
}

/// Builds the engine and the first thread.
// Long function: the list of what there is, one after the other.
fn boot(
    stack: &InitialStack,
    orders: Orders,
    pool: Pool,
    place: Place,
    program: Program,
    began: u64,
) -> *mut thread::ThreadContext {
    let settings = settings(&pool, stack);
    let tiny = (settings.chaos != 0).then_some(256 << 10);
    let cache = Cache::new(place.arena, place.arena_len, tiny);
    let empty = [Routine::EmptyJump, Routine::EmptyCall].map(|routine| cache.thunk(routine));
    let steady = pool.header().config.flags.load(Relaxed) & flag::STEADY != 0;
    let mode = pool.header().config.mode.load(Relaxed);
    let counts = mode == Mode::Counts as u32;
    let keys = if counts { edge_counters::KEYS } else { 0 };
    let streams = Streams::new(&pool, &program.image.code);
    let tables = Tables::new(empty, settings.bmi2, keys);
    let Some(tables) = tables.and_then(|tables| tables.with_sets(streams.table_sets())) else {
        fail(
            "no low memory for the branch tables while starting",
            orders.file,
            sys::Errno::ENOMEM,
        )
    };
    let parent = parent_record(&pool);
    let log = ProcessLog::begin(pool, parent, wire::made::BY_EXEC, 0, |record, offset| {
        identify(&pool, record, offset, &program, began)
    });
    let Some(log) = log else {
        fail(
            "the recording area is full while starting",
            orders.file,
            sys::Errno::ENOMEM,
        )
    };
    let of_contexts = [Mode::Contexts, Mode::Intra, Mode::Inter];
    let is_contexts = of_contexts.iter().any(|&known| known as u32 == mode);
    let exe = [&program.exe[..], &[0]].concat();
    let process = Process::new(
        log,
        place,
        Blocks::default(),
        exe,
        entry::signal_entry(),
        is_contexts || streams.wants_tables(),
    );
    let mut engine = Engine {
        process,
        settings,
        heritage: Heritage {
            pool: orders.pool,
            payload: orders.payload,
        },
        cache,
        tables,
        blocks: Slab::default(),
        map: BlockMap::default(),
        heads: Heads::default(),
        exits: Slab::default(),
        free_blocks: Vec::new(),
        free_exits: Vec::new(),
        recycled: 0,
        evictions: Evictions::new(steady),
        pages: HashMap::default(),
        protected: HashMap::default(),
        chains: Chains::default(),
        volatiles: HashMap::default(),
        thrash: HashMap::default(),
        memory_opened: false,
        calls_watched: false,
        leaves_at_traps: false,
        contexts: is_contexts.then(|| Contexts::new(&pool)),
        edge_counters: counts.then(|| EdgeCounters::new(&pool)),
        streams: (mode == Mode::Trace as u32).then_some(streams),
        dice: settings.chaos | 1,
        epoch: 1,
        threads: Vec::new(),
        scratch: crate::engine::Scratch::default(),
    };
    add_image(&mut engine.process, &program.image, &program.exe);
    if let Some((image, path)) = &program.interpreter {
        add_image(&mut engine.process, image, path);
    }
    add_vdso(&mut engine.process, stack);
    add_executable_stack(&mut engine.process, &program);
    let behind = engine.behind();
    let Some(thread) = engine.process.blocks.take(&pool, behind) else {
        fail(
            "no memory for the first thread while starting",
            orders.file,
            sys::Errno::ENOMEM,
        )
    };
    let thread: &'static mut Thread = Box::leak(thread);
    thread.signals = crate::process::first_table();
    engine.calls_watched = engine.counts_together();
    inherit_filters(&mut engine, thread, orders.filters);
    // SAFETY: a fresh block.
    let context = unsafe { &mut *thread.context };
    engine.threads.push(thread.context);
    // It stays forbidden over exec. Nobody else asks: a filter may not like the question.
    let reads_clock = settings.clock || settings.order != 0;
    context.tsc_forbidden = u64::from(reads_clock && sys::is_tsc_forbidden());
    contexts::begin_thread(&mut engine, context, None, false);
    note_start(&engine, began);
    *ENGINE.lock() = Some(engine);
    crate::lockstep::begin(settings.lockstep);
    thread::set_gs(context, settings.fsgsbase);
    crate::process::adopt(context, thread);
    // Signals that were blocked before exec stay blocked for the program, not for the engine.
    let inherited = sys::sigprocmask(SIG_BLOCK, SigSet::EMPTY);
    // The handler changes the thread: what waits in the kernel comes in below.
    let thread = core::hint::black_box(thread);
    thread.blocked = SigSet(inherited.0 & SigSet::SYNCHRONOUS.0);
    // SAFETY: the table was just made.
    agent::signals::install(unsafe { &*thread.signals }, entry::signal_entry());
    sys::sigprocmask(SIG_UNBLOCK, SigSet::SYNCHRONOUS);
    thread.context
}

/// The engine has started; it began then.
fn note_start(engine: &Engine, began: u64) {
    if engine.settings.clock {
        let waited = engine.stat(stat::WAITING_NS).load(Relaxed);
        let starting = sys::monotonic_ns().saturating_sub(began + waited);
        engine.add(stat::STARTING_NS, starting);
    }
}

/// The filters that exec left, from where they are in the pool.
fn inherit_filters(engine: &mut Engine, thread: &Thread, at: u64) {
    if let Some(filters) = Filter::restore(&engine.process.log.pool, at) {
        engine.calls_watched |= filters.wants_all();
        agent::filters::set(&thread.filters, filters);
    }
}

/// The record of the image this one replaced (exec) or was started by.
fn parent_record(pool: &Pool) -> u64 {
    let me = sys::getpid();
    let mut at = pool.header().processes.load(Relaxed);
    for _ in 0..100_000 {
        let Some(record) = pool.at::<wire::ProcessRecord>(at).filter(|_| at != 0) else {
            return 0;
        };
        if record.pid.load(Relaxed) == me {
            return at;
        }
        at = record.next.load(Relaxed);
    }
    0
}

/// Says what the process is, and that it began then.
fn identify(pool: &Pool, record: &wire::ProcessRecord, offset: u64, program: &Program, began: u64) {
    use core::mem::offset_of;
    let exe = &program.exe[..program.exe.len().min(wire::PATH_MAX)];
    let cmdline = &program.cmdline[..program.cmdline.len().min(wire::CMDLINE_MAX)];
    pool.write_bytes(offset + offset_of!(wire::ProcessRecord, exe) as u64, exe);
    pool.write_bytes(
        offset + offset_of!(wire::ProcessRecord, cmdline) as u64,
        cmdline,
    );
    record.start_ns.store(began, Relaxed);
    record.exe_len.store(exe.len() as u32, Relaxed);
    record.cmdline_len.store(cmdline.len() as u32, Relaxed);
}

fn add_image(process: &mut Process, image: &Loaded, path: &[u8]) {
    for code in &image.code {
        process.add_code(
            code.start,
            code.end,
            code.offset,
            code.prot,
            image.file,
            path,
        );
    }
}

fn add_executable_stack(process: &mut Process, program: &Program) {
    if program.executable_stack
        && let Some((start, end)) = agent::procfs::mapping_of(program.sp)
    {
        // It grows downwards; eight megabytes is where the kernel stops by default.
        process.add_stack(start.saturating_sub(8 << 20), end);
    }
}

/// The vdso is program code like any other; it was mapped by the kernel.
fn add_vdso(process: &mut Process, stack: &InitialStack) {
    let Some(base) = stack.vdso() else { return };
    // Its size is in its program headers; one or two pages, up to three.
    let phoff = agent::memory::read::<u64>(base + 32).unwrap_or(64);
    let memsz = agent::memory::read::<u64>(base + phoff + 40).unwrap_or(4096);
    let end = (base + memsz).next_multiple_of(4096);
    process.add_code(
        base,
        end,
        0,
        sys::PROT_READ | sys::PROT_EXEC,
        wire::FileId::default(),
        b"[vdso]",
    );
}
