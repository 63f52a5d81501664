//! mlsTrace descriptors: one for each value that an instruction loaded or stored, as the mTrace thesis
//! has them (figures 4.13 and 4.14).
//!
//! ```text
//! binary   thread u8 | [0 load, 1 store] | instruction u64 | operand u64 | size u8 | value
//! ASCII    0, L, 0x0000003f83201156, 0x0000003f8341fb80, 8, 0x0000003f83201130 mov rax, [rip+0x21ea23]
//! ```
//!
//! Whether it is a load or a store stands there only if stores were asked for. An update is a load,
//! then a store; each step of a repeated string instruction has descriptors of its own.
//!
//! Descriptors of a trace that has addresses only end with the size.
//!
//! Limits: a value that the trace does not know is 0, and counted ([`Written::unknown`]); an operand
//! of more than 255 bytes has size 0 and no value.

use std::collections::HashMap;
use std::io::{self, Write};
use std::ops::Range;

use analysis::walk::{AccessEvent, Accesses, Bytes, Operation, Pieces, Step, operations};
use isa::memory::Selection;

pub use self::statistics::statistics;
use crate::mcf::{Form, Numbered, Totals, by_process};

mod statistics;

/// Selection and form of the descriptors.
#[derive(Clone, Debug)]
pub struct View {
    pub form: Form,
    /// Each ASCII descriptor is followed by its instruction.
    pub disassemble: bool,
    /// Instructions of each thread, counted from 1.
    pub range: Range<u64>,
    /// Stores have descriptors, too.
    pub stores: bool,
    /// The trace has values.
    pub values: bool,
}

/// Numbers of what was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Loads and stores, by [`CLASSES`] of their sizes.
    pub loads: [u64; CLASSES.len()],
    pub stores: [u64; CLASSES.len()],
    /// Instructions among which they were, and threads.
    pub totals: Totals,
    /// Descriptors whose value is not known.
    pub unknown: u64,
    /// A sentence for each thread whose stream ends too early.
    pub failures: Vec<String>,
}

/// Bytes of operands that have a name (table 4.4), with it; all other sizes are the last row.
pub const CLASSES: [(u8, &str); 8] = [
    (1, "Byte Operands"),
    (2, "Word Operands"),
    (4, "Doubleword Operands"),
    (8, "Quadword Operands"),
    (10, "Extended Precision Operands"),
    (16, "Octaword Operands"),
    (32, "Hexaword Operands"),
    (0, "Operands of other size"),
];

fn class(size: u8) -> usize {
    let named = &CLASSES[..CLASSES.len() - 1];
    let at = named.iter().position(|(bytes, _)| *bytes == size);
    at.unwrap_or(named.len())
}

/// Writes descriptors, of one thread after the other.
pub fn write(
    threads: &[Numbered<'_>],
    selection: Selection,
    view: &View,
    out: &mut dyn Write,
) -> io::Result<Written> {
    let mut written = Written::default();
    for of_process in by_process(threads) {
        let mut pieces = Pieces::of(of_process[0].process);
        for Numbered { number, thread, .. } in of_process {
            let mut accesses = Accesses::new(&mut pieces, thread, selection);
            let mut writer = Writer {
                view,
                thread: *number,
                written: &mut written,
                texts: HashMap::new(),
                insns: 0,
            };
            let read = writer.all(&mut accesses, out)?;
            let insns = writer.insns;
            written.totals.executed(insns, &view.range);
            written.totals.thread(insns);
            if let Err(error) = read {
                let failure = format!("thread {}: {error}", thread.tid);
                written.failures.push(failure);
            }
        }
    }
    Ok(written)
}

struct Writer<'a> {
    view: &'a View,
    thread: u8,
    written: &'a mut Written,
    /// Instructions as text, each made once.
    texts: HashMap<(u32, u64), String>,
    /// Instructions before what comes.
    insns: u64,
}

impl Writer<'_> {
    fn all(
        &mut self,
        accesses: &mut Accesses<'_>,
        out: &mut dyn Write,
    ) -> io::Result<Result<(), String>> {
        let (mut made, mut values): (Vec<Made>, Vec<u8>) = (Vec::new(), Vec::new());
        while self.insns + 1 < self.view.range.end {
            made.clear();
            values.clear();
            match accesses.next() {
                None => break,
                Some(Err(error)) => return Ok(Err(error.to_string())),
                Some(Ok(AccessEvent::Went { .. })) => continue,
                Some(Ok(AccessEvent::Executed(steps, all, bytes))) => {
                    operations(all, |operation| {
                        let number = self.insns + u64::from(operation.step) + 1;
                        let is_wanted = self.view.stores || !operation.is_store;
                        if is_wanted && self.view.range.contains(&number) {
                            let step = steps[operation.step as usize];
                            made.push(self.count(step, operation, bytes, &mut values));
                        }
                    });
                    self.insns += steps.len() as u64;
                }
            }
            for one in &made {
                let text = self.view.disassemble.then(|| {
                    let key = (one.step.fragment, one.step.pc);
                    let text = self.texts.entry(key);
                    &*text.or_insert_with(|| {
                        isa::text::absolute(&accesses.code().bytes(&one.step), one.step.pc)
                    })
                });
                let text = text.map(String::as_str);
                let is_store = self.view.stores.then_some(one.is_store);
                let value = &values[one.value.clone()];
                let (head, places) = ((self.thread, is_store), (one.step.pc, one.address));
                let value = (value, self.view.values);
                put(head, places, value, (self.view.form, text), out)?;
            }
        }
        Ok(Ok(()))
    }

    /// Counts a load or store, and adds its value to `values`.
    fn count(
        &mut self,
        step: Step,
        operation: Operation,
        bytes: Bytes<'_>,
        values: &mut Vec<u8>,
    ) -> Made {
        let size = u8::try_from(operation.size).unwrap_or(0);
        let classes = match operation.is_store {
            true => &mut self.written.stores,
            false => &mut self.written.loads,
        };
        classes[class(size)] += 1;
        self.written.unknown += u64::from(self.view.values && operation.value.is_none());
        let first = values.len();
        if let Some(value) = operation.value {
            values.extend_from_slice(bytes.of(value));
        }
        values.resize(first + usize::from(size), 0);
        Made {
            step,
            is_store: operation.is_store,
            address: operation.address,
            value: first..values.len(),
        }
    }
}

/// A descriptor.
struct Made {
    step: Step,
    is_store: bool,
    address: u64,
    /// Place of its value, which has as many bytes as the operand.
    value: Range<usize>,
}

/// Most bytes of a value that is a number in text; longer ones are in the order of memory
/// (figure 4.21).
const NUMBER: usize = 16;

/// Most bytes of a binary descriptor.
const LONGEST: usize = 19 + 255;

/// Writes the descriptor of a load or a store; `is_store` is `None` if there are loads only, and the value may be no more than its
/// size.
fn put(
    (thread, is_store): (u8, Option<bool>),
    (pc, address): (u64, u64),
    (value, has_value): (&[u8], bool),
    (form, text): (Form, Option<&str>),
    out: &mut dyn Write,
) -> io::Result<()> {
    if form == Form::Binary {
        let mut bytes = [0; LONGEST];
        let mut len = 0;
        let mut add = |more: &[u8]| {
            bytes[len..len + more.len()].copy_from_slice(more);
            len += more.len();
        };
        add(&[thread]);
        if let Some(is_store) = is_store {
            add(&[u8::from(is_store)]);
        }
        add(&pc.to_le_bytes());
        add(&address.to_le_bytes());
        add(&[value.len() as u8]);
        if has_value {
            add(value);
        }
        return out.write_all(&bytes[..len]);
    }
    let kind = match is_store {
        None => "",
        Some(false) => ", L",
        Some(true) => ", S",
    };
    let size = value.len();
    write!(out, "{thread}{kind}, {pc:#018x}, {address:#018x}, {size}")?;
    if has_value {
        write!(out, ", ")?;
        put_value(value, out)?;
    }
    match text {
        Some(text) => writeln!(out, " {text}"),
        None => writeln!(out),
    }
}

/// A load, for who makes it of something else than a trace.
pub(crate) struct Load<'a> {
    pub thread: u8,
    pub pc: u64,
    pub address: u64,
    pub value: &'a [u8],
}

impl Load<'_> {
    /// Writes its descriptor, as those without `--stores` are.
    pub fn put(&self, form: Form, text: Option<&str>, out: &mut dyn Write) -> io::Result<()> {
        let Load { thread, value, .. } = *self;
        put(
            (thread, None),
            (self.pc, self.address),
            (value, true),
            (form, text),
            out,
        )
    }
}

/// A value as text.
pub(crate) fn put_value(value: &[u8], out: &mut dyn Write) -> io::Result<()> {
    let mut text = [0; 2 + 2 * NUMBER];
    text[..2].copy_from_slice(b"0x");
    if value.len() > NUMBER {
        write!(out, "0x")?;
        return value.iter().try_for_each(|byte| write!(out, "{byte:02x}"));
    }
    let digit = |half: u8| b"0123456789abcdef"[usize::from(half)];
    for (at, byte) in value.iter().rev().enumerate() {
        text[2 + 2 * at] = digit(byte >> 4);
        text[3 + 2 * at] = digit(byte & 15);
    }
    out.write_all(&text[..2 + 2 * value.len()])
}
