//! Descriptors of all threads in the order in which they were executed, as far as time stamps
//! say that.
//!
//! Invariant: the descriptors of one thread are those of [`super::write`], in that order.
//!
//! Limits: between two stamps of a thread its branches are not told apart from those of
//! others; they stand together.

use std::io::{self, Write};

use analysis::walk::{Branches, Item, Order, Pieces};

use super::{Numbered, Texts, View, put};

/// Writes descriptors; gives a sentence for each thread whose stream ends too early.
pub fn write_in_order(
    threads: &[Numbered<'_>],
    view: &View,
    out: &mut dyn Write,
) -> io::Result<Vec<String>> {
    let of = |thread: &Numbered<'_>| Pieces::of(thread.process);
    let mut pieces: Vec<Pieces> = threads.iter().map(of).collect();
    let both = threads.iter().zip(&mut pieces);
    let mut readings: Vec<(Branches<'_>, Texts)> = both
        .map(|(numbered, pieces)| {
            let branches = Branches::new(pieces, numbered.thread).with_stamps();
            (branches, Texts::default())
        })
        .collect();
    let mut failures = Vec::new();
    let mut order = Order::of(threads.len());
    while let Some(next) = order.next() {
        let (branches, texts) = &mut readings[next];
        let Numbered { number, thread, .. } = threads[next];
        while let Some(item) = branches.next() {
            match item {
                Ok(Item::Stamp(stamp)) if !order.stays(next, stamp.time) => break,
                Ok(Item::Branch(branch)) if branch.number >= view.range.end => break,
                Ok(Item::Branch(branch)) if view.range.contains(&branch.number) => {
                    let text = view.disassemble.then(|| texts.of(branches, &branch));
                    put(number, &branch, view.form, text, out)?;
                }
                Ok(_) => {}
                Err(error) => failures.push(format!("thread {}: {error}", thread.tid)),
            }
        }
    }
    Ok(failures)
}
