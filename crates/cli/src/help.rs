//! Help on one screen (`-h`), under headings, the most used first; all of it with `--help`.
//!
//! Approach: a table says, for commands with many options, which of them stand on the first screen and in which
//! order, and under which heading each option stands. A short screen ends with its first examples and with how to
//! see the rest.
//!
//! Invariant: an option that the tables do not name stands under the last heading, and only with `--help`; options that
//! they name exist (a test).

use anyhow::{Result, bail};
use clap::{Command, CommandFactory};

use crate::commands::print;
use crate::exit_status::Ending;
use crate::flags::Cli;
use crate::mistakes;

mod forms;
mod sentences;

/// Commands with so many options that they need two screens.
const COMMANDS: [&str; 5] = ["contexts", "count", "trace", "report", "dump"];

/// Options on the first screen, in this order.
const FIRST: [&str; 21] = [
    "output",
    "report",
    "format",
    "html",
    "quiet",
    "top",
    "by",
    "annotate",
    "range",
    "funcs",
    "modules",
    "k",
    "cost",
    "time",
    "memory",
    "thread",
    "accesses",
    "as",
    "per-thread",
    "inlines",
    "help",
];

/// Examples on the first screen.
const EXAMPLES: usize = 3;

/// Headings in their order, with options. All others are under the last one.
const HEADINGS: [(&str, &[&str]); 4] = [
    (
        "Result",
        &[
            "output",
            "report",
            "format",
            "html",
            "html-code",
            "quiet",
            "limit",
            "ring",
            "as",
            "uftrace",
            "perfetto",
            "champsim",
            "din",
            "ramulator",
            "mcf",
            "mls",
            "pt",
            "no-pager",
        ],
    ),
    (
        "What is shown",
        &[
            "top",
            "by",
            "min",
            "depth",
            "full",
            "full-names",
            "forest",
            "join-threads",
            "per-thread",
            "launcher",
            "show-funcs",
            "funcs-disasm",
            "show-blocks",
            "blocks-disasm",
            "annotate",
            "any-source",
            "inlines",
            "range",
            "thread",
            "accesses",
            "order",
            "time",
            "disasm",
            "engine-stats",
            "phases",
        ],
    ),
    (
        "What is recorded",
        &[
            "mode",
            "roll-loops",
            "blocks",
            "slabs",
            "k",
            "k-inf",
            "inclusive",
            "funcs",
            "modules",
            "main-image-only",
            "unroll-recursion",
            "count-self-jumps",
            "start-func",
            "stop-func",
            "cost",
            "max-nodes",
            "memory",
            "loads",
            "stores",
            "no-shared-libs",
            "skip",
            "count",
            "together",
            "rewrite",
        ],
    ),
    ("Further options", &[]),
];

/// The parser with its headings, and with what `-h` leaves out.
pub fn command() -> Command {
    let all = forms::of_commands(Cli::command());
    let all = COMMANDS.into_iter().fold(all, |all, name| {
        all.mut_subcommand(name, |command| on_two_screens(command, name))
    });
    all.mut_subcommands(sentences::in_sentences)
}

fn on_two_screens(command: Command, name: &str) -> Command {
    let names: Vec<(String, String)> = command
        .get_arguments()
        .filter(|argument| !argument.is_positional())
        .map(|argument| (argument.get_id().to_string(), name_of(argument)))
        .collect();
    let examples = command
        .get_after_help()
        .map(ToString::to_string)
        .unwrap_or_default();
    let first: Vec<&str> = examples.lines().take(EXAMPLES + 1).collect();
    let short = format!(
        "{}\n\nAll options, in full: everypath {name} --help",
        first.join("\n")
    );
    let command = names.into_iter().fold(command, |command, (id, option)| {
        let place = FIRST.iter().position(|first| *first == option);
        command.mut_arg(id, |argument| {
            argument
                .help_heading(heading_of(&option))
                .display_order(place.unwrap_or(FIRST.len()))
                .hide_short_help(place.is_none())
        })
    });
    command.after_help(short).after_long_help(examples)
}

/// Topics that are no commands.
const TOPICS: [(&str, &str); 3] = [
    (
        "status",
        "Commands that run a program end as it ended: with its exit status, or by the same signal. Otherwise:

    0  it was done
    1  a condition of `diff --fail-if` is met; `verify` found a trace damaged or not finished;
       `doctor` found that no program can run here
  125  an error of Everypath: the command line is wrong, what was asked for could not be read or
       written, or is made of a trace that is not all of the run
  126  the program cannot be executed
  127  there is no such program

125 to 127 can also be the program's own: an error of Everypath is said on standard error.
",
    ),
    (
        "names",
        "Functions are chosen by LISTs of names, separated by commas, with the globs * and ?; MODULE!NAME is
the function of one file. A name is one of the symbol table, or as people write it, with or without
parameters. What an IFUNC chose answers to the public name (memcpy), and its resolver is called
'memcpy [resolver]'. A function without a name is shown as FILE+0xOFFSET.
",
    ),
    (
        "recordings",
        "-o FILE.evp keeps what was recorded; `everypath report FILE.evp` shows it in any form, on any machine,
without the program. -o alone gives it a name, and `report` alone shows the newest of the folder.
A recording that was cut, or whose recorder was killed, is shown as far as it goes.
",
    ),
];

/// Help of a command, or on a topic.
pub fn help(topic: Option<&str>) -> Result<Ending> {
    if let Some((_, text)) = TOPICS.iter().find(|(name, _)| Some(*name) == topic) {
        return print(text.as_bytes());
    }
    let all = command();
    if let Some(topic) = topic.filter(|topic| all.find_subcommand(topic).is_none()) {
        let names = all.get_subcommands().map(Command::get_name);
        let names = names.chain(TOPICS.iter().map(|(name, _)| *name));
        let near = mistakes::offer(&mistakes::near(topic, names));
        bail!("there is no command and no topic '{topic}'{near}");
    }
    // As the parser itself answers it.
    let words = ["everypath"].into_iter().chain(topic).chain(["--help"]);
    match all.try_get_matches_from(words) {
        Err(help) => print(help.render().to_string().as_bytes()),
        Ok(_) => bail!("there is no help of that"),
    }
}

fn name_of(argument: &clap::Arg) -> String {
    let short = argument.get_short().map(String::from).unwrap_or_default();
    argument.get_long().map_or(short, str::to_owned)
}

fn heading_of(option: &str) -> &'static str {
    let found = HEADINGS
        .iter()
        .find(|(_, options)| options.contains(&option));
    found.or(HEADINGS.last()).map_or("", |(heading, _)| heading)
}

#[cfg(test)]
mod tests {
    use super::{COMMANDS, FIRST, HEADINGS, command, name_of};

    /// Lines of a terminal window, and columns.
    const SCREEN: usize = 40;

    #[test]
    fn short_help_is_one_screen_and_long_help_has_all() {
        for name in COMMANDS {
            let mut all = command();
            let command = all.find_subcommand_mut(name).unwrap();
            let short = command.render_help().to_string();
            let long = command.render_long_help().to_string();
            assert!(short.lines().count() <= SCREEN, "{name}:\n{short}");
            assert!(
                short
                    .trim_end()
                    .ends_with(&format!("everypath {name} --help")),
                "{short}"
            );
            let shown = command
                .get_arguments()
                .filter(|argument| !argument.is_hide_set());
            for argument in shown.filter(|argument| !argument.is_positional()) {
                let option = name_of(argument);
                assert!(long.contains(&option), "{name} {option}");
            }
        }
    }

    #[test]
    fn options_of_the_tables_exist() {
        let all = command();
        let exists = |option: &str| {
            let mut commands = COMMANDS.iter().filter_map(|name| all.find_subcommand(name));
            commands.any(|command| {
                command
                    .get_arguments()
                    .any(|argument| name_of(argument) == option)
            })
        };
        let headed = HEADINGS.iter().flat_map(|(_, options)| *options);
        for option in FIRST
            .iter()
            .chain(headed)
            .filter(|option| **option != "help")
        {
            assert!(exists(option), "there is no option '{option}'");
        }
    }
}
