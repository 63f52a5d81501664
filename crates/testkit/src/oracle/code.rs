//! Which function an address of the program belongs to.
//!
//! Approach: the memory map is read again whenever the program changed it;
//! every mapped file is opened once with the `image` crate; every address is
//! looked up once per map. Executable pages of no file that have the bytes of the file which was
//! mapped there before are that file's.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use image::{ExtentKind, FileOffset, Image, Images};
use nix::unistd::Pid;
use trace::Label;

use super::blocks::Spot;
use super::events::Function;
use super::instruction;
use super::start;

/// An address of an instruction in the stepped program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProgramPc(pub u64);

/// A stack pointer of the stepped program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProgramSp(pub u64);

/// Facts about one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Entry of the function it belongs to; none in stubs and unknown code.
    pub function: Option<ProgramPc>,
    /// Whether it is the entry of a function.
    pub entry: bool,
    /// Whether it lies in a stub of the dynamic linker.
    pub stub: bool,
    /// Whether it lies in the dynamic linker's lazy binding.
    pub lazy_binding: bool,
}

const UNKNOWN: Place = Place {
    function: None,
    entry: false,
    stub: false,
    lazy_binding: false,
};

#[derive(Clone)]
struct Mapping {
    start: u64,
    end: u64,
    offset: u64,
    image: Option<Arc<Image>>,
}

/// The code of one process.
pub struct Code {
    pid: Pid,
    /// The file the process was started from.
    pub executable: Option<PathBuf>,
    memory: fs::File,
    images: Arc<Images>,
    vdso: Option<Arc<Image>>,
    mappings: Vec<Mapping>,
    /// All executable mappings of files that there were, the newest last.
    former: Vec<Mapping>,
    places: HashMap<ProgramPc, Place>,
    /// Functions that were entered; a label is a place in this list.
    functions: Vec<Function>,
    labels: HashMap<(PathBuf, u64), Label>,
}

/// The lowest label of a function.
const FIRST_LABEL: u32 = wire::node::FIRST_FUNC;

impl Code {
    /// The code of the process `pid`, which has just been executed.
    pub fn new(pid: Pid, images: Arc<Images>) -> std::io::Result<Self> {
        let mut code = Self {
            pid,
            executable: start::executable(pid),
            memory: memory(pid)?,
            images,
            vdso: None,
            mappings: Vec::new(),
            former: Vec::new(),
            places: HashMap::new(),
            functions: Vec::new(),
            labels: HashMap::new(),
        };
        code.map_changed();
        Ok(code)
    }

    /// A copy of the code's description for the forked child `pid`.
    pub fn forked(&self, pid: Pid) -> std::io::Result<Self> {
        Ok(Self {
            pid,
            executable: self.executable.clone(),
            memory: memory(pid)?,
            images: Arc::clone(&self.images),
            vdso: self.vdso.clone(),
            mappings: self.mappings.clone(),
            former: self.former.clone(),
            places: self.places.clone(),
            functions: self.functions.clone(),
            labels: self.labels.clone(),
        })
    }

    /// The functions that were entered, by label.
    pub fn into_functions(self) -> Vec<Function> {
        self.functions
    }

    /// Writes over the code at `pc`, whatever its protection.
    pub fn write(&self, pc: ProgramPc, bytes: &[u8]) -> std::io::Result<()> {
        self.memory.write_all_at(bytes, pc.0)
    }

    /// The bytes at `pc`; fewer than asked for at the end of a mapping.
    pub fn read<'b>(&self, pc: ProgramPc, buffer: &'b mut [u8]) -> &'b [u8] {
        let length = self.memory.read_at(buffer, pc.0).unwrap_or(0);
        &buffer[..length]
    }

    /// To be called after every system call that may change the map.
    pub fn map_changed(&mut self) {
        // A process that is ending has no map; what is known stays known.
        let Ok(maps) = fs::read_to_string(format!("/proc/{}/maps", self.pid)) else {
            return;
        };
        let mappings: Vec<_> = maps.lines().filter_map(|line| self.mapping(line)).collect();
        if mappings.is_empty() {
            return;
        }
        let (of_files, of_none): (Vec<_>, Vec<_>) =
            mappings.into_iter().partition(|m| m.image.is_some());
        let pages = of_none
            .iter()
            .flat_map(|m| (m.start..m.end).step_by(4096))
            .filter_map(|page| self.page_as_before(page))
            .collect::<Vec<_>>();
        let is_at = |a: &Mapping, b: &Mapping| (a.start, a.end) == (b.start, b.end);
        self.former
            .retain(|known| !of_files.iter().any(|mapping| is_at(mapping, known)));
        self.former.extend(of_files.iter().cloned());
        self.mappings = [of_files, pages, of_none].concat();
        self.places.clear();
    }

    /// The page at `start`, if it has the bytes of the file that was mapped there before.
    fn page_as_before(&self, start: u64) -> Option<Mapping> {
        let is_there = |m: &&Mapping| (m.start..m.end).contains(&start);
        let before = self.former.iter().rev().find(is_there)?;
        let offset = start - before.start + before.offset;
        let (mut memory, mut file) = ([0; 4096], [0; 4096]);
        self.memory.read_exact_at(&mut memory, start).ok()?;
        let path = before.image.as_ref()?.path();
        fs::File::open(path).ok()?.read_at(&mut file, offset).ok()?;
        (memory == file).then(|| Mapping {
            start,
            end: start + 4096,
            offset,
            image: before.image.clone(),
        })
    }

    fn mapping(&mut self, line: &str) -> Option<Mapping> {
        let mut fields = line.split_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let executable = fields.next()?.contains('x');
        let offset = fields.next()?;
        let path = fields.nth(2).unwrap_or_default();
        let hex = |text| u64::from_str_radix(text, 16).ok();
        let (start, end) = (hex(start)?, hex(end)?);
        if !executable {
            return None;
        }
        let image = match path {
            "[vdso]" => self.vdso(start, end),
            // A device would be read for ever.
            path if Path::new(path).is_file() => self.images.open(path).ok(),
            _ => None,
        };
        Some(Mapping {
            start,
            end,
            offset: hex(offset)?,
            image,
        })
    }

    fn vdso(&mut self, start: u64, end: u64) -> Option<Arc<Image>> {
        if self.vdso.is_none() {
            let mut bytes = vec![0; usize::try_from(end - start).ok()?];
            self.memory.read_exact_at(&mut bytes, start).ok()?;
            self.vdso = Image::from_bytes(bytes, Path::new("[vdso]"))
                .ok()
                .map(Arc::new);
        }
        self.vdso.clone()
    }

    fn image_at(&self, pc: ProgramPc) -> Option<(&Mapping, &Arc<Image>, FileOffset)> {
        let mapping = self
            .mappings
            .iter()
            .find(|m| (m.start..m.end).contains(&pc.0))?;
        let offset = FileOffset(pc.0 - mapping.start + mapping.offset);
        Some((mapping, mapping.image.as_ref()?, offset))
    }

    /// Name of the file that `pc` is in and the offset there; without a file, an
    /// empty name and the address.
    pub fn file_at(&self, pc: ProgramPc) -> (String, u64) {
        let name = |image: &Arc<Image>| {
            let path = image.path();
            let name = path.file_name().unwrap_or(path.as_os_str());
            name.to_string_lossy().into_owned()
        };
        match self.image_at(pc) {
            Some((_, image, offset)) => (name(image), offset.0),
            None => (String::new(), pc.0),
        }
    }

    /// Facts about `pc`, remembered.
    pub fn place(&mut self, pc: ProgramPc) -> Place {
        if let Some(&place) = self.places.get(&pc) {
            return place;
        }
        let place = self.look_up(pc);
        self.places.insert(pc, place);
        place
    }

    fn look_up(&self, pc: ProgramPc) -> Place {
        let Some((mapping, image, offset)) = self.image_at(pc) else {
            return UNKNOWN;
        };
        let Some(extent) = image.function_at(offset) else {
            return UNKNOWN;
        };
        if extent.kind == ExtentKind::Plt {
            return Place {
                stub: true,
                ..UNKNOWN
            };
        }
        Place {
            function: Some(ProgramPc(
                mapping
                    .start
                    .wrapping_add(extent.owner.0)
                    .wrapping_sub(mapping.offset),
            )),
            entry: extent.kind == ExtentKind::Function && extent.start == offset,
            stub: false,
            lazy_binding: extent.lazy_binding,
        }
    }

    /// Facts about `pc` as the beginning of a block.
    pub fn spot(&self, pc: ProgramPc) -> Spot {
        let unknown = |name| Spot {
            name,
            module: String::new(),
            offset: pc.0,
            counts: true,
            starts_extent: false,
            is_target: false,
        };
        let Some((mapping, image, offset)) = self.image_at(pc) else {
            return unknown(format!("{{{:#x} at 0,0}}", pc.0));
        };
        let symbol = image.symbolize(offset);
        let column = symbol.column.filter(|_| symbol.line.is_some());
        let at = format!("{},{}", symbol.line.unwrap_or(0), column.unwrap_or(0));
        let (module, _) = self.file_at(pc);
        let name = match symbol.raw_name {
            Some(_) => format!("{{{}+{} at {at}}}", symbol.name, symbol.offset),
            None => format!("{{{module}+{:#x} at {at}}}", offset.0),
        };
        let Some(extent) = image.function_at(offset) else {
            return Spot {
                module,
                offset: offset.0,
                ..unknown(name)
            };
        };
        let at = |offset: FileOffset| {
            let start = mapping.start.wrapping_sub(mapping.offset);
            ProgramPc(start.wrapping_add(offset.0))
        };
        let (start, end) = (at(extent.start), at(extent.end));
        let mut bytes = vec![0; (end.0 - start.0) as usize];
        let bytes = self.read(start, &mut bytes);
        Spot {
            name,
            module,
            offset: offset.0,
            counts: extent.kind != ExtentKind::Plt,
            starts_extent: extent.start == offset,
            is_target: instruction::targets(bytes, start).contains(&pc),
        }
    }

    /// Whether instructions can be executed at `pc`.
    pub fn executable_at(&self, pc: ProgramPc) -> bool {
        let mut mappings = self.mappings.iter();
        mappings.any(|m| (m.start..m.end).contains(&pc.0))
    }

    /// The label of the function that begins at `entry`.
    pub fn label(&mut self, entry: ProgramPc) -> Label {
        let (path, offset) = match self.image_at(entry) {
            Some((_, image, offset)) => (image.path().to_owned(), offset.0),
            None => (PathBuf::new(), entry.0),
        };
        if let Some(&label) = self.labels.get(&(path.clone(), offset)) {
            return label;
        }
        let name = match self.image_at(entry) {
            Some((_, image, offset)) => {
                let symbol = image.symbolize(offset);
                match (symbol.offset, &symbol.raw_name) {
                    (0, _) => symbol.name,
                    (distance, Some(_)) => format!("{}+{distance:#x}", symbol.name),
                    (_, None) => image::fallback_name(image.path(), offset),
                }
            }
            None => format!("{:#x}", entry.0),
        };
        let label = Label(FIRST_LABEL + u32::try_from(self.functions.len()).expect("few"));
        let module = path.file_name().unwrap_or_default().to_string_lossy();
        self.functions.push(Function {
            name,
            module: module.into_owned(),
        });
        self.labels.insert((path, offset), label);
        label
    }
}

fn memory(pid: Pid) -> std::io::Result<fs::File> {
    let path = format!("/proc/{pid}/mem");
    fs::File::options().read(true).write(true).open(path)
}
