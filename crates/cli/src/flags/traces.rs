//! `trace`, `dump`, `verify`, `index` and `pack`, and what `report` makes of a trace.

use std::ops::Range;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::recordings::HERE;

use super::{Controls, Live, Mcf, Memory, Metric, Simulators, Target};

pub const TRACE_EXAMPLES: &str = "\
Examples:
  everypath trace -o run.evp -- ./prog
  everypath trace -o run.evp --buffer 256 -- make -j4
  everypath trace -o run.evp --limit 100M -- ./server
  everypath trace -o run.evp --ring 100M -- ./server    its last instructions
  everypath trace -o run.evp --no-shared-libs -- ./prog   only its own code
  everypath trace -o run.evp --modules 'libssl*' -- ./prog
  everypath trace -o run.evp --skip 1000000 --count 5000 -- ./prog
  everypath trace -o run.evp --skip 9000000 --count 5000 --together -- make -j4
  everypath trace -o run.evp --start-func parse:3 --stop-func parse:4 -- ./prog
  everypath trace -o run.evp --paused -- ./server &
  everypath ctl run.evp start                  and stop, as often as you like
  everypath trace -o run.evp --start-signal USR1 --stop-signal USR2 -- ./prog
  everypath trace -o run.evp --memory addresses -- ./prog   reads and writes, too
  everypath trace -o run.evp --order fine -- ./prog     atomics in exact order
  everypath trace --mls run.txt --form ascii --stores -- ./prog   as mlsTrace
  everypath trace --cfiat run.cfiat --coherent -- ./prog   as mlvCFiat
  everypath trace --raptor --descriptors run.raptor -- ./prog   mispredictions
  everypath dump run.evp --range 1..1000       what it executed first
  everypath verify run.evp                     how many instructions each thread executed

All threads, all child processes, signals in place, generated code included. The
trace holds the code that ran, so no binary is needed to read it. The file is
written while the program runs: whoever is killed, what came before is in it.

What is left out runs as fast as under `everypath run`, and the trace says where
it is missing. A LIST is names separated by commas, with the globs * and ?.";

pub const DUMP_EXAMPLES: &str = "\
Examples:
  everypath dump run.evp | less
  everypath dump run.evp --range 1000..1100
  everypath dump run.evp --thread 4711 --range 5000..
  everypath dump run.evp --funcs 'parse_*,main'
  everypath dump run.evp --accesses | less      with memory accesses
  everypath dump run.evp --order | less         all threads, in order of time
  everypath dump run.evp --order --accesses     with their memory accesses
  everypath dump run.evp --address total --writes   which lines wrote a variable
  everypath dump run.evp --order --time 5000000..6000000
  everypath dump run.evp --order --range 3000001..4000000   of all threads together
  everypath dump run.evp --mcf ascii --disasm              branches, as mcfTrace has them
  everypath dump run.evp --mcf binary -o run.mcf.zst       compressed (docs/formats/mcf.md)
  everypath dump run.evp --mcf binary -c pigz > run.mcf.gz
  everypath dump run.evp --mls ascii --stores              values, as mlsTrace has them
  everypath dump run.evp --pt run.pt           packets of Intel PT, for its decoders
  everypath dump run.evp --uftrace calls --depth 8; uftrace replay -d calls
  everypath dump run.evp --perfetto calls.json --funcs 'parse_*,main'
  everypath dump run.evp --champsim traces --range 1000001..2000000   for simulators
  everypath dump run.evp --din run.din --order; dineroIV ... < run.din

The first time --range shows the middle of a long trace, what is before it is
counted; the counts are kept beside it, in FILE.evp.idx, which may be deleted.";

pub const CTL_EXAMPLES: &str = "\
Examples:
  everypath trace --paused -o run.evp -- ./server &
  everypath ctl run.evp start       all threads of all processes, from now on
  everypath ctl run.evp stop
  everypath ctl run.evp status      tracing, or paused
  everypath ctl prog.count.17.evp dump -o now.evp   counters of an edited program
  everypath ctl prog.count.17.evp reset             reports show what comes from now on
  everypath ctl prog.loops.17.evp again             nests of rewrite --tool loops

The program sees nothing of it: no signal, no system call that ends early. The
gaps are in the trace. It needs a trace that runs with --ctl or --paused.";

/// Request to a trace that runs.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Wanted {
    /// Trace from now on
    Start,
    /// Trace nothing from now on
    Stop,
    /// The one or the other
    Toggle,
    /// Only say which it is
    Status,
    /// Write the counters of an edited program as they are now
    Dump,
    /// Have reports of an edited program begin now
    Reset,
    /// Have an edited program follow its loops again
    Again,
}

impl Wanted {
    pub fn name(self) -> &'static str {
        match self {
            Wanted::Start => "start",
            Wanted::Stop => "stop",
            Wanted::Toggle => "toggle",
            Wanted::Status => "status",
            Wanted::Dump => "dump",
            Wanted::Reset => "reset",
            Wanted::Again => "again",
        }
    }
}

#[derive(Debug, Args)]
pub struct Ctl {
    /// The file of the trace, as it was given to `everypath trace`, or of counters
    #[arg(value_name = "FILE.evp")]
    pub file: PathBuf,
    /// Action to request
    #[arg(value_name = "WHAT")]
    pub wanted: Wanted,
    /// Do not say whether it is traced now
    #[arg(short, long)]
    pub quiet: bool,
    /// With dump: the file for the counters
    #[arg(short, long, value_name = "FILE.evp")]
    pub output: Option<PathBuf>,
}

pub const VERIFY_EXAMPLES: &str = "\
Examples:
  everypath verify run.evp";

pub const INDEX_EXAMPLES: &str = "\
Examples:
  everypath index run.evp
  everypath dump run.evp --range 5000000000..5000000020

The counts are kept in the trace, which is written anew, and go with a copy of
it. Without them dump --range counts once, and keeps that in FILE.evp.idx.";

#[derive(Debug, Args)]
pub struct Trace {
    /// Keep the trace (without a name: in everypath.PROGRAM.PID.evp)
    #[arg(
        short,
        long,
        value_name = "FILE.evp",
        num_args = 0..=1,
        default_missing_value = HERE,
        required_unless_present = "tool"
    )]
    pub output: Option<PathBuf>,
    /// Memory for streams of all threads that are not compressed yet
    #[arg(long, value_name = "MB", default_value_t = 64)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=16384))]
    pub buffer: u32,
    /// Keep no more than this; the program goes on unrecorded (500K, 20M, 2G)
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "output")]
    pub limit: Option<u64>,
    /// Keep the newest of it, between half of this and this (20M, 2G)
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "output")]
    #[arg(conflicts_with = "limit")]
    pub ring: Option<u64>,
    /// Events that get time stamps, to put threads in order
    #[arg(long, value_name = "WHAT", default_value = "sync")]
    pub order: super::Order,
    /// Print no warnings and no statistics on standard error
    #[arg(short, long)]
    pub quiet: bool,
    #[command(flatten)]
    pub memory: Memory,
    #[command(flatten)]
    pub controls: Controls,
    #[command(flatten)]
    pub target: Target,
    #[command(flatten)]
    pub live: Live,
}

impl Trace {
    /// Accesses that are recorded.
    pub fn accesses(&self) -> Memory {
        match (&self.live.mls, &self.live.cfiat) {
            (None, None) => self.memory.clone(),
            (_, Some(_)) => self.memory.of_descriptors(true),
            (Some(_), None) => self.memory.of_descriptors(self.memory.stores),
        }
    }
}

#[derive(Debug, Args)]
pub struct Dump {
    /// The trace (made with `everypath trace`)
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Only these instructions, from 1 on: of each thread; with --order of all
    #[arg(long, value_name = "FROM..TO", value_parser = range)]
    pub range: Option<Range<u64>>,
    /// Only the thread with this number
    #[arg(long, value_name = "TID")]
    pub thread: Option<u32>,
    /// Only code of these functions; with --uftrace or --perfetto, their calls
    #[arg(long, value_name = "LIST", conflicts_with_all = ["mcf", "pt"])]
    pub funcs: Vec<String>,
    /// With memory accesses, of a trace made with --memory
    #[arg(long, conflicts_with_all = ["mcf", "time", "pt"])]
    pub accesses: bool,
    /// Only accesses of these: variables, VARIABLE+8, 0x1000..0x1007; with lines
    #[arg(long, value_name = "WHERE,...", value_delimiter = ',')]
    #[arg(conflicts_with_all = ["mcf", "time", "pt", "timeline"])]
    pub address: Vec<String>,
    /// With --address: only accesses that write
    #[arg(long, requires = "address")]
    pub writes: bool,
    /// All threads in the order of their time stamps, also with --mcf
    #[arg(long)]
    pub order: bool,
    /// Only what was executed then; ticks beyond the first stamp, as --order shows
    #[arg(long, value_name = "FROM..TO", value_parser = times, requires = "order")]
    #[arg(conflicts_with_all = ["mcf", "range"])]
    pub time: Option<Range<u64>>,
    /// Write Intel PT packets and the code into this folder (docs/formats/pt.md)
    #[arg(long, value_name = "DIR", conflicts_with_all = ["mcf", "range", "order"])]
    pub pt: Option<PathBuf>,
    /// With --pt: have a target for every return, also where decoders know it
    #[arg(long, requires = "pt")]
    pub pt_targets: bool,
    #[command(flatten)]
    pub timeline: Timeline,
    #[command(flatten)]
    pub simulators: Simulators,
    #[command(flatten)]
    pub mcf: Mcf,
}

pub const PACK_EXAMPLES: &str = "\
Examples:
  everypath pack run.evp -o small.evp      several times smaller, read as before";

#[derive(Debug, Args)]
pub struct Pack {
    /// The trace (made with `everypath trace`)
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Keep the packed trace in this file
    #[arg(short, long, value_name = "FILE.evp")]
    pub output: PathBuf,
    /// Say nothing
    #[arg(short, long)]
    pub quiet: bool,
}

pub const REGENERATE_EXAMPLES: &str = "\
Examples:
  everypath rewrite ./prog -o prog.trace --tool trace      the edited program
  ./prog.trace ARGS                                        writes prog.trace.PID.evp
  everypath regenerate prog.trace.PID.evp -o run.evp       the trace of that run
  everypath dump prog.trace.PID.evp                        which also is read directly";

#[derive(Debug, Args)]
pub struct Regenerate {
    /// File that the edited program wrote
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Keep the trace in this file
    #[arg(short, long, value_name = "FILE.evp")]
    pub output: PathBuf,
    /// Say nothing
    #[arg(short, long)]
    pub quiet: bool,
}

/// Unit of time on a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Clock {
    Time,
    /// Instructions of each thread
    Instructions,
}

/// Calls in time.
#[derive(Debug, Args)]
pub struct Timeline {
    /// Write calls into this folder, for uftrace (docs/formats/timelines.md)
    #[arg(long, value_name = "DIR", group = "timeline", conflicts_with_all = ["mcf", "range", "order", "pt"])]
    pub uftrace: Option<PathBuf>,
    /// Write calls as trace events, for Perfetto and Chrome
    #[arg(long, value_name = "FILE.json", group = "timeline")]
    #[arg(conflicts_with_all = ["mcf", "range", "order", "pt", "uftrace"])]
    pub perfetto: Option<PathBuf>,
    /// Only so many levels of calls
    #[arg(long, value_name = "N", requires = "timeline")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub depth: Option<u32>,
    /// Unit of time (default: time, where the trace has time stamps)
    #[arg(long, value_name = "WHAT", requires = "timeline")]
    pub clock: Option<Clock>,
    /// Calls that are written without asking
    #[arg(long, value_name = "N", default_value_t = 5_000_000)]
    pub max_calls: u64,
}

#[derive(Debug, Args)]
pub struct Verify {
    /// The trace (made with `everypath trace`)
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

/// Options that derive another recording from a trace.
#[derive(Debug, Args)]
pub struct Derived {
    /// Make this of a trace first, as if it had been recorded, or of counts
    #[arg(long = "as", value_name = "WHAT")]
    pub what: Option<What>,
    /// Keep whole paths, with --as contexts (the default); -k folds them
    #[arg(long, requires = "what")]
    pub k_inf: bool,
    /// Make a node per level when a function calls itself, with --as contexts
    #[arg(long, requires = "what")]
    pub unroll_recursion: bool,
    /// Count a function's jumps to its own first instruction, with --as contexts
    #[arg(long, requires = "what")]
    pub count_self_jumps: bool,
    /// Costs to count in each context, with --as contexts
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "what", value_parser = super::costs())]
    pub cost: Vec<Metric>,
    /// Write the report to FILE; with --as, keep what was made, as a recording
    #[arg(short, long, alias = "report", value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum What {
    /// A recording as `everypath count` makes it
    Counts,
    /// A recording as `everypath contexts` makes it; reads the binaries again
    Contexts,
}

/// Bytes; units are 1024 times each other.
pub fn size(text: &str) -> Result<u64, String> {
    let units = [('K', 10), ('M', 20), ('G', 30), ('T', 40)];
    let unit = units.into_iter().find(|(unit, _)| text.ends_with(*unit));
    let number = match unit {
        Some((unit, _)) => text.trim_end_matches(unit),
        None => text,
    };
    let number = number.parse::<u64>().ok().filter(|&number| number > 0);
    let bytes = number.and_then(|number| number.checked_mul(1 << unit.map_or(0, |(_, bits)| bits)));
    bytes.ok_or_else(|| "give a size as 500K, 20M or 2G".to_owned())
}

/// Range of times, from 0 on.
fn times(text: &str) -> Result<Range<u64>, String> {
    let odd = "give it as FROM..TO, with numbers from 0 on";
    let (from, to) = text.split_once("..").ok_or(odd)?;
    let number = |text: &str, absent| match text {
        "" => Ok(absent),
        text => text.parse::<u64>().map_err(|_| odd),
    };
    let (from, to) = (number(from, 0)?, number(to, u64::MAX - 1)?);
    match from <= to {
        true => Ok(from..to.saturating_add(1)),
        false => Err(format!("{from} comes after {to}")),
    }
}

/// `10..20` is 10 to 20, both included.
fn range(text: &str) -> Result<Range<u64>, String> {
    let odd = "give it as FROM..TO, with numbers from 1 on";
    let (from, to) = text.split_once("..").ok_or(odd)?;
    let number = |text: &str, absent| match text {
        "" => Ok(absent),
        text => text.parse::<u64>().map_err(|_| odd),
    };
    let (from, to) = (number(from, 1)?, number(to, u64::MAX - 1)?);
    match from {
        1.. if from <= to => Ok(from..to.saturating_add(1)),
        0 => Err(odd.to_owned()),
        _ => Err(format!("{from} comes after {to}")),
    }
}
