//! `allocations`: who allocated memory, by the exact context of each call.

use analysis::allocations::{Allocations, Call, Kind};
use anyhow::{Result, anyhow};
use report::allocations::{Shown, folded, json, text};

use crate::commands::print;
use crate::edit_cache::is_script;
use crate::exit_status::Ending;
use crate::flags::{Allocating, AllocatingForm};
use crate::logged::{Log, Logged};
use crate::output::{Kind as OutputKind, Output};
use crate::program;

/// Runs a program, and shows what it allocated.
pub fn allocations(flags: &Allocating) -> Result<Ending> {
    let program = program::check(&flags.command[0])?;
    let output = flags.output.as_deref();
    let output = output.map(|path| Output::prepare(path, OutputKind::Report));
    let output = output
        .transpose()
        .map_err(|error| anyhow!("{error}; nothing was run"))?;
    let own = |list: &[String], kind| {
        list.iter()
            .map(move |name| (name.clone(), kind))
            .collect::<Vec<_>>()
    };
    let usual = Kind::NAMES.map(|(name, kind)| (name.to_owned(), kind));
    let usual = usual
        .into_iter()
        .filter(|(name, _)| Logged::has(&program, name));
    let kinds: Vec<(String, Kind)> = match flags.allocate.is_empty() {
        true => usual.collect(),
        false => [
            own(&flags.allocate, Kind::Malloc),
            own(&flags.release, Kind::Free),
        ]
        .concat(),
    };
    let names = kinds.iter().map(|(name, kind)| match kind {
        // By which path it is freed does not matter.
        Kind::Free => format!("{name}{}", edits::logged::ALONE),
        _ => name.clone(),
    });
    let names: Vec<String> = names.collect();
    if names.is_empty() && !is_script(&program) {
        anyhow::bail!(
            "neither '{}' nor its libraries have a function named malloc: name its allocator with --allocate and --release",
            program.display()
        );
    }
    let logged = Logged::of(&program, &names.join(","), flags.quiet)?;
    let (ending, log) = logged.run(&flags.command, flags.quiet)?;
    let calls = calls(&log, &kinds);
    let made = Allocations::of(&calls);
    let words = flags.command.iter().map(|word| word.to_string_lossy());
    let shown = Shown {
        made: &made,
        command: &words.collect::<Vec<_>>().join(" "),
        paths: &log.paths,
        ticks_per_second: log.ticks_per_second,
        by: flags.sort.into(),
    };
    let text = match flags.format {
        AllocatingForm::Text => text(&shown, flags.top),
        AllocatingForm::Json => json(&shown),
        AllocatingForm::Folded => folded(&shown),
    };
    match output {
        Some(output) => output.replace(|out| out.write_all(text.as_bytes()))?,
        None => drop(print(text.as_bytes())?),
    }
    Ok(ending)
}

/// Calls of functions with a kind.
fn calls(log: &Log, kinds: &[(String, Kind)]) -> Vec<Call> {
    let kind_of = |word: &String| {
        let kind = kinds.iter().find(|(name, _)| name == word);
        kind.map(|(_, kind)| *kind)
    };
    let kinds: Vec<Option<Kind>> = log.functions.iter().map(kind_of).collect();
    let calls = log.calls.iter().filter_map(|call| {
        let kind = kinds[call.function as usize]?;
        // It ends as a call of memset, which gives back its first argument.
        let by_jump = call.left.filter(|_| kind == Kind::Calloc);
        Some(Call {
            process: call.process,
            thread: call.thread,
            kind,
            time: call.time,
            values: call.values,
            returned: call.returned.or(by_jump),
            path: call.path,
        })
    });
    calls.collect()
}
