//! Names of the code of traces: by pieces of code, which a thousand short processes of the
//! same files have in common, where counts go by instruction.

use std::collections::{HashMap, HashSet};

use analysis::counts::offsets;
use trace::{Process, Recording};

use super::{Answers, Key, Offsets, key, put_row};

/// By process, where code is that none before it has.
pub(super) fn new_code(recording: &Recording) -> Vec<Offsets> {
    let mut files: HashMap<Key, usize> = HashMap::new();
    let mut seen: HashSet<(usize, u64, u32)> = HashSet::new();
    let mut all = Vec::with_capacity(recording.processes.len());
    for process in &recording.processes {
        let mut number = |module| {
            let next = files.len();
            *files.entry(key(module)).or_insert(next)
        };
        let numbers: Vec<usize> = process.modules.iter().map(&mut number).collect();
        let mut is_new = |fragment: &&std::sync::Arc<trace::Fragment>| {
            let places = places(process, fragment);
            // Each is entered, also behind one that is new.
            let new = places.filter(|&(module, at, len)| {
                let file = numbers[module as usize];
                seen.insert((file, at, len))
            });
            new.count() > 0
        };
        let fragments = process.fragments.iter().filter(&mut is_new);
        all.push(offsets(&Process {
            fragments: fragments.cloned().collect(),
            modules: process.modules.clone(),
            ..Process::default()
        }));
    }
    all
}

/// Modules, offsets in their files and lengths of the pieces of a fragment that is in files.
fn places<'a>(
    process: &'a Process,
    fragment: &'a trace::Fragment,
) -> impl Iterator<Item = (u32, u64, u32)> + 'a {
    fragment.pieces.iter().filter_map(|piece| {
        let number = piece.module?;
        let module = process.modules.get(number as usize)?;
        let at = piece.pc.wrapping_sub(module.start);
        Some((number, module.offset.wrapping_add(at), piece.len))
    })
}

/// Rows of a process's modules, as far as its own code goes.
pub(super) fn fill(process: &mut Process, answers: &HashMap<Key, Answers>) {
    let mut pieces: Vec<(u32, u64, u32)> = Vec::new();
    for fragment in &process.fragments {
        pieces.extend(places(process, fragment));
    }
    pieces.sort_unstable();
    let files: Vec<Option<&Answers>> = process
        .modules
        .iter()
        .map(|module| answers.get(&key(module)))
        .collect();
    let mut texts = HashMap::new();
    let mut last = None;
    for (module, at, len) in pieces {
        let Some(answers) = files[module as usize] else {
            continue;
        };
        let rows = &answers.rows;
        let first = rows
            .partition_point(|row| row.offset <= at)
            .saturating_sub(1);
        let end = at.saturating_add(len.into());
        let inside = rows.iter().enumerate().skip(first);
        for (number, row) in inside.take_while(|(_, row)| row.offset < end) {
            // Pieces overlap, and go on where others end.
            if last >= Some((module, number)) {
                continue;
            }
            last = Some((module, number));
            put_row(process, &mut texts, module, row.offset.max(at), row);
        }
    }
}
