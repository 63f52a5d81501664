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

use analysis::counts::offsets;
use image::{FileOffset, Image, Images, Symbol, Version};
use trace::{Function, Mode, Module, Process, Recording, Source};
use wire::FileId;

use crate::vdso;

mod generated;
mod pieces;

/// One file, whatever its mappings.
type Key = (String, FileId);

/// Answers about one file.
#[derive(Default)]
struct Answers {
    build_id: Option<Vec<u8>>,
    symbols: HashMap<u64, Symbol>,
    /// File and line of the declarations of functions, by their entries.
    declared: HashMap<FileOffset, (String, u32)>,
    /// Offsets at which names and lines change, for recordings of `count`.
    rows: Vec<Row>,
}

/// Name and line of the code from `offset` up to the next row.
struct Row {
    offset: u64,
    name: Option<String>,
    /// Entry of the function called `name`.
    start: u64,
    line: Option<(String, u32)>,
}

/// Offsets of the recorded code of a process, by module.
type Offsets = Vec<(u32, Vec<u64>)>;

/// Questions about one file.
#[derive(Default)]
struct Question {
    functions: Vec<u64>,
    /// Places that begin functions, and not only blocks.
    entries: Vec<FileOffset>,
    /// Ascending.
    code: Vec<u64>,
    /// The declarations of functions of this code are asked for, too.
    declarations: bool,
}

pub fn symbolize(recording: &mut Recording, images: &Images) {
    let told = generated::place(recording);
    let by_piece = recording.meta.mode == Mode::Trace;
    let code: Vec<Offsets> = match by_piece {
        true => pieces::new_code(recording),
        false => recording.processes.iter().map(offsets).collect(),
    };
    let answers = ask(questions(recording, &code), images, &told);
    for (process, code) in recording.processes.iter_mut().zip(code) {
        fill(process, &answers);
        match by_piece {
            true => pieces::fill(process, &answers),
            false => fill_sources(process, code, &answers),
        }
    }
}

/// Names for code that runtimes made, in counts of a trace, which has the names of files itself.
pub fn name_generated(recording: &mut Recording) {
    let told = generated::place(recording);
    let is_told = |process: &Process, module: u32| {
        let module = &process.modules[module as usize];
        module.is_generated() && told.contains_key(&key(module))
    };
    let of_told = |process: &Process| {
        let all = offsets(process).into_iter();
        all.filter(|(module, _)| is_told(process, *module))
            .collect()
    };
    let code: Vec<Offsets> = recording.processes.iter().map(of_told).collect();
    let mut questions = questions(recording, &code);
    questions.retain(|(key, _)| told.contains_key(key));
    let answers = ask(questions, &Images::new(), &told);
    for (process, code) in recording.processes.iter_mut().zip(code) {
        fill_sources(process, code, &answers);
    }
}

fn key(module: &Module) -> Key {
    (module.path.clone(), module.file)
}

/// Questions by file; those with the most questions last.
fn questions(recording: &Recording, code: &[Offsets]) -> Vec<(Key, Question)> {
    let mut places: HashMap<Key, usize> = HashMap::new();
    let mut questions: Vec<(Key, Question)> = Vec::new();
    for (process, code) in recording.processes.iter().zip(code) {
        let mut place = |module| {
            *places.entry(key(module)).or_insert_with(|| {
                questions.push((key(module), Question::default()));
                questions.len() - 1
            })
        };
        let files: Vec<usize> = process.modules.iter().map(&mut place).collect();
        let of_blocks = !process.blocks.is_empty();
        for function in process.functions.iter().filter(|f| f.name.is_none()) {
            let file = function.module.and_then(|at| files.get(at as usize));
            if let Some(&file) = file {
                let asked = &mut questions[file].1;
                asked.functions.push(function.file_offset);
                let entry = (!of_blocks).then_some(FileOffset(function.file_offset));
                asked.entries.extend(entry);
            }
        }
        for (module, offsets) in code {
            if let Some(&file) = files.get(*module as usize) {
                questions[file].1.code.extend(offsets);
            }
        }
    }
    for (_, asked) in &mut questions {
        // Forked children share nearly everything.
        asked.functions.sort_unstable();
        asked.functions.dedup();
        asked.code.sort_unstable();
        asked.code.dedup();
        asked.declarations = recording.meta.mode == Mode::Counts;
    }
    questions.sort_by_key(|(_, asked)| asked.functions.len() + asked.code.len());
    questions
}

fn ask(
    questions: Vec<(Key, Question)>,
    images: &Images,
    told: &generated::Told,
) -> HashMap<Key, Answers> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = threads.min(questions.len());
    let (left, found) = (Mutex::new(questions), Mutex::new(HashMap::new()));
    let work = || {
        loop {
            let next = lock(&left).pop();
            let Some((key, asked)) = next else { return };
            let answers = match told.get(&key) {
                Some(code) => generated::answer(code, &asked),
                None => answer(&key, &asked, images),
            };
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

fn answer(key: &Key, asked: &Question, images: &Images) -> Answers {
    let Some(image) = open(key, images) else {
        return Answers::default();
    };
    let symbol = |&offset: &u64| (offset, image.symbolize(FileOffset(offset)));
    let rows = rows(&image, &asked.code);
    let mut entries = asked.entries.clone();
    if asked.declarations {
        let named = rows.iter().filter(|row| row.name.is_some());
        entries.extend(named.map(|row| FileOffset(row.start)));
        entries.dedup();
    }
    Answers {
        build_id: image.build_id().map(<[u8]>::to_vec),
        symbols: asked.functions.iter().map(symbol).collect(),
        declared: image.declarations(&entries),
        rows,
    }
}

fn rows(image: &Image, code: &[u64]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    let mut last_name = None;
    for &offset in code {
        let (file, line) = image.line_at(FileOffset(offset));
        let line = file.zip(line);
        let (name, start) = image.name_at(FileOffset(offset));
        let name = name.map(|name| (name, start.0));
        let last = rows.last().filter(|_| name == last_name);
        if last.is_some_and(|last| last.line == line) {
            continue;
        }
        rows.push(Row {
            offset,
            start: name.map_or(0, |(_, start)| start),
            name: match last {
                Some(last) => last.name.clone(),
                None => name.map(|(name, _)| image::demangled(name)),
            },
            line,
        });
        last_name = name;
    }
    rows
}

/// Rows of a process's modules, as far as its own code was executed.
fn fill_sources(process: &mut Process, code: Offsets, answers: &HashMap<Key, Answers>) {
    let mut texts: HashMap<String, u32> = HashMap::new();
    for (module, code) in code {
        let known = &process.modules[module as usize];
        let Some(answers) = answers.get(&key(known)) else {
            continue;
        };
        let mut last = None;
        for offset in code {
            let behind = answers.rows.partition_point(|row| row.offset <= offset);
            let Some(at) = behind.checked_sub(1) else {
                continue;
            };
            if last.replace(at) == Some(at) {
                continue;
            }
            let row = &answers.rows[at];
            put_row(process, &mut texts, module, offset, row);
            if let Some(declared) = answers.declared.get(&FileOffset(row.start)) {
                put_declaration(process, module, row.start, declared);
            }
        }
    }
}

/// Adds a function that `count` met, with the place of its declaration.
fn put_declaration(process: &mut Process, module: u32, start: u64, declared: &(String, u32)) {
    let last = process.functions.last();
    let is_known = |last: &Function| (last.module, last.file_offset) == (Some(module), start);
    if last.is_some_and(is_known) {
        return;
    }
    let known = &process.modules[module as usize];
    let id = last.map_or(wire::node::FIRST_FUNC, |last| last.id + 1);
    process.functions.push(Function {
        id,
        pc: known.start.wrapping_add(start.wrapping_sub(known.offset)),
        module: Some(module),
        file_offset: start,
        name: None,
        file: Some(declared.0.clone()),
        line: Some(declared.1),
    });
}

/// Adds name and line of the code of a module from `offset` up to the next row.
fn put_row(
    process: &mut Process,
    texts: &mut HashMap<String, u32>,
    module: u32,
    offset: u64,
    row: &Row,
) {
    let known = &mut process.texts;
    let mut text = |text: &str| match texts.get(text) {
        Some(&number) => number,
        None => {
            known.push(text.to_owned());
            texts.insert(text.to_owned(), known.len() as u32 - 1);
            known.len() as u32 - 1
        }
    };
    let function = row.name.as_ref();
    process.sources.push(Source {
        module,
        offset,
        function: function.map(|name| (text(name), offset - row.start)),
        line: row.line.as_ref().map(|(file, line)| (text(file), *line)),
    });
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
    let mut blocks = process.blocks.iter_mut().peekable();
    let unnamed = process.functions.iter_mut().filter(|f| f.name.is_none());
    for function in unnamed {
        let file = function.module.and_then(|at| *files.get(at as usize)?);
        let symbol = file.and_then(|answers| answers.symbols.get(&function.file_offset));
        let Some(symbol) = symbol.cloned() else {
            continue;
        };
        function.file = symbol.file;
        function.line = symbol.line;
        while blocks.next_if(|block| block.id < function.id).is_some() {}
        if let Some(block) = blocks.next_if(|block| block.id == function.id) {
            block.offset = symbol.offset;
            block.column = symbol.column.filter(|_| symbol.line.is_some());
            if symbol.raw_name.is_some() {
                // By its place in the function, as in IHPP 4.3.2; without the column, as
                // comparisons find blocks by it, and older recordings have none.
                let (name, line) = (&symbol.name, function.line.unwrap_or(0));
                function.name = Some(format!("{{{name}+{} at {line},0}}", symbol.offset));
                block.function = Some(symbol.name);
            }
            continue;
        }
        let declared =
            file.and_then(|answers| answers.declared.get(&FileOffset(function.file_offset)));
        if let Some((path, line)) = declared.filter(|_| symbol.offset == 0) {
            function.file = Some(path.clone());
            function.line = Some(*line);
        }
        // A name made from the place is no name: whoever shows it makes it
        // anew. A call into the middle of a function makes another one.
        function.name = symbol.raw_name.map(|_| match symbol.offset {
            0 => symbol.name,
            distance => format!("{}+{distance:#x}", symbol.name),
        });
    }
}
