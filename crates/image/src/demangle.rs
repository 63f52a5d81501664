//! C++ (Itanium), Rust (legacy and v0) and D names as people write them.
//!
//! Limits: output longer than [`MAX_OUTPUT`] is given up, because a short
//! mangled name can stand for an exponentially long one; the raw name is then
//! shown. Return types of templates are left out: they are not part of how
//! anyone names a function.

use std::fmt;

use crate::ifuncs::RESOLVER;

mod d;

/// Longest demangled name.
const MAX_OUTPUT: usize = 64 << 10;
/// Longest raw name that is tried.
const MAX_INPUT: usize = 32 << 10;

/// Readable form with parameters (`ns::f(int)`); `None` for plain names.
pub fn demangle(raw: &str) -> Option<String> {
    readable(raw, true)
}

/// Readable form without parameters (`ns::f`); `None` for plain names.
pub fn demangle_short(raw: &str) -> Option<String> {
    readable(raw, false)
}

/// The name as people know it; as it is where it is not mangled.
pub fn demangled(raw: &str) -> String {
    demangle(raw).unwrap_or_else(|| raw.to_owned())
}

/// Whether [`demangle`] would try this name at all.
pub(crate) fn is_mangled(raw: &str) -> bool {
    ["_Z", "_R", "__Z", "_D"]
        .iter()
        .any(|start| raw.starts_with(start))
}

fn readable(raw: &str, params: bool) -> Option<String> {
    if !is_mangled(raw) || raw.len() > MAX_INPUT {
        return None;
    }
    if let Some(ifunc) = raw.strip_suffix(RESOLVER) {
        return readable(ifunc, params).map(|name| name + RESOLVER);
    }
    let mut out = Limited(String::new());
    if let Ok(rust) = rustc_demangle::try_demangle(raw) {
        // The alternate form leaves the crate hash out.
        fmt::write(&mut out, format_args!("{rust:#}")).ok()?;
        return Some(out.0);
    }
    let (mangled, clone) = split_clone(raw);
    if mangled.starts_with("_D") {
        out.0 = d::demangle(mangled, params)?;
    } else {
        let mut options = cpp_demangle::DemangleOptions::new().no_return_type();
        if !params {
            options = options.no_params();
        }
        cpp_demangle::BorrowedSymbol::new(mangled.as_bytes())
            .ok()?
            .structured_demangle(&mut out, &options)
            .ok()?;
    }
    if params {
        for suffix in clone {
            fmt::write(&mut out, format_args!(" [clone {suffix}]")).ok()?;
        }
    }
    Some(out.0)
}

/// Splits compiler suffixes (`.isra.0`, `.cold`, `.lto_priv.3.cold`) off.
///
/// A suffix is `.word` with the numbers that follow it, as binutils shows it.
fn split_clone(raw: &str) -> (&str, Vec<&str>) {
    let Some(dot) = raw.find('.') else {
        return (raw, Vec::new());
    };
    let (mangled, rest) = raw.split_at(dot);
    let mut suffixes = Vec::new();
    let mut start = 0;
    for (at, _) in rest.match_indices('.').skip(1) {
        let word_follows = !rest[at + 1..].starts_with(|c: char| c.is_ascii_digit());
        if word_follows {
            suffixes.push(&rest[start..at]);
            start = at;
        }
    }
    suffixes.push(&rest[start..]);
    (mangled, suffixes)
}

/// A string that refuses to grow past [`MAX_OUTPUT`].
struct Limited(String);

impl fmt::Write for Limited {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > MAX_OUTPUT {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{demangle, demangle_short};

    #[test]
    fn names_of_three_schemes_become_readable() {
        for (raw, full, short) in [
            ("_ZN2ns1fEi", "ns::f(int)", "ns::f"),
            ("_Z3maxIiET_S0_S0_", "max<int>(int, int)", "max<int>"),
            (
                "_ZL3foov.isra.0.cold",
                "foo() [clone .isra.0] [clone .cold]",
                "foo",
            ),
            ("_ZN3foo3bar17h05af221e174051e9E", "foo::bar", "foo::bar"),
            ("_RNvC7mycrate3foo", "mycrate::foo", "mycrate::foo"),
        ] {
            assert_eq!(demangle(raw).as_deref(), Some(full));
            assert_eq!(demangle_short(raw).as_deref(), Some(short));
        }
        assert_eq!(demangle("main"), None);
    }

    #[test]
    fn exploding_and_broken_names_are_given_up() {
        // Each substitution doubles the one before it.
        let mut bomb = String::from("_Z1fPFvP1aE");
        for _ in 0..200 {
            bomb.push_str("PFvS_S0_E");
        }
        let _ = demangle(&bomb);
        assert_eq!(demangle("_Z"), None);
        assert_eq!(demangle("_ZN"), None);
    }
}
