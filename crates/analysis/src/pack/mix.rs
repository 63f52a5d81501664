//! Probabilities of bits from several histories: counters by context, mixed.
//!
//! Problem: whether a branch is taken follows from what it did before, or from what
//! others did, a few or many branches back, or from how often a loop went round; which of
//! them is not known beforehand and changes.
//!
//! Approach: context mixing, as compressors of the PAQ family do it. Each context has a
//! counter that says how likely the bit is; their opinions, as logarithms of odds, are added
//! with weights, and the weights of those that were right grow. All in integers: writer and
//! reader must agree in every bit, on any machine.
//!
//! | value | unit |
//! |---|---|
//! | probability | 2^-16 |
//! | logarithm of odds | 2^-8 |
//! | weight | 2^-16 |

use super::range::{Coder, Cut, Probability};

/// Logarithms of odds are within this.
const FAR: i32 = 12 << 8;
/// Bits of a probability by which its logarithm is looked up.
const LOOKED: u32 = 12;

/// From probabilities to logarithms of odds and back.
#[derive(Debug)]
struct Odds {
    /// By logarithm, from `-FAR` on.
    probability: Vec<u16>,
    /// By the upper bits of a probability.
    logarithm: Vec<i16>,
}

impl Odds {
    fn new() -> Odds {
        let probability: Vec<u16> = (-FAR..=FAR)
            .map(|x| (65536.0 / (1.0 + exp(-f64::from(x) / 256.0))).clamp(1.0, 65535.0) as u16)
            .collect();
        let mut x = 0;
        let logarithm = (0..1u32 << LOOKED).map(|upper| {
            let middle = (upper << (16 - LOOKED)) + (1 << (15 - LOOKED));
            while u32::from(probability[x]) < middle && x + 1 < probability.len() {
                x += 1;
            }
            (x as i32 - FAR) as i16
        });
        Odds {
            logarithm: logarithm.collect(),
            probability,
        }
    }
}

/// By additions and multiplications only, whose results IEEE 754 fixes.
fn exp(x: f64) -> f64 {
    // e^x = (e^(x / 1024))^1024, of which the series needs few terms.
    let small = x / 1024.0;
    let mut sum = 1.0;
    let mut term = 1.0;
    for n in 1..8 {
        term = term * small / f64::from(n);
        sum += term;
    }
    for _ in 0..10 {
        sum *= sum;
    }
    sum
}

/// A counter of one context. 0 is that of one that was not seen: tables of them cost only
/// what is used.
///
/// ```text
///  | probability 20, the highest bit turned over | seen 6 | check 6 |
/// ```
#[derive(Clone, Copy, Debug, Default)]
struct Counter(u32);

const HALF: u32 = 1 << 19;
const SEEN_BITS: u32 = 6;
const CHECK_BITS: u32 = 6;
const MOST_SEEN: u32 = (1 << SEEN_BITS) - 1;

impl Counter {
    fn probability(self) -> u32 {
        self.0 >> (SEEN_BITS + CHECK_BITS) ^ HALF
    }

    fn seen(self) -> u32 {
        self.0 >> CHECK_BITS & MOST_SEEN
    }

    fn check(self) -> u32 {
        self.0 & ((1 << CHECK_BITS) - 1)
    }

    /// Moves towards `bit`: by much when it was seen seldom.
    fn learn(&mut self, bit: bool) {
        let (old, seen) = (self.probability(), self.seen());
        let rate = 65536 / (2 * seen + 3) * 2;
        let new = match bit {
            true => old + (((0xf_ffff - old) as u64 * u64::from(rate)) >> 16) as u32,
            false => old - ((u64::from(old) * u64::from(rate)) >> 16) as u32,
        };
        let seen = (seen + 1).min(MOST_SEEN);
        self.0 = ((new ^ HALF) << SEEN_BITS | seen) << CHECK_BITS | self.check();
    }
}

/// Counters of one kind of context, by hash: who comes later and has another check takes
/// the place.
#[derive(Debug)]
struct Counters(Vec<Counter>);

/// How quickly weights follow, as a shift.
const SLOW: u32 = 14;

/// Predicts bits from `N` contexts each.
#[derive(Debug)]
pub struct Mixer<const N: usize> {
    odds: Odds,
    /// Binary logarithm of the number of entries of each table.
    bits: u32,
    counters: [Counters; N],
    /// Weights of each set, one for each context and one for a constant.
    weights: Vec<[i32; 8]>,
}

impl<const N: usize> Mixer<N> {
    /// With so many sets of weights, a power of two, and 2^bits counters for each context.
    pub fn new(sets: usize, bits: u32) -> Mixer<N> {
        const { assert!(N < 8, "one weight is for the constant") };
        Mixer {
            odds: Odds::new(),
            bits,
            counters: std::array::from_fn(|_| Counters(vec![Counter::default(); 1 << bits])),
            weights: vec![[23_000; 8]; sets],
        }
    }

    /// Codes a bit, of which `contexts` are hashes of what is known.
    pub fn code(
        &mut self,
        coder: &mut impl Coder,
        set: usize,
        contexts: [u64; N],
        bit: bool,
    ) -> Result<bool, Cut> {
        let mut places = [0usize; N];
        let mut opinions = [0i32; 8];
        opinions[N] = 77;
        for i in 0..N {
            let place = (contexts[i] >> (64 - self.bits)) as usize;
            let check = contexts[i] as u32 & ((1 << CHECK_BITS) - 1);
            let counter = &mut self.counters[i].0[place];
            if counter.check() != check {
                *counter = Counter(check);
            }
            if counter.seen() > 0 {
                let upper = counter.probability() >> (20 - LOOKED);
                opinions[i] = self.odds.logarithm[upper as usize].into();
            }
            places[i] = place;
        }
        let sets = self.weights.len();
        let weights = &mut self.weights[set & (sets - 1)];
        let pairs = opinions.iter().zip(&*weights);
        let sum: i64 = pairs.map(|(&x, &w)| i64::from(x) * i64::from(w)).sum();
        let sum = (sum >> 16).clamp(-i64::from(FAR), i64::from(FAR)) as i32;
        let set: Probability = self.odds.probability[(sum + FAR) as usize];
        let bit = coder.bit(bit, set)?;
        let error = (i32::from(bit) << 16) - i32::from(set);
        for (weight, &opinion) in weights.iter_mut().zip(&opinions) {
            *weight = weight.saturating_add((error * opinion) >> SLOW);
        }
        for (counters, place) in self.counters.iter_mut().zip(places) {
            counters.0[place].learn(bit);
        }
        Ok(bit)
    }
}

/// A counter that stands for itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flag(Counter);

impl Flag {
    pub fn code(&mut self, coder: &mut impl Coder, bit: bool) -> Result<bool, Cut> {
        let set = (self.0.probability() >> 4).clamp(1, 65535) as Probability;
        let bit = coder.bit(bit, set)?;
        self.0.learn(bit);
        Ok(bit)
    }
}

/// Mixes `what` into a hash of what came before.
pub fn hash(before: u64, what: u64) -> u64 {
    let sum = (before ^ what).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (sum ^ sum >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::{Decoder, Encoder};

    #[test]
    fn odds_and_probabilities_undo_each_other() {
        let odds = Odds::new();
        let exact = |x: i32| 65536.0 / (1.0 + (-f64::from(x) / 256.0).exp());
        for (x, &probability) in (-FAR..=FAR).zip(&odds.probability) {
            assert!((exact(x) - f64::from(probability)).abs() <= 1.0, "{x}");
        }
        assert!(odds.logarithm.is_sorted());
        for (upper, &x) in (0u32..).zip(&odds.logarithm) {
            let middle = f64::from((upper << 4) + 8);
            let near = [x - 1, x + 1].map(|x| exact(x.into()));
            assert!(near[0] < middle && middle < near[1], "{upper}");
        }
    }

    /// One context determines the outcome, another never does: the mixer finds out.
    #[test]
    fn what_follows_from_one_context_costs_little() {
        let mut encoder = Encoder::default();
        let mut writer = Mixer::<2>::new(16, 12);
        let mut noise = 1u64;
        let mut bits = Vec::new();
        for _ in 0..20_000 {
            noise = hash(noise, 3);
            bits.push((noise >> 60, noise >> 59 & 1, noise >> 60 & 1 != 0));
        }
        let contexts = |known: u64, unknown: u64| [hash(known, 1), hash(unknown, 2)];
        for &(known, unknown, bit) in &bits {
            let coded = writer.code(&mut encoder, 0, contexts(known, unknown), bit);
            assert_eq!(coded, Ok(bit));
        }
        let bytes = encoder.finish();
        assert!(bytes.len() < 200, "{}", bytes.len());
        let mut decoder = Decoder::new(bytes.iter().copied()).unwrap();
        let mut reader = Mixer::<2>::new(16, 12);
        for &(known, unknown, bit) in &bits {
            let coded = reader.code(&mut decoder, 0, contexts(known, unknown), false);
            assert_eq!(coded, Ok(bit));
        }
    }
}
