//! Errors in a stream.

use std::fmt;

use trace::ReadError;

/// Why a stream cannot be read on.
#[derive(Debug)]
pub enum Unsound {
    /// A part of it cannot be decompressed.
    Part(ReadError),
    /// The file has lost what comes next.
    Lost,
    /// It ends within an item.
    Cut,
    /// There is no such item.
    Item(u8),
    /// The code that runs next is not in the recording.
    NoCode(u64),
    /// An indirect branch went to a target, by its number or low bits, that is not listed.
    NoTarget(u32),
    /// There is no fragment with this number.
    NoFragment(u32),
    /// Control does not come to this address, as it should, from there.
    NotThere { from: u64, to: u64 },
    /// An instruction cannot have had the outcome that it should.
    Outcome(u64),
    /// Something is executed before it is said where.
    Nowhere,
    /// This lane differs where all lanes have the same.
    Lane(u8),
    /// A place marked as a keyframe is none, or control does not come there.
    Keyframe,
}

impl fmt::Display for Unsound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unsound::Part(error) => error.fmt(f),
            Unsound::Lost => write!(f, "the file has lost a part of its streams"),
            Unsound::Cut => write!(f, "the stream ends in the middle of an item"),
            Unsound::Item(kind) => write!(f, "the stream has an item of unknown kind {kind}"),
            Unsound::NoCode(pc) => write!(f, "the code at {pc:#x} is not in the recording"),
            Unsound::NoTarget(number) => {
                write!(f, "the target {number:#x} of a branch is not listed")
            }
            Unsound::NoFragment(id) => write!(f, "there is no fragment {id}"),
            Unsound::NotThere { from, to } => {
                write!(f, "control does not come from {from:#x} to {to:#x}")
            }
            Unsound::Outcome(pc) => {
                write!(f, "the branch at {pc:#x} cannot have ended as it should")
            }
            Unsound::Nowhere => write!(f, "the stream does not say where it begins"),
            Unsound::Keyframe => write!(f, "a keyframe does not fit what is before it"),
            Unsound::Lane(lane) => write!(f, "lane {lane} does not fit the others"),
        }
    }
}

impl std::error::Error for Unsound {}
