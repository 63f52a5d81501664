//! `dump` for simulators.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub struct Simulators {
    /// Write traces for ChampSim into this folder (docs/formats/simulators.md)
    #[arg(long, value_name = "DIR", group = "simulator")]
    #[arg(conflicts_with_all = ["descriptors", "order", "accesses", "funcs", "pt", "timeline"])]
    pub champsim: Option<PathBuf>,
    /// Write fetches, reads and writes to FILE, for Dinero IV
    #[arg(long, value_name = "FILE", group = "simulator")]
    #[arg(conflicts_with_all = ["descriptors", "time", "accesses", "funcs", "pt", "timeline"])]
    pub din: Option<PathBuf>,
    /// Write reads and writes to FILE, for Ramulator 2
    #[arg(long, value_name = "FILE", group = "simulator")]
    #[arg(conflicts_with_all = ["descriptors", "time", "accesses", "funcs", "pt", "timeline"])]
    pub ramulator: Option<PathBuf>,
}

impl Simulators {
    pub fn is_asked(&self) -> bool {
        self.champsim.is_some() || self.din.is_some() || self.ramulator.is_some()
    }
}
