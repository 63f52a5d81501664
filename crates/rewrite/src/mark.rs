//! The note by which an edited file is known, in the new segment and, where there are sections, in one of its own.

use object::elf::{FileHeader64, PT_LOAD, ProgramHeader64};
use object::endian::LittleEndian as LE;
use object::pod::{from_bytes, slice_from_bytes};

/// The section with the note.
pub const SECTION: &str = ".note.everypath";

/// Alignment of notes.
pub const ALIGN: u64 = 4;
/// The name of the note, whose end is padded to four bytes.
const NAME: &[u8; 12] = b"Everypath\0\0\0";
/// Bytes of the name with its final zero.
const NAME_SIZE: u32 = 10;
const KIND: u32 = 1;
/// The version of the form of edited files.
const VERSION: u32 = 1;

/// The note: sizes of name and value, kind, name, value.
pub fn note() -> Vec<u8> {
    let mut note = Vec::new();
    for word in [NAME_SIZE, size_of::<u32>() as u32, KIND] {
        note.extend_from_slice(&word.to_le_bytes());
    }
    note.extend_from_slice(NAME);
    note.extend_from_slice(&VERSION.to_le_bytes());
    note
}

/// Whether everypath edited a file: its note is in a segment of its own.
#[must_use]
pub fn is_edited(input: &[u8]) -> bool {
    let Ok((header, _)) = from_bytes::<FileHeader64<LE>>(input) else {
        return false;
    };
    let table = input.get(header.e_phoff.get(LE) as usize..);
    let count = usize::from(header.e_phnum.get(LE));
    let programs =
        table.and_then(|table| slice_from_bytes::<ProgramHeader64<LE>>(table, count).ok());
    let Some((programs, _)) = programs else {
        return false;
    };
    let is_marked = |program: &ProgramHeader64<LE>| {
        // Sections in it are aligned.
        let start = program.p_offset.get(LE) as usize;
        let head = input.get(start..start.saturating_add(64).min(input.len()));
        let mut windows = head.unwrap_or_default().windows(NAME.len());
        program.p_type.get(LE) == PT_LOAD && windows.any(|window| window == NAME)
    };
    programs.iter().any(is_marked)
}
