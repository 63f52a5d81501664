//! Compiles target programs on demand.
//!
//! Problem: a hundred small programs are tested by several test binaries, and
//! should be compiled once, not once per test run.
//! Approach: each program gets a directory of its own, named by a hash of its
//! source, with the headers beside it, and its directives; a directory is complete when it has its final
//! name, because it is built under a temporary name and renamed.
//! Limits: a newer compiler is not noticed; remove the directory then.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::program::{Program, missing_feature};

/// A compiled program, in a directory of its own.
#[derive(Clone, Debug)]
pub struct Built {
    /// Working directory of its runs; holds the parts too.
    pub directory: PathBuf,
    /// The executable.
    pub executable: PathBuf,
}

/// Why a program could not be compiled.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The compiler is not installed or cannot be started.
    #[error("cannot start `{compiler}` for {program}: {error}; is it installed?")]
    Compiler {
        /// The compiler's name.
        compiler: String,
        /// The program.
        program: String,
        /// The operating system's reason.
        error: std::io::Error,
    },
    /// The compiler refused the source.
    #[error("`{command}` failed for {program}:\n{messages}")]
    Refused {
        /// The whole command.
        command: String,
        /// The program.
        program: String,
        /// Messages of the compiler.
        messages: String,
    },
    /// The build directory cannot be written.
    #[error("cannot write {path}: {error}")]
    Write {
        /// The directory.
        path: PathBuf,
        /// The operating system's reason.
        error: std::io::Error,
    },
}

/// Directory of built programs, beside the other products of this build.
#[must_use]
pub fn cache_directory() -> PathBuf {
    let test_binary = std::env::current_exe().unwrap_or_default();
    let target = test_binary
        .ancestors()
        .find(|dir| dir.join("CACHEDIR.TAG").exists());
    target
        .unwrap_or(&std::env::temp_dir())
        .join("test-programs")
}

/// A program to run, or why there is none on this machine.
#[derive(Clone, Debug)]
pub enum Ready {
    Built(Built),
    /// The processor lacks a feature; or, where the run allows that, the compiler is not installed.
    Missing(String),
}

/// Compiles `program` as [`build`] does, if this machine has what it needs.
pub fn ready(program: &Program, cache: &Path) -> Result<Ready, String> {
    if let Some(feature) = missing_feature(&program.directives.needs) {
        return Ok(Ready::Missing(format!("this CPU has no {feature}")));
    }
    match build(program, cache) {
        Ok(built) => Ok(Ready::Built(built)),
        Err(BuildError::Compiler { compiler, .. }) if may_lack_tools() => {
            Ok(Ready::Missing(format!("{compiler} is not installed")))
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Whether a job may be left out because a tool is not installed (`EVERYPATH_ALLOW_MISSING`, which
/// `cargo xtask ci` sets where it cannot install).
#[must_use]
pub fn may_lack_tools() -> bool {
    std::env::var_os("EVERYPATH_ALLOW_MISSING").is_some()
}

/// Compiles `program` below `cache` unless that was done before.
pub fn build(program: &Program, cache: &Path) -> Result<Built, BuildError> {
    let directory = cache.join(format!("{}-{:016x}", program.name, hash(program)));
    let built = Built {
        executable: directory.join(&program.name),
        directory,
    };
    if built.executable.exists() {
        return Ok(built);
    }
    // Several threads may build the same program at once.
    static BUILDS: AtomicU32 = AtomicU32::new(0);
    let turn = BUILDS.fetch_add(1, Ordering::Relaxed);
    let process = std::process::id();
    let temporary = cache.join(format!("{}.{process}.{turn}", program.name));
    let write = |error| BuildError::Write {
        path: temporary.clone(),
        error,
    };
    std::fs::create_dir_all(&temporary).map_err(write)?;
    compile(
        program,
        &program.directives.build,
        &temporary.join(&program.name),
    )?;
    for part in &program.directives.parts {
        compile(program, &part.command, &temporary.join(&part.output))?;
    }
    if let Err(error) = std::fs::rename(&temporary, &built.directory) {
        // Another test binary was faster: its result is as good.
        if !built.executable.exists() {
            return Err(write(error));
        }
        std::fs::remove_dir_all(&temporary).map_err(write)?;
    }
    Ok(built)
}

fn hash(program: &Program) -> u64 {
    let mut hasher = DefaultHasher::new();
    program.text.hash(&mut hasher);
    let included = program.text.lines().filter_map(|line| {
        let name = line.strip_prefix("#include \"")?.strip_suffix('"')?;
        std::fs::read(program.source.with_file_name(name)).ok()
    });
    included.for_each(|header| header.hash(&mut hasher));
    hasher.finish()
}

/// Runs one compiler. Libraries (`-l…`) go behind the source, where a linker
/// that drops unneeded ones wants them.
fn compile(program: &Program, command: &[String], output: &Path) -> Result<(), BuildError> {
    let (libraries, flags): (Vec<_>, Vec<_>) =
        command[1..].iter().partition(|flag| flag.starts_with("-l"));
    let mut compiler = Command::new(&command[0]);
    compiler
        .args(flags)
        .arg("-o")
        .arg(output)
        .arg(&program.source)
        .args(libraries);
    let result = compiler.output().map_err(|error| BuildError::Compiler {
        compiler: command[0].clone(),
        program: program.name.clone(),
        error,
    })?;
    if result.status.success() {
        return Ok(());
    }
    Err(BuildError::Refused {
        command: command.join(" "),
        program: program.name.clone(),
        messages: String::from_utf8_lossy(&result.stderr).into_owned(),
    })
}
