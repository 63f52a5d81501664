//! Shares of the files that code is in, where much of it has no symbols.
//!
//! Names like `rg+0x2b3400` say little: how much of the run was in such a file, and in which
//! range of it, is said before the functions.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::Style;
use super::functions::without_version;
use crate::Report;
use crate::metrics;
use crate::names::base_name;
use crate::numbers::{counted, percent};
use crate::overview::Overview;

/// Files that are listed.
const LISTED: usize = 6;
/// Per cent of all that code without symbols has at least, to be worth the lines.
const LEAST: u64 = 10;

/// Sums over the functions of a file.
#[derive(Default)]
struct Sums {
    own: u64,
    /// The part of functions without symbols.
    nameless: u64,
    /// Number of functions without symbols.
    functions: u64,
    /// Lowest and highest offset of their entries.
    range: Option<(u64, u64)>,
}

fn sums<'o>(overview: &'o Overview) -> BTreeMap<&'o str, Sums> {
    let mut modules: BTreeMap<&str, Sums> = BTreeMap::new();
    for function in &overview.functions {
        let number = function.label.function_number();
        let known = number.and_then(|number| overview.frames.get(number as usize));
        let Some((known, path)) = known.and_then(|known| Some((known, known.module?))) else {
            continue;
        };
        let own = function.own[0];
        let sums = modules.entry(path).or_default();
        sums.own = sums.own.saturating_add(own);
        if known.is_nameless() {
            sums.nameless = sums.nameless.saturating_add(own);
            sums.functions += 1;
            let at = known.address.unwrap_or(0);
            let (low, high) = sums.range.unwrap_or((at, at));
            sums.range = Some((low.min(at), high.max(at)));
        }
    }
    modules
}

/// Files with much code without symbols, by path.
pub(crate) fn nameless<'o>(overview: &'o Overview) -> Vec<&'o str> {
    let is_much = |sums: &Sums| is_much(sums.nameless, overview);
    let modules = sums(overview).into_iter();
    let found = modules.filter(|(_, sums)| is_much(sums));
    found.map(|(path, _)| path).collect()
}

fn is_much(value: u64, overview: &Overview) -> bool {
    u128::from(value) * 100 >= u128::from(overview.totals[0]) * u128::from(LEAST) && value > 0
}

pub(super) fn write(
    report: &Report,
    overview: &Overview,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    if nameless(overview).is_empty() {
        return Ok(());
    }
    let mut modules: Vec<(&str, Sums)> = sums(overview).into_iter().collect();
    modules.sort_by_key(|(path, sums)| (std::cmp::Reverse(sums.own), *path));
    modules.truncate(LISTED);
    let title = metrics::title(report, report.by);
    let numbers = modules
        .iter()
        .map(|(_, sums)| metrics::shown(report.by, sums.own).chars().count());
    let width = numbers.max().unwrap_or(0).max(title.len());
    let head = format!("{:>7}  {title:>width$}  module", "self");
    writeln!(out, "\n{}", style.bold(&head))?;
    for (path, sums) in modules {
        let share = percent(sums.own, overview.totals[0]);
        let name = base_name(path);
        let name = without_version(&name);
        let is_mostly_nameless = sums.nameless >= sums.own / 2;
        let nameless = match sums.range.filter(|_| is_mostly_nameless) {
            Some((low, high)) => {
                let functions = counted(sums.functions, "function");
                format!("  {functions} without symbols, {low:#x} to {high:#x}")
            }
            None => String::new(),
        };
        let own = metrics::shown(report.by, sums.own);
        writeln!(
            out,
            "{share:>7}  {own:>width$}  {name}{}",
            style.dim(&nameless)
        )?;
    }
    Ok(())
}
