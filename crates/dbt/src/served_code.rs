//! Code that another thread of the program has to provide.
//!
//! Problem: a page that userfaultfd serves is there when the thread that reads its messages has
//! put it there. A thread that reads such a page while it holds the engine's lock waits for one
//! that waits for the lock.
//!
//! Approach: from the first descriptor of userfaultfd on, the page of an instruction that a
//! thread goes to is touched before it takes the lock ([`touch`]), as the processor does when it
//! fetches the instruction. Under the lock bytes are read from touched pages only
//! ([`Engine::present_end`]), and a superblock ends where the next page begins, so that no page
//! is asked for which natively would not be. A block whose first page was not touched is one
//! that cannot be fetched: whoever enters it touches the page and translates it anew.
//!
//! Cost: without userfaultfd, a load of one byte per entry to the engine and per superblock.
//! Files that were never written are read as ever: their pages come from the file system.
//!
//! Limits: a page that is taken away between touch and translation. Files whose file system is
//! a thread of the program itself (FUSE).

use core::ops::Range;

use isa::Insn;
use isa::insn::{DecodeError, MAX_LEN};

use crate::engine::{self, Engine};

const PAGE: u64 = 4096;

/// Waits, without the lock, for the instruction at `pc`. The pages that are there.
pub fn touch(pc: u64) -> Range<u64> {
    if !agent::memory::is_served() || !engine::with(|engine| engine.may_be_awaited(pc)) {
        return 0..0;
    }
    let start = pc & !(PAGE - 1);
    let room = (start + PAGE - pc).min(MAX_LEN as u64) as usize;
    let mut bytes = [0; MAX_LEN];
    let got = agent::memory::read_some(pc, &mut bytes[..room]);
    let goes_on = got == room
        && room < MAX_LEN
        && matches!(Insn::decode(&bytes[..got], pc), Err(DecodeError::Truncated));
    if !goes_on {
        return start..start + PAGE;
    }
    agent::memory::read_some(start + PAGE, &mut [0]);
    start..start + 2 * PAGE
}

/// Runs `work` with the engine locked, which may then read the instruction at `pc`.
pub fn with_code_at<R>(pc: u64, work: impl FnOnce(&mut Engine) -> R) -> R {
    let touched = touch(pc);
    engine::with(|engine| {
        engine.scratch.touched = touched;
        engine.process.recognise(pc);
        work(engine)
    })
}

impl Engine {
    /// Whether the page of code at `pc` may have to be provided by a thread of the program.
    fn may_be_awaited(&self, pc: u64) -> bool {
        let region = self.process.regions.find(pc);
        region.is_some_and(|region| !region.fixed || region.volatile)
    }

    /// Whether no instruction at `pc` may be read under the lock.
    pub fn is_awaited(&self, pc: u64) -> bool {
        let end = pc + MAX_LEN as u64;
        agent::memory::is_served() && self.present_end(pc, end) < end
    }

    /// End of the part of the code `pc..end` that may be read under the lock.
    pub fn present_end(&self, pc: u64, end: u64) -> u64 {
        if !agent::memory::is_served() || !self.may_be_awaited(pc) {
            return end;
        }
        match self.scratch.touched.contains(&pc) {
            true => end.min(self.scratch.touched.end),
            false => pc,
        }
    }
}
