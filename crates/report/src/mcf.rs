//! mcfTrace descriptors: one for each branch that was executed, as the mTrace thesis has them.
//!
//! ```text
//! binary   thread u8 | instruction u64 | target u64 | type u8          18 bytes, little-endian
//! ASCII    0, 0x00000000004004d3, 0x000000000040059e, C, D, NT jnbe 0x40059e
//! ```
//!
//! Types are 0 unconditional indirect, 1 unconditional direct, 2 conditional taken, 3
//! conditional not taken. The target of a conditional branch is where it goes if taken.
//! Threads are numbered through the whole recording, from 0 on.
//!
//! Threads follow one after the other, or take turns in the order of their time stamps
//! ([`write_in_order`]), as the file of mcfTrace has them. Then instructions are counted in that
//! order, those of all threads together.
//!
//! Limits: a thread's number has one byte.

mod ordered;
mod statistics;

use std::collections::HashMap;
use std::io::{self, Write};
use std::ops::Range;

use analysis::walk::{Branch, Branches, Item, Kind, Pieces, Unsound};
pub use ordered::write_in_order;
pub use statistics::{LEAVE_OUT, Totals, statistics};
pub(crate) use statistics::{skipped, write_skipped, write_time};
use trace::{Process, Recording, Thread};

/// Selection and form of the descriptors.
#[derive(Clone, Debug)]
pub struct View {
    pub form: Form,
    /// Each ASCII descriptor is followed by its instruction.
    pub disassemble: bool,
    /// Instructions of each thread, or of all in their order, counted from 1.
    pub range: Range<u64>,
    /// Only of the threads with this number.
    pub thread: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Binary,
    Ascii,
}

/// Bytes of a binary descriptor.
pub const LEN: usize = 18;

/// The number of types of branches.
const TYPES: usize = 4;

/// Numbers of what was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    pub totals: Totals,
    /// A sentence for each thread whose stream ends too early.
    pub failures: Vec<String>,
}

/// A thread and the number that descriptors give it.
#[derive(Clone, Copy, Debug)]
pub struct Numbered<'a> {
    pub number: u8,
    pub process: &'a Process,
    pub thread: &'a Thread,
}

/// All threads, or those with this number of the system; or why descriptors cannot name them.
pub fn threads(recording: &Recording, tid: Option<u32>) -> Result<Vec<Numbered<'_>>, String> {
    let processes = recording.processes.iter();
    let all = processes.flat_map(|process| process.threads.iter().map(move |t| (process, t)));
    let mut wanted = Vec::new();
    for (number, (process, thread)) in all.enumerate() {
        if tid.is_some_and(|tid| tid != thread.tid) {
            continue;
        }
        wanted.push(Numbered {
            number: u8::try_from(number).map_err(|_| {
                "a descriptor has one byte for the thread, and the recording has more than 256 \
                 threads; choose one of the first 256 with --thread"
                    .to_owned()
            })?,
            process,
            thread,
        });
    }
    Ok(wanted)
}

/// Writes descriptors, of one thread after the other.
pub fn write(threads: &[Numbered<'_>], view: &View, out: &mut dyn Write) -> io::Result<Written> {
    let mut written = Written::default();
    for of_process in by_process(threads) {
        let mut pieces = Pieces::of(of_process[0].process);
        for numbered in of_process {
            let mut branches = Branches::new(&mut pieces, numbered.thread);
            let mut texts = Texts::default();
            while let Some(item) = branches.next() {
                match item {
                    Ok(Item::Branch(branch)) if branch.number >= view.range.end => break,
                    Ok(Item::Branch(branch)) if view.range.contains(&branch.number) => {
                        let text = view.disassemble.then(|| texts.of(&branches, &branch));
                        put(numbered.number, &branch, view.form, text, out)?;
                        written.totals.types[type_of(&branch)] += 1;
                    }
                    Ok(_) => {}
                    Err(error) => written.fails(numbered.thread, &error),
                }
            }
            written.totals.executed(branches.number(), &view.range);
            written.totals.thread(branches.number());
        }
    }
    Ok(written)
}

impl Written {
    fn fails(&mut self, thread: &Thread, error: &Unsound) {
        self.failures
            .push(format!("thread {}: {error}", thread.tid));
    }
}

/// Writes the descriptor of a branch, and its instruction if that is wanted.
fn put(
    thread: u8,
    branch: &Branch,
    form: Form,
    text: Option<&str>,
    out: &mut dyn Write,
) -> io::Result<()> {
    if form == Form::Binary {
        return out.write_all(&binary(thread, branch));
    }
    ascii(thread, branch, out)?;
    match text {
        Some(text) => writeln!(out, " {text}"),
        None => writeln!(out),
    }
}

/// Threads of one process together.
pub fn by_process<'a, 'b>(threads: &'b [Numbered<'a>]) -> impl Iterator<Item = &'b [Numbered<'a>]> {
    threads.chunk_by(|one, other| std::ptr::eq(one.process, other.process))
}

/// The descriptor of a branch.
pub(crate) fn binary(thread: u8, branch: &Branch) -> [u8; LEN] {
    let mut bytes = [0; LEN];
    bytes[0] = thread;
    bytes[1..9].copy_from_slice(&branch.pc.to_le_bytes());
    bytes[9..17].copy_from_slice(&branch.target.to_le_bytes());
    bytes[17] = type_of(branch) as u8;
    bytes
}

/// The type of a branch, less than [`TYPES`].
fn type_of(branch: &Branch) -> usize {
    match (branch.kind, branch.taken) {
        (kind, _) if kind.is_indirect() => 0,
        (Kind::Conditional, true) => 2,
        (Kind::Conditional, false) => 3,
        _ => 1,
    }
}

/// Writes a descriptor as text, without the end of the line.
pub(crate) fn ascii(thread: u8, branch: &Branch, out: &mut dyn Write) -> io::Result<()> {
    let what = match (branch.kind, branch.taken) {
        (kind, _) if kind.is_indirect() => "U, I, T",
        (Kind::Conditional, true) => "C, D, T",
        (Kind::Conditional, false) => "C, D, NT",
        _ => "U, D, T",
    };
    let (pc, target) = (branch.pc, branch.target);
    write!(out, "{thread}, {pc:#018x}, {target:#018x}, {what}")
}

/// Branches as text, each made once.
#[derive(Default)]
pub(crate) struct Texts(HashMap<u32, String>);

impl Texts {
    pub fn of(&mut self, branches: &Branches<'_>, branch: &Branch) -> &str {
        let text = self.0.entry(branch.site);
        text.or_insert_with(|| isa::text::absolute(&branches.bytes(branch.site), branch.pc))
    }
}
