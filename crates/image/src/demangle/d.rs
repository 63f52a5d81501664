//! Names of the D language (`_D...`) as people write them.
//!
//! Problem: a D symbol holds the path of the function, with the arguments of templates, and its
//! type; parts that came before are named by their distance. No library reads that.
//!
//! Approach: the grammar of the [ABI](https://dlang.org/spec/abi.html#name_mangling), read from left
//! to right; the form is that of binutils (`c++filt --format=dlang`). Types of results are left out.
//!
//! Limits: values of templates other than integers, booleans, characters, strings and null, and
//! variadic tuples; a name with one of them stays as it is.

use std::fmt::Write;

/// Most nested parts of a name; a damaged one could lead to itself for ever.
const DEEPEST: u32 = 64;
/// Most parts that are read: each may name others twice.
const STEPS: u32 = 1 << 16;
/// Longest result, in bytes.
const LONGEST: usize = 16 << 10;

/// `None`: it is no D name, or one that is not understood.
pub(super) fn demangle(raw: &str, params: bool) -> Option<String> {
    if raw == "_Dmain" {
        return Some("D main".into());
    }
    raw.strip_prefix("_D")?;
    let mut reader = Reader::new(raw.as_bytes(), 2);
    reader.params = params;
    let name = reader.qualified(true)?;
    let is_symbol = reader.peek() == Some(b'Z') || reader.ty().is_some();
    let is_whole = reader.at == raw.len() || raw[reader.at..] == *"Z";
    (is_symbol && is_whole && name.len() <= LONGEST).then_some(name)
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    depth: u32,
    steps: u32,
    /// Parameters of the function itself are wanted.
    params: bool,
}

impl<'a> Reader<'a> {
    fn new(text: &'a [u8], at: usize) -> Reader<'a> {
        Reader {
            text,
            at,
            depth: 0,
            steps: 0,
            params: false,
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn eat(&mut self, what: &[u8]) -> bool {
        let is_there = self
            .text
            .get(self.at..)
            .is_some_and(|rest| rest.starts_with(what));
        if is_there {
            self.at += what.len();
        }
        is_there
    }

    /// Reads with `read`, and takes it back if that gives nothing.
    fn attempt<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let at = self.at;
        let read = read(self);
        if read.is_none() {
            self.at = at;
        }
        read
    }

    /// Reads one level deeper.
    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        if self.depth == DEEPEST || self.steps == STEPS {
            return None;
        }
        self.steps += 1;
        self.depth += 1;
        let read = read(self);
        self.depth -= 1;
        read
    }

    fn number(&mut self) -> Option<usize> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        std::str::from_utf8(&self.text[start..self.at])
            .ok()?
            .parse()
            .ok()
    }

    /// A distance back from its `Q`, in base 26; the last digit is a small letter. The place.
    fn back(&mut self) -> Option<usize> {
        let from = self.at;
        if self.next()? != b'Q' {
            return None;
        }
        let mut distance = 0usize;
        loop {
            let (digit, is_last) = match self.next()? {
                byte @ b'A'..=b'Z' => (byte - b'A', false),
                byte @ b'a'..=b'z' => (byte - b'a', true),
                _ => return None,
            };
            distance = distance.checked_mul(26)?.checked_add(usize::from(digit))?;
            if is_last {
                return from.checked_sub(distance).filter(|_| distance > 0);
            }
        }
    }

    /// Reads at a place before with `read`, and goes on behind the distance.
    fn at_back<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let place = self.back()?;
        let behind = std::mem::replace(&mut self.at, place);
        let read = self.nested(read);
        self.at = behind;
        read
    }

    /// Names with dots between them, and the parameters of the functions that they are in; of the
    /// last one if it is the symbol itself.
    fn qualified(&mut self, is_symbol: bool) -> Option<String> {
        let mut name = String::new();
        while self.is_name() {
            if !name.is_empty() {
                name.push('.');
            }
            name.push_str(&self.nested(Self::symbol)?);
            let inside = self.attempt(Self::parameters);
            let Some((parameters, modifiers)) = inside else {
                continue;
            };
            let is_last = !self.is_name();
            if self.params && (is_symbol || !is_last) {
                write!(name, "({parameters})").ok()?;
            }
            if self.params && is_symbol {
                name.push_str(&modifiers);
            }
            if name.len() > LONGEST {
                return None;
            }
            if is_last {
                // The result's type follows, of which nothing is said.
                break;
            }
        }
        (!name.is_empty()).then_some(name)
    }

    fn is_name(&self) -> bool {
        match self.peek() {
            Some(b'0'..=b'9') => true,
            Some(b'_') => {
                let rest = &self.text[self.at..];
                rest.starts_with(b"__T") || rest.starts_with(b"__U")
            }
            Some(b'Q') => {
                // Names are digits, types are letters.
                let mut ahead = Reader::new(self.text, self.at);
                let place = ahead.back();
                place.is_some_and(|at| self.text[at].is_ascii_digit())
            }
            _ => false,
        }
    }

    fn symbol(&mut self) -> Option<String> {
        if self.peek() == Some(b'Q') {
            return self.at_back(Self::symbol);
        }
        if self.eat(b"__T") || self.eat(b"__U") {
            return self.template();
        }
        let len = self.number()?;
        if len == 0 {
            return Some("__anonymous".into());
        }
        let end = self.at.checked_add(len)?;
        let text = self.text.get(self.at..end)?;
        if text.starts_with(b"__T") || text.starts_with(b"__U") {
            let template = self.attempt(|reader| {
                reader.at += 3;
                reader.template().filter(|_| reader.at == end)
            });
            if template.is_some() {
                return template;
            }
        }
        self.at = end;
        if text == b"__postblit" && self.eat(b"MFZ") {
            return Some("this(this)".into());
        }
        let text = std::str::from_utf8(text).ok()?;
        Some(match text {
            "__ctor" => "this".into(),
            "__dtor" => "~this".into(),
            _ => text.to_owned(),
        })
    }

    fn template(&mut self) -> Option<String> {
        let mut name = self.nested(Self::symbol)?;
        name.push_str("!(");
        let mut is_first = true;
        while !self.eat(b"Z") {
            if !std::mem::take(&mut is_first) {
                name.push_str(", ");
            }
            self.eat(b"H");
            let argument = match self.next()? {
                b'T' => self.ty()?,
                b'S' => self.alias()?,
                b'V' => self.value()?,
                b'X' => self.foreign()?,
                _ => return None,
            };
            name.push_str(&argument);
            if name.len() > LONGEST {
                return None;
            }
        }
        name.push(')');
        Some(name)
    }

    /// A symbol as an argument: a name, or a whole mangled one.
    fn alias(&mut self) -> Option<String> {
        if self.eat(b"_D") {
            let name = self.nested(|reader| reader.qualified(true))?;
            if !self.eat(b"Z") {
                self.ty()?;
            }
            return Some(name);
        }
        self.nested(|reader| reader.qualified(false))
    }

    /// A name of another language's.
    fn foreign(&mut self) -> Option<String> {
        let len = self.number()?;
        let end = self.at.checked_add(len)?;
        let text = self.text.get(self.at..end)?;
        self.at = end;
        std::str::from_utf8(text).ok().map(str::to_owned)
    }

    fn value(&mut self) -> Option<String> {
        let kind = match self.peek()? {
            // A type that came before.
            b'Q' => {
                let mut ahead = Reader::new(self.text, self.at);
                self.text[ahead.back()?]
            }
            kind => kind,
        };
        self.ty()?;
        match self.peek()? {
            b'n' => {
                self.at += 1;
                Some("null".into())
            }
            b'a' | b'w' | b'd' => self.text_value(),
            sign @ (b'N' | b'i' | b'0'..=b'9') => {
                self.at += usize::from(!sign.is_ascii_digit());
                let value = self.number()?;
                let minus = if sign == b'N' { "-" } else { "" };
                Some(match kind {
                    b'b' => (value != 0).to_string(),
                    b'a' | b'u' | b'w' => match u8::try_from(value) {
                        Ok(byte @ 0x20..0x7f) => format!("'{}'", byte as char),
                        Ok(byte) => format!("'\\x{byte:02x}'"),
                        Err(_) => return None,
                    },
                    b'k' | b'h' | b't' => format!("{minus}{value}u"),
                    b'l' => format!("{minus}{value}L"),
                    b'm' => format!("{minus}{value}uL"),
                    _ => format!("{minus}{value}"),
                })
            }
            _ => None,
        }
    }

    /// A string: its kind, length, and its bytes in base 16.
    fn text_value(&mut self) -> Option<String> {
        let kind = self.next()?;
        let len = self.number()?;
        if !self.eat(b"_") {
            return None;
        }
        let mut text = String::from("\"");
        for _ in 0..len {
            let pair = self.text.get(self.at..self.at + 2)?;
            self.at += 2;
            let byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
            match byte {
                b'\t' => text.push_str("\\t"),
                b'\n' => text.push_str("\\n"),
                b'\r' => text.push_str("\\r"),
                0x0c => text.push_str("\\f"),
                0x0b => text.push_str("\\v"),
                0x20..0x7f => text.push(byte as char),
                _ => write!(text, "\\x{byte:02x}").ok()?,
            }
        }
        text.push('"');
        if kind != b'a' {
            text.push(kind as char);
        }
        Some(text)
    }

    /// Parameters of a function without its result, and what is said of its object.
    fn parameters(&mut self) -> Option<(String, String)> {
        let mut modifiers = String::new();
        if self.eat(b"M") {
            loop {
                let modifier = match self.peek()? {
                    b'x' => " const",
                    b'y' => " immutable",
                    b'O' => " shared",
                    b'N' if self.text.get(self.at + 1) == Some(&b'g') => {
                        self.at += 1;
                        " inout"
                    }
                    _ => break,
                };
                self.at += 1;
                modifiers.push_str(modifier);
            }
        }
        let (_, _, list) = self.function()?;
        Some((list, modifiers))
    }

    /// Convention, attributes and parameters of a function's type, up to its result.
    fn function(&mut self) -> Option<(&'static str, String, String)> {
        let convention = match self.next()? {
            b'F' => "",
            b'U' => "extern(C) ",
            b'W' => "extern(Windows) ",
            b'V' => "extern(Pascal) ",
            b'R' => "extern(C++) ",
            b'Y' => "extern(Objective-C) ",
            _ => return None,
        };
        let attributes = self.attributes()?;
        let mut list = String::new();
        loop {
            match self.peek()? {
                b'Z' => break,
                b'X' => {
                    list.push_str("...");
                    break;
                }
                b'Y' => {
                    list.push_str(if list.is_empty() { "..." } else { ", ..." });
                    break;
                }
                _ => {}
            }
            if !list.is_empty() {
                list.push_str(", ");
            }
            self.storage(&mut list);
            list.push_str(&self.ty()?);
            if list.len() > LONGEST {
                return None;
            }
        }
        self.at += 1;
        Some((convention, attributes, list))
    }

    fn attributes(&mut self) -> Option<String> {
        let mut attributes = String::new();
        while self.peek() == Some(b'N') {
            let attribute = match self.text.get(self.at + 1)? {
                b'a' => "pure ",
                b'b' => "nothrow ",
                b'c' => "ref ",
                b'd' => "@property ",
                b'e' => "@trusted ",
                b'f' => "@safe ",
                b'i' => "@nogc ",
                b'j' => "return ",
                b'l' => "scope ",
                b'm' => "@live ",
                // Of the first parameter.
                _ => break,
            };
            self.at += 2;
            attributes.push_str(attribute);
        }
        Some(attributes)
    }

    /// Adds what is said of a parameter before its type.
    fn storage(&mut self, list: &mut String) {
        for _ in 0..2 {
            if self.eat(b"M") {
                list.push_str("scope ");
            } else if self.eat(b"Nk") {
                list.push_str("return ");
            }
        }
        for (code, word) in [
            (b'I', "in "),
            (b'J', "out "),
            (b'K', "ref "),
            (b'L', "lazy "),
        ] {
            if self.eat(&[code]) {
                list.push_str(word);
                if code == b'I' && self.eat(b"K") {
                    list.push_str("ref ");
                }
                break;
            }
        }
    }

    fn ty(&mut self) -> Option<String> {
        self.nested(Self::ty_here)
    }

    fn ty_here(&mut self) -> Option<String> {
        let around = |word: &str, inner: Option<String>| Some(format!("{word}({})", inner?));
        match self.peek()? {
            b'Q' => return self.at_back(Self::ty_here),
            b'F' | b'U' | b'W' | b'V' | b'R' | b'Y' => return self.function_type(""),
            _ => {}
        }
        match self.next()? {
            b'x' => around("const", self.ty()),
            b'y' => around("immutable", self.ty()),
            b'O' => around("shared", self.ty()),
            b'N' => match self.next()? {
                b'g' => around("inout", self.ty()),
                b'h' => around("__vector", self.ty()),
                b'n' => Some("noreturn".into()),
                _ => None,
            },
            b'A' => Some(self.ty()? + "[]"),
            b'G' => {
                let len = self.number()?;
                Some(format!("{}[{len}]", self.ty()?))
            }
            b'H' => {
                let key = self.ty()?;
                Some(format!("{}[{key}]", self.ty()?))
            }
            b'P' => match self.peek()? {
                b'F' | b'U' | b'W' | b'V' | b'R' | b'Y' => self.function_type("function"),
                _ => Some(self.ty()? + "*"),
            },
            b'I' | b'C' | b'S' | b'E' | b'T' => self.qualified(false),
            b'D' => self.delegate(),
            b'z' => match self.next()? {
                b'i' => Some("cent".into()),
                b'k' => Some("ucent".into()),
                _ => None,
            },
            byte => basic(byte).map(str::to_owned),
        }
    }

    fn delegate(&mut self) -> Option<String> {
        let mut modifiers = String::new();
        loop {
            let modifier = match self.peek()? {
                b'x' => " const",
                b'y' => " immutable",
                b'O' => " shared",
                _ => break,
            };
            self.at += 1;
            modifiers.push_str(modifier);
        }
        let function = match self.peek()? {
            b'Q' => self.at_back(|reader| reader.function_type("delegate"))?,
            _ => self.function_type("delegate")?,
        };
        Some(function + &modifiers)
    }

    fn function_type(&mut self, word: &str) -> Option<String> {
        let (convention, attributes, list) = self.function()?;
        let result = self.ty()?;
        let words = format!("{attributes}{word}");
        let space = if words.is_empty() { "" } else { " " };
        Some(format!(
            "{convention}{result}({list}){space}{}",
            words.trim_end()
        ))
    }
}

fn basic(code: u8) -> Option<&'static str> {
    Some(match code {
        b'v' => "void",
        b'g' => "byte",
        b'h' => "ubyte",
        b's' => "short",
        b't' => "ushort",
        b'i' => "int",
        b'k' => "uint",
        b'l' => "long",
        b'm' => "ulong",
        b'f' => "float",
        b'd' => "double",
        b'e' => "real",
        b'o' => "ifloat",
        b'p' => "idouble",
        b'j' => "ireal",
        b'q' => "cfloat",
        b'r' => "cdouble",
        b'c' => "creal",
        b'b' => "bool",
        b'a' => "char",
        b'u' => "wchar",
        b'w' => "dchar",
        b'n' => "typeof(null)",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::demangle;

    /// Symbols of GCC's D library, and what `c++filt --format=dlang` of binutils 2.40 makes of them:
    /// of all 12,282, the same is made of those that it knows (11,309).
    const NAMES: &[(&str, &str)] = &[
        ("_D3foo3barFiZi", "foo.bar(int)"),
        (
            "_D3std5stdio__T7writelnTAyaZQnFNfQjZv",
            "std.stdio.writeln!(immutable(char)[]).writeln(immutable(char)[])",
        ),
        (
            "_D6object9Throwable8toStringMxFMDFIAaZvZv",
            "object.Throwable.toString(scope void(in char[]) delegate) const",
        ),
        (
            "_D2rt5minfo11ModuleGroup12sortCtorsOldMFAAiZ4sortMFKAPyS6object10ModuleInfokZb",
            "rt.minfo.ModuleGroup.sortCtorsOld(int[][]).sort(ref immutable(object.ModuleInfo)*[], uint)",
        ),
        (
            "_D3std11parallelism__T27__lazilyInitializedConstantTymVmN1S_DQChQCg17cacheLineSizeImplFNbNiNeZmZ\
             QCwFNaNbNdNiNfZym",
            "std.parallelism.__lazilyInitializedConstant!(immutable(ulong), -1uL, \
             std.parallelism.cacheLineSizeImpl()).__lazilyInitializedConstant()",
        ),
        (
            "_D3std6base64__T10Base64ImplVai45Vai95Vai0Z12decodeLengthFNaNbNfImZm",
            "std.base64.Base64Impl!('-', '_', '\\x00').decodeLength(in ulong)",
        ),
        (
            "_D2rt8lifetime__T14_d_newarrayOpTX12_d_newarrayTZQBgFNaNbxC8TypeInfoAmZAv",
            "rt.lifetime._d_newarrayOpT!(_d_newarrayT)._d_newarrayOpT(const(TypeInfo), ulong[])",
        ),
        (
            "_D3std5stdio17LockingTextReader10__postblitMFZv",
            "std.stdio.LockingTextReader.this(this)",
        ),
        ("_Dmain", "D main"),
    ];

    #[test]
    fn names_are_those_of_binutils() {
        for (raw, name) in NAMES {
            assert_eq!(demangle(raw, true).as_deref(), Some(*name));
        }
        let short = demangle(NAMES[1].0, false);
        let wanted = "std.stdio.writeln!(immutable(char)[]).writeln";
        assert_eq!(short.as_deref(), Some(wanted));
        for raw in ["_DYNAMIC", "_D", "_D3", "_D3foo", "_D3fooQaZ", "main"] {
            assert_eq!(demangle(raw, true), None, "{raw}");
        }
    }

    #[test]
    fn damaged_names_end() {
        for (raw, _) in NAMES {
            for at in 2..raw.len() {
                let _ = demangle(&raw[..at], true);
                for byte in ["Q", "a", "_", "9", "S", "F", "Z", "N", "M"] {
                    let changed = [&raw[..at], byte, &raw[at + 1..]].concat();
                    let _ = demangle(&changed, true);
                }
            }
        }
        // Each part names the one before it twice.
        let bomb = format!("_D1a{}Zv", "__T1bTQfTQhZ".repeat(2000));
        let _ = demangle(&bomb, true);
    }
}
