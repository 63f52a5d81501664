//! mcfTRaptor descriptors, as figure 4.22 of the mTrace thesis has them, and its statistics.
//!
//! ```text
//! outcome     thread u8 | bCnt u32 | 0                                   6 bytes
//! target      thread u8 | bCnt u32 | taken 1 | target u64 | 1           15 bytes
//! exception   thread u8 | 0 u32    | iCnt u32 | target u64 | 2          18 bytes
//! ```
//!
//! bCnt is never 0, and the byte behind it tells the first two apart. The thesis does not
//! say which number each type has, but its table 6.6 fits these lengths only.

mod check;
pub mod live;
pub mod shared;
mod spool;
mod summary;

use std::io::{self, Read, Write};

use analysis::raptor::{Config, Counts, Descriptor, Encoder};
use analysis::walk::{Branches, Item, Pieces};

use check::again;
pub use check::{Checked, check, decode};
pub use summary::{statistics, summary};

use crate::mcf::{self, Form, Numbered, Texts};

/// How descriptors are written.
#[derive(Clone, Copy, Debug)]
pub struct View {
    pub form: Form,
    /// Each ASCII descriptor is followed by its branch.
    pub disassemble: bool,
}

/// Figures of one thread.
#[derive(Debug)]
pub struct Row<'a> {
    pub thread: Numbered<'a>,
    pub insns: u64,
    pub counts: Counts,
    /// Why its stream could not be read to its end.
    pub error: Option<String>,
}

/// Bytes of the three kinds of descriptors.
pub const LENGTHS: [u64; 3] = [6, 15, 18];

/// Types, the last byte of each.
const OUTCOME: u8 = 0;
const TARGET: u8 = 1;
const EXCEPTION: u8 = 2;
const TAKEN: u8 = 1;

/// Figures of the predictors for a thread.
struct Figures {
    insns: u64,
    counts: Counts,
    error: Option<String>,
}

/// Makes the descriptors of a thread, each with its branch as text if that is wanted.
fn make(
    mut branches: Branches<'_>,
    config: &Config,
    disassemble: bool,
    said: &mut dyn FnMut(Descriptor, &str) -> io::Result<()>,
) -> io::Result<Figures> {
    let mut encoder = Encoder::new(config);
    let mut texts = Texts::default();
    let mut error = None;
    while let Some(item) = branches.next() {
        let item = match item {
            Ok(item) => item,
            Err(unsound) => {
                error = Some(unsound.to_string());
                break;
            }
        };
        if let Some(descriptor) = encoder.item(&item) {
            let text = match item {
                Item::Branch(ref branch) if disassemble => texts.of(&branches, branch),
                _ => "",
            };
            said(descriptor, text)?;
        }
    }
    let insns = branches.number();
    if let Some(end) = encoder.end(insns) {
        said(end, "")?;
    }
    Ok(Figures {
        insns,
        counts: *encoder.counts(),
        error,
    })
}

/// Makes the descriptors of all threads, and writes them if they are wanted.
pub fn write<'a>(
    threads: &[Numbered<'a>],
    config: &Config,
    mut wanted: Option<(View, &mut dyn Write)>,
) -> io::Result<Vec<Row<'a>>> {
    let mut rows = Vec::new();
    for of_process in mcf::by_process(threads) {
        let mut pieces = Pieces::of(of_process[0].process);
        for &thread in of_process {
            let branches = Branches::new(&mut pieces, thread.thread);
            let disassemble = wanted.as_ref().is_some_and(|(view, _)| view.disassemble);
            let mut said = |descriptor, text: &str| match &mut wanted {
                Some((view, out)) => put(thread.number, descriptor, view.form, text, out),
                None => Ok(()),
            };
            let made = make(branches, config, disassemble, &mut said)?;
            rows.push(Row::of(thread, made));
        }
    }
    Ok(rows)
}

impl<'a> Row<'a> {
    fn of(thread: Numbered<'a>, made: Figures) -> Row<'a> {
        Row {
            thread,
            insns: made.insns,
            counts: made.counts,
            error: made.error,
        }
    }
}

fn put(
    thread: u8,
    descriptor: Descriptor,
    form: Form,
    text: &str,
    out: &mut dyn Write,
) -> io::Result<()> {
    if form == Form::Binary {
        let (bytes, len) = binary(thread, descriptor);
        return out.write_all(&bytes[..len]);
    }
    match descriptor {
        Descriptor::Outcome { count } => write!(out, "{thread}, {count}"),
        Descriptor::Target { count, target } => {
            write!(out, "{thread}, {count}, T, {target:#018x}")
        }
        Descriptor::Exception { insns, target } => {
            write!(out, "{thread}, 0, {insns}, {target:#018x}")
        }
    }?;
    match text {
        "" => writeln!(out),
        text => writeln!(out, " {text}"),
    }
}

/// As bytes, and how many.
fn binary(thread: u8, descriptor: Descriptor) -> ([u8; 18], usize) {
    let mut bytes = [0; 18];
    bytes[0] = thread;
    let len = match descriptor {
        Descriptor::Outcome { count } => {
            bytes[1..5].copy_from_slice(&count.to_le_bytes());
            bytes[5] = OUTCOME;
            6
        }
        Descriptor::Target { count, target } => {
            bytes[1..5].copy_from_slice(&count.to_le_bytes());
            bytes[5] = TAKEN;
            bytes[6..14].copy_from_slice(&target.to_le_bytes());
            bytes[14] = TARGET;
            15
        }
        Descriptor::Exception { insns, target } => {
            bytes[5..9].copy_from_slice(&insns.to_le_bytes());
            bytes[9..17].copy_from_slice(&target.to_le_bytes());
            bytes[17] = EXCEPTION;
            18
        }
    };
    (bytes, len)
}

/// The next descriptor and the number of its thread; `None`: there is no more.
pub fn read(from: &mut dyn Read) -> io::Result<Option<(u8, Descriptor)>> {
    let mut thread = [0];
    if from.read(&mut thread)? == 0 {
        return Ok(None);
    }
    let odd = || io::Error::new(io::ErrorKind::InvalidData, "this is no descriptor");
    let count = u32::from_le_bytes(array(from)?);
    let descriptor = match count {
        0 => {
            let insns = u32::from_le_bytes(array(from)?);
            let target = u64::from_le_bytes(array(from)?);
            (array(from)? == [EXCEPTION]).then_some(Descriptor::Exception { insns, target })
        }
        count => match array(from)? {
            [OUTCOME] => Some(Descriptor::Outcome { count }),
            [TAKEN] => {
                let target = u64::from_le_bytes(array(from)?);
                (array(from)? == [TARGET]).then_some(Descriptor::Target { count, target })
            }
            _ => None,
        },
    };
    Ok(Some((thread[0], descriptor.ok_or_else(odd)?)))
}

fn array<const N: usize>(from: &mut dyn Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Bytes of the descriptors, if they are binary.
pub fn len(counts: &Counts) -> u64 {
    let [outcome, target, exception] = LENGTHS;
    counts.wrong_outcomes * outcome
        + counts.wrong_targets * target
        + counts.exception_descriptors * exception
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_read_as_written() {
        let all = [
            Descriptor::Outcome { count: 2 },
            Descriptor::Target {
                count: u32::MAX,
                target: 0x1122_3344_5566_7788,
            },
            Descriptor::Exception {
                insns: 78,
                target: 1 << 63,
            },
        ];
        let mut bytes = Vec::new();
        for descriptor in all {
            put(7, descriptor, Form::Binary, "", &mut bytes).unwrap();
        }
        assert_eq!(bytes.len() as u64, LENGTHS.iter().sum::<u64>());
        assert_eq!(bytes[..6], [7, 2, 0, 0, 0, 0]);
        assert_eq!(bytes[6..13], [7, 255, 255, 255, 255, 1, 0x88]);
        let mut rest = &bytes[..];
        for descriptor in all {
            assert_eq!(read(&mut rest).unwrap(), Some((7, descriptor)));
        }
        assert_eq!(read(&mut rest).unwrap(), None);
        assert!(read(&mut &bytes[..4]).is_err());
        assert!(read(&mut &[0, 1, 0, 0, 0, 9][..]).is_err());
    }
}
