//! The packages that `cargo xtask dist` makes are installed, used and removed as their systems do it.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use testkit::folder::Folder;

use crate::BINARY;

/// Runs `cargo xtask dist` into the folder.
fn dist(folder: &Folder, words: &[&str]) {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args([
        "run", "-q", "--locked", "-p", "xtask", "--", "dist", "--out",
    ]);
    // With it, which the gate sets for its tests, xtask would be built anew.
    cargo.env_remove("RUSTC_BOOTSTRAP");
    succeed(cargo.arg(folder.file("dist")).args(words));
}

fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The package with this end of its name.
fn package(folder: &Folder, end: &str) -> String {
    let files = std::fs::read_dir(folder.file("dist")).unwrap();
    let names = files.map(|file| file.unwrap().path().to_str().unwrap().to_owned());
    let found: Vec<String> = names.filter(|name| name.ends_with(end)).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    found[0].clone()
}

/// Paths of all files below a folder, as lines from there.
fn files(folder: &Path) -> BTreeSet<String> {
    let text = succeed(
        Command::new("find")
            .current_dir(folder)
            .args([".", "-not", "-type", "d"]),
    );
    text.lines().map(str::to_owned).collect()
}

/// Installs the Debian package below a root folder, runs it there and removes it.
fn install_and_remove(folder: &Folder) {
    let root = folder.file("root");
    for path in ["info", "updates"] {
        std::fs::create_dir_all(root.join("var/lib/dpkg").join(path)).unwrap();
    }
    std::fs::write(root.join("var/lib/dpkg/status"), "").unwrap();
    let dpkg = |words: &[&str]| {
        // Others than root install as root of a namespace of their own.
        let mut command = match rustix::process::geteuid().is_root() {
            true => Command::new("dpkg"),
            false => {
                let mut command = Command::new("unshare");
                command.args(["--user", "--map-root-user", "dpkg"]);
                command
            }
        };
        command.arg(format!("--root={}", root.display()));
        succeed(command.args(words));
    };
    dpkg(&["--install", &package(folder, ".deb")]);
    let installed = files(&root.join("usr"));
    for path in [
        "./bin/everypath",
        "./share/man/man1/everypath.1.gz",
        "./share/man/man1/everypath-contexts.1.gz",
        "./share/bash-completion/completions/everypath",
        "./share/zsh/vendor-completions/_everypath",
        "./share/fish/vendor_completions.d/everypath.fish",
        "./share/doc/everypath/copyright",
        "./share/doc/everypath/LICENSE-APACHE",
        "./share/doc/everypath/docs/limits.md",
    ] {
        assert!(installed.contains(path), "{path}: {installed:?}");
    }
    let help = succeed(Command::new(root.join("usr/bin/everypath")).arg("--help"));
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands = commands.take_while(|line| !line.is_empty());
    for command in commands.map(|line| line.split_whitespace().next().unwrap()) {
        let page = format!("./share/man/man1/everypath-{command}.1.gz");
        assert!(command == "help" || installed.contains(&page), "{page}");
    }
    dpkg(&["--purge", "everypath"]);
    assert!(!root.join("usr").exists(), "{:?}", files(&root));
}

/// Unpacks the archive and counts the calls of a program with what was in it.
fn unpack_and_use(folder: &Folder) {
    let mut tar = Command::new("tar");
    tar.arg("-C").arg(folder.path()).arg("-xf");
    succeed(tar.arg(package(folder, ".tar.gz")));
    let name = format!("everypath-{}-x86_64-linux", env!("CARGO_PKG_VERSION"));
    let command = folder.file(&name).join("bin/everypath");
    let output = Command::new(command)
        .args(["contexts", "--", "echo", "hello"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(output.stdout, b"hello\n");
    let report = String::from_utf8(output.stderr).unwrap();
    assert!(
        report.starts_with("everypath contexts: echo hello\n"),
        "{report}"
    );
}

#[test]
fn packages_are_installed_used_and_removed() {
    let folder = Folder::new("packages");
    let stripped = folder.file("everypath");
    succeed(Command::new("strip").arg("-o").arg(&stripped).arg(BINARY));
    let binary = stripped.to_str().unwrap();
    dist(&folder, &["--no-wheel", "--level=0", "--binary", binary]);
    install_and_remove(&folder);
    unpack_and_use(&folder);
}

#[test]
#[ignore = "wide: builds everything anew, and fetches maturin"]
fn a_release_needs_no_library() {
    let folder = Folder::new("release");
    dist(&folder, &[]);
    install_and_remove(&folder);
    unpack_and_use(&folder);
    let command = format!(
        "dist/everypath-{}-x86_64-linux/bin/everypath",
        env!("CARGO_PKG_VERSION")
    );
    let command = folder.file(&command);
    let headers = succeed(Command::new("readelf").arg("-lS").arg(command));
    assert!(!headers.contains("INTERP"), "{headers}");
    assert!(!headers.contains(".debug_line"), "{headers}");
    let venv = folder.file("venv");
    succeed(Command::new("python3").args(["-m", "venv"]).arg(&venv));
    let mut pip = Command::new(venv.join("bin/pip"));
    pip.args(["install", "--quiet", "--no-index"]);
    succeed(pip.arg(package(&folder, ".whl")));
    let trace = folder.file("run.evp");
    let mut traced = Command::new(venv.join("bin/everypath"));
    traced.args(["trace", "-q", "-o"]).arg(&trace);
    succeed(traced.args(["--", "true"]));
    let count = "import everypath, sys; print(sum(t.count() for t in everypath.open(sys.argv[1]).threads) > 1000)";
    let mut python = Command::new(venv.join("bin/python"));
    assert_eq!(succeed(python.args(["-c", count]).arg(&trace)), "True\n");
}
