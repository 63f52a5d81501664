//! Numbers, durations and cut texts as readers like them.

use std::cmp::Ordering;
use std::time::Duration;

use analysis::diff::Pair;

/// `1234567` as `1,234,567`.
pub fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `3 threads`, `1 thread`; `noun` takes a plain s.
pub fn counted(value: u64, noun: &str) -> String {
    let plural = match (value, noun.ends_with("ss")) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{} {noun}{plural}", grouped(value))
}

/// Share of `total` in per cent, seven characters at most.
pub fn percent(value: u64, total: u64) -> String {
    let share = value as f64 * 100.0 / total.max(1) as f64;
    if value > 0 && share < 0.005 {
        "<0.01%".into()
    } else {
        format!("{share:.2}%")
    }
}

/// A change as `+1,234`, `-5` or `0`.
pub fn signed(value: Pair) -> String {
    let sign = match value.before.cmp(&value.after) {
        Ordering::Less => "+",
        Ordering::Equal => "",
        Ordering::Greater => "-",
    };
    format!("{sign}{}", grouped(value.size()))
}

/// A change in per cent of the value before; what was not there, or is no
/// longer, in a word.
pub fn signed_percent(value: Pair) -> String {
    match (value.before, value.after) {
        (before, after) if before == after => "0.00%".into(),
        (0, _) => "new".into(),
        (_, 0) => "gone".into(),
        (before, _) => {
            let share = value.change() as f64 * 100.0 / before as f64;
            match share.abs() {
                size if size < 0.005 && share > 0.0 => "+<0.01%".into(),
                size if size < 0.005 => "-<0.01%".into(),
                size if size < 1000.0 => format!("{share:+.2}%"),
                _ => format!("{share:+.0}%"),
            }
        }
    }
}

/// With the unit that suits its size.
pub fn duration(ns: u64) -> String {
    let seconds = Duration::from_nanos(ns).as_secs_f64();
    match seconds {
        s if s < 1e-3 => format!("{:.0} µs", s * 1e6),
        s if s < 1.0 => format!("{:.0} ms", s * 1e3),
        s if s < 60.0 => format!("{s:.2} s"),
        s => format!("{} min {:.0} s", (s / 60.0).floor(), s % 60.0),
    }
}

/// A size of bytes with the unit that suits it.
pub fn size(bytes: u64) -> String {
    match bytes as f64 {
        size if size < 1e3 => counted(bytes, "byte"),
        size if size < 1e6 => format!("{:.1} kB", size / 1e3),
        size if size < 1e9 => format!("{:.1} MB", size / 1e6),
        size => format!("{:.2} GB", size / 1e9),
    }
}

/// `text` in at most `width` characters, its middle replaced by `…`.
pub fn cut_middle(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    let kept = width.saturating_sub(1);
    let head = kept.div_ceil(2);
    let front: String = text.chars().take(head).collect();
    let back: String = text.chars().skip(length - (kept - head)).collect();
    format!("{front}…{back}")
}

/// Words as a shell would need them quoted, for showing a command.
pub fn command_line(words: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:,+@%".contains(c);
    let quote = |word: &String| match word {
        word if !word.is_empty() && word.chars().all(plain) => word.clone(),
        word => format!(
            "'{}'",
            word.replace('\'', "'\\''").replace(char::is_control, " ")
        ),
    };
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped() {
        let all = [0, 999, 1000, 1_234_567, u64::MAX].map(grouped);
        assert_eq!(
            all,
            [
                "0",
                "999",
                "1,000",
                "1,234,567",
                "18,446,744,073,709,551,615"
            ]
        );
    }

    #[test]
    fn nouns_agree() {
        assert_eq!(counted(1, "process"), "1 process");
        assert_eq!(counted(2, "process"), "2 processes");
        assert_eq!(counted(0, "thread"), "0 threads");
    }

    #[test]
    fn the_middle_is_cut() {
        assert_eq!(cut_middle("abcdefghij", 10), "abcdefghij");
        assert_eq!(cut_middle("abcdefghij", 7), "abc…hij");
        assert_eq!(cut_middle("abcdefghij", 6), "abc…ij");
        assert_eq!(cut_middle("äöüß", 3), "ä…ß");
        assert_eq!(cut_middle("abc", 1), "…");
    }

    #[test]
    fn shares_never_round_to_nothing() {
        assert_eq!(percent(1, 3), "33.33%");
        assert_eq!(percent(1, 1_000_000), "<0.01%");
        assert_eq!(percent(0, 0), "0.00%");
        assert_eq!(percent(5, 5), "100.00%");
    }

    #[test]
    fn changes_have_a_sign_and_never_round_to_nothing() {
        let rows = [
            (0, 0, "0", "0.00%"),
            (0, 7, "+7", "new"),
            (1500, 0, "-1,500", "gone"),
            (1000, 1052, "+52", "+5.20%"),
            (1000, 999, "-1", "-0.10%"),
            (1_000_000, 1_000_001, "+1", "+<0.01%"),
            (1_000_000, 999_999, "-1", "-<0.01%"),
            (2, 30, "+28", "+1400%"),
            (0, u64::MAX, "+18,446,744,073,709,551,615", "new"),
        ];
        for (before, after, change, percent) in rows {
            let value = Pair { before, after };
            assert_eq!(
                (&*signed(value), &*signed_percent(value)),
                (change, percent)
            );
        }
    }

    #[test]
    fn times_have_fitting_units() {
        let all = [1_500, 2_500_000, 1_234_000_000, 61_000_000_000].map(duration);
        assert_eq!(all, ["2 µs", "2 ms", "1.23 s", "1 min 1 s"]);
    }

    #[test]
    fn commands_are_quoted() {
        let words = ["sh", "-c", "echo 'a b'\n", ""].map(String::from);
        assert_eq!(command_line(&words), r"sh -c 'echo '\''a b'\'' ' ''");
    }
}
