//! `caches`: what other caches would have done in a run that was traced.

use std::io;

use analysis::caches::{self, Config, Shared, Updates};
use analysis::counts::from_trace;
use anyhow::{Result, bail};
use image::Images;
use report::counts::{Form, Report, View, caches as of_caches, sharing};
use report::text::Style;

use crate::branches::{say, send};
use crate::exit_status::Ending;
use crate::flags::{Caches, CachesForm};
use crate::output::{Kind, Output};
use crate::page_sources::{OnDisk, Trust};
use crate::progress::Progress;
use crate::show::style_of;
use crate::traces::read_trace;

pub fn caches(flags: &Caches) -> Result<Ending> {
    let output = flags.report.as_deref();
    let output = output.map(|path| Output::prepare(path, Kind::Report));
    let output = output.transpose()?;
    let (traced, _) = read_trace(&flags.file)?;
    let shown = flags.file.display();
    let Some(selection) = analysis::walk::selection(&traced) else {
        bail!("'{shown}' has no memory accesses; record it with --memory addresses");
    };
    let config = config(flags);
    let progress = Progress::reading(&traced, "counting");
    let (counted, mut failures) = from_trace::recording(&traced);
    let view = View {
        top: flags.top,
        modules: flags.modules.clone(),
        full_names: flags.full_names,
        ..View::default()
    };
    let mut report = Report::new(&counted, &view)?;
    if flags.sharing {
        progress.says("looking for shared lines");
        let counts = report.counts();
        let (shared, more) = caches::sharing(&traced, selection, counts, flags.top);
        drop(progress);
        failures.extend(more);
        return share(flags, &report, &shared, failures, output);
    }
    progress.says("filling caches");
    let costs = caches::costs(&traced, selection, report.counts(), &config);
    drop(progress);
    failures.extend(costs.failures.iter().cloned());
    failures.sort();
    failures.dedup();
    if !selection.loads || !selection.stores {
        let missing = if selection.loads { "writes" } else { "reads" };
        report
            .notes
            .push(format!("the trace has no {missing}, so no cache had them"));
    }
    let style = style(output.as_ref());
    let form = match flags.format {
        CachesForm::Callgrind => {
            report.costs = Some(costs);
            let ending = send(output, |out| report.write(Form::Callgrind, style, out))?;
            return Ok(say(&flags.file, failures, ending));
        }
        CachesForm::Text => of_caches::Form::Text,
        CachesForm::Json => of_caches::Form::Json,
    };
    if form == of_caches::Form::Text {
        let images = Images::new();
        let mut files = OnDisk::new(&images, Trust::Modules);
        report.read_sources(&mut files);
    }
    let ending = send(output, |out| {
        of_caches::write(&report, (&config, &costs), form, style, out)
    })?;
    Ok(say(&flags.file, failures, ending))
}

/// Shows the lines that threads share.
fn share(
    flags: &Caches,
    report: &Report<'_>,
    shared: &[Shared],
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
    }
}
