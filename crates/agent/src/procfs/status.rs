//! `status`, `stat` and `statm` without the engine's memory and handlers.
//!
//! The kernel's text stays as it is but for the figures that the engine changes; the formats are
//! those of proc(5). Peaks are the kernel's less what the engine has now.

use alloc::vec::Vec;
use core::fmt::Write;

use sys::signal::SigSet;

use super::sizes::Sizes;
use super::{KB, PAGE, Text};

/// Signals as the program set them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Signals {
    pub ignored: SigSet,
    pub caught: SigSet,
    /// The synchronous ones that are blocked, which the kernel is not told of; `None`: the
    /// file is about another thread.
    pub blocked: Option<SigSet>,
    /// Blocked signals that were sent and wait in the engine.
    pub held: SigSet,
    /// Blocked signals that were sent to the process and wait in the engine.
    pub held_by_all: SigSet,
}

impl Signals {
    fn blocked(&self, kernels: u64) -> u64 {
        match self.blocked {
            Some(own) => kernels & !SigSet::SYNCHRONOUS.0 | own.0,
            None => kernels,
        }
    }
}

/// `/proc/self/status`: `Name:\tvalue` in each line.
pub fn status(text: &[u8], sizes: &Sizes, signals: &Signals) -> Vec<u8> {
    let mut out = Text::default();
    let ours = &sizes.engine;
    // From where code is to where it ends, as the kernel was told.
    let mut program_code = 0;
    for line in text.split_inclusive(|&byte| byte == b'\n') {
        let Some((name, value)) = field(line) else {
            out.0.extend_from_slice(line);
            continue;
        };
        let kilobytes = || value.strip_suffix(" kB")?.trim().parse::<u64>().ok();
        let set = || u64::from_str_radix(value, 16).unwrap_or(0);
        let less = |bytes: u64| kilobytes().map(|all| all.saturating_sub(bytes / KB));
        let mapped = ours.resident.saturating_sub(ours.anonymous);
        let file = mapped.saturating_sub(ours.shared_memory);
        let memory = match name {
            "VmPeak" | "VmSize" => less(ours.size),
            "VmHWM" | "VmRSS" => less(ours.resident),
            "RssAnon" => less(ours.anonymous),
            "RssFile" => less(file),
            "RssShmem" => less(ours.shared_memory),
            "VmData" => less(ours.data),
            "VmExe" => {
                program_code = kilobytes().unwrap_or(0).min(sizes.code / KB);
                Some(program_code)
            }
            "VmLib" => Some((sizes.code / KB).saturating_sub(program_code)),
            _ => None,
        };
        let mask = match name {
            "SigPnd" => Some(set() | signals.held.0),
            "ShdPnd" => Some(set() | signals.held_by_all.0),
            "SigBlk" => Some(signals.blocked(set())),
            "SigIgn" => Some(signals.ignored.0),
            "SigCgt" => Some(signals.caught.0),
            _ => None,
        };
        // A text in memory takes every byte.
        let _ = match (memory, mask) {
            (Some(kilobytes), _) => writeln!(out, "{name}:\t{kilobytes:8} kB"),
            (_, Some(mask)) => writeln!(out, "{name}:\t{mask:016x}"),
            _ => {
                out.0.extend_from_slice(line);
                Ok(())
            }
        };
    }
    out.0
}

fn field(line: &[u8]) -> Option<(&str, &str)> {
    let line = core::str::from_utf8(line).ok()?;
    let (name, value) = line.split_once(':')?;
    Some((name, value.trim()))
}

/// `/proc/self/stat`: one line, whose second field, the name in brackets, may hold anything.
pub fn stat(text: &[u8], sizes: &Sizes, signals: &Signals) -> Vec<u8> {
    /// Signals of real time are not in this file.
    const CLASSIC: u64 = 0x7fff_ffff;
    let close = text.iter().rposition(|&byte| byte == b')').unwrap_or(0);
    let (name, fields) = text.split_at(close + 1);
    let mut out = Text(name.to_vec());
    let fields = core::str::from_utf8(fields).unwrap_or("").trim();
    // Numbers of fields as proc(5) has them; the third is the first behind the name.
    for (number, field) in (3..).zip(fields.split(' ')) {
        let value: u64 = field.parse().unwrap_or(0);
        let value = match number {
            23 => value.saturating_sub(sizes.engine.size),
            24 => value.saturating_sub(sizes.engine.resident / PAGE),
            31 => value | signals.held.0 & CLASSIC,
            32 => signals.blocked(value) & CLASSIC,
            33 => signals.ignored.0 & CLASSIC,
            34 => signals.caught.0 & CLASSIC,
            _ => {
                // A text in memory takes every byte.
                let _ = write!(out, " {field}");
                continue;
            }
        };
        let _ = write!(out, " {value}");
    }
    out.0.push(b'\n');
    out.0
}

/// `/proc/self/statm`: size, resident, of files, code, 0, data and stack, 0, in pages.
pub fn statm(text: &[u8], sizes: &Sizes) -> Vec<u8> {
    let ours = &sizes.engine;
    let mut out = Text::default();
    let fields = core::str::from_utf8(text).unwrap_or("").trim();
    for (index, field) in fields.split(' ').enumerate() {
        let value: u64 = field.parse().unwrap_or(0);
        let value = match index {
            0 => value.saturating_sub(ours.size / PAGE),
            1 => value.saturating_sub(ours.resident / PAGE),
            2 => value.saturating_sub(ours.resident.saturating_sub(ours.anonymous) / PAGE),
            5 => value.saturating_sub(ours.data / PAGE),
            _ => value,
        };
        // A text in memory takes every byte.
        let _ = match index {
            0 => write!(out, "{value}"),
            _ => write!(out, " {value}"),
        };
    }
    out.0.push(b'\n');
    out.0
}
