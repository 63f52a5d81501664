//! The tools of the exec editor, one file each.
//!
//! | tool | module | what |
//! |---|---|---|
//! | `edges` | `edges` | counters of edges, as few as say everything |
//! | `blocks` | `blocks` | a counter in every block, and what else says everything |
//! | `coverage` | `coverage` | marks: which blocks were executed at all, and which ways of branches |
//! | `trace` | `trace` | witnesses from which everything that was executed is recomputed |
//! | `contexts` | `encode` | every calling context in a number |
//! | `context-counts` | `encode` | counters of calls by context |
//! | `afl` | `afl` | a map of executed ways for AFL++ |
//! | `opmix` | `opmix` | instructions of each mnemonic: the example |
//! | `loops` | `loops` | nests of loops are followed: addresses of references, iterations |
//! | `two-versions` | `two_versions` | two versions of every function, which are changed between: a test of the editor |
//!
//! Tools that count share `counting` (graphs of functions, numbers of counters, the plan for readers) and `weights` (how often code
//! is probably executed); `marks` chooses the edges that need a mark.
//!
//! A new tool is a file here with a row in [`TOOLS`], and one on the side of readers (docs/how-to-add.md).
#![forbid(unsafe_code)]

mod afl;
mod blocks;
pub mod contexts;
mod counting;
mod coverage;
mod edges;
mod encode;
mod known;
pub mod logged;
pub mod loops;
mod marks;
pub mod opmix;
mod stacks;
mod trace;
mod two_versions;
mod weights;

use std::collections::HashSet;

use flow::Program;
use image::Image;
use rewrite::{CounterFiles, Part, StaticTool};

use counting::Counting;
pub use weights::Profile;

/// Facts for a tool.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Path of the original, for who reads the counts.
    pub original: &'a str,
    /// An earlier run.
    pub profile: Option<&'a Profile>,
    /// Coverage says which ways of branches were taken, too.
    pub branches: bool,
    /// Calls and jumps by an address have tables of their targets.
    pub targets: bool,
    /// Witnesses have what addresses of accesses follow from.
    pub memory: bool,
    /// Functions whose calls contexts are logged at: names and addresses, separated by commas.
    pub log: Option<&'a str>,
    /// Nests of loops that are followed; `None`: all.
    pub loops: Option<&'a loops::Choice>,
    /// Entries of functions that are known to be left where they are.
    pub left: &'a HashSet<u64>,
    /// Entry of a function that a fuzzer has executed again and again in one process.
    pub turns: Option<u64>,
    pub files: CounterFiles<'a>,
    /// The file's part of the counters' memory, if it is edited together with others.
    pub part: Option<Part<'a>>,
    /// Added to the file's addresses, it makes them differ from those of the others.
    pub base: u64,
}

/// Makes a tool for a program.
type Make = for<'d> fn(&'d Image, &'d Program, Wanted<'d>) -> Box<dyn StaticTool + 'd>;

/// Memory of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counters {
    None,
    /// It is in files when the program has run.
    InFiles,
    /// A stream ([`wire::counters::Lane`]), which is in files, too; files that are edited together have one.
    Stream,
    /// A fuzzer shares it.
    Shared,
    /// It is the process's own ([`wire::contexts`]); files that are edited together have one.
    Own,
    /// It is the process's own, and readers find in files what they need ([`wire::contexts::Calls`]).
    Calls,
}

/// A tool.
#[derive(Debug)]
pub struct Row {
    pub name: &'static str,
    /// Its line of help.
    pub help: &'static str,
    /// Whether an earlier run says where it should not count.
    pub takes_profile: bool,
    /// The memory of each thread that it has.
    pub counters: Counters,
    /// Most bytes of it for each byte of code, in files that are edited together.
    pub room: u64,
    /// Whether it counts in libraries, too.
    pub takes_libraries: bool,
    /// Whether it has to know which functions are left where they are ([`Wanted::left`]).
    pub follows_calls: bool,
    pub make: Make,
}

/// All tools.
pub const TOOLS: &[Row] = &[
    Row {
        name: "edges",
        help: "Counters of edges, as few as say everything",
        takes_profile: true,
        counters: Counters::InFiles,
        room: 2,
        takes_libraries: true,
        follows_calls: false,
        make: |image, program, wanted| {
            Box::new(Counting::<edges::Edges>::new(image, program, wanted))
        },
    },
    Row {
        name: "blocks",
        help: "A counter in every block, and what else says everything",
        takes_profile: true,
        counters: Counters::InFiles,
        room: 2,
        takes_libraries: true,
        follows_calls: false,
        make: |image, program, wanted| {
            Box::new(Counting::<blocks::Blocks>::new(image, program, wanted))
        },
    },
    Row {
        name: "coverage",
        help: "Marks: which code was executed at all; with --branches also which ways of branches",
        takes_profile: true,
        counters: Counters::InFiles,
        room: 2,
        takes_libraries: true,
        follows_calls: false,
        make: |image, program, wanted| {
            if wanted.branches {
                Box::new(Counting::<coverage::Branches>::new(image, program, wanted))
            } else {
                Box::new(Counting::<coverage::Coverage>::new(image, program, wanted))
            }
        },
    },
    Row {
        name: "trace",
        help: "Witnesses: few bytes from which 'regenerate' makes the trace",
        takes_profile: true,
        counters: Counters::Stream,
        room: 2,
        takes_libraries: true,
        follows_calls: true,
        make: |image, program, wanted| Box::new(trace::Trace::new(image, program, wanted)),
    },
    Row {
        name: "contexts",
        help: "Every calling context in a number, and a dictionary: what 'encode' inserts",
        takes_profile: true,
        counters: Counters::Own,
        room: 2,
        takes_libraries: true,
        follows_calls: true,
        make: |image, program, wanted| {
            Box::new(encode::Contexts::new(image, program, wanted, false))
        },
    },
    Row {
        name: "context-counts",
        help: "Counters of calls by context, and a dictionary: what 'contexts --rewrite' inserts",
        takes_profile: true,
        counters: Counters::Calls,
        room: 2,
        takes_libraries: true,
        follows_calls: true,
        make: |image, program, wanted| {
            Box::new(encode::Contexts::new(image, program, wanted, true))
        },
    },
    Row {
        name: "afl",
        help: "Ways and blocks in the map of AFL++, and its fork server",
        takes_profile: false,
        counters: Counters::Shared,
        room: 2,
        takes_libraries: true,
        follows_calls: false,
        make: |_, _, wanted| Box::new(afl::Afl::new(wanted)),
    },
    Row {
        name: "opmix",
        help: "Instructions of each mnemonic in each function: the example of a tool",
        takes_profile: false,
        counters: Counters::InFiles,
        room: 2,
        takes_libraries: false,
        follows_calls: false,
        make: |image, _, wanted| Box::new(opmix::OpMix::new(image, wanted)),
    },
    Row {
        name: "loops",
        help: "Nests of loops are followed: what 'loops' inserts",
        takes_profile: false,
        counters: Counters::InFiles,
        room: 32,
        takes_libraries: true,
        follows_calls: false,
        make: |image, program, wanted| Box::new(loops::Loops::new(image, program, wanted)),
    },
    Row {
        name: "two-versions",
        help: "Two versions of every function, changed between at random blocks: a test of the editor",
        takes_profile: false,
        counters: Counters::None,
        room: 2,
        takes_libraries: true,
        follows_calls: false,
        make: |_, _, _| Box::new(two_versions::TwoVersions::default()),
    },
];

/// The tool with a name.
#[must_use]
pub fn tool(name: &str) -> Option<&'static Row> {
    TOOLS.iter().find(|tool| tool.name == name)
}
