//! Demangled names as people write them.
//!
//! Problem: `std::_Rb_tree<std::__cxx11::basic_string<char, std::char_traits<char>,
//! std::allocator<char> >, ...>::_M_erase(...)` fills two lines of a table and says one thing.
//!
//! Approach: the name is read once, with brackets matched.
//!
//! | part | shown |
//! |---|---|
//! | parameters, qualifiers after them, return type | left out |
//! | defaulted template arguments ([`DEFAULTED`]) | left out |
//! | `std::basic_string<char>` and the like ([`TYPEDEFS`]) | the name that the library gives it |
//! | hash of a Rust symbol | left out |
//! | template arguments of a name that is still longer than [`LONGEST`] | `<...>` |
//!
//! Invariants: never longer than the symbol's name; a name without brackets and hash is unchanged.
//! Limit: two overloads, or two instances of a template, may have the same short name.
//!
//! Complexity: linear for each level of nested brackets.

/// Characters of a name that keeps its template arguments.
const LONGEST: usize = 44;

/// Beginnings of template arguments that are the default.
const DEFAULTED: [&str; 7] = [
    "std::allocator<",
    "std::char_traits<",
    "std::less<",
    "std::hash<",
    "std::equal_to<",
    "std::default_delete<",
    "alloc::alloc::Global",
];

/// Instances that the library has a shorter name for.
const TYPEDEFS: [(&str, &str); 6] = [
    ("std::basic_string<char>", "std::string"),
    ("std::basic_string_view<char>", "std::string_view"),
    ("std::basic_ostream<char>", "std::ostream"),
    ("std::basic_istream<char>", "std::istream"),
    ("std::basic_ios<char>", "std::ios"),
    ("alloc::string::String", "String"),
];

/// Prefixes of special symbols, which stay.
const SPECIAL: [&str; 5] = [
    "non-virtual thunk to ",
    "virtual thunk to ",
    "guard variable for ",
    "covariant return thunk to ",
    "TLS init function for ",
];

/// The short form of a demangled name.
pub fn short(name: &str) -> String {
    let (special, name) = SPECIAL
        .iter()
        .find_map(|prefix| Some((*prefix, name.strip_prefix(prefix)?)))
        .unwrap_or(("", name));
    let (name, clone) = match name.find(" [clone") {
        Some(at) => name.split_at(at),
        None => (name, ""),
    };
    let name = without_hash(name);
    if !name.contains(['<', '(', '{']) {
        return format!("{special}{name}{clone}");
    }
    let simple = simple(name, true).replace("std::__cxx11::", "std::");
    let simple = with_typedefs(without_return_type(&simple));
    let simple = match simple.chars().count() > LONGEST {
        true => without_arguments(&simple),
        false => simple,
    };
    format!("{special}{simple}{clone}")
}

/// Without the `::h` and 16 hexadecimal digits at the end of a Rust symbol.
fn without_hash(name: &str) -> &str {
    let is_hash = |hash: &str| hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit());
    match name.rsplit_once("::h") {
        Some((rest, hash)) if is_hash(hash) => rest,
        _ => name,
    }
}

/// Length of the bracketed piece at the beginning of `text`, brackets included.
fn bracketed(text: &str) -> Option<usize> {
    let mut open: Vec<char> = Vec::new();
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        match c {
            '<' => open.push('>'),
            '(' => open.push(')'),
            '{' => open.push('}'),
            '[' => open.push(']'),
            '>' if before == '-' => {}
            '>' | ')' | '}' | ']' => {
                // An operator's `<` has no partner.
                while open.last().is_some_and(|&last| last != c && last == '>') {
                    open.pop();
                }
                if open.pop() != Some(c) {
                    return None;
                }
                if open.is_empty() {
                    return Some(at + c.len_utf8());
                }
            }
            _ => {}
        }
        before = c;
    }
    None
}

/// Length of `operator` with its symbol at the beginning of `text`.
fn operator(text: &str) -> Option<usize> {
    let symbol = text.strip_prefix("operator")?;
    let word = "operator".len();
    if symbol.starts_with("()") || symbol.starts_with("[]") {
        return Some(word + 2);
    }
    let is_symbol = |c: char| "<>=!+-*/%^&|~,".contains(c);
    let length = symbol.find(|c| !is_symbol(c)).unwrap_or(symbol.len());
    (length > 0).then_some(word + length)
}

/// Whether a word may begin behind `before`.
fn begins_word(before: &str) -> bool {
    !before.ends_with(|c: char| c.is_alphanumeric() || c == '_')
}

/// Copies an operator's name to `out`, if `rest` begins with one; gives its length.
fn copied_operator(rest: &str, out: &mut String) -> Option<usize> {
    let length = operator(rest).filter(|_| begins_word(out))?;
    out.push_str(&rest[..length]);
    Some(length)
}

/// A name without parameters, if it is no template's argument, and without what its template
/// arguments have by default.
fn simple(name: &str, is_outermost: bool) -> String {
    let mut out = String::with_capacity(name.len());
    let mut at = 0;
    while let Some(c) = name[at..].chars().next() {
        let rest = &name[at..];
        if let Some(length) = copied_operator(rest, &mut out) {
            at += length;
            continue;
        }
        let length = match c {
            '<' | '(' | '{' => bracketed(rest),
            _ => None,
        };
        let Some(length) = length else {
            out.push(c);
            at += c.len_utf8();
            continue;
        };
        let inner = &rest[1..length - 1];
        let after = &rest[length..];
        match c {
            '<' => out.push_str(&arguments(inner)),
            '{' => {
                let inner = simple(inner, true);
                out.push_str(&format!("{{{inner}}}"));
            }
            _ if is_outermost && is_parameters(inner, after) => {}
            _ => out.push_str(&rest[..length]),
        }
        at += length;
    }
    out
}

/// Whether a parenthesis holds parameters: not `(anonymous namespace)`, and not Go's `(*T)`.
fn is_parameters(inner: &str, after: &str) -> bool {
    inner != "anonymous namespace" && !inner.starts_with('*') && !after.starts_with('.')
}

/// Template arguments in their brackets, without those that are the default.
fn arguments(inner: &str) -> String {
    let mut arguments: Vec<String> = Vec::new();
    for argument in split(inner) {
        let argument = argument.trim();
        let is_default = DEFAULTED.iter().any(|start| argument.starts_with(start));
        if arguments.is_empty() || !is_default {
            arguments.push(simple(argument, false));
        }
    }
    format!("<{}>", arguments.join(", "))
}

/// The pieces between the commas that are in no bracket.
fn split(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let (mut start, mut at) = (0, 0);
    while let Some(c) = text[at..].chars().next() {
        if c == ',' {
            pieces.push(&text[start..at]);
            start = at + 1;
        }
        let length = match c {
            '<' | '(' | '{' | '[' => bracketed(&text[at..]),
            _ => None,
        };
        at += length.unwrap_or(c.len_utf8());
    }
    pieces.push(&text[start..]);
    pieces
}

/// A function's name without the type before it and the qualifiers behind its parameters.
fn without_return_type(name: &str) -> &str {
    let name = name.trim_end_matches(" const").trim_end_matches([' ', '&']);
    let (mut at, mut start) = (0, 0);
    while let Some(c) = name[at..].chars().next() {
        let rest = &name[at..];
        match operator(rest).filter(|_| begins_word(&name[..at])) {
            Some(length) => {
                at += length + usize::from(rest[length..].starts_with(" <"));
                continue;
            }
            // A conversion: the type behind it is the name.
            None if rest.starts_with("operator ") => break,
            None => {}
        }
        if c == ' ' {
            start = at + 1;
        }
        let length = match c {
            '<' | '(' | '{' | '[' => bracketed(rest),
            _ => None,
        };
        at += length.unwrap_or(c.len_utf8());
    }
    &name[start..]
}

fn with_typedefs(name: &str) -> String {
    let mut name = name.to_owned();
    for (long, typedef) in TYPEDEFS {
        name = name.replace(long, typedef);
    }
    name
}

/// The name with `<...>` for all template arguments; a Rust type in front keeps its brackets.
fn without_arguments(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut at = 0;
    while let Some(c) = name[at..].chars().next() {
        let rest = &name[at..];
        if let Some(length) = copied_operator(rest, &mut out) {
            at += length;
            continue;
        }
        let length = match c {
            '<' => bracketed(rest),
            _ => None,
        };
        match length {
            Some(length) if out.is_empty() => {
                let inner = without_arguments(&rest[1..length - 1]);
                out.push_str(&format!("<{inner}>"));
                at += length;
            }
            Some(length) => {
                out.push_str(if length > 5 { "<...>" } else { &rest[..length] });
                at += length;
            }
            None => {
                out.push(c);
                at += c.len_utf8();
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn names_as_people_write_them() {
        let string =
            "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >";
        let cases = [
            ("main", "main"),
            ("operator new(unsigned long)", "operator new"),
            ("operator delete(void*, unsigned long)", "operator delete"),
            ("foo(int, char const*) const", "foo"),
            (
                "(anonymous namespace)::foo(int)",
                "(anonymous namespace)::foo",
            ),
            (
                "std::ostream& std::operator<< <std::char_traits<char> >(std::ostream&, char const*)",
                "std::operator<< <std::char_traits<char>>",
            ),
            (
                "foo(int)::{lambda(int)#1}::operator()(int) const",
                "foo::{lambda#1}::operator()",
            ),
            ("Foo::operator bool() const", "Foo::operator bool"),
            ("void sort<int*, std::less<int> >(int*, int*)", "sort<int*>"),
            (
                "std::vector<int, std::allocator<int> >::push_back(int const&)",
                "std::vector<int>::push_back",
            ),
            (
                "bool operator< <int>(A<int> const&, A<int> const&)",
                "operator< <int>",
            ),
            ("A<int>::operator->()", "A<int>::operator->"),
            ("main.(*T).Method", "main.(*T).Method"),
            (
                "core::ptr::drop_in_place<alloc::string::String>::h0123456789abcdef",
                "core::ptr::drop_in_place<String>",
            ),
            (
                "<alloc::vec::Vec<T> as core::iter::Iterator>::next",
                "<alloc::vec::Vec<T> as core::iter::Iterator>::next",
            ),
            (
                "std::rt::lang_start::{{closure}}",
                "std::rt::lang_start::{{closure}}",
            ),
            ("foo(int) [clone .cold]", "foo [clone .cold]"),
            (
                "non-virtual thunk to A::f(int)",
                "non-virtual thunk to A::f",
            ),
            ("operator<", "operator<"),
        ];
        for (long, expected) in cases {
            assert_eq!(short(long), expected, "{long}");
        }
        let replace = format!(
            "{string}::_M_replace(unsigned long, unsigned long, char const*, unsigned long)"
        );
        assert_eq!(short(&replace), "std::string::_M_replace");
        let map = format!(
            "std::map<{string}, std::vector<int, std::allocator<int> >, std::less<{string} >, \
             std::allocator<std::pair<{string} const, std::vector<int, std::allocator<int> > > > >::operator[]({string}&&)"
        );
        assert_eq!(short(&map), "std::map<...>::operator[]");
    }

    /// Any text has a short form, also one whose brackets do not match.
    #[test]
    fn no_text_is_refused() {
        const PIECES: [&str; 16] = [
            "operator",
            "<",
            ">",
            "(",
            ")",
            "{",
            "}",
            "[",
            "]",
            ", ",
            "->",
            "é",
            "a::",
            "(*T)",
            "std::allocator<",
            " const",
        ];
        let mut state = 1u64;
        for _ in 0..20_000 {
            let mut name = String::new();
            while !state.is_multiple_of(13) {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                name.push_str(PIECES[(state >> 60) as usize]);
            }
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            assert!(short(&name).len() <= name.len(), "{name}: {}", short(&name));
        }
    }
}
