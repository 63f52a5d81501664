//! Lines of a dump, made piece by piece.
//!
//! Problem: a dump has tens of millions of lines, and `std::fmt` takes half of its time for numbers with a width.

use std::io::{self, Write};

/// A line that is being made; its room is used again.
#[derive(Default)]
pub struct Line(Vec<u8>);

impl Line {
    /// A number in decimal, of at least so many places.
    pub fn number(&mut self, number: u64, places: usize) -> &mut Line {
        let mut buffer = itoa::Buffer::new();
        self.right(buffer.format(number), places)
    }

    /// Text at the right of so many places.
    pub fn right(&mut self, text: &str, places: usize) -> &mut Line {
        let spaces = places.saturating_sub(text.len());
        self.0.resize(self.0.len() + spaces, b' ');
        self.text(text)
    }

    pub fn text(&mut self, text: &str) -> &mut Line {
        self.0.extend_from_slice(text.as_bytes());
        self
    }

    pub fn hex(&mut self, number: u64) -> &mut Line {
        let digits = (u64::BITS - number.leading_zeros()).div_ceil(4).max(1);
        for digit in (0..digits).rev() {
            self.0
                .push(b"0123456789abcdef"[(number >> (4 * digit) & 15) as usize]);
        }
        self
    }

    /// Writes it, and begins the next one.
    pub fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.0.push(b'\n');
        let written = out.write_all(&self.0);
        self.0.clear();
        written
    }
}

#[cfg(test)]
mod tests {
    use super::Line;

    #[test]
    fn lines_are_as_formatted_ones() {
        let mut line = Line::default();
        for number in [0, 1, 15, 16, 255, 4095, 0xdead_beef, u64::MAX] {
            let mut out = Vec::new();
            line.number(number, 12)
                .text("  ")
                .hex(number)
                .right("RW", 4);
            line.end(&mut out).expect("a vector takes all");
            let expected = format!("{number:>12}  {number:x}{:>4}\n", "RW");
            assert_eq!(String::from_utf8(out).expect("text"), expected);
        }
    }
}
