//! No file and no function longer than a reader can hold: 600 and 60 lines,
//! tests not counted.
//!
//! Up to 1000 lines a file passes only if one of its first ten lines says why,
//! after the words `Long file:`; up to 120 lines a function, if a comment before
//! or in its first lines says so after `Long function:`. Test files and tables
//! (at least four of five lines a single row) are exempt.
//!
//! Limits: functions are found by the layout that rustfmt gives them.

use anyhow::Result;

use crate::tree::Tree;

/// Lines without tests that need no reason.
const LINES_FREE: usize = 600;
/// Lines without tests that no reason excuses.
const LINES_MOST: usize = 1000;
/// Lines of a function, from `fn` to the closing brace, that need no reason, and that no reason excuses.
const FUNCTION_FREE: usize = 60;
const FUNCTION_MOST: usize = 120;

pub fn check(tree: &Tree) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for file in tree.files(".rs")? {
        if !is_test_file(&file) {
            let text = tree.read(&file)?;
            found.extend(violation(&file, &text));
            found.extend(long_functions(&file, &text));
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

/// Functions above the limit, named with their line.
fn long_functions(path: &str, text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().take(lines_without_tests(text)).collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let indent = &line[..line.len() - code.len()];
        let Some(name) = function_name(code) else {
            continue;
        };
        // A declaration without a body ends on its first line.
        let is_whole = code.ends_with(';') || code.ends_with('}');
        let end = lines[start..]
            .iter()
            .position(|line| line.strip_prefix(indent) == Some("}"));
        let length = end.filter(|_| !is_whole).map_or(1, |end| end + 1);
        let reasons = lines[start.saturating_sub(6)..(start + 6).min(lines.len())].iter();
        let explained = reasons
            .into_iter()
            .any(|line| line.contains("Long function:"));
        let limit = if explained {
            FUNCTION_MOST
        } else {
            FUNCTION_FREE
        };
        if length > limit {
            let place = start + 1;
            found.push(format!(
                "{path}:{place}: {name} has {length} lines, at most {limit}"
            ));
        }
    }
    found
}

/// The name if this line begins a function.
fn function_name(code: &str) -> Option<&str> {
    let mut rest = code;
    while let Some((word, after)) = rest.split_once(' ') {
        match word {
            "fn" => return after.split(['(', '<']).next(),
            "pub" | "pub(crate)" | "pub(super)" | "const" | "unsafe" | "extern" | "\"C\""
            | "async" => rest = after,
            _ => return None,
        }
    }
    None
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
    fn a_long_function_needs_a_reason() {
        let body = "        x();\n".repeat(60);
        let text = format!("impl A {{\n    pub fn long(&self) {{\n{body}    }}\n}}\n");
        let expected = "a.rs:2: long has 62 lines, at most 60";
        assert_eq!(long_functions("a.rs", &text), [expected]);
        let explained = text.replace("impl", "// Long function: one idea.\nimpl");
        assert!(long_functions("a.rs", &explained).is_empty());
        assert!(long_functions("a.rs", &format!("trait T {{\n    fn f();\n{body}}}\n")).is_empty());
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
