//! No file longer than a reader can hold: 600 lines, tests not counted.
//!
//! Above 600 and up to 1000 lines a file passes only if one of its first ten
//! lines says why, after the words `Long file:`. Test files and tables (at
//! least four of five lines a single row) are exempt.

use anyhow::Result;

use crate::tree::Tree;

/// Lines without tests that need no reason.
const LINES_FREE: usize = 600;
/// Lines without tests that no reason excuses.
const LINES_MOST: usize = 1000;

pub fn check(tree: &Tree) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for file in tree.files(".rs")? {
        if !is_test_file(&file) {
            found.extend(violation(&file, &tree.read(&file)?));
        }
    }
    Ok(found)
}

fn is_test_file(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs") || path.starts_with("tests/")
}

fn violation(path: &str, text: &str) -> Option<String> {
    let lines = lines_without_tests(text);
    let explained = text
        .lines()
        .take(10)
        .any(|line| line.contains("Long file:"));
    let limit = if explained { LINES_MOST } else { LINES_FREE };
    (lines > limit && !is_table(text))
        .then(|| format!("{path}: {lines} lines without tests, at most {limit}"))
}

/// Lines before the first inline test module.
fn lines_without_tests(text: &str) -> usize {
    text.lines()
        .zip(text.lines().skip(1))
        .position(|(line, next)| line == "#[cfg(test)]" && next.trim_end().ends_with('{'))
        .unwrap_or_else(|| text.lines().count())
}

/// A table: most lines are one row each (`NAME(…),`, `(…),` or `const X: T = …;`).
fn is_table(text: &str) -> bool {
    let code: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("//"))
        .collect();
    let is_row = |line: &&&str| {
        line.ends_with("),") || (line.starts_with("pub const ") && line.ends_with(';'))
    };
    code.iter().filter(is_row).count() * 5 >= code.len() * 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_at_the_end_do_not_count() {
        let text = "fn a() {}\n\n#[cfg(test)]\nmod tests {\n}\n";
        assert_eq!(lines_without_tests(text), 2);
        assert_eq!(
            lines_without_tests("#[cfg(test)]\nmod tests;\nfn a() {}\n"),
            3
        );
    }

    #[test]
    fn a_long_file_needs_a_reason() {
        let long = "let x = 1;\n".repeat(601);
        assert_eq!(
            violation("a.rs", &long).as_deref(),
            Some("a.rs: 601 lines without tests, at most 600")
        );
        assert_eq!(
            violation("a.rs", &format!("// Long file: one idea.\n{long}")),
            None
        );
        assert_eq!(violation("a.rs", &"    row(1, 2),\n".repeat(3000)), None);
    }
}
