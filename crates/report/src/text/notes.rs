//! Notes on the figures that a reader must know, once each, at the end.

use std::collections::{BTreeSet, HashSet};
use std::io::{self, Write};

use analysis::Weight;
use trace::{Cost, End, Function, Label, Mode, Process};

use super::{Style, functions};
use crate::LOOKS;
use crate::counts::LEFT_OUT;
use crate::names::{base_name, symbol_of};
use crate::numbers::{counted, duration, grouped, percent};
use crate::{Report, denied, metrics, signals};

/// Names listed before "and N more".
const LISTED: usize = 4;
/// The kernel's name for the code it maps into every process.
const VDSO: &str = "[vdso]";

pub fn write(report: &Report, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let notes = all(report);
    if !notes.is_empty() {
        writeln!(out)?;
    }
    for note in notes {
        writeln!(out, "{}", style.paragraph("note: ", &note))?;
    }
    Ok(())
}

/// The notes as sentences without a full stop.
pub(crate) fn all(report: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    if report.recording.meta.mode == Mode::Contexts {
        notes.extend(not_time(report));
        notes.extend(sampled(report));
        notes.extend(slow_instructions(report));
        notes.extend(waits(report));
        notes.extend(missing_symbols(report));
        notes.extend(missing_lines(report));
        notes.extend(unnamed_code(report));
        notes.extend(python(report));
        notes.extend(truncated(report));
        notes.extend(many(report));
        notes.extend(outside(report));
        let options = report.recording.meta.options.iter();
        let left_out = options.filter(|(name, _)| name == LEFT_OUT);
        notes.extend(left_out.map(|(_, sentence)| sentence.clone()));
    }
    notes.extend(unclear_ends(report));
    notes.extend(report.notes.iter().cloned());
    notes
}

fn not_time(report: &Report) -> Option<String> {
    let by_instructions = report.by == Weight::Cost(Cost::Instructions);
    let has_time = report.metrics.contains(&Weight::Cost(Cost::Time));
    (by_instructions && !has_time && !report.overviews.is_empty()).then(|| {
        "instructions are not time (`contexts --time` samples it): waiting costs none, and a cache miss no more than a hit".into()
    })
}

/// The meaning of times, where there are any.
fn sampled(report: &Report) -> Option<String> {
    let options = &report.recording.meta.options;
    let (_, looks) = options.iter().find(|(name, _)| name == LOOKS)?;
    let sorts = match report.by {
        Weight::Cost(Cost::Time) => "",
        _ => " (`--by time` sorts by it)",
    };
    Some(format!(
        "time is sampled, {} looks at threads, each millisecond at most{sorts}; calls are slower in the translated program \
         than natively, so what calls much has more of it",
        grouped(looks.parse().unwrap_or(0))
    ))
}

/// Functions with a much larger share of the time than of the instructions.
fn slow_instructions(report: &Report) -> Vec<String> {
    /// Difference of both shares, in percent of the whole.
    const MUCH: f64 = 20.0;
    let weights = metrics::weights(report);
    let place = |cost| {
        weights
            .iter()
            .position(|&weight| weight == Weight::Cost(cost))
    };
    let (Some(time), Some(insns)) = (place(Cost::Time), place(Cost::Instructions)) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for overview in report
        .overviews
        .iter()
        .filter(|overview| overview.thread.is_none())
    {
        let share = |own: u64, at: usize| 100.0 * own as f64 / overview.totals[at].max(1) as f64;
        let slow = overview.functions.iter().filter(|function| {
            share(function.own[time], time) - share(function.own[insns], insns) >= MUCH
        });
        found.extend(slow.map(|function| {
            format!(
                "{} is {} of the instructions and {} of the time: it waits for memory, or its instructions are slow ones",
                functions::name(report, overview, function.label),
                percent(function.own[insns], overview.totals[insns]),
                percent(function.own[time], overview.totals[time]),
            )
        }));
    }
    found
}

/// Functions in which threads waited most, if they waited for long.
fn waits(report: &Report) -> Option<String> {
    /// Functions that are named.
    const NAMED: usize = 3;
    let waiting = Weight::Cost(Cost::Waiting);
    let at = metrics::weights(report)
        .iter()
        .position(|&weight| weight == waiting)?;
    let overview = report
        .overviews
        .iter()
        .find(|overview| overview.thread.is_none())?;
    let mut functions: Vec<_> = overview.functions.iter().collect();
    functions.sort_by_key(|function| std::cmp::Reverse(function.own[at]));
    let total = overview.totals[at];
    let is_long = |ns: u64| ns * 20 >= total;
    let named = functions
        .iter()
        .take(NAMED)
        .filter(|function| is_long(function.own[at]));
    let named: Vec<String> = named
        .map(|function| {
            let name = functions::name(report, overview, function.label);
            format!("{} in {name}", duration(function.own[at]))
        })
        .collect();
    let is_shown = report.by != waiting && total * 10 >= report.total(Weight::Cost(Cost::Time));
    (is_shown && !named.is_empty()).then(|| {
        format!(
            "threads waited {}: {}; --by waiting shows the paths",
            duration(total),
            named.join(", ")
        )
    })
}

fn missing_symbols(report: &Report) -> Option<String> {
    let modules = modules_where(report, |process, function| {
        symbol_of(process, function).is_none()
    });
    (!modules.is_empty()).then(|| {
        format!(
            "no symbols in {}: {} are named by their offset in the file",
            list(&modules),
            places(report)
        )
    })
}

fn missing_lines(report: &Report) -> Option<String> {
    let modules = modules_where(report, |process, function| {
        symbol_of(process, function).is_some() && function.file.is_none()
    });
    (!modules.is_empty()).then(|| {
        format!(
            "no debug information for {}: {} without source lines",
            list(&modules),
            places(report)
        )
    })
}

/// More contexts than people read: lazy programs (Haskell's) make tens of millions of them.
const MANY: usize = 5_000_000;

/// Advice where there are very many contexts of all depths.
fn many(report: &Report) -> Option<String> {
    let processes = report.recording.processes.iter();
    let threads = processes.flat_map(|process| &process.threads);
    let contexts: usize = threads.map(|thread| thread.nodes.len()).sum();
    advice(contexts, report.recording.meta.k.is_none())
}

fn advice(contexts: usize, has_all: bool) -> Option<String> {
    (has_all && contexts > MANY).then(|| {
        format!(
            "{} contexts take memory and time: -k 3 counts by the last three callers, and its hottest functions and \
             calls are the same",
            grouped(contexts as u64)
        )
    })
}

/// Code that the program made, without names, if a hundredth of what was executed is in it.
fn unnamed_code(report: &Report) -> Option<String> {
    let (mut unnamed, mut all) = (0u64, 0u64);
    for process in &report.recording.processes {
        let is_in_no_file = |function: &&Function| function.module.is_none();
        let functions = process.functions.iter().filter(is_in_no_file);
        let labels: HashSet<Label> = functions.map(|function| Label(function.id)).collect();
        for thread in &process.threads {
            let costs = thread.costs_of(Cost::Instructions).unwrap_or_default();
            all += costs.iter().sum::<u64>();
            let nodes = thread.nodes.iter().zip(costs);
            let own = nodes.filter(|(node, _)| labels.contains(&node.label));
            unnamed += own.map(|(_, cost)| cost).sum::<u64>();
        }
    }
    (unnamed > 0 && unnamed >= all / 100).then(|| {
        format!(
            "{} of the instructions are in code that the program made: it has names if its runtime writes \
             them to /tmp/perf-PID.map (node --perf-basic-prof; java -XX:+UnlockDiagnosticVMOptions \
             -XX:+DumpPerfMapAtExit; python3 -X perf; DOTNET_PerfMapEnabled=1)",
            percent(unnamed, all)
        )
    })
}

/// An interpreter of Python that can say which of Python's functions it executes, and was not told to.
fn python(report: &Report) -> Option<String> {
    /// First version with trampolines, which have a name and a place for each function.
    const FIRST: u32 = 12;
    let can = |process: &Process| {
        let interprets = |function: &Function| {
            let is_loop = function.name.as_deref() == Some("_PyEval_EvalFrameDefault");
            let module = process.module_of(function).filter(|_| is_loop);
            let minor = module.and_then(|module| minor_of_python(&base_name(&module.path)));
            minor.is_some_and(|minor| minor >= FIRST)
        };
        let is_pythons = |function: &Function| {
            let name = function.name.as_deref();
            name.is_some_and(|name| name.starts_with("py::"))
        };
        process.functions.iter().any(interprets) && !process.functions.iter().any(is_pythons)
    };
    report.recording.processes.iter().any(can).then(|| {
        "functions of Python are not shown: with PYTHONPERFSUPPORT=1 in the environment python tells which it executes"
            .into()
    })
}

/// The minor version of Python 3 in the name of its program or library.
fn minor_of_python(name: &str) -> Option<u32> {
    let (_, version) = name.split_once("python3.")?;
    let digits = version.split(|byte: char| !byte.is_ascii_digit()).next()?;
    digits.parse().ok()
}

/// Noun for the places that contexts are of.
fn places(report: &Report) -> &'static str {
    match report.recording.meta.blocks {
        Some(_) => "basic blocks",
        None => "functions",
    }
}

/// Modules in which every function that was entered is one of `matches`.
fn modules_where(
    report: &Report,
    matches: impl Fn(&Process, &Function) -> bool,
) -> BTreeSet<String> {
    let (mut matching, mut others) = (BTreeSet::new(), BTreeSet::new());
    for process in &report.recording.processes {
        for function in &process.functions {
            if let Some(module) = process.module_of(function)
                // The kernel's own: nobody has symbols or lines to install.
                && module.path != VDSO
                && !module.is_generated()
            {
                let set = if matches(process, function) {
                    &mut matching
                } else {
                    &mut others
                };
                set.insert(base_name(&module.path).into_owned());
            }
        }
    }
    matching.difference(&others).cloned().collect()
}

pub(crate) fn list(names: &BTreeSet<String>) -> String {
    let mut shown: Vec<String> = names.iter().take(LISTED).cloned().collect();
    if names.len() > LISTED {
        shown.push(format!("{} more", names.len() - LISTED));
    }
    match shown.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, before)) => format!("{} and {last}", before.join(", ")),
        None => String::new(),
    }
}

fn truncated(report: &Report) -> Option<String> {
    let events = report.totals.truncated;
    let missing = match report.knows_inclusive() {
        true => ", and missing from what contexts cost with callees",
        false => "",
    };
    let remedy = match report.recording.meta.k {
        None => "-k 10 keeps fewer contexts, --max-nodes allows more",
        Some(_) => "see --max-nodes",
    };
    (events > 0).then(|| {
        format!(
            "the limit of nodes was reached: {} in contexts beyond it {} counted in [truncated]\
             {missing} ({remedy})",
            counted(events, metrics::event(report)),
            if events == 1 { "is" } else { "are" },
        )
    })
}

fn outside(report: &Report) -> Option<String> {
    let count = report.totals.insns_outside;
    (count > 0).then(|| {
        let verb = if count == 1 { "belongs" } else { "belong" };
        let other = match analysis::without_root::is_uprooted(&report.recording.meta) {
            true => "other files' code, ",
            false => "",
        };
        format!(
            "{} {verb} to no context: {other}the dynamic linker's lazy binding, and what came before or after counting",
            counted(count, "instruction")
        )
    })
}

/// Processes that did not end by themselves, the first one excepted, whatever it
/// became by exec: its end stands in the head.
fn unclear_ends(report: &Report) -> Vec<String> {
    let sentence = |process: &Process| match process.end {
        End::Signaled { .. } | End::Unknown => Some(format!(
            "process {} {}; everything it counted until then is here",
            process.pid,
            signals::end(process.end)
        )),
        End::Exited(_) | End::Execed => None,
    };
    let processes = &report.recording.processes;
    let first = processes.first().map(|process| process.pid);
    let others = processes
        .iter()
        .filter(|process| process.by_fork || Some(process.pid) != first)
        // Another note says so.
        .filter(|process| !denied::ends_natively(report.recording, process.pid));
    let ran_on = others.clone().any(|process| process.end == End::Unknown);
    let mut notes: Vec<String> = others.filter_map(sentence).collect();
    if notes.len() > LISTED {
        let more = grouped((notes.len() - LISTED) as u64);
        notes.truncate(LISTED);
        notes.push(format!("{more} more processes did not end by themselves"));
    }
    let is_first_done = matches!(report.recording.meta.end, End::Exited(_));
    if ran_on && is_first_done {
        notes.push(
            "--wait all records until the last process has ended, and not only the first".into(),
        );
    }
    if matches!(
        report.recording.meta.end,
        End::Signaled { .. } | End::Unknown
    ) {
        notes.insert(
            0,
            "the program did not end by itself; all it counted until then is here".into(),
        );
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::{MANY, advice};

    #[test]
    fn very_many_contexts_are_spoken_of() {
        assert_eq!((advice(MANY, true), advice(MANY + 1, false)), (None, None));
        let said = advice(48_123_456, true).expect("it is said");
        assert!(
            said.starts_with("48,123,456 contexts") && said.contains("-k 3"),
            "{said}"
        );
    }
}
