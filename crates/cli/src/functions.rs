//! The functions of files that a trace names, from the files as they are now.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use analysis::activations::Extent;
use image::{ExtentFlags, Function, Image, Images, Selector, Version};
use trace::{Module, Recording};
use wire::FileId;

use crate::vdso;

/// It goes on unwinding for who calls it.
const RESUME: &str = "_Unwind_Resume";

pub struct Files<'a> {
    images: &'a Images,
    /// Those that are not what was traced, or are not there.
    changed: BTreeSet<String>,
}

impl<'a> Files<'a> {
    pub fn new(images: &'a Images) -> Files<'a> {
        Files {
            images,
            changed: BTreeSet::new(),
        }
    }

    /// Of the file of a module, if it is what was traced.
    pub fn extents(&mut self, module: &Module) -> Vec<Extent> {
        let image = match module.path == vdso::NAME {
            true => vdso::image().map(Arc::new),
            false => self.images.open(&module.path).ok(),
        };
        let is_it = |image: &Arc<Image>| match &module.build_id {
            Some(id) => image.build_id() == Some(id),
            None => true,
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
            eprintln!(
                "everypath: '{path}' is not there, or not what was traced: its functions are not \
                 told apart"
            );
        }
    }
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
