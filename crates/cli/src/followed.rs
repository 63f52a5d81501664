//! `loops -- PROGRAM`: nests of loops are followed in an edited program.
//!
//! Approach: the program is edited for the run (`edits::loops`), and each thread's memory is in a file afterwards, as that of counters
//! ([`wire::loops`]). Threads and processes are added up; a function holds for all of them, or its values were not as expected.
//!
//! Limits: the program's own code, and not that of its libraries; the program sees its own file elsewhere.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::mem::{offset_of, size_of};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use edits::loops::Choice;
use edits::loops::section::{Left, MAGIC, OfLoop, OfReference, Planned};
use flow::Program;
use flow::nests::places::Places;
use flow::nests::{Nest, Nests};
use image::{Image, LinkerSymbol};
use report::flow::Flow;
use report::followed::source::{self, Sources};
use report::followed::{self, Function, Reference, Run, Steps};
use report::loops::{instruction, name};
use wire::counters::FIRST;
use wire::loops::strides::{KEPT, Strides};
use wire::loops::{Loop, Model, Nest as State};

use crate::branches::send;
use crate::counter_header::{self, Header};
use crate::edited_run::EditedRun;
use crate::exit_status::Ending;
use crate::flags::{Format, Loops, LoopsForm, Report};
use crate::opmix;
use crate::output::{Kind, Output, reason};
use crate::source::Source;

/// A program with its nests, and those that are followed.
pub struct Wanted<'a> {
    pub flow: &'a Flow<'a>,
    pub nests: &'a Nests,
    pub places: &'a Places<'a>,
    pub chosen: &'a [usize],
    pub is_exact: bool,
    pub has_strides: bool,
    pub entries: u16,
    /// Variables of the program, by address.
    pub variables: &'a [LinkerSymbol],
    /// Nests are followed again after each such time.
    pub again: Option<Duration>,
}

/// The source files of a run that are what was compiled.
fn sources(wanted: &Wanted<'_>, run: &Run) -> Sources {
    let named = source::lines(run);
    let files = (0..).zip(wanted.places.files());
    let files = files.filter(|(_, file)| named.contains_key(&***file));
    let files = files.filter_map(|(number, file)| {
        let at = wanted.places.first_code(number);
        let stamp = at.map(|at| wanted.flow.image.source_stamp(at));
        match crate::source::read(file, stamp.as_ref()) {
            Source::Lines(lines) => Some((file.clone(), lines)),
            _ => None,
        }
    });
    files.collect()
}

/// Writes the page.
fn write_page(wanted: &Wanted<'_>, run: &Run, path: &Path) -> Result<()> {
    let html = Output::prepare(path, Kind::Report)?;
    let sources = sources(wanted, run);
    html.replace(|out| followed::page(run, &sources, out))
}

/// Runs the program, and gives what was found.
fn run(
    wanted: &Wanted<'_>,
    program: &Path,
    words: &[std::ffi::OsString],
    quiet: bool,
) -> Result<(Ending, Run)> {
    let headers = wanted.chosen.iter();
    let headers = headers.map(|&nest| wanted.nests.nests[nest].loops[0].header.0);
    let choice = Choice {
        headers: headers.collect(),
        is_exact: wanted.is_exact,
        has_strides: wanted.has_strides,
        entries: wanted.entries,
    };
    let edited = EditedRun::following(program, &choice, quiet);
    let mut edited = edited.map_err(|why| {
        anyhow!(
            "'{}' is not edited: {why}; nothing was run",
            program.display()
        )
    })?;
    let planned = edited.section()?;
    let planned = Planned::parse(&planned).ok_or_else(|| anyhow!("the section is damaged"))?;
    if let Some(every) = wanted.again {
        let places: Vec<u32> = planned.nests.iter().map(|nest| nest.at).collect();
        edited.again(every, move |path| {
            // A file that is only being made has no header yet; the next time will do.
            let _ = follow_again(path, &places);
        });
    }
    let (ended, ..) = edited.run(words)?;
    let mut memories = Vec::new();
    for path in edited.files()? {
        let (header, bytes) = Header::of(&path)?;
        memories.extend(memories_of(&header, &bytes));
    }
    let command: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    let made = made(wanted, &planned, &memories, command.join(" "));
    Ok((Ending::of(ended), made))
}

/// Runs the program, and shows what was found.
pub fn show(
    wanted: &Wanted<'_>,
    program: &Path,
    flags: &Loops,
    output: Option<Output>,
) -> Result<Ending> {
    if flags.format == LoopsForm::Source && wanted.places.is_empty() {
        bail!(
            "'{}' has no line tables, so it has no source lines: compile it with -g; nothing was run",
            program.display()
        );
    }
    let html = flags.html.as_deref();
    let html = html.map(|path| Output::prepare(path, Kind::Report));
    let html = html.transpose()?;
    let (ending, run) = run(wanted, program, &flags.command, flags.quiet)?;
    if let Some(html) = html {
        let sources = sources(wanted, &run);
        html.replace(|out| followed::page(&run, &sources, out))?;
    }
    send(output, |out| match flags.format {
        LoopsForm::Text => followed::text(&run, out),
        LoopsForm::Source => source::text(&run, &sources(wanted, &run), out),
        LoopsForm::Json => followed::json(&run, out),
    })?;
    Ok(ending)
}

/// Shows what programs that were edited with `--tool loops` have left; `None`: the first file is something else.
pub fn report(flags: &Report) -> Result<Option<Ending>> {
    if !counter_header::is_one(&flags.file) {
        return Ok(None);
    }
    let (header, _) = Header::of(&flags.file)?;
    let Some(text) = opmix::section(&flags.file, &header, MAGIC)? else {
        return Ok(None);
    };
    let planned = Planned::parse(&text).ok_or_else(|| anyhow!("the section is damaged"))?;
    let original = original(&planned)?;
    let image = Image::open_to_read(original).map_err(|error| anyhow!("{error}"))?;
    let program = Program::of(&image);
    let nests = Nests::of(&image, &program);
    let places = Places::of(&image);
    let flow = Flow {
        image: &image,
        program: &program,
        file: &planned.original,
        full_names: flags.view.full_names,
    };
    let wanted = Wanted {
        flow: &flow,
        nests: &nests,
        places: &places,
        chosen: &[],
        is_exact: planned.is_exact,
        has_strides: planned.has_strides,
        entries: 0,
        variables: &image.variables(),
        again: None,
    };
    let memories = all_memories(flags, &text)?;
    let arguments = header.arguments.iter().skip(1);
    let command: Vec<&str> = [&header.program]
        .into_iter()
        .chain(arguments)
        .map(|word| &**word)
        .collect();
    let run = made(&wanted, &planned, &memories, command.join(" "));
    let output = flags.made.output.as_deref();
    let output = output.map(|path| Output::prepare(path, Kind::Report));
    if let Some(path) = flags.page.html.as_deref() {
        write_page(&wanted, &run, path)?;
        if output.is_none() {
            return Ok(Some(Ending::Exit(0)));
        }
    }
    let ending = send(output.transpose()?, |out| match flags.format {
        Format::Json => followed::json(&run, out),
        _ => followed::text(&run, out),
    });
    ending.map(Some)
}

/// The memory of all threads in all files of a report, which are of one program.
fn all_memories(flags: &Report, text: &str) -> Result<Vec<Memory>> {
    let mut memories = Vec::new();
    for path in [&flags.file].into_iter().chain(&flags.more) {
        let (header, bytes) = Header::of(path)?;
        if opmix::section(path, &header, MAGIC)?.as_deref() != Some(text) {
            bail!(
                "'{}' is of another program than the file before it",
                path.display()
            );
        }
        memories.extend(memories_of(&header, &bytes));
    }
    Ok(memories)
}

/// The program of which an edited one was made, if it is still the same.
fn original(planned: &Planned) -> Result<&Path> {
    let original = Path::new(&planned.original);
    let bytes = fs::read(original);
    let bytes = bytes.map_err(|error| {
        anyhow!(
            "cannot read '{}', of which the edited program was made: {}",
            planned.original,
            reason(&error)
        )
    })?;
    if edits::loops::section::hash(&bytes) != planned.hash {
        bail!("'{}' is not what was edited any more", planned.original);
    }
    Ok(original)
}

/// Has all threads of a running process follow nests again that they do not follow any more. The file is their memory.
fn follow_again(path: &Path, nests: &[u32]) -> Result<()> {
    let (header, bytes) = Header::of(path)?;
    let file = OpenOptions::new().write(true).open(path)?;
    for range in header.chunks() {
        for at in nests {
            let Some(place) = u64::from(*at).checked_sub(FIRST) else {
                continue;
            };
            let place = range.start + place as usize;
            let flag = |offset: usize| bytes.get(place + offset).copied().unwrap_or(0);
            let is_idle = flag(offset_of!(State, inside)) == 0;
            if is_idle && flag(offset_of!(State, off)) != 0 {
                let put =
                    |offset: usize, bytes: &[u8]| file.write_all_at(bytes, (place + offset) as u64);
                put(offset_of!(State, since), &[0; size_of::<u32>()])?;
                put(offset_of!(State, events), &[0; size_of::<u64>()])?;
                put(offset_of!(State, off), &[0])?;
            }
        }
    }
    Ok(())
}

/// The memory of all threads in a file.
fn memories_of(header: &Header, bytes: &[u8]) -> Vec<Memory> {
    let chunks = header.chunks();
    let bias = header.parts.first().map_or(0, |part| part.bias);
    let memory = |range: Range<usize>| Memory(bytes[range].to_vec(), bias);
    chunks.map(memory).collect()
}

/// The memory of a thread, and how far from where it was linked its process had the program.
struct Memory(Vec<u8>, u64);

impl Memory {
    fn word(&self, at: u32, offset: usize) -> u64 {
        let place = (u64::from(at) + offset as u64).checked_sub(FIRST);
        let word = place.and_then(|place| self.0.get(place as usize..)?.first_chunk());
        word.map_or(0, |word| u64::from_le_bytes(*word))
    }

    fn model(&self, at: u32) -> Model {
        let word = |offset| self.word(at, offset);
        let fits = word(offset_of!(Model, as_forecast));
        let fails = word(offset_of!(Model, otherwise));
        let list =
            |offset: usize| std::array::from_fn(|number| word(offset + 8 * number).cast_signed());
        Model {
            samples: word(offset_of!(Model, samples)) + fits + fails,
            fits: word(offset_of!(Model, fits)) + fits,
            fails: word(offset_of!(Model, fails)) + fails,
            unsolved: word(offset_of!(Model, unsolved)),
            known: word(offset_of!(Model, known)),
            entry: word(offset_of!(Model, entry)),
            moved: word(offset_of!(Model, moved)),
            first: word(offset_of!(Model, first)).cast_signed(),
            at: list(offset_of!(Model, at)),
            coefficients: list(offset_of!(Model, coefficients)),
            ..Model::default()
        }
    }
}

/// Adds up the functions of several threads, of so many numbers.
fn function(models: impl Iterator<Item = Model>, depth: usize) -> Function {
    let mut all = Function {
        coefficients: vec![None; depth],
        ..Function::default()
    };
    for model in models.filter(|model| model.samples > 0) {
        let mut agrees = true;
        for (number, own) in all.coefficients.iter_mut().enumerate() {
            if model.known >> number & 1 == 0 {
                continue;
            }
            let coefficient = model.coefficients[number];
            agrees &= own.is_none_or(|own| own == coefficient);
            own.get_or_insert(coefficient);
        }
        let constant = model.constant();
        all.moved += model.moved;
        all.moved += u64::from(all.samples > 0 && all.constant != constant);
        all.constant = constant.or(all.constant);
        all.samples += model.samples;
        all.unsolved += model.unsolved;
        match agrees {
            true => {
                all.fits += model.fits;
                all.fails += model.fails;
            }
            false => all.fails += model.samples,
        }
    }
    all
}

/// Everything that was found, with names and lines.
fn made(wanted: &Wanted<'_>, planned: &Planned, memories: &[Memory], command: String) -> Run {
    let by_header: BTreeMap<u64, &Nest> = (wanted.nests.nests.iter())
        .map(|nest| (nest.loops[0].header.0, nest))
        .collect();
    let nests = planned.nests.iter().filter_map(|own| {
        let nest = by_header.get(&own.loops[0].header)?;
        let state = |offset: usize| {
            memories
                .iter()
                .map(move |memory| memory.word(own.at, offset))
        };
        let flags = offset_of!(State, inside);
        let inside = state(0)
            .filter(|word| word >> (8 * flags) & 0xff != 0)
            .count() as u64;
        let loops = own
            .loops
            .iter()
            .enumerate()
            .map(|(number, one)| loop_of(wanted, nest, (number, one), memories));
        Some(followed::Nest {
            threads: state(offset_of!(State, entries))
                .filter(|entries| *entries > 0)
                .count() as u64,
            entries: state(offset_of!(State, entries)).sum(),
            lost: state(offset_of!(State, lost)).sum::<u64>() + inside,
            loops: loops.collect(),
        })
    });
    let left = planned.left.iter().map(|(header, why)| {
        let known = by_header.get(header);
        let name = known.map_or_else(|| format!("{header:#x}"), |nest| name(wanted.flow, nest, 0));
        (name, why.clone())
    });
    Run {
        command,
        is_exact: planned.is_exact,
        nests: nests.collect(),
        left: left.collect(),
    }
}

fn loop_of(
    wanted: &Wanted<'_>,
    nest: &Nest,
    (number, own): (usize, &OfLoop),
    memories: &[Memory],
) -> followed::Loop {
    let depth = nest.loops[number].depth;
    let words = |offset: usize| {
        memories
            .iter()
            .map(move |memory| memory.word(own.at, offset))
    };
    let entries = words(offset_of!(Loop, entries));
    let least = words(offset_of!(Loop, least)).zip(entries.clone());
    let trips = memories.iter();
    let trips = trips.map(|memory| memory.model(own.at + offset_of!(Loop, trips) as u32));
    let extent = wanted.places.extent(wanted.flow.program, nest, number);
    let place = extent.and_then(|extent| {
        let file = wanted.places.files().get(extent.file as usize)?;
        Some((file.clone(), extent.first, extent.last))
    });
    let references = own.references.iter();
    let references = references.map(|own| reference(wanted, own, depth, memories));
    followed::Loop {
        name: name(wanted.flow, nest, number),
        place,
        depth,
        entries: entries.clone().sum(),
        sum: words(offset_of!(Loop, sum)).sum(),
        least: least
            .filter(|(_, entries)| *entries > 0)
            .map(|(least, _)| least)
            .min()
            .unwrap_or(0),
        most: words(offset_of!(Loop, most)).max().unwrap_or(0),
        trips: function(trips, depth as usize - 1),
        references: references.collect(),
    }
}

fn reference(wanted: &Wanted<'_>, own: &OfReference, depth: u32, memories: &[Memory]) -> Reference {
    let function = match own.model {
        Ok(at) => {
            let models = memories.iter().map(|memory| memory.model(at));
            Ok(function(models, depth as usize))
        }
        Err(left) => Err(reason_of(left)),
    };
    let at = image::LinkAddr(own.address);
    let place = wanted.places.row(at);
    let place = place.and_then(|line| {
        let file = wanted.places.files().get(line.file as usize)?;
        Some((file.clone(), line.line))
    });
    Reference {
        address: own.address,
        text: instruction(wanted.flow.image, at),
        place,
        reads: own.reads,
        writes: own.writes,
        bytes: own.bytes,
        function,
        is_constant: matches!(own.model, Err(Left::Constant(_))),
        variable: own.model.ok().and_then(|at| variable(wanted, at, memories)),
        steps: match (own.model, wanted.has_strides) {
            (Ok(at), true) => Some(steps(at + size_of::<Model>() as u32, memories)),
            _ => None,
        },
    }
}

/// Steps of a reference in all threads, the most frequent first.
fn steps(at: u32, memories: &[Memory]) -> Steps {
    let mut counts: BTreeMap<i64, u64> = BTreeMap::new();
    let mut others = 0;
    for memory in memories {
        for number in 0..KEPT {
            let word = |offset: usize| memory.word(at, offset + 8 * number);
            let stride = word(offset_of!(Strides, strides)).cast_signed();
            let count = word(offset_of!(Strides, counts));
            if count > 0 {
                *counts.entry(stride).or_default() += count;
            }
        }
        others += memory.word(at, offset_of!(Strides, others));
    }
    let mut kept: Vec<(i64, u64)> = counts.into_iter().collect();
    kept.sort_by_key(|(stride, count)| (Reverse(*count), *stride));
    Steps { kept, others }
}

/// The variable that the constant of a reference is in, and how far behind its beginning.
fn variable(wanted: &Wanted<'_>, at: u32, memories: &[Memory]) -> Option<String> {
    let constants = memories.iter().rev().filter_map(|memory| {
        let model = memory.model(at);
        let constant = model.constant().filter(|_| model.samples > 0)?;
        Some(constant.cast_unsigned().wrapping_sub(memory.1))
    });
    let at = constants.into_iter().next()?;
    let before = wanted.variables.partition_point(|one| one.addr.0 <= at);
    let one = &wanted.variables[before.checked_sub(1)?];
    match at - one.addr.0 {
        0 => Some(one.name.clone()),
        behind if behind < one.size => Some(format!("{}+{behind}", one.name)),
        _ => None,
    }
}

/// A reason why a reference was not followed.
fn reason_of(left: Left) -> String {
    match left {
        Left::Constant(address) => format!("always {address:#x}, as linked"),
        Left::Several => "not followed: it accesses several places, or a part of them".into(),
        Left::Operand => "not followed: an odd operand".into(),
        Left::Register => "not followed: it needs r11, which inserted code uses".into(),
        Left::Scratch => "not followed: no register is free before it".into(),
    }
}

const _: () = assert!(size_of::<State>().is_multiple_of(8) && size_of::<Loop>().is_multiple_of(8));
