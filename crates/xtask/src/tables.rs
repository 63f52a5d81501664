//! `cargo xtask tables mtrace`: the tables of the mTrace thesis for programs of our own. `tables qp`,
//! `tables qpt`, `tables pcce` and `tables vmad`: those of [`qp`], [`qpt`], [`pcce`] and [`vmad`].
//!
//! Approach: each program runs once under `everypath trace` with 1, 4 and 8 threads; from that one
//! trace come the descriptors of mcfTrace and mcfTRaptor, as they are and through compressors,
//! and misprediction rates. Beside them stands what the trace itself takes, also packed.
//!
//! Limits: descriptors of one thread follow those of another, where the thesis has them mixed, so
//! compressors do not suffer from more threads as they do there; with predictors that threads
//! share (6.8, 6.9) they are in the order of time stamps. One run each, so times are what they
//! were, with whatever else the machine did.
//!
//! A second run with `--memory values`, of 1, 2 and 4 threads, gives the tables of mlsTrace and
//! mlvCFiat.

mod first_access;
mod measure;
mod pcce;
mod qp;
mod qpt;
mod render;
mod values;
mod vmad;

use std::path::PathBuf;

use anyhow::Result;

use crate::bench::{everypath, machine, publish, target_directory};
use crate::tree::Tree;

#[derive(clap::Args)]
pub struct Options {
    /// Which tables.
    which: Which,
    /// The program to measure; built with `cargo build --release` when absent.
    #[arg(long)]
    everypath: Option<PathBuf>,
    /// Only the programs with these names.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Words for the name of the file in benches/runs.
    #[arg(long)]
    label: Option<String>,
    /// With `qp`: rounds, of which the median counts; with the others, of which the quickest does.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Only the tables of mlsTrace, or only the others.
    #[arg(long)]
    part: Option<Part>,
    /// Print only; write no file.
    #[arg(long)]
    dry: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Which {
    /// Tables 5.1 to 5.4, 6.1 to 6.9 and 6.11 to 6.16 of the mTrace thesis.
    Mtrace,
    /// Counting by the exec editor, beside what compilers and BOLT insert.
    Qp,
    /// Calling contexts in a number: call graphs and times.
    Pcce,
    /// Traces by the exec editor, beside the translator's.
    Qpt,
    /// Loop nests: what following them costs, and what is found.
    Vmad,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Tables 5.1 to 5.4 and 6.1 to 6.9: branches.
    Branches,
    /// Tables 5.2 to 5.4, 6.3 and 6.4: loads and stores.
    Values,
    /// Tables 6.11 to 6.16: first-access compression.
    FirstAccess,
}

/// A program that does the same work in any number of threads.
struct Workload {
    name: &'static str,
    /// Shell lines that make it and its input in its folder; `$PROGRAMS` is benches/programs.
    setup: &'static str,
    /// Words, in which `N` is the number of threads.
    command: &'static [&'static str],
    threads: &'static [u32],
}

const WORKLOADS: [Workload; 6] = [
    Workload {
        name: "threads",
        setup: "cc -O1 -pthread -o threads $PROGRAMS/threads.c",
        command: &["./threads", "N", "16"],
        threads: &[1, 4, 8],
    },
    Workload {
        name: "xz",
        setup: "python3 $PROGRAMS/gen_text.py 1 | head -c 32768 > text || true",
        command: &["xz", "-0kcf", "-TN", "--block-size=4KiB", "text"],
        threads: &[1, 4, 8],
    },
    Workload {
        name: "zstd",
        setup: "python3 $PROGRAMS/gen_text.py 4 > text",
        command: &["zstd", "-q", "-1", "-c", "-TN", "-B524288", "text"],
        threads: &[1, 4, 8],
    },
    // Debian: pigz.
    Workload {
        name: "pigz",
        setup: "python3 $PROGRAMS/gen_text.py 1 | head -c 262144 > text || true",
        command: &["pigz", "-n", "-1", "-c", "-b", "32", "-p", "N", "text"],
        threads: &[1, 4, 8],
    },
    Workload {
        name: "gcc",
        setup: "echo 'int main(void) { return 0; }' > small.c",
        command: &["gcc", "-S", "-o", "small.s", "small.c"],
        threads: &[1],
    },
    Workload {
        name: "python3",
        setup: "true",
        command: &["/usr/bin/python3", "-S", "-c", "print(sum(range(9999)))"],
        threads: &[1],
    },
];

impl Workload {
    fn command(&self, threads: u32) -> Vec<String> {
        let words = self.command.iter();
        let words = words.map(|word| word.replace('N', &threads.to_string()));
        words.collect()
    }
}

/// Compressors and their arguments; they read standard input and write standard output.
const COMPRESSORS: [(&str, &[&str]); 3] = [
    ("gzip", &["-c"]),
    ("bzip2", &["-c"]),
    ("zstd", &["-q", "-c"]),
];

/// Heading and options of what predicts.
const PREDICTORS: [(&str, &[&str]); 5] = [
    ("thesis", &[]),
    ("ibtb-last", &["--targets", "ibtb-last"]),
    ("bimodal", &["--outcomes", "bimodal"]),
    ("tage", &["--outcomes", "tage"]),
    (
        "large",
        &[
            "--outcomes",
            "tage",
            "--entries",
            "65536",
            "--ibtb",
            "4096",
            "--ras",
            "256",
            "--targets",
            "ibtb-last",
        ],
    ),
];

pub fn run(tree: &Tree, options: &Options) -> Result<()> {
    let target = target_directory(tree);
    let everypath = everypath(tree, &target, options.everypath.as_deref())?;
    let notes = machine::notes(tree, &[])?;
    let label = |name: &str| options.label.clone().unwrap_or_else(|| name.to_owned());
    let (only, rounds) = (&options.only, options.rounds);
    let single = match options.which {
        Which::Mtrace => None,
        Which::Qp => Some(("qp", qp::run(tree, &everypath, &target, only, rounds)?)),
        Which::Qpt => Some(("qpt", qpt::run(tree, &everypath, &target, only, rounds)?)),
        Which::Pcce => Some(("pcce", pcce::run(tree, &everypath, &target, only, rounds)?)),
        Which::Vmad => Some(("vmad", vmad::run(tree, &everypath, &target, only, rounds)?)),
    };
    if let Some((name, tables)) = single {
        return publish(tree, &label(name), options.dry, &(notes + &tables));
    }
    let (mut rows, mut values, mut first) = (Vec::new(), Vec::new(), Vec::new());
    let is_left_out = |part| options.part.is_some_and(|only| only != part);
    let is_wanted = |name| options.only.is_empty() || options.only.iter().any(|one| one == name);
    for workload in WORKLOADS.iter().filter(|one| is_wanted(one.name)) {
        let folder = target.join("tables").join(workload.name);
        measure::set_up(tree, workload, &folder)?;
        for &threads in workload.threads {
            if is_left_out(Part::Branches) {
                break;
            }
            eprintln!("{}, {threads} threads", workload.name);
            let command = workload.command(threads);
            let name = workload.name;
            rows.push(measure::measure(
                &everypath, name, threads, &command, &folder,
            )?);
        }
        let all: &[u32] = match workload.threads {
            [1] => &[1],
            _ => &[1, 2, 4],
        };
        for &threads in all {
            let (command, name) = (workload.command(threads), workload.name);
            if !is_left_out(Part::Values) {
                eprintln!("{name}, {threads} threads, values");
                let row = values::measure(&everypath, name, threads, &command, &folder)?;
                values.push(row);
            }
            if !is_left_out(Part::FirstAccess) {
                eprintln!("{name}, {threads} threads, first accesses");
                let row = first_access::measure(&everypath, name, threads, &command, &folder)?;
                first.push(row);
            }
        }
    }
    publish(
        tree,
        &label("mtrace"),
        options.dry,
        &(render::all(&notes, &rows) + &values::render(&values) + &first_access::render(&first)),
    )
}
