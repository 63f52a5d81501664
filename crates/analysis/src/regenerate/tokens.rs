//! Bytes of witnesses, which are in pieces.

/// Bytes of a stream, piece by piece.
#[derive(Debug)]
pub struct Tokens<'a> {
    pieces: &'a [&'a [u8]],
    rest: &'a [u8],
    /// Bytes before the next token.
    pub position: u64,
}

impl<'a> Tokens<'a> {
    pub fn new(pieces: &'a [&'a [u8]]) -> Tokens<'a> {
        Tokens {
            pieces,
            rest: &[],
            position: 0,
        }
    }

    /// The first byte of the next token; 0: there is none. Bytes that nobody wrote are left out.
    pub fn peek(&mut self) -> u8 {
        loop {
            match self.rest.first() {
                Some(0) => self.skip(),
                Some(&first) => return first,
                None => {
                    let Some((first, others)) = self.pieces.split_first() else {
                        return 0;
                    };
                    (self.rest, self.pieces) = (first, others);
                }
            }
        }
    }

    /// Leaves a byte behind.
    pub fn skip(&mut self) {
        self.rest = self.rest.get(1..).unwrap_or_default();
        self.position += 1;
    }

    /// The bytes of a token behind the first one; `None`: they are not there.
    pub fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.skip();
        for byte in &mut bytes {
            while self.rest.is_empty() {
                let (first, others) = self.pieces.split_first()?;
                (self.rest, self.pieces) = (first, others);
            }
            *byte = self.rest[0];
            self.skip();
        }
        Some(bytes)
    }
}
