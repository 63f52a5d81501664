//! `rewrite`: the exec editor.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use anyhow::{Result, anyhow, bail};
use edits::Counters;
use flow::Program;
use image::{FileOffset, Image, LinkAddr};
use rewrite::{CounterFiles, Edited, OldCode, Part, StaticTool};
use wire::counters::FOLDER;

use crate::counter_parts::Parts;
use crate::dictionaries;
use crate::edited_folder;
use crate::exit_status::Ending;
use crate::flags::{Rewrite, SEGMENT};
use crate::flow::executions;
use crate::output::{Kind, Output, reason};
use report::counts::COVERAGE;

/// Permissions that an edited file has from the original: not those of set-id programs.
pub const PERMISSIONS: u32 = 0o777;
/// Most edits of a kind that are listed one by one.
const LISTED: usize = 16;

/// Refuses options that do not go with the tool.
fn check(flags: &Rewrite) -> Result<()> {
    if flags.tool == SEGMENT && flags.paranoid {
        bail!("--paranoid goes with tools that move functions: all but segment");
    }
    let tool = edits::tool(&flags.tool);
    let counts = tool.map(|tool| tool.counters);
    let counts = matches!(
        counts,
        Some(Counters::InFiles | Counters::Stream | Counters::Calls)
    ) || flags.log.is_some();
    if flags.weights.is_some() && !tool.is_some_and(|tool| tool.takes_profile) {
        bail!("--weights goes with --tool edges, blocks, coverage, trace and contexts");
    }
    if flags.counters.is_some() && !counts {
        bail!("--counters goes with tools that record: edges, blocks, coverage, trace, opmix");
    }
    if flags.branches && flags.tool != COVERAGE {
        bail!("--branches goes with --tool coverage");
    }
    if flags.branches && flags.weights.is_some() {
        bail!(
            "--weights says where to put few marks, and --branches has them on all ways; leave one out"
        );
    }
    if flags.memory && flags.tool != "trace" {
        bail!("--memory goes with --tool trace");
    }
    if flags.targets && !matches!(flags.tool.as_str(), "edges" | "blocks") {
        bail!("--targets goes with --tool edges and blocks");
    }
    if flags.persistent.is_some() && !tool.is_some_and(|tool| tool.counters == Counters::Shared) {
        bail!("--persistent goes with --tool afl");
    }
    if flags.libs && tool.is_some_and(|tool| !tool.takes_libraries) {
        bail!("--tool {} is for programs; leave --libs out", flags.tool);
    }
    Ok(())
}

pub fn rewrite(flags: &Rewrite) -> Result<Ending> {
    check(flags)?;
    let tool = edits::tool(&flags.tool);
    if flags.libs {
        return edited_folder::make(flags);
    }
    let shown = flags.file.display();
    let metadata = fs::metadata(&flags.file)
        .map_err(|error| anyhow!("cannot read '{shown}': {}", reason(&error)))?;
    let same = |other: fs::Metadata| (other.dev(), other.ino()) == (metadata.dev(), metadata.ino());
    if fs::metadata(&flags.output).is_ok_and(same) {
        bail!("'{shown}' is not edited in place; give another file to --output");
    }
    let parts = match tool {
        Some(tool) if tool.counters != Counters::None && tool.takes_libraries => {
            parts_alone(flags)?
        }
        _ => Parts::default(),
    };
    let alone = Among {
        part: parts.of(0),
        base: parts.base_of(0),
        ..Among::default()
    };
    let (edited, program) = edit(flags, &flags.file, alone)?;
    let output = Output::prepare(&flags.output, Kind::Report)?;
    if has_dictionary(flags) {
        let dictionary = dictionaries::of(&edited, &flags.file, &flags.output)?;
        dictionaries::write(&dictionaries::beside(&flags.output), &[dictionary])?;
    }
    output.replace(|out| out.write_all(&edited.bytes))?;
    let permissions = Permissions::from_mode(metadata.mode() & PERMISSIONS);
    fs::set_permissions(&flags.output, permissions)?;
    if flags.explain {
        explain(&edited, &program);
    }
    Ok(Ending::Exit(0))
}

/// Whether the tool records what a dictionary explains.
pub fn has_dictionary(flags: &Rewrite) -> bool {
    edits::tool(&flags.tool)
        .is_some_and(|tool| matches!(tool.counters, Counters::Own | Counters::Calls))
}

/// The part of a library that is edited by itself: the programs that use it find its counters as those of a folder. A program has
/// none.
fn parts_alone(flags: &Rewrite) -> Result<Parts> {
    let image = Image::open(&flags.file).map_err(|error| anyhow!("{error}"))?;
    if image.is_static() || image.interpreter().is_some() && image.soname().is_none() {
        return Ok(Parts::default());
    }
    let path = std::path::absolute(&flags.output)?;
    Parts::new(&[(&image, path)], flags)
}

/// Facts that a file shares with those that it is edited with.
#[derive(Clone, Copy, Debug, Default)]
pub struct Among<'a> {
    /// The folder where it looks for libraries first.
    pub libraries: Option<&'a str>,
    /// Its part of the memory of counters.
    pub part: Option<Part<'a>>,
    /// As [`edits::Wanted::base`].
    pub base: u64,
    /// Files of counters are written beside the program, whatever the environment says.
    pub beside: bool,
    /// As [`edits::Wanted::loops`].
    pub loops: Option<&'a edits::loops::Choice>,
}

/// Edits a file with a tool: once more, for a tool that has to know which functions are left, when that is known.
fn with_tool(
    flags: &Rewrite,
    (input, image, program): (&[u8], &Image, &Program),
    options: rewrite::Options<'_>,
    wanted: edits::Wanted<'_>,
) -> Result<Edited, rewrite::Refused> {
    let row = edits::tool(&flags.tool);
    let mut left = HashSet::new();
    loop {
        let wanted = edits::Wanted {
            left: &left,
            ..wanted
        };
        let mut tool: Box<dyn StaticTool + '_> = match row {
            Some(tool) => (tool.make)(image, program, wanted),
            None => Box::new(()),
        };
        let edited = rewrite::edit(input, image, program, options, &mut *tool)?;
        drop(tool);
        let skipped = edited.skipped.iter();
        let skipped: HashSet<u64> = skipped.map(|(entry, _)| entry.0).collect();
        if !row.is_some_and(|row| row.follows_calls) || skipped.is_subset(&left) {
            return Ok(edited);
        }
        left.extend(skipped);
    }
}

/// Edits a file as the options ask, in memory.
pub fn edit(flags: &Rewrite, path: &Path, among: Among<'_>) -> Result<(Edited, Program)> {
    let shown = path.display();
    // It says what is wrong with files that are no programs.
    let image = Image::open_whole(path).map_err(|error| anyhow!("{error}"))?;
    let input = fs::read(path);
    let input = input.map_err(|error| anyhow!("cannot read '{shown}': {}", reason(&error)))?;
    let options = rewrite::Options {
        old_code: match flags.paranoid {
            true => OldCode::Traps,
            false => OldCode::Stays,
        },
        libraries: among.libraries,
    };
    let profile = flags.weights.as_deref();
    let profile = profile.map(|run| self::profile(run, &image)).transpose()?;
    let original = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let original = original.to_string_lossy();
    let folder = flags.counters.as_deref().map(folder_of_files).transpose()?;
    let mut wanted = edits::Wanted {
        original: &original,
        profile: profile.as_ref(),
        branches: flags.branches,
        targets: flags.targets,
        memory: flags.memory,
        log: flags.log.as_deref(),
        loops: among.loops,
        left: &HashSet::new(),
        turns: None,
        files: match &folder {
            _ if among.beside => CounterFiles::Beside,
            Some(folder) => CounterFiles::Folder(folder),
            None => CounterFiles::WorkingFolder,
        },
        part: among.part,
        base: among.base,
    };
    if flags.tool == SEGMENT {
        let edited = rewrite::null_segment(&input, options);
        let edited = edited.map_err(|refused| anyhow!("cannot edit '{shown}': {refused}"))?;
        return Ok((edited, Program::default()));
    }
    let program = Program::of(&image);
    let persistent = match &flags.persistent {
        // The program itself, and none of its libraries.
        Some(name)
            if fs::canonicalize(&flags.file).is_ok_and(|file| file == Path::new(&*original)) =>
        {
            Some(function_of(&program, name)?)
        }
        _ => None,
    };
    wanted.turns = persistent.map(|entry| entry.0);
    let edited = with_tool(flags, (&input, &image, &program), options, wanted);
    let edited = edited
        .map_err(|refused| anyhow::Error::new(refused).context(format!("cannot edit '{shown}'")))?;
    if let Some(entry) = persistent {
        has_turns(entry, &edited, &shown)?;
    }
    Ok((edited, program))
}

/// Refuses a function for `--persistent` that was left.
fn has_turns(entry: LinkAddr, edited: &Edited, shown: &dyn std::fmt::Display) -> Result<()> {
    let mut skipped = edited.skipped.iter();
    match skipped.find(|(left, _)| *left == entry) {
        Some((_, why)) => bail!(
            "the function of --persistent in '{shown}' stays as it is ({}, {}); name another one",
            why.name(),
            why.reason()
        ),
        None => Ok(()),
    }
}

/// The entry of a function by its name, or its address.
fn function_of(program: &Program, name: &str) -> Result<LinkAddr> {
    let by_name = program
        .functions
        .iter()
        .find(|function| function.name.as_deref() == Some(name));
    let by_address = || {
        let address = u64::from_str_radix(name.strip_prefix("0x")?, 16).ok()?;
        program.function_from(LinkAddr(address))
    };
    match by_name.or_else(by_address) {
        Some(function) => Ok(function.entry),
        None => bail!(
            "--persistent {name}: there is no such function; `everypath flow FILE` lists all with their addresses"
        ),
    }
}

/// The whole path of a folder for files of counters.
fn folder_of_files(path: &Path) -> Result<String> {
    let shown = path.display();
    let whole = fs::canonicalize(path);
    let whole = whole.map_err(|error| anyhow!("--counters '{shown}': {}", reason(&error)))?;
    if !whole.is_dir() {
        bail!("--counters '{shown}' is no folder");
    }
    match whole.into_os_string().into_string() {
        Ok(whole) if whole.len() < FOLDER => Ok(whole),
        _ => bail!("--counters '{shown}': its whole path has over 511 bytes, or is no UTF-8"),
    }
}

/// Executions of a file's instructions in an earlier run, by link address.
fn profile(run: &Path, image: &Image) -> Result<edits::Profile> {
    let counts = executions(run, image)?.into_iter();
    let by_address = counts.filter_map(|(offset, counts)| {
        let addr = image.link_addr(FileOffset(offset))?;
        Some((addr.0, counts))
    });
    Ok(by_address.collect())
}

/// Says what was added, and each edit.
pub fn explain(edited: &Edited, program: &Program) {
    let (start, end) = (edited.segment.start, edited.segment.end);
    say!(
        "everypath: a segment of {} bytes at {start:#x}, its header in place of {}",
        end - start,
        edited.spare
    );
    if edited.moved > 0 {
        let (moved, left) = (edited.moved, edited.skipped.len());
        let (new, all) = edited.tables;
        say!(
            "everypath: {moved} functions moved, {left} left; {new} of {all} jump tables made anew"
        );
    }
    if !edited.says.is_empty() {
        say!("everypath: {}", edited.says);
    }
    for (entry, why) in &edited.skipped {
        let function = program.function_from(*entry);
        let name = function.and_then(|function| function.name.as_deref());
        say!(
            "everypath: left at {entry:#x}{}: {}, {}",
            name.map_or(String::new(), |name| format!(
                " ({})",
                image::demangled(name)
            )),
            why.name(),
            why.reason()
        );
    }
    let mut by_kind: BTreeMap<&str, Vec<_>> = BTreeMap::new();
    for edit in &edited.edits {
        by_kind.entry(edit.what).or_default().push(&edit.at);
    }
    for (what, places) in by_kind {
        if places.len() <= LISTED {
            for place in places {
                let (start, end) = (place.start, place.end);
                say!("everypath: bytes {start:#x} to {end:#x}: {what}");
            }
            continue;
        }
        let bytes: u64 = places.iter().map(|place| place.end - place.start).sum();
        let count = places.len();
        say!("everypath: {count} times, {bytes} bytes in all: {what}");
    }
}
