//! Doc comments must name their subject.
//!
//! A comment that begins with *Of*, *What* or *Behind*, standing for a noun that the reader must
//! guess, is a riddle. Such beginnings ([`RIDDLES`]) are refused; there are no exceptions. Only the
//! first words of a doc comment (`///`, `//!`) are looked at, not what follows.

use anyhow::Result;

use crate::tree::Tree;

/// Beginnings of a comment that stand for a noun.
const RIDDLES: [&str; 9] = [
    "Of", "The same", "Those", "What", "Who", "Where", "So many", "Behind", "Beside",
];

pub fn check(tree: &Tree) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for file in tree.files(".rs")? {
        let riddles = riddles(&tree.read(&file)?);
        let lines = riddles
            .into_iter()
            .map(|(line, text)| format!("{file}:{line}: names no subject: {text}"));
        found.extend(lines);
    }
    Ok(found)
}

/// Line number and text of every doc comment that begins with a riddle.
fn riddles(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut inside = false;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let comment = line
            .strip_prefix("///")
            .or_else(|| line.strip_prefix("//!"));
        if let Some(comment) = comment.filter(|_| !inside)
            && is_riddle(comment.trim_start())
        {
            found.push((index + 1, line.to_owned()));
        }
        inside = comment.is_some();
    }
    found
}

fn is_riddle(comment: &str) -> bool {
    RIDDLES.iter().any(|word| {
        let rest = comment.strip_prefix(word);
        rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_that_name_no_subject_are_found() {
        let text = "//! Offsets of stamps.\n//! Of what follows nothing is said.\n\n/// Of a thread.\n\
                    fn a() {}\n    /// Where it is.\n    /// What else.\n// What an ordinary comment says.\n";
        let lines: Vec<usize> = riddles(text).into_iter().map(|(line, _)| line).collect();
        assert_eq!(lines, [4, 6]);
    }
}
