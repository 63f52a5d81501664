//! Random instances of instructions in some modes; `cargo xtask instances` runs more of them
//! in all.
//!
//! The seed is fixed and printed; `EVERYPATH_SEED=n` gives others.

use testkit::instances::check::{Bench, missing_feature};
use testkit::instances::{make, reduce};
use testkit::jobs::{self, Done};
use testkit::mode::Mode;
use testkit::{build, mode, program};

/// Modes whose emitted code differs.
const MODES: &[&str] = &[
    "run",
    "run chaos 3",
    "instructions",
    "count",
    "contexts",
    "intra chaos 3",
    "trace",
];
const SEED: u64 = 1;
const COUNT: usize = 12_000;
/// Kind of comparison, in the ledger.
const KIND: &str = "instances of instructions";
/// Instances of a mode that are made smaller.
const SHOWN: usize = 4;

pub fn run() -> Result<(), String> {
    if let Some(feature) = missing_feature()? {
        let why = format!("this CPU has no {feature}");
        let name = |_: &()| "instances".to_owned();
        return jobs::run(&[()], KIND, 0, name, |()| Ok(Done::Missing(why.clone())));
    }
    a_wrong_product_is_found()?;
    random_instances()
}

fn random_instances() -> Result<(), String> {
    let product = mode::product(&program::repository()).map_err(|error| error.to_string())?;
    let bench = Bench::new(product, build::cache_directory().join("instances"))?;
    let seed = match std::env::var("EVERYPATH_SEED") {
        Ok(text) => text.parse().map_err(|_| format!("{text}: no number"))?,
        Err(_) => SEED,
    };
    println!("EVERYPATH_SEED={seed}");
    let all = make::instances(seed, COUNT);
    let modes = mode::named(MODES);
    let name = |mode: &Mode| mode.name.to_owned();
    jobs::run(&modes, KIND, 0, name, |mode| {
        let findings = bench.check(&all, mode)?;
        let reports = findings.iter().take(SHOWN);
        let reports = reports.map(|finding| reduce::report(&bench, &all, finding, mode));
        let reports: Vec<String> = reports.collect::<Result<_, _>>()?;
        match findings.len() {
            0 => Ok(Done::Compared(all.len(), String::new())),
            n => Err(format!("{n} instances differ\n{}", reports.join("\n"))),
        }
    })
}

/// A product that changes one character of what the runner prints, and one that stops there.
fn a_wrong_product_is_found() -> Result<(), String> {
    let folder = build::cache_directory().join("instances-wrong");
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let all = make::instances(SEED, 20);
    let mode = &mode::MODES[0];
    let scripts = [
        ("alters", "sed '8s/.$/x/'"),
        ("stops", "sed '8,$d'; exit 3"),
    ];
    for (name, filter) in scripts {
        let product = folder.join(name);
        let text = format!(
            "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done; shift\n\"$@\" | {filter}\n"
        );
        write_script(&product, &text)?;
        let bench = Bench::new(product, folder.clone())?;
        let found = bench.check(&all, mode)?;
        if found.first().map(|finding| finding.number) != Some(7) {
            return Err(format!("a product that {name}: {found:?}"));
        }
        println!("ok      a product that {name} is found");
    }
    Ok(())
}

fn write_script(path: &std::path::Path, text: &str) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt;
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::write(path, text)
        .and_then(|()| std::fs::set_permissions(path, executable))
        .map_err(|error| error.to_string())
}
