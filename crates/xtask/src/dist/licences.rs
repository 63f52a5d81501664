//! Licences of the libraries that are linked into the command.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::output;
use crate::tree::Tree;

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    repository: Option<String>,
    /// None: a crate of this tree.
    source: Option<String>,
}

/// A line for each library, with its version, licence and place.
pub fn list(tree: &Tree) -> Result<String> {
    let mut tree_command = tree.command("cargo");
    let words = "tree --locked --package=cli --edges=normal --prefix=none --format={p}";
    tree_command.args(words.split(' '));
    let linked = String::from_utf8(output(&mut tree_command)?).context("cargo tree")?;
    let mut cargo = tree.command("cargo");
    cargo.args(["metadata", "--format-version=1", "--locked"]);
    let metadata = output(&mut cargo)?;
    let metadata: Metadata =
        serde_json::from_slice(&metadata).context("cargo metadata printed something unexpected")?;
    let known: BTreeMap<(&str, String), &Package> = metadata
        .packages
        .iter()
        .filter(|package| package.source.is_some())
        .map(|package| {
            (
                (package.name.as_str(), format!("v{}", package.version)),
                package,
            )
        })
        .collect();
    let mut rows = BTreeMap::new();
    for line in linked.lines() {
        let mut words = line.split_whitespace();
        let (Some(name), Some(version)) = (words.next(), words.next()) else {
            continue;
        };
        let Some(package) = known.get(&(name, version.to_owned())) else {
            continue;
        };
        let licence = package.license.as_deref().unwrap_or("see its repository");
        let place = package.repository.as_deref().unwrap_or("");
        rows.insert((name, version), format!("{licence}  {place}"));
    }
    let mut text = String::from(
        "Everypath is licensed under Apache-2.0 or MIT, at your option. The command is linked with these libraries:\n\n\
         GNU C Library  LGPL-2.1-or-later  (linked statically; the sources of Everypath link it anew)\n",
    );
    for ((name, version), rest) in rows {
        writeln!(text, "{name} {version}  {rest}")?;
    }
    Ok(text)
}
