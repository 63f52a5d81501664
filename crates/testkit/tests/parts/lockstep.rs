//! Windows of translated code against native runs of the same code
//! (`--lockstep`): target programs and real ones, without a divergence; and a
//! mistranslation made on purpose, which must be one.
//!
//! Statistics say how much was compared, and must be above a floor, so that
//! nothing passes because nothing was looked at.
//! `EVERYPATH_ONLY=name` looks at one program, also of those that are left out.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use testkit::build::{self, Built};
use testkit::jobs::{self, Done};
use testkit::program::{self, Program, missing_feature};
use testkit::run::{self, Ending, Outcome};
use testkit::scope::{LOCKSTEP, Scope};
use testkit::{mode, suite};

const LIMIT: Duration = Duration::from_secs(300);

/// Target programs whose code is looked at, by the beginning of their names.
const PROGRAMS: &[&str] = &[
    "insn_", "flow_", "code_", "signal_", "deep_", "vdso_", "stack_",
];

/// Programs that are left out, and why.
const LEFT_OUT: &[(&str, &str)] = &[
    (
        "insn_rdtsc_forbidden",
        "statistics read the counter that it forbids",
    ),
    (
        "signal_restart_sleep",
        "windows take longer than the sleep that it interrupts",
    ),
    (
        "signal_during_lookups",
        "it is about signals, and makes a million calls",
    ),
];

const SQL: &str = "sqlite3 :memory: 'create table t(a, b); insert into t values (1, 2), (3, 4); select sum(a * 1.5), avg(b) from t'";
const AWK: &str = "awk 'BEGIN { for (i = 0; i < 1000; i++) s += sqrt(i); printf \"%.6f\\n\", s }'";

/// Real programs: name, options, shell command.
#[rustfmt::skip]
const REAL: &[(&str, &[&str], &str)] = &[
    ("python3",  &["run", "--lockstep", "1000"], "python3 -c 'import json, math; print(json.dumps([math.sin(x) for x in range(20)]))'"),
    ("gcc",      &["run", "--lockstep", "1000"], "echo 'double f(int n) { double s = 0; while (n--) s += n * 1.5; return s; }' | gcc -O2 -S -x c - -o -"),
    ("openssl",  &["run", "--lockstep", "100"], "echo text | openssl dgst -sha256; echo text | openssl enc -aes-128-cbc -K 00 -iv 00 2>/dev/null | od -x"),
    ("bash",     &["run", "--lockstep", "100"], "for i in 1 2 3; do x=$((x + i)); echo $x | sed s/1/2/; done"),
    ("perl",     &["run", "--lockstep", "100"], "perl -e 'my %h; $h{$_} = $_ * 1.5 for 1..200; print join \",\", sort values %h'"),
    ("xz",       &["run", "--lockstep", "100"], "seq 20000 | xz -9 | xz -d | sha256sum"),
    ("bzip2",    &["run", "--lockstep", "100"], "seq 20000 | bzip2 | bzip2 -d | sha256sum"),
    ("awk",      &["run", "--lockstep", "50"], AWK),
    ("sqlite3",  &["run", "--lockstep", "100"], SQL),
    ("sqlite3, chaos", &["run", "--chaos", "3", "--lockstep", "300"], SQL),
    ("sqlite3, counted", &["run", "--count-instructions", "--lockstep", "100"], SQL),
    ("sqlite3, contexts", &["contexts", "--top", "0", "--lockstep", "400"], SQL),
    ("awk, contexts", &["contexts", "--top", "0", "--lockstep", "200"], AWK),
];

/// Sums of the statistics of all processes of a run.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    windows: u64,
    compared: u64,
    resumed: u64,
    recovered: u64,
    divergences: u64,
}

impl Figures {
    /// Whether so much was compared as there is in every real program.
    fn are_enough(&self) -> bool {
        self.windows >= 10 && self.compared >= 5_000 && self.resumed >= 20 && self.recovered >= 50
    }

    fn add(&mut self, other: Figures) {
        self.windows += other.windows;
        self.compared += other.compared;
        self.resumed += other.resumed;
        self.recovered += other.recovered;
        self.divergences += other.divergences;
    }

    fn read(report: &str) -> Figures {
        let sum = |name: &str| -> u64 {
            let lines = report
                .lines()
                .filter_map(|line| line.trim().strip_suffix(name));
            let numbers =
                lines.filter_map(|number| number.trim().replace(',', "").parse::<u64>().ok());
            numbers.sum()
        };
        Figures {
            windows: sum("lockstep windows"),
            compared: sum("lockstep boundaries compared"),
            resumed: sum("lockstep resumptions of recovered state"),
            recovered: sum("lockstep recoveries from within an instruction"),
            divergences: sum("lockstep divergences"),
        }
    }
}

/// The run must be as the native one, which a divergence is not.
fn judged(figures: Figures, outcome: &Outcome, native: &Outcome) -> Result<Figures, String> {
    match outcome.difference(native) {
        None => Ok(figures),
        Some(text) => Err(text),
    }
}

struct Bench {
    product: PathBuf,
    cache: PathBuf,
}

impl Bench {
    /// Figures and outcome of `everypath OPTIONS -- COMMAND`.
    fn run(
        &self,
        name: &str,
        options: &[&str],
        command: &[String],
        at: &Path,
        stdin: &str,
    ) -> (Figures, Outcome) {
        let report = self
            .cache
            .join(format!("lockstep-{name}-{}", std::process::id()));
        let mut product = Command::new(&self.product);
        product
            .args(options)
            .args(["--engine-stats", "--quiet", "--report"])
            .arg(&report);
        product.arg("--").args(command).current_dir(at);
        let outcome = run::run(product, stdin, LIMIT).expect("the product can be started");
        let text = std::fs::read_to_string(&report).unwrap_or_default();
        // Absent if the run failed.
        let _ = std::fs::remove_file(&report);
        (Figures::read(&text), outcome)
    }

    fn target_program(&self, program: &Program) -> Result<Figures, String> {
        let built = build::build(program, &self.cache).map_err(|error| error.to_string())?;
        let native = suite::native(program, &built)?;
        let Built {
            directory,
            executable,
        } = &built;
        let mut command = vec![executable.display().to_string()];
        command.extend(program.directives.args.iter().cloned());
        let stdin = &program.directives.stdin;
        let options = ["run", "--lockstep", "100"];
        let (figures, outcome) = self.run(&program.name, &options, &command, directory, stdin);
        judged(figures, &outcome, &native)
    }

    fn real_program(&self, name: &str, options: &[&str], script: &str) -> Result<Figures, String> {
        let command = ["bash", "-c", script].map(str::to_owned);
        let mut native = Command::new(&command[0]);
        native.args(&command[1..]).current_dir(&self.cache);
        let native = run::run(native, "", LIMIT).expect("bash can be started");
        let (figures, outcome) = self.run(name, options, &command, &self.cache, "");
        judged(figures, &outcome, &native)
    }

    /// A mistranslated call must be seen, in both modes. Windows are ten times
    /// as dense as in other runs: with contexts a quarter of them sees one of
    /// these calls, and on another machine they begin at other entries.
    fn fault(&self, mode: &str) -> Result<Figures, String> {
        let options = [mode, "--lockstep", "10", "--lockstep-fault"];
        let command = ["true".to_owned()];
        let (figures, outcome) = self.run(mode, &options, &command, &self.cache, "");
        let said = String::from_utf8_lossy(&outcome.stderr);
        let right = outcome.ending == Ending::Exit(125)
            && figures.divergences > 0
            && said.contains("everypath: divergence by the instruction at")
            && said.contains("everypath:   flags: native");
        match right {
            true => Ok(figures),
            false => Err(format!(
                "not seen: {:?}, {figures:?}\n{said}",
                outcome.ending
            )),
        }
    }
}

/// One run that is looked at.
enum Job<'a> {
    Target(&'a Program),
    Real(&'a str, &'a [&'a str], &'a str),
    Fault(&'a str),
}

impl<'a> Job<'a> {
    fn name(&self) -> &'a str {
        match self {
            Job::Target(program) => &program.name,
            Job::Real(name, ..) => name,
            Job::Fault(mode) => mode,
        }
    }
}

pub fn run() -> Result<(), String> {
    let repository = program::repository();
    let bench = Bench {
        product: mode::product(&repository).map_err(|error| error.to_string())?,
        cache: build::cache_directory(),
    };
    std::fs::create_dir_all(&bench.cache).map_err(|error| error.to_string())?;
    let programs = program::discover(&repository.join("tests/programs"));
    let programs = programs.map_err(|error| error.to_string())?;
    let only = std::env::var("EVERYPATH_ONLY").ok();
    let usual = |name: &str| {
        PROGRAMS.iter().any(|start| name.starts_with(start))
            && LEFT_OUT.iter().all(|&(other, _)| other != name)
    };
    let wanted = |program: &&Program| {
        (only.is_some() || usual(&program.name))
            && missing_feature(&program.directives.needs).is_none()
    };
    let mut jobs: Vec<Job> = REAL
        .iter()
        .map(|&(name, options, script)| Job::Real(name, options, script))
        .collect();
    jobs.extend(["run", "contexts"].map(Job::Fault));
    jobs.extend(programs.iter().filter(wanted).map(Job::Target));
    jobs.retain(|job| only.as_ref().is_none_or(|only| job.name() == only));
    let (jobs, left) = Scope::current().choose(jobs, &LOCKSTEP, |job| job.name());
    let sum = Mutex::new(Figures::default());
    let name = |job: &Job| job.name().to_owned();
    let result = jobs::run(&jobs, "programs in lockstep", left, name, |job| {
        let figures = match job {
            Job::Target(program) => bench.target_program(program)?,
            Job::Real(name, options, script) => bench.real_program(name, options, script)?,
            Job::Fault(mode) => bench.fault(mode)?,
        };
        if matches!(job, Job::Real(..)) && !figures.are_enough() {
            return Err(format!("too little was compared: {figures:?}"));
        }
        sum.lock()
            .expect("no job panics while it adds")
            .add(figures);
        Ok(Done::Compared(1, format!(" {figures:?}")))
    });
    let sum = sum.into_inner().expect("the jobs have ended");
    println!("lockstep: {sum:?}");
    result
}
