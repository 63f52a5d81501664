//! What the engine and the report are going to ask, made while the program
//! starts.
//!
//! Problem: the engine waits for the table of every file that is mapped, and
//! the user for the names after the program's end; both are made in this
//! process, which has nothing to do meanwhile.
//!
//! Approach: a thread walks the files the program starts with, in the order the
//! dynamic linker maps them, and asks each [`Image`] what will be asked: first
//! all for functions, which the program waits for, then all for lines. An image
//! answers one question of a kind at a time and keeps its answers, so whoever
//! comes first makes them and the others wait or find them.
//!
//! Invariant: nothing depends on it. Files that are found another way are made
//! when they are asked for, and nobody waits for the thread itself.

use std::path::Path;
use std::sync::Arc;

use image::Images;

use crate::{libraries, program};

/// `lines`: whether there will be a report or a recording.
pub fn start(images: &Arc<Images>, path: &Path, lines: bool) {
    let elf = program::elf_of(path);
    let images = Arc::clone(images);
    let work = move || {
        // The program's own threads go first, though it may come to wait for us.
        let _ = rustix::process::nice(5);
        let found = libraries::closure(&images, &elf, |image| {
            image.functions();
        });
        for image in found.images.iter().filter(|_| lines) {
            image.prepare_lines();
        }
    };
    // Without it all is as it was, only later.
    let _ = std::thread::Builder::new().name("ahead".into()).spawn(work);
}
