//! The commands: from flags to a session, or to what they print.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use analysis::without_root;
use anyhow::{Result, anyhow, bail};
use clap::CommandFactory;
use image::Selector;
use trace::{BlockContexts, Cost, Identity, Mode, Prefix, Recording};
use wire::flag;

use crate::branches;
use crate::caches;
use crate::cfiat;
use crate::ctl;
use crate::diff;
use crate::doctor;
use crate::edit_cache::Inserted;
use crate::edited_run::EditedRun;
use crate::exit_status::Ending;
use crate::flags::{
    BlockKind, Cli, Command, ContextMode, Contexts, Count, Destination, Format, Metric, Report,
    Run, View, WhenEdited, WhichForest,
};
use crate::help;
use crate::output::{mid_sentence, reason};
use crate::pack;
use crate::page_sources::Trust;
use crate::program;
use crate::raptor;
use crate::reports;
use crate::sampling::{self, Sampling};
use crate::selection;
use crate::session::Session;
use crate::show::Show;
use crate::traces;
use crate::{counted_contexts, counter_files, counter_header};

pub fn run(command: &mut Command) -> Result<Ending> {
    match command {
        Command::Run(flags) => run_only(flags),
        Command::Contexts(flags) => contexts(flags),
        Command::Count(flags) => count(flags),
        Command::Trace(flags) => traces::trace(flags),
        Command::Ctl(flags) => ctl::ctl(flags),
        Command::Dump(flags) => traces::dump(flags),
        Command::Stats(flags) => branches::stats(flags),
        Command::Raptor(flags) => raptor::raptor(flags),
        Command::Cfiat(flags) => cfiat::cfiat(flags),
        Command::Caches(flags) => caches::caches(flags),
        Command::Flow(flags) => crate::flow::flow(flags),
        Command::Loops(flags) => crate::loops::loops(flags),
        Command::Rewrite(flags) => crate::rewrite::rewrite(flags),
        Command::Regenerate(flags) => crate::witnesses::regenerate(flags),
        Command::Encode(flags) => crate::rewrite::rewrite(&flags.edit()),
        Command::Decode(flags) => crate::decode::decode(flags),
        Command::LogContexts(flags) => crate::logged::log_contexts(flags),
        Command::Allocations(flags) => crate::allocations::allocations(flags),
        Command::Exec(flags) => crate::edited_folder::exec(flags),
        Command::Pack(flags) => pack::pack(flags),
        Command::Verify(flags) => traces::verify(flags),
        Command::Report(flags) => reports::report(flags),
        Command::Index(flags) => traces::index(flags),
        Command::Diff(flags) => diff::diff(flags),
        Command::Doctor(flags) => doctor::doctor(flags),
        Command::Help { topic } => help::help(topic.as_deref()),
        Command::Man { command } => man(command.as_deref()),
        Command::Completions { shell } => {
            let mut page = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "everypath", &mut page);
            print(&page)
        }
    }
}

/// `run` records no contexts, and some forms have nothing else.
pub const NO_CONTEXTS: &str =
    "this --format shows contexts, and only `contexts` records any; use report or json";

/// Nor does `count`, which has forms of its own.
const NO_CONTEXTS_COUNTED: &str = "this --format shows contexts, and only `contexts` records any; forms of `count` are \
     report, json, csv, callgrind, lcov, fdata, llvm";

/// And some have nothing of contexts.
pub const NO_COUNTS: &str = "this --format shows lines and branches, and only `count` records any";

fn run_only(flags: &Run) -> Result<Ending> {
    if flags.destination.format.needs_contexts() {
        bail!(NO_CONTEXTS);
    }
    if flags.destination.format.needs_counts() {
        bail!(NO_COUNTS);
    }
    Session {
        target: &flags.target,
        destination: &flags.destination,
        html: None,
        mode: Mode::Run,
        blocks: None,
        k: None,
        flags: bits(&[
            (flags.count_instructions, flag::COUNT_INSNS),
            (flags.engine_stats, flag::CLOCK),
        ]),
        max_nodes: 1,
        costs: Vec::new(),
        buffer: 0,
        calls: [0; 2],
        insns: [0; 2],
        control: None,
        order: 0,
        memory: 0,
        sampling: Sampling::No,
        selector: Selector::everything(),
        options: Vec::new(),
        show: Show::run(flags.destination.format, flags.engine_stats),
        speaks: flags.count_instructions || flags.engine_stats,
    }
    .run()
}

fn contexts(flags: &Contexts) -> Result<Ending> {
    check_numbers(flags)?;
    let blocks = blocks_of(flags)?;
    let destination = &flags.destination;
    if destination.format.needs_counts() {
        bail!(NO_COUNTS);
    }
    check_tables(&flags.view, destination.format)?;
    if let (Some(option), None) = (flags.view.tables.blocks_option(), blocks) {
        bail!("{option} is about basic blocks; give --mode intra or --mode inter");
    }
    if destination.format == Format::Pprof && destination.report.is_none() && !destination.quiet {
        bail!("--format pprof is no text for standard error; name a file with --report FILE");
    }
    let costs = match flags.rewrite {
        true => Vec::new(),
        false => counted(flags, blocks)?,
    };
    let edited = match flags.rewrite {
        true => Some(edited_for_contexts(flags)?),
        false => None,
    };
    let session = Session {
        target: &flags.target,
        destination: &flags.destination,
        html: flags.page.wanted(),
        mode: Mode::Contexts,
        blocks,
        k: recorded_k(flags, blocks.is_some()),
        flags: flags_of(flags, blocks),
        max_nodes: flags.max_nodes,
        costs,
        buffer: 0,
        calls: [0; 2],
        insns: [0; 2],
        control: None,
        order: 0,
        memory: 0,
        sampling: Sampling::of(flags),
        selector: selection::selector(flags),
        options: options(flags, edited.as_ref().and_then(|(.., left)| left.clone())),
        show: Show {
            hint: Some(hint(destination)),
            fold: flags.inclusive.then_some(flags.k.unwrap_or(CALLERS)),
            ..Show::new(flags.destination.format, &flags.view)
        },
        speaks: true,
    };
    match edited {
        Some((program, edited, _)) => session.run_edited(&program, &edited),
        None => session.run(),
    }
}

/// Flags of the engine.
fn flags_of(flags: &Contexts, blocks: Option<BlockContexts>) -> u32 {
    let selected = !flags.funcs.is_empty() || !flags.modules.is_empty() || flags.main_image_only;
    let wanted = [
        (flags.unroll_recursion, flag::UNROLL),
        (flags.count_self_jumps, flag::SELF_JUMPS),
        (selected, flag::SELECT),
        (flags.funcs.is_empty(), flag::BY_MODULE),
        (flags.start_func.is_some(), flag::START_FUNC),
        (flags.stop_func.is_some(), flag::STOP_FUNC),
        (flags.view.engine_stats, flag::CLOCK),
        (flags.roll_loops, flag::ROLL_LOOPS),
        (flags.blocks == BlockKind::Dynamic, flag::DYNAMIC_BLOCKS),
        (blocks.is_some_and(|blocks| !blocks.windows), flag::SLABS),
        // Blocks are rolled as loops or not at all.
        (blocks.is_some(), flag::UNROLL),
    ];
    bits(&wanted)
}

/// The program's path, its edited form that counts calls by context, and a sentence about what that does not count.
fn edited_for_contexts(flags: &Contexts) -> Result<(PathBuf, EditedRun, Option<String>)> {
    let program = program::check(&flags.target.command[0])?;
    let edited = EditedRun::with(&program, Inserted::CALLS, flags.destination.quiet);
    let edited = edited.map_err(|why| {
        anyhow!(
            "'{}' is not edited: {why}; nothing was run",
            program.display()
        )
    })?;
    let left = counted_contexts::left_out(&edited.dictionary()?);
    Ok((program, edited, left))
}

/// Costs that are counted besides calls. The one to sort by is to be among them.
fn counted(flags: &Contexts, blocks: Option<BlockContexts>) -> Result<Vec<Cost>> {
    let costs = match (blocks, flags.cost.is_empty()) {
        (Some(_), true) => Vec::new(),
        (None, true) => vec![Cost::Instructions],
        (_, false) => costs_of(&flags.cost),
    };
    let times = sampling::is_asked(flags);
    if times && blocks.is_some() {
        bail!("--time is about functions; leave out --mode; nothing was run");
    }
    if times && !costs.contains(&Cost::Instructions) {
        bail!(
            "--time is sampled by what instructions count for; leave out --cost calls; nothing was run"
        );
    }
    let is_known = |cost: &Cost| costs.contains(cost) || (times && cost.is_time());
    match sorted_by(&flags.view).filter(|cost| !is_known(cost)) {
        None => Ok(costs),
        Some(cost) if cost.is_time() => {
            bail!("--by sorts by a time that is not sampled; leave out --time=no; nothing was run")
        }
        Some(cost) => bail!(
            "--by {0} sorts by what is not counted; add --cost {0}; nothing was run",
            cost.name()
        ),
    }
}

/// The cost to sort by, if that is asked for by an option.
pub fn sorted_by(view: &View) -> Option<Cost> {
    view.by.and_then(|metric| metric.cost())
}

/// Callers of a context of basic blocks, and of `--inclusive`, without `-k`.
const CALLERS: u32 = 10;

/// The k of the recording; `None`: infinite. Whole paths of functions are no more than those of
/// ten callers in nearly all programs, and tell inclusive costs; whole paths of basic blocks
/// have a node for every turn of a loop.
fn recorded_k(flags: &Contexts, is_of_blocks: bool) -> Option<u32> {
    match (flags.k, is_of_blocks) {
        _ if flags.k_inf || flags.roll_loops || flags.inclusive => None,
        (None, true) => Some(CALLERS),
        (k, _) => k,
    }
}

/// The costs among what is to be counted. What some instructions are is counted with
/// how many there are.
pub fn costs_of(metrics: &[Metric]) -> Vec<Cost> {
    let mut costs: Vec<Cost> = metrics.iter().filter_map(|metric| metric.cost()).collect();
    if costs.iter().any(|cost| *cost != Cost::Cycles) {
        costs.push(Cost::Instructions);
    }
    costs
}

/// Blocks that `--mode` asks for, if that goes with the rest.
fn blocks_of(flags: &Contexts) -> Result<Option<BlockContexts>> {
    if flags.mode == ContextMode::Function {
        if flags.roll_loops {
            bail!("--roll-loops is about basic blocks; give --mode intra or --mode inter");
        }
        if flags.slabs {
            bail!("--slabs is about basic blocks; those of functions are kept anyhow");
        }
        if flags.blocks == BlockKind::Dynamic {
            bail!("--blocks is about basic blocks; give --mode intra or --mode inter");
        }
        return Ok(None);
    }
    if flags.k_inf && !flags.roll_loops {
        bail!(
            "--k-inf makes a context of every turn of every loop; roll them with --roll-loops, \
             or give a number with -k"
        );
    }
    if flags.inclusive {
        bail!("--inclusive is about what functions call; leave out --mode");
    }
    if flags.start_func.is_some() || flags.stop_func.is_some() {
        bail!(
            "--start-func and --stop-func are about functions; choose what is counted with --funcs"
        );
    }
    if flags
        .cost
        .iter()
        .any(|cost| cost.cost() == Some(Cost::Cycles))
    {
        bail!("cycles are those of functions; leave out --mode, or cycles of --cost");
    }
    if flags.unroll_recursion {
        bail!("--unroll-recursion is about functions; without --roll-loops nothing is rolled");
    }
    if flags.count_self_jumps {
        bail!("--count-self-jumps is about functions; leave out --mode");
    }
    Ok(Some(BlockContexts {
        intra: flags.mode == ContextMode::Intra,
        roll_loops: flags.roll_loops,
        dynamic: flags.blocks == BlockKind::Dynamic,
        windows: !flags.roll_loops
            && !flags.slabs
            && !shows_slabs(flags.destination.format, &flags.view),
    }))
}

/// Whether a report shows the k-slab forest itself.
fn shows_slabs(format: Format, view: &View) -> bool {
    let whole = matches!(format, Format::Text | Format::Json | Format::Xml);
    whole && view.forest != WhichForest::Kccf
}

/// A k-slab forest cannot be had from contexts.
pub fn check_slabs(flags: &Report, recording: &Recording) -> Result<()> {
    let blocks = recording.meta.blocks;
    if shows_slabs(flags.format, &flags.view) && blocks.is_some_and(|blocks| blocks.windows) {
        bail!(
            "keeps contexts and not the k-slab forest; show them with --forest kccf, or record \
             with --slabs"
        );
    }
    Ok(())
}

pub fn trust(flags: &Report) -> Trust {
    match flags.any_source {
        true => Trust::Recording,
        false => Trust::Modules,
    }
}

/// Whole contexts of functions can be folded, and nothing else.
pub fn check_fold(flags: &Report, recording: &Recording) -> Result<()> {
    let meta = &recording.meta;
    match (flags.fold(), meta.mode, meta.blocks, meta.k) {
        (None, ..) | (_, Mode::Contexts, None, None) | (Some(0), Mode::Contexts, ..) => Ok(()),
        (_, Mode::Contexts, None, Some(k)) => bail!(
            "was recorded with -k {k}, and -k needs whole contexts: record it with --k-inf, or \
             with --inclusive"
        ),
        (_, Mode::Contexts, Some(_), _) => {
            bail!("has contexts of basic blocks, and -k folds those of functions")
        }
        _ => bail!("has no contexts, and -k folds those that `contexts --k-inf` records"),
    }
}

fn count(flags: &Count) -> Result<Ending> {
    if flags.destination.format.of_counts().is_none() {
        bail!(NO_CONTEXTS_COUNTED);
    }
    check_threads(flags.per_thread, flags.destination.format)?;
    let options = match flags.modules.is_empty() {
        true => Vec::new(),
        false => vec![("modules".to_owned(), flags.modules.join(","))],
    };
    let session = Session {
        target: &flags.target,
        destination: &flags.destination,
        mode: Mode::Counts,
        blocks: None,
        k: None,
        flags: 0,
        max_nodes: 1,
        costs: Vec::new(),
        buffer: 0,
        calls: [0; 2],
        insns: [0; 2],
        control: None,
        order: 0,
        memory: 0,
        sampling: Sampling::No,
        selector: Selector::everything(),
        options,
        html: flags.page.wanted(),
        show: Show {
            counts: report::counts::View {
                top: flags.top,
                per_thread: flags.per_thread,
                modules: names(&flags.modules),
                annotate: names(&flags.annotate),
                inlines: flags.inlines,
                full_names: flags.full_names,
            },
            hint: Some(hint(&flags.destination)),
            quiet: flags.destination.quiet,
            ..Show::run(flags.destination.format, false)
        },
        speaks: true,
    };
    let edited = flags.rewrite.map(|when| edited(flags, when)).transpose()?;
    match edited.flatten() {
        Some((program, edited)) => session.run_edited(&program, &edited),
        None => session.run(),
    }
}

/// The program's path and its edited form; `None`: it is translated instead.
fn edited(flags: &Count, when: WhenEdited) -> Result<Option<(PathBuf, EditedRun)>> {
    let program = program::check(&flags.target.command[0])?;
    let is_wanted = when == WhenEdited::Only;
    match EditedRun::of(&program, is_wanted, flags.destination.quiet) {
        Ok(edited) => return Ok(Some((program, edited))),
        Err(why) if is_wanted => bail!(
            "'{}' is not edited: {why}; nothing was run",
            program.display()
        ),
        Err(why) => say!(
            "everypath: '{}' is not edited: {why}; it is translated instead",
            program.display()
        ),
    }
    Ok(None)
}

pub fn check_threads(per_thread: bool, format: Format) -> Result<()> {
    match format.of_counts() {
        Some(form) if per_thread && !form.shows_threads() => {
            bail!("this --format is of all threads together; leave out --per-thread")
        }
        _ => Ok(()),
    }
}

/// The names of all lists.
pub fn names(lists: &[String]) -> Vec<String> {
    let names = lists.iter().flat_map(|list| image::split_list(list));
    names.map(str::to_owned).collect()
}

/// Commands and options that show more of what was recorded.
fn hint(destination: &Destination) -> String {
    match &destination.output {
        Some(path) => hint_of_file(path),
        None => "--top 50 | --per-thread | --html FILE.html | -o FILE.evp, for `everypath report \
                 FILE.evp`"
            .into(),
    }
}

pub fn hint_of_file(path: &Path) -> String {
    format!(
        "everypath report {} --top 50 | --per-thread | --html FILE.html | --format FORM",
        path.display()
    )
}

/// The bits that are wanted.
fn bits(table: &[(bool, u32)]) -> u32 {
    table
        .iter()
        .filter(|(wanted, _)| *wanted)
        .fold(0, |all, (_, bit)| all | bit)
}

fn check_numbers(flags: &Contexts) -> Result<()> {
    if flags.max_nodes == 0 {
        bail!("--max-nodes 0 leaves no room for any context; give 1 or more");
    }
    check_view(&flags.view)
}

pub fn check_view(view: &View) -> Result<()> {
    if let Some(min) = view.min.filter(|min| !(0.0..=100.0).contains(min)) {
        bail!("--min {min} is no percentage; give a number from 0 to 100");
    }
    Ok(())
}

pub fn check_tables(view: &View, format: Format) -> Result<()> {
    match view.tables.option() {
        Some(option) if !format.shows_tables() => {
            bail!("{option} is a table below a report; use --format report, text or xml")
        }
        _ => Ok(()),
    }
}

/// Options of the run that the recording keeps.
fn options(flags: &Contexts, left_out: Option<String>) -> Vec<(String, String)> {
    let word = |known: bool, word: &str| match known {
        true => word.to_owned(),
        false => String::new(),
    };
    let mode = match flags.mode {
        ContextMode::Function => "",
        ContextMode::Intra => "intra",
        ContextMode::Inter => "inter",
    };
    let lists = [
        ("mode", mode.to_owned()),
        ("roll-loops", word(flags.roll_loops, "yes")),
        (
            "blocks",
            word(flags.blocks == BlockKind::Dynamic, "dynamic"),
        ),
        ("funcs", flags.funcs.join(",")),
        ("modules", flags.modules.join(",")),
        (without_root::OPTION, word(flags.main_image_only, "yes")),
        (report::TIME, word(sampling::is_asked(flags), "yes")),
        ("count-self-jumps", word(flags.count_self_jumps, "yes")),
    ];
    let names = [
        ("start-func", &flags.start_func),
        ("stop-func", &flags.stop_func),
    ];
    let lists = lists.into_iter().filter(|(_, value)| !value.is_empty());
    let names = names
        .into_iter()
        .filter_map(|(name, value)| Some((name, value.clone()?)));
    lists
        .chain(names)
        .chain(left_out.map(|sentence| (report::counts::LEFT_OUT, sentence)))
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// The recording in a file, or what is left of it.
pub fn read(path: &Path) -> Result<Prefix> {
    let shown = path.display();
    if counter_header::is_one(path) {
        return Ok(Prefix {
            recording: counter_files::read(path)?,
            lost: None,
            identity: Identity { bytes: 0, sum: 0 },
        });
    }
    let file =
        File::open(path).map_err(|error| anyhow!("cannot read '{shown}': {}", reason(&error)))?;
    trace::read_prefix(file).map_err(|error| {
        let error = mid_sentence(&error.to_string());
        anyhow!("cannot read '{shown}': {error}")
    })
}

fn man(command: Option<&str>) -> Result<Ending> {
    let mut all = help::command();
    all.build();
    let page_of = match command {
        None => all,
        Some(name) => {
            let found = all.find_subcommand(name);
            found
                .ok_or_else(|| anyhow!("there is no command '{name}'"))?
                .clone()
        }
    };
    let mut page = Vec::new();
    clap_mangen::Man::new(page_of).render(&mut page)?;
    print(&page)
}

pub fn print(text: &[u8]) -> Result<Ending> {
    let mut out = io::stdout().lock();
    finish_stdout(out.write_all(text).and_then(|()| out.flush()))
}

/// A reader that has seen enough (`| head`) is no error.
pub fn finish_stdout(written: io::Result<()>) -> Result<Ending> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            bail!("cannot write to standard output: {}", reason(&error))
        }
        _ => Ok(Ending::Exit(0)),
    }
}
