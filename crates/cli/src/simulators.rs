//! `dump --champsim`, `--din` and `--ramulator`: traces for simulators.

use std::cell::RefCell;
use std::path::Path;

use analysis::walk::{Selection, has_addresses};
use anyhow::{Result, anyhow, bail};
use report::mcf;
use report::simulators::{self, Form, champsim};
use trace::Recording;

use crate::branches::say;
use crate::exit_status::Ending;
use crate::flags::Dump;
use crate::folders::{create, make};
use crate::output::{Kind, Output};
use crate::progress::Progress;
use crate::traces::{check_order, check_thread, read_trace};

pub fn dump(flags: &Dump) -> Result<Ending> {
    let (recording, _) = read_trace(&flags.file)?;
    check_thread(&recording, &flags.file, flags.thread)?;
    let shown = flags.file.display();
    let Some(selection) = analysis::walk::selection(&recording) else {
        bail!("'{shown}' has no memory accesses; record it with --memory addresses");
    };
    let range = flags.range.clone().unwrap_or(1..u64::MAX);
    let asked = &flags.simulators;
    let din = asked.din.as_ref().map(|path| (path, Form::Din));
    let ramulator = asked.ramulator.as_ref();
    let ramulator = ramulator.map(|path| (path, Form::Ramulator));
    let (path, form) = match (&asked.champsim, din.or(ramulator)) {
        (None, Some(text)) => text,
        (Some(folder), _) => return of_champsim(flags, folder, &recording, selection),
        (None, None) => bail!("no simulator was named"),
    };
    if flags.order {
        check_order(&recording, &flags.file)?;
    }
    let output = Output::prepare(path, Kind::Report)?;
    let threads = mcf::threads(&recording, flags.thread);
    let threads = threads.map_err(|error| anyhow!("'{shown}': {error}"))?;
    let progress = Progress::reading(&recording, "writing accesses");
    let failures = RefCell::new(Vec::new());
    output.replace(|out| {
        let what = (form, range.clone());
        *failures.borrow_mut() = simulators::write(&threads, selection, what, flags.order, out)?;
        std::io::Result::Ok(())
    })?;
    drop(progress);
    Ok(say(&flags.file, failures.into_inner(), Ending::Exit(0)))
}

/// A file of records for each thread, and one of values if there are any.
fn of_champsim(
    flags: &Dump,
    folder: &Path,
    recording: &Recording,
    selection: Selection,
) -> Result<Ending> {
    make(folder)?;
    let mut failures = Vec::new();
    let progress = Progress::reading(recording, "writing records");
    for (number, process) in recording.processes.iter().enumerate() {
        let wanted = |tid: u32| flags.thread.is_none_or(|wanted| wanted == tid);
        let threads = process.threads.iter().filter(|thread| wanted(thread.tid));
        for thread in threads.filter(|thread| has_addresses(thread)) {
            let name = format!("{number}-{}-{}", process.pid, thread.tid);
            let records = folder.join(format!("{name}.champsim"));
            let range = flags.range.clone().unwrap_or(1..u64::MAX);
            let both = (process, thread);
            let failed = create(&records, |out| match selection.values {
                false => champsim::write(both, selection, range, out, None),
                true => {
                    let values = folder.join(format!("{name}.values"));
                    let write = |values: &mut dyn std::io::Write| {
                        champsim::write(both, selection, range, out, Some(values))
                    };
                    create(&values, write).map_err(std::io::Error::other)
                }
            })?;
            failures.extend(failed.map(|error| format!("thread {}: {error}", thread.tid)));
        }
    }
    drop(progress);
    Ok(say(&flags.file, failures, Ending::Exit(0)))
}
