//! From the kernel's first instruction of the payload to a mapped program.
//!
//! The CLI (or an exec under the engine) starts the payload with two extra
//! arguments in front of the program's own:
//!
//! ```text
//!  rsp -> argc            (n + 2)          after: rsp + 16 -> argc (n)
//!         argv[0]  "everypath"             argv[0] of the program
//!         argv[1]  pool \n payload \n filters \n execfn
//!         argv[2]  argv[0] of the program  ...
//!         ...  NULL  envp ...  NULL  auxv
//! ```
//!
//! Two words fewer keep the stack 16-byte aligned, and no string moves, so
//! programs that overwrite their argument area still can. The auxiliary vector
//! is edited in place and told to the kernel together with the argument area.

use alloc::vec::Vec;
use core::ffi::CStr;
use core::ops::Range;

use sys::{Errno, MmMap, Result};

use crate::loader::{Areas, File, Loaded};
use crate::place::Place;

const AT_NULL: u64 = 0;
const AT_IGNORE: u64 = 1;
const AT_PHDR: u64 = 3;
const AT_PHENT: u64 = 4;
const AT_PHNUM: u64 = 5;
const AT_BASE: u64 = 7;
const AT_ENTRY: u64 = 9;
const AT_HWCAP2: u64 = 26;
const AT_RSEQ_FEATURE_SIZE: u64 = 27;
const AT_RSEQ_ALIGN: u64 = 28;
const AT_EXECFN: u64 = 31;
const AT_SYSINFO_EHDR: u64 = 33;

/// Bit 1 of AT_HWCAP2: user code may use `wrgsbase`.
const HWCAP2_FSGSBASE: u64 = 2;

/// The stack as the kernel built it.
#[derive(Clone, Copy, Debug)]
pub struct InitialStack {
    sp: u64,
    argc: u64,
    envp: u64,
    auxv: u64,
    auxv_end: u64,
}

/// Reads a word of the initial stack.
fn word(addr: u64) -> u64 {
    // SAFETY: only called on the vectors the kernel built above rsp, which
    // stay mapped; aligned by the ABI.
    unsafe { *(addr as *const u64) }
}

fn set_word(addr: u64, value: u64) {
    // SAFETY: as in `word`; the program has not started, nobody else looks.
    unsafe { *(addr as *mut u64) = value };
}

/// The string an initial-stack pointer points to.
fn string(addr: u64) -> &'static CStr {
    // SAFETY: argument strings lie above the vectors, NUL-terminated, and the
    // engine keeps no reference after the program may overwrite them.
    unsafe { CStr::from_ptr(addr as *const core::ffi::c_char) }
}

impl InitialStack {
    /// # Safety
    /// `sp` must be rsp at the first instruction of the process.
    pub unsafe fn at(sp: u64) -> InitialStack {
        let argc = word(sp);
        let envp = sp + 8 + (argc + 1) * 8;
        let mut cursor = envp;
        while word(cursor) != 0 {
            cursor += 8;
        }
        let auxv = cursor + 8;
        let mut end = auxv;
        while word(end) != AT_NULL {
            end += 16;
        }
        InitialStack {
            sp,
            argc,
            envp,
            auxv,
            auxv_end: end + 16,
        }
    }

    fn argument(&self, index: u64) -> Option<&'static CStr> {
        (index < self.argc).then(|| string(word(self.sp + 8 + index * 8)))
    }

    fn auxv(&self, kind: u64) -> Option<u64> {
        (self.auxv..self.auxv_end)
            .step_by(16)
            .find(|&at| word(at) == kind)
            .map(|at| word(at + 8))
    }

    fn set_auxv(&self, kind: u64, value: u64) {
        if let Some(at) = (self.auxv..self.auxv_end)
            .step_by(16)
            .find(|&at| word(at) == kind)
        {
            set_word(at + 8, value);
        }
    }

    fn drop_auxv(&self, kind: u64) {
        if let Some(at) = (self.auxv..self.auxv_end)
            .step_by(16)
            .find(|&at| word(at) == kind)
        {
            set_word(at, AT_IGNORE);
        }
    }

    pub fn has_fsgsbase(&self) -> bool {
        self.auxv(AT_HWCAP2)
            .is_some_and(|bits| bits & HWCAP2_FSGSBASE != 0)
    }

    pub fn vdso(&self) -> Option<u64> {
        self.auxv(AT_SYSINFO_EHDR).filter(|&addr| addr != 0)
    }
}

/// What the extra argument says.
#[derive(Debug)]
pub struct Orders {
    /// Where the pool can be opened; empty: nowhere.
    pub pool: Vec<u8>,
    /// Where the payload can be executed again; empty: children run natively.
    pub payload: Vec<u8>,
    /// Offset in the pool of the program's filters (`filters::Filter::store`); 0: it has none.
    pub filters: u64,
    /// The path given to execve, as the program may see it in AT_EXECFN.
    pub execfn: &'static CStr,
}

impl Orders {
    pub fn read(stack: &InitialStack) -> Option<Orders> {
        let text = stack.argument(1)?.to_bytes_with_nul();
        let mut fields = text.splitn(4, |&byte| byte == b'\n');
        let (pool, payload) = (fields.next()?, fields.next()?);
        let (filters, execfn) = (fields.next()?, fields.next()?);
        let terminated = |field: &[u8]| {
            let mut owned = field.to_vec();
            owned.push(0);
            owned
        };
        Some(Orders {
            pool: terminated(pool),
            payload: terminated(payload),
            filters: core::str::from_utf8(filters).ok()?.parse().ok()?,
            execfn: CStr::from_bytes_with_nul(execfn).ok()?,
        })
    }
}

/// A program ready to be translated from `entry` with `sp`.
#[derive(Debug)]
pub struct Program {
    pub entry: u64,
    pub sp: u64,
    pub image: Loaded,
    /// With its absolute path, as the kernel shows it.
    pub interpreter: Option<(Loaded, Vec<u8>)>,
    /// Absolute path for `/proc/self/exe`.
    pub exe: Vec<u8>,
    /// Arguments, each ended by a NUL.
    pub cmdline: Vec<u8>,
    pub executable_stack: bool,
}

/// Where the program at `path` must lie, if it is linked at fixed addresses.
pub fn fixed_span(path: &CStr) -> Result<Option<Range<u64>>> {
    let file = File::open(path)?;
    if file.header.fixed {
        file.span().map(Some)
    } else {
        Ok(None)
    }
}

/// Maps the program and makes the process look as if it had been exec'd.
pub fn load(stack: &InitialStack, orders: &Orders, place: &mut Place) -> Result<Program> {
    let file = File::open(orders.execfn)?;
    let image = file.load_program(place)?;
    let interpreter = match &image.interpreter {
        Some(path) => {
            let name = CStr::from_bytes_with_nul(path).map_err(|_| Errno::ENOEXEC)?;
            let loaded = File::open(name)
                .map_err(|e| {
                    if e == Errno::ENOEXEC {
                        Errno::ELIBBAD
                    } else {
                        e
                    }
                })?
                .load(place)?;
            Some((loaded, absolute_path(name)))
        }
        None => None,
    };
    let sp = stack.sp + 16;
    let argc = stack.argc - 2;
    let cmdline: Vec<u8> = (0..argc)
        .flat_map(|i| string(word(sp + 8 + i * 8)).to_bytes_with_nul().to_vec())
        .collect();
    set_word(sp, argc);
    edit_auxv(
        stack,
        orders,
        &image,
        interpreter.as_ref().map(|(loaded, _)| loaded),
    );
    tell_kernel(stack, sp, argc, &image);
    let exe = absolute_path(orders.execfn);
    set_comm(orders.execfn);
    let entry = interpreter
        .as_ref()
        .map_or(image.entry, |(loaded, _)| loaded.entry);
    let executable_stack = image.executable_stack;
    Ok(Program {
        entry,
        sp,
        image,
        interpreter,
        exe,
        cmdline,
        executable_stack,
    })
}

fn edit_auxv(stack: &InitialStack, orders: &Orders, image: &Loaded, interpreter: Option<&Loaded>) {
    stack.set_auxv(AT_PHDR, image.phdr);
    stack.set_auxv(AT_PHENT, 56);
    stack.set_auxv(AT_PHNUM, image.phnum);
    stack.set_auxv(AT_BASE, interpreter.map_or(0, |loaded| loaded.bias));
    stack.set_auxv(AT_ENTRY, image.entry);
    stack.set_auxv(AT_EXECFN, orders.execfn.as_ptr() as u64);
    // Restartable sequences cannot work from the code cache: the kernel would
    // not know the critical sections (docs/limits.md).
    stack.drop_auxv(AT_RSEQ_FEATURE_SIZE);
    stack.drop_auxv(AT_RSEQ_ALIGN);
}

/// Argument area, auxv and heap start, as far as the kernel lets us.
fn tell_kernel(stack: &InitialStack, sp: u64, argc: u64, image: &Loaded) {
    let heap = sys::brk(0);
    let start_brk = if image.fixed { image.end } else { heap };
    let arg_start = if argc > 0 {
        word(sp + 8)
    } else {
        word(stack.envp)
    };
    let last_arg = if argc > 0 {
        Some(word(sp + argc * 8))
    } else {
        None
    };
    let arg_end = last_arg.map_or(arg_start, |last| {
        last + string(last).to_bytes_with_nul().len() as u64
    });
    let env_start = match word(stack.envp) {
        0 => arg_end,
        first => first,
    };
    let mut env_end = env_start;
    for at in (stack.envp..stack.auxv - 8).step_by(8) {
        let text = word(at);
        env_end = env_end.max(text + string(text).to_bytes_with_nul().len() as u64);
    }
    let Areas {
        start_code,
        end_code,
        start_data,
        end_data,
    } = image.areas;
    let map = MmMap {
        start_code,
        end_code,
        start_data,
        end_data,
        start_brk,
        brk: start_brk,
        start_stack: sp,
        arg_start,
        arg_end,
        env_start,
        env_end,
        auxv: stack.auxv,
        auxv_size: (stack.auxv_end - stack.auxv) as u32,
        exe_fd: u32::MAX,
    };
    if sys::set_mm_map(&map).is_err() {
        tell_older_kernel(map, image);
    }
}

/// An older kernel wants the heap behind code and data. One without CONFIG_CHECKPOINT_RESTORE
/// refuses: then the heap stays where the kernel put the payload's, and /proc shows our
/// arguments.
fn tell_older_kernel(map: MmMap, image: &Loaded) {
    let low = image.start.min(map.start_brk - 4096);
    let high = image.end.min(map.start_brk - 1).max(low);
    let _ = sys::set_mm_map(&MmMap {
        start_code: low,
        end_code: high,
        start_data: low,
        end_data: high,
        ..map
    });
}

/// The path `/proc/self/exe` would show.
fn absolute_path(path: &CStr) -> Vec<u8> {
    let mut buffer = [0u8; 4096];
    if let Ok(fd) = sys::open(path, sys::O_PATH | sys::O_CLOEXEC) {
        let got = crate::procfs::fd_path(fd, &mut buffer);
        sys::close(fd);
        if let Some(len) = got {
            return buffer[..len].to_vec();
        }
    }
    path.to_bytes().to_vec()
}

/// Thread name: the file's base name, cut to 15 bytes, as execve sets it.
fn set_comm(path: &CStr) {
    let bytes = path.to_bytes();
    let base = bytes.rsplit(|&byte| byte == b'/').next().unwrap_or(bytes);
    let mut name = [0u8; 16];
    let len = base.len().min(15);
    name[..len].copy_from_slice(&base[..len]);
    sys::set_name(&name);
}
