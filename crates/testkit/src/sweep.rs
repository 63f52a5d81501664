//! Kernel interfaces crossed with classes of instructions.
//!
//! Problem: a program of `tests/programs` shows one behaviour alone. The engine
//! keeps flags, vector and x87 registers, masks and segment bases where the
//! program and the kernel meet, so every interface is worth trying with every
//! kind of live state.
//!
//! Approach: a class (`tests/sweep/classes/*.h`) defines `work(seed)`, which
//! executes its instructions and returns a digest. An interface
//! (`tests/sweep/interfaces/*.c`) is a program that calls `work` before, in and
//! after what it asks of the kernel: in handlers, threads and children. Each
//! interface is compiled with each class.
//!
//! Invariant: the digests depend on the two files alone, never on time or
//! addresses, so that the native run is the oracle.

use std::path::{Path, PathBuf};

use crate::directive;
use crate::program::{self, Program, ProgramError};
use crate::soak::random::Random;

/// Compiler and flags of every crossing. There is no red zone because the
/// classes push in inline assembly.
const BUILD: &str = "cc -O1 -pthread -mno-red-zone -include";
/// Crossings of the sample in the tests.
const SAMPLE: usize = 24;

/// Every interface crossed with every class of `directory` (`tests/sweep`), by
/// name: `INTERFACE-CLASS`. `EVERYPATH_ONLY=name` leaves one.
pub fn discover(directory: &Path) -> Result<Vec<Program>, ProgramError> {
    let common = read(&directory.join("common.h"))?;
    let only = std::env::var("EVERYPATH_ONLY").ok();
    let mut crossings = Vec::new();
    for interface in sources(&directory.join("interfaces"))? {
        for class in sources(&directory.join("classes"))? {
            let crossing = cross(&interface, &class, &common)?;
            if only.as_ref().is_none_or(|name| *name == crossing.name) {
                crossings.push(crossing);
            }
        }
    }
    Ok(crossings)
}

/// Some of `crossings`, chosen by `seed`: as many different interfaces and
/// classes as there can be in that many.
#[must_use]
pub fn sample(mut crossings: Vec<Program>, seed: u64) -> Vec<Program> {
    let mut random = Random::new(seed);
    for last in (1..crossings.len()).rev() {
        crossings.swap(last, random.below(last + 1));
    }
    let mut used = Vec::new();
    // A crossing whose interface or class was used less often comes first; the
    // shuffled order decides among equals.
    while used.len() < SAMPLE && !crossings.is_empty() {
        let uses = |program: &Program| {
            let (interface, class) = halves(&program.name);
            used.iter()
                .map(|used: &Program| {
                    let (other_interface, other_class) = halves(&used.name);
                    usize::from(interface == other_interface) + usize::from(class == other_class)
                })
                .sum::<usize>()
        };
        let least = (0..crossings.len()).min_by_key(|&index| uses(&crossings[index]));
        used.push(crossings.remove(least.unwrap_or(0)));
    }
    used
}

/// The names of a crossing's interface and class.
fn halves(name: &str) -> (&str, &str) {
    name.split_once('-').unwrap_or((name, ""))
}

fn cross(interface: &Path, class: &Path, common: &str) -> Result<Program, ProgramError> {
    let (interface_text, class_text) = (read(interface)?, read(class)?);
    let needs = class_text
        .lines()
        .find_map(|line| line.strip_prefix("// needs: "))
        .map_or(String::new(), |needs| format!("// run: needs {needs}\n"));
    let build = format!("// build: {BUILD} {}\n", class.display());
    let text = format!("{build}{needs}{common}{class_text}{interface_text}");
    let directives = directive::parse(&text).map_err(|error| ProgramError::Directive {
        path: interface.to_owned(),
        error,
    })?;
    let stem = |path: &Path| {
        path.file_stem()
            .map_or(String::new(), |stem| stem.to_string_lossy().into_owned())
    };
    Ok(Program {
        name: format!("{}-{}", stem(interface), stem(class)),
        source: interface.to_owned(),
        text,
        directives,
    })
}

fn sources(directory: &Path) -> Result<Vec<PathBuf>, ProgramError> {
    let cannot = |error| ProgramError::Read {
        path: directory.to_owned(),
        error,
    };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(cannot)? {
        paths.push(entry.map_err(cannot)?.path());
    }
    paths.sort();
    Ok(paths)
}

fn read(path: &Path) -> Result<String, ProgramError> {
    std::fs::read_to_string(path).map_err(|error| ProgramError::Read {
        path: path.to_owned(),
        error,
    })
}

/// Folder of the two halves.
#[must_use]
pub fn directory() -> PathBuf {
    program::repository().join("tests/sweep")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_sample_has_every_interface_and_twice_every_class() {
        let crossings = discover(&directory()).expect("the sweep can be read");
        let interfaces = |programs: &[Program]| -> BTreeSet<String> {
            let first = |program: &Program| halves(&program.name).0.to_owned();
            programs.iter().map(first).collect()
        };
        let sample = sample(crossings.clone(), 5);
        assert_eq!(sample.len(), SAMPLE);
        assert_eq!(interfaces(&sample), interfaces(&crossings));
        let mut classes: Vec<_> = sample.iter().map(|it| halves(&it.name).1).collect();
        classes.sort_unstable();
        assert!(
            classes.chunks(2).all(|pair| pair[0] == pair[1]),
            "{classes:?}"
        );
    }
}
