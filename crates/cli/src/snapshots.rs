//! `ctl FILE dump` and `ctl FILE reset`: counters of an edited program while it runs.
//!
//! The file of a process has its counters at every moment, so a copy of it is what is known now. The process adds to its counters
//! without asking anybody, so nobody else may set them to zero: a reset keeps a copy beside the file ([`beside`]), and whoever reads
//! the file takes the copy's counters off. Marks are set without being read before, so they are cleared where they are.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};

use crate::counter_files;
use crate::counter_header::{self, Header};
use crate::exit_status::Ending;
use crate::flags::{Ctl, Wanted};
use crate::followed;
use crate::opmix;
use crate::output::{Kind, Output, reason};

/// The copy that a reset keeps.
pub fn beside(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".reset");
    name.into()
}

/// Counters of a file at its last reset; empty: there was none.
pub fn at_reset(file: &Path) -> Result<Vec<u8>> {
    let beside = beside(file);
    match fs::read(&beside) {
        Ok(bytes) => Ok(bytes),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => bail!("cannot read '{}': {}", beside.display(), reason(&error)),
    }
}

/// Does what is asked of a file of counters; `None`: it is none, or something else is asked.
pub fn ctl(flags: &Ctl) -> Result<Option<Ending>> {
    let file = &flags.file;
    let shown = file.display();
    let is_asked = matches!(flags.wanted, Wanted::Dump | Wanted::Reset | Wanted::Again);
    if flags.output.is_some() && !matches!(flags.wanted, Wanted::Dump) {
        bail!("--output goes with dump");
    }
    match (counter_header::is_one(file), is_asked) {
        (false, false) => return Ok(None),
        (true, false) => {
            bail!(
                "'{shown}' has counters of an edited program, which always counts: dump, reset and again are possible"
            )
        }
        (false, true) => {
            bail!(
                "'{shown}' has no counters of an edited program; {} is for those",
                flags.wanted.name()
            )
        }
        (true, true) => {}
    }
    if matches!(flags.wanted, Wanted::Again) {
        match followed::follow_again(file)? {
            true => return Ok(Some(Ending::Exit(0))),
            false => bail!(
                "'{shown}' has counters, and no nests of loops: again is for `rewrite --tool loops`"
            ),
        }
    }
    let bytes =
        fs::read(file).map_err(|error| anyhow!("cannot read '{shown}': {}", reason(&error)))?;
    let header = Header::parse(&bytes).map_err(|what| anyhow!("'{shown}' {what}"))?;
    match (flags.wanted, &flags.output) {
        (Wanted::Dump, None) => bail!("dump needs a file for the counters: -o FILE.evp"),
        (Wanted::Dump, Some(output)) => {
            let before = at_reset(file)?;
            Output::prepare(output, Kind::Report)?.replace(|out| out.write_all(&bytes))?;
            let beside = beside(output);
            if before.is_empty() {
                // An earlier dump of this name may have had one.
                let _ = fs::remove_file(beside);
            } else {
                Output::prepare(&beside, Kind::Report)?.replace(|out| out.write_all(&before))?;
            }
        }
        _ if !opmix::is_one(file)? && counter_files::has_marks_alone(file, &header)? => {
            let marks = header.chunks().try_for_each(|range| clear(file, &range));
            marks.map_err(|error| anyhow!("cannot write '{shown}': {}", reason(&error)))?;
        }
        _ => {
            let output = Output::prepare(&beside(file), Kind::Report)?;
            output.replace(|out| out.write_all(&bytes))?;
        }
    }
    Ok(Some(Ending::Exit(0)))
}

/// Sets bytes of a file to zero.
fn clear(file: &Path, range: &std::ops::Range<usize>) -> std::io::Result<()> {
    let file = OpenOptions::new().write(true).open(file)?;
    file.write_all_at(&vec![0; range.len()], range.start as u64)
}
