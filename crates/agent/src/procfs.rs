//! `/proc/self` as the program should see it.
//!
//! `exe` is the payload's link: paths that name it are replaced by the
//! program's file. `maps`, `smaps`, `status` and others ([`ShownFile`]) would show the engine's
//! memory, handlers and places: an open of one yields a memory file with the text put right
//! ([`shown`]), which is made anew when it is read again ([`open_files`]).

use alloc::vec::Vec;
use core::ffi::CStr;
use core::fmt::Write;

use sys::signal::SigSet;

use crate::memory;

const PAGE: u64 = 4096;
const KB: u64 = 1024;

mod maps;
mod numa;
pub mod open_files;
mod rollup;
pub mod shown;
mod sizes;
mod status;
pub mod syscall;

/// Which file below `/proc/self` (or this process by number, or a task of it).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Own {
    Exe,
    Mem,
    Shown(Shown),
}

/// A file whose text is put right, and whose it is; `None`: the process's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    pub file: ShownFile,
    pub task: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShownFile {
    Maps,
    Smaps,
    Status,
    Stat,
    Statm,
    SmapsRollup,
    NumaMaps,
    Syscall,
}

impl ShownFile {
    const ALL: [ShownFile; 8] = [
        ShownFile::Maps,
        ShownFile::Smaps,
        ShownFile::Status,
        ShownFile::Stat,
        ShownFile::Statm,
        ShownFile::SmapsRollup,
        ShownFile::NumaMaps,
        ShownFile::Syscall,
    ];

    fn name(self) -> &'static str {
        match self {
            ShownFile::Maps => "maps",
            ShownFile::Smaps => "smaps",
            ShownFile::Status => "status",
            ShownFile::Stat => "stat",
            ShownFile::Statm => "statm",
            ShownFile::SmapsRollup => "smaps_rollup",
            ShownFile::NumaMaps => "numa_maps",
            ShownFile::Syscall => "syscall",
        }
    }
}

/// Recognises paths that name one of those files of this process.
pub fn recognise(path: &[u8]) -> Option<Own> {
    let rest = path.strip_prefix(b"/proc/")?;
    let slash = rest.iter().position(|&byte| byte == b'/')?;
    let (who, mut rest) = (&rest[..slash], &rest[slash + 1..]);
    let ours = who == b"self" || who == b"thread-self" || parse_number(who) == Some(sys::getpid());
    if !ours {
        return None;
    }
    let mut number = (who == b"thread-self").then(sys::gettid);
    if let Some(named) = rest.strip_prefix(b"task/") {
        let slash = named.iter().position(|&byte| byte == b'/')?;
        number = Some(parse_number(&named[..slash])?);
        rest = &named[slash + 1..];
    }
    match rest {
        b"exe" => Some(Own::Exe),
        b"mem" => Some(Own::Mem),
        name => {
            let file = shown_file(name)?;
            Some(Own::Shown(Shown { file, task: number }))
        }
    }
}

fn shown_file(name: &[u8]) -> Option<ShownFile> {
    let mut files = ShownFile::ALL.into_iter();
    files.find(|file| file.name().as_bytes() == name)
}

/// Whether a path is the bare name of a file whose text is put right.
pub fn is_shown_name(path: &[u8]) -> bool {
    shown_file(path).is_some()
}

/// Recognises a name in a directory that a descriptor names, or in the current one.
pub fn recognise_in(directory: i32, name: &[u8]) -> Option<Own> {
    const LONGEST: usize = 64;
    let mut path = [0u8; LONGEST + 16];
    let len = match directory {
        sys::AT_FDCWD => sys::readlink(c"/proc/self/cwd", &mut path[..LONGEST]).ok()?,
        _ => fd_path(directory, &mut path[..LONGEST])?,
    };
    // A longer path was cut off, and is no directory of a process.
    if len == LONGEST || !path.starts_with(b"/proc/") {
        return None;
    }
    path[len] = b'/';
    let end = len + 1 + name.len();
    path[len + 1..end].copy_from_slice(name);
    recognise(&path[..end])
}

fn parse_number(text: &[u8]) -> Option<u32> {
    core::str::from_utf8(text).ok()?.parse().ok()
}

/// Writes the path of a descriptor's file to `out`; its length.
pub fn fd_path(fd: i32, out: &mut [u8]) -> Option<usize> {
    let mut name = Text::default();
    write!(name, "/proc/self/fd/{fd}\0").ok()?;
    let name = CStr::from_bytes_with_nul(&name.0).ok()?;
    sys::readlink(name, out).ok()
}

/// A growing byte string for `write!`.
#[derive(Debug, Default)]
pub struct Text(pub Vec<u8>);

impl Write for Text {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

/// Reads a file whole (through a descriptor that is closed again).
fn read_file(path: &CStr) -> Option<Vec<u8>> {
    let fd = sys::open(path, sys::O_RDONLY | sys::O_CLOEXEC).ok()?;
    let mut text = Vec::new();
    let mut buffer = [0u8; 4096];
    while let Ok(got @ 1..) = sys::read(fd, &mut buffer) {
        text.extend_from_slice(&buffer[..got]);
    }
    sys::close(fd);
    Some(text)
}

/// Whether this process is traced (ptrace) by one that the same engine runs.
pub fn traced_by_target() -> bool {
    let Some(status) = read_file(c"/proc/thread-self/status") else {
        return false;
    };
    let tracer = status
        .split(|&byte| byte == b'\n')
        .find_map(|line| line.strip_prefix(b"TracerPid:"));
    let tracer = tracer.and_then(|text| parse_number(text.trim_ascii()));
    let Some(tracer @ 1..) = tracer else {
        return false;
    };
    let mut name = Text::default();
    let _ = write!(name, "/proc/{tracer}/exe\0");
    let ours = identity(OWN_EXE);
    ours.is_some() && identity(&name.0) == ours
}

/// A process as `/proc/PID/status` has it.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    pub pid: u32,
    pub tracer: u32,
    pub threads: u32,
    /// By a signal or a tracer; or it has ended.
    pub is_stopped: bool,
    pub blocked: SigSet,
}

pub fn standing(tid: u32) -> Option<Standing> {
    let mut name = Text::default();
    let _ = write!(name, "/proc/{tid}/status\0");
    let status = read_file(CStr::from_bytes_with_nul(&name.0).ok()?)?;
    let value = |key: &[u8]| {
        let mut lines = status.split(|&byte| byte == b'\n');
        let line = lines.find_map(|line| line.strip_prefix(key));
        line.map(<[u8]>::trim_ascii)
    };
    let number = |key| value(key).and_then(parse_number);
    let state = value(b"State:")?.first().copied()?;
    Some(Standing {
        pid: number(b"Tgid:")?,
        tracer: number(b"TracerPid:")?,
        threads: number(b"Threads:")?,
        is_stopped: b"tTZX".contains(&state),
        blocked: SigSet(
            u64::from_str_radix(core::str::from_utf8(value(b"SigBlk:")?).ok()?, 16).ok()?,
        ),
    })
}

/// The number of the system call that a thread waits in.
pub fn waits_in(tid: u32) -> Option<u32> {
    let mut name = Text::default();
    let _ = write!(name, "/proc/{tid}/syscall\0");
    let text = read_file(CStr::from_bytes_with_nul(&name.0).ok()?)?;
    parse_number(text.split(|&byte| byte == b' ').next()?)
}

/// Whether this process, were it to start the payload, would find it and the
/// pool under their paths, which lead through another process's descriptors.
pub fn reachable(pool: &[u8], payload: &[u8]) -> bool {
    let ours = identity(OWN_EXE);
    if ours.is_none() || identity(payload) != ours {
        return false;
    }
    let pool = CStr::from_bytes_with_nul(pool).unwrap_or(c"");
    if pool.is_empty() {
        return true;
    }
    let opened = sys::open(pool, sys::O_RDWR | sys::O_CLOEXEC);
    opened.map(sys::close).is_ok()
}

/// This process's program for the kernel: under the engine, the payload.
const OWN_EXE: &[u8] = b"/proc/self/exe\0";

/// Device and inode of a file, by its path ended by NUL.
pub fn identity(path: &[u8]) -> Option<(u64, u64)> {
    let path = CStr::from_bytes_with_nul(path).ok()?;
    let fd = sys::open(path, sys::O_PATH | sys::O_CLOEXEC).ok()?;
    let stat = sys::fstat(fd);
    sys::close(fd);
    stat.ok().map(|stat| (stat.dev, stat.ino))
}

/// Whether a path that ends in `exe`, as written or relative, is the link that
/// leads to the payload. Another process's, named by number, may lead there too.
pub fn leads_to_own_exe(directory: i32, at: u64, path: &[u8]) -> bool {
    if path.starts_with(b"/proc/") && path[6..].first().is_some_and(u8::is_ascii_digit) {
        return false;
    }
    let (mut own, mut other) = ([0u8; 512], [0u8; 512]);
    let Ok(len) = sys::readlink(c"/proc/self/exe", &mut own) else {
        return false;
    };
    // SAFETY: the kernel fills `other`; the path is the program's.
    let got = unsafe {
        sys::raw::syscall(
            sys::nr::READLINKAT,
            [
                directory as isize as usize,
                at as usize,
                other.as_mut_ptr() as usize,
                other.len(),
                0,
                0,
            ],
        )
    };
    got == len as isize && own == other
}

/// The mappings of the program: the kernel's list without the engine's.
pub fn program_mappings() -> Vec<(u64, u64)> {
    let mappings = mappings().unwrap_or_default().into_iter();
    mappings
        .map(|mapping| (mapping.start, mapping.end))
        .collect()
}

/// Memory of the program, from one line of maps.
#[derive(Clone, Copy, Debug)]
pub struct Mapping {
    pub start: u64,
    pub end: u64,
    /// Stores in it are seen elsewhere.
    pub shared: bool,
    /// The kernel's code or data: `[vdso]`, `[vvar]`.
    pub of_kernel: bool,
}

/// All mappings, with rights, file and name.
pub fn mappings() -> Option<Vec<Mapping>> {
    let text = read_file(c"/proc/self/maps")?;
    let mut found = Vec::new();
    for line in text.split(|&byte| byte == b'\n') {
        let Some((start, end)) = range_of(line) else {
            continue;
        };
        let rights = line.split(|&byte| byte == b' ').nth(1);
        let shared = rights.is_some_and(|rights| rights.ends_with(b"s"));
        let name = line.split(|&byte| byte == b' ').next_back();
        let of_kernel = name.is_some_and(|name| name.starts_with(b"[v"));
        let mut cuts: Vec<u64> = alloc::vec![start, end];
        memory::for_each_range(|a, b| cuts.extend([a, b]));
        cuts.retain(|&cut| start <= cut && cut <= end);
        cuts.sort_unstable();
        for pair in cuts.windows(2) {
            if pair[0] < pair[1] && !memory::is_ours(pair[0], pair[1]) {
                found.push(Mapping {
                    start: pair[0],
                    end: pair[1],
                    shared,
                    of_kernel,
                });
            }
        }
    }
    Some(found)
}

/// The range that a line of maps begins with.
fn range_of(line: &[u8]) -> Option<(u64, u64)> {
    let range = core::str::from_utf8(line).ok()?.split(' ').next()?;
    let (start, end) = range.split_once('-')?;
    let start = u64::from_str_radix(start, 16).ok()?;
    Some((start, u64::from_str_radix(end, 16).ok()?))
}

/// The soft value of a limit of this process.
fn limit(resource: usize) -> u64 {
    let mut limit = [u64::MAX; 2];
    // SAFETY: the kernel fills two words.
    unsafe {
        sys::raw::syscall(
            sys::nr::PRLIMIT64,
            [0, resource, 0, &raw mut limit as usize, 0, 0],
        )
    };
    limit[0]
}

/// Bytes that the process may lock; `None`: as many as it likes.
pub fn lockable() -> Option<u64> {
    const RLIMIT_MEMLOCK: usize = 8;
    const CAP_IPC_LOCK: u32 = 14;
    let header = [0x2008_0522u32, 0];
    let mut sets = [0u32; 6];
    // SAFETY: the kernel fills three words for each half of the capabilities.
    unsafe {
        sys::raw::syscall(
            sys::nr::CAPGET,
            [
                &raw const header as usize,
                &raw mut sets as usize,
                0,
                0,
                0,
                0,
            ],
        )
    };
    (sets[0] & 1 << CAP_IPC_LOCK == 0).then(|| limit(RLIMIT_MEMLOCK))
}

fn why_unreadable(path: &CStr) -> sys::Errno {
    match sys::open(path, sys::O_RDONLY | sys::O_CLOEXEC) {
        Err(errno) => errno,
        Ok(fd) => {
            sys::close(fd);
            sys::Errno::ENOENT
        }
    }
}

/// The mapping that holds `addr`, as the kernel has it.
pub fn mapping_of(addr: u64) -> Option<(u64, u64)> {
    let text = read_file(c"/proc/self/maps")?;
    text.split(|&byte| byte == b'\n').find_map(|line| {
        let (start, end) = range_of(line)?;
        (start <= addr && addr < end).then_some((start, end))
    })
}

/// How far down the stack mapping that holds `addr` may grow: to the next mapping, or as far
/// as its limit says.
pub fn stack_bottom(addr: u64) -> Option<u64> {
    const RLIMIT_STACK: usize = 3;
    const MOST: u64 = 1 << 30;
    let text = read_file(c"/proc/self/maps")?;
    let mut before = 0;
    for (start, end) in text.split(|&byte| byte == b'\n').filter_map(range_of) {
        if start <= addr && addr < end {
            let most = limit(RLIMIT_STACK).min(MOST) & !4095;
            return Some(before.max(start.saturating_sub(most)));
        }
        before = end;
    }
    None
}
