//! The flags table: the one place where commands and options are named.
//!
//! Help, man pages, completions and parsing all come from these types. An
//! option's doc comment is its help text.

mod branches;
mod caches;
mod cfiat;
mod contexts;
mod controls;
mod diff;
mod flow;
mod kinds;
mod logged;
mod loops;
mod memory;
mod metric;
mod order;
mod packing;
mod raptor;
mod rewrite;
mod run;
mod simulators;
mod target;
mod traces;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use branches::STATS_EXAMPLES;
pub use branches::{DescriptorForm, Mcf, Stats, StatsForm};
use caches::CACHES_EXAMPLES;
pub use caches::{Caches, CachesForm};
use cfiat::CFIAT_EXAMPLES;
pub use cfiat::{Cfiat, Crossing, FirstAccess, Replacement};
pub use contexts::Contexts;
pub use controls::{Call, Controls};
use diff::DIFF_EXAMPLES;
pub use diff::Diff;
use flow::FLOW_EXAMPLES;
pub use flow::{Flow, FlowForm};
pub use kinds::{BlockKind, ContextMode, DiffFormat, Wait, WhichForest, YesNo};
pub use logged::{Allocating, AllocatingForm, LogContexts};
pub use loops::{Loops, LoopsForm};
pub use memory::Memory;
pub use metric::Metric;
use metric::costs;
pub use order::Order;
pub use packing::{Compressor, Packing};
use raptor::RAPTOR_EXAMPLES;
pub use raptor::{Live, Predictors, Raptor, RasOverflow, Written};
pub use rewrite::{Decode, Encode, Exec, Rewrite, SEGMENT};
use run::RUN_EXAMPLES;
pub use run::Run;
pub use simulators::Simulators;
pub use target::Target;
use traces::{
    CTL_EXAMPLES, DUMP_EXAMPLES, INDEX_EXAMPLES, PACK_EXAMPLES, REGENERATE_EXAMPLES,
    TRACE_EXAMPLES, VERIFY_EXAMPLES,
};
pub use traces::{Clock, Ctl, Derived, Dump, Pack, Regenerate, Trace, Verify, Wanted, What};

use crate::recordings::HERE;
use crate::show;

const EXAMPLES: &str = "\
Examples:
  everypath contexts -- python3 script.py          who called whom, how often, in which context
  everypath contexts -k 2 --funcs 'my_*' -- ./prog only some functions, two callers deep
  everypath contexts -o run.evp -- ./prog          keep the recording...
  everypath report run.evp --top 30                ...and look at it later, anywhere
  everypath diff old.evp new.evp                   what is called more, or less, often
  everypath count -- ./prog                        how often each block and line ran
  everypath trace -o run.evp -- ./prog             every instruction, in order...
  everypath dump run.evp --range 1..100            ...to look at
  everypath run -- ./prog                          translate only: behaves as native

The exit status is the program's own. Everypath's own failures are
125 (its error), 126 (cannot execute the program) and 127 (no such program);
1 is a condition of `diff --fail-if` that is met.";

const CONTEXTS_EXAMPLES: &str = "\
Examples:
  everypath contexts -- python3 -c 'import json'
  everypath contexts --top 50 --min 0.1 -- ./prog
  everypath contexts --time -- ./prog              with times, and where threads waited
  everypath contexts --cost calls -- ./prog        calls alone: quicker
  everypath contexts -k 2 --forest kccf --funcs a,b,c --join-threads --format text -- ./prog1
  everypath contexts --format flamegraph --report calls.svg -- ./prog
  everypath contexts --html calls.html -- ./prog
  everypath contexts --modules libcrypto.so.3 -- openssl version
  everypath contexts --main-image-only -- ./prog
  everypath contexts --start-func main -- ./prog
  everypath contexts --mode intra --roll-loops --funcs foo --format text -- ./prog
  everypath contexts --mode inter -k 3 --blocks-disasm -- ./prog

A LIST is names separated by commas. A name may hold the globs * and ?, and may
be preceded by MODULE! to mean the function of one file only.";

const COUNT_EXAMPLES: &str = "\
Examples:
  everypath count -- ./prog
  everypath count --top 50 --modules libcrypto.so.3 -- openssl version
  everypath count --inlines -- ./prog              inlined functions by themselves
  everypath count --annotate main,'work*' -- ./prog
  everypath count --format csv --report blocks.csv -- ./prog
  everypath count --html count.html -- ./prog      a page with source and instructions
  everypath count --format lcov --report cover.info -- ./prog; genhtml -o html cover.info
  everypath count --format fdata --report run.fdata -- ./prog; llvm-bolt prog -data run.fdata -o fast
  everypath count --format llvm --report run.prof -- ./prog   # clang -fprofile-sample-use=run.prof
  everypath count -o run.evp -- make -j4   and later   everypath report run.evp

Counts are exact, for all threads and child processes. A basic block's share is
that of all instructions executed.";

const REPORT_EXAMPLES: &str = "\
Examples:
  everypath report                                 the newest recording of this folder
  everypath report run.evp --full --format text > forests.txt
  everypath report run.evp --format callgrind > callgrind.out; kcachegrind callgrind.out
  everypath report run.evp --format firefox > calls.json   # for profiler.firefox.com
  everypath report run.evp --format csv > contexts.csv
  everypath report run.evp -k 3 --forest both      whole paths, shown 3 callers deep
  everypath report run.evp --html calls.html       a page to explore all contexts with
  everypath report trace.evp --as counts           what `count` would have recorded
  everypath report trace.evp --as contexts -k 3    and `contexts`";

/// Exact calling contexts of unmodified x86-64 Linux programs.
#[derive(Debug, Parser)]
#[command(name = "everypath", version, about, after_help = EXAMPLES)]
#[command(disable_help_subcommand = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a program under the translator, and nothing more
    #[command(after_help = RUN_EXAMPLES)]
    Run(Run),
    /// Count every function call in its calling context
    #[command(after_help = CONTEXTS_EXAMPLES)]
    Contexts(Contexts),
    /// Count how often every basic block, branch and line was executed
    #[command(after_help = COUNT_EXAMPLES)]
    Count(Count),
    /// Record every instruction of every thread, in order
    #[command(after_help = TRACE_EXAMPLES)]
    Trace(Trace),
    /// Begin or end a trace while its program runs
    #[command(after_help = CTL_EXAMPLES)]
    Ctl(Ctl),
    /// Show a trace, instruction by instruction
    #[command(after_help = DUMP_EXAMPLES)]
    Dump(Dump),
    /// Count the branches of a trace: classes, bias, entropy, targets, blocks
    #[command(after_help = STATS_EXAMPLES)]
    Stats(Stats),
    /// Reduce a trace to what branch predictors got wrong (mcfTRaptor), and back
    #[command(after_help = RAPTOR_EXAMPLES)]
    Raptor(Raptor),
    /// Reduce a trace to the loads that are not known before (mlvCFiat), and back
    #[command(after_help = CFIAT_EXAMPLES)]
    Cfiat(Cfiat),
    /// Misses of any caches in a traced run, by function, line and instruction
    #[command(after_help = CACHES_EXAMPLES)]
    Caches(Caches),
    /// Functions, basic blocks, edges, jump tables and loops of a file
    #[command(after_help = FLOW_EXAMPLES)]
    Flow(Flow),
    /// Nests of loops of a file, and marks in its sources that mean them
    #[command(after_help = loops::LOOPS_EXAMPLES)]
    Loops(Loops),
    /// Edit a program, so that it measures itself
    #[command(after_help = rewrite::REWRITE_EXAMPLES)]
    Rewrite(Rewrite),
    /// Make the trace of a program that was edited with --tool trace
    #[command(after_help = REGENERATE_EXAMPLES)]
    Regenerate(Regenerate),
    /// Edit a program, so that it keeps every calling context in a number
    #[command(after_help = rewrite::ENCODE_EXAMPLES)]
    Encode(Encode),
    /// Make paths of the numbers of contexts that an encoded program has put into its log
    #[command(after_help = rewrite::DECODE_EXAMPLES)]
    Decode(Decode),
    /// Show by which path of calls each call of some functions was made
    #[command(after_help = logged::LOG_EXAMPLES)]
    LogContexts(LogContexts),
    /// Show who allocated memory: at the peak, never freed, in all, and for how long
    #[command(after_help = logged::ALLOCATIONS_EXAMPLES)]
    Allocations(Allocating),
    /// Start an edited program with its edited libraries
    #[command(after_help = rewrite::EXEC_EXAMPLES)]
    Exec(Exec),
    /// Make a trace as small as its branches can be foreseen
    #[command(after_help = PACK_EXAMPLES)]
    Pack(Pack),
    /// Read a whole trace and say what it holds; status 1: damaged or not finished
    #[command(after_help = VERIFY_EXAMPLES)]
    Verify(Verify),
    /// Count a trace, so that `dump --range` finds its place at once
    #[command(after_help = INDEX_EXAMPLES)]
    Index(Verify),
    /// Show a recording made with --output
    #[command(after_help = REPORT_EXAMPLES)]
    Report(Report),
    /// Compare two recordings: what was called more, or less, often
    #[command(after_help = DIFF_EXAMPLES)]
    Diff(Diff),
    /// Say what of this machine matters to a run; exit status 1 if none works
    Doctor(Doctor),
    /// Show the help of a command, or on a topic: status, names, recordings
    Help {
        /// A command or a topic
        topic: Option<String>,
    },
    /// Print the manual page of everypath, or of one command
    Man {
        /// Command to describe
        command: Option<String>,
    },
    /// Print the completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

impl Command {
    /// The program that this command runs, if it runs one.
    pub fn target(&self) -> Option<&Target> {
        match self {
            Command::Run(flags) => Some(&flags.target),
            Command::Contexts(flags) => Some(&flags.target),
            Command::Count(flags) => Some(&flags.target),
            Command::Trace(flags) => Some(&flags.target),
            _ => None,
        }
    }

    /// Whether a command that runs a program is to say nothing.
    pub fn is_quiet(&self) -> bool {
        match self {
            Command::Run(flags) => flags.destination.quiet,
            Command::Contexts(flags) => flags.destination.quiet,
            Command::Count(flags) => flags.destination.quiet,
            Command::Trace(flags) => flags.quiet,
            _ => false,
        }
    }
}

/// It has no options.
#[derive(Debug, Args)]
pub struct Doctor {}

#[derive(Debug, Args)]
pub struct Count {
    /// List only code of these files, as file names or globs
    #[arg(long, value_name = "LIST")]
    pub modules: Vec<String>,
    /// Show each thread by itself
    #[arg(long)]
    pub per_thread: bool,
    /// Functions, lines and blocks to show, hottest first
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,
    /// Show inlined functions as functions of their own, where DWARF tells them
    #[arg(long)]
    pub inlines: bool,
    /// Show names with all template arguments, parameters and hashes
    #[arg(long)]
    pub full_names: bool,
    /// Show these functions instruction by instruction, as names or globs
    #[arg(long, value_name = "LIST", conflicts_with = "format")]
    pub annotate: Vec<String>,
    /// Edit the program and its libraries and run that: quicker
    #[arg(long, value_name = "WHEN", conflicts_with = "in_place")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "most")]
    pub rewrite: Option<WhenEdited>,
    #[command(flatten)]
    pub page: Page,
    #[command(flatten)]
    pub destination: Destination,
    #[command(flatten)]
    pub target: Target,
}

/// When a program is edited for `count --rewrite`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WhenEdited {
    /// If nearly all of its code can be; otherwise it is translated
    Most,
    /// Always; if it cannot be, nothing is run
    Only,
}

#[derive(Debug, Args)]
pub struct Report {
    /// The recording, made with --output (default: the newest of this folder)
    #[arg(value_name = "FILE", default_value = HERE, hide_default_value = true)]
    pub file: PathBuf,
    /// Recordings of `count` more, which are added up
    #[arg(value_name = "MORE")]
    pub more: Vec<PathBuf>,
    /// Print a report to a terminal without a pager
    #[arg(long)]
    pub no_pager: bool,
    /// Callers kept of whole contexts, and with --as contexts (all)
    #[arg(short, value_name = "N")]
    pub k: Option<u32>,
    #[command(flatten)]
    pub made: Derived,
    #[command(flatten)]
    pub view: View,
    /// List only code of these files (recordings of `count`)
    #[arg(long, value_name = "LIST")]
    pub modules: Vec<String>,
    /// Show inlined functions as functions of their own (recordings of `count`)
    #[arg(long)]
    pub inlines: bool,
    /// Show functions instruction by instruction (recordings of `count`)
    #[arg(long, value_name = "LIST", conflicts_with = "format")]
    pub annotate: Vec<String>,
    /// Read any source file for that which the recording names
    #[arg(long, requires = "annotate")]
    pub any_source: bool,
    /// Form of the report
    #[arg(
        long,
        value_name = "FORM",
        default_value = "report",
        conflicts_with = "html"
    )]
    pub format: Format,
    #[command(flatten)]
    pub page: Page,
}

/// A page for a browser.
#[derive(Debug, Args)]
pub struct Page {
    /// Write a page to explore everything with, for a browser
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Code and source it may hold (8; 0: none); given, all that a recording names
    #[arg(long, value_name = "MB")]
    #[arg(value_parser = clap::value_parser!(u32).range(..1000))]
    pub html_code: Option<u32>,
}

impl Page {
    pub fn wanted(&self) -> Option<show::Page<'_>> {
        self.html.as_deref().map(|path| show::Page {
            path,
            code: self.html_code,
        })
    }
}

/// Selection of the forests that are shown.
#[derive(Debug, Args)]
pub struct View {
    /// Show contexts from their roots, callers of functions, or both
    #[arg(long, value_name = "WHICH", default_value = "ksf")]
    pub forest: WhichForest,
    /// Show one forest for all threads of a process together
    #[arg(long)]
    pub join_threads: bool,
    /// Show each thread by itself
    #[arg(long)]
    pub per_thread: bool,
    /// Show the functions of processes that ran before the program, such as a shim
    #[arg(long)]
    pub launcher: bool,
    /// Show names with all template arguments, parameters and hashes
    #[arg(long)]
    pub full_names: bool,
    /// Functions, paths or contexts to show, hottest first
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,
    /// Metric to sort by, also time, waiting, ll-misses (default: instructions)
    #[arg(long, value_name = "METRIC")]
    pub by: Option<Metric>,
    /// Hide what has less than this percentage of all (0; of paths 1)
    #[arg(long, value_name = "PERCENT")]
    pub min: Option<f64>,
    /// Hide contexts deeper than this below their root
    #[arg(long, value_name = "N")]
    pub depth: Option<u32>,
    /// Show every function and path, or context
    #[arg(long, conflicts_with_all = ["top", "min", "depth"])]
    pub full: bool,
    /// Say what the translator did: blocks, links, exits from its cache
    #[arg(long)]
    pub engine_stats: bool,
    #[command(flatten)]
    pub tables: Tables,
}

/// Tables at the end of a report, and parts of a document in XML.
#[derive(Debug, Args)]
pub struct Tables {
    /// List all functions at the end, with addresses and counters
    #[arg(long)]
    pub show_funcs: bool,
    /// Show functions with their instructions, as the modules have them
    #[arg(long)]
    pub funcs_disasm: bool,
    /// List all basic blocks at the end, with addresses and counters
    #[arg(long)]
    pub show_blocks: bool,
    /// List all basic blocks as --show-blocks does, with their instructions
    #[arg(long)]
    pub blocks_disasm: bool,
}

impl Tables {
    /// The first option that was given.
    pub fn option(&self) -> Option<&'static str> {
        let given = [
            (self.show_funcs, "--show-funcs"),
            (self.funcs_disasm, "--funcs-disasm"),
        ];
        let given = given.into_iter().find(|(is_given, _)| *is_given);
        given.map(|(_, name)| name).or(self.blocks_option())
    }

    /// The first option about basic blocks that was given.
    pub fn blocks_option(&self) -> Option<&'static str> {
        match (self.show_blocks, self.blocks_disasm) {
            (true, _) => Some("--show-blocks"),
            (false, true) => Some("--blocks-disasm"),
            (false, false) => None,
        }
    }

    pub fn wanted(&self) -> report::Tables {
        let detail = |show, disassemble| match (show, disassemble) {
            (_, true) => Some(report::Detail::Disassembly),
            (true, false) => Some(report::Detail::Plain),
            (false, false) => None,
        };
        report::Tables {
            funcs: detail(self.show_funcs, self.funcs_disasm),
            blocks: detail(self.show_blocks, self.blocks_disasm),
        }
    }
}

/// Destination of results.
#[derive(Debug, Args)]
pub struct Destination {
    /// Keep the recording (without a name: in everypath.PROGRAM.PID.evp)
    #[arg(short, long, value_name = "FILE.evp", num_args = 0..=1, default_missing_value = HERE)]
    pub output: Option<PathBuf>,
    /// Write the report to FILE, not standard error; gzipped if it ends in .gz
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Form of the report
    #[arg(long, value_name = "FORM", default_value = "report")]
    pub format: Format,
    /// Print no report and no warnings on standard error
    #[arg(short, long)]
    pub quiet: bool,
    /// Say at the end where the time went: start, translation, names, report
    #[arg(long)]
    pub phases: bool,
}

impl Destination {
    /// Whether the report is to be gzipped; a profile of pprof is already.
    pub fn is_packed(&self) -> bool {
        let name = self.report.as_deref().and_then(|path| path.extension());
        name.is_some_and(|name| name == "gz") && self.format != Format::Pprof
    }
}

/// Form of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// The hottest contexts as a tree, for a terminal
    Report,
    /// Forests in the layout of the IHPP paper
    Text,
    /// Everything, for programs (schemas: docs/formats)
    Json,
    /// Every context as a folded stack, for flame graphs and other tools
    Folded,
    /// A flame graph of all contexts (SVG, for a browser)
    Flamegraph,
    /// Every context, for `go tool pprof` and others that read profile.proto
    Pprof,
    /// Functions and calls, or instructions of `count`, for KCachegrind and others
    Callgrind,
    /// Every context, for the Firefox Profiler
    Firefox,
    /// Every context, for speedscope
    Speedscope,
    /// A table of all contexts, or of the basic blocks of `count`
    Csv,
    /// Contexts, functions and basic blocks, for programs (docs/formats/everypath.xsd)
    Xml,
    /// Coverage of lines, functions and branches by `count`, for lcov and genhtml
    Lcov,
    /// Branches and calls of one file by `count`, for llvm-bolt
    Fdata,
    /// Lines and calls of one file by `count`, for clang -fprofile-sample-use
    Llvm,
}

impl Format {
    /// Whether it shows every context as a path, for other tools.
    pub fn shows_stacks(self) -> bool {
        use Format::{Csv, Firefox, Flamegraph, Folded, Pprof, Speedscope};
        matches!(
            self,
            Folded | Flamegraph | Pprof | Firefox | Speedscope | Csv
        )
    }

    /// Whether it shows functions and their calls, for other tools.
    pub fn shows_graph(self) -> bool {
        self == Format::Callgrind
    }

    /// How it shows the counts of `count`, if it can.
    pub fn of_counts(self) -> Option<report::counts::Form> {
        match self {
            Format::Report => Some(report::counts::Form::Table),
            Format::Json => Some(report::counts::Form::Json),
            Format::Csv => Some(report::counts::Form::Csv),
            Format::Callgrind => Some(report::counts::Form::Callgrind),
            Format::Lcov => Some(report::counts::Form::Lcov),
            Format::Fdata => Some(report::counts::Form::Fdata),
            Format::Llvm => Some(report::counts::Form::Llvm),
            _ => None,
        }
    }

    /// Whether tables of functions and basic blocks may follow.
    pub fn shows_tables(self) -> bool {
        matches!(self, Format::Report | Format::Text | Format::Xml)
    }

    /// Whether it shows what `count` records and nothing else.
    pub fn needs_counts(self) -> bool {
        self.of_counts()
            .is_some_and(report::counts::Form::needs_binaries)
    }

    /// Whether it shows contexts and nothing else.
    pub fn needs_contexts(self) -> bool {
        matches!(self, Format::Text | Format::Xml) || self.shows_stacks() || self.shows_graph()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_table_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_option_says_what_it_does() {
        for command in Cli::command().get_subcommands() {
            for argument in command.get_arguments() {
                let help = argument
                    .get_help()
                    .map(ToString::to_string)
                    .unwrap_or_default();
                let name = (command.get_name(), argument.get_id());
                assert!(!help.is_empty(), "{name:?} has no help");
                assert!(!help.ends_with('.'), "{name:?}: help is no sentence");
                assert!(help.len() <= 75, "{name:?}: {} characters", help.len());
            }
        }
    }

    #[test]
    fn everything_after_the_program_is_its_own() {
        let words = [
            "everypath",
            "run",
            "--quiet",
            "prog",
            "--quiet",
            "-k",
            "--",
            "x",
        ];
        let Command::Run(run) = Cli::try_parse_from(words).expect("parses").command else {
            panic!("not a run");
        };
        assert_eq!(run.target.command, ["prog", "--quiet", "-k", "--", "x"]);
    }
}
