//! `raptor`, and the same while `trace` runs.

use std::path::PathBuf;

use analysis::raptor::{MOST_ENTRIES, OUTCOMES, TARGETS};
use clap::{ArgGroup, Args, ValueEnum};

use super::{DescriptorForm, FirstAccess, Packing};

pub const RAPTOR_EXAMPLES: &str = "\
Examples:
  everypath trace -o run.evp -- ./prog
  everypath raptor run.evp                             how well predictors did
  everypath raptor run.evp --outcomes tage --entries 65536 --ras 64 --ibtb 1024
  everypath raptor run.evp --ras 8 --ras-overflow drop-oldest
  everypath raptor run.evp --shared                    all threads share them
  everypath raptor run.evp -o run.raptor               the descriptors (docs/formats/mcf.md)
  everypath raptor run.evp -c pbzip2 -o run.raptor.bz2
  everypath raptor run.evp --form ascii --disasm -o run.txt
  everypath raptor run.evp --thesis                    as mcfTRaptor: file and .Statistics
  everypath raptor run.evp --targets ibtb-last --check all branches, from descriptors and code
  everypath raptor run.evp --targets ibtb-last --decode run.raptor > run.mcf
  everypath trace --raptor --descriptors run.raptor -- ./prog   without a trace";

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("written").args(["output", "thesis"]).multiple(true)))]
#[command(mut_arg("disasm", |disasm| disasm.requires("written")))]
#[command(mut_arg("compress", |compress| compress.conflicts_with("check")))]
#[command(mut_arg("descriptor_limit", |limit| limit.conflicts_with("check")))]
#[command(mut_arg("thesis", |thesis| thesis.conflicts_with_all(["check", "decode"])))]
pub struct Raptor {
    /// The trace (made with `everypath trace`)
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    #[command(flatten)]
    pub predictors: Predictors,
    #[command(flatten)]
    pub form: Written,
    /// Only the thread with this number
    #[arg(long, value_name = "TID", conflicts_with = "shared")]
    pub thread: Option<u32>,
    /// Write the descriptors to FILE; with --decode, those of mcfTrace
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Make all branches of the descriptors again, and compare; status 1: differ
    #[arg(long, conflicts_with_all = ["output", "decode"])]
    pub check: bool,
    /// Make mcfTrace descriptors of the binary ones in FILE and the recorded code
    #[arg(long, value_name = "FILE", conflicts_with = "disasm")]
    pub decode: Option<PathBuf>,
    #[command(flatten)]
    pub packing: Packing,
}

/// Which predictors, and how what they got wrong is written.
#[derive(Debug, Args)]
pub struct Predictors {
    /// Predictor of conditional branches: gshare, bimodal or tage
    #[arg(long, value_name = "NAME", default_value = "gshare")]
    #[arg(value_parser = OUTCOMES.map(|row| row.name), hide_possible_values = true)]
    pub outcomes: String,
    /// Its entries, a power of two; 0: not taken is predicted
    #[arg(
        long,
        visible_alias = "gshare",
        value_name = "N",
        default_value_t = 4096
    )]
    #[arg(value_parser = entries)]
    pub entries: u32,
    /// Entries of the return-address stack; 0: none
    #[arg(long, value_name = "N", default_value_t = 32)]
    #[arg(value_parser = clap::value_parser!(u32).range(..=i64::from(MOST_ENTRIES)))]
    pub ras: u32,
    /// Behaviour when more calls are open than the stack has entries
    #[arg(long, value_name = "HOW", default_value = "circular")]
    pub ras_overflow: RasOverflow,
    /// Predictor of indirect jumps and calls: ibtb or ibtb-last
    #[arg(long, value_name = "NAME", default_value = "ibtb")]
    #[arg(value_parser = TARGETS.map(|row| row.name), hide_possible_values = true)]
    pub targets: String,
    /// Its entries, a power of two; 0: none
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = pairs)]
    pub ibtb: u32,
    /// All threads of a process share the predictors, in the order of time stamps
    #[arg(long)]
    pub shared: bool,
}

/// The form of descriptors, and the names of their files.
#[derive(Debug, Args)]
pub struct Written {
    /// As the tools of the mTrace thesis: names by time, statistics beside
    #[arg(long, conflicts_with = "shared")]
    pub thesis: bool,
    /// Form of the descriptors that are written
    #[arg(long, value_name = "FORM", default_value = "binary")]
    pub form: DescriptorForm,
    /// Put the instruction behind each descriptor of --form ascii
    #[arg(long)]
    pub disasm: bool,
}

/// A return-address stack with more calls than entries.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum RasOverflow {
    /// The newest overwrite the oldest, and returns read them again, round and round
    Circular,
    /// The oldest is dropped; when all entries are used up, 0 is predicted
    DropOldest,
}

/// Descriptors while `trace` runs.
#[derive(Debug, Args)]
#[command(next_help_heading = "Descriptors (mlsTrace, mlvCFiat, mcfTRaptor)")]
#[command(mut_group("Predictors", |given| given.requires("raptor")))]
#[command(mut_group("FirstAccess", |given| given.requires("cfiat")))]
#[command(group(ArgGroup::new("tool").args(["raptor", "mls", "cfiat"])))]
#[command(group(ArgGroup::new("written").args(["descriptors", "thesis", "mls", "cfiat"]).multiple(true)))]
#[command(mut_arg("thesis", |thesis| thesis.requires("tool")))]
#[command(mut_arg("form", |form| form.requires("written")))]
#[command(mut_arg("disasm", |disasm| disasm.requires("written")))]
#[command(mut_arg("compress", |compress| compress.requires("written")))]
#[command(mut_arg("descriptor_limit", |limit| limit.requires("written")))]
pub struct Live {
    /// Write loaded values to FILE, as mlsTrace; with --stores also stored ones
    #[arg(long, value_name = "FILE", group = "accesses")]
    pub mls: Option<PathBuf>,
    /// Write loads to FILE that are not known before, as mlvCFiat
    #[arg(long, value_name = "FILE", group = "accesses")]
    pub cfiat: Option<PathBuf>,
    #[command(flatten)]
    pub cache: FirstAccess,
    /// Have predictors of branches follow, as `everypath raptor` has of a trace
    #[arg(long)]
    pub raptor: bool,
    /// Write their descriptors to FILE
    #[arg(long, value_name = "FILE", requires = "raptor")]
    pub descriptors: Option<PathBuf>,
    /// Write how well they did to FILE, not standard error
    #[arg(long, value_name = "FILE", requires = "raptor")]
    pub report: Option<PathBuf>,
    #[command(flatten)]
    pub packing: Packing,
    #[command(flatten)]
    pub form: Written,
    #[command(flatten)]
    pub predictors: Predictors,
}

fn entries(text: &str) -> Result<u32, String> {
    match text.parse::<u32>() {
        Ok(0) => Ok(0),
        Ok(number) if number.is_power_of_two() && number <= MOST_ENTRIES => Ok(number),
        _ => Err(format!("give 0, or a power of two up to {MOST_ENTRIES}")),
    }
}

/// Number of entries, in sets of two.
fn pairs(text: &str) -> Result<u32, String> {
    match entries(text)? {
        1 => Err("sets have two entries, so 2 are the fewest".to_owned()),
        number => Ok(number),
    }
}
