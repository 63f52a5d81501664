//! Numbers of stamps apart from the stream that they are in, as differences.
//!
//! Problem: a stamp has ten bytes, eight of them a time or an address of which nearly
//! nothing is new, but a compressor that looks for equal bytes has to write half of
//! them. In `javac`, a twentieth of the items of lane 4 were stamps, and 12 of the 28 MB
//! that were left of it.
//!
//! Approach: of a part of lane 4, first all items, stamps without their number; then the
//! numbers, each as the difference to the one before of its sort, times or stack pointers:
//!
//! ```text
//! part     80 2a  02 01 <u64 t>  05  02 06 <u64 s>  02 01 <u64 t + 700>
//! items    80 2a  02 01          05  02 06          02 01
//! numbers                t               s                 700          (zigzag, LEB128)
//! ```
//!
//! Invariant: [`together`] gives back any bytes that [`apart`] was given. A part may begin and
//! end within an item; then what looks like a stamp is treated as one, on both sides.
//!
//! Complexity: linear. Parts that have next to no stamps are left as they are.

use wire::stream::{ESCAPE, STAMP, STAMP_LEN, escape, stamp, went};

/// Bytes of a stamp that stay.
const HEAD: usize = 2;

/// Fewer bytes than one stamp in so many, and it is not worth the time.
const RARE: usize = 1024;

/// Bytes that are examined at a time.
const PIECE: usize = 4096;

/// The last number of each sort.
#[derive(Default)]
struct Last([u64; 2]);

impl Last {
    fn of(&mut self, kind: u8) -> &mut u64 {
        &mut self.0[usize::from(stamp::is_stack(kind))]
    }
}

/// A part with its stamps stored apart.
#[derive(Debug)]
pub(crate) struct DeltaEncoded {
    /// Items, then numbers.
    pub bytes: Vec<u8>,
    /// Number of items.
    pub items: usize,
}

/// Bytes of the item that `rest` begins with; it may have fewer.
#[inline]
fn item_len(rest: &[u8]) -> usize {
    match *rest {
        [ESCAPE, escape::AT | escape::TARGET, ..] => 2 + 8,
        [ESCAPE, escape::TO, ..] => 3 + 8,
        [ESCAPE, escape::CODE, ..] => 2 + 4,
        [STAMP, ..] => STAMP_LEN,
        [went::LONG..=u8::MAX, ..] => 3,
        [went::MIDDLE..=u8::MAX, ..] => 2,
        _ => 1,
    }
}

/// Whether there seem to be enough stamps to be worth the time: what looks like some, in the
/// first of eight pieces.
fn has_stamps(raw: &[u8]) -> bool {
    let pieces = || raw.chunks(PIECE).step_by(8);
    let looked_at: usize = pieces().map(<[u8]>::len).sum();
    pieces().map(stamps).sum::<usize>() * RARE >= looked_at.max(1)
}

/// Pairs of bytes that could begin a stamp.
fn stamps(piece: &[u8]) -> usize {
    let pairs = piece.iter().zip(piece.get(1..).unwrap_or_default());
    let is_one = |(&first, &kind): (&u8, &u8)| {
        u32::from(first == STAMP) & u32::from(kind.wrapping_sub(1) < stamp::FRAME)
    };
    pairs.map(is_one).sum::<u32>() as usize
}

/// `None`: there is nothing to gain.
pub(crate) fn encode(raw: &[u8]) -> Option<DeltaEncoded> {
    if !has_stamps(raw) {
        return None;
    }
    let mut bytes = Vec::with_capacity(raw.len());
    let mut numbers = Vec::new();
    let mut last = Last::default();
    // The text before it is in `bytes`, its numbers are not.
    let mut copied = 0;
    let mut at = 0;
    while at < raw.len() {
        let rest = &raw[at..];
        if let Some(&[STAMP, kind, ref number @ ..]) = rest.first_chunk::<STAMP_LEN>() {
            let number = u64::from_le_bytes(*number);
            let last = last.of(kind);
            put(&mut numbers, number.wrapping_sub(*last).cast_signed());
            *last = number;
            bytes.extend(&raw[copied..at + HEAD]);
            copied = at + STAMP_LEN;
        }
        at += item_len(rest);
    }
    bytes.extend(raw.get(copied..).unwrap_or_default());
    let items = bytes.len();
    bytes.extend(numbers);
    (bytes.len() < raw.len()).then_some(DeltaEncoded { bytes, items })
}

/// The part, of `len` bytes, that `items` and `numbers` were made of; `None`: of none.
pub(crate) fn decode(items: &[u8], mut numbers: &[u8], len: usize) -> Option<Vec<u8>> {
    let mut raw = Vec::with_capacity(len);
    let mut last = Last::default();
    let mut copied = 0;
    let mut at = 0;
    while at < items.len() {
        let rest = &items[at..];
        let done = raw.len() + (at - copied);
        match *rest {
            [STAMP, kind, ..] if done + STAMP_LEN <= len => {
                let last = last.of(kind);
                *last = last.wrapping_add_signed(get(&mut numbers)?);
                raw.extend(&items[copied..at + HEAD]);
                raw.extend(last.to_le_bytes());
                at += HEAD;
                copied = at;
            }
            _ => at += item_len(rest),
        }
    }
    raw.extend(&items[copied..]);
    (raw.len() == len && numbers.is_empty()).then_some(raw)
}

fn put(out: &mut Vec<u8>, value: i64) {
    let mut value = (value << 1 ^ value >> 63).cast_unsigned();
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn get(input: &mut &[u8]) -> Option<i64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = input.split_first()?;
        *input = rest;
        value |= u64::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(raw: &[u8]) -> Option<DeltaEncoded> {
        let encoded = encode(raw)?;
        let (items, numbers) = encoded.bytes.split_at(encoded.items);
        let again = decode(items, numbers, raw.len());
        assert!(again.as_deref() == Some(raw), "{raw:x?} {encoded:x?}");
        Some(encoded)
    }

    fn stamped(kind: u8, number: u64) -> Vec<u8> {
        [&[STAMP, kind][..], &number.to_le_bytes()].concat()
    }

    #[test]
    fn numbers_are_differences_to_those_of_their_sort() {
        let raw = [
            vec![0x80, 0x02],
            stamped(stamp::SYNC, 0x1234_5678_9ABC),
            vec![5, 200, 2, 1],
            stamped(stamp::STACK, 0x7FFF_0000),
            stamped(stamp::SYNC, 0x1234_5678_9ABC + 50),
            stamped(stamp::STACK, 0x7FFF_0000 - 8),
        ];
        let encoded = check(&raw.concat()).unwrap();
        let (items, numbers) = encoded.bytes.split_at(encoded.items);
        assert_eq!(
            items,
            [0x80, 2, 2, 1, 5, 200, 2, 1, 2, 6, 2, 1, 2, 6],
            "what only looks like stamps stays"
        );
        // 7 and 5 bytes, then 100 and 15 in one each.
        assert_eq!(numbers[12..], [100, 15]);
    }

    #[test]
    fn what_has_next_to_no_stamps_stays() {
        let some = [1, 2, 3, 4]
            .map(|number| stamped(stamp::SYNC, number))
            .concat();
        let one = |number| [vec![7; PIECE - STAMP_LEN], stamped(stamp::SYNC, number)].concat();
        let rare = (0..20).map(one).collect::<Vec<_>>().concat();
        assert!(check(&rare).is_none());
        let at_first = [&some, &rare[..]].concat();
        assert!(check(&at_first).is_none());
        let often = [&some, &rare[some.len()..PIECE]].concat().repeat(20);
        assert!(check(&often).is_some());
        // Numbers that become no shorter.
        let far = [u64::MAX / 2, 0, u64::MAX / 2, 0].map(|number| stamped(stamp::SYNC, number));
        assert!(check(&far.concat()).is_none());
    }

    /// Cut anywhere, of any bytes: whatever a part begins and ends with.
    #[test]
    fn all_bytes_come_back() {
        arbtest::arbtest(|u| {
            let mut raw = Vec::new();
            let mut made = 0;
            for _ in 0..u.int_in_range(0..=60)? {
                match u.int_in_range(0..=3)? {
                    0 => raw.push(u.arbitrary()?),
                    _ => raw.extend(stamped(
                        u.int_in_range(0..=7)?,
                        u.arbitrary::<u16>()?.into(),
                    )),
                }
            }
            for from in 0..raw.len().min(12) {
                for to in raw.len().saturating_sub(12).max(from)..=raw.len() {
                    made += usize::from(check(&raw[from..to]).is_some());
                }
            }
            assert!(made > 0 || raw.len() < 200);
            Ok(())
        });
    }

    /// Bytes that no writer made are refused, or unpack to no more than the length they announce.
    #[test]
    fn foreign_bytes_are_no_harm() {
        arbtest::arbtest(|u| {
            let items: Vec<u8> = u.arbitrary()?;
            let numbers: Vec<u8> = u.arbitrary()?;
            let len = u.int_in_range(0..=2 * items.len())?;
            let raw = decode(&items, &numbers, len);
            assert!(raw.is_none_or(|raw| raw.len() == len));
            Ok(())
        });
        let item = [STAMP, stamp::SYNC];
        assert_eq!(decode(&item, &[2], 10), Some(stamped(stamp::SYNC, 1)));
        assert_eq!(decode(&item, &[2, 2], 10), None);
        assert_eq!(decode(&item, &[0x82], 10), None);
        assert_eq!(decode(&item, &[2], 11), None);
        assert_eq!(decode(&item, &[], 2), Some(item.to_vec()));
    }
}
