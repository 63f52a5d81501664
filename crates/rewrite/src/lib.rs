//! The exec editor: an ordinary ELF file in, the same program with more code out.
//!
//! Problem: a program that measures itself needs room in its file for code and data, and tools that come later
//! (`strip`, the dynamic linker, debuggers) must find everything where they look for it.
//!
//! Approach: no byte of the file moves. What is added is one segment behind all others ([`segment`]), whose
//! program header takes the place of one that programs run without. The table of sections is written anew at the end of the
//! file with sections for what was added, as `strip` keeps only what sections cover ([`file`](mod@file)). The editor then
//! compares the output with the input, byte by byte outside of a list of edits ([`check`]).
//!
//! | module | what |
//! |---|---|
//! | `file` | headers of an ELF file as values that can be changed, and the file written again |
//! | `segment` | a segment more |
//! | `mark` | the note by which an edited file is known |
//! | `driver` | functions moved, and jumps to them from their old places |
//! | `layout` | the code of a function for another place |
//! | `references` | addresses that code and data hold |
//! | `jump_tables` | tables of switches that are written anew |
//! | `eh_frame` | unwind tables |
//! | `lsda` | tables of landing pads |
//! | `debug` | debugging information |
//! | `cursor` | numbers of such tables |
//! | `libraries` | the folder where the dynamic linker looks for libraries first |
//! | `address` | addresses in the file that is edited, and in the edited one |
//! | `abandons` | calls that may not come back |
//! | `tool` | the seam for tools, which are elsewhere |
//! | `unit` | a function as tools see it |
//! | `resident` | the code that gives threads their memory |
//! | `skipped` | reasons for functions to stay |
//! | `check` | the output against the input |
//!
//! Limits: docs/limits.md, `rewrite`.
#![forbid(unsafe_code)]

mod abandons;
mod address;
mod check;
mod cursor;
mod debug;
mod driver;
mod eh_frame;
mod file;
mod jump_tables;
mod layout;
mod libraries;
mod lsda;
mod mark;
mod references;
mod resident;
mod segment;
mod skipped;
mod tool;
mod twice;
pub mod unit;
mod versions;

use std::ops::Range;

use image::LinkAddr;

pub use driver::{OldCode, edit};
pub use layout::{
    COUNT, ENTER, FULL, GOES, HEAD, LEAVE, LEFT, LOG, PUSH, REFER, RESTORE, TALLY, TURNS,
};
pub use mark::is_edited;
pub use skipped::Why;
pub use tool::{CounterFiles, Form, Memory, Outcome, Part, Section, StaticTool};
pub use unit::{Plan, Unit};
pub use versions::{Label, Version, Versions};

/// Section that a tool wrote for readers.
const PLAN: &str = ".everypath.plan";

/// The section that a tool wrote into an edited file.
#[must_use]
pub fn plan_of(bytes: &[u8]) -> Option<&[u8]> {
    let file = file::File::parse(bytes).ok()?;
    file.section(PLAN).map(|(_, section)| section)
}

/// Name of the section with the old addresses of new code.
const MOVES: &str = ".everypath.moves";

/// New addresses of an edited file to which calls and jumps by an address may go, and the old ones, by the new ones. Empty: its tool
/// records no targets.
#[must_use]
pub fn moves_of(bytes: &[u8]) -> Vec<(u64, u64)> {
    let file = file::File::parse(bytes).ok();
    let section = file
        .as_ref()
        .and_then(|file| file.section(MOVES).map(|(_, section)| section));
    let words = section.unwrap_or_default().chunks_exact(16);
    words
        .filter_map(|pair| {
            let (new, old) = pair.split_first_chunk()?;
            let old = old.first_chunk()?;
            Some((u64::from_le_bytes(*new), u64::from_le_bytes(*old)))
        })
        .collect()
}

/// An edited file.
#[derive(Clone, Debug)]
pub struct Edited {
    pub bytes: Vec<u8>,
    /// Edits of the bytes of the input, as ranges with what they are.
    pub edits: Vec<Edit>,
    /// Link addresses of the new segment.
    pub segment: Range<u64>,
    /// Kind of the program header that gave its place.
    pub spare: &'static str,
    /// Functions that were moved.
    pub moved: usize,
    /// Entries of functions that were left, and why.
    pub skipped: Vec<(LinkAddr, Why)>,
    /// Jump tables of moved functions that were made anew, and all of them.
    pub tables: (usize, usize),
    /// Words of the tool about what it inserted.
    pub says: String,
    /// Facts for readers that are in no section, and then instructions of new code.
    pub apart: Vec<u8>,
    pub code: Vec<Insn>,
}

/// An instruction of new code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Insn {
    /// New address of what is inserted before it, and its own.
    pub front: u64,
    pub new: u64,
    pub old: u64,
}

/// Bytes of the input that the output has other values for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// Offsets in the file.
    pub at: Range<u64>,
    pub what: &'static str,
}

/// A reason to leave a file as it is; each is the end of a sentence that begins with its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("it was edited by everypath before; edit the original")]
    Edited,
    #[error("its {0} cannot be understood")]
    Malformed(&'static str),
    #[error("its {0} ends behind its last byte: it is truncated")]
    Truncated(&'static str),
    #[error("it is packed by UPX; unpack it first with `upx -d`")]
    Packed,
    #[error(
        "{0} bytes lie behind its last section, and programs with data at their end look for it there"
    )]
    Tail(u64),
    #[error("its program headers have none to spare for another segment")]
    NoSpareHeader,
    #[error("its dynamic section has no entry to spare for a folder of libraries")]
    NoSpareEntry,
    #[error("it has no unwind table with an index (`.eh_frame_hdr`), as most static programs")]
    NoUnwind,
    #[error("its segments leave no room for another one within 2 GB of its code")]
    NoRoom,
    #[error("no segment of data has room behind it for what finds the counters")]
    NoData,
    #[error("it is a library, and only programs are counted")]
    Library,
    #[error("it needs more counters than there is room for beside those of the other files")]
    NoCounters,
    #[error("it uses %gs itself, by which counters are found")]
    UsesGs,
    #[error("the edited file failed its check: {0}; please report this")]
    Check(&'static str),
}

/// Requests besides the tool.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options<'a> {
    /// The fate of the old code of moved functions.
    pub old_code: OldCode,
    /// Folder where the dynamic linker looks for libraries first; `$ORIGIN` is that of the file.
    pub libraries: Option<&'a str>,
}

/// Adds a segment with nothing in it but the note that marks the file.
///
/// # Errors
/// [`Refused`] says why the file is left as it is.
pub fn null_segment(input: &[u8], options: Options<'_>) -> Result<Edited, Refused> {
    if is_edited(input) {
        return Err(Refused::Edited);
    }
    let mut file = file::File::parse(input)?;
    let mut plan = segment::Plan::new(&file)?;
    plan.push(segment::Contents {
        name: mark::SECTION,
        kind: object::elf::SHT_NOTE,
        is_code: false,
        align: mark::ALIGN,
        bytes: mark::note(),
    });
    if let Some(folder) = options.libraries {
        libraries::search_first(&mut file, &mut plan, folder)?;
    }
    finish(input, file, plan, Functions::default())
}

/// Functions of an edited file.
#[derive(Default)]
struct Functions {
    moved: usize,
    skipped: Vec<(LinkAddr, Why)>,
    tables: (usize, usize),
    says: String,
    apart: Vec<u8>,
    code: Vec<Insn>,
}

/// Writes a file with the segment that is planned, and checks it.
fn finish(
    input: &[u8],
    mut file: file::File<'_>,
    plan: segment::Plan,
    functions: Functions,
) -> Result<Edited, Refused> {
    let added = segment::add(&mut file, plan)?;
    let bytes = file.write(&added);
    let edits = file.edits();
    check::check(input, &bytes, &edits, &added)?;
    Ok(Edited {
        bytes,
        edits,
        segment: added.addr..added.addr + added.bytes.len() as u64,
        spare: added.spare,
        moved: functions.moved,
        skipped: functions.skipped,
        tables: functions.tables,
        says: functions.says,
        apart: functions.apart,
        code: functions.code,
    })
}
