//! `allocations`: who allocated memory, by the exact context of each call.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use analysis::allocations::{Allocations, Call, Kind};
use anyhow::{Result, anyhow, bail};
use report::allocations::{Shown, folded, json, page, pprof, text};

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
    let prepared = |path: &Option<PathBuf>| {
        let output = path.as_deref();
        let output = output.map(|path| Output::prepare(path, OutputKind::Report));
        let output = output.transpose();
        output.map_err(|error| anyhow!("{error}; nothing was run"))
    };
    let (output, html) = (prepared(&flags.output)?, prepared(&flags.html)?);
    if flags.format == AllocatingForm::Pprof && output.is_none() && std::io::stdout().is_terminal()
    {
        bail!("a profile is no text: name a file for it with -o FILE");
    }
    let kinds = kinds(flags, &program);
    let names = kinds.iter().map(|(name, kind)| match kind {
        // By which path it is freed does not matter.
        Kind::Free => format!("{name}{}", edits::logged::ALONE),
        _ => name.clone(),
    });
    let names: Vec<String> = names.collect();
    if names.is_empty() && !is_script(&program) {
        bail!(
            "neither '{}' nor its libraries have a function named malloc: name its allocator with --allocate and --release",
            program.display()
        );
    }
    let logged = Logged::of(&program, &names.join(","), flags.quiet)?;
    let started = SystemTime::now().duration_since(UNIX_EPOCH);
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
        started_unix_ms: started.map_or(0, |since| since.as_millis() as u64),
    };
    let bytes = bytes(&shown, flags)?;
    if let Some(html) = html {
        html.replace(|out| page(&shown, out))?;
    }
    match output {
        Some(output) => output.replace(|out| out.write_all(&bytes))?,
        None => drop(print(&bytes)?),
    }
    Ok(ending)
}

/// Functions that allocate and release, with their kinds.
fn kinds(flags: &Allocating, program: &Path) -> Vec<(String, Kind)> {
    let own = |list: &[String], kind| {
        list.iter()
            .map(move |name| (name.clone(), kind))
            .collect::<Vec<_>>()
    };
    let usual = Kind::NAMES.map(|(name, kind)| (name.to_owned(), kind));
    let usual = usual
        .into_iter()
        .filter(|(name, _)| Logged::has(program, name));
    match flags.allocate.is_empty() {
        true => usual.collect(),
        false => [
            own(&flags.allocate, Kind::Malloc),
            own(&flags.release, Kind::Free),
        ]
        .concat(),
    }
}

/// The report in the form that was asked for.
fn bytes(shown: &Shown<'_>, flags: &Allocating) -> Result<Vec<u8>> {
    Ok(match flags.format {
        AllocatingForm::Text => text(shown, flags.top).into_bytes(),
        AllocatingForm::Json => json(shown).into_bytes(),
        AllocatingForm::Folded => folded(shown).into_bytes(),
        AllocatingForm::Pprof => {
            let mut bytes = Vec::new();
            pprof(shown, &mut bytes)?;
            bytes
        }
    })
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
