//! The tables, in the order of the thesis.

use super::measure::{Measured, Rates, Sizes};
use super::{COMPRESSORS, PREDICTORS};

pub type Cells = Vec<String>;

/// Heading of [`of_sizes`].
pub fn sizes(name: &str) -> Cells {
    let ratios = COMPRESSORS.map(|(tool, _)| format!("raw : {tool}"));
    let tools = COMPRESSORS.map(|(tool, _)| tool.to_owned());
    [vec![name.to_owned()], tools.to_vec(), ratios.to_vec()].concat()
}

/// Heading of [`of_times`].
pub fn times() -> Cells {
    let tools = COMPRESSORS.map(|(tool, _)| format!("{tool}, s"));
    [vec!["raw, s".to_owned()], tools.to_vec()].concat()
}

// Long function: one table after the other.
pub fn all(notes: &str, rows: &[Measured]) -> String {
    let mut text = format!(
        "# Tables of the mTrace thesis for programs of our own\n\n{notes}\n\
         `cargo xtask tables mtrace`: each program ran once under `everypath trace`; everything else is made of that trace. The programs are\n\
         in `crates/xtask/src/tables.rs`. Times are wall times of one run each, on a machine with other work. N: threads.\n\
         Descriptors of one thread follow those of another, so compressors do not suffer from more threads as in the thesis, which mixes them.\n\
         Those of 6.8 and 6.9, where threads share predictors, are in the order of time stamps.\n"
    );
    let mut add = |title: &str, head: Cells, cells: &dyn Fn(&Measured) -> Cells| {
        text += &table(title, &head, rows, cells);
    };
    add(
        "Instructions and branches (5.1)",
        strings(&[
            "instructions",
            "branches, %",
            "unconditional direct, %",
            "conditional taken, %",
            "conditional not taken, %",
            "unconditional indirect, %",
        ]),
        &classes,
    );
    add("mcfTrace, bytes (6.1)", sizes("raw"), &|row| {
        of_sizes(&row.mcf)
    });
    add(
        "mcfTrace, time (6.2)",
        [
            strings(&[
                "native, s",
                "everypath trace, s",
                "everypath stats, s",
                "everypath pack, s",
            ]),
            times(),
        ]
        .concat(),
        &|row| {
            [
                seconds(&[row.native_s, row.trace_s, row.stats_s, row.pack_s]),
                of_times(&row.mcf),
            ]
            .concat()
        },
    );
    add(
        "mcfTRaptor, misprediction rates (6.5): gshare 4096, return-address stack 32, ibtb 64",
        rates_head(),
        &|row| of_rates(row.rates[0]),
    );
    add("mcfTRaptor, bytes (6.6)", sizes("raw"), &|row| {
        of_sizes(&row.raptor)
    });
    add("mcfTRaptor, time (6.7)", times(), &|row| {
        of_times(&row.raptor)
    });
    add(
        "mcfTRaptor, misprediction rates of the same predictors, shared (6.8)",
        rates_head(),
        &|row| of_rates(row.shared_rates),
    );
    add(
        "mcfTRaptor, bytes with shared predictors (6.9)",
        sizes("raw"),
        &|row| of_sizes(&row.shared),
    );
    let names = PREDICTORS.iter().flat_map(|(name, _)| {
        [
            format!("{name}: outcomes, %"),
            "targets, %".to_owned(),
            "bytes".to_owned(),
        ]
    });
    let title = "Other predictors: mispredictions, bytes of descriptors (large: tage 65536, return-address stack 256, ibtb-last 4096)";
    add(title, names.collect(), &predictors);
    add("Bits per instruction", bits_head(), &bits);
    text
}

/// A row of a table, whatever was measured.
pub trait Row {
    /// The program, and its number of threads.
    fn names(&self) -> (&str, u32);
}

impl Row for Measured {
    fn names(&self) -> (&str, u32) {
        (self.name, self.threads)
    }
}

/// A table with a row for each run; none if there are no runs.
pub fn table<R: Row>(
    title: &str,
    head: &[String],
    rows: &[R],
    cells: &dyn Fn(&R) -> Cells,
) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut text = format!("\n## {title}\n\n| program | N | {} |\n", head.join(" | "));
    text += &format!("|---|---:|{}\n", "---:|".repeat(head.len()));
    for row in rows {
        let cells = cells(row).join(" | ");
        let (name, threads) = row.names();
        text += &format!("| {name} | {threads} | {cells} |\n");
    }
    text
}

pub fn strings(texts: &[&str]) -> Cells {
    texts.iter().map(|&text| text.to_owned()).collect()
}

pub fn share(part: u64, all: u64) -> String {
    format!("{:.3}", part as f64 * 100.0 / all.max(1) as f64)
}

pub fn seconds(times: &[f64]) -> Cells {
    times.iter().map(|time| format!("{time:.2}")).collect()
}

fn number(row: &Measured, name: &str) -> u64 {
    row.stats[name].as_u64().unwrap_or(0)
}

fn classes(row: &Measured) -> Cells {
    let (insns, branches) = (number(row, "instructions"), number(row, "branches"));
    let kinds = [
        "unconditional_direct",
        "conditional_taken",
        "conditional_not_taken",
        "unconditional_indirect",
    ];
    let mut cells = vec![insns.to_string(), share(branches, insns)];
    cells.extend(kinds.map(|kind| share(number(row, kind), branches)));
    cells
}

pub fn of_sizes(sizes: &Sizes) -> Cells {
    let raw = sizes[0].0;
    let bytes = sizes.iter().map(|(bytes, _)| bytes.to_string());
    let ratios = sizes[1..]
        .iter()
        .map(|(bytes, _)| format!("{:.1}", raw as f64 / *bytes as f64));
    bytes.chain(ratios).collect()
}

pub fn of_times(sizes: &Sizes) -> Cells {
    seconds(&sizes.iter().map(|(_, time)| *time).collect::<Vec<_>>())
}

fn rates_head() -> Cells {
    strings(&[
        "conditional",
        "outcomes wrong, %",
        "indirect",
        "targets wrong, %",
    ])
}

fn of_rates(rates: Rates) -> Cells {
    let [all, wrong] = rates.outcomes;
    let [targets, missed] = rates.targets;
    vec![
        all.to_string(),
        share(wrong, all),
        targets.to_string(),
        share(missed, targets),
    ]
}

fn predictors(row: &Measured) -> Cells {
    let cells = row.rates.iter().flat_map(|rates| {
        let [all, wrong] = rates.outcomes;
        let [targets, missed] = rates.targets;
        [
            share(wrong, all),
            share(missed, targets),
            rates.bytes.to_string(),
        ]
    });
    cells.collect()
}

fn bits_head() -> Cells {
    let best = strings(&[
        "mcfTrace",
        "with bzip2",
        "with zstd",
        "mcfTRaptor",
        "with bzip2",
        "with zstd",
    ]);
    let ours = strings(&[
        "everypath's streams",
        "its whole file, code and names included",
        "packed streams",
        "packed file",
    ]);
    [best, ours].concat()
}

fn bits(row: &Measured) -> Cells {
    let at = |tool: &str| {
        1 + COMPRESSORS
            .iter()
            .position(|(name, _)| *name == tool)
            .unwrap_or(0)
    };
    let insns = number(row, "instructions").max(1) as f64;
    let sizes = [&row.mcf, &row.raptor]
        .into_iter()
        .flat_map(|sizes| [0, at("bzip2"), at("zstd")].map(|which| sizes[which].0));
    let ours = [row.streams, row.file, row.packed_streams, row.packed_file];
    let all = sizes.chain(ours);
    all.map(|bytes| format!("{:.4}", bytes as f64 * 8.0 / insns))
        .collect()
}
