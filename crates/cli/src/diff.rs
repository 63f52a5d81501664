//! `everypath diff`: two recordings to a comparison, and to an exit status that
//! says whether a condition is met.
//!
//! Recordings made with different options are refused unless `--force` is given; then the difference is
//! a note. With `--fail-if` a damaged recording is refused, too: what is lost of
//! it would decide.

use std::io;
use std::path::Path;

use analysis::diff::{self as differ, Diff, Metric};
use anyhow::{Result, anyhow, bail};
use image::Images;
use report::diff::{self as form, Comparison, Recorded};
use report::text::Style;
use trace::Recording;

use crate::branches::send;
use crate::commands::read;
use crate::exit_status::Ending;
use crate::flags::{self, DiffFormat};
use crate::output::{Kind, Output};
use crate::page_sources::OnDisk;
use crate::show::{self, Page};

/// A condition of `--fail-if` is met.
const CONDITION_MET: u8 = 1;

pub fn diff(flags: &flags::Diff) -> Result<Ending> {
    let mut notes = Vec::new();
    let before = whole(&flags.before, flags, &mut notes)?;
    let after = whole(&flags.after, flags, &mut notes)?;
    check_alike(&before, &after, flags, &mut notes)?;
    let metrics = metrics(&before, &after, flags)?;
    let by = match &flags.by {
        Some(name) => find(&metrics, name)?,
        None => metrics.len() - 1,
    };
    for condition in &flags.fail_if {
        find(&metrics, &condition.metric)?;
    }
    let is_of_blocks = after.meta.blocks.is_some();
    let difference = Diff::new(&before, &after, &metrics);
    let verdicts = differ::judge(&difference, &flags.fail_if);
    for verdict in verdicts.iter().filter(|verdict| verdict.functions == 0) {
        let name = verdict.condition.function.as_deref().unwrap_or_default();
        notes.push(match is_of_blocks {
            true => format!("no basic block '{name}' was executed, before or after"),
            false => format!("no function '{name}' was called, before or after"),
        });
    }
    let met: Vec<String> = verdicts
        .iter()
        .filter(|verdict| verdict.met)
        .map(form::sentence)
        .collect();
    if flags.html.is_none() && !flags.format.shows_notes() {
        notes.iter().for_each(|note| say!("everypath: {note}"));
    }
    let mut comparison = Comparison::new(
        Recorded::new(flags.before.display().to_string(), &before),
        Recorded::new(flags.after.display().to_string(), &after),
        difference,
        by,
    );
    comparison.top = (!flags.full).then_some(flags.top);
    comparison.verdicts = verdicts;
    comparison.notes = notes;
    let ending = match &flags.html {
        Some(path) => {
            let code = flags.html_code;
            write_page(&comparison, Page { path, code })?
        }
        None => write(&comparison, flags)?,
    };
    for sentence in &met {
        say!("everypath: {sentence}");
    }
    Ok(match met.is_empty() {
        true => ending,
        false => Ending::Exit(CONDITION_MET),
    })
}

/// The recording in a file; what it has lost is a note.
fn whole(path: &Path, flags: &flags::Diff, notes: &mut Vec<String>) -> Result<Recording> {
    let prefix = read(path)?;
    if let Some(loss) = prefix.lost {
        let note = format!("'{}' is damaged. {loss}", path.display());
        if !flags.fail_if.is_empty() && !flags.force {
            bail!("{note} What is lost could decide --fail-if; give --force to judge what is left");
        }
        notes.push(note);
    }
    Ok(prefix.recording)
}

fn check_alike(
    before: &Recording,
    after: &Recording,
    flags: &flags::Diff,
    notes: &mut Vec<String>,
) -> Result<()> {
    let obstacles = differ::obstacles(before, after);
    let clauses: Vec<String> = obstacles.iter().map(ToString::to_string).collect();
    match clauses.is_empty() {
        true => {}
        false if flags.force => notes.extend(clauses),
        false => bail!(
            "'{}' and '{}' were not recorded alike: {}; give --force to compare them all the same",
            flags.before.display(),
            flags.after.display(),
            clauses.join(", and ")
        ),
    }
    Ok(())
}

fn metrics(before: &Recording, after: &Recording, flags: &flags::Diff) -> Result<Vec<Metric>> {
    let metrics = differ::metrics_of(before, after);
    if metrics.is_empty() {
        let is_bare = |recording| differ::metrics_of(recording, recording).is_empty();
        let bare = match (is_bare(before), is_bare(after)) {
            (true, _) => &flags.before,
            (_, true) => &flags.after,
            _ => bail!(
                "'{}' and '{}' have no figure in common: calls are of functions, and executions \
                 of basic blocks",
                flags.before.display(),
                flags.after.display()
            ),
        };
        bail!(
            "'{}' has nothing to compare; record with `contexts`, or `run --count-instructions`",
            bare.display()
        );
    }
    Ok(metrics)
}

fn find(metrics: &[Metric], name: &str) -> Result<usize> {
    let found = metrics.iter().position(|metric| metric.name == name);
    found.ok_or_else(|| {
        let names: Vec<&str> = metrics.iter().map(|metric| metric.name).collect();
        anyhow!(
            "'{name}' is no metric of these recordings; they have {}",
            names.join(" and ")
        )
    })
}

fn write_page(comparison: &Comparison, page: Page) -> Result<Ending> {
    let output = Output::prepare(page.path, Kind::Report)?;
    let images = Images::new();
    output.replace(|out| {
        let mut files = OnDisk::new(&images, page.trust());
        report::html::write_comparison(comparison, page.beside(&mut files), out)?;
        files.say_what_was_refused("--html-code MB puts that into the page, too");
        io::Result::Ok(())
    })?;
    Ok(Ending::Exit(0))
}

fn write(comparison: &Comparison, flags: &flags::Diff) -> Result<Ending> {
    let output = Output::wanted(flags.output.as_deref())?;
    let style = match output {
        Some(_) => Style::PLAIN,
        None => show::style_of(&io::stdout()),
    };
    send(output, |out| match flags.format {
        DiffFormat::Report => form::text::write(comparison, style, out),
        DiffFormat::Json => form::json::write(comparison, out),
        DiffFormat::Csv => form::csv::write(comparison, out),
        DiffFormat::Folded => form::folded::write(comparison, out),
        DiffFormat::Flamegraph => form::flamegraph::write(comparison, out),
    })
}
