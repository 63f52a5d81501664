//! The text of `--fail-if`: `[FUNCTION:]METRIC>+N[%]` or `[FUNCTION:]METRIC<-N[%]`.
//!
//! A function's name may hold anything, also `:`, `<` and `>`; a limit and a
//! metric may not, so the text is taken apart from its end.

use analysis::diff::{Condition, Direction, Limit, Unit};

/// Most digits of a limit, and most of them after the point.
const DIGITS: usize = 9;

pub fn parse(text: &str) -> Result<Condition, String> {
    take_apart(text).ok_or_else(|| {
        "a condition is METRIC>+N, METRIC>+N%, METRIC<-N or METRIC<-N%, \
         after FUNCTION: if it is about a function"
            .to_owned()
    })
}

fn take_apart(text: &str) -> Option<Condition> {
    let (subject, limit) = text.split_at(text.rfind(['<', '>'])?);
    let (direction, limit) = match (limit.strip_prefix(">+"), limit.strip_prefix("<-")) {
        (Some(limit), _) => (Direction::More, limit),
        (_, Some(limit)) => (Direction::Less, limit),
        _ => return None,
    };
    let (number, unit) = match limit.strip_suffix('%') {
        Some(number) => (number, Unit::Percent),
        None => (limit, Unit::One),
    };
    let (digits, decimals) = decimal(number)?;
    if unit == Unit::One && decimals > 0 {
        return None;
    }
    let (function, metric) = match subject.rsplit_once(':') {
        Some((function, metric)) => (Some(function), metric),
        None => (None, subject),
    };
    if metric.is_empty() || function.is_some_and(str::is_empty) {
        return None;
    }
    Some(Condition {
        text: text.to_owned(),
        function: function.map(str::to_owned),
        metric: metric.to_owned(),
        direction,
        limit: Limit {
            digits,
            decimals,
            unit,
        },
    })
}

/// `12.5` as 125 and 1.
fn decimal(text: &str) -> Option<(u32, u32)> {
    let (whole, rest) = match text.split_once('.') {
        Some((_, "")) => return None,
        Some(parts) => parts,
        None => (text, ""),
    };
    let digits = format!("{whole}{rest}");
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_number || digits.len() > DIGITS {
        return None;
    }
    Some((digits.parse().ok()?, rest.len() as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_taken_apart_from_the_end() {
        use Direction::{Less, More};
        use Unit::{One, Percent};
        let rows = [
            ("calls>+2%", None, "calls", More, 2, 0, Percent),
            ("calls<-2.25%", None, "calls", Less, 225, 2, Percent),
            ("calls>+0", None, "calls", More, 0, 0, One),
            ("main:calls>+10", Some("main"), "calls", More, 10, 0, One),
            (
                "std::less<int>::operator()(a const&):calls<-1%",
                Some("std::less<int>::operator()(a const&)"),
                "calls",
                Less,
                1,
                0,
                Percent,
            ),
            (
                "p!operator>:calls>+1",
                Some("p!operator>"),
                "calls",
                More,
                1,
                0,
                One,
            ),
        ];
        for (text, function, metric, direction, digits, decimals, unit) in rows {
            let expected = Condition {
                text: text.into(),
                function: function.map(str::to_owned),
                metric: metric.into(),
                direction,
                limit: Limit {
                    digits,
                    decimals,
                    unit,
                },
            };
            assert_eq!(parse(text), Ok(expected));
        }
    }

    #[test]
    fn what_is_no_condition_is_refused() {
        let rows = [
            "",
            "calls",
            "calls>",
            "calls>2",
            "calls>-2",
            "calls<+2",
            "calls>+",
            "calls>+%",
            ">+2",
            ":calls>+2",
            "f:>+2",
            "calls>+2.5",
            "calls>+.5%",
            "calls>+2.%",
            "calls>+1e3",
            "calls>+1234567890",
            "calls>+0.0000000001%",
            "calls>+ 2",
            "calls>+2%%",
            "calls>+٣",
        ];
        for text in rows {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
