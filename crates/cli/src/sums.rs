//! `report A B`: recordings of `count` of several runs, added up.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use report::counts::{BLOCKS_ONLY, CALLED, INSTRUCTIONS, KEPT, LEFT_OUT, LOADS, RESET, STARTS};
use trace::{Mode, Prefix, Recording};

use crate::commands::read;

/// Build ids by the paths of files.
type Builds<'r> = HashMap<&'r str, &'r [u8]>;

/// A recording with those in other files added.
pub fn with(mut first: Prefix, path: &Path, more: &[PathBuf]) -> Result<Prefix> {
    for other in more {
        let shown = other.display();
        let prefix = read(other)?;
        if first.recording.meta.mode != Mode::Counts || prefix.recording.meta.mode != Mode::Counts {
            bail!(
                "'{}' and '{shown}': only recordings of `count` add up",
                path.display()
            );
        }
        let kinds = [&first.recording, &prefix.recording].map(has_marks);
        if kinds[0] != kinds[1] {
            bail!(
                "'{}' and '{shown}': one says that code was executed, the other how often, and they \
                 do not add up",
                path.display()
            );
        }
        if let Some(file) = other_build(&first.recording, &prefix.recording) {
            bail!(
                "'{shown}' is of another build of '{file}' than '{}'",
                path.display()
            );
        }
        first.lost = first.lost.or(prefix.lost);
        add(&mut first.recording, prefix.recording);
    }
    Ok(first)
}

/// Whether its numbers are marks of coverage.
fn has_marks(recording: &Recording) -> bool {
    let mut options = recording.meta.options.iter();
    options.any(|(name, tool)| name == report::counts::EDITED && tool == report::counts::COVERAGE)
}

/// Adds a recording of the same kind, of the same files.
pub fn add(recording: &mut Recording, other: Recording) {
    let first = recording.processes.len();
    recording
        .processes
        .extend(other.processes.into_iter().map(|mut process| {
            process.parent = process.parent.map(|parent| first + parent);
            process
        }));
    recording.denied.extend(other.denied);
    // A sentence about a program is once in the sum; calls are those of a process, and all there.
    let options = &mut recording.meta.options;
    for option in other.meta.options {
        match option.0.as_str() {
            CALLED | LOADS | STARTS => options.push(option),
            BLOCKS_ONLY | LEFT_OUT | INSTRUCTIONS | KEPT | RESET if !options.contains(&option) => {
                options.push(option);
            }
            _ => {}
        }
    }
}

fn builds(recording: &Recording) -> Builds<'_> {
    let modules = recording
        .processes
        .iter()
        .flat_map(|process| &process.modules);
    let known = modules.filter_map(|module| Some((&*module.path, module.build_id.as_deref()?)));
    known.collect()
}

/// A file of which two recordings had different builds.
fn other_build<'r>(one: &'r Recording, other: &Recording) -> Option<&'r str> {
    let others = builds(other);
    let own = builds(one);
    let mut differ = own
        .into_iter()
        .filter(|(path, build)| others.get(path).is_some_and(|other| other != build));
    differ.next().map(|(path, _)| path)
}
