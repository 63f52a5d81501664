//! Code that changes: unmapping and rewriting.
//!
//! Bytes of file mappings that were never writable are trusted until they are
//! unmapped. Any other page is made read-only when code is translated from it;
//! a store then faults, the page's blocks are severed, and the page is
//! writable again until code from it is translated anew. A store from the page
//! to itself is stepped, so that its own block does not run on with old bytes.

use wire::stat;

use crate::block::BlockId;
use crate::engine::{self, Engine};
use crate::superblock::Superblock;

/// Stores to one page of code after which it is compared instead of guarded.
const THRASHING: u32 = 2000;

/// Sum over the program bytes `pc..pc+len` (FNV-1a).
pub fn checksum(pc: u64, len: u32) -> u64 {
    let mut bytes = [0u8; 256];
    let mut sum = 0xcbf2_9ce4_8422_2325u64;
    let mut done = 0;
    while done < len as usize {
        let step = (len as usize - done).min(256);
        let got = agent::memory::read_some(pc + done as u64, &mut bytes[..step]);
        for &byte in &bytes[..got] {
            sum = (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
        sum ^= got as u64;
        done += step;
    }
    sum
}

/// Consecutive words of the program.
fn read_words<const N: usize>(at: u64) -> Option<[u64; N]> {
    let mut words = [0; N];
    for (index, word) in words.iter_mut().enumerate() {
        *word = agent::memory::read(at + index as u64 * 8)?;
    }
    Some(words)
}

/// A write to a file; if that is the program's memory, it is made here and
/// the code it changes is stale. `None`: it is another file.
pub fn stores(number: u64, args: [u64; 6]) -> Option<isize> {
    if !engine::with(|engine| engine.memory_opened) {
        return None;
    }
    let mut path = [0u8; 64];
    let len = agent::procfs::fd_path(args[0] as i32, &mut path)?;
    if agent::procfs::recognise(&path[..len]) != Some(agent::procfs::Own::Mem) {
        return None;
    }
    let explicit = ![sys::nr::WRITE, sys::nr::WRITEV].contains(&(number as usize));
    let at = match args[3] {
        at if explicit && at as i64 != -1 => at,
        _ => {
            const SEEK_CUR: usize = 1;
            let seek = [args[0] as usize, 0, SEEK_CUR, 0, 0, 0];
            // SAFETY: asks where the descriptor stands.
            unsafe { sys::raw::syscall(sys::nr::LSEEK, seek) as u64 }
        }
    };
    // SAFETY: the program's own call; its buffers are checked by the kernel.
    let result = unsafe { sys::raw::syscall(number as usize, args.map(|arg| arg as usize)) };
    if result > 0 {
        engine::with(|engine| {
            engine.open_range(at, result as u64);
            engine.invalidate(at, at.saturating_add(result as u64));
        });
    }
    Some(result)
}

/// The kernel is about to write to an array of `struct iovec` for the program.
pub fn open_vector(at: u64, count: u64) {
    if engine::with(|engine| engine.protected.is_empty()) {
        return;
    }
    for index in 0..count.min(1024) {
        let Some([start, len]) = read_words(at + index * 16) else {
            return;
        };
        engine::with(|engine| engine.open_range(start, len));
    }
}

/// Opens the pages of the buffers in `count` of `struct mmsghdr`, or in one `struct msghdr`.
pub fn open_messages(at: u64, count: u64) {
    if engine::with(|engine| engine.protected.is_empty()) {
        return;
    }
    const MMSGHDR: u64 = 64;
    for index in 0..count {
        // Name, its length, vector, its length, control, its length, flags.
        let at = at + index * MMSGHDR;
        let Some([name, name_len, vector, entries, control, control_len]) = read_words(at) else {
            return;
        };
        open_vector(vector, entries);
        engine::with(|engine| {
            engine.open_range(name, name_len & 0xffff_ffff);
            engine.open_range(control, control_len);
            engine.open_range(at, MMSGHDR);
        });
    }
}

impl Engine {
    /// Whether code at `pc` must be compared whenever it is entered.
    pub fn is_volatile(&self, pc: u64) -> bool {
        self.process
            .regions
            .find(pc)
            .is_some_and(|region| region.volatile)
            || self
                .thrash
                .get(&(pc & !4095))
                .is_some_and(|&stores| stores >= THRASHING)
    }

    /// Whether a block's source has changed unnoticed.
    pub fn is_stale(&self, id: BlockId) -> bool {
        let block = &self.blocks[id.0 as usize];
        let source = self.volatiles.get(&id).filter(|_| block.volatile);
        source.is_some_and(|&(len, sum)| {
            let pc = block.key().pc;
            self.present_end(pc, pc + u64::from(len)) < pc + u64::from(len)
                || checksum(pc, len) != sum
        })
    }

    /// The program opens its memory as a file: from now on writes to files are
    /// looked at ([`Engine::stores`]), so what was translated without that goes.
    pub fn opens_memory(&mut self) {
        if !core::mem::replace(&mut self.memory_opened, true) {
            self.drop_all_pages();
        }
    }

    /// A filter of the program is to be asked here about every call: the same for what was
    /// translated so that some run as they are.
    pub fn watch_calls(&mut self) {
        if !core::mem::replace(&mut self.calls_watched, true) {
            self.drop_all_pages();
        }
    }

    pub fn drop_all_pages(&mut self) {
        let pages: alloc::vec::Vec<u64> = self.pages.keys().copied().collect();
        for page in pages {
            if self.protected.contains_key(&page) {
                self.on_store(page);
            }
            self.drop_page(page);
        }
    }

    /// Notes where a new block's bytes came from.
    pub fn watch(&mut self, id: BlockId, source: &Superblock) {
        for &page in &source.pages {
            self.pages.entry(page).or_default().push(id);
        }
    }

    /// Guards the pages of `start..end` that stores can change. Done before
    /// their bytes are read, so that no store between is missed.
    pub fn guard(&mut self, start: u64, end: u64) {
        for page in (start & !4095..end).step_by(4096) {
            let region = self.process.regions.find(page);
            let writable = region.is_some_and(|region| region.prot & sys::PROT_WRITE != 0);
            if writable && !self.protected.contains_key(&page) {
                // SAFETY: takes the write right of a page of the program; its
                // stores fault and come to `on_store`.
                if unsafe { sys::mprotect(page, 4096, sys::PROT_READ) }.is_ok() {
                    self.protected.insert(page, ());
                }
            }
        }
    }

    /// The kernel is about to write to `start..start+len` for the program.
    pub fn open_range(&mut self, start: u64, len: u64) {
        if self.protected.is_empty() {
            return;
        }
        let end = start.saturating_add(len);
        let inside: alloc::vec::Vec<u64> = self
            .protected
            .keys()
            .copied()
            .filter(|&page| start < page + 4096 && page < end)
            .collect();
        for page in inside {
            self.on_store(page);
        }
    }

    /// The program (or the kernel for it) changed `start..end`.
    pub fn invalidate(&mut self, start: u64, end: u64) {
        self.forget_functions(start, end);
        // By address, not by page: a page whose blocks are gone has leaves still.
        self.forget_leaves(start, end);
        let first = start & !4095;
        if (end - first) / 4096 > self.pages.len() as u64 {
            let stale: alloc::vec::Vec<u64> = self
                .pages
                .keys()
                .copied()
                .filter(|page| (first..end).contains(page))
                .collect();
            for page in stale {
                self.drop_page(page);
            }
        } else {
            for page in (first..end).step_by(4096) {
                self.drop_page(page);
            }
        }
    }

    fn drop_page(&mut self, page: u64) {
        self.protected.remove(&page);
        self.sever_page(page);
        self.forget_leaves(page, page + 4096);
    }

    /// Its bytes are what they were, but are to be translated anew.
    pub fn sever_page(&mut self, page: u64) {
        for block in self.pages.remove(&page).unwrap_or_default() {
            self.sever(block);
        }
    }

    /// A store faulted at `addr`. `true`: the page was guarded by us and is
    /// writable now; the store can be repeated.
    pub fn on_store(&mut self, addr: u64) -> bool {
        let page = addr & !4095;
        // Not in the list: another thread lifted the guard a moment ago, or
        // the page was moved here with it.
        if self
            .process
            .regions
            .find(page)
            .is_none_or(|region| region.prot & sys::PROT_WRITE == 0)
        {
            return false;
        }
        self.drop_page(page);
        *self.thrash.entry(page).or_default() += 1;
        self.count(stat::SMC_FAULTS);
        // SAFETY: gives the program back the right it had.
        unsafe { sys::mprotect(page, 4096, sys::PROT_READ | sys::PROT_WRITE) }.is_ok()
    }

    /// Whether the block that holds cache address `host` has bytes from `page`,
    /// which is still listed with its blocks.
    pub fn runs_from_page(&self, host: u64, page: u64) -> bool {
        let Some(block) = self.cache.block_at(host) else {
            return false;
        };
        // It may have followed jumps from far away.
        let blocks = self.pages.get(&page);
        blocks.is_some_and(|blocks| blocks.contains(&BlockId(block)))
    }
}
