//! Names for what was recorded: functions get name, file and line, modules
//! their build id, so that the recording needs none of the binaries again.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use image::{FileOffset, Image, Images, Symbol};
use trace::{Process, Recording};

use crate::vdso;

/// What the system appends to the path of a mapped file that was removed.
const DELETED: &str = " (deleted)";

pub fn symbolize(recording: &mut Recording, images: &Images) {
    let mut names = Names {
        images,
        opened: HashMap::new(),
        symbols: HashMap::new(),
    };
    for process in &mut recording.processes {
        names.fill(process);
    }
}

/// What was looked up already: forked children share nearly everything.
struct Names<'a> {
    images: &'a Images,
    opened: HashMap<String, Option<Arc<Image>>>,
    symbols: HashMap<(String, u64), Symbol>,
}

impl Names<'_> {
    fn fill(&mut self, process: &mut Process) {
        for module in &mut process.modules {
            if module.build_id.is_none() {
                let image = self.image(&module.path);
                module.build_id = image.and_then(|image| image.build_id().map(<[u8]>::to_vec));
            }
        }
        let Process {
            functions, modules, ..
        } = process;
        for function in functions
            .iter_mut()
            .filter(|function| function.name.is_none())
        {
            let module = function.module.and_then(|at| modules.get(at as usize));
            let Some(module) = module else { continue };
            let Some(symbol) = self.symbol(&module.path, function.file_offset) else {
                continue;
            };
            function.file = symbol.file;
            function.line = symbol.line;
            // A name made from the place is no name: whoever shows it makes it
            // anew. A call into the middle of a function makes another one.
            function.name = symbol
                .raw_name
                .filter(|_| symbol.offset == 0)
                .map(|_| symbol.name);
        }
    }

    fn symbol(&mut self, path: &str, offset: u64) -> Option<Symbol> {
        let key = (path.to_owned(), offset);
        if !self.symbols.contains_key(&key) {
            let symbol = self.image(path)?.symbolize(FileOffset(offset));
            self.symbols.insert(key.clone(), symbol);
        }
        self.symbols.get(&key).cloned()
    }

    fn image(&mut self, path: &str) -> Option<Arc<Image>> {
        if !self.opened.contains_key(path) {
            let image = match path {
                vdso::NAME => vdso::image().map(Arc::new),
                // What lies there now is another file.
                path if path.ends_with(DELETED) => None,
                path => self.images.open(Path::new(path)).ok(),
            };
            self.opened.insert(path.to_owned(), image);
        }
        self.opened.get(path).cloned().flatten()
    }
}
