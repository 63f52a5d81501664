//! Forms of reports in the help of a command: those that it can write.
//!
//! Problem: commands share the option `--format`, and none of them has all forms.
//!
//! Approach: every form is taken, as one of another command gets a sentence that names that command; shown are
//! only those of this one.

use std::ffi::OsStr;

use clap::builder::{EnumValueParser, PossibleValue, TypedValueParser};
use clap::{Arg, Command, ValueEnum};

use crate::flags::Format;

/// Commands, and the forms that they can write.
const FORMS: [(&str, Forms); 3] = [
    (
        "run",
        Forms(|form| !form.needs_contexts() && !form.needs_counts()),
    ),
    ("contexts", Forms(|form| !form.needs_counts())),
    ("count", Forms(|form| form.of_counts().is_some())),
];

/// Shows some forms, and parses all.
#[derive(Clone, Copy)]
struct Forms(fn(Format) -> bool);

impl TypedValueParser for Forms {
    type Value = Format;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Format, clap::Error> {
        EnumValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let shown = Format::value_variants()
            .iter()
            .filter(|form| self.0(**form));
        Some(Box::new(shown.filter_map(ValueEnum::to_possible_value)))
    }
}

/// The parser, with the forms of each command.
pub fn of_commands(all: Command) -> Command {
    FORMS.into_iter().fold(all, |all, (name, forms)| {
        all.mut_subcommand(name, |command| {
            command.mut_arg("format", |argument| argument.value_parser(forms))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::command;

    #[test]
    fn help_shows_the_forms_of_each_command() {
        let forms = |name: &str| {
            let all = command();
            let command = all.find_subcommand(name).unwrap();
            let format = command.get_arguments().find(|own| own.get_id() == "format");
            let values = format.unwrap().get_possible_values();
            let names: Vec<_> = values
                .iter()
                .map(|value| value.get_name().to_owned())
                .collect();
            names.join(" ")
        };
        assert_eq!(forms("run"), "report json");
        assert_eq!(forms("count"), "report json callgrind csv lcov fdata llvm");
        assert_eq!(
            forms("contexts"),
            "report text json folded flamegraph pprof callgrind firefox speedscope csv xml"
        );
        assert!(forms("report").contains("xml lcov"));
    }
}
