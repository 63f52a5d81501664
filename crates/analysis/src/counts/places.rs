//! A number for each place of code that has one.
//!
//! Problem: a recording names each instruction many times, and a hash table of a million
//! places is asked for each of them where no cache has it.
//!
//! Approach: pages of neighbouring places, found by a hash table; what is asked for next is
//! mostly in the page that was asked for last.

use hashbrown::HashMap;

/// Places of a page. Small, as a stranger's recording may have one place in each.
const PAGE: u64 = 64;

/// No number.
const NONE: u32 = u32::MAX;

/// Numbers by place: a space, such as a file, and an offset there.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// Index of each page.
    known: HashMap<(u32, u64), u32>,
    pages: Vec<[u32; PAGE as usize]>,
    /// The page that was asked for last.
    last: Option<((u32, u64), u32)>,
}

impl Places {
    pub(super) fn get(&mut self, space: u32, at: u64) -> Option<u32> {
        let key = (space, at / PAGE);
        let page = match self.last {
            Some((last, page)) if last == key => page,
            _ => *self.known.get(&key)?,
        };
        self.last = Some((key, page));
        let number = self.pages[page as usize][(at % PAGE) as usize];
        (number != NONE).then_some(number)
    }

    pub(super) fn set(&mut self, space: u32, at: u64, number: u32) {
        let key = (space, at / PAGE);
        let page = match self.last {
            Some((last, page)) if last == key => page,
            _ => *self.known.entry(key).or_insert_with(|| {
                self.pages.push([NONE; PAGE as usize]);
                self.pages.len() as u32 - 1
            }),
        };
        self.last = Some((key, page));
        self.pages[page as usize][(at % PAGE) as usize] = number;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_keeps_its_own_number() {
        let mut places = Places::default();
        let wanted = [
            (0, 0),
            (0, 1),
            (1, 0),
            (0, PAGE - 1),
            (0, PAGE),
            (0, u64::MAX),
            (7, u64::MAX),
        ];
        for (number, (space, at)) in (0..).zip(wanted) {
            assert_eq!(places.get(space, at), None);
            places.set(space, at, number);
        }
        for (number, (space, at)) in (0..).zip(wanted) {
            assert_eq!(places.get(space, at), Some(number));
        }
        assert_eq!(places.get(7, 0), None);
        places.set(0, 1, 40);
        assert_eq!(places.get(0, 1), Some(40));
    }
}
