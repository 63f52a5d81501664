//! Edited programs that are run: for `count --rewrite`, `contexts --rewrite`, `log-contexts` and `allocations`.
//!
//! Approach: the edited program and its libraries are kept ([`Cached`]). A run has a folder of its own within theirs, with a link to
//! the edited program, which finds its libraries from there and writes its counters beside itself.
//!
//! Limits: the program sees its own file elsewhere (`/proc/self/exe`). Other programs that it executes are as they were, and so are
//! libraries that it loads while it runs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use edits::loops::Choice;
use launch::Ended;
use placement::dictionary;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use trace::{Meta, Recording};

use crate::dictionaries;
use crate::edit_cache::{self, Cached, Inserted};
use crate::edited_folder::{Choices, LIBRARIES, PROGRAMS, Unfinished};
use crate::flags::Rewrite;
use crate::progress::Progress;
use crate::rewrite::{self, Among};
use crate::sums;
use crate::{counted_contexts, counter_files, counter_header};

/// An edited program that can be run, in a folder of its own that goes with it.
pub struct EditedRun {
    folder: PathBuf,
    program: PathBuf,
    /// The folder with the edited files.
    edited: PathBuf,
    /// Why each of the libraries that were not edited was not.
    kept: Vec<String>,
    /// Done meanwhile with the files that its processes leave.
    again: Option<Again>,
}

/// When something is done with files of counters while they grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// After each such time.
    Every(Duration),
    /// If this process gets such a signal.
    Signal(i32),
}

#[derive(Clone)]
struct Again {
    when: When,
    with: Arc<dyn Fn(&Path) + Send + Sync>,
}

impl Again {
    /// Does it with all files of a folder.
    fn act(&self, folder: &Path) {
        for path in files_in(folder).unwrap_or_default() {
            (self.with)(&path);
        }
    }
}

/// A thread that does it; it ends when this is dropped.
struct Repeated(Option<(Sender<()>, JoinHandle<()>)>);

impl Repeated {
    fn start(run: &EditedRun) -> Repeated {
        let Some(again) = run.again.clone() else {
            return Repeated(None);
        };
        let When::Every(time) = again.when else {
            return Repeated(None);
        };
        let folder = run.program_folder().to_owned();
        let (ends, is_over) = channel();
        let works = std::thread::spawn(move || {
            while is_over.recv_timeout(time) == Err(RecvTimeoutError::Timeout) {
                again.act(&folder);
            }
        });
        Repeated(Some((ends, works)))
    }
}

impl Drop for Repeated {
    fn drop(&mut self) {
        if let Some((ends, works)) = self.0.take() {
            drop(ends);
            let _ = works.join();
        }
    }
}

/// Files of counters in a folder, the oldest first.
fn files_in(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = entries
        .filter(|path| counter_header::is_one(path))
        .collect();
    files.sort_by_key(|path| fs::metadata(path).and_then(|meta| meta.modified()).ok());
    Ok(files)
}

/// A name that no other run has.
fn name_of_run() -> String {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    format!("run.{}.{}", std::process::id(), since.as_nanos())
}

impl Drop for EditedRun {
    fn drop(&mut self) {
        // It is in the user's cache, where leftovers do no harm.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl EditedRun {
    /// Prepares a program; `always`: also if much of it would not be counted; `quiet`: no progress
    /// is shown. The error says why it is not edited.
    pub fn of(program: &Path, always: bool, quiet: bool) -> Result<EditedRun, String> {
        let progress = Progress::new(quiet);
        let cached = Cached::of(program, Inserted::EDGES, &progress)?;
        drop(progress);
        if !always {
            cached.judge(program)?;
        }
        EditedRun::from(cached, program)
    }

    /// Prepares a program with something inserted, and a dictionary. The error says why it is not edited.
    pub fn with(program: &Path, inserted: Inserted<'_>, quiet: bool) -> Result<EditedRun, String> {
        if edit_cache::is_script(program) {
            return Err("it is a script: name its interpreter, and the script behind it".into());
        }
        let progress = Progress::new(quiet);
        let cached = Cached::of(program, inserted, &progress)?;
        EditedRun::from(cached, program)
    }

    /// Prepares a program whose nests of loops are followed; it is not kept. The error says why it is not edited.
    pub fn following(program: &Path, choice: &Choice, quiet: bool) -> Result<EditedRun, String> {
        let progress = Progress::new(quiet);
        progress.says("editing the program");
        let folder = edit_cache::folder_of_the_user()?.join(name_of_run());
        let name = program.file_name().unwrap_or_default();
        let made = EditedRun::in_folder(folder.clone(), folder.join(name));
        let cannot = |error: std::io::Error| error.to_string();
        edit_cache::make_folder(&made.folder).map_err(cannot)?;
        let among = Among {
            beside: true,
            loops: Some(choice),
            ..Among::default()
        };
        let flags = edit_cache::flags(program, &made.program, Inserted::LOOPS);
        let (edited, _) =
            rewrite::edit(&flags, program, among).map_err(|error| format!("{error:#}"))?;
        fs::write(&made.program, &edited.bytes).map_err(cannot)?;
        fs::set_permissions(&made.program, fs::Permissions::from_mode(0o700)).map_err(cannot)?;
        Ok(made)
    }

    /// Prepares a program with those of its libraries that have choices.
    pub fn following_all(
        program: &Path,
        choices: &Choices,
        quiet: bool,
    ) -> Result<EditedRun, String> {
        let progress = Progress::new(quiet);
        progress.says("editing the program and its libraries");
        if edit_cache::has_own_libraries(program) {
            return Err("it looks for its libraries beside itself: leave --libs out".into());
        }
        let folder = edit_cache::folder_of_the_user()?.join(name_of_run());
        let name = program.file_name().unwrap_or_default();
        let flags = Rewrite {
            libs: true,
            ..edit_cache::flags(program, &folder, Inserted::LOOPS)
        };
        let new = Unfinished::beside(&folder);
        let fill = || {
            let kept = new.fill(&flags, true, Some(choices))?;
            new.finish(&folder)?;
            anyhow::Ok(kept)
        };
        let kept = fill().map_err(|error| format!("{error:#}"))?;
        let mut made = EditedRun::in_folder(folder.clone(), folder.join(PROGRAMS).join(name));
        made.kept = kept.into_iter().map(|(_, why)| why).collect();
        Ok(made)
    }

    /// One that is all in a folder of its own.
    fn in_folder(folder: PathBuf, program: PathBuf) -> EditedRun {
        EditedRun {
            program,
            edited: folder.clone(),
            folder,
            kept: Vec::new(),
            again: None,
        }
    }

    /// Why libraries were not edited.
    pub fn kept(&self) -> &[String] {
        &self.kept
    }

    /// The texts for readers in the edited program and its edited libraries.
    pub fn sections(&self) -> anyhow::Result<Vec<String>> {
        let libraries = fs::read_dir(self.edited.join(LIBRARIES)).into_iter();
        let mut paths = vec![self.program.clone()];
        paths.extend(libraries.flatten().flatten().map(|entry| entry.path()));
        let section = |path: &PathBuf| {
            let bytes = fs::read(path)?;
            let section = ::rewrite::plan_of(&bytes).unwrap_or_default();
            Ok(String::from_utf8_lossy(section).into_owned())
        };
        paths.iter().map(section).collect()
    }

    /// A folder for a run of an edited program.
    fn from(cached: Cached, program: &Path) -> Result<EditedRun, String> {
        let folder = cached.folder.join(name_of_run());
        let made = EditedRun {
            program: folder.join(program.file_name().unwrap_or_default()),
            folder,
            edited: cached.folder,
            kept: cached.kept,
            again: None,
        };
        let cannot = |error: std::io::Error| error.to_string();
        edit_cache::make_folder(&made.folder).map_err(cannot)?;
        fs::hard_link(&cached.program, &made.program).map_err(cannot)?;
        Ok(made)
    }

    /// The dictionary of such a program and its libraries.
    pub fn dictionary(&self) -> anyhow::Result<Vec<dictionary::File>> {
        dictionaries::read(&self.edited.join(dictionaries::ENDING))
    }

    /// Files that its processes have left, the oldest first.
    pub fn files(&self) -> std::io::Result<Vec<PathBuf>> {
        files_in(self.program_folder())
    }

    /// The folder that the program is in, and its files.
    fn program_folder(&self) -> &Path {
        self.program.parent().unwrap_or(&self.folder)
    }

    /// Does something with each file of the processes, each time.
    pub fn again(&mut self, when: When, with: impl Fn(&Path) + Send + Sync + 'static) {
        let with = Arc::new(with);
        self.again = Some(Again { when, with });
    }

    /// Runs it with the words of a command, of which the first is the name that it is called by.
    pub fn run(
        &self,
        words: &[std::ffi::OsString],
    ) -> std::io::Result<(Ended, SystemTime, Duration)> {
        let (started, start) = (SystemTime::now(), Instant::now());
        let mut command = Command::new(&self.program);
        command.arg0(&words[0]).args(&words[1..]);
        launch::restore_signals(&mut command);
        // Keys that end programs are for the program; requests to end are passed on.
        let asks = match &self.again {
            Some(again) => match again.when {
                When::Signal(number) => Some((number, again.clone())),
                When::Every(_) => None,
            },
            None => None,
        };
        let mut signals = Signals::new([SIGINT, SIGQUIT, SIGTERM, SIGHUP])?;
        if let Some((number, _)) = &asks {
            signals.add_signal(*number)?;
        }
        let folder = self.program_folder().to_owned();
        let handle = signals.handle();
        let mut child = command.spawn()?;
        let repeated = Repeated::start(self);
        let number = Pid::from_child(&child);
        // Signals to the process that the shell sees are the program's.
        let from_face = launch::pass_on(number);
        let passes_on = std::thread::spawn(move || {
            for signal in signals.forever() {
                if let Some((number, again)) = &asks
                    && *number == signal
                {
                    again.act(&folder);
                }
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
        drop((repeated, from_face));
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

    /// Calls of its processes by context; `meta` is that of the run.
    pub fn contexts(&self, meta: Meta) -> anyhow::Result<Recording> {
        counted_contexts::recording(&self.files()?, self.dictionary()?, meta)
    }

    /// Counts of its processes; `meta` is that of the run.
    pub fn recording(&self, meta: Meta) -> anyhow::Result<Recording> {
        let files = self.files()?;
        let Some((first, more)) = files.split_first() else {
            anyhow::bail!(
                "nothing was kept: it ended before it came to code with counters, or there was no room for \
                 them, or no right to write them"
            );
        };
        let program = self.program.file_name().unwrap_or_default();
        let program = program.to_string_lossy();
        let mut recording = counter_files::read_as(first, Some(&program))?;
        for other in more {
            sums::add(
                &mut recording,
                counter_files::read_as(other, Some(&program))?,
            );
        }
        let options = std::mem::take(&mut recording.meta.options);
        recording.meta = meta;
        recording.meta.options.extend(options);
        let kept = self.kept.iter();
        let kept = kept.map(|why| (report::counts::KEPT.into(), why.clone()));
        recording.meta.options.extend(kept);
        Ok(recording)
    }
}
