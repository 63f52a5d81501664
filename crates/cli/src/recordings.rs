//! Recordings without a name on the command line: where `-o` keeps one, and which one `report`
//! shows.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Result, anyhow, bail};

use crate::flags::Command;
use crate::output::reason;

/// Ending of the names of recordings.
const ENDING: &str = "evp";

/// Puts a name where the command line has none. What it chose is said, unless a report will
/// show it.
pub fn name(command: &mut Command) -> Result<()> {
    let program = command.target().map(|target| target.command[0].clone());
    let output = match command {
        Command::Run(flags) => &mut flags.destination.output,
        Command::Contexts(flags) => &mut flags.destination.output,
        Command::Count(flags) => &mut flags.destination.output,
        Command::Trace(flags) => &mut flags.output,
        Command::Report(flags) if is_unnamed(&flags.file) => {
            flags.file = newest(Path::new("."))?;
            say!(
                "everypath: the newest recording here is '{}'",
                flags.file.display()
            );
            return Ok(());
        }
        _ => return Ok(()),
    };
    if let Some(path) = output.as_deref().filter(|path| is_program(path)) {
        bail!(
            "'{0}' is a program, and -o would replace it with the recording; give -o another name, \
             or none: -o -- {0}",
            path.display()
        );
    }
    if let (Some(path), Some(program)) = (output.as_mut().filter(|path| is_unnamed(path)), program)
    {
        let program = Path::new(&program).file_name().unwrap_or_default();
        let program = program.to_string_lossy();
        *path = PathBuf::from(format!(
            "everypath.{program}.{}.{ENDING}",
            std::process::id()
        ));
    }
    Ok(())
}

/// A recording without a name: the folder that it is in.
pub const HERE: &str = ".";

fn is_unnamed(path: &Path) -> bool {
    path == Path::new(HERE)
}

/// Whether a file can be executed: no recording can. `-o PROGRAM` without `--` in between names one.
fn is_program(path: &Path) -> bool {
    let meta = fs::metadata(path);
    meta.is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// The recording in a folder that was written last.
fn newest(folder: &Path) -> Result<PathBuf> {
    let none = |why: String| {
        anyhow!("no recording was named, and {why}; make one with -o FILE.evp, or name one")
    };
    let entries = fs::read_dir(folder)
        .map_err(|error| none(format!("this folder cannot be read: {}", reason(&error))))?;
    let recordings = entries.flatten().filter_map(|entry| {
        let path = PathBuf::from(entry.file_name());
        let is_named = path.extension().is_some_and(|ending| ending == ENDING);
        let meta = entry
            .metadata()
            .ok()
            .filter(|meta| is_named && meta.is_file())?;
        Some((meta.modified().unwrap_or(SystemTime::UNIX_EPOCH), path))
    });
    let newest = recordings.max();
    let newest = newest.ok_or_else(|| none(format!("no *.{ENDING} is in this folder")))?;
    Ok(newest.1)
}
