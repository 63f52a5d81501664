//! One binary file, read once and asked many times.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use object::read::elf::SectionHeader;
use object::{LittleEndian as LE, ReadCache, elf};

use crate::addr::{self, FileOffset, LinkAddr, Segment};
use crate::debug::{self, DebugLink};
use crate::declarations;
use crate::demangle::demangled;
use crate::elf::{Dynamic, Elf, ImageKind};
use crate::error::{Fault, ImageError};
use crate::frames;
use crate::functions::{self, Code, ExtentKind, Function, Input, Table};
use crate::gopclntab::GoTable;
use crate::lines::{LineTable, Lines, SourceStamp};
use crate::lossy::on_disk;
use crate::names::{NameId, Names};
use crate::objects;
use crate::scopes::{self, Scope};
use crate::sparse::{self, Holes};
use crate::symbols::Collector;

/// A parsed ELF64 x86-64 program or library.
///
/// Opening reads the file, large code and constants apart, and its headers;
/// functions and lines are made when first asked for and kept.
pub struct Image {
    path: PathBuf,
    bytes: Vec<u8>,
    /// Parts of the file that `bytes` lacks.
    holes: Option<Holes>,
    kind: ImageKind,
    segments: Vec<Segment>,
    dynamic: Dynamic,
    entry: LinkAddr,
    interpreter: Option<String>,
    build_id: Option<Vec<u8>>,
    debug_link: Option<DebugLink>,
    missing_bytes: u64,
    debug_file: OnceLock<Option<PathBuf>>,
    functions: OnceLock<(Table, Names)>,
    go_table: OnceLock<Option<GoTable>>,
    /// Outer `None`: not tried yet.
    lines: Mutex<Option<Option<Lines>>>,
}

/// Function, place and source of one byte of code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Readable name: demangled, or [`fallback_name`] where no name is known.
    pub name: String,
    /// The name in the symbol table.
    pub raw_name: Option<String>,
    /// Distance from the first byte of what `name` names.
    pub offset: u64,
    pub file: Option<String>,
    pub line: Option<u32>,
    pub column: Option<u32>,
}

/// `module+0xoffset`: how code without a name is called everywhere.
pub fn fallback_name(path: &Path, offset: FileOffset) -> String {
    let module = path.file_name().unwrap_or(path.as_os_str());
    format!("{}+{offset:#x}", module.to_string_lossy())
}

/// Bytes of a regular file.
fn regular(path: &Path) -> Option<Vec<u8>> {
    let is_file = fs::metadata(path).is_ok_and(|meta| meta.is_file());
    is_file.then(|| fs::read(path).ok()).flatten()
}

impl Image {
    pub fn open(path: impl AsRef<Path>) -> Result<Image, ImageError> {
        let (image, holes) = Image::open_with(&on_disk(path.as_ref()), sparse::read)?;
        Ok(Image { holes, ..image })
    }

    /// With code and constants, however large.
    pub fn open_whole(path: impl AsRef<Path>) -> Result<Image, ImageError> {
        Ok(Image::open_with(&on_disk(path.as_ref()), |path| Ok((fs::read(path)?, ())))?.0)
    }

    /// A whole file that need not be one that can be run: object files and kernel modules are read like shared libraries, with places in
    /// the file as addresses. `ARCHIVE(MEMBER)` is a member of an archive.
    pub fn open_to_read(path: impl AsRef<Path>) -> Result<Image, ImageError> {
        let path = path.as_ref();
        let of_member = || {
            let (archive, name) = objects::member_of(path).filter(|_| !path.exists())?;
            let bytes = regular(archive)?;
            let mut members = objects::members(&bytes).into_iter();
            let (_, place) = members.find(|(member, _)| member == name)?;
            Some(bytes[place].to_vec())
        };
        match regular(path).or_else(of_member) {
            Some(bytes) if objects::is_object(&bytes) => Image::of_object(&bytes, path),
            _ => Image::open_whole(path),
        }
    }

    /// The object files of an archive; `None`: it is none.
    pub fn open_members(archive: &Path) -> Option<Vec<Result<Image, ImageError>>> {
        let bytes = regular(archive)?;
        let members = objects::members(&bytes);
        let objects = members.iter().filter_map(|(name, place)| {
            let bytes = &bytes[place.clone()];
            let path = PathBuf::from(format!("{}({name})", archive.display()));
            objects::is_object(bytes).then(|| Image::of_object(bytes, &path))
        });
        (!members.is_empty()).then(|| objects.collect())
    }

    fn of_object(bytes: &[u8], path: &Path) -> Result<Image, ImageError> {
        Image::from_object(bytes, path).map_err(|fault| ImageError::Unusable {
            path: path.to_owned(),
            fault,
        })
    }

    /// An object file, read like a shared library; `path` is used for names.
    pub fn from_object(bytes: &[u8], path: &Path) -> Result<Image, Fault> {
        Image::from_bytes(objects::as_library(bytes)?, path)
    }

    fn open_with<T>(
        path: &Path,
        read: impl FnOnce(&Path) -> io::Result<(Vec<u8>, T)>,
    ) -> Result<(Image, T), ImageError> {
        let unreadable = |source| ImageError::Unreadable {
            path: path.to_owned(),
            source,
        };
        // Programs map devices too: `/dev/zero` would be read for ever.
        if !fs::metadata(path).map_err(unreadable)?.is_file() {
            return Err(unreadable(io::Error::other("it is no regular file")));
        }
        let (bytes, more) = read(path).map_err(unreadable)?;
        let image = Image::from_bytes(bytes, path).map_err(|fault| ImageError::Unusable {
            path: path.to_owned(),
            fault,
        })?;
        Ok((image, more))
    }

    /// An image that is no file; `[vdso]` for instance.
    pub fn parse(bytes: &[u8]) -> Result<Image, Fault> {
        Image::from_bytes(bytes.to_vec(), Path::new("[memory]"))
    }

    /// Takes the bytes; `path` is used for names and to find debug files.
    pub fn from_bytes(bytes: Vec<u8>, path: &Path) -> Result<Image, Fault> {
        let elf = Elf::parse(&*bytes)?;
        let dynamic = elf.dynamic();
        Ok(Image {
            path: path.to_owned(),
            kind: elf.kind(&dynamic),
            entry: LinkAddr(elf.header.e_entry.get(LE)),
            interpreter: elf.interpreter(),
            build_id: elf.build_id(),
            debug_link: DebugLink::read(&elf),
            missing_bytes: elf.missing_bytes(),
            segments: elf.segments,
            dynamic,
            bytes,
            holes: None,
            debug_file: OnceLock::new(),
            functions: OnceLock::new(),
            go_table: OnceLock::new(),
            lines: Mutex::new(None),
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of the file; where [`Image::open`] left some out, 0.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Length of the file.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    pub fn kind(&self) -> ImageKind {
        self.kind
    }

    /// Whether it runs without a dynamic linker.
    pub fn is_static(&self) -> bool {
        self.interpreter.is_none() && self.kind != ImageKind::Shared
    }

    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    pub fn entry(&self) -> LinkAddr {
        self.entry
    }

    pub fn build_id(&self) -> Option<&[u8]> {
        self.build_id.as_deref()
    }

    pub fn interpreter(&self) -> Option<&str> {
        self.interpreter.as_deref()
    }

    pub fn needed(&self) -> &[String] {
        &self.dynamic.needed
    }

    pub fn soname(&self) -> Option<&str> {
        self.dynamic.soname.as_deref()
    }

    /// Folders in which libraries are looked for: its own and those of what it needs (`DT_RPATH`), and its own alone (`DT_RUNPATH`).
    pub fn search_paths(&self) -> (Option<&str>, Option<&str>) {
        let Dynamic { rpath, runpath, .. } = &self.dynamic;
        (rpath.as_deref(), runpath.as_deref())
    }

    /// How many bytes the segments claim beyond the end of the file: not 0
    /// for a file that was cut short.
    pub fn missing_bytes(&self) -> u64 {
        self.missing_bytes
    }

    pub fn file_offset(&self, addr: LinkAddr) -> Option<FileOffset> {
        addr::to_file(&self.segments, addr)
    }

    pub fn link_addr(&self, offset: FileOffset) -> Option<LinkAddr> {
        addr::to_link(&self.segments, offset)
    }

    /// All extents of code: sorted by start, disjoint.
    pub fn functions(&self) -> &[Function] {
        &self.table().0.extents
    }

    pub fn name(&self, id: NameId) -> &str {
        self.table().1.get(id)
    }

    /// All names of an extent, best first; none for unnamed ones.
    pub fn aliases(&self, function: &Function) -> impl Iterator<Item = &str> {
        let (table, names) = self.table();
        let (first, last) = (function.names.0 as usize, function.names.1 as usize);
        let ids = table.names_of.get(first..last).unwrap_or_default();
        ids.iter().map(|&id| names.get(id))
    }

    /// The extent that holds a byte.
    pub fn function_at(&self, offset: FileOffset) -> Option<&Function> {
        let functions = self.functions();
        let after = functions.partition_point(|function| function.start <= offset);
        let found = &functions[after.checked_sub(1)?];
        found.contains(offset).then_some(found)
    }

    /// Name, file and line of a byte of code.
    pub fn symbolize(&self, offset: FileOffset) -> Symbol {
        let (file, line) = self.line_at(offset);
        let (raw_name, start) = self.name_at(offset);
        let name = raw_name.map_or_else(|| fallback_name(&self.path, start), demangled);
        Symbol {
            name,
            raw_name: raw_name.map(str::to_owned),
            offset: offset.0 - start.0,
            file,
            line,
            column: self.column_at(offset),
        }
    }

    /// Raw name of the code at `offset` and where what it names begins.
    pub fn name_at(&self, offset: FileOffset) -> (Option<&str>, FileOffset) {
        let Some(extent) = self.function_at(offset) else {
            return (None, offset);
        };
        if let Some(name) = extent.name {
            return (Some(self.name(name)), extent.start);
        }
        // An unnamed part behind its function counts from the function.
        let owner = match extent.kind {
            ExtentKind::Part if extent.owner < extent.start => self.function_at(extent.owner),
            _ => None,
        };
        let named = owner.and_then(|owner| Some((owner.name?, owner.start)));
        named.map_or((None, extent.start), |(name, start)| {
            (Some(self.name(name)), start)
        })
    }

    /// Source file and line of a byte of code.
    pub fn line_at(&self, offset: FileOffset) -> (Option<String>, Option<u32>) {
        let Some(addr) = self.link_addr(offset) else {
            return (None, None);
        };
        match &mut *self.lines() {
            Some(Some(lines)) => lines.find(addr, &self.bytes),
            _ => {
                let found = self.go_table().and_then(|table| table.find(addr.0));
                found.map_or((None, None), |(file, line)| (Some(file), Some(line)))
            }
        }
    }

    /// File and line of the declaration of each function that begins at one of these places, as far as
    /// debug information says it.
    pub fn declarations(&self, entries: &[FileOffset]) -> HashMap<FileOffset, (String, u32)> {
        let places = entries
            .iter()
            .filter_map(|&at| Some((at, self.link_addr(at)?)));
        let places: Vec<(FileOffset, LinkAddr)> = places.collect();
        let asked: BTreeSet<u64> = places.iter().map(|&(_, addr)| addr.0).collect();
        let mut found = match self.has_own_lines() {
            true => declarations::read(&self.bytes, &asked),
            false => HashMap::new(),
        };
        let mut lines = self.lines();
        let mut place_of = |addr: LinkAddr| {
            let known = found.remove(&addr.0);
            known.or_else(|| lines.as_mut()?.as_mut()?.first(addr, &self.bytes))
        };
        let each = places.into_iter();
        each.filter_map(|(at, addr)| Some((at, place_of(addr)?)))
            .collect()
    }

    /// Column of the source line that a byte of code comes from, where compilers say it.
    pub fn column_at(&self, offset: FileOffset) -> Option<u32> {
        let addr = self.link_addr(offset)?;
        match &mut *self.lines() {
            Some(Some(lines)) => lines.column(addr, &self.bytes),
            _ => None,
        }
    }

    /// Checksum and time, by the line table, of the source file of a byte of code.
    pub fn source_stamp(&self, offset: FileOffset) -> SourceStamp {
        let addr = self.link_addr(offset);
        match (addr, &mut *self.lines()) {
            (Some(addr), Some(Some(lines))) => lines.stamp(addr, &self.bytes),
            _ => SourceStamp::default(),
        }
    }

    /// Reads the line tables that [`Image::symbolize`] would read at its first
    /// question; for who knows that it will be asked and has the time now.
    pub fn prepare_lines(&self) {
        drop(self.lines());
    }

    /// Bytes from a link address to the end of its segment, as far as they are in the
    /// file; empty where nothing is.
    pub fn bytes_from(&self, addr: LinkAddr) -> &[u8] {
        let segment = self.segments.iter().find(|segment| {
            let into = addr.0.checked_sub(segment.addr.0);
            into.is_some_and(|into| into < segment.file_size)
        });
        let bytes = segment.and_then(|segment| {
            let into = addr.0 - segment.addr.0;
            let (start, end) = (
                segment.offset.0 + into,
                segment.offset.0 + segment.file_size,
            );
            let place = usize::try_from(start).ok()?..usize::try_from(end).ok()?;
            self.bytes.get(place)
        });
        bytes.unwrap_or_default()
    }

    /// All lines of the code, also of code that never runs.
    pub fn line_table(&self) -> LineTable {
        match &mut *self.lines() {
            Some(Some(lines)) => lines.table(&self.segments, &self.bytes),
            _ => {
                let lines = self.go_table().map(|table| table.table(&self.segments));
                lines.unwrap_or_default()
            }
        }
    }

    /// Functions with code, and what was inlined into them, as its DWARF has them, or that of its separate debug file.
    pub fn scopes(&self) -> Vec<Scope> {
        scopes::of(&self.bytes, || self.debug_file())
    }

    /// Whether it has line tables itself, and not in a separate debug file.
    pub fn has_own_lines(&self) -> bool {
        match &*self.lines() {
            Some(Some(lines)) => lines.are_own(),
            _ => self.go_table().is_some(),
        }
    }

    /// Whether its lines were made where it is: they are in the file, or in a debug file in the same folder.
    pub fn has_lines_beside(&self) -> bool {
        let folder = self.path.parent();
        let beside = |debug: &Path| folder.is_some_and(|folder| debug.starts_with(folder));
        self.has_own_lines() || self.debug_file().is_some_and(beside)
    }

    /// Go's own table of functions and lines.
    fn go_table(&self) -> Option<&GoTable> {
        let read = || GoTable::read(&Elf::parse(&*self.bytes).ok()?);
        self.go_table.get_or_init(read).as_ref()
    }

    fn lines(&self) -> MutexGuard<'_, Option<Option<Lines>>> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.get_or_insert_with(|| Lines::load(&self.bytes, self.debug_file()));
        lines
    }

    /// The separate debug file, when the system has it.
    pub fn debug_file(&self) -> Option<&Path> {
        let find = || debug::find(&self.path, self.build_id(), self.debug_link.as_ref());
        self.debug_file.get_or_init(find).as_deref()
    }

    fn table(&self) -> &(Table, Names) {
        self.functions
            .get_or_init(|| match Elf::parse(&*self.bytes) {
                Ok(elf) => self.build_table(&elf),
                Err(_) => Default::default(),
            })
    }

    fn build_table<'d>(&self, elf: &Elf<'d, &'d [u8]>) -> (Table, Names) {
        let mut collected = self.collect_symbols(elf);
        let (code, plts) = code_ranges(elf);
        let input = Input {
            entries: self.entries(elf, &mut collected.names),
            symbols: collected.found,
            ifuncs: collected.ifuncs,
            frames: frames::read(elf),
            code,
            holes: self.holes.as_ref(),
            segments: &self.segments,
            plts,
            is_linker: self.is_linker(),
        };
        let table = functions::build(input, &collected.names, &self.segments);
        (table, collected.names)
    }

    /// `.symtab`, else that of the debug file, else that inside the file; and the dynamic symbols.
    fn collect_symbols<'d>(&self, elf: &Elf<'d, &'d [u8]>) -> Collector {
        let mut collected = Collector::default();
        let has_own = collected.add_section(elf, elf::SHT_SYMTAB)
            || self.add_separate_symbols(&mut collected);
        if !has_own
            && let Some(inner) = debug::inner(elf)
            && let Ok(inner) = Elf::parse(&*inner)
        {
            collected.add_section(&inner, elf::SHT_SYMTAB);
        }
        if let Some(table) = self.go_table().filter(|_| !has_own) {
            collected.add_go(table);
        }
        if !collected.add_section(elf, elf::SHT_DYNSYM) && elf.sections.is_empty() {
            collected.add_dynamic(elf, &self.dynamic);
        }
        collected
    }

    /// Adds the symbols of the debug file, if there is one with some.
    fn add_separate_symbols(&self, collected: &mut Collector) -> bool {
        let file = self.debug_file().and_then(|path| fs::File::open(path).ok());
        let Some(file) = file else {
            return false;
        };
        let cache = ReadCache::new(file);
        Elf::parse(&cache).is_ok_and(|debug| collected.add_section(&debug, elf::SHT_SYMTAB))
    }

    /// `e_entry` first, then what the dynamic section names. A program's entry is `_start` by the
    /// ABI, and that of a dynamic linker by custom; a library's has no fixed name.
    fn entries<'d>(
        &self,
        elf: &Elf<'d, &'d [u8]>,
        names: &mut Names,
    ) -> Vec<(u64, Option<NameId>)> {
        let begins = self.kind != ImageKind::Shared || self.is_linker();
        let start = names.add(b"_start").filter(|_| begins);
        let mut entries = vec![(self.entry.0, start)];
        let fixed = [(self.dynamic.init, "_init"), (self.dynamic.fini, "_fini")];
        for (addr, name) in fixed {
            entries.extend(addr.map(|addr| (addr, names.add(name.as_bytes()))));
        }
        entries.extend(array_elements(elf, &self.dynamic).map(|addr| (addr, None)));
        entries
    }

    pub(crate) fn dynamic(&self) -> &Dynamic {
        &self.dynamic
    }

    /// Code of the file in link addresses: sections when there are any, else segments; without the
    /// stubs of the dynamic linker.
    pub fn code(&self) -> Vec<(LinkAddr, &[u8])> {
        let Ok(elf) = Elf::parse(&*self.bytes) else {
            return Vec::new();
        };
        let (code, _) = code_ranges(&elf);
        let each = code.into_iter();
        each.map(|code| (LinkAddr(code.start), code.bytes))
            .collect()
    }

    fn is_linker(&self) -> bool {
        self.soname().is_some_and(|name| name.starts_with("ld-"))
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Image")
            .field("path", &self.path)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

/// Executable bytes: sections when there are any, else segments. PLT sections
/// are listed apart.
fn code_ranges<'d>(elf: &Elf<'d, &'d [u8]>) -> (Vec<Code<'d>>, Vec<Range<u64>>) {
    let (mut code, mut plts) = (Vec::new(), Vec::new());
    for (name, section) in elf.placed_sections() {
        if section.sh_flags(LE).0 & elf::SHF_EXECINSTR.0 == 0 {
            continue;
        }
        let start = section.sh_addr(LE);
        let range = start..start.saturating_add(section.sh_size(LE));
        let Some(bytes) = elf.bytes_in(&range) else {
            continue;
        };
        let is_plt = name == b".plt" || name == b".iplt" || name.starts_with(b".plt.");
        if is_plt && !bytes.is_empty() {
            plts.push(start..start + bytes.len() as u64);
        } else {
            code.push(Code { start, bytes });
        }
    }
    if code.is_empty() && plts.is_empty() {
        let executable = elf.segments.iter().filter(|segment| segment.executable);
        code.extend(executable.filter_map(|segment| {
            let start = segment.addr.0;
            let bytes = elf.bytes_in(&(start..start + segment.file_size))?;
            Some(Code { start, bytes })
        }));
    }
    (code, plts)
}

/// Functions in the arrays of initializers and finalizers: the words in the
/// file (fixed programs, RELR) and the addends of relative relocations.
fn array_elements<'a>(
    elf: &Elf<'a, &'a [u8]>,
    dynamic: &'a Dynamic,
) -> impl Iterator<Item = u64> + 'a {
    let in_array = |addr: u64| dynamic.arrays.iter().any(|array| array.contains(&addr));
    let words = |bytes: &'a [u8]| {
        let chunks = bytes.chunks_exact(8);
        chunks.map(|chunk| u64::from_le_bytes(chunk.try_into().unwrap_or_default()))
    };
    let stored: Vec<u64> = dynamic
        .arrays
        .iter()
        .filter_map(|array| elf.bytes_in(array))
        .flat_map(words)
        .collect();
    let relocations = elf.bytes_in(&dynamic.rela).unwrap_or_default();
    let added = relocations.chunks_exact(24).filter_map(move |entry| {
        let mut fields = words(entry);
        let (place, info, addend) = (fields.next()?, fields.next()?, fields.next()?);
        // The low half of `r_info` is the type.
        let relative = info as u32 == elf::R_X86_64_RELATIVE.0;
        (relative && in_array(place)).then_some(addend)
    });
    stored
        .into_iter()
        .chain(added)
        .filter(|&addr| addr != 0 && addr != u64::MAX)
}
