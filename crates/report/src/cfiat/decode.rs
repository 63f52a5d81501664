//! The values of all loads, from descriptors of mlvCFiat, and the control flow, addresses and stores of
//! the trace.
//!
//! The loads are written as descriptors of mlsTrace: if none is wrong, they are what `dump --mls`
//! writes.

use std::collections::HashMap;
use std::io::{self, BufReader, Read, Write};
use std::ops::Range;

use analysis::cfiat::{Decoded, Decoder, Memory};
use analysis::turns::{self, Turn};
use analysis::walk::{Accessed, Bytes, Code, Step, operations};
use isa::memory::Selection;

use super::{Known, View, again, pairs, read};
use crate::mcf::{self, Numbered};
use crate::mls;

/// Numbers of what was made, and what did not fit.
#[derive(Clone, Debug, Default)]
pub struct Made {
    pub decoded: Decoded,
    pub failures: Vec<String>,
}

/// Makes all loads, of the descriptors `from`. `is_shared` has to be as it was for
/// [`write`](super::write).
pub fn decode(
    threads: &[Numbered<'_>],
    selection: Selection,
    is_shared: bool,
    from: impl Read,
    mut wanted: Option<(View, &mut dyn Write)>,
) -> io::Result<Made> {
    let mut made = Made::default();
    let mut from = BufReader::with_capacity(1 << 18, from);
    let mut descriptors = Descriptors {
        from: &mut from,
        next: None,
        failed: None,
    };
    descriptors.advance();
    for of_process in mcf::by_process(threads) {
        let memories = if is_shared { 1 } else { of_process.len() };
        let mut decoding = Decoding {
            threads: of_process,
            decoders: of_process.iter().map(|_| Decoder::default()).collect(),
            memories: (0..memories).map(|_| Memory::default()).collect(),
            descriptors: &mut descriptors,
            wanted: again(&mut wanted),
            made: Vec::new(),
            values: Vec::new(),
            texts: HashMap::new(),
        };
        let read = match is_shared {
            true => turns::together(&pairs(of_process), selection, &mut decoding),
            false => turns::apart(&pairs(of_process), selection, &mut decoding),
        }?;
        for decoder in &decoding.decoders {
            made.decoded.add(&decoder.decoded);
        }
        for (read, thread) in read.into_iter().zip(of_process) {
            let tid = thread.thread.tid;
            let failed = read.error.map(|error| format!("thread {tid}: {error}"));
            made.failures.extend(failed);
        }
    }
    let rest = descriptors.next.as_ref().map(|next| {
        format!(
            "the descriptors do not fit: one of thread {} behind {} loads was not met; give the trace \
             and the options that they were made with",
            next.thread, next.hits
        )
    });
    let failed = descriptors.failed.take();
    made.failures.extend(failed.or(rest));
    Ok(made)
}

/// Descriptors that are read one by one.
struct Descriptors<'r> {
    from: &'r mut dyn Read,
    next: Option<Known>,
    failed: Option<String>,
}

impl Descriptors<'_> {
    fn advance(&mut self) {
        self.next = read(self.from).unwrap_or_else(|error| {
            self.failed = Some(match error.kind() {
                io::ErrorKind::UnexpectedEof => "the descriptors end within one".to_owned(),
                _ => format!("the descriptors: {error}"),
            });
            None
        });
    }
}

struct Waiting {
    step: Step,
    address: u64,
    value: Range<usize>,
}

struct Decoding<'a, 'o, 'r> {
    threads: &'a [Numbered<'a>],
    decoders: Vec<Decoder>,
    memories: Vec<Memory>,
    descriptors: &'o mut Descriptors<'r>,
    wanted: Option<(View, &'o mut dyn Write)>,
    made: Vec<Waiting>,
    values: Vec<u8>,
    texts: HashMap<(usize, u32, u64), String>,
}

impl Turn for Decoding<'_, '_, '_> {
    fn executed(&mut self, thread: usize, steps: &[Step], all: &[Accessed], bytes: Bytes<'_>) {
        let memory = thread.min(self.memories.len() - 1);
        let memory = &mut self.memories[memory];
        let (decoder, number) = (&mut self.decoders[thread], self.threads[thread].number);
        let descriptors = &mut *self.descriptors;
        operations(all, |operation| {
            let next = descriptors.next.as_ref();
            let next = next.filter(|next| next.thread == number);
            let next = next.map(|next| next.hits);
            let value = decoder.operation(memory, &operation, bytes, next, |value| {
                if let Some(known) = descriptors.next.take() {
                    *value = known.value;
                }
                descriptors.advance();
            });
            if let (Some(value), true) = (value, self.wanted.is_some()) {
                let first = self.values.len();
                self.values.extend_from_slice(value);
                let size = usize::from(u8::try_from(operation.size).unwrap_or(0));
                self.values.resize(first + size, 0);
                self.made.push(Waiting {
                    step: steps[operation.step as usize],
                    address: operation.address,
                    value: first..first + size,
                });
            }
        });
    }

    fn written(&mut self, thread: usize, code: &Code) -> io::Result<()> {
        let Some((view, out)) = &mut self.wanted else {
            return Ok(());
        };
        for one in self.made.drain(..) {
            let text = view.disassemble.then(|| {
                let key = (thread, one.step.fragment, one.step.pc);
                let text = || isa::text::absolute(&code.bytes(&one.step), one.step.pc);
                &**self.texts.entry(key).or_insert_with(text)
            });
            let load = mls::Load {
                thread: self.threads[thread].number,
                pc: one.step.pc,
                address: one.address,
                value: &self.values[one.value],
            };
            load.put(view.form, text, out)?;
        }
        self.values.clear();
        Ok(())
    }
}
