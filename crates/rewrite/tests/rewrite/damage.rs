//! No input makes the editor panic, and what it accepts is edited as it says.

use std::collections::HashSet;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use flow::Program;
use image::Image;
use rewrite::{CounterFiles, Edited, OldCode, Options, Refused, StaticTool, edit, null_segment};

/// With everything that can be asked for.
const TRAPS: Options<'_> = Options {
    old_code: OldCode::Traps,
    libraries: Some("$ORIGIN"),
};

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("damage")
}

/// A small program with landing pads; tests that run beside each other make the same.
fn program() -> Vec<u8> {
    static MADE: OnceLock<Vec<u8>> = OnceLock::new();
    let make = || {
        let source = path().with_extension("cc");
        std::fs::write(&source, SOURCE).unwrap();
        let mut compiler = Command::new("g++");
        let status = compiler
            .args(["-O1", "-g", "-o"])
            .args([&path(), &source])
            .status();
        assert!(status.expect("g++ is installed").success());
        std::fs::read(path()).unwrap()
    };
    MADE.get_or_init(make).clone()
}

const SOURCE: &str = r#"
struct Clean { int n; ~Clean() { n = 0; } };
int fails(int n) { if (n == 3) throw 7L; return n; }
int main(int count, char **) {
    Clean clean{count};
    try { return fails(count); } catch (int n) { return n; } catch (...) { return 1; }
}
"#;

/// The tools in turn, and that which inserts nothing.
fn tool<'d>(image: &'d Image, program: &'d Program) -> Box<dyn StaticTool + 'd> {
    static TURN: AtomicUsize = AtomicUsize::new(0);
    let (number, all) = (TURN.fetch_add(1, Ordering::Relaxed), edits::TOOLS.len() + 1);
    let turn = number % all;
    static NONE_LEFT: OnceLock<HashSet<u64>> = OnceLock::new();
    let wanted = edits::Wanted {
        log: None,
        loops: None,
        branches: false,
        targets: false,
        memory: (number / all).is_multiple_of(2),
        left: NONE_LEFT.get_or_init(HashSet::new),
        turns: None,
        original: "original",
        profile: None,
        files: CounterFiles::WorkingFolder,
        part: None,
        base: 0,
    };
    match edits::TOOLS.get(turn) {
        Some(tool) => (tool.make)(image, program, wanted),
        None => Box::new(()),
    }
}

/// Edits in both ways, and looks at the results.
fn try_edit(input: &[u8]) -> bool {
    if let Ok(image) = Image::parse(input) {
        let program = Program::of(&image);
        let mut tool = tool(&image, &program);
        let moved = edit(input, &image, &program, TRAPS, &mut *tool);
        if let Ok(moved) = &moved {
            check(input, moved);
        }
    }
    let edited = null_segment(input, Options::default());
    if let Ok(edited) = &edited {
        check(input, edited);
    }
    edited.is_ok()
}

/// Differences are listed, and the result is known for what it is.
fn check(input: &[u8], edited: &Edited) {
    let differs = (0..input.len()).filter(|&at| input[at] != edited.bytes[at]);
    for at in differs {
        let is_listed = |edit: &rewrite::Edit| edit.at.contains(&(at as u64));
        assert!(edited.edits.iter().any(is_listed), "byte {at:#x}");
    }
    assert_eq!(
        null_segment(&edited.bytes, Options::default()).err(),
        Some(Refused::Edited)
    );
}

/// Each byte of the headers with another value, alone; neighbours have different ones.
#[test]
fn damaged_headers() {
    let whole = program();
    assert!(try_edit(&whole));
    let programs = 64 + 56 * usize::from(whole[56]);
    let sections = u64::from_le_bytes(whole[0x28..0x30].try_into().unwrap()) as usize;
    let (mut edited, mut refused) = (0, 0);
    for at in (0..programs).chain(sections..whole.len()) {
        let mut input = whole.clone();
        input[at] = [0, 1, 0x7f, 0xff][at % 4];
        match try_edit(&input) {
            true => edited += 1,
            false => refused += 1,
        }
    }
    assert!(edited > 500 && refused > 50, "{edited} {refused}");
}

/// Bytes of unwind tables and of tables of landing pads with other values, alone and a few at once.
#[test]
fn damaged_tables() {
    let whole = program();
    let image = Image::parse(&whole).unwrap();
    let table = |name: &str| {
        let output = Command::new("readelf").args(["-SW"]).arg(path()).output();
        let text = String::from_utf8(output.unwrap().stdout).unwrap();
        let line = text
            .lines()
            .find(|line| line.contains(&format!(" {name} ")));
        let words: Vec<&str> = line.unwrap().split_whitespace().collect();
        let at = words.iter().position(|word| *word == name).unwrap();
        let number = |word: &str| usize::from_str_radix(word, 16).unwrap();
        number(words[at + 3])..number(words[at + 3]) + number(words[at + 4])
    };
    let program = Program::of(&image);
    assert!(edit(&whole, &image, &program, TRAPS, &mut ()).is_ok());
    for at in table(".eh_frame").chain(table(".gcc_except_table")) {
        for value in [0, 0x7f, 0xff, whole[at] ^ 0x80] {
            let mut input = whole.clone();
            input[at] = value;
            try_edit(&input);
        }
    }
}

#[test]
fn cut_files() {
    let whole = program();
    for length in (0..whole.len()).step_by(7) {
        assert!(!try_edit(&whole[..length]), "{length}");
    }
}
