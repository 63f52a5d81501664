//! Streams of threads: a lane that is full is written to the file, and is empty again ([`wire::counters::Lane`]).
//!
//! Invariant: killed at any moment, the process leaves a file that has the whole stream, without a byte twice: what was written counts
//! once the head of the file says so, and a lane counts as behind it once its cursor stands at its beginning again.

use wire::counters::{
    CHUNK_HEAD, Configuration, FIRST, FileHeader, Lane, Process, SPARE, STREAM_MAGIC, SlotHead,
    State, StreamHead,
};

use crate::{calls, files};

/// Has an empty lane begin.
///
/// # Safety
/// The memory of a lane is there.
pub unsafe fn begin(lane: u64) {
    // SAFETY: the caller's duty.
    unsafe {
        let cursor = &raw mut (*(lane as *mut Lane)).cursor;
        cursor.write_volatile(-Lane::ROOM.cast_signed());
    }
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
        let written = is_kept && append(state, process, (*slot).slot, (at + Lane::HEAD, bytes, before));
        // Readers take bytes of the lane from now on as those behind the piece.
        let mut word = at + Lane::HEAD;
        while word < at + Lane::HEAD + bytes {
            (word as *mut u64).write_volatile(0);
            word += 8;
        }
        begin(at);
        let total = if written { before + bytes } else { Lane::ENDED };
        (&raw mut (*lane).before).write_volatile(total);
        if is_kept && !written {
            files::lose(process);
        }
    }
}

/// Writes `bytes` at `from` behind the file's last chunk, as those of a thread's stream behind `before` others; whether there was room.
///
/// # Safety
/// The caller has the lock, and can read the bytes.
unsafe fn append(
    state: *mut State,
    process: *mut Process,
    slot: u64,
    (from, bytes, before): (u64, u64, u64),
) -> bool {
    // SAFETY: the header is mapped as long as the process is there, and the path is that of its file.
    unsafe {
        let header = (*process).header as *mut FileHeader;
        if header.is_null() || slot == u64::MAX {
            return false;
        }
        let Some(file) = files::again(state) else {
            return false;
        };
        let head = [
            u64::from_le_bytes(STREAM_MAGIC),
            slot,
            before,
            bytes,
        ];
        let at = (*process).end;
        let size = size_of::<StreamHead>() as u64;
        let all = (size + bytes).next_multiple_of(calls::PAGE);
        let told = calls::lengthen(file, at, all)
            .and_then(|()| calls::write_at(file, from, bytes as usize, at + size))
            .and_then(|()| calls::write_at(file, head.as_ptr() as u64, size as usize, at));
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
