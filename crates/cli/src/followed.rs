//! `loops -- PROGRAM`: nests of loops are followed in an edited program.
//!
//! Approach: the program is edited for the run (`edits::loops`), and each thread's memory is in a file afterwards, as that of counters
//! ([`wire::loops`]). Threads and processes are added up; a function holds for all of them, or its values were not as expected.
//!
//! Limits: libraries that the program needs, with `--libs`, and not those that it loads; the program sees its own file elsewhere.

mod memory;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs;
use std::mem::{offset_of, size_of};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use edits::loops::Choice;
use edits::loops::section::{Left, OfLoop, OfReference, Planned};
use flow::Program;
use flow::nests::places::Places;
use flow::nests::{Nest, Nests};
use image::{Image, LinkerSymbol};
use report::flow::Flow;
use report::followed::source::{self, Sources};
use report::followed::{self, Function, Reference, Run, Steps};
use report::loops::{instruction, name};
use wire::loops::strides::{KEPT, Strides};
use wire::loops::{Loop, Model, Nest as State};

use self::memory::{Edited, Gathered, Memory};
use crate::branches::send;
use crate::counter_header::{self, Header};
use crate::edit_cache::{self, Inserted};
use crate::edited_folder::{self, Choices};
use crate::edited_run::EditedRun;
use crate::exit_status::Ending;
use crate::flags::{Format, Loops, LoopsForm, Report};
use crate::output::{Kind, Output, reason};
use crate::source::Source;

/// A file with its nests, and those that are followed.
pub struct Code<'a> {
    pub flow: &'a Flow<'a>,
    pub nests: &'a Nests,
    pub places: &'a Places<'a>,
    /// The name of a library; `None`: it is the program.
    pub library: Option<&'a str>,
    /// Variables by address.
    pub variables: Vec<LinkerSymbol>,
    /// Indices of those that are followed, in the order in which they are shown.
    pub chosen: Vec<usize>,
}

/// Options of following.
pub struct How {
    pub is_exact: bool,
    pub has_strides: bool,
    pub entries: u16,
    /// Nests are followed again after each such time.
    pub again: Option<Duration>,
}

/// Paths of the libraries that are edited with a program.
pub fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let flags = edit_cache::flags(program, Path::new(""), Inserted::LOOPS);
    edited_folder::library_paths(&flags)
}

/// The source files of a run that are what was compiled.
fn sources(files: &[Code<'_>], run: &Run) -> Sources {
    let named = source::lines(run);
    let mut sources = Sources::new();
    for code in files {
        for (number, file) in (0..).zip(code.places.files()) {
            if sources.contains_key(file) || !named.contains_key(&**file) {
                continue;
            }
            let at = code.places.first_code(number);
            let stamp = at.map(|at| code.flow.image.source_stamp(at));
            if let Source::Lines(lines) = crate::source::read(file, stamp.as_ref()) {
                sources.insert(file.clone(), lines);
            }
        }
    }
    sources
}

/// Writes the page.
fn write_page(files: &[Code<'_>], run: &Run, path: &Path) -> Result<()> {
    let html = Output::prepare(path, Kind::Report)?;
    let sources = sources(files, run);
    html.replace(|out| followed::page(run, &sources, out))
}

/// Nests to follow, by file; libraries without any are not edited.
fn choices(files: &[Code<'_>], how: &How) -> Result<Choices> {
    let files = files.iter();
    let files = files.filter(|code| code.library.is_none() || !code.chosen.is_empty());
    let choices = files.map(|code| {
        let headers = code.chosen.iter();
        let headers = headers.map(|&nest| code.nests.nests[nest].loops[0].header.0);
        let choice = Choice {
            headers: Some(headers.collect()),
            is_exact: how.is_exact,
            has_strides: how.has_strides,
            entries: how.entries,
        };
        Ok((std::path::absolute(code.flow.image.path())?, choice))
    });
    choices.collect()
}

/// Runs the program, and gives what was found.
fn run(files: &[Code<'_>], how: &How, flags: &Loops) -> Result<(Ending, Run)> {
    let (words, quiet) = (&flags.command, flags.quiet);
    let program = &std::path::absolute(files[0].flow.image.path())?;
    let choices = choices(files, how)?;
    let edited = match flags.libs {
        true => EditedRun::following_all(program, &choices, quiet),
        false => EditedRun::following(program, &choices[program], quiet),
    };
    let mut edited = edited.map_err(|why| {
        anyhow!(
            "'{}' is not edited: {why}; nothing was run",
            program.display()
        )
    })?;
    for why in edited.kept() {
        say!("everypath: {why}; its loops are not followed");
    }
    let sections = edited.sections()?;
    if let Some(every) = how.again {
        let planned = Gathered::of(&sections)?;
        edited.again(every, move |path| {
            // A file that is only being made has no header yet; the next time will do.
            let _ = planned.follow_again(path);
        });
    }
    let mut gathered = Gathered::of(&sections)?;
    let (ended, ..) = edited.run(words)?;
    for path in edited.files()? {
        gathered.add(&path)?;
    }
    let command: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    let mut made = Run {
        command: command.join(" "),
        is_exact: how.is_exact,
        ..Run::default()
    };
    for code in files {
        let own = gathered.0.iter();
        let original = fs::canonicalize(code.flow.image.path()).unwrap_or_default();
        let mut own = own.filter(|edited| Path::new(&edited.planned.original) == original);
        if let Some(edited) = own.next() {
            add(&mut made, code, edited);
        }
    }
    sort(&mut made);
    Ok((Ending::of(ended), made))
}

/// Runs the program, and shows what was found.
pub fn show(
    files: &[Code<'_>],
    how: &How,
    (flags, output): (&Loops, Option<Output>),
) -> Result<Ending> {
    if flags.format == LoopsForm::Source && files.iter().all(|code| code.places.is_empty()) {
        bail!(
            "'{}' has no line tables, so it has no source lines: compile it with -g; nothing was run",
            files[0].flow.file
        );
    }
    let html = flags.html.as_deref();
    let html = html.map(|path| Output::prepare(path, Kind::Report));
    let html = html.transpose()?;
    let (ending, run) = run(files, how, flags)?;
    if let Some(html) = html {
        let sources = sources(files, &run);
        html.replace(|out| followed::page(&run, &sources, out))?;
    }
    send(output, |out| match flags.format {
        LoopsForm::Text => followed::text(&run, out),
        LoopsForm::Source => source::text(&run, &sources(files, &run), out),
        LoopsForm::Json => followed::json(&run, out),
    })?;
    Ok(ending)
}

/// Shows what programs that were edited with `--tool loops` have left; `None`: the first file is something else.
pub fn report(flags: &Report) -> Result<Option<Ending>> {
    if !counter_header::is_one(&flags.file) {
        return Ok(None);
    }
    let mut gathered = Gathered::default();
    if !gathered.learn(&flags.file)? {
        return Ok(None);
    }
    for path in [&flags.file].into_iter().chain(&flags.more) {
        // A process may have come to libraries that others did not come to.
        gathered.learn(path)?;
        gathered.add(path)?;
    }
    let (header, _) = Header::of(&flags.file)?;
    let opened = gathered.0.iter().map(|edited| Opened::of(&edited.planned));
    let opened = opened.collect::<Result<Vec<Opened>>>()?;
    let flows = opened.iter().map(|own| own.flow(flags.view.full_names));
    let flows: Vec<Flow<'_>> = flows.collect();
    let places: Vec<Places<'_>> = opened.iter().map(|own| Places::of(&own.image)).collect();
    let files = opened.iter().zip(&flows).zip(&places).zip(&gathered.0);
    let files = files.map(|(((own, flow), places), edited)| {
        let library = own.image.path().file_name();
        let library = library.filter(|_| edited.is_library);
        Code {
            flow,
            nests: &own.nests,
            places,
            library: library.and_then(|name| name.to_str()),
            variables: own.image.variables(),
            chosen: (0..own.nests.nests.len()).collect(),
        }
    });
    let files: Vec<Code<'_>> = files.collect();
    let arguments = header.arguments.iter().skip(1).map(|word| &**word);
    let command: Vec<&str> = [&*header.program].into_iter().chain(arguments).collect();
    let mut run = Run {
        command: command.join(" "),
        is_exact: gathered.0[0].planned.is_exact,
        ..Run::default()
    };
    for (code, edited) in files.iter().zip(&gathered.0) {
        add(&mut run, code, edited);
    }
    sort(&mut run);
    let output = flags.made.output.as_deref();
    let output = output.map(|path| Output::prepare(path, Kind::Report));
    if let Some(path) = flags.page.html.as_deref() {
        write_page(&files, &run, path)?;
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

/// If all iterations were followed, the nests with most accesses come first.
fn sort(run: &mut Run) {
    if run.is_exact {
        run.nests.sort_by_key(|nest| Reverse(nest.samples()));
    }
}

/// The file of which an edited one was made, with its nests.
struct Opened {
    file: String,
    image: Image,
    program: Program,
    nests: Nests,
}

impl Opened {
    fn of(planned: &Planned) -> Result<Opened> {
        let original = original(planned)?;
        let image = Image::open_to_read(original).map_err(|error| anyhow!("{error}"))?;
        let program = Program::of(&image);
        let nests = Nests::of(&image, &program);
        let file = planned.original.clone();
        Ok(Opened {
            file,
            image,
            program,
            nests,
        })
    }

    fn flow(&self, full_names: bool) -> Flow<'_> {
        Flow {
            image: &self.image,
            program: &self.program,
            file: &self.file,
            full_names,
        }
    }
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

/// Adds everything that was found in a file, with names and lines.
fn add(run: &mut Run, code: &Code<'_>, edited: &Edited) {
    let (planned, memories) = (&edited.planned, &edited.memories);
    let places = code.chosen.iter().enumerate();
    let by_header: BTreeMap<u64, (usize, &Nest)> = places
        .map(|(place, &nest)| {
            let nest = &code.nests.nests[nest];
            (nest.loops[0].header.0, (place, nest))
        })
        .collect();
    let mut nests = Vec::new();
    for own in &planned.nests {
        let Some(&(place, nest)) = by_header.get(&own.loops[0].header) else {
            continue;
        };
        let words = |offset: usize| {
            memories
                .iter()
                .map(move |memory| memory.word(own.at, offset))
        };
        let flags = offset_of!(State, inside);
        let inside = words(0).filter(|word| word >> (8 * flags) & 0xff != 0);
        let lost = words(offset_of!(State, lost)).sum::<u64>() + inside.count() as u64;
        let entries = words(offset_of!(State, entries));
        let loops = own.loops.iter().enumerate();
        let loops = loops.map(|one| loop_of(code, (planned, nest), one, memories));
        nests.push((
            place,
            followed::Nest {
                library: code.library.map(str::to_owned),
                threads: entries.clone().filter(|entries| *entries > 0).count() as u64,
                entries: entries.sum(),
                lost,
                loops: loops.collect(),
            },
        ));
    }
    nests.sort_by_key(|(place, _)| *place);
    run.nests.extend(nests.into_iter().map(|(_, nest)| nest));
    let left = planned.left.iter().map(|(header, why)| {
        let known = by_header.get(header);
        let name = match known {
            Some((_, nest)) => name(code.flow, nest, 0),
            None => format!("{header:#x}"),
        };
        followed::Left {
            library: code.library.map(str::to_owned),
            name,
            why: why.clone(),
        }
    });
    run.left.extend(left);
}

fn loop_of(
    code: &Code<'_>,
    (planned, nest): (&Planned, &Nest),
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
    let extent = code.places.extent(code.flow.program, nest, number);
    let place = extent.and_then(|extent| {
        let file = code.places.files().get(extent.file as usize)?;
        Some((file.clone(), extent.first, extent.last))
    });
    let references = own.references.iter();
    let references = references.map(|own| reference(code, (planned, own), depth, memories));
    followed::Loop {
        name: name(code.flow, nest, number),
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

fn reference(
    code: &Code<'_>,
    (planned, own): (&Planned, &OfReference),
    depth: u32,
    memories: &[Memory],
) -> Reference {
    let function = match own.model {
        Ok(at) => {
            let models = memories.iter().map(|memory| memory.model(at));
            Ok(function(models, depth as usize))
        }
        Err(left) => Err(reason_of(left)),
    };
    let at = image::LinkAddr(own.address);
    let place = code.places.row(at);
    let place = place.and_then(|line| {
        let file = code.places.files().get(line.file as usize)?;
        Some((file.clone(), line.line))
    });
    Reference {
        address: own.address,
        text: instruction(code.flow.image, at),
        place,
        reads: own.reads,
        writes: own.writes,
        bytes: own.bytes,
        function,
        is_constant: matches!(own.model, Err(Left::Constant(_))),
        variable: own.model.ok().and_then(|at| variable(code, at, memories)),
        steps: match (own.model, planned.has_strides) {
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
fn variable(code: &Code<'_>, at: u32, memories: &[Memory]) -> Option<String> {
    let constants = memories.iter().rev().filter_map(|memory| {
        let model = memory.model(at);
        let constant = model.constant().filter(|_| model.samples > 0)?;
        Some(constant.cast_unsigned().wrapping_sub(memory.bias))
    });
    let at = constants.into_iter().next()?;
    let before = code.variables.partition_point(|one| one.addr.0 <= at);
    let one = &code.variables[before.checked_sub(1)?];
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
