//! `flow`: functions, blocks, edges, jump tables and loops of a file.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::{self, Read};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use analysis::counts::Unit;
use anyhow::{Context, Result, anyhow, bail};
use flow::{Block, Function, Liveness, Program};
use image::{Image, ImageError, Language, Linker};
use report::counts::{Report, View};
use report::flow::{self as of_flow, Totals};
use report::text::Style;
use trace::Mode;

use crate::branches::send;
use crate::commands::read;
use crate::exit_status::Ending;
use crate::flags::{Flow, FlowForm};
use crate::output::{Kind, Output};
use crate::show::style_of;

type Rows = BTreeMap<(Language, Linker), Totals>;

pub fn flow(flags: &Flow) -> Result<Ending> {
    if flags.table {
        return table(flags);
    }
    let [file] = &flags.files[..] else {
        bail!("one file at a time; for a table of many give --table");
    };
    if let Some(members) = Image::open_members(file) {
        return archive(flags, file, &members);
    }
    check_form(flags)?;
    let has_graph = flags.function.is_some();
    let output = flags.report.as_deref();
    let output = output.map(|path| Output::prepare(path, Kind::Report));
    let output = output.transpose()?;
    let image = Image::open_to_read(file).map_err(|error| anyhow!("{error}"))?;
    let program = Program::of(&image);
    let file = file.display().to_string();
    let flow = of_flow::Flow {
        image: &image,
        program: &program,
        file: &file,
        full_names: flags.full_names,
    };
    let found = flags.function.as_ref().map(|name| functions(&flow, name));
    let found = found.transpose()?.unwrap_or_default();
    let counts = match &flags.counts {
        Some(path) => Some(executions(path, &image)?),
        None => None,
    };
    let ran = |block: &Block| {
        let offset = image.file_offset(block.start)?;
        let counts = counts.as_ref()?;
        Some(counts.get(&offset.0).map_or(0, |(count, _)| *count))
    };
    let liveness = flags.live.then(|| Liveness::new(&image, &program));
    let style = match output {
        Some(_) => Style::PLAIN,
        None => style_of(&io::stdout()),
    };
    let facts = of_flow::Facts {
        ran: &ran,
        liveness: liveness.as_ref(),
    };
    send(output, |out| match flags.format {
        FlowForm::Json => {
            of_flow::json(&flow, has_graph.then_some(&found[..]), facts.liveness, out)
        }
        FlowForm::Dot => of_flow::dot(&flow, &found, out),
        FlowForm::Svg => of_flow::svg(&flow, found[0], &ran, out),
        FlowForm::Text if flags.loops => of_flow::loops(&flow, out),
        FlowForm::Text if flags.calls => of_flow::calls(&flow, out),
        FlowForm::Text if flags.gates => of_flow::gates(&flow, out),
        FlowForm::Text if has_graph => found
            .iter()
            .try_for_each(|function| of_flow::function(&flow, function, &facts, style, out)),
        FlowForm::Text => of_flow::summary(&flow, style, out),
    })
}

/// Refuses forms that what is asked for does not have.
fn check_form(flags: &Flow) -> Result<()> {
    let has_graph = flags.function.is_some();
    match flags.format {
        FlowForm::Svg if !has_graph => bail!("--format svg draws one function; give --function"),
        FlowForm::Dot if !has_graph && !flags.calls => {
            bail!("--format dot draws a function or the call graph; give --function or --calls")
        }
        FlowForm::Svg | FlowForm::Dot if flags.live => {
            bail!("--live goes with --format text and json")
        }
        _ => Ok(()),
    }
}

/// Executions of the instructions of `image` in a recording of `count`, by their offsets in the file: all, and those that went on to
/// the next instruction.
pub fn executions(path: &Path, image: &Image) -> Result<HashMap<u64, (u64, u64)>> {
    let prefix = read(path)?;
    let shown = path.display();
    if prefix.recording.meta.mode != Mode::Counts {
        bail!("'{shown}' has no counts; make it with `everypath count -o {shown} -- PROGRAM`");
    }
    if let Some(loss) = &prefix.lost {
        say!("everypath: '{shown}' is damaged. {loss}");
    }
    let view = View::default();
    let report = Report::new(&prefix.recording, &view)?;
    let counts = report.counts();
    let same = |path: &Path| fs::canonicalize(path).ok();
    let own = same(image.path());
    let is_it = |unit: &Unit| match (&unit.build_id, image.build_id()) {
        (Some(one), Some(other)) => one == other,
        _ => unit
            .path
            .as_ref()
            .is_some_and(|path| same(path.as_ref()) == own),
    };
    let units: Vec<bool> = counts.units.iter().map(is_it).collect();
    if !units.contains(&true) {
        bail!("'{shown}' has no code of '{}'", image.path().display());
    }
    let insns = counts.insns.iter().filter(|insn| units[insn.unit as usize]);
    Ok(insns
        .map(|insn| (insn.at, (insn.count, insn.fell)))
        .collect())
}

/// The object files of an archive: what each has, or all that functions of a name are in.
fn archive(flags: &Flow, file: &Path, members: &[Result<Image, ImageError>]) -> Result<Ending> {
    let has_name = |name: &String| {
        let members = members.iter().flatten();
        let has = members.filter(|member| {
            let functions = member.functions().iter();
            let mut names = functions.flat_map(|function| member.aliases(function));
            names.any(|own| own == name)
        });
        has.map(|member| format!("'{}'", member.path().display()))
            .collect::<Vec<_>>()
    };
    let shown = file.display();
    let Some(name) = &flags.function else {
        return table(flags);
    };
    let found = has_name(name);
    match found.is_empty() {
        true => bail!("'{shown}' has no object file with a function '{name}'"),
        false => bail!(
            "'{shown}' is an archive: give the object file with '{name}', {}",
            found.join(" or ")
        ),
    }
}

/// The table of many files.
fn table(flags: &Flow) -> Result<Ending> {
    let output = flags.report.as_deref();
    let output = output.map(|path| Output::prepare(path, Kind::Report));
    let output = output.transpose()?;
    let mut files = BTreeSet::new();
    for path in &flags.files {
        match path.is_dir() {
            true => collect(path, &mut files)?,
            false => {
                files.insert(path.clone());
            }
        }
    }
    let files: Vec<PathBuf> = files.into_iter().collect();
    let (rows, failed) = all_of(&files, &flags.files);
    let style = match output {
        Some(_) => Style::PLAIN,
        None => style_of(&io::stdout()),
    };
    let ending = send(output, |out| of_flow::table(&rows, style, out))?;
    for error in &failed {
        say!("everypath: {error}");
    }
    Ok(if failed.is_empty() {
        ending
    } else {
        Ending::Exit(1)
    })
}

/// Totals of files by language and linker, and why some of those that were `named` are not in it.
fn all_of(files: &[PathBuf], named: &[PathBuf]) -> (Rows, Vec<String>) {
    let (rows, failed) = (Mutex::new(Rows::new()), Mutex::new(Vec::new()));
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(path) = files.get(next.fetch_add(1, Relaxed)) {
            let mut start = Instant::now();
            let images = Image::open_members(path);
            let images = images.unwrap_or_else(|| vec![Image::open_to_read(path)]);
            for image in images {
                let image = match image {
                    Ok(image) => image,
                    // Folders have files of all kinds.
                    Err(error) if named.contains(path) => {
                        lock(&failed).push(error.to_string());
                        continue;
                    }
                    Err(_) => continue,
                };
                let program = Program::of(&image);
                // Debug files have no code.
                if program.code > 0 {
                    let totals = Totals::of(&program, start.elapsed());
                    lock(&rows).entry(image.origin()).or_default().add(&totals);
                }
                start = Instant::now();
            }
        }
    };
    let workers = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        for _ in 0..workers.min(files.len()) {
            scope.spawn(work);
        }
    });
    let rows = rows.into_inner().unwrap_or_else(PoisonError::into_inner);
    (
        rows,
        failed.into_inner().unwrap_or_else(PoisonError::into_inner),
    )
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All ELF files below a folder, links left out.
fn collect(folder: &Path, files: &mut BTreeSet<PathBuf>) -> Result<()> {
    let entries = fs::read_dir(folder);
    let entries = entries.with_context(|| format!("cannot read '{}'", folder.display()))?;
    for entry in entries.flatten() {
        let (path, kind) = (entry.path(), entry.file_type());
        match kind {
            // Folders that may not be read are left out.
            Ok(kind) if kind.is_dir() => {
                let _ = collect(&path, files);
            }
            Ok(kind) if kind.is_file() => {
                let mut magic = [0; 4];
                let read = File::open(&path).and_then(|mut file| file.read_exact(&mut magic));
                if read.is_ok() && magic == *b"\x7fELF" {
                    files.insert(path);
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// The functions that a name is of.
fn functions<'a>(flow: &of_flow::Flow<'a>, name: &str) -> Result<Vec<&'a Function>> {
    let found = flow.find(name);
    if !found.is_empty() {
        return Ok(found);
    }
    let near = flow.image.near_names(name);
    let near = match near.is_empty() {
        true => String::new(),
        false => format!("; there are {}", near.join(", ")),
    };
    bail!("'{}' has no function '{name}'{near}", flow.file)
}
