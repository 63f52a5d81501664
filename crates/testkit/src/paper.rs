//! Expected forests of the programs in `tests/paper`, as text beside them.
//!
//! `NAME.expect.txt` holds cases. A case begins with `# options: …`, the
//! options of `everypath contexts` that give its forests; the forests follow
//! in the paper's layout. Lines that begin with `#` otherwise are remarks.

use std::path::Path;

use crate::tree::{self, ParseError, Section};

/// One set of options with the forests they give.
#[derive(Clone, Debug)]
pub struct Case {
    /// Options of `everypath contexts`.
    pub options: Vec<String>,
    /// Every forest printed, in order.
    pub sections: Vec<Section>,
}

impl Case {
    /// Whether `option` is given.
    #[must_use]
    pub fn has(&self, option: &str) -> bool {
        self.options.iter().any(|given| given == option)
    }

    /// The word after `option`.
    #[must_use]
    pub fn value(&self, option: &str) -> Option<&str> {
        let position = self.options.iter().position(|given| given == option)?;
        self.options.get(position + 1).map(String::as_str)
    }
}

/// Why expectations cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum PaperError {
    /// The file cannot be read.
    #[error("cannot read {path}: {error}")]
    Read {
        /// The file.
        path: std::path::PathBuf,
        /// The operating system's reason.
        error: std::io::Error,
    },
    /// A line of a forest is malformed.
    #[error("{0}")]
    Parse(#[from] ParseError),
}

/// Reads all cases of one file.
pub fn load(path: &Path) -> Result<Vec<Case>, PaperError> {
    let text = std::fs::read_to_string(path).map_err(|error| PaperError::Read {
        path: path.to_owned(),
        error,
    })?;
    let mut cases = Vec::new();
    for part in text.split("# options: ").skip(1) {
        let (options, forests) = part.split_once('\n').unwrap_or((part, ""));
        let options = options.split_whitespace().map(str::to_owned).collect();
        cases.push(Case {
            options,
            sections: tree::parse(forests)?,
        });
    }
    Ok(cases)
}
