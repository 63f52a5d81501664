//! `unsafe` only where the design allows it: every other crate forbids it.

use anyhow::Result;

use crate::tree::Tree;

/// Crates whose work is to handle raw memory or machine code.
const ALLOWED: &[&str] = &[
    "sys", "wire", "agent", "dbt", "launch", "payload", "resident",
];

const FORBID: &str = "#![forbid(unsafe_code)]";

pub fn check(tree: &Tree) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for file in tree.files(".rs")? {
        if let Some(name) = crate_of_root(&file)
            && !ALLOWED.contains(&name)
            && !tree.read(&file)?.lines().any(|line| line.trim() == FORBID)
        {
            found.push(format!(
                "{file}: a crate root outside {ALLOWED:?} says `{FORBID}`"
            ));
        }
    }
    Ok(found)
}

/// The crate whose root (`src/lib.rs`, `src/main.rs`, `src/bin/*.rs`, `build.rs`) `path` is.
fn crate_of_root(path: &str) -> Option<&str> {
    let (name, inside) = path.strip_prefix("crates/")?.split_once('/')?;
    let is_root = matches!(inside, "src/lib.rs" | "src/main.rs" | "build.rs")
        || inside
            .strip_prefix("src/bin/")
            .is_some_and(|file| !file.contains('/'));
    is_root.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_are_found() {
        assert_eq!(crate_of_root("crates/cli/src/main.rs"), Some("cli"));
        assert_eq!(crate_of_root("crates/cli/src/bin/tool.rs"), Some("cli"));
        assert_eq!(crate_of_root("crates/cli/src/flags.rs"), None);
        assert_eq!(crate_of_root("benches/x.rs"), None);
    }
}
