//! Tables of mlsTrace: 5.2 to 5.4, 6.3 and 6.4 of the mTrace thesis, of one run with
//! `--memory values` each, and what the trace itself takes.
//!
//! Limits: the thesis's sizes are of loads only, and so are these.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::measure::{Sizes, output, sizes, streams_in, timed};
use super::render::{self, Cells, Row, of_sizes, of_times, seconds, share, strings};

pub struct Measured {
    name: &'static str,
    threads: u32,
    native_s: f64,
    addresses_s: f64,
    values_s: f64,
    pack_s: f64,
    insns: u64,
    /// The object `memory` of `everypath stats`.
    memory: Value,
    /// Descriptors of loads.
    mls: Sizes,
    /// Bytes of the trace with values and of its streams, then of the packed one.
    file: u64,
    streams: u64,
    packed_file: u64,
    packed_streams: u64,
}

impl Row for Measured {
    fn names(&self) -> (&str, u32) {
        (self.name, self.threads)
    }
}

impl Measured {
    fn total(&self, kind: &str) -> u64 {
        self.memory[kind].as_u64().unwrap_or(0)
    }

    /// Number of accesses of each size.
    fn sizes(&self, kind: &str) -> Vec<u64> {
        let rows = self.memory["sizes"].as_array();
        let rows = rows.map_or(&[][..], Vec::as_slice);
        rows.iter()
            .map(|row| row[kind].as_u64().unwrap_or(0))
            .collect()
    }
}

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
    let trace = |what: &str, file: &str| {
        let mut trace = everypath(&["trace", "-q", "-o", file, "--memory", what, "--"]);
        timed(trace.args(command))
    };
    let addresses_s = trace("addresses", "addresses.evp")?;
    let values_s = trace("values", "values.evp")?;
    let stats = output(everypath(&["stats", "values.evp", "--format", "json"]))?;
    let stats: Value = serde_json::from_str(&stats)?;
    let mut pack = everypath(&["pack", "-q", "values.evp", "-o", "small.evp"]);
    let pack_s = timed(&mut pack)?;
    let streams = |file| streams_in(&output(everypath(&["verify", file]))?);
    let bytes = |file| fs::metadata(folder.join(file)).map(|data| data.len());
    let measured = Measured {
        name,
        threads,
        native_s,
        addresses_s,
        values_s,
        pack_s,
        insns: stats["total"]["instructions"].as_u64().unwrap_or(0),
        memory: stats["memory"].clone(),
        mls: sizes(|| everypath(&["dump", "values.evp", "--mls", "binary"]))?,
        file: bytes("values.evp")?,
        streams: streams("values.evp")?,
        packed_file: bytes("small.evp")?,
        packed_streams: streams("small.evp")?,
    };
    for file in ["addresses.evp", "values.evp", "small.evp"] {
        fs::remove_file(folder.join(file))?;
    }
    Ok(measured)
}

/// Names of the sizes, as `everypath stats` has them.
const SIZES: [&str; 9] = [
    "1, %", "2, %", "4, %", "8, %", "10, %", "16, %", "32, %", "64, %", "other, %",
];

// Long function: one table after the other.
pub fn render(rows: &[Measured]) -> String {
    let mut text = String::new();
    let mut add = |title: &str, head: Cells, cells: &dyn Fn(&Measured) -> Cells| {
        text += &render::table(title, &head, rows, cells);
    };
    add(
        "Memory reads and writes (5.2)",
        strings(&[
            "instructions",
            "reads",
            "writes",
            "reads per instruction, %",
            "writes per instruction, %",
        ]),
        &|row| {
            let (reads, writes) = (row.total("reads"), row.total("writes"));
            let numbers = [row.insns, reads, writes].map(|number| number.to_string());
            let shares = [share(reads, row.insns), share(writes, row.insns)];
            [&numbers[..], &shares[..]].concat()
        },
    );
    for (title, kind) in [
        ("Reads by bytes of the operand (5.3)", "reads"),
        ("Writes by bytes of the operand (5.4)", "writes"),
    ] {
        add(title, strings(&SIZES), &|row| {
            let all = row.total(kind);
            let sizes = row.sizes(kind).into_iter();
            sizes.map(|number| share(number, all)).collect()
        });
    }
    add(
        "mlsTrace, bytes of load descriptors (6.3)",
        render::sizes("raw"),
        &|row| of_sizes(&row.mls),
    );
    add(
        "mlsTrace, time (6.4): from the trace, through each compressor",
        [
            strings(&[
                "native, s",
                "trace --memory addresses, s",
                "trace --memory values, s",
                "pack, s",
            ]),
            render::times(),
        ]
        .concat(),
        &|row| {
            let times = [row.native_s, row.addresses_s, row.values_s, row.pack_s];
            [seconds(&times), of_times(&row.mls)].concat()
        },
    );
    add(
        "Bytes for each access, read or written, with its value",
        strings(&[
            "everypath's streams",
            "its whole file, code and names included",
            "packed streams",
            "packed file",
        ]),
        &|row| {
            let all = (row.total("reads") + row.total("writes")).max(1);
            let sizes = [row.streams, row.file, row.packed_streams, row.packed_file];
            let each = |bytes: u64| format!("{:.3}", bytes as f64 / all as f64);
            sizes.map(each).to_vec()
        },
    );
    text
}
