//! A recording to a report in the form that was asked for.

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::Path;

use analysis::counts::Counted;
use analysis::fold::Fold;
use anyhow::{Result, bail};
use image::{Image, Images};
use report::counts::Form;
use report::html::Beside;
use report::text::Style;
use report::{Detail, Hot, Report, Weight};
use trace::{Mode, Recording};

use crate::flags::{Format, View, WhichForest};
use crate::page_sources::{OnDisk, Trust};
use crate::{binaries, debug_packages, program};

/// How a recording is shown.
#[derive(Clone, Debug)]
pub struct Show {
    pub format: Format,
    pub view: report::View,
    /// Whole contexts are folded into those of so many callers.
    pub fold: Option<u32>,
    pub engine_stats: bool,
    /// Names with all template arguments.
    pub full_names: bool,
    /// Commands that show more, for the end of the report.
    pub hint: Option<String>,
    pub notes: Vec<String>,
    /// Contents of the report on a recording of `count`.
    pub counts: report::counts::View,
    /// Says nothing on standard error.
    pub quiet: bool,
    /// Which source files are read for `--annotate`.
    pub trust: Trust,
}

impl Show {
    pub fn new(format: Format, view: &View) -> Show {
        let hot = match view.full {
            true => Hot::default(),
            false => Hot {
                top: Some(view.top),
                min_percent: view.min.unwrap_or(0.0),
                paths_min_percent: view.min.unwrap_or(1.0),
                depth: view.depth,
            },
        };
        let (engine_stats, full_names) = (view.engine_stats, view.full_names);
        let (stacks, graph) = (format.shows_stacks(), format.shows_graph());
        let forests = !stacks && !graph;
        let view = report::View {
            hot: (format == Format::Report).then_some(hot),
            ksf: forests && view.forest != WhichForest::Kccf,
            kccf: forests && view.forest != WhichForest::Ksf,
            stacks,
            graph,
            merged: false,
            join_threads: view.join_threads,
            per_thread: view.per_thread,
            launcher: view.launcher,
            counters: format == Format::Xml,
            tables: view.tables.wanted(),
            by: view.by.map(|metric| match metric.cost() {
                None => Weight::Calls,
                Some(cost) => Weight::Cost(cost),
            }),
        };
        Show {
            format,
            view,
            fold: None,
            full_names,
            hint: None,
            engine_stats,
            notes: Vec::new(),
            counts: report::counts::View::default(),
            quiet: false,
            trust: Trust::Recording,
        }
    }

    /// For a run that recorded no contexts.
    pub fn run(format: Format, engine_stats: bool) -> Show {
        Show {
            format,
            view: report::View::default(),
            fold: None,
            full_names: false,
            hint: None,
            engine_stats,
            notes: Vec::new(),
            counts: report::counts::View::default(),
            quiet: false,
            trust: Trust::Recording,
        }
    }

    /// Refuses a form that the file of the program which is to run rules out already.
    pub fn verify(&self, program: &Path) -> Result<()> {
        let Some(form) = self.format.of_counts() else {
            return Ok(());
        };
        if !form.is_of_one_file() || !self.counts.modules.is_empty() {
            return Ok(());
        }
        // One that cannot be read is spoken of when it has run.
        let image = Image::open_whole(program::elf_of(program)).ok();
        match image.and_then(|image| form.refusal(&image)) {
            Some(why) => bail!("{why}; nothing was run"),
            None => Ok(()),
        }
    }

    pub fn write(
        &self,
        recording: &Recording,
        style: Style,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        if recording.meta.mode == Mode::Counts {
            return self.write_counts(recording, style, out);
        }
        let fold = self.folded(recording);
        let mut report = match &fold {
            Some(fold) => Report::folded(fold, &self.view),
            None => Report::new(recording, &self.view),
        };
        if self.engine_stats {
            report.stat_names = stat_names(recording);
        }
        report.notes.extend_from_slice(&self.notes);
        report.full_names = self.full_names;
        if self.format == Format::Report {
            let note = debug_packages::note(&report.modules_without_names());
            report.notes.extend(note);
        }
        report.hint = self
            .hint
            .clone()
            .filter(|_| recording.meta.mode == Mode::Contexts);
        let tables = self.view.tables;
        if [tables.funcs, tables.blocks].contains(&Some(Detail::Disassembly)) {
            let images = Images::new();
            report.read_code(&mut OnDisk::new(&images, Trust::Modules));
        }
        match self.format {
            Format::Report => report::text::write(&report, style, out),
            Format::Text => report::paper::write(&report, out),
            Format::Json => report::json::write(&report, out),
            Format::Folded => report::folded::write(&report, out),
            Format::Flamegraph => report::flamegraph::write(&report, out),
            Format::Pprof => report::pprof::write(&report, out),
            Format::Callgrind => report::callgrind::write(&report, out),
            Format::Firefox => report::firefox::write(&report, out),
            Format::Speedscope => report::speedscope::write(&report, out),
            Format::Csv => report::csv::write(&report, out),
            Format::Xml => report::xml::write(&report, out),
            Format::Lcov | Format::Fdata | Format::Llvm => {
                Err(io::Error::other(crate::commands::NO_COUNTS))
            }
        }
    }

    fn folded<'r>(&self, recording: &'r Recording) -> Option<Fold<'r>> {
        self.fold.map(|k| Fold::new(recording, k))
    }

    fn write_counts(
        &self,
        recording: &Recording,
        style: Style,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let form = self.format.of_counts();
        let form = form.ok_or_else(|| io::Error::other(crate::commands::NO_CONTEXTS))?;
        let report = report::counts::Report::new(recording, &self.counts);
        let mut report = report.map_err(io::Error::other)?;
        if let Some(why) = report.nothing_listed() {
            return Err(io::Error::other(why));
        }
        report.notes.extend_from_slice(&self.notes);
        report.hint = self.hint.clone();
        if form == Form::Table {
            let images = Images::new();
            let mut files = OnDisk::new(&images, self.trust);
            report.read_sources(&mut files);
            if report.lacks_declarations() {
                let (binaries, _) = binaries::open(&report.modules());
                report.read_declarations(&binaries);
            }
            if self.counts.annotate.is_empty() && !self.counts.inlines {
                let mut modules = report.modules();
                let is_nameless = |insn: &&Counted| insn.source.function.is_none();
                modules.retain(|(_, insns)| insns.iter().any(is_nameless));
                // Code of a file that is gone or another one by now is one row.
                let (binaries, _) = binaries::open(&modules);
                report.binaries = binaries;
            }
            if !self.quiet && !self.counts.annotate.is_empty() {
                files.say_what_was_refused("--any-source shows it, too");
            }
        }
        if form.needs_binaries() || self.counts.inlines {
            let (binaries, missing) = binaries::open(&report.modules());
            report.binaries = binaries;
            report.missing = missing;
        }
        report.write(form, style, out)?;
        if form == Form::Lcov && !self.quiet {
            binaries::say_what_is_missing(&report.missing);
        }
        Ok(())
    }
}

/// Options of a page.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    pub path: &'a Path,
    /// Megabytes of code and source, if that was asked for; 0: none.
    pub code: Option<u32>,
}

/// Megabytes of code and source that a page holds if nobody says how much.
const CODE: u32 = 8;

impl Page<'_> {
    /// Files and budget of the code in the page, if it has any.
    pub fn beside<'f>(&self, files: &'f mut OnDisk) -> Option<Beside<'f>> {
        let budget = self.code.unwrap_or(CODE) as usize * 1_000_000;
        (budget > 0).then_some(Beside { files, budget })
    }

    /// Files that may be read: with a number of megabytes, all that a recording names.
    pub fn trust(&self) -> Trust {
        match self.code {
            Some(_) => Trust::Recording,
            None => Trust::Modules,
        }
    }
}

/// A recording as a page for a browser.
pub fn write_page(
    recording: &Recording,
    show: &Show,
    page: Page,
    files: &mut OnDisk,
    out: &mut dyn Write,
) -> io::Result<()> {
    let beside = page.beside(files);
    if recording.meta.mode == Mode::Counts {
        let view = report::counts::View {
            per_thread: false,
            ..show.counts.clone()
        };
        let report = report::counts::Report::new(recording, &view);
        let mut report = report.map_err(io::Error::other)?;
        report.notes.extend_from_slice(&show.notes);
        return report::counts::page::write(&report, beside, out);
    }
    let view = report::View {
        merged: true,
        ..report::View::default()
    };
    let fold = show.folded(recording);
    let mut report = match &fold {
        Some(fold) => Report::folded(fold, &view),
        None => Report::new(recording, &view),
    };
    report.notes.extend_from_slice(&show.notes);
    report::html::write(&report, beside, out)
}

/// Names of the statistics; without a run of `--lockstep`, not those of it.
fn stat_names(recording: &Recording) -> &'static [&'static str] {
    let lockstep = |process: &trace::Process| {
        let own = wire::stat::LOCKSTEP..=wire::stat::LOCKSTEP_DIVERGENCES;
        let own = process
            .stats
            .iter()
            .enumerate()
            .filter(|(at, _)| own.contains(at));
        own.clone().any(|(_, &value)| value != 0)
    };
    match recording.processes.iter().any(lockstep) {
        true => &wire::stat::NAMES,
        false => &wire::stat::NAMES_ALONE,
    }
}

/// Width and colour of a stream; a file has neither.
pub fn style_of(stream: &(impl AsFd + IsTerminal)) -> Style {
    if !stream.is_terminal() {
        return Style::PLAIN;
    }
    let columns = rustix::termios::tcgetwinsize(stream).map_or(0, |size| size.ws_col);
    let width = if columns == 0 {
        80
    } else {
        usize::from(columns)
    };
    let plain = |name: &str, value: &str| std::env::var_os(name).is_some_and(|set| set == value);
    // https://no-color.org: any value that is not empty.
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    Style {
        width,
        colour: !refused && !plain("TERM", "dumb"),
    }
}
