//! Pages between the segments of the engine's own image.
//!
//! Problem: a linker may leave whole pages between two segments of a static
//! PIE. The kernel reserves the span of the image while it maps it, but then
//! the holes are free again, and it may give one to the program: so pages of
//! the program would lie inside a range that the engine calls its own, and
//! calls about them would be answered as calls about nothing.
//!
//! Approach: at start the holes are found in the image's own program headers
//! and reserved without any access. The whole span is then the engine's.

use core::ops::Range;

use crate::loader::{PAGE, PT_LOAD, u16_at, u32_at, u64_at};

/// Size of an ELF64 file header and of one program header.
const EHDR: usize = 64;
const PHDR: usize = 56;

/// Reserves the holes of the engine's `image` and notes all of it, and the gate, as the engine's.
///
/// # Safety
/// `image` is where the running payload is loaded: it begins with its ELF
/// header, which its program headers follow in the same page.
pub unsafe fn note_image(image: Range<u64>) {
    // SAFETY: the first page of the image is mapped readable and never
    // written (the caller's word); the slice is dropped before this returns.
    let head = unsafe { core::slice::from_raw_parts(image.start as *const u8, PAGE as usize) };
    between(head, |gap| {
        let flags =
            sys::MAP_PRIVATE | sys::MAP_ANONYMOUS | sys::MAP_NORESERVE | sys::MAP_FIXED_NOREPLACE;
        let (start, len) = (image.start + gap.start, gap.end - gap.start);
        // SAFETY: nothing is replaced (NOREPLACE). Where something is mapped
        // already the hole is not free, and the program cannot get it either.
        let _ = unsafe { sys::mmap(start, len, sys::PROT_NONE, flags, -1, 0) };
    });
    crate::memory::note(image.start, image.end - image.start);
    if sys::gate::page() == sys::gate::PAGE {
        crate::memory::note(sys::gate::PAGE, sys::gate::SIZE);
    }
}

/// Gives `each` the whole pages, relative to the image, that lie between two
/// consecutive loadable segments (they are sorted by address, as ELF demands).
/// `head` is the image's first page.
fn between(head: &[u8], mut each: impl FnMut(Range<u64>)) {
    let table = u64_at(head, 32) as usize;
    let count = usize::from(u16_at(head, 56));
    let mut end = None;
    for at in (0..count).map(|index| table + index * PHDR) {
        if at < EHDR || at + PHDR > head.len() || u32_at(head, at) != PT_LOAD {
            continue;
        }
        let (vaddr, memsz) = (u64_at(head, at + 16), u64_at(head, at + 40));
        let first = vaddr & !(PAGE - 1);
        if let Some(end) = end.filter(|&end| end < first) {
            each(end..first);
        }
        end = Some((vaddr + memsz).next_multiple_of(PAGE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first page of an image with these segments: kind, address, size.
    fn head(segments: &[(u32, u64, u64)]) -> [u8; 4096] {
        let mut head = [0; 4096];
        head[32..40].copy_from_slice(&64u64.to_le_bytes());
        head[56..58].copy_from_slice(&(segments.len() as u16).to_le_bytes());
        for (raw, &(kind, vaddr, memsz)) in head[EHDR..].chunks_exact_mut(PHDR).zip(segments) {
            raw[..4].copy_from_slice(&kind.to_le_bytes());
            raw[16..24].copy_from_slice(&vaddr.to_le_bytes());
            raw[40..48].copy_from_slice(&memsz.to_le_bytes());
        }
        head
    }

    fn gaps(segments: &[(u32, u64, u64)]) -> alloc::vec::Vec<Range<u64>> {
        let mut found = alloc::vec::Vec::new();
        between(&head(segments), |gap| found.push(gap));
        found
    }

    #[test]
    fn pages_between_segments_are_found() {
        // As the linker laid them once: text ends in the page before 0xff000 + 0x1000.
        let load = PT_LOAD;
        assert_eq!(
            gaps(&[
                (load, 0, 0x1234),
                (load, 0x2000, 0xfdffe),
                (load, 0x10_1000, 0x5000)
            ]),
            core::slice::from_ref(&(0x10_0000..0x10_1000))
        );
        // Nothing between neighbours, nor where segments share a page.
        assert_eq!(
            gaps(&[(load, 0, 0x1000), (load, 0x1800, 0x100), (load, 0x2000, 8)]),
            []
        );
        // Other program headers do not count.
        assert_eq!(
            gaps(&[(load, 0, 1), (2, 0x3000, 8), (load, 0x5000, 1)]),
            core::slice::from_ref(&(0x1000..0x5000))
        );
    }
}
