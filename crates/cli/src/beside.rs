//! What a page shows beside contexts: code and source lines, from the files that
//! were run, as far as they are here and still the same.
//!
//! A module is what ran if its build id says so; a source file is taken as it is.
//!
//! A recording names source files, too, and one of a stranger may name any file that
//! can be read here: the page would carry it away. So a file is read only if the line
//! table of such a module names it, unless the names can be trusted ([`Trust`]).

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use image::{FileOffset, Image, ImageError, Images};
use report::html::{Files, Line};
use trace::Module;

use crate::output::reason;

/// Longer functions are shown by no one who wants to read them.
const LONGEST: u64 = 1 << 20;

/// Larger files are no source that somebody wrote.
const LARGEST: u64 = 16 << 20;

/// Which source files are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Those that a module names which ran and is here.
    Modules,
    /// All: it was recorded by this command, or the user asks for it.
    Recording,
}

/// Files that were asked for.
pub struct OnDisk<'a> {
    images: &'a Images,
    trust: Trust,
    /// By a module's line table.
    named: HashSet<String>,
    /// Files that are here and were not read, as only the recording names them.
    refused: BTreeSet<String>,
    /// By path and build id; else why not.
    modules: HashMap<Key, Result<Opened, String>>,
    sources: HashMap<String, Option<Vec<String>>>,
}

type Key = (String, Option<Vec<u8>>);

struct Opened {
    image: Arc<Image>,
    file: File,
}

impl<'a> OnDisk<'a> {
    pub fn new(images: &'a Images, trust: Trust) -> OnDisk<'a> {
        OnDisk {
            images,
            trust,
            named: HashSet::new(),
            refused: BTreeSet::new(),
            modules: HashMap::new(),
            sources: HashMap::new(),
        }
    }

    /// Says which source is not in the page.
    pub fn say_what_was_refused(&self) {
        let Some(first) = self.refused.first() else {
            return;
        };
        let others = match self.refused.len() - 1 {
            0 => String::new(),
            1 => " and 1 more file".into(),
            more => format!(" and {more} more files"),
        };
        eprintln!(
            "everypath: no module that ran and is here names '{first}'{others} as source, only the \
             recording does; --html-code MB puts that into the page, too"
        );
    }

    fn module(&mut self, module: &Module) -> Result<&Opened, &str> {
        let key = (module.path.clone(), module.build_id.clone());
        let images = self.images;
        let opened = self
            .modules
            .entry(key)
            .or_insert_with(|| open(module, images));
        opened.as_ref().map_err(String::as_str)
    }
}

fn open(module: &Module, images: &Images) -> Result<Opened, String> {
    let path = &module.path;
    let Some(build_id) = &module.build_id else {
        return Err(format!(
            "'{path}' has no build id, so nothing says whether it is still the file that ran."
        ));
    };
    let unreadable = |error: &io::Error| format!("'{path}' cannot be read: {}.", reason(error));
    // First the image: it is only read from regular files.
    let image = images.open(Path::new(path)).map_err(|error| match error {
        ImageError::Unreadable { source, .. } => unreadable(&source),
        ImageError::Unusable { fault, .. } => format!("'{path}' cannot be read: {fault}."),
    })?;
    let file = File::open(path).map_err(|error| unreadable(&error))?;
    if image.build_id() != Some(build_id) {
        return Err(format!(
            "'{path}' is not the file that ran: its build id is another."
        ));
    }
    Ok(Opened { image, file })
}

impl Files for OnDisk<'_> {
    fn code(&mut self, module: &Module, offset: u64) -> Result<(u64, Vec<u8>), String> {
        let Opened { image, file } = self.module(module)?;
        let function = image.function_at(FileOffset(offset));
        let function =
            function.ok_or_else(|| format!("'{}' does not say where it ends.", module.path))?;
        let (start, size) = (function.start.0, function.size());
        if size > LONGEST {
            return Err(format!(
                "It has {size} bytes of code, too many for the page."
            ));
        }
        let mut code = vec![0; size as usize];
        let read = file.read_exact_at(&mut code, start);
        read.map_err(|error| format!("'{}' cannot be read: {}.", module.path, reason(&error)))?;
        Ok((start, code))
    }

    fn place(&mut self, module: &Module, offset: u64) -> Option<String> {
        let image = &self.module(module).ok()?.image;
        let symbol = image.symbolize(FileOffset(offset));
        Some(match symbol.offset {
            _ if symbol.raw_name.is_none() => {
                image::fallback_name(Path::new(&module.path), FileOffset(offset))
            }
            0 => symbol.name,
            distance => format!("{}+{distance:#x}", symbol.name),
        })
    }

    fn line(&mut self, module: &Module, offset: u64) -> Option<Line> {
        let image = &self.module(module).ok()?.image;
        let (file, line) = image.line_at(FileOffset(offset));
        let (file, line) = file.zip(line)?;
        if !self.named.contains(&file) {
            self.named.insert(file.clone());
        }
        Some((file, line))
    }

    fn text(&mut self, file: &str) -> Option<&[String]> {
        if self.trust == Trust::Modules && !self.named.contains(file) {
            if Path::new(file).is_file() {
                self.refused.insert(file.to_owned());
            }
            return None;
        }
        let lines = self.sources.entry(file.to_owned());
        lines.or_insert_with(|| lines_of(file)).as_deref()
    }
}

/// The lines of a source file.
pub fn lines_of(file: &str) -> Option<Vec<String>> {
    let meta = fs::metadata(file).ok()?;
    let bytes = (meta.is_file() && meta.len() <= LARGEST).then(|| fs::read(file).ok())??;
    let text = String::from_utf8_lossy(&bytes);
    Some(text.lines().map(str::to_owned).collect())
}
