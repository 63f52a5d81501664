//! One run of a program from start to end, as the list of its phases: check
//! everything that can be checked, run, read what was recorded, name it, keep
//! it, show it, and end as the program ended.
//!
//! Invariant: before the run every error stops; after it none does, until all
//! that can be saved is saved. Then the program's own end wins: its status is
//! what the caller sees, and what went wrong here is said on standard error.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use analysis::{fold, without_root};
use anyhow::{Result, anyhow};
use image::{Images, Selector};
use launch::{Control, Ended, Request, Run};
use report::text::Style;
use trace::{BlockContexts, Cost, End, Meta, Mode, Recording};

use crate::edited_run::EditedRun;
use crate::exit_status::Ending;
use crate::flags::{Destination, Target, Wait};
use crate::mistakes;
use crate::output::{self, Kind, Output, Unsaved, mid_sentence};
use crate::page_sources::{OnDisk, Trust};
use crate::progress::Progress;
use crate::sampling::Sampling;
use crate::selection::{self, Extents};
use crate::show::{self, Page, Show};
use crate::{FAILED, debuginfod, program, symbolize};

/// Everything that was asked for.
pub struct Session<'a> {
    pub target: &'a Target,
    pub destination: &'a Destination,
    /// Destination of a page for a browser.
    pub html: Option<Page<'a>>,
    pub mode: Mode,
    /// Contexts are of basic blocks.
    pub blocks: Option<BlockContexts>,
    /// `None`: infinite.
    pub k: Option<u32>,
    /// Bits from [`wire::flag`], following children excepted.
    pub flags: u32,
    pub max_nodes: u64,
    /// Costs that contexts carry besides calls.
    pub costs: Vec<Cost>,
    /// Bytes of streams that may wait for their compression.
    pub buffer: u64,
    /// Which calls tracing begins and ends at; 0: none.
    pub calls: [u64; 2],
    /// How many instructions of each thread are not traced first, and are then; 0: all.
    pub insns: [u64; 2],
    /// How tracing begins and ends while the program runs.
    pub control: Option<Control>,
    /// Events of a trace that have time stamps ([`wire::stream::order`]).
    pub order: u32,
    /// Memory accesses that a trace records (`wire::stream::memory`).
    pub memory: u32,
    /// Whether it is sampled where threads execute and wait.
    pub sampling: Sampling,
    pub selector: Selector,
    /// For the recording: options that were given, as the user wrote them.
    pub options: Vec<(String, String)>,
    pub show: Show,
    /// Whether there is anything to show on standard error.
    pub speaks: bool,
}

impl Session<'_> {
    pub fn run(self) -> Result<Ending> {
        let images = Arc::new(Images::new());
        self.check_in_place()?;
        let request = self.request()?;
        selection::verify(&images, &self.selector, &request.program)?;
        let make = |session: &Session<'_>, named: bool| {
            if named {
                debuginfod::fetch(
                    &program::elf_of(&request.program),
                    session.destination.quiet,
                );
            }
            let mut tables = Extents::new(&images, &session.selector, &request.program, named);
            let run = launch::run(&request, &mut tables, None)?;
            let progress = Progress::new(session.destination.quiet);
            progress.says("reading what was recorded");
            let recording = session.read(&run);
            let ended = run.ended;
            // See the end of the run.
            std::mem::forget(run);
            Ok((recording, ended))
        };
        self.record(&request.program, &images, make)
    }

    /// Runs an edited program, and reads its counters.
    pub fn run_edited(self, program: &Path, edited: &EditedRun) -> Result<Ending> {
        anyhow::ensure!(
            !self.destination.phases,
            "--phases says what the translator took, and an edited program runs without it"
        );
        let images = Arc::new(Images::new());
        let make = |session: &Session<'_>, _| {
            let (ended, started, duration) = edited.run(&session.target.command)?;
            let meta = Meta {
                duration_ns: u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX),
                end: end_of(ended),
                ..session.meta_before(started)
            };
            let recording = match session.mode {
                Mode::Contexts => edited.contexts(meta.clone()),
                _ => edited.recording(meta.clone()),
            };
            let recording = recording.unwrap_or_else(|error| {
                say!("everypath: {error}");
                Recording {
                    meta,
                    ..Recording::default()
                }
            });
            Ok((recording, ended))
        };
        self.record(program, &images, make)
    }

    /// Prepares all outputs, has the program run by `make`, which is told whether names are needed, and saves and shows what was
    /// recorded.
    fn record(
        mut self,
        program: &Path,
        images: &Arc<Images>,
        make: impl FnOnce(&Session<'_>, bool) -> Result<(Recording, Ended)>,
    ) -> Result<Ending> {
        let destination = self.destination;
        if destination.report.is_some() || self.prints() {
            self.show.verify(program)?;
        }
        let prepare = |path: Option<&Path>, kind| {
            let output = path.map(|path| Output::prepare(path, kind)).transpose();
            output.map_err(|error| anyhow!("{error}; nothing was run"))
        };
        let output = prepare(destination.output.as_deref(), Kind::Recording)?;
        let report = prepare(destination.report.as_deref(), Kind::Report)?;
        let page = prepare(self.html.map(|page| page.path), Kind::Report)?;
        let counter = destination.phases.then(launch::Reading::now).flatten();
        let named = [&output, &report, &page].into_iter().any(Option::is_some) || self.prints();
        let (mut recording, ended) = make(&self, named)?;
        let progress = Progress::new(self.destination.quiet);
        if named {
            progress.says("looking up names");
            symbolize::symbolize(&mut recording, images);
        }
        let saved = output.map(|output| {
            progress.says("writing the recording");
            let path = output.path().to_owned();
            let saved = output.save(|out| trace::write(&recording, out));
            saved.map(|()| path)
        });
        let page = page.zip(self.html).map(|(output, page)| {
            progress.says("writing the page");
            output.save(|out| {
                let mut files = OnDisk::new(images, Trust::Recording);
                show::write_page(&recording, &self.show, page, &mut files, out)
            })
        });
        drop(progress);
        self.warn_of(&recording);
        if let (Some(Ok(path)), Some(hint)) = (&saved, &mut self.show.hint) {
            let size = fs::metadata(path).map_or(0, |meta| meta.len());
            *hint = format!("{hint} ({} kept)", report::size(size));
        }
        let report = self.report(report, &recording);
        let all_written = complain(
            &recording,
            saved,
            [page.unwrap_or(Ok(())), report],
            |path| self.again(path),
        );
        let ending = ending(&recording, ended, all_written);
        if destination.phases {
            crate::phases::say(&recording, counter);
        }
        // Nothing is left to do but end: the system takes all memory back at
        // once, and millions of nodes and names take seconds one by one.
        std::mem::forget((recording, images.clone()));
        Ok(ending)
    }

    /// Says what a report would have said.
    fn warn_of(&self, recording: &Recording) {
        if !self.prints() {
            self.warn(&report::denied::sentences(recording));
            self.warn(&report::natives::sentences(recording));
        }
    }

    /// The command that makes the same report of a recording.
    fn again(&self, recording: &Path) -> String {
        let form = clap::ValueEnum::to_possible_value(&self.destination.format);
        let form = form.map_or_else(String::new, |form| form.get_name().to_owned());
        let report = self.destination.report.as_deref();
        let pipe = match self.destination.is_packed() {
            true => " | gzip",
            false => "",
        };
        let to = report.map_or_else(String::new, |path| {
            format!("{pipe} > {}", quoted_path(path))
        });
        format!(
            "everypath report {} --format {form}{to}",
            quoted_path(recording)
        )
    }

    fn read(&self, run: &Run) -> Recording {
        let meta = Meta {
            k: self.recorded_k(),
            ..self.meta(run)
        };
        let is_kept = self.sampling.keeps(&run.samples);
        let times = is_kept.then_some(&run.samples.threads);
        let mut recording = trace::from_pool_timed(&run.pool.view(), meta, times);
        if is_kept {
            let looks = run.samples.looks.to_string();
            recording.meta.options.push((report::LOOKS.into(), looks));
        }
        if self.blocks.is_some() {
            analysis::static_costs::add(&mut recording, &self.costs);
        }
        if without_root::is_uprooted(&recording.meta) {
            without_root::uproot(&mut recording);
        }
        if self.k == Some(0) {
            fold::flatten(&mut recording);
        }
        recording
    }

    /// The k of the engine's nodes: without callers, those of one caller are joined here.
    fn recorded_k(&self) -> Option<u32> {
        self.k.map(|k| k.max(1))
    }

    pub fn request(&self) -> Result<Request> {
        let program: PathBuf = program::check(&self.target.command[0])?;
        let follow = match self.target.follow_children {
            crate::flags::YesNo::Yes => wire::flag::FOLLOW,
            crate::flags::YesNo::No => 0,
        };
        let fault = match self.target.lockstep_fault {
            true => wire::flag::MISTRANSLATE,
            false => 0,
        };
        let steady = match self.target.steady {
            true => wire::flag::STEADY,
            false => 0,
        };
        let clock = match self.destination.phases {
            true => wire::flag::CLOCK,
            false => 0,
        };
        Ok(Request {
            program,
            argv: self.target.command.clone(),
            mode: match (self.mode, self.blocks) {
                (Mode::Run, _) => wire::Mode::Run,
                (Mode::Contexts, None) => wire::Mode::Contexts,
                (Mode::Contexts, Some(blocks)) if blocks.intra => wire::Mode::Intra,
                (Mode::Contexts, Some(_)) => wire::Mode::Inter,
                (Mode::Counts, _) => wire::Mode::Counts,
                (Mode::Trace, _) => wire::Mode::Trace,
            },
            k: self.recorded_k(),
            flags: self.flags | follow | fault | steady | clock,
            chaos: self.target.chaos,
            lockstep: self.target.lockstep,
            max_nodes: self.max_nodes,
            buffer: self.buffer,
            calls: self.calls,
            insns: self.insns,
            control: self.control.clone(),
            waits_for_all: self.target.wait == Wait::All,
            order: self.order,
            memory: self.memory,
            samples: self.sampling != Sampling::No,
            costs: match self.blocks {
                // Their code says what they cost.
                Some(_) => 0,
                None => self.costs.iter().fold(0, |bits, cost| bits | cost.bit()),
            },
        })
    }

    fn meta(&self, run: &Run) -> Meta {
        Meta {
            duration_ns: u64::try_from(run.duration.as_nanos()).unwrap_or(u64::MAX),
            end: end_of(run.ended),
            ..self.meta_before(run.started)
        }
    }

    /// Facts about the run before it begins.
    pub fn meta_before(&self, started: SystemTime) -> Meta {
        let words = self
            .target
            .command
            .iter()
            .map(|word| word.to_string_lossy().into_owned());
        let since = started.duration_since(UNIX_EPOCH).unwrap_or_default();
        Meta {
            producer: concat!("everypath ", env!("CARGO_PKG_VERSION")).into(),
            command: words.collect(),
            mode: self.mode,
            blocks: self.blocks,
            k: self.k,
            unroll: self.flags & wire::flag::UNROLL != 0,
            selected: self.flags & wire::flag::SELECT != 0,
            options: self.options.clone(),
            started_unix_ns: u64::try_from(since.as_nanos()).unwrap_or(u64::MAX),
            duration_ns: 0,
            end: End::Unknown,
        }
    }

    /// Whether a report goes to standard error, if no file was named for it.
    /// Nobody reads a report that comes when the program is gone.
    fn check_in_place(&self) -> Result<()> {
        let is_late = self.prints() && self.destination.report.is_none();
        anyhow::ensure!(
            !self.target.in_place || !is_late,
            "with --in-place the report would come after whoever started the program goes on; \
             give --report FILE, or -o FILE.evp and --quiet; nothing was run"
        );
        Ok(())
    }

    fn prints(&self) -> bool {
        self.speaks && !self.destination.quiet
    }

    pub fn warn(&self, warnings: &[String]) {
        if !self.destination.quiet {
            for warning in warnings {
                say!("everypath: {warning}");
            }
        }
    }

    fn report(&self, file: Option<Output>, recording: &Recording) -> Result<(), Unsaved> {
        let plain = |out: &mut dyn Write| self.show.write(recording, Style::PLAIN, out);
        match file {
            Some(file) if self.destination.is_packed() => {
                file.save(|out| report::gzip::write(out, plain))
            }
            Some(file) => file.save(plain),
            None if !self.prints() => Ok(()),
            None => {
                let stderr = io::stderr();
                let style = show::style_of(&stderr);
                let mut out = BufWriter::new(stderr.lock());
                let written = self.show.write(recording, style, &mut out);
                match written.and_then(|()| out.flush()) {
                    Err(error) if error.kind() == io::ErrorKind::Other => Err(Unsaved::Refused {
                        why: mid_sentence(&error.to_string()),
                        path: None,
                    }),
                    // Nobody reads it any more, or nothing can be said there: no
                    // reason to change how the run ends.
                    _ => Ok(()),
                }
            }
        }
    }
}

/// End of the run, for a recording.
pub fn end_of(ended: Ended) -> End {
    match ended {
        Ended::Exited(status) => End::Exited(status),
        Ended::Signaled { signal, core } => End::Signaled { signal, core },
        Ended::Unknown => End::Unknown,
    }
}

/// As the program ended; but whoever looks at the status alone is not to think that all went well.
fn ending(recording: &Recording, ended: Ended, all_written: bool) -> Ending {
    match (diverged(recording), Ending::of(ended)) {
        (true, _) => Ending::Exit(FAILED),
        (false, Ending::Exit(0)) if !all_written => Ending::Exit(FAILED),
        (false, ending) => ending,
    }
}

/// Whether a window of `--lockstep` showed a mistranslation; says how many did.
fn diverged(recording: &Recording) -> bool {
    let counts = recording.processes.iter();
    let counts = counts.filter_map(|process| process.stats.get(wire::stat::LOCKSTEP_DIVERGENCES));
    let sum: u64 = counts.sum();
    if sum > 0 {
        say!("everypath: {sum} divergences from the native run");
    }
    sum > 0
}

fn quoted_path(path: &Path) -> String {
    mistakes::quoted(&path.to_string_lossy())
}

/// Says what failed after the run, even when asked to be quiet: data is at stake. A
/// recording that was `saved` nowhere is kept where a report of it was refused. Whether all that was
/// asked for is where it was to be; `again` gives the command that makes a report of a file.
fn complain(
    recording: &Recording,
    saved: Option<Result<PathBuf, Unsaved>>,
    reports: [Result<(), Unsaved>; 2],
    again: impl Fn(&Path) -> String,
) -> bool {
    let is_saved = !matches!(saved, Some(Err(_)));
    let all_written = is_saved && reports.iter().all(Result::is_ok);
    let mut kept = None;
    match saved {
        Some(Ok(path)) => kept = Some(Ok(path)),
        Some(Err(error)) => match &error {
            Unsaved::Elsewhere { place, .. } => {
                say!("everypath: {error}");
                kept = Some(Ok(place.clone()));
            }
            _ => say!("everypath: {error}; what was recorded is lost"),
        },
        None => {}
    }
    for error in reports.into_iter().filter_map(Result::err) {
        let path = match &error {
            Unsaved::Refused { path, .. } => path.as_deref(),
            Unsaved::Lost { .. } => None,
            Unsaved::Elsewhere { path, why, place } => {
                let (path, place) = (path.display(), place.display());
                say!("everypath: cannot write '{path}': {why}; the report is in '{place}'");
                continue;
            }
        };
        let kept = kept.get_or_insert_with(|| output::keep(recording, path));
        match kept {
            Ok(kept) => say!(
                "everypath: {error}; what was recorded is in '{}', for `{}`",
                kept.display(),
                again(kept)
            ),
            Err(why) => say!("everypath: {error}; what was recorded is lost: {why}"),
        }
    }
    all_written
}
