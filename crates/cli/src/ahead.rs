//! What the engine and the report are going to ask, made while the program
//! starts.
//!
//! Problem: the engine waits for the table of every file that is mapped, and
//! the user for the names after the program's end; both are made in this
//! process, which has nothing to do meanwhile.
//!
//! Approach: two threads walk the files the program starts with, in the order
//! the dynamic linker maps them, and ask each [`Image`] what will be asked: one
//! for functions, one for lines. An image answers one question of a kind at a
//! time and keeps its answers, so whoever comes first makes them and the others
//! wait or find them.
//!
//! Invariant: nothing depends on it. Files that are found another way are made
//! when they are asked for, and nobody waits for the thread itself.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use image::{Image, Images};

use crate::{libraries, program};

/// `lines`: whether there will be a report or a recording.
pub fn start(images: &Arc<Images>, path: &Path, lines: bool) {
    let elf = program::elf_of(path);
    walk(images, elf.clone(), |image| {
        image.functions();
    });
    if lines {
        walk(images, elf, Image::prepare_lines);
    }
}

fn walk(images: &Arc<Images>, elf: PathBuf, ask: fn(&Image)) {
    let images = Arc::clone(images);
    let work = move || {
        // The program's own threads go first, though it may come to wait for us.
        let _ = rustix::process::nice(5);
        libraries::closure(&images, &elf, ask);
    };
    // Without it all is as it was, only later.
    let _ = std::thread::Builder::new().name("ahead".into()).spawn(work);
}
