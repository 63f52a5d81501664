//! `loops`: which nests of loops a file has, and which of them marks in its sources mean.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use flow::Program;
use flow::nests::places::Places;
use flow::nests::{Nest, Nests};
use flow::nests::{marks, meant};
use image::Image;
use report::flow::Flow;
use report::loops::{Listed, Mark, json, text};

use crate::branches::send;
use crate::dependences::{self, Traced};
use crate::edit_cache::is_script;
use crate::exit_status::Ending;
use crate::flags::{Loops, LoopsForm};
use crate::flow::executions;
use crate::output::{Kind, Output};
use crate::source::{self, Source};
use crate::{followed, program};

pub fn loops(flags: &Loops) -> Result<Ending> {
    let prepare = |path| Output::prepare(path, Kind::Report);
    let output = flags.output.as_deref().map(prepare).transpose()?;
    let traced = flags.dependences.as_deref().map(Traced::read).transpose()?;
    let path = file_of(flags, traced.as_ref())?;
    let image = Image::open_to_read(&path).map_err(|error| anyhow!("{error}"))?;
    let program = Program::of(&image);
    let nests = Nests::of(&image, &program);
    let file = path.display().to_string();
    let flow = Flow {
        image: &image,
        program: &program,
        file: &file,
        full_names: flags.full_names,
    };
    let shares = |path| shares_of(path, &image, &program, &nests);
    let shares = flags.counts.as_deref().map(shares).transpose()?;
    let mut places = Places::of(&image);
    let found = sources_with_marks(&image, &places);
    if !found.is_empty() {
        places.add_inlined();
    }
    let marks = with_meaning(found, &program, &nests, &places);
    let known = Known {
        flow: &flow,
        nests: &nests,
        marks: &marks,
        has_lines: !places.is_empty(),
        shares: shares.as_deref(),
    };
    let shown = known.chosen(&flags.loops)?;
    if let Some(traced) = &traced {
        return dependences::show(traced, (flags, output), (&flow, &nests, &places), &shown);
    }
    if flags.list.is_none() {
        let wanted = followed::Wanted {
            flow: &flow,
            nests: &nests,
            places: &places,
            chosen: &shown,
            is_exact: flags.exact,
            has_strides: flags.strides,
            entries: flags.entries,
            variables: &image.variables(),
            again: again(flags)?,
        };
        return followed::show(&wanted, &path, flags, output);
    }
    let listed = Listed {
        flow: &flow,
        nests: &nests,
        places: &places,
        marks: &marks,
        shown: &shown,
        shares: shares.as_deref(),
    };
    list(&listed, flags.format, output)
}

fn list(listed: &Listed<'_>, form: LoopsForm, output: Option<Output>) -> Result<Ending> {
    send(output, |out| match form {
        LoopsForm::Text | LoopsForm::Source => text(listed, out),
        LoopsForm::Json => json(listed, out),
    })
}

/// After which time nests are followed again.
fn again(flags: &Loops) -> Result<Option<Duration>> {
    let Some(seconds) = flags.again else {
        return Ok(None);
    };
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if seconds >= 0.01 => Ok(Some(time)),
        _ => bail!("--again {seconds}: give seconds, at least 0.01"),
    }
}

/// The file that has the loops.
fn file_of(flags: &Loops, traced: Option<&Traced>) -> Result<PathBuf> {
    if flags.command.is_empty() && flags.format == LoopsForm::Source {
        bail!(
            "--format source shows what a run did: give a program, and neither --list nor --dependences"
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

/// By nest: the share of its instructions among all that were executed in the file, in percent.
fn shares_of(path: &Path, image: &Image, program: &Program, nests: &Nests) -> Result<Vec<f64>> {
    let executed = executions(path, image)?;
    let all: u64 = executed.values().map(|(count, _)| *count).sum();
    let mut sorted: Vec<(u64, u64)> = (executed.into_iter())
        .map(|(at, (count, _))| (at, count))
        .collect();
    sorted.sort_unstable();
    let of_nest = |nest: &Nest| {
        let graph = &program.functions[nest.function].graph;
        let blocks = nest.loops[0].blocks.iter();
        let blocks = blocks.map(|&block| &graph.blocks[block as usize]);
        let own = blocks.filter_map(|block| {
            let start = image.file_offset(block.start)?.0;
            let end = start + (block.end.0 - block.start.0);
            let from = sorted.partition_point(|(at, _)| *at < start);
            let own = sorted[from..].iter().take_while(|(at, _)| *at < end);
            Some(own.map(|(_, count)| *count).sum::<u64>())
        });
        100.0 * own.sum::<u64>() as f64 / all.max(1) as f64
    };
    Ok(nests.nests.iter().map(of_nest).collect())
}

/// Everything by which nests are chosen.
struct Known<'a> {
    flow: &'a Flow<'a>,
    nests: &'a Nests,
    marks: &'a [Mark],
    has_lines: bool,
    shares: Option<&'a [f64]>,
}

impl Known<'_> {
    /// Nests that some words choose, in the order of the file, or by their shares if these are known.
    fn chosen(&self, words: &[String]) -> Result<Vec<usize>> {
        let mut chosen = BTreeSet::new();
        for word in words {
            chosen.extend(self.of_word(word.trim())?);
        }
        let mut chosen: Vec<usize> = chosen.into_iter().collect();
        if let Some(shares) = self.shares {
            chosen.sort_by(|&one, &other| shares[other].total_cmp(&shares[one]));
        }
        Ok(chosen)
    }

    fn of_word(&self, word: &str) -> Result<Vec<usize>> {
        if word == "all" {
            return Ok((0..self.nests.nests.len()).collect());
        }
        if let Some(count) = word.strip_prefix("hottest:") {
            return self.hottest(count);
        }
        let mark = word.strip_prefix("mark:");
        if word == "marks" || mark.is_some() {
            return self.of_marks(mark);
        }
        self.of_function(word)
    }

    fn hottest(&self, count: &str) -> Result<Vec<usize>> {
        let file = self.flow.file;
        let Ok(count) = count.parse::<usize>() else {
            bail!("--loops hottest:{count}: behind the colon is how many nests");
        };
        let Some(shares) = self.shares else {
            bail!(
                "--loops hottest:{count} needs counts: `everypath count -o run.evp -- {file}`, then --counts run.evp"
            );
        };
        let mut all: Vec<usize> = (0..shares.len())
            .filter(|&nest| shares[nest] > 0.0)
            .collect();
        all.sort_by(|&one, &other| shares[other].total_cmp(&shares[one]));
        all.truncate(count);
        Ok(all)
    }

    /// Nests that marks mean: all marks, or those of a name.
    fn of_marks(&self, name: Option<&str>) -> Result<Vec<usize>> {
        let file = self.flow.file;
        let wanted = |mark: &&Mark| name.is_none_or(|name| mark.name == name);
        let marks: Vec<&Mark> = self.marks.iter().filter(wanted).collect();
        if marks.is_empty() && !self.has_lines {
            bail!(
                "'{file}' has no line tables, so marks in sources mean nothing in it: compile it with -g"
            );
        }
        if marks.is_empty() {
            let what = name.map_or("a mark".into(), |name| format!("the mark {name}"));
            bail!(
                "no source of '{file}' that is here has {what}: `// everypath: loop NAME` before a loop"
            );
        }
        let found = marks.iter().filter_map(|mark| mark.found.as_ref().ok());
        let nests = found.flatten().map(|&(nest, _)| nest);
        Ok(nests.collect())
    }

    /// Nests of a function, or one of them.
    fn of_function(&self, word: &str) -> Result<Vec<usize>> {
        let file = self.flow.file;
        let (name, number) = match word.rsplit_once(':') {
            Some((name, number)) if number.parse::<u32>().is_ok() => (name, number.parse().ok()),
            _ => (word, None),
        };
        let functions = self.flow.find(name);
        if functions.is_empty() {
            bail!("'{file}' has no function '{name}'; `everypath flow {file}` lists them");
        }
        let is_of_it = |nest: &Nest| {
            let own = &self.flow.program.functions[nest.function];
            functions.iter().any(|function| function.entry == own.entry)
        };
        let is_it = |nest: &Nest| {
            is_of_it(nest) && number.is_none_or(|number: u32| nest.loops[0].number == number)
        };
        let nests = (0..).zip(&self.nests.nests);
        let found: Vec<usize> = nests
            .filter(|(_, nest)| is_it(nest))
            .map(|(at, _)| at)
            .collect();
        if found.is_empty() {
            let all = self
                .nests
                .nests
                .iter()
                .filter(|nest| is_of_it(nest))
                .count();
            bail!(
                "'{name}' has {}, and no {word}",
                report::counted(all as u64, "nest")
            );
        }
        Ok(found)
    }
}
