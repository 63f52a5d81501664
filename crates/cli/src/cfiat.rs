//! `cfiat` and `trace --cfiat`: the loads that are not known from what came before, as mlvCFiat of the
//! mTrace thesis has them, and all loads made of them again.

use std::cell::RefCell;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use analysis::cfiat::{Config, Crossing, Replacement};
use analysis::walk::Selection;
use anyhow::{Result, anyhow, bail};
use report::cfiat::{self, Row, View};
use report::mcf::{self, Numbered};
use trace::Recording;

use crate::branches::{say, send};
use crate::descriptors::Sink;
use crate::exit_status::Ending;
use crate::flags::{self, Cfiat, FirstAccess, Order, Trace};
use crate::mls::{form, sink};
use crate::output::reason;
use crate::progress::Progress;
use crate::raptor::live;
use crate::thesis::{Files, Tool};
use crate::traces::{check_order, check_thread, read_trace};

/// Descriptors of `trace --cfiat`, and their files.
pub struct Descriptors {
    config: Config,
    view: View,
    is_shared: bool,
    sink: Sink,
    /// The other file of `--thesis`, and what is said.
    files: Option<Files>,
    is_quiet: bool,
}

impl Descriptors {
    /// The descriptors that were asked for, if they can be had.
    pub fn wanted(flags: &Trace) -> Result<Option<Descriptors>> {
        let Some(path) = &flags.live.cfiat else {
            return Ok(None);
        };
        let (written, cache) = (&flags.live.form, &flags.live.cache);
        let form = form(written.form, written.disasm, "--form ascii")?;
        if cache.cache_shared && flags.order == Order::Chunk {
            bail!(
                "--cache-shared puts threads in order by time stamps; leave --order chunk out, or it"
            );
        }
        let config = config(cache)?;
        let (packing, thesis) = (&flags.live.packing, written.thesis);
        let sink = sink(Tool::MlvCFiat, form, packing, Some(path), thesis);
        let (sink, files) = sink.map_err(|error| anyhow!("{error}; nothing was run"))?;
        Ok(Some(Descriptors {
            config,
            view: View {
                form,
                disassemble: written.disasm,
            },
            is_shared: cache.cache_shared,
            sink,
            files,
            is_quiet: flags.quiet,
        }))
    }

    /// A path for files that are to be where the descriptors go.
    pub fn beside(&self) -> PathBuf {
        live::beside(self.sink.output.as_ref())
    }

    /// When the program has ended, of the whole trace; how many instructions it has.
    pub fn finish(self, recording: &Recording, progress: Progress) -> u64 {
        let threads = mcf::threads(recording, None).map_err(|error| anyhow!(error));
        let selection = analysis::walk::selection(recording);
        let limit = Arc::clone(&self.sink.limit);
        let written = threads.and_then(|threads| {
            let Some(selection) = selection else {
                return Ok((threads, Vec::new()));
            };
            let (config, is_shared) = (&self.config, self.is_shared);
            let rows = write(&threads, selection, config, is_shared, self.view, self.sink)?;
            Ok((threads, rows))
        });
        drop(progress);
        let (threads, rows) = match written {
            Ok(written) => written,
            Err(error) => {
                say!("everypath: {error}; the descriptors are lost");
                return 0;
            }
        };
        limit.say();
        if !self.is_quiet {
            say_unknown(&rows);
        }
        for failure in failures(&rows) {
            say!("everypath: {failure}");
        }
        if let Some(files) = self.files {
            files.finish_run(&threads, self.is_quiet, |out| {
                cfiat::statistics(recording, &rows, out)
            });
        }
        rows.iter().map(|row| row.insns).sum()
    }
}

pub fn cfiat(flags: &Cfiat) -> Result<Ending> {
    let form = form(flags.form, flags.disasm, "--form ascii")?;
    let config = config(&flags.cache)?;
    let (packing, output) = (&flags.packing, flags.output.as_ref());
    let (sink, files) = sink(Tool::MlvCFiat, form, packing, output, flags.thesis)?;
    let (recording, _) = read_trace(&flags.file)?;
    check_thread(&recording, &flags.file, flags.thread)?;
    let is_shared = flags.cache.cache_shared;
    if is_shared {
        check_order(&recording, &flags.file)?;
    }
    let shown = flags.file.display();
    let selection = analysis::walk::selection(&recording);
    let selection = selection.filter(|selection| selection.values);
    let Some(selection) = selection.filter(|selection| selection.loads && selection.stores) else {
        bail!(
            "'{shown}' has not the values of all loads and stores; record it with --memory values"
        );
    };
    let threads = mcf::threads(&recording, flags.thread);
    let threads = threads.map_err(|error| anyhow!("'{shown}': {error}"))?;
    let view = View {
        form,
        disassemble: flags.disasm,
    };
    if let Some(path) = &flags.decode {
        return decode(flags, path, &threads, selection, view, sink);
    }
    let progress = Progress::reading(&recording, "writing descriptors");
    let limit = Arc::clone(&sink.limit);
    let rows = write(&threads, selection, &config, is_shared, view, sink)?;
    drop(progress);
    limit.say();
    if let Some(files) = files {
        files.finish(&threads, |out| cfiat::statistics(&recording, &rows, out))?;
    }
    say_unknown(&rows);
    let ending = send(None, |out| cfiat::summary(&config, &rows, is_shared, out))?;
    Ok(say(&flags.file, failures(&rows), ending))
}

/// Makes descriptors, and writes them to the file, if there is one.
fn write<'a>(
    threads: &[Numbered<'a>],
    selection: Selection,
    config: &Config,
    is_shared: bool,
    view: View,
    sink: Sink,
) -> Result<Vec<Row<'a>>> {
    if sink.output.is_none() {
        return Ok(cfiat::write(threads, selection, config, is_shared, None)?);
    }
    let rows = RefCell::new(Vec::new());
    sink.replace(view.form, |out| {
        let wanted = Some((view, out));
        *rows.borrow_mut() = cfiat::write(threads, selection, config, is_shared, wanted)?;
        Ok(())
    })?;
    Ok(rows.into_inner())
}

fn decode(
    flags: &Cfiat,
    path: &Path,
    threads: &[Numbered<'_>],
    selection: Selection,
    view: View,
    sink: Sink,
) -> Result<Ending> {
    let open = || {
        let file = File::open(path);
        file.map_err(|error| anyhow!("cannot read '{}': {}", path.display(), reason(&error)))
    };
    let is_shared = flags.cache.cache_shared;
    let limit = Arc::clone(&sink.limit);
    let made = match sink.output.is_some() {
        false => cfiat::decode(threads, selection, is_shared, open()?, None)?,
        true => {
            open()?;
            let made = RefCell::new(cfiat::Made::default());
            sink.replace(view.form, |out| {
                let (from, wanted) = (File::open(path)?, Some((view, out)));
                *made.borrow_mut() = cfiat::decode(threads, selection, is_shared, from, wanted)?;
                Ok(())
            })?;
            made.into_inner()
        }
    };
    limit.say();
    let ending = send(None, |out| cfiat::decoded(&made.decoded, out))?;
    Ok(say(path, made.failures, ending))
}

/// Says how many values are missing.
fn say_unknown(rows: &[Row<'_>]) {
    let unknown: u64 = rows.iter().map(|row| row.counts.unknown).sum();
    if unknown > 0 {
        let all: u64 = rows.iter().map(|row| row.counts.descriptors).sum();
        say!(
            "everypath: {unknown} of {all} values are not known, and written as 0 (docs/limits.md)"
        );
    }
}

/// Which threads were not read to their end.
fn failures(rows: &[Row<'_>]) -> Vec<String> {
    let failed = rows.iter().filter_map(|row| {
        let error = row.error.as_ref()?;
        Some(format!("thread {}: {error}", row.thread.thread.tid))
    });
    failed.collect()
}

fn config(flags: &FirstAccess) -> Result<Config> {
    let config = Config {
        size: flags.cache.size,
        ways: flags.cache.ways,
        line: flags.cache.line,
        granule: flags.granule,
        replacement: match flags.replacement {
            flags::Replacement::RoundRobin => Replacement::RoundRobin,
            flags::Replacement::Lru => Replacement::Lru,
        },
        crossing: match flags.crossing {
            flags::Crossing::First => Crossing::First,
            flags::Crossing::All => Crossing::All,
        },
        coherent: flags.coherent,
    };
    config.check().map_err(|error| anyhow!(error))?;
    Ok(config)
}
