//! Descriptors back to branches, and whether these are the ones that were traced.

use std::cell::RefCell;
use std::io::{self, BufReader, Read, Write};

use analysis::raptor::{Config, Decoder, Descriptor, Encoder};
use analysis::walk::{Branch, Branches, Item, Pieces};

use super::{binary, read};
use crate::mcf::{self, Form, Numbered};

/// Numbers of compared branches and instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    pub branches: u64,
    pub insns: u64,
}

/// The descriptors of a thread, by way of their bytes.
struct Descriptors<'a> {
    thread: u8,
    branches: Branches<'a>,
    encoder: Encoder,
    over: bool,
}

impl Iterator for Descriptors<'_> {
    type Item = Descriptor;

    fn next(&mut self) -> Option<Descriptor> {
        if self.over {
            return None;
        }
        for item in &mut self.branches {
            // Descriptors that cannot be read end the check.
            let Ok(item) = item else { break };
            if let Some(descriptor) = self.encoder.item(&item) {
                return again(self.thread, descriptor);
            }
        }
        self.over = true;
        let end = self.encoder.end(self.branches.number());
        again(self.thread, end?)
    }
}

/// The descriptor, written and read again.
pub(super) fn again(thread: u8, descriptor: Descriptor) -> Option<Descriptor> {
    let (bytes, len) = binary(thread, descriptor);
    let read = read(&mut &bytes[..len]).ok()??;
    (read.0 == thread).then_some(read.1)
}

/// Makes descriptors of every thread, and branches of the descriptors and the code alone, and
/// compares these with the trace: every address, outcome and target, and the number of its
/// instruction. Gives a sentence for the first difference.
pub fn check(threads: &[Numbered<'_>], config: &Config) -> Result<Checked, String> {
    let mut all = Checked::default();
    for of_process in mcf::by_process(threads) {
        let process = of_process[0].process;
        let mut pieces = [(); 3].map(|()| Pieces::of(process));
        for thread in of_process {
            let [first, second, third] = &mut pieces;
            let descriptors = Descriptors {
                thread: thread.number,
                branches: Branches::new(first, thread.thread),
                encoder: Encoder::new(config),
                over: false,
            };
            let mut traced = Branches::new(second, thread.thread);
            let mut decoded = Decoder::new(third, config, descriptors);
            let checked = compare(&mut traced, &mut decoded);
            let checked =
                checked.map_err(|error| format!("thread {}: {error}", thread.thread.tid))?;
            all.branches += checked.branches;
            all.insns += checked.insns;
        }
    }
    Ok(all)
}

fn compare<D: Iterator<Item = Descriptor>>(
    traced: &mut Branches<'_>,
    decoded: &mut Decoder<'_, D>,
) -> Result<Checked, String> {
    let mut checked = Checked::default();
    loop {
        let expected = traced.find_map(|item| match item {
            Ok(Item::Branch(branch)) => Some(branch),
            _ => None,
        });
        let found = loop {
            match decoded.next() {
                None => break None,
                Some(Ok(Item::Branch(branch))) => break Some(branch),
                Some(Ok(_)) => {}
                Some(Err(error)) => {
                    return Err(format!("behind {} branches: {error}", checked.branches));
                }
            }
        };
        let (Some(expected), Some(found)) = (expected, found) else {
            if (expected, found) != (None, None) || traced.number() != decoded.number() {
                return Err(format!(
                    "{found:x?} where the trace has {expected:x?}, {} instructions where it has {}",
                    decoded.number(),
                    traced.number()
                ));
            }
            checked.insns = traced.number();
            return Ok(checked);
        };
        // Sites are numbered as they are met.
        let site = expected.site;
        if (Branch { site, ..found }) != expected {
            return Err(format!("{found:x?} where the trace has {expected:x?}"));
        }
        checked.branches += 1;
    }
}

/// Makes mcfTrace descriptors of those of mcfTRaptor and the code of the recording. Reads no
/// stream of the trace. Gives a sentence for what does not fit.
pub fn decode(
    threads: &[Numbered<'_>],
    config: &Config,
    form: Form,
    from: impl Read,
    out: &mut dyn Write,
) -> io::Result<Option<String>> {
    let from = RefCell::new(BufReader::new(from));
    let failure = RefCell::new(None);
    let mut ahead = None;
    for of_process in mcf::by_process(threads) {
        let mut pieces = Pieces::of(of_process[0].process);
        for thread in of_process {
            let of_thread = std::iter::from_fn(|| {
                let next = ahead.take().or_else(|| {
                    let next = read(&mut *from.borrow_mut());
                    next.unwrap_or_else(|error| {
                        *failure.borrow_mut() = Some(format!("the descriptors: {error}"));
                        None
                    })
                });
                let (number, descriptor) = next?;
                if number != thread.number {
                    ahead = Some((number, descriptor));
                    return None;
                }
                Some(descriptor)
            });
            for item in Decoder::new(&mut pieces, config, of_thread) {
                match item {
                    Ok(Item::Branch(branch)) => match form {
                        Form::Binary => out.write_all(&mcf::binary(thread.number, &branch))?,
                        Form::Ascii => {
                            mcf::ascii(thread.number, &branch, out)?;
                            writeln!(out)?;
                        }
                    },
                    Ok(_) => {}
                    Err(error) => {
                        let before = failure.take();
                        let said = format!("thread {}: {error}", thread.thread.tid);
                        return Ok(Some(before.unwrap_or(said)));
                    }
                }
            }
        }
    }
    Ok(failure.take())
}
