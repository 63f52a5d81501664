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
//! Limits: a value that the trace does not know is 0, and counted ([`Written::unknown`]); an operand
//! of more than 255 bytes has size 0 and no value.

use std::collections::HashMap;
use std::io::{self, Write};
use std::ops::Range;

use analysis::walk::{AccessEvent, Accessed, Accesses, Bytes, Pieces, Step, Value};
use isa::memory::Selection;

use crate::mcf::{Form, Numbered, by_process};

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
}

/// Numbers of what was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    pub loads: u64,
    pub stores: u64,
    /// Descriptors whose value is not known.
    pub unknown: u64,
    /// A sentence for each thread whose stream ends too early.
    pub failures: Vec<String>,
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
            if let Err(error) = writer.all(&mut accesses, out)? {
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
        let mut made: Vec<Made> = Vec::new();
        while self.insns + 1 < self.view.range.end {
            made.clear();
            match accesses.next() {
                None => break,
                Some(Err(error)) => return Ok(Err(error.to_string())),
                Some(Ok(AccessEvent::Went { .. })) => continue,
                Some(Ok(AccessEvent::Executed(steps, all, bytes))) => {
                    for of_insn in all.chunk_by(|one, other| one.step == other.step) {
                        let number = self.insns + u64::from(of_insn[0].step) + 1;
                        if self.view.range.contains(&number) {
                            let step = steps[of_insn[0].step as usize];
                            self.of(step, of_insn, bytes, &mut made);
                        }
                    }
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
                one.put(self.thread, self.view, text.map(String::as_str), out)?;
            }
        }
        Ok(Ok(()))
    }

    /// The descriptors of an instruction: its loads, then its stores; step by step, if it is
    /// repeated.
    fn of(&mut self, step: Step, all: &[Accessed], bytes: Bytes<'_>, made: &mut Vec<Made>) {
        let most = all.iter().map(|one| one.times).max().unwrap_or(0);
        for at in 0..most {
            let now = || all.iter().filter(|one| at < one.times);
            let mut put = |one: &Accessed, is_store, value: Option<Value>| {
                let access = one.at(at);
                self.written.unknown += u64::from(value.is_none());
                let size = u8::try_from(access.size).unwrap_or(0);
                let mut known = value.map_or_else(Vec::new, |value| bytes.of(value).to_vec());
                known.resize(size.into(), 0);
                made.push(Made {
                    step,
                    is_store,
                    address: access.address,
                    value: known,
                });
            };
            for one in now().filter(|one| one.access.kind.reads()) {
                self.written.loads += 1;
                put(one, false, one.read);
            }
            for one in now().filter(|one| self.view.stores && one.access.kind.writes()) {
                self.written.stores += 1;
                put(one, true, one.written);
            }
        }
    }
}

/// A descriptor.
struct Made {
    step: Step,
    is_store: bool,
    address: u64,
    /// As many bytes as the operand has.
    value: Vec<u8>,
}

/// Most bytes of a value that is a number in text; longer ones are in the order of memory
/// (figure 4.21).
const NUMBER: usize = 16;

impl Made {
    fn put(
        &self,
        thread: u8,
        view: &View,
        text: Option<&str>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let (pc, address) = (self.step.pc, self.address);
        if view.form == Form::Binary {
            out.write_all(&[thread])?;
            if view.stores {
                out.write_all(&[u8::from(self.is_store)])?;
            }
            out.write_all(&pc.to_le_bytes())?;
            out.write_all(&address.to_le_bytes())?;
            out.write_all(&[self.value.len() as u8])?;
            return out.write_all(&self.value);
        }
        let kind = match (view.stores, self.is_store) {
            (false, _) => "",
            (true, false) => ", L",
            (true, true) => ", S",
        };
        let size = self.value.len();
        write!(
            out,
            "{thread}{kind}, {pc:#018x}, {address:#018x}, {size}, 0x"
        )?;
        match size <= NUMBER {
            true => self
                .value
                .iter()
                .rev()
                .try_for_each(|byte| write!(out, "{byte:02x}"))?,
            false => self
                .value
                .iter()
                .try_for_each(|byte| write!(out, "{byte:02x}"))?,
        }
        match text {
            Some(text) => writeln!(out, " {text}"),
            None => writeln!(out),
        }
    }
}
