//! The engine's side of leaving the cache: find out why, do it, say where to
//! go on. Called from `entry.rs` with the program's state in the thread block.

use agent::paths::{self, Wanted};
use agent::sigcalls;
use agent::syscalls::{self, Effect, Kind, MappedFile};
use agent::thread::{Thread, ThreadContext, reg};
use wire::stat;
use wire::stream::stamp;

use crate::block::{Arrival, ExitId, ExitKind, Key, Landing};
use crate::edge_counters::Site;
use crate::engine::{self, Engine};
use crate::entry::reason;
use crate::filters::{self, Asked};
use crate::locate::place_of;
use crate::served_code::with_code_at;
use crate::signals::TRAP_FLAG;
use crate::streams::shared_budget;
use crate::superblock::End;
use crate::synthetic_faults::{Unfetchable, raise_fetch_fault};
use crate::{
    code_change, deliver, detach, lockstep, process, procfs, signal_waits, sigreturn, thread_exit,
};

/// A system call the program is about to make.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub number: u64,
    pub args: [u64; 6],
    /// Address of the instruction and of the one after it.
    pub pc: u64,
    pub next: u64,
    /// A filter of the program asks another process about it: it is not made through the gate.
    pub outside: bool,
}

/// Continuation after a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// Run the bare instruction in the cache.
    Raw,
    /// rax is this; go on at the next instruction.
    Result(isize),
    /// A signal came first; then the instruction is executed anew.
    Again,
}

/// Entry from the assembly. Returns with `resume_host` set.
///
/// # Safety
/// `context` is the calling thread's block, with its program state complete.
pub unsafe extern "C" fn dispatch(context: *mut ThreadContext) {
    // SAFETY: the thread's own block; emitted code of this thread does not run
    // while we do, and others do not touch it. The thread state is boxed for
    // the life of the block.
    let (context, thread) = unsafe { (&mut *context, &mut *((*context).thread as *mut Thread)) };
    route(context, thread);
    if lockstep::is_on() {
        // A forked child has another block than its parent.
        // SAFETY: the thread's own block, as above.
        lockstep::before_entry(unsafe { &mut *thread.context });
    }
}

fn route(context: &mut ThreadContext, thread: &mut Thread) {
    match context.reason {
        reason::EXIT => leave_by_exit(context, thread),
        reason::EMPTY_JUMP | reason::EMPTY_CALL | reason::VERIFY_JUMP | reason::VERIFY_CALL => {
            indirect_miss(context)
        }
        reason::EVENT => crate::contexts::event(context),
        _ => {
            let key = Key {
                pc: context.resume_app,
                arrival: Arrival::from_code(context.exit as u8),
            };
            go_to(context, key);
        }
    }
}

/// Sets where the thread goes on; translates if need be.
pub fn go_to(context: &mut ThreadContext, key: Key) {
    with_code_at(key.pc, |engine| {
        engine.arrive(context);
        engine.begin_at(context, key.pc);
        let key = engine.enter(context, key);
        let id = engine.find(key, None);
        context.resume_host = engine.block(id).host;
    });
}

impl Engine {
    /// Goes on at the key, from an exit that can be linked. The translation may take the
    /// memory, and the id, of the exit itself.
    fn go_on_and_link(&mut self, context: &mut ThreadContext, key: Key, exit: ExitId) {
        self.arrive(context);
        let before = self.recycled;
        let met = self.meet(context, key);
        let id = self.find(met.unwrap_or(key), None);
        if self.settings.chaos & 1 == 0 && self.recycled == before && met.is_none() {
            self.link(exit, id);
        }
        context.resume_host = self.block(id).host;
    }
}

fn indirect_miss(context: &mut ThreadContext) {
    let (rcx, rdx) = (context.regs[reg::RCX], context.regs[reg::RDX]);
    let verified = matches!(context.reason, reason::VERIFY_JUMP | reason::VERIFY_CALL);
    let call = matches!(context.reason, reason::EMPTY_CALL | reason::VERIFY_CALL);
    let target = if verified { rcx.wrapping_sub(rdx) } else { rcx };
    context.regs[reg::RCX] = context.spill[1];
    context.regs[reg::RDX] = context.spill[2];
    let arrival = if call { Arrival::Call } else { Arrival::Jump };
    if call && (target as i64) << 16 >> 16 != target as i64 {
        // The call itself faults: nothing has been pushed.
        context.regs[reg::RSP] = context.regs[reg::RSP].wrapping_add(8);
    }
    with_code_at(target, |engine| {
        engine.arrive(context);
        engine.count(stat::EXITS_INDIRECT);
        engine.went_to(context, target);
        let key = Key {
            pc: target,
            arrival,
        };
        if let Some(key) = engine.meet(context, key) {
            let id = engine.find(key, None);
            context.resume_host = engine.block(id).host;
            return;
        }
        let key = engine.left_from_stream(context, key);
        let site = match Site::of_arrivals(key.arrival) {
            None => engine.count_jump(context, target),
            outside => outside,
        };
        if !call {
            engine.enter_inside(target);
        }
        let id = engine.find(key, Some(Landing { call, site }));
        // An address that cannot be fetched must not stay in a table: it may
        // become code later.
        if !engine.block(id).unfetchable {
            engine.publish_indirect(id, call, site);
        }
        context.resume_host = engine.block(id).host;
    });
}

/// The exit and its id are looked at under one lock: after `arrive` another
/// thread may recycle the block that the exit belongs to. A system call does
/// not arrive, it may go back into its block.
fn leave_by_exit(context: &mut ThreadContext, thread: &mut Thread) {
    let exit = context.exit;
    // Until `arrive`, the exit is the one that was left.
    let target = match agent::memory::is_served() {
        true => engine::with(|engine| engine.exits[exit as usize].kind().target()),
        false => 0,
    };
    let (kind, after, comes_near) = with_code_at(target, |engine| {
        let left = &engine.exits[exit as usize];
        let (kind, after) = (left.kind(), left.after(engine.cache.arena()));
        engine.count(match kind {
            ExitKind::Syscall { .. } => stat::EXITS_SYSCALL,
            ExitKind::Event(_) => stat::EXITS_EVENT,
            _ => stat::EXITS_DIRECT,
        });
        let block = left.block;
        match kind {
            ExitKind::Direct(key) | ExitKind::Spilled(key) => {
                engine.go_on_and_link(context, key, ExitId(exit))
            }
            ExitKind::Syscall { .. } | ExitKind::Far { .. } => engine.waits(context, block),
            ExitKind::Bound(_) => {
                engine.makes_again(context, block);
                engine.sever(block);
            }
            _ => {}
        }
        let is_call = matches!(kind, ExitKind::Syscall { .. });
        (kind, after, is_call && engine.leaves_part(context))
    });
    match kind {
        ExitKind::Direct(_) | ExitKind::Spilled(_) => {}
        ExitKind::Syscall { pc, .. } if comes_near => call_again(context, pc, after),
        ExitKind::Syscall { pc, len } => {
            leave_by_syscall(context, thread, pc, pc + u64::from(len), after)
        }
        ExitKind::Vsyscall(pc) => crate::vsyscall::call(context, thread, pc),
        ExitKind::Unfetchable(pc) => unfetchable(context, thread, pc),
        ExitKind::Far { pc } => crate::far::leave(context, thread, pc, after),
        ExitKind::Bound(key) => go_to(context, key),
        ExitKind::Event(key) => leave_by_event(context, thread, key),
    }
}

fn leave_by_event(context: &mut ThreadContext, thread: &mut Thread, key: Key) {
    if !engine::with(|engine| engine.control(context, key)) {
        crate::contexts::jump_into(context, key.pc);
        let arrival = Arrival::Inside;
        return go_to(context, Key { arrival, ..key });
    }
    shared_budget::wait(context);
    // It comes there again, and has trapped there if it steps itself.
    let is_counted = !matches!(key.arrival, Arrival::Far | Arrival::Middle);
    if is_counted && context.rflags & TRAP_FLAG != 0 {
        thread.step_from = key.pc;
    }
}

fn leave_by_syscall(
    context: &mut ThreadContext,
    thread: &mut Thread,
    pc: u64,
    next: u64,
    raw: u64,
) {
    let regs = &context.regs;
    let args = [reg::RDI, reg::RSI, reg::RDX, reg::R10, reg::R8, reg::R9];
    let mut call = Call {
        number: regs[reg::RAX],
        args: args.map(|register| regs[register]),
        pc,
        next,
        outside: false,
    };
    thread.trapped = None;
    detach::leave_if_due(context, thread, &call, raw);
    let kind = syscalls::kind(call.number);
    let mut after = match filters::ask(thread, kind, &mut call) {
        Asked::Allowed => kind.map_or(After::Raw, |kind| system_call(context, thread, kind, call)),
        Asked::ByKernel => After::Raw,
        Asked::Said(verdict) => filters::obey(context, thread, &call, verdict),
    };
    if after == After::Raw && signal_waits::is_due(thread, &call) {
        after = signal_waits::make(thread, &call);
    }
    // The handler may have written it in the call.
    if core::hint::black_box(&mut *thread).trapped == Some(call.number as u32) {
        after = After::Raw;
    }
    // A forked child has another block than its parent.
    // SAFETY: the thread's own block, as in `dispatch`.
    let context = unsafe { &mut *thread.context };
    match after {
        After::Raw => context.resume_host = raw,
        After::Again => call_again(context, pc, raw),
        After::Result(value) => {
            finish_call(context, value, next);
            engine::with(|engine| engine.stamp(context, stamp::LEAVE));
            go_to(
                context,
                Key {
                    pc: next,
                    arrival: Arrival::Inside,
                },
            );
        }
    }
}

/// The system call at `pc`, whose bare instruction is at `raw`, is executed anew.
fn call_again(context: &mut ThreadContext, pc: u64, raw: u64) {
    let place = place_of(raw).flatten();
    if let Some(place) = &place {
        deliver::uncount(context, place, context.regs[reg::RSP]);
    }
    let arrival = match place {
        Some(place) if place.middle => Arrival::Middle,
        _ => Arrival::Inside,
    };
    go_to(context, Key { pc, arrival });
}

/// Sets the registers as the `syscall` instruction leaves them.
pub fn finish_call(context: &mut ThreadContext, value: isize, next: u64) {
    context.regs[reg::RAX] = value as u64;
    context.regs[reg::RCX] = next;
    context.regs[reg::R11] = context.rflags;
}

// Long function: one row per kind of call.
fn system_call(context: &mut ThreadContext, thread: &mut Thread, kind: Kind, call: Call) -> After {
    lockstep::before_call(call.number, call.args[0]);
    let result = match kind {
        Kind::Sigaction => sigcalls::sigaction(call.args, |number, wanted| {
            engine::with(|engine| {
                sigcalls::change_action(thread, engine.process.entry, number, wanted)
            })
        }),
        Kind::Sigaltstack => {
            // SAFETY: changes nothing; only to hear what a filter says to it.
            let filtered = unsafe { sys::raw::syscall(sys::nr::SIGALTSTACK, [0; 6]) };
            if filtered < 0 {
                return After::Result(filtered);
            }
            let sp = context.regs[reg::RSP];
            let minimum = engine::with(|engine| engine.process.minimum_altstack);
            agent::signals::sigaltstack(thread, call.args[0], call.args[1], sp, minimum)
        }
        Kind::Stores => match code_change::stores(call.number, call.args) {
            Some(result) => result,
            None => return After::Raw,
        },
        Kind::FillsVector(address, length) => {
            let (at, count) = (call.args[address], call.args[length]);
            code_change::open_vector(at, count);
            procfs::reread(context, thread, &call);
            return After::Raw;
        }
        Kind::FillsMessages => {
            let single = call.number == sys::nr::RECVMSG as u64;
            let count = if single { 1 } else { call.args[2].min(1024) };
            code_change::open_messages(call.args[1], count);
            return After::Raw;
        }
        Kind::Prctl => return prctl(context, thread, &call),
        Kind::Seccomp => return filters::by_seccomp(context, thread, &call),
        Kind::Limit(index) => {
            const RLIMIT_DATA: u64 = 2;
            const RLIMIT_AS: u64 = 9;
            let changes = index == 0 || call.args[2] != 0;
            if changes && matches!(call.args[index], RLIMIT_DATA | RLIMIT_AS) {
                crate::start::keep_reserve();
            }
            return After::Raw;
        }
        Kind::Fills(address, length) => {
            engine::with(|engine| engine.open_range(call.args[address], call.args[length]));
            procfs::reread(context, thread, &call);
            return After::Raw;
        }
        Kind::Waits(index) => {
            let Some(mask) = sigcalls::waiting_mask(call.number, call.args, index) else {
                return After::Raw;
            };
            match sigreturn::waiting_call(thread, &call, mask) {
                Some(result) => result,
                None => return After::Again,
            }
        }
        Kind::Userfault => {
            agent::memory::set_served();
            return After::Raw;
        }
        Kind::Signalfd => {
            sigcalls::signalfd(call.args);
            return After::Raw;
        }
        Kind::Polls => return After::Raw,
        Kind::Sigpending => sigcalls::sigpending(thread, call.args),
        Kind::Sigtimedwait => match sigcalls::sigtimedwait(thread, call.args) {
            Some(result) => result,
            None => return After::Raw,
        },
        Kind::Sigprocmask
        | Kind::Sigreturn
        | Kind::Clone
        | Kind::Clone3
        | Kind::Fork
        | Kind::Vfork => match behind_signals(context, thread, kind, &call) {
            Some(result) => result,
            None => return After::Again,
        },
        Kind::Exit | Kind::ExitGroup if agent::signals::quiesce(thread).is_none() => {
            return After::Again;
        }
        Kind::Execve | Kind::Execveat => {
            let wanted = match kind {
                Kind::Execve => agent::exec::Call::execve(call.args),
                _ => agent::exec::Call::execveat(call.args),
            };
            engine::with(|engine| engine.is_at(context, call.next, context.regs[reg::RSP]));
            match process::exec(thread, wanted) {
                Some(result) => result,
                None => return After::Again,
            }
        }
        Kind::Exit => {
            engine::with(|engine| engine.is_at(context, call.next, context.regs[reg::RSP]));
            thread_exit::exit_thread(context, thread, call.args[0] as i32)
        }
        Kind::ExitGroup => {
            engine::with(|engine| engine.is_at(context, call.next, context.regs[reg::RSP]));
            thread_exit::exit_group(thread, call.args[0] as i32)
        }
        Kind::ArchPrctl => match arch_prctl(context, call.args) {
            Some(result) => result,
            None => return After::Raw,
        },
        Kind::Ptrace => return detach::ptrace(context, thread, &call),
        Kind::Personality => thread.set_personality(call.args[0]),
        Kind::Brk if !thread.implies_exec => return After::Raw,
        _ => return memory_call(context, thread, kind, &implied(thread, kind, call)),
    };
    After::Result(result)
}

/// `prctl`: what the engine would suffer from.
fn prctl(context: &mut ThreadContext, thread: &mut Thread, call: &Call) -> After {
    /// PR_SET_SYSCALL_USER_DISPATCH. Its range is of program addresses, which calls from the
    /// cache never have: as a kernel without it.
    const USER_DISPATCH: u64 = 59;
    const TSC: u64 = sys::PR_SET_TSC as u64;
    const SECCOMP: u64 = sys::PR_SET_SECCOMP as u64;
    match call.args[0] {
        USER_DISPATCH => After::Result(sys::Errno::EINVAL.as_result()),
        TSC => {
            let forbids = call.args[1] == u64::from(sys::PR_TSC_SIGSEGV);
            let args = call.args.map(|arg| arg as usize);
            // SAFETY: it changes what the thread may read, and nothing else.
            let change = || unsafe { sys::raw::syscall(sys::nr::PRCTL, args) };
            After::Result(crate::contexts::set_tsc(context, forbids, change))
        }
        SECCOMP => filters::by_prctl(context, thread, call),
        _ => After::Raw,
    }
}

/// Calls for which all signals are blocked. `None`: one came before.
fn behind_signals(
    context: &mut ThreadContext,
    thread: &mut Thread,
    kind: Kind,
    call: &Call,
) -> Option<isize> {
    match kind {
        Kind::Sigprocmask => sigcalls::sigprocmask(thread, call.args),
        Kind::Sigreturn => sigreturn::sigreturn(context, thread, call),
        Kind::Clone => process::clone(context, thread, call),
        Kind::Clone3 => process::clone3(context, thread, call),
        _ => process::fork(context, thread, call, kind == Kind::Vfork),
    }
}

/// The call as the kernel has it under `personality(READ_IMPLIES_EXEC)`.
fn implied(thread: &Thread, kind: Kind, mut call: Call) -> Call {
    const SHM_EXEC: u64 = 0o100_000;
    let implies = thread.implies_exec && call.args[2] & u64::from(sys::PROT_READ) != 0;
    match kind {
        Kind::Mmap | Kind::Mprotect if implies => call.args[2] |= u64::from(sys::PROT_EXEC),
        Kind::Shmat if thread.implies_exec => call.args[2] |= SHM_EXEC,
        _ => {}
    }
    call
}

fn memory_call(context: &ThreadContext, thread: &Thread, kind: Kind, call: &Call) -> After {
    if let Some(wanted) = paths::wanted(kind, call.args, call.number) {
        return path_call(context, thread, wanted, call);
    }
    let unlocked = syscalls::call_unlocked(kind, call.args, call.number);
    let file = match kind {
        Kind::Mmap => MappedFile::of_call(call.args),
        _ => MappedFile::default(),
    };
    engine::with(|engine| {
        let effect = match (unlocked, kind) {
            (Some(effect), _) => effect,
            (None, Kind::Mmap) => engine.process.mmap(call.args, file),
            (None, _) => engine.process.call(kind, call.args, call.number),
        };
        match effect {
            Effect::Forward => After::Raw,
            Effect::Done(result) => After::Result(result),
            Effect::Invalidate(result, start, end) => {
                engine.invalidate(start, end);
                After::Result(result)
            }
            Effect::Invalidate2(result, (a, b), (c, d)) => {
                engine.invalidate(a, b);
                engine.invalidate(c, d);
                After::Result(result)
            }
        }
    })
}

/// A call with a path. The program's memory is read and written without the lock.
fn path_call(context: &ThreadContext, thread: &Thread, wanted: Wanted, call: &Call) -> After {
    match wanted {
        Wanted::Other => After::Raw,
        Wanted::Shown { shown, cloexec } => {
            After::Result(procfs::open(context, thread, call, (shown, cloexec)))
        }
        Wanted::Memory => {
            engine::with(Engine::opens_memory);
            After::Raw
        }
        Wanted::OpenExe { .. } | Wanted::Exe { .. } | Wanted::ExeLink { .. } => {
            let exe = engine::with(|engine| engine.process.exe.clone());
            let result = paths::call_with_exe(wanted, &exe, call.args, call.number);
            result.map_or(After::Raw, After::Result)
        }
    }
}

/// gs is virtual; shadow stacks are as on a kernel without them.
fn arch_prctl(context: &mut ThreadContext, args: [u64; 6]) -> Option<isize> {
    const ARCH_SHSTK: core::ops::RangeInclusive<u64> = 0x5001..=0x5005;
    match args[0] {
        code if code == u64::from(sys::ARCH_SET_GS) => {
            if args[1] >= 1 << 47 {
                return Some(sys::Errno::EPERM.as_result());
            }
            context.app_gs = args[1];
            Some(0)
        }
        code if code == u64::from(sys::ARCH_GET_GS) => {
            let written = agent::memory::write(args[1], &context.app_gs);
            Some(if written {
                0
            } else {
                sys::Errno::EFAULT.as_result()
            })
        }
        code if ARCH_SHSTK.contains(&code) => Some(sys::Errno::EINVAL.as_result()),
        _ => None,
    }
}

/// The program jumped to where no instruction can be fetched: the fault that
/// the CPU would raise. Looked at again first: it may have become code.
pub fn unfetchable(context: &mut ThreadContext, thread: &mut Thread, pc: u64) {
    let key = Key {
        pc,
        arrival: Arrival::Inside,
    };
    let fault = with_code_at(pc, |engine| {
        let block = engine.exits[context.exit as usize].block;
        engine.sever(block);
        let again = engine.superblock(key);
        if !again.insns.is_empty() || !matches!(again.end, End::Unfetchable(_)) {
            return None;
        }
        // An instruction that runs into what cannot be fetched faults there.
        let starts = engine.process.regions.find(pc).is_some() && is_readable(pc);
        Some(if starts { (pc & !4095) + 4096 } else { pc })
    });
    match fault {
        None => go_to(context, key),
        Some(address) => {
            detach::leave_before_fault(context, thread, pc);
            let sp = context.regs[reg::RSP];
            engine::with(|engine| {
                engine.is_at(context, pc, sp);
                engine.goes_to(context, wire::stream::why::NOWHERE, pc, sp);
            });
            raise_fetch_fault(context, thread, pc, address, why_unfetchable(address))
        }
    }
}

fn why_unfetchable(address: u64) -> Unfetchable {
    if (address as i64) << 16 >> 16 != address as i64 {
        return Unfetchable::NonCanonical;
    }
    if crate::superblock::VSYSCALL.contains(&address) {
        // The kernel's emulation refuses as for a protection fault.
        return Unfetchable::NonCanonical;
    }
    if agent::memory::is_ours(address, address + 1) {
        // Free memory, as the program has it.
        return Unfetchable::Unmapped;
    }
    let page = address & !4095;
    let mut resident = [0u8; 1];
    // SAFETY: asks about one page; the kernel writes one byte.
    let asked = unsafe {
        sys::raw::syscall(
            sys::nr::MINCORE,
            [page as usize, 4096, resident.as_mut_ptr() as usize, 0, 0, 0],
        )
    };
    match sys::check(asked) {
        Err(sys::Errno::ENOMEM) => Unfetchable::Unmapped,
        _ => Unfetchable::Mapped {
            readable: is_readable(address),
        },
    }
}

fn is_readable(addr: u64) -> bool {
    agent::memory::read::<u8>(addr).is_some()
}
