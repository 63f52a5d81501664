//! Conditions on a change, as a check after every build wants them: more than
//! so many per cent more calls, and the like.
//!
//! Invariant: percentages are compared as whole numbers, so a limit is met
//! exactly when it is, at any size.

use super::{Diff, Identity, Pair};

/// A change that is not to happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// As it was written, for those who read about it.
    pub text: String,
    /// `None`: the whole recording. `NAME`, or `MODULE!NAME`.
    pub function: Option<String>,
    /// Name of a [`super::Metric`].
    pub metric: String,
    pub direction: Direction,
    pub limit: Limit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// It grew by more than the limit.
    More,
    /// It shrank by more than the limit.
    Less,
}

/// `digits` / 10^`decimals` of the unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    pub digits: u32,
    pub decimals: u32,
    pub unit: Unit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Hundredths of the value before.
    Percent,
    One,
}

/// Verdict on a condition.
#[derive(Clone, Debug)]
pub struct Verdict<'a> {
    pub condition: &'a Condition,
    pub value: Pair,
    /// Functions that it is about; 0: nothing of that name was called.
    pub functions: usize,
    pub met: bool,
}

impl Condition {
    fn is_met(&self, value: Pair) -> bool {
        let growth = match self.direction {
            Direction::More => value.change(),
            Direction::Less => -value.change(),
        };
        let Limit {
            digits,
            decimals,
            unit,
        } = self.limit;
        let scale = 10i128.saturating_pow(decimals);
        // Both sides times 100 * scale; digits are fewer than 2^32 and values
        // fewer than 2^64, so neither overflows while decimals are few.
        let (growth_scaled, bound) = match unit {
            Unit::Percent => (
                growth.saturating_mul(100).saturating_mul(scale),
                i128::from(digits) * i128::from(value.before),
            ),
            Unit::One => (growth.saturating_mul(scale), i128::from(digits)),
        };
        growth > 0 && growth_scaled > bound
    }
}

/// Verdicts on the conditions; metrics that are not in `diff` have no place
/// here and are the caller's to refuse.
pub fn judge<'a>(diff: &Diff, conditions: &'a [Condition]) -> Vec<Verdict<'a>> {
    let functions = diff.functions(0);
    let judged = |condition: &'a Condition| {
        let metric = diff
            .metrics
            .iter()
            .position(|metric| metric.name == condition.metric)?;
        let (value, functions) = match &condition.function {
            None => (diff.totals[metric], functions.len()),
            Some(name) => {
                let named = functions
                    .iter()
                    .filter(|function| is_called(&diff.frames[function.frame].identity, name));
                let mut value = Pair::default();
                let count = named.map(|function| value.add(function.values[metric]));
                let count = count.count();
                (value, count)
            }
        };
        Some(Verdict {
            condition,
            value,
            functions,
            met: condition.is_met(value),
        })
    };
    conditions.iter().filter_map(judged).collect()
}

/// Whether `text` names the function: as it is shown, without its parameters,
/// or with its module before a `!`.
fn is_called(identity: &Identity, text: &str) -> bool {
    let is_named = |text: &str| match *identity {
        Identity::Named { name, .. } => name == text || without_parameters(name) == text,
        Identity::At { module, offset } => {
            let place = text.strip_prefix(module);
            place.is_some_and(|place| place == format!("+{offset:#x}"))
        }
        Identity::Special(label) => label.to_string() == text,
        _ => false,
    };
    let in_module = |(module, text)| identity.module() == Some(module) && is_named(text);
    is_named(text) || text.split_once('!').is_some_and(in_module)
}

/// The name before the parentheses that hold its parameters; names that go on
/// after them (of what is inside a function) have none to leave out.
fn without_parameters(name: &str) -> &str {
    let name = name.strip_suffix(" const").unwrap_or(name);
    if !name.ends_with(')') {
        return name;
    }
    let mut depth = 0;
    for (at, c) in name.char_indices().rev() {
        match c {
            ')' => depth += 1,
            '(' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &name[..at];
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(direction: Direction, digits: u32, decimals: u32, unit: Unit) -> Condition {
        Condition {
            text: String::new(),
            function: None,
            metric: "calls".into(),
            direction,
            limit: Limit {
                digits,
                decimals,
                unit,
            },
        }
    }

    #[test]
    fn a_limit_itself_is_allowed() {
        use Direction::{Less, More};
        use Unit::{One, Percent};
        // Condition, before, the last value allowed and the first that is not.
        let rows = [
            (condition(More, 2, 0, Percent), 1000, 1020, 1021),
            (condition(More, 25, 1, Percent), 1000, 1025, 1026),
            (condition(More, 0, 0, Percent), 7, 7, 8),
            (condition(More, 5, 0, Percent), 0, 0, 1),
            (condition(Less, 10, 0, Percent), 50, 45, 44),
            (condition(More, 3, 0, One), 10, 13, 14),
            (condition(Less, 3, 0, One), 10, 7, 6),
            (condition(Less, 0, 0, One), 10, 1000, 9),
            (
                condition(More, 1, 9, Percent),
                1 << 62,
                1 << 62,
                (1 << 62) + (1 << 27),
            ),
            (condition(More, 0, 0, Percent), u64::MAX - 1, 0, u64::MAX),
        ];
        for (condition, before, allowed, met) in rows {
            for (after, expected) in [(allowed, false), (met, true)] {
                let value = Pair { before, after };
                assert_eq!(condition.is_met(value), expected, "{condition:?} {value:?}");
            }
        }
    }

    #[test]
    fn functions_are_named_with_and_without_what_can_be_left_out() {
        let named = |name, module| Identity::Named { name, module };
        let rows = [
            (named("work", Some("prog")), "work", true),
            (named("work", Some("prog")), "prog!work", true),
            (named("work", Some("prog")), "libc.so.6!work", false),
            (named("a::work(int, f())", None), "a::work", true),
            (named("a::get() const", None), "a::get", true),
            (named("a::operator()(int)", None), "a::operator()", true),
            (named("a(int)::{lambda()#1}", None), "a", false),
            (named("operator!=(a, b)", None), "operator!=", true),
            (named("work", None), "wor", false),
            (
                Identity::At {
                    module: "prog",
                    offset: 0x10,
                },
                "prog+0x10",
                true,
            ),
            (Identity::Nowhere, "work", false),
        ];
        for (identity, text, expected) in rows {
            assert_eq!(is_called(&identity, text), expected, "{identity:?} {text}");
        }
    }
}
