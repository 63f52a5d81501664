//! Maps an ELF file as the kernel would (`fs/binfmt_elf.c`), but without
//! execute rights and, if it is position independent, near the code cache.

use alloc::vec;
use alloc::vec::Vec;
use core::ffi::CStr;
use core::ops::Range;

use sys::{Errno, Result};

use crate::address_space::Place;

const ET_EXEC: u16 = 2;
const ET_DYN: u16 = 3;
pub(crate) const PT_LOAD: u32 = 1;
const PT_INTERP: u32 = 3;
const PT_PHDR: u32 = 6;
const PT_GNU_STACK: u32 = 0x6474_e551;
const PF_X: u32 = 1;
const PF_W: u32 = 2;
const PF_R: u32 = 4;
const EM_X86_64: u16 = 62;
pub(crate) const PAGE: u64 = 4096;

/// Facts from a file's ELF header.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    pub fixed: bool,
    entry: u64,
    phoff: u64,
    phnum: u16,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    kind: u32,
    flags: u32,
    offset: u64,
    vaddr: u64,
    filesz: u64,
    memsz: u64,
}

/// An executable part of a mapped file.
#[derive(Clone, Copy, Debug)]
pub struct Code {
    pub start: u64,
    pub end: u64,
    pub offset: u64,
    pub prot: u32,
}

#[derive(Debug)]
pub struct Loaded {
    pub bias: u64,
    pub entry: u64,
    pub phdr: u64,
    pub phnum: u64,
    pub start: u64,
    /// First page after everything mapped (the heap of a fixed program begins here).
    pub end: u64,
    pub code: Vec<Code>,
    pub interpreter: Option<Vec<u8>>,
    pub executable_stack: bool,
    pub fixed: bool,
    pub file: wire::FileId,
    pub areas: Areas,
}

/// The areas of code and data that `/proc` shows (`load_elf_binary`). Code is from the lowest
/// beginning to the highest end of the segments that are executed; data is from the segment that
/// begins last to the highest end of all. Ends are those of what the file has.
#[derive(Clone, Copy, Debug, Default)]
pub struct Areas {
    pub start_code: u64,
    pub end_code: u64,
    pub start_data: u64,
    pub end_data: u64,
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// An open executable file.
#[derive(Debug)]
pub struct File {
    fd: i32,
    pub header: Header,
    segments: Vec<Segment>,
}

impl Drop for File {
    fn drop(&mut self) {
        sys::close(self.fd);
    }
}

impl File {
    /// Opens and checks a file as the kernel would; the error is execve's.
    pub fn open(path: &CStr) -> Result<File> {
        let fd = sys::open(path, sys::O_RDONLY | sys::O_CLOEXEC)?;
        let mut file = File {
            fd,
            header: Header {
                fixed: false,
                entry: 0,
                phoff: 0,
                phnum: 0,
            },
            segments: Vec::new(),
        };
        let mut head = [0u8; 64];
        if sys::pread(fd, &mut head, 0)? < 64 {
            return Err(Errno::ENOEXEC);
        }
        let right = head[..4] == *b"\x7fELF" && head[4] == 2 && u16_at(&head, 18) == EM_X86_64;
        let kind = u16_at(&head, 16);
        if !right || (kind != ET_EXEC && kind != ET_DYN) || u16_at(&head, 54) != 56 {
            return Err(Errno::ENOEXEC);
        }
        file.header = Header {
            fixed: kind == ET_EXEC,
            entry: u64_at(&head, 24),
            phoff: u64_at(&head, 32),
            phnum: u16_at(&head, 56),
        };
        file.read_segments()?;
        Ok(file)
    }

    fn read_segments(&mut self) -> Result<()> {
        let count = usize::from(self.header.phnum);
        // The kernel's limit: one page of program headers would be 73; it allows 64 KB.
        if count == 0 || count > 65536 / 56 {
            return Err(Errno::ENOEXEC);
        }
        let mut table = vec![0u8; count * 56];
        if sys::pread(self.fd, &mut table, self.header.phoff)? < table.len() {
            return Err(Errno::ENOEXEC);
        }
        self.segments = table
            .chunks_exact(56)
            .map(|raw| Segment {
                kind: u32_at(raw, 0),
                flags: u32_at(raw, 4),
                offset: u64_at(raw, 8),
                vaddr: u64_at(raw, 16),
                filesz: u64_at(raw, 32),
                memsz: u64_at(raw, 40),
            })
            .collect();
        Ok(())
    }

    fn loads(&self) -> impl Iterator<Item = &Segment> {
        self.segments
            .iter()
            .filter(|segment| segment.kind == PT_LOAD && segment.memsz > 0)
    }

    fn interpreter(&self) -> Result<Option<Vec<u8>>> {
        let Some(segment) = self
            .segments
            .iter()
            .find(|segment| segment.kind == PT_INTERP)
        else {
            return Ok(None);
        };
        if segment.filesz < 2 || segment.filesz > 4096 {
            return Err(Errno::ENOEXEC);
        }
        let mut path = vec![0u8; segment.filesz as usize];
        if sys::pread(self.fd, &mut path, segment.offset)? < path.len() || path.last() != Some(&0) {
            return Err(Errno::ENOEXEC);
        }
        Ok(Some(path))
    }

    /// Link-time addresses of all segments, in whole pages.
    pub fn span(&self) -> Result<Range<u64>> {
        let low = self.loads().map(|s| s.vaddr & !(PAGE - 1)).min();
        let high = self.loads().map(|s| s.vaddr.saturating_add(s.memsz)).max();
        let (low, high) = (low.ok_or(Errno::ENOEXEC)?, high.ok_or(Errno::ENOEXEC)?);
        let high = high.checked_next_multiple_of(PAGE).ok_or(Errno::ENOEXEC)?;
        if high < low {
            return Err(Errno::ENOEXEC);
        }
        Ok(low..high)
    }

    /// Maps all segments of the program.
    pub fn load_program(&self, place: &mut Place) -> Result<Loaded> {
        self.load_at(Place::program_hint, place)
    }

    /// Maps all segments of its interpreter.
    pub fn load(&self, place: &mut Place) -> Result<Loaded> {
        self.load_at(Place::hint, place)
    }

    fn load_at(&self, hint: fn(&mut Place, u64) -> u64, place: &mut Place) -> Result<Loaded> {
        let Range {
            start: low,
            end: high,
        } = self.span()?;
        let span = high - low;
        // One reservation for the whole span; the segments go over it.
        let anonymous = sys::MAP_PRIVATE | sys::MAP_ANONYMOUS | sys::MAP_NORESERVE;
        let (hint, flags) = if self.header.fixed {
            (low, anonymous | sys::MAP_FIXED_NOREPLACE)
        } else {
            (hint(place, span), anonymous)
        };
        // SAFETY: no existing mapping is replaced (NOREPLACE, or no MAP_FIXED).
        let base = unsafe { sys::mmap(hint, span, sys::PROT_NONE, flags, -1, 0)? };
        if self.header.fixed && base != low {
            return Err(Errno::ENOMEM);
        }
        let bias = base.wrapping_sub(low);
        let mut code = Vec::new();
        for segment in self.loads() {
            self.map_segment(segment, bias, &mut code)?;
        }
        let stat = sys::fstat(self.fd)?;
        Ok(Loaded {
            bias,
            entry: bias.wrapping_add(self.header.entry),
            phdr: self.phdr_address(bias),
            phnum: u64::from(self.header.phnum),
            start: base,
            end: base + span,
            code,
            interpreter: self.interpreter()?,
            executable_stack: self
                .segments
                .iter()
                .any(|s| s.kind == PT_GNU_STACK && s.flags & PF_X != 0),
            fixed: self.header.fixed,
            file: crate::pool::file_id(&stat),
            areas: self.areas(bias),
        })
    }

    fn areas(&self, bias: u64) -> Areas {
        let code = || self.loads().filter(|segment| segment.flags & PF_X != 0);
        let end = |segment: &Segment| segment.vaddr + segment.filesz;
        let at = |address: Option<u64>| address.map_or(0, |address| bias.wrapping_add(address));
        Areas {
            start_code: at(code().map(|segment| segment.vaddr).min()),
            end_code: at(code().map(end).max()),
            start_data: at(self.loads().map(|segment| segment.vaddr).max()),
            end_data: at(self.loads().map(end).max()),
        }
    }

    /// Address in memory of the program headers, in the segment that holds them.
    fn phdr_address(&self, bias: u64) -> u64 {
        let phoff = self.header.phoff;
        self.loads()
            .find(|s| s.offset <= phoff && phoff < s.offset + s.filesz)
            .map(|s| bias.wrapping_add(phoff - s.offset + s.vaddr))
            .or_else(|| {
                self.segments
                    .iter()
                    .find(|s| s.kind == PT_PHDR)
                    .map(|s| bias.wrapping_add(s.vaddr))
            })
            .unwrap_or(0)
    }

    // Long function: the cases of one segment, in the order of the kernel's code.
    fn map_segment(&self, segment: &Segment, bias: u64, code: &mut Vec<Code>) -> Result<()> {
        let in_page = segment.vaddr & (PAGE - 1);
        if segment.offset & (PAGE - 1) != in_page {
            return Err(Errno::EINVAL);
        }
        let start = bias.wrapping_add(segment.vaddr - in_page);
        let wanted = prot_of(segment.flags);
        let real = real_prot(wanted);
        let file_len = (segment.filesz + in_page).next_multiple_of(PAGE);
        let total = (segment.memsz + in_page).next_multiple_of(PAGE);
        if segment.filesz > 0 {
            let flags = sys::MAP_PRIVATE | sys::MAP_FIXED;
            // SAFETY: within the reservation made by `load`.
            unsafe {
                sys::mmap(
                    start,
                    file_len,
                    real,
                    flags,
                    self.fd,
                    segment.offset - in_page,
                )?
            };
        }
        let anonymous_from = if segment.filesz > 0 { file_len } else { 0 };
        if total > anonymous_from {
            let flags = sys::MAP_PRIVATE | sys::MAP_FIXED | sys::MAP_ANONYMOUS;
            // SAFETY: as above.
            unsafe {
                sys::mmap(
                    start + anonymous_from,
                    total - anonymous_from,
                    real,
                    flags,
                    -1,
                    0,
                )?
            };
        }
        // The kernel zeroes the tail of the last file page if it can be written.
        let tail = start + in_page + segment.filesz;
        if segment.filesz > 0
            && segment.memsz > segment.filesz
            && wanted & sys::PROT_WRITE != 0
            && tail & (PAGE - 1) != 0
        {
            let zeros = [0u8; PAGE as usize];
            crate::memory::write_bytes(
                tail,
                &zeros[..(tail.next_multiple_of(PAGE) - tail) as usize],
            );
        }
        if wanted & sys::PROT_EXEC != 0 {
            code.push(Code {
                start,
                end: start + total,
                offset: segment.offset - in_page,
                prot: wanted,
            });
        }
        Ok(())
    }
}

fn prot_of(flags: u32) -> u32 {
    [
        (PF_R, sys::PROT_READ),
        (PF_W, sys::PROT_WRITE),
        (PF_X, sys::PROT_EXEC),
    ]
    .iter()
    .filter(|(flag, _)| flags & flag != 0)
    .fold(0, |prot, (_, bit)| prot | bit)
}

/// Rights that the kernel gets for those that the program wants: never execute, and
/// readable where it would have been executable, so that it can be translated.
pub const fn real_prot(wanted: u32) -> u32 {
    if wanted & sys::PROT_EXEC != 0 {
        wanted & !sys::PROT_EXEC | sys::PROT_READ
    } else {
        wanted
    }
}
