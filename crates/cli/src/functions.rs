//! The functions of files that a trace names, from the files as they are now.
//!
//! The file must be the one that was traced: it has the recorded build id, or, where there is
//! none, all recorded code at its places.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use analysis::activations::Extent;
use image::{ExtentFlags, Function, Image, Images, Selector, Version};
use trace::{Piece, Process, Recording};
use wire::FileId;

use crate::vdso;

/// It goes on unwinding for who calls it.
const RESUME: &str = "_Unwind_Resume";

pub struct Files<'a> {
    images: &'a Images,
    /// Files that are not there, or are not the ones that were traced.
    changed: BTreeSet<String>,
}

impl<'a> Files<'a> {
    pub fn new(images: &'a Images) -> Files<'a> {
        Files {
            images,
            changed: BTreeSet::new(),
        }
    }

    /// Extents in the file of a module, if it is the one that was traced.
    pub fn extents(&mut self, process: &Process, at: u32) -> Vec<Extent> {
        let module = &process.modules[at as usize];
        let image = match (&module.path, &module.build_id) {
            (path, _) if path == vdso::NAME => vdso::image().map(Arc::new),
            (path, Some(_)) => self.images.open(path).ok(),
            // Its code is compared.
            (path, None) => Image::open_whole(path).ok().map(Arc::new),
        };
        let is_it = |image: &Arc<Image>| {
            let id = module.build_id.as_deref();
            image.build_id() == id && (id.is_some() || has_code(image, process, at))
        };
        let Some(image) = image.filter(is_it) else {
            self.changed.insert(module.path.clone());
            return Vec::new();
        };
        let resume = |function: &&Function| image.aliases(function).any(|name| name == RESUME);
        let resume = image.functions().iter().find(resume);
        let resume = resume.map(|function| function.owner);
        let entries = image.func_entries(&Selector::everything());
        let extents = entries.iter().map(|entry| Extent {
            resumes: Some(entry.owner) == resume,
            ..extent(entry)
        });
        extents.collect()
    }

    /// Says of each module which file it is now, if that is what was traced, so that names
    /// are found in it.
    pub fn identify(&self, recording: &mut Recording) {
        let modules = recording
            .processes
            .iter_mut()
            .flat_map(|process| &mut process.modules);
        for module in modules.filter(|module| !self.changed.contains(&module.path)) {
            if let Ok(version) = Version::of(Path::new(&module.path)) {
                module.file = FileId {
                    dev: version.dev,
                    ino: version.ino,
                    changed: version.changed,
                };
            }
        }
    }

    pub fn say_what_changed(&self) {
        for path in &self.changed {
            say!(
                "everypath: '{path}' is not there, or not what was traced: its functions are not \
                 told apart"
            );
        }
    }
}

/// Whether all code of a module stands in a file. What was written over it is not the file's.
fn has_code(image: &Image, process: &Process, at: u32) -> bool {
    let module = &process.modules[at as usize];
    let in_file = |piece: &Piece, code: &[u8]| {
        let offset = piece.pc.wrapping_sub(module.start);
        let start = usize::try_from(offset.wrapping_add(module.offset)).ok()?;
        Some(image.bytes().get(start..)?.get(..code.len())? == code)
    };
    let fragments = process.fragments.iter().filter(|one| one.id == 0);
    fragments
        .flat_map(|one| one.code_of_pieces())
        .all(|(piece, code)| piece.module != Some(at) || in_file(piece, code) == Some(true))
}

fn extent(extent: &image::FuncExtent) -> Extent {
    Extent {
        start: extent.start.0,
        end: extent.end.0,
        owner: extent.owner.0,
        is_entry: extent.flags.has(ExtentFlags::ENTRY),
        is_stub: extent.flags.has(ExtentFlags::PLT),
        is_lazy: extent.flags.has(ExtentFlags::MUTE),
        resumes: false,
    }
}
