//! The `everypath` command.
//!
//! Invariant: this is the only crate that parses flags, prints errors and
//! exits. Errors are sentences on standard error that begin `everypath: `, and
//! exit with 125, or 126 and 127 as shells do; otherwise the exit status is the
//! program's own (`ending`).
//!
//! | module | what |
//! |---|---|
//! | `flags` | the one table of commands and options |
//! | `mistakes` | what was meant by a command line that is wrong |
//! | `help` | the short and the long help, and topics |
//! | `doctor` | what of this machine matters |
//! | `commands` | flags to sessions |
//! | `session` | a run from start to end |
//! | `keep` | the same, of a trace, which is kept while the program runs |
//! | `program` | can it be started |
//! | `libraries` | which files it starts with |
//! | `ahead` | their tables and lines, made while it starts |
//! | `selection` | which functions are counted |
//! | `symbolize` | names for what was recorded |
//! | `output` | files that results go to |
//! | `recordings` | recordings that the command line does not name |
//! | `counted_contexts` | calls by context that an edited program counted |
//! | `debug_packages` | where names of stripped files are to be had |
//! | `pager` | a pager for reports to a terminal |
//! | `phases` | where the time of a run went |
//! | `reports` | `report`: what it is asked, against what a recording has |
//! | `show` | recordings to reports |
//! | `diff` | two recordings to a comparison |
//! | `ctl` | beginning and ending a trace while the program runs |
//! | `traces` | recording traces, and showing them |
//! | `traced_nests` | traces in which nests of loops are looked at |
//! | `branches` | branches of traces |
//! | `raptor` | what predictors made of branches |
//! | `thesis` | files and consoles of the mTrace thesis |
//! | `condition` | what is not to have changed |
#![forbid(unsafe_code)]

/// A line on standard error. Who has closed it, or has no room for it, does not see it; that is
/// no reason to end otherwise than the program did.
macro_rules! say {
    ($($text:tt)*) => {{
        let _ = std::io::Write::write_fmt(
            &mut std::io::stderr().lock(),
            format_args!("{}\n", format_args!($($text)*)),
        );
    }};
}

mod allocations;
mod binaries;
mod branches;
mod caches;
mod cfiat;
mod commands;
mod condition;
mod controls;
mod counted_contexts;
mod counter_files;
mod counter_header;
mod counter_parts;
mod ctl;
mod debug_packages;
mod debuginfod;
mod decode;
mod dependences;
mod derived;
mod descriptors;
mod dictionaries;
mod diff;
mod doctor;
mod edit_cache;
mod edited_folder;
mod edited_run;
mod exit_status;
mod flags;
mod flow;
mod folders;
mod followed;
mod functions;
mod help;
mod incomplete;
mod libraries;
mod line_prefetch;
mod logged;
mod loops;
mod mistakes;
mod mls;
mod opmix;
mod output;
mod pack;
mod page_sources;
mod pager;
mod phases;
mod program;
mod progress;
mod raptor;
mod reader;
mod recordings;
mod reports;
mod rewrite;
mod sampling;
mod selection;
mod session;
mod show;
mod simulators;
mod snapshots;
mod source;
mod sums;
mod symbolize;
mod thesis;
mod timelines;
mod trace_index;
mod trace_run;
mod traced_nests;
mod traces;
mod uncounted;
mod vdso;
mod watched;
mod witnesses;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

use exit_status::Ending;
use flags::{Cli, Command};
use launch::Role;

/// Everypath's own failures.
const FAILED: u8 = 125;

fn main() -> ExitCode {
    phases::begin();
    // The parser with all its headings takes a tenth of what `true` takes under `run`, and only help and mistakes need it.
    let parsed = Cli::command().try_get_matches();
    let parsed = parsed.or_else(|_| help::command().try_get_matches());
    let ending = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Err(error) => explain(&error),
        Ok(mut cli) => run(&mut cli.command).unwrap_or_else(|error| {
            say!("everypath: {error:#}");
            Ending::Exit(exit_code(&error))
        }),
    };
    launch::give_up(match ending {
        Ending::Exit(status) => status,
        Ending::Signal(_) => FAILED,
    });
    ending.finish()
}

/// A command that runs a program does it in a second process, so that this one can stop as the
/// program does, or be it.
fn run(command: &mut Command) -> anyhow::Result<Ending> {
    recordings::name(command)?;
    if let Some(target) = command.target() {
        doctor::check_address_space()?;
        let role = match target.in_place {
            true => launch::stand_aside()?,
            false => launch::split()?,
        };
        if let Role::Face(ended, inherited) = role {
            if inherited.count() > 0 && !command.is_quiet() {
                say!(
                    "everypath: as process 1 of its namespace it inherited and waited for {} \
                     processes: {inherited}",
                    inherited.count()
                );
            }
            return Ok(Ending::of(ended));
        }
    }
    commands::run(command).map(incomplete::ending)
}

fn exit_code(error: &anyhow::Error) -> u8 {
    let program = error
        .downcast_ref::<program::ProgramError>()
        .map(|error| error.exit_code());
    let start = error
        .downcast_ref::<launch::LaunchError>()
        .map(|error| error.exit_code());
    program.or(start).unwrap_or(FAILED)
}

/// Help and version as they are; a mistake in the flags as one sentence.
fn explain(error: &clap::Error) -> Ending {
    use clap::error::ErrorKind;
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // Nobody reads it any more: no error.
            let _ = error.print();
            Ending::Exit(0)
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            Ending::Exit(FAILED)
        }
        _ => {
            let words: Vec<_> = std::env::args_os().collect();
            say!("everypath: {}", mistakes::sentence(error, &words));
            Ending::Exit(FAILED)
        }
    }
}
