//! Windows of translated code against native runs of the same code
//! (`--lockstep`): target programs and real ones, without a divergence; and a
//! mistranslation made on purpose, which must be one.
//!
//! Statistics say how much was compared, and must be above a floor, so that
//! nothing passes because nothing was looked at. A program that ends otherwise
//! than natively may be looked at again (`testkit::again`): signals come when
//! they come, and windows make a program slow. A divergence never is.
//! `EVERYPATH_ONLY=name` looks at one program, also of those that are left out.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use testkit::again::Again;
use testkit::build::{self, Built};
use testkit::program::{self, Program, missing_feature};
use testkit::run::{self, Ending, Outcome};
use testkit::{mode, pool, suite};

const WORKERS: usize = 2;
const LIMIT: Duration = Duration::from_secs(300);

/// Target programs whose code is looked at, by the beginning of their names.
const PROGRAMS: &[&str] = &[
    "insn_", "flow_", "code_", "signal_", "deep_", "vdso_", "stack_",
];

/// What of them is left out, and why.
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

/// What the statistics of all processes of a run sum up to.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    windows: u64,
    compared: u64,
    resumed: u64,
    recovered: u64,
    divergences: u64,
}

impl Figures {
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

/// What was compared, or why it does not count. The outer error may be chance.
type Looked = Result<Result<Figures, String>, String>;

fn judged(figures: Figures, outcome: &Outcome, native: &Outcome) -> Looked {
    match outcome.difference(native) {
        None => Ok(Ok(figures)),
        Some(text) if figures.divergences > 0 => Ok(Err(text)),
        Some(text) => Err(text),
    }
}

struct Bench {
    product: PathBuf,
    cache: PathBuf,
}

impl Bench {
    /// What `everypath OPTIONS -- COMMAND` compared, and how it ended.
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

    fn target_program(&self, program: &Program) -> Looked {
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

    fn real_program(&self, name: &str, options: &[&str], script: &str) -> Looked {
        let command = ["bash", "-c", script].map(str::to_owned);
        let mut native = Command::new(&command[0]);
        native.args(&command[1..]).current_dir(&self.cache);
        let native = run::run(native, "", LIMIT).expect("bash can be started");
        let (figures, outcome) = self.run(name, options, &command, &self.cache, "");
        judged(figures, &outcome, &native)
    }

    /// A mistranslated call must be seen, in both modes.
    fn fault(&self, mode: &str) -> Result<Figures, String> {
        let options = [mode, "--lockstep", "100", "--lockstep-fault"];
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

enum Job<'a> {
    Target(&'a Program),
    Real(&'a str, &'a [&'a str], &'a str),
    Fault(&'a str),
}

fn main() -> ExitCode {
    let repository = program::repository();
    let bench = Bench {
        product: mode::product(&repository).unwrap_or_else(|error| panic!("{error}")),
        cache: build::cache_directory(),
    };
    std::fs::create_dir_all(&bench.cache).expect("the build directory is writable");
    let programs = program::discover(&repository.join("tests/programs"));
    let programs = programs.unwrap_or_else(|error| panic!("{error}"));
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
    jobs.retain(|job| only.as_ref().is_none_or(|only| name(job) == only));
    let again = Again::default();
    let results = pool::run(&jobs, WORKERS, |job| {
        let look = || match job {
            Job::Target(program) => bench.target_program(program),
            Job::Real(name, options, script) => bench.real_program(name, options, script),
            Job::Fault(mode) => Ok(bench.fault(mode)),
        };
        let result = again.try_up_to_three(name(job), look).flatten();
        match &result {
            Ok(figures) => println!("ok      {}: {figures:?}", name(job)),
            Err(text) => println!("FAILED  {}\n{text}", name(job)),
        }
        result
    });
    let chance = again.verdict();
    if let Err(text) = &chance {
        println!("FAILED  {text}");
    }
    match verdict(&jobs, &results) && chance.is_ok() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

fn name<'a>(job: &Job<'a>) -> &'a str {
    match job {
        Job::Target(program) => &program.name,
        Job::Real(name, ..) => name,
        Job::Fault(mode) => mode,
    }
}

/// Whether all passed, and each real program was looked at.
fn verdict(jobs: &[Job], results: &[Result<Figures, String>]) -> bool {
    let mut passed = true;
    let mut sum = Figures::default();
    for (job, result) in jobs.iter().zip(results) {
        let Ok(figures) = result else {
            passed = false;
            continue;
        };
        let enough = figures.windows >= 10
            && figures.compared >= 5_000
            && figures.resumed >= 20
            && figures.recovered >= 50;
        if matches!(job, Job::Real(..)) && !enough {
            println!(
                "FAILED  {}: too little was compared: {figures:?}",
                name(job)
            );
            passed = false;
        }
        sum.windows += figures.windows;
        sum.compared += figures.compared;
        sum.resumed += figures.resumed;
        sum.recovered += figures.recovered;
    }
    println!("{} programs: {sum:?}", jobs.len());
    passed
}
