//! Memory operands of `isa`, held against the processor by page protection.
//!
//! The seed is fixed and printed; `EVERYPATH_SEED=n` gives others.

use testkit::build;
use testkit::instances::accesses;
use testkit::instances::check::missing_feature;
use testkit::jobs::{self, Done};
use testkit::scope::Scope;

const SEED: u64 = 1;
/// Instructions that are drawn, by scope: for an edit, for the gate, in `wide`.
const COUNTS: [(Scope, usize); 3] = [
    (Scope::Check, 5_000),
    (Scope::Gate, 40_000),
    (Scope::Wide, 1_000_000),
];
/// Per cent of them that must be executed without a fault, or the test says nothing.
const LEAST_PERCENT: usize = 80;
/// Instructions of one run of the program.
const BATCH: usize = 40_000;
/// Kind of comparison, in the ledger.
const KIND: &str = "accesses of instructions";
/// Differences that are shown.
const SHOWN: usize = 40;

pub fn run() -> Result<(), String> {
    let name = |_: &()| "accesses".to_owned();
    jobs::run(&[()], KIND, 0, name, |()| {
        if let Some(feature) = missing_feature()? {
            return Ok(Done::Missing(format!("this CPU has no {feature}")));
        }
        if !is_measured()? {
            let why = "masked forms were measured on AMD processors only (docs/design/0036)";
            return Ok(Done::Missing(why.to_owned()));
        }
        let seed = match std::env::var("EVERYPATH_SEED") {
            Ok(text) => text.parse().map_err(|_| format!("{text}: no number"))?,
            Err(_) => SEED,
        };
        println!("EVERYPATH_SEED={seed}");
        let scope = Scope::current();
        let count = COUNTS
            .iter()
            .find(|(of, _)| *of == scope)
            .map_or(0, |(_, count)| *count);
        let mut found = accesses::Found::default();
        let mut done = 0;
        while done < count {
            // Results are two kilobytes each.
            let next = BATCH.min(count - done);
            let cases = accesses::cases(seed + done as u64, next);
            let more = accesses::check(&cases, &build::cache_directory().join("accesses"))?;
            found.compared += more.compared;
            found.forms.extend(more.forms);
            found.differences.extend(more.differences);
            done += next;
        }
        if !found.differences.is_empty() {
            let shown: Vec<&str> = found
                .differences
                .iter()
                .take(SHOWN)
                .map(String::as_str)
                .collect();
            let count = found.differences.len();
            return Err(format!(
                "{count} of {} differ\n{}",
                found.compared,
                shown.join("\n")
            ));
        }
        match found.compared < count / 100 * LEAST_PERCENT {
            true => Err(format!(
                "only {} instructions were executed",
                found.compared
            )),
            false => Ok(Done::Compared(
                found.compared,
                format!(" ({} forms)", found.forms.len()),
            )),
        }
    })
}

/// Whether the processor is of the kind that the table was measured on: how much is read under a
/// mask is not the same everywhere.
fn is_measured() -> Result<bool, String> {
    let known = std::fs::read_to_string("/proc/cpuinfo").map_err(|error| error.to_string())?;
    let mut lines = known.lines();
    Ok(lines.any(|line| line.starts_with("vendor_id") && line.ends_with("AuthenticAMD")))
}
