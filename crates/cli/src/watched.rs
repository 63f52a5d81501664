//! Variables as memory of the processes of a trace: for `dump --address`, and names of lines that threads share.
//!
//! Limits: variables are those of symbol tables, with static storage; locals and memory from the heap have addresses only.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, bail};
use image::{FileOffset, Image, Images, LinkerSymbol, demangled};
use report::steps::Memory;
use trace::{Process, Recording};

use crate::mistakes;

/// Memory that words mean: `NAME`, `NAME+OFFSET`, `FROM..TO` (both included), or one address.
pub fn memory(
    recording: &Recording,
    path: &Path,
    words: &[String],
    writes: bool,
) -> Result<Memory> {
    let Variables { files, missing } = Variables::of(recording);
    let mut places: BTreeMap<usize, Vec<Range<u64>>> = BTreeMap::new();
    for word in words {
        let found = match range(word)? {
            Some(range) => vec![Some(range); files.len()],
            None => files.iter().map(|files| variable(files, word)).collect(),
        };
        if found.iter().all(Option::is_none) {
            return Err(unknown(path, word, (&files, &missing)));
        }
        for (process, place) in found.into_iter().enumerate() {
            places.entry(process).or_default().extend(place);
        }
    }
    Ok(Memory { places, writes })
}

/// Addresses in numbers; `None`: it is a name.
fn range(word: &str) -> Result<Option<Range<u64>>> {
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse::<u64>().ok(),
    };
    let Some((from, to)) = word.split_once("..") else {
        return Ok(number(word).map(|at| at..at.saturating_add(1)));
    };
    match (number(from), number(to)) {
        (Some(from), Some(to)) if from <= to => Ok(Some(from..to.saturating_add(1))),
        (Some(_), Some(_)) => bail!("--address {word}: {from} comes after {to}"),
        _ => bail!("--address {word}: give a variable, or addresses as 0x1000..0x1007"),
    }
}

/// Variables of the files of each process.
pub struct Variables {
    files: Vec<Vec<File>>,
    /// Paths of files that are not there any more, or others than those that ran.
    missing: BTreeSet<String>,
}

impl Variables {
    pub fn of(recording: &Recording) -> Variables {
        let (images, mut missing) = (Images::new(), BTreeSet::new());
        let processes = recording.processes.iter();
        let files = processes.map(|process| files(process, &images, &mut missing));
        Variables {
            files: files.collect(),
            missing,
        }
    }

    /// Names of those that have bytes of this range, in a process.
    pub fn within(&self, process: usize, range: &Range<u64>) -> Vec<String> {
        let files = self.files.get(process).into_iter().flatten();
        let names = files.flat_map(|file| {
            let own = file.variables.iter();
            let own = own.filter(|one| {
                let start = one.addr.0.wrapping_add(file.bias);
                start < range.end && range.start < start.saturating_add(one.size)
            });
            own.map(name_of)
        });
        names.collect()
    }
}

/// A file that a process has, and how far from where it was linked.
struct File {
    variables: Vec<LinkerSymbol>,
    bias: u64,
}

/// Files of a process, the program first.
fn files(process: &Process, images: &Images, missing: &mut BTreeSet<String>) -> Vec<File> {
    let mut known = BTreeSet::new();
    let mut files = Vec::new();
    for module in &process.modules {
        // Code of no file, as the kernel's, has no path from the root on.
        if !module.path.starts_with('/') || known.contains(&module.path) {
            continue;
        }
        let is_same = |image: &Arc<Image>| match (module.build_id.as_deref(), image.build_id()) {
            (Some(traced), Some(now)) => traced == now,
            _ => true,
        };
        let image = images.open(Path::new(&module.path)).ok();
        let Some(image) = image.filter(is_same) else {
            missing.insert(module.path.clone());
            continue;
        };
        let Some(link) = image.link_addr(FileOffset(module.offset)) else {
            continue;
        };
        known.insert(&module.path);
        files.push((
            module.path != process.exe,
            File {
                variables: variables(&image),
                bias: module.start.wrapping_sub(link.0),
            },
        ));
    }
    files.sort_by_key(|(is_library, _)| *is_library);
    files.into_iter().map(|(_, file)| file).collect()
}

fn variables(image: &Image) -> Vec<LinkerSymbol> {
    // An image that was opened for its code alone may be without the table.
    Image::open_whole(image.path()).map_or_else(|_| Vec::new(), |image| image.variables())
}

/// The name in the source: static variables of functions have a number behind it (`totals.1`).
fn name_of(variable: &LinkerSymbol) -> String {
    let name = demangled(&variable.name);
    match name.rsplit_once('.') {
        Some((bare, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => bare.to_owned(),
        _ => name,
    }
}

/// A variable of a process, or what is behind its beginning.
fn variable(files: &[File], word: &str) -> Option<Range<u64>> {
    let (name, offset) = match word.rsplit_once('+') {
        Some((name, offset)) => (name, range(offset).ok()??.start),
        None => (word, 0),
    };
    files.iter().find_map(|file| {
        let is_it = |one: &&LinkerSymbol| one.name == name || name_of(one) == name;
        let one = file.variables.iter().find(is_it)?;
        let start = one.addr.0.wrapping_add(file.bias);
        let end = start.saturating_add(one.size.max(offset.saturating_add(1)));
        Some(start.saturating_add(offset)..end)
    })
}

fn unknown(
    path: &Path,
    word: &str,
    (files, missing): (&[Vec<File>], &BTreeSet<String>),
) -> anyhow::Error {
    let all = files.iter().flatten().flat_map(|file| &file.variables);
    let names: BTreeSet<String> = all.map(name_of).collect();
    if !missing.is_empty() {
        let missing: Vec<&str> = missing.iter().map(String::as_str).collect();
        return anyhow::anyhow!(
            "'{}': there is no variable '{word}' in the files that are as they ran; not there any more, or others by now, are '{}'",
            path.display(),
            missing.join("', '")
        );
    }
    let near = mistakes::near(word, names.iter().map(String::as_str));
    anyhow::anyhow!(
        "'{}': no file of the run has a variable '{word}' in its symbol table; locals and memory from the heap have \
         addresses only: --address 0x1000..0x1007{}",
        path.display(),
        mistakes::offer(&near)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_addresses_or_names() {
        let of = |word: &str| range(word).ok().flatten();
        assert_eq!(of("0x10..0x1f"), Some(0x10..0x20));
        assert_eq!(of("16..16"), Some(16..17));
        assert_eq!(of("0xff"), Some(255..256));
        assert_eq!(of("counter"), None);
        for odd in ["0x20..0x10", "a..b", "1..", ".."] {
            assert!(range(odd).is_err(), "{odd}");
        }
    }
}
