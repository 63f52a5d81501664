//! Names for what was recorded: functions get name, file and line, modules
//! their build id, so that the recording needs none of the binaries again.
//!
//! A program may be replaced while others run, or removed by its end: what counts
//! is the file that was mapped, which was read then for its functions.
//!
//! Files are independent of each other, and one question to a file makes it read
//! its tables: each file's questions are asked together, and several files are
//! asked at a time.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use image::{FileOffset, Image, Images, Symbol, Version};
use trace::{Module, Process, Recording};
use wire::FileId;

use crate::vdso;

/// One file, whatever its mappings.
type Key = (String, FileId);

/// Of one file.
#[derive(Default)]
struct Answers {
    build_id: Option<Vec<u8>>,
    symbols: HashMap<u64, Symbol>,
}

pub fn symbolize(recording: &mut Recording, images: &Images) {
    let answers = ask(questions(recording), images);
    for process in &mut recording.processes {
        fill(process, &answers);
    }
}

fn key(module: &Module) -> Key {
    (module.path.clone(), module.file)
}

/// What is to be looked up, by file; those with the most questions last.
fn questions(recording: &Recording) -> Vec<(Key, Vec<u64>)> {
    let mut places: HashMap<Key, usize> = HashMap::new();
    let mut questions: Vec<(Key, Vec<u64>)> = Vec::new();
    for process in &recording.processes {
        let mut place = |module| {
            *places.entry(key(module)).or_insert_with(|| {
                questions.push((key(module), Vec::new()));
                questions.len() - 1
            })
        };
        let files: Vec<usize> = process.modules.iter().map(&mut place).collect();
        for function in process.functions.iter().filter(|f| f.name.is_none()) {
            let file = function.module.and_then(|at| files.get(at as usize));
            if let Some(&file) = file {
                questions[file].1.push(function.file_offset);
            }
        }
    }
    for (_, offsets) in &mut questions {
        // Forked children share nearly everything.
        offsets.sort_unstable();
        offsets.dedup();
    }
    questions.sort_by_key(|(_, offsets)| offsets.len());
    questions
}

fn ask(questions: Vec<(Key, Vec<u64>)>, images: &Images) -> HashMap<Key, Answers> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = threads.min(questions.len());
    let (left, found) = (Mutex::new(questions), Mutex::new(HashMap::new()));
    let work = || {
        loop {
            let next = lock(&left).pop();
            let Some((key, offsets)) = next else { return };
            let answers = answer(&key, &offsets, images);
            lock(&found).insert(key, answers);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            // Without it the others have more to do.
            let _ = std::thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    found.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Nothing here is left half done by a panic.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn answer(key: &Key, offsets: &[u64], images: &Images) -> Answers {
    let Some(image) = open(key, images) else {
        return Answers::default();
    };
    let symbol = |&offset: &u64| (offset, image.symbolize(FileOffset(offset)));
    Answers {
        build_id: image.build_id().map(<[u8]>::to_vec),
        symbols: offsets.iter().map(symbol).collect(),
    }
}

fn open((path, file): &Key, images: &Images) -> Option<Arc<Image>> {
    if path == vdso::NAME {
        return vdso::image().map(Arc::new);
    }
    let version = Version {
        dev: file.dev,
        ino: file.ino,
        changed: file.changed,
    };
    images.open_version(Path::new(path), version)
}

fn fill(process: &mut Process, answers: &HashMap<Key, Answers>) {
    let modules = &mut process.modules;
    let files: Vec<Option<&Answers>> = modules.iter().map(|m| answers.get(&key(m))).collect();
    for (module, file) in modules.iter_mut().zip(&files) {
        let known = file.and_then(|answers| answers.build_id.clone());
        module.build_id = module.build_id.take().or(known);
    }
    let unnamed = process.functions.iter_mut().filter(|f| f.name.is_none());
    for function in unnamed {
        let file = function.module.and_then(|at| *files.get(at as usize)?);
        let symbol = file.and_then(|answers| answers.symbols.get(&function.file_offset));
        let Some(symbol) = symbol.cloned() else {
            continue;
        };
        function.file = symbol.file;
        function.line = symbol.line;
        // A name made from the place is no name: whoever shows it makes it
        // anew. A call into the middle of a function makes another one.
        function.name = symbol
            .raw_name
            .filter(|_| symbol.offset == 0)
            .map(|_| symbol.name);
    }
}
