//! Which function an address of the program belongs to.
//!
//! Approach: the memory map is read again whenever the program changed it;
//! every mapped file is opened once with the `image` crate; every address is
//! looked up once per map.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use image::{ExtentKind, FileOffset, Image, Images};
use nix::unistd::Pid;

/// An address of an instruction in the stepped program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProgramPc(pub u64);

/// A stack pointer of the stepped program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProgramSp(pub u64);

/// What is known about one address.
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

struct Mapping {
    start: u64,
    end: u64,
    offset: u64,
    image: Option<Arc<Image>>,
}

/// The code of one process.
pub struct Code {
    pid: Pid,
    memory: fs::File,
    images: Images,
    vdso: Option<Arc<Image>>,
    mappings: Vec<Mapping>,
    places: HashMap<ProgramPc, Place>,
    names: HashMap<ProgramPc, String>,
    /// Targets of calls that no table names.
    called: HashSet<ProgramPc>,
}

impl Code {
    /// The code of the process `pid`, which has just been executed.
    pub fn new(pid: Pid) -> std::io::Result<Self> {
        let memory = fs::File::open(format!("/proc/{pid}/mem"))?;
        let mut code = Self {
            pid,
            memory,
            images: Images::new(),
            vdso: None,
            mappings: Vec::new(),
            places: HashMap::new(),
            names: HashMap::new(),
            called: HashSet::new(),
        };
        code.map_changed();
        Ok(code)
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
        if !mappings.is_empty() {
            self.mappings = mappings;
            self.places.clear();
        }
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
            path if path.starts_with('/') => self.images.open(path).ok(),
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

    /// What is known about `pc`.
    pub fn place(&mut self, pc: ProgramPc) -> Place {
        if let Some(&place) = self.places.get(&pc) {
            return place;
        }
        let mut place = self.look_up(pc);
        if self.called.contains(&pc) && !place.stub {
            place.entry = true;
            place.function = place.function.or(Some(pc));
        }
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

    /// Notes that `pc` was called: it is the entry of a function from now on.
    pub fn called(&mut self, pc: ProgramPc) {
        if !self.place(pc).entry && self.called.insert(pc) {
            self.places.remove(&pc);
        }
    }

    /// Name of the function that begins at `entry`.
    pub fn name(&mut self, entry: ProgramPc) -> String {
        if let Some(name) = self.names.get(&entry) {
            return name.clone();
        }
        let name = match self.image_at(entry) {
            Some((_, image, offset)) => {
                let symbol = image.symbolize(offset);
                if symbol.offset == 0 {
                    symbol.name
                } else {
                    image::fallback_name(image.path(), offset)
                }
            }
            None => format!("{:#x}", entry.0),
        };
        self.names.insert(entry, name.clone());
        name
    }
}
