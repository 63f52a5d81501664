//! Prints the extents of a file and how long they took: `extents FILE [NAME]`.

use std::time::Instant;

use image::{Image, Pattern, Selector};

fn main() {
    let mut args = std::env::args().skip(1);
    let Some(path) = args.next() else {
        eprintln!("usage: extents FILE [NAME]");
        return;
    };
    let select = Selector {
        functions: args.map(|name| Pattern::new(&name)).collect(),
        ..Selector::everything()
    };
    let begun = Instant::now();
    let image = match Image::open(&path) {
        Ok(image) => image,
        Err(error) => {
            eprintln!("{error}");
            return;
        }
    };
    let opened = begun.elapsed();
    let entries = image.func_entries(&select);
    eprintln!(
        "{} extents; opened in {opened:?}, table after {:?}",
        entries.len(),
        begun.elapsed()
    );
    for entry in entries {
        let name = image.symbolize(entry.start).name;
        let (start, end, flags) = (entry.start, entry.end, entry.flags.0);
        println!("{start:x} {end:x} {:x} {flags:02x} {name}", entry.owner);
    }
}
