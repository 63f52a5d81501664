//! What contexts are of.

use clap::ValueEnum;

/// What has contexts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ContextMode {
    /// Functions, by who called them
    Function,
    /// Basic blocks, by those before in the same activation of their function
    Intra,
    /// Basic blocks, by those before in the thread
    Inter,
}

/// What a basic block is.
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
pub enum WhichForest {
    /// k-slab forest: contexts from their roots
    Ksf,
    /// k-calling-context forest: each function with its callers
    Kccf,
    /// One after the other
    Both,
}
