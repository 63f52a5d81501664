//! Code of an edited program that has no counters: what is said of it, before the run and in reports.
//!
//! Problem: a report of an edited program looks complete, and lacks every function that stayed as it was.
//!
//! Approach: the plan of the edited program lists them with their reasons ([`plan::Uncounted`]). Beyond [`MOST`] percent of the code,
//! `count --rewrite` translates the program instead. Reports name the largest, and those that were called by code that was counted,
//! with the number of these calls.
//!
//! Limits: how much of the run they executed is not measured; calls of them by address are not known.

use analysis::counts::from_counters::Counted;
use image::{Image, LinkAddr};
use placement::plan;
use report::counted;
use report::counts::{CALLED, INSTRUCTIONS, LEFT_OUT, LOADS, STARTS};

/// Most code, in percent, that may be without counters.
const MOST: f64 = 2.0;
/// Bytes of start-up code that every program has, and that are not told.
const START_UP: u64 = 512;
/// Functions that are named one by one.
const NAMED: usize = 5;

/// Name of the function that begins at a link address.
pub fn name_at(entry: u64, image: &Image) -> String {
    let offset = image.file_offset(LinkAddr(entry));
    let name = offset.and_then(|offset| image.name_at(offset).0.map(image::demangled));
    name.unwrap_or_else(|| format!("{entry:#x}"))
}

/// Why a program is better translated: too much of it would not be counted.
pub fn too_much(uncounted: &plan::Uncounted, image: &Image) -> Option<String> {
    let beyond = uncounted.bytes().saturating_sub(START_UP);
    let is_much = 100.0 * beyond as f64 > MOST * uncounted.of as f64;
    is_much.then(|| {
        format!(
            "{:.1} % of its code would not be counted: {}; --rewrite=only edits it all the same",
            uncounted.percent(),
            of_what(uncounted, image)
        )
    })
}

/// The code without counters, the largest functions by name.
fn of_what(uncounted: &plan::Uncounted, image: &Image) -> String {
    let mut largest: Vec<&plan::Left> = uncounted.functions.iter().collect();
    largest.sort_by_key(|function| std::cmp::Reverse(function.bytes));
    // Functions that were left for one reason stand together, where the largest of them does.
    let mut named: Vec<(String, Vec<String>)> = Vec::new();
    for left in largest.iter().take(NAMED) {
        let (name, reason) = (
            name_at(left.entry, image),
            uncounted.reason(left).to_string(),
        );
        match named.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, names)) => names.push(name),
            None => named.push((reason, vec![name])),
        }
    }
    let named = named.into_iter();
    let named = named.map(|(reason, names)| format!("{} ({reason})", names.join(", ")));
    let named: Vec<String> = named.collect();
    let more = match largest.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    let outside = match uncounted.outside {
        0 => String::new(),
        bytes => format!("{} in no function, and ", counted(bytes, "byte")),
    };
    let functions = counted(largest.len() as u64, "function");
    format!("{outside}{functions}: {}{more}", named.join("; "))
}

fn name(function: &plan::Left, uncounted: &plan::Uncounted, image: &Image) -> String {
    let name = name_at(function.entry, image);
    format!("{name} ({})", uncounted.reason(function))
}

/// Options of a recording that say what was not counted.
pub fn options(
    planned: &plan::File,
    counts: &Counted,
    image: &Image,
    bias: u64,
) -> Vec<(String, String)> {
    let uncounted = &planned.uncounted;
    let mut options = Vec::new();
    if uncounted.bytes() > START_UP {
        let sentence = format!(
            "{:.2} % of the code of {} has no counters: {}",
            uncounted.percent(),
            planned.original,
            of_what(uncounted, image)
        );
        options.push((LEFT_OUT.into(), sentence));
    }
    let is_counted = matches!(planned.tool, plan::Tool::Edges | plan::Tool::Blocks);
    let calls = uncounted.functions.iter().filter(|_| is_counted);
    options.extend(calls.filter_map(|function| {
        let calls = counts.calls.get(&function.entry)?;
        Some((
            CALLED.into(),
            format!("{calls} {}", name(function, uncounted, image)),
        ))
    }));
    let calls = [
        (STARTS, ["execve", "execveat"]),
        (LOADS, ["dlopen", "dlmopen"]),
    ];
    for (option, functions) in calls.into_iter().filter(|_| is_counted) {
        let calls = functions.map(|name| executions(name, counts, image, bias));
        match calls.into_iter().sum() {
            0 => {}
            calls => options.push((option.into(), u64::to_string(&calls))),
        }
    }
    options.push((
        INSTRUCTIONS.into(),
        format!("{} {}", counts.insns, planned.original),
    ));
    options
}

/// Calls of a function, if it has this name in a file.
fn executions(name: &str, counts: &Counted, image: &Image, bias: u64) -> u64 {
    let mut functions = image.functions().iter();
    let function = functions.find(|function| image.aliases(function).any(|alias| alias == name));
    let entry = function.and_then(|function| image.link_addr(function.start));
    entry.map_or(0, |entry| counts.executions(entry.0.wrapping_add(bias)))
}
