//! `trace`, `dump`, `verify` and `index`: everything that was executed, in order.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use analysis::walk::{Pieces, Walk, segments};
use anyhow::{Result, bail};
use trace::{Identity, Mode, Most, Process, ReadError, Recording};

use crate::branches;
use crate::commands::{finish_stdout, read};
use crate::controls;
use crate::exit_status::Ending;
use crate::flags::{Destination, Dump, Format, Trace, Verify};
use crate::folders;
use crate::incomplete;
use crate::mistakes;
use crate::mls;
use crate::output::{Kind, Output};
use crate::progress::Progress;
use crate::reader::Reader;
use crate::session::Session;
use crate::show::Show;
use crate::simulators;
use crate::timelines;
use crate::trace_index;
use crate::watched;

pub fn trace(flags: &Trace) -> Result<Ending> {
    if flags.target.lockstep.is_some() {
        bail!("--lockstep runs parts of the program twice; a trace would have both");
    }
    controls::check(&flags.controls)?;
    let controls = controls::options(&flags.controls);
    let reader = Reader::wanted(flags)?;
    let destination = Destination {
        output: flags.output.clone(),
        report: None,
        format: Format::Report,
        quiet: flags.quiet,
        phases: false,
    };
    let session = Session {
        target: &flags.target,
        destination: &destination,
        html: None,
        mode: Mode::Trace,
        blocks: None,
        k: None,
        flags: controls::bits(&flags.controls),
        max_nodes: 1,
        costs: Vec::new(),
        buffer: u64::from(flags.buffer) << 20,
        calls: controls::calls(&flags.controls),
        insns: [flags.controls.skip, flags.controls.count].map(Option::unwrap_or_default),
        control: controls::requests(&flags.controls, flags.output.as_deref())?,
        selector: controls::selector(&flags.controls),
        order: flags.order.number(),
        memory: flags.accesses().bits(),
        sampling: crate::sampling::Sampling::No,
        options: options(flags),
        show: Show::run(Format::Report, false),
        speaks: false,
    };
    let most = match (flags.limit, flags.ring) {
        (Some(bytes), _) => Most::First(bytes),
        (None, Some(bytes)) => Most::Newest(bytes),
        (None, None) => Most::All,
    };
    let traced = session.trace(most, reader)?;
    let is_empty = || match (traced.insns, &flags.output) {
        (Some(insns), _) => insns == 0,
        (None, Some(output)) => is_empty(output),
        (None, None) => false,
    };
    if !flags.quiet && !controls.is_empty() && is_empty() {
        say!(
            "everypath: nothing was traced: no code that the options name ran, or the call, \
             number of instructions, signal or `everypath ctl` to begin at never came"
        );
    }
    Ok(traced.ending)
}

/// Whether no thread of a trace has executed anything. Only a small one is looked at.
fn is_empty(path: &Path) -> bool {
    const SMALL: u64 = 1 << 20;
    let is_small = |file: fs::Metadata| file.is_file() && file.len() <= SMALL;
    if !fs::metadata(path).is_ok_and(is_small) {
        return false;
    }
    let Ok(prefix) = read(path) else { return false };
    let is_empty = |process: &Process| {
        let mut pieces = Pieces::of(process);
        let mut threads = process.threads.iter();
        threads.all(|thread| segments::count(Walk::new(&mut pieces, thread)).0 == 0)
    };
    prefix.recording.processes.iter().all(is_empty)
}

pub fn dump(flags: &Dump) -> Result<Ending> {
    if let Some(form) = flags.mcf.mcf {
        return branches::dump(flags, form);
    }
    if let Some(form) = flags.mcf.mls {
        return mls::dump(flags, form);
    }
    if flags.simulators.is_asked() {
        return simulators::dump(flags);
    }
    if let Some(folder) = &flags.pt {
        return folders::pt(flags, folder);
    }
    if flags.timeline.uftrace.is_some() || flags.timeline.perfetto.is_some() {
        return timelines::dump(flags);
    }
    let has_accesses = flags.accesses || !flags.address.is_empty();
    if flags.order && !has_accesses {
        let view = report::steps::Between {
            times: flags.time.clone().unwrap_or(0..u64::MAX),
            range: flags.range.clone().unwrap_or(1..u64::MAX),
            thread: flags.thread,
            functions: functions(flags)?,
        };
        let (recording, ..) = read_known(&flags.file)?;
        check_thread(&recording, &flags.file, flags.thread)?;
        check_functions(&recording, &flags.file, &view.functions)?;
        check_order(&recording, &flags.file)?;
        return print(|out| report::steps::dump_in_order(&recording, &view, out));
    }
    let mut view = report::steps::View {
        range: flags.range.clone().unwrap_or(1..u64::MAX),
        thread: flags.thread,
        functions: functions(flags)?,
        memory: None,
    };
    let (mut recording, _, identity) = read_known(&flags.file)?;
    check_thread(&recording, &flags.file, flags.thread)?;
    check_functions(&recording, &flags.file, &view.functions)?;
    if has_accesses {
        return dump_accesses(flags, (recording, identity), &mut view);
    }
    trace_index::find(&mut recording, identity, &flags.file, &view);
    print(|out| report::steps::dump(&recording, &view, out))
}

/// Shows accesses: of each thread, or of all in their order.
fn dump_accesses(
    flags: &Dump,
    (mut recording, identity): (Recording, Identity),
    view: &mut report::steps::View,
) -> Result<Ending> {
    let Some(selection) = analysis::walk::selection(&recording) else {
        bail!(
            "'{}' has no memory accesses; record it with --memory addresses",
            flags.file.display()
        );
    };
    if !flags.address.is_empty() {
        let memory = watched::memory(&recording, &flags.file, &flags.address, flags.writes)?;
        view.memory = Some(memory);
    }
    if flags.order {
        check_order(&recording, &flags.file)?;
        return print(|out| {
            report::steps::dump_accesses_in_order(&recording, view, selection, out)
        });
    }
    trace_index::find(&mut recording, identity, &flags.file, view);
    print(|out| report::steps::dump_accesses(&recording, view, selection, out))
}

/// Whose code is shown: globs.
fn functions(flags: &Dump) -> Result<Vec<String>> {
    let globs = flags.funcs.iter().flat_map(|list| image::split_list(list));
    let globs: Vec<String> = globs.map(str::to_owned).collect();
    if globs.is_empty() && !flags.funcs.is_empty() {
        bail!("--funcs names nothing, so nothing would be shown");
    }
    Ok(globs)
}

/// Options that were given, as the user wrote them.
fn options(flags: &Trace) -> Vec<(String, String)> {
    let order = ("--order".into(), flags.order.name().into());
    let mut options = controls::options(&flags.controls);
    options.push(order);
    options.extend(flags.accesses().options());
    options
}

/// Whether there is a thread that was asked for.
pub fn check_thread(recording: &Recording, path: &Path, wanted: Option<u32>) -> Result<()> {
    let mut threads = recording.processes.iter().flat_map(|p| &p.threads);
    match wanted {
        Some(wanted) if threads.all(|thread| thread.tid != wanted) => bail!(
            "'{}': there is no thread {wanted}; `everypath verify` lists them",
            path.display()
        ),
        _ => Ok(()),
    }
}

/// Whether code of a function that was asked for was executed.
pub fn check_functions(recording: &Recording, path: &Path, globs: &[String]) -> Result<()> {
    let names = recording.processes.iter().flat_map(|process| {
        let named = process.sources.iter().filter_map(|source| source.function);
        named.filter_map(|(name, _)| process.texts.get(name as usize))
    });
    let names: std::collections::BTreeSet<&str> = names.map(String::as_str).collect();
    let is_wanted = |name: &&str| globs.iter().any(|glob| image::glob(glob, name));
    if globs.is_empty() || names.iter().any(is_wanted) {
        return Ok(());
    }
    let near = globs
        .iter()
        .flat_map(|glob| mistakes::near(glob, names.iter().copied()));
    let near: Vec<&str> = near.collect();
    bail!(
        "'{}': no function that ran is named '{}'{}",
        path.display(),
        globs.join("', '"),
        mistakes::offer(&near)
    )
}

/// Whether the threads of a trace have an order.
pub fn check_order(recording: &Recording, path: &Path) -> Result<()> {
    let is_order = |(name, how): &(String, String)| name == "--order" && how != "chunk";
    let mut threads = recording.processes.iter().flat_map(|p| &p.threads);
    let has_stamps = threads.all(analysis::walk::packed::has_stamps);
    match recording.meta.options.iter().any(is_order) {
        true if has_stamps => Ok(()),
        true => bail!(
            "'{}' has no time stamps, which order threads: an older everypath packed it; pack \
             the trace again",
            path.display()
        ),
        false => bail!(
            "'{}' has no time stamps, which order threads; record it with --order sync or fine",
            path.display()
        ),
    }
}

pub fn verify(flags: &Verify) -> Result<Ending> {
    let (recording, is_sound, _) = read_known(&flags.file)?;
    let is_sound = !incomplete::say(&recording, &flags.file) && is_sound;
    let progress = Progress::reading(&recording, "checking");
    let mut said = Vec::new();
    let sound = report::steps::verify(&recording, &mut said)? && is_sound;
    drop(progress);
    print(|out| out.write_all(&said).map(|()| sound))
}

/// Writes into the file how many instructions are before each keyframe.
pub fn index(flags: &Verify) -> Result<Ending> {
    let shown = flags.file.display();
    let prefix = read(&flags.file)?;
    if let Some(loss) = prefix.lost {
        bail!("'{shown}' is not whole, and is left as it is. {loss}");
    }
    let mut recording = prefix.recording;
    check_mode(&recording, &flags.file)?;
    incomplete::note(&recording, &flags.file, true);
    let output = Output::prepare(&flags.file, Kind::Recording)?;
    let progress = Progress::reading(&recording, "counting");
    let failed = segments::number(&mut recording);
    drop(progress);
    output.replace(|out| trace::write(&recording, out))?;
    match failed {
        None => Ok(Ending::Exit(0)),
        Some(error) => {
            say!("everypath: '{shown}': {error}; what is before that is counted");
            Ok(Ending::Exit(1))
        }
    }
}

fn print(write: impl Fn(&mut dyn Write) -> io::Result<bool>) -> Result<Ending> {
    let mut out = BufWriter::new(io::stdout().lock());
    let written = write(&mut out).and_then(|sound| out.flush().map(|()| sound));
    match written {
        Ok(true) => Ok(Ending::Exit(0)),
        Ok(false) => Ok(Ending::Exit(1)),
        Err(error) => finish_stdout(Err(error)),
    }
}

/// A trace in a file, or what is left of it; and whether that is all that was to be written. What
/// is made of it says if the trace is not all of the run.
pub fn read_trace(path: &Path) -> Result<(Recording, bool)> {
    let (recording, is_sound, _) = read_known(path)?;
    incomplete::note(&recording, path, is_sound);
    Ok((recording, is_sound))
}

/// Reads a trace, and its identity.
fn read_known(path: &Path) -> Result<(Recording, bool, Identity)> {
    let prefix = read(path)?;
    let shown = path.display();
    let is_sound = match prefix.lost {
        None => true,
        Some(loss) => match loss.error {
            ReadError::Unfinished { .. } if loss.next.is_none() && loss.to.is_none() => {
                say!("everypath: '{shown}': {}", loss.error);
                false
            }
            _ => {
                say!("everypath: '{shown}' is damaged. {loss}");
                false
            }
        },
    };
    check_mode(&prefix.recording, path)?;
    Ok((prefix.recording, is_sound, prefix.identity))
}

fn check_mode(recording: &Recording, path: &Path) -> Result<()> {
    if recording.meta.mode != Mode::Trace {
        bail!(
            "'{}' is no trace; look at it with `everypath report`",
            path.display()
        );
    }
    Ok(())
}
