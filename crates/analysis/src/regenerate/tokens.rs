//! Bytes of witnesses, which are in pieces.
//!
//! Invariant: memory is that of one piece, which is no longer than a lane.
//!
//! A program that is killed may have room for a token of several bytes at the end of its stream, and in it all bytes but the first,
//! which is written last. They stand behind two bytes that nobody wrote, at least: the room's first one, and that. So do tokens behind
//! what a handler of a signal wrote, rarely, so such bytes are left out only where the end is near enough.

use trace::witness::{LONGEST, MOST_BYTES};

/// Most bytes of room for a token: one that nobody writes, and those of values with the two before them.
const ROOM: u64 = 3 + MOST_BYTES as u64;

/// A piece of a stream.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// Its bytes; fewer than there are in the stream are a block of LZ4.
    pub stored: &'a [u8],
    /// Bytes of the stream.
    pub bytes: u64,
}

/// Bytes of a stream, piece by piece.
#[derive(Debug)]
pub struct Tokens<'a> {
    pieces: &'a [Piece<'a>],
    /// Bytes of the piece that is read, and how many of them were.
    own: Vec<u8>,
    at: usize,
    /// Bytes before the next token, and all.
    pub position: u64,
    end: u64,
    /// Bytes that nobody wrote just before it.
    unwritten: u64,
    /// A piece cannot be unpacked.
    pub is_damaged: bool,
}

impl<'a> Tokens<'a> {
    pub fn new(pieces: &'a [Piece<'a>]) -> Tokens<'a> {
        Tokens {
            pieces,
            own: Vec::new(),
            at: 0,
            position: 0,
            end: pieces
                .iter()
                .map(|piece| piece.bytes)
                .fold(0, u64::saturating_add),
            unwritten: 0,
            is_damaged: false,
        }
    }

    /// Goes to the next piece; `None`: there is none.
    fn go_on(&mut self) -> Option<()> {
        let (first, others) = self.pieces.split_first()?;
        self.pieces = others;
        self.at = 0;
        self.own.clear();
        if first.stored.len() as u64 >= first.bytes {
            self.own.extend_from_slice(first.stored);
            return Some(());
        }
        let len = usize::try_from(first.bytes).ok();
        let len = len.filter(|len| *len <= LONGEST);
        self.own.resize(len.unwrap_or(0), 0);
        let unpacked = lz4_flex::block::decompress_into(first.stored, &mut self.own);
        if unpacked
            .ok()
            .is_none_or(|unpacked| unpacked as u64 != first.bytes)
        {
            self.own.clear();
            self.pieces = &[];
            self.is_damaged = true;
            return None;
        }
        Some(())
    }

    /// The first byte of the next token; 0: there is none. Bytes that nobody wrote are left out.
    pub fn peek(&mut self) -> u8 {
        loop {
            match self.own.get(self.at).copied() {
                Some(0) => {
                    let unwritten = self.unwritten + 1;
                    self.skip();
                    self.unwritten = unwritten;
                }
                Some(_) if self.unwritten > 1 && self.is_near_end() => return 0,
                Some(first) => return first,
                None if self.go_on().is_none() => return 0,
                None => {}
            }
        }
    }

    /// Whether a token that was not finished may have begun where bytes are that nobody wrote.
    fn is_near_end(&self) -> bool {
        self.position - self.unwritten + ROOM >= self.end
    }

    /// Leaves a byte behind.
    pub fn skip(&mut self) {
        self.at += 1;
        self.position += 1;
        self.unwritten = 0;
    }

    /// The bytes of a token behind the first one; `None`: they are not there.
    pub fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.skip();
        self.fill(&mut bytes)?;
        Some(bytes)
    }

    /// The next bytes; `None`: they are not there.
    pub fn fill(&mut self, bytes: &mut [u8]) -> Option<()> {
        if let Some(own) = self.own.get(self.at..self.at + bytes.len()) {
            bytes.copy_from_slice(own);
            self.at += bytes.len();
            self.position += bytes.len() as u64;
            return Some(());
        }
        for byte in bytes {
            while self.at >= self.own.len() {
                self.go_on()?;
            }
            *byte = self.own[self.at];
            self.skip();
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// First bytes of tokens of one byte, up to where the stream is taken to end.
    fn all(stream: &[u8]) -> (Vec<u8>, bool) {
        // A piece ends anywhere.
        let (first, second) = stream.split_at(stream.len() / 2);
        let pieces = [first, second].map(|stored| Piece {
            stored,
            bytes: stored.len() as u64,
        });
        let mut tokens = Tokens::new(&pieces);
        let mut all = Vec::new();
        loop {
            match tokens.peek() {
                0 => return (all, tokens.is_damaged),
                first => all.push(first),
            }
            tokens.skip();
        }
    }

    #[test]
    fn a_token_that_was_not_finished_is_no_token() {
        assert_eq!(all(&[5, 6, 0, 0, 0, 7, 8]), (vec![5, 6], false));
        assert_eq!(all(&[5, 0, 0, 7]), (vec![5], false));
        // One byte stands before each token of several.
        assert_eq!(all(&[5, 0, 7, 8]), (vec![5, 7, 8], false));
        // So far before the end it was finished.
        for (behind, is_kept) in [(64, false), (65, false), (66, true), (200, true)] {
            let stream = [&[5, 0, 0][..], &vec![7; behind]].concat();
            let len = if is_kept { 1 + behind } else { 1 };
            assert_eq!(all(&stream).0.len(), len, "{behind}");
        }
    }

    #[test]
    fn a_damaged_block_ends_the_stream() {
        let stored = [0xf0, 0xff, 0xff, 1, 2];
        let pieces = [Piece {
            stored: &stored,
            bytes: 4000,
        }];
        let mut tokens = Tokens::new(&pieces);
        assert_eq!((tokens.peek(), tokens.is_damaged), (0, true));
        let pieces = [Piece {
            stored: &stored,
            bytes: u64::MAX,
        }];
        let mut tokens = Tokens::new(&pieces);
        assert_eq!((tokens.peek(), tokens.is_damaged), (0, true));
    }
}
