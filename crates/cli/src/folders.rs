//! Folders that `dump` writes: a file for each thread, and those that they share.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use analysis::walk::Pieces;
use anyhow::{Result, anyhow, bail};
use report::pt;

use crate::branches::say;
use crate::exit_status::Ending;
use crate::flags::Dump;
use crate::output::reason;
use crate::progress::Progress;
use crate::traces::{check_thread, read_trace};

/// Packets of each thread, and the code of each process.
pub fn pt(flags: &Dump, folder: &Path) -> Result<Ending> {
    let (recording, _) = read_trace(&flags.file)?;
    check_thread(&recording, &flags.file, flags.thread)?;
    make(folder)?;
    let form = pt::Form {
        compress_returns: !flags.pt_targets,
    };
    let mut failures = Vec::new();
    let progress = Progress::reading(&recording, "writing packets");
    for (number, process) in recording.processes.iter().enumerate() {
        let wanted = |tid: u32| flags.thread.is_none_or(|wanted| wanted == tid);
        let mut pieces = Pieces::of(process);
        let mut any = false;
        for thread in process.threads.iter().filter(|thread| wanted(thread.tid)) {
            let name = format!("{number}-{}-{}.pt", process.pid, thread.tid);
            let (_, failed) = create(&folder.join(name), |out| {
                pt::write(&mut pieces, thread, form, out)
            })?;
            failures.extend(failed.map(|error| format!("thread {}: {error}", thread.tid)));
            any = true;
        }
        if any {
            let name = format!("{number}-{}.code", process.pid);
            create(&folder.join(name), |out| pt::write_code(process, out))?;
        }
    }
    drop(progress);
    Ok(say(&flags.file, failures, Ending::Exit(0)))
}

/// A folder that is not there yet, or has nothing in it.
pub fn make(folder: &Path) -> Result<()> {
    let shown = folder.display();
    let failed = |error: io::Error| anyhow!("cannot write into '{shown}': {}", reason(&error));
    match fs::create_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            match fs::read_dir(folder).map_err(failed)?.next() {
                None => Ok(()),
                Some(_) => bail!("'{shown}' is not empty; give a folder that is, or a new one"),
            }
        }
        made => made.map_err(failed),
    }
}

/// Writes a new file.
pub fn create<T>(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<T>) -> Result<T> {
    let made = File::create_new(path).and_then(|file| {
        let mut out = BufWriter::with_capacity(1 << 18, file);
        let value = write(&mut out)?;
        out.flush().map(|()| value)
    });
    made.map_err(|error| anyhow!("cannot write '{}': {}", path.display(), reason(&error)))
}
