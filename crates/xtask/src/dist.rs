//! `cargo xtask dist`: the packages that people install, in `target/dist`.
//!
//! Problem: a build of ours has 80 MB of line tables and needs the C library of the machine that made it; a user wants one
//! file, its manual pages and completions, and a way to remove them again.
//!
//! Approach: the command is built once, linked statically and stripped. Everything that is installed is laid out below one folder as it lies
//! below `/usr` (`bin`, `share`); the archive, the Debian package and the Python wheel are made of that folder. The commands that
//! make them are those of their systems (`tar`, `dpkg-deb`, `pip` with maturin).
//!
//! Invariants: the same commit and toolchain give the same files, but for the wheel (times of files are those of the commit); nothing is
//! written outside `target/`, but for a folder that maturin wants beside its crate, which is removed.
//!
//! Limits: x86-64 only, as Everypath is. The wheel's module, unlike its command, needs the C library of the machine that
//! builds it, or a newer one; pip refuses it elsewhere.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::ci::step;
use crate::tree::Tree;

mod debian;
mod licences;
mod wheel;

/// The target that has a static C library; naming it keeps the flags away from build scripts.
const TARGET: &str = "x86_64-unknown-linux-gnu";

#[derive(clap::Args)]
pub struct Options {
    /// Package this command, and build none.
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Folder of the packages.
    #[arg(long, value_name = "DIR", default_value = "target/dist")]
    out: PathBuf,
    /// Make no Python wheel, which needs pip and its registry.
    #[arg(long)]
    no_wheel: bool,
    /// Level of compression, 1 to 9; 0: as little as there is.
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u8).range(..=9))]
    level: u8,
}

/// The files that are packaged, and where the packages go.
struct Release<'a> {
    tree: &'a Tree,
    /// As `0.1.0`.
    version: String,
    /// Seconds since 1970 of the commit, as every file is dated.
    time: String,
    /// Level of compression of the archive and the Debian package.
    level: u8,
    /// Folder of the packages.
    out: PathBuf,
    /// Folder of what is installed, laid out as below `/usr`.
    root: PathBuf,
}

pub fn run(tree: &Tree, options: &Options) -> Result<()> {
    let built = match &options.binary {
        Some(binary) => tree.root.join(binary),
        None => step("build", || build(tree))?,
    };
    let out = tree.root.join(&options.out);
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let release = Release {
        tree,
        time: tree
            .git(&["log", "-1", "--format=%ct"])?
            .trim_end()
            .to_owned(),
        root: out.join(format!("everypath-{version}-x86_64-linux")),
        level: options.level,
        out,
        version,
    };
    release.lay_out(&built)?;
    let mut made = vec![release.archive()?, debian::package(&release)?];
    if !options.no_wheel {
        made.push(step("wheel", || wheel::build(&release))?);
    }
    for path in made {
        let size = fs::metadata(&path)?.len() as f64 / 1e6;
        let path = path.strip_prefix(&tree.root).unwrap_or(&path);
        println!("{size:6.1} MB  {}", path.display());
    }
    Ok(())
}

/// The command, static and stripped. Its own folder of results keeps the flags from rebuilding everything else.
fn build(tree: &Tree) -> Result<PathBuf> {
    let target = tree.root.join("target/dist/build");
    let mut cargo = tree.command("cargo");
    cargo.args(["build", "--quiet", "--release", "--locked", "--package=cli"]);
    cargo
        .args(["--target", TARGET, "--target-dir"])
        .arg(&target);
    // Names of this machine's folders are in no message of ours.
    let remap = format!("--remap-path-prefix={}=.", tree.root.display());
    cargo.env(
        "RUSTFLAGS",
        format!("-C target-feature=+crt-static {remap}"),
    );
    cargo.env("CARGO_PROFILE_RELEASE_DEBUG", "false");
    cargo.env("CARGO_PROFILE_RELEASE_STRIP", "symbols");
    run_command(&mut cargo)?;
    Ok(target.join(TARGET).join("release/everypath"))
}

impl Release<'_> {
    /// Fills [`Release::root`] with the command, what it prints about itself, and the documents.
    fn lay_out(&self, built: &Path) -> Result<()> {
        if self.root.exists() {
            fs::remove_dir_all(&self.root)
                .context("cannot empty the folder of the last packages")?;
        }
        let bin = self.folder("bin")?.join("everypath");
        fs::copy(built, &bin).with_context(|| format!("cannot copy {}", built.display()))?;
        fs::set_permissions(&bin, fs::Permissions::from_mode(0o755))?;
        let print = |words: &[&str]| output(Command::new(&bin).args(words));
        let man = self.folder("share/man/man1")?;
        fs::write(man.join("everypath.1"), print(&["man"])?)?;
        for command in commands(&String::from_utf8_lossy(&print(&["--help"])?)) {
            let page = man.join(format!("everypath-{command}.1"));
            fs::write(page, print(&["man", &command])?)?;
        }
        for (shell, path) in [
            ("bash", "share/bash-completion/completions/everypath"),
            ("zsh", "share/zsh/site-functions/_everypath"),
            ("fish", "share/fish/vendor_completions.d/everypath.fish"),
        ] {
            let path = self.root.join(path);
            fs::create_dir_all(path.parent().context("a folder is above it")?)?;
            fs::write(path, print(&["completions", shell])?)?;
        }
        let doc = self.folder("share/doc/everypath")?;
        let texts = ["README.md", "CHANGELOG.md", "SECURITY.md"];
        let licences = ["LICENSE-APACHE", "LICENSE-MIT"];
        let documents = self.tree.files("")?;
        let documents = documents.iter().map(String::as_str);
        let documents = documents.filter(|path| path.starts_with("docs/"));
        for path in texts.into_iter().chain(licences).chain(documents) {
            let copy = doc.join(path);
            fs::create_dir_all(copy.parent().context("a folder is above it")?)?;
            let copied = fs::copy(self.tree.root.join(path), copy);
            copied.with_context(|| format!("cannot copy {path}"))?;
        }
        fs::write(
            doc.join("LICENSES-OF-LIBRARIES"),
            licences::list(self.tree)?,
        )?;
        Ok(())
    }

    fn folder(&self, path: &str) -> Result<PathBuf> {
        let folder = self.root.join(path);
        fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    /// The archive, to be unpacked anywhere, or over `/usr/local` without its first folder.
    fn archive(&self) -> Result<PathBuf> {
        let name = self.root.file_name().context("the folder has a name")?;
        let path = self.out.join(format!("{}.tar.gz", name.to_string_lossy()));
        let mut tar = Command::new("tar");
        tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
        tar.arg(format!("--mtime=@{}", self.time));
        tar.arg(format!(
            "--use-compress-program=gzip -n{}",
            self.level.max(1)
        ));
        tar.arg("-C").arg(&self.out).arg("-cf").arg(&path).arg(name);
        run_command(&mut tar)?;
        Ok(path)
    }
}

/// Names of the commands, from the help of all.
fn commands(help: &str) -> Vec<String> {
    let list = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let rows = list.take_while(|line| !line.is_empty());
    let names = rows.filter_map(|row| row.split_whitespace().next());
    names
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

/// Runs a command that says itself what is wrong.
fn run_command(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.status();
    let status = status.with_context(|| format!("cannot run {program}"))?;
    if !status.success() {
        bail!("{program}: {status}");
    }
    Ok(())
}

/// Standard output of a command.
fn output(command: &mut Command) -> Result<Vec<u8>> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output();
    let output = output.with_context(|| format!("cannot run {program}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{program}: {} {}", output.status, said.trim());
    }
    Ok(output.stdout)
}
