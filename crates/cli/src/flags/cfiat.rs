//! `cfiat`, and the same behind `trace`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum};

use super::traces::size;
use super::{DescriptorForm, Packing};

pub const CFIAT_EXAMPLES: &str = "\
Examples:
  everypath trace -o run.evp --memory values -- ./prog
  everypath cfiat run.evp                              how many loads are left
  everypath cfiat run.evp --cache 64K,4,64 --granule 1
  everypath cfiat run.evp --coherent -o run.cfiat      exact where threads share memory
  everypath cfiat run.evp --form ascii --disasm -o run.txt
  everypath cfiat run.evp -c pbzip2 -o run.cfiat.bz2
  everypath cfiat run.evp --thesis                     as mlvCFiat: file and .Statistics
  everypath cfiat run.evp --decode run.cfiat           how many loads it gives back, and wrong ones
  everypath cfiat run.evp --decode run.cfiat -o run.mls   all loads, as dump --mls has them
  everypath trace --cfiat run.cfiat --coherent -- ./prog   without a trace";

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("written").args(["output", "thesis"]).multiple(true)))]
#[command(mut_arg("form", |form| form.requires("written")))]
#[command(mut_arg("disasm", |disasm| disasm.requires("written")))]
#[command(mut_arg("compress", |compress| compress.requires("written")))]
#[command(mut_arg("descriptor_limit", |limit| limit.requires("written")))]
pub struct Cfiat {
    /// The trace (made with `everypath trace --memory values`)
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    #[command(flatten)]
    pub cache: FirstAccess,
    /// Only the thread with this number
    #[arg(long, value_name = "TID", conflicts_with = "cache_shared")]
    pub thread: Option<u32>,
    /// Write the descriptors to FILE; with --decode, all loads
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Only what mlvCFiat writes; names by time, statistics beside, as it does
    #[arg(long, conflicts_with = "decode")]
    pub thesis: bool,
    /// Form of the descriptors that are written
    #[arg(long, value_name = "FORM", default_value = "binary")]
    pub form: DescriptorForm,
    /// Put the instruction behind each descriptor of --form ascii
    #[arg(long)]
    pub disasm: bool,
    /// Make all loads of the binary descriptors in FILE and the trace's stores
    #[arg(long, value_name = "FILE", conflicts_with_all = ["cache", "granule", "replacement", "crossing", "coherent"])]
    pub decode: Option<PathBuf>,
    #[command(flatten)]
    pub packing: Packing,
}

/// A cache with first-access flags.
#[derive(Clone, Debug, Args)]
pub struct FirstAccess {
    /// Bytes of the cache, its ways, and bytes of a line
    #[arg(long, value_name = "SIZE,WAYS,LINE", default_value = "32K,4,32", value_parser = cache)]
    pub cache: Cache,
    /// Bytes that have a flag together
    #[arg(long, value_name = "BYTES", default_value_t = 4)]
    pub granule: u32,
    /// Which line of a full set goes
    #[arg(long, value_name = "HOW", default_value = "round-robin")]
    pub replacement: Replacement,
    /// Lines that an operand of up to 4 bytes is in
    #[arg(long, value_name = "LINES", default_value = "first")]
    pub crossing: Crossing,
    /// Lines that others wrote are read again: all loads can be made
    #[arg(long)]
    pub coherent: bool,
    /// All threads of a process share the cache, in the order of time stamps
    #[arg(long)]
    pub cache_shared: bool,
}

/// Sizes of a cache.
#[derive(Clone, Copy, Debug)]
pub struct Cache {
    pub size: u32,
    pub ways: u32,
    pub line: u32,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Replacement {
    /// From the last way of a set to the first, and again
    RoundRobin,
    /// The one that was used least recently
    Lru,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Crossing {
    /// That of the first byte, as mlvCFiat has it
    First,
    /// All with bytes of it, as larger operands
    All,
}

fn cache(text: &str) -> Result<Cache, String> {
    let odd = || "give bytes, ways and bytes of a line, as 32K,4,32".to_owned();
    let fields: Vec<&str> = text.split(',').collect();
    let [bytes, ways, line] = fields[..] else {
        return Err(odd());
    };
    Ok(Cache {
        size: u32::try_from(size(bytes)?).map_err(|_| odd())?,
        ways: ways.parse().map_err(|_| odd())?,
        line: line.parse().map_err(|_| odd())?,
    })
}
