//! `rewrite`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};

pub const REWRITE_EXAMPLES: &str = "\
Examples:
  everypath rewrite ./prog -o prog.count --tool edges      with counters
  ./prog.count ARGS                                        writes prog.count.PID.evp
  everypath report prog.count.PID.evp                      and what they say
  everypath report prog.count.*.evp --as counts -o sum.evp the sum of several runs
  everypath rewrite ./prog -o prog.trace --tool trace --memory   for 'regenerate'
  everypath rewrite ./prog -o prog.new --tool segment      room for more code
  everypath rewrite ./prog -o prog.new --tool null         functions moved
  everypath rewrite ./prog -o prog.new --tool null --explain   what was left, and why
  everypath rewrite libz.so.1 -o edited/libz.so.1 --tool segment
  everypath rewrite --libs ./prog -o prog.dir --tool edges with its libraries
  everypath exec prog.dir ARGS                             and how it is started
  everypath rewrite ./prog -o prog.afl --tool afl          for AFL++
  afl-fuzz -i in -o out -- ./prog.afl @@

Files of counters go where --counters says, or EVERYPATH_COUNTERS=DIR when OUT is run.
The edited program runs as the original. It survives strip and llvm-strip.
Counts are exact, also of threads and forked children, and kept when it is killed.";

pub const EXEC_EXAMPLES: &str = "\
Examples:
  everypath rewrite --libs /usr/bin/python3 -o py --tool null
  everypath exec py -c 'print(6 * 7)'

It is called by the name of the original, so it finds the files that belong to it.
py/bin/python3 can also be started directly, and the folder can be moved.";

#[derive(Debug, Args)]
pub struct Rewrite {
    /// A program or library, stripped or not
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The edited file
    #[arg(short, long, value_name = "OUT")]
    pub output: PathBuf,
    /// Edit the libraries that it needs as well: OUT is a folder
    #[arg(long)]
    pub libs: bool,
    /// With --libs: a library more, which the program loads while it runs
    #[arg(long, value_name = "FILE", requires = "libs")]
    pub also: Vec<PathBuf>,
    /// The instrumentation
    #[arg(long, value_name = "TOOL", value_parser = tools())]
    pub tool: String,
    /// With counters: an earlier run, which says where not to count
    #[arg(long, value_name = "FILE.evp")]
    pub weights: Option<PathBuf>,
    /// With coverage: also which ways of branches were taken
    #[arg(long)]
    pub branches: bool,
    /// With edges or blocks: also where each indirect call and jump went
    #[arg(long)]
    pub targets: bool,
    /// With trace: also what addresses of loads and stores follow from
    #[arg(long)]
    pub memory: bool,
    /// As [`Encode::log`].
    #[arg(skip)]
    pub log: Option<String>,
    /// With afl: a function that takes an input in each turn of a process
    #[arg(long, value_name = "NAME|ADDRESS")]
    pub persistent: Option<String>,
    /// With counters: the folder of their files (that in which OUT is run)
    #[arg(long, value_name = "DIR")]
    pub counters: Option<PathBuf>,
    /// Fill old code with traps: to show that nothing comes there any more
    #[arg(long)]
    pub paranoid: bool,
    /// Say which functions were left, and which bytes of FILE were changed
    #[arg(long)]
    pub explain: bool,
}

pub const ENCODE_EXAMPLES: &str = "\
Examples:
  everypath encode ./prog -o prog.pcce             and prog.pcce.dictionary
  everypath count -o run.evp -- ./prog ARGS
  everypath encode ./prog -o prog.pcce --weights run.evp   quicker for such runs
  everypath encode --libs ./prog -o prog.dir       with its libraries
  everypath exec prog.dir ARGS                     and how it is started

The program needs no dictionary to run: keep it where contexts are read.";

#[derive(Debug, Args)]
pub struct Encode {
    /// A program or library, stripped or not
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The edited file; its dictionary is OUT.dictionary
    #[arg(short, long, value_name = "OUT")]
    pub output: PathBuf,
    /// Edit the libraries that it needs as well: OUT is a folder
    #[arg(long)]
    pub libs: bool,
    /// With --libs: a library more, which the program loads while it runs
    #[arg(long, value_name = "FILE", requires = "libs")]
    pub also: Vec<PathBuf>,
    /// An earlier run, which says which calls are to cost nothing
    #[arg(long, value_name = "FILE.evp")]
    pub weights: Option<PathBuf>,
    /// Log each call of these functions, with its context
    #[arg(long, value_name = "NAME|ADDRESS,...")]
    pub log: Option<String>,
    /// With --log: the folder of its files (that in which OUT is run)
    #[arg(long, value_name = "DIR", requires = "log")]
    pub counters: Option<PathBuf>,
    /// Say which functions were left, and which bytes of FILE were changed
    #[arg(long)]
    pub explain: bool,
}

impl Encode {
    /// The options of the edit.
    pub fn edit(&self) -> Rewrite {
        Rewrite {
            file: self.file.clone(),
            output: self.output.clone(),
            libs: self.libs,
            also: self.also.clone(),
            tool: "contexts".to_owned(),
            weights: self.weights.clone(),
            branches: false,
            targets: false,
            memory: false,
            log: self.log.clone(),
            persistent: None,
            counters: self.counters.clone(),
            paranoid: false,
            explain: self.explain,
        }
    }
}

pub const DECODE_EXAMPLES: &str = "\
Examples:
  everypath decode prog.pcce.dictionary prog.log    paths instead of evp:... in a log
  tail -f prog.log | everypath decode prog.pcce.dictionary --lines | less

A program has such words of include/everypath.h: everypath_context().
It needs neither symbols nor the dictionary. Status 1: some words say no path.";

#[derive(Debug, Args)]
pub struct Decode {
    /// The dictionary that `everypath encode` wrote
    #[arg(value_name = "DICTIONARY")]
    pub dictionary: PathBuf,
    /// The text (standard input)
    #[arg(value_name = "FILE")]
    pub text: Option<PathBuf>,
    /// A line for each function
    #[arg(long)]
    pub lines: bool,
}

#[derive(Debug, Args)]
pub struct Exec {
    /// A folder made by `everypath rewrite --libs`
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Arguments of the program
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<OsString>,
}

/// The tool that adds a segment and nothing else.
pub const SEGMENT: &str = "segment";

/// All tools with what they do.
fn tools() -> PossibleValuesParser {
    let own = [
        (SEGMENT, "An empty segment, and nothing else"),
        (
            "null",
            "Every function moved to new code, and nothing inserted",
        ),
    ];
    let others = edits::TOOLS.iter().map(|tool| (tool.name, tool.help));
    let all = own.into_iter().chain(others);
    PossibleValuesParser::new(all.map(|(name, help)| PossibleValue::new(name).help(help)))
}
