//! Installs the Debian packages that the tests need, so that a fresh machine needs no other set-up
//! than the command that runs the tests.
//!
//! On Debian (or a system made of it) as root it says what it installs and does it. Elsewhere, or
//! with `--no-install`, it says what is missing and how to get it; the tests that need it are then
//! left out and counted, never failed and never silent.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::needs::{self, PACKAGES};
use crate::tree::Tree;

/// Result of the installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Installed {
    Everything,
    /// Some tests have to be left out.
    NotAll,
}

/// Installs what is missing, unless it may not.
pub fn run(tree: &Tree, may_install: bool) -> Result<Installed> {
    let installed = match installed_packages() {
        Some(installed) => debian(&installed, may_install)?,
        None => {
            let list = wanted().join(" ");
            eprintln!(
                "install: this is not Debian, so install what the tests need by hand; \
                 in Debian's names: {list}"
            );
            Installed::NotAll
        }
    };
    let may_install = may_install && installed == Installed::Everything;
    match consumers(tree, may_install)? {
        Installed::Everything => Ok(installed),
        Installed::NotAll => Ok(Installed::NotAll),
    }
}

/// Installs the missing ones of the packages, and then those whose names depend on these.
fn debian(installed: &BTreeSet<String>, may_install: bool) -> Result<Installed> {
    let mut missing = wanted();
    missing.extend(test_suite());
    missing.retain(|package| !installed.contains(package));
    if missing.is_empty() {
        return Ok(Installed::Everything);
    }
    let (count, list) = (missing.len(), missing.join(" "));
    if !may_install || !is_root() {
        eprintln!("install: {count} packages are missing; as root: apt-get install {list}");
        return Ok(Installed::NotAll);
    }
    eprintln!("install: {count} Debian packages that the tests use:");
    for group in PACKAGES {
        let of_group = group
            .packages
            .iter()
            .filter(|name| missing.iter().any(|it| it == *name));
        let names: Vec<&str> = of_group.copied().collect();
        if !names.is_empty() {
            eprintln!("install:   {}: {}", group.why, names.join(" "));
        }
    }
    apt_get(&["update".to_owned()])?;
    install(&missing)?;
    // Python may have come with them.
    install(&test_suite().into_iter().collect::<Vec<_>>())?;
    Ok(Installed::Everything)
}

fn wanted() -> Vec<String> {
    let packages = PACKAGES.iter().flat_map(|group| group.packages);
    packages.map(|&package| package.to_owned()).collect()
}

/// CPython's own tests; the package has the version in its name.
fn test_suite() -> Option<String> {
    let python = std::fs::read_link("/usr/bin/python3").ok()?;
    let name = python.file_name()?.to_str()?;
    Some(format!("lib{name}-testsuite"))
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0)
}

/// Packages that dpkg has as installed; `None` if there is no dpkg.
fn installed_packages() -> Option<BTreeSet<String>> {
    let mut dpkg = Command::new("dpkg-query");
    dpkg.args(["--show", "--showformat=${Package} ${Status}\\n"]);
    let output = dpkg.stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let installed = text
        .lines()
        .filter_map(|line| line.strip_suffix(" install ok installed"));
    Some(installed.map(str::to_owned).collect())
}

fn install(packages: &[String]) -> Result<()> {
    let words = ["install", "--yes", "--no-install-recommends"].map(str::to_owned);
    apt_get(&[&words[..], packages].concat())
}

fn apt_get(words: &[String]) -> Result<()> {
    let mut apt = Command::new("apt-get");
    apt.args(words).env("DEBIAN_FRONTEND", "noninteractive");
    let status = apt
        .stdin(Stdio::null())
        .status()
        .context("cannot run apt-get")?;
    if !status.success() {
        bail!(
            "apt-get {}: {status}; --no-install runs what is possible without",
            words[0]
        );
    }
    Ok(())
}

/// The readers of profiles, which come from npm.
fn consumers(tree: &Tree, may_install: bool) -> Result<Installed> {
    if may_install {
        if !needs::is_there("npm") {
            // Debian's nodejs comes without npm, which is a package of its own.
            install(&["npm".to_owned()])?;
        }
        tree.script("tests/consumers/install")?;
        return Ok(Installed::Everything);
    }
    match needs::is_there(needs::CONSUMERS) {
        true => Ok(Installed::Everything),
        false => {
            eprintln!("install: the readers of profiles are missing (tests/consumers/install)");
            Ok(Installed::NotAll)
        }
    }
}
