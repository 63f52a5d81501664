//! The target's side of the shared pool: attaching, allocating, logging.

use core::ffi::CStr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use sys::Errno;
use wire::denied::{Denial, why};
use wire::log::{self, LogChunk, Record};
use wire::view::{Pool, Shared};
use wire::{FileId, FuncEntry, FuncTable, PAGE, ProcessRecord, ThreadRecord};

/// Without a CLI the engine keeps its records in private memory of this size.
const PRIVATE_POOL: u64 = 1 << 30;

/// With less room in the pool a program that is exec'd is not recorded: it runs.
const LEAST: u64 = 1 << 20;

/// Maps the pool at `path`. Without one (the CLI is gone, `/proc` is not there, or the pool is
/// full) the program still runs, its records go nowhere.
pub fn attach(path: &CStr, limit: Option<u64>) -> Option<Pool> {
    if let Some(pool) = attach_shared(path, limit) {
        return Some(pool);
    }
    let base = crate::memory::map_private(PRIVATE_POOL)?;
    // SAFETY: a fresh mapping that is never unmapped.
    let pool = unsafe { Pool::new(base as *mut u8, PRIVATE_POOL) };
    let header = pool.header();
    header.bump.store(PAGE, Relaxed);
    header.size.store(PRIVATE_POOL, Relaxed);
    header.version.store(wire::VERSION, Relaxed);
    header.config.flags.store(wire::flag::FOLLOW, Relaxed);
    header.magic.store(wire::MAGIC, Release);
    Some(pool)
}

fn attach_shared(path: &CStr, limit: Option<u64>) -> Option<Pool> {
    if path.is_empty() {
        return None;
    }
    let fd = sys::open(path, sys::O_RDWR | sys::O_CLOEXEC).ok()?;
    let size = sys::fstat(fd).ok().map_or(0, |stat| stat.size as u64);
    // Address space is cheap unless it is limited.
    let mut len = limit.map_or(size, |limit| size.min(limit / 4)) & !(PAGE - 1);
    let mut base = None;
    while base.is_none() && len >= 1 << 20 {
        let (prot, flags) = (
            sys::PROT_READ | sys::PROT_WRITE,
            sys::MAP_SHARED | sys::MAP_NORESERVE,
        );
        base = crate::memory::map_in_zone(len, |at, how| {
            // SAFETY: a new mapping of a file; nothing existing is touched.
            unsafe { sys::mmap(at, len, prot, flags | how, fd, 0) }
        });
        if base.is_none() {
            len = (len / 2) & !(PAGE - 1);
        }
    }
    sys::close(fd);
    let base = base?;
    crate::memory::note(base, len);
    // SAFETY: advice on our own range; keeps 32 GB of holes out of core dumps.
    let _ = unsafe { sys::madvise(base, len, sys::MADV_DONTDUMP) };
    // SAFETY: just mapped, never unmapped.
    let pool = unsafe { Pool::new(base as *mut u8, len) };
    if !pool.is_valid() {
        return None;
    }
    if pool.len().saturating_sub(pool.header().bump.load(Relaxed)) < LEAST {
        deny(&pool, why::FULL);
        return None;
    }
    Some(pool)
}

/// Allocates zeroed memory, its beginning backed; `None` when the pool or the
/// machine is full.
pub fn allocate(pool: &Pool, bytes: u64) -> Option<u64> {
    allocate_backed(pool, bytes, 64 << 10)
}

/// Allocates and backs the bytes up to `first` at once: for memory that is touched all
/// over, that costs less than one fault a page.
pub fn allocate_backed(pool: &Pool, bytes: u64, first: u64) -> Option<u64> {
    let Some(offset) = pool.reserve(bytes) else {
        deny(pool, why::FULL);
        return None;
    };
    let first = bytes.min(first).next_multiple_of(PAGE);
    // Backing before touching: a full machine is an error here, not SIGBUS later.
    // SAFETY: the range was just reserved for us.
    match unsafe { back(pool.base() + offset, first) } {
        Ok(()) => Some(offset),
        Err(error) => {
            deny_for(pool, error);
            None
        }
    }
}

/// Backs memory of the pool before it is touched.
///
/// # Safety
/// The range is the caller's.
pub(crate) unsafe fn back(start: u64, len: u64) -> Result<(), Errno> {
    // SAFETY: the caller's range.
    match unsafe { sys::madvise(start, len, sys::MADV_POPULATE_WRITE) } {
        // Kernels before 5.14 do not know the advice.
        Err(Errno::EINVAL) => Ok(()),
        // Nor does a filter that was there before the run.
        Err(Errno::EPERM | Errno::EACCES | Errno::ENOSYS) => Ok(()),
        done => done,
    }
}

/// The calling thread does not get memory: the kernel said so.
pub fn deny_for(pool: &Pool, Errno(number): Errno) {
    deny(pool, number.cast_unsigned());
}

/// The calling thread does not get memory, for a reason ([`why`], or an error number).
pub fn deny(pool: &Pool, why: u32) {
    pool.header().denied.note(Denial {
        since_ns: sys::monotonic_ns(),
        pid: sys::getpid(),
        tid: sys::gettid(),
        why,
        times: 1,
    });
}

/// Allocates one structure on pages of its own.
pub fn allocate_one<T: Shared>(pool: &Pool) -> Option<u64> {
    allocate(pool, size_of::<T>() as u64)
}

pub fn file_id(stat: &sys::Stat) -> FileId {
    let [.., changed_s, changed_ns] = stat.times;
    FileId::new(stat.dev, stat.ino, changed_s, changed_ns)
}

/// The log and lists of one process image.
#[derive(Debug)]
pub struct ProcessLog {
    pub pool: Pool,
    /// Offset of the ProcessRecord.
    pub record: u64,
    chunk: u64,
    /// Records published.
    pub records: u64,
    /// Threads carved from the newest page of thread records.
    thread_page: u64,
    threads_on_page: u64,
}

const THREAD_SLOT: u64 = 192;
const _: () = assert!(size_of::<ThreadRecord>() as u64 <= THREAD_SLOT);

impl ProcessLog {
    /// Publishes a record for this image, `made` so ([`wire::made`]), and begins its log.
    pub fn begin(
        pool: Pool,
        parent: u64,
        made: u32,
        parent_mark: u64,
        fill: impl FnOnce(&ProcessRecord, u64),
    ) -> Option<ProcessLog> {
        let offset = allocate_one::<ProcessRecord>(&pool)?;
        let record: &ProcessRecord = pool.at(offset)?;
        record.parent.store(parent, Relaxed);
        record.pid.store(sys::getpid(), Relaxed);
        record.state.store(wire::process_state::RUNNING, Relaxed);
        record.start_ns.store(sys::monotonic_ns(), Relaxed);
        record.made.store(made, Relaxed);
        record.parent_log_mark.store(parent_mark, Relaxed);
        record.pool_base.store(pool.base(), Relaxed);
        fill(record, offset);
        let list = &pool.header().processes;
        let mut head = list.load(Acquire);
        loop {
            record.next.store(head, Relaxed);
            match list.compare_exchange(head, offset, Release, Acquire) {
                Ok(_) => break,
                Err(now) => head = now,
            }
        }
        Some(ProcessLog {
            pool,
            record: offset,
            chunk: 0,
            records: 0,
            thread_page: 0,
            threads_on_page: 0,
        })
    }

    pub fn process(&self) -> &ProcessRecord {
        self.pool.at(self.record).expect("begin checked the offset")
    }

    /// Appends one record: header, fixed part, variable part. Where its payload
    /// begins; `None`: there is no room for it.
    fn append(&mut self, kind: log::Kind, fixed: &[u64], tail: &[u8]) -> Option<u64> {
        let payload = fixed.len() * 8 + tail.len();
        let total = (size_of::<Record>() + payload).next_multiple_of(8) as u64;
        let (chunk_offset, used) = self.room(total)?;
        let at = chunk_offset + size_of::<LogChunk>() as u64 + u64::from(used);
        let head = (payload as u64) | (kind as u64) << 32;
        let mut cursor = at;
        // The other records have an order, but no time.
        let time = match kind {
            log::Kind::Map | log::Kind::Unmap => sys::monotonic_ns(),
            _ => 0,
        };
        for word in [head, time].iter().chain(fixed) {
            self.pool.write_bytes(cursor, &word.to_ne_bytes());
            cursor += 8;
        }
        self.pool.write_bytes(cursor, tail);
        let chunk: &LogChunk = self.pool.at(chunk_offset).expect("room checked it");
        chunk.used.store(used + total as u32, Release);
        self.records += 1;
        Some(at + size_of::<Record>() as u64)
    }

    /// A chunk with `total` free bytes: its offset and how much it holds.
    fn room(&mut self, total: u64) -> Option<(u64, u32)> {
        if self.chunk != 0 {
            let chunk: &LogChunk = self.pool.at(self.chunk)?;
            let used = chunk.used.load(Relaxed);
            if u64::from(used) + total <= u64::from(chunk.capacity.load(Relaxed)) {
                return Some((self.chunk, used));
            }
        }
        let fresh = allocate(&self.pool, log::CHUNK)?;
        let chunk: &LogChunk = self.pool.at(fresh)?;
        chunk
            .capacity
            .store((log::CHUNK - size_of::<LogChunk>() as u64) as u32, Relaxed);
        match self.chunk {
            0 => self.process().log.store(fresh, Release),
            old => self.pool.at::<LogChunk>(old)?.next.store(fresh, Release),
        }
        self.chunk = fresh;
        Some((fresh, 0))
    }

    pub fn map(&mut self, map: log::Map, path: &[u8]) {
        self.append(
            log::Kind::Map,
            &[
                map.start,
                map.end,
                map.offset,
                map.file.dev,
                map.file.ino,
                map.file.changed,
            ],
            path,
        );
    }

    /// Address of the payload in the log; `None`: it could not be written.
    pub fn fragment(&mut self, fragment: log::Fragment, tail: &[u8]) -> Option<u64> {
        let fixed = [
            fragment.first_slot,
            u64::from(fragment.id) | u64::from(fragment.flags) << 32,
            u64::from(fragment.pieces) | u64::from(fragment.events) << 32,
        ];
        self.append(log::Kind::Fragment, &fixed, tail)
    }

    /// `None`: it could not be written.
    pub fn cut(&mut self, cut: log::Cut) -> Option<()> {
        let place = u64::from(cut.fragment) | u64::from(cut.at) << 32;
        let fixed = [cut.slot, place, cut.ahead.cast_unsigned()];
        self.append(log::Kind::Cut, &fixed, &[]).map(|_| ())
    }

    /// `None`: it could not be written.
    pub fn jump(&mut self, jump: log::Jump) -> Option<()> {
        let fixed = [jump.slot, jump.pc, u64::from(jump.fragment)];
        self.append(log::Kind::Jump, &fixed, &[]).map(|_| ())
    }

    /// `None`: it could not be written.
    pub fn target(&mut self, pc: u64) -> Option<()> {
        self.append(log::Kind::Target, &[pc], &[]).map(|_| ())
    }

    pub fn unmap(&mut self, start: u64, end: u64) {
        self.append(log::Kind::Unmap, &[start, end], &[]);
    }

    pub fn function(&mut self, pc: u64, id: u32) {
        self.append(log::Kind::Func, &[pc, u64::from(id)], &[]);
    }

    /// `None`: it could not be written.
    pub fn block(&mut self, pc: u64, id: u32, code: &[u8]) -> Option<()> {
        self.append(log::Kind::Block, &[pc, u64::from(id)], code)
            .map(|_| ())
    }

    /// `None`: it could not be written.
    pub fn path(&mut self, path: log::Path) -> Option<()> {
        let fixed = [
            u64::from(path.id) | u64::from(path.before) << 32,
            u64::from(path.block),
        ];
        self.append(log::Kind::Path, &fixed, &[]).map(|_| ())
    }

    /// Publishes a record for a thread, or a `hidden` one, and returns its offset.
    pub fn thread(&mut self, tid: u32, hidden: bool) -> Option<u64> {
        if self.thread_page == 0 || (self.threads_on_page + 1) * THREAD_SLOT > PAGE {
            self.thread_page = allocate(&self.pool, PAGE)?;
            self.threads_on_page = 0;
        }
        let offset = self.thread_page + self.threads_on_page * THREAD_SLOT;
        self.threads_on_page += 1;
        let record: &ThreadRecord = self.pool.at(offset)?;
        record.tid.store(tid, Relaxed);
        record.hidden.store(u32::from(hidden), Relaxed);
        record.start_ns.store(sys::monotonic_ns(), Relaxed);
        let list = &self.process().threads;
        record.next.store(list.load(Relaxed), Relaxed);
        list.store(offset, Release);
        Some(offset)
    }

    /// The function table of the module logged last (offset, 0: none): from
    /// those that are listed, else from the CLI.
    pub fn functions(&mut self, file: FileId, path: &[u8]) -> u64 {
        match self.listed_functions(file, path) {
            Some(table) => table,
            None => self.ask_functions(),
        }
    }

    fn listed_functions(&self, file: FileId, path: &[u8]) -> Option<u64> {
        let mut offset = self.pool.header().tables.load(Acquire);
        // A chain longer than this is damaged.
        for _ in 0..1 << 20 {
            if offset == 0 {
                break;
            }
            let table: &FuncTable = self.pool.at(offset)?;
            let id = FileId {
                dev: table.dev.load(Relaxed),
                ino: table.ino.load(Relaxed),
                changed: table.changed.load(Relaxed),
            };
            if id == file && table.path_len.load(Relaxed) == path.len() as u64 {
                let entries = table.count.load(Relaxed) * size_of::<FuncEntry>() as u64;
                let mut listed = alloc::vec![0; path.len()];
                let at = offset + size_of::<FuncTable>() as u64 + entries;
                self.pool.read_bytes(at, &mut listed);
                if listed == path {
                    return Some(offset);
                }
            }
            offset = table.next.load(Relaxed);
        }
        None
    }

    fn ask_functions(&mut self) -> u64 {
        if self.pool.header().config.flags.load(Relaxed) & wire::flag::CLOCK == 0 {
            return self.ask();
        }
        let before = sys::monotonic_ns();
        let answer = self.ask();
        let took = sys::monotonic_ns().saturating_sub(before);
        self.process().stats[wire::stat::WAITING_NS].fetch_add(took, Relaxed);
        answer
    }

    /// Gives up when the CLI is gone.
    fn ask(&mut self) -> u64 {
        let header = self.pool.header();
        let process = self.process();
        let sequence = process.asked.load(Relaxed) + 1;
        process.asked_records.store(self.records, Relaxed);
        process.asked.store(sequence, Release);
        header.doorbell.fetch_add(1, Release);
        sys::futex_wake(&header.doorbell, 1);
        // A CLI that was killed cannot say so: give up after ten seconds.
        for _ in 0..50 {
            let answered = process.answered.load(Acquire);
            if answered == sequence {
                return process.answer.load(Acquire);
            }
            if header.cli_alive.load(Acquire) == 0 {
                return 0;
            }
            let timeout = sys::Timespec {
                sec: 0,
                nsec: 200_000_000,
            };
            let _ = sys::futex_wait(&process.answered, answered, Some(timeout));
        }
        header.cli_alive.store(0, Release);
        0
    }
}
