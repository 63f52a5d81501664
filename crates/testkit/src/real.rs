//! Real programs: one shell script per program in a directory.
//!
//! A script defines two functions. `setup` runs once, natively, and leaves
//! what the program needs in `$SHARED`; `run` is the case itself, and runs in
//! a fresh folder, natively and in every mode:
//!
//! ```text
//! # What the case shows.
//! # real: limit 400             seconds for one translated run (default 180)
//! # real: small-chaos REASON    the chaos run, and a native one, get SIZE=small
//! setup() { ...; }              optional; what it writes to $SHARED/notice is printed
//! run() { ...; }
//! ```
//!
//! `$PRODUCT` is Everypath, for the script that runs it itself.
//!
//! Problem: a translated program may hang or leave daemons behind, and these
//! are no longer in its process group, nor do they die with the product.
//! Approach: a case runs in a process of its own that adopts every orphan
//! below it, so what is left after a run is its children, and is killed.
//!
//! Invariant: a tool that is missing is a failure: nothing here can skip.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::mode::{self, Mode};
use crate::run::{self, Ending, Outcome};

/// Limit of the setup, which may fetch and compile.
const SETUP_LIMIT: Duration = Duration::from_secs(300);
/// Lines of standard error shown with a failure.
const SHOWN: usize = 20;

/// One script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Name of the script without extension.
    pub name: String,
    /// The script.
    pub script: PathBuf,
    /// Limit for one run.
    pub limit: Duration,
    /// Whether chaos runs get a smaller workload.
    pub small_chaos: bool,
}

/// Why a directory of cases cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    /// The directory or a script cannot be read.
    #[error("cannot read {path}: {error}")]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// The operating system's reason.
        error: std::io::Error,
    },
    /// A `# real:` line that says nothing known.
    #[error("{path}: `{text}` is no directive, or its value or reason is missing")]
    Directive {
        /// The script.
        path: PathBuf,
        /// The line.
        text: String,
    },
}

/// Everything one run of a script shows.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    outcome: Outcome,
    files: BTreeMap<PathBuf, String>,
    took: Duration,
}

/// The folders of one case; every run sees the same paths.
struct Folders {
    shared: PathBuf,
    work: PathBuf,
    out: PathBuf,
}

/// All cases of `directory`, those with the longest limit first, so that no long
/// one runs alone at the end. `EVERYPATH_ONLY=name` leaves one.
pub fn discover(directory: &Path) -> Result<Vec<Case>, CaseError> {
    let only = std::env::var("EVERYPATH_ONLY").ok();
    let read = |error| CaseError::Read {
        path: directory.to_owned(),
        error,
    };
    let mut cases = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(read)? {
        let path = entry.map_err(read)?.path();
        if path.extension().is_none_or(|extension| extension != "sh") {
            continue;
        }
        let case = load(&path)?;
        if only.as_ref().is_none_or(|name| *name == case.name) {
            cases.push(case);
        }
    }
    cases.sort_by(|a, b| b.limit.cmp(&a.limit).then_with(|| a.name.cmp(&b.name)));
    Ok(cases)
}

/// Reads the head of one script.
pub fn load(script: &Path) -> Result<Case, CaseError> {
    let text = std::fs::read_to_string(script).map_err(|error| CaseError::Read {
        path: script.to_owned(),
        error,
    })?;
    let name = script.file_stem().unwrap_or_default();
    let mut case = Case {
        name: name.to_string_lossy().into_owned(),
        script: script.to_owned(),
        limit: Duration::from_secs(180),
        small_chaos: false,
    };
    for line in text.lines() {
        let Some(directive) = line.strip_prefix("# real: ") else {
            continue;
        };
        let bad = || CaseError::Directive {
            path: script.to_owned(),
            text: line.to_owned(),
        };
        match directive.split_once(' ') {
            Some(("limit", seconds)) => {
                case.limit = Duration::from_secs(seconds.parse().map_err(|_| bad())?);
            }
            Some(("small-chaos", _reason)) => case.small_chaos = true,
            _ => return Err(bad()),
        }
    }
    Ok(case)
}

/// Runs `case` natively and in every one of `modes`, in folders below `base`.
/// Returns how long each run took, or what differed.
///
/// The calling process must be the case's own: it adopts and kills all
/// processes that a run leaves behind.
pub fn check(
    case: &Case,
    base: &Path,
    product: &Path,
    modes: &[Mode],
) -> Result<String, Vec<String>> {
    let folders = Folders {
        shared: base.join("shared"),
        work: base.join("work"),
        out: base.join("out.evp"),
    };
    let one = |text: String| vec![text];
    nix::sys::prctl::set_child_subreaper(true).map_err(|error| one(error.to_string()))?;
    setup(case, &folders).map_err(one)?;
    let mut sizes = BTreeMap::new();
    let mut times = Vec::new();
    let mut failures = Vec::new();
    for mode in modes {
        let size = if case.small_chaos && mode.arguments.contains(&"--chaos") {
            "small"
        } else {
            "full"
        };
        if !sizes.contains_key(size) {
            let native = native(case, &folders, size).map_err(one)?;
            times.push(format!("native {:.1}", native.took.as_secs_f64()));
            sizes.insert(size, native);
        }
        let mut command = mode::command(product, mode, &folders.out);
        command.args(["--", "bash"]);
        match observe(case, &folders, command, size) {
            Ok(seen) => {
                times.push(format!("{} {:.1}", mode.name, seen.took.as_secs_f64()));
                failures.extend(
                    difference(&seen, &sizes[size]).map(|text| format!("[{}] {text}", mode.name)),
                );
            }
            Err(text) => failures.push(format!("[{}] {text}", mode.name)),
        }
    }
    if failures.is_empty() {
        Ok(times.join(", "))
    } else {
        Err(failures)
    }
}

/// Runs the script's `setup`, in the shared folder.
fn setup(case: &Case, folders: &Folders) -> Result<(), String> {
    fresh(&folders.shared)?;
    let mut command = Command::new("bash");
    script(&mut command, case, "setup", folders, "full");
    command.current_dir(&folders.shared);
    let outcome = run::run(command, "", SETUP_LIMIT).map_err(|error| error.to_string())?;
    sweep();
    if outcome.ending == Ending::Exit(0) {
        // A case that this machine cannot run is reported, not silently left out.
        if let Ok(text) = std::fs::read_to_string(folders.shared.join("notice")) {
            println!("notice  {}: {}", case.name, text.trim_end());
        }
        return Ok(());
    }
    Err(format!(
        "setup ended {:?}\n{}",
        outcome.ending,
        tail(&outcome.stderr)
    ))
}

/// The native run, which must succeed and be the same when repeated.
fn native(case: &Case, folders: &Folders, size: &str) -> Result<Seen, String> {
    let seen = observe(case, folders, Command::new("bash"), size)?;
    if seen.outcome.ending != Ending::Exit(0) {
        return Err(format!(
            "natively it ended {:?}\n{}\n{}",
            seen.outcome.ending,
            tail(&seen.outcome.stdout),
            tail(&seen.outcome.stderr)
        ));
    }
    Ok(seen)
}

/// Runs the script's `run` under `command` in a fresh folder.
fn observe(
    case: &Case,
    folders: &Folders,
    mut command: Command,
    size: &str,
) -> Result<Seen, String> {
    fresh(&folders.work)?;
    script(&mut command, case, "run", folders, size);
    command.current_dir(&folders.work);
    let start = Instant::now();
    let outcome = run::run(command, "", case.limit).map_err(|error| error.to_string())?;
    let took = start.elapsed();
    sweep();
    let mut files = BTreeMap::new();
    digest(&folders.work, &folders.work, &mut files)?;
    // Modes without an output file leave none.
    let _ = std::fs::remove_file(&folders.out);
    Ok(Seen {
        outcome,
        files,
        took,
    })
}

/// Arguments and environment of bash for one function of the script.
fn script(command: &mut Command, case: &Case, function: &str, folders: &Folders, size: &str) {
    // Debian's own programs come before others of the same name.
    let mut path = OsString::from("/usr/sbin:/usr/bin:/sbin:/bin:");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let home = std::env::var_os("HOME").unwrap_or_default();
    for (variable, folder) in [("RUSTUP_HOME", ".rustup"), ("CARGO_HOME", ".cargo")] {
        if std::env::var_os(variable).is_none() {
            command.env(variable, Path::new(&home).join(folder));
        }
    }
    // A tool that is missing ends the script, even from within a pipe.
    let text = "set -eu; setup() { :; }; source \"$1\"\n\
        command_not_found_handle() { echo \"$1: no such command\" >&2; kill -TERM $$; }\n\
        \"$2\"";
    command
        .args(["-c", text, "real"])
        .arg(&case.script)
        .arg(function)
        .env("PATH", path)
        .env("HOME", &folders.shared)
        .env("SHARED", &folders.shared)
        .env("SIZE", size)
        .env("REAL", case.script.parent().unwrap_or(Path::new(".")))
        .env("LC_ALL", "C.UTF-8")
        .env("TZ", "UTC");
    // For the script that runs it itself.
    if let Ok(product) = crate::mode::product(&crate::program::repository()) {
        command.env("PRODUCT", product);
    }
    for variable in [
        "CARGO_TARGET_DIR",
        "RUSTFLAGS",
        "EVERYPATH_ONLY",
        "BASH_ENV",
        "GIT_DIR",
    ] {
        command.env_remove(variable);
    }
}

/// An empty folder.
fn fresh(folder: &Path) -> Result<(), String> {
    let said = |error| format!("cannot make {}: {error}", folder.display());
    if folder.exists() {
        unlock(folder);
        std::fs::remove_dir_all(folder).map_err(said)?;
    }
    std::fs::create_dir_all(folder).map_err(said)
}

/// Makes every folder writable again, so that it can be removed.
fn unlock(folder: &Path) {
    let Ok(metadata) = std::fs::symlink_metadata(folder) else {
        return;
    };
    if !metadata.is_dir() {
        return;
    }
    let mut permissions = metadata.permissions();
    permissions.set_mode(0o700);
    // The removal reports files that stay locked.
    let _ = std::fs::set_permissions(folder, permissions);
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        unlock(&entry.path());
    }
}

/// Path, kind, permissions and contents of everything below `folder`.
fn digest(root: &Path, folder: &Path, files: &mut BTreeMap<PathBuf, String>) -> Result<(), String> {
    let said = |path: &Path, error| format!("cannot read {}: {error}", path.display());
    for entry in std::fs::read_dir(folder).map_err(|error| said(folder, error))? {
        let path = entry.map_err(|error| said(folder, error))?.path();
        let metadata = path
            .symlink_metadata()
            .map_err(|error| said(&path, error))?;
        let mut text = format!("mode {:o}", metadata.mode());
        if metadata.is_symlink() {
            let target = path.read_link().map_err(|error| said(&path, error))?;
            text = format!("link to {}", target.display());
        } else if metadata.is_file() {
            let bytes = std::fs::read(&path).map_err(|error| said(&path, error))?;
            let mut hasher = DefaultHasher::new();
            bytes.hash(&mut hasher);
            text += &format!(", {} bytes, hash {:016x}", bytes.len(), hasher.finish());
        }
        let name = path.strip_prefix(root).unwrap_or(&path).to_owned();
        files.insert(name, text);
        if metadata.is_dir() {
            digest(root, &path, files)?;
        }
    }
    Ok(())
}

/// Differences, with the end of standard error; `None` if there are none.
/// Standard error itself is not compared: real programs write times there.
fn difference(seen: &Seen, native: &Seen) -> Option<String> {
    let mut outcome = seen.outcome.clone();
    outcome.stderr.clone_from(&native.outcome.stderr);
    let mut parts: Vec<String> = outcome.difference(&native.outcome).into_iter().collect();
    let names = seen.files.keys().chain(
        native
            .files
            .keys()
            .filter(|name| !seen.files.contains_key(*name)),
    );
    for name in names {
        let (ours, theirs) = (seen.files.get(name), native.files.get(name));
        if ours != theirs {
            let show = |text: Option<&String>| text.map_or("absent".to_owned(), String::clone);
            parts.push(format!(
                "{}: {}, natively {}",
                name.display(),
                show(ours),
                show(theirs)
            ));
        }
    }
    if parts.is_empty() {
        return None;
    }
    let end = tail(&seen.outcome.stderr);
    if !end.is_empty() {
        parts.push(format!("end of stderr:\n{end}"));
    }
    Some(parts.join("\n"))
}

fn tail(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(SHOWN)..].join("\n")
}

/// Kills every process below this one, until there is none.
fn sweep() {
    loop {
        for pid in descendants(Pid::this()) {
            // It may have ended meanwhile.
            let _ = kill(pid, Signal::SIGKILL);
        }
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Err(_) => return,
            Ok(WaitStatus::StillAlive) => std::thread::sleep(Duration::from_millis(2)),
            Ok(_) => {}
        }
    }
}

/// All processes below `ancestor`, by what `/proc` says of parents.
fn descendants(ancestor: Pid) -> Vec<Pid> {
    let parents: Vec<(Pid, Pid)> = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| parent(&entry.path()))
        .collect();
    let mut found = vec![ancestor];
    let mut next = 0;
    while next < found.len() {
        let above = found[next];
        found.extend(
            parents
                .iter()
                .filter(|&&(_, parent)| parent == above)
                .map(|&(pid, _)| pid),
        );
        next += 1;
    }
    found.split_off(1)
}

/// The process of a folder of `/proc`, and its parent.
fn parent(folder: &Path) -> Option<(Pid, Pid)> {
    let pid = folder.file_name()?.to_str()?.parse().ok()?;
    let stat = std::fs::read_to_string(folder.join("stat")).ok()?;
    // The name, in parentheses, may hold anything.
    let parent = stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()?;
    Some((Pid::from_raw(pid), Pid::from_raw(parent)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> Result<Case, CaseError> {
        static TURN: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let turn = TURN.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = format!("everypath-real-{}-{turn}.sh", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).expect("a temporary file can be written");
        let case = load(&path);
        std::fs::remove_file(&path).expect("it was just written");
        case
    }

    #[test]
    fn reads_the_directives() {
        let case = head("# Shows x.\n# real: limit 90\n# real: small-chaos it is slow\n");
        let case = case.expect("well formed");
        assert_eq!(case.limit, Duration::from_secs(90));
        assert!(case.small_chaos);
    }

    #[test]
    fn refuses_what_it_does_not_know_and_a_missing_reason() {
        for text in [
            "# real: limits 90\n",
            "# real: limit x\n",
            "# real: small-chaos\n",
        ] {
            assert!(
                matches!(head(text), Err(CaseError::Directive { .. })),
                "{text}"
            );
        }
    }

    #[test]
    fn finds_grandchildren() {
        let mut child = Command::new("sh")
            .args(["-c", "sleep 60 & echo $!; wait"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("sh is there");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("it is piped");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line)
            .expect("it prints a line");
        let grandchild = Pid::from_raw(line.trim().parse().expect("a process id"));
        let found = descendants(Pid::from_raw(child.id().cast_signed()));
        kill(grandchild, Signal::SIGKILL).expect("it sleeps");
        child.wait().expect("it ends after its child");
        assert_eq!(found, [grandchild]);
    }
}
