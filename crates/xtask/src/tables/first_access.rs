//! Tables of mlvCFiat: 6.11 to 6.16 of the mTrace thesis, with caches that are private to threads or
//! shared, of 64 KB in 4 ways of 64 bytes, as its chapter 6 has them.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::measure::{Sizes, output, sizes, timed};
use super::render::{self, Cells, Row, of_sizes, of_times, seconds, share, strings};

const CACHE: [&str; 2] = ["--cache", "64K,4,64"];

/// One kind of cache.
struct Kind {
    sizes: Sizes,
    /// Hits and misses of the cache, and of the flags of loads that hit it.
    cache: [u64; 2],
    flags: [u64; 2],
    loads: u64,
    descriptors: u64,
    /// Loads that are wrong when they are made again.
    wrong: u64,
    /// Bytes of the descriptors if the cache is coherent; all loads are made again then.
    coherent: u64,
    /// Loads of which the trace has no value.
    unknown: u64,
}

pub struct Measured {
    name: &'static str,
    threads: u32,
    insns: u64,
    native_s: f64,
    values_s: f64,
    private: Kind,
    shared: Kind,
}

impl Measured {
    fn kind(&self, name: &str) -> &Kind {
        match name {
            "private" => &self.private,
            _ => &self.shared,
        }
    }
}

impl Row for Measured {
    fn names(&self) -> (&str, u32) {
        (self.name, self.threads)
    }
}

// Long function: one command after the other.
pub fn measure(
    everypath: &Path,
    name: &'static str,
    threads: u32,
    command: &[String],
    folder: &Path,
) -> Result<Measured> {
    let (program, arguments) = command.split_first().context("no command")?;
    let mut native = Command::new(program);
    let native_s = timed(native.args(arguments).current_dir(folder))?;
    let everypath = |words: &[&str]| {
        let mut command = Command::new(everypath);
        command.args(words).current_dir(folder);
        command
    };
    let mut trace = everypath(&["trace", "-q", "-o", "run.evp", "--memory", "values", "--"]);
    let values_s = timed(trace.args(command))?;
    let mut insns = 0;
    let mut kind = |shared: &[&str]| -> Result<Kind> {
        let cfiat = |words: &[&str]| {
            let mut command = everypath(&["cfiat", "run.evp"]);
            command.args(words).args(shared);
            command
        };
        let written = |words: &[&str]| {
            let mut command = cfiat(words);
            command.args(CACHE);
            command
        };
        output(written(&["-o", "run.bin", "--thesis"]))?;
        let statistics = fs::read_to_string(folder.join("run.Statistics"))?;
        insns = after(&statistics, "Instructions Traced: ")?;
        let made = numbers(&output(cfiat(&["--decode", "run.bin"]))?);
        output(written(&["-o", "run.bin", "--coherent"]))?;
        let coherent = fs::metadata(folder.join("run.bin"))?.len();
        let again = numbers(&output(cfiat(&["--decode", "run.bin"]))?);
        anyhow::ensure!(
            again[2] == 0,
            "{} loads are wrong of coherent caches",
            again[2]
        );
        Ok(Kind {
            sizes: sizes(|| written(&["-o", "/dev/stderr"]))?,
            cache: hits(&statistics, "-- Cache References")?,
            flags: hits(&statistics, "-- First Access Flag References")?,
            loads: made[0],
            descriptors: made[1],
            wrong: made[2],
            coherent,
            unknown: *made.last().context("no loads")?,
        })
    };
    let (private, shared) = (kind(&[])?, kind(&["--cache-shared"])?);
    for file in ["run.evp", "run.bin"] {
        fs::remove_file(folder.join(file))?;
    }
    Ok(Measured {
        name,
        threads,
        insns,
        native_s,
        values_s,
        private,
        shared,
    })
}

/// The whole numbers of a line.
fn numbers(line: &str) -> Vec<u64> {
    let words = line.split_whitespace().map(|word| word.replace(',', ""));
    words.filter_map(|word| word.parse().ok()).collect()
}

fn after(text: &str, what: &str) -> Result<u64> {
    let mut lines = text.lines();
    let number = lines.find_map(|line| line.strip_prefix(what)?.parse().ok());
    number.with_context(|| format!("no '{what}' in {text}"))
}

/// The total of a part of the statistics.
fn hits(text: &str, title: &str) -> Result<[u64; 2]> {
    let lines = text.lines().skip_while(|line| !line.starts_with(title));
    let mut totals = lines.filter_map(|line| line.trim_start().strip_prefix("Total "));
    let total = totals.next().with_context(|| format!("no '{title}'"))?;
    let (hits, rest) = total.split_once(':').context("no misses")?;
    let misses = rest.split(' ').next().unwrap_or_default();
    Ok([hits.parse()?, misses.parse()?])
}

pub fn render(rows: &[Measured]) -> String {
    let mut text = String::new();
    for (name, [hits, sizes, times]) in [
        ("private", ["6.11", "6.12", "6.13"]),
        ("shared", ["6.14", "6.15", "6.16"]),
    ] {
        text += &render::table(
            &format!("mlvCFiat, {name} caches of 64 KB, 4 ways of 64 bytes: hits ({hits})"),
            &strings(&[
                "accesses",
                "missed the cache, %",
                "loads",
                "missed the flags, %",
                "loads with a descriptor, %",
                "loads decoded wrong, %",
                "loads without a known value, %",
            ]),
            rows,
            &|row| of_hits(row.kind(name)),
        );
        text += &render::table(
            &format!("mlvCFiat, {name} caches: bytes of descriptors ({sizes})"),
            &[
                render::sizes("raw"),
                strings(&["raw, coherent", "bytes per instruction", "bytes per load"]),
            ]
            .concat(),
            rows,
            &|row| {
                let kind = row.kind(name);
                let raw = kind.sizes[0].0;
                let each = |all: u64| format!("{:.4}", raw as f64 / all.max(1) as f64);
                let own = [kind.coherent.to_string(), each(row.insns), each(kind.loads)];
                [of_sizes(&kind.sizes), own.to_vec()].concat()
            },
        );
        text += &render::table(
            &format!("mlvCFiat, {name} caches: time, from the trace ({times})"),
            &[
                strings(&["native, s", "trace --memory values, s"]),
                render::times(),
            ]
            .concat(),
            rows,
            &|row| {
                let both = seconds(&[row.native_s, row.values_s]);
                [both, of_times(&row.kind(name).sizes)].concat()
            },
        );
    }
    if !rows.is_empty() {
        text += "\nThe thesis's sizes in 6.12 are not those of its descriptors (6 bytes and the value): by the rates of 6.11 \
                 they are 18 to 50 bytes each.\nLoads decoded wrong: what another thread or the kernel wrote, stores of which \
                 the trace has no value, and flags that stand for more bytes than were accessed. With `--coherent` there are none.\n";
    }
    text
}

fn of_hits(kind: &Kind) -> Cells {
    let [hits, misses] = kind.cache;
    let [known, unknown] = kind.flags;
    let decoded = kind.loads - kind.unknown;
    vec![
        (hits + misses).to_string(),
        share(misses, hits + misses),
        kind.loads.to_string(),
        share(unknown, known + unknown),
        share(kind.descriptors, kind.loads),
        share(kind.wrong, decoded),
        share(kind.unknown, kind.loads),
    ]
}
