//! `loops -- PROGRAM`: nests of loops are followed in an edited program.
//!
//! Approach: the program is edited for the run (`edits::loops`), and each thread's memory is in a file afterwards, as that of counters
//! ([`wire::loops`]). Threads and processes are added up; a function holds for all of them, or its values were not as expected.
//!
//! Limits: libraries that the program needs, with `--libs`, and not those that it loads; the program sees its own file elsewhere.

mod found;
mod memory;
mod traced;

use std::cmp::Reverse;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use edits::loops::Choice;
use edits::loops::section::Planned;
use flow::Program;
use flow::nests::Nests;
use flow::nests::places::Places;
use image::{Image, LinkerSymbol};
use report::flow::Flow;
use report::followed::source::{self, Sources};
use report::followed::{self, Run};

use self::found::add;
use self::memory::Gathered;
pub use self::memory::again as follow_again;
pub use self::traced::follow;
use crate::branches::send;
use crate::counter_header::{self, Header};
use crate::edit_cache::{self, Inserted};
use crate::edited_folder::{self, Choices};
use crate::edited_run::{EditedRun, When};
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
    /// When nests are followed again.
    pub again: Option<When>,
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
pub fn run(files: &[Code<'_>], how: &How, flags: &Loops) -> Result<(Ending, Run)> {
    let (words, quiet) = (&flags.command, flags.quiet);
    let program = &std::path::absolute(files[0].flow.image.path())?;
    let choices = choices(files, how)?;
    let edited = match flags.libs {
        true => EditedRun::following_all(program, &choices, quiet),
        false => EditedRun::following(program, &choices[program], quiet),
    };
    let mut edited = edited.map_err(|why| {
        anyhow!(
            "'{}' is not edited: {why}; nothing was run; `everypath trace --memory addresses -o run.evp -- \
             PROGRAM` and `everypath loops --trace run.evp` follow its nests without editing it",
            program.display()
        )
    })?;
    for why in edited.kept() {
        say!("everypath: {why}; its loops are not followed");
    }
    let sections = edited.sections()?;
    if let Some(when) = how.again {
        let planned = Gathered::of(&sections)?;
        edited.again(when, move |path| {
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
            add(&mut made, code, &edited.planned, &edited.threads);
        }
    }
    sort(&mut made);
    Ok((Ending::of(ended), made))
}

/// Has nests followed, and shows what was found.
pub fn show(
    files: &[Code<'_>],
    (flags, output): (&Loops, Option<Output>),
    follow: impl FnOnce() -> Result<(Ending, Run)>,
) -> Result<Ending> {
    if flags.format == LoopsForm::Source && files.iter().all(|code| code.places.is_empty()) {
        bail!(
            "'{}' has no line tables, so it has no source lines: compile it with -g",
            files[0].flow.file
        );
    }
    let html = flags.html.as_deref();
    let html = html.map(|path| Output::prepare(path, Kind::Report));
    let html = html.transpose()?;
    let (ending, run) = follow()?;
    if let Some(html) = html {
        let sources = sources(files, &run);
        html.replace(|out| followed::page(&run, &sources, out))?;
    }
    send(output, |out| match flags.format {
        LoopsForm::Text => followed::text(&run, out),
        LoopsForm::Csv => followed::csv(&run, out),
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
        add(&mut run, code, &edited.planned, &edited.threads);
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
