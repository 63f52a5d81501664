//! `contexts --rewrite`: what an edited program has counted by context, as a recording of `contexts`.
//!
//! Approach: each thread's stream has the first call of each context, with the records from which its path follows; the counter with
//! the context's number says how often it came ([`wire::contexts::Calls`]). Paths of one thread make a tree.
//!
//! Limits: calls only; functions of files that were not edited are no part of paths, nor are functions between the one that was called
//! and the one as which that went on by several jumps; handlers of signals are roots of their own.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use analysis::encoded::events::{Stream, What, unpacked};
use analysis::encoded::{By, Decoder, Frame, Function, Unknown};
use analysis::regenerate::Piece;
use anyhow::{Result, anyhow, bail};
use image::{Image, LinkAddr};
use placement::dictionary;
use trace::{Label, Meta, Module, Node, Process, Recording, Thread};

use crate::counter_files::mappings;
use crate::counter_header::{self, Header};
use crate::decode;

/// Files of processes, the oldest first, with the dictionary of what was edited.
pub fn recording(
    files: &[PathBuf],
    dictionary: Vec<dictionary::File>,
    meta: Meta,
) -> Result<Recording> {
    if files.is_empty() {
        bail!(
            "nothing was kept: it ended before it came to code that counts, or there was no room for what it counts, or no right \
             to write it"
        );
    }
    let images = Images::of(&dictionary)?;
    let mut decoder = Decoder::new(dictionary);
    let mut recording = Recording {
        meta,
        ..Recording::default()
    };
    let mut read = Vec::new();
    for path in files {
        let (header, bytes) = Header::of(path)?;
        read.push((header.started, header, bytes, path));
    }
    read.sort_by_key(|(started, ..)| *started);
    for (started, header, bytes, path) in read {
        let parent = |process: &trace::Process| process.pid == header.parent;
        let parent = recording.processes.iter().rposition(parent);
        let start_ns = started.saturating_sub(recording.meta.started_unix_ns);
        let process = process((path, header, &bytes), &mut decoder, &images)?;
        recording.processes.push(Process {
            parent,
            start_ns,
            ..process
        });
    }
    Ok(recording)
}

/// Functions of the program that are named one by one, of those whose calls are not counted.
const NAMED: usize = 5;
/// Functions that every program has, and that are not told.
const START_UP: [&str; 7] = [
    "_start",
    "_init",
    "_fini",
    "frame_dummy",
    "register_tm_clones",
    "deregister_tm_clones",
    "__do_global_dtors_aux",
];

/// A sentence about functions that were not moved; `None`: all were.
pub fn left_out(dictionary: &[dictionary::File]) -> Option<String> {
    let mut parts = Vec::new();
    for (number, file) in dictionary.iter().enumerate() {
        let left = file.functions.iter().filter(|function| !function.is_moved);
        let left = left.filter(|function| !START_UP.contains(&&*function.name));
        let names: Vec<String> = left
            .map(|function| match function.name.is_empty() {
                true => format!("{:#x}", function.entry),
                false => image::demangled(&function.name),
            })
            .collect();
        // Libraries have hundreds.
        let named = names.len().min(if number == 0 { NAMED } else { 0 });
        let more = (names.len() > named).then(|| {
            let count = names.len() - named;
            if named == 0 {
                report::counted(count as u64, "function")
            } else {
                format!("{count} more")
            }
        });
        let all: Vec<String> = names[..named].iter().cloned().chain(more).collect();
        if !all.is_empty() {
            parts.push(format!("{} of {}", all.join(", "), file.name));
        }
    }
    let sentence = "calls of these are not counted, as they cannot be moved";
    (!parts.is_empty()).then(|| format!("{sentence}: {}", parts.join("; ")))
}

/// The files that were edited.
struct Images {
    paths: Vec<String>,
    images: Vec<Image>,
}

impl Images {
    fn of(dictionary: &[dictionary::File]) -> Result<Images> {
        let paths: Vec<String> = dictionary
            .iter()
            .map(|file| file.original.clone())
            .collect();
        let images = paths.iter().map(|path| {
            Image::open_whole(path).map_err(|error| anyhow!("cannot read '{path}': {error}"))
        });
        Ok(Images {
            images: images.collect::<Result<_>>()?,
            paths,
        })
    }
}

/// Reads what a process has counted.
fn process(
    (path, header, bytes): (&Path, Header, &[u8]),
    decoder: &mut Decoder,
    images: &Images,
) -> Result<Process> {
    let shown = path.display();
    let biases = decode::place(decoder, &header);
    let mut modules = Vec::new();
    let mut first_module = HashMap::new();
    for (file, bias) in biases {
        first_module.insert(file, modules.len());
        modules.extend(mappings(&images.paths[file], &images.images[file], bias)?);
    }
    let mut tree = Tree {
        decoder,
        images: &images.images,
        modules: &modules,
        first_module,
        functions: Vec::new(),
        by_function: HashMap::new(),
    };
    let streams = match header.parts.is_empty() {
        true => Vec::new(),
        false => header
            .streams(bytes, 0)
            .map_err(|what| anyhow!("'{shown}' {what}"))?,
    };
    let (mut threads, mut is_cut) = (Vec::new(), header.lost > 0);
    for stream in streams {
        let thread = tree.thread(&header, bytes, &stream, &mut is_cut);
        threads.push(thread.map_err(|why| anyhow!("'{shown}': {why}"))?);
    }
    if is_cut {
        say!("everypath: '{shown}': there was no room for all that was counted");
    }
    let functions = tree.functions;
    Ok(Process {
        pid: header.pid,
        by_fork: header.by_fork,
        exe: images.paths.first().cloned().unwrap_or(header.program),
        args: header.arguments,
        modules,
        functions,
        threads,
        ..Process::default()
    })
}

/// A thread, and its nodes by their parents.
struct Nodes {
    thread: Thread,
    children: HashMap<(u32, Label), u32>,
}

impl Nodes {
    fn new(tid: u32) -> Nodes {
        let root = Node {
            label: Label::THREAD,
            ..Node::default()
        };
        Nodes {
            thread: Thread {
                tid,
                nodes: vec![root],
                ..Thread::default()
            },
            children: HashMap::new(),
        }
    }

    /// The child of a node with a label.
    fn child(&mut self, parent: u32, label: Label) -> u32 {
        let nodes = &mut self.thread.nodes;
        *self.children.entry((parent, label)).or_insert_with(|| {
            nodes.push(Node {
                label,
                parent: Some(parent),
                depth: nodes[parent as usize].depth + 1,
                ..Node::default()
            });
            nodes.len() as u32 - 1
        })
    }
}

/// A process's functions.
struct Tree<'t> {
    decoder: &'t Decoder,
    images: &'t [Image],
    modules: &'t [Module],
    /// The first mapping of a file.
    first_module: HashMap<usize, usize>,
    functions: Vec<trace::Function>,
    by_function: HashMap<Function, Label>,
}

impl Tree<'_> {
    /// The calls of a thread.
    fn thread(
        &mut self,
        header: &Header,
        bytes: &[u8],
        stream: &counter_header::Stream,
        is_cut: &mut bool,
    ) -> Result<Thread, Unknown> {
        let mut thread = Nodes::new(stream.thread);
        let mut read = Stream::default();
        for piece in &stream.pieces {
            let piece = unpacked(&Piece {
                stored: &bytes[piece.stored.clone()],
                bytes: piece.bytes,
            })?;
            for event in read.read(self.decoder, &piece) {
                let event = event?;
                let calls = header.calls(bytes, stream.slot, event.values[0]);
                match calls {
                    Some(calls) if event.what == What::Counted => {
                        let path = self
                            .decoder
                            .path_with_entries(event.function, &event.moment);
                        self.add(&mut thread, event.function, path.ok().as_deref(), calls);
                    }
                    _ => *is_cut = true,
                }
            }
        }
        *is_cut |= stream.is_cut;
        thread.thread.truncated_events = header.calls(bytes, stream.slot, 0).unwrap_or(0);
        Ok(thread.thread)
    }

    /// Adds calls of a path; one that is not known is the function alone, below a node that says so.
    fn add(
        &mut self,
        thread: &mut Nodes,
        function: Function,
        path: Option<&[(Frame, Function)]>,
        calls: u64,
    ) {
        let mut at = 0;
        match path {
            Some(path) => {
                // A handler begins a path, and so does what nobody knows the caller of.
                let begin = path.iter().rposition(|(frame, _)| frame.by == By::Signal);
                let mut before = None;
                for (frame, called) in &path[begin.unwrap_or(0)..] {
                    if frame.by == By::Unknown {
                        at = thread.child(at, Label::TRUNCATED);
                    }
                    for function in [*called, frame.function] {
                        // Recursion of one function is one node.
                        if before != Some(function) {
                            at = thread.child(at, self.label(function));
                        }
                        before = Some(function);
                    }
                }
            }
            None => {
                at = thread.child(at, Label::TRUNCATED);
                at = thread.child(at, self.label(function));
            }
        }
        let node = &mut thread.thread.nodes[at as usize];
        node.count += calls;
        thread.thread.max_depth = thread.thread.max_depth.max(node.depth.into());
    }

    /// The label of a function.
    fn label(&mut self, function: Function) -> Label {
        if let Some(label) = self.by_function.get(&function) {
            return *label;
        }
        let label = Label::function(self.functions.len() as u32);
        let file = self.decoder.files().nth(function.file);
        let known = file.and_then(|file| file.functions.get(function.function as usize));
        let entry = known.map_or(0, |known| known.entry);
        let offset = self.images[function.file].file_offset(LinkAddr(entry));
        let offset = offset.map_or(0, |offset| offset.0);
        let first = self.first_module.get(&function.file).copied().unwrap_or(0);
        let own = self.modules.iter().enumerate().skip(first);
        let mut own = own.filter(|(_, module)| {
            (module.offset..module.offset + (module.end - module.start)).contains(&offset)
        });
        let module = own.next();
        self.functions.push(trace::Function {
            id: label.0,
            pc: module.map_or(entry, |(_, module)| module.start + (offset - module.offset)),
            module: module.map(|(number, _)| number as u32),
            file_offset: offset,
            ..trace::Function::default()
        });
        self.by_function.insert(function, label);
        label
    }
}
