//! The code that lives in edited programs (crate `resident`), with its configuration.

use wire::counters::{CONFIGURATION_AT, FOLDER};

use crate::address::New;
use crate::{CounterFiles, Memory};

/// The code; its configuration is zero.
const CODE: &[u8] = include_bytes!(env!("EVERYPATH_RESIDENT"));

/// The name of its section.
pub const SECTION: &str = ".everypath.resident";
pub const ALIGN: u64 = 16;

/// The code at an address, whose state is at another one.
pub fn at(addr: New, state: New, id: [u8; 16], memory: Memory<'_>) -> Vec<u8> {
    let mut code = CODE.to_vec();
    let configuration = addr + CONFIGURATION_AT as u64;
    let mut at = CONFIGURATION_AT;
    let mut tell = |bytes: &[u8]| {
        code[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    };
    tell(&state.0.wrapping_sub(configuration.0).to_le_bytes());
    tell(&configuration.0.to_le_bytes());
    tell(&memory.bytes.to_le_bytes());
    tell(&id);
    tell(&u64::from(memory.files == CounterFiles::Beside).to_le_bytes());
    if let CounterFiles::Folder(path) = memory.files {
        // A zero stays behind it.
        tell(&path.as_bytes()[..path.len().min(FOLDER - 1)]);
    }
    code
}
