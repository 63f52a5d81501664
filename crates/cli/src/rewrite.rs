//! `rewrite`: the exec editor.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use anyhow::{Result, anyhow, bail};
use flow::Program;
use image::{Image, LinkAddr};
use rewrite::OldCode;

use crate::exit_status::Ending;
use crate::flags::{Rewrite, Tool};
use crate::output::{Kind, Output, reason};

/// Permissions that an edited file has from the original: not those of set-id programs.
const PERMISSIONS: u32 = 0o777;

pub fn rewrite(flags: &Rewrite) -> Result<Ending> {
    let shown = flags.file.display();
    let unreadable = |error: io::Error| anyhow!("cannot read '{shown}': {}", reason(&error));
    // It says what is wrong with files that are no programs.
    let image = Image::open_whole(&flags.file).map_err(|error| anyhow!("{error}"))?;
    let metadata = fs::metadata(&flags.file).map_err(unreadable)?;
    let same = |other: fs::Metadata| (other.dev(), other.ino()) == (metadata.dev(), metadata.ino());
    if fs::metadata(&flags.output).is_ok_and(same) {
        bail!("'{shown}' is not edited in place; give another file to --output");
    }
    let input = fs::read(&flags.file).map_err(unreadable)?;
    let program = match flags.tool {
        Tool::Segment => Program::default(),
        Tool::Null => Program::of(&image),
    };
    let edited = match flags.tool {
        Tool::Segment if flags.paranoid => bail!("--paranoid goes with --tool null"),
        Tool::Segment => rewrite::null_segment(&input),
        Tool::Null => {
            let old_code = match flags.paranoid {
                true => OldCode::Traps,
                false => OldCode::Stays,
            };
            rewrite::null_relocation(&input, &image, &program, old_code)
        }
    };
    let edited = edited.map_err(|refused| anyhow!("cannot edit '{shown}': {refused}"))?;
    let output = Output::prepare(&flags.output, Kind::Report)?;
    output.replace(|out| out.write_all(&edited.bytes))?;
    let permissions = Permissions::from_mode(metadata.mode() & PERMISSIONS);
    fs::set_permissions(&flags.output, permissions)?;
    if flags.explain {
        explain(&edited, &program);
    }
    Ok(Ending::Exit(0))
}

/// Says what was added, and each edit.
fn explain(edited: &rewrite::Edited, program: &Program) {
    let (start, end) = (edited.segment.start, edited.segment.end);
    say!(
        "everypath: a segment of {} bytes at {start:#x}, its header in place of {}",
        end - start,
        edited.spare
    );
    if edited.moved > 0 {
        say!(
            "everypath: {} functions moved, {} left",
            edited.moved,
            edited.left.len()
        );
    }
    for (entry, why) in &edited.left {
        let function = program.function_from(LinkAddr(*entry));
        let name = function.and_then(|function| function.name.as_deref());
        say!(
            "everypath: left at {entry:#x}{}: {}, {}",
            name.map_or(String::new(), |name| format!(
                " ({})",
                image::demangled(name)
            )),
            why.name(),
            why.reason()
        );
    }
    for edit in &edited.edits {
        let (start, end) = (edit.at.start, edit.at.end);
        say!("everypath: bytes {start:#x} to {end:#x}: {}", edit.what);
    }
}
