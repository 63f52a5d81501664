//! Memory as somebody knows it who has seen some of the values that were in it.

use std::collections::HashMap;

const PAGE: u64 = 4096;
type Page = Box<[u8; PAGE as usize]>;

/// Bytes by address; those that nobody has set are 0.
#[derive(Default)]
pub struct Memory {
    pages: HashMap<u64, usize>,
    bytes: Vec<Page>,
    /// The page that was used last.
    last: Option<(u64, usize)>,
}

impl Memory {
    /// Sets bytes, from this address on.
    pub fn set(&mut self, address: u64, bytes: &[u8]) {
        self.each(address, bytes.len(), true, |page, at| {
            if let Some(page) = page {
                page.copy_from_slice(&bytes[at..at + page.len()]);
            }
        });
    }

    /// Reads into `bytes`.
    pub fn get(&mut self, address: u64, bytes: &mut [u8]) {
        self.each(address, bytes.len(), false, |page, at| match page {
            Some(page) => bytes[at..at + page.len()].copy_from_slice(page),
            None => bytes[at] = 0,
        });
    }

    /// Whether these bytes are in it.
    pub fn has(&mut self, address: u64, bytes: &[u8]) -> bool {
        let mut is_equal = true;
        self.each(address, bytes.len(), false, |page, at| {
            is_equal &= match page {
                Some(page) => bytes[at..at + page.len()] == *page,
                None => bytes[at] == 0,
            };
        });
        is_equal
    }

    /// Visits the bytes of a range page by page, or byte by byte where there is none; with their
    /// places in the range.
    #[inline]
    fn each(
        &mut self,
        address: u64,
        len: usize,
        makes: bool,
        mut visit: impl FnMut(Option<&mut [u8]>, usize),
    ) {
        let mut at = 0;
        while at < len {
            let here = address.wrapping_add(at as u64);
            let within = (here % PAGE) as usize;
            let most = (len - at).min(PAGE as usize - within);
            match self.page(here / PAGE, makes) {
                Some(page) => visit(Some(&mut page[within..within + most]), at),
                None => (at..at + most).for_each(|at| visit(None, at)),
            }
            at += most;
        }
    }

    #[inline]
    fn page(&mut self, number: u64, makes: bool) -> Option<&mut Page> {
        if let Some((last, at)) = self.last
            && last == number
        {
            return self.bytes.get_mut(at);
        }
        let at = match self.pages.get(&number) {
            Some(&at) => at,
            None if !makes => return None,
            None => {
                self.pages.insert(number, self.bytes.len());
                self.bytes.push(Box::new([0; PAGE as usize]));
                self.bytes.len() - 1
            }
        };
        self.last = Some((number, at));
        self.bytes.get_mut(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_as_they_were_set() {
        let mut memory = Memory::default();
        memory.set(PAGE - 2, &[1, 2, 3, 4]);
        memory.set(u64::MAX, &[9, 8]);
        for (address, expected) in [
            (PAGE - 3, [0, 1, 2, 3]),
            (PAGE, [3, 4, 0, 0]),
            (u64::MAX, [9, 8, 0, 0]),
            (7 * PAGE - 2, [0; 4]),
        ] {
            let mut bytes = [7; 4];
            memory.get(address, &mut bytes);
            assert_eq!(bytes, expected, "{address:#x}");
            assert!(memory.has(address, &expected));
            assert!(!memory.has(address, &[1; 4]));
        }
    }
}
