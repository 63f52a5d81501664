//! `dump --mls` and `trace --mls`: the loads and stores, with values, that a program loaded and stored, as mlsTrace of the
//! mTrace thesis has them.

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;

use analysis::walk::Selection;
use anyhow::{Result, anyhow, bail};

use report::mcf::{self, Form, Numbered};
use report::mls::{self, View, Written};
use trace::Recording;

use crate::branches::say;
use crate::descriptors::Sink;
use crate::exit_status::Ending;
use crate::flags::{DescriptorForm, Dump, Packing, Trace};
use crate::progress::Progress;
use crate::raptor::live;
use crate::thesis::{Files, Tool};
use crate::traces::{check_thread, read_trace};

/// Descriptors that were asked for, and their files.
pub struct Descriptors {
    view: View,
    sink: Sink,
    /// The other file of `--thesis`, and what is said.
    files: Option<Files>,
    is_quiet: bool,
}

impl Descriptors {
    /// The descriptors of `trace --mls`, if they were asked for and can be had.
    pub fn wanted(flags: &Trace) -> Result<Option<Descriptors>> {
        let Some(path) = &flags.live.mls else {
            return Ok(None);
        };
        let written = &flags.live.form;
        let form = form(written.form, written.disasm, "--form ascii")?;
        let view = View {
            form,
            disassemble: written.disasm,
            range: 1..u64::MAX,
            stores: flags.memory.stores,
            values: true,
        };
        let (packing, thesis) = (&flags.live.packing, written.thesis);
        let sink = sink(Tool::MlsTrace, form, packing, Some(path), thesis);
        let (sink, files) = sink.map_err(|error| anyhow!("{error}; nothing was run"))?;
        Ok(Some(Descriptors {
            view,
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
        let (threads, selection) = match (
            mcf::threads(recording, None),
            analysis::walk::selection(recording),
        ) {
            (Ok(threads), Some(selection)) => (threads, selection),
            (Err(error), _) => {
                say!("everypath: {error}");
                return 0;
            }
            (_, None) => return 0,
        };
        let limit = Arc::clone(&self.sink.limit);
        let (_, written) = match write(&threads, selection, &self.view, self.sink) {
            Ok(written) => written,
            Err(error) => {
                drop(progress);
                say!("everypath: {error}; the descriptors are lost");
                return 0;
            }
        };
        drop(progress);
        limit.say();
        say_unknown(&written, self.is_quiet);
        for failure in &written.failures {
            say!("everypath: {failure}");
        }
        if let Some(files) = self.files {
            files.finish_run(&threads, self.is_quiet, |out| {
                mls::statistics(recording, &written, &self.view, out)
            });
        }
        written.totals.insns
    }
}

pub fn dump(flags: &Dump, wanted: DescriptorForm) -> Result<Ending> {
    let form = form(wanted, flags.mcf.disasm, "--mls ascii")?;
    let mut view = View {
        form,
        disassemble: flags.mcf.disasm,
        range: flags.range.clone().unwrap_or(1..u64::MAX),
        stores: flags.mcf.stores,
        values: true,
    };
    let output = flags.mcf.output.as_ref();
    let (packing, thesis) = (&flags.mcf.packing, flags.mcf.thesis);
    let (sink, files) = sink(Tool::MlsTrace, form, packing, output, thesis)?;
    sink.check_terminal(form)?;
    let (recording, _) = read_trace(&flags.file)?;
    check_thread(&recording, &flags.file, flags.thread)?;
    let shown = flags.file.display();
    let selection = analysis::walk::selection(&recording);
    let Some(selection) = selection else {
        bail!("'{shown}' has no loads and stores; record it with --memory values, or addresses");
    };
    view.values = selection.values;
    if !selection.loads || view.stores && !selection.stores {
        let missing = if selection.loads { "stores" } else { "loads" };
        bail!("'{shown}' has no {missing}; record it without --loads and --stores");
    }
    // Output to a terminal shows by itself how far it is.
    let progress = sink.output.is_some();
    let progress = progress.then(|| Progress::reading(&recording, "writing descriptors"));
    let threads = mcf::threads(&recording, flags.thread);
    let threads = threads.map_err(|error| anyhow!("'{shown}': {error}"))?;
    let limit = Arc::clone(&sink.limit);
    let (ending, written) = write(&threads, selection, &view, sink)?;
    drop(progress);
    limit.say();
    say_unknown(&written, false);
    if !view.values {
        say!("everypath: '{shown}' has no values, so descriptors end with the size");
    }
    let ending = match files {
        None => ending,
        Some(files) => files.finish(&threads, |out| {
            mls::statistics(&recording, &written, &view, out)
        })?,
    };
    Ok(say(&flags.file, written.failures, ending))
}

pub fn form(wanted: DescriptorForm, disassemble: bool, text: &str) -> Result<Form> {
    match wanted {
        DescriptorForm::Ascii => Ok(Form::Ascii),
        DescriptorForm::Binary if disassemble => {
            bail!("binary descriptors have no place for instructions; use {text}")
        }
        DescriptorForm::Binary => Ok(Form::Binary),
    }
}

/// The file of descriptors; with `--thesis` the tool's other file, too.
pub fn sink(
    tool: Tool,
    form: Form,
    packing: &Packing,
    path: Option<&PathBuf>,
    thesis: bool,
) -> Result<(Sink, Option<Files>)> {
    let path = path.map(PathBuf::as_path);
    match thesis {
        false => Ok((Sink::wanted(packing, path)?, None)),
        true => {
            let (sink, files) = Sink::of_tool(tool, form, packing, path)?;
            Ok((sink, Some(files)))
        }
    }
}

fn write(
    threads: &[Numbered<'_>],
    selection: Selection,
    view: &View,
    sink: Sink,
) -> Result<(Ending, Written)> {
    let written = RefCell::new(Written::default());
    let ending = sink.send(view.form, |out| {
        *written.borrow_mut() = mls::write(threads, selection, view, out)?;
        Ok(())
    })?;
    Ok((ending, written.into_inner()))
}

fn say_unknown(written: &Written, is_quiet: bool) {
    if written.unknown > 0 && !is_quiet {
        let all: u64 = written.loads.iter().chain(&written.stores).sum();
        let unknown = written.unknown;
        say!(
            "everypath: {unknown} of {all} values are not known, and written as 0 (docs/limits.md)"
        );
    }
}
