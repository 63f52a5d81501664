//! Which files a program starts with: itself, its ELF interpreter, and the
//! libraries that they need, found as the dynamic linker finds them.
//!
//! Limits: folders for variants of the processor (`glibc-hwcaps`) are looked at in the linker's cache only. A file that was
//! not found makes the walk incomplete ([`Closure::complete`]), so that nobody concludes from what is missing.
//!
//! Source: ld.so(8).

use std::collections::{HashSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use image::{Image, Images};

/// Searched after the cache, in the linker's order on 64-bit systems.
const USUAL: &[&str] = &[
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
    "/usr/local/lib",
];
const CACHE: &str = "/etc/ld.so.cache";

/// The files a program starts with.
pub struct Closure {
    /// The program first.
    pub images: Vec<Arc<Image>>,
    /// Whether every one was found and could be read.
    pub complete: bool,
}

pub fn closure(images: &Images, program: &Path) -> Closure {
    let mut walk = Walk::new(images, program);
    Closure {
        images: walk.by_ref().collect(),
        complete: walk.complete,
    }
}

/// Walk over the files that a program loads: in the linker's order, breadth first, the program's
/// interpreter before what it needs. Paths are those the kernel will show.
pub struct Walk<'a> {
    images: &'a Images,
    /// The linker's, read when the first name is looked for.
    cache: Option<Vec<(String, PathBuf)>>,
    seen: HashSet<PathBuf>,
    /// Files, and folders that those which need them say to look in.
    queue: VecDeque<(PathBuf, Vec<PathBuf>)>,
    complete: bool,
}

impl<'a> Walk<'a> {
    pub fn new(images: &'a Images, program: &Path) -> Walk<'a> {
        Walk {
            images,
            cache: None,
            seen: HashSet::new(),
            queue: VecDeque::from([(program.to_path_buf(), Vec::new())]),
            complete: true,
        }
    }

    fn note_needed(&mut self, image: &Image, path: &Path, inherited: Vec<PathBuf>) {
        let interpreter = image.interpreter().map(PathBuf::from);
        self.queue
            .extend(interpreter.map(|path| (path, Vec::new())));
        let (rpath, runpath) = image.search_paths();
        // With the one, the other says nothing.
        let rpath = rpath.filter(|_| runpath.is_none());
        let folders = |paths: Option<&str>| folders(paths.unwrap_or_default(), path);
        let (mut before, behind) = (folders(rpath), folders(runpath));
        before.extend(inherited);
        let first = match runpath {
            Some(_) => &[][..],
            None => &before,
        };
        let cache = self.cache.get_or_insert_with(|| {
            let bytes = fs::read(CACHE).unwrap_or_default();
            cache_entries(&bytes)
        });
        for name in image.needed() {
            match find(name, path, (first, &behind), cache) {
                Some(path) => self.queue.push_back((path, before.clone())),
                None => self.complete = false,
            }
        }
    }
}

impl Iterator for Walk<'_> {
    type Item = Arc<Image>;

    fn next(&mut self) -> Option<Arc<Image>> {
        loop {
            let (path, inherited) = self.queue.pop_front()?;
            let path = real(path);
            if !self.seen.insert(path.clone()) {
                continue;
            }
            if let Ok(image) = self.images.open(&path) {
                self.note_needed(&image, &path, inherited);
                return Some(image);
            }
            self.complete = false;
        }
    }
}

fn real(path: PathBuf) -> PathBuf {
    fs::canonicalize(&path).unwrap_or(path)
}

/// Folders of a list that a file has.
fn folders(list: &str, file: &Path) -> Vec<PathBuf> {
    let origin = file.parent().unwrap_or(Path::new("/")).to_string_lossy();
    let folders = list.split(':').filter(|folder| !folder.is_empty());
    let folders = folders.map(|folder| {
        let folder = folder.replace("${ORIGIN}", &origin);
        let folder = folder.replace("$ORIGIN", &origin);
        folder.replace("${LIB}", LIB).replace("$LIB", LIB)
    });
    folders.map(PathBuf::from).collect()
}

/// The name of a folder for libraries that depends on the system (`$LIB`).
const LIB: &str = "lib/x86_64-linux-gnu";

/// Finds a library; `first` and `behind`: folders before and behind those of LD_LIBRARY_PATH.
fn find(
    name: &str,
    needed_by: &Path,
    (first, behind): (&[PathBuf], &[PathBuf]),
    cache: &[(String, PathBuf)],
) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|path| path.is_file());
    }
    let in_folder = |folder: &PathBuf| folder.join(name);
    // One that is empty is as none; an empty folder in it is the working folder.
    let variable = std::env::var_os("LD_LIBRARY_PATH").filter(|list| !list.is_empty());
    let listed = variable.iter().flat_map(std::env::split_paths);
    let listed = listed.map(|folder| folder.join(name));
    let cached = cache
        .iter()
        .filter(|(cached, _)| cached == name)
        .map(|(_, path)| path.clone());
    let usual = USUAL.iter().map(|folder| Path::new(folder).join(name));
    // Programs that bring their libraries keep them beside.
    let beside = needed_by.parent().map(|folder| folder.join(name));
    let first = first.iter().map(in_folder);
    first
        .chain(listed)
        .chain(behind.iter().map(in_folder))
        .chain(cached)
        .chain(usual)
        .chain(beside)
        .find(|path| path.is_file())
}

/// Name and path of every x86-64 library in the linker's cache (glibc,
/// sysdeps/generic/dl-cache.h: `struct cache_file_new`, offsets from its start).
fn cache_entries(bytes: &[u8]) -> Vec<(String, PathBuf)> {
    const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
    const HEADER: usize = 48;
    const ENTRY: usize = 24;
    /// `FLAG_X8664_LIB64 | FLAG_ELF_LIBC6`.
    const X86_64: u32 = 0x0303;
    // Old caches hold the old form first; the new one begins at its magic.
    let Some(start) = bytes
        .windows(MAGIC.len())
        .position(|window| window == MAGIC)
    else {
        return Vec::new();
    };
    let cache = &bytes[start..];
    let word = |at: usize| {
        let bytes = cache.get(at..at + 4)?;
        Some(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    };
    let text = |at: u32| {
        let rest = cache.get(at as usize..)?;
        let end = rest.iter().position(|byte| *byte == 0)?;
        Some(String::from_utf8_lossy(&rest[..end]).into_owned())
    };
    let entry = |index: usize| {
        let at = HEADER + index * ENTRY;
        let (flags, key, value) = (word(at)?, word(at + 4)?, word(at + 8)?);
        (flags == X86_64).then_some(())?;
        Some((text(key)?, PathBuf::from(text(value)?)))
    };
    let count = word(MAGIC.len()).unwrap_or(0) as usize;
    (0..count.min(cache.len() / ENTRY))
        .filter_map(entry)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dynamic_program_needs_its_interpreter_and_libc() {
        let closure = closure(&Images::new(), Path::new("/bin/sh"));
        assert!(closure.complete);
        let names: Vec<String> = closure
            .images
            .iter()
            .map(|image| image.path().display().to_string())
            .collect();
        assert!(
            names.iter().any(|name| name.contains("ld-linux-x86-64")),
            "{names:?}"
        );
        assert!(
            names.iter().any(|name| name.contains("libc.so.6")),
            "{names:?}"
        );
    }

    #[test]
    fn folders_are_relative_to_the_file() {
        let list = "$ORIGIN/../lib::/opt/$LIB:${ORIGIN}";
        let expected = ["/a/b/../lib", "/opt/lib/x86_64-linux-gnu", "/a/b"];
        assert_eq!(
            folders(list, Path::new("/a/b/c")),
            expected.map(PathBuf::from)
        );
        assert_eq!(folders("", Path::new("/a")), [] as [PathBuf; 0]);
    }

    #[test]
    fn a_damaged_cache_has_no_entries() {
        let mut bytes = b"glibc-ld.so.cache1.1".to_vec();
        bytes.extend([0xff; 64]);
        assert_eq!(cache_entries(&bytes), []);
        assert_eq!(cache_entries(b""), []);
    }
}
