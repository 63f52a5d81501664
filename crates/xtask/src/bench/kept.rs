//! Sizes of the traces of workloads: bytes on disk, and bits for each instruction.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::Measured;

/// A trace as the last round left it.
pub struct Kept {
    /// Size of the file.
    pub bytes: u64,
    /// Compressed size of the streams in it.
    pub streams: u64,
    pub instructions: u64,
}

/// The trace at `path`, as `everypath verify` sees it.
pub fn look(everypath: &Path, path: &Path) -> Result<Kept> {
    let output = Command::new(everypath).arg("verify").arg(path).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find(|line| line.contains(" bytes of streams"));
    let words: Vec<&str> = line.unwrap_or_default().split(' ').collect();
    // "N instructions in N bytes of streams: ..."
    let number = |at: usize| words.get(at)?.replace(',', "").parse().ok();
    let numbers = number(0).zip(number(3)).filter(|_| output.status.success());
    let (instructions, streams) = numbers.context("everypath verify says that it is not sound")?;
    Ok(Kept {
        bytes: fs::metadata(path)?.len(),
        streams,
        instructions,
    })
}

/// A section with all traces; nothing if there are none.
pub fn section(results: &[Measured]) -> String {
    let rows: Vec<String> = results.iter().filter_map(row).collect();
    if rows.is_empty() {
        return String::new();
    }
    format!(
        "\n## Traces\n\nBits per instruction: of the compressed streams; of the whole file, with code and names.\n\n\
         | workload | instructions | file, bytes | streams, bit per instruction | file, bit per instruction |\n\
         |---|---:|---:|---:|---:|\n{}",
        rows.concat()
    )
}

fn row(result: &Measured) -> Option<String> {
    let kept = result.kept.as_ref()?;
    let bits = |bytes: u64| bytes as f64 * 8.0 / kept.instructions.max(1) as f64;
    Some(format!(
        "| {} | {} | {} | {:.4} | {:.4} |\n",
        result.workload.name,
        kept.instructions,
        kept.bytes,
        bits(kept.streams),
        bits(kept.bytes)
    ))
}
