//! Code and source of one function, as the page shows them beside each other.
//!
//! The instructions are columns: offset, text, and of which line of source each is.
//! The lines are those that code comes from and a few between; the function's own
//! file is first, then those of what the compiler inlined.

use std::collections::{BTreeSet, HashMap};

use image::Image;
use serde::Serialize;

/// Lines without code that are shown between two with some, and before the first: there
/// the function's name stands.
const BETWEEN: u32 = 8;
const AHEAD: u32 = 2;

/// Texts of source files and where code comes from, by who may read files.
pub trait Files {
    /// Code of the function that a module's file has at an offset, and where it
    /// begins; else the reason, as a sentence.
    fn code(&mut self, module: &trace::Module, offset: u64) -> Result<(u64, Vec<u8>), String>;
    /// The bytes of an instruction that a module's file has at an offset, or more.
    fn bytes(&mut self, module: &trace::Module, offset: u64) -> Option<Vec<u8>>;
    /// Name of the place; `None` if the file is gone or changed.
    fn place(&mut self, module: &trace::Module, offset: u64) -> Option<String>;
    /// File and line that the code there comes from.
    fn line(&mut self, module: &trace::Module, offset: u64) -> Option<Line>;
    /// The graph of the function that a module's file has at an offset.
    fn graph(&mut self, module: &trace::Module, offset: u64) -> Option<Graph>;
    /// The lines of a source file.
    fn text(&mut self, file: &str) -> Option<&[String]>;
}

/// File and number.
pub type Line = (String, u32);

/// An instruction before it is listed.
#[derive(Default)]
pub struct Listed {
    /// Offset in the file, or the address.
    pub at: u64,
    /// Bytes.
    pub len: u64,
    pub text: String,
    pub line: Option<Line>,
    /// Number of the block that it is in, where executions are those of blocks.
    pub block: Option<u64>,
    /// Executions, where they are known.
    pub count: Option<u64>,
    /// Number of times that a conditional branch was taken.
    pub taken: Option<u64>,
    /// Targets of an indirect branch, and how often each.
    pub went: Vec<(String, u64)>,
}

/// Basic blocks of a function by offsets in the file, and edges between them.
#[derive(Default, Serialize)]
pub struct Graph {
    pub start: Vec<u64>,
    pub end: Vec<u64>,
    /// Instructions of each block.
    pub insns: Vec<u32>,
    /// Blocks by index, and the kind of the edge.
    pub edges: Vec<(u32, u32, &'static str)>,
    /// Whether it has every instruction and edge that can be executed.
    pub complete: bool,
}

impl Graph {
    /// The graph of a function of `image`.
    pub fn of(image: &Image, function: &flow::Function) -> Option<Graph> {
        let offset = |addr| image.file_offset(addr).map(|offset| offset.0);
        let mut graph = Graph {
            complete: function.is_complete(),
            ..Graph::default()
        };
        for block in &function.graph.blocks {
            let start = offset(block.start)?;
            graph.start.push(start);
            graph.end.push(start + (block.end.0 - block.start.0));
            graph.insns.push(block.insns);
        }
        graph.edges = function
            .graph
            .edges
            .iter()
            .filter_map(|edge| match edge.to {
                flow::To::Block(to) => Some((edge.from, to, edge.kind.name())),
                _ => None,
            })
            .collect();
        Some(graph)
    }
}

#[derive(Default, Serialize)]
pub struct Listing {
    /// Why there is no code.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    at: Vec<u64>,
    text: Vec<String>,
    /// Bytes before it that are not shown.
    gap: Vec<u64>,
    /// Index of its line, or -1.
    row: Vec<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    block: Vec<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    count: Vec<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    taken: Vec<Option<u64>>,
    /// Indirect branches: index of the instruction, and its targets with how often each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    went: Vec<(usize, Vec<(String, u64)>)>,
    /// Per line of source: index of its file, number, text.
    file: Vec<usize>,
    number: Vec<u32>,
    source: Vec<String>,
    /// Files that could not be read, by index.
    unread: Vec<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    graph: Option<Graph>,
}

impl Listing {
    pub fn problem(sentence: String) -> Listing {
        Listing {
            problem: Some(sentence),
            ..Listing::default()
        }
    }

    /// With the function's graph beside its code.
    #[must_use]
    pub fn with_graph(self, graph: Option<Graph>) -> Listing {
        Listing { graph, ..self }
    }

    /// Bytes of text.
    pub fn size(&self) -> usize {
        let texts = self.text.iter().chain(&self.source).chain(&self.problem);
        let targets = self.went.iter().flat_map(|(_, targets)| targets);
        let targets = targets.map(|(target, _)| target);
        texts.chain(targets).map(String::len).sum()
    }
}

/// The source files of all listings.
#[derive(Default, Serialize)]
#[serde(transparent)]
pub struct SourceFiles {
    paths: Vec<String>,
    #[serde(skip)]
    numbers: HashMap<String, usize>,
}

impl SourceFiles {
    fn number(&mut self, path: &str) -> usize {
        if let Some(&known) = self.numbers.get(path) {
            return known;
        }
        self.paths.push(path.to_owned());
        self.numbers.insert(path.to_owned(), self.paths.len() - 1);
        self.paths.len() - 1
    }

    /// The listing of instructions, which are in the order of their places.
    pub fn listing(&mut self, insns: Vec<Listed>, files: &mut dyn Files) -> Listing {
        let mut listing = Listing::default();
        let rows = self.source(&insns, &mut listing, files);
        let mut end = insns.first().map_or(0, |insn| insn.at);
        for insn in insns {
            listing.gap.push(insn.at.saturating_sub(end));
            end = insn.at.saturating_add(insn.len);
            let row = insn.line.and_then(|line| rows.get(&line).copied());
            listing.row.push(row.unwrap_or(-1));
            if !insn.went.is_empty() {
                listing.went.push((listing.at.len(), insn.went));
            }
            listing.at.push(insn.at);
            listing.text.push(insn.text);
            listing.block.extend(insn.block);
            if let Some(count) = insn.count {
                listing.count.push(count);
                listing.taken.push(insn.taken);
            }
        }
        listing
    }

    /// Lists the lines of `insns`; gives the place of each in the list.
    fn source(
        &mut self,
        insns: &[Listed],
        listing: &mut Listing,
        files: &mut dyn Files,
    ) -> HashMap<Line, i64> {
        let lines = insns.iter().filter_map(|insn| insn.line.as_ref());
        let mut of_file: Vec<(&str, BTreeSet<u32>)> = Vec::new();
        for (file, number) in lines {
            let known = of_file.iter().position(|(known, _)| known == file);
            let at = known.unwrap_or_else(|| {
                of_file.push((file, BTreeSet::new()));
                of_file.len() - 1
            });
            of_file[at].1.insert(*number);
        }
        let mut rows = HashMap::new();
        for (file, numbers) in of_file {
            let is_own = listing.number.is_empty();
            let index = self.number(file);
            let text = files.text(file);
            if text.is_none() {
                listing.unread.push(index);
            }
            let mut last = None;
            for &number in &numbers {
                let first = match last {
                    Some(last) if text.is_some() && number - last <= BETWEEN => last + 1,
                    None if text.is_some() && is_own => number.saturating_sub(AHEAD).max(1),
                    _ => number,
                };
                for shown in first.min(number)..=number {
                    let at = (shown as usize).checked_sub(1);
                    let line = at.and_then(|at| text?.get(at)).cloned();
                    listing.file.push(index);
                    listing.number.push(shown);
                    listing.source.push(line.unwrap_or_default());
                }
                rows.insert((file.to_owned(), number), listing.number.len() as i64 - 1);
                last = Some(number);
            }
        }
        rows
    }
}
