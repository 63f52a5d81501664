//! A random program as a tree of pieces, and its text.
//!
//! A piece can be left out, with all that is in it, and what is left is still a
//! program: this is what reduction needs.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::generate::Shape;

/// Code that every program shares.
const FRAME: &str = include_str!("frame.S");

/// Text, pieces within, text.
#[derive(Clone, Debug, Default)]
pub struct Piece {
    /// It has no number of its own: it goes with the piece it is in.
    pub fixed: bool,
    /// Written first.
    pub before: String,
    /// Written between.
    pub inner: Vec<Piece>,
    /// Written last.
    pub after: String,
}

impl Piece {
    /// A piece that is only text.
    #[must_use]
    pub fn leaf(text: String) -> Self {
        Self {
            before: text,
            ..Self::default()
        }
    }

    fn count(&self) -> usize {
        usize::from(!self.fixed) + self.inner.iter().map(Self::count).sum::<usize>()
    }

    /// Writes it, unless `left_out` holds its number; pieces are numbered from
    /// the outside to the inside and from first to last.
    fn write(&self, number: &mut usize, left_out: &BTreeSet<usize>, text: &mut String) {
        if !self.fixed {
            if left_out.contains(number) {
                *number += self.count();
                return;
            }
            *number += 1;
        }
        line(text, &self.before);
        for piece in &self.inner {
            piece.write(number, left_out, text);
        }
        line(text, &self.after);
    }
}

fn line(text: &mut String, words: &str) {
    if !words.is_empty() {
        text.push_str("        ");
        text.push_str(words);
        text.push('\n');
    }
}

/// One function.
#[derive(Clone, Debug)]
pub struct Function {
    /// Padding and label.
    pub head: String,
    /// Pieces that can be left out.
    pub body: Vec<Piece>,
    /// The return or the jump at its end.
    pub tail: String,
}

/// A random program.
#[derive(Clone, Debug)]
pub struct Source {
    /// Kind of the program.
    pub shape: Shape,
    /// f0 is called every round.
    pub functions: Vec<Function>,
    /// Tables the functions refer to.
    pub data: String,
}

impl Source {
    /// Number of pieces that can be left out.
    #[must_use]
    pub fn pieces(&self) -> usize {
        let bodies = self.functions.iter().flat_map(|function| &function.body);
        bodies.map(Piece::count).sum()
    }

    /// The program without the pieces in `left_out`.
    #[must_use]
    pub fn text(&self, left_out: &BTreeSet<usize>) -> String {
        let mut text = self.shape.head();
        text.push_str(FRAME);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "\n        .section {}", self.shape.section());
        let mut number = 0;
        for (index, function) in self.functions.iter().enumerate() {
            line(&mut text, &function.head);
            for piece in &function.body {
                piece.write(&mut number, left_out, &mut text);
            }
            line(&mut text, &function.tail);
            let _ = writeln!(text, "f{index}_end:");
        }
        text.push_str(&self.data);
        text.push_str(
            "        .section .rodata\n        .balign 64\nconstants:\n        .set word, SEED\n        \
             .rept 264\n        .quad word\n        .set word, word * 0x27bb2ee687b0b0fd + 0x1234567\n        \
             .endr\n        .section .note.GNU-stack,\"\",@progbits\n",
        );
        text
    }
}
