//! Predictors that all threads of a process share (figure 3.3 of the thesis): each branch asks
//! and teaches those that all branches before it have taught, in the order of time stamps.
//!
//! A switch of threads is a descriptor: an exception that goes to
//! [`SWITCH`](analysis::raptor::SWITCH). So they are decoded without the stamps: those of a thread follow each other
//! up to its switch.
//!
//! Limits: each thread's code is decoded for itself.

use std::cell::RefCell;
use std::io::{self, BufReader, Read, Write};
use std::iter::Peekable;

use analysis::raptor::{Config, Decoder, Descriptor, Encoder, Shared};
use analysis::walk::{Branch, Branches, Item, Order, Pieces};

use super::{Checked, Row, View, again, put, read};
use crate::mcf::{self, Form, Numbered, Texts};

/// A thread whose branches are read.
struct Reading<'r, 'a> {
    thread: Numbered<'a>,
    branches: Branches<'r>,
    encoder: Encoder,
    texts: Texts,
    error: Option<String>,
}

/// Receiver of the descriptors of a turn.
type Said<'a> = dyn FnMut(Descriptor, &str) -> io::Result<()> + 'a;

impl<'r, 'a: 'r> Reading<'r, 'a> {
    fn of(pieces: &'r mut Pieces, thread: Numbered<'a>) -> Reading<'r, 'a> {
        Reading {
            thread,
            branches: Branches::new(pieces, thread.thread).with_stamps(),
            encoder: Encoder::with_none(),
            texts: Texts::default(),
            error: None,
        }
    }

    /// Up to a stamp where another thread is next; whether the thread ended.
    fn turn(
        &mut self,
        order: &mut dyn FnMut(u64) -> bool,
        disassemble: bool,
        said: &mut Said<'_>,
    ) -> io::Result<bool> {
        let mut has_done = false;
        loop {
            let item = match self.branches.next() {
                Some(Ok(Item::Stamp(stamp))) => {
                    if order(stamp.time) {
                        continue;
                    }
                    if has_done {
                        said(self.encoder.switch(self.branches.number()), "")?;
                    }
                    return Ok(false);
                }
                Some(Ok(item)) => item,
                last => {
                    let error = last.and_then(Result::err);
                    self.error = error.map(|error| error.to_string());
                    if let Some(end) = self.encoder.end(self.branches.number()) {
                        said(end, "")?;
                    }
                    return Ok(true);
                }
            };
            has_done = true;
            if let Some(descriptor) = self.encoder.item(&item) {
                let text = match item {
                    Item::Branch(ref branch) if disassemble => {
                        self.texts.of(&self.branches, branch)
                    }
                    _ => "",
                };
                said(descriptor, text)?;
            }
        }
    }
}

/// Makes the descriptors of all threads, and writes them if they are wanted.
pub fn write<'a>(
    threads: &[Numbered<'a>],
    config: &Config,
    mut wanted: Option<(View, &mut dyn Write)>,
) -> io::Result<Vec<Row<'a>>> {
    let mut rows = Vec::new();
    for of_process in mcf::by_process(threads) {
        let mut pieces = all_pieces(of_process);
        let both = of_process.iter().zip(&mut pieces);
        let mut readings: Vec<_> = both.map(|(&t, pieces)| Reading::of(pieces, t)).collect();
        let mut shared = Shared::new(config);
        let mut order = Order::of(readings.len());
        while let Some(next) = order.next() {
            let reading = &mut readings[next];
            let number = reading.thread.number;
            let disassemble = wanted.as_ref().is_some_and(|(view, _)| view.disassemble);
            reading.encoder.swap(&mut shared);
            let mut said = |descriptor, text: &str| match &mut wanted {
                Some((view, out)) => put(number, descriptor, view.form, text, out),
                None => Ok(()),
            };
            let mut stays = |time| order.stays(next, time);
            reading.turn(&mut stays, disassemble, &mut said)?;
            reading.encoder.swap(&mut shared);
        }
        rows.extend(readings.into_iter().map(|reading| Row {
            thread: reading.thread,
            insns: reading.branches.number(),
            counts: *reading.encoder.counts(),
            error: reading.error,
        }));
    }
    Ok(rows)
}

fn all_pieces(threads: &[Numbered<'_>]) -> Vec<Pieces> {
    let of = |thread: &Numbered<'_>| Pieces::of(thread.process);
    threads.iter().map(of).collect()
}

/// As [`super::check`], turn by turn.
pub fn check(threads: &[Numbered<'_>], config: &Config) -> Result<Checked, String> {
    let mut all = Checked::default();
    for of_process in mcf::by_process(threads) {
        let [mut first, mut second, mut third] = [(); 3].map(|()| all_pieces(of_process));
        let both = of_process.iter().zip(&mut first);
        let mut readings: Vec<_> = both.map(|(&t, pieces)| Reading::of(pieces, t)).collect();
        let traced = of_process.iter().zip(&mut second);
        let mut traced: Vec<_> = traced
            .map(|(thread, pieces)| Branches::new(pieces, thread.thread))
            .collect();
        let turn: RefCell<std::vec::IntoIter<Descriptor>> = RefCell::default();
        let from_turn = || std::iter::from_fn(|| turn.borrow_mut().next());
        let decoders = third.iter_mut();
        let mut decoders: Vec<_> = decoders
            .map(|pieces| Decoder::waiting(pieces, from_turn()))
            .collect();
        let (mut encoding, mut decoding) = (Shared::new(config), Shared::new(config));
        let mut order = Order::of(readings.len());
        while let Some(next) = order.next() {
            let reading = &mut readings[next];
            let (number, tid) = (reading.thread.number, reading.thread.thread.tid);
            let mut descriptors = Vec::new();
            reading.encoder.swap(&mut encoding);
            let mut said = |descriptor, _: &str| {
                descriptors.extend(again(number, descriptor));
                Ok(())
            };
            let ended = reading.turn(&mut |time| order.stays(next, time), false, &mut said);
            reading.encoder.swap(&mut encoding);
            let ended = ended.map_err(|error| error.to_string())?;
            if !descriptors.is_empty() {
                *turn.borrow_mut() = descriptors.into_iter();
                decoders[next].swap(&mut decoding);
                let branches = compare(&mut traced[next], &mut decoders[next]);
                decoders[next].swap(&mut decoding);
                all.branches += branches.map_err(|error| format!("thread {tid}: {error}"))?;
            }
            if ended {
                all.insns += is_whole(reading, &mut traced[next], &decoders[next])?;
            }
        }
    }
    Ok(all)
}

/// The instructions of a thread, if all of it was made again.
fn is_whole<D: Iterator<Item = Descriptor>>(
    reading: &Reading<'_, '_>,
    traced: &mut Branches<'_>,
    decoded: &Decoder<'_, D>,
) -> Result<u64, String> {
    let missing = next_branch(traced);
    let numbers = [traced.number(), decoded.number()];
    match missing.is_none() && numbers == [reading.branches.number(); 2] {
        true => Ok(decoded.number()),
        false => Err(format!(
            "thread {}: {} instructions where the trace has {}",
            reading.thread.thread.tid,
            decoded.number(),
            reading.branches.number()
        )),
    }
}

fn next_branch(traced: &mut Branches<'_>) -> Option<Branch> {
    traced.find_map(|item| match item {
        Ok(Item::Branch(branch)) => Some(branch),
        _ => None,
    })
}

/// Compares the branches of one turn; how many they are.
fn compare<D: Iterator<Item = Descriptor>>(
    traced: &mut Branches<'_>,
    decoded: &mut Decoder<'_, D>,
) -> Result<u64, String> {
    let mut branches = 0;
    decoded.resume();
    for item in decoded {
        let found = match item {
            Ok(Item::Branch(branch)) => branch,
            Ok(_) => continue,
            Err(error) => return Err(error.to_string()),
        };
        let expected = next_branch(traced);
        // Sites are numbered as they are met.
        let same = |expected: Branch| {
            let site = expected.site;
            Branch { site, ..found } == expected
        };
        if !expected.is_some_and(same) {
            return Err(format!("{found:x?} where the trace has {expected:x?}"));
        }
        branches += 1;
    }
    Ok(branches)
}

/// As [`super::decode`], in the order in which the descriptors are.
pub fn decode(
    threads: &[Numbered<'_>],
    config: &Config,
    form: Form,
    from: impl Read,
    out: &mut dyn Write,
) -> io::Result<Option<String>> {
    let mut from = BufReader::new(from);
    let failure = RefCell::new(None);
    let all = std::iter::from_fn(|| {
        read(&mut from).unwrap_or_else(|error| {
            *failure.borrow_mut() = Some(format!("the descriptors: {error}"));
            None
        })
    });
    let all = RefCell::new(all.peekable());
    for of_process in mcf::by_process(threads) {
        let mut pieces = all_pieces(of_process);
        let both = of_process.iter().zip(&mut pieces);
        let mut decoders: Vec<_> = both
            .map(|(thread, pieces)| Decoder::waiting(pieces, of_thread(&all, thread.number)))
            .collect();
        let mut shared = Shared::new(config);
        let mut ended = 0;
        while ended < decoders.len() {
            let next = all.borrow_mut().peek().map(|&(number, _)| number);
            let at = of_process.iter().position(|t| Some(t.number) == next);
            let Some(at) = at else { break };
            let decoder = &mut decoders[at];
            decoder.swap(&mut shared);
            decoder.resume();
            let written = turn(decoder, of_process[at], form, out);
            decoder.swap(&mut shared);
            match written? {
                None => ended += usize::from(decoders[at].is_over()),
                Some(said) => return Ok(Some(failure.take().unwrap_or(said))),
            }
        }
        if ended < decoders.len() {
            let said = "the descriptors end before all threads do".to_owned();
            return Ok(Some(failure.take().unwrap_or(said)));
        }
    }
    Ok(failure.take())
}

/// The descriptors that come next, as long as they are of this thread.
fn of_thread<I: Iterator<Item = (u8, Descriptor)>>(
    all: &RefCell<Peekable<I>>,
    number: u8,
) -> impl Iterator<Item = Descriptor> {
    std::iter::from_fn(move || {
        let next = all.borrow_mut().next_if(|(of, _)| *of == number);
        next.map(|(_, descriptor)| descriptor)
    })
}

/// Writes the branches of a turn; gives what does not fit.
fn turn<D: Iterator<Item = Descriptor>>(
    decoder: &mut Decoder<'_, D>,
    thread: Numbered<'_>,
    form: Form,
    out: &mut dyn Write,
) -> io::Result<Option<String>> {
    for item in decoder {
        match item {
            Ok(Item::Branch(branch)) => match form {
                Form::Binary => out.write_all(&mcf::binary(thread.number, &branch))?,
                Form::Ascii => {
                    mcf::ascii(thread.number, &branch, out)?;
                    writeln!(out)?;
                }
            },
            Ok(_) => {}
            Err(error) => return Ok(Some(format!("thread {}: {error}", thread.thread.tid))),
        }
    }
    Ok(None)
}
