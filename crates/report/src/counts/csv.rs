//! Every basic block as a line of comma separated values (RFC 4180).

use std::io::{self, Write};

use super::{Report, Section};

pub(super) fn write(report: &Report<'_>, out: &mut dyn Write) -> io::Result<()> {
    let thread = if report.view.per_thread {
        "process,thread,"
    } else {
        ""
    };
    writeln!(
        out,
        "{thread}module,offset,bytes,instructions,executed,function,distance,file,line"
    )?;
    for section in &report.sections {
        let thread = section.thread.map_or(String::new(), |(process, thread)| {
            let process = &report.recording.processes[process];
            format!("{},{},", process.pid, process.threads[thread].tid)
        });
        write_blocks(report, section, &thread, out)?;
    }
    Ok(())
}

fn write_blocks(
    report: &Report<'_>,
    section: &Section,
    thread: &str,
    out: &mut dyn Write,
) -> io::Result<()> {
    for block in &section.blocks.blocks {
        let first = section.first(block);
        if !report.lists(&section.counts, first) {
            continue;
        }
        let unit = &section.counts.units[first.unit as usize];
        let distance = first.source.function.map(|(_, distance)| distance);
        let (file, line) = section.file(first).unzip();
        writeln!(
            out,
            "{thread}{},{:#x},{},{},{},{},{},{},{}",
            field(unit.path.as_deref().unwrap_or("")),
            first.at,
            section.bytes(block),
            block.len,
            block.count,
            field(section.function_name(first).unwrap_or("")),
            distance.map_or(String::new(), |distance| distance.to_string()),
            field(file.unwrap_or("")),
            line.map_or(String::new(), |line| line.to_string()),
        )?;
    }
    Ok(())
}

/// Quoted where it must be.
fn field(text: &str) -> String {
    match text.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_where_they_must_be() {
        let all = ["plain", "a, b", "say \"x\""].map(field);
        assert_eq!(all, ["plain", "\"a, b\"", "\"say \"\"x\"\"\""]);
    }
}
