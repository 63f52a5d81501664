//! exec: what the kernel would run, and how to run it under the engine.
//!
//! The kernel's own errors come first: the file is opened and checked as the
//! kernel would, so that a program that cannot be run fails as natively and
//! before the point of no return. Files that the engine cannot or must not
//! load (32-bit, set-id, unreadable, unknown formats) are left to the kernel.
//! So is what is started by a process that can no longer reach the pool, because it
//! gave up its rights or went to where `/proc` is another one.

use alloc::vec::Vec;
use core::ffi::CStr;
use core::sync::atomic::AtomicU64;

use sys::{Errno, nr};
use wire::natives::{self, Natives, why};

use crate::procfs::Own;
use crate::{memory, procfs};

/// Most interpreters in a row (`fs/exec.c`: five, counting the script).
const MAX_SCRIPTS: usize = 5;
/// Bytes of a script's first line that the kernel looks at (BINPRM_BUF_SIZE).
const HEAD: usize = 256;
/// Longest path.
const PATH: usize = 4096;

#[derive(Debug)]
enum Target {
    /// The engine loads this file.
    Load,
    /// A script: look at its interpreter.
    Script(Vec<u8>),
    /// The kernel shall decide, for a reason (`wire::natives::why`).
    Native(u32),
}

/// A call of execve or execveat.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub dir: i32,
    pub path: u64,
    pub argv: u64,
    pub envp: u64,
    pub flags: u32,
}

impl Call {
    pub fn execve(args: [u64; 6]) -> Call {
        Call {
            dir: sys::AT_FDCWD,
            path: args[0],
            argv: args[1],
            envp: args[2],
            flags: 0,
        }
    }

    pub fn execveat(args: [u64; 6]) -> Call {
        Call {
            dir: args[0] as i32,
            path: args[1],
            argv: args[2],
            envp: args[3],
            flags: args[4] as u32,
        }
    }

    /// The path that the kernel notes (`alloc_bprm`): a descriptor has one below `/dev/fd`.
    fn name(&self, named: &[u8]) -> Vec<u8> {
        if self.dir == sys::AT_FDCWD || named.first() == Some(&b'/') {
            return named.to_vec();
        }
        let mut name = procfs::Text::default();
        let _ = core::fmt::Write::write_fmt(&mut name, format_args!("/dev/fd/{}", self.dir));
        if !named.is_empty() {
            name.0.push(b'/');
        }
        [&name.0, named].concat()
    }

    /// Takes down that the program will run natively, unless the kernel refuses it.
    fn note<'n>(&self, named: &[u8], natives: &'n Natives, why: u32) -> &'n AtomicU64 {
        if !named.is_empty() {
            return natives.note(named, why);
        }
        let mut path = [0u8; PATH];
        let len = procfs::fd_path(self.dir, &mut path[..PATH - 1]);
        natives.note(&path[..len.unwrap_or(0)], why)
    }

    /// Leaves the call to the kernel, to which `/proc/self/exe` is the payload.
    fn native(&self, exe: &[u8], ready: Ready<'_>) -> isize {
        let mut named = [0u8; 64];
        let path = match memory::read_string(self.path, &mut named) {
            Some(len) if procfs::recognise(&named[..len]) == Some(Own::Exe) => exe.as_ptr() as u64,
            _ => self.path,
        };
        if !ready() {
            return Errno::EINTR.as_result();
        }
        // SAFETY: the program's own call, with a path that outlives it.
        unsafe {
            sys::raw::syscall(
                nr::EXECVEAT,
                [
                    self.dir as isize as usize,
                    path as usize,
                    self.argv as usize,
                    self.envp as usize,
                    self.flags as usize,
                    0,
                ],
            )
        }
    }
}

/// The orders that the engine here hands to a program that is exec'd, as `start::Orders`.
#[derive(Clone, Copy, Debug)]
pub struct Heritage<'a> {
    pub pool: &'a [u8],
    pub payload: &'a [u8],
    pub filters: u64,
    /// Takes down programs that are executed natively; `None`: nobody asked for children.
    pub natives: Option<&'a Natives>,
}

/// Asked directly before the kernel's exec; `false`: do not go on.
type Ready<'a> = &'a mut dyn FnMut() -> bool;

/// Runs the call; returns only if it failed, or if `ready` says so. `exe`,
/// `pool` and `payload` are paths ended by NUL.
pub fn exec(exe: &[u8], call: Call, heritage: Heritage<'_>, ready: Ready<'_>) -> isize {
    let Heritage { pool, payload, .. } = heritage;
    let follow = payload.len() > 1 && procfs::reachable(pool, payload);
    let mut path = [0u8; PATH];
    let Some(len) = memory::read_string(call.path, &mut path) else {
        return call.native(exe, ready);
    };
    let named = path[..len].to_vec();
    let native = |why, ready: Ready<'_>| {
        let noted = heritage
            .natives
            .map(|natives| call.note(&named, natives, why));
        let refused = call.native(exe, ready);
        noted.into_iter().for_each(natives::take_back);
        refused
    };
    if !follow {
        return native(why::UNREACHABLE, ready);
    }
    let first = match resolve(exe, &call, &named) {
        Ok(Some(path)) => path,
        Ok(None) => return native(why::NAMELESS, ready),
        Err(errno) => return errno.as_result(),
    };
    let name = call.name(&named);
    let mut prefix: Vec<Vec<u8>> = Vec::new();
    let mut file = first;
    for depth in 0.. {
        if depth > MAX_SCRIPTS {
            return Errno::ELOOP.as_result();
        }
        let called = if depth == 0 { &name } else { &file };
        match examine(&file, called, &mut prefix) {
            Ok(Target::Load) => break,
            // The interpreter could not open what is closed before it runs.
            Ok(Target::Script(_)) if depth == 0 && by_closed_descriptor(&call, &named) => {
                return Errno::ENOENT.as_result();
            }
            Ok(Target::Script(interpreter)) => file = interpreter,
            // A program that only the kernel can run: let it run the original call.
            Ok(Target::Native(why)) => return native(why, ready),
            Err(errno) => return errno.as_result(),
        }
    }
    if let Some((descriptor, rest)) = closes(&file) {
        match real_path(descriptor) {
            Some(real) => file = [&real, rest].concat(),
            None => return native(why::NAMELESS, ready),
        }
    }
    if has_room(&file) {
        start(&call, (&file, &name), prefix, heritage, ready)
    } else {
        native(why::OTHER, ready)
    }
}

/// Whether the call names its file by a descriptor that exec closes.
fn by_closed_descriptor(call: &Call, named: &[u8]) -> bool {
    named.first() != Some(&b'/') && sys::is_cloexec(call.dir)
}

/// A path below `/proc/self/fd/N` whose descriptor exec closes: N, and the rest.
fn closes(path: &[u8]) -> Option<(i32, &[u8])> {
    let rest = path.strip_prefix(b"/proc/self/fd/")?;
    let digits = rest
        .iter()
        .position(|byte| !byte.is_ascii_digit())
        .unwrap_or(rest.len());
    let descriptor = core::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
    sys::is_cloexec(descriptor).then_some((descriptor, &rest[digits..]))
}

/// The name of an open file, if it has one that leads to it. That of a file in a detached
/// mount (`open_tree`) begins at the mount, and so names another file or none.
fn real_path(descriptor: i32) -> Option<Vec<u8>> {
    let mut path = [0u8; PATH];
    let len = procfs::fd_path(descriptor, &mut path[..PATH - 1])?;
    let named = path[0] == b'/';
    let same = procfs::identity(&path[..=len])
        == sys::fstat(descriptor).ok().map(|stat| (stat.dev, stat.ino));
    (named && same).then(|| path[..len].to_vec())
}

/// Whether the two descriptors that loading needs are free.
fn has_room(file: &[u8]) -> bool {
    let name = terminated(file);
    let Ok(name) = CStr::from_bytes_with_nul(&name) else {
        return false;
    };
    let open = || sys::open(name, sys::O_RDONLY | sys::O_CLOEXEC);
    let (first, second) = (open(), open());
    for fd in [first, second].into_iter().flatten() {
        sys::close(fd);
    }
    first.is_ok() && second.is_ok()
}

/// The path to open for the call; `None`: leave it to the kernel.
fn resolve(exe: &[u8], call: &Call, named: &[u8]) -> Result<Option<Vec<u8>>, Errno> {
    if procfs::recognise(named) == Some(Own::Exe) {
        return Ok(Some(exe[..exe.len() - 1].to_vec()));
    }
    if named.is_empty() && call.flags & sys::AT_EMPTY_PATH == 0 {
        return Err(Errno::ENOENT);
    }
    if call.flags & !(sys::AT_EMPTY_PATH | sys::AT_SYMLINK_NOFOLLOW) != 0
        || call.flags & sys::AT_SYMLINK_NOFOLLOW != 0
    {
        return Ok(None);
    }
    if named.is_empty() || (call.dir != sys::AT_FDCWD && named[0] != b'/') {
        sys::fstat(call.dir)?;
        // The kernel names such files by descriptor; a close-on-exec one would
        // be gone for a script's interpreter, which is the kernel's ENOENT.
        let mut text = crate::procfs::Text::default();
        let _ = core::fmt::Write::write_fmt(&mut text, format_args!("/proc/self/fd/{}", call.dir));
        let mut out = text.0;
        if named.is_empty() {
            // One that has no name is there by its descriptor, unless exec closes that.
            let by_descriptor = || (!sys::is_cloexec(call.dir)).then_some(out);
            return Ok(real_path(call.dir).or_else(by_descriptor));
        }
        out.push(b'/');
        out.extend_from_slice(named);
        return Ok(Some(out));
    }
    Ok(Some(named.to_vec()))
}

fn terminated(path: &[u8]) -> Vec<u8> {
    let mut owned = path.to_vec();
    owned.push(0);
    owned
}

/// Looks at a file as `bprm` does: rights, then format. A script's interpreter
/// and arguments, of which `called` is one, go to the front of `prefix`.
fn examine(path: &[u8], called: &[u8], prefix: &mut Vec<Vec<u8>>) -> Result<Target, Errno> {
    let name = terminated(path);
    let name = CStr::from_bytes_with_nul(&name).map_err(|_| Errno::ENOENT)?;
    sys::faccessat(sys::AT_FDCWD, name.as_ptr() as u64, 1, sys::AT_EACCESS)?;
    let Ok(fd) = sys::open(name, sys::O_RDONLY | sys::O_CLOEXEC) else {
        return Ok(Target::Native(why::UNREADABLE));
    };
    let stat = sys::fstat(fd);
    let mut head = [0u8; HEAD];
    let got = sys::pread(fd, &mut head, 0);
    // Root has all capabilities anyway.
    let gains = sys::has_attribute(fd, c"security.capability") && sys::geteuid() != 0;
    sys::close(fd);
    let (stat, got) = (stat?, got.unwrap_or(0));
    if stat.mode & sys::S_IFMT != sys::S_IFREG {
        return Err(Errno::EACCES);
    }
    let set_id = stat.mode & sys::S_ISUID != 0
        || stat.mode & (sys::S_ISGID | sys::S_IXGRP) == sys::S_ISGID | sys::S_IXGRP;
    if set_id {
        return Ok(Target::Native(why::SET_ID));
    }
    if gains {
        return Ok(Target::Native(why::CAPABILITIES));
    }
    if got >= 64 && head[..4] == *b"\x7fELF" {
        let native = head[4] == 2 && head[18] == 62 && head[19] == 0;
        return Ok(match native {
            true => Target::Load,
            false => Target::Native(why::FOREIGN),
        });
    }
    if got > 2 && head[..2] == *b"#!" {
        return script(&head[2..got], called, prefix);
    }
    Ok(Target::Native(why::OTHER))
}

/// `#!interpreter [one argument]` (fs/binfmt_script.c).
fn script(line: &[u8], path: &[u8], prefix: &mut Vec<Vec<u8>>) -> Result<Target, Errno> {
    let end = line
        .iter()
        .position(|&byte| byte == b'\n')
        .unwrap_or(line.len());
    let blank = |byte: &u8| *byte == b' ' || *byte == b'\t';
    let text = line[..end].trim_ascii();
    let split = text
        .iter()
        .position(|byte| blank(byte) || *byte == 0)
        .unwrap_or(text.len());
    let interpreter = &text[..split];
    // A name that the kernel's buffer cuts off is no name.
    let cut = line.len() + 2 == HEAD
        && split == text.len()
        && end == line.len()
        && line.ends_with(interpreter);
    if interpreter.is_empty() || cut {
        return Ok(Target::Native(why::OTHER));
    }
    let argument = text[split..].trim_ascii();
    // argv becomes: interpreter, argument, script, then the old ones after argv[0].
    if prefix.is_empty() {
        prefix.push(path.to_vec());
    } else {
        prefix[0] = path.to_vec();
    }
    if !argument.is_empty() {
        prefix.insert(0, argument.to_vec());
    }
    prefix.insert(0, interpreter.to_vec());
    Ok(Target::Script(interpreter.to_vec()))
}

/// The real execve, of the payload. Memory for its vectors stays allocated if
/// it fails only until this returns.
fn start(
    call: &Call,
    (file, name): (&[u8], &[u8]),
    prefix: Vec<Vec<u8>>,
    heritage: Heritage<'_>,
    ready: Ready<'_>,
) -> isize {
    let Heritage { pool, payload, .. } = heritage;
    let mut orders = pool[..pool.len() - 1].to_vec();
    orders.push(b'\n');
    orders.extend_from_slice(&payload[..payload.len() - 1]);
    let mut numbers = procfs::Text::default();
    let line = format_args!("\n{}\n{}\n", heritage.filters, file.len());
    let _ = core::fmt::Write::write_fmt(&mut numbers, line);
    orders.extend_from_slice(&numbers.0);
    orders.extend_from_slice(file);
    orders.extend_from_slice(name);
    orders.push(0);
    let prefix: Vec<Vec<u8>> = prefix.iter().map(|argument| terminated(argument)).collect();
    let mut argv: Vec<u64> = alloc::vec![c"everypath".as_ptr() as u64, orders.as_ptr() as u64];
    argv.extend(prefix.iter().map(|argument| argument.as_ptr() as u64));
    let mut at = call.argv;
    let mut index = 0;
    while at != 0 {
        let Some(pointer) = memory::read::<u64>(at) else {
            return Errno::EFAULT.as_result();
        };
        if pointer == 0 {
            break;
        }
        // A script's own argv[0] is replaced by the interpreter's line.
        if index > 0 || prefix.is_empty() {
            argv.push(pointer);
        }
        index += 1;
        at += 8;
    }
    if index == 0 && prefix.is_empty() {
        // An empty argv becomes one empty string (Linux 5.18).
        argv.push(c"".as_ptr() as u64);
    }
    argv.push(0);
    if !ready() {
        return Errno::EINTR.as_result();
    }
    // SAFETY: both vectors are live and NULL-terminated; envp is the program's.
    unsafe {
        sys::raw::syscall(
            nr::EXECVE,
            [
                payload.as_ptr() as usize,
                argv.as_ptr() as usize,
                call.envp as usize,
                0,
                0,
                0,
            ],
        )
    }
}
