//! Options of `contexts`.

use clap::Args;

use super::metric::costs;
use super::{BlockKind, ContextMode, Destination, Metric, Page, Target, View, YesNo};

#[derive(Debug, Args)]
pub struct Contexts {
    /// Contexts of functions, or of basic blocks per activation or per thread
    #[arg(long, value_name = "MODE", default_value = "function")]
    pub mode: ContextMode,
    /// Roll loops of basic blocks into their first turn (k infinite)
    #[arg(long, conflicts_with = "k")]
    pub roll_loops: bool,
    /// End basic blocks where branches go, or only where they are
    #[arg(long, value_name = "HOW", default_value = "classic")]
    pub blocks: BlockKind,
    /// Keep the k-slab forest of basic blocks itself, not only contexts
    #[arg(long)]
    pub slabs: bool,
    /// Callers that a context keeps, 0: none (functions: all; blocks: 10)
    #[arg(short, value_name = "N")]
    pub k: Option<u32>,
    /// Keep whole paths from the start of each thread: the default for functions
    #[arg(long, conflicts_with = "k")]
    pub k_inf: bool,
    /// Record whole paths and show k callers of each, with inclusive costs
    #[arg(long, conflicts_with_all = ["k_inf", "roll_loops", "slabs"])]
    pub inclusive: bool,
    /// Count only these functions, as names, globs or MODULE!NAME
    #[arg(long, value_name = "LIST")]
    pub funcs: Vec<String>,
    /// Count only functions of these files, as file names or globs
    #[arg(long, value_name = "LIST")]
    pub modules: Vec<String>,
    /// Count only functions of the program's own file, without a root above
    #[arg(long, conflicts_with_all = ["funcs", "modules"])]
    pub main_image_only: bool,
    /// Make a node per level when a function calls itself
    #[arg(long)]
    pub unroll_recursion: bool,
    /// Count a function's jumps to its own first instruction as calls, too
    #[arg(long)]
    pub count_self_jumps: bool,
    /// Count nothing before this function is entered
    #[arg(long, value_name = "NAME")]
    pub start_func: Option<String>,
    /// Count nothing after this function is entered
    #[arg(long, value_name = "NAME")]
    pub stop_func: Option<String>,
    /// Costs to count in each context (default: calls and instructions)
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = costs())]
    pub cost: Vec<Metric>,
    /// Sample in which contexts threads execute, and wait (default: on a terminal)
    #[arg(long, value_name = "YES|NO", num_args = 0..=1, require_equals = true, default_missing_value = "yes")]
    #[arg(hide_possible_values = true)]
    pub time: Option<YesNo>,
    /// Nodes per process after which new contexts go to a [truncated] node
    #[arg(long, value_name = "N", default_value_t = 50_000_000)]
    pub max_nodes: u64,
    /// Count calls alone, in the edited program and its libraries
    #[arg(long, conflicts_with_all = TRANSLATED)]
    pub rewrite: bool,
    #[command(flatten)]
    pub page: Page,
    #[command(flatten)]
    pub view: View,
    #[command(flatten)]
    pub destination: Destination,
    #[command(flatten)]
    pub target: Target,
}

/// Options that an edited program does not know.
const TRANSLATED: [&str; 16] = [
    "mode",
    "roll_loops",
    "blocks",
    "slabs",
    "k",
    "inclusive",
    "funcs",
    "modules",
    "main_image_only",
    "unroll_recursion",
    "count_self_jumps",
    "start_func",
    "stop_func",
    "cost",
    "time",
    "max_nodes",
];
