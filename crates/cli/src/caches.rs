//! `caches`: what other caches would have done in a run that was traced.

use std::io;

use analysis::K;
use analysis::activations::Rules;
use analysis::activations::contexts::{self, Log, Wanted};
use analysis::caches::{self, Config, ContextMisses, Costs, Shared, Updates};
use analysis::cct::Recursion;
use analysis::counts::from_trace;
use analysis::walk::Selection;
use anyhow::{Result, bail};
use image::Images;
use report::counts::{Form, Report, View, caches as of_caches, reuse as of_reuse, sharing};
use report::text::Style;
use trace::{Cost, Process, Recording};

use crate::binaries;
use crate::branches::{say, send};
use crate::exit_status::Ending;
use crate::flags::{Caches, CachesForm};
use crate::functions::Files;
use crate::output::{Kind, Output};
use crate::page_sources::{OnDisk, Trust};
use crate::progress::Progress;
use crate::show::style_of;
use crate::symbolize;
use crate::traces::read_trace;
use crate::watched::Variables;

pub fn caches(flags: &Caches) -> Result<Ending> {
    let output = flags.report.as_deref();
    let output = output.map(|path| Output::prepare(path, Kind::Report));
    let output = output.transpose()?;
    let (traced, _) = read_trace(&flags.file)?;
    let shown = flags.file.display();
    let Some(selection) = analysis::walk::selection(&traced) else {
        bail!("'{shown}' has no memory accesses; record it with --memory addresses");
    };
    if flags.reuse {
        return reuse(flags, &traced, selection, output);
    }
    let config = config(flags);
    let kept = flags.contexts.as_deref().filter(|_| !flags.sharing);
    let kept = kept.map(|path| Output::prepare(path, Kind::Recording));
    let kept = kept.transpose()?;
    let progress = Progress::reading(&traced, "following calls");
    let mut contexts = kept.as_ref().map(|_| of_contexts(&traced));
    progress.says("filling caches");
    let logs = contexts.as_ref().map(|(_, logs)| &logs[..]);
    // Each is a walk of the whole trace.
    let count = || from_trace::recording(&traced);
    let fill = || (!flags.sharing).then(|| caches::misses(&traced, selection, &config, logs));
    let ((counted, mut failures), misses) = rayon::join(count, fill);
    let view = View {
        top: flags.top,
        modules: flags.modules.clone(),
        full_names: flags.full_names,
        ..View::default()
    };
    let mut report = Report::new(&counted, &view)?;
    let Some(misses) = misses else {
        progress.says("looking for shared lines");
        let counts = report.counts();
        let (shared, more) = caches::sharing(&traced, selection, counts, flags.top);
        let shared = named(&traced, shared);
        drop(progress);
        failures.extend(more);
        return share(flags, &report, &shared, failures, output);
    };
    let mut costs = misses.at(&traced, report.counts());
    drop(progress);
    failures.extend(costs.failures.iter().cloned());
    if let Some((output, (recording, _))) = kept.zip(contexts.as_mut()) {
        add_misses(recording, std::mem::take(&mut costs.contexts));
        output.replace(|out| {
            trace::write(recording, out).map_err(|error| io::Error::other(error.to_string()))
        })?;
    }
    failures.sort();
    failures.dedup();
    if !selection.loads || !selection.stores {
        let missing = if selection.loads { "writes" } else { "reads" };
        report
            .notes
            .push(format!("the trace has no {missing}, so no cache had them"));
    }
    let ending = show(flags.format, report, (&config, costs), output)?;
    Ok(say(&flags.file, failures, ending))
}

/// Writes the report.
fn show(
    form: CachesForm,
    mut report: Report<'_>,
    (config, costs): (&Config, Costs),
    output: Option<Output>,
) -> Result<Ending> {
    let style = style(output.as_ref());
    let form = match form {
        CachesForm::Callgrind => {
            report.costs = Some(costs);
            return send(output, |out| report.write(Form::Callgrind, style, out));
        }
        CachesForm::Text => of_caches::Form::Text,
        CachesForm::Json => of_caches::Form::Json,
    };
    if form == of_caches::Form::Text {
        let images = Images::new();
        let mut files = OnDisk::new(&images, Trust::Modules);
        report.read_sources(&mut files);
    }
    let (binaries, _) = binaries::open(&report.modules());
    report.read_declarations(&binaries);
    report.binaries = binaries;
    send(output, |out| {
        of_caches::write(&report, (config, &costs), form, style, out)
    })
}

/// Contexts of a trace, with names, and their logs.
fn of_contexts(traced: &Recording) -> (Recording, Vec<Vec<Log>>) {
    let wanted = Wanted {
        k: K::Infinite,
        recursion: Recursion::from(false),
        rules: Rules::default(),
        costs: vec![Cost::Instructions],
    };
    let images = Images::new();
    let mut files = Files::new(&images);
    let mut extents = |process: &Process, at| files.extents(process, at);
    // Threads that cannot be read to their end are named with their accesses, too.
    let (mut recording, logs, _) = contexts::logged(traced, &wanted, &mut extents, true);
    files.identify(&mut recording);
    symbolize::symbolize(&mut recording, &images);
    files.say_what_changed();
    (recording, logs)
}

/// Adds the misses of all contexts as their costs.
fn add_misses(recording: &mut Recording, misses: Vec<ContextMisses>) {
    let kinds = [Cost::FetchMisses, Cost::DataMisses, Cost::LastMisses];
    for thread in recording
        .processes
        .iter_mut()
        .flat_map(|process| &mut process.threads)
    {
        let none = vec![0; thread.nodes.len()];
        thread.costs.extend(kinds.map(|cost| trace::Costs {
            cost,
            values: none.clone(),
        }));
    }
    for of_thread in misses {
        let (process, thread) = of_thread.thread;
        let thread = &mut recording.processes[process].threads[thread];
        for (node, misses) in of_thread.nodes.iter().enumerate() {
            for column in &mut thread.costs {
                if let Some(kind) = kinds.iter().position(|&kind| kind == column.cost) {
                    column.values[node] = misses[kind];
                }
            }
        }
    }
}

/// Shows how far apart accesses to one line are.
fn reuse(
    flags: &Caches,
    traced: &Recording,
    selection: Selection,
    output: Option<Output>,
) -> Result<Ending> {
    if flags.format == CachesForm::Callgrind {
        bail!("--reuse has no --format callgrind; give text or json");
    }
    let progress = Progress::reading(traced, "measuring reuse");
    let mut found = caches::reuse(traced, selection, caches::LINE);
    drop(progress);
    let failures = std::mem::take(&mut found.failures);
    let style = style(output.as_ref());
    let ending = send(output, |out| match flags.format {
        CachesForm::Json => of_reuse::json(&traced.meta, &found, out),
        _ => of_reuse::text(&traced.meta, &found, style, out),
    })?;
    Ok(say(&flags.file, failures, ending))
}

/// Lines with the variables that are in them.
fn named(traced: &Recording, shared: Vec<Shared>) -> Vec<sharing::Named> {
    let variables = Variables::of(traced);
    let named = shared.into_iter().map(|one| {
        let line = one.address..one.address + caches::LINE;
        let names = variables.within(one.process, &line);
        (one, names)
    });
    named.collect()
}

/// Shows the lines that threads share.
fn share(
    flags: &Caches,
    report: &Report<'_>,
    shared: &[sharing::Named],
    mut failures: Vec<String>,
    output: Option<Output>,
) -> Result<Ending> {
    failures.sort();
    failures.dedup();
    let style = style(output.as_ref());
    let form = match flags.format {
        CachesForm::Text => of_caches::Form::Text,
        CachesForm::Json => of_caches::Form::Json,
        CachesForm::Callgrind => bail!("--sharing has no --format callgrind; give text or json"),
    };
    let ending = send(output, |out| {
        sharing::write(report, shared, form, style, out)
    })?;
    Ok(say(&flags.file, failures, ending))
}

fn style(output: Option<&Output>) -> Style {
    match output {
        Some(_) => Style::PLAIN,
        None => style_of(&io::stdout()),
    }
}

fn config(flags: &Caches) -> Config {
    Config {
        l1i: flags.l1i,
        l1d: flags.l1d,
        ll: flags.ll,
        itlb: flags.itlb,
        dtlb: flags.dtlb,
        updates: match flags.cachegrind {
            true => Updates::Read,
            false => Updates::Both,
        },
        at_once: caches::AT_ONCE,
    }
}
