//! Streams of branches, packed.
//!
//! Problem: what a program does is mostly what it did before, and general compressors see
//! that only where it is the same bytes.
//!
//! Approach: each outcome of a conditional branch is predicted from its own history and
//! that of all ([`mix`]), each target of an indirect one from where it went, and returns from
//! calls; what is written is how far the prediction was off ([`range`]). The model is driven
//! by branches in the order of execution, so who reads needs the code, and knows it.
//!
//! Invariant: writer and reader run the same code ([`Coder`]), and see the same before each
//! item.
//!
//! Memory: in proportion to the code, and some 160 MB.
//!
//! Limits: a stream is read from its beginning. About a fifth of a microsecond per
//! conditional branch, both ways.

mod mix;
mod range;
pub mod stamps;

use std::collections::VecDeque;

use hashbrown::HashMap;

use crate::walk::Kind;
use mix::{Flag, Mixer, hash};
use range::Probability;
pub use range::{Coder, Cut, Decoder, Encoder};
pub use stamps::Stamped;

/// Calls whose returns are expected.
const MOST_CALLS: usize = 1 << 16;
/// Targets of a branch that have a number.
const MOST_TARGETS: usize = 256;
/// Sizes of tables, as powers of two: up to 112 MB in all.
pub const SMALLEST: u32 = 10;
pub const LARGEST: u32 = 22;
/// Guesses by history that are kept; then all are forgotten.
const MOST_HISTORIES: usize = 1 << 20;
/// Longest run that is told apart from longer ones.
const LONGEST: u32 = 4000;

/// History of a branch.
#[derive(Clone, Copy, Debug, Default)]
struct BranchHistory {
    /// Outcomes, the last one lowest.
    outcomes: u32,
    /// How often the last one came in a row, and how often the one before that did.
    run: u32,
    before: u32,
}

/// History of an indirect branch.
#[derive(Debug, Default)]
struct IndirectHistory {
    /// Targets, the last one first.
    targets: Vec<u64>,
    /// By place among those.
    flags: Vec<Flag>,
    by_history: [HashMap<u64, Expected>; 2],
}

/// Target of an indirect branch after a history.
#[derive(Debug, Default)]
struct Expected {
    target: u64,
    /// How often it was right lately.
    right: u32,
}

/// Model of a thread's branches, which predicts the next.
#[derive(Debug)]
pub struct Model {
    conditional: Mixer<7>,
    local: Vec<BranchHistory>,
    /// Outcomes of all conditional branches, the last one lowest.
    outcomes: u64,
    /// Hash of where control went lately, and of where indirect branches went.
    path: u64,
    indirect: [u64; 2],
    went: HashMap<u32, IndirectHistory>,
    /// Entries of all `by_history`.
    histories: usize,
    guesses: HashMap<(u8, u32), Flag>,
    calls: VecDeque<u64>,
    returned: [Flag; 2],
    bytes: Vec<[Flag; 256]>,
    lengths: Vec<[Flag; 64]>,
    kinds: [Flag; 8],
}

impl Model {
    /// With tables of 2^bits entries, [`SMALLEST`] to [`LARGEST`].
    pub fn new(bits: u32) -> Model {
        Model {
            conditional: Mixer::new(1 << 12, bits.clamp(SMALLEST, LARGEST)),
            local: Vec::new(),
            outcomes: 1,
            path: 0,
            indirect: [0; 2],
            went: HashMap::new(),
            histories: 0,
            guesses: HashMap::new(),
            calls: VecDeque::new(),
            returned: Default::default(),
            bytes: vec![[Flag::default(); 256]; 8],
            lengths: vec![[Flag::default(); 64]; 2],
            kinds: Default::default(),
        }
    }

    /// Whether the conditional branch `site` is taken, which then goes to `target`.
    pub fn conditional(
        &mut self,
        coder: &mut impl Coder,
        site: u32,
        target: u64,
        taken: bool,
    ) -> Result<bool, Cut> {
        let at = site as usize;
        if self.local.len() <= at {
            self.local.resize(at + 1, BranchHistory::default());
        }
        let local = self.local[at];
        let base = hash(u64::from(site), 1);
        let last = u64::from(local.outcomes & 1);
        let runs = u64::from(local.run) << 32 | u64::from(local.before) << 1 | last;
        let contexts = [
            base,
            hash(base, self.outcomes & 0xff | 1 << 32),
            hash(base, self.outcomes & 0xffff | 2 << 32),
            hash(base, self.outcomes << 32 | 3),
            hash(base, u64::from(local.outcomes & 0xfff) | 4 << 32),
            hash(base, runs | 5 << 60),
            hash(base, self.path | 6 << 60),
        ];
        let taken = self.conditional.code(coder, at, contexts, taken)?;
        self.outcomes = self.outcomes << 1 | u64::from(taken);
        let local = &mut self.local[at];
        match (local.outcomes & 1 != 0) == taken {
            true => local.run = (local.run + 1).min(LONGEST),
            false => (local.before, local.run) = (local.run, 0),
        }
        local.outcomes = local.outcomes << 1 | u32::from(taken);
        if taken {
            self.go(target);
        }
        Ok(taken)
    }

    fn go(&mut self, target: u64) {
        let step = hash(target, 7) >> 52;
        self.path = (self.path << 9).wrapping_add(step) & 0xff_ffff_ffff_ffff;
    }

    /// A call that returns to `next`.
    pub fn call(&mut self, next: u64) {
        if self.calls.len() == MOST_CALLS {
            self.calls.pop_front();
        }
        self.calls.push_back(next);
    }

    /// Codes the target of the indirect branch `site`.
    pub fn indirect(
        &mut self,
        coder: &mut impl Coder,
        site: u32,
        kind: Kind,
        target: u64,
    ) -> Result<u64, Cut> {
        let target = match kind {
            Kind::Return => self.returned(coder, site, target)?,
            _ => self.guessed(coder, site, target)?,
        };
        if kind != Kind::Return {
            let step = hash(target, 8);
            self.indirect[0] = step;
            self.indirect[1] = (self.indirect[1] << 13) ^ step;
        }
        self.go(target);
        Ok(target)
    }

    fn returned(&mut self, coder: &mut impl Coder, site: u32, target: u64) -> Result<u64, Cut> {
        let Some(top) = self.calls.pop_back() else {
            return self.guessed(coder, site, target);
        };
        if self.returned[0].code(coder, target == top)? {
            return Ok(top);
        }
        // Some calls are never returned from.
        let target = self.guessed(coder, site, target)?;
        let near = self.calls.iter().rev().take(64);
        if let Some(over) = near.clone().position(|&next| next == target) {
            self.calls.truncate(self.calls.len() - over - 1);
        }
        Ok(target)
    }

    /// An outcome that the code says: a bit all the same, so that there is an end of those
    /// who made the bytes up.
    pub fn certain(&mut self, coder: &mut impl Coder) -> Result<bool, Cut> {
        coder.bit(true, Probability::MAX)
    }

    fn guessed(&mut self, coder: &mut impl Coder, site: u32, target: u64) -> Result<u64, Cut> {
        if self.histories > MOST_HISTORIES {
            self.went
                .values_mut()
                .for_each(|went| went.by_history = Default::default());
            self.histories = 0;
        }
        let long = hash(self.outcomes & 0xffff, self.indirect[1]);
        let histories = [long, self.indirect[0]];
        let went = self.went.entry(site).or_default();
        let mut found = None;
        let mut tried = [0u64; 2];
        for (i, &history) in histories.iter().enumerate() {
            let Some(guess) = went.by_history[i].get(&history) else {
                continue;
            };
            if tried[..i].contains(&guess.target) {
                continue;
            }
            tried[i] = guess.target;
            let context = (i as u8 * 32 + guess.right.min(31) as u8, site);
            let flag = self.guesses.entry(context).or_default();
            if flag.code(coder, target == guess.target)? {
                found = Some(guess.target);
                break;
            }
        }
        let target = match found {
            Some(target) => target,
            None => went
                .listed(coder, &tried, target)?
                .map_or_else(|| number(&mut self.bytes, coder, target), Ok)?,
        };
        for (guesses, history) in went.by_history.iter_mut().zip(histories) {
            let before = guesses.len();
            let guess = guesses.entry(history).or_default();
            match guess.target == target {
                true => guess.right += 1,
                false if guess.right > 1 => guess.right /= 2,
                false => (guess.target, guess.right) = (target, 0),
            }
            self.histories += guesses.len() - before;
        }
        went.note(target);
        Ok(target)
    }

    /// A number, of whose kind there are few different ones or small ones.
    pub fn number(&mut self, coder: &mut impl Coder, value: u64) -> Result<u64, Cut> {
        number(&mut self.bytes, coder, value)
    }

    /// A length: few bits if it is short.
    pub fn length(&mut self, coder: &mut impl Coder, value: u64) -> Result<u64, Cut> {
        let (first, others) = self.lengths.split_at_mut(1);
        let bits = 64 - value.leading_zeros() as usize;
        let mut known = 0;
        while known < 63 && first[0][known].code(coder, known < bits)? {
            known += 1;
        }
        let mut read = 0;
        for at in (0..known).rev() {
            let bit = value >> at & 1 != 0;
            let is_first = at + 1 == known;
            let bit = is_first || others[0][at].code(coder, bit)?;
            read = read << 1 | u64::from(bit);
        }
        Ok(read)
    }

    /// One of eight.
    pub fn kind(&mut self, coder: &mut impl Coder, kind: u8) -> Result<u8, Cut> {
        let mut read = 1;
        for at in (0..3).rev() {
            let bit = self.kinds[read].code(coder, kind >> at & 1 != 0)?;
            read = read << 1 | usize::from(bit);
        }
        Ok(read as u8 & 7)
    }
}

fn number(bytes: &mut [[Flag; 256]], coder: &mut impl Coder, value: u64) -> Result<u64, Cut> {
    let mut all = 0;
    for (at, flags) in (0..8).zip(bytes) {
        let byte = (value >> (8 * at)) as u8;
        let mut read = 1usize;
        for bit in (0..8).rev() {
            let bit = flags[read].code(coder, byte >> bit & 1 != 0)?;
            read = read << 1 | usize::from(bit);
        }
        all |= u64::from(read as u8) << (8 * at);
    }
    Ok(all)
}

impl IndirectHistory {
    /// The target, if it is listed.
    fn listed(
        &mut self,
        coder: &mut impl Coder,
        tried: &[u64],
        target: u64,
    ) -> Result<Option<u64>, Cut> {
        for (at, &listed) in self.targets.iter().enumerate() {
            if tried.contains(&listed) {
                continue;
            }
            if self.flags[at].code(coder, listed == target)? {
                return Ok(Some(listed));
            }
        }
        Ok(None)
    }

    fn note(&mut self, target: u64) {
        let at = match self.targets.iter().position(|&listed| listed == target) {
            Some(at) => at,
            None => {
                if self.targets.len() == MOST_TARGETS {
                    self.targets.pop();
                } else {
                    self.flags.push(Flag::default());
                }
                self.targets.push(target);
                self.targets.len() - 1
            }
        };
        self.targets[..=at].rotate_right(1);
    }
}
