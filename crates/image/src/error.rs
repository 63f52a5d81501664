//! Why a file cannot be used.

use std::path::PathBuf;

/// Defect in the bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("the file is empty")]
    Empty,
    #[error("it is not an ELF file: it does not begin with 7f 45 4c 46")]
    NotElf,
    #[error("it is a 32-bit program; only 64-bit x86-64 programs are supported")]
    Not64Bit,
    #[error("it is a big-endian ELF file; x86-64 programs are little-endian")]
    WrongByteOrder,
    #[error(
        "it is built for another machine (ELF machine number {machine}); only x86-64 (62) is supported"
    )]
    ForeignMachine { machine: u16 },
    #[error(
        "it is neither a program nor a shared library (ELF type {kind}): an object file or a core dump cannot be run"
    )]
    NotLoadable { kind: u16 },
    #[error("it is truncated: {what} ends at byte {needed}, but the file has only {present} bytes")]
    Truncated {
        what: &'static str,
        needed: u64,
        present: u64,
    },
    #[error("its {what} cannot be understood")]
    Malformed { what: &'static str },
    #[error("it has no segment to load")]
    NothingToLoad,
}

/// Why a path gave no [`Image`](crate::Image).
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    #[error("cannot read '{}': {source}", path.display())]
    Unreadable {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("cannot use '{}': {fault}", path.display())]
    Unusable { path: PathBuf, fault: Fault },
}

impl ImageError {
    /// The fault of the bytes, when they could be read at all.
    pub fn fault(&self) -> Option<Fault> {
        match self {
            ImageError::Unreadable { .. } => None,
            ImageError::Unusable { fault, .. } => Some(*fault),
        }
    }
}
