//! Paths that were recorded as text, and are none.
//!
//! Problem: recordings, reports and files of counters have paths as text, in which bytes that are no UTF-8 became U+FFFD;
//! no file has such a name.
//!
//! Approach: where a path has that character and there is no such file, each of its names that has it stands for an
//! entry of its folder that is the same as text. Who opens the file checks that it is the one that ran, as always.
//!
//! Limit: of several such entries the first one that leads on is taken.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// The file that a recorded path means.
pub fn on_disk(path: &Path) -> Cow<'_, Path> {
    let is_lossy = path.to_str().is_some_and(|text| text.contains('\u{FFFD}'));
    let found = || find(PathBuf::new(), &path.components().collect::<Vec<_>>());
    match is_lossy && !path.exists() {
        true => found().map_or(Cow::Borrowed(path), Cow::Owned),
        false => Cow::Borrowed(path),
    }
}

/// The first path below `folder` that is the same as text.
fn find(folder: PathBuf, rest: &[Component<'_>]) -> Option<PathBuf> {
    let Some((name, rest)) = rest.split_first() else {
        return folder.exists().then_some(folder);
    };
    let name = name.as_os_str();
    let is_lossy = |name: &OsStr| name.to_string_lossy().contains('\u{FFFD}');
    if !is_lossy(name) {
        return find(folder.join(name), rest);
    }
    let listed = match folder.as_os_str().is_empty() {
        true => Path::new("."),
        false => &folder,
    };
    let entries = fs::read_dir(listed).ok()?.flatten();
    let mut same =
        entries.filter(|entry| entry.file_name().to_string_lossy() == name.to_string_lossy());
    same.find_map(|entry| find(folder.join(entry.file_name()), rest))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::ffi::OsStringExt;
    use std::path::{Path, PathBuf};

    use super::on_disk;

    #[test]
    fn names_that_are_no_text_are_found_by_what_they_became() {
        let folder = std::env::temp_dir().join(format!("everypath-lossy-{}", std::process::id()));
        let name = |bytes: &[u8]| PathBuf::from(std::ffi::OsString::from_vec(bytes.to_vec()));
        let inside = folder.join(name(b"b\xffd")).join("plain");
        fs::create_dir_all(&inside).unwrap();
        // Another folder of the same text, in which there is no such file.
        fs::create_dir_all(folder.join(name(b"b\xfed"))).unwrap();
        let file = inside.join(name(b"\xe9\xe9.c"));
        fs::write(&file, "x").unwrap();
        let recorded = file.to_string_lossy().into_owned();
        assert_eq!(on_disk(Path::new(&recorded)), file);
        for other in ["/etc/passwd", "/nowhere/\u{FFFD}"] {
            assert_eq!(on_disk(Path::new(other)), Path::new(other));
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
