//! Facts of a binary file: segments, functions, names, lines, build ids.
//!
//! Everything here is read from bytes of one ELF64 x86-64 file (and from its
//! separate debug file, when the system has one). Nothing is executed, mapped
//! or decoded: the crate knows no process, and of instructions only a few forms of bytes, which `owners` and `ifuncs`
//! look for. It is the only
//! crate that knows `object`, `gimli` and the demanglers.
//!
//! Invariant: no input, however damaged, makes a function of this crate panic
//! or read outside the file. What cannot be read is left out; only a file that
//! cannot be executed at all is an error ([`Fault`]).
//!
//! | module | what |
//! |---|---|
//! | `addr` | the two address spaces of a file and the way between them |
//! | `elf` | headers and dynamic section, tolerant of missing section tables |
//! | `symbols` | symbol tables to evidence |
//! | `frames` | unwind tables to evidence |
//! | `generated` | code that runtimes made, as they tell profilers of it: perf's map, jitdump |
//! | `gopclntab` | functions and lines of stripped Go programs |
//! | `functions` | evidence to disjoint extents |
//! | `ifuncs` | names of functions that resolvers choose |
//! | `owners` | which function an out-of-line part belongs to |
//! | `select` | patterns over names |
//! | `demangle` | C++ and Rust names |
//! | `debug` | where the separate debug file is |
//! | `declarations` | where functions are declared |
//! | `lines` | DWARF line lookup |
//! | `origin` | language and linker that made it |
//! | `objects` | object files, read like shared libraries |
//! | `linker` | functions as the symbol table has them |
//! | `scopes` | DWARF functions and what was inlined into them |
//! | `unwind` | unwind tables by address, landing pads |
//! | `relocations` | words that become addresses |
//! | `sparse` | files without their code and constants |
//! | `lossy` | files whose recorded paths are no text |
//! | `cache` | one [`Image`] per file on disk |
#![forbid(unsafe_code)]

mod addr;
mod cache;
mod debug;
mod declarations;
mod demangle;
mod elf;
mod error;
mod folders;
mod frames;
mod functions;
mod generated;
mod gopclntab;
mod ifuncs;
mod image;
mod lines;
mod linker;
mod lossy;
mod names;
mod objects;
mod origin;
mod owners;
mod relocations;
mod scopes;
mod select;
mod sparse;
mod symbols;
mod unwind;

pub use addr::{FileOffset, LinkAddr, Segment};
pub use cache::{Images, Version};
pub use demangle::{demangle, demangle_short, demangled};
pub use elf::ImageKind;
pub use error::{Fault, ImageError};
pub use functions::{ExtentKind, Function};
pub use generated::{Generated, GeneratedCode};
pub use image::{Image, Symbol, fallback_name};
pub use lines::{LineRange, LineTable, SourceStamp};
pub use linker::LinkerSymbol;
pub use names::NameId;
pub use origin::{Language, Linker};
pub use relocations::Relocations;
pub use scopes::Scope;
pub use select::{ExtentFlags, FuncExtent, Pattern, Selector, glob, split_list};
pub use unwind::{CallSite, Cfa, Unwind, UnwindRange};
