//! `report`: a recording, or a trace of which contexts or counts are made, in the form that was asked for.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;

use analysis::fold;
use anyhow::{Result, anyhow, bail};
use image::Images;
use report::text::Style;
use trace::{Cost, Loss, Mode, Recording};

use crate::commands::{
    NO_CONTEXTS, NO_COUNTS, check_fold, check_slabs, check_tables, check_threads, check_view,
    finish_stdout, hint_of_file, names, read, sorted_by, trust,
};
use crate::derived::Derived;
use crate::exit_status::Ending;
use crate::flags::{Format, Report, What};
use crate::incomplete;
use crate::output::{Kind, Output};
use crate::page_sources::OnDisk;
use crate::pager;
use crate::show::{self, Page, Show};
use crate::sums;
use crate::{followed, opmix};

/// Shows a recording, or what is left of it.
pub fn report(flags: &mut Report) -> Result<Ending> {
    check_view(&flags.view)?;
    check_tables(&flags.view, flags.format)?;
    for report in [opmix::report, followed::report] {
        if let Some(ending) = report(flags)? {
            return Ok(ending);
        }
    }
    let prefix = sums::with(read(&flags.file)?, &flags.file, &flags.more)?;
    imply_what_is_made(flags, &prefix.recording);
    let mut made = Derived::of(flags, prefix.recording)?;
    flatten(flags, &mut made.recording);
    let ending = show(flags, &made.recording, prefix.lost)?;
    Ok(made.end(flags, ending))
}

/// A form that only contexts have, or only counts, says which of them is to be made of a trace.
fn imply_what_is_made(flags: &mut Report, recording: &Recording) {
    if recording.meta.mode != Mode::Trace || flags.made.what.is_some() {
        return;
    }
    let (what, name) = match (flags.format.needs_contexts(), flags.format.of_counts()) {
        (true, None) => (What::Contexts, "contexts"),
        (false, Some(_)) if flags.format.needs_counts() => (What::Counts, "counts"),
        _ => return,
    };
    flags.made.what = Some(what);
    say!(
        "everypath: '{}' is a trace; its {name} are made, as with --as {name}",
        flags.file.display()
    );
}

/// Leaves out the callers that a recording has, for `-k 0`; whole contexts of functions are
/// folded instead, which tells what functions cost with all they called.
fn flatten(flags: &Report, recording: &mut Recording) {
    let meta = &recording.meta;
    let is_whole = meta.blocks.is_none() && meta.k.is_none();
    if flags.fold() == Some(0) && meta.mode == Mode::Contexts && !is_whole {
        fold::flatten(recording);
    }
}

fn show(flags: &Report, recording: &Recording, lost: Option<Loss>) -> Result<Ending> {
    let shown = flags.file.display();
    let mut show = Show::new(flags.format, &flags.view);
    if let Some(loss) = lost {
        if recording.processes.is_empty() {
            bail!("'{shown}' has nothing left to show. {loss}");
        }
        let note = format!("'{shown}' is damaged. {loss}");
        // These have no place for notes.
        if flags.format.needs_contexts() || flags.format.needs_counts() || flags.page.html.is_some()
        {
            say!("everypath: {note}");
        }
        show.notes.push(note);
        incomplete::note_damage();
    }
    check(flags, recording)?;
    show.fold = flags.fold().filter(|_| recording.meta.k.is_none());
    show.trust = trust(flags);
    show.counts = report::counts::View {
        top: flags.view.top,
        per_thread: flags.view.per_thread,
        modules: names(&flags.modules),
        annotate: names(&flags.annotate),
        inlines: flags.inlines,
        full_names: flags.view.full_names,
    };
    if let Some(page) = flags.page.wanted() {
        return write_page(recording, &show, page);
    }
    show.hint = Some(hint_of_file(&flags.file));
    show.engine_stats |= recording.meta.mode == Mode::Run;
    if let Some(path) = report_file(flags)? {
        return write_file(recording, &show, flags.format, path);
    }
    let stdout = io::stdout();
    if flags.format == Format::Pprof && stdout.is_terminal() {
        bail!("--format pprof is no text for a terminal; send it to a file: > FILE.pb.gz");
    }
    let style = show::style_of(&stdout);
    let is_paged = !flags.no_pager && flags.format == Format::Report;
    let mut out = BufWriter::new(pager::stdout(is_paged));
    let written = show.write(recording, style, &mut out);
    match written.and_then(|()| out.flush()) {
        // It is not there to be written.
        Err(error) if error.kind() == io::ErrorKind::Other => bail!("'{shown}': {error}"),
        written => finish_stdout(written),
    }
}

/// The file that the report goes to. With --as, it is the recording's that was made.
fn report_file(flags: &Report) -> Result<Option<&Path>> {
    let file = flags.made.output.as_deref();
    let file = file.filter(|_| flags.made.what.is_none());
    let is_recording = |path: &&Path| path.extension().is_some_and(|name| name == "evp");
    if let Some(path) = file.filter(is_recording) {
        bail!(
            "'{}' is a recording's name, and this writes a report; name it otherwise, or say with --as what \
             is to be made",
            path.display()
        );
    }
    Ok(file)
}

/// Writes the report to a file, gzipped if its name ends in .gz; a profile of pprof is already.
fn write_file(recording: &Recording, show: &Show, format: Format, path: &Path) -> Result<Ending> {
    let is_gzipped = path.extension().is_some_and(|name| name == "gz");
    let output = Output::prepare(path, Kind::Report)?;
    output.replace(|out| {
        let plain = |out: &mut dyn Write| show.write(recording, Style::PLAIN, out);
        match is_gzipped && format != Format::Pprof {
            true => report::gzip::write(out, plain),
            false => plain(out),
        }
    })?;
    Ok(Ending::Exit(0))
}

/// Whether the recording has what the options ask for.
fn check(flags: &Report, recording: &Recording) -> Result<()> {
    let shown = flags.file.display();
    let mode = recording.meta.mode;
    let has = |cost: &Cost| {
        let mut threads = recording
            .processes
            .iter()
            .flat_map(|process| &process.threads);
        threads.any(|thread| thread.costs_of(*cost).is_some())
    };
    if let Some(cost) = sorted_by(&flags.view).filter(|cost| mode == Mode::Contexts && !has(cost)) {
        let name = cost.name();
        bail!("'{shown}' has no {name} to sort by; record it with --cost {name}");
    }
    if flags.page.html.is_some() && matches!(mode, Mode::Run | Mode::Trace) {
        bail!("'{shown}': a page shows what `contexts` or `count` recorded");
    }
    check_form(flags.format, mode).map_err(|error| anyhow!("'{shown}': {error}"))?;
    check_threads(flags.view.per_thread, flags.format)?;
    let tables = &flags.view.tables;
    if let (Some(option), true) = (tables.option(), mode != Mode::Contexts) {
        bail!("'{shown}': {option} lists what contexts are of, and only `contexts` records any");
    }
    if let (Some(option), None) = (tables.blocks_option(), recording.meta.blocks) {
        bail!("'{shown}': {option} is about basic blocks, and these contexts are of functions");
    }
    check_slabs(flags, recording).map_err(|error| anyhow!("'{shown}' {error}"))?;
    check_fold(flags, recording).map_err(|error| anyhow!("'{shown}' {error}"))?;
    let is_page = flags.page.html.is_some();
    if !flags.modules.is_empty() && mode != Mode::Counts && !is_page {
        bail!(
            "'{shown}': --modules lists code, and only `count` records any; `everypath contexts --modules` counts \
             the functions of some files alone"
        );
    }
    if !flags.annotate.is_empty() && mode != Mode::Counts && !is_page {
        bail!("'{shown}': --annotate shows instructions, and only `count` records any");
    }
    Ok(())
}

fn write_page(recording: &Recording, show: &Show, page: Page) -> Result<Ending> {
    let output = Output::prepare(page.path, Kind::Report)?;
    let images = Images::new();
    output.replace(|out| {
        let mut files = OnDisk::new(&images, page.trust());
        show::write_page(recording, show, page, &mut files, out)?;
        files.say_what_was_refused("--html-code MB puts that into the page, too");
        io::Result::Ok(())
    })?;
    Ok(Ending::Exit(0))
}

/// Whether a recording has what the form shows.
fn check_form(format: Format, mode: Mode) -> Result<()> {
    let fits = match mode {
        Mode::Contexts => true,
        Mode::Counts => format.of_counts().is_some(),
        Mode::Run => !format.needs_contexts(),
        Mode::Trace => false,
    };
    if !fits {
        bail!(NO_CONTEXTS);
    }
    if mode != Mode::Counts && format.needs_counts() {
        bail!(NO_COUNTS);
    }
    Ok(())
}
