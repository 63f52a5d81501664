//! The seam for tools: what one says of a function, and what the editor does for it.
//!
//! | a tool | the editor |
//! |---|---|
//! | says what is done at which edges of a function ([`Unit`], [`Plan`]) | makes the code, finds it a place, moves the rest along |
//! | may ask for several versions of a function's code ([`Versions`]) | makes all of them, with frames, tables and debugging information |
//! | or that the function is to be left | leaves it; also later, if something else stands against moving it |
//! | says what is done where others come to an entry | has the code in front of it do that |
//! | asks for memory of each thread ([`Memory`]) | puts code in front of entries that gives threads theirs, and refuses files where that would not do |
//! | writes a section, for readers of what the program will have recorded | puts it into the file |
//! | records addresses | writes a section with the old addresses of new code ([`crate::moves_of`]) |
//!
//! A tool is a file of the crate `edits`; nothing here knows one.

use flow::Program;
use image::LinkAddr;
use probe::Op;
use wire::contexts::{BYTES, CALLS_BYTES, LANE_AT};

use crate::skipped::Why;
use crate::unit::{Plan, Unit};
use crate::versions::{Version, Versions};

/// A tool of the editor.
pub trait StaticTool: Send {
    /// Versions that a function's code is to have.
    fn versions(&mut self, _unit: &Unit<'_>) -> Versions {
        Versions::ONE
    }

    /// Says what is inserted into a version of a function: at its own blocks, and on edges from them. The first version comes first.
    ///
    /// # Errors
    /// The function is to be left as it is.
    fn plan(&mut self, unit: &Unit<'_>, version: Version, out: &mut Plan) -> Result<(), Why>;

    /// Whether it inserts anything at all.
    fn inserts(&self) -> bool {
        true
    }

    /// Whether registers may be kept below the stack pointer, in functions that have nothing there.
    fn spills(&self) -> bool {
        false
    }

    /// Whether it inserts before instructions anywhere in a block ([`probe::At::Inside`]).
    fn inserts_anywhere(&self) -> bool {
        false
    }

    /// A function, by its number, is left for other reasons; it may have been planned, or not.
    fn skip(&mut self, _function: usize) {}

    /// Memory of each thread; how much is known once all functions are planned. `None`: it needs none, from the beginning.
    fn memory(&self) -> Option<Memory<'_>> {
        None
    }

    /// Says what is done where others than moved code come to an entry, by its old place: with one register, and no flags. What is done
    /// at address 0 is as long as any of these.
    fn entered(&self, _entry: LinkAddr) -> Vec<Op> {
        Vec::new()
    }

    /// Whether what readers need to know is a file of its own ([`crate::Edited::apart`]), and the section only its identity.
    fn is_apart(&self) -> bool {
        false
    }

    /// A section with what readers need to know.
    fn section(&self, _outcome: &Outcome<'_>) -> Option<Section> {
        None
    }

    /// Whether it records addresses to which control goes: a section says which old ones those of new code are.
    fn records_targets(&self) -> bool {
        false
    }

    /// Words about what was inserted; empty: there is nothing to say.
    fn says(&self) -> String {
        String::new()
    }
}

/// The place of files of counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterFiles<'a> {
    /// The folder that `EVERYPATH_COUNTERS` names when the program runs, else that in which it runs.
    WorkingFolder,
    /// The folder of the edited program.
    Beside,
    /// This one, of at most 511 bytes, if `EVERYPATH_COUNTERS` names no other.
    Folder(&'a str),
    /// None: counters are memory that a fuzzer shares.
    Fuzzer,
    /// None: the memory is the process's own, and a forked child goes on with what its parent had.
    Nowhere,
}

/// The tool that inserts nothing.
impl StaticTool for () {
    fn plan(&mut self, _: &Unit<'_>, _: Version, _: &mut Plan) -> Result<(), Why> {
        Ok(())
    }

    fn inserts(&self) -> bool {
        false
    }
}

/// The form of threads' memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Counters,
    /// A [`wire::counters::Lane`].
    Lane,
    /// A number and records ([`wire::contexts`]).
    Records,
    /// These, and a lane of events behind them ([`wire::contexts::LANE_AT`]).
    Events,
    /// Also counters of calls by context, behind the lane ([`wire::contexts::Calls`]).
    Calls,
}

/// Memory of each thread, at `%gs`.
#[derive(Clone, Copy, Debug)]
pub struct Memory<'t> {
    /// Bytes behind its first page, whole pages.
    pub bytes: u64,
    pub form: Form,
    /// The place of the files that have it.
    pub files: CounterFiles<'t>,
    /// The file's part of the memory, if it is edited together with others.
    pub part: Option<Part<'t>>,
}

impl Memory<'_> {
    /// Bytes between the first page and this memory, in a file that is edited alone.
    pub fn at(&self) -> u64 {
        match self.form {
            Form::Events | Form::Calls => LANE_AT,
            _ => 0,
        }
    }

    /// Bytes behind the first page, in such a file.
    pub fn window(&self) -> u64 {
        let copies = match self.form {
            Form::Events => BYTES,
            Form::Calls => BYTES + CALLS_BYTES,
            _ => 0,
        };
        self.at() + self.bytes + copies
    }
}

/// A part of the memory of threads, for one of the files that are edited together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part<'t> {
    /// Identity of these files; not 0.
    pub group: u64,
    /// Bytes, whole pages, behind the first page of memory: of all these files, of those before this one, and most of it.
    pub window: u64,
    pub at: u64,
    pub most: u64,
    /// Path of the edited file.
    pub path: &'t str,
}

/// The fate of a file's functions.
#[derive(Clone, Copy, Debug)]
pub struct Outcome<'l> {
    /// The file that is edited.
    pub input: &'l [u8],
    pub program: &'l Program,
    /// Numbers of functions that are left, with reasons.
    pub skipped: &'l [(usize, Why)],
}

/// A section of the edited file.
#[derive(Clone, Debug)]
pub struct Section {
    pub bytes: Vec<u8>,
    /// Identity of the edited file, which files of memory have.
    pub id: [u8; 16],
}
