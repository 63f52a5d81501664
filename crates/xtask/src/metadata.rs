//! Names and direct dependencies of the crates of this tree, from cargo.

use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::tree::Tree;

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

/// One crate of the tree.
#[derive(Debug, Deserialize)]
pub struct Package {
    pub name: String,
    pub dependencies: Vec<Dependency>,
}

/// One line of a crate's dependency tables.
#[derive(Debug, Deserialize)]
pub struct Dependency {
    pub name: String,
    /// `None`: normal; `Some("build")`; `Some("dev")`.
    pub kind: Option<String>,
    /// Set when the dependency is a crate of this tree.
    pub path: Option<String>,
}

impl Dependency {
    /// Whether it is only for tests, which may reach everywhere.
    pub fn is_dev(&self) -> bool {
        self.kind.as_deref() == Some("dev")
    }
}

/// All crates under `crates/`, also those that are not workspace members.
pub fn packages(tree: &Tree) -> Result<Vec<Package>> {
    let mut packages = query(tree, "Cargo.toml")?;
    for manifest in tree.files("/Cargo.toml")? {
        let mut parts = manifest.split('/');
        let (Some("crates"), Some(directory), Some("Cargo.toml")) =
            (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        if !packages.iter().any(|package| package.name == directory) {
            packages.extend(query(tree, &manifest)?);
        }
    }
    packages.sort_by(|a, b| a.name.cmp(&b.name));
    packages.dedup_by(|a, b| a.name == b.name);
    Ok(packages)
}

fn query(tree: &Tree, manifest: &str) -> Result<Vec<Package>> {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args([
            "metadata",
            "--no-deps",
            "--format-version=1",
            "--manifest-path",
        ])
        .arg(tree.root.join(manifest))
        .output()
        .context("cannot run cargo metadata")?;
    if !output.status.success() {
        bail!(
            "cargo metadata {manifest}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    let metadata: Metadata = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("cargo metadata {manifest} printed something unexpected"))?;
    Ok(metadata.packages)
}
