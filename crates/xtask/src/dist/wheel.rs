//! The Python wheel: the command, and the module that reads its traces.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use super::{Release, run_command};

/// Builds the wheel by pip, which fetches maturin. What lies in `everypath.data/scripts` beside the
/// module's manifest is a command of the wheel.
pub fn build(release: &Release<'_>) -> Result<PathBuf> {
    let module = release.tree.root.join("crates/python");
    let data = module.join("everypath.data");
    fs::create_dir_all(data.join("scripts"))?;
    fs::copy(
        release.root.join("bin/everypath"),
        data.join("scripts/everypath"),
    )?;
    let folder = release.out.join("wheel");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir"]);
    pip.arg(&folder).arg(&module);
    pip.env("CARGO_PROFILE_RELEASE_DEBUG", "false");
    pip.env("CARGO_TARGET_DIR", release.tree.root.join("target"));
    let built = run_command(&mut pip);
    fs::remove_dir_all(&data)?;
    built.context("without pip and its registry: --no-wheel")?;
    let wheel = fs::read_dir(&folder)?.next();
    let wheel = wheel.context("pip made no wheel")??;
    let path = release.out.join(wheel.file_name());
    fs::rename(wheel.path(), &path)?;
    fs::remove_dir(&folder)?;
    Ok(path)
}
