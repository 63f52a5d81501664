//! `dump --uftrace` and `dump --perfetto`: calls in time.

use std::cell::RefCell;
use std::io;
use std::path::Path;

use analysis::K;
use analysis::activations::contexts::{self, Wanted};
use analysis::activations::{Rules, of_recording};
use analysis::cct::Recursion;
use anyhow::{Result, anyhow, bail};
use image::Images;
use report::timeline::{Chrome, Form, MOST_LEVELS, Names, Thread, Times, Uftrace, Unit, View};
use trace::Recording;

use crate::branches::say;
use crate::controls;
use crate::exit_status::Ending;
use crate::flags::{Clock, Dump};
use crate::folders::make;
use crate::functions::Files;
use crate::output::{Kind, Output, reason};
use crate::progress::Progress;
use crate::symbolize;
use crate::traces::{check_order, check_thread, read_trace};

pub fn dump(flags: &Dump) -> Result<Ending> {
    let asked = &flags.timeline;
    let (recording, _) = read_trace(&flags.file)?;
    controls::refuse_gaps(&recording, &flags.file, "a timeline")?;
    check_thread(&recording, &flags.file, flags.thread)?;
    let times = times(flags, &recording)?;
    let progress = Progress::reading(&recording, "looking for calls");
    let images = Images::new();
    let mut files = Files::new(&images);
    let (called, _) = {
        let wanted = Wanted {
            k: K::Finite(1),
            recursion: Recursion::Unrolled,
            rules: Rules::default(),
            costs: Vec::new(),
        };
        contexts::recording(&recording, &wanted, &mut |process, at| {
            files.extents(process, at)
        })
    };
    drop(progress);
    let mut called = called;
    files.identify(&mut called);
    symbolize::symbolize(&mut called, &images);
    files.say_what_changed();
    let globs = flags.funcs.iter().flat_map(|list| image::split_list(list));
    let globs: Vec<&str> = globs.collect();
    let wants = |name: &str| globs.is_empty() || globs.iter().any(|glob| image::glob(glob, name));
    let view = View {
        wants: &wants,
        depth: asked.depth.unwrap_or(u32::MAX),
        thread: flags.thread,
    };
    let names = Names::of(&called, &view);
    check_size(flags, &called, &names)?;
    let progress = Progress::reading(&recording, "writing calls");
    let mut writer = Writer {
        flags,
        recording: &recording,
        names: &names,
        times: times.as_ref(),
        depth: view.depth,
        files,
    };
    let failures = match (&asked.uftrace, &asked.perfetto) {
        (Some(folder), _) => writer.uftrace(folder)?,
        (None, Some(path)) => writer.chrome(path)?,
        (None, None) => Vec::new(),
    };
    drop(progress);
    Ok(say(&flags.file, failures, Ending::Exit(0)))
}

/// Times, unless the unit is instructions: as asked, or by the time stamps that there are.
fn times(flags: &Dump, recording: &Recording) -> Result<Option<Times>> {
    let has_stamps = check_order(recording, &flags.file);
    match (flags.timeline.clock, has_stamps) {
        (Some(Clock::Instructions), _) | (None, Err(_)) => Ok(None),
        (Some(Clock::Time), Err(none)) => Err(none),
        (asked, Ok(())) => match (Times::of(recording), asked) {
            (Some(times), _) => Ok(Some(times)),
            (None, Some(_)) => bail!("{}; use --clock instructions", without_clock(flags)),
            (None, None) => {
                say!("everypath: {}: time is instructions", without_clock(flags));
                Ok(None)
            }
        },
    }
}

fn without_clock(flags: &Dump) -> String {
    format!(
        "'{}' does not say how quick the clock of its time stamps is, as its end is missing or \
         an older everypath recorded it",
        flags.file.display()
    )
}

/// Whether it can be written, and is not more than anybody wants to look at.
fn check_size(flags: &Dump, called: &Recording, names: &Names) -> Result<()> {
    let asked = &flags.timeline;
    let shown = flags.file.display();
    if names.calls == 0 {
        bail!("'{shown}': there are no such calls");
    }
    if asked.depth.is_none() && names.calls > asked.max_calls {
        let bytes = names.calls * if asked.uftrace.is_some() { 32 } else { 130 };
        bail!(
            "'{shown}': {} calls would be some {} MB; choose with --funcs, --thread or --depth, \
             or allow them with --max-calls",
            names.calls,
            bytes >> 20
        );
    }
    let threads = called.processes.iter().flat_map(|process| &process.threads);
    let deepest = threads.map(|thread| thread.max_depth).max().unwrap_or(0);
    let levels = asked.depth.map_or(deepest, u64::from);
    if asked.uftrace.is_some() && levels > u64::from(MOST_LEVELS) {
        bail!(
            "'{shown}': calls are up to {levels} deep, and records of uftrace have {MOST_LEVELS} \
             levels; choose with --depth"
        );
    }
    Ok(())
}

struct Writer<'a> {
    flags: &'a Dump,
    recording: &'a Recording,
    names: &'a Names,
    times: Option<&'a Times>,
    depth: u32,
    files: Files<'a>,
}

impl Writer<'_> {
    fn unit(&self) -> Unit {
        match self.times {
            Some(_) => Unit::Nanoseconds,
            None => Unit::Instructions,
        }
    }

    fn uftrace(&mut self, folder: &Path) -> Result<Vec<String>> {
        make(folder)?;
        let form = Uftrace::new(self.recording, &self.names.all, self.unit(), folder);
        let written = form.and_then(|form| self.all(&RefCell::new(form)));
        written.map_err(|error| {
            anyhow!(
                "cannot write into '{}': {}",
                folder.display(),
                reason(&error)
            )
        })
    }

    fn chrome(&mut self, path: &Path) -> Result<Vec<String>> {
        let output = Output::prepare(path, Kind::Report)?;
        let failures = RefCell::new(Vec::new());
        let writer = RefCell::new(self);
        output.replace(|out| {
            let writer = &mut *writer.borrow_mut();
            let form = Chrome::new(writer.recording, &writer.names.all, writer.unit(), out)?;
            let form = RefCell::new(form);
            *failures.borrow_mut() = writer.all(&form)?;
            form.into_inner().finish()
        })?;
        Ok(failures.into_inner())
    }

    fn all<F: Form>(&mut self, form: &RefCell<F>) -> io::Result<Vec<String>> {
        let mut failed = Ok(());
        let (names, depth, thread) = (self.names, self.depth, self.flags.thread);
        let times = self.times;
        let tids = |process: usize, at: usize| self.recording.processes[process].threads[at].tid;
        let files = &mut self.files;
        let (_, failures) = of_recording(
            self.recording,
            Rules::default(),
            &mut |process, at| files.extents(process, at),
            |process, at| {
                let wanted = thread.is_none_or(|thread| thread == tids(process, at));
                let depth = if wanted { depth } else { 0 };
                Thread::new((process, at), names, depth, times, form)
            },
            |_, _, sink| {
                if let (Ok(()), Err(error)) = (&failed, sink.failed) {
                    failed = Err(error);
                }
            },
        );
        failed.map(|()| failures)
    }
}
