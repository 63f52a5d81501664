//! Witnesses that edited programs write, read as the traces that `trace` makes; and `regenerate`, which keeps such a trace.

use std::fs;
use std::path::{Path, PathBuf};

use analysis::regenerate::{self, CodeOf, Frames, Graphs, Loaded, Unsound, Witnesses};
use anyhow::{Result, anyhow, bail};
use image::{Image, Images};
use placement::traced::File;
use trace::{Meta, Mode, Module, Process, Recording};

use crate::counter_files::{self, Code};
use crate::counter_header::{self, Header, Stream};
use crate::exit_status::Ending;
use crate::flags::Regenerate;
use crate::output::{Kind, Output};
use crate::progress::Progress;
use crate::symbolize;

/// The original of an edited file.
struct Original {
    path: String,
    image: Image,
    /// Addresses in memory less link addresses.
    bias: u64,
    /// It is the program, and no library.
    is_program: bool,
}

/// The originals of a process's edited files.
struct Originals(Vec<Original>);

impl Originals {
    /// Originals of the files that a header names, and the plans of these; `None`: they count.
    fn of(path: &Path, header: &Header) -> Result<Option<(Originals, Vec<Loaded>)>> {
        let (mut originals, mut plans) = (Vec::new(), Vec::new());
        for part in &header.parts {
            let (place, edited) = counter_files::edited(path, header, part)?;
            let section = rewrite::plan_of(&edited).unwrap_or_default();
            if !File::is_one(section) {
                return Ok(None);
            }
            let file = File::decode(section);
            let file = file.ok_or_else(|| anyhow!("'{}' has a damaged plan", place.display()))?;
            let bias = part.bias;
            originals.push(Original {
                path: file.original.clone(),
                image: counter_files::original(path, &file.original, (file.size, file.hash))?,
                bias,
                is_program: counter_files::is_one_file(&place, Path::new(&header.program)),
            });
            plans.push(Loaded { file, bias });
        }
        Ok((!plans.is_empty()).then_some((Originals(originals), plans)))
    }

    /// Mappings of the originals' code.
    fn modules(&self) -> Result<Vec<Module>> {
        let modules = self.0.iter();
        let modules = modules
            .map(|own| counter_files::mappings(&own.path, &own.image, own.bias))
            .collect::<Result<Vec<_>>>()?;
        Ok(modules.concat())
    }

    /// Code of the originals.
    fn code(&self) -> Vec<(u64, Code<'_>)> {
        let files = self.0.iter();
        files.map(|own| (own.bias, Code::of(&own.image))).collect()
    }
}

/// Bytes from an address in memory on, and the number of their mapping.
fn code_from<'i>(files: &[(u64, Code<'i>)], addr: u64) -> Option<(&'i [u8], u32)> {
    let mut before = 0;
    for (bias, code) in files {
        if let Some((bytes, module)) = code.from(addr.wrapping_sub(*bias)) {
            return Some((bytes, before + module));
        }
        before += code.modules();
    }
    None
}

/// A trace that witnesses tell.
#[derive(Debug)]
pub struct Read {
    pub recording: Recording,
    /// Values in the stream, and operands whose addresses were made of them.
    values: u64,
    operands: u64,
}

/// The trace that a file of witnesses tells; `None`: it has counters.
pub fn read(path: &Path, header: &Header, bytes: &[u8], shown: &str) -> Result<Option<Read>> {
    let Some((originals, plans)) = Originals::of(path, header)? else {
        return Ok(None);
    };
    let streams = header.streams(bytes, 0);
    let streams = streams.map_err(|what| anyhow!("{shown} {what}"))?;
    let (modules, code) = (originals.modules()?, originals.code());
    let code = |addr| code_from(&code, addr);
    let graphs = Graphs::of(plans);
    let mut parent = parent(path, header, (&graphs, &code, shown));
    let threads: Vec<Witnesses<'_>> = streams
        .iter()
        .map(|stream| Witnesses {
            frames: parent.take().unwrap_or_default(),
            ..witnesses(stream, bytes)
        })
        .collect();
    let made = regenerate::regenerate(&graphs, &threads, &code)?;
    say_what_contradicts(shown, &made.unsound);
    let program = originals.0.iter().find(|own| own.is_program);
    let libraries = originals.0.iter().filter(|own| !own.is_program).count();
    let exe = program.map_or(&header.program, |own| &own.path);
    let process = Process {
        pid: header.pid,
        by_fork: header.by_fork,
        exe: exe.clone(),
        args: header.arguments.clone(),
        modules,
        threads: made.threads,
        fragments: made.fragments,
        targets: made.targets,
        ..Process::default()
    };
    let mut recording = Recording {
        meta: meta(header, graphs.has_values, libraries),
        processes: vec![process],
        ..Recording::default()
    };
    symbolize::symbolize(&mut recording, &Images::new());
    Ok(Some(Read {
        recording,
        values: made.values,
        operands: made.operands,
    }))
}

fn witnesses<'b>(stream: &Stream, bytes: &'b [u8]) -> Witnesses<'b> {
    let pieces = stream.pieces.iter().map(|piece| regenerate::Piece {
        stored: &bytes[piece.stored.clone()],
        bytes: piece.bytes,
    });
    Witnesses {
        tid: stream.thread,
        pointer: stream.pointer,
        pieces: pieces.collect(),
        is_cut: stream.is_cut,
        frames: Frames::default(),
    }
}

/// Facts of the recording; `libraries`: how many were edited.
fn meta(header: &Header, has_values: bool, libraries: usize) -> Meta {
    let mut options = vec![(report::counts::EDITED.into(), "trace".into())];
    if libraries > 0 {
        let number = report::counts::LIBRARIES.into();
        options.push((number, libraries.to_string()));
    }
    if has_values {
        options.push(("--memory".into(), "addresses".into()));
        options.push(("--no-elision".into(), String::new()));
    }
    Meta {
        producer: format!("everypath {}", env!("CARGO_PKG_VERSION")),
        command: header.arguments.clone(),
        mode: Mode::Trace,
        options,
        started_unix_ns: header.started,
        ..Meta::default()
    }
}

/// Says up to where threads are shown whose witnesses contradict the plan.
fn say_what_contradicts(shown: &str, unsound: &[(u32, Unsound)]) {
    for (tid, unsound) in unsound {
        say!(
            "everypath: {shown}: thread {tid} is shown up to byte {} of its witnesses, where {} contradicts the plan at {:#x}",
            unsound.at,
            unsound.token,
            unsound.block
        );
    }
}

/// Activations that the process has from its parent, if it was forked.
fn parent<'f>(
    path: &Path,
    header: &Header,
    (graphs, code, shown): (&'f Graphs, CodeOf<'f>, &str),
) -> Option<Frames> {
    let parent = match header.by_fork {
        true => frames_of_parent(path, header, (graphs, code), GENERATIONS),
        false => return None,
    };
    if parent.is_none() {
        say!(
            "everypath: {shown}: the file of its parent, process {}, is not beside it; what returns to code from before the \
             fork is not shown",
            header.parent
        );
    }
    parent
}

/// Most ancestors whose files are read for what a process has from them.
const GENERATIONS: u32 = 256;

/// Activations that a forked process has from its parent, whose file is in the same folder, and from so many before it.
fn frames_of_parent<'f>(
    path: &Path,
    header: &Header,
    (graphs, code): (&Graphs, CodeOf<'f>),
    generations: u32,
) -> Option<Frames> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let files = fs::read_dir(folder).ok()?.flatten();
    let mut files: Vec<PathBuf> = files.map(|entry| entry.path()).collect();
    // Its name most probably has the number of the process.
    let number = format!(".{}.", header.parent);
    files.sort_by_cached_key(|file| (!file.to_string_lossy().contains(&number), file.clone()));
    for other in files.iter().filter(|other| counter_header::is_one(other)) {
        let Ok((parent, bytes)) = Header::of(other) else {
            continue;
        };
        let is_it = parent.pid == header.parent
            && parent.started <= header.started
            && parent.parts.first().map(|part| part.id) == header.parts.first().map(|part| part.id);
        if !is_it {
            continue;
        }
        let mut before = match (parent.by_fork, generations.checked_sub(1)) {
            (true, Some(left)) => frames_of_parent(other, &parent, (graphs, code), left),
            _ => None,
        };
        for stream in parent.streams(&bytes, 0).ok()? {
            let witnesses = Witnesses {
                frames: before.take().unwrap_or_default(),
                ..witnesses(&stream, &bytes)
            };
            if let Some(frames) = regenerate::frames_at_fork(graphs, &witnesses, code, header.pid) {
                return Some(frames);
            }
        }
    }
    None
}

/// `regenerate`: keeps the trace.
pub fn regenerate(flags: &Regenerate) -> Result<Ending> {
    let shown = flags.file.display();
    if !flags.file.exists() {
        bail!("cannot read '{shown}': there is no such file");
    }
    let output = Output::prepare(&flags.output, Kind::Recording)?;
    if !counter_header::is_one(&flags.file) {
        bail!(
            "'{shown}' has no witnesses: give a file that a program writes which was edited with `everypath rewrite --tool trace`"
        );
    }
    let progress = Progress::new(flags.quiet);
    progress.says("regenerating");
    let (header, bytes) = Header::of(&flags.file)?;
    let read = read(&flags.file, &header, &bytes, &format!("'{shown}'"))?;
    let Some(read) = read else {
        bail!(
            "'{shown}' has counters and no witnesses: edit the program with `everypath rewrite --tool trace`"
        );
    };
    let recording = &read.recording;
    progress.says("writing the trace");
    output.replace(|out| trace::write(recording, out))?;
    drop(progress);
    if !flags.quiet {
        let threads = recording
            .processes
            .iter()
            .flat_map(|process| &process.threads);
        let insns: u64 = threads.map(|thread| thread.insns).sum();
        let size = |path| fs::metadata(path).map_or(0, |file| file.len());
        let made = match read.operands {
            0 => String::new(),
            operands => format!(
                " and {} from {}",
                report::counted(operands, "address"),
                report::counted(read.values, "value")
            ),
        };
        say!(
            "everypath: {}{made} of {} bytes of witnesses, in '{}', {} bytes",
            report::counted(insns, "instruction"),
            size(&flags.file),
            flags.output.display(),
            size(&flags.output)
        );
    }
    Ok(Ending::Exit(0))
}
