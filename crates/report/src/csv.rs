//! Contexts as a table: comma-separated values with a line of names first, for
//! spreadsheets, data frames and databases.
//!
//! ```text
//! process,thread,depth,calls,function,module,file,line,path
//! 4711,4711,2,3,b,/usr/bin/prog1,prog1.c,22,main;a;b
//! ```
//!
//! | column | what |
//! |---|---|
//! | process, thread | their ids; no thread where threads were joined |
//! | depth | callers that the path has |
//! | calls | calls that ended in this context: one column per metric |
//! | inclusive_calls | the same with all calls made from there, each once, where that is known: one column per metric |
//! | function, module, file, line | the function that was called, as far as known |
//! | path | its callers and itself as in [`crate::folded`]: outermost first, with `;` between |
//!
//! Quoted as RFC 4180 has it: a field with a comma, a quote or an end of line in it
//! stands in quotes, and a quote in it is doubled. Lines end with a line feed.
//!
//! Invariant: each metric's column without the inclusive one adds up to the total of the recording.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Write};

use analysis::Weight;
use trace::Process;

use crate::frames::{self, Known};
use crate::metrics;
use crate::stacks::{self, Frame, PathText};
use crate::{Report, Section, folded};

pub fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let all = metrics::of(report);
    let own = all.iter().map(|metric| format!("{},", metric.name));
    let inclusive = all.iter().filter(|_| report.knows_inclusive());
    let inclusive = inclusive.map(|metric| format!("{},", metric.inclusive));
    let metrics: String = own.chain(inclusive).collect();
    writeln!(
        out,
        "process,thread,depth,{metrics}function,module,file,line,path"
    )?;
    for section in &report.sections {
        let process = &report.recording.processes[section.process];
        write_section(report, process, section, out)?;
    }
    Ok(())
}

fn write_section(
    report: &Report,
    process: &Process,
    section: &Section,
    out: &mut dyn Write,
) -> io::Result<()> {
    let thread = match section.threads[..] {
        [thread] => process.threads[thread].tid.to_string(),
        _ => String::new(),
    };
    let weights = &metrics::weights(report)[..];
    let inclusive = inclusive(report, section, weights);
    let mut columns: HashMap<Frame, Columns> = HashMap::new();
    let mut text = PathText::default();
    stacks::each_node(section, weights, |path, values, node| {
        let shown = text.of(path, |frame, text| {
            let columns = columns.entry(frame);
            let columns =
                columns.or_insert_with(|| Columns::new(&frames::describe(process, frame)));
            text.push_str(&columns.in_path);
        });
        let depth = path.len().saturating_sub(1);
        write!(out, "{},{thread},{depth},", process.pid)?;
        for value in values {
            write!(out, "{value},")?;
        }
        for (values, own) in inclusive.iter().zip(values) {
            let value = node.map_or(*own, |node| values[node.index()]);
            write!(out, "{value},")?;
        }
        let last = path.last().and_then(|last| columns.get(last));
        let function = last.map_or(",,,", |columns| &columns.function);
        writeln!(out, "{function},{}", field(shown))
    })
}

/// Inclusive costs of contexts, weight by weight.
fn inclusive(report: &Report, section: &Section, weights: &[Weight]) -> Vec<Vec<u64>> {
    let forest = section.stacks.iter().filter(|_| report.knows_inclusive());
    let values = forest.flat_map(|forest| weights.iter().map(|&weight| forest.inclusive(weight)));
    values.flatten().collect()
}

/// A frame as it is written.
struct Columns {
    /// Function, module, file and line.
    function: String,
    in_path: String,
}

impl Columns {
    fn new(known: &Known) -> Columns {
        let line = known.line.map(|line| line.to_string());
        let columns = [
            Some(&*known.name),
            known.module,
            known.file,
            line.as_deref(),
        ];
        let columns = columns.map(|column| field(column.unwrap_or_default()));
        Columns {
            function: columns.join(","),
            in_path: folded::frame(&known.name),
        }
    }
}

/// A field, in quotes if it needs them.
pub(crate) fn field(text: &str) -> Cow<'_, str> {
    let is_special = |byte| matches!(byte, b',' | b'"' | b'\n' | b'\r');
    match text.bytes().any(is_special) {
        true => Cow::Owned(format!("\"{}\"", text.replace('"', "\"\""))),
        false => Cow::Borrowed(text),
    }
}
