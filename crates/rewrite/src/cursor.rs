//! Numbers of unwind tables, read one after the other; nothing behind the end of the bytes.

/// A place in bytes.
pub struct Cursor<'d> {
    pub bytes: &'d [u8],
    pub at: usize,
}

impl Cursor<'_> {
    pub fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    /// Four bytes.
    pub fn word(&mut self) -> Option<u32> {
        let bytes = self.bytes.get(self.at..)?.first_chunk()?;
        self.at += 4;
        Some(u32::from_le_bytes(*bytes))
    }

    /// A number of up to nine bytes without sign (ULEB128).
    pub fn uleb(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..63).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// A number with a sign (SLEB128).
    pub fn sleb(&mut self) -> Option<i64> {
        let from = self.at;
        let value = self.uleb()?;
        let unused = 64 - 7 * (self.at - from) as u32;
        Some((value << unused) as i64 >> unused)
    }

    pub fn skip(&mut self, count: u64) -> Option<()> {
        let end = self.at.checked_add(usize::try_from(count).ok()?)?;
        (end <= self.bytes.len()).then(|| self.at = end)
    }
}

#[cfg(test)]
mod tests {
    use super::Cursor;

    #[test]
    fn numbers_with_and_without_sign() {
        let bytes = [0xe5, 0x8e, 0x26, 0x7f, 0x80, 0x7f, 1, 2, 3];
        let mut cursor = Cursor {
            bytes: &bytes,
            at: 0,
        };
        assert_eq!(cursor.uleb(), Some(624_485));
        assert_eq!(cursor.sleb(), Some(-1));
        assert_eq!(cursor.sleb(), Some(-128));
        assert_eq!(cursor.word(), None);
        assert_eq!(
            (cursor.skip(4), cursor.skip(3), cursor.byte()),
            (None, Some(()), None)
        );
        let endless = [0x80; 12];
        assert_eq!(
            Cursor {
                bytes: &endless,
                at: 0
            }
            .uleb(),
            None
        );
    }
}
