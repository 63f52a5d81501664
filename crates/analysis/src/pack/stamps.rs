//! Stamps of a thread, packed.
//!
//! Problem: a stamp says where it stands among the items of its lane, of what kind it is, and a
//! time or a stack pointer. Where it stands follows from the path, which nobody has packed
//! here; a stack pointer is mostly one that was there before; of a time, nothing is known but
//! how long such things take.
//!
//! Approach: what came after the same three stamps, or after the same one, is guessed again:
//! where the next one stands and its kind together, and stack pointers by those before. What is
//! no guess is written as a difference, by its length and its upper bits, which are counted by
//! what the stamp is and what was before it.
//!
//! Invariant: [`Model::code`] is the only function, for both ways ([`Coder`]).
//!
//! Memory: 7 MB.

use super::mix::{Flag, hash};
use trace::stream::stamp;

use super::{Coder, Cut};

/// Guesses of one kind: a power of two.
const GUESSES: usize = 1 << 16;
/// Sets of counters of lengths.
const LENGTHS: usize = 1 << 10;
/// Bits below the highest one that are counted.
const COUNTED: u32 = 3;
/// A bit of which nothing is known.
const EVEN: u16 = 1 << 15;

/// A stamp, and where it stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamped {
    /// Other items of its lane since the stamp before.
    pub distance: u64,
    /// As in the lane: 1 to 7.
    pub kind: u8,
    pub number: u64,
}

/// Value that followed the same context before.
#[derive(Clone, Copy, Debug, Default)]
struct Guess {
    value: u64,
    /// How often it was right in a row, 0 also if there is none.
    right: u8,
}

/// Values that follow each other.
#[derive(Debug)]
struct Followed {
    /// The last ones, the newest first.
    last: [u64; 3],
    guesses: [Vec<Guess>; 2],
    flags: [[Flag; 16]; 2],
}

impl Followed {
    fn new() -> Followed {
        Followed {
            last: [0; 3],
            guesses: [(); 2].map(|()| vec![Guess::default(); GUESSES]),
            flags: Default::default(),
        }
    }

    /// The value, which `otherwise` codes if it is no guess; `with`: something else that is
    /// known of it.
    fn code<C: Coder>(
        &mut self,
        coder: &mut C,
        with: u64,
        value: u64,
        otherwise: impl FnOnce(&mut C) -> Result<u64, Cut>,
    ) -> Result<u64, Cut> {
        let [first, second, third] = self.last;
        let near = hash(hash(first, 1), with);
        let far = hash(hash(near, second), third);
        let places = [far, near].map(|hash| (hash >> 48) as usize % GUESSES);
        let mut found = None;
        let mut tried = None;
        for (i, &place) in places.iter().enumerate() {
            let guess = self.guesses[i][place];
            if tried == Some(guess.value) {
                continue;
            }
            let flag = &mut self.flags[i][usize::from(guess.right.min(15))];
            if flag.code(coder, value == guess.value)? {
                found = Some(guess.value);
                break;
            }
            tried = Some(guess.value);
        }
        let value = match found {
            Some(value) => value,
            None => otherwise(coder)?,
        };
        for (guesses, place) in self.guesses.iter_mut().zip(places) {
            let guess = &mut guesses[place];
            match guess.value == value {
                true => guess.right = guess.right.saturating_add(1),
                false if guess.right > 1 => guess.right /= 2,
                false => *guess = Guess { value, right: 0 },
            }
        }
        self.last = [value, first, second];
        Ok(value)
    }
}

/// Counters of a number's length and of its upper bits.
#[derive(Clone, Debug)]
struct Length {
    length: [Flag; 128],
    /// By length.
    upper: [[Flag; 1 << COUNTED]; 65],
}

impl Length {
    fn new() -> Length {
        Length {
            length: [Flag::default(); 128],
            upper: [[Flag::default(); 1 << COUNTED]; 65],
        }
    }

    fn code(&mut self, coder: &mut impl Coder, value: u64) -> Result<u64, Cut> {
        let length = 64 - value.leading_zeros();
        let mut known = 1usize;
        for at in (0..7).rev() {
            let bit = self.length[known].code(coder, length >> at & 1 != 0)?;
            known = known << 1 | usize::from(bit);
        }
        // Nobody writes more than 64.
        let length = (known as u32 & 127).min(64);
        let Some(below) = length.checked_sub(1) else {
            return Ok(0);
        };
        let flags = &mut self.upper[length as usize];
        let (mut read, mut node) = (1u64, 1usize);
        for at in (0..below).rev() {
            let bit = value >> at & 1 != 0;
            let bit = match below - at <= COUNTED {
                true => flags[node].code(coder, bit)?,
                false => coder.bit(bit, EVEN)?,
            };
            node = (node << 1 | usize::from(bit)) & ((1 << COUNTED) - 1);
            read = read << 1 | u64::from(bit);
        }
        Ok(read)
    }
}

/// Model of a thread's stamps, which predicts the next.
#[derive(Debug)]
pub struct Model {
    places: Followed,
    stacks: Followed,
    kinds: [Flag; 8],
    distances: Length,
    /// By a hash of what the stamp is and what was before it.
    times: Vec<Length>,
    jumps: Length,
    time: u64,
}

impl Default for Model {
    fn default() -> Model {
        Model {
            places: Followed::new(),
            stacks: Followed::new(),
            kinds: Default::default(),
            distances: Length::new(),
            times: vec![Length::new(); LENGTHS],
            jumps: Length::new(),
            time: 0,
        }
    }
}

impl Model {
    /// The next stamp; `None`: there is none.
    pub fn code(
        &mut self,
        coder: &mut impl Coder,
        stamp: Option<Stamped>,
    ) -> Result<Option<Stamped>, Cut> {
        let stamp = stamp.unwrap_or_default();
        let before = self.places.last[0];
        let (kinds, distances) = (&mut self.kinds, &mut self.distances);
        let place = stamp.distance << 3 | u64::from(stamp.kind);
        let place = self.places.code(coder, 0, place, |coder| {
            let mut kind = 1;
            for at in (0..3).rev() {
                let bit = kinds[kind].code(coder, stamp.kind >> at & 1 != 0)?;
                kind = kind << 1 | usize::from(bit);
            }
            let distance = distances.code(coder, stamp.distance)?;
            Ok(distance << 3 | kind as u64 & 7)
        })?;
        let kind = place as u8 & 7;
        let number = match kind {
            0 => return Ok(None),
            kind if stamp::is_stack(kind) => {
                let (jumps, last) = (&mut self.jumps, self.stacks.last[0]);
                self.stacks.code(coder, place, stamp.number, |coder| {
                    let jump = stamp.number.wrapping_sub(last).cast_signed();
                    let jump = (jump << 1 ^ jump >> 63).cast_unsigned();
                    let jump = jumps.code(coder, jump)?;
                    let jump = (jump >> 1).cast_signed() ^ -(jump & 1).cast_signed();
                    Ok(last.wrapping_add_signed(jump))
                })?
            }
            _ => {
                let set = (hash(hash(place, before), 4) >> 54) as usize % LENGTHS;
                let since = stamp.number.wrapping_sub(self.time);
                let since = self.times[set].code(coder, since)?;
                self.time = self.time.wrapping_add(since);
                self.time
            }
        };
        Ok(Some(Stamped {
            distance: place >> 3,
            kind,
            number,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::{Decoder, Encoder};

    fn packed(stamps: &[Stamped]) -> Vec<u8> {
        let (mut model, mut encoder) = (Model::default(), Encoder::default());
        for &stamp in stamps {
            assert_eq!(model.code(&mut encoder, Some(stamp)), Ok(Some(stamp)));
        }
        assert_eq!(model.code(&mut encoder, None), Ok(None));
        encoder.finish()
    }

    fn unpacked(bytes: &[u8]) -> Vec<Stamped> {
        let mut model = Model::default();
        let mut decoder = Decoder::new(bytes.iter().copied()).unwrap();
        let mut all = Vec::new();
        while let Some(stamp) = model.code(&mut decoder, None).unwrap() {
            all.push(stamp);
        }
        all
    }

    #[test]
    fn all_stamps_come_back() {
        arbtest::arbtest(|u| {
            let number = u.int_in_range(0..=300)?;
            let mut stamps = Vec::new();
            for _ in 0..number {
                stamps.push(Stamped {
                    distance: u.arbitrary::<u64>()? >> u.int_in_range(3..=63)?,
                    kind: u.int_in_range(1..=7)?,
                    number: u.arbitrary::<u64>()? >> u.int_in_range(0..=63)?,
                });
            }
            assert_eq!(unpacked(&packed(&stamps)), stamps);
            Ok(())
        });
    }

    /// A loop over a lock, and coroutines that change places: what is new are some bits of the
    /// times.
    #[test]
    fn what_was_there_before_costs_little() {
        let stamps: Vec<Stamped> = (0..10_000u64)
            .map(|i| match i % 4 {
                3 => Stamped {
                    distance: 17,
                    kind: stamp::STACK,
                    number: 0x7FFF_1000 - (i / 4 % 3) * 0x10_0000,
                },
                at => Stamped {
                    distance: at,
                    kind: 1,
                    number: (1 << 40) + i * 1000 + (hash(i, 9) >> 60),
                },
            })
            .collect();
        let bytes = packed(&stamps);
        let times = stamps.iter().filter(|stamp| stamp.kind == 1).count();
        assert!(bytes.len() * 8 < times * 7, "{}", bytes.len());
        assert_eq!(unpacked(&bytes), stamps);
    }
}
