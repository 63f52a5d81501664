//! Makes an instance that differs smaller, and shows it.
//!
//! Approach: each piece in turn becomes `nop`s, which keep the places of the others, and
//! each part of the state the usual one, as long as the instance still differs.

use std::fmt::Write;

use iced_x86::{DecoderOptions, Formatter, IntelFormatter};

use super::check::{Bench, Finding};
use super::{Instance, encoding};
use crate::mode::Mode;
use crate::run::Outcome;

const NOP: u8 = 0x90;
/// Lines of state that are shown.
const MOST_LINES: usize = 24;

/// The smallest form of `instance` that `mode` still executes otherwise, and a description;
/// without a description if it does not differ when it is run alone.
pub fn reduce(
    bench: &Bench,
    instance: &Instance,
    mode: &Mode,
) -> Result<(Instance, Option<String>), String> {
    let mut best = instance.clone();
    let Some(mut difference) = compare(bench, &best, mode)? else {
        return Ok((best, None));
    };
    for step in 0..best.pieces.len() + 3 {
        let mut smaller = best.clone();
        match step.checked_sub(best.pieces.len()) {
            None => smaller.pieces[step].fill(NOP),
            Some(0) => (smaller.mxcsr, smaller.fcw) = (0x1F80, 0x037F),
            Some(1) => smaller.flags = 2,
            Some(_) => smaller.flags &= 0x8D7,
        }
        if smaller != best
            && let Some(still) = compare(bench, &smaller, mode)?
        {
            (best, difference) = (smaller, still);
        }
    }
    let text = format!("{}{difference}", describe(&best));
    Ok((best, Some(text)))
}

/// All that is to be said of a finding.
pub fn report(
    bench: &Bench,
    all: &[Instance],
    finding: &Finding,
    mode: &Mode,
) -> Result<String, String> {
    let number = finding.number;
    let (smallest, text) = reduce(bench, &all[number], mode)?;
    Ok(match text {
        Some(text) => format!("[{}] instance {number}\n{text}", mode.name),
        None => format!(
            "[{}] instance {number}, only behind those before it: {}\n{}",
            mode.name,
            finding.text,
            describe(&smallest)
        ),
    })
}

/// The lines in which the native state and that of `mode` differ; `None`: there are none.
fn compare(bench: &Bench, instance: &Instance, mode: &Mode) -> Result<Option<String>, String> {
    let native = bench.state(instance, None)?;
    let ours = bench.state(instance, Some(mode))?;
    Ok(difference(&native, &ours))
}

/// Lines that differ, from both sides.
#[must_use]
pub fn difference(native: &Outcome, ours: &Outcome) -> Option<String> {
    let mut text = String::new();
    if native.ending != ours.ending {
        let errors = String::from_utf8_lossy(&ours.stderr);
        let _ = writeln!(text, "  ended {:?}: {errors:.600}", ours.ending);
    }
    let output = |outcome: &Outcome| String::from_utf8_lossy(&outcome.stdout).into_owned();
    let (theirs, ours) = (output(native), output(ours));
    let pairs = theirs.lines().zip(ours.lines());
    // The first line is the hash of the others.
    let differing = pairs.skip(1).filter(|(native, ours)| native != ours);
    for (native, ours) in differing.take(MOST_LINES) {
        let _ = writeln!(text, "  native{native}\n  ours  {ours}");
    }
    (theirs != ours || !text.is_empty()).then_some(text)
}

/// Bytes, instructions and state.
#[must_use]
pub fn describe(instance: &Instance) -> String {
    let mut text = String::new();
    let mut at = instance.at;
    for piece in &instance.pieces {
        let end = at + piece.len() as u64;
        if piece.iter().all(|byte| *byte == NOP) {
            at = end;
            continue;
        }
        while at < end {
            let bytes = &piece[piece.len() - (end - at) as usize..];
            let (instruction, _) = encoding::decode(bytes, at, DecoderOptions::NO_INVALID_CHECK);
            let len = instruction.len().clamp(1, bytes.len());
            let mut line = String::new();
            IntelFormatter::new().format(&instruction, &mut line);
            let hex: String = bytes[..len]
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            let _ = writeln!(text, "  {at:x}  {hex:30} {line}");
            at += len as u64;
        }
    }
    let Instance {
        flags, mxcsr, fcw, ..
    } = instance;
    let _ = writeln!(text, "  flags {flags:x} mxcsr {mxcsr:x} fcw {fcw:x}");
    text
}
