//! Descriptors of all threads in the order in which they were executed, as far as time stamps
//! say that.
//!
//! Invariant: the descriptors of one thread are those of [`super::write`], in that order. A range
//! is of instructions of all threads, counted in the order in which they are read.
//!
//! Limits: between two stamps of a thread its branches are not told apart from those of
//! others; they stand together.

use std::io::{self, Write};

use analysis::walk::{Branches, Item, Order, Pieces};

use super::{Numbered, Texts, View, Written, put, type_of};

/// Writes descriptors in order.
pub fn write_in_order(
    threads: &[Numbered<'_>],
    view: &View,
    out: &mut dyn Write,
) -> io::Result<Written> {
    let of = |thread: &Numbered<'_>| Pieces::of(thread.process);
    let mut pieces: Vec<Pieces> = threads.iter().map(of).collect();
    let both = threads.iter().zip(&mut pieces);
    let mut readings: Vec<(Branches<'_>, Texts)> = both
        .map(|(numbered, pieces)| {
            let branches = Branches::new(pieces, numbered.thread).with_stamps();
            (branches, Texts::default())
        })
        .collect();
    let (mut written, mut all) = (Written::default(), 0);
    let mut order = Order::of(threads.len());
    while let Some(next) = order.next().filter(|_| all + 1 < view.range.end) {
        let (branches, texts) = &mut readings[next];
        let Numbered { number, thread, .. } = threads[next];
        // Instructions of the others.
        let others = all - branches.number();
        while let Some(item) = branches.next() {
            match item {
                Ok(Item::Stamp(stamp)) if !order.stays(next, stamp.time) => break,
                Ok(Item::Branch(branch)) if others + branch.number >= view.range.end => break,
                Ok(Item::Branch(branch)) if view.range.contains(&(others + branch.number)) => {
                    let text = view.disassemble.then(|| texts.of(branches, &branch));
                    put(number, &branch, view.form, text, out)?;
                    written.totals.types[type_of(&branch)] += 1;
                }
                Ok(_) => {}
                Err(error) => written.fails(thread, &error),
            }
        }
        all = others + branches.number();
    }
    written.totals.executed(all, &view.range);
    for (branches, _) in &readings {
        written.totals.thread(branches.number());
    }
    Ok(written)
}
