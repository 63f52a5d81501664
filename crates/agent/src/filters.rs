//! The program's filters of system calls (seccomp).
//!
//! Problem: a filter that the program installs is asked about the engine's calls, too, which are
//! none of the program's; and about calls of the program that the engine makes otherwise than
//! they were written, or when it has already done half of them.
//!
//! Approach: the kernel gets each filter with a [`prologue`] that allows what comes through the
//! gate (`sys::gate`). Calls that run in the code cache as they were written are decided by the
//! kernel. The engine keeps copies of the filters, and asks them ([`bpf`]) before it makes a call
//! for the program, which then goes through the gate. What is not allowed is left to the kernel
//! as written, which does whatever the filter says.
//!
//! ```text
//! thread -> newest filter -> before -> ... -> oldest     never freed, shared by threads
//! pool:     count | length, instructions | ...           oldest first, handed over exec
//! ```
//!
//! Limits: filters from before the run are not known; the kernel asks them about the engine.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use sys::gate;
use wire::view::Pool;

use crate::memory;
use crate::thread::Thread;

pub mod bpf;

use bpf::{Data, Insn};

/// Offset of the address in what filters are asked about.
const ADDRESS: u32 = 8;

/// Longest filter that the kernel takes (BPF_MAXINSNS).
pub const MAX: usize = 4096;

/// Verdicts of filters, without the data in the lower half (uapi/linux/seccomp.h).
pub mod action {
    pub const KILL_THREAD: u32 = 0;
    pub const TRAP: u32 = 0x0003_0000;
    pub const ERRNO: u32 = 0x0005_0000;
    pub const USER_NOTIF: u32 = 0x7fc0_0000;
    pub const TRACE: u32 = 0x7ff0_0000;
    pub const LOG: u32 = 0x7ffc_0000;
    pub const ALLOW: u32 = 0x7fff_0000;
    /// Without data.
    pub const FULL: u32 = 0xffff_0000;
}

/// A filter that was installed, as the program wrote it, and those before it.
#[derive(Debug)]
pub struct Filter {
    before: Option<&'static Filter>,
    program: Vec<Insn>,
    /// It, or one before it, looks at the address of the call, which the kernel knows as the
    /// cache's: the kernel asks neither, the engine does what they say.
    pub by_address: bool,
    /// It, or one before it, may end a thread, of which the engine must know.
    kills: bool,
    /// Offset in the pool of the filter with those before it; 0: it is not there yet.
    stored: AtomicU64,
}

impl Filter {
    /// One more than `before`. It is never freed: other threads may use it.
    pub fn add(before: Option<&'static Filter>, program: Vec<Insn>) -> &'static Filter {
        let by_address = before.is_some_and(|before| before.by_address);
        let kills = before.is_some_and(|before| before.kills);
        Box::leak(Box::new(Filter {
            before,
            by_address: by_address || looks_at_address(&program),
            kills: kills
                || program
                    .iter()
                    .any(|insn| insn.may_return(action::KILL_THREAD)),
            program,
            stored: AtomicU64::new(0),
        }))
    }

    /// The filters of a thread.
    pub fn of(thread: &Thread) -> Option<&'static Filter> {
        // SAFETY: null, or a filter, which are never freed.
        unsafe { thread.filters.load(Ordering::Acquire).as_ref() }
    }

    /// Whether they are to be asked about each call, not only about those that the engine makes.
    pub fn wants_all(&self) -> bool {
        self.by_address || self.kills
    }

    /// Their verdict on a call, as in `kernel/seccomp.c:seccomp_run_filters`: the most severe one,
    /// and among equals that of the newest filter.
    pub fn verdict(&self, call: &Data) -> u32 {
        let severity = |verdict: u32| (verdict & action::FULL).cast_signed();
        let mut result = action::ALLOW;
        let mut next = Some(self);
        while let Some(filter) = next {
            let verdict = bpf::run(&filter.program, call);
            if severity(verdict) < severity(result) {
                result = verdict;
            }
            next = filter.before;
        }
        result
    }

    /// Puts them where a program that is exec'd finds them: an offset in the pool; 0 for none,
    /// or if there is no room, and then that program's are not known.
    pub fn store(filters: Option<&'static Filter>, pool: &Pool) -> u64 {
        let Some(newest) = filters else { return 0 };
        let stored = newest.stored.load(Ordering::Relaxed);
        if stored != 0 {
            return stored;
        }
        let mut list: Vec<&Filter> = Vec::new();
        let mut next = Some(newest);
        while let Some(filter) = next {
            list.push(filter);
            next = filter.before;
        }
        let mut bytes = (list.len() as u64).to_ne_bytes().to_vec();
        for filter in list.iter().rev() {
            bytes.extend_from_slice(&(filter.program.len() as u64).to_ne_bytes());
            let words = filter.program.iter().map(Insn::to_word);
            bytes.extend(words.flat_map(u64::to_ne_bytes));
        }
        let Some(offset) = crate::pool::allocate(pool, bytes.len() as u64) else {
            return 0;
        };
        pool.write_bytes(offset, &bytes);
        newest.stored.store(offset, Ordering::Relaxed);
        offset
    }

    /// Reads the filters that [`Filter::store`] wrote at `offset` of the pool.
    pub fn restore(pool: &Pool, offset: u64) -> Option<&'static Filter> {
        let mut at = offset;
        let mut word = || {
            let mut bytes = [0u8; 8];
            pool.read_bytes(at, &mut bytes);
            at += 8;
            u64::from_ne_bytes(bytes)
        };
        let mut newest = None;
        let count = if offset == 0 { 0 } else { word() };
        for _ in 0..count {
            let len = word().min(MAX as u64);
            let program = (0..len).map(|_| Insn::from_word(word())).collect();
            newest = Some(Filter::add(newest, program));
        }
        newest.inspect(|newest| newest.stored.store(offset, Ordering::Relaxed))
    }
}

/// Whether a filter depends on where a call comes from.
fn looks_at_address(program: &[Insn]) -> bool {
    program
        .iter()
        .any(|insn| insn.loads(ADDRESS) || insn.loads(ADDRESS + 4))
}

/// The filter that the kernel gets for one of the program. A filter that looks at the address is
/// there only for the kernel to check; it allows every call.
pub fn for_kernel(program: &[Insn]) -> Vec<Insn> {
    let mut whole = prologue().to_vec();
    if looks_at_address(program) {
        whole.push(bpf::ret(action::ALLOW));
    }
    whole.extend_from_slice(program);
    whole
}

/// Makes them the filters of a thread.
pub fn set(of: &AtomicPtr<Filter>, filter: &'static Filter) {
    of.store(core::ptr::from_ref(filter).cast_mut(), Ordering::Release);
}

/// The instructions before each filter: they allow calls through the gate, and the call that makes
/// the gate in a program that is exec'd. Then the filter begins as if nothing were before it.
pub fn prologue() -> [Insn; 15] {
    use bpf::{equal, load, ret};
    const NUMBER: u32 = 0;
    const ARCH: u32 = 4;
    const FIRST_ARGUMENT: u32 = 16;
    let page = gate::page();
    let mask = !(gate::SIZE as u32 - 1);
    [
        load(ADDRESS + 4),
        equal((page >> 32) as u32, 0, 3),
        load(ADDRESS),
        bpf::and(mask),
        equal(page as u32, 8, 0),
        load(NUMBER),
        equal(sys::nr::MMAP as u32, 0, 7),
        load(FIRST_ARGUMENT),
        equal(gate::PAGE as u32, 0, 5),
        load(FIRST_ARGUMENT + 4),
        equal(0, 0, 3),
        load(ARCH),
        equal(bpf::ARCH_X86_64, 0, 1),
        ret(action::ALLOW),
        bpf::immediate(0),
    ]
}

/// A filter as the program hands it to the kernel (`struct sock_fprog`).
#[derive(Debug)]
pub enum Given {
    /// The kernel will say what is wrong with it.
    Unreadable,
    /// No room for the prologue.
    Long(Vec<Insn>),
    Program(Vec<Insn>),
}

/// Reads it at an address of the program.
pub fn given(at: u64) -> Given {
    let head = memory::read::<u16>(at).zip(memory::read::<u64>(at.wrapping_add(8)));
    let Some((len, start)) = head else {
        return Given::Unreadable;
    };
    let program: Option<Vec<Insn>> = (0..u64::from(len))
        .map(|index| memory::read::<u64>(start.wrapping_add(index * 8)).map(Insn::from_word))
        .collect();
    match program {
        Some(program)
            if (1..=MAX).contains(&program.len()) && for_kernel(&program).len() <= MAX =>
        {
            Given::Program(program)
        }
        Some(program) if (1..=MAX).contains(&program.len()) => Given::Long(program),
        _ => Given::Unreadable,
    }
}

/// Strict seccomp as a filter: four calls are allowed, the others trapped, see [`Thread::strict`].
pub fn strict() -> Vec<Insn> {
    use bpf::{equal, load, ret};
    use sys::nr::{EXIT, READ, RT_SIGRETURN, WRITE};
    let mut program = alloc::vec![load(4), equal(bpf::ARCH_X86_64, 0, 5), load(0)];
    for (left, number) in (0..4).rev().zip([READ, WRITE, EXIT, RT_SIGRETURN]) {
        program.push(equal(number as u32, left + 1, 0));
    }
    program.extend([ret(action::TRAP), ret(action::ALLOW)]);
    program
}

#[cfg(test)]
mod tests;
