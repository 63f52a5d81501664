//! Files that edited programs write their counters to, read as the recordings that `count` makes.
//!
//! Problem: such a file has numbers only. What they count is in the edited files, a program and perhaps its libraries, and the code
//! that was counted, with its names and lines, in the originals.
//!
//! Approach: the file says which program wrote it and which plans it and its libraries had; a plan is in a section of the edited file
//! and says which original that was made of. All must be what they were. Counts of one after the other become one process.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use analysis::counts::from_counters::{self, CodeOf, Counted, Left, Targets};
use anyhow::{Result, anyhow, bail};
use image::{Image, Images, LinkAddr, Version};
use placement::plan;
use trace::{End, Meta, Mode, Module, Process, Recording};
use wire::FileId;

use crate::counter_header::{Header, Part};
use crate::output::reason;
use crate::symbolize;
use crate::uncounted;
use crate::witnesses;

/// Functions that are named one by one when their counts do not add up.
const NAMED: usize = 5;

fn tool_name(tool: plan::Tool) -> &'static str {
    match tool {
        plan::Tool::Edges => "edges",
        plan::Tool::Blocks => "blocks",
        plan::Tool::Branches | plan::Tool::Coverage => report::counts::COVERAGE,
    }
}

/// The code of a file, by link address.
pub struct Code<'i> {
    image: &'i Image,
    /// Addresses of the executable segments.
    segments: Vec<std::ops::Range<u64>>,
}

impl<'i> Code<'i> {
    pub fn of(image: &'i Image) -> Code<'i> {
        Code {
            image,
            segments: code_segments(image),
        }
    }

    /// Number of modules that it makes.
    pub fn modules(&self) -> u32 {
        self.segments.len() as u32
    }

    /// Bytes from an address on, and index of the module that they are in.
    pub fn from(&self, addr: u64) -> Option<(&'i [u8], u32)> {
        let mut segments = self.segments.iter();
        let module = segments.position(|segment| segment.contains(&addr))?;
        Some((self.image.bytes_from(LinkAddr(addr)), module as u32))
    }
}

impl CodeOf for Code<'_> {
    fn at(&self, addr: u64) -> Option<(&[u8], u32)> {
        self.from(addr)
    }
}

/// The recording that `count` would have made, of the functions that were counted.
pub fn read(path: &Path) -> Result<Recording> {
    read_as(path, None)
}

/// The recording of a file that users do not know: sentences name the process of this program.
pub fn read_as(path: &Path, program: Option<&str>) -> Result<Recording> {
    let (header, bytes) = Header::of(path)?;
    let shown = match program {
        Some(program) => format!("process {} of '{program}'", header.pid),
        None => format!("'{}'", path.display()),
    };
    if let Some(read) = witnesses::read(path, &header, &bytes, &shown)? {
        return Ok(read.recording);
    }
    let Some(whole) = Whole::of(path, &header, &bytes, &shown)? else {
        bail!("{shown} has no counters yet: nothing of the program was executed");
    };
    say_what_has_no_room(&shown, &header);
    let is_marked = has_marks(whole.tool);
    if whole.counted.ended == Some(false) && !is_marked {
        say!(
            "everypath: {shown}: the program did not end by itself, but was killed, or ended in a library; \
             counts of what was active then may be off by one"
        );
    }
    let process = Process {
        pid: header.pid,
        by_fork: header.by_fork,
        exe: whole.exe.unwrap_or(header.program),
        args: header.arguments.clone(),
        end: End::Unknown,
        modules: whole.modules,
        ..Process::default()
    };
    let process = whole.counted.into_process(process);
    let meta = Meta {
        producer: format!("everypath {}", env!("CARGO_PKG_VERSION")),
        command: header.arguments,
        mode: Mode::Counts,
        options: whole.options,
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

/// Marks say that something was executed, and not how often.
fn has_marks(tool: plan::Tool) -> bool {
    matches!(tool, plan::Tool::Branches | plan::Tool::Coverage)
}

/// Whether a file, which has this header, has marks, and no counters.
pub fn has_marks_alone(path: &Path, header: &Header) -> Result<bool> {
    let plans = header.parts.iter().map(|part| planned(path, header, part));
    let plans = plans.collect::<Result<Vec<_>>>()?;
    Ok(plans.iter().any(|plan| has_marks(plan.planned.tool)))
}

/// All edited files of a process together.
struct Whole {
    tool: plan::Tool,
    counted: Counted,
    modules: Vec<Module>,
    options: Vec<(String, String)>,
    /// The original of the program; `None`: only libraries were edited.
    exe: Option<String>,
}

impl Whole {
    /// Reads the edited files of a process one after the other; `None`: there is none.
    fn of(path: &Path, header: &Header, bytes: &[u8], shown: &str) -> Result<Option<Whole>> {
        let plans = header.parts.iter().map(|part| planned(path, header, part));
        let plans = plans.collect::<Result<Vec<_>>>()?;
        let mut plans: Vec<(usize, Plan)> = plans.into_iter().enumerate().collect();
        // Libraries come first: one of them may have ended the process.
        plans.sort_by_key(|(_, plan)| plan.is_program);
        let Some(tool) = plans.first().map(|(_, plan)| plan.planned.tool) else {
            return Ok(None);
        };
        let mut whole = Whole {
            tool,
            counted: Counted::default(),
            modules: Vec::new(),
            options: vec![(report::counts::EDITED.into(), tool_name(tool).into())],
            exe: None,
        };
        if tool == plan::Tool::Coverage {
            let blocks_only = report::counts::BLOCKS_ONLY.into();
            whole.options.push((blocks_only, String::new()));
        }
        if header.was_reset() {
            let reset = report::counts::RESET.into();
            whole.options.push((reset, String::new()));
        }
        let moves = moves(header, &plans);
        let mut libraries = 0;
        for (number, plan) in plans {
            let ended = whole.counted.ended == Some(true);
            let read = read_part(path, (header, bytes), number, plan, (ended, &moves))?;
            say_what_is_missing(shown, tool, &read.counted, &read.original);
            let bias = header.parts[number].bias;
            let options = uncounted::options(&read.planned, &read.counted, &read.original, bias);
            whole.options.extend(options);
            let before = whole.modules.len() as u32;
            whole.counted.append(read.counted, before);
            let modules = mappings(&read.planned.original, &read.original, bias)?;
            whole.modules.extend(modules);
            match read.is_program {
                true => whole.exe = Some(read.planned.original),
                false => libraries += 1,
            }
        }
        whole.name_modules();
        if libraries > 0 {
            let number = report::counts::LIBRARIES.into();
            whole.options.push((number, libraries.to_string()));
        }
        Ok(Some(whole))
    }

    /// Says in which modules the targets of jumps are, now that all are known.
    fn name_modules(&mut self) {
        let modules = self.modules.iter().zip(0..);
        let mut ranges: Vec<(u64, u64, u32)> = modules
            .map(|(module, number)| (module.start, module.end, number))
            .collect();
        ranges.sort_unstable();
        for jump in &mut self.counted.jumps {
            let behind = ranges.partition_point(|(start, ..)| *start <= jump.pc);
            let range = behind.checked_sub(1).map(|at| ranges[at]);
            let range = range.filter(|(_, end, _)| jump.pc < *end);
            jump.module = range.map(|(_, _, number)| number);
        }
    }
}

/// Addresses of new code of a process's edited files, and the old ones.
type Moves = HashMap<u64, u64>;

fn moves(header: &Header, plans: &[(usize, Plan)]) -> Moves {
    let all = plans.iter().flat_map(|(number, plan)| {
        let bias = header.parts[*number].bias;
        let of_one = plan.moves.iter();
        of_one.map(move |(new, old)| (new.wrapping_add(bias), old.wrapping_add(bias)))
    });
    all.collect()
}

/// An edited file that a process had.
struct Plan {
    /// It is the program, and no library.
    is_program: bool,
    planned: plan::File,
    /// New addresses that may have been recorded, and old ones.
    moves: Vec<(u64, u64)>,
}

/// One edited file of a process, with its counts.
struct Read {
    is_program: bool,
    planned: plan::File,
    original: Image,
    counted: Counted,
}

/// Reads the counts of an edited file, by its number in the header; `ended`: another file's code ended the process; `moves`: of all
/// files.
fn read_part(
    path: &Path,
    (header, bytes): (&Header, &[u8]),
    number: usize,
    Plan {
        is_program,
        planned,
        ..
    }: Plan,
    (ended, moves): (bool, &Moves),
) -> Result<Read> {
    let part = &header.parts[number];
    let width = if has_marks(planned.tool) { 1 } else { 8 };
    let counters = header.counters(bytes, number, counters_of(&planned), width);
    let counters = counters.map_err(|what| anyhow!("'{}' {what}", path.display()))?;
    let known = (planned.size, planned.hash);
    let original = original(path, &planned.original, known)?;
    let code = Code::of(&original);
    let left = Left {
        threads: &counters,
        targets: &targets((header, bytes), number, &planned, moves),
    };
    let counted = Counted::of(&planned, left, part.bias, &code, ended);
    Ok(Read {
        is_program,
        planned,
        original,
        counted,
    })
}

/// Targets of calls and jumps by an address, by their old addresses.
fn targets(
    (header, bytes): (&Header, &[u8]),
    number: usize,
    planned: &plan::File,
    moves: &Moves,
) -> Targets {
    let mut targets = Targets::default();
    let mut add = |site: u32, tid, pc: u64, count| {
        let pc = moves.get(&pc).copied().unwrap_or(pc);
        targets.add(site, tid, pc, count);
    };
    for (table, site) in planned.functions.iter().flat_map(from_counters::tables) {
        let own = (table, plan::Site::PAIRS);
        header.pairs(bytes, number, own, &mut |tid, pc, count| {
            add(site, tid, pc, count);
        });
    }
    let shared = (0, planned.shared_pairs());
    header.pairs(bytes, number, shared, &mut |tid, value, count| {
        let site = (value >> plan::Site::NUMBER_AT) as u32;
        let pc = value & ((1 << plan::Site::NUMBER_AT) - 1);
        add(site, tid, pc, count);
    });
    targets
}

/// One more than the number of the last counter, or word of a table.
fn counters_of(planned: &plan::File) -> usize {
    let functions = planned.functions.iter();
    let ends = functions.map(|function| function.words().end);
    ends.max().unwrap_or(0)
}

/// The plan of an edited file that a process had.
///
/// It is the program itself, or where it was written to, or among the libraries of the program's folder.
fn planned(path: &Path, header: &Header, part: &Part) -> Result<Plan> {
    let (place, bytes) = edited(path, header, part)?;
    let (shown, program) = (path.display(), Path::new(&header.program));
    let section = rewrite::plan_of(&bytes).unwrap_or_default();
    let others = [edits::opmix::MAGIC, edits::loops::section::MAGIC];
    if others
        .iter()
        .any(|magic| section.starts_with(magic.as_bytes()))
    {
        bail!(
            "'{shown}' is of a program edited with --tool opmix or loops, which only `report` shows"
        );
    }
    let mut planned =
        plan::File::decode(section).ok_or_else(|| other_program(header, part, &shown))?;
    let is_program = place == program || is_one_file(&place, program);
    if !is_program {
        // A library has no main function.
        planned.main = 0;
    }
    Ok(Plan {
        is_program,
        planned,
        moves: rewrite::moves_of(&bytes),
    })
}

/// The edited file that a process had, and its bytes.
pub fn edited(path: &Path, header: &Header, part: &Part) -> Result<(PathBuf, Vec<u8>)> {
    let (shown, program) = (path.display(), Path::new(&header.program));
    let written_to = part.path.as_ref().map(PathBuf::from);
    let beside = program.parent().and_then(Path::parent);
    let beside = beside.and_then(|folder| fs::read_dir(folder.join("lib")).ok());
    let beside = beside.into_iter().flatten().flatten();
    let beside = beside
        .map(|entry| entry.path())
        .filter(|_| written_to.is_some());
    let places = written_to
        .iter()
        .cloned()
        .chain([program.to_owned()])
        .chain(beside);
    let mut failed = None;
    for place in places {
        let bytes = match fs::read(&place) {
            Ok(bytes) => bytes,
            Err(error) => {
                failed = failed.or(Some((place, error)));
                continue;
            }
        };
        let section = rewrite::plan_of(&bytes);
        if section.is_some_and(|section| plan::hash(section) == part.id) {
            return Ok((place, bytes));
        }
    }
    if let Some((place, error)) = failed {
        bail!(
            "cannot read '{}', the edited program that wrote '{shown}': {}",
            place.display(),
            reason(&error)
        );
    }
    Err(other_program(header, part, &shown))
}

fn other_program(header: &Header, part: &Part, shown: &dyn std::fmt::Display) -> anyhow::Error {
    let edited = part.path.as_deref().unwrap_or(&header.program);
    anyhow!("'{edited}' is not the edited program that wrote '{shown}': it was made anew since")
}

/// Whether two paths lead to one file.
pub fn is_one_file(one: &Path, other: &Path) -> bool {
    let file = |path: &Path| {
        let metadata = fs::metadata(path).ok()?;
        Some((metadata.dev(), metadata.ino()))
    };
    file(one).is_some_and(|one| Some(one) == file(other))
}

/// The original of the program that wrote a file, which has so many bytes with this hash.
pub fn original(path: &Path, original: &str, (size, hash): (u64, [u8; 16])) -> Result<Image> {
    let shown = path.display();
    let image = Image::open_whole(original);
    let image = image.map_err(|error| {
        anyhow!("cannot read '{original}', of whose code '{shown}' has counters: {error}")
    })?;
    let is_same = image.bytes().len() as u64 == size && plan::hash(image.bytes()) == hash;
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
pub fn mappings(path: &str, image: &Image, bias: u64) -> Result<Vec<Module>> {
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

/// Says whose counters are missing.
fn say_what_has_no_room(shown: &str, header: &Header) {
    if header.lost > 0 {
        say!(
            "everypath: {shown}: there was no room for the counters of {}",
            report::counted(header.lost, "thread")
        );
    }
    if header.lost_parts > 0 {
        say!(
            "everypath: {shown}: there was no room for the counters of {}",
            report::counted(header.lost_parts, "library")
        );
    }
}

/// Says which counts are not exact.
fn say_what_is_missing(shown: &str, tool: plan::Tool, counted: &Counted, image: &Image) {
    if has_marks(tool) {
        return;
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
        "everypath: {shown}: the process was stopped within these functions, and counts of their last \
         calls may be off by one: {}{more}",
        names.join(", ")
    );
}
