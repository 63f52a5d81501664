//! Files that edited programs write their counters to, read as the recordings that `count` makes.
//!
//! Problem: such a file has numbers only. What they count is in the edited program, and the code that was counted, with its names and
//! lines, in the original.
//!
//! Approach: the file says which program wrote it and which plan that had; the plan is in a section of the program and says which
//! original it was made of. All three must be what they were.

use std::fs::{self, File};
use std::io::Read;
use std::mem::offset_of;
use std::path::Path;

use analysis::counts::from_counters::{CodeOf, Counted};
use anyhow::{Result, anyhow, bail};
use image::{Image, Images, LinkAddr, Version};
use placement::plan;
use trace::{End, Meta, Mode, Module, Process, Recording};
use wire::FileId;
use wire::counters::{ARGUMENTS, FIRST, FileHeader, ID, MAGIC, NUMBERED, PATH, SEVERAL, VERSION};

use crate::output::reason;
use crate::symbolize;
use crate::uncounted;

/// Functions that are named one by one when their counts do not add up.
const NAMED: usize = 5;

fn tool_name(tool: plan::Tool) -> &'static str {
    match tool {
        plan::Tool::Edges => "edges",
        plan::Tool::Blocks => "blocks",
        plan::Tool::Branches | plan::Tool::Coverage => report::counts::COVERAGE,
    }
}

/// Whether a file has counters. A pipe has none: nobody else could read what was read here.
pub fn is_one(path: &Path) -> bool {
    let mut head = [0; MAGIC.len()];
    if !fs::metadata(path).is_ok_and(|metadata| metadata.is_file()) {
        return false;
    }
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && head == MAGIC
}

/// The header of a file.
#[derive(Debug)]
pub struct Header {
    by_fork: bool,
    pub id: [u8; ID],
    stride: u64,
    slots: u64,
    lost: u64,
    pid: u32,
    bias: u64,
    started: u64,
    pub program: String,
    arguments: Vec<String>,
    threads: Vec<u32>,
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let word = bytes.get(at..).and_then(|rest| rest.first_chunk());
    word.map_or(0, |word| u64::from_le_bytes(*word))
}

fn half(bytes: &[u8], at: usize) -> u32 {
    word(bytes, at) as u32
}

impl Header {
    /// That of a file, and all bytes of it.
    pub fn of(path: &Path) -> Result<(Header, Vec<u8>)> {
        let shown = path.display();
        let bytes = fs::read(path);
        let bytes = bytes.map_err(|error| anyhow!("cannot read '{shown}': {}", reason(&error)))?;
        let header = Header::parse(&bytes).map_err(|what| anyhow!("'{shown}' {what}"))?;
        Ok((header, bytes))
    }

    /// Reads it; the error is the end of a sentence that begins with the file's name.
    fn parse(bytes: &[u8]) -> Result<Header, &'static str> {
        if bytes.len() < FIRST as usize {
            return Err("is cut off: it has no counters");
        }
        if half(bytes, offset_of!(FileHeader, version)) != VERSION {
            return Err("is of another version of everypath");
        }
        let text = |at: usize, most: usize, len: u32| {
            let len = (len as usize).min(most);
            bytes[at..at + len].to_vec()
        };
        let program = text(
            offset_of!(FileHeader, path),
            PATH,
            half(bytes, offset_of!(FileHeader, path_len)),
        );
        let arguments = text(
            offset_of!(FileHeader, arguments),
            ARGUMENTS,
            half(bytes, offset_of!(FileHeader, arguments_len)),
        );
        let arguments = arguments.split(|&byte| byte == 0);
        let mut arguments: Vec<String> = arguments
            .map(|argument| String::from_utf8_lossy(argument).into_owned())
            .collect();
        // Each ends with a zero.
        arguments.pop();
        let id = offset_of!(FileHeader, id);
        Ok(Header {
            by_fork: half(bytes, offset_of!(FileHeader, by_fork)) != 0,
            id: bytes[id..id + ID].try_into().map_err(|_| "is damaged")?,
            stride: word(bytes, offset_of!(FileHeader, stride)),
            slots: word(bytes, offset_of!(FileHeader, slots)),
            lost: word(bytes, offset_of!(FileHeader, lost)),
            pid: half(bytes, offset_of!(FileHeader, pid)),
            bias: word(bytes, offset_of!(FileHeader, bias)),
            started: word(bytes, offset_of!(FileHeader, started)),
            program: String::from_utf8_lossy(&program).into_owned(),
            arguments,
            threads: (0..NUMBERED)
                .map(|at| half(bytes, offset_of!(FileHeader, threads) + 4 * at))
                .collect(),
        })
    }

    /// The counters of threads by their numbers; `width`: bytes of one. Those of one byte are marks, and are of the process.
    pub fn counters(
        &self,
        bytes: &[u8],
        count: usize,
        width: usize,
    ) -> Result<Vec<(u32, Vec<u64>)>, &'static str> {
        let size = (count as u64).checked_mul(width as u64);
        let fits = size.is_some_and(|size| size <= self.stride);
        let end = self.slots.checked_mul(self.stride);
        let end = end.and_then(|size| size.checked_add(FIRST));
        if !fits || self.stride == 0 || end.is_none_or(|end| end > bytes.len() as u64) {
            return Err("is cut off: counters of threads are missing");
        }
        let mut threads: Vec<(u32, Vec<u64>)> = Vec::new();
        let slots = bytes[FIRST as usize..].chunks_exact(self.stride as usize);
        for (at, slot) in slots.take(self.slots as usize).enumerate() {
            let number = match width {
                1 => self.pid,
                _ => self.threads.get(at).copied().unwrap_or(SEVERAL),
            };
            let known = threads.iter().position(|(known, _)| *known == number);
            let own = known.unwrap_or_else(|| {
                threads.push((number, vec![0; count]));
                threads.len() - 1
            });
            let sums = &mut threads[own].1;
            for (sum, counter) in sums.iter_mut().zip(slot.chunks_exact(width)) {
                *sum = sum.saturating_add(match counter.first_chunk() {
                    Some(word) => u64::from_le_bytes(*word),
                    None => counter[0].into(),
                });
            }
        }
        Ok(threads)
    }
}

/// The code of a file, by link address.
struct Code<'i> {
    image: &'i Image,
    /// Addresses of the executable segments.
    segments: Vec<std::ops::Range<u64>>,
}

impl CodeOf for Code<'_> {
    fn at(&self, addr: u64) -> Option<(&[u8], u32)> {
        let mut segments = self.segments.iter();
        let module = segments.position(|segment| segment.contains(&addr))?;
        Some((self.image.bytes_from(LinkAddr(addr)), module as u32))
    }
}

/// The recording that `count` would have made, of the functions that were counted.
pub fn read(path: &Path) -> Result<Recording> {
    let shown = path.display();
    let (header, bytes) = Header::of(path)?;
    let planned = planned(path, &header)?;
    let width = match planned.tool {
        plan::Tool::Branches | plan::Tool::Coverage => 1,
        plan::Tool::Edges | plan::Tool::Blocks => 8,
    };
    let counters = header.counters(&bytes, counters_of(&planned), width);
    let counters = counters.map_err(|what| anyhow!("'{shown}' {what}"))?;
    let original = original(path, &planned)?;
    let code = Code {
        image: &original,
        segments: code_segments(&original),
    };
    let counted = Counted::of(&planned, &counters, header.bias, &code);
    say_what_is_missing(path, &header, planned.tool, &counted, &original);
    let mut options = vec![(
        report::counts::EDITED.into(),
        tool_name(planned.tool).into(),
    )];
    if planned.tool == plan::Tool::Coverage {
        options.push((report::counts::BLOCKS_ONLY.into(), String::new()));
    }
    options.extend(uncounted::options(&planned, &counted, &original));
    let modules = modules(&planned.original, &original, header.bias)?;
    let process = Process {
        pid: header.pid,
        by_fork: header.by_fork,
        exe: planned.original.clone(),
        args: header.arguments.clone(),
        end: End::Unknown,
        modules,
        ..Process::default()
    };
    let process = counted.into_process(process);
    let meta = Meta {
        producer: format!("everypath {}", env!("CARGO_PKG_VERSION")),
        command: header.arguments,
        mode: Mode::Counts,
        options,
        started_unix_ns: header.started,
        ..Meta::default()
    };
    let mut recording = Recording {
        meta,
        processes: vec![process],
        denied: Vec::new(),
        natives: Vec::new(),
    };
    symbolize::symbolize(&mut recording, &Images::new());
    Ok(recording)
}

/// One more than the number of the last counter.
fn counters_of(planned: &plan::File) -> usize {
    let functions = planned.functions.iter();
    let ends = functions.map(|function| function.first.saturating_add(function.counters() as u64));
    usize::try_from(ends.max().unwrap_or(0)).unwrap_or(usize::MAX)
}

/// The plan of the program that wrote a file.
fn planned(path: &Path, header: &Header) -> Result<plan::File> {
    let (shown, program) = (path.display(), &header.program);
    let bytes = fs::read(program).map_err(|error| {
        anyhow!(
            "cannot read '{program}', the edited program that wrote '{shown}': {}",
            reason(&error)
        )
    })?;
    let section = rewrite::plan_of(&bytes);
    let own = section.filter(|section| plan::hash(section) == header.id);
    if own.is_some_and(|section| section.starts_with(edits::opmix::MAGIC.as_bytes())) {
        bail!("'{shown}' is of a program edited with --tool opmix, which only `report` shows");
    }
    let decoded = own.and_then(plan::File::decode);
    decoded.ok_or_else(|| {
        anyhow!(
            "'{program}' is not the edited program that wrote '{shown}': it was made anew since"
        )
    })
}

/// The original of the program that wrote a file.
fn original(path: &Path, planned: &plan::File) -> Result<Image> {
    let (shown, original) = (path.display(), &planned.original);
    let image = Image::open_whole(original);
    let image = image.map_err(|error| {
        anyhow!("cannot read '{original}', of whose code '{shown}' has counters: {error}")
    })?;
    let is_same =
        image.bytes().len() as u64 == planned.size && plan::hash(image.bytes()) == planned.hash;
    if !is_same {
        bail!("'{original}' is another build than that of whose code '{shown}' has counters");
    }
    Ok(image)
}

fn code_segments(image: &Image) -> Vec<std::ops::Range<u64>> {
    let segments = image.segments().iter().filter(|segment| segment.executable);
    segments
        .map(|segment| segment.addr.0..segment.addr.0 + segment.file_size)
        .collect()
}

/// The mappings of its code.
fn modules(path: &str, image: &Image, bias: u64) -> Result<Vec<Module>> {
    // Names are those of this very file.
    let version = Version::of(Path::new(path))?;
    let file = FileId {
        dev: version.dev,
        ino: version.ino,
        changed: version.changed,
    };
    let segments = image.segments().iter().filter(|segment| segment.executable);
    Ok(segments
        .map(|segment| Module {
            path: path.to_owned(),
            start: segment.addr.0.wrapping_add(bias),
            end: segment
                .addr
                .0
                .wrapping_add(bias)
                .wrapping_add(segment.file_size),
            offset: segment.offset.0,
            file,
            build_id: image.build_id().map(<[u8]>::to_vec),
            ..Module::default()
        })
        .collect())
}

/// Says which counts are missing, and which are not exact.
fn say_what_is_missing(
    path: &Path,
    header: &Header,
    tool: plan::Tool,
    counted: &Counted,
    image: &Image,
) {
    let shown = path.display();
    if header.lost > 0 {
        say!(
            "everypath: '{shown}': there was no room for the counters of {}",
            report::counted(header.lost, "thread")
        );
    }
    let has_marks = matches!(tool, plan::Tool::Branches | plan::Tool::Coverage);
    if counted.ended == Some(false) && !has_marks {
        say!(
            "everypath: '{shown}': the program did not end by itself, but was killed, or ended in a library; \
             counts of what was active then may be off by one"
        );
    }
    if counted.unsound.is_empty() {
        return;
    }
    let names = counted.unsound.iter().take(NAMED);
    let names = names.map(|&entry| uncounted::name_at(entry, image));
    let names: Vec<String> = names.collect();
    let more = counted.unsound.len() - names.len();
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    say!(
        "everypath: '{shown}': the process was stopped within these functions, and counts of their last \
         calls may be off by one: {}{more}",
        names.join(", ")
    );
}
