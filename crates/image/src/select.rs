//! Choosing functions by patterns over their names.
//!
//! A pattern is `name` or `module!name`; both may hold `*` and `?`. A name is
//! compared with every name of a function as it is in the symbol table and,
//! for C++ and Rust, as people write it, with and without parameters. A
//! module is compared with the file name, its stem before `.so`, its soname,
//! and, when the pattern holds a `/`, with the whole path.
//!
//! Demangling every name of a large C++ program costs more than all the rest,
//! so a name is demangled only when it holds the longest identifier of the
//! pattern: both schemes spell identifiers out, except the few
//! [`ABBREVIATED`].

use std::path::Path;

use crate::addr::FileOffset;
use crate::demangle::{demangle, demangle_short, is_mangled};
use crate::functions::{ExtentKind, Function};
use crate::image::Image;

/// One choice of functions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    module: Option<String>,
    name: String,
    /// Identifier every matching mangled name must contain.
    key: Option<String>,
}

/// The user's selection of functions. Empty lists select everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    pub functions: Vec<Pattern>,
    /// Globs over module names; functions of other modules are not selected.
    pub modules: Vec<String>,
    pub start: Vec<Pattern>,
    pub stop: Vec<Pattern>,
}

/// Bits of [`FuncExtent::flags`], with the meaning and values of the wire's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ExtentFlags(pub u32);

impl ExtentFlags {
    pub const ENTRY: u32 = 1 << 0;
    pub const PLT: u32 = 1 << 1;
    pub const SELECTED: u32 = 1 << 2;
    pub const START: u32 = 1 << 3;
    pub const STOP: u32 = 1 << 4;
    pub const MUTE: u32 = 1 << 5;
    pub const PART: u32 = 1 << 6;

    pub fn has(self, bits: u32) -> bool {
        self.0 & bits == bits
    }
}

/// One extent as the engine in the target wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FuncExtent {
    pub start: FileOffset,
    pub end: FileOffset,
    pub owner: FileOffset,
    pub flags: ExtentFlags,
}

/// Words that demanglers print for something shorter in the mangled name.
const ABBREVIATED: [&str; 63] = [
    "int",
    "new",
    "auto",
    "for",
    "non",
    "str",
    "usize",
    "isize",
    "dyn",
    "mut",
    "impl",
    "unsafe",
    "extern",
    "shim",
    "u16",
    "u32",
    "u64",
    "u128",
    "i16",
    "i32",
    "i64",
    "std",
    "allocator",
    "basic_string",
    "string",
    "char_traits",
    "istream",
    "ostream",
    "iostream",
    "basic_istream",
    "basic_ostream",
    "basic_iostream",
    "operator",
    "anonymous",
    "namespace",
    "vtable",
    "typeinfo",
    "guard",
    "thunk",
    "virtual",
    "construction",
    "initializer",
    "variable",
    "lambda",
    "closure",
    "unnamed",
    "clone",
    "decltype",
    "unsigned",
    "signed",
    "char",
    "short",
    "long",
    "double",
    "float",
    "bool",
    "void",
    "const",
    "volatile",
    "true",
    "false",
    "delete",
    "wchar_t",
];

impl Pattern {
    pub fn new(text: &str) -> Pattern {
        let (module, name) = match text.split_once('!') {
            // `operator!` and `operator!=` are names.
            Some((module, name)) if !module.ends_with("operator") && !name.is_empty() => {
                (Some(module.to_owned()), name)
            }
            _ => (None, text),
        };
        Pattern {
            text: text.to_owned(),
            module,
            name: name.to_owned(),
            key: key_of(name),
        }
    }

    /// As the user wrote it.
    pub fn text(&self) -> &str {
        &self.text
    }

    fn matches_module(&self, image: &Image) -> bool {
        self.module
            .as_deref()
            .is_none_or(|module| matches_module(module, image))
    }

    fn matches_name(&self, raw: &str) -> bool {
        if glob(&self.name, raw) {
            return true;
        }
        if !is_mangled(raw) || self.key.as_deref().is_some_and(|key| !raw.contains(key)) {
            return false;
        }
        demangle_short(raw).is_some_and(|name| glob(&self.name, &name))
            || demangle(raw).is_some_and(|name| glob(&self.name, &name))
    }

    fn matches(&self, image: &Image, function: &Function) -> bool {
        image.aliases(function).any(|raw| self.matches_name(raw))
    }
}

impl Selector {
    /// Every function of every module.
    pub fn everything() -> Selector {
        Selector::default()
    }

    /// Whether the image holds functions that could be selected.
    pub fn covers_module(&self, image: &Image) -> bool {
        self.modules.is_empty()
            || self
                .modules
                .iter()
                .any(|module| matches_module(module, image))
    }

    /// Every pattern (functions, start, stop) with whether a function of the
    /// image matches it.
    pub fn known_in(&self, image: &Image) -> Vec<(&Pattern, bool)> {
        let all = self.functions.iter().chain(&self.start).chain(&self.stop);
        let known = |pattern: &Pattern| {
            pattern.matches_module(image)
                && selectable(image).any(|function| pattern.matches(image, function))
        };
        all.map(|pattern| (pattern, known(pattern))).collect()
    }
}

impl Image {
    /// The table the engine works with. Parts carry the flags of choice of
    /// their owner, so that selection is a property of functions.
    pub fn func_entries(&self, select: &Selector) -> Vec<FuncExtent> {
        let here = |list: &[Pattern]| -> Vec<Pattern> {
            let mine = list.iter().filter(|pattern| pattern.matches_module(self));
            mine.cloned().collect()
        };
        let covered = select.covers_module(self);
        let (functions, start, stop) = (
            here(&select.functions),
            here(&select.start),
            here(&select.stop),
        );
        let any = |list: &[Pattern], function: &Function| {
            list.iter().any(|pattern| pattern.matches(self, function))
        };
        let mut entries: Vec<FuncExtent> = Vec::with_capacity(self.functions().len());
        for function in self.functions() {
            let mut flags = match function.kind {
                ExtentKind::Function => ExtentFlags::ENTRY,
                ExtentKind::Part => ExtentFlags::PART,
                ExtentKind::Plt => ExtentFlags::PLT,
            };
            if function.kind == ExtentKind::Function {
                let chosen = select.functions.is_empty() || any(&functions, function);
                flags |= bit(covered && chosen, ExtentFlags::SELECTED);
                flags |= bit(any(&start, function), ExtentFlags::START);
                flags |= bit(any(&stop, function), ExtentFlags::STOP);
            }
            flags |= bit(function.lazy_binding, ExtentFlags::MUTE);
            entries.push(FuncExtent {
                start: function.start,
                end: function.end,
                owner: function.owner,
                flags: ExtentFlags(flags),
            });
        }
        inherit(&mut entries);
        entries
    }

    /// Names close to one that is unknown, closest first: at most five.
    pub fn near_names(&self, wanted: &str) -> Vec<String> {
        let wanted = wanted.rsplit_once('!').map_or(wanted, |(_, name)| name);
        // Two letters swapped are two edits: allow that from four letters on.
        let length = wanted.chars().count();
        let limit = (length / 3).clamp(if length > 3 { 2 } else { 1 }, 4);
        let mut near: Vec<(usize, String)> = Vec::new();
        for function in selectable(self) {
            for raw in self.aliases(function) {
                let readable = demangle_short(raw);
                let name = readable.as_deref().unwrap_or(raw);
                // People leave the namespace out.
                let last = name.rsplit("::").next().unwrap_or(name);
                let distance = edit_distance(wanted, name, limit)
                    .into_iter()
                    .chain(edit_distance(wanted, last, limit))
                    .min();
                near.extend(distance.map(|distance| (distance, name.to_owned())));
            }
        }
        near.sort();
        near.dedup();
        near.into_iter().take(5).map(|(_, name)| name).collect()
    }
}

fn bit(on: bool, bits: u32) -> u32 {
    if on { bits } else { 0 }
}

/// Gives parts the choice made for their owners.
fn inherit(entries: &mut [FuncExtent]) {
    const CHOICE: u32 = ExtentFlags::SELECTED | ExtentFlags::MUTE;
    for index in 0..entries.len() {
        let entry = entries[index];
        if !entry.flags.has(ExtentFlags::PART) {
            continue;
        }
        let owner = entries.binary_search_by_key(&entry.owner, |entry| entry.start);
        if let Ok(owner) = owner {
            entries[index].flags.0 |= entries[owner].flags.0 & CHOICE;
        }
    }
}

fn selectable(image: &Image) -> impl Iterator<Item = &Function> {
    let all = image.functions().iter();
    all.filter(|function| function.kind == ExtentKind::Function)
}

fn matches_module(pattern: &str, image: &Image) -> bool {
    let path = image.path();
    if pattern.contains('/') {
        return glob(pattern, &path.to_string_lossy());
    }
    let file = path.file_name().unwrap_or(path.as_os_str());
    let file = Path::new(file).to_string_lossy();
    let stem = file.split(".so").next().unwrap_or(&file);
    glob(pattern, &file)
        || glob(pattern, stem)
        || image.soname().is_some_and(|soname| glob(pattern, soname))
}

/// The longest identifier of a name pattern that mangled names spell out.
fn key_of(name: &str) -> Option<String> {
    let word = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
    name.split(word)
        .filter(|word| word.starts_with(|c: char| c.is_ascii_alphabetic()))
        .filter(|word| word.len() >= 3 && !ABBREVIATED.iter().any(|short| short.contains(word)))
        .max_by_key(|word| word.len())
        .map(str::to_owned)
}

/// Whether `text` is described by `pattern`, where `*` stands for any run of
/// characters and `?` for one.
///
/// Greedy with one point of return, so it takes at most
/// `pattern.len() * text.len()` steps.
pub fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                retry = Some((p + 1, t));
                p += 1;
            }
            Some(&c) if c == b'?' || c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => {
                let Some((after_star, from)) = retry else {
                    return false;
                };
                retry = Some((after_star, from + 1));
                (p, t) = (after_star, from + 1);
            }
        }
    }
    pattern[p..].iter().all(|&c| c == b'*')
}

/// Levenshtein distance, when it is at most `limit`.
fn edit_distance(a: &str, b: &str, limit: usize) -> Option<usize> {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len().abs_diff(b.len()) > limit {
        return None;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let changed = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    let distance = row[b.len()];
    (distance <= limit).then_some(distance)
}

/// Splits a comma-separated list, but not inside `()`, `<>`, `[]` or `{}`:
/// `f(int, char),g` are two names.
pub fn split_list(list: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0usize, 0);
    for (at, c) in list.char_indices() {
        match c {
            '(' | '<' | '[' | '{' => depth += 1,
            ')' | '>' | ']' | '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(list[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(list[start..].trim());
    parts.retain(|part| !part.is_empty());
    parts
}

#[cfg(test)]
mod tests;
