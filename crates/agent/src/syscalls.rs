//! System calls that must be bent, and how.
//! Long file: the handlers, one small function a kind.
//!
//! Everything not in [`TABLE`] runs in the code cache as the program wrote it. A
//! handler says what the call returns and what the translator has to do about it
//! ([`Effect`]).

use alloc::vec::Vec;

use sys::{Errno, nr};
use wire::FileId;

use crate::address_space::Place;
use crate::loader::real_prot;
use crate::pool::ProcessLog;
use crate::procfs;
use crate::regions::{Region, Regions};
use crate::signals::Entry;
use crate::thread::Blocks;
use former::Former;
use spans::Spans;

mod engine_ranges;
mod former;
mod remap;
mod spans;
mod table;

pub use table::{Kind, TABLE, kind};

/// Continuation of a call in the translator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Let the call run in the cache as written.
    Forward,
    /// The call is done; this is its result.
    Done(isize),
    /// Done, and code in the range is stale.
    Invalidate(isize, u64, u64),
    /// Two stale ranges (mremap).
    Invalidate2(isize, (u64, u64), (u64, u64)),
}

/// A file mapped by the program, so that a later mprotect can name it.
#[derive(Clone, Debug)]
struct FileMap {
    start: u64,
    end: u64,
    offset: u64,
    id: FileId,
    path: Vec<u8>,
}

impl FileMap {
    /// Position in the file of what is mapped at `pc`.
    fn offset_at(&self, pc: u64) -> u64 {
        pc - self.start + self.offset
    }

    /// The part of it at `start..end`.
    fn part(&self, start: u64, end: u64) -> FileMap {
        FileMap {
            start,
            end,
            offset: self.offset_at(start),
            ..self.clone()
        }
    }
}

/// Facts about a mapped file that [`Process::mmap`] needs. They are read before the engine's lock is
/// taken: a file system may be served by the program itself (FUSE).
#[derive(Clone, Debug, Default)]
pub struct MappedFile {
    is_elf: bool,
    id: FileId,
    path: Vec<u8>,
}

impl MappedFile {
    /// The file of a call of mmap, as far as it matters.
    pub fn of_call(args: [u64; 6]) -> MappedFile {
        let [_, _, prot, flags, fd, _] = args;
        let (prot, flags, fd) = (prot as u32, flags as u32, fd as i32);
        if flags & sys::MAP_ANONYMOUS != 0 {
            return MappedFile::default();
        }
        let is_elf = flags & sys::MAP_PRIVATE != 0 && is_elf(fd);
        if !is_elf && prot & sys::PROT_EXEC == 0 {
            return MappedFile::default();
        }
        let mut path = [0u8; 4096];
        let len = procfs::fd_path(fd, &mut path).unwrap_or(0);
        let stat = sys::fstat(fd).unwrap_or_default();
        MappedFile {
            is_elf,
            id: crate::pool::file_id(&stat),
            path: path[..len].to_vec(),
        }
    }
}

/// State of the process that system calls change.
#[derive(Debug)]
pub struct Process {
    pub log: ProcessLog,
    pub regions: Regions,
    pub place: Place,
    pub blocks: Blocks,
    /// Path of the program, for `/proc/self/exe`; NUL-terminated.
    pub exe: Vec<u8>,
    pub entry: Entry,
    /// Forked by a process under the engine, and the same program still.
    pub is_child: bool,
    /// Ask the CLI for function tables (contexts mode).
    pub wants_tables: bool,
    /// AT_MINSIGSTKSZ, or the constant where the kernel does not say.
    pub minimum_altstack: u64,
    files: Vec<FileMap>,
    former: Former,
    /// Memory that may have another mapping, or is another process's too.
    shared: Spans,
}

const MAP_TYPE_FIXED: u32 = sys::MAP_FIXED | sys::MAP_FIXED_NOREPLACE;

impl Process {
    pub fn new(
        log: ProcessLog,
        place: Place,
        blocks: Blocks,
        exe: Vec<u8>,
        entry: Entry,
        wants_tables: bool,
    ) -> Process {
        Process {
            log,
            regions: Regions::default(),
            place,
            blocks,
            exe,
            entry,
            is_child: false,
            wants_tables,
            minimum_altstack: 2048,
            files: Vec::new(),
            former: Former::default(),
            shared: Spans::default(),
        }
    }

    /// Makes `start..end` of a file executable for the program.
    pub fn add_code(
        &mut self,
        start: u64,
        end: u64,
        offset: u64,
        prot: u32,
        id: FileId,
        path: &[u8],
    ) {
        let path = path.to_vec();
        let map = FileMap {
            start,
            end,
            offset,
            id,
            path,
        };
        let table = self.log_code(&map);
        self.former.note(map);
        self.regions.insert(Region {
            start,
            end,
            prot,
            offset,
            table,
            of_file: true,
            fixed: prot & sys::PROT_WRITE == 0,
            volatile: false,
        });
    }

    /// Logs code of a file. Its function table, as [`Region::table`] has it.
    fn log_code(&mut self, map: &FileMap) -> u32 {
        let logged = wire::log::Map {
            start: map.start,
            end: map.end,
            offset: map.offset,
            file: map.id,
        };
        self.log.map(logged, &map.path);
        if !self.wants_tables {
            return 0;
        }
        match self.log.functions(map.id, &map.path) {
            0 => 0,
            table => self.regions.number(table),
        }
    }

    pub(crate) fn drop_code(&mut self, start: u64, end: u64) {
        if self.regions.overlaps(start, end) {
            self.regions.remove(start, end);
            self.log.unmap(start, end);
        }
    }

    /// Handles a call of the memory group.
    pub fn call(&mut self, kind: Kind, args: [u64; 6], number: u64) -> Effect {
        match kind {
            Kind::Munmap => self.munmap(args),
            Kind::Mprotect => self.mprotect(args, number),
            Kind::Mremap => self.mremap(args),
            Kind::Madvise => self.madvise(args),
            Kind::Brk => self.brk(args[0]),
            Kind::Shmat => self.shmat(args),
            Kind::Shmdt => self.shmdt(args),
            _ => Effect::Forward,
        }
    }

    /// `mmap` of `file`, or of none.
    // Long function: the cases of one call share their state.
    pub fn mmap(&mut self, args: [u64; 6], file: MappedFile) -> Effect {
        let [addr, len, prot, flags, fd, offset] = args;
        let (prot, flags) = (prot as u32, flags as u32);
        let executable = prot & sys::PROT_EXEC != 0;
        let fixed = flags & MAP_TYPE_FIXED != 0;
        if fixed && engine_ranges::meets_engine(addr, len) {
            return Effect::Done(engine_ranges::refusal_to_map(args));
        }
        let anonymous = flags & sys::MAP_ANONYMOUS != 0;
        let elf = file.is_elf;
        let mut hint = addr;
        if !fixed
            && addr == 0
            && flags & sys::MAP_32BIT == 0
            && len > 0
            && (elf || (anonymous && executable))
        {
            hint = self.place.hint(len);
        }
        // SAFETY: the program's own call; it cannot touch the engine (checked above).
        let result = unsafe {
            sys::raw::syscall(
                nr::MMAP,
                [
                    hint as usize,
                    len as usize,
                    real_prot(prot) as usize,
                    flags as usize,
                    fd as usize,
                    offset as usize,
                ],
            )
        };
        let Ok(got) = sys::check(result) else {
            return Effect::Done(result);
        };
        let (start, end) = engine_ranges::pages(got as u64, len);
        let had_code = self.regions.overlaps(start, end);
        self.drop_code(start, end);
        self.files
            .retain(|file| file.end <= start || end <= file.start);
        if elf || (executable && !anonymous) {
            self.files.push(FileMap {
                start,
                end,
                offset,
                id: file.id,
                path: file.path,
            });
        }
        match flags & sys::MAP_SHARED {
            0 => self.shared.remove(start, end),
            _ => self.shared.insert(start, end),
        }
        if executable {
            self.new_code(start, end, prot);
        }
        if had_code {
            Effect::Invalidate(result, start, end)
        } else {
            Effect::Done(result)
        }
    }

    /// `start..end` may have another mapping.
    pub(crate) fn note_shared(&mut self, start: u64, end: u64) {
        self.shared.insert(start, end);
    }

    /// Stores elsewhere can change the code in `start..end`.
    fn set_volatile(&mut self, start: u64, end: u64) {
        for piece in self.regions.pieces(start, end) {
            self.regions.insert(Region {
                volatile: true,
                ..piece
            });
        }
    }

    /// The main thread's stack is executable: code on it changes all the time.
    pub fn add_stack(&mut self, start: u64, end: u64) {
        let prot = sys::PROT_READ | sys::PROT_WRITE | sys::PROT_EXEC;
        self.regions.insert(Region {
            start,
            end,
            prot,
            offset: 0,
            table: 0,
            of_file: false,
            fixed: false,
            volatile: true,
        });
    }

    /// `start..end` became executable; finds out which file it is, if any.
    fn new_code(&mut self, start: u64, end: u64, prot: u32) {
        self.insert_code(start, end, prot);
        for (start, end) in self.shared.parts(start, end) {
            self.set_volatile(start, end);
        }
    }

    fn insert_code(&mut self, start: u64, end: u64, prot: u32) {
        let file = self
            .files
            .iter()
            .find(|file| file.start <= start && end <= file.end)
            .cloned();
        match file {
            Some(file) => {
                let offset = file.offset_at(start);
                self.add_code(start, end, offset, prot, file.id, &file.path);
            }
            None => self.regions.insert(Region {
                start,
                end,
                prot,
                offset: 0,
                table: 0,
                of_file: false,
                fixed: false,
                volatile: false,
            }),
        }
    }

    fn munmap(&mut self, args: [u64; 6]) -> Effect {
        let [addr, len, ..] = args;
        let (_, end) = engine_ranges::pages(addr, len);
        if engine_ranges::meets_engine(addr, len) {
            return self.munmap_around(addr, end);
        }
        let is_known = self.regions.overlaps(addr, end) || self.shared.meets(addr, end);
        if !is_known && self.files.is_empty() {
            return Effect::Forward;
        }
        // SAFETY: the program's own call, not touching the engine.
        let result =
            unsafe { sys::raw::syscall(nr::MUNMAP, [addr as usize, len as usize, 0, 0, 0, 0]) };
        if result < 0 {
            return Effect::Done(result);
        }
        self.unmapped(result, addr, end)
    }

    /// The effect of a call by which `start..end` is mapped no more.
    pub(crate) fn unmapped(&mut self, result: isize, start: u64, end: u64) -> Effect {
        self.files
            .retain(|file| file.end <= start || end <= file.start);
        self.shared.remove(start, end);
        let had_code = self.regions.overlaps(start, end);
        self.drop_code(start, end);
        if had_code {
            Effect::Invalidate(result, start, end)
        } else {
            Effect::Done(result)
        }
    }

    fn mprotect(&mut self, args: [u64; 6], number: u64) -> Effect {
        let [addr, len, prot, pkey, ..] = args;
        let prot = prot as u32;
        let (_, end) = engine_ranges::pages(addr, len);
        let rights = prot & (sys::PROT_READ | sys::PROT_WRITE | sys::PROT_EXEC);
        if engine_ranges::meets_engine(addr, len) {
            return self.mprotect_before_engine(args, number);
        }
        // A stack changes down to where it may grow to.
        let start = match prot & sys::PROT_GROWSDOWN {
            0 => addr,
            _ => procfs::stack_bottom(addr).unwrap_or(addr),
        };
        let had_code = self.regions.overlaps(start, end);
        if rights & sys::PROT_EXEC == 0 && !had_code {
            return Effect::Forward;
        }
        let real = real_prot(prot);
        // SAFETY: the program's own call, not touching the engine.
        let result = unsafe {
            sys::raw::syscall(
                number as usize,
                [
                    addr as usize,
                    len as usize,
                    real as usize,
                    pkey as usize,
                    0,
                    0,
                ],
            )
        };
        if result < 0 {
            return Effect::Done(result);
        }
        if rights & sys::PROT_EXEC == 0 {
            self.drop_code(start, end);
        } else if prot & sys::PROT_GROWSDOWN != 0 {
            self.add_stack(start, end);
        } else {
            self.change_code(addr, end, rights);
        }
        Effect::Invalidate(result, start, end)
    }

    /// `start..end` is executable, with these rights.
    fn change_code(&mut self, start: u64, end: u64, rights: u32) {
        let before = self.regions.pieces(start, end);
        // Ranges that were executable and stay executable only get other rights.
        let mut at = start;
        for piece in before {
            if at < piece.start {
                self.new_code(at, piece.start, rights);
            }
            at = piece.end;
            let fixed = piece.fixed && rights & sys::PROT_WRITE == 0;
            self.regions.insert(Region {
                prot: rights,
                fixed,
                ..piece
            });
        }
        if at < end {
            self.new_code(at, end, rights);
        }
        if rights & sys::PROT_WRITE == 0 {
            self.recognise_pages(start, end);
        }
    }
}

/// Handles a call that needs no state of the process, and may read memory of the program
/// or wait for it. `None`: it is another kind.
pub fn call_unlocked(kind: Kind, args: [u64; 6], number: u64) -> Option<Effect> {
    Some(match kind {
        Kind::Looks => engine_ranges::looks(args, number),
        Kind::Mlockall => mlockall(args[0]),
        Kind::Refuse(errno) => Effect::Done(errno.as_result()),
        _ => return None,
    })
}

/// `mlockall(flags)`: the program's mappings one by one, as the engine's are
/// large and mostly empty; what comes later may be the engine's, too.
fn mlockall(flags: u64) -> Effect {
    const CURRENT: u64 = 1;
    const FUTURE: u64 = 2;
    const ONFAULT: u64 = 4;
    if flags & CURRENT == 0 || flags & !(CURRENT | FUTURE | ONFAULT) != 0 {
        return Effect::Forward;
    }
    let mappings = procfs::program_mappings();
    let size: u64 = mappings.iter().map(|(start, end)| end - start).sum();
    match procfs::lockable() {
        Some(0) => return Effect::Done(Errno::EPERM.as_result()),
        Some(limit) if size > limit => return Effect::Done(Errno::ENOMEM.as_result()),
        _ => {}
    }
    let on_fault = usize::from(flags & ONFAULT != 0);
    for (start, end) in mappings {
        // SAFETY: locks memory of the program, which asked for it. Errors
        // (nothing can be read there) are none of the call's.
        unsafe {
            let range = [start as usize, (end - start) as usize, on_fault, 0, 0, 0];
            sys::raw::syscall(nr::MLOCK2, range)
        };
    }
    if flags & FUTURE == 0 {
        return Effect::Done(0);
    }
    // SAFETY: touches no mapping that exists.
    Effect::Done(unsafe {
        sys::raw::syscall(nr::MLOCKALL, [(flags & !CURRENT) as usize, 0, 0, 0, 0, 0])
    })
}

fn is_elf(fd: i32) -> bool {
    let mut magic = [0u8; 4];
    sys::pread(fd, &mut magic, 0) == Ok(4) && magic == *b"\x7fELF"
}
