//! No input makes the editor panic, and what it accepts is edited as it says.

use std::path::PathBuf;
use std::process::Command;

use rewrite::{Refused, null_segment};

/// A small program.
fn program() -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let (source, to) = (folder.join("damage.c"), folder.join("damage"));
    std::fs::write(&source, "int main(void) { return 0; }").unwrap();
    let status = Command::new("gcc").arg("-o").arg(&to).arg(&source).status();
    assert!(status.expect("gcc is installed").success());
    std::fs::read(to).unwrap()
}

/// Edits, and looks at the result.
fn try_edit(input: &[u8]) -> bool {
    let Ok(edited) = null_segment(input) else {
        return false;
    };
    let differs = (0..input.len()).filter(|&at| input[at] != edited.bytes[at]);
    for at in differs {
        let is_listed = |edit: &rewrite::Edit| edit.at.contains(&(at as u64));
        assert!(edited.edits.iter().any(is_listed), "byte {at:#x}");
    }
    assert_eq!(null_segment(&edited.bytes).err(), Some(Refused::Edited));
    true
}

/// Each byte of the headers with some other values, alone.
#[test]
fn damaged_headers() {
    let whole = program();
    assert!(try_edit(&whole));
    let programs = 64 + 56 * usize::from(whole[56]);
    let sections = u64::from_le_bytes(whole[0x28..0x30].try_into().unwrap()) as usize;
    let (mut edited, mut refused) = (0, 0);
    for at in (0..programs).chain(sections..whole.len()) {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut input = whole.clone();
            input[at] = value;
            match try_edit(&input) {
                true => edited += 1,
                false => refused += 1,
            }
        }
    }
    assert!(edited > 1000 && refused > 100, "{edited} {refused}");
}

#[test]
fn cut_files() {
    let whole = program();
    for length in (0..whole.len()).step_by(7) {
        assert!(!try_edit(&whole[..length]), "{length}");
    }
}
