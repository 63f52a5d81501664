//! Debian packages with the symbols of files that have none.
//!
//! Which package a file is of is read from the lists of the package manager; by Debian's rule
//! the symbols of `PACKAGE` are in `PACKAGE-dbgsym`, but for the C library.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Folder with a list of files for each installed package.
const LISTS: &str = "/var/lib/dpkg/info";

/// A sentence on where names for these files are to be had; `None` without files.
pub fn note(files: &[&str]) -> Option<String> {
    if files.is_empty() {
        return None;
    }
    let names = files.iter().map(|file| trace::base_name(file));
    let names = names.collect::<Vec<_>>().join(", ");
    let packages = packages(Path::new(LISTS), files);
    let (has, its) = match files.len() {
        1 => ("has", "its"),
        _ => ("have", "their"),
    };
    let remedy = match packages.is_empty() {
        true => "a build that is not stripped shows them".to_owned(),
        false => {
            let packages = packages.into_iter().collect::<Vec<_>>();
            match packages.as_slice() {
                [package] => format!("the debug package {package} shows them"),
                packages => format!("the debug packages {} show them", packages.join(", ")),
            }
        }
    };
    Some(format!(
        "{names} {has} few or no symbols, so {its} functions have no names; {remedy}"
    ))
}

/// Debug packages of the packages that `files` are of.
fn packages(lists: &Path, files: &[&str]) -> BTreeSet<String> {
    let Ok(entries) = fs::read_dir(lists) else {
        return BTreeSet::new();
    };
    let mut found = BTreeSet::new();
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(package) = name.to_str().and_then(|name| name.strip_suffix(".list")) else {
            continue;
        };
        // A list that cannot be read tells nothing.
        let list = fs::read_to_string(entry.path()).unwrap_or_default();
        let owns = |file: &&str| list.lines().any(|line| is_same(line, file));
        if files.iter().any(owns) {
            let package = package.split(':').next().unwrap_or(package);
            found.insert(match package {
                "libc6" => "libc6-dbg".to_owned(),
                package => format!("{package}-dbgsym"),
            });
        }
    }
    found
}

/// Packages list `/lib/...` where it has become a link to `/usr/lib/...`.
fn is_same(listed: &str, file: &str) -> bool {
    listed == file || file.strip_prefix("/usr") == Some(listed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_package_of_a_file_is_that_whose_list_has_it() {
        let folder = std::env::temp_dir().join(format!("everypath-lists-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("ripgrep.list"), "/.\n/usr/bin\n/usr/bin/rg\n").unwrap();
        fs::write(folder.join("libc6:amd64.list"), "/lib/x/libc.so.6\n").unwrap();
        fs::write(folder.join("ripgrep.md5sums"), "/usr/bin/rg\n").unwrap();
        let of = |files: &[&str]| packages(&folder, files).into_iter().collect::<Vec<_>>();
        assert_eq!(of(&["/usr/bin/rg"]), ["ripgrep-dbgsym"]);
        assert_eq!(of(&["/usr/lib/x/libc.so.6", "/usr/bin/r"]), ["libc6-dbg"]);
        assert!(of(&["/opt/rg"]).is_empty());
        fs::remove_dir_all(&folder).unwrap();
        let note = note(&["/no/such/program"]).unwrap();
        assert!(
            note.ends_with("a build that is not stripped shows them"),
            "{note}"
        );
    }
}
