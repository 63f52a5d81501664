//! `trace`, `dump` and `verify`: everything that was executed, in order.

use std::io::{self, BufWriter, Write};

use anyhow::{Result, bail};
use image::Selector;
use trace::{Mode, Recording};
use wire::view::Pool;

use crate::commands::{finish_stdout, read};
use crate::ending::Ending;
use crate::flags::{Destination, Dump, Format, Trace, Verify};
use crate::session::Session;
use crate::show::Show;

/// Takes streams out of the pool.
#[derive(Default)]
pub struct Drain(pub trace::Drain);

impl launch::Drain for Drain {
    fn drain(&mut self, pool: &Pool) -> bool {
        self.0.drain(pool)
    }
}

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
    .run()
}

pub fn dump(flags: &Dump) -> Result<Ending> {
    let view = report::steps::View {
        range: flags.range.clone().unwrap_or(1..u64::MAX),
        thread: flags.thread,
    };
    let recording = read_trace(&flags.file)?;
    let threads = || {
        recording
            .processes
            .iter()
            .flat_map(|process| &process.threads)
    };
    if let Some(wanted) = flags.thread
        && threads().all(|thread| thread.tid != wanted)
    {
        bail!(
            "'{}': there is no thread {wanted}; `everypath verify` lists them",
            flags.file.display()
        );
    }
    print(|out| report::steps::dump(&recording, &view, out))
}

pub fn verify(flags: &Verify) -> Result<Ending> {
    let recording = read_trace(&flags.file)?;
    print(|out| report::steps::verify(&recording, out))
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

/// A trace in a file, or what is left of it.
fn read_trace(path: &std::path::Path) -> Result<Recording> {
    let prefix = read(path)?;
    let shown = path.display();
    if let Some(loss) = prefix.lost {
        eprintln!("everypath: '{shown}' is damaged. {loss}");
    }
    if prefix.recording.meta.mode != Mode::Trace {
        bail!("'{shown}' is no trace; look at it with `everypath report`");
    }
    Ok(prefix.recording)
}
