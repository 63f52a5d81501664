//! The calling context of the caller, as text for a log: `everypath decode` makes the path of it.
//!
//! ```
//! eprintln!("cannot open {} {}", "name", everypath_context::context());
//! ```
//!
//! In a program that `everypath encode` has edited it is a word such as `evp:1180.1c5.2.1189.0.0`, and in any other nothing. After the
//! first time in a thread a few loads are done. `include/everypath.h` is the same for C and C++.
//!
//! Source: `crates/wire/src/contexts.rs` has the layout of what is read.

use std::arch::{asm, naked_asm};
use std::cell::Cell;
use std::fmt::{self, Write as _};
use std::mem::MaybeUninit;

/// Most bytes of a context; of a longer one the innermost calls are there.
const MOST: usize = 1024;
/// `ARCH_GET_GS` of `arch_prctl`, and its number.
const GET_GS: u64 = 0x1004;
const ARCH_PRCTL: u64 = 158;
const MAGIC: u64 = u64::from_le_bytes(*b"EVPCCTX\0");

/// A record, as it is in memory.
#[derive(Clone, Copy)]
#[repr(C)]
struct Record {
    level: u64,
    number: u64,
    site: u64,
    interrupted: u64,
    stack: u64,
    stack_before: u64,
    entry: u32,
    by: u32,
    below: u32,
    kind: u32,
}

/// The state of a thread, at its `%gs` and behind a page.
#[derive(Clone, Copy)]
#[repr(C)]
struct State {
    number: u64,
    site: u64,
    top: u64,
    lost: u64,
    handlers: u64,
    magic: u64,
}

/// Kinds of records: the bottom, a call, a mark, those behind which nothing is known, and handlers of signals.
const BOTTOM: u32 = 0;
const CALL: u32 = 3;
const MARK: u32 = 4;
const LOST: u32 = 5;
const HANDLER: u32 = 6;

/// A calling context; it is displayed as a word.
#[derive(Clone)]
#[repr(C)]
pub struct Context {
    bytes: [u8; MOST],
    len: usize,
}

/// The context in which it is called.
#[unsafe(naked)]
pub extern "C" fn context() -> Context {
    // The stack pointer of the entry; the address of the result is in rdi, as the convention has it for one in memory.
    naked_asm!("mov rsi, rsp", "jmp {fill}", fill = sym fill)
}

impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // It has digits, letters and dots.
        f.write_str(std::str::from_utf8(&self.bytes[..self.len]).unwrap_or_default())
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Write for Context {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.len + text.len();
        let room = self.bytes.get_mut(self.len..end).ok_or(fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

unsafe extern "C" {
    /// The first byte of the file in memory; the linker knows it.
    safe static __ehdr_start: u8;
}

thread_local! {
    /// Address of the thread's memory; 0: it is not known.
    static MEMORY: Cell<u64> = const { Cell::new(0) };
}

/// The thread's memory, if the program was edited.
fn memory() -> Option<u64> {
    let known = MEMORY.get();
    if known != 0 {
        return Some(known);
    }
    let (mut memory, own, result): (u64, u64, u64);
    memory = 0;
    // SAFETY: the kernel writes a word, and a thread's pointer points to itself.
    unsafe {
        asm!("syscall", inout("rax") ARCH_PRCTL => result, in("rdi") GET_GS, in("rsi") &raw mut memory,
            lateout("rcx") _, lateout("r11") _);
        asm!("mov {}, fs:0", out(reg) own, options(nostack, readonly));
    }
    // SAFETY: the base of %gs is 0, or that of memory of the thread; in an edited program its first word is the thread's pointer.
    let is_own =
        result == 0 && memory != 0 && unsafe { (memory as *const u64).read_volatile() } == own;
    // SAFETY: so there is a state.
    let is_one = is_own && unsafe { state(memory) }.magic == MAGIC;
    is_one.then(|| {
        MEMORY.set(memory);
        memory
    })
}

/// # Safety
/// It is the memory of an edited program's thread.
unsafe fn state(memory: u64) -> State {
    // SAFETY: the caller's duty.
    unsafe { ((memory + 4096) as *const State).read_volatile() }
}

/// The function that the path ends with; it gives back the address of the result.
extern "C" fn fill(out: &mut MaybeUninit<Context>, entry: u64) -> &mut Context {
    let out = out.write(Context {
        bytes: [0; MOST],
        len: 0,
    });
    let Some(memory) = memory() else {
        return out;
    };
    // SAFETY: it is that of this thread.
    let state = unsafe { state(memory) };
    let start = &raw const __ehdr_start as u64;
    // An error: there is no room for more.
    let _ = write!(
        out,
        "evp:{:x}.{:x}",
        fill as *const () as u64 - start,
        state.number
    );
    let _ = records(out, memory, state.top, entry);
    if state.lost >= entry {
        let _ = out.write_str("?");
    }
    out
}

/// Appends the records of a path, from one on down.
fn records(out: &mut Context, memory: u64, mut place: u64, mut stack: u64) -> fmt::Result {
    while out.len < MOST - 100 {
        // SAFETY: the thread's own records, each of which names the one below.
        let record = unsafe { ((memory + place) as *const Record).read_volatile() };
        place = record.below.into();
        match record.kind {
            BOTTOM => return Ok(()),
            MARK => continue,
            HANDLER => {}
            _ if record.level < stack => continue,
            _ => {}
        }
        let is_call = record.kind == CALL;
        let by = if is_call {
            record.by
        } else {
            (record.site >> 32) as u32
        };
        write!(
            out,
            ".{:x}.{:x}.{by:x}.{:x}",
            record.kind, record.entry, record.number
        )?;
        if record.kind >= LOST || by == 0 {
            return Ok(());
        }
        stack = match is_call {
            true => record.level + 8,
            false => {
                let distance = (record.site as u32).wrapping_sub(record.level as u32);
                record
                    .level
                    .wrapping_add_signed(distance.cast_signed().into())
            }
        };
    }
    Ok(())
}
