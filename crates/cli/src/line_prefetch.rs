//! Lines of the files a program starts with, read while it runs.
//!
//! Problem: the user waits for the names after the program's end, and reading
//! line sections is most of that. This process has nothing to do meanwhile.
//!
//! Approach: a thread asks each [`Image`] for its lines, once the tables that
//! the program itself waits for are made. An image answers one question of a
//! kind at a time and keeps its answers, so whoever comes first makes them and
//! the others wait or find them.
//!
//! Invariant: nothing depends on it. Files that are found another way are read
//! when they are asked for, and nobody waits for the thread itself.

use std::sync::Arc;

use image::Image;

/// The largest file first: should the program end meanwhile, others are left
/// that can be read at the same time.
pub fn lines(mut images: Vec<Arc<Image>>) {
    images.sort_by_key(|image| std::cmp::Reverse(image.size()));
    let work = move || {
        // The program's own threads go first.
        let _ = rustix::process::nice(5);
        for image in images {
            image.prepare_lines();
        }
    };
    // Without it all is as it was, only later.
    let _ = std::thread::Builder::new().name("lines".into()).spawn(work);
}
