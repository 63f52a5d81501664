//! What of a program `trace` traces, and from when to when.

use clap::Args;

/// Most instructions that are counted.
const MOST: u64 = 1 << 62;

/// What is traced.
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
    /// Leave out the first N instructions of each thread
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MOST))]
    pub skip: Option<u64>,
    /// Trace N instructions of each thread
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MOST))]
    pub count: Option<u64>,
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
