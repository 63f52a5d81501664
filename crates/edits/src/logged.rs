//! Functions whose calls are logged with their contexts.

use std::collections::{BTreeMap, HashMap};

use flow::{EdgeKind, Program, To};
use image::{Image, LinkAddr};

/// The sign behind a word whose calls are logged with their first argument alone, without a path and an end.
pub const ALONE: char = '=';

/// Functions that a list names, by their numbers, with the word that each is named by: names, as they are or demangled, or addresses;
/// separated by commas. Those as which they go on have no word: they log returns alone, which are those of the others.
pub fn functions(image: &Image, program: &Program, list: &str) -> BTreeMap<usize, String> {
    let wanted: Vec<&str> = list.split(',').map(str::trim).collect();
    let word_of = |entry: LinkAddr, name: Option<&str>| {
        let offset = image.file_offset(entry);
        let extent = offset.and_then(|offset| image.function_at(offset));
        let extent = extent.filter(|extent| Some(extent.start) == offset);
        let aliases = extent.into_iter().flat_map(|extent| image.aliases(extent));
        let names: Vec<&str> = aliases.chain(name).collect();
        let is_it = |word: &&str| {
            let word = word.trim_end_matches(ALONE);
            names.iter().any(|name| names_it(word, name)) || address(word) == Some(entry.0)
        };
        wanted.iter().copied().find(is_it)
    };
    let functions = program.functions.iter().enumerate();
    let functions = functions.filter_map(|(number, function)| {
        let word = word_of(function.entry, function.name.as_deref())?;
        Some((number, word.to_owned()))
    });
    let mut found: BTreeMap<usize, String> = functions.collect();
    let entries = program.functions.iter().enumerate();
    let entries: HashMap<LinkAddr, usize> = entries
        .map(|(number, function)| (function.entry, number))
        .collect();
    let mut waiting: Vec<usize> = found.keys().copied().collect();
    while let Some(number) = waiting.pop() {
        for edge in &program.functions[number].graph.edges {
            let next = match (edge.kind, edge.to) {
                (EdgeKind::TailCall, To::Address(entry)) => entries.get(&entry),
                _ => None,
            };
            if let Some(next) = next.filter(|next| !found.contains_key(next)) {
                found.insert(*next, String::new());
                waiting.push(*next);
            }
        }
    }
    found
}

/// Whether a symbol of a file has a name.
pub fn has(image: &Image, name: &str) -> bool {
    let aliases = image
        .functions()
        .iter()
        .flat_map(|function| image.aliases(function));
    let mut aliases = aliases.filter(|_| !name.is_empty());
    aliases.any(|alias| names_it(name, alias))
}

/// Whether a word is a symbol's name, without its version, or what it is demangled.
fn names_it(word: &str, name: &str) -> bool {
    let plain = name.split('@').next().unwrap_or_default();
    let is_mangled = plain.starts_with("_Z") || plain.starts_with("_R");
    word == plain
        || is_mangled && {
            let shown = image::demangled(plain);
            let base = shown.split('(').next().unwrap_or_default();
            word == shown || word == base
        }
}

fn address(word: &str) -> Option<u64> {
    u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()
}
