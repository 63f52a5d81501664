//! A short soak: random programs of fixed seeds, natively and in every mode.
//!
//! `cargo xtask soak` is the long one. A failure names the seed; `cargo xtask
//! soak --seed S --programs 1` shows it again, keeps the program and reduces it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use testkit::soak::check::{Bench, Finding, modes};
use testkit::soak::generate::{Features, generate};
use testkit::{build, mode, pool, program};

/// The seeds of the short soak: all kinds of programs are among them.
const SEEDS: std::ops::Range<u64> = 1..13;
/// Two cores.
const WORKERS: usize = 2;

fn bench(product: PathBuf, folder: &str) -> Bench {
    Bench {
        product,
        folder: build::cache_directory().with_file_name(folder),
    }
}

fn everypath() -> PathBuf {
    mode::product(&program::repository()).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn random_programs_behave_as_natively() {
    let bench = bench(everypath(), "soak-test");
    let features = Features::of_this_cpu();
    let seeds: Vec<u64> = SEEDS.collect();
    let failures = pool::run(&seeds, WORKERS, |&seed| {
        let source = generate(seed, features);
        let text = source.text(&BTreeSet::new());
        match bench.check(&text, &modes(seed), source.shape.stepped) {
            Finding::Agrees(_) => None,
            other => Some(format!("seed {seed}: {other:?}")),
        }
    });
    let failures: Vec<String> = failures.into_iter().flatten().collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn the_same_seed_gives_the_same_program() {
    let features = Features {
        bits: true,
        avx: true,
        avx512: true,
    };
    let text = |seed| generate(seed, features).text(&BTreeSet::new());
    assert_eq!(text(7), text(7));
    assert_ne!(text(7), text(8));
}

/// A product that changes one character of what the program prints.
#[test]
fn a_product_that_is_wrong_is_found() {
    let folder = build::cache_directory().with_file_name("soak-wrong");
    std::fs::create_dir_all(&folder).expect("the build directory can be written");
    let wrong = folder.join("wrong");
    write_script(
        &wrong,
        "#!/bin/sh\nfor word; do program=$word; done\n$program | sed '2s/^./x/'\n",
    );
    let bench = bench(wrong, "soak-wrong");
    let source = generate(1, Features::of_this_cpu());
    let finding = bench.check(&source.text(&BTreeSet::new()), &modes(1), false);
    assert!(
        matches!(&finding, Finding::Diverges(it) if it.difference.starts_with("stdout, line 2")),
        "{finding:?}"
    );
}

fn write_script(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, text).expect("the build directory can be written");
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(path, executable).expect("it is our own file");
}
