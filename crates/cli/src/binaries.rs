//! Files of a recording's modules, read again for what was not recorded: code and
//! lines that never ran, names as the linker knows them.
//!
//! The file must be the one that ran: it has the recorded build id, or, where there is
//! none, all recorded instructions at their places.

use std::collections::HashMap;

use analysis::counts::{Counted, Unit};
use image::Image;

/// A module whose file could not be used, and why.
pub type Missing = (Unit, String);

pub fn open(modules: &[(&Unit, Vec<&Counted>)]) -> (HashMap<Unit, Image>, Vec<Missing>) {
    let (mut found, mut missing) = (HashMap::new(), Vec::new());
    for (unit, insns) in modules {
        // Mappings without a file, such as `[vdso]`, have no lines.
        let Some(path) = unit.path.as_deref().filter(|path| path.starts_with('/')) else {
            continue;
        };
        match Image::open_whole(path) {
            Err(error) => missing.push(((*unit).clone(), error.to_string())),
            Ok(image) if is_same(&image, unit, insns) => {
                found.insert((*unit).clone(), image);
            }
            Ok(_) => {
                let why = format!("'{path}' is not the file that ran any more");
                missing.push(((*unit).clone(), why));
            }
        }
    }
    (found, missing)
}

fn is_same(image: &Image, unit: &Unit, insns: &[&Counted]) -> bool {
    if image.build_id() != unit.build_id.as_deref() {
        return false;
    }
    let at = |insn: &&Counted| {
        let start = usize::try_from(insn.at).ok()?;
        image.bytes().get(start..)?.get(..insn.bytes.len())
    };
    unit.build_id.is_some() || insns.iter().all(|insn| at(insn) == Some(&insn.bytes[..]))
}

/// For a report that has no place for notes.
pub fn say_what_is_missing(missing: &[Missing]) {
    for (_, why) in missing {
        say!("everypath: {why}; its lines and branches that never ran are not listed");
    }
}
