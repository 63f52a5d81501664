//! Marks of loops in source files.
//!
//! | language | mark |
//! |---|---|
//! | C, C++ | `#pragma everypath loop(NAME)`, `// everypath: loop NAME`, `/* everypath: loop NAME */` |
//! | Rust | `// everypath: loop NAME` |
//! | Fortran | `!everypath: loop NAME`, `!$everypath loop(NAME)` |
//!
//! Approach: a mark stands before a loop, or behind its first words on the same line. The source is read as far as to know the
//! lines of the loop and of its condition. Which code they became is the matter of [`super::meant`].
//!
//! Invariant: nothing is guessed. What stands between a mark and a loop is no other statement, and a line with several loops that are
//! not within each other is said to be that.

use std::path::Path;

/// A mark, and the loop that it stands before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    pub name: String,
    /// Line of the mark; lines begin at 1.
    pub line: u32,
    pub follows: Result<Source, Nothing>,
}

/// Lines of a loop in a source file: the first one, which has its keyword, and the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    pub first: u32,
    pub last: u32,
    /// First and last line of its condition; `None`: it has none.
    pub condition: Option<(u32, u32)>,
}

/// A reason why a mark means no loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nothing {
    /// No loop follows it in the source.
    NoLoop,
    /// Several loops that are not within each other begin on this line.
    Several(u32),
    /// No code is of the loop's lines.
    NoCode,
    /// Code of its lines is no loop.
    NotALoop,
    /// Code of its lines is in a loop that has other lines as well.
    Unclear,
}

/// Languages whose loops are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Language {
    C,
    Rust,
    Fortran,
}

impl Language {
    fn of(file: &str) -> Option<Language> {
        let name = Path::new(file).extension()?.to_str()?;
        Some(match name.to_ascii_lowercase().as_str() {
            "c" | "h" | "cc" | "cpp" | "cxx" | "hh" | "hpp" | "hxx" | "c++" | "inc" | "inl" => {
                Language::C
            }
            "rs" => Language::Rust,
            "f" | "for" | "f77" | "f90" | "f95" | "f03" | "f08" | "f18" => Language::Fortran,
            _ => return None,
        })
    }

    fn keywords(self) -> &'static [&'static str] {
        match self {
            Language::C => &["for", "while", "do"],
            Language::Rust => &["for", "while", "loop"],
            Language::Fortran => &["do"],
        }
    }

    /// Beginnings of comments and pragmas that may be marks.
    fn openings(self) -> &'static [&'static str] {
        match self {
            Language::C => &["#pragma", "#", "//", "/*"],
            Language::Rust => &["//"],
            Language::Fortran => &["!$", "!"],
        }
    }
}

/// Marks of a source file; those of languages that are not known are none.
pub fn of(file: &str, text: &[String]) -> Vec<Mark> {
    let Some(language) = Language::of(file) else {
        return Vec::new();
    };
    let named = |line: &String| name_in(language, line);
    if !text.iter().any(|line| named(line).is_some()) {
        return Vec::new();
    }
    let words = words(language, text);
    let marks = (1..).zip(text);
    let marks = marks.filter_map(|(line, own)| {
        let name = named(own)?;
        Some(Mark {
            name,
            line,
            follows: loop_behind(language, &words, line),
        })
    });
    marks.collect()
}

/// The name that a line gives a loop.
fn name_in(language: Language, line: &str) -> Option<String> {
    let at = line.find("everypath")?;
    let before = line[..at].trim_end();
    let is_mark = |opening: &&str| before.to_ascii_lowercase().ends_with(opening);
    language.openings().iter().copied().find(is_mark)?;
    let rest = line[at + "everypath".len()..].trim_start();
    let rest = rest.strip_prefix(':').unwrap_or(rest).trim_start();
    let rest = rest.strip_prefix("loop")?;
    let is_apart = rest.starts_with([' ', '\t', '(']);
    let rest = rest.trim_start().trim_start_matches('(').trim_start();
    let is_name = |c: &char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    let name: String = rest.chars().take_while(is_name).collect();
    (is_apart && !name.is_empty()).then_some(name)
}

/// A word or a sign of a source file, without comments, strings and characters.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Word {
    line: u32,
    text: String,
}

/// Words of a source file.
fn words(language: Language, text: &[String]) -> Vec<Word> {
    let mut words = Vec::new();
    let mut in_comment = false;
    for (line, own) in (1..).zip(text) {
        let own = own.trim_end_matches('\r');
        if language == Language::C && own.trim_start().starts_with('#') && !in_comment {
            continue;
        }
        let mut rest = own;
        while let Some(first) = rest.chars().next() {
            let length = match language {
                _ if in_comment => match rest.find("*/") {
                    Some(end) => {
                        in_comment = false;
                        end + 2
                    }
                    None => rest.len(),
                },
                Language::Fortran if first == '!' => break,
                Language::C | Language::Rust if rest.starts_with("//") => break,
                Language::C | Language::Rust if rest.starts_with("/*") => {
                    in_comment = true;
                    2
                }
                _ if first == '"' => quoted(rest, '"'),
                // Lifetimes and labels of Rust are no characters.
                Language::Rust if first == '\'' => {
                    let is_character =
                        rest[1..].starts_with('\\') || rest.chars().nth(2) == Some('\'');
                    if is_character { quoted(rest, '\'') } else { 1 }
                }
                _ if first == '\'' => quoted(rest, '\''),
                _ if first.is_alphabetic() || first == '_' => {
                    let is_part = |c: char| c.is_alphanumeric() || c == '_';
                    let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
                    let mut text = rest[..end].to_owned();
                    if language == Language::Fortran {
                        text.make_ascii_lowercase();
                    }
                    words.push(Word { line, text });
                    end
                }
                _ if first.is_whitespace() => first.len_utf8(),
                _ => {
                    words.push(Word {
                        line,
                        text: first.to_string(),
                    });
                    first.len_utf8()
                }
            };
            rest = &rest[length..];
        }
    }
    words
}

/// Bytes of a string or character at the beginning of a text.
fn quoted(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            _ if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

/// The loop on the line of a mark, or the next one behind it.
fn loop_behind(language: Language, words: &[Word], mark: u32) -> Result<Source, Nothing> {
    let is_keyword = |word: &Word| language.keywords().contains(&&*word.text);
    let first = words.partition_point(|word| word.line < mark);
    // Before the loop there may be its label and attributes, and no other statement.
    let at = words[first..].iter().position(is_keyword);
    let at = at.ok_or(Nothing::NoLoop)? + first;
    let between = &words[first..at];
    if between
        .iter()
        .any(|word| matches!(&*word.text, ";" | "{" | "}"))
    {
        return Err(Nothing::NoLoop);
    }
    let line = words[at].line;
    let end = end_of(language, words, at);
    let last = words
        .get(end.saturating_sub(1))
        .map_or(line, |word| word.line);
    // One that begins on the same line, behind its end.
    let behind = words[end.min(words.len())..].iter();
    let mut behind = behind.take_while(|word| word.line == line);
    if behind.any(is_keyword) {
        return Err(Nothing::Several(line));
    }
    let keyword = &*words[at].text;
    let line_of = |at: usize| words.get(at).map_or(last, |word| word.line);
    let condition = match (language, keyword) {
        (Language::Rust, "loop") => None,
        (Language::Rust, _) => {
            let body = (at..end).find(|&at| words[at].text == "{");
            Some((line, body.map_or(line, line_of)))
        }
        (Language::C, "do") => {
            let condition = (at..end).rev().find(|&at| words[at].text == "while");
            Some((condition.map_or(last, line_of), last))
        }
        (Language::C, _) => {
            let behind = closed(words, at + 1);
            let condition = words.get(at + 2..behind.saturating_sub(1));
            let is_there = !is_endless(condition.unwrap_or_default());
            is_there.then(|| (line, line_of(behind - 1)))
        }
        (Language::Fortran, _) => Some((line, line)),
    };
    Ok(Source {
        first: line,
        last,
        condition,
    })
}

/// Whether what stands in the brackets of a `while` or `for` of C is no condition: `1`, `true`, `;;`.
fn is_endless(words: &[Word]) -> bool {
    let texts: Vec<&str> = words.iter().map(|word| &*word.text).collect();
    match texts[..] {
        [one] => one == "1" || one.eq_ignore_ascii_case("true"),
        _ => {
            let mut parts = texts.split(|text| *text == ";");
            texts.contains(&";") && parts.nth(1).is_some_and(|condition| condition.is_empty())
        }
    }
}

/// The index behind the last word of the statement that begins with a word.
fn end_of(language: Language, words: &[Word], at: usize) -> usize {
    match language {
        Language::Fortran => end_of_fortran(words, at),
        Language::Rust => {
            let mut depth = 0;
            let mut next = at + 1;
            while let Some(word) = words.get(next) {
                match &*word.text {
                    "(" | "[" => depth += 1,
                    ")" | "]" => depth -= 1,
                    "{" if depth == 0 => return closed(words, next),
                    "{" => next = closed(words, next) - 1,
                    _ => {}
                }
                next += 1;
            }
            next
        }
        Language::C => end_of_c(words, at),
    }
}

/// The index behind a statement of C.
fn end_of_c(words: &[Word], at: usize) -> usize {
    let text = |at: usize| words.get(at).map(|word| &*word.text);
    let mut next = at;
    // Conditions before a body: of loops and branches without braces.
    loop {
        match text(next) {
            Some("for" | "while" | "if" | "switch") => {
                let condition = (next + 1..words.len()).find(|&at| text(at) == Some("("));
                let Some(condition) = condition else {
                    return words.len();
                };
                next = closed(words, condition);
            }
            Some("do") => {
                let body = end_of_c(words, next + 1);
                // `while (...);`
                return (body..words.len())
                    .find(|&at| text(at) == Some(";"))
                    .map_or(words.len(), |end| end + 1);
            }
            Some("else") => next += 1,
            Some("{") => {
                let end = closed(words, next);
                return match text(end) {
                    Some("else") => end_of_c(words, end),
                    _ => end,
                };
            }
            _ => {
                let end = (next..words.len()).find(|&at| text(at) == Some(";"));
                let end = end.map_or(words.len(), |end| end + 1);
                return match text(end) {
                    Some("else") => end_of_c(words, end),
                    _ => end,
                };
            }
        }
    }
}

/// The index behind the bracket that closes the one at a place.
fn closed(words: &[Word], at: usize) -> usize {
    let mut depth = 0;
    for (place, word) in words.iter().enumerate().skip(at) {
        match &*word.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth <= 0 {
            return place + 1;
        }
    }
    words.len()
}

/// The index behind the `end do` of a `do`.
fn end_of_fortran(words: &[Word], at: usize) -> usize {
    let mut depth = 0;
    let mut next = at;
    while let Some(word) = words.get(next) {
        let follows = words.get(next + 1).map(|word| &*word.text);
        match &*word.text {
            "enddo" => depth -= 1,
            "end" if follows == Some("do") => {
                depth -= 1;
                next += 1;
            }
            "do" => depth += 1,
            _ => {}
        }
        next += 1;
        if depth == 0 {
            break;
        }
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    type Lines = Result<(u32, u32), Nothing>;

    fn marks(file: &str, text: &str) -> Vec<(String, Lines)> {
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let marks = of(file, &lines).into_iter();
        let marks = marks.map(|mark| {
            let lines = mark.follows.map(|source| (source.first, source.last));
            (mark.name, lines)
        });
        marks.collect()
    }

    #[test]
    fn marks_stand_before_loops() {
        let text = "int f(void) {\n\
            #pragma everypath loop(outer)\n\
            for (int i = 0; i < 9; i++) // everypath: loop same-line\n\
                for (int j = 0; j < 9; j++)\n\
                    if (a[i] == \"{\"[0]) g(); else { h(); }\n\
            /* everypath: loop third */\n\
            do { x(); } while (\n\
              y);\n\
            // everypath: loop none\n\
            return 0; }\n";
        let expected = [
            ("outer", Ok((3, 5))),
            ("same-line", Ok((3, 5))),
            ("third", Ok((7, 8))),
            ("none", Err(Nothing::NoLoop)),
        ];
        let expected = expected.map(|(name, lines)| (name.to_owned(), lines));
        assert_eq!(marks("a.c", text), expected);
        let text = "fn f() {\n // everypath: loop rows\n 'a: for x in (0..9).map(|x| { x }) {\n let c = '{'; }\n}\n";
        assert_eq!(marks("a.rs", text), [("rows".to_owned(), Ok((3, 4)))]);
        let text = "!everypath: loop Sweep\n DO i = 1, 9\n do j = 1, 9\n end do\n EndDo\n x = 1\n";
        assert_eq!(marks("a.f90", text), [("Sweep".to_owned(), Ok((2, 5)))]);
    }

    #[test]
    fn odd_marks_mean_nothing() {
        let text = "// everypath: loops a\n// everypath loop\nchar *s = \"// everypath: loop b\";\nfor (;;) {}\n";
        let expected = [("b".to_owned(), Err(Nothing::NoLoop))];
        assert_eq!(marks("a.c", text), expected);
        let text = "// everypath: loop a\nfor (;;) {} for (;;) {}\n";
        let expected = [("a".to_owned(), Err(Nothing::Several(2)))];
        assert_eq!(marks("a.c", text), expected);
        assert_eq!(marks("a.py", text), []);
    }
}
