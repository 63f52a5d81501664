//! From the kernel's first instruction of the payload to a mapped program.
//!
//! The CLI (or an exec under the engine) starts the payload with two extra
//! arguments in front of the program's own:
//!
//! ```text
//!  argv[0]  "everypath"
//!  argv[1]  pool \n payload \n filters \n length of file \n file name
//!  argv[2]  argv[0] of the program
//!  ...
//! ```
//!
//! The file is what is loaded; the name is what the program was called by, which of a script is
//! not its interpreter. The stack is moved to where the program's would be (`stack`). The
//! auxiliary vector is edited in place and told to the kernel together with the argument area.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ffi::CStr;
use core::ops::Range;

use sys::{Errno, MmMap, Result};

use crate::address_space::Place;
use crate::loader::{Areas, File, Loaded};

mod stack;

pub use stack::InitialStack;
use stack::{length, word};

const AT_PHDR: u64 = 3;
const AT_PHENT: u64 = 4;
const AT_PHNUM: u64 = 5;
const AT_BASE: u64 = 7;
const AT_ENTRY: u64 = 9;
const AT_RSEQ_FEATURE_SIZE: u64 = 27;
const AT_RSEQ_ALIGN: u64 = 28;

/// Contents of the extra argument of the payload.
#[derive(Debug)]
pub struct Orders {
    /// Path at which the pool can be opened; empty: there is none.
    pub pool: Vec<u8>,
    /// Path by which the payload can be executed again; empty: children run natively.
    pub payload: Vec<u8>,
    /// Offset in the pool of the program's filters (`filters::Filter::store`); 0: it has none.
    pub filters: u64,
    /// The file to load.
    pub file: &'static CStr,
    /// The path given to execve, as the program may see it in AT_EXECFN.
    pub name: &'static CStr,
}

impl Orders {
    /// Takes them off the stack, which moves to where the program's would be.
    pub fn take(stack: InitialStack) -> Option<(Orders, InitialStack)> {
        let orders = Orders::copied(&stack)?;
        // SAFETY: the orders are copies, and nothing else was read.
        let stack = unsafe { stack.for_program(orders.name) };
        Some((orders, stack))
    }

    fn copied(stack: &InitialStack) -> Option<Orders> {
        let mut fields = stack
            .argument(1)?
            .to_bytes()
            .splitn(5, |&byte| byte == b'\n');
        let (pool, payload) = (fields.next()?, fields.next()?);
        let (filters, length) = (number(fields.next()?)?, number(fields.next()?)?);
        let (file, name) = fields.next()?.split_at_checked(length as usize)?;
        Some(Orders {
            pool: terminated(pool),
            payload: terminated(payload),
            filters,
            file: CStr::from_bytes_with_nul(Box::leak(terminated(file).into_boxed_slice())).ok()?,
            name: CStr::from_bytes_with_nul(Box::leak(terminated(name).into_boxed_slice())).ok()?,
        })
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    core::str::from_utf8(digits).ok()?.parse().ok()
}

fn terminated(field: &[u8]) -> Vec<u8> {
    [field, &[0]].concat()
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

/// Addresses that the program at `path` must have, if it is linked at fixed ones.
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
    let file = File::open(orders.file)?;
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
    let cmdline: Vec<u8> = (0..stack.argc)
        .filter_map(|index| stack.argument(index))
        .flat_map(|argument| argument.to_bytes_with_nul().to_vec())
        .collect();
    edit_auxv(
        stack,
        &image,
        interpreter.as_ref().map(|(loaded, _)| loaded),
    );
    tell_kernel(stack, &image);
    let exe = absolute_path(orders.file);
    set_comm(orders);
    let entry = interpreter
        .as_ref()
        .map_or(image.entry, |(loaded, _)| loaded.entry);
    let executable_stack = image.executable_stack;
    Ok(Program {
        entry,
        sp: stack.sp,
        image,
        interpreter,
        exe,
        cmdline,
        executable_stack,
    })
}

fn edit_auxv(stack: &InitialStack, image: &Loaded, interpreter: Option<&Loaded>) {
    stack.set_auxv(AT_PHDR, image.phdr);
    stack.set_auxv(AT_PHENT, 56);
    stack.set_auxv(AT_PHNUM, image.phnum);
    stack.set_auxv(AT_BASE, interpreter.map_or(0, |loaded| loaded.bias));
    stack.set_auxv(AT_ENTRY, image.entry);
    // Restartable sequences cannot work from the code cache: the kernel would
    // not know the critical sections (docs/limits.md).
    stack.drop_auxv(AT_RSEQ_FEATURE_SIZE);
    stack.drop_auxv(AT_RSEQ_ALIGN);
}

/// Argument area, auxv and heap start, as far as the kernel lets us.
fn tell_kernel(stack: &InitialStack, image: &Loaded) {
    let heap = sys::brk(0);
    let start_brk = if image.fixed { image.end } else { heap };
    let InitialStack { sp, argc, .. } = *stack;
    let arg_start = if argc > 0 {
        word(sp + 8)
    } else {
        word(stack.envp)
    };
    let last_arg = (argc > 0).then(|| word(sp + argc * 8));
    let arg_end = last_arg.map_or(arg_start, |last| last + length(last));
    let env_start = match word(stack.envp) {
        0 => arg_end,
        first => first,
    };
    let mut env_end = env_start;
    for at in (stack.envp..stack.auxv - 8).step_by(8) {
        env_end = env_end.max(word(at) + length(word(at)));
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

/// Thread name: the base of the name, cut to 15 bytes, as execve sets it; that of the file where
/// the call named a descriptor alone.
fn set_comm(orders: &Orders) {
    let (file, name) = (orders.file.to_bytes(), orders.name.to_bytes());
    let number = name.strip_prefix(b"/dev/fd/");
    let by_descriptor = number.is_some_and(|number| number.iter().all(u8::is_ascii_digit));
    let named = if by_descriptor { file } else { name };
    let base = named.rsplit(|&byte| byte == b'/').next().unwrap_or(named);
    let mut comm = [0u8; 16];
    let len = base.len().min(15);
    comm[..len].copy_from_slice(&base[..len]);
    sys::set_name(&comm);
}
