//! `raptor`: traces as what branch predictors got wrong, and back.

pub mod live;

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use analysis::raptor::{Config, Exceptions, OUTCOMES, Overflow, TARGETS};
use anyhow::{Result, anyhow, bail};
use report::mcf::{Form, Numbered};
use report::raptor::{self, View};
use report::{mcf, raptor::Row};

use crate::branches::{say, send};
use crate::descriptors::Sink;
use crate::exit_status::Ending;
use crate::flags::{DescriptorForm, Packing, Predictors, Raptor, RasOverflow, Written};
use crate::output::reason;
use crate::progress::Progress;
use crate::thesis::{Files, Tool};
use crate::traces::{check_order, check_thread, read_trace};

pub fn raptor(flags: &Raptor) -> Result<Ending> {
    let config = config(&flags.predictors, &flags.form);
    let view = view(&flags.form)?;
    if (flags.check || flags.decode.is_some()) && !config.targets.decodable {
        bail!(
            "a target in either way of a set of '{}' counts as predicted, and no decoder can \
             tell in which; give --targets ibtb-last",
            config.targets.name
        );
    }
    let (sink, files) = sink(
        &flags.form,
        view.form,
        &flags.packing,
        flags.output.as_deref(),
    )?;
    if sink.output.is_none() && flags.decode.is_none() && flags.packing.is_asked() {
        bail!("--compress and --descriptor-limit are about descriptors; name their file with -o");
    }
    let (recording, _) = read_trace(&flags.file)?;
    check_thread(&recording, &flags.file, flags.thread)?;
    let is_shared = flags.predictors.shared;
    if is_shared {
        check_order(&recording, &flags.file)?;
    }
    let shown = flags.file.display();
    let threads = mcf::threads(&recording, flags.thread);
    let threads = threads.map_err(|error| anyhow!("'{shown}': {error}"))?;
    if flags.check {
        return check(flags, &threads, &config);
    }
    if flags.decode.is_some() {
        return decode(flags, &threads, &config, view.form, sink);
    }
    let progress = Progress::reading(&recording, "predicting branches");
    let limit = Arc::clone(&sink.limit);
    let rows = write(&threads, &config, view, is_shared, sink)?;
    drop(progress);
    limit.say();
    if let Some(files) = files {
        files.finish(&threads, |out| raptor::statistics(&recording, &rows, out))?;
    }
    let ending = send(None, |out| {
        raptor::summary(&recording, &config, &rows, whose(is_shared), out)
    })?;
    Ok(say(&flags.file, failures(&rows), ending))
}

/// The file of descriptors; with `--thesis` the tool's other file, too.
fn sink(
    flags: &Written,
    form: Form,
    packing: &Packing,
    path: Option<&Path>,
) -> Result<(Sink, Option<Files>)> {
    match flags.thesis {
        false => Ok((Sink::wanted(packing, path)?, None)),
        true => {
            let (sink, files) = Sink::of_tool(Tool::McfTRaptor, form, packing, path)?;
            Ok((sink, Some(files)))
        }
    }
}

/// Makes descriptors, and writes them to the file, if there is one.
fn write<'a>(
    threads: &[Numbered<'a>],
    config: &Config,
    view: View,
    is_shared: bool,
    sink: Sink,
) -> Result<Vec<Row<'a>>> {
    let write = match is_shared {
        true => raptor::shared::write,
        false => raptor::write,
    };
    if sink.output.is_none() {
        return Ok(write(threads, config, None)?);
    }
    let rows = RefCell::new(Vec::new());
    sink.replace(view.form, |out| {
        *rows.borrow_mut() = write(threads, config, Some((view, out)))?;
        io::Result::Ok(())
    })?;
    Ok(rows.into_inner())
}

/// Which threads were not read to their end.
fn failures(rows: &[Row<'_>]) -> Vec<String> {
    let failed = rows.iter().filter_map(|row| {
        let error = row.error.as_ref()?;
        Some(format!("thread {}: {error}", row.thread.thread.tid))
    });
    failed.collect()
}

/// How descriptors are written.
fn view(flags: &Written) -> Result<View> {
    let form = match flags.form {
        DescriptorForm::Binary => Form::Binary,
        DescriptorForm::Ascii => Form::Ascii,
    };
    if form == Form::Binary && flags.disasm {
        bail!("binary descriptors have no place for branches; use --form ascii");
    }
    Ok(View {
        form,
        disassemble: flags.disasm,
    })
}

fn config(flags: &Predictors, form: &Written) -> Config {
    // The names were checked when they were parsed.
    let outcomes = OUTCOMES.iter().find(|row| row.name == flags.outcomes);
    let targets = TARGETS.iter().find(|row| row.name == flags.targets);
    Config {
        outcomes: outcomes.unwrap_or(&OUTCOMES[0]),
        outcome_entries: flags.entries,
        targets: targets.unwrap_or(&TARGETS[0]),
        target_entries: flags.ibtb,
        returns: flags.ras,
        overflow: match flags.ras_overflow {
            RasOverflow::Circular => Overflow::Circular,
            RasOverflow::DropOldest => Overflow::DropOldest,
        },
        exceptions: match form.thesis {
            true => Exceptions::Handlers,
            false => Exceptions::All,
        },
    }
}

fn whose(is_shared: bool) -> &'static str {
    match is_shared {
        true => "shared by the threads of a process",
        false => "private to each thread",
    }
}

fn check(flags: &Raptor, threads: &[Numbered<'_>], config: &Config) -> Result<Ending> {
    let checked = match flags.predictors.shared {
        true => raptor::shared::check(threads, config),
        false => raptor::check(threads, config),
    };
    match checked {
        Ok(checked) => send(None, |out| {
            let (branches, insns) = (checked.branches, checked.insns);
            writeln!(
                out,
                "{branches} branches of {insns} instructions made again, all equal"
            )
        }),
        Err(error) => Ok(say(&flags.file, vec![error], Ending::Exit(0))),
    }
}

fn decode(
    flags: &Raptor,
    threads: &[Numbered<'_>],
    config: &Config,
    form: Form,
    sink: Sink,
) -> Result<Ending> {
    let path = flags.decode.as_deref().unwrap_or(&flags.file);
    sink.check_terminal(form)?;
    let open = || {
        let file = File::open(path);
        file.map_err(|error| anyhow!("cannot read '{}': {}", path.display(), reason(&error)))
    };
    open()?;
    let failure = RefCell::new(None);
    let limit = Arc::clone(&sink.limit);
    let ending = sink.send(form, |out| {
        let decode = match flags.predictors.shared {
            true => raptor::shared::decode,
            false => raptor::decode,
        };
        *failure.borrow_mut() = decode(threads, config, form, File::open(path)?, out)?;
        Ok(())
    })?;
    limit.say();
    Ok(say(path, failure.take().into_iter().collect(), ending))
}
