//! Words that options take: what contexts are of, forms of a comparison.

use clap::ValueEnum;

/// Places that contexts are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ContextMode {
    /// Functions, by who called them
    Function,
    /// Basic blocks, by those before in the same activation of their function
    Intra,
    /// Basic blocks, by those before in the thread
    Inter,
}

/// Definition of a basic block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BlockKind {
    /// It ends at branches, and where a direct branch of its function goes
    Classic,
    /// It ends at branches, so blocks may overlap (IHPP 4.3.1)
    Dynamic,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum YesNo {
    Yes,
    No,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Wait {
    /// Until the program's first process ends
    First,
    /// Until all processes have ended that it started, such as daemons
    #[value(alias = "children")]
    All,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WhichForest {
    /// k-slab forest: contexts from their roots
    Ksf,
    /// k-calling-context forest: each function with its callers
    Kccf,
    /// One after the other
    Both,
}

/// Form of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DiffFormat {
    /// The largest changes, for a terminal
    Report,
    /// Everything, for programs (docs/formats/diff.schema.json)
    Json,
    /// Every function, for spreadsheets
    Csv,
    /// Every context with both counts, for differential flame graphs
    Folded,
    /// A differential flame graph (SVG, for a browser)
    Flamegraph,
}

impl DiffFormat {
    /// Whether it has a place for notes.
    pub fn shows_notes(self) -> bool {
        matches!(self, DiffFormat::Report | DiffFormat::Json)
    }
}
