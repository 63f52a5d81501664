//! Code of files that is copied and put back in place of itself.
//!
//! Problem: programs that want huge pages copy their text to anonymous memory and move that to
//! where the text was. To the kernel it belongs to no file from then on, so its functions would
//! have no names.
//!
//! Approach: where code of a file was mapped is remembered, also when that mapping is gone. Code of
//! no file at such addresses is compared with the file, page by page, when it is moved there, when
//! it becomes executable and can be written no more, and when a thread goes there; pages that are
//! the same are the file's again.
//!
//! Cost: a look into a short list where code of no file is translated. Each page is compared once:
//! at the first difference its place is forgotten.
//!
//! Limits: the file must still be there under its path, with its time of change. Copies at other
//! addresses are code of no file, and so is memory that userfaultfd serves.

use alloc::vec::Vec;

use super::{FileMap, Process};
use crate::regions::Region;

const PAGE: u64 = 4096;

/// The list of where code of files was mapped: by address, disjoint.
#[derive(Debug, Default)]
pub struct Former(Vec<FileMap>);

impl Former {
    /// Code of `map`'s file is mapped, in place of what was there before.
    pub fn note(&mut self, map: FileMap) {
        self.forget(map.start, map.end);
        let at = self.0.partition_point(|known| known.start < map.start);
        self.0.insert(at, map);
    }

    /// Code at `start..end` is not asked about any more.
    fn forget(&mut self, start: u64, end: u64) {
        let mut at = self.0.partition_point(|map| map.end <= start);
        while start < end && self.0.get(at).is_some_and(|map| map.start < end) {
            let map = self.0.remove(at);
            for (first, last) in [(map.start, start), (end, map.end)] {
                if first < last {
                    self.0.insert(at, map.part(first, last));
                    at += 1;
                }
            }
        }
    }

    /// Parts of known mappings in `start..end`.
    fn parts(&self, start: u64, end: u64) -> Vec<FileMap> {
        let first = self.0.partition_point(|map| map.end <= start);
        let meeting = self.0[first..].iter();
        let meeting = meeting.take_while(|map| map.start < end);
        meeting
            .map(|map| map.part(map.start.max(start), map.end.min(end)))
            .collect()
    }

    pub fn find(&self, pc: u64) -> Option<&FileMap> {
        let at = self.0.partition_point(|map| map.end <= pc);
        self.0.get(at).filter(|map| map.start <= pc)
    }
}

impl Process {
    /// Makes code of no file at `pc` the code of a file, if it is such code. Called before anything
    /// is said about a place that control goes to.
    pub fn recognise(&mut self, pc: u64) {
        let region = self.regions.find(pc).filter(|region| !region.of_file);
        if let Some(&Region { start, end, .. }) = region
            && self.former.find(pc).is_some()
        {
            self.recognise_pages(start, end);
        }
    }

    /// Makes all code of no file in `start..end`, whose bytes are there, the code of files that it is.
    pub(super) fn recognise_pages(&mut self, start: u64, end: u64) {
        if crate::memory::is_served() {
            return;
        }
        let pieces = self.regions.pieces(start, end);
        for piece in pieces.into_iter().filter(|piece| !piece.of_file) {
            for map in self.former.parts(piece.start, piece.end) {
                let same = SameFile::open(&map).map(|file| file.same_pages());
                let same = same.unwrap_or_default();
                let mut at = map.start;
                for &(start, end) in same.iter().chain(&[(map.end, map.end)]) {
                    self.former.forget(at, start);
                    at = end;
                    if start < end {
                        self.code_is_of(&map.part(start, end));
                    }
                }
            }
        }
    }

    /// Code of a file that was at `from` is at `start..end`.
    pub(super) fn file_moved(&mut self, from: u64, start: u64, end: u64) {
        let Some(map) = self.former.find(from) else {
            return;
        };
        let map = FileMap {
            start,
            end,
            offset: map.offset_at(from),
            ..map.clone()
        };
        self.code_is_of(&map);
        self.former.note(map);
    }

    /// The executable memory at `map`'s addresses is code of its file.
    pub(super) fn code_is_of(&mut self, map: &FileMap) {
        let table = self.log_code(map);
        for piece in self.regions.pieces(map.start, map.end) {
            self.regions.insert(Region {
                offset: map.offset_at(piece.start),
                table,
                of_file: true,
                ..piece
            });
        }
    }
}

/// A file to compare memory with, open as long as this lives.
struct SameFile<'a> {
    fd: i32,
    map: &'a FileMap,
}

impl SameFile<'_> {
    /// `None`: the file is no longer there, or another one.
    fn open(map: &FileMap) -> Option<SameFile<'_>> {
        let mut path = map.path.clone();
        path.push(0);
        let path = core::ffi::CStr::from_bytes_with_nul(&path).ok()?;
        let fd = sys::open(path, sys::O_RDONLY | sys::O_CLOEXEC).ok()?;
        let file = SameFile { fd, map };
        let stat = sys::fstat(fd).ok()?;
        (crate::pool::file_id(&stat) == map.id).then_some(file)
    }

    /// Ranges of the pages that have the file's bytes, by address.
    fn same_pages(&self) -> Vec<(u64, u64)> {
        let mut same: Vec<(u64, u64)> = Vec::new();
        for page in (self.map.start..self.map.end).step_by(PAGE as usize) {
            if !self.is_same(page) {
                continue;
            }
            match same.last_mut() {
                Some((_, end)) if *end == page => *end += PAGE,
                _ => same.push((page, page + PAGE)),
            }
        }
        same
    }

    /// Whether the page at `at` has the bytes of the file, which go on with zeros.
    fn is_same(&self, at: u64) -> bool {
        let (mut memory, mut file) = ([0u8; PAGE as usize], [0u8; PAGE as usize]);
        let present = crate::memory::read_some(at, &mut memory) == memory.len();
        let got = sys::pread(self.fd, &mut file, self.map.offset_at(at));
        present && got.is_ok_and(|got| got > 0) && memory == file
    }
}

impl Drop for SameFile<'_> {
    fn drop(&mut self) {
        sys::close(self.fd);
    }
}

#[cfg(test)]
mod tests {
    use super::{FileMap, Former};

    fn map(start: u64, end: u64, offset: u64) -> FileMap {
        FileMap {
            start,
            end,
            offset,
            id: wire::FileId::default(),
            path: alloc::vec![],
        }
    }

    fn all(former: &Former) -> alloc::vec::Vec<(u64, u64, u64)> {
        let parts = former.parts(0, u64::MAX).into_iter();
        parts.map(|map| (map.start, map.end, map.offset)).collect()
    }

    #[test]
    fn mappings_are_cut_where_others_come_and_where_they_are_forgotten() {
        let mut former = Former::default();
        former.note(map(0x5000, 0x9000, 0x1000));
        former.note(map(0x1000, 0x3000, 0));
        former.note(map(0x2000, 0x6000, 0x8000));
        assert_eq!(
            all(&former),
            [
                (0x1000, 0x2000, 0),
                (0x2000, 0x6000, 0x8000),
                (0x6000, 0x9000, 0x2000)
            ]
        );
        former.forget(0x3000, 0x4000);
        former.forget(0x4000, 0x4000);
        assert_eq!(
            all(&former),
            [
                (0x1000, 0x2000, 0),
                (0x2000, 0x3000, 0x8000),
                (0x4000, 0x6000, 0xa000),
                (0x6000, 0x9000, 0x2000)
            ]
        );
        assert!(former.find(0x3fff).is_none() && former.find(0x9000).is_none());
        assert_eq!(former.find(0x4000).map(|map| map.start), Some(0x4000));
        let cut = former.parts(0x2800, 0x4800);
        let cut: alloc::vec::Vec<_> = cut.iter().map(|map| (map.start, map.offset)).collect();
        assert_eq!(cut, [(0x2800, 0x8800), (0x4000, 0xa000)]);
    }
}
