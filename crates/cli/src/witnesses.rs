//! Witnesses that edited programs write, read as the traces that `trace` makes; and `regenerate`, which keeps such a trace.

use std::fs;
use std::path::{Path, PathBuf};

use analysis::regenerate::{self, CodeOf, Frames, Unsound, Witnesses};
use anyhow::{Result, anyhow, bail};
use image::Images;
use placement::traced::File;
use trace::{Meta, Mode, Process, Recording};

use crate::counter_files::{self, Code};
use crate::counter_header::{self, Header, Stream};
use crate::exit_status::Ending;
use crate::flags::Regenerate;
use crate::output::{Kind, Output};
use crate::progress::Progress;
use crate::symbolize;

/// The plan of an edited file with witnesses, and its difference of addresses; `None`: it counts.
fn plan(path: &Path, header: &Header) -> Result<Option<(File, u64)>> {
    let Some(part) = header.parts.first() else {
        return Ok(None);
    };
    let (_, edited) = counter_files::edited(path, header, part)?;
    let section = rewrite::plan_of(&edited).unwrap_or_default();
    if !File::is_one(section) {
        return Ok(None);
    }
    let file = File::decode(section);
    let file = file.ok_or_else(|| anyhow!("'{}' has a damaged plan", header.program))?;
    Ok(Some((file, part.bias)))
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
    let Some((file, bias)) = plan(path, header)? else {
        return Ok(None);
    };
    let streams = header.streams(bytes, 0);
    let streams = streams.map_err(|what| anyhow!("{shown} {what}"))?;
    let original = counter_files::original(path, &file.original, (file.size, file.hash))?;
    let code = Code::of(&original);
    let code = |addr| code.from(addr);
    let mut parent = parent(path, header, (&file, (bias, &code), shown));
    let threads: Vec<Witnesses<'_>> = streams
        .iter()
        .map(|stream| Witnesses {
            frames: parent.take().unwrap_or_default(),
            ..witnesses(stream, bytes)
        })
        .collect();
    let made = regenerate::regenerate(&file, &threads, bias, &code)?;
    say_what_contradicts(shown, &made.unsound);
    let process = Process {
        pid: header.pid,
        by_fork: header.by_fork,
        exe: file.original.clone(),
        args: header.arguments.clone(),
        modules: counter_files::mappings(&file.original, &original, bias)?,
        threads: made.threads,
        fragments: made.fragments,
        targets: made.targets,
        ..Process::default()
    };
    let mut recording = Recording {
        meta: meta(header, file.has_values),
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

fn meta(header: &Header, has_values: bool) -> Meta {
    let mut options = vec![(report::counts::EDITED.into(), "trace".into())];
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
    (file, code, shown): (&'f File, (u64, CodeOf<'f>), &str),
) -> Option<Frames> {
    let parent = match header.by_fork {
        true => frames_of_parent(path, header, (file, code)),
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

/// Activations that a forked process has from its parent, whose file is in the same folder.
fn frames_of_parent<'f>(
    path: &Path,
    header: &Header,
    (file, code): (&'f File, (u64, CodeOf<'f>)),
) -> Option<Frames> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let files = fs::read_dir(folder).ok()?.flatten();
    let mut files: Vec<PathBuf> = files.map(|entry| entry.path()).collect();
    files.sort();
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
        for stream in parent.streams(&bytes, 0).ok()? {
            let witnesses = witnesses(&stream, &bytes);
            if let Some(frames) = regenerate::frames_at_fork(file, &witnesses, code, header.pid) {
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
