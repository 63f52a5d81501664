//! The plan of an edited file: graphs of its functions, and which of their edges have counters.
//!
//! Whoever reads counters needs no more than this and the original file. On disk it is a list of numbers, each a LEB128 of up to
//! ten bytes, and two texts; addresses are differences to the ones before.
//!
//! Invariant: [`File::decode`] takes any bytes, and its memory is in proportion to theirs.

use crate::{Chords, Edge, Graph, Place};

const MAGIC: [u8; 8] = *b"EVPPLAN3";

/// Purposes of inserted code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// Counts edges: few counters.
    Edges,
    /// Counts every block, and what else is needed.
    Blocks,
    /// Says which blocks were executed, and which ways of branches.
    Branches,
    /// Says which blocks were executed.
    Coverage,
}

/// Kinds of edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// From the beginning of a block to its end.
    Block,
    /// From outside to the beginning of a block.
    In,
    /// From the end of a block to the code behind it.
    Falls,
    /// By a branch that is taken.
    Taken,
    /// By a jump table.
    Case,
    /// From the end of a block to the outside: it returns, jumps away, or its call does not come back.
    Out,
    /// From the end of a block to the outside: its call ends the program, or executes another one.
    End,
    /// The call at the end of a block did not come back, or came back more often than it was made.
    Abandoned,
}

const KINDS: [Kind; 8] = [
    Kind::Block,
    Kind::In,
    Kind::Falls,
    Kind::Taken,
    Kind::Case,
    Kind::Out,
    Kind::End,
    Kind::Abandoned,
];
const TOOLS: [Tool; 4] = [Tool::Edges, Tool::Blocks, Tool::Branches, Tool::Coverage];

/// The nodes of a block.
pub fn start_of(block: u32) -> u32 {
    1 + 2 * block
}

pub fn end_of(block: u32) -> u32 {
    2 + 2 * block
}

/// The block of a node, if it is one's; `None`: it is [`crate::OUTSIDE`].
pub fn block_of(node: u32) -> Option<u32> {
    Some(node.checked_sub(1)? / 2)
}

/// The graph of [`Function::graph_of_blocks`], of so many blocks and tables.
pub fn graph_of_blocks(blocks: u32, tables: u32, edges: &[PlannedEdge]) -> Graph {
    let node = |node: u32| match block_of(node) {
        None => crate::OUTSIDE,
        Some(block) if block < blocks => 1 + block,
        Some(_) => 1 + blocks + (node - start_of(blocks)),
    };
    let edges = edges.iter().filter(|edge| edge.kind != Kind::Block);
    Graph {
        nodes: 1 + blocks + tables,
        edges: edges
            .map(|edge| Edge {
                from: node(edge.from),
                to: node(edge.to),
                place: Place::Never,
            })
            .collect(),
    }
}

/// An edge of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedEdge {
    /// Nodes.
    pub from: u32,
    pub to: u32,
    pub kind: Kind,
    pub has_counter: bool,
}

/// A call or a jump by an address that has a table of its targets: [`Site::PAIRS`] times a word for a target and one for its count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    pub block: u32,
    /// Its number among those of the file.
    pub number: u32,
}

impl Site {
    pub const PAIRS: usize = 4;
    /// The bit from which on a target in the table that sites share has the number of its site.
    pub const NUMBER_AT: u32 = 47;
    /// Words of its table.
    pub const WORDS: usize = 2 * Site::PAIRS;
}

/// A function with counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Function {
    pub entry: u64,
    /// Number of its first counter.
    pub first: u64,
    /// Link addresses and bytes, by address.
    pub blocks: Vec<(u64, u32)>,
    /// Number of jump tables that several jumps go by; each is a node behind those of the blocks.
    pub tables: u32,
    pub edges: Vec<PlannedEdge>,
    /// Their tables stand behind the counters, one after the other.
    pub sites: Vec<Site>,
}

impl Function {
    /// Number of its nodes.
    fn nodes(&self) -> u32 {
        start_of(self.blocks.len() as u32) + self.tables
    }

    /// The block of a node; `None`: it is none's.
    pub fn block_of(&self, node: u32) -> Option<u32> {
        block_of(node).filter(|block| (*block as usize) < self.blocks.len())
    }

    /// Its graph, and the edges with counters.
    pub fn graph(&self) -> (Graph, Chords) {
        let edges = self.edges.iter().map(|edge| Edge {
            from: edge.from,
            to: edge.to,
            place: Place::Never,
        });
        let graph = Graph {
            nodes: self.nodes(),
            edges: edges.collect(),
        };
        let flags = self.edges.iter().map(|edge| edge.has_counter).collect();
        (graph, Chords::from_flags(flags))
    }

    /// Its graph with one node for a block, behind the outside in the order of the blocks, and then one for each table.
    pub fn graph_of_blocks(&self) -> Graph {
        graph_of_blocks(self.blocks.len() as u32, self.tables, &self.edges)
    }

    /// Number of its counters, one after the other in the order of its edges.
    pub fn counters(&self) -> usize {
        self.edges.iter().filter(|edge| edge.has_counter).count()
    }

    /// Reads one; the function before has its entry at `before`.
    fn decode(reader: &mut Reader<'_>, before: u64) -> Option<Function> {
        let mut function = Function {
            entry: before.wrapping_add(reader.number()?),
            first: reader.number()?,
            ..Function::default()
        };
        let mut end = function.entry;
        let blocks = reader.number()?;
        function.tables = u32::try_from(reader.number()?).ok()?;
        for _ in 0..blocks {
            let start = end.wrapping_add(unzigzag(reader.number()?));
            let len = u32::try_from(reader.number()?).ok()?;
            end = start.checked_add(len.into())?;
            function.blocks.push((start, len));
        }
        // Each block has two edges at least, and a table has some.
        let most = u32::MAX / 8;
        if function.blocks.len() as u64 > most.into() || function.tables > most {
            return None;
        }
        let nodes = function.nodes();
        if function.tables as usize > reader.0.len() {
            return None;
        }
        for _ in 0..reader.number()? {
            let kind = reader.byte()?;
            let mut node = || {
                let node = u32::try_from(reader.number()?).ok()?;
                (node < nodes).then_some(node)
            };
            let edge = PlannedEdge {
                from: node()?,
                to: node()?,
                kind: *KINDS.get(usize::from(kind & 0x7f))?,
                has_counter: kind & 0x80 != 0,
            };
            function.edges.push(edge);
        }
        for _ in 0..reader.number()? {
            let block = u32::try_from(reader.number()?).ok()?;
            let number = u32::try_from(reader.number()?).ok()?;
            function.blocks.get(block as usize)?;
            function.sites.push(Site { block, number });
        }
        Some(function)
    }

    /// Numbers of its counters and of the words of its tables.
    pub fn words(&self) -> std::ops::Range<usize> {
        let first = usize::try_from(self.first).unwrap_or(usize::MAX);
        let count = self.sites.len() * Site::WORDS + self.counters();
        first..first.saturating_add(count)
    }
}

/// A function without counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    pub entry: u64,
    pub bytes: u64,
    /// Index of the reason in [`Uncounted::reasons`].
    pub reason: u32,
}

/// Code of a file that has no counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uncounted {
    /// By entry.
    pub functions: Vec<Left>,
    /// Each is a gate's name and its meaning.
    pub reasons: Vec<String>,
    /// Bytes of code in no function.
    pub outside: u64,
    /// Bytes of all code of the file.
    pub of: u64,
}

impl Uncounted {
    /// Bytes of code without counters.
    pub fn bytes(&self) -> u64 {
        let functions = self.functions.iter().map(|function| function.bytes);
        functions.fold(self.outside, u64::saturating_add)
    }

    /// The share of the file's code that has none, in percent.
    pub fn percent(&self) -> f64 {
        100.0 * self.bytes() as f64 / self.of.max(1) as f64
    }

    pub fn reason(&self, function: &Left) -> &str {
        let reason = self.reasons.get(function.reason as usize);
        reason.map_or("", String::as_str)
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put(out, self.of);
        put(out, self.outside);
        put(out, self.reasons.len() as u64);
        for reason in &self.reasons {
            put_text(out, reason);
        }
        put(out, self.functions.len() as u64);
        let mut before = 0;
        for function in &self.functions {
            put(out, function.entry.wrapping_sub(before));
            put(out, function.bytes);
            put(out, function.reason.into());
            before = function.entry;
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Option<Uncounted> {
        let (of, outside) = (reader.number()?, reader.number()?);
        let mut reasons = Vec::new();
        for _ in 0..reader.number()? {
            reasons.push(reader.text()?);
        }
        let mut functions = Vec::new();
        let mut entry = 0u64;
        for _ in 0..reader.number()? {
            entry = entry.wrapping_add(reader.number()?);
            functions.push(Left {
                entry,
                bytes: reader.number()?,
                reason: u32::try_from(reader.number()?).ok()?,
            });
        }
        Some(Uncounted {
            functions,
            reasons,
            outside,
            of,
        })
    }
}

/// A file with counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    pub tool: Tool,
    /// Path of the original.
    pub original: String,
    /// Its bytes, and a hash of them.
    pub size: u64,
    pub hash: [u8; 16],
    /// Entry of the program's main function, whose return ends it; 0: it is not known.
    pub main: u64,
    /// Logarithm of the pairs of the table, from the first word on, for targets for which sites have no room; 0: there is none.
    pub shared_bits: u8,
    pub functions: Vec<Function>,
    pub uncounted: Uncounted,
}

impl File {
    /// Counters of all functions.
    pub fn counters(&self) -> usize {
        self.functions.iter().map(Function::counters).sum()
    }

    /// Pairs of the table that sites share.
    pub fn shared_pairs(&self) -> usize {
        match self.shared_bits {
            0 => 0,
            bits => 1 << bits.min(Self::MOST_BITS),
        }
    }

    const MOST_BITS: u8 = 20;

    /// Its form on disk.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.push(
            TOOLS
                .iter()
                .position(|tool| *tool == self.tool)
                .unwrap_or(0) as u8,
        );
        out.extend_from_slice(&self.hash);
        put(&mut out, self.size);
        put(&mut out, self.main);
        out.push(self.shared_bits);
        put_text(&mut out, &self.original);
        put(&mut out, self.functions.len() as u64);
        let mut before = 0;
        for function in &self.functions {
            put(&mut out, function.entry.wrapping_sub(before));
            before = function.entry;
            put(&mut out, function.first);
            put(&mut out, function.blocks.len() as u64);
            put(&mut out, function.tables.into());
            let mut end = function.entry;
            for &(start, len) in &function.blocks {
                put(&mut out, zigzag(start.wrapping_sub(end)));
                put(&mut out, len.into());
                end = start + u64::from(len);
            }
            put(&mut out, function.edges.len() as u64);
            for edge in &function.edges {
                let kind = KINDS.iter().position(|kind| *kind == edge.kind);
                out.push(kind.unwrap_or(0) as u8 | u8::from(edge.has_counter) << 7);
                put(&mut out, edge.from.into());
                put(&mut out, edge.to.into());
            }
            put(&mut out, function.sites.len() as u64);
            for site in &function.sites {
                put(&mut out, site.block.into());
                put(&mut out, site.number.into());
            }
        }
        self.uncounted.encode(&mut out);
        out
    }

    /// Reads it; `None`: it is damaged, or something else.
    pub fn decode(bytes: &[u8]) -> Option<File> {
        let mut reader = Reader(bytes.strip_prefix(&MAGIC)?);
        let tool = *TOOLS.get(usize::from(reader.byte()?))?;
        let hash = *reader.take(16)?.first_chunk()?;
        let size = reader.number()?;
        let main = reader.number()?;
        let shared_bits = reader.byte()?;
        if shared_bits > File::MOST_BITS {
            return None;
        }
        let original = reader.text()?;
        let mut functions = Vec::new();
        let mut before = 0u64;
        for _ in 0..reader.number()? {
            let function = Function::decode(&mut reader, before)?;
            before = function.entry;
            functions.push(function);
        }
        Some(File {
            tool,
            original,
            size,
            hash,
            main,
            shared_bits,
            functions,
            uncounted: Uncounted::decode(&mut reader)?,
        })
    }
}

/// A hash of bytes by which two builds of a file are told apart (FNV-1a, two of 64 bits).
pub fn hash(bytes: &[u8]) -> [u8; 16] {
    const PRIME: u64 = 0x100_0000_01b3;
    let (mut one, mut other) = (0xcbf2_9ce4_8422_2325u64, 0x6c62_272e_07bb_0142u64);
    let mut words = bytes.chunks_exact(8);
    let mut mix = |word: u64| {
        one = (one ^ word).wrapping_mul(PRIME);
        other = (other ^ word.rotate_left(32)).wrapping_mul(PRIME);
        one ^= one >> 29;
        other ^= other >> 31;
    };
    for word in &mut words {
        mix(u64::from_le_bytes(
            word.first_chunk().copied().unwrap_or_default(),
        ));
    }
    let rest = words.remainder().iter().rev();
    mix(rest.fold(bytes.len() as u64, |word, &byte| {
        word << 8 | u64::from(byte)
    }));
    let mut hash = [0; 16];
    hash[..8].copy_from_slice(&one.to_le_bytes());
    hash[8..].copy_from_slice(&other.to_le_bytes());
    hash
}

pub(crate) fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    put(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

pub(crate) fn zigzag(number: u64) -> u64 {
    let number = number.cast_signed();
    ((number << 1) ^ (number >> 63)).cast_unsigned()
}

pub(crate) fn unzigzag(number: u64) -> u64 {
    (number >> 1) ^ (number & 1).wrapping_neg()
}

pub(crate) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (own, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(own)
    }

    pub fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    pub fn text(&mut self) -> Option<String> {
        let len = usize::try_from(self.number()?).ok()?;
        String::from_utf8(self.take(len)?.to_vec()).ok()
    }

    pub fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }
}
