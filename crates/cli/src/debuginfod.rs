//! Debug files of stripped programs from the servers that `DEBUGINFOD_URLS` names.
//!
//! Problem: distributions strip programs and libraries, so their functions have no names, and packages with the names
//! have to be installed by somebody who knows which.
//!
//! Approach: before the program starts, `debuginfod-find` (elfutils) is asked for the debug files of the stripped ones
//! among the program and the libraries it starts with. It keeps them in its cache, in which [`image`] looks for debug files as
//! in the system's. Nobody is asked unless that variable is set.
//!
//! Limits: libraries that the program loads while it runs, and other programs that it executes, are not asked for, but
//! if they are in the cache they are found. What a server does not have is not said.

use std::path::Path;
use std::process::{Command, Stdio};

use image::{Image, Images};

use crate::libraries;
use crate::progress::Progress;

/// The variable that names servers, with spaces between them.
const SERVERS: &str = "DEBUGINFOD_URLS";
/// The command that asks them.
const CLIENT: &str = "debuginfod-find";

/// Fetches what has no names here, and says on standard error why it cannot.
pub fn fetch(program: &Path, quiet: bool) {
    let servers = std::env::var(SERVERS).unwrap_or_default();
    if servers.trim().is_empty() {
        return;
    }
    // Not those of the run: what they found out about debug files stays.
    let images = Images::new();
    let closure = libraries::closure(&images, program);
    let progress = Progress::new(quiet);
    progress.says("asking for names (DEBUGINFOD_URLS)");
    for image in closure.images.iter().filter(|image| is_nameless(image)) {
        let id = image.build_id().unwrap_or_default();
        let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut client = Command::new(CLIENT);
        client.args(["debuginfo", &hex]).stdin(Stdio::null());
        let asked = client.stdout(Stdio::null()).stderr(Stdio::null()).status();
        if let Err(error) = asked {
            if !quiet {
                say!(
                    "everypath: {SERVERS} is set, but {CLIENT} cannot be run ({error}), so no names are fetched; on Debian it is \
                     in the package debuginfod"
                );
            }
            return;
        }
    }
}

/// Whether a file was stripped, and the system has no debug file of it.
fn is_nameless(image: &Image) -> bool {
    image.build_id().is_some() && image.linker_symbols().is_empty() && image.debug_file().is_none()
}
