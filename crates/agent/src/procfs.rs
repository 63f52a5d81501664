//! `/proc/self` as the program should see it.
//!
//! `exe` is the payload's link: paths that name it are replaced by the
//! program's file. `maps` would show the engine and miss the execute bits: an
//! open of it yields a memory file with the lines put right.

use alloc::vec::Vec;
use core::ffi::CStr;
use core::fmt::Write;

use crate::memory;
use crate::regions::Regions;

/// Which file below `/proc/self` (or this process by number, or a task of it).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Own {
    Exe,
    Maps,
    Mem,
}

/// Recognises paths that name this process's `exe` or `maps`.
pub fn recognise(path: &[u8]) -> Option<Own> {
    let rest = path.strip_prefix(b"/proc/")?;
    let slash = rest.iter().position(|&byte| byte == b'/')?;
    let (who, mut rest) = (&rest[..slash], &rest[slash + 1..]);
    let ours = who == b"self" || who == b"thread-self" || parse_number(who) == Some(sys::getpid());
    if !ours {
        return None;
    }
    if let Some(task) = rest.strip_prefix(b"task/") {
        let slash = task.iter().position(|&byte| byte == b'/')?;
        rest = &task[slash + 1..];
    }
    match rest {
        b"exe" => Some(Own::Exe),
        b"maps" => Some(Own::Maps),
        b"mem" => Some(Own::Mem),
        _ => None,
    }
}

fn parse_number(text: &[u8]) -> Option<u32> {
    core::str::from_utf8(text).ok()?.parse().ok()
}

/// Where a descriptor leads; the length written to `out`.
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

/// What the kernel takes for this process's program: under the engine, the payload.
const OWN_EXE: &[u8] = b"/proc/self/exe\0";

/// Device and inode of a file, by its path ended by NUL.
fn identity(path: &[u8]) -> Option<(u64, u64)> {
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

/// The same with what is known of each.
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

/// A memory file with this process's maps as they would be without the engine.
pub fn maps_file(regions: &Regions, cloexec: bool) -> sys::Result<i32> {
    let text = read_file(c"/proc/thread-self/maps")
        .or_else(|| read_file(c"/proc/self/maps"))
        .ok_or_else(|| why_unreadable(c"/proc/self/maps"))?;
    let mut out = Text::default();
    for line in text.split(|&byte| byte == b'\n') {
        if let Ok(line) = core::str::from_utf8(line) {
            rewrite_line(line, regions, &mut out);
        }
    }
    const RLIMIT_FSIZE: usize = 1;
    if limit(RLIMIT_FSIZE) < out.0.len() as u64 {
        return maps_pipe(&out.0, cloexec);
    }
    let fd = sys::memfd_create(c"maps", u32::from(cloexec))?;
    write_all(fd, &out.0);
    // SAFETY: moves the offset of our new descriptor back to the start.
    unsafe { sys::raw::syscall(sys::nr::LSEEK, [fd as usize, 0, 0, 0, 0, 0]) };
    Ok(fd)
}

fn write_all(fd: i32, bytes: &[u8]) {
    let mut done = 0;
    while done < bytes.len() {
        match sys::write(fd, &bytes[done..]) {
            Ok(got @ 1..) => done += got,
            _ => break,
        }
    }
}

/// The same where no file of that size may be written: a pipe that holds it.
fn maps_pipe(text: &[u8], cloexec: bool) -> sys::Result<i32> {
    const F_SETFL: usize = 4;
    const F_SETPIPE_SZ: usize = 1031;
    const O_NONBLOCK: u32 = 0o4000;
    let mut ends = [0i32; 2];
    let flags = O_NONBLOCK | if cloexec { sys::O_CLOEXEC } else { 0 };
    // SAFETY: the kernel fills two descriptors; the others change these only.
    unsafe {
        let pipe = [&raw mut ends as usize, flags as usize, 0, 0, 0, 0];
        sys::check(sys::raw::syscall(sys::nr::PIPE2, pipe))?;
        let size = [ends[1] as usize, F_SETPIPE_SZ, text.len(), 0, 0, 0];
        sys::raw::syscall(sys::nr::FCNTL, size);
        // Reading ends at the end, not with EAGAIN.
        sys::raw::syscall(sys::nr::FCNTL, [ends[0] as usize, F_SETFL, 0, 0, 0, 0]);
    }
    write_all(ends[1], text);
    sys::close(ends[1]);
    Ok(ends[0])
}

/// One line of maps: hidden, cut around the engine, or with rights restored.
fn rewrite_line(line: &str, regions: &Regions, out: &mut Text) {
    let mut fields = line.splitn(5, ' ');
    let (Some(range), Some(rights), Some(offset), Some(dev), Some(rest)) = (
        fields.next(),
        fields.next(),
        fields.next(),
        fields.next(),
        fields.next(),
    ) else {
        return;
    };
    let Some((start, end)) = range.split_once('-') else {
        return;
    };
    let (Ok(start), Ok(end)) = (u64::from_str_radix(start, 16), u64::from_str_radix(end, 16))
    else {
        return;
    };
    let offset = u64::from_str_radix(offset, 16).unwrap_or(0);
    let file = rest
        .split_ascii_whitespace()
        .next()
        .is_some_and(|inode| inode != "0");
    let mut cuts: Vec<u64> = alloc::vec![start, end];
    memory::for_each_range(|a, b| cuts.extend([a, b]));
    for region in regions.iter() {
        cuts.extend([region.start, region.end]);
    }
    cuts.retain(|&cut| start <= cut && cut <= end);
    cuts.sort_unstable();
    cuts.dedup();
    let mut pending: Option<(u64, u64, [u8; 4])> = None;
    let mut flush = |piece: Option<(u64, u64, [u8; 4])>| {
        if let Some((a, b, rights)) = piece {
            let at = if file { offset + (a - start) } else { offset };
            let rights = core::str::from_utf8(&rights).unwrap_or("----");
            let _ = writeln!(out, "{a:08x}-{b:08x} {rights} {at:08x} {dev} {rest}");
        }
    };
    for pair in cuts.windows(2) {
        if memory::is_ours(pair[0], pair[1]) {
            flush(pending.take());
            continue;
        }
        let shown = shown_rights(rights, pair[0], regions);
        pending = match pending {
            Some((a, b, same)) if b == pair[0] && same == shown => Some((a, pair[1], shown)),
            other => {
                flush(other);
                Some((pair[0], pair[1], shown))
            }
        };
    }
    flush(pending);
}

fn shown_rights(real: &str, addr: u64, regions: &Regions) -> [u8; 4] {
    let mut shown = [b'-'; 4];
    for (slot, byte) in shown.iter_mut().zip(real.bytes()) {
        *slot = byte;
    }
    if let Some(region) = regions.find(addr) {
        for (slot, (bit, letter)) in shown.iter_mut().zip([
            (sys::PROT_READ, b'r'),
            (sys::PROT_WRITE, b'w'),
            (sys::PROT_EXEC, b'x'),
        ]) {
            *slot = if region.prot & bit != 0 { letter } else { b'-' };
        }
    }
    shown
}
