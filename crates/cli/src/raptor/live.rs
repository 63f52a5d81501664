//! `trace --raptor`: what branch predictors make of a program while it runs.
//!
//! Invariants: what cannot be written is refused before the run; after it, nothing that goes
//! wrong here changes how it ends.
//!
//! Limits: `--shared` puts threads in order, for which all of the trace has to be there: it is
//! read when the program has ended, from its file or one without a name.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use analysis::raptor::Config;
use anyhow::{Result, anyhow, bail};
use report::mcf::{self, Numbered};
use report::raptor::live::{Live, Wanted};
use report::raptor::{self, Row, View};
use trace::Recording;

use super::{config, failures, sink, view, whose, write};
use crate::descriptors::{self, Sink};
use crate::flags::{Order, Trace};
use crate::output::{self, Output, reason};
use crate::progress::Progress;
use crate::thesis::Files;

/// Predictors that were asked for.
pub struct Predictors {
    config: Config,
    view: View,
    sink: Sink,
    /// The other file of `--thesis`, and what is said.
    files: Option<Files>,
    /// Destination of statistics, if not standard error.
    report: Option<Output>,
    is_quiet: bool,
    is_shared: bool,
    /// Predictors that follow the trace, and the destination of the descriptors that they have not
    /// written; `None`: they are shared.
    live: Option<(Arc<Live>, Box<dyn Write>)>,
    /// Descriptors that are compressed when all has ended: a compressor that fails loses none.
    raw: Option<File>,
}

impl Predictors {
    /// Predictors that were asked for, if they can be had.
    pub fn wanted(flags: &Trace) -> Result<Option<Predictors>> {
        if !flags.live.raptor {
            return Ok(None);
        }
        let given = &flags.live.predictors;
        let form = &flags.live.form;
        let (config, view) = (config(given, form), view(form)?);
        if given.shared && flags.order == Order::Chunk {
            bail!("--shared puts threads in order by time stamps; leave --order chunk out, or it");
        }
        let refused = |error: anyhow::Error| anyhow!("{error}; nothing was run");
        let prepare = |path: Option<&Path>| Output::wanted(path).map_err(refused);
        let descriptors = flags.live.descriptors.as_deref();
        let sink = sink(form, view.form, &flags.live.packing, descriptors);
        let (sink, files) = sink.map_err(refused)?;
        let failed = |error: io::Error| refused(anyhow!("{}", reason(&error)));
        let raw = match sink.compressor {
            Some(_) if !given.shared => {
                let beside = beside(sink.output.as_ref());
                Some(output::nameless(&beside).map_err(failed)?)
            }
            _ => None,
        };
        let live = match given.shared {
            true => None,
            false => {
                let most = u64::from(flags.buffer) << 20;
                let follows = follow(config, view, most, &sink, raw.as_ref());
                Some(follows.map_err(failed)?)
            }
        };
        Ok(Some(Predictors {
            config,
            view,
            sink,
            files,
            raw,
            report: prepare(flags.live.report.as_deref())?,
            is_quiet: flags.quiet,
            is_shared: given.shared,
            live,
        }))
    }

    /// Reader of the trace while it is made; `None`: it is read later.
    pub fn follow(&self) -> Option<Arc<dyn trace::Follow>> {
        let (live, _) = self.live.as_ref()?;
        Some(Arc::clone(live) as Arc<dyn trace::Follow>)
    }

    /// A path for files that are to be where the descriptors go.
    pub fn beside(&self) -> PathBuf {
        beside(self.sink.output.as_ref())
    }

    /// When the program has ended: has everything written, and says how well predictors did;
    /// how many instructions were traced. Of shared predictors `recording` is the whole trace.
    pub fn finish(mut self, recording: &Recording, progress: Progress) -> u64 {
        let rows = match self.live.take() {
            Some((live, rest)) => self.followed(recording, &live, rest),
            None => self.shared(recording),
        };
        drop(progress);
        for failure in failures(&rows) {
            say!("everypath: {failure}");
        }
        let insns = rows.iter().map(|row| row.insns).sum();
        self.say(recording, &rows);
        insns
    }

    fn followed<'a>(
        &mut self,
        recording: &'a Recording,
        live: &Live,
        mut rest: Box<dyn Write>,
    ) -> Vec<Row<'a>> {
        let finished = live.finish(recording, &mut rest);
        if finished.left_out > 0 {
            say!(
                "everypath: a descriptor has one byte for the thread: of {} threads beyond the \
                 first 256 there are none, and no statistics",
                finished.left_out
            );
        }
        let written = finished.failed.map_or(Ok(()), Err);
        let written = written.and_then(|()| rest.flush());
        let Some(mut output) = self.sink.output.take() else {
            return finished.rows;
        };
        let path = output.path().to_owned();
        let done = match (written, self.raw.take(), self.sink.compressor) {
            (Ok(()), Some(raw), Some(compressor)) => {
                descriptors::compress(&raw, output, compressor)
            }
            (written, ..) => written.and_then(|()| output.publish()).map_err(|error| {
                let (shown, why) = (path.display(), reason(&error));
                format!("cannot write '{shown}': {why}; the descriptors are lost")
            }),
        };
        if let Err(sentence) = done {
            say!("everypath: {sentence}");
        }
        self.sink.limit.say();
        finished.rows
    }

    fn shared<'a>(&mut self, recording: &'a Recording) -> Vec<Row<'a>> {
        let threads = match mcf::threads(recording, None) {
            Ok(threads) => threads,
            Err(error) => {
                say!("everypath: {error}");
                return Vec::new();
            }
        };
        let limit = Arc::clone(&self.sink.limit);
        let nowhere = || Sink {
            output: None,
            compressor: None,
            limit: Arc::clone(&limit),
        };
        let sink = std::mem::replace(&mut self.sink, nowhere());
        let rows = write(&threads, &self.config, self.view, true, sink);
        let rows = rows.unwrap_or_else(|error| {
            say!("everypath: {error}; the descriptors are lost");
            let again = write(&threads, &self.config, self.view, true, nowhere());
            again.unwrap_or_default()
        });
        limit.say();
        rows
    }

    fn say(&mut self, recording: &Recording, rows: &[Row<'_>]) {
        if let Some(files) = self.files.take() {
            self.say_as_tool(files, recording, rows);
        }
        let whose = whose(self.is_shared);
        let (config, report) = (&self.config, self.report.take());
        let write = |out: &mut dyn Write| raptor::summary(recording, config, rows, whose, out);
        match report {
            Some(output) => {
                if let Err(error) = output.save(write) {
                    say!("everypath: {error}");
                }
            }
            None if self.is_quiet => {}
            None => {
                let mut out = BufWriter::new(io::stderr().lock());
                // Nobody reads it any more: no reason to change how the run ends.
                let _ = write(&mut out).and_then(|()| out.flush());
            }
        }
    }

    /// The statistics and the lines of the thesis. Standard output is the program's.
    fn say_as_tool(&self, files: Files, recording: &Recording, rows: &[Row<'_>]) {
        let threads: Vec<Numbered<'_>> = rows.iter().map(|row| row.thread).collect();
        files.finish_run(&threads, self.is_quiet, |out| {
            raptor::statistics(recording, rows, out)
        });
    }
}

/// A path for files that are to be where the descriptors go.
pub fn beside(descriptors: Option<&Output>) -> PathBuf {
    let temporary = descriptors.and_then(Output::temporary);
    temporary.map_or_else(
        || std::env::temp_dir().join(format!("everypath.{}", std::process::id())),
        Path::to_owned,
    )
}

/// Predictors that follow, and where the descriptors go that they have not written at the end.
fn follow(
    config: Config,
    view: View,
    most: u64,
    sink: &Sink,
    raw: Option<&File>,
) -> io::Result<(Arc<Live>, Box<dyn Write>)> {
    let Some(output) = &sink.output else {
        return Ok((
            Arc::new(Live::new(config, most, None)),
            Box::new(io::sink()),
        ));
    };
    let opened = || -> io::Result<Box<dyn Write + Send>> {
        let file = match raw {
            Some(raw) => raw.try_clone(),
            None => output.file(),
        };
        let buffered = BufWriter::with_capacity(1 << 18, file?);
        Ok(sink.limit.over(view.form, buffered))
    };
    let beside = beside(Some(output));
    let wanted = Wanted {
        view,
        first: opened()?,
        place: Arc::new(move || output::nameless(&beside)),
    };
    let live = Live::new(config, most, Some(wanted));
    Ok((Arc::new(live), opened()?))
}
