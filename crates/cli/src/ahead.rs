//! What the engine and the report are going to ask, made while the program
//! starts.
//!
//! Problem: the engine waits for the table of every file that is mapped, and
//! the user for the names after the program's end; both are made in this
//! process, which has nothing to do meanwhile.
//!
//! Approach: a thread walks the files the program starts with, in the order the
//! dynamic linker maps them, and asks each [`Image`](image::Image) what will be
//! asked. An image answers one thread at a time and keeps its answers, so the
//! one who comes first makes them and the other one waits or finds them.
//!
//! Invariant: nothing depends on it. Files that are found another way are made
//! when they are asked for, and nobody waits for the thread itself.

use std::path::PathBuf;
use std::sync::Arc;

use image::Images;

use crate::{libraries, program};

/// `names`: whether there will be a report or a recording.
pub fn start(images: &Arc<Images>, path: PathBuf, names: bool) {
    let images = Arc::clone(images);
    let walk = move || {
        let elf = program::elf_of(&path);
        let closure = libraries::closure(&images, &elf, |image| {
            image.functions();
        });
        if names {
            // The program's own threads go first.
            let _ = rustix::process::nice(19);
            closure
                .images
                .iter()
                .for_each(|image| image.prepare_names());
        }
    };
    // Without it all is as it was, only later.
    let _ = std::thread::Builder::new().name("ahead".into()).spawn(walk);
}
