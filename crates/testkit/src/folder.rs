//! A folder for one test of the product, and the product run in it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use analysis::walk::{Event, Pieces, Walk};
use trace::Thread;

use crate::build;

/// Seconds after which a run counts as killed.
const LIMIT: &str = "60";

/// The words that run a program of `tests/programs` as the oracle does, which is built.
#[must_use]
pub fn program(name: &str) -> Vec<String> {
    let programs = crate::program::repository().join("tests/programs");
    let programs = crate::program::discover(&programs).expect("they are there");
    let program = programs.iter().find(|program| program.name == name);
    let program = program.unwrap_or_else(|| panic!("there is no {name}"));
    let built = build::build(program, &build::cache_directory()).expect("it compiles");
    let directives = &program.directives;
    let args = directives.oracle_args.as_ref().unwrap_or(&directives.args);
    let executable = built.executable.to_str().expect("a plain name").to_owned();
    [vec![executable], args.clone()].concat()
}

/// Addresses of all instructions of a thread, of which all has to be known.
#[must_use]
pub fn addresses(pieces: &mut Pieces, thread: &Thread) -> Vec<u64> {
    let mut all = Vec::new();
    let mut walk = Walk::new(pieces, thread);
    while let Some(event) = walk.next() {
        if let Event::Executed(steps) = event.expect("it is sound") {
            all.extend(steps.iter().map(|step| step.pc));
        }
    }
    all
}

/// A folder of its own per test, gone at the end.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Among the temporary files; `name` says to a reader which test it is of.
    #[must_use]
    pub fn new(name: &str) -> Folder {
        Folder::within(&std::env::temp_dir(), name)
    }

    /// In `parent`, for what is large.
    #[must_use]
    pub fn within(parent: &Path, name: &str) -> Folder {
        static FOLDERS: AtomicU32 = AtomicU32::new(0);
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let process = std::process::id();
        let path = parent.join(format!("everypath-{name}-{process}-{number}"));
        std::fs::create_dir_all(&path).expect("the folder can be made");
        Folder(path)
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Path of the file of that name, which need not exist.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Compiles `source`, a file of the folder if its path is relative, to the program `name`.
    pub fn compile(&self, flags: &[&str], name: &str, source: impl AsRef<Path>) {
        let mut compiler = Command::new("cc");
        compiler.args(flags).args(["-o", name]).arg(source.as_ref());
        let status = compiler.current_dir(&self.0).status();
        assert!(status.expect("cc is installed (Debian: gcc)").success());
    }

    /// Writes `text` to `NAME.c` and compiles it.
    pub fn program(&self, flags: &[&str], name: &str, text: &str) {
        let source = format!("{name}.c");
        std::fs::write(self.file(&source), text).expect("the folder can be written");
        self.compile(flags, name, source);
    }

    /// Runs the binary `everypath` in the folder, with nothing to read and a time limit.
    #[must_use]
    pub fn run(&self, everypath: &str, arguments: &[&str]) -> Output {
        let mut command = Command::new("timeout");
        command.args(["--foreground", "--signal=KILL", LIMIT, everypath]);
        command.args(arguments).current_dir(&self.0);
        command.env("PATH", "/usr/bin:/bin").env("LC_ALL", "C");
        let output = command.stdin(Stdio::null()).output();
        output.expect("timeout is installed (Debian: coreutils)")
    }

    /// Message of the binary when it refuses the arguments.
    #[must_use]
    pub fn refused(&self, everypath: &str, arguments: &[&str]) -> String {
        let output = self.run(everypath, arguments);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(125), "{error}");
        error
    }
}

impl Drop for Folder {
    /// Removes the folder, unless the test failed: the failure may not come again.
    fn drop(&mut self) {
        match std::thread::panicking() {
            true => eprintln!("kept: {}", self.0.display()),
            false => std::fs::remove_dir_all(&self.0).expect("the folder is there"),
        }
    }
}
