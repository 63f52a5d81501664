//! `cargo xtask tables pcce`: the programs of PCCE's tables, with their calling contexts in a number.
//!
//! Approach: each program is encoded as its file tells it, and with a profile of the same run. It runs as it is and in both ways, all in
//! turns, and the quickest run of each counts. The rest is what the editor says of the call graph, and the sizes of files. Functions,
//! calls and numbers are table 1 of the paper; times are its figure 10. The depths of stacks (table 2) are measured by the test
//! `contexts_of_many_programs_are_decoded` (benches/runs/2026-11-30-contexts.md).
//!
//! Limits: neither `locate` nor `alpine` is among them, and of SPEC's programs those that have a like of today. Only the program's own
//! file is encoded.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::tree::Tree;

/// A program, and a line of the shell with `{}` where it stands.
struct Workload {
    name: &'static str,
    program: &'static str,
    line: &'static str,
}

const fn row(name: &'static str, program: &'static str, line: &'static str) -> Workload {
    Workload {
        name,
        program,
        line,
    }
}

const WORKLOADS: [Workload; 15] = [
    row(
        "cmp",
        "/usr/bin/cmp",
        "for i in 1 2 3 4 5 6 7 8 9 10; do {} -l text other; done | cksum",
    ),
    row(
        "diff",
        "/usr/bin/diff",
        "for i in 1 2 3 4 5; do {} text other; done | cksum",
    ),
    row(
        "sdiff",
        "/usr/bin/sdiff",
        "for i in $(seq 30); do {} -l small smaller; done | cksum",
    ),
    row(
        "find",
        "/usr/bin/find",
        "{} /usr/share /usr/lib -name '*.s*' -size +8k | cksum",
    ),
    row(
        "grep",
        "/usr/bin/grep",
        "for i in $(seq 15); do {} -cE '(ab|cd)+[a-f]* [0-9]+[02468]$' text; done",
    ),
    row("tar", "/usr/bin/tar", "{} cf - /usr/include | cksum"),
    row("make", "/usr/bin/make", "{} -n -f rules | cksum"),
    row("gzip", "/usr/bin/gzip", "{} -c text | cksum"),
    row(
        "vim",
        "/usr/bin/vim",
        "{} -u NONE -i NONE -es -c '%s/a\\(b*\\)/\\1xx/g' -c 'g/ee/d' -c 'w! out' -c q small; cksum out",
    ),
    row("bzip2", "/usr/bin/bzip2", "{} -c text | cksum"),
    row(
        "cc1",
        "cc1",
        "{} -quiet -O2 -fpreprocessed source.i -o out; cksum out",
    ),
    row(
        "python3",
        "/usr/bin/python3",
        "{} -S -c 'print(sum(len(str(i)) for i in range(2000000)), len(sorted(map(str, range(300000)))))'",
    ),
    row("lua5.4", "/usr/bin/lua5.4", "{} queens.lua"),
    row(
        "sqlite3",
        "/usr/bin/sqlite3",
        "{} :memory: < tables.sql | cksum",
    ),
    row(
        "perl",
        "/usr/bin/perl",
        "{} -ne '$n{$_}++ for split; END { print scalar(keys %n), qq(\\n) }' text",
    ),
];

/// Ways to run, by their files.
const WAYS: [&str; 3] = ["native", "plain", "profile"];

/// Figures of a workload.
struct Row {
    name: &'static str,
    seconds: [f64; WAYS.len()],
    bytes: [u64; WAYS.len()],
    /// Numbers that the editor says, by the file alone and by a profile.
    said: [Vec<u64>; 2],
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
        let folder = target.join("tables/pcce").join(workload.name);
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
    let mut row = Row {
        name: workload.name,
        seconds: [f64::INFINITY; WAYS.len()],
        bytes: [0; WAYS.len()],
        said: build(tree, everypath, workload, folder)?,
    };
    let native = execute(workload, folder, WAYS[0])?.1;
    for _ in 0..rounds {
        for (way, name) in WAYS.iter().enumerate() {
            let (seconds, text) = execute(workload, folder, name)?;
            ensure!(text == native, "{} {name}: another output", workload.name);
            row.seconds[way] = row.seconds[way].min(seconds);
        }
    }
    for (bytes, name) in row.bytes.iter_mut().zip(WAYS) {
        *bytes = fs::metadata(folder.join(name))?.len();
    }
    Ok(row)
}

/// Makes the folder of a workload: its inputs, the program, and the program encoded twice. Gives what the editor says.
fn build(
    tree: &Tree,
    everypath: &Path,
    workload: &Workload,
    folder: &Path,
) -> Result<[Vec<u64>; 2]> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder)?;
    let programs = tree.root.join("benches/programs");
    let lines = format!(
        "cp {0}/queens.lua {0}/tables.sql .; python3 {0}/gen_text.py 12 > text; head -c 2000000 text > small\n\
         sed 's/^a/b/' text > other; sed 's/^a/b/' small > smaller; python3 {0}/gen_c.py 150 > source.c; gcc -E source.c -o source.i\n\
         for i in $(seq 4000); do echo \"t$i: t$((i / 2 + 4001)); @echo $i $@\"; echo \"all: t$i\"; done > rules; for i in $(seq 4001 6001); do echo \"t$i:\"; done >> rules; sed -i '1i all:' rules\n\
         if [ {1} = cc1 ]; then cp $(gcc -print-prog-name=cc1) native; else cp -L {1} native; fi\n",
        programs.display(),
        workload.program
    );
    let made = Command::new("sh")
        .args(["-e", "-c", &lines])
        .current_dir(folder)
        .output()?;
    ensure!(made.status.success(), "{}: {made:?}", workload.name);
    let encode = |words: &[&str]| -> Result<Vec<u64>> {
        let made = Command::new(everypath)
            .args(["encode", "native", "--explain", "-o"])
            .args(words)
            .current_dir(folder)
            .output()?;
        let said = String::from_utf8_lossy(&made.stderr).into_owned();
        ensure!(made.status.success(), "{}: {said}", workload.name);
        let line = said
            .lines()
            .find(|line| line.contains(" put a record on top"));
        let words = line
            .context("the editor says how many calls put a record on top")?
            .split_whitespace();
        Ok(words.filter_map(|word| word.parse().ok()).collect())
    };
    let plain = encode(&["plain"])?;
    let line = workload.line.replace("{}", "./counted");
    let counted = format!(
        "#!/bin/sh\nexec {} count -q -o run.evp --report /dev/null -- ./native \"$@\"\n",
        everypath.display()
    );
    fs::write(folder.join("counted"), counted)?;
    let made = Command::new("sh")
        .args(["-c", &format!("chmod +x counted; {line}")])
        .env("LC_ALL", "C")
        .current_dir(folder)
        .stdout(Stdio::null())
        .status()?;
    ensure!(folder.join("run.evp").exists(), "{}: {made}", workload.name);
    let profile = encode(&["profile", "--weights", "run.evp"])?;
    Ok([plain, profile])
}

/// Time and output of a run.
fn execute(workload: &Workload, folder: &Path, way: &str) -> Result<(f64, Vec<u8>)> {
    let line = workload.line.replace("{}", &format!("./{way}"));
    let start = Instant::now();
    let done = Command::new("sh")
        .args(["-c", &line])
        .env("LC_ALL", "C")
        .env("PERL_HASH_SEED", "0")
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()?;
    Ok((start.elapsed().as_secs_f64(), done.stdout))
}

fn render(rows: &[Row]) -> String {
    let mut out = String::from(
        "\n## Call graphs\n\nCalls of the graph, the highest number of a function, and calls that add to the number, that put a record on top (they close a cycle), and that are of other code, by the file alone and by a profile.\n\n\
         | program | functions | calls | highest | add, record, other | by a profile |\n|---|---:|---:|---:|---|---|\n",
    );
    for row in rows {
        let [plain, profile] = &row.said;
        let at = |said: &[u64], number: usize| said.get(number).copied().unwrap_or(0);
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {}, {}, {} | {}, {}, {} |",
            row.name,
            at(plain, 0),
            at(plain, 1),
            at(plain, 2),
            at(plain, 3),
            at(plain, 4),
            at(plain, 5),
            at(profile, 3),
            at(profile, 4),
            at(profile, 5)
        );
    }
    out.push_str("\n## Times and sizes over native\n\n| program | native s | plain | with a profile | bytes of the file |\n|---|---:|---:|---:|---:|\n");
    let mut logs = [0.0; WAYS.len()];
    for row in rows {
        let _ = write!(out, "| {} | {:.2} |", row.name, row.seconds[0]);
        for (seconds, log) in row.seconds.iter().zip(&mut logs).skip(1) {
            let ratio = seconds / row.seconds[0];
            *log += ratio.ln();
            let _ = write!(out, " {ratio:.2} |");
        }
        let _ = writeln!(out, " {:.2} |", row.bytes[1] as f64 / row.bytes[0] as f64);
    }
    let mean = |sum: f64| (sum / rows.len().max(1) as f64).exp();
    let _ = writeln!(
        out,
        "| **geometric mean** | | **{:.2}** | **{:.2}** | |",
        mean(logs[1]),
        mean(logs[2])
    );
    out
}
