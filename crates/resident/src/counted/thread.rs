//! A thread whose calls are counted by context: what code in front of its functions does not do itself.
//!
//! Approach: the context's entry is looked for, below the nodes of its records, which may be new as well. The first call of a context is
//! an event of the thread's stream ([`wire::contexts::COUNTED`]), and its counter is mapped from the process's file.

use core::mem::offset_of;

use wire::contexts::{
    BOTTOM, CONTEXT, COPY, COUNTED, Calls, EVENT, Entry, FIRST_CONTEXT, IS_LOST, Kind, LOGGED, MORE,
    MOST_CONTEXTS, MOST_EVENT, NODE_JUMP, NODE_KIND, NODE_UNKNOWN, Record, State as Numbers,
};
use wire::counters::{
    CHUNK_HEAD, COUNTS_BYTES, COUNTS_MAGIC, Configuration, CountsHead, FIRST, FileHeader, Lane, Process,
    SlotHead, State,
};

use super::table::{ENTRY, FIRST_ENTRIES, look_up, table_of};
use crate::{calls, files, stream};

/// The thread that counts. The holder of the lock has it; addresses are valid as long as it has memory.
pub struct Thread<'c> {
    pub configuration: &'c Configuration,
    pub state: *mut State,
    pub process: *mut Process,
    /// Address of its memory.
    pub slot: u64,
    pub calls: *mut Calls,
}

impl Thread<'_> {
    /// A record, by its displacement from `%gs`.
    fn record(&self, at: u64) -> *mut Record {
        (self.slot + at) as *mut Record
    }

    /// The first record from one on down that holds, and is no mark, with its displacement.
    ///
    /// # Safety
    /// There is a record at that displacement; the bottom holds always.
    unsafe fn holding(&self, mut at: u64, stack: u64) -> (u64, *mut Record) {
        // SAFETY: the caller's duty; each record names the one below.
        unsafe {
            loop {
                let record = self.record(at);
                let is_mark = (*record).kind == Kind::Mark as u32;
                if at == BOTTOM || !is_mark && (*record).holds(stack) {
                    return (at, record);
                }
                at = (*record).below.into();
            }
        }
    }

    /// Counts a call.
    ///
    /// # Safety
    /// The thread is at the entry of a function, with this stack pointer.
    pub unsafe fn count(&self, token: u32, stack: u64) {
        // SAFETY: the caller's duty; the memory is the thread's own, and signals are blocked.
        unsafe {
            if (*self.calls).table == 0 && !self.begin() {
                return;
            }
            let own = (self.slot + FIRST) as *const Numbers;
            let (top, record) = self.holding((*own).top, stack);
            let node = match (*own).lost >= stack {
                true => NODE_UNKNOWN,
                false => self.node(top, record),
            };
            let first = u64::from(token) | u64::from(CONTEXT) << 32;
            let Some((counter, is_new)) = self.entry([first, (*own).number, node]) else {
                return;
            };
            if is_new {
                let number = (counter - (*self.calls).counts) / 8;
                let top = if node == NODE_UNKNOWN { BOTTOM } else { top };
                self.define(token, number, stack, top);
            }
            let counter = counter as *mut u64;
            counter.write_volatile(counter.read_volatile() + 1);
        }
    }

    /// The node of a record.
    ///
    /// Records that have none wait for that below: on the way down each is told which one waits for it.
    ///
    /// # Safety
    /// It is one of the thread's.
    unsafe fn node(&self, mut at: u64, mut record: *mut Record) -> u64 {
        // SAFETY: the caller's duty.
        unsafe {
            let mut waits = 0u32;
            let mut node = loop {
                match Kind::of((*record).kind) {
                    Some(Kind::Handler) => break self.handler(record),
                    Some(Kind::Call | Kind::Entered | Kind::EnteredLeaves) => {}
                    _ => break NODE_UNKNOWN,
                }
                let own = node_of(record);
                if *own != 0 {
                    break u64::from(*own);
                }
                *own = waits;
                waits = at as u32;
                match self.caller(record) {
                    Some(Below::Nothing) => break 0,
                    Some(Below::At { stack, .. }) => {
                        (at, record) = self.holding((*record).below.into(), stack);
                    }
                    None => break NODE_UNKNOWN,
                }
            };
            while waits != 0 {
                let record = self.record(waits.into());
                waits = *node_of(record);
                node = match (node, self.caller(record)) {
                    (NODE_UNKNOWN, _) | (_, None) => NODE_UNKNOWN,
                    (parent, Some(below)) => {
                        let by = u64::from((*record).by) << 32;
                        let third = below.word() | u64::from((*record).kind) << NODE_KIND | parent;
                        let words = [u64::from((*record).entry) | by, (*record).number, third];
                        self.entry(words).map_or(NODE_UNKNOWN, |(number, _)| number)
                    }
                };
                *node_of(record) = node as u32;
            }
            node
        }
    }

    /// The caller, as a record says; `None`: it is not known.
    ///
    /// # Safety
    /// It is one of the thread's.
    unsafe fn caller(&self, record: *const Record) -> Option<Below> {
        // SAFETY: the caller's duty.
        unsafe {
            match (*record).kind == Kind::Call as u32 {
                true => Some(Below::At {
                    site: 0,
                    is_jump: false,
                    stack: (*record).level.wrapping_add(8),
                }),
                false => Below::of((*record).site, (*record).level),
            }
        }
    }

    /// The node of a handler's record: two entries, as it has more words.
    ///
    /// # Safety
    /// It is one of the thread's.
    unsafe fn handler(&self, record: *mut Record) -> u64 {
        // SAFETY: the caller's duty. What it calls comes here again for each handler below, of which there are as many as signals.
        unsafe {
            let below = u64::from((*record).below);
            let stack = (*record).stack_before;
            let (at, other) = self.holding(below, stack);
            let parent = self.node(at, other);
            let (word, by_site) = match Below::of((*record).site, stack) {
                None => return NODE_UNKNOWN,
                Some(Below::Nothing) => (0, 0),
                Some(found @ Below::At { stack, .. }) => {
                    let (at, other) = self.holding(below, stack);
                    (found.word(), self.node(at, other))
                }
            };
            if parent == NODE_UNKNOWN || by_site == NODE_UNKNOWN {
                return NODE_UNKNOWN;
            }
            let kind = (Kind::Handler as u64) << NODE_KIND;
            let words = [(*record).interrupted, (*record).number, word | kind | parent];
            let Some((inner, _)) = self.entry(words) else {
                return NODE_UNKNOWN;
            };
            let first = u64::from((*record).entry) | u64::from(CONTEXT - 1) << 32;
            let words = [first, by_site, 7 << NODE_KIND | inner];
            self.entry(words).map_or(NODE_UNKNOWN, |(number, _)| number)
        }
    }

    /// Has the thread's table and counters begin; whether there is memory for them.
    ///
    /// # Safety
    /// There are none.
    unsafe fn begin(&self) -> bool {
        // SAFETY: the caller's duty; new memory.
        unsafe {
            if (*self.calls).limit != 0 {
                return false;
            }
            let counts = calls::memory_kept(8 * MOST_CONTEXTS);
            let table = table_of(FIRST_ENTRIES);
            let (Ok(counts), Some(table)) = (counts, table) else {
                (*self.calls).limit = u64::MAX;
                files::lose(self.process);
                return false;
            };
            (*self.calls).counts = counts;
            (*self.calls).next = FIRST_CONTEXT;
            self.map_counts();
            (&raw mut (*self.calls).table).write_volatile(table);
            true
        }
    }

    /// The value of the entry with these words, and whether it is new; `None`: there is no room for it, and the call is counted as
    /// one of those.
    ///
    /// # Safety
    /// There is a table.
    unsafe fn entry(&self, words: [u64; 3]) -> Option<(u64, bool)> {
        // SAFETY: the caller's duty.
        unsafe {
            let calls = self.calls;
            let mut place = look_up((*calls).table, words);
            if (*place).value != 0 {
                return Some(((*place).value, false));
            }
            let number = (*calls).next;
            let entries = *(((*calls).table - 8) as *const u64) / ENTRY + 1;
            let has_room = number < MOST_CONTEXTS && (2 * number < entries || self.grow(2 * entries));
            if !has_room {
                let missed = (*calls).counts as *mut u64;
                missed.write_volatile(missed.read_volatile() + 1);
                return None;
            }
            place = look_up((*calls).table, words);
            if number >= (*calls).limit {
                self.map_counts();
            }
            (*calls).next = number + 1;
            (*place).words = words;
            let value = match words[0] >> 32 == CONTEXT.into() {
                true => (*calls).counts + 8 * number,
                false => number,
            };
            (&raw mut (*place).value).write_volatile(value);
            Some((value, true))
        }
    }

    /// Makes a table of so many entries with those that there are; whether there was memory for it.
    ///
    /// # Safety
    /// There is a table.
    unsafe fn grow(&self, entries: u64) -> bool {
        let Some(new) = table_of(entries) else {
            return false;
        };
        // SAFETY: the caller's duty; the new table has twice the room.
        unsafe {
            let old = (*self.calls).table;
            let mut at = 0;
            while at <= *((old - 8) as *const u64) {
                let entry = (old + at) as *const Entry;
                if (*entry).value != 0 {
                    *look_up(new, (*entry).words) = *entry;
                }
                at += ENTRY;
            }
            (&raw mut (*self.calls).table).write_volatile(new);
        }
        true
    }

    /// Maps the next piece of counters from the file. Where there is none, or no room, they stay memory.
    ///
    /// # Safety
    /// There are counters, and the holder of the lock is here.
    unsafe fn map_counts(&self) {
        // SAFETY: the caller's duty; the header is mapped as long as the process is there, the path is that of its file, and the
        // memory is the counters'.
        unsafe {
            let first = (*self.calls).limit;
            (*self.calls).limit = first + COUNTS_BYTES / 8;
            let header = (*self.process).header as *mut FileHeader;
            let slot = (*(self.slot as *const SlotHead)).slot;
            if header.is_null() || slot == u64::MAX {
                return;
            }
            let head = CountsHead {
                magic: COUNTS_MAGIC,
                slot,
                first,
            };
            let at = (*self.process).end;
            let mapped = files::again(self.state).is_some_and(|file| {
                let own = (*self.calls).counts + 8 * first;
                let room = calls::lengthen(file, at, CHUNK_HEAD + COUNTS_BYTES);
                let told = room.and_then(|()| {
                    calls::write_at(file, &raw const head as u64, size_of::<CountsHead>(), at)
                });
                let mapped =
                    told.and_then(|()| calls::map_file(own, COUNTS_BYTES, file, at + CHUNK_HEAD));
                calls::close(file);
                mapped.is_ok()
            });
            if !mapped {
                files::lose(self.process);
                return;
            }
            (*self.process).end = at + CHUNK_HEAD + COUNTS_BYTES;
            (&raw mut (*header).chunks).write_volatile((*header).chunks + 1);
        }
    }

    /// Appends the first call of a context to the thread's lane, with those records from one on down that the stream has not yet;
    /// from the bottom on: its context is not known.
    ///
    /// # Safety
    /// The thread has a lane, and no signal comes.
    unsafe fn define(&self, token: u32, number: u64, stack: u64, top: u64) {
        // SAFETY: the caller's duty; behind the end of a full lane there is room for what is appended, as with `log_event`.
        unsafe {
            let own = (self.slot + FIRST) as *const Numbers;
            let lane = (self.slot + FIRST + self.configuration.at) as *mut Lane;
            let mut is_all = false;
            while !is_all {
                let cursor = (&raw mut (*lane).cursor).read_volatile();
                let used = Lane::ROOM.wrapping_add_signed(cursor);
                let event = (lane as u64 + Lane::HEAD + used) as *mut u64;
                let mut words = EVENT;
                let mut at = top;
                while at != BOTTOM && (words as u64) * 8 <= MOST_EVENT {
                    let record = self.record(at);
                    let copy = self.record(at + COPY);
                    if !is_same(&*record, &*copy) {
                        *copy = *record;
                        event.add(words).write_volatile(at);
                        event.add(words + 1).cast::<Record>().write_volatile(*record);
                        words += LOGGED;
                    }
                    at = (*record).below.into();
                }
                is_all = at == BOTTOM;
                let kind = if is_all { COUNTED } else { MORE };
                let is_lost = u32::from(top == BOTTOM) << IS_LOST;
                let bytes = 8 * words as u64;
                let head = u64::from(token) | u64::from(kind | is_lost) << 32 | bytes << 48;
                event.write_volatile(head);
                event.add(1).write_volatile(0);
                event.add(2).write_volatile(stack);
                event.add(3).write_volatile(number);
                event.add(4).write_volatile((*own).number);
                event.add(5).write_volatile((*own).site);
                event.add(6).write_volatile(top);
                event.add(7).write_volatile(0);
                event.add(8).write_volatile(0);
                let cursor = cursor + bytes.cast_signed();
                (&raw mut (*lane).cursor).write_volatile(cursor);
                if cursor >= 0 {
                    stream::write(self.configuration, self.state);
                }
            }
        }
    }
}

/// The number of a record's node, if it is none of a handler.
fn node_of(record: *mut Record) -> *mut u32 {
    (record as u64 + offset_of!(Record, interrupted) as u64) as *mut u32
}

/// Whether a record is as the stream has it.
fn is_same(record: &Record, copy: &Record) -> bool {
    record.level == copy.level
        && record.number == copy.number
        && record.site == copy.site
        && record.entry == copy.entry
        && record.by == copy.by
        && record.below == copy.below
        && record.kind == copy.kind
        && (record.kind != Kind::Handler as u32
            || record.interrupted == copy.interrupted
                && record.stack == copy.stack
                && record.stack_before == copy.stack_before)
}

/// The caller of what a record is of.
#[derive(Clone, Copy)]
enum Below {
    Nothing,
    /// A call with this stack pointer; with 0 for the site, the one that the record names.
    At { site: u32, is_jump: bool, stack: u64 },
}

impl Below {
    /// The call of a site, at a stack pointer in the code that it called; `None`: it is not known.
    fn of(site: u64, stack: u64) -> Option<Below> {
        if site == 0 {
            return Some(Below::Nothing);
        }
        let distance = (site as u32).wrapping_sub(stack as u32).cast_signed();
        (distance >= 0).then(|| Below::At {
            site: (site >> 32) as u32,
            is_jump: distance == 0,
            stack: stack.wrapping_add_signed(distance.into()),
        })
    }

    /// Its part of the third word of an entry.
    fn word(self) -> u64 {
        match self {
            Below::Nothing => 0,
            Below::At { site, is_jump, .. } => {
                u64::from(site) << 32 | u64::from(is_jump) << NODE_JUMP
            }
        }
    }
}
