//! `loops`: which nests of loops a file has, and which of them marks in its sources mean.

mod chosen;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use flow::Program;
use flow::nests::places::Places;
use flow::nests::{Nest, Nests};
use flow::nests::{marks, meant};
use image::Image;
use rayon::prelude::*;
use report::flow::Flow;
use report::loops::{Listed, Mark, json, text};
use signal_hook::consts::{SIGUSR1, SIGUSR2};

use self::chosen::Known;
use crate::branches::send;
use crate::dependences;
use crate::edit_cache::is_script;
use crate::edited_run::When;
use crate::exit_status::Ending;
use crate::flags::{Loops, LoopsForm};
use crate::flow::executions;
use crate::output::{Kind, Output};
use crate::source::{self, Source};
use crate::traced_nests::Traced;
use crate::{followed, program};

pub fn loops(flags: &Loops) -> Result<Ending> {
    let prepare = |path| Output::prepare(path, Kind::Report);
    let output = flags.output.as_deref().map(prepare).transpose()?;
    let traced = flags.dependences.as_deref().or(flags.trace.as_deref());
    let traced = traced.map(Traced::read).transpose()?;
    let path = file_of(flags, traced.as_ref())?;
    let mut opened = vec![Opened::of(&path, false)?];
    if flags.libs {
        let libraries = match &traced {
            Some(traced) => traced.libraries()?,
            None => followed::libraries(&path)?,
        };
        opened.extend(nests_of(&libraries)?);
    }
    let flows: Vec<Flow<'_>> = opened.iter().map(|own| own.flow(flags)).collect();
    let known = opened.iter().zip(&flows);
    let known: Vec<Known<'_>> = known.map(|(own, flow)| own.known(flow)).collect();
    let shares = |path| shares_of(path, &known);
    let shares = flags.counts.as_deref().map(shares).transpose()?;
    let shown = chosen::of(&known, &flags.loops, shares.as_deref())?;
    if let (Some(traced), None) = (&traced, &flags.trace) {
        let own = &known[0];
        let code = (own.flow, own.nests, &own.places);
        return dependences::show(traced, (flags, output), code, &shown[0]);
    }
    if flags.list.is_none() {
        let code = known.iter().zip(&opened).zip(shown);
        let code = code.map(|((own, opened), chosen)| followed::Code {
            flow: own.flow,
            nests: own.nests,
            places: &own.places,
            library: opened.library.as_deref(),
            variables: opened.image.variables(),
            chosen,
        });
        let how = followed::How {
            is_exact: flags.exact,
            has_strides: flags.strides,
            entries: flags.entries,
            again: again(flags)?,
        };
        let files: Vec<followed::Code<'_>> = code.collect();
        return followed::show(&files, (flags, output), || match &traced {
            Some(traced) => followed::follow(&files, traced, flags),
            None => followed::run(&files, &how, flags),
        });
    }
    let own = &known[0];
    let listed = Listed {
        flow: own.flow,
        nests: own.nests,
        places: &own.places,
        marks: &own.marks,
        shown: &shown[0],
        shares: shares.as_ref().map(|shares| &*shares[0]),
    };
    list(&listed, flags.format, output)
}

/// A file with its nests.
struct Opened {
    file: String,
    /// The name of a library; `None`: it is the program.
    library: Option<String>,
    image: Image,
    program: Program,
    nests: Nests,
}

impl Opened {
    fn of(path: &Path, is_library: bool) -> Result<Opened> {
        let image = Image::open_to_read(path).map_err(|error| anyhow!("{error}"))?;
        let program = Program::of(&image);
        let nests = Nests::of(&image, &program);
        let name = path.file_name().filter(|_| is_library);
        Ok(Opened {
            file: path.display().to_string(),
            library: name.map(|name| name.to_string_lossy().into_owned()),
            image,
            program,
            nests,
        })
    }

    fn flow(&self, flags: &Loops) -> Flow<'_> {
        Flow {
            image: &self.image,
            program: &self.program,
            file: &self.file,
            full_names: flags.full_names,
        }
    }

    fn known<'a>(&'a self, flow: &'a Flow<'a>) -> Known<'a> {
        let mut places = Places::of(&self.image);
        let found = sources_with_marks(&self.image, &places);
        if !found.is_empty() {
            places.add_inlined();
        }
        Known {
            flow,
            nests: &self.nests,
            marks: with_meaning(found, &self.program, &self.nests, &places),
            places,
        }
    }
}

/// Libraries with their nests.
fn nests_of(paths: &[PathBuf]) -> Result<Vec<Opened>> {
    let open = || {
        paths
            .par_iter()
            .map(|path| Opened::of(path, true))
            .collect()
    };
    flow::with_processors(open)
}

fn list(listed: &Listed<'_>, form: LoopsForm, output: Option<Output>) -> Result<Ending> {
    send(output, |out| match form {
        LoopsForm::Text | LoopsForm::Source | LoopsForm::Csv => text(listed, out),
        LoopsForm::Json => json(listed, out),
    })
}

/// When nests are followed again.
fn again(flags: &Loops) -> Result<Option<When>> {
    let Some(word) = flags.again.as_deref() else {
        return Ok(None);
    };
    let when = match word.trim_start_matches("SIG") {
        "USR1" => Some(When::Signal(SIGUSR1)),
        "USR2" => Some(When::Signal(SIGUSR2)),
        seconds => {
            let seconds = seconds.parse().ok().filter(|seconds| *seconds >= 0.01);
            let time = seconds.and_then(|own| Duration::try_from_secs_f64(own).ok());
            time.map(When::Every)
        }
    };
    match when {
        Some(when) => Ok(Some(when)),
        None => bail!("--again {word}: give seconds, at least 0.01, or USR1 or USR2"),
    }
}

/// The file that has the loops.
fn file_of(flags: &Loops, traced: Option<&Traced>) -> Result<PathBuf> {
    let is_of_run = matches!(flags.format, LoopsForm::Source | LoopsForm::Csv);
    if (flags.list.is_some() || flags.dependences.is_some()) && is_of_run {
        bail!(
            "--format source and csv show what a run did: give a program, and neither --list nor --dependences"
        );
    }
    let path = match (&flags.list, traced) {
        (Some(path), _) => path.clone(),
        (None, Some(traced)) => traced.program()?,
        (None, None) => program::check(&flags.command[0])?,
    };
    if is_script(&path) {
        bail!(
            "'{}' has no loops of machine code: it is a script; name its interpreter, and the script behind it",
            path.display()
        );
    }
    Ok(path)
}

/// Marks by source file; one that changed since it was compiled is named.
fn sources_with_marks(image: &Image, places: &Places<'_>) -> Vec<(u32, Vec<marks::Mark>)> {
    let mut all = Vec::new();
    for (number, file) in (0..).zip(places.files()) {
        let stamp = places.first_code(number).map(|at| image.source_stamp(at));
        match source::read(file, stamp.as_ref()) {
            Source::Lines(text) => {
                let marks = marks::of(file, &text);
                if !marks.is_empty() {
                    all.push((number, marks));
                }
            }
            Source::Changed => say!(
                "everypath: '{file}' is not what was compiled, so marks in it are not looked for"
            ),
            Source::None => {}
        }
    }
    all
}

/// Marks, and the nests that they mean.
fn with_meaning(
    found: Vec<(u32, Vec<marks::Mark>)>,
    program: &Program,
    nests: &Nests,
    places: &Places<'_>,
) -> Vec<Mark> {
    let of_file = |(number, marks): (u32, Vec<marks::Mark>)| {
        let file = places.files()[number as usize].clone();
        let means = move |mark: marks::Mark| Mark {
            file: file.clone(),
            line: mark.line,
            found: meant::find(program, nests, places, (number, &mark)),
            name: mark.name,
        };
        marks.into_iter().map(means)
    };
    found.into_iter().flat_map(of_file).collect()
}

/// By file and nest: the share of its instructions among all that were executed in these files, in percent.
fn shares_of(path: &Path, known: &[Known<'_>]) -> Result<Vec<Vec<f64>>> {
    let mut counts = Vec::new();
    for (number, own) in known.iter().enumerate() {
        let executed = match executions(path, own.flow.image) {
            // No code of this library was executed.
            Err(_) if number > 0 => HashMap::new(),
            executed => executed?,
        };
        let mut sorted: Vec<(u64, u64)> = (executed.into_iter())
            .map(|(at, (count, _))| (at, count))
            .collect();
        sorted.sort_unstable();
        counts.push(sorted);
    }
    let all: u64 = counts.iter().flatten().map(|(_, count)| *count).sum();
    let shares = known.iter().zip(&counts).map(|(own, counts)| {
        let nests = own.nests.nests.iter();
        nests
            .map(|nest| 100.0 * executed_in(nest, own.flow, counts) as f64 / all.max(1) as f64)
            .collect()
    });
    Ok(shares.collect())
}

/// Instructions of a nest that were executed, from the counts of all by their offset in the file.
fn executed_in(nest: &Nest, flow: &Flow<'_>, counts: &[(u64, u64)]) -> u64 {
    let graph = &flow.program.functions[nest.function].graph;
    let blocks = nest.loops[0].blocks.iter();
    let blocks = blocks.map(|&block| &graph.blocks[block as usize]);
    let own = blocks.filter_map(|block| {
        let start = flow.image.file_offset(block.start)?.0;
        let end = start + (block.end.0 - block.start.0);
        let from = counts.partition_point(|(at, _)| *at < start);
        let own = counts[from..].iter().take_while(|(at, _)| *at < end);
        Some(own.map(|(_, count)| *count).sum::<u64>())
    });
    own.sum()
}
