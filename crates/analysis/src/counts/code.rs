//! The bytes of one instruction, where it stands: a recording has as many as a program
//! has instructions that ran, and an allocation for each is what reports would wait for.

use std::fmt;
use std::ops::Deref;

use isa::insn::MAX_LEN;

/// Bytes of an instruction, at most [`MAX_LEN`].
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Code {
    len: u8,
    bytes: [u8; MAX_LEN],
}

impl Code {
    /// Keeps the first [`MAX_LEN`] bytes: no instruction is longer.
    pub fn new(code: &[u8]) -> Code {
        let len = code.len().min(MAX_LEN);
        let mut bytes = [0; MAX_LEN];
        bytes[..len].copy_from_slice(&code[..len]);
        Code {
            len: len as u8,
            bytes,
        }
    }
}

impl Deref for Code {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}
