//! `cargo xtask tables qp`: what counting by the exec editor costs, beside what compilers and BOLT insert.
//!
//! Approach: programs of benches/programs are built as they are, with the instrumentation of GCC (`--coverage`) and LLVM
//! (`-fprofile-instr-generate`), and with relocations for `llvm-bolt -instrument`; the first one is edited by everypath. All run in
//! turns, and each round compares with its own native runs. Increments are the sums of the counters themselves.
//!
//! Needs, besides what the tests need: libclang-rt-14-dev (Debian).
//!
//! Limits: LLVM's instrumentation is compared with LLVM's code without. BOLT's program writes its profile at its end, which is in
//! its time.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use crate::tree::Tree;

/// A program of benches/programs: its source, flags of its compilers, and its arguments.
struct Workload {
    name: &'static str,
    source: &'static str,
    flags: &'static [&'static str],
    arguments: &'static [&'static str],
}

const WORKLOADS: [Workload; 6] = [
    Workload {
        name: "recursion",
        source: "recursion.c",
        flags: &["-fno-optimize-sibling-calls"],
        arguments: &[],
    },
    Workload {
        name: "indirect",
        source: "indirect.c",
        flags: &[],
        arguments: &[],
    },
    Workload {
        name: "quicksort",
        source: "quicksort.c",
        flags: &[],
        arguments: &["6000000"],
    },
    Workload {
        name: "mergesort",
        source: "mergesort.c",
        flags: &[],
        arguments: &["6000000"],
    },
    Workload {
        name: "one thread",
        source: "threads.c",
        flags: &["-pthread"],
        arguments: &["1", "4000"],
    },
    Workload {
        name: "two threads",
        source: "threads.c",
        flags: &["-pthread"],
        arguments: &["2", "8000"],
    },
];

/// A way to count, and the one without counting that it is compared with.
struct Way {
    name: &'static str,
    base: usize,
    /// Shell line; `$CC`: flags, source and output of the compiler; `$0`: everypath; `gcc`, `clang`: what was built before.
    make: &'static str,
    /// Words before the program's name; `@` is everypath.
    prefix: &'static [&'static str],
}

const WAYS: [Way; 9] = [
    Way {
        name: "gcc",
        base: 0,
        make: "gcc -O2 $CC -o gcc",
        prefix: &[],
    },
    Way {
        name: "clang",
        base: 1,
        make: "clang-14 -O2 $CC -o clang",
        prefix: &[],
    },
    Way {
        name: "edges",
        base: 0,
        make: "$EVERYPATH rewrite gcc -o edges --tool edges --explain",
        prefix: &[],
    },
    Way {
        name: "weighted",
        base: 0,
        make: "./edges $ARGS > /dev/null; $EVERYPATH rewrite gcc -o weighted --tool edges --weights edges.*.evp --explain",
        prefix: &[],
    },
    Way {
        name: "blocks",
        base: 0,
        make: "$EVERYPATH rewrite gcc -o blocks --tool blocks --explain",
        prefix: &[],
    },
    Way {
        name: "coverage",
        base: 0,
        make: "$EVERYPATH rewrite gcc -o coverage --tool coverage --explain",
        prefix: &[],
    },
    Way {
        name: "gcov",
        base: 0,
        make: "gcc -O2 --coverage $CC -o gcov",
        prefix: &[],
    },
    Way {
        name: "llvm",
        base: 1,
        make: "clang-14 -O2 -fprofile-instr-generate $CC -o llvm",
        prefix: &[],
    },
    Way {
        name: "bolt",
        base: 0,
        make: "gcc -O2 -Wl,-q $CC -o relocations && /usr/lib/llvm-16/bin/llvm-bolt relocations -instrument \
               -instrumentation-file=$PWD/bolt.fdata -o bolt",
        prefix: &[],
    },
];

/// The translator counts the program that GCC made.
const TRANSLATED: &[&str] = &["@", "count", "-q", "--report", "report.out", "--"];

/// Figures of a workload.
struct Row {
    name: &'static str,
    /// Seconds of the native run.
    native: f64,
    /// By way, the translator last: times over those of its base.
    ratios: Vec<f64>,
    /// By way: number of counters and of increments, if it is ours.
    counters: Vec<Option<(u64, u64)>>,
    /// By way: bytes of the program.
    sizes: Vec<u64>,
}

pub fn run(
    tree: &Tree,
    everypath: &Path,
    target: &Path,
    only: &[String],
    rounds: usize,
) -> Result<String> {
    let is_wanted = |name: &str| only.is_empty() || only.iter().any(|one| one == name);
    let mut rows = Vec::new();
    for workload in WORKLOADS.iter().filter(|one| is_wanted(one.name)) {
        eprintln!("{}", workload.name);
        let folder = target.join("tables/qp").join(workload.name);
        rows.push(measure(tree, everypath, workload, &folder, rounds)?);
    }
    Ok(render(&rows))
}

fn measure(
    tree: &Tree,
    everypath: &Path,
    workload: &Workload,
    folder: &Path,
    rounds: usize,
) -> Result<Row> {
    let counters = build(tree, everypath, workload, folder)?;
    let mut times = vec![Vec::new(); WAYS.len() + 1];
    let mut increments = vec![0; WAYS.len()];
    let native = output(folder, &WAYS[0], workload, everypath)?.1;
    for _ in 0..rounds {
        for (number, way) in WAYS.iter().enumerate() {
            let (time, text) = output(folder, way, workload, everypath)?;
            ensure!(
                text == native,
                "{} {}: another output",
                workload.name,
                way.name
            );
            times[number].push(time);
            increments[number] = sum_of_counters(folder)?;
            remove_counters(folder)?;
        }
        let translated = Way {
            prefix: TRANSLATED,
            ..WAYS[0]
        };
        let (time, _) = output(folder, &translated, workload, everypath)?;
        times[WAYS.len()].push(time);
    }
    let ratio = |number: usize| {
        let base = WAYS.get(number).map_or(0, |way| way.base);
        let both = times[number].iter().zip(&times[base]);
        median(both.map(|(time, native)| time / native).collect())
    };
    let sizes = WAYS
        .iter()
        .map(|way| Ok(fs::metadata(folder.join(way.name))?.len()));
    Ok(Row {
        name: workload.name,
        native: median(times[0].clone()),
        ratios: (0..times.len()).map(ratio).collect(),
        counters: counters
            .into_iter()
            .zip(increments)
            .map(|(counters, increments)| Some((counters?, increments)))
            .collect(),
        sizes: sizes.collect::<Result<_>>()?,
    })
}

/// Makes a workload's programs; gives the numbers of counters of those that are edited.
fn build(
    tree: &Tree,
    everypath: &Path,
    workload: &Workload,
    folder: &Path,
) -> Result<Vec<Option<u64>>> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder)?;
    let source = tree.root.join("benches/programs").join(workload.source);
    let mut counters = Vec::new();
    for way in &WAYS {
        let made = Command::new("sh")
            .args(["-e", "-c", way.make])
            .current_dir(folder)
            .env(
                "CC",
                format!("{} {}", workload.flags.join(" "), source.display()),
            )
            .env("ARGS", workload.arguments.join(" "))
            .env("EVERYPATH", everypath)
            .output()?;
        let said = String::from_utf8_lossy(&made.stderr);
        ensure!(
            made.status.success(),
            "{} {}: {said}",
            workload.name,
            way.name
        );
        counters.push(counters_in(&said));
        remove_counters(folder)?;
    }
    Ok(counters)
}

/// Time and output of a run.
fn output(
    folder: &Path,
    way: &Way,
    workload: &Workload,
    everypath: &Path,
) -> Result<(f64, Vec<u8>)> {
    let program = folder.join(way.name);
    let words: Vec<PathBuf> = way
        .prefix
        .iter()
        .map(|word| match *word {
            "@" => everypath.to_owned(),
            word => word.into(),
        })
        .chain([program])
        .collect();
    let start = Instant::now();
    let done = Command::new(&words[0])
        .args(&words[1..])
        .args(workload.arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {}", words[0].display()))?;
    let time = start.elapsed().as_secs_f64();
    if !done.status.success() {
        bail!("{} {}: {}", workload.name, way.name, done.status);
    }
    Ok((time, done.stdout))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The number of counters that the editor tells.
fn counters_in(said: &str) -> Option<u64> {
    let line = said
        .lines()
        .find_map(|line| line.strip_suffix(" counters"))?;
    line.rsplit(' ').next()?.parse().ok()
}

/// Files of counters in a folder.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let all = entries.collect::<Result<Vec<PathBuf>>>()?;
    let is_one = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "evp");
    Ok(all.into_iter().filter(is_one).collect())
}

fn remove_counters(folder: &Path) -> Result<()> {
    for path in files(folder)? {
        fs::remove_file(path)?;
    }
    Ok(())
}

/// Sum of all counters in files of a folder (docs/formats/counters.md): each increment is one of it.
fn sum_of_counters(folder: &Path) -> Result<u64> {
    const HEADER: usize = 4096;
    let mut sum = 0u64;
    for path in files(folder)? {
        let bytes = fs::read(path)?;
        for word in bytes.get(HEADER..).unwrap_or_default().chunks_exact(8) {
            sum += word
                .first_chunk()
                .map_or(0, |word| u64::from_le_bytes(*word));
        }
    }
    Ok(sum)
}

fn render(rows: &[Row]) -> String {
    let mut out = String::from(
        "\n## Times over native\n\ngcov, edges, weighted, blocks, coverage, bolt and count over GCC's code, llvm over LLVM's.\n\n\
         | program | native s | edges | weighted | blocks | coverage | gcov | llvm | bolt | everypath count |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    let mut sums = vec![0.0; WAYS.len() + 1];
    for row in rows {
        let _ = write!(out, "| {} | {:.2} |", row.name, row.native);
        for (number, ratio) in row.ratios.iter().enumerate().skip(2) {
            let _ = write!(out, " {ratio:.2} |");
            sums[number] += ratio.ln();
        }
        out.push('\n');
    }
    out.push_str("| **geometric mean** | |");
    for sum in &sums[2..] {
        let _ = write!(out, " **{:.2}** |", (sum / rows.len() as f64).exp());
    }
    out.push_str(
        "\n\n## Counters and increments\n\nThe last two columns: increments of all edges' tree over those of a counter in every block.\n\n\
         | program | counters: edges | blocks | coverage | increments: edges | weighted | blocks | edges/blocks | weighted/blocks |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    let number = |name: &str| WAYS.iter().position(|way| way.name == name).unwrap_or(0);
    let (edges, weighted) = (number("edges"), number("weighted"));
    let (blocks, coverage) = (number("blocks"), number("coverage"));
    for row in rows {
        let of = |way: usize| row.counters[way].unwrap_or_default();
        let share = |way: usize| of(way).1 as f64 / of(blocks).1.max(1) as f64;
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {:.2} | {:.2} |",
            row.name,
            of(edges).0,
            of(blocks).0,
            of(coverage).0,
            of(edges).1,
            of(weighted).1,
            of(blocks).1,
            share(edges),
            share(weighted),
        );
    }
    out.push_str("\n## Bytes of the programs\n\n| program | native | edges | blocks | coverage | gcov | llvm | bolt |\n|---|---:|---:|---:|---:|---:|---:|---:|\n");
    let shown = ["gcc", "edges", "blocks", "coverage", "gcov", "llvm", "bolt"];
    for row in rows {
        let _ = write!(out, "| {} |", row.name);
        for way in shown {
            let _ = write!(out, " {} |", row.sizes[number(way)]);
        }
        out.push('\n');
    }
    out
}
