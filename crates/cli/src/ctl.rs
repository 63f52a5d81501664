//! `ctl`: beginning and ending a trace while its program runs; counters of edited programs are those of [`crate::snapshots`].
//!
//! A trace that may be asked is found by the file that it is written to.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use launch::{Standing, Wish};
use rustix::process::{Uid, getuid};

use crate::commands::print;
use crate::exit_status::Ending;
use crate::flags::{Ctl, Wanted};
use crate::output::reason;

pub fn ctl(flags: &Ctl) -> Result<Ending> {
    if let Some(done) = crate::snapshots::ctl(flags)? {
        return Ok(done);
    }
    let wish = match flags.wanted {
        Wanted::Start => Wish::Start,
        Wanted::Stop => Wish::Stop,
        Wanted::Toggle => Wish::Toggle,
        Wanted::Status | Wanted::Dump | Wanted::Reset | Wanted::Again => Wish::Status,
    };
    let shown = flags.file.display();
    // Root may ask for others; whose trace it is, its file says.
    let owner = fs::metadata(&flags.file)
        .ok()
        .map(|file| Uid::from_raw(file.uid()));
    let user = getuid();
    let owner = owner.filter(|_| user.is_root()).unwrap_or(user);
    let standing = match launch::ask(&address(&flags.file, owner), wish) {
        Ok(Some(standing)) => standing,
        Ok(None) => bail!(
            "no trace that may be asked is written to '{shown}' now; begin one with \
             `everypath trace --ctl -o {shown} -- PROGRAM`, or --paused"
        ),
        Err(error) => bail!("the trace of '{shown}' does not answer: {}", reason(&error)),
    };
    if flags.quiet {
        return Ok(Ending::Exit(0));
    }
    print(match standing {
        Standing::Tracing => b"tracing\n",
        Standing::Paused => b"paused\n",
    })
}

/// Name of the socket of a trace that this user writes to this file.
pub fn address(file: &Path, user: Uid) -> String {
    let place = place(file);
    // FNV-1a: the same for every build.
    let hash = place.as_os_str().as_bytes().iter();
    let hash = hash.fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("everypath-{}-{hash:016x}", user.as_raw())
}

/// The file's path without links and dots; it need not be there.
fn place(file: &Path) -> PathBuf {
    let folder = file
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = fs::canonicalize(folder.unwrap_or(Path::new(".")));
    match (folder, file.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => file.to_owned(),
    }
}
