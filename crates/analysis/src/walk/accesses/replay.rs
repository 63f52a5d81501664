//! A thread's stores made again: what it reads has to be what it wrote.
//!
//! Problem: a trace with values has nothing beside it that says they are right.
//!
//! Approach: each byte that the thread writes is remembered until a system call, a signal, or
//! anything else by which others may write its memory. A byte that is read and remembered has to be the
//! same.
//!
//! Limits: another thread, another process, or a second mapping of the same memory may have written in
//! between; then bytes differ, and nothing is wrong.

use std::collections::HashMap;

use isa::Flow;

use super::super::Step;
use super::{Accessed, Bytes, Value};

const PAGE: u64 = 4096;

/// Comparison of what a thread read with what it had written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Bytes that were read and remembered.
    pub bytes: u64,
    /// Number of those that were not as written.
    pub unequal: u64,
    /// Instructions and address of the first of those.
    pub first: Option<(u64, u64)>,
}

/// Bytes of a page, each with the time at which it was written.
struct Page {
    bytes: [u8; PAGE as usize],
    times: [u32; PAGE as usize],
}

/// Memory as a thread has written it.
#[derive(Default)]
pub(super) struct Memory {
    pages: HashMap<u64, Box<Page>>,
    /// Bytes of earlier times are not remembered. 0: nothing is.
    now: u32,
    insns: u64,
    pub replayed: Replayed,
}

impl Memory {
    /// Others may have written anything.
    pub fn forget(&mut self) {
        self.now = match self.now.checked_add(1) {
            Some(now) => now,
            None => {
                self.pages.clear();
                1
            }
        };
    }

    /// These were executed.
    pub fn execute(&mut self, steps: &[Step], accesses: &[Accessed], bytes: Bytes<'_>) {
        if self.now == 0 {
            self.forget();
        }
        let mut rest = accesses.iter().peekable();
        for (at, step) in (0..).zip(steps) {
            while let Some(accessed) = rest.next_if(|accessed| accessed.step == at) {
                self.access(accessed, bytes);
            }
            self.insns += 1;
            if matches!(step.flow, Flow::Syscall | Flow::Int80 | Flow::Far(_)) {
                self.forget();
            }
        }
    }

    fn access(&mut self, accessed: &Accessed, bytes: Bytes<'_>) {
        let kind = accessed.access.kind;
        for number in 0..accessed.times {
            let access = accessed.at(number);
            if let Some(value) = accessed.read {
                self.compare(access.address, bytes.of(value));
            }
            if kind.writes() {
                self.write(access.address, access.size, accessed.written, bytes);
            }
        }
    }

    fn compare(&mut self, address: u64, bytes: &[u8]) {
        for (at, &byte) in (0..).zip(bytes) {
            let address = address.wrapping_add(at);
            let (page, within) = (address / PAGE, (address % PAGE) as usize);
            let Some(page) = self.pages.get(&page) else {
                continue;
            };
            if page.times[within] == self.now {
                self.replayed.bytes += 1;
                if page.bytes[within] != byte {
                    self.replayed.unequal += 1;
                    self.replayed.first.get_or_insert((self.insns, address));
                }
            }
        }
    }

    fn write(&mut self, address: u64, size: u32, value: Option<Value>, bytes: Bytes<'_>) {
        if size == 0 {
            // Nobody knows how much.
            return self.forget();
        }
        let value = value.map(|value| bytes.of(value));
        let mut known = value.into_iter().flatten();
        for at in 0..u64::from(size) {
            let address = address.wrapping_add(at);
            let (number, within) = (address / PAGE, (address % PAGE) as usize);
            match known.next() {
                Some(&byte) => {
                    let page = self.pages.entry(number).or_insert_with(|| {
                        Box::new(Page {
                            bytes: [0; PAGE as usize],
                            times: [0; PAGE as usize],
                        })
                    });
                    (page.bytes[within], page.times[within]) = (byte, self.now);
                }
                None => {
                    if let Some(page) = self.pages.get_mut(&number) {
                        page.times[within] = 0;
                    }
                }
            }
        }
    }
}
