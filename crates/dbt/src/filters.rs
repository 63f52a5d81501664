//! The program's calls under filters of its own, and the calls that install those.
//!
//! See `agent::filters` for what the kernel gets. Where the engine makes a call for the program,
//! the filters are asked here before, so that they decide before anything else does. So they are
//! about every call, if one of them looks at the address of the call or may end a thread.
//!
//! Limits: a call of memory, signals or exec that a supervisor (USER_NOTIF) or a tracer (TRACE)
//! lets through runs as the program wrote it: what is exec'd so runs natively. Where a filter
//! looks at addresses, neither is asked: such a call fails (ENOSYS), as without them.

use agent::filters::{self, Filter, Given, action, bpf};
use agent::syscalls::Kind;
use agent::thread::{Thread, ThreadContext, reg};
use sys::signal::{SIGKILL, SIGSYS, SigAction, code};
use sys::{Errno, nr};

use crate::deliver::information;
use crate::dispatch::{After, Call};
use crate::engine::{self, Engine};
use crate::synthetic_faults::raise_signal;
use crate::thread_exit;

/// Answer of the filters: who goes on with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// The engine.
    Allowed,
    /// The kernel, which is given the call as written.
    ByKernel,
    /// Nobody: the engine does what filters say that the kernel cannot ask.
    Said(u32),
}

/// Asks the filters of the thread about a call, of a kind if the engine makes it.
pub fn ask(thread: &Thread, kind: Option<Kind>, call: &mut Call) -> Asked {
    let Some(filters) = Filter::of(thread) else {
        return Asked::Allowed;
    };
    let data = bpf::Data {
        number: call.number as u32,
        arch: bpf::ARCH_X86_64,
        address: call.next,
        args: call.args,
    };
    use Kind::{Clone, Clone3, Exit, ExitGroup, Fork, Sigreturn, Vfork};
    let makes = matches!(kind, Some(Clone | Clone3 | Fork | Vfork));
    let ends = matches!(kind, Some(Sigreturn | Exit | ExitGroup));
    let verdict = filters.verdict(&data);
    match verdict & action::FULL {
        action::ALLOW | action::LOG => Asked::Allowed,
        _ if filters.by_address => Asked::Said(verdict),
        // The thread is the engine's to end, if it is not the last.
        action::KILL_THREAD => Asked::Said(verdict),
        // Another process decides. A child must begin in the engine, in any case.
        action::TRACE | action::USER_NOTIF if makes => {
            call.outside = true;
            Asked::Allowed
        }
        action::TRACE | action::USER_NOTIF if ends => Asked::Allowed,
        _ => Asked::ByKernel,
    }
}

/// Does what the filters say to a call.
pub fn obey(context: &mut ThreadContext, thread: &mut Thread, call: &Call, verdict: u32) -> After {
    let data = verdict & !action::FULL;
    match verdict & action::FULL {
        action::ERRNO => After::Result(errno(verdict)),
        action::TRACE | action::USER_NOTIF => After::Result(Errno::ENOSYS.as_result()),
        action::TRAP => trap(context, thread, call, data),
        action::KILL_THREAD if engine::with(|engine| engine.threads.len() > 1) => {
            engine::with(|engine| engine.is_at(context, call.next, context.regs[reg::RSP]));
            thread_exit::exit_thread(context, thread, 0)
        }
        // The kernel ends it, if it is asked.
        action::KILL_THREAD if Filter::of(thread).is_some_and(|known| !known.by_address) => {
            After::Raw
        }
        _ => {
            engine::with(|_| {
                // SAFETY: the table is live; the lock orders writers.
                let table = unsafe { &mut *thread.signals };
                table.set(SIGSYS, SigAction::default());
            });
            trap(context, thread, call, data)
        }
    }
}

/// SIGSYS for a call that was not made, behind it.
fn trap(context: &mut ThreadContext, thread: &mut Thread, call: &Call, data: u32) -> After {
    let mut info = information(SIGSYS, code::SYS_SECCOMP);
    info.errno = data as i32;
    info.fields[0] = call.next;
    info.fields[1] = u64::from(call.number as u32) | u64::from(bpf::ARCH_X86_64) << 32;
    match raise_signal(context, thread, call.next, (info, (0, 0, 0))) {
        true => After::Result(call.number as isize),
        false => After::Again,
    }
}

const STRICT: u64 = 1;
const FILTER: u64 = 2;

/// `prctl(PR_SET_SECCOMP, mode, filter)`.
pub fn by_prctl(context: &mut ThreadContext, thread: &mut Thread, call: &Call) -> After {
    match call.args[1] {
        STRICT => After::Result(be_strict(context, thread)),
        FILTER => install(thread, call, 0),
        _ => After::Raw,
    }
}

/// `seccomp(operation, flags, arguments)`.
pub fn by_seccomp(context: &mut ThreadContext, thread: &mut Thread, call: &Call) -> After {
    const SET_MODE_STRICT: u64 = 0;
    const SET_MODE_FILTER: u64 = 1;
    let [operation, flags, at, ..] = call.args;
    match operation & 0xffff_ffff {
        // With arguments the kernel refuses.
        SET_MODE_STRICT if flags as u32 == 0 && at == 0 => {
            After::Result(be_strict(context, thread))
        }
        SET_MODE_FILTER => install(thread, call, flags),
        _ => After::Raw,
    }
}

/// The call, with the prologue before the program's filter.
fn install(thread: &mut Thread, call: &Call, flags: u64) -> After {
    const TSYNC: u64 = 1;
    const NEW_LISTENER: u64 = 1 << 3;
    engine::with(Engine::stop_layouts);
    let program = match filters::given(call.args[2]) {
        Given::Program(program) => program,
        Given::Unreadable => return After::Raw,
        Given::Long(program) => {
            tell_too_long(program.len());
            return After::Raw;
        }
    };
    let whole = filters::for_kernel(&program);
    let given = (whole.len() as u64, whole.as_ptr() as u64);
    let mut args = call.args.map(|arg| arg as usize);
    args[2] = &raw const given as usize;
    // One after the other, so that the order here is the kernel's.
    let result = engine::with(|engine| {
        // SAFETY: the program's own call; the filter is only read.
        let result = unsafe { sys::raw::syscall(call.number as usize, args) };
        let is_installed = result == 0 || result > 0 && flags & NEW_LISTENER != 0;
        if is_installed {
            let filter = Filter::add(Filter::of(thread), program);
            filters::set(&thread.filters, filter);
            // Once, and not in each child that is forked.
            Filter::store(Some(filter), &engine.process.log.pool);
            if filter.wants_all() {
                engine.watch_calls();
            }
            if flags & TSYNC != 0 {
                give_to_all(engine, thread, filter);
            }
        }
        result
    });
    After::Result(result)
}

/// All threads of the process have the filters of this one now. A vfork child has other threads
/// in its memory, which are not of its process.
fn give_to_all(engine: &Engine, thread: &Thread, filter: &'static Filter) {
    if thread.is_vfork_child {
        return;
    }
    for &context in &engine.threads {
        // SAFETY: contexts of live threads, under the lock; the field is atomic.
        let other = unsafe { (*context).thread as *const Thread };
        // SAFETY: as above.
        if unsafe { !(*other).is_vfork_child } {
            // SAFETY: as above.
            filters::set(unsafe { &(*other).filters }, filter);
        }
    }
}

fn tell_too_long(len: usize) {
    let mut text = agent::procfs::Text::default();
    let _ = core::fmt::Write::write_fmt(
        &mut text,
        format_args!(
            "everypath: a filter of {len} instructions leaves no room for the {} that allow everypath's own calls; \
             it is installed as it is and may end the program\n",
            filters::prologue().len()
        ),
    );
    let _ = sys::write(2, &text.0);
}

/// Strict seccomp, as a filter: the engine's calls must go on. It needs no rights, a filter does,
/// or the promise never to get more: exec, which that is about, is over.
fn be_strict(context: &mut ThreadContext, thread: &mut Thread) -> isize {
    let prctl = |option: u32, first: usize, second: usize| {
        let args = [option as usize, first, second, 0, 0, 0];
        // SAFETY: changes what the thread may do, as the program wants.
        unsafe { sys::raw::syscall(nr::PRCTL, args) }
    };
    if prctl(sys::PR_GET_SECCOMP, 0, 0) != 0 {
        return Errno::EINVAL.as_result();
    }
    engine::with(Engine::stop_layouts);
    let program = filters::strict();
    let whole = filters::for_kernel(&program);
    let given = (whole.len() as u64, whole.as_ptr() as u64);
    let install = || {
        prctl(
            sys::PR_SET_SECCOMP,
            FILTER as usize,
            &raw const given as usize,
        )
    };
    let mut result = install();
    if result == Errno::EACCES.as_result() {
        prctl(sys::PR_SET_NO_NEW_PRIVS, 1, 0);
        result = install();
    }
    if result == 0 {
        thread.strict = true;
        filters::set(&thread.filters, Filter::add(None, program));
        // As the kernel does.
        let forbid = || prctl(sys::PR_SET_TSC, sys::PR_TSC_SIGSEGV as usize, 0);
        crate::contexts::set_tsc(context, true, forbid);
    }
    result
}

/// A thread under strict seccomp made a call that this does not allow: it ends by SIGKILL, and
/// the process with it if it is alone.
pub fn kill_strict(context: &mut ThreadContext, thread: &mut Thread) -> ! {
    if engine::with(|engine| engine.threads.len() > 1) {
        thread_exit::exit_thread(context, thread, SIGKILL as i32);
    }
    loop {
        // SAFETY: ends the process.
        unsafe {
            let target = [sys::getpid() as usize, SIGKILL as usize, 0, 0, 0, 0];
            sys::raw::syscall(nr::KILL, target);
        }
    }
}

/// The result that the thread's filters give to a call of the vsyscall page, whose entry is at
/// `address`; `None`: it is allowed. Verdicts that end the thread are left to the kernel.
pub fn said_at(thread: &Thread, number: usize, args: [u64; 3], address: u64) -> Option<isize> {
    let [first, second, third] = args;
    let data = bpf::Data {
        number: number as u32,
        arch: bpf::ARCH_X86_64,
        address,
        args: [first, second, third, 0, 0, 0],
    };
    let verdict = Filter::of(thread)?.verdict(&data);
    match verdict & action::FULL {
        action::ALLOW | action::LOG => None,
        action::ERRNO => Some(errno(verdict)),
        _ => {
            let args = data.args.map(|arg| arg as usize);
            // SAFETY: the program's own call of a harmless function.
            Some(unsafe { sys::raw::syscall_outside(number, args) })
        }
    }
}

/// The result of a call for the verdict ERRNO.
fn errno(verdict: u32) -> isize {
    const MOST: u32 = 4095;
    Errno((verdict & !action::FULL).min(MOST) as i32).as_result()
}
