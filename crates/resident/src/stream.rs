//! Streams of threads: a lane that is full is written to the file, and is empty again ([`wire::counters::Lane`]).
//!
//! Invariant: killed at any moment, the process leaves a file that has the whole stream, without a byte twice: what was written counts
//! once the head of the file says so, and a lane counts as behind it once its cursor stands at its beginning again.

use wire::counters::{
    CHUNK_HEAD, Configuration, FIRST, FileHeader, Lane, Process, SPARE, STREAM_MAGIC, Scratch,
    SlotHead, State, StreamHead,
};
use wire::pack;

use crate::{calls, files, memory};

/// Number of pieces that are written as they are behind one that compression makes less than three times shorter: to write it
/// costs less then than to compress it.
const PLAIN: u64 = 31;

/// Has the lane of the thread with this thread pointer begin.
///
/// # Safety
/// The memory of a lane is there.
pub unsafe fn begin(lane: u64, pointer: u64) {
    // SAFETY: the caller's duty.
    unsafe {
        let lane = lane as *mut Lane;
        (&raw mut (*lane).pointer).write_volatile(pointer);
        empty(lane);
    }
}

/// Has an empty lane begin.
///
/// # Safety
/// The memory of a lane is there.
unsafe fn empty(lane: *mut Lane) {
    // SAFETY: the caller's duty.
    unsafe { (&raw mut (*lane).cursor).write_volatile(-Lane::ROOM.cast_signed()) }
}

/// Writes the calling thread's lane to the file, if it is full.
///
/// # Safety
/// The caller has the lock, and its memory at `%gs`.
pub unsafe fn write(configuration: &Configuration, state: *mut State) {
    // SAFETY: the thread appended to its lane, so it is there.
    unsafe {
        let slot = calls::gs();
        let at = slot + FIRST + configuration.at;
        let lane = at as *mut Lane;
        let cursor = (&raw mut (*lane).cursor).read_volatile();
        // A handler of a signal may have come here before.
        if cursor < 0 {
            return;
        }
        let behind = Lane::BYTES - Lane::HEAD - Lane::ROOM;
        let bytes = Lane::ROOM + cursor.cast_unsigned().min(behind);
        let before = (*lane).before;
        let process = (*state).process as *mut Process;
        let is_kept = !process.is_null() && slot != state as u64 + SPARE && before != Lane::ENDED;
        let slot = slot as *const SlotHead;
        let head = StreamHead {
            magic: STREAM_MAGIC,
            slot: (*slot).slot,
            before,
            bytes,
            stored: bytes,
        };
        let written = is_kept && append(state, process, head, at + Lane::HEAD);
        // Readers take bytes of the lane from now on as those behind the piece.
        let mut word = at + Lane::HEAD;
        while word < at + Lane::HEAD + bytes {
            (word as *mut u64).write_volatile(0);
            word += 8;
        }
        empty(lane);
        let total = if written { before + bytes } else { Lane::ENDED };
        (&raw mut (*lane).before).write_volatile(total);
        if is_kept && !written {
            files::lose(process);
        }
    }
}

/// Writes a piece, whose bytes are at an address, behind the file's last chunk; whether there was room.
///
/// # Safety
/// The caller has the lock, and can read the bytes.
unsafe fn append(
    state: *mut State,
    process: *mut Process,
    mut head: StreamHead,
    from: u64,
) -> bool {
    // SAFETY: the header is mapped as long as the process is there, and the path is that of its file. Nobody else has the scratch
    // memory, and nobody changes bytes of the lane before its cursor but the thread, which is here.
    unsafe {
        if (*process).scratch == 0 {
            let new = calls::memory_kept(size_of::<Scratch>() as u64);
            (*process).scratch = new.unwrap_or(0);
        }
        let scratch = (*process).scratch as *mut Scratch;
        if scratch.is_null() || head.bytes > Lane::BYTES {
            return false;
        }
        let bytes = core::slice::from_raw_parts(from as *const u8, head.bytes as usize);
        let (to, table) = (&mut (*scratch).bytes, &mut (*scratch).table);
        let room = bytes.len().saturating_sub(1);
        let mut packed = None;
        if (*process).plain > 0 {
            (*process).plain -= 1;
        } else {
            memory::clear(table);
            let to = to.get_mut(..room);
            packed = to.and_then(|to| pack::pack(bytes, to, table, memory::copy));
            if packed.is_none_or(|len| 3 * len > bytes.len()) {
                (*process).plain = PLAIN;
            }
        }
        match packed {
            Some(len) => head.stored = len as u64,
            None => memory::copy(to, bytes),
        }
        let stored = size_of::<StreamHead>() as u64 + head.stored;
        (*scratch).head = head;
        let header = (*process).header as *mut FileHeader;
        if header.is_null() || (*scratch).head.slot == u64::MAX {
            return false;
        }
        let Some(file) = files::again(state) else {
            return false;
        };
        let at = (*process).end;
        let all = stored.next_multiple_of(calls::PAGE);
        let told = calls::may_end_at(at + all)
            .and_then(|()| calls::write_at(file, scratch as u64, stored as usize, at));
        calls::close(file);
        if told.is_err() {
            return false;
        }
        (*process).end = at + all;
        (&raw mut (*header).chunks).write_volatile((*header).chunks + 1);
        true
    }
}

const _: () = assert!(Lane::HEAD + Lane::ROOM < Lane::BYTES && CHUNK_HEAD == calls::PAGE);
