//! The file beside a trace: how many instructions are before each keyframe, as far as
//! somebody has counted them.
//!
//! ```text
//!   header NUMB
//! ```
//!
//! Problem: who asks for the N-th instruction has to count those before it, and whoever asks
//! next would do so again. The trace is the user's: it may be read by others, be
//! on a disk that cannot be written, or still grow.
//!
//! Approach: what was counted is kept in a file of its own, with what tells its trace from
//! others ([`Identity`]). It is no more than a memory: without it all is as before.
//!
//! Invariant: a file that is damaged, or of another trace, changes nothing.

use std::collections::BTreeMap;
use std::io::{BufReader, Read, Write};

use super::chunk::{Chunks, Kind, write_chunk};
use super::codec::{Decoder, Encoder};
use super::{read, write};
use crate::error::{ReadError, WriteError};
use crate::model::Recording;

/// First bytes of such a file.
pub(super) const MAGIC: [u8; 8] = *b"\x89EVI\r\n\x1a\n";
const VERSION: u32 = 1;

/// Identity of the file that a recording was read from: each chunk has a checksum in its
/// header, and this is a checksum of the headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Bytes of whole chunks, and what is before them.
    pub bytes: u64,
    /// CRC-32C of their headers.
    pub sum: u32,
}

/// Instructions before a keyframe of a thread.
type Number = (usize, u64);

/// Writes what is known of how many instructions are before keyframes.
pub fn write_index(
    recording: &Recording,
    identity: Identity,
    out: &mut impl Write,
) -> Result<(), WriteError> {
    let mut numbers = Encoder::default();
    numbers.uint(identity.bytes);
    numbers.uint(identity.sum.into());
    for (of_process, process) in recording.processes.iter().enumerate() {
        for (of_thread, thread) in process.threads.iter().enumerate() {
            let keyframes = thread.keyframes.iter().enumerate();
            let known = keyframes.filter_map(|(at, keyframe)| Some((at, keyframe.insns?)));
            let known: Vec<Number> = known.collect();
            if known.is_empty() {
                continue;
            }
            numbers.uint(of_process as u64);
            numbers.uint(of_thread as u64);
            let (mut next, mut before) = (0, 0u64);
            numbers.list(&known, |out, &(at, insns)| {
                out.uint((at - next) as u64);
                out.uint(insns.wrapping_sub(before));
                (next, before) = (at + 1, insns);
            });
        }
    }
    let mut file = write::header_of(MAGIC, VERSION);
    write_chunk(&mut file, Kind::NUMB, &numbers.bytes)?;
    out.write_all(&file)?;
    Ok(())
}

/// Takes over what such a file says of keyframes that have no number. `false`: it is about
/// another trace.
pub fn read_index(
    recording: &mut Recording,
    identity: Identity,
    input: impl Read,
) -> Result<bool, ReadError> {
    let mut chunks = Chunks::new(BufReader::new(input));
    read::header_of(&mut chunks, MAGIC, VERSION)?;
    let chunk = chunks.next()?;
    if chunk.kind != Kind::NUMB {
        return Err(read::unexpected(&chunk));
    }
    if let Some(loss) = read::trailing(&mut chunks) {
        return Err(loss.error);
    }
    let mut input = Decoder::new(&chunk);
    let found = Identity {
        bytes: input.uint()?,
        sum: input.u32()?,
    };
    if found != identity {
        return Ok(false);
    }
    let mut all = BTreeMap::new();
    while !input.is_empty() {
        let whose = (input.u32()? as usize, input.u32()? as usize);
        let process = recording.processes.get(whose.0);
        let thread = process.and_then(|process| process.threads.get(whose.1));
        let Some(thread) = thread else {
            return Err(input.malformed("it has numbers of a thread that is not there"));
        };
        let mut known: Vec<_> = thread.keyframes.iter().map(|known| known.insns).collect();
        for (at, insns) in numbers(&mut input, known.len())? {
            known[at].get_or_insert(insns);
        }
        if !known.iter().flatten().is_sorted() {
            return Err(input.malformed("its numbers are not those of the trace"));
        }
        if all.insert(whose, known).is_some() {
            return Err(input.malformed("it has a thread twice"));
        }
    }
    for ((process, thread), known) in all {
        let thread = &mut recording.processes[process].threads[thread];
        for (keyframe, insns) in thread.keyframes.iter_mut().zip(known) {
            keyframe.insns = insns;
        }
    }
    Ok(true)
}

/// Numbers of instructions of a thread with so many keyframes.
fn numbers(input: &mut Decoder<'_>, keyframes: usize) -> Result<Vec<Number>, ReadError> {
    let (mut next, mut before) = (0usize, 0u64);
    input.list(|input| {
        let at = next.saturating_add(input.u32()? as usize);
        let insns = before.checked_add(input.uint()?);
        let insns =
            insns.ok_or_else(|| input.malformed("it has more instructions than 64 bits"))?;
        if at >= keyframes {
            return Err(input.malformed("it has numbers of keyframes that are not there"));
        }
        (next, before) = (at + 1, insns);
        Ok((at, insns))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyframe::Keyframe;
    use crate::model::{Process, Thread};

    /// Reads an index that says of threads how many instructions precede some of
    /// their keyframes, for a recording with two keyframes.
    fn read(says: &[(u64, u64, &[Number])]) -> Result<Vec<Option<u64>>, ReadError> {
        let mut recording = Recording {
            processes: vec![Process {
                threads: vec![Thread {
                    keyframes: vec![Keyframe::default(); 2],
                    ..Thread::default()
                }],
                ..Process::default()
            }],
            ..Recording::default()
        };
        let mut all = Encoder::default();
        all.uint(0);
        all.uint(0);
        for &(process, thread, numbers) in says {
            all.uint(process);
            all.uint(thread);
            all.list(numbers, |out, &(skipped, more)| {
                out.uint(skipped as u64);
                out.uint(more);
            });
        }
        let mut file = write::header_of(MAGIC, VERSION);
        write_chunk(&mut file, Kind::NUMB, &all.bytes).unwrap();
        let bare = recording.clone();
        let read = read_index(&mut recording, Identity::default(), &file[..]);
        if read.is_err() {
            assert_eq!(recording, bare);
        }
        let known = &recording.processes[0].threads[0].keyframes;
        read.map(|_| known.iter().map(|keyframe| keyframe.insns).collect())
    }

    #[test]
    fn numbers_that_cannot_be_of_the_trace_are_refused() {
        let both = read(&[(0, 0, &[(0, 5), (0, 7)])]);
        assert_eq!(both.unwrap(), [Some(5), Some(12)]);
        let second = read(&[(0, 0, &[(1, 5)])]);
        assert_eq!(second.unwrap(), [None, Some(5)]);
        for refused in [
            &[(0, 1, &[][..])][..],
            &[(1, 0, &[])],
            &[(0, 0, &[(2, 5)])],
            &[(0, 0, &[(0, 5)]), (0, 0, &[(1, 4)])],
            &[(0, 0, &[(0, 5), (0, u64::MAX)])],
        ] {
            assert!(read(refused).is_err(), "{refused:?}");
        }
    }
}
