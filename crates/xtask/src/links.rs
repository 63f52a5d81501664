//! Relative links in Markdown documents, and files named in back quotes, must
//! lead to something that exists. Links to the web are not followed.

use anyhow::Result;

use crate::tree::Tree;

pub fn check(tree: &Tree) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for document in tree.files(".md")? {
        let directory = document
            .rsplit_once('/')
            .map_or("", |(directory, _)| directory);
        for (line, target) in targets(&tree.read(&document)?) {
            let from_root = target.strip_prefix('/');
            let path = match from_root {
                Some(path) => tree.root.join(path),
                None => tree.root.join(directory).join(&target),
            };
            if !path.exists() {
                found.push(format!("{document}:{line}: {target} does not exist"));
            }
        }
        for (line, path) in named_files(&tree.read(&document)?) {
            if !tree.root.join(&path).exists() {
                found.push(format!("{document}:{line}: `{path}` does not exist"));
            }
        }
    }
    Ok(found)
}

/// Targets of `[text](target)` outside code blocks, without anchor, with line number.
fn targets(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (line, content) in prose(text) {
        for rest in content.split("](").skip(1) {
            let Some((target, _)) = rest.split_once(')') else {
                continue;
            };
            let path = target.split('#').next().unwrap_or_default();
            if !path.is_empty() && !target.contains("://") && !target.starts_with("mailto:") {
                found.push((line, path.to_owned()));
            }
        }
    }
    found
}

/// Back-quoted paths that begin with a folder of this tree, with line number.
fn named_files(text: &str) -> Vec<(usize, String)> {
    const FOLDERS: &[&str] = &["crates/", "docs/", "tests/", "benches/", ".ci/", "fuzz/"];
    let mut found = Vec::new();
    for (line, content) in prose(text) {
        for quoted in content.split('`').skip(1).step_by(2) {
            let is_path = FOLDERS.iter().any(|folder| quoted.starts_with(folder));
            if is_path && !quoted.contains(['*', '<', ' ', '{', '…', ':']) {
                found.push((line, quoted.to_owned()));
            }
        }
    }
    found
}

/// Lines outside fenced code blocks, numbered from one.
fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut fenced = false;
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            lines.push((index + 1, line));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn web_links_anchors_and_code_are_left_alone() {
        let text = "[a](x.md#y) [b](https://example.org)\n```\n[c](z.md)\n```\n[d](#here)";
        assert_eq!(targets(text), [(1, String::from("x.md"))]);
    }

    #[test]
    fn quoted_paths_are_links_too() {
        let text = "see `crates/cli/src/flags.rs`, `crates/*/src` and `docs/`";
        let expected = [
            (1, String::from("crates/cli/src/flags.rs")),
            (1, String::from("docs/")),
        ];
        assert_eq!(named_files(text), expected);
    }
}
