//! `from_pool` on pools made by hand, as the engine would write them, and on
//! the same pools with bytes changed.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;

use trace::{Cost, End, Label, Live, Meta, Most, Recording, Times, from_pool, from_pool_timed};
use wire::log::{CHUNK, Func, Kind, LogChunk, Map, Record, Unmap};
use wire::view::Pool;
use wire::{
    MAGIC, NodeChunk, PAGE, ProcessRecord, ThreadRecord, VERSION, node, process_state, stream,
};

/// Address at which the writing process is said to map the pool.
const WRITER_BASE: u64 = 0x7f12_3456_7000;
const POOL_PAGES: usize = 256;

#[derive(Clone)]
#[repr(align(4096))]
struct Page(#[expect(dead_code, reason = "read through the pool only")] [u8; PAGE as usize]);

/// A pool in private memory, and the engine's side of it.
struct Target {
    pages: Vec<Page>,
}

impl Target {
    fn new() -> Target {
        Target::of(POOL_PAGES)
    }

    fn of(pages: usize) -> Target {
        let mut target = Target {
            pages: vec![Page([0; PAGE as usize]); pages],
        };
        let pool = target.pool();
        pool.header().magic.store(MAGIC, Relaxed);
        pool.header().version.store(VERSION, Relaxed);
        pool.header().bump.store(PAGE, Relaxed);
        target
    }

    fn pool(&mut self) -> Pool {
        let len = self.pages.len() as u64 * PAGE;
        // SAFETY: `pages` is page aligned, `len` long, and never resized; every
        // handle is dropped before `self` is.
        unsafe { Pool::new(self.pages.as_mut_ptr().cast(), len) }
    }

    fn process(&mut self, pid: u32, parent: u64, by_fork: bool) -> u64 {
        let pool = self.pool();
        let offset = pool.reserve(PAGE).unwrap();
        let record: &ProcessRecord = pool.at(offset).unwrap();
        record
            .next
            .store(pool.header().processes.load(Relaxed), Relaxed);
        record.parent.store(parent, Relaxed);
        record.pid.store(pid, Relaxed);
        record.state.store(process_state::RUNNING, Relaxed);
        record.start_ns.store(u64::from(pid) * 100, Relaxed);
        record.made.store(by_fork.into(), Relaxed);
        record.pool_base.store(WRITER_BASE, Relaxed);
        let log = pool.reserve(CHUNK).unwrap();
        let chunk: &LogChunk = pool.at(log).unwrap();
        chunk.capacity.store((CHUNK - 16) as u32, Relaxed);
        record.log.store(log, Relaxed);
        pool.header().processes.store(offset, Relaxed);
        offset
    }

    fn log(&mut self, process: u64, kind: Kind, time_ns: u64, payload: &[u8]) {
        let pool = self.pool();
        let record: &ProcessRecord = pool.at(process).unwrap();
        let at = record.log.load(Relaxed);
        let chunk: &LogChunk = pool.at(at).unwrap();
        let used = chunk.used.load(Relaxed);
        let mut bytes = Vec::new();
        bytes.extend((payload.len() as u32).to_ne_bytes());
        bytes.extend((kind as u16).to_ne_bytes());
        bytes.extend(0u16.to_ne_bytes());
        bytes.extend(time_ns.to_ne_bytes());
        assert_eq!(bytes.len(), size_of::<Record>());
        bytes.extend(payload);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        assert!(pool.write_bytes(at + 16 + u64::from(used), &bytes));
        chunk.used.store(used + bytes.len() as u32, Relaxed);
    }

    fn map(&mut self, process: u64, time_ns: u64, map: [u64; 3], path: &str) {
        let mut payload = Vec::new();
        for word in map.into_iter().chain([8, 9, 10]) {
            payload.extend(word.to_ne_bytes());
        }
        assert_eq!(payload.len(), size_of::<Map>());
        payload.extend(path.as_bytes());
        self.log(process, Kind::Map, time_ns, &payload);
    }

    fn unmap(&mut self, process: u64, time_ns: u64, range: [u64; 2]) {
        let payload: Vec<u8> = range.into_iter().flat_map(u64::to_ne_bytes).collect();
        assert_eq!(payload.len(), size_of::<Unmap>());
        self.log(process, Kind::Unmap, time_ns, &payload);
    }

    fn func(&mut self, process: u64, id: u32, pc: u64) {
        let mut payload = pc.to_ne_bytes().to_vec();
        payload.extend(id.to_ne_bytes());
        payload.extend(0u32.to_ne_bytes());
        assert_eq!(payload.len(), size_of::<Func>());
        self.log(process, Kind::Func, 1, &payload);
    }

    fn thread(&mut self, process: u64, tid: u32) -> u64 {
        let pool = self.pool();
        let offset = pool.reserve(PAGE).unwrap();
        let record: &ThreadRecord = pool.at(offset).unwrap();
        let owner: &ProcessRecord = pool.at(process).unwrap();
        record.next.store(owner.threads.load(Relaxed), Relaxed);
        record.tid.store(tid, Relaxed);
        owner.threads.store(offset, Relaxed);
        offset
    }

    /// A stream of a thread: so many closed chunks with one byte each, and an open one.
    fn stream(&mut self, thread: u64, lane: usize, closed: usize) {
        let pool = self.pool();
        let chunks: Vec<u64> = (0..=closed)
            .map(|_| pool.reserve(stream::CHUNK).unwrap())
            .collect();
        for (number, &at) in chunks.iter().enumerate() {
            let chunk: &stream::Chunk = pool.at(at).unwrap();
            chunk.begin.store(stream::BEGIN as u32, Relaxed);
            if let Some(&next) = chunks.get(number + 1) {
                assert!(pool.write_bytes(at + stream::BEGIN, &[number as u8]));
                chunk.used.store(1, Relaxed);
                chunk.next.store(next, Relaxed);
                chunk.closed.store(stream::CLOSED, Relaxed);
            }
        }
        let waiting = &pool.header().chunks.waiting;
        waiting.fetch_add(closed as u64, Relaxed);
        let record: &ThreadRecord = pool.at(thread).unwrap();
        record.streams[lane].store(chunks[0], Relaxed);
    }

    /// Appends a chunk that holds `capacity` nodes to the thread's chain.
    fn chunk(&mut self, thread: u64, capacity: u32) -> u64 {
        let pool = self.pool();
        let offset = pool.reserve(16 + u64::from(capacity) * 24).unwrap();
        pool.at::<NodeChunk>(offset)
            .unwrap()
            .capacity
            .store(capacity, Relaxed);
        let record: &ThreadRecord = pool.at(thread).unwrap();
        let mut link = &record.nodes;
        while link.load(Relaxed) != 0 {
            link = &pool.at::<NodeChunk>(link.load(Relaxed)).unwrap().next;
        }
        link.store(offset, Relaxed);
        offset
    }

    /// Publishes a node: its label, parent and top (offsets; 0: none), count.
    fn node(&mut self, chunk: u64, label: u32, parent: u64, top: u64, count: u64) -> u64 {
        let pool = self.pool();
        let header: &NodeChunk = pool.at(chunk).unwrap();
        let used = header.used.load(Relaxed);
        let offset = chunk + 16 + u64::from(used) * 24;
        let node: &node::Node = pool.at(offset).unwrap();
        node.count.store(count, Relaxed);
        node.top.store((top / 8) as u32, Relaxed);
        if parent == 0 {
            node.depth_flags.store(node::ROOT, Relaxed);
            node.neg_key.store(label.into(), Relaxed);
        } else {
            let parent_depth = pool
                .at::<node::Node>(parent)
                .unwrap()
                .depth_flags
                .load(Relaxed);
            node.depth_flags
                .store((parent_depth & node::DEPTH) + 1, Relaxed);
            let key = node::key(WRITER_BASE + parent, label);
            node.neg_key.store(key.wrapping_neg(), Relaxed);
        }
        header.used.store(used + 1, Relaxed);
        offset
    }

    fn read(&mut self) -> Recording {
        let meta = Meta {
            end: End::Exited(3),
            ..Meta::default()
        };
        from_pool(&self.pool(), meta)
    }
}

/// A process with two threads whose second one spans chunks, which forks a
/// child; the child goes on and then replaces itself by exec.
fn family() -> Target {
    let mut target = Target::new();
    let first = target.process(10, 0, false);
    let pool = target.pool();
    {
        let record: &ProcessRecord = pool.at(first).unwrap();
        let args = b"prog\0\0two words\0";
        let args_at = first + std::mem::offset_of!(ProcessRecord, cmdline) as u64;
        assert!(pool.write_bytes(args_at, args));
        record.cmdline_len.store(args.len() as u32, Relaxed);
        let exe_at = first + std::mem::offset_of!(ProcessRecord, exe) as u64;
        assert!(pool.write_bytes(exe_at, b"/bin/prog"));
        record.exe_len.store(9, Relaxed);
    }
    target.map(first, 5, [0x1000, 0x3000, 0x400], "/bin/prog");
    target.func(first, 256, 0x1010);
    target.map(first, 6, [0x2000, 0x5000, 0], "/lib/a.so");
    target.func(first, 257, 0x2010);
    target.unmap(first, 7, [0x2000, 0x3000]);
    target.func(first, 258, 0x2010);
    let thread = target.thread(first, 10);
    let chunk = target.chunk(thread, 8);
    let root = target.node(chunk, node::LABEL_THREAD, 0, 0, 1);
    target.node(chunk, 256, root, 0, 7);
    let thread = target.thread(first, 11);
    let one = target.chunk(thread, 2);
    target.thread(first, 12);
    let two = target.chunk(thread, 2);
    let root = target.node(one, node::LABEL_THREAD, 0, 0, 1);
    let a = target.node(one, 256, root, 0, 2);
    let b = target.node(two, 257, 0, 0, 0);
    target.node(two, 257, a, b, 9);

    let child = target.process(20, first, true);
    let pool = target.pool();
    pool.at::<ProcessRecord>(child)
        .unwrap()
        .parent_log_mark
        .store(4, Relaxed);
    target.unmap(first, 8, [0, u64::MAX]);
    target.unmap(child, 9, [0x1000, 0x2000]);
    target.func(child, 258, 0x1010);
    let thread = target.thread(child, 20);
    let chunk = target.chunk(thread, 4);
    let root = target.node(chunk, node::LABEL_THREAD, 0, 0, 1);
    target.node(chunk, 257, root, 0, 1);
    pool.at::<ProcessRecord>(child)
        .unwrap()
        .state
        .store(process_state::EXECED, Relaxed);
    pool.at::<ProcessRecord>(child)
        .unwrap()
        .end_ns
        .store(77, Relaxed);
    let execed = target.process(20, child, false);
    pool.at::<ProcessRecord>(execed)
        .unwrap()
        .end_status
        .store(1, Relaxed);
    pool.at::<ProcessRecord>(execed)
        .unwrap()
        .state
        .store(process_state::EXITED, Relaxed);
    target
}

#[test]
fn processes_come_oldest_first_with_their_ends() {
    let recording = family().read();
    let [first, child, execed] = recording.processes.as_slice() else {
        panic!("three processes")
    };
    assert_eq!(
        (first.pid, first.parent, first.end),
        (10, None, End::Exited(3))
    );
    assert_eq!(
        (child.pid, child.parent, child.by_fork),
        (20, Some(0), true)
    );
    assert_eq!((child.end, child.end_ns), (End::Execed, Some(77)));
    assert_eq!(
        (execed.parent, execed.by_fork, execed.end),
        (Some(1), false, End::Exited(1))
    );
    assert_eq!(first.exe, "/bin/prog");
    assert_eq!(first.args, ["prog", "", "two words"]);
    assert_eq!(first.end_ns, None);
}

#[test]
fn the_end_of_the_command_belongs_to_its_last_image() {
    let mut target = Target::new();
    let first = target.process(10, 0, false);
    let pool = target.pool();
    pool.at::<ProcessRecord>(first)
        .unwrap()
        .state
        .store(process_state::EXECED, Relaxed);
    target.process(10, first, false);
    let ends: Vec<End> = target
        .read()
        .processes
        .iter()
        .map(|process| process.end)
        .collect();
    assert_eq!(ends, [End::Execed, End::Exited(3)]);
}

#[test]
fn functions_are_in_the_mapping_that_was_newest_when_they_were_met() {
    let recording = family().read();
    let first = &recording.processes[0];
    let placed: Vec<_> = first
        .functions
        .iter()
        .map(|f| (f.id, f.module, f.file_offset))
        .collect();
    assert_eq!(
        placed,
        [(256, Some(0), 0x410), (257, Some(1), 0x10), (258, None, 0)]
    );
    let modules: Vec<_> = first
        .modules
        .iter()
        .map(|m| (m.path.as_str(), m.mapped_ns, m.unmapped_ns))
        .collect();
    assert_eq!(
        modules,
        [("/bin/prog", 5, Some(8)), ("/lib/a.so", 6, Some(8))]
    );
}

#[test]
fn a_forked_child_inherits_the_log_up_to_the_fork() {
    let recording = family().read();
    let child = &recording.processes[1];
    let modules: Vec<_> = child
        .modules
        .iter()
        .map(|m| (m.path.as_str(), m.unmapped_ns))
        .collect();
    assert_eq!(modules, [("/bin/prog", Some(9)), ("/lib/a.so", None)]);
    // 256 is the parent's and no node of the child names it; 257 is named;
    // 258 is the child's own, at a place where nothing is mapped any more.
    let functions: Vec<_> = child.functions.iter().map(|f| (f.id, f.module)).collect();
    assert_eq!(functions, [(257, Some(1)), (258, None)]);
    assert_eq!(
        child
            .module_of(child.function(Label(257)).unwrap())
            .unwrap()
            .path,
        "/lib/a.so"
    );
    assert!(
        recording.processes[2].modules.is_empty(),
        "exec starts from nothing"
    );
}

#[test]
fn nodes_get_indices_across_chunks() {
    let recording = family().read();
    let tids: Vec<u32> = recording.processes[0]
        .threads
        .iter()
        .map(|t| t.tid)
        .collect();
    assert_eq!(tids, [10, 11, 12]);
    let nodes: Vec<_> = recording.processes[0].threads[1]
        .nodes
        .iter()
        .map(|n| (n.label.0, n.parent, n.depth, n.top, n.count))
        .collect();
    assert_eq!(
        nodes,
        [
            (node::LABEL_THREAD, None, 0, None, 1),
            (256, Some(0), 1, None, 2),
            (257, None, 0, None, 0),
            (257, Some(1), 2, Some(2), 9),
        ]
    );
}

#[test]
fn times_are_costs_of_their_nodes() {
    let mut target = Target::new();
    let process = target.process(10, 0, false);
    let thread = target.thread(process, 10);
    let other = target.thread(process, 11);
    let chunk = target.chunk(thread, 2);
    let root = target.node(chunk, node::LABEL_THREAD, 0, 0, 1);
    let child = target.node(chunk, 256, root, 0, 1);
    let chunk = target.chunk(other, 1);
    target.node(chunk, node::LABEL_THREAD, 0, 0, 1);
    // A place between nodes is the first one's.
    let own = [(child, [5, 7]), (root, [1, 0]), (child + 8, [10, 20])];
    let times = Times::from([(thread, HashMap::from(own))]);
    let recording = from_pool_timed(&target.pool(), Meta::default(), Some(&times));
    let threads = &recording.processes[0].threads;
    let of = |tid, cost| {
        let thread = threads.iter().find(|thread| thread.tid == tid).unwrap();
        thread.costs_of(cost).unwrap().to_vec()
    };
    assert_eq!(of(10, Cost::Time), [11, 5]);
    assert_eq!(of(10, Cost::Waiting), [20, 7]);
    assert_eq!(of(11, Cost::Time), [0]);
    // Without times nodes have none, not even 0.
    let untimed = from_pool(&target.pool(), Meta::default());
    assert_eq!(untimed.processes[0].threads[0].costs_of(Cost::Time), None);
}

#[test]
fn instructions_are_counted_in_the_record_or_in_the_threads_own_words() {
    let mut target = Target::new();
    let process = target.process(1, 0, false);
    let pool = target.pool();
    let word = pool.reserve(PAGE).unwrap() + 8;
    assert!(pool.write_bytes(word, &700u64.to_ne_bytes()));
    assert!(pool.write_bytes(word + 7 * 8, &11u64.to_ne_bytes()));
    assert!(pool.write_bytes(word + 8 * 8, &1u64.to_ne_bytes()));
    for (tid, insns, live_at) in [(1, 5, 0), (2, 0, word), (3, 9, u64::MAX), (4, 9, 3)] {
        let thread = target.thread(process, tid);
        let record: &ThreadRecord = pool.at(thread).unwrap();
        record.insns.store(insns, Relaxed);
        record.live_insns.store(live_at, Relaxed);
    }
    let recording = target.read();
    let insns: Vec<u64> = recording.processes[0]
        .threads
        .iter()
        .map(|t| t.insns)
        .collect();
    assert_eq!(insns, [5, 711, 9, 9]);
}

#[test]
fn a_node_without_a_place_keeps_its_count_as_truncated() {
    let mut target = Target::new();
    let process = target.process(1, 0, false);
    let thread = target.thread(process, 1);
    let chunk = target.chunk(thread, 8);
    // A parent offset at which no node begins.
    let pool = target.pool();
    target.node(chunk, 300, chunk + 16 + 8, 0, 5);
    let header: &NodeChunk = pool.at(chunk).unwrap();
    header.capacity.store(u32::MAX, Relaxed);
    header.used.store(u32::MAX, Relaxed);
    let recording = target.read();
    let nodes = &recording.processes[0].threads[0].nodes;
    assert_eq!((nodes[0].label, nodes[0].count), (Label::TRUNCATED, 5));
    assert!(nodes.len() as u64 <= POOL_PAGES as u64 * PAGE / 24);
}

/// All chunks that the program has left are read when it has ended.
#[test]
fn many_closed_chunks_are_read_to_the_last() {
    const CLOSED: usize = 150;
    let chunks = CLOSED + 1 + stream::LANES;
    let mut target = Target::of(chunks * (stream::CHUNK / PAGE) as usize + POOL_PAGES);
    let process = target.process(10, 0, false);
    let thread = target.thread(process, 10);
    for lane in 0..stream::LANES {
        target.stream(thread, lane, if lane == 1 { CLOSED } else { 0 });
    }
    let pool = target.pool();
    pool.header()
        .config
        .max_chunks
        .store(chunks as u64, Relaxed);
    let mut live = Live::new(Vec::new(), &Meta::default(), Most::All).unwrap();
    live.settle(&pool, Meta::default());
    // A chunk is freed once it was read.
    assert_eq!(pool.header().chunks.waiting.load(Relaxed), 0);
}

#[test]
fn bytes_that_are_no_pool_give_no_processes() {
    let mut target = Target {
        pages: vec![Page([0xA5; PAGE as usize]); 4],
    };
    assert!(target.read().processes.is_empty());
    target.pages.clear();
    assert!(target.read().processes.is_empty());
}

#[test]
fn altered_pools_never_panic_or_hang() {
    let whole = family();
    let used = {
        let mut copy = Target {
            pages: whole.pages.clone(),
        };
        copy.pool().header().bump.load(Relaxed)
    };
    let mut seed = 0x2545_F491_4F6C_DD1Du64;
    let mut random = move |below: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % below
    };
    // Offsets that mean something make loops more likely than noise does.
    let interesting: Vec<u64> = (0..used / PAGE).map(|page| page * PAGE).collect();
    for _ in 0..2_000 {
        let mut target = Target {
            pages: whole.pages.clone(),
        };
        let pool = target.pool();
        for _ in 0..=random(6) {
            let page = random(used / PAGE) * PAGE;
            let within = if random(2) == 0 { 128 } else { PAGE };
            let at = page + random(within) / 8 * 8;
            let word = match random(4) {
                0 => random(u64::MAX),
                1 => interesting[random(interesting.len() as u64) as usize],
                2 => u64::MAX >> random(64),
                _ => random(64),
            };
            if at != 0 && at != 8 {
                assert!(pool.write_bytes(at, &word.to_ne_bytes()));
            }
        }
        let recording = target.read();
        for process in &recording.processes {
            for thread in &process.threads {
                for (index, node) in thread.nodes.iter().enumerate() {
                    assert!(node.parent.is_none_or(|parent| (parent as usize) < index));
                    assert!(
                        node.top
                            .is_none_or(|top| (top as usize) < thread.nodes.len())
                    );
                }
            }
        }
    }
}
