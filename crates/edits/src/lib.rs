//! The tools of the exec editor, one file each.
//!
//! | tool | module | what |
//! |---|---|---|
//! | `edges` | `edges` | counters of edges, as few as say everything |
//! | `blocks` | `blocks` | a counter in every block, and what else says everything |
//! | `coverage` | `coverage` | marks: which blocks and branches were executed at all |
//!
//! What they share: `counting` (graphs of functions, numbers of counters, the plan for readers), `weights` (how often code is probably
//! executed), `marks` (which edges need a mark).
//!
//! A new tool is a file here with a row in [`TOOLS`], and one on the side of readers (docs/how-to-add.md).
#![forbid(unsafe_code)]

mod blocks;
mod counting;
mod coverage;
mod edges;
mod marks;
mod weights;

use flow::Program;
use image::Image;
use rewrite::{CounterFiles, StaticTool};

use counting::Counting;
pub use weights::Profile;

/// Facts for a tool.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Path of the original, for who reads the counts.
    pub original: &'a str,
    /// An earlier run.
    pub profile: Option<&'a Profile>,
    pub files: CounterFiles<'a>,
}

/// Makes a tool for a program.
type Make = for<'d> fn(&'d Image, &'d Program, Wanted<'d>) -> Box<dyn StaticTool + 'd>;

/// Tools by their names.
pub const TOOLS: &[(&str, Make)] = &[
    ("edges", |image, program, wanted| {
        Box::new(Counting::<edges::Edges>::new(image, program, wanted))
    }),
    ("blocks", |image, program, wanted| {
        Box::new(Counting::<blocks::Blocks>::new(image, program, wanted))
    }),
    ("coverage", |image, program, wanted| {
        Box::new(Counting::<coverage::Coverage>::new(image, program, wanted))
    }),
];

/// The tool with a name; if there is none, the one that inserts nothing.
#[must_use]
pub fn tool<'d>(
    name: &str,
    image: &'d Image,
    program: &'d Program,
    wanted: Wanted<'d>,
) -> Box<dyn StaticTool + 'd> {
    match TOOLS.iter().find(|(known, _)| *known == name) {
        Some((_, make)) => make(image, program, wanted),
        None => Box::new(()),
    }
}
