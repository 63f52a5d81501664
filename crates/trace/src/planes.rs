//! Words of 6 bytes, part by part: the low two bytes of all words, then the two in the middle, then
//! the high ones.
//!
//! Addresses that come one after the other differ in the low bytes. Apart, zstd makes less of
//! them, and in half the time (docs/design/0037).

const WORD: usize = 6;
const PART: usize = 2;

/// The parts of `words`; what is left over at the end stays there.
pub(crate) fn apart(words: &[u8], planes: &mut Vec<u8>) {
    let number = words.len() / WORD;
    planes.resize(words.len(), 0);
    let (words, last) = words.split_at(number * WORD);
    let (low, rest) = planes.split_at_mut(number * PART);
    let (middle, rest) = rest.split_at_mut(number * PART);
    let (high, rest) = rest.split_at_mut(number * PART);
    rest.copy_from_slice(last);
    // Four words at a time, as numbers; then those that are left.
    let (fours, few) = words.as_chunks::<{ 4 * WORD }>();
    let (low_fours, low) = low.as_chunks_mut::<8>();
    let (middle_fours, middle) = middle.as_chunks_mut::<8>();
    let (high_fours, high) = high.as_chunks_mut::<8>();
    let parts = low_fours.iter_mut().zip(middle_fours).zip(high_fours);
    for (four, ((low, middle), high)) in fours.iter().zip(parts) {
        [*low, *middle, *high] = apart_four(four);
    }
    let low = low.chunks_exact_mut(PART);
    let parts = low.zip(middle.chunks_exact_mut(PART));
    let parts = parts.zip(high.chunks_exact_mut(PART));
    for (word, ((low, middle), high)) in few.chunks_exact(WORD).zip(parts) {
        low.copy_from_slice(&word[..PART]);
        middle.copy_from_slice(&word[PART..2 * PART]);
        high.copy_from_slice(&word[2 * PART..]);
    }
}

/// The parts of four words.
#[inline]
fn apart_four(four: &[u8; 4 * WORD]) -> [[u8; 8]; 3] {
    let word = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&four[at..at + 8]);
        u64::from_le_bytes(bytes)
    };
    // The last one is read from two bytes before it.
    let last = word(3 * WORD - 2) >> 16;
    let words = [word(0), word(WORD), word(2 * WORD), last];
    // `map` of an array is called out of line, which takes several times as long as all else here.
    [part(words, 0), part(words, 16), part(words, 32)]
}

/// Two bytes of each of four words.
#[inline]
fn part([a, b, c, d]: [u64; 4], shift: u32) -> [u8; 8] {
    let two = |word: u64| word >> shift & 0xFFFF;
    (two(a) | two(b) << 16 | two(c) << 32 | two(d) << 48).to_le_bytes()
}

/// The words again.
pub(crate) fn joined(planes: &[u8]) -> Vec<u8> {
    let number = planes.len() / WORD;
    let mut words = vec![0; planes.len()];
    let (whole, rest) = words.split_at_mut(number * WORD);
    let (low, high) = planes.split_at(number * PART);
    let (middle, high) = high.split_at(number * PART);
    let (high, last) = high.split_at(number * PART);
    rest.copy_from_slice(last);
    let parts = low.chunks_exact(PART).zip(middle.chunks_exact(PART));
    let parts = parts.zip(high.chunks_exact(PART));
    for (word, ((low, middle), high)) in whole.chunks_exact_mut(WORD).zip(parts) {
        word[..PART].copy_from_slice(low);
        word[PART..2 * PART].copy_from_slice(middle);
        word[2 * PART..].copy_from_slice(high);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::{apart, joined};

    #[test]
    fn parts_of_words_are_apart_and_come_back() {
        let mut planes = Vec::new();
        for len in 0..100u8 {
            let words: Vec<u8> = (0..len).collect();
            apart(&words, &mut planes);
            assert_eq!(joined(&planes), words);
            if let 12..18 = len {
                assert_eq!(planes[..12], [0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11]);
                assert_eq!(planes[12..], words[12..]);
            }
        }
    }
}
