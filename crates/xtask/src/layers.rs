//! Which crate may use which: the table of allowed edges, checked.
//!
//! The arrows of the design point one way: code of the target never reaches
//! the host and the other way round, and a foreign library is known to one
//! crate. Normal and build dependencies count; test dependencies do not,
//! because a test may compare anything with anything.

use anyhow::Result;

use crate::metadata::{self, Package};
use crate::tree::Tree;

/// A crate of the tree and the crates of the tree it may name.
struct Layer {
    name: &'static str,
    may_use: &'static [&'static str],
}

const fn layer(name: &'static str, may_use: &'static [&'static str]) -> Layer {
    Layer { name, may_use }
}

/// One row per crate. Where a row differs from the first design, it says why.
const LAYERS: &[Layer] = &[
    layer("sys", &[]),
    layer("isa", &[]),
    layer("wire", &[]),
    layer("probe", &["isa", "wire"]),
    layer("forest", &["wire"]),
    layer("agent", &["sys", "wire"]),
    // `wire` too: the translator reads the run's configuration and writes its statistics.
    layer("dbt", &["sys", "isa", "wire", "probe", "agent", "forest"]),
    // `sys` and `wire` too: the entry point itself and the panic handler.
    layer("payload", &["dbt", "agent", "forest", "sys", "wire"]),
    // The code inside an edited program.
    layer("resident", &["sys", "wire"]),
    layer("image", &[]),
    layer("flow", &["image", "isa"]),
    // It numbers paths of call graphs and knows no machine code.
    layer("encoding", &[]),
    // It chooses edges of graphs and knows no machine code.
    layer("placement", &[]),
    // `wire` too: the layout of the counters that code in the edited program writes.
    layer("rewrite", &["image", "flow", "isa", "probe", "wire"]),
    // `wire` too: where a thread's counters are. `image` and `isa`: which function is the main one.
    layer(
        "edits",
        &[
            "rewrite",
            "encoding",
            "placement",
            "flow",
            "probe",
            "image",
            "isa",
            "wire",
        ],
    ),
    layer("trace", &["wire"]),
    // `isa` too: counts are of instructions, and where each begins and goes is in
    // the recorded code; `wire`: models of nests are those that edited programs have.
    layer(
        "analysis",
        &["trace", "flow", "isa", "placement", "encoding", "wire"],
    ),
    layer("launch", &["wire", "sys"]),
    layer("replay", &["trace", "launch"]),
    // `trace` too: a report prints the recording as well as what was computed from it;
    // `isa`: instructions as text.
    layer("report", &["analysis", "flow", "image", "isa", "trace"]),
    // `wire` too: the mode and flag numbers of a launch request.
    layer(
        "cli",
        &[
            "analysis",
            "edits",
            "flow",
            "image",
            "launch",
            "placement",
            "replay",
            "report",
            "rewrite",
            "trace",
            "wire",
        ],
    ),
    // `isa` too: what an instruction does to control is the kind of its event.
    layer("python", &["analysis", "isa", "report", "trace"]),
    // Compares everything with everything, but never from inside the target.
    layer(
        "testkit",
        &[
            "analysis", "image", "isa", "launch", "report", "trace", "wire",
        ],
    ),
    // It has the name of libFuzzer, and no content.
    layer("fuzzed", &[]),
    layer("xtask", &[]),
];

/// A foreign crate and the only crates that may name it.
const FOREIGN: &[(&str, &[&str])] = &[
    ("iced-x86", &["isa", "testkit"]),
    ("object", &["image", "rewrite"]),
    ("gimli", &["image", "rewrite"]),
    ("flate2", &["image", "report"]),
    ("rustc-demangle", &["image"]),
    ("cpp_demangle", &["image"]),
    ("inferno", &["report"]),
    ("prost", &["report"]),
    ("pyo3", &["python"]),
    ("zstd", &["trace"]),
    ("crc32c", &["trace"]),
    ("md-5", &["cli"]),
    ("serde_json", &["report", "xtask"]),
    ("clap", &["cli", "xtask"]),
    ("anyhow", &["cli", "xtask"]),
];

/// The crate of the editor, and the table of its tools, of which it names none.
const EDITOR: &str = "crates/rewrite/src/";
const TOOLS: &str = "crates/edits/src/lib.rs";

pub fn check(tree: &Tree) -> Result<Vec<String>> {
    let packages = metadata::packages(tree)?;
    let mut found: Vec<String> = packages.iter().flat_map(violations).collect();
    let tools = tools(&tree.read(TOOLS)?);
    if tools.is_empty() {
        found.push(format!("{TOOLS} has no rows of tools"));
    }
    for file in tree.files(".rs")? {
        if file.starts_with(EDITOR) {
            let text = tree.read(&file)?;
            let named = tools.iter().filter(|tool| names(&text, tool));
            found.extend(named.map(|tool| format!("{file} names the tool {tool}")));
        }
    }
    Ok(found)
}

/// Names of tools in the text of their table.
fn tools(table: &str) -> Vec<String> {
    let rows = table.lines();
    let names = rows.filter_map(|line| line.trim().strip_prefix("name: \"")?.split('"').next());
    names.map(str::to_owned).collect()
}

/// Whether code has a tool's name as a string, or that of its type.
fn names(text: &str, tool: &str) -> bool {
    let first = tool[..1].to_uppercase();
    let of_type = first + &tool[1..];
    let string = format!("\"{tool}\"");
    let code = text.lines().filter(|line| !line.trim().starts_with("//"));
    code.into_iter().any(|line| {
        let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        line.contains(&string) || words.any(|word| word == of_type)
    })
}

fn violations(package: &Package) -> Vec<String> {
    let Some(layer) = LAYERS.iter().find(|layer| layer.name == package.name) else {
        return vec![format!(
            "crate {} has no row in the table of crates/xtask/src/layers.rs",
            package.name
        )];
    };
    let mut found = Vec::new();
    for dependency in package
        .dependencies
        .iter()
        .filter(|dependency| !dependency.is_dev())
    {
        let name = dependency.name.as_str();
        if dependency.path.is_some() && !layer.may_use.contains(&name) {
            found.push(format!("{} may not use {name}", layer.name));
        }
        let owners = FOREIGN.iter().find(|(foreign, _)| *foreign == name);
        if let Some((_, owners)) = owners
            && !owners.contains(&layer.name)
        {
            found.push(format!(
                "{} may not use {name}: only {} may",
                layer.name,
                owners.join(", ")
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::Dependency;

    #[test]
    fn tools_are_found_and_seen() {
        let table = "    Row {\n        name: \"edges\",\n    Row {\n        name: \"blocks\",\n";
        assert_eq!(tools(table), ["edges", "blocks"]);
        assert!(names("match tool { Tool::Edges => 1 }", "edges"));
        assert!(names("if name == \"edges\" {", "edges"));
        assert!(!names("/// Edges of it.\ngraph.edges_of(0);", "edges"));
    }

    fn package(name: &str, uses: &[(&str, bool, Option<&str>)]) -> Package {
        let dependencies = uses
            .iter()
            .map(|&(name, ours, kind)| Dependency {
                name: name.into(),
                kind: kind.map(Into::into),
                path: ours.then(|| String::from("somewhere")),
            })
            .collect();
        Package {
            name: name.into(),
            dependencies,
        }
    }

    #[test]
    fn an_edge_outside_the_table_is_named() {
        let bad = package("trace", &[("wire", true, None), ("dbt", true, None)]);
        assert_eq!(violations(&bad), ["trace may not use dbt"]);
    }

    #[test]
    fn a_foreign_crate_belongs_to_its_owner() {
        let bad = package("cli", &[("object", false, None)]);
        assert_eq!(
            violations(&bad),
            ["cli may not use object: only image, rewrite may"]
        );
    }

    #[test]
    fn tests_may_reach_everywhere_and_build_scripts_may_not() {
        let package = package(
            "wire",
            &[("cli", true, Some("dev")), ("dbt", true, Some("build"))],
        );
        assert_eq!(violations(&package), ["wire may not use dbt"]);
    }

    #[test]
    fn the_table_has_no_cycle_and_no_unknown_name() {
        for (index, layer) in LAYERS.iter().enumerate() {
            for used in layer.may_use {
                let row = LAYERS.iter().position(|other| other.name == *used);
                assert!(row.is_some(), "{used} has no row");
                assert_ne!(row, Some(index));
                let back = LAYERS[row.unwrap_or(index)].may_use;
                assert!(
                    !back.contains(&layer.name),
                    "{} and {used} use each other",
                    layer.name
                );
            }
        }
    }
}
