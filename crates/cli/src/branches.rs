//! `dump --mcf` and `stats`: a trace as its branches.

use std::cell::RefCell;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use report::{mcf, stats};
use trace::Recording;

use crate::commands::finish_stdout;
use crate::descriptors::Sink;
use crate::exit_status::Ending;
use crate::flags::{DescriptorForm, Dump, Stats, StatsForm};
use crate::output::{Kind, Output};
use crate::progress::Progress;
use crate::thesis::Tool;
use crate::traces::{check_order, check_thread, read_trace};

pub fn dump(flags: &Dump, form: DescriptorForm) -> Result<Ending> {
    let form = match form {
        DescriptorForm::Binary => mcf::Form::Binary,
        DescriptorForm::Ascii => mcf::Form::Ascii,
    };
    if form == mcf::Form::Binary && flags.mcf.disasm {
        bail!("binary descriptors have no place for instructions; use --mcf ascii");
    }
    let view = mcf::View {
        form,
        disassemble: flags.mcf.disasm,
        range: flags.range.clone().unwrap_or(1..u64::MAX),
        thread: flags.thread,
    };
    let (sink, files) = match flags.mcf.thesis {
        false => {
            let output = flags.mcf.output.as_deref();
            (Sink::wanted(&flags.mcf.packing, output)?, None)
        }
        true => {
            let output = flags.mcf.output.as_deref();
            let (sink, files) = Sink::of_tool(Tool::McfTrace, form, &flags.mcf.packing, output)?;
            (sink, Some(files))
        }
    };
    sink.check_terminal(form)?;
    let (recording, _) = read_trace(&flags.file)?;
    check_thread(&recording, &flags.file, flags.thread)?;
    if flags.order {
        check_order(&recording, &flags.file)?;
    }
    let shown = flags.file.display();
    // Output to a terminal shows by itself how far it is.
    let progress = sink.output.is_some();
    let progress = progress.then(|| Progress::reading(&recording, "writing descriptors"));
    let threads = mcf::threads(&recording, flags.thread);
    let threads = threads.map_err(|error| anyhow!("'{shown}': {error}"))?;
    let written = RefCell::new(mcf::Written::default());
    let limit = Arc::clone(&sink.limit);
    let ending = sink.send(form, |out| {
        *written.borrow_mut() = match flags.order {
            true => mcf::write_in_order(&threads, &view, out)?,
            false => mcf::write(&threads, &view, out)?,
        };
        Ok(())
    })?;
    drop(progress);
    limit.say();
    let written = written.take();
    let ending = match files {
        None => ending,
        Some(files) => files.finish(&threads, |out| {
            mcf::statistics(&recording, &written.totals, out)
        })?,
    };
    Ok(say(&flags.file, written.failures, ending))
}

pub fn stats(flags: &Stats) -> Result<Ending> {
    let output = Output::wanted(flags.output.as_deref())?;
    let (recording, _) = read_trace(&flags.file)?;
    check_thread(&recording, &flags.file, flags.thread)?;
    let progress = Progress::reading(&recording, "counting branches");
    let stats = analysis::branch_stats::of(&recording, flags.thread);
    drop(progress);
    let form = match flags.format {
        StatsForm::Report => stats::Form::Report,
        StatsForm::Json => stats::Form::Json,
        StatsForm::Mcf => stats::Form::Mcf,
    };
    let ending = send(output, |out| stats::write(form, &recording, &stats, out))?;
    let tid = |thread: &analysis::branch_stats::Thread| tid(&recording, thread);
    let failed = stats.threads.iter().filter_map(|thread| {
        let error = thread.error.as_ref()?;
        Some(format!("thread {}: {error}", tid(thread)))
    });
    Ok(say(&flags.file, failed.collect(), ending))
}

fn tid(recording: &Recording, thread: &analysis::branch_stats::Thread) -> u32 {
    recording.processes[thread.process].threads[thread.thread].tid
}

impl Output {
    /// A file that was asked for.
    pub fn wanted(path: Option<&Path>) -> Result<Option<Output>> {
        path.map(|path| Output::prepare(path, Kind::Report))
            .transpose()
    }
}

/// To the file, or to standard output.
pub fn send(
    output: Option<Output>,
    write: impl Fn(&mut dyn Write) -> io::Result<()>,
) -> Result<Ending> {
    match output {
        Some(output) => output.replace(write).map(|()| Ending::Exit(0)),
        None => {
            let mut out = BufWriter::with_capacity(1 << 18, io::stdout().lock());
            finish_stdout(write(&mut out).and_then(|()| out.flush()))
        }
    }
}

/// Says which threads could not be read to their end; the exit status is 1 then.
pub fn say(file: &Path, failures: Vec<String>, ending: Ending) -> Ending {
    for failure in &failures {
        say!("everypath: '{}': {failure}", file.display());
    }
    match failures.is_empty() {
        true => ending,
        false => Ending::Exit(1),
    }
}
