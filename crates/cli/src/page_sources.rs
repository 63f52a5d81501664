//! Code and source lines shown beside contexts in a page, from the files that
//! were run, as far as they are here and still the same.
//!
//! A module is what ran if its build id says so; a source file is what was compiled if its
//! checksum or time says so, and where the line table has neither, it is taken as it is.
//!
//! A recording names source files, too, and one of a stranger may name any file that
//! can be read here: the page would carry it away. So a file is read only if the line
//! table of such a module names it, unless the names can be trusted ([`Trust`]).

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use flow::Program;
use image::{FileOffset, Image, ImageError, Images, SourceStamp};
use report::html::{Files, Graph, Line};
use trace::Module;

use crate::output::reason;
use crate::source::{self, Source};

/// Longer functions are shown by no one who wants to read them.
const LONGEST: u64 = 1 << 20;

/// Graphs of the functions of larger files take longer to find than one waits for a page.
const LARGEST_WITH_GRAPHS: u64 = 64 << 20;

/// Bytes of an instruction.
const LONGEST_INSTRUCTION: usize = 15;

/// Which source files are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Files that a module names which ran and is here.
    Modules,
    /// All: it was recorded by this command, or the user asks for it.
    Recording,
}

/// Files that were asked for.
pub struct OnDisk<'a> {
    images: &'a Images,
    trust: Trust,
    /// By a module's line table, and what it says of them.
    named: HashMap<String, SourceStamp>,
    /// Files that are here and are not what was compiled.
    changed: BTreeSet<String>,
    /// Files that are here and were not read, as only the recording names them.
    refused: BTreeSet<String>,
    /// By path and build id; else why not.
    modules: HashMap<Key, Result<Opened, String>>,
    /// Control flow of modules, where it is not too much to look for.
    programs: HashMap<Key, Option<(Image, Program)>>,
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
            named: HashMap::new(),
            changed: BTreeSet::new(),
            refused: BTreeSet::new(),
            modules: HashMap::new(),
            programs: HashMap::new(),
            sources: HashMap::new(),
        }
    }

    /// Says which source is not shown; `how` says how it is.
    pub fn say_what_was_refused(&self, how: &str) {
        if let Some(files) = listed(&self.refused) {
            say!(
                "everypath: no module that ran and is here names {files} as source, only the \
                 recording does; {how}"
            );
        }
        if let Some(files) = listed(&self.changed) {
            say!("everypath: not shown as source, as changed since it was compiled: {files}");
        }
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

/// Control flow of a module that is here and the one that ran.
fn control_flow(module: &Module) -> Option<(Image, Program)> {
    let path = Path::new(&module.path);
    let is_small = std::fs::metadata(path).is_ok_and(|data| data.len() <= LARGEST_WITH_GRAPHS);
    let image = is_small.then(|| Image::open_whole(path).ok()).flatten()?;
    if image.build_id() != module.build_id.as_deref() {
        return None;
    }
    let program = Program::of(&image);
    Some((image, program))
}

/// The first one, and how many more there are.
fn listed(files: &BTreeSet<String>) -> Option<String> {
    let first = files.first()?;
    Some(match files.len() - 1 {
        0 => format!("'{first}'"),
        1 => format!("'{first}' and 1 more file"),
        more => format!("'{first}' and {more} more files"),
    })
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

    fn bytes(&mut self, module: &Module, offset: u64) -> Option<Vec<u8>> {
        let Opened { image, file } = self.module(module).ok()?;
        let is_code = image.link_addr(FileOffset(offset)).is_some();
        let mut bytes = vec![0; LONGEST_INSTRUCTION];
        let read = file.read_at(&mut bytes, offset).ok()?;
        bytes.truncate(read);
        is_code.then_some(bytes)
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
        let image = Arc::clone(&self.module(module).ok()?.image);
        let (file, line) = image.line_at(FileOffset(offset));
        let (file, line) = file.zip(line)?;
        if !self.named.contains_key(&file) {
            let stamp = image.source_stamp(FileOffset(offset));
            self.named.insert(file.clone(), stamp);
        }
        Some((file, line))
    }

    fn graph(&mut self, module: &Module, offset: u64) -> Option<Graph> {
        let key = (module.path.clone(), module.build_id.clone());
        if !self.programs.contains_key(&key) {
            let program = self.module(module).ok().and_then(|_| control_flow(module));
            self.programs.insert(key.clone(), program);
        }
        let (image, program) = self.programs.get(&key)?.as_ref()?;
        let addr = image.link_addr(FileOffset(offset))?;
        Graph::of(image, program.function_at(addr)?)
    }

    fn text(&mut self, file: &str) -> Option<&[String]> {
        let stamp = self.named.get(file);
        if self.trust == Trust::Modules && stamp.is_none() {
            if Path::new(file).is_file() {
                self.refused.insert(file.to_owned());
            }
            return None;
        }
        let lines = self.sources.entry(file.to_owned());
        let lines = lines.or_insert_with(|| match source::read(file, stamp) {
            Source::Lines(lines) => Some(lines),
            Source::Changed => {
                self.changed.insert(file.to_owned());
                None
            }
            Source::None => None,
        });
        lines.as_deref()
    }
}
