//! Names of code that a runtime made while the program ran.
//!
//! Such code is in no file. But its runtime may have told profilers what it made, in a file that
//! is named by the process ([`image::GeneratedCode`]). That file then stands for the module of
//! the code, as in perf's reports; places in it are addresses.
//!
//! Read are `/tmp/perf-PID.map`, and each `jit-PID.dump` that the process mapped, as perf finds
//! it; a forked child's code may be its parent's. Others can write to `/tmp`, and numbers of
//! processes come again: the file must be this user's (for root: anybody's), and written since the
//! recording began.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use image::{GeneratedCode, Symbol};
use rustix::process::geteuid;
use trace::{Mode, Module, Process, Recording, base_name};
use wire::FileId;

use super::{Answers, Key, Question, Row};

/// Largest file that is read, in bytes.
const LARGEST: u64 = 1 << 30;

/// Code further apart than this is listed as two modules.
const FAR: u64 = 16 << 20;

/// Code that runtimes told of, by the module that it became.
pub(super) type Told = HashMap<Key, Arc<GeneratedCode>>;

/// Puts code of no file into modules, as far as a runtime told of it.
pub(super) fn place(recording: &mut Recording) -> Told {
    let mut told = Told::new();
    if recording.meta.mode == Mode::Trace {
        return told;
    }
    let since = recording.meta.started_unix_ns;
    let mut sources: Vec<Vec<Key>> = Vec::new();
    for index in 0..recording.processes.len() {
        let process = &mut recording.processes[index];
        let mut own = match has_unplaced(process) {
            true => find(process, since, &mut told),
            false => Vec::new(),
        };
        let parent = process.parent.filter(|_| process.by_fork);
        if let Some(inherited) = parent.and_then(|parent| sources.get(parent)) {
            own.extend(inherited.iter().cloned());
        }
        for key in &own {
            if let Some(code) = told.get(key) {
                place_code(process, key, code);
            }
        }
        sources.push(own);
    }
    told
}

/// Addresses of the code of no file, to be put into a module.
fn unplaced(
    process: &mut Process,
) -> impl Iterator<Item = (u64, &mut Option<u32>, Option<&mut u64>)> {
    let functions = process.functions.iter_mut().map(|function| {
        let offset = Some(&mut function.file_offset);
        (function.pc, &mut function.module, offset)
    });
    let fragments = process.fragments.iter_mut();
    let fragments = fragments.filter(|all| all.pieces.iter().any(|piece| piece.module.is_none()));
    let pieces = fragments.flat_map(|fragment| Arc::make_mut(fragment).pieces.iter_mut());
    let pieces = pieces.map(|piece| (piece.pc, &mut piece.module, None));
    let jumps = process.jumps.iter_mut();
    let jumps = jumps.map(|jump| (jump.pc, &mut jump.module, None));
    functions
        .chain(pieces)
        .chain(jumps)
        .filter(|(_, module, _)| module.is_none())
}

fn has_unplaced(process: &mut Process) -> bool {
    unplaced(process).next().is_some()
}

/// Reads what the runtime of a process told.
fn find(process: &Process, since: u64, told: &mut Told) -> Vec<Key> {
    let map = format!("/tmp/perf-{}.map", process.pid);
    let dumps = process.modules.iter().map(|module| module.path.clone());
    let dumps = dumps.filter(|path| is_dump(path));
    let mut found: Vec<Key> = Vec::new();
    for path in dumps.chain([map]) {
        let key = (path, FileId::default());
        if found.contains(&key) {
            continue;
        }
        if !told.contains_key(&key) {
            let Some(code) = read(Path::new(&key.0), since) else {
                continue;
            };
            told.insert(key.clone(), Arc::new(code));
        }
        found.push(key);
    }
    found
}

fn is_dump(path: &str) -> bool {
    let number = base_name(path).strip_prefix("jit-");
    let number = number.and_then(|rest| rest.strip_suffix(".dump"));
    number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// `None`: it is not there, or not to be trusted.
fn read(path: &Path, since: u64) -> Option<GeneratedCode> {
    let file = fs::File::open(path).ok()?;
    let about = file.metadata().ok()?;
    let written = u64::try_from(about.mtime()).unwrap_or(0);
    let user = geteuid();
    let is_ours = user.is_root() || about.uid() == user.as_raw();
    if !about.is_file() || !is_ours || written < since / 1_000_000_000 {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(LARGEST).read_to_end(&mut bytes).ok()?;
    let mut code = GeneratedCode::default();
    match path.extension().is_some_and(|extension| extension == "map") {
        true => code.add_map(&bytes),
        false => {
            if let Err(why) = code.add_dump(&bytes) {
                say!(
                    "everypath: '{}': {why}; no names were taken from it",
                    path.display()
                );
                return None;
            }
        }
    }
    Some(code)
}

/// Makes modules of the code that `code` tells of, and puts what ran there into them.
fn place_code(process: &mut Process, key: &Key, code: &GeneratedCode) {
    let mut ran: BTreeMap<u64, u64> = BTreeMap::new();
    for (pc, ..) in unplaced(process) {
        if let Some(piece) = code.at(pc) {
            ran.insert(piece.start, piece.end);
        }
    }
    let mut spans: Vec<(u64, u64)> = Vec::new();
    for (start, end) in ran {
        let is_free = |from: u64| {
            let mut modules = process.modules.iter();
            !modules.any(|module| module.start < start && from < module.end)
        };
        match spans.last_mut() {
            Some((_, last)) if start - *last < FAR && is_free(*last) => *last = end,
            _ => spans.push((start, end)),
        }
    }
    let first = process.modules.len();
    let began = process.start_ns;
    process
        .modules
        .extend(spans.iter().map(|&(start, end)| Module {
            path: key.0.clone(),
            start,
            end,
            offset: start,
            file: key.1,
            mapped_ns: began,
            ..Module::default()
        }));
    for (pc, module, offset) in unplaced(process) {
        let span = spans
            .iter()
            .position(|&(start, end)| (start..end).contains(&pc));
        let Some(span) = span.filter(|_| code.at(pc).is_some()) else {
            continue;
        };
        *module = u32::try_from(first + span).ok();
        if let Some(offset) = offset {
            *offset = pc;
        }
    }
}

/// Answers about such a module.
pub(super) fn answer(code: &GeneratedCode, asked: &Question) -> Answers {
    let symbol = |&pc: &u64| {
        let piece = code.at(pc)?;
        let line = piece.line_at(pc);
        // Functions have several entries: with checks of the receiver, and without.
        let is_entry = asked.entries.iter().any(|entry| entry.0 == pc);
        Some((
            pc,
            Symbol {
                name: piece.name.clone(),
                raw_name: Some(piece.name.clone()),
                offset: if is_entry { 0 } else { pc - piece.start },
                file: line.map(|(file, _)| file.to_owned()),
                line: line.map(|(_, line)| line),
                column: None,
            },
        ))
    };
    Answers {
        symbols: asked.functions.iter().filter_map(symbol).collect(),
        rows: rows(code, &asked.code),
        ..Answers::default()
    }
}

fn rows(code: &GeneratedCode, places: &[u64]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for &pc in places {
        let piece = code.at(pc);
        let line = piece.and_then(|piece| piece.line_at(pc));
        let row = Row {
            offset: pc,
            name: piece.map(|piece| piece.name.clone()),
            start: piece.map_or(0, |piece| piece.start),
            line: line.map(|(file, line)| (file.to_owned(), line)),
        };
        let is_known = |last: &Row| last.start == row.start && last.line == row.line;
        if !rows.last().is_some_and(is_known) {
            rows.push(row);
        }
    }
    rows
}
