//! Mistakes on the command line, each as one sentence that says what to do instead.
//!
//! The parser knows which word it did not understand; what a person meant by it is found here: a program
//! where a command should be, the nearest command or option by edit distance, a
//! value that is no number. Its own tips are left out, because they tell how to pass an option as a value,
//! which nobody meant.

use std::ffi::OsString;

use clap::error::{ContextKind, ErrorKind};
use clap::{Command, CommandFactory};

use crate::flags::Cli;
use crate::program;

/// Most names that a sentence offers.
const OFFERED: usize = 3;

/// Errors of number parsers, and what they mean to a person.
const REASONS: [(&str, &str); 5] = [
    (
        "invalid digit found in string",
        "that is no whole number from 0 on",
    ),
    (
        "number too large to fit in target type",
        "that is too large",
    ),
    (
        "cannot parse integer from empty string",
        "a whole number is wanted",
    ),
    ("invalid float literal", "that is no number"),
    ("cannot parse float from empty string", "a number is wanted"),
];

/// The sentence for a mistake in `words`, the whole command line.
pub fn sentence(error: &clap::Error, words: &[OsString]) -> String {
    let words: Vec<String> = words
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let all = Cli::command();
    let command = words.get(1).and_then(|word| all.find_subcommand(word));
    let context = |kind| error.get(kind).map(ToString::to_string);
    let said = match error.kind() {
        ErrorKind::InvalidSubcommand => {
            context(ContextKind::InvalidSubcommand).map(|word| no_command(&word, &words, &all))
        }
        ErrorKind::UnknownArgument => context(ContextKind::InvalidArg)
            .map(|argument| unknown(&argument, &words, command, &all)),
        _ => None,
    };
    let said = said.unwrap_or_else(|| shortened(&error.render().to_string()));
    let help = command.map_or_else(String::new, |command| format!("{} ", command.get_name()));
    format!("{said}; see `everypath {help}--help`")
}

/// A program or a misspelt command where a command should be.
fn no_command(word: &str, words: &[String], all: &Command) -> String {
    let is_program = word.contains('/') || program::check(word.as_ref()).is_ok();
    let names = all.get_subcommands().map(Command::get_name);
    let near = near(word, names);
    match is_program {
        true => {
            let rest: Vec<String> = words.iter().skip(1).map(|word| quoted(word)).collect();
            let rest = rest.join(" ");
            format!("'{word}' is no command; did you mean `everypath contexts -- {rest}`?")
        }
        false => format!("'{word}' is no command{}", offer(&near)),
    }
}

fn unknown(argument: &str, words: &[String], command: Option<&Command>, all: &Command) -> String {
    let is_negative = |text: &str| {
        let digits = text.strip_prefix('-');
        digits.is_some_and(|digits| digits.starts_with(|first: char| first.is_ascii_digit()))
    };
    let before = words.iter().position(|word| word == argument);
    let before = before.and_then(|at| words.get(at.checked_sub(1)?));
    if let Some(option) = before.filter(|before| is_negative(argument) && before.starts_with('-')) {
        return format!("invalid value '{argument}' for '{option}': it cannot be negative");
    }
    let Some(command) = command else {
        let has = |command: &&Command| options(command).any(|option| option == argument);
        return match all.get_subcommands().find(has) {
            Some(command) => format!(
                "'{argument}' is an option of a command, which comes first: `everypath {} {argument} ...`",
                command.get_name()
            ),
            None => format!("there is no option '{argument}'"),
        };
    };
    if matches!(argument, "-p" | "--pid" | "--attach") {
        return format!(
            "there is no option '{argument}': a program is followed from its start, and a running one \
             cannot be attached to"
        );
    }
    let name = command.get_name();
    let known: Vec<String> = options(command).collect();
    let near = near(argument, known.iter().map(String::as_str));
    let others = all
        .get_subcommands()
        .filter(|other| near.is_empty() && options(other).any(|option| option == argument));
    let others: Vec<String> = others
        .map(|other| format!("`everypath {}`", other.get_name()))
        .collect();
    match others.is_empty() {
        true => format!(
            "`everypath {name}` has no option '{argument}'{}",
            offer(&near)
        ),
        false => format!(
            "`everypath {name}` has no option '{argument}'; {} {}",
            others.join(", "),
            if others.len() == 1 { "has" } else { "have" }
        ),
    }
}

fn options(command: &Command) -> impl Iterator<Item = String> {
    let shown = command
        .get_arguments()
        .filter(|argument| !argument.is_hide_set());
    let each = shown.flat_map(|argument| {
        let long = argument.get_long().map(|long| format!("--{long}"));
        long.into_iter()
            .chain(argument.get_short().map(|short| format!("-{short}")))
    });
    each.collect::<Vec<_>>().into_iter()
}

/// Names that are a few edits away, the nearest first.
pub fn near<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let bare = word.trim_start_matches('-');
    let limit = (bare.len() / 2).clamp(1, 3);
    let distance = |name: &str| {
        let name = name.trim_start_matches('-');
        match bare.len() > 3 && (name.starts_with(bare) || bare.starts_with(name) && name.len() > 3)
        {
            true => 1,
            false => strsim::damerau_levenshtein(bare, name),
        }
    };
    let mut found: Vec<(usize, &str)> = names
        .filter(|name| name.len() > 2 || bare.len() < 3)
        .map(|name| (distance(name), name))
        .filter(|(distance, _)| *distance <= limit && bare.len() > 1)
        .collect();
    found.sort_unstable();
    let least = found.first().map_or(0, |(distance, _)| *distance);
    let nearest = found.into_iter().take_while(|found| found.0 == least);
    nearest.map(|(_, name)| name).take(OFFERED).collect()
}

pub fn offer(near: &[&str]) -> String {
    match near {
        [] => String::new(),
        [all @ .., last] => {
            let before: String = all.iter().map(|name| format!("'{name}' or ")).collect();
            format!("; did you mean {before}'{last}'?")
        }
    }
}

/// As a shell reads it back.
pub fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./=:,+@%".contains(&byte);
    match !word.is_empty() && word.bytes().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// The parser's message without its headings and tips, in one line.
fn shortened(message: &str) -> String {
    let lines = message.lines().map(str::trim);
    let lines = lines.take_while(|line| {
        !line.starts_with("Usage:") && !line.starts_with("For more information")
    });
    let lines: Vec<&str> = lines
        .filter(|line| !line.is_empty() && !line.starts_with("tip:"))
        .collect();
    let text = lines.join(" ");
    let mut text = text.strip_prefix("error: ").unwrap_or(&text).to_owned();
    for (parsers, ours) in REASONS {
        if let Some(before) = text.strip_suffix(parsers) {
            text = format!("{before}{ours}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::sentence;
    use crate::flags::Cli;

    fn said(line: &str) -> String {
        let words: Vec<std::ffi::OsString> = line.split(' ').map(Into::into).collect();
        match Cli::try_parse_from(&words) {
            Ok(_) => panic!("'{line}' is no mistake"),
            Err(error) => sentence(&error, &words),
        }
    }

    #[test]
    fn each_mistake_says_what_to_do() {
        let table = [
            (
                "everypath ./w -n 3",
                "'./w' is no command; did you mean `everypath contexts -- ./w -n 3`?; see `everypath --help`",
            ),
            (
                "everypath reprot x",
                "'reprot' is no command; did you mean 'report'?; see `everypath --help`",
            ),
            (
                "everypath qqqqqq",
                "'qqqqqq' is no command; see `everypath --help`",
            ),
            (
                "everypath contexts -p 123",
                "there is no option '-p': a program is followed from its start, and a running one cannot be \
                 attached to; see `everypath contexts --help`",
            ),
            (
                "everypath contexts --tpo 3 -- ./w",
                "`everypath contexts` has no option '--tpo'; did you mean '--top'?; see `everypath contexts --help`",
            ),
            (
                "everypath contexts --annotate f -- ./w",
                "`everypath contexts` has no option '--annotate'; `everypath count`, `everypath report` have; see \
                 `everypath contexts --help`",
            ),
            (
                "everypath count --zzzzzz -- ./w",
                "`everypath count` has no option '--zzzzzz'; see `everypath count --help`",
            ),
            (
                "everypath --top 3 x",
                "'--top' is an option of a command, which comes first: `everypath contexts --top ...`; see \
                 `everypath --help`",
            ),
            (
                "everypath contexts -k -1 -- ./w",
                "invalid value '-1' for '-k': it cannot be negative; see `everypath contexts --help`",
            ),
            (
                "everypath contexts --top ten -- ./w",
                "invalid value 'ten' for '--top <N>': that is no whole number from 0 on; see `everypath contexts \
                 --help`",
            ),
        ];
        for (line, expected) in table {
            assert_eq!(said(line), expected, "{line}");
        }
    }
}
