//! The workloads: benches/workloads.toml, or another such file, as types.

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::tree::Tree;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    workload: Vec<Workload>,
}

/// One program with its input.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    pub name: String,
    /// Property that makes it hard for a translator.
    pub stresses: String,
    /// Shell lines that make the input, run once in the workload's own folder.
    /// `$PROGRAMS` is the folder benches/programs, `$SHARED` is common to all.
    #[serde(default)]
    pub setup: Vec<String>,
    /// Program and arguments; the program is looked up in PATH.
    pub command: Vec<String>,
    /// File for standard input.
    pub stdin: Option<String>,
    /// Above 1: start-up is measured, as milliseconds per run over native.
    #[serde(default = "once")]
    pub repeat: u32,
}

fn once() -> u32 {
    1
}

impl Workload {
    pub fn is_startup(&self) -> bool {
        self.repeat > 1
    }
}

/// The workloads of a file of the repository.
pub fn load(tree: &Tree, file: &str) -> Result<Vec<Workload>> {
    parse(&tree.read(file)?).with_context(|| file.to_owned())
}

fn parse(text: &str) -> Result<Vec<Workload>> {
    let file: File = toml::from_str(text)?;
    Ok(file.workload)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_files_are_well_formed() {
        let all = parse(include_str!("../../../../benches/workloads.toml")).expect("it parses");
        assert!(all.iter().filter(|workload| !workload.is_startup()).count() >= 12);
        let jits = parse(include_str!("../../../../benches/jits.toml")).expect("it parses");
        let blocks = parse(include_str!("../../../../benches/blocks.toml")).expect("it parses");
        let threads = parse(include_str!("../../../../benches/threads.toml")).expect("it parses");
        let edited = parse(include_str!("../../../../benches/edited.toml")).expect("it parses");
        assert!(!blocks.is_empty() && !threads.is_empty() && !edited.is_empty());
        let all: Vec<Workload> = all.into_iter().chain(jits).collect();
        for (index, workload) in all.iter().enumerate() {
            assert!(
                !workload.command.is_empty(),
                "{} has no command",
                workload.name
            );
            assert!(all[..index].iter().all(|other| other.name != workload.name));
        }
    }
}
