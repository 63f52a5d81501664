//! The Debian package: the folder of what is installed, below `/usr`, with a control file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::{Release, run_command};

/// Builds the package, whose files are dated by the commit and belong to root.
pub fn package(release: &Release<'_>) -> Result<PathBuf> {
    let root = release.out.join("debian");
    if root.exists() {
        fs::remove_dir_all(&root).context("cannot empty the folder of the last Debian package")?;
    }
    fs::create_dir_all(root.join("DEBIAN"))?;
    copy(&release.root, &root.join("usr"))?;
    let doc = root.join("usr/share/doc/everypath");
    fs::write(doc.join("copyright"), COPYRIGHT)?;
    let mut gzip = Command::new("gzip");
    gzip.arg("-n9");
    for page in fs::read_dir(root.join("usr/share/man/man1"))? {
        gzip.arg(page?.path());
    }
    run_command(&mut gzip)?;
    // zsh of Debian looks for functions of packages there.
    let zsh = root.join("usr/share/zsh");
    fs::rename(zsh.join("site-functions"), zsh.join("vendor-completions"))?;
    let control = CONTROL
        .replace("VERSION", &release.version)
        .replace("SIZE", &kilobytes(&root.join("usr"))?.to_string());
    fs::write(root.join("DEBIAN/control"), control)?;
    let path = release
        .out
        .join(format!("everypath_{}_amd64.deb", release.version));
    let mut dpkg = Command::new("dpkg-deb");
    dpkg.env("SOURCE_DATE_EPOCH", &release.time);
    dpkg.arg("--root-owner-group");
    match release.level {
        0 => dpkg.arg("-Znone"),
        level => dpkg.args(["-Zxz".to_owned(), format!("-z{level}")]),
    };
    dpkg.arg("--build");
    dpkg.stdout(std::process::Stdio::null());
    run_command(dpkg.arg(&root).arg(&path))?;
    fs::remove_dir_all(&root)?;
    Ok(path)
}

const CONTROL: &str = "\
Package: everypath
Version: VERSION
Architecture: amd64
Maintainer: The founders of Everypath <everypath@localhost>
Installed-Size: SIZE
Section: devel
Priority: optional
Recommends: libc6-dbg
Description: exact call paths, branches and memory accesses of programs
 Everypath runs an unmodified x86-64 Linux program under a binary
 translator and tells exactly what it did: every call in its calling
 context, every branch, every memory access, of all threads and child
 processes. No recompiling, no sampling, no debug hardware.
";

const COPYRIGHT: &str = "\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: everypath

Files: *
Copyright: the founders of Everypath
License: Apache-2.0 or MIT
 The texts are in /usr/share/doc/everypath, LICENSE-APACHE and LICENSE-MIT;
 those of the libraries that the command is linked with are named in
 LICENSES-OF-LIBRARIES.
";

/// Copies a folder with all that is in it.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy(&entry.path(), &to)?,
            false => fs::copy(entry.path(), to).map(|_| ())?,
        }
    }
    Ok(())
}

/// Size of a folder's files, each rounded up.
fn kilobytes(folder: &Path) -> Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        sum += match entry.file_type()?.is_dir() {
            true => kilobytes(&entry.path())?,
            false => entry.metadata()?.len().div_ceil(1024),
        };
    }
    Ok(sum)
}
