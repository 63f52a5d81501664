//! The three entries of the vsyscall page: the call, then a return, as the kernel
//! emulates them (Linux, arch/x86/entry/vsyscall/vsyscall_64.c).
//!
//! The kernel's refusals are a SIGSEGV at the entry, before the return: a stack that cannot be
//! read, a pointer that is none of the program's, and one that cannot be written to.
//!
//! Limits: `err` and `trapno` of the last are 0, where the kernel leaves those of the
//! thread's last fault.

use agent::thread::{Thread, ThreadContext, reg};
use sys::signal::{code, pf, trap};

use crate::block::{Arrival, Key};
use crate::dispatch::{go_to, unfetchable};
use crate::engine;
use crate::synthetic_faults::{Fault, raise};

/// End of the addresses of programs (`TASK_SIZE_MAX`).
pub const END: u64 = 0x7fff_ffff_f000;

/// An entry, and how many of its arguments it writes to.
struct Entry {
    number: usize,
    pointers: usize,
}

fn entry(pc: u64) -> Option<Entry> {
    let (number, pointers) = match pc & 0xfff {
        0x000 => (sys::nr::GETTIMEOFDAY, 2),
        0x400 => (sys::nr::TIME, 1),
        0x800 => (sys::nr::GETCPU, 2),
        _ => return None,
    };
    Some(Entry { number, pointers })
}

/// The thread came to `pc` in that page.
pub fn call(context: &mut ThreadContext, thread: &mut Thread, pc: u64) {
    let Some(Entry { number, pointers }) = entry(pc) else {
        return unfetchable(context, thread, pc);
    };
    let args = [reg::RDI, reg::RSI, reg::RDX].map(|register| context.regs[register]);
    let sp = context.regs[reg::RSP];
    let Some(back) = agent::memory::read::<u64>(sp) else {
        return refuse(context, thread, pc, Fault::of_kernel());
    };
    if let Some(arg) = args[..pointers].iter().find(|arg| **arg > END) {
        let fault = Fault {
            code: code::SEGV_MAPERR,
            address: *arg,
            details: (pf::USER | pf::WRITE, trap::PAGE_FAULT, *arg),
        };
        return refuse(context, thread, pc, fault);
    }
    let [first, second, third] = args.map(|arg| arg as usize);
    // Filters are asked with the address of the entry, which the kernel cannot know.
    let result = match crate::filters::said_at(thread, number, args, pc) {
        None => {
            // SAFETY: the program's own call of one of three harmless functions.
            unsafe { sys::raw::syscall(number, [first, second, third, 0, 0, 0]) }
        }
        Some(error) => error,
    };
    if result == sys::Errno::EFAULT.as_result() {
        context.regs[reg::RAX] = sys::Errno::ENOSYS.as_result() as u64;
        return refuse(context, thread, pc, Fault::of_kernel());
    }
    context.regs[reg::RAX] = result as u64;
    context.regs[reg::RSP] = sp + 8;
    engine::with(|engine| {
        engine.is_at(context, pc, sp);
        engine.goes_to(context, wire::stream::why::VSYSCALL, back, sp + 8);
    });
    let arrival = Arrival::Jump;
    go_to(context, Key { pc: back, arrival });
}

/// As where nothing can be fetched: the thread does not come further than `pc`.
fn refuse(context: &mut ThreadContext, thread: &mut Thread, pc: u64, fault: Fault) {
    let sp = context.regs[reg::RSP];
    engine::with(|engine| {
        engine.is_at(context, pc, sp);
        engine.goes_to(context, wire::stream::why::NOWHERE, pc, sp);
    });
    raise(context, thread, pc, fault);
}
