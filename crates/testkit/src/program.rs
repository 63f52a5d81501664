//! The target programs: one source file per behaviour in a directory.

use std::path::{Path, PathBuf};

use crate::directive::{self, DirectiveError, Directives};

/// Languages a target program may be written in, by file extension.
const EXTENSIONS: &[&str] = &["c", "cc", "S", "rs", "go"];

/// One source file with its directives.
#[derive(Clone, Debug)]
pub struct Program {
    /// Name of the behaviour: the file name without extension.
    pub name: String,
    /// The source file.
    pub source: PathBuf,
    /// Its contents.
    pub text: String,
    /// Directives in its head comment.
    pub directives: Directives,
}

/// Why a directory of programs cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// The directory or a file in it cannot be read.
    #[error("cannot read {path}: {error}")]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// The operating system's reason.
        error: std::io::Error,
    },
    /// A bad head comment.
    #[error("{path}: {error}")]
    Directive {
        /// The source file.
        path: PathBuf,
        /// The error in it.
        error: DirectiveError,
    },
    /// A file that no test would use.
    #[error("{path} is neither a program nor a text file that belongs to one")]
    Stray {
        /// The file.
        path: PathBuf,
    },
}

/// The repository's root, as seen from this crate.
#[must_use]
pub fn repository() -> PathBuf {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    crate_dir
        .ancestors()
        .nth(2)
        .expect("crates/testkit lies two levels below the root")
        .to_owned()
}

/// All programs of `directory`, by name. `EVERYPATH_ONLY=name` leaves one.
pub fn discover(directory: &Path) -> Result<Vec<Program>, ProgramError> {
    let only = std::env::var("EVERYPATH_ONLY").ok();
    let read = |error| ProgramError::Read {
        path: directory.to_owned(),
        error,
    };
    let mut programs = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(read)? {
        let path = entry.map_err(read)?.path();
        let extension = path
            .extension()
            .and_then(|e| e.to_str())
            .unwrap_or_default();
        // Headers are what several programs include.
        if matches!(extension, "md" | "txt" | "h") {
            continue;
        }
        if !EXTENSIONS.contains(&extension) {
            return Err(ProgramError::Stray { path });
        }
        let program = load(path)?;
        if only.as_ref().is_none_or(|name| *name == program.name) {
            programs.push(program);
        }
    }
    programs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(programs)
}

/// Reads one source file.
pub fn load(path: PathBuf) -> Result<Program, ProgramError> {
    let text = std::fs::read_to_string(&path).map_err(|error| ProgramError::Read {
        path: path.clone(),
        error,
    })?;
    let directives = directive::parse(&text).map_err(|error| ProgramError::Directive {
        path: path.clone(),
        error,
    })?;
    let name = path
        .file_stem()
        .and_then(|stem| stem.to_str())
        .unwrap_or_default()
        .to_owned();
    Ok(Program {
        name,
        source: path,
        text,
        directives,
    })
}

/// The first of `needs` that this machine's CPU lacks.
#[must_use]
pub fn missing_feature(needs: &[String]) -> Option<String> {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = cpuinfo
        .lines()
        .find(|line| line.starts_with("flags"))
        .unwrap_or_default();
    needs
        .iter()
        .find(|need| !flags.split_whitespace().any(|flag| flag == *need))
        .cloned()
}
