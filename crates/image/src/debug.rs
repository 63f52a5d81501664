//! Search for the separate debug file of a binary.
//!
//! gdb's manual, "Debugging Information in Separate Files": by build id under
//! the system's debug directory, else by the name and checksum in
//! `.gnu_debuglink`, beside the binary, in `.debug` beside it, or in the
//! debug directory under the binary's own path. Where `DEBUGINFOD_URLS` names servers, at last in the cache of the
//! client that asks them (debuginfod_find_debuginfo(3)), by build id.
//!
//! Some distributions keep a table of symbols in the binary itself ([`inner`]).

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use object::read::elf::SectionHeader;
use object::{LittleEndian as LE, ReadCache, ReadRef};

use crate::elf::Elf;

/// Most bytes of a symbol table inside a file; more are no symbols of functions only.
const LARGEST_INNER: usize = 1 << 30;

const DEBUG_ROOT: &str = "/usr/lib/debug";

/// The contents of `.gnu_debuglink`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DebugLink {
    pub(crate) file: String,
    pub(crate) crc: u32,
}

impl DebugLink {
    pub(crate) fn read<'d, R: ReadRef<'d>>(elf: &Elf<'d, R>) -> Option<DebugLink> {
        let bytes = elf.section(b".gnu_debuglink")?.data(LE, elf.data).ok()?;
        let end = bytes.iter().position(|&byte| byte == 0)?;
        // The name is padded to four bytes; the checksum follows.
        let at = (end + 4) & !3;
        let crc = bytes.get(at..at + 4)?.try_into().ok()?;
        Some(DebugLink {
            file: String::from_utf8(bytes[..end].to_vec()).ok()?,
            crc: u32::from_le_bytes(crc),
        })
    }
}

/// The file that `.gnu_debugdata` holds, compressed by xz: symbols of functions that are not in the dynamic table (gdb's
/// manual, "MiniDebugInfo").
pub(crate) fn inner<'d, R: ReadRef<'d>>(elf: &Elf<'d, R>) -> Option<Vec<u8>> {
    let bytes = elf.section(b".gnu_debugdata")?.data(LE, elf.data).ok()?;
    let mut file = Limited(Vec::new());
    lzma_rs::xz_decompress(&mut &*bytes, &mut file).ok()?;
    Some(file.0)
}

/// Takes so many bytes and no more.
struct Limited(Vec<u8>);

impl Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > LARGEST_INNER {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The first file that exists and really belongs to the binary.
pub(crate) fn find(
    binary: &Path,
    build_id: Option<&[u8]>,
    link: Option<&DebugLink>,
) -> Option<PathBuf> {
    let by_id = build_id.and_then(by_build_id);
    if let Some(path) = by_id.filter(|path| build_id_of(path).as_deref() == build_id) {
        return Some(path);
    }
    let linked = link.and_then(|link| by_link(binary, build_id, link));
    linked.or_else(|| build_id.and_then(fetched))
}

/// The file that a client of debuginfod has fetched.
fn fetched(id: &[u8]) -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    set("DEBUGINFOD_URLS")?;
    let cache = set("DEBUGINFOD_CACHE_PATH").map(PathBuf::from);
    let home = || set("HOME").map(PathBuf::from);
    let old = || home().map(|home| home.join(".debuginfod_client_cache"));
    let cache = cache.or_else(|| old().filter(|path| path.is_dir()));
    let of_user = || set("XDG_CACHE_HOME").map(PathBuf::from);
    let of_home = || home().map(|home| home.join(".cache"));
    let own = || of_user().or_else(of_home);
    let cache = cache.or_else(|| own().map(|folder| folder.join("debuginfod_client")))?;
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let path = cache.join(hex).join("debuginfo");
    (build_id_of(&path).as_deref() == Some(id)).then_some(path)
}

/// The file that `.gnu_debuglink` names.
fn by_link(binary: &Path, build_id: Option<&[u8]>, link: &DebugLink) -> Option<PathBuf> {
    // A name with directories would leave the places listed above.
    if link.file.contains('/') || link.file.is_empty() {
        return None;
    }
    let folder = binary.parent()?;
    let below_root = Path::new(DEBUG_ROOT).join(folder.strip_prefix("/").unwrap_or(folder));
    [
        folder.join(&link.file),
        folder.join(".debug").join(&link.file),
        below_root.join(&link.file),
    ]
    .into_iter()
    .filter(|path| path != binary)
    .find(|path| belongs(path, build_id, link))
}

fn by_build_id(id: &[u8]) -> Option<PathBuf> {
    let (first, rest) = id.split_first()?;
    if rest.is_empty() || rest.len() > 64 {
        return None;
    }
    let hex: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
    let path = format!("{DEBUG_ROOT}/.build-id/{first:02x}/{hex}.debug");
    Some(PathBuf::from(path))
}

/// Build ids decide when both files have one; they are cheaper than the
/// checksum of the whole file, and stronger.
fn belongs(path: &Path, build_id: Option<&[u8]>, link: &DebugLink) -> bool {
    match (build_id, build_id_of(path)) {
        (Some(ours), Some(theirs)) => ours == theirs,
        _ => std::fs::read(path).is_ok_and(|bytes| crc32fast::hash(&bytes) == link.crc),
    }
}

fn build_id_of(path: &Path) -> Option<Vec<u8>> {
    let file = File::open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let cache = ReadCache::new(file);
    Elf::parse(&cache).ok()?.build_id()
}
