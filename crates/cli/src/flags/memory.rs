//! Memory accesses of a trace.

use analysis::walk::OF_ELEMENTS;
use clap::{Args, ValueEnum};
use wire::stream::memory;

/// Recorded parts of each access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum What {
    /// Address, number of bytes, whether read or written
    Addresses,
    /// These, and the values that were read and written
    Values,
}

impl What {
    fn name(self) -> &'static str {
        match self {
            What::Addresses => "addresses",
            What::Values => "values",
        }
    }
}

#[derive(Clone, Debug, Args)]
pub struct Memory {
    /// Record memory accesses of each instruction, too
    #[arg(long = "memory", value_name = "WHAT", group = "accesses")]
    pub what: Option<What>,
    /// With --memory: only reads, if --stores is not given
    #[arg(long, requires = "what", conflicts_with_all = ["mls", "cfiat"])]
    pub loads: bool,
    /// With --memory: only writes, if --loads is not given; with --mls: both
    #[arg(long, requires = "accesses", conflicts_with = "cfiat")]
    pub stores: bool,
    /// With --memory: also record addresses that follow from others
    #[arg(long, requires = "what")]
    pub no_elision: bool,
}

impl Memory {
    /// Accesses that descriptors need: loads, perhaps also stores.
    pub fn of_descriptors(&self, stores: bool) -> Memory {
        Memory {
            what: Some(What::Values),
            loads: true,
            stores,
            ..*self
        }
    }

    /// As the program's side knows it.
    pub fn bits(&self) -> u32 {
        let both = self.loads == self.stores;
        let wanted = [
            (self.loads || both, memory::LOADS),
            (self.stores || both, memory::STORES),
            (self.no_elision, memory::ALL_WORDS),
            (self.what == Some(What::Values), memory::VALUES),
        ];
        let wanted = wanted.into_iter().filter(|(is_wanted, _)| *is_wanted);
        match self.what {
            None => 0,
            Some(_) => wanted.fold(0, |bits, (_, bit)| bits | bit),
        }
    }

    /// As users write it, and what readers are to know of this build.
    pub fn options(&self) -> Vec<(String, String)> {
        let flags = [
            ("--loads", self.loads),
            ("--stores", self.stores),
            ("--no-elision", self.no_elision),
        ];
        let what = self.what.map(|what| ("--memory", what.name()));
        let has_elements = self.what == Some(What::Values);
        let of_elements = has_elements.then_some((OF_ELEMENTS, ""));
        let flags = flags.into_iter().filter(|(_, is_given)| *is_given);
        let flags = flags.map(|(name, _)| (name, ""));
        let all = what.into_iter().chain(of_elements).chain(flags);
        all.map(|(name, value)| (name.into(), value.into()))
            .collect()
    }
}
