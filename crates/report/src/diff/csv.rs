//! Every function with its figures, as comma-separated values, quoted as in
//! [`crate::csv`]: one line of names, then one line per function, most
//! changed first.
//!
//! ```text
//! function,module,contexts before,contexts after,calls before,calls after,calls change
//! work,prog,3,4,500,550,50
//! ```
//!
//! Invariant: the columns of a metric add up to the totals of the recordings.

use std::io::{self, Write};

use super::{Comparison, name};
use crate::csv::field;

pub fn write(comparison: &Comparison, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "function,module,contexts before,contexts after")?;
    for metric in &comparison.diff.metrics {
        let name = metric.name;
        write!(out, ",{name} before,{name} after,{name} change")?;
    }
    writeln!(out)?;
    for function in &comparison.functions {
        let identity = &comparison.diff.frames[function.frame].identity;
        let module = identity.module().unwrap_or_default();
        let contexts = function.contexts;
        write!(
            out,
            "{},{},{},{}",
            field(&name(identity)),
            field(module),
            contexts.before,
            contexts.after
        )?;
        for value in &function.values {
            write!(out, ",{},{},{}", value.before, value.after, value.change())?;
        }
        writeln!(out)?;
    }
    Ok(())
}
