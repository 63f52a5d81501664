//! `trace`, `dump` and `verify`: everything that was executed, in order.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::{Result, bail};
use image::Selector;
use trace::{Mode, ReadError, Recording};

use crate::branches;
use crate::commands::{finish_stdout, read};
use crate::ending::Ending;
use crate::flags::{Destination, Dump, Format, Trace, Verify};
use crate::folders;
use crate::session::Session;
use crate::show::Show;

pub fn trace(flags: &Trace) -> Result<Ending> {
    if flags.target.lockstep.is_some() {
        bail!("--lockstep runs parts of the program twice; a trace would have both");
    }
    let destination = Destination {
        output: Some(flags.output.clone()),
        report: None,
        format: Format::Report,
        quiet: flags.quiet,
    };
    Session {
        target: &flags.target,
        destination: &destination,
        html: None,
        mode: Mode::Trace,
        blocks: None,
        k: None,
        flags: 0,
        max_nodes: 1,
        costs: Vec::new(),
        buffer: u64::from(flags.buffer) << 20,
        selector: Selector::everything(),
        options: Vec::new(),
        show: Show::run(Format::Report, false),
        speaks: false,
    }
    .trace(flags.limit)
}

pub fn dump(flags: &Dump) -> Result<Ending> {
    if let Some(form) = flags.mcf.mcf {
        return branches::dump(flags, form);
    }
    if let Some(folder) = &flags.pt {
        return folders::pt(flags, folder);
    }
    let view = report::steps::View {
        range: flags.range.clone().unwrap_or(1..u64::MAX),
        thread: flags.thread,
    };
    let (recording, _) = read_trace(&flags.file)?;
    check_thread(&recording, &flags.file, flags.thread)?;
    print(|out| report::steps::dump(&recording, &view, out))
}

/// Whether there is a thread that was asked for.
pub fn check_thread(recording: &Recording, path: &Path, wanted: Option<u32>) -> Result<()> {
    let mut threads = recording.processes.iter().flat_map(|p| &p.threads);
    match wanted {
        Some(wanted) if threads.all(|thread| thread.tid != wanted) => bail!(
            "'{}': there is no thread {wanted}; `everypath verify` lists them",
            path.display()
        ),
        _ => Ok(()),
    }
}

pub fn verify(flags: &Verify) -> Result<Ending> {
    let (recording, is_sound) = read_trace(&flags.file)?;
    print(|out| Ok(report::steps::verify(&recording, out)? && is_sound))
}

fn print(write: impl Fn(&mut dyn Write) -> io::Result<bool>) -> Result<Ending> {
    let mut out = BufWriter::new(io::stdout().lock());
    let written = write(&mut out).and_then(|sound| out.flush().map(|()| sound));
    match written {
        Ok(true) => Ok(Ending::Exit(0)),
        Ok(false) => Ok(Ending::Exit(1)),
        Err(error) => finish_stdout(Err(error)),
    }
}

/// A trace in a file, or what is left of it; and whether that is as it was written.
pub fn read_trace(path: &Path) -> Result<(Recording, bool)> {
    let prefix = read(path)?;
    let shown = path.display();
    let is_sound = match prefix.lost {
        None => true,
        Some(loss) => match loss.error {
            ReadError::Unfinished { .. } => {
                eprintln!("everypath: '{shown}': {}", loss.error);
                true
            }
            _ => {
                eprintln!("everypath: '{shown}' is damaged. {loss}");
                false
            }
        },
    };
    if prefix.recording.meta.mode != Mode::Trace {
        bail!("'{shown}' is no trace; look at it with `everypath report`");
    }
    Ok((prefix.recording, is_sound))
}
