//! mlvCFiat descriptors, as figure 4.36 of the mTrace thesis has them, its statistics (figure 4.38),
//! and the values of all loads made of them again.
//!
//! ```text
//! binary   thread u8 | fahCnt u32 | size u8 | value
//! ASCII    0, 2, 0x00000004 mov r8d, [rax]
//! ```
//!
//! Limits: a value that the trace does not know is 0, and counted; an operand of more than 255 bytes has
//! size 0 and no value, as in [`mls`](crate::mls).

mod decode;
mod statistics;

use std::collections::HashMap;
use std::io::{self, Read as Reader, Write};
use std::ops::Range;

use analysis::cfiat::{Config, Counts, Descriptor, Encoder, Shared};
use analysis::turns::{self, Turn};
use analysis::walk::{Accessed, Bytes, Code, Step, operations};
use isa::memory::Selection;
use trace::{Process, Thread};

pub use decode::{Made, decode};
pub use statistics::{decoded, statistics, summary};

use crate::mcf::{self, Form, Numbered};
use crate::mls::put_value;

/// The form of descriptors.
#[derive(Clone, Copy, Debug)]
pub struct View {
    pub form: Form,
    /// Each ASCII descriptor is followed by its instruction.
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

/// Makes the descriptors of all threads, and writes them if they are wanted. Threads of a process have
/// one cache together if `is_shared`, in the order of their time stamps.
pub fn write<'a>(
    threads: &[Numbered<'a>],
    selection: Selection,
    config: &Config,
    is_shared: bool,
    mut wanted: Option<(View, &mut dyn Write)>,
) -> io::Result<Vec<Row<'a>>> {
    let mut rows = Vec::new();
    for of_process in mcf::by_process(threads) {
        let structures = if is_shared { 1 } else { of_process.len() };
        let mut encoding = Encoding {
            threads: of_process,
            encoders: of_process.iter().map(|_| Encoder::default()).collect(),
            shared: (0..structures).map(|_| None).collect(),
            config,
            wanted: again(&mut wanted),
            made: Vec::new(),
            values: Vec::new(),
            texts: HashMap::new(),
        };
        let read = match is_shared {
            true => turns::together(&pairs(of_process), selection, &mut encoding),
            false => turns::apart(&pairs(of_process), selection, &mut encoding),
        }?;
        let figures = read.into_iter().zip(encoding.encoders);
        let figures = of_process.iter().zip(figures);
        rows.extend(figures.map(|(&thread, (read, encoder))| Row {
            thread,
            insns: read.insns,
            counts: encoder.counts,
            error: read.error,
        }));
    }
    Ok(rows)
}

/// Threads without their numbers.
fn pairs<'a>(of_process: &[Numbered<'a>]) -> Vec<(&'a Process, &'a Thread)> {
    let threads = of_process.iter();
    threads.map(|one| (one.process, one.thread)).collect()
}

/// Lends the writer for a shorter time.
fn again<'o>(
    wanted: &'o mut Option<(View, &mut dyn Write)>,
) -> Option<(View, &'o mut (dyn Write + 'o))> {
    match wanted {
        Some((view, out)) => Some((*view, &mut **out)),
        None => None,
    }
}

/// A descriptor that is not written yet.
struct Waiting {
    step: Step,
    hits: u32,
    value: Range<usize>,
}

struct Encoding<'a, 'o> {
    threads: &'a [Numbered<'a>],
    encoders: Vec<Encoder>,
    /// The cache that all share, or those of each thread; made when they are needed.
    shared: Vec<Option<Box<Shared>>>,
    config: &'a Config,
    wanted: Option<(View, &'o mut dyn Write)>,
    made: Vec<Waiting>,
    values: Vec<u8>,
    /// Instructions as text, each made once, by thread, piece of code and address.
    texts: HashMap<(usize, u32, u64), String>,
}

impl Turn for Encoding<'_, '_> {
    fn executed(&mut self, thread: usize, steps: &[Step], all: &[Accessed], bytes: Bytes<'_>) {
        let at = thread.min(self.shared.len() - 1);
        let shared = self.shared[at].get_or_insert_with(|| Box::new(Shared::new(self.config)));
        let encoder = &mut self.encoders[thread];
        operations(all, |operation| {
            let Some(descriptor) = encoder.operation(shared, &operation, bytes) else {
                return;
            };
            if self.wanted.is_some() {
                let Descriptor { hits, value, size } = descriptor;
                let first = self.values.len();
                self.values.extend_from_slice(value.unwrap_or_default());
                let size = usize::from(u8::try_from(size).unwrap_or(0));
                self.values.resize(first + size, 0);
                self.made.push(Waiting {
                    step: steps[operation.step as usize],
                    hits,
                    value: first..first + size,
                });
            }
        });
    }

    fn written(&mut self, thread: usize, code: &Code) -> io::Result<()> {
        let Some((view, out)) = &mut self.wanted else {
            return Ok(());
        };
        let number = self.threads[thread].number;
        for one in self.made.drain(..) {
            let text = match view.disassemble {
                false => "",
                true => {
                    let key = (thread, one.step.fragment, one.step.pc);
                    let text = || isa::text::absolute(&code.bytes(&one.step), one.step.pc);
                    self.texts.entry(key).or_insert_with(text)
                }
            };
            put(
                number,
                one.hits,
                &self.values[one.value],
                view.form,
                text,
                out,
            )?;
        }
        self.values.clear();
        Ok(())
    }
}

/// Writes a descriptor.
fn put(
    thread: u8,
    hits: u32,
    value: &[u8],
    form: Form,
    text: &str,
    out: &mut dyn Write,
) -> io::Result<()> {
    if form == Form::Binary {
        let mut bytes = [0; HEAD + 255];
        bytes[0] = thread;
        bytes[1..5].copy_from_slice(&hits.to_le_bytes());
        bytes[5] = value.len() as u8;
        bytes[HEAD..HEAD + value.len()].copy_from_slice(value);
        return out.write_all(&bytes[..HEAD + value.len()]);
    }
    write!(out, "{thread}, {hits}, ")?;
    put_value(value, out)?;
    match text {
        "" => writeln!(out),
        text => writeln!(out, " {text}"),
    }
}

/// Bytes of a descriptor before its value.
pub const HEAD: usize = 6;

/// A descriptor that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    pub thread: u8,
    pub hits: u32,
    pub value: Vec<u8>,
}

/// The next descriptor; `None`: there is no more.
pub fn read(from: &mut dyn Reader) -> io::Result<Option<Known>> {
    let mut head = [0; HEAD];
    if from.read(&mut head[..1])? == 0 {
        return Ok(None);
    }
    from.read_exact(&mut head[1..])?;
    let [thread, hits @ .., size] = head;
    let mut value = vec![0; size.into()];
    from.read_exact(&mut value)?;
    Ok(Some(Known {
        thread,
        hits: u32::from_le_bytes(hits),
        value,
    }))
}
