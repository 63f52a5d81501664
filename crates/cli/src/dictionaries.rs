//! Dictionaries of programs that keep their calling contexts in numbers: written when a program is edited, beside it.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use image::{FileOffset, Image, LinkAddr};
use placement::dictionary::{self, File, Insn};
use rewrite::Edited;

use crate::output::{Kind, Output, reason};

/// The name of a dictionary: that of the program with this behind it, or this alone in a folder.
pub const ENDING: &str = "dictionary";

/// The place of the dictionary of an edited program.
pub fn beside(program: &Path) -> PathBuf {
    let mut name = program.as_os_str().to_owned();
    name.push(".");
    name.push(ENDING);
    PathBuf::from(name)
}

/// The part of an edited file, which is written `to` this path: what its tool says, where its new code is, and lines of its calls.
pub fn of(edited: &Edited, original: &Path, to: &Path) -> Result<File> {
    let file = File::decode(&edited.apart);
    let mut file = file.context("the tool writes a dictionary that can be read")?;
    file.code = edited
        .code
        .iter()
        .map(|insn| Insn {
            front: insn.front,
            new: insn.new,
            old: insn.old,
        })
        .collect();
    file.name = to.file_name().unwrap_or_default().to_string_lossy().into();
    file.added = (edited.segment.start, edited.segment.end);
    let image = Image::open_whole(original).map_err(|error| anyhow!("{error}"))?;
    file.start = image.link_addr(FileOffset(0)).map_or(0, |start| start.0);
    image.prepare_lines();
    let mut numbers: HashMap<String, u32> = HashMap::new();
    for site in &mut file.sites {
        let Some(offset) = image.file_offset(LinkAddr(site.at)) else {
            continue;
        };
        if let (Some(source), Some(line)) = image.line_at(offset) {
            let next = numbers.len() as u32 + 1;
            site.source = *numbers.entry(source.clone()).or_insert_with(|| {
                file.sources.push(source);
                next
            });
            site.line = line;
        }
    }
    Ok(file)
}

/// Writes a dictionary.
pub fn write(path: &Path, files: &[File]) -> Result<()> {
    let output = Output::prepare(path, Kind::Report)?;
    output.replace(|out| out.write_all(&dictionary::encode(files)))
}

/// Reads a dictionary.
pub fn read(path: &Path) -> Result<Vec<File>> {
    let shown = path.display();
    let bytes = fs::read(path);
    let bytes = bytes.map_err(|error| anyhow!("cannot read '{shown}': {}", reason(&error)))?;
    dictionary::decode(&bytes).with_context(|| {
        format!("'{shown}' is no dictionary of `everypath encode`, or it is truncated")
    })
}
