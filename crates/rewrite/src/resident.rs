//! The code that lives in edited programs (crate `resident`), with its configuration.

use wire::counters::{
    BESIDE, CALLS, CONFIGURATION_AT, CONTEXTS, COUNTERS, EVENTS, FOLDER, FUZZER, IN_FOLDER, LANE,
    NOWHERE,
};

use crate::address::New;
use crate::{CounterFiles, Form, Memory};

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
    let (at_in_memory, window, group, path) = match memory.part {
        Some(part) => (part.at, part.window, part.group, part.path),
        None => (memory.at(), memory.window(), 0, ""),
    };
    let folder = match memory.files {
        CounterFiles::Folder(folder) => folder,
        _ => "",
    };
    let place = match memory.files {
        CounterFiles::WorkingFolder | CounterFiles::Folder(_) => IN_FOLDER,
        CounterFiles::Beside => BESIDE,
        CounterFiles::Fuzzer => FUZZER,
        CounterFiles::Nowhere => NOWHERE,
    };
    let form = match memory.form {
        Form::Counters => COUNTERS,
        Form::Lane => LANE,
        Form::Records => CONTEXTS,
        Form::Events => EVENTS,
        Form::Calls => CALLS,
    };
    let numbers = [
        state.0.wrapping_sub(configuration.0),
        configuration.0,
        at_in_memory,
        memory.bytes,
        window,
        group,
        place,
        form,
    ];
    for number in numbers {
        tell(&number.to_le_bytes());
    }
    tell(&id);
    for path in [folder, path] {
        // A zero stays behind it; one that is too long is none.
        let path = if path.len() < FOLDER {
            path.as_bytes()
        } else {
            &[]
        };
        let mut text = [0; FOLDER];
        text[..path.len()].copy_from_slice(path);
        tell(&text);
    }
    code
}
