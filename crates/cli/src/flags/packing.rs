//! Options for the output of descriptors, whichever command makes them.

use clap::{Args, ValueEnum};

use super::traces::size;

#[derive(Debug, Args)]
pub struct Packing {
    /// Pipe descriptors through this program; else as the suffix of the file says
    #[arg(short, long, value_name = "PROGRAM")]
    pub compress: Option<Compressor>,
    /// Write no more than this of descriptors, before compression (500K, 20M, 2G)
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub descriptor_limit: Option<u64>,
}

impl Packing {
    pub fn is_asked(&self) -> bool {
        self.compress.is_some() || self.descriptor_limit.is_some()
    }
}

/// A program that compresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Compressor {
    /// FILE.gz
    Gzip,
    /// FILE.gz, with all processors
    Pigz,
    /// FILE.bz2
    Bzip2,
    /// FILE.bz2, with all processors
    Pbzip2,
    /// FILE.zst
    Zstd,
    /// FILE.xz
    Xz,
}
