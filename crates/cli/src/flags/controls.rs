//! Options that select which code `trace` traces, and from when to when.

use clap::Args;

/// Most instructions that are counted.
const MOST: u64 = 1 << 62;

/// Signals that nobody can handle, or that instructions raise.
const KEPT: [i32; 8] = [4, 5, 7, 8, 9, 11, 19, 31];

/// Selection of the traced code.
#[derive(Debug, Args)]
pub struct Controls {
    /// Trace only these functions, as names, globs or MODULE!NAME
    #[arg(long, value_name = "LIST")]
    pub funcs: Vec<String>,
    /// Trace only code of these files, as file names or globs
    #[arg(long, value_name = "LIST")]
    pub modules: Vec<String>,
    /// Trace only the executable's own code
    #[arg(long)]
    pub no_shared_libs: bool,
    /// Begin when this function is called, or called for the N-th time
    #[arg(long, value_name = "NAME[:N]", value_parser = call)]
    pub start_func: Option<Call>,
    /// End when this function is called, or called for the N-th time
    #[arg(long, value_name = "NAME[:N]", value_parser = call)]
    pub stop_func: Option<Call>,
    /// Begin and end when `everypath ctl FILE.evp start` or `stop` says so
    #[arg(long)]
    pub ctl: bool,
    /// Trace nothing before the first `start` of `everypath ctl`; implies --ctl
    #[arg(long)]
    pub paused: bool,
    /// Begin when Everypath gets this signal, or a handler of the program
    #[arg(long, value_name = "SIGNAL", value_parser = signal, conflicts_with = "in_place")]
    pub start_signal: Option<i32>,
    /// End at this signal; if it is the same, each does one or the other
    #[arg(long, value_name = "SIGNAL", value_parser = signal, conflicts_with = "in_place")]
    pub stop_signal: Option<i32>,
    /// Leave out the first N instructions of each thread
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MOST))]
    pub skip: Option<u64>,
    /// Trace N instructions of each thread
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MOST))]
    pub count: Option<u64>,
    /// Count those of all threads and processes together, not of each thread
    #[arg(long)]
    pub together: bool,
}

/// The N-th call of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub function: String,
    pub number: u64,
}

impl Call {
    /// As it can be written.
    pub fn text(&self) -> String {
        format!("{}:{}", self.function, self.number)
    }
}

/// `parse:3`; names may have two colons in a row.
fn call(text: &str) -> Result<Call, String> {
    let is_number = |number: &str| !number.is_empty() && number.bytes().all(|c| c.is_ascii_digit());
    let split = text.rsplit_once(':');
    let split = split.filter(|(name, number)| !name.ends_with(':') && is_number(number));
    let (function, number) = match split {
        None => (text, Ok(1)),
        Some((name, number)) => (name, number.parse()),
    };
    match number {
        Ok(number @ 1..) if !function.is_empty() => Ok(Call {
            function: function.to_owned(),
            number,
        }),
        _ => Err("give a function, or the number of its call behind it: parse:3".to_owned()),
    }
}

/// `USR1`, `SIGUSR1`, `RTMIN+3` or a number.
fn signal(text: &str) -> Result<i32, String> {
    const RTMIN: i32 = 34;
    let real_time = |text: &str| match text.strip_prefix("RTMIN")? {
        "" => Some(RTMIN),
        more => Some(RTMIN.saturating_add(more.strip_prefix('+')?.parse().ok()?)),
    };
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let number = text.parse().ok().or_else(|| real_time(name));
    match number.or_else(|| report::signals::number(name)) {
        Some(number) if KEPT.contains(&number) => Err(format!(
            "{} cannot be waited for; take one like USR1",
            report::signals::name(number)
        )),
        Some(number @ (1..32 | RTMIN..=64)) => Ok(number),
        _ => Err("there is no such signal; give a name like USR1, or a number".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_a_name_and_a_number() {
        let of = |text: &str| call(text).map(|call| (call.function, call.number));
        assert_eq!(of("main"), Ok(("main".to_owned(), 1)));
        assert_eq!(of("parse:12"), Ok(("parse".to_owned(), 12)));
        assert_eq!(of("ns::parse:2"), Ok(("ns::parse".to_owned(), 2)));
        assert_eq!(of("ns::2"), Ok(("ns::2".to_owned(), 1)));
        assert_eq!(of("operator:"), Ok(("operator:".to_owned(), 1)));
        for odd in ["", ":3", "parse:0", "parse:99999999999999999999"] {
            assert!(call(odd).is_err(), "{odd}");
        }
    }
}
