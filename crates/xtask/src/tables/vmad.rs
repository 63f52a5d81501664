//! `cargo xtask tables vmad`: table 1 of VMAD for programs of today.
//!
//! Approach: each program runs as it is and edited with `--tool loops`, all nests selected, in turns; the quickest run
//! of each counts. What was inserted and seen comes from `everypath loops --format json`, once for the first iterations and once
//! for all (`--exact`), whose time holds making the edited program as well. The kernels have the shapes of PolyBench's; the shapes of
//! the paper's bad cases (short loops that are entered often) are `short.c` and `bc`; `ks.c` is the program of figure 6.
//!
//! Limits: SPEC's programs are not here. Loops of libraries are selected where these do the work (`libs`). `lame` is a package that the
//! gate does not install. x264 is not here: with its libraries it has more code than can be edited together.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Result, ensure};
use serde_json::Value;

use super::measure::output;
use crate::tree::Tree;

/// A program, lines of the shell that make its folder, and its arguments.
struct Workload {
    name: &'static str,
    /// Makes `native`; `$PROGRAMS` is benches/programs.
    setup: &'static str,
    arguments: &'static [&'static str],
    stdin: Option<&'static str>,
    /// Nests of its libraries are selected, too.
    libs: bool,
}

const fn row(
    name: &'static str,
    setup: &'static str,
    arguments: &'static [&'static str],
) -> Workload {
    Workload {
        name,
        setup,
        arguments,
        stdin: None,
        libs: false,
    }
}

impl Workload {
    /// Has nests of its libraries selected.
    const fn with_libraries(self) -> Workload {
        Workload { libs: true, ..self }
    }

    /// The edited program.
    fn edited(&self) -> &'static str {
        match self.libs {
            true => "./edited/bin/native",
            false => "./edited",
        }
    }
}

const KERNELS: &str = "cc -O2 -g -o native $PROGRAMS/kernels.c -lm";
const SHORT: &str = "cc -O2 -g -o native $PROGRAMS/short.c";

const WORKLOADS: [Workload; 23] = [
    row("gemm", KERNELS, &["gemm", "60"]),
    row("jacobi", KERNELS, &["jacobi", "300"]),
    row("seidel", KERNELS, &["seidel", "60"]),
    row("lu", KERNELS, &["lu", "60"]),
    row("floyd", KERNELS, &["floyd", "60"]),
    row("triangular", KERNELS, &["triangular", "4000"]),
    row("sparse", KERNELS, &["sparse", "300000"]),
    row(
        "stencil, two threads",
        "cc -O2 -g -pthread -o native $PROGRAMS/threads.c",
        &["2", "60"],
    ),
    row("ks", "cc -O0 -g -o native $PROGRAMS/ks.c", &["400", "600"]),
    row("search", SHORT, &["search", "13"]),
    row("short sorts", SHORT, &["sorts", "2000000"]),
    Workload {
        stdin: Some("numbers"),
        ..row(
            "bc",
            "cp -L /usr/bin/bc native; echo 'scale=2000; for (i = 0; i < 40; i++) { x += sqrt(i + 2) / 7 }; x' > numbers",
            &["-q"],
        )
    },
    row(
        "gzip",
        "cp -L /usr/bin/gzip native; python3 $PROGRAMS/gen_text.py 16 > text",
        &["-c", "text"],
    ),
    row(
        "bzip2",
        "cp -L /usr/bin/bzip2 native; python3 $PROGRAMS/gen_text.py 12 > text",
        &["-c", "text"],
    )
    .with_libraries(),
    row(
        "xz, two threads",
        "cp -L /usr/bin/xz native; python3 $PROGRAMS/gen_text.py 4 > text",
        &["-T2", "-2", "--block-size=1MiB", "-c", "text"],
    )
    .with_libraries(),
    row(
        "zstd, two threads",
        "cp -L /usr/bin/zstd native; python3 $PROGRAMS/gen_text.py 32 > text",
        &["-T2", "-9", "-q", "-c", "text"],
    ),
    row(
        "sort",
        "cp -L /usr/bin/sort native; python3 $PROGRAMS/gen_text.py 12 > text",
        &["--parallel=1", "text"],
    ),
    row(
        "gawk",
        "cp -L /usr/bin/gawk native; cp $PROGRAMS/fields.awk .; python3 $PROGRAMS/gen_text.py 12 > text",
        &["-f", "fields.awk", "text"],
    ),
    row(
        "sqlite3",
        "cp -L /usr/bin/sqlite3 native; cp $PROGRAMS/tables.sql .",
        &[":memory:", ".read tables.sql"],
    )
    .with_libraries(),
    row(
        "lame",
        concat!(
            "cp -L /usr/bin/lame native; /usr/bin/python3 -c 'import array, math, sys; array.array(\"h\", [int(8000 * ",
            "(math.sin(i / 9) + math.sin(i * i / 9e6))) for i in range(6000000)]).tofile(sys.stdout.buffer)' > sound.raw",
        ),
        &["-r", "--quiet", "-s", "44.1", "sound.raw", "-"],
    )
    .with_libraries(),
    row(
        "lua",
        "cp -L /usr/bin/lua5.4 native; cp $PROGRAMS/queens.lua .",
        &["queens.lua"],
    ),
    row(
        "python3",
        "cp -L /usr/bin/python3 native",
        &[
            "-S",
            "-c",
            "print(sum(len(str(i)) for i in range(2000000)), len(sorted(map(str, range(300000)))))",
        ],
    ),
    row(
        "perl",
        "cp -L /usr/bin/perl native; python3 $PROGRAMS/gen_text.py 8 > text",
        &[
            "-ne",
            "$n{$_}++ for split; END { print scalar(keys %n) }",
            "text",
        ],
    ),
];

/// Figures of a workload.
struct Row {
    name: &'static str,
    libs: bool,
    native: f64,
    edited: f64,
    bytes: [u64; 2],
    first: Found,
    /// The sums over all iterations, and the time.
    exact: (Found, f64),
}

/// Sums over the nests of a run.
#[derive(Default)]
struct Found {
    functions: usize,
    nests: usize,
    /// Nests of which no iteration came, and that were not followed.
    quiet: usize,
    left: usize,
    loops: usize,
    /// References that were executed, and of which everything was as expected.
    references: usize,
    linear: usize,
    /// Accesses of them.
    samples: u64,
    linear_samples: u64,
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
        let folder = target.join("tables/vmad").join(workload.name);
        rows.push(measure(tree, everypath, workload, &folder, rounds)?);
    }
    Ok(render(&rows))
}

/// Makes the folder of a workload, and edits the program.
fn build(tree: &Tree, everypath: &Path, workload: &Workload, folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder)?;
    let mut shell = Command::new("sh");
    shell.args(["-ec", workload.setup]).current_dir(folder);
    shell.env("PROGRAMS", tree.root.join("benches/programs"));
    ensure!(
        shell.status()?.success(),
        "the setup of {} failed",
        workload.name
    );
    let mut edit = Command::new(everypath);
    edit.args(["rewrite", "native", "--tool", "loops", "-o", "edited"]);
    edit.args(workload.libs.then_some("--libs"));
    output(in_folder(edit, folder))?;
    Ok(())
}

fn measure(
    tree: &Tree,
    everypath: &Path,
    workload: &Workload,
    folder: &Path,
    rounds: usize,
) -> Result<Row> {
    build(tree, everypath, workload, folder)?;
    let mut row = Row {
        name: workload.name,
        libs: workload.libs,
        native: f64::INFINITY,
        edited: f64::INFINITY,
        bytes: [0; 2],
        first: Found::default(),
        exact: Default::default(),
    };
    let (_, expected) = execute(workload, folder, &["./native"])?;
    for _ in 0..rounds {
        for (least, name) in [
            (&mut row.native, "./native"),
            (&mut row.edited, workload.edited()),
        ] {
            let (seconds, text) = execute(workload, folder, &[name])?;
            ensure!(text == expected, "{} {name}: another output", workload.name);
            *least = least.min(seconds);
        }
    }
    for (bytes, name) in row.bytes.iter_mut().zip(["./native", workload.edited()]) {
        *bytes = fs::metadata(folder.join(name))?.len();
    }
    let everypath = everypath.display().to_string();
    let words = [
        &*everypath,
        "loops",
        "-q",
        "--format",
        "json",
        "-o",
        "loops.json",
        "--",
        "./native",
    ];
    let libs: &[&str] = if workload.libs { &["--libs"] } else { &[] };
    let words = [&words[..2], libs, &words[2..]].concat();
    let (_, text) = execute(workload, folder, &words)?;
    ensure!(text == expected, "{}: another output", workload.name);
    row.first = found(folder)?;
    let words = [&words[..2], &["--exact"], &words[2..]].concat();
    let (seconds, text) = execute(workload, folder, &words)?;
    ensure!(
        text == expected,
        "{} --exact: another output",
        workload.name
    );
    row.exact = (found(folder)?, seconds);
    Ok(row)
}

fn in_folder(mut command: Command, folder: &Path) -> Command {
    command.current_dir(folder);
    command
}

/// Time and output of a run; the first word is `./native` or something that runs it.
fn execute(workload: &Workload, folder: &Path, words: &[&str]) -> Result<(f64, Vec<u8>)> {
    let stdin = match workload.stdin {
        Some(name) => Stdio::from(fs::File::open(folder.join(name))?),
        None => Stdio::null(),
    };
    let start = Instant::now();
    let done = Command::new(words[0])
        .args(&words[1..])
        .args(workload.arguments)
        .env("LC_ALL", "C")
        .env("PERL_HASH_SEED", "0")
        .env("PYTHONHASHSEED", "0")
        .current_dir(folder)
        .stdin(stdin)
        .output()?;
    let seconds = start.elapsed().as_secs_f64();
    ensure!(done.status.success(), "{}: {done:?}", workload.name);
    Ok((seconds, done.stdout))
}

/// The sums of `loops.json`.
fn found(folder: &Path) -> Result<Found> {
    let run: Value = serde_json::from_slice(&fs::read(folder.join("loops.json"))?)?;
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let count = |value: &Value| value.as_u64().unwrap_or(0);
    let mut found = Found {
        left: list(&run["left"]).len(),
        ..Found::default()
    };
    let mut functions = std::collections::BTreeSet::new();
    for nest in list(&run["nests"]) {
        if count(&nest["entries"]) == 0 {
            found.quiet += 1;
            continue;
        }
        found.nests += 1;
        for one in list(&nest["loops"]) {
            let name = one["name"].as_str().unwrap_or_default();
            functions.insert(name.split(':').next().unwrap_or(name).to_owned());
            found.loops += 1;
            for reference in list(&one["references"]) {
                let function = &reference["function"];
                let samples = count(&function["samples"]);
                if samples == 0 {
                    continue;
                }
                found.references += 1;
                found.samples += samples;
                if function["verified"] == Value::Bool(true) {
                    found.linear += 1;
                    found.linear_samples += samples;
                }
            }
        }
    }
    found.functions = functions.len();
    Ok(found)
}

fn render(rows: &[Row]) -> String {
    let mut out = String::from(
        "\n## All nests of each program, their first iterations\n\n\
         Wall time over native; nests that were entered, of those that are followed and those that are not; loops of the entered ones in so many functions; references that were executed, and how many of them have an affine function that was verified; the accesses that were followed, and those of verified references.\n\n\
         | program | native s | over native | bytes | entered, followed, not | functions | loops | references | linear | accesses | linear |\n|---|---:|---:|---:|---|---:|---:|---:|---:|---:|---:|\n",
    );
    let mut log = 0.0;
    for row in rows {
        let (found, ratio) = (&row.first, row.edited / row.native);
        log += ratio.ln();
        let _ = writeln!(
            out,
            "| {}{} | {:.2} | {ratio:.3} | {:.2} | {}, {}, {} | {} | {} | {} | {} | {} | {} |",
            row.name,
            if row.libs { " and its libraries" } else { "" },
            row.native,
            row.bytes[1] as f64 / row.bytes[0] as f64,
            found.nests,
            found.nests + found.quiet,
            found.left,
            found.functions,
            found.loops,
            found.references,
            found.linear,
            found.samples,
            found.linear_samples
        );
    }
    let mean = (log / rows.len().max(1) as f64).exp();
    let _ = writeln!(out, "| **geometric mean** | | **{mean:.3}** |");
    let mut log = 0.0;
    out.push_str("\n## All iterations (`--exact`)\n\nThe time holds the edit.\n\n| program | over native | references | linear | accesses | linear | ns an access |\n|---|---:|---:|---:|---:|---:|---:|\n");
    for row in rows {
        let (found, seconds) = &row.exact;
        log += (seconds / row.native).ln();
        let _ = writeln!(
            out,
            "| {} | {:.1} | {} | {} | {} | {} | {:.1} |",
            row.name,
            seconds / row.native,
            found.references,
            found.linear,
            found.samples,
            found.linear_samples,
            1e9 * (seconds - row.native) / found.samples.max(1) as f64
        );
    }
    let mean = (log / rows.len().max(1) as f64).exp();
    let _ = writeln!(out, "| **geometric mean** | **{mean:.1}** |");
    out
}
