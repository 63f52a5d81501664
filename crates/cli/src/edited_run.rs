//! `count --rewrite`: the program is edited, run, and what its counters say is read.
//!
//! Problem: editing takes as long as many runs, so an edited program is kept; and what is kept is executed later, so nobody else may
//! have written it.
//!
//! Approach: edited programs are in a folder of the user's cache that only the user can enter, by the hash of the original and the
//! version of the editor. One is written beside its place and renamed, so several writers do no harm; before it is used, its owner,
//! its permissions, its hash, and the original that its plan names are looked at. A run has a folder of its own, with a
//! link to the edited program, which writes its counters beside itself.
//!
//! Limits: the program sees its own file elsewhere (`/proc/self/exe`). Other programs that it executes are not counted, nor are
//! libraries.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use flow::Program;
use image::Image;
use launch::Ended;
use placement::plan;
use rustix::process::{Pid, Signal, geteuid, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use trace::{Meta, Prefix, Recording};

use crate::rewrite::PERMISSIONS;
use crate::{counter_files, counter_header};
use crate::{sums, uncounted};

/// An edited program that can be run, in a folder of its own that goes with it.
pub struct EditedRun {
    folder: PathBuf,
    program: PathBuf,
}

impl Drop for EditedRun {
    fn drop(&mut self) {
        // It is in the user's cache, where leftovers do no harm.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl EditedRun {
    /// Prepares a program; `always`: also if much of it would not be counted. The error says why it is not edited.
    pub fn of(program: &Path, always: bool) -> Result<EditedRun, String> {
        let input = fs::read(program).map_err(|error| error.to_string())?;
        if input.starts_with(b"#!") {
            return Err("it is a script".into());
        }
        if input.windows(7).any(|window| window == b"$ORIGIN") {
            return Err("it looks for its libraries beside itself".into());
        }
        let cache = folder_of_the_user()?;
        let edited = cached(&cache, program, &input)?;
        if !always {
            judge(program, &edited)?;
        }
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let name = format!("run.{}.{}", std::process::id(), since.as_nanos());
        let folder = cache.join(name);
        let made = EditedRun {
            program: folder.join(program.file_name().unwrap_or_default()),
            folder,
        };
        let cannot = |error: std::io::Error| error.to_string();
        make_folder(&made.folder).map_err(cannot)?;
        fs::hard_link(&edited, &made.program).map_err(cannot)?;
        Ok(made)
    }

    /// Runs it with the words of a command, of which the first is the name that it is called by.
    pub fn run(
        &self,
        words: &[std::ffi::OsString],
    ) -> std::io::Result<(Ended, SystemTime, std::time::Duration)> {
        let (started, start) = (SystemTime::now(), Instant::now());
        let mut command = Command::new(&self.program);
        command.arg0(&words[0]).args(&words[1..]);
        launch::restore_signals(&mut command);
        // Keys that end programs are for the program; requests to end are passed on.
        let mut signals = Signals::new([SIGINT, SIGQUIT, SIGTERM, SIGHUP])?;
        let handle = signals.handle();
        let mut child = command.spawn()?;
        let number = Pid::from_child(&child);
        let passes_on = std::thread::spawn(move || {
            for signal in signals.forever() {
                let signal = match signal {
                    SIGTERM => Signal::TERM,
                    SIGHUP => Signal::HUP,
                    _ => continue,
                };
                // It may have ended.
                let _ = kill_process(number, signal);
            }
        });
        let status = child.wait()?;
        handle.close();
        let _ = passes_on.join();
        let ended = match (status.code(), status.signal()) {
            (Some(code), _) => Ended::Exited(code),
            (None, Some(signal)) => Ended::Signaled {
                signal,
                core: status.core_dumped(),
            },
            _ => Ended::Unknown,
        };
        Ok((ended, started, start.elapsed()))
    }

    /// Counts of its processes; `meta` is that of the run.
    pub fn recording(&self, meta: Meta) -> anyhow::Result<Recording> {
        let entries = fs::read_dir(&self.folder)?
            .flatten()
            .map(|entry| entry.path());
        let mut files: Vec<PathBuf> = entries
            .filter(|path| counter_header::is_one(path))
            .collect();
        files.sort_by_key(|path| fs::metadata(path).and_then(|meta| meta.modified()).ok());
        let Some((first, more)) = files.split_first() else {
            anyhow::bail!(
                "nothing was kept: it ended before it came to code with counters, or there was no room for \
                 them, or no right to write them"
            );
        };
        let prefix = Prefix {
            recording: counter_files::read(first)?,
            lost: None,
            identity: trace::Identity::default(),
        };
        let mut recording = sums::with(prefix, first, more)?.recording;
        let options = std::mem::take(&mut recording.meta.options);
        recording.meta = meta;
        recording.meta.options.extend(options);
        Ok(recording)
    }
}

fn make_folder(path: &Path) -> std::io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

/// The folder of edited programs, which nobody else may enter.
fn folder_of_the_user() -> Result<PathBuf, String> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = cache.filter(|path| path.is_absolute()).or_else(home);
    let cache = cache.ok_or("there is no HOME for a cache of edited programs")?;
    let folder = cache.join("everypath");
    let cannot = |error: std::io::Error| format!("'{}': {error}", folder.display());
    fs::create_dir_all(&cache).map_err(cannot)?;
    match make_folder(&folder) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(cannot(error));
        }
        _ => {}
    }
    let metadata = fs::symlink_metadata(&folder).map_err(cannot)?;
    let is_own = metadata.is_dir() && metadata.uid() == geteuid().as_raw();
    match is_own && metadata.mode() & 0o077 == 0 {
        true => Ok(folder),
        false => Err(format!("others may write to '{}'", folder.display())),
    }
}

/// The tool that counts.
const TOOL: &str = "edges";

/// The edited form of a program, from the cache or made now.
fn cached(cache: &Path, program: &Path, input: &[u8]) -> Result<PathBuf, String> {
    let editor = std::env::current_exe()
        .and_then(fs::metadata)
        .map_err(|error| error.to_string())?;
    let version = (editor.len(), editor.mtime(), editor.mtime_nsec());
    let original = fs::canonicalize(program).map_err(|error| error.to_string())?;
    let key = [
        hex(&plan::hash(input)),
        hex(&plan::hash(
            format!("{version:?} {}", original.display()).as_bytes(),
        )),
    ];
    let path = cache.join(key.join("."));
    if is_good(&path, input) {
        return Ok(path);
    }
    let image = Image::open_whole(&original).map_err(|error| error.to_string())?;
    let functions = Program::of(&image);
    let shown = original.to_string_lossy();
    let wanted = edits::Wanted {
        branches: false,
        original: &shown,
        profile: None,
        files: rewrite::CounterFiles::Beside,
        part: None,
    };
    let options = rewrite::Options::default();
    let tool = edits::tool(TOOL).ok_or("there is no such tool")?;
    let mut tool = (tool.make)(&image, &functions, wanted);
    let edited = rewrite::edit(input, &image, &functions, options, &mut *tool);
    drop(tool);
    let edited = edited.map_err(|refused| refused.to_string())?;
    let mode = fs::metadata(&original).map_or(0o700, |metadata| metadata.mode());
    write(&path, &edited.bytes, mode & PERMISSIONS & 0o755).map_err(|error| error.to_string())?;
    Ok(path)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An error if too much of a program would not be counted.
fn judge(program: &Path, edited: &Path) -> Result<(), String> {
    let bytes = fs::read(edited).map_err(|error| error.to_string())?;
    let image = Image::open_whole(program).map_err(|error| error.to_string())?;
    let planned = planned(&bytes).ok_or("its plan is damaged")?;
    uncounted::too_much(&planned.uncounted, &image).map_or(Ok(()), Err)
}

fn planned(bytes: &[u8]) -> Option<plan::File> {
    rewrite::plan_of(bytes).and_then(plan::File::decode)
}

/// The file with the hash of another one.
fn sum_of(path: &Path) -> PathBuf {
    path.with_extension(format!(
        "{}.sum",
        path.extension().unwrap_or_default().display()
    ))
}

/// Whether a file of the cache is what was put there, and of this original.
fn is_good(path: &Path, input: &[u8]) -> bool {
    let Ok(metadata) = fs::symlink_metadata(path) else {
        return false;
    };
    let is_own = metadata.is_file() && metadata.uid() == geteuid().as_raw();
    if !is_own || metadata.mode() & 0o022 != 0 {
        return false;
    }
    let (Ok(bytes), Ok(sum)) = (fs::read(path), fs::read(sum_of(path))) else {
        return false;
    };
    let planned = planned(&bytes);
    let is_of = |planned: plan::File| {
        planned.size == input.len() as u64 && planned.hash == plan::hash(input)
    };
    sum == plan::hash(&bytes) && planned.is_some_and(is_of)
}

/// Writes a file beside its place, then its hash, and gives both their names.
fn write(path: &Path, bytes: &[u8], mode: u32) -> std::io::Result<()> {
    let put = |path: &Path, bytes: &[u8], mode: u32| {
        let new = path.with_extension(format!("new.{}", std::process::id()));
        let _ = fs::remove_file(&new);
        let mut file: File = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&new)?;
        file.write_all(bytes)?;
        file.set_permissions(Permissions::from_mode(mode))?;
        drop(file);
        fs::rename(&new, path)
    };
    put(&sum_of(path), &plan::hash(bytes), 0o600)?;
    put(path, bytes, mode)
}
