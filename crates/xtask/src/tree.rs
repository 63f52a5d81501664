//! The files of the checkout, as the checks see them: tracked by git or new
//! and not ignored.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The checkout this binary was built from.
pub struct Tree {
    pub root: PathBuf,
}

impl Tree {
    /// Finds the checkout from the place of this crate's manifest.
    pub fn find() -> Result<Tree> {
        let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
            .context("xtask is started by `cargo xtask`, which sets CARGO_MANIFEST_DIR")?;
        let root = Path::new(&manifest).ancestors().nth(2);
        let root = root.context("the xtask crate lies two levels below the root")?;
        Ok(Tree {
            root: root.to_path_buf(),
        })
    }

    /// Runs cargo in the checkout; an error unless it succeeds.
    pub fn cargo(&self, arguments: impl IntoIterator<Item: AsRef<OsStr>>) -> Result<()> {
        let mut cargo = self.command("cargo");
        cargo.args(arguments);
        let status = cargo.status().context("cannot run cargo")?;
        if !status.success() {
            let words: Vec<_> = cargo.get_args().map(OsStr::to_string_lossy).collect();
            bail!("cargo {}: {status}", words.join(" "));
        }
        Ok(())
    }

    /// A command in the checkout; `cargo` is the one that started this program.
    pub fn command(&self, program: &str) -> Command {
        let cargo = std::env::var_os("CARGO").filter(|_| program == "cargo");
        let mut command = Command::new(cargo.unwrap_or_else(|| OsString::from(program)));
        command.current_dir(&self.root);
        command
    }

    /// Standard output of a git command; an error unless it succeeds.
    pub fn git(&self, arguments: &[&str]) -> Result<String> {
        let output = self.command("git").args(arguments).output();
        let output = output.context("cannot run git")?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("git {}: {}", arguments.join(" "), said.trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs a script of the tree.
    pub fn script(&self, path: &str) -> Result<()> {
        let mut script = Command::new(self.root.join(path));
        let status = script.current_dir(&self.root).status();
        let status = status.with_context(|| format!("cannot run {path}"))?;
        if !status.success() {
            bail!("{path}: {status}");
        }
        Ok(())
    }

    /// Paths relative to the root of all files whose name ends in `suffix`, sorted.
    pub fn files(&self, suffix: &str) -> Result<Vec<String>> {
        let words = ["ls-files", "--cached", "--others", "--exclude-standard"];
        let output = self.git(&words)?;
        let mut files: Vec<String> = output
            .lines()
            .filter(|name| name.ends_with(suffix) && self.root.join(name).is_file())
            .map(str::to_owned)
            .collect();
        files.sort();
        files.dedup();
        Ok(files)
    }

    pub fn read(&self, relative: &str) -> Result<String> {
        std::fs::read_to_string(self.root.join(relative))
            .with_context(|| format!("cannot read {relative}"))
    }
}
