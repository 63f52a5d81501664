//! Help in whole sentences (`--help`): what one line (`-h`) has no room for.
//!
//! Approach: in the long help, each option's line gets its full stop, and options of the table some
//! sentences more. A row is for the commands that it names.
//!
//! Invariant: options and commands of the table exist (a test).

use clap::{Arg, Command};

/// Commands, an option, and what there is to say of it.
type Row = (&'static [&'static str], &'static str, &'static str);

const RECORD: &[&str] = &["contexts", "count", "trace"];

const SENTENCES: &[Row] = &[
    (
        &["contexts"],
        "funcs",
        "What they call is counted, too, if it is selected; if not, its instructions are those of the selected \
         function above. `everypath help names` says what a name may be.",
    ),
    (
        &["contexts"],
        "modules",
        "A file is named without its folders, such as libc.so.6. Instructions of others are those of the \
         selected function above.",
    ),
    (
        &["contexts"],
        "k",
        "Fewer callers make fewer contexts. Whole paths can be folded afterwards: `everypath report -k N`.",
    ),
    (
        &["contexts"],
        "cost",
        "All are exact but cycles. Calls alone are counted most quickly.",
    ),
    (
        &["contexts"],
        "mode",
        "There are many more contexts of basic blocks than of functions; -k keeps them few.",
    ),
    (
        &["contexts"],
        "start-func",
        "A note says how many instructions that leaves out.",
    ),
    (
        &["contexts"],
        "stop-func",
        "A note says how many instructions that leaves out.",
    ),
    (
        &["contexts"],
        "max-nodes",
        "Totals stay exact, but paths of contexts that come after that are not kept.",
    ),
    (
        &["contexts", "count"],
        "output",
        "Any machine can show it later, in any form and without the program: `everypath report FILE.evp`.",
    ),
    (
        &["trace"],
        "output",
        "The trace grows while the program runs, and is kept as far as it goes if the program or Everypath is \
         killed.",
    ),
    (
        &["contexts", "count"],
        "report",
        "The recording itself, of which all forms can be made, is kept by --output.",
    ),
    (
        &["contexts", "count", "report"],
        "html",
        "It is one file that needs no network. It opens on instructions, with the hottest path unfolded.",
    ),
    (
        &["contexts", "count", "report"],
        "top",
        "--full shows all of them.",
    ),
    (
        RECORD,
        "wait",
        "A daemon's first process ends at once: with --wait all its work is recorded, and the command returns \
         when it has ended.",
    ),
    (
        RECORD,
        "in-place",
        "Signals, job control and /proc/PID are then the program's own, and the recording is written by \
         another process, shortly after the end.",
    ),
    (
        &["trace"],
        "memory",
        "Addresses make the program several times slower, and the trace much larger; values more so.",
    ),
    (
        &["report"],
        "as",
        "The other options of `report` are then about what was made. -o keeps it.",
    ),
];

/// The command with whole sentences in its long help.
pub fn in_sentences(command: Command) -> Command {
    let name = command.get_name().to_owned();
    command.mut_args(|argument| match long(&name, &argument) {
        Some(text) => argument.long_help(text),
        None => argument,
    })
}

fn long(command: &str, argument: &Arg) -> Option<String> {
    let line = match argument.get_long_help() {
        Some(_) => return None,
        None => argument.get_help()?.to_string(),
    };
    let stop = if line.ends_with('.') { "" } else { "." };
    let option = super::name_of(argument);
    let of_it = |row: &&Row| row.1 == option && row.0.contains(&command);
    let more = SENTENCES.iter().find(of_it);
    let more = more.map(|row| format!(" {}", row.2)).unwrap_or_default();
    Some(format!("{line}{stop}{more}"))
}

#[cfg(test)]
mod tests {
    use super::SENTENCES;

    #[test]
    fn every_row_is_shown() {
        let all = crate::help::command();
        for (commands, option, text) in SENTENCES {
            for name in *commands {
                let command = all
                    .find_subcommand(name)
                    .unwrap_or_else(|| panic!("{name}"));
                let help = command.clone().render_long_help().to_string();
                let flat: Vec<&str> = help.split_whitespace().collect();
                let wanted: Vec<&str> = text.split_whitespace().collect();
                assert!(
                    flat.join(" ").contains(&wanted.join(" ")),
                    "{name} --{option}: {help}"
                );
            }
        }
    }
}
