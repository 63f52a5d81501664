//! Whether the accesses of a trace can be read, and how many there are.

use std::io::{self, Write};

use analysis::walk::{AccessesCount, Replayed, count_accesses, selection};
use trace::stream::{ADDRESS_STREAM, VALUE_STREAM};
use trace::{Recording, Thread};

use super::super::title;
use crate::numbers::{counted, grouped};

/// Sums of all threads.
#[derive(Default)]
struct Sums {
    accesses: u64,
    unknown: u64,
    /// On disk.
    addresses: u64,
    values: u64,
    replayed: Replayed,
}

impl Sums {
    fn add(&mut self, thread: &Thread, count: &AccessesCount) {
        self.accesses += count.accesses;
        self.unknown += count.unknown;
        self.replayed.bytes += count.replayed.bytes;
        self.replayed.unequal += count.replayed.unequal;
        for part in &thread.stream {
            match part.stream {
                ADDRESS_STREAM => self.addresses += part.stored_len(),
                VALUE_STREAM => self.values += part.stored_len(),
                _ => {}
            }
        }
    }

    fn write(&self, has_values: bool, out: &mut dyn Write) -> io::Result<()> {
        if self.replayed.bytes > 0 {
            let bytes = grouped(self.replayed.bytes);
            let unequal = grouped(self.replayed.unequal);
            let what = "that a thread read after it wrote them, without a system call in between";
            writeln!(out, "{bytes} bytes {what}: {unequal} differ")?;
        }
        let each = |bytes: u64| bytes as f64 / self.accesses.max(1) as f64;
        let accesses = counted(self.accesses, "memory access");
        let (bytes, own) = (grouped(self.addresses), each(self.addresses));
        write!(out, "{accesses} in {bytes} bytes: {own:.2} bytes each")?;
        if has_values {
            let (bytes, own) = (grouped(self.values), each(self.values));
            let unknown = counted(self.unknown, "value");
            write!(
                out,
                "; values in {bytes} bytes: {own:.2} each; {unknown} not known"
            )?;
        }
        writeln!(out)
    }
}

/// Reads all accesses; how many there are, and whether each word is of an instruction.
pub fn verify(recording: &Recording, out: &mut dyn Write) -> io::Result<bool> {
    let Some(selection) = selection(recording) else {
        return Ok(true);
    };
    let (mut sound, mut sums) = (true, Sums::default());
    let counts = count_accesses(recording, selection);
    for (process, counts) in recording.processes.iter().zip(counts) {
        for (thread, count) in process.threads.iter().zip(counts) {
            sums.add(thread, &count);
            if let Some((insns, address)) = count.replayed.first {
                let title = title(process, thread);
                let first = format!("instruction {} reads {address:x}", insns + 1);
                let what = "does not find what this thread wrote there";
                writeln!(out, "{title}: {first} and {what}")?;
            }
            if let Some(fault) = fault(count) {
                writeln!(out, "{}: not sound: {fault}", title(process, thread))?;
                sound = false;
            }
        }
    }
    sums.write(selection.values, out)?;
    Ok(sound)
}

fn fault(count: AccessesCount) -> Option<String> {
    match count {
        AccessesCount {
            error: Some(error), ..
        } => Some(error),
        AccessesCount { left: 1.., .. } => {
            let left = counted(count.left, "byte");
            Some(format!(
                "{left} about memory accesses are of no instruction"
            ))
        }
        AccessesCount { is_short: true, .. } => {
            Some("its memory accesses end before its instructions do".to_owned())
        }
        _ => None,
    }
}
