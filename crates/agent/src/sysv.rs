//! System V shared memory: attaching makes memory appear, with `SHM_REMAP` in
//! place of what is there, with `SHM_EXEC` executable; detaching takes it away.

use sys::{Errno, nr};

use crate::memory;
use crate::procfs;
use crate::regions::Region;
use crate::syscalls::{Effect, Process};

const SHM_RDONLY: u64 = 0o10_000;
const SHM_REMAP: u64 = 0o40_000;
const SHM_EXEC: u64 = 0o100_000;
const IPC_STAT: usize = 2;
/// `struct shmid_ds`, and where its `shm_segsz` is (asm-generic/shmbuf.h).
const SHMID_DS: usize = 112;
const SEGMENT_SIZE: usize = 48;

/// Bytes of a segment, in whole pages; 0 where the kernel does not say, and
/// then it does not attach it either.
fn size(segment: u64) -> u64 {
    let mut about = [0u8; SHMID_DS];
    // SAFETY: the kernel fills `about`.
    let result = unsafe {
        let address = about.as_mut_ptr() as usize;
        sys::raw::syscall(nr::SHMCTL, [segment as usize, IPC_STAT, address, 0, 0, 0])
    };
    let mut size = [0u8; 8];
    size.copy_from_slice(&about[SEGMENT_SIZE..SEGMENT_SIZE + 8]);
    match result {
        0 => u64::from_le_bytes(size).next_multiple_of(4096),
        _ => 0,
    }
}

impl Process {
    pub(crate) fn shmat(&mut self, args: [u64; 6]) -> Effect {
        let [segment, addr, flags, ..] = args;
        let len = size(segment);
        if flags & SHM_REMAP != 0 && memory::is_ours(addr, addr.saturating_add(len)) {
            return Effect::Done(Errno::EINVAL.as_result());
        }
        // SAFETY: the program's own call; it does not touch the engine.
        let result = unsafe { sys::raw::syscall(nr::SHMAT, args.map(|arg| arg as usize)) };
        let Ok(got) = sys::check(result) else {
            return Effect::Done(result);
        };
        let (start, end) = (got as u64, got as u64 + len);
        self.drop_code(start, end);
        self.note_shared(start, end);
        if flags & SHM_EXEC != 0 {
            let write = if flags & SHM_RDONLY == 0 {
                sys::PROT_WRITE
            } else {
                0
            };
            // The execute bit is ours.
            // SAFETY: takes a right from memory that nobody uses yet.
            let _ = unsafe { sys::mprotect(start, len, sys::PROT_READ | write) };
            self.regions.insert(Region {
                start,
                end,
                prot: sys::PROT_READ | write | sys::PROT_EXEC,
                offset: 0,
                table: 0,
                of_file: false,
                fixed: false,
                volatile: true,
            });
        }
        Effect::Invalidate(result, start, end)
    }

    pub(crate) fn shmdt(&mut self, args: [u64; 6]) -> Effect {
        let addr = args[0];
        let before = procfs::mapping_of(addr);
        // SAFETY: the program's own call; the engine attaches no segments.
        let result = unsafe { sys::raw::syscall(nr::SHMDT, args.map(|arg| arg as usize)) };
        match before {
            Some((start, end)) if result == 0 => self.unmapped(result, start, end),
            _ => Effect::Done(result),
        }
    }
}
