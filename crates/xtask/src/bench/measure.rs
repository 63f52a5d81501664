//! Running one program once, under one mode, and saying what it took.

use std::ffi::OsString;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

use super::kept::{self, Kept};
use super::workload::Workload;
use crate::tree::Tree;

/// How a workload is started. The native run is not listed: every round begins with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// `everypath run`: translate only.
    Run,
    /// `everypath contexts` with its defaults, the report written to a file.
    Contexts,
    /// `everypath contexts --cost calls`, the report written to a file.
    Calls,
    /// `everypath contexts --mode intra -k 3`, the report written to a file.
    Intra,
    /// `everypath contexts --mode intra --roll-loops`, the report written to a file.
    Rolled,
    /// `everypath contexts --mode inter -k 3`, the report written to a file.
    Inter,
    /// `everypath run --count-instructions`.
    Instructions,
    /// `everypath count`, the report written to a file.
    Count,
    /// `everypath trace`, compression and names included.
    Trace,
    /// `everypath trace --memory addresses`, to a file in memory.
    Addresses,
    /// `everypath trace --memory values`, to a file in memory.
    Values,
    /// `everypath rewrite --libs --tool null` before, `everypath exec` in the run.
    Null,
    /// `everypath rewrite --tool edges` of the program alone before, and the edited program in the run.
    Edges,
    /// `everypath rewrite --libs --tool edges` before, `everypath exec` in the run.
    Libraries,
    /// `everypath rewrite --tool blocks` of the program alone before, and the edited program in the run.
    Blocks,
    /// `everypath rewrite --tool coverage` of the program alone before, and the edited program in the run.
    Coverage,
    /// Does the same with `--branches`.
    Branches,
    /// `valgrind --tool=none`.
    Valgrind,
    /// `valgrind --tool=callgrind`.
    Callgrind,
}

#[rustfmt::skip]
const INTRA: &[&str] = &["@", "contexts", "--mode", "intra", "-k", "3", "--quiet", "--report", "report.out", "--"];
#[rustfmt::skip]
const ROLLED: &[&str] = &["@", "contexts", "--mode", "intra", "--roll-loops", "--quiet", "--report", "report.out", "--"];
#[rustfmt::skip]
const INTER: &[&str] = &["@", "contexts", "--mode", "inter", "-k", "3", "--quiet", "--report", "report.out", "--"];

#[rustfmt::skip]
const ADDRESSES: &[&str] = &["@", "trace", "--memory", "addresses", "--quiet", "--output", "/dev/shm/everypath-bench.evp", "--"];

#[rustfmt::skip]
const VALUES: &[&str] = &["@", "trace", "--memory", "values", "--quiet", "--output", "/dev/shm/everypath-bench.evp", "--"];

/// Folder of a workload's edited program, in its folder.
const EDITED: &str = "edited";
const COUNTED: &str = "libraries";

/// File name of a workload's trace, in its folder.
const TRACE: &str = "trace.evp";

impl Mode {
    pub fn name(self) -> &'static str {
        match self {
            Mode::Run => "run",
            Mode::Contexts => "contexts",
            Mode::Calls => "calls",
            Mode::Intra => "intra",
            Mode::Rolled => "rolled",
            Mode::Inter => "inter",
            Mode::Instructions => "instructions",
            Mode::Count => "count",
            Mode::Trace => "trace",
            Mode::Addresses => "addresses",
            Mode::Values => "values",
            Mode::Null => "null",
            Mode::Edges => "edges",
            Mode::Libraries => "libraries",
            Mode::Blocks => "blocks",
            Mode::Coverage => "coverage",
            Mode::Branches => "branches",
            Mode::Valgrind => "valgrind",
            Mode::Callgrind => "callgrind",
        }
    }

    /// The editor's tool, if the mode counts by it.
    fn counts(self) -> Option<&'static str> {
        match self {
            Mode::Edges | Mode::Blocks | Mode::Coverage | Mode::Branches => Some(self.name()),
            _ => None,
        }
    }

    /// Words before the program; `@` stands for the measured binary.
    fn prefix(self) -> &'static [&'static str] {
        match self {
            Mode::Run => &["@", "run", "--quiet", "--"],
            Mode::Contexts => &["@", "contexts", "--quiet", "--report", "report.out", "--"],
            Mode::Calls => &[
                "@",
                "contexts",
                "--cost",
                "calls",
                "--quiet",
                "--report",
                "report.out",
                "--",
            ],
            Mode::Intra => INTRA,
            Mode::Rolled => ROLLED,
            Mode::Inter => INTER,
            Mode::Count => &["@", "count", "--quiet", "--report", "report.out", "--"],
            Mode::Trace => &["@", "trace", "--quiet", "--output", TRACE, "--"],
            Mode::Addresses => ADDRESSES,
            Mode::Values => VALUES,
            Mode::Instructions => &[
                "@",
                "run",
                "--count-instructions",
                "--report",
                "report.out",
                "--",
            ],
            Mode::Null => &["@", "exec", EDITED],
            Mode::Libraries => &["@", "exec", COUNTED],
            // Their program is another one.
            Mode::Edges | Mode::Blocks | Mode::Coverage | Mode::Branches => &[],
            Mode::Valgrind => &["valgrind", "-q", "--tool=none", "--trace-children=yes"],
            Mode::Callgrind => &[
                "valgrind",
                "-q",
                "--tool=callgrind",
                "--trace-children=yes",
                "--callgrind-out-file=callgrind.out",
            ],
        }
    }
}

/// One run.
#[derive(Clone, Debug)]
pub struct Sample {
    pub wall: Duration,
    /// User and system time of the program and everything it started.
    pub cpu: Duration,
    /// Why the run does not count.
    pub failure: Option<String>,
}

/// Starts programs in folders of their own below the build directory.
pub struct Runner {
    everypath: PathBuf,
    work: PathBuf,
    programs: PathBuf,
    timeout: Duration,
}

impl Runner {
    pub fn new(tree: &Tree, everypath: Option<&Path>, timeout_s: u64) -> Result<Runner> {
        let target = target_directory(tree);
        Ok(Runner {
            everypath: self::everypath(tree, &target, everypath)?,
            work: target.join("bench"),
            programs: tree.root.join("benches/programs"),
            timeout: Duration::from_secs(timeout_s),
        })
    }

    /// Makes the workload's input, unless the same setup was done before.
    pub fn set_up(&self, workload: &Workload) -> Result<()> {
        let folder = self.work.join(&workload.name);
        let shared = self.work.join("shared");
        let stamp = folder.join("setup.done");
        let wanted = format!(
            "{}\n{:016x}\n",
            workload.setup.join("\n"),
            self.fingerprint()?
        );
        if fs::read_to_string(&stamp).is_ok_and(|done| done == wanted) {
            return Ok(());
        }
        fs::create_dir_all(&folder)?;
        fs::create_dir_all(&shared)?;
        for line in &workload.setup {
            let mut shell = self.command("sh", &folder);
            shell
                .args(["-e", "-c", line])
                .env("PROGRAMS", &self.programs)
                .env("SHARED", &shared);
            let status = shell
                .stdout(Stdio::null())
                .status()
                .context("cannot run sh")?;
            if !status.success() {
                bail!("setup of {} failed: {line}", workload.name);
            }
        }
        fs::write(stamp, wanted)?;
        Ok(())
    }

    /// Edits the program of a workload: for `null` with its libraries.
    pub fn edit(&self, workload: &Workload, mode: Mode) -> Result<()> {
        let folder = self.work.join(&workload.name);
        let words = match mode {
            Mode::Branches => "coverage --branches",
            mode => mode.name(),
        };
        let (made, tool) = match mode {
            Mode::Libraries => (COUNTED, "edges"),
            _ => (EDITED, "null"),
        };
        let line = match mode.counts() {
            None => {
                format!("\"$0\" rewrite --libs \"$(which -- \"$1\")\" -o {made} --tool {tool}")
            }
            Some(tool) => format!(
                "mkdir -p {tool} && \"$0\" rewrite \"$(realpath -- \"$(which -- \"$1\")\")\" -o \
                 \"{tool}/$(basename -- \"$1\")\" --tool {words}"
            ),
        };
        let mut shell = self.command("sh", &folder);
        shell.args(["-c", &line]).arg(&self.everypath);
        let status = shell.arg(&workload.command[0]).status();
        match status.context("cannot run sh")?.success() {
            true => Ok(()),
            false => bail!("{} cannot be edited", workload.command[0]),
        }
    }

    /// Changes whenever a file of benches/programs does.
    fn fingerprint(&self) -> Result<u64> {
        let mut paths = fs::read_dir(&self.programs)?
            .map(|entry| Ok(entry?.path()))
            .collect::<Result<Vec<PathBuf>>>()?;
        paths.sort();
        let mut hasher = DefaultHasher::new();
        for path in paths {
            fs::read(path)?.hash(&mut hasher);
        }
        Ok(hasher.finish())
    }

    /// Runs natively, then under each of `modes`.
    pub fn round(&self, workload: &Workload, modes: &[Mode]) -> Result<Vec<Sample>> {
        let native = self.sample(workload, None)?;
        if let Some(failure) = native.failure {
            bail!("the native run of {} failed: {failure}", workload.name);
        }
        let mut samples = vec![native];
        for mode in modes {
            samples.push(self.sample(workload, Some(*mode))?);
        }
        Ok(samples)
    }

    /// Cache exits per million instructions, from the statistics of one run.
    pub fn cache_exits(&self, workload: &Workload) -> Result<Option<f64>> {
        let folder = self.work.join(&workload.name);
        let flags = [
            "run",
            "--count-instructions",
            "--engine-stats",
            "--format",
            "json",
        ];
        let mut command = self.command(&self.everypath, &folder);
        command.args(flags).args(["--report", "stats.json", "--"]);
        command
            .args(&workload.command)
            .stdin(stdin(workload, &folder)?);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let status = self.wait(command.spawn()?)?;
        if !status.is_some_and(|status| status.success()) {
            return Ok(None);
        }
        Ok(exits_per_million(&fs::read(folder.join("stats.json"))?))
    }

    /// The trace of the last round.
    pub fn kept(&self, workload: &Workload) -> Result<Kept> {
        kept::look(&self.everypath, &self.work.join(&workload.name).join(TRACE))
    }

    fn sample(&self, workload: &Workload, mode: Option<Mode>) -> Result<Sample> {
        let folder = self.work.join(&workload.name);
        let name = mode.map_or("native", Mode::name);
        let output = folder.join(format!("stdout.{name}"));
        let prefix: Vec<OsString> = mode
            .map_or(&[][..], Mode::prefix)
            .iter()
            .map(|word| match *word {
                "@" => self.everypath.clone().into_os_string(),
                word => word.into(),
            })
            .collect();
        let edited = mode.and_then(Mode::counts).map(|tool| {
            let program = Path::new(&workload.command[0]).file_name();
            folder
                .join(tool)
                .join(program.unwrap_or_default())
                .into_os_string()
        });
        // The folder of an edited program names it.
        let is_folder = matches!(mode, Some(Mode::Null | Mode::Libraries));
        let is_named = usize::from(is_folder || edited.is_some());
        let words: Vec<OsString> = prefix
            .into_iter()
            .chain(edited)
            .chain(workload.command.iter().map(Into::into).skip(is_named))
            .collect();
        let cpu = children_cpu();
        let start = Instant::now();
        let mut failure = None;
        for _ in 0..workload.repeat {
            let mut command = self.command(&words[0], &folder);
            command.args(&words[1..]).stdin(stdin(workload, &folder)?);
            command.stdout(File::create(&output)?);
            command.stderr(File::create(folder.join(format!("stderr.{name}")))?);
            let child = command
                .spawn()
                .with_context(|| format!("cannot run {:?}", words[0]))?;
            failure = match self.wait(child)? {
                None => Some(format!("stopped after {} s", self.timeout.as_secs())),
                Some(status) if !status.success() => Some(status.to_string()),
                Some(_) => failure,
            };
        }
        let wall = start.elapsed();
        if mode == Some(Mode::Libraries) || mode.and_then(Mode::counts).is_some() {
            remove_counters(&folder)?;
        }
        if failure.is_none() && !same_bytes(&output, &folder.join("stdout.native"))? {
            failure = Some("standard output differs from the native run".into());
        }
        Ok(Sample {
            wall,
            cpu: children_cpu().saturating_sub(cpu),
            failure,
        })
    }

    /// A command with the same small environment for everyone.
    fn command(&self, program: impl AsRef<std::ffi::OsStr>, folder: &Path) -> Command {
        use std::os::unix::process::CommandExt;
        let mut command = Command::new(program);
        command.env_clear().current_dir(folder).process_group(0);
        command.envs([
            ("PATH", "/usr/bin:/bin:/usr/sbin:/sbin:/usr/local/bin"),
            ("LC_ALL", "C"),
            ("HOME", "/nonexistent"),
            ("PYTHONHASHSEED", "0"),
            ("PYTHONDONTWRITEBYTECODE", "1"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_PAGER", "cat"),
        ]);
        command
    }

    /// Waits for `child`; stops its process group and answers `None` on time-out.
    fn wait(&self, mut child: Child) -> Result<Option<ExitStatus>> {
        let start = Instant::now();
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(Some(status));
            }
            let elapsed = start.elapsed();
            if elapsed > self.timeout {
                let group = format!("-{}", child.id());
                Command::new("kill").args(["-9", "--", &group]).status()?;
                child.wait()?;
                return Ok(None);
            }
            // The pause stays below a five-hundredth of what is measured.
            let pause = (elapsed / 500).clamp(Duration::from_micros(100), Duration::from_millis(3));
            std::thread::sleep(pause);
        }
    }
}

/// Directory of cargo's builds.
pub fn target_directory(tree: &Tree) -> PathBuf {
    let directory = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    tree.root.join(directory)
}

/// The program to measure: the one given, or a release build made now.
pub fn everypath(tree: &Tree, target: &Path, given: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = given {
        return fs::canonicalize(path).with_context(|| path.display().to_string());
    }

    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--release", "--package", "cli"])
        .current_dir(&tree.root)
        .status()
        .context("cannot run cargo")?;
    if !status.success() {
        bail!("cargo build --release --package cli failed");
    }
    Ok(target.join("release/everypath"))
}

/// Removes the files that an edited program wrote its counters to.
fn remove_counters(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "evp") {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

fn stdin(workload: &Workload, folder: &Path) -> Result<Stdio> {
    Ok(match &workload.stdin {
        None => Stdio::null(),
        Some(name) => {
            let file = File::open(folder.join(name));
            file.with_context(|| format!("the setup of {} makes no {name}", workload.name))?
                .into()
        }
    })
}

fn same_bytes(a: &Path, b: &Path) -> Result<bool> {
    Ok(fs::metadata(a)?.len() == fs::metadata(b)?.len() && fs::read(a)? == fs::read(b)?)
}

/// Processor time of all children waited for (proc(5), stat: cutime and cstime, in ticks).
fn children_cpu() -> Duration {
    /// `getconf CLK_TCK` on every Linux of this architecture.
    const TICKS_PER_S: u64 = 100;
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = text.rsplit(')').next().unwrap_or_default();
    let fields: Vec<u64> = after_name
        .split_whitespace()
        .map(|word| word.parse().unwrap_or(0))
        .collect();
    // Field 3 (state) is the first after the name, so 16 and 17 are at 13 and 14.
    let ticks = fields.get(13).unwrap_or(&0) + fields.get(14).unwrap_or(&0);
    Duration::from_millis(ticks * 1000 / TICKS_PER_S)
}

/// Sums `cache exits …` over all processes and divides by their instructions.
fn exits_per_million(json: &[u8]) -> Option<f64> {
    let report: serde_json::Value = serde_json::from_slice(json).ok()?;
    let (mut exits, mut instructions) = (0, 0);
    for process in report["processes"].as_array()? {
        for (name, value) in process["engine"].as_object()? {
            if name.starts_with("cache exits") {
                exits += value.as_u64()?;
            }
        }
        for thread in process["threads"].as_array()? {
            instructions += thread["instructions"].as_u64()?;
        }
    }
    (instructions > 0).then(|| exits as f64 * 1e6 / instructions as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exits_are_summed_over_processes() {
        let json = br#"{"processes": [
            {"engine": {"cache exits, direct": 3, "links made": 9}, "threads": [{"instructions": 500000}]},
            {"engine": {"cache exits, event": 1}, "threads": [{"instructions": 1500000}]}]}"#;
        assert_eq!(exits_per_million(json), Some(2.0));
    }
}
