//! All names of an image in one string.

/// A name of one image; meaningless for any other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameId(u32);

#[derive(Debug, Default)]
pub(crate) struct Names {
    text: String,
    /// `ends[i]` is where name `i` ends and name `i + 1` begins.
    ends: Vec<u32>,
}

impl Names {
    /// Adds a name; `None` when 4 GB of names are full.
    pub(crate) fn add(&mut self, raw: &[u8]) -> Option<NameId> {
        let id = u32::try_from(self.ends.len()).ok()?;
        if self.text.len() + 3 * raw.len() > u32::MAX as usize {
            return None;
        }
        match str::from_utf8(raw) {
            Ok(name) => self.text.push_str(name),
            Err(_) => self.text.push_str(&String::from_utf8_lossy(raw)),
        }
        self.ends.push(self.text.len() as u32);
        Some(NameId(id))
    }

    pub(crate) fn get(&self, id: NameId) -> &str {
        let index = id.0 as usize;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[start as usize..self.ends[index] as usize]
    }
}
