//! `caches`.

use std::path::PathBuf;

use analysis::caches::{Level, MODELS};
use clap::{Args, ValueEnum};

use super::traces::size;

pub const CACHES_EXAMPLES: &str = "\
Examples:
  everypath trace -o run.evp --memory addresses -- ./prog
  everypath caches run.evp
  everypath caches run.evp --l1d 48K,12,64 --ll 32M,16,64 --dtlb 64,4
  everypath caches run.evp --l1d 32K,8,64,plru,next-line
  everypath caches run.evp --modules prog --format json > misses.json
  everypath caches run.evp --format callgrind > misses.out; kcachegrind misses.out
  everypath caches run.evp --contexts misses.evp
  everypath report misses.evp --by ll-misses       paths that miss; or a flame graph
  everypath caches run.evp --sharing               lines that threads take from each other
  everypath caches run.evp --reuse                 which size of cache would help
  everypath caches run.evp --cachegrind            updates count as reads, as there

A cache is SIZE,WAYS,LINE[,MODEL][,next-line] with MODEL lru or plru. Each thread
has first-level caches of its own, the last level is that of all threads.";

#[derive(Debug, Args)]
pub struct Caches {
    /// The trace (made with `everypath trace --memory addresses`)
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// First-level cache of instructions
    #[arg(long, value_name = "CACHE", default_value = "32K,8,64", value_parser = cache)]
    pub l1i: Level,
    /// First-level cache of data
    #[arg(long, value_name = "CACHE", default_value = "32K,8,64", value_parser = cache)]
    pub l1d: Level,
    /// Last-level cache of both
    #[arg(long, value_name = "CACHE", default_value = "8M,16,64", value_parser = cache)]
    pub ll: Level,
    /// Translation buffer of instructions, of pages of 4 KB
    #[arg(long, value_name = "ENTRIES,WAYS", value_parser = buffer)]
    pub itlb: Option<Level>,
    /// Translation buffer of data
    #[arg(long, value_name = "ENTRIES,WAYS", value_parser = buffer)]
    pub dtlb: Option<Level>,
    /// Lines of memory that threads share, and whether they use the same bytes
    #[arg(long, conflicts_with_all = ["l1i", "l1d", "ll", "itlb", "dtlb", "cachegrind", "modules"])]
    pub sharing: bool,
    /// Reuse distances of data: misses of caches of all sizes
    #[arg(long, conflicts_with_all = ["l1i", "l1d", "ll", "itlb", "dtlb", "cachegrind", "modules", "sharing"])]
    pub reuse: bool,
    /// Keep the misses of each calling context in FILE, for `everypath report`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["sharing", "reuse"])]
    pub contexts: Option<PathBuf>,
    /// Count an instruction that reads and writes a place as a read, as cachegrind
    #[arg(long)]
    pub cachegrind: bool,
    /// Functions and lines in the tables; with --sharing, lines of memory
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,
    /// Only code of these files, as file names or globs
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub modules: Vec<String>,
    /// Names with all template arguments and parameters
    #[arg(long)]
    pub full_names: bool,
    /// Form of the report
    #[arg(long, value_name = "FORM", default_value = "text")]
    pub format: CachesForm,
    /// Write the report to FILE, not standard output
    #[arg(
        short = 'o',
        long = "output",
        visible_alias = "report",
        value_name = "FILE"
    )]
    pub report: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CachesForm {
    /// Totals, and the functions and lines that miss most
    Text,
    /// Everything, for programs (docs/formats/caches.md)
    Json,
    /// For KCachegrind and callgrind_annotate
    Callgrind,
}

fn cache(text: &str) -> Result<Level, String> {
    let odd = || "give bytes, ways and bytes of a line, as 32K,8,64".to_owned();
    let fields: Vec<&str> = text.split(',').collect();
    let [bytes, ways, line, ref rest @ ..] = fields[..] else {
        return Err(odd());
    };
    let mut level = Level {
        size: size(bytes)?,
        ways: ways.parse().map_err(|_| odd())?,
        line: line.parse().map_err(|_| odd())?,
        model: &MODELS[0],
        next_line: false,
    };
    for word in rest {
        match MODELS.iter().find(|model| model.name == *word) {
            Some(model) => level.model = model,
            None if *word == "next-line" => level.next_line = true,
            None => return Err(format!("'{word}' is none of lru, plru and next-line")),
        }
    }
    level.check().map(|()| level)
}

fn buffer(text: &str) -> Result<Level, String> {
    let odd = || "give entries and ways, as 64,4".to_owned();
    let (entries, ways) = text.split_once(',').ok_or_else(odd)?;
    let entries = entries.parse().map_err(|_| odd())?;
    let level = Level::of_pages(entries, ways.parse().map_err(|_| odd())?);
    let odd = |_| format!("{entries} entries in sets of {ways} are no power of two of sets");
    level.check().map(|()| level).map_err(odd)
}
