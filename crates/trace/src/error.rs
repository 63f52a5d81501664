//! Why a recording could not be written or read.

use std::io;

use crate::container::{Kind, MAX_RAW, MAX_SHARED, VERSION};

/// Why [`write`](crate::write) stopped. What was written until then can be
/// read with [`read_prefix`](crate::read_prefix).
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error("The recording could not be written: {0}. Free some space or choose another place.")]
    Io(#[from] io::Error),
    #[error(
        "A {kind} chunk of {bytes} bytes does not fit the format's limit of {MAX_RAW}: \
         a name or command line is too long. Shorten the command line."
    )]
    TooLarge { kind: Kind, bytes: usize },
    #[error(
        "The recording is not consistent: {what} {index} is out of order. \
         This is a mistake in the program that made it; please report it."
    )]
    Inconsistent { what: &'static str, index: usize },
    #[error(
        "Forked processes share more than {MAX_SHARED} pieces of code, targets and mappings, \
         the format's limit. Record fewer of them, with --follow-children no."
    )]
    TooShared,
    #[error("The limit of the recording is reached.")]
    Limit,
}

/// Why a file could not be read as a recording. `at` is the offset of the
/// chunk in the file.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("The file could not be read: {0}. Check the file and the disk it is on.")]
    Io(#[from] io::Error),
    #[error(
        "This is not an Everypath recording: it does not begin as an .evp file does. \
         Give a file that -o FILE.evp of `everypath contexts`, `count` or `trace` wrote."
    )]
    NotARecording,
    #[error("The header of the recording is damaged. Copy the file again from where it was made.")]
    DamagedHeader,
    #[error(
        "The recording has format version {found}, and this build reads versions up to {VERSION}. \
         Read it with the Everypath that wrote it or a newer one."
    )]
    UnknownVersion { found: u32 },
    #[error(
        "The recording ends early, at byte {at}: it was cut off while written or copied. \
         Copy it again from where it was made."
    )]
    Truncated { at: u64 },
    #[error(
        "The recording was not finished: everypath was killed, or is still recording, or the file was cut.{}",
        torn_chunk(*torn)
    )]
    Unfinished {
        /// Bytes of a chunk that is not there to its end.
        torn: u64,
    },
    #[error(
        "The {kind} chunk at byte {at} is damaged: its checksum does not match. \
         Copy the file again from where it was made."
    )]
    Checksum { kind: Kind, at: u64 },
    #[error(
        "The {kind} chunk at byte {at} declares {bytes} bytes, more than the format allows. \
         The file is damaged or was made to exhaust memory; do not trust it."
    )]
    TooLarge { kind: Kind, at: u64, bytes: u64 },
    #[error(
        "The {kind} chunk at byte {at} does not decompress to the size it declares. \
         Copy the file again from where it was made."
    )]
    Compression { kind: Kind, at: u64 },
    #[error(
        "The {kind} chunk at byte {at} is not what the format says: {what}. \
         It was written by a faulty or a different program; make the recording again."
    )]
    Malformed {
        kind: Kind,
        at: u64,
        what: &'static str,
    },
    #[error(
        "The chunk at byte {at} is of kind {kind}, which this build does not know. \
         Read the file with the Everypath that wrote it or a newer one."
    )]
    UnknownChunk { kind: Kind, at: u64 },
    #[error(
        "After the end of the recording, at byte {at}, the file goes on. \
         Something was appended to it; cut the file there."
    )]
    TrailingBytes { at: u64 },
}

fn torn_chunk(bytes: u64) -> String {
    match bytes {
        0 => String::new(),
        _ => format!(" Its last {bytes} bytes are the beginning of a chunk and not read."),
    }
}
