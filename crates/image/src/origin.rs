//! Language and linker that made a file, as far as it shows.
//!
//! | language | told by |
//! |---|---|
//! | Go | a section `.gopclntab` or `.note.go.buildid` |
//! | Mono | `mono_aot_file_info` in a library |
//! | Rust | `rustc` in `.comment`, or the path of its library in messages |
//! | C++ | `libstdc++` or `libc++` among the libraries, or the personality of its exceptions |
//! | C | none of these |
//!
//! Limits: a C program that links one object of C++ is shown as C++, assembly as C.

use std::fmt;

use object::LittleEndian as LE;
use object::read::elf::SectionHeader;

use crate::elf::Elf;
use crate::image::Image;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Language {
    C,
    Cpp,
    Rust,
    Go,
    /// Code that Mono made ahead of time.
    Mono,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Linker {
    /// The GNU project's, or one that leaves no mark.
    Bfd,
    Lld,
    Gold,
    /// The Go toolchain's own.
    Go,
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Language::C => "C",
            Language::Cpp => "C++",
            Language::Rust => "Rust",
            Language::Go => "Go",
            Language::Mono => "Mono",
        })
    }
}

impl fmt::Display for Linker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Linker::Bfd => "GNU ld",
            Linker::Lld => "LLD",
            Linker::Gold => "gold",
            Linker::Go => "Go's linker",
        })
    }
}

impl Image {
    /// Language and linker of the file, which was opened whole.
    pub fn origin(&self) -> (Language, Linker) {
        let Ok(elf) = Elf::parse(self.bytes()) else {
            return (Language::C, Linker::Bfd);
        };
        let has = |name: &[u8]| elf.section(name).is_some();
        let comment = elf.section(b".comment");
        let comment = comment.and_then(|section| section.data(LE, self.bytes()).ok());
        let comment = comment.unwrap_or_default();
        let says = |text: &[u8]| memchr::memmem::find(comment, text).is_some();
        let contains = |text: &[u8]| memchr::memmem::find(self.bytes(), text).is_some();
        let is_cpp = |name: &String| name.starts_with("libstdc++") || name.starts_with("libc++");
        let language = if has(b".gopclntab") || has(b".note.go.buildid") {
            Language::Go
        } else if contains(b"mono_aot_file_info") && !contains(b"__libc_start_main") {
            Language::Mono
        } else if says(b"rustc") || contains(b"/rustc/") {
            Language::Rust
        } else if self.needed().iter().any(is_cpp) || contains(b"__gxx_personality_v0") {
            Language::Cpp
        } else {
            Language::C
        };
        let linker = if language == Language::Go && self.needed().is_empty() {
            Linker::Go
        } else if says(b"LLD") {
            Linker::Lld
        } else if has(b".note.gnu.gold-version") {
            Linker::Gold
        } else {
            Linker::Bfd
        };
        (language, linker)
    }
}
