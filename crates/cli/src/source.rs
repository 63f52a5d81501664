//! Source files, which names in a recording or in a line table lead to.
//!
//! Problem: such a name may be anybody's, and what it leads to may wait for ever (a FIFO),
//! do something when it is opened (a device), never end, or be no source at all.
//!
//! Approach: only a regular file is opened, and what was opened is looked at again; no
//! more than [`LARGEST`] bytes are read, and bytes with a zero among them are no text. Where
//! the line table says what the file was when it was compiled, that is compared.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

use image::SourceStamp;
use md5::{Digest, Md5};

/// Larger files are no source that somebody wrote.
const LARGEST: u64 = 16 << 20;

/// Result of looking for a source file.
pub enum Source {
    Lines(Vec<String>),
    /// It is not what was compiled.
    Changed,
    /// There is no such file, or no text in it.
    None,
}

/// Reads a source file, if it is the one with that stamp.
pub fn read(file: &str, stamp: Option<&SourceStamp>) -> Source {
    let Some((bytes, meta)) = text(file) else {
        return Source::None;
    };
    if stamp.is_some_and(|stamp| !fits(stamp, &bytes, &meta)) {
        return Source::Changed;
    }
    let text = String::from_utf8_lossy(&bytes);
    Source::Lines(text.lines().map(str::to_owned).collect())
}

fn text(file: &str) -> Option<(Vec<u8>, Metadata)> {
    // Opening a device may do something already.
    is_source(&fs::metadata(file).ok()?).then_some(())?;
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let opened: File = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits() as i32)
        .open(file)
        .ok()?;
    let meta = opened.metadata().ok()?;
    is_source(&meta).then_some(())?;
    let mut bytes = Vec::new();
    opened.take(LARGEST + 1).read_to_end(&mut bytes).ok()?;
    let is_text = bytes.len() as u64 <= LARGEST && !bytes.contains(&0);
    is_text.then_some((bytes, meta))
}

/// Files of the kernel's (`/proc`) have no size.
fn is_source(meta: &Metadata) -> bool {
    meta.is_file() && (1..=LARGEST).contains(&meta.len())
}

fn fits(stamp: &SourceStamp, bytes: &[u8], meta: &Metadata) -> bool {
    match (stamp.md5, stamp.modified) {
        (Some(sum), _) => Md5::digest(bytes)[..] == sum,
        (None, Some(modified)) => u64::try_from(meta.mtime()) == Ok(modified),
        (None, None) => true,
    }
}
