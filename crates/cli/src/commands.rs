//! The commands: from flags to a session, or to what they print.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};

use anyhow::{Result, anyhow, bail};
use clap::CommandFactory;
use image::Selector;
use trace::Mode;
use wire::flag;

use crate::ending::Ending;
use crate::flags::{Cli, Command, Contexts, Format, Report, Run, View};
use crate::output::{mid_sentence, reason};
use crate::selection;
use crate::session::Session;
use crate::show::{self, Show};

pub fn run(command: &Command) -> Result<Ending> {
    match command {
        Command::Run(flags) => run_only(flags),
        Command::Contexts(flags) => contexts(flags),
        Command::Report(flags) => report(flags),
        Command::Man { command } => man(command.as_deref()),
        Command::Completions { shell } => {
            let mut page = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "everypath", &mut page);
            print(&page)
        }
    }
}

/// `run` records no contexts, and some forms have nothing else.
const NO_CONTEXTS: &str =
    "this --format shows contexts, and `run` records none; use report or json";

fn run_only(flags: &Run) -> Result<Ending> {
    if flags.destination.format.needs_contexts() {
        bail!(NO_CONTEXTS);
    }
    Session {
        target: &flags.target,
        destination: &flags.destination,
        mode: Mode::Run,
        k: None,
        flags: bits(&[
            (flags.count_instructions, flag::COUNT_INSNS),
            (flags.engine_stats, flag::CLOCK),
        ]),
        max_nodes: 1,
        selector: Selector::everything(),
        options: Vec::new(),
        show: Show::run(flags.destination.format, flags.engine_stats),
        speaks: flags.count_instructions || flags.engine_stats,
    }
    .run()
}

fn contexts(flags: &Contexts) -> Result<Ending> {
    check_numbers(flags)?;
    let destination = &flags.destination;
    if destination.format == Format::Pprof && destination.report.is_none() && !destination.quiet {
        bail!("--format pprof is no text for standard error; name a file with --report FILE");
    }
    let selected = !flags.funcs.is_empty() || !flags.modules.is_empty();
    let wanted = [
        (flags.unroll_recursion, flag::UNROLL),
        (selected, flag::SELECT),
        (flags.funcs.is_empty(), flag::BY_MODULE),
        (flags.start_func.is_some(), flag::START_FUNC),
        (flags.stop_func.is_some(), flag::STOP_FUNC),
        (flags.view.engine_stats, flag::CLOCK),
    ];
    Session {
        target: &flags.target,
        destination: &flags.destination,
        mode: Mode::Contexts,
        k: (!flags.k_inf).then_some(flags.k),
        flags: bits(&wanted),
        max_nodes: flags.max_nodes,
        selector: selection::selector(flags),
        options: options(flags),
        show: Show::new(flags.destination.format, &flags.view),
        speaks: true,
    }
    .run()
}

/// The bits that are wanted.
fn bits(table: &[(bool, u32)]) -> u32 {
    table
        .iter()
        .filter(|(wanted, _)| *wanted)
        .fold(0, |all, (_, bit)| all | bit)
}

fn check_numbers(flags: &Contexts) -> Result<()> {
    if flags.k == 0 {
        bail!("-k 0 keeps no callers, so there would be no contexts; give 1 or more, or --k-inf");
    }
    if flags.max_nodes == 0 {
        bail!("--max-nodes 0 leaves no room for any context; give 1 or more");
    }
    check_view(&flags.view)
}

fn check_view(view: &View) -> Result<()> {
    if !(0.0..=100.0).contains(&view.min) {
        bail!(
            "--min {} is no percentage; give a number from 0 to 100",
            view.min
        );
    }
    Ok(())
}

/// What the recording should say about how it was made.
fn options(flags: &Contexts) -> Vec<(String, String)> {
    let lists = [
        ("funcs", flags.funcs.join(",")),
        ("modules", flags.modules.join(",")),
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
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

fn report(flags: &Report) -> Result<Ending> {
    check_view(&flags.view)?;
    let shown = flags.file.display();
    let open = || {
        File::open(&flags.file)
            .map_err(|error| anyhow!("cannot read '{shown}': {}", reason(&error)))
    };
    let mut show = Show::new(flags.format, &flags.view);
    let prefix = trace::read_prefix(open()?).map_err(|error| {
        let error = mid_sentence(&error.to_string());
        anyhow!("cannot read '{shown}': {error}")
    })?;
    if let Some(loss) = prefix.lost {
        let note = format!("'{shown}' is damaged. {loss}");
        // These have no place for notes.
        if flags.format.needs_contexts() {
            eprintln!("everypath: {note}");
        }
        show.notes.push(note);
    }
    if flags.format.needs_contexts() && prefix.recording.meta.mode == Mode::Run {
        bail!("'{shown}': {NO_CONTEXTS}");
    }
    show.engine_stats |= prefix.recording.meta.mode == Mode::Run;
    let stdout = io::stdout();
    if flags.format == Format::Pprof && stdout.is_terminal() {
        bail!("--format pprof is no text for a terminal; send it to a file: > FILE.pb.gz");
    }
    let style = show::style_of(&stdout);
    let mut out = BufWriter::new(stdout.lock());
    finish_stdout(
        show.write(&prefix.recording, style, &mut out)
            .and_then(|()| out.flush()),
    )
}

fn man(command: Option<&str>) -> Result<Ending> {
    let mut all = Cli::command();
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

fn print(text: &[u8]) -> Result<Ending> {
    let mut out = io::stdout().lock();
    finish_stdout(out.write_all(text).and_then(|()| out.flush()))
}

/// A reader that has seen enough (`| head`) is no error.
fn finish_stdout(written: io::Result<()>) -> Result<Ending> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            bail!("cannot write to standard output: {}", reason(&error))
        }
        _ => Ok(Ending::Exit(0)),
    }
}
