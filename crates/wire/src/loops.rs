//! Memory of nests of loops that are followed: what inserted code, the code inside the edited file and readers share.
//!
//! Approach: each thread has a [`Nest`] for each nest, a [`Loop`] for each loop of it and a [`Model`] for each memory reference, one
//! behind another at its `%gs`. Nothing is stored for later: an address is compared with what the model expects, as it comes.
//!
//! A model is an affine function of the numbers of iterations of the loops around a reference: the first value, and a coefficient for
//! each loop. The first value that differs in one number alone says the coefficient; each one behind it either fits or does not. At
//! each entry of the nest the first value is taken anew, as it may work on other data, and coefficients are kept.
//!
//! Where all iterations are followed, a model also has a *forecast* once it knows all that it needs: the address as a function of the
//! innermost number alone, which inserted code compares, and counts. It is made when the loop is entered, and when the model takes a
//! value.
//!
//! Source: A. Jimborean et al., "VMAD: a Virtual Machine for Advanced Dynamic Analysis of Programs" (2010), 5.1 and 5.2.

pub mod strides;

/// Most loops around each other.
pub const DEPTH: usize = 6;

/// A nest. Zero at first: the next entry of the nest is followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Nest {
    /// Not 0: entries lead to the original code. Code in front of the nest looks at it.
    pub off: u8,
    /// Not 0: the outermost loop goes on in the original code.
    pub ends: u8,
    /// Not 0: an inner loop, of this depth, goes on in code that only counts iterations.
    pub quiet: u8,
    /// Not 0: it was entered, and its end did not come yet.
    pub inside: u8,
    /// Entries that were followed since somebody set this, `off` and `events` to 0, for the nest to be followed again.
    pub since: u32,
    /// Entries that were followed.
    pub entries: u64,
    /// Entries whose end did not come: left by `longjmp` or an exception, or the thread ended.
    pub lost: u64,
    /// Entries and iterations of its loops that were followed since then.
    pub events: u64,
}

/// A loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Loop {
    /// Number of the iteration, from 0 on: the virtual iterator.
    pub iteration: u64,
    /// Counts entries and iterations; that of the parent when it was entered.
    pub serial: u64,
    pub parent_serial: u64,
    /// Displacements from `%gs`: of the parent, 0 if there is none, and of the nest.
    pub parent: u32,
    pub nest: u32,
    pub depth: u32,
    /// Not 0: it was entered, and its end did not come yet.
    pub active: u32,
    /// References of its own that were seen once or twice.
    pub unsettled: u64,
    /// Displacement from `%gs` of the first model of its own references that may have a forecast, 0 if there is none; [`Model::next`]
    /// leads on. The others did not come in an entry.
    pub models: u64,
    /// Entries that were followed to their end, and iterations of these: sum, least, most.
    pub entries: u64,
    pub sum: u64,
    pub least: u64,
    pub most: u64,
    /// Iterations of an entry, as a function of the numbers of iterations of the loops around it.
    pub trips: Model,
}

/// An affine function that is fitted to values as they come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Model {
    pub samples: u64,
    /// Values that were as expected, and that were not.
    pub fits: u64,
    pub fails: u64,
    /// Values from which nothing follows: several numbers differed whose coefficients are not known.
    pub unsolved: u64,
    /// Coefficients that are known, a bit each.
    pub known: u64,
    /// Entry of the nest at which the first value was taken, and how often it was another one than coefficients say.
    pub entry: u64,
    pub moved: u64,
    /// The first value, and numbers of iterations then, outermost first.
    pub first: i64,
    pub at: [i64; DEPTH],
    pub coefficients: [i64; DEPTH],
    /// The forecast: the value, `less` and `step` times the innermost number make 0.
    pub less: i64,
    pub step: i64,
    /// 0: there is none, so the model takes the value. Otherwise nothing is learnt from it, and it is only counted.
    pub has_forecast: u64,
    /// Values that were as forecast, and that were not; they are in no other count.
    pub as_forecast: u64,
    pub otherwise: u64,
    /// Values that had come when the loop was entered last.
    pub before: u64,
    /// Not 0: it is one of those to which [`Loop::models`] leads.
    pub is_listed: u64,
    /// Displacement of the next one of these, or 0.
    pub next: u64,
}

/// Without a forecast, no address makes 0 with this.
const NEVER: i64 = i64::MIN;

/// Values of a reference that is seen so often are enough.
pub const SAMPLES: u64 = 3;

impl Model {
    /// The value that is expected, and the numbers that differ and have no coefficient: one of them, and how many there are.
    fn expected(&self, at: &[i64]) -> (i64, usize, u32) {
        let (mut value, mut unknown, mut count) = (self.first, 0, 0);
        for (number, (own, first)) in at.iter().zip(&self.at).enumerate() {
            let differs = own.wrapping_sub(*first);
            if differs == 0 {
                continue;
            }
            if self.known >> number & 1 != 0 {
                let coefficient = self.coefficients.get(number).copied().unwrap_or(0);
                value = value.wrapping_add(coefficient.wrapping_mul(differs));
            } else {
                unknown = number;
                count += 1;
            }
        }
        (value, unknown, count)
    }

    /// Takes the first value of an entry of the nest.
    fn begin(&mut self, entry: u64, at: &[i64], value: i64) {
        if self.samples > 0 {
            let (expected, _, unknown) = self.expected(at);
            self.moved += u64::from(unknown == 0 && expected != value);
        }
        self.entry = entry;
        self.first = value;
        for (own, number) in self.at.iter_mut().zip(at) {
            // The compiler would call a function of a library for it, and resident code has none.
            *own = core::hint::black_box(*number);
        }
    }

    /// Takes a value, with numbers of iterations, outermost first, in an entry of the nest.
    pub fn add(&mut self, entry: u64, at: &[i64], value: i64) {
        if self.samples == 0 || self.entry != entry {
            self.begin(entry, at, value);
            self.samples += 1;
            return;
        }
        self.samples += 1;
        let (expected, unknown, count) = self.expected(at);
        match count {
            0 if expected == value => self.fits += 1,
            0 => self.fails += 1,
            1 => self.learn(unknown, at, value.wrapping_sub(expected)),
            _ => self.unsolved += 1,
        }
    }

    /// Whether values have come since this was asked last.
    pub fn has_come(&mut self) -> bool {
        let now = (self.samples)
            .wrapping_add(self.as_forecast)
            .wrapping_add(self.otherwise);
        let before = core::mem::replace(&mut self.before, now);
        now != before
    }

    /// Takes the forecast back.
    pub fn forget(&mut self) {
        (self.less, self.step, self.has_forecast) = (NEVER, 0, 0);
    }

    /// Makes the forecast for an entry of the nest, and the numbers of loops around the innermost one, whose own is the last.
    pub fn foresee(&mut self, entry: u64, at: &[i64]) {
        self.forget();
        let Some((own, _)) = at.split_last() else {
            return;
        };
        let innermost = at.len() - 1;
        if self.samples == 0 || self.entry != entry || self.known >> innermost & 1 == 0 {
            return;
        }
        let (value, _, unknown) = self.expected(at);
        let coefficient = self.coefficients.get(innermost).copied().unwrap_or(0);
        if unknown == 0 {
            self.less = coefficient.wrapping_mul(*own).wrapping_sub(value);
            self.step = coefficient.wrapping_neg();
            self.has_forecast = 1;
        }
    }

    /// A coefficient follows from what a value is more than expected.
    fn learn(&mut self, number: usize, at: &[i64], more: i64) {
        let (Some(own), Some(first)) = (at.get(number), self.at.get(number)) else {
            return;
        };
        let differs = own.wrapping_sub(*first);
        let coefficient = match more.checked_rem(differs) {
            Some(0) => more.checked_div(differs),
            _ => None,
        };
        match (coefficient, self.coefficients.get_mut(number)) {
            (Some(coefficient), Some(own)) => {
                *own = coefficient;
                self.known |= 1 << number;
            }
            _ => self.fails += 1,
        }
    }

    /// The value at the first iterations of all loops; `None`: a coefficient that it needs is not known.
    pub fn constant(&self) -> Option<i64> {
        let (value, _, unknown) = self.expected(&[0; DEPTH]);
        (unknown == 0).then_some(value)
    }

    /// Whether all values were as the function says, and at least one was expected.
    pub fn is_verified(&self) -> bool {
        self.fails == 0 && self.unsolved == 0 && self.fits > 0
    }
}

/// Facts of the head of a loop, to which `r11` leads; the routine goes on behind them.
///
/// | fact | what |
/// |---|---|
/// | 0 | displacement of the [`Loop`] from `%gs` |
/// | 1 | that of its parent, or 0 |
/// | 2 | that of the [`Nest`] |
/// | 3 | depth; from bit 8 on [`EXACT`]; from bit 16 on entries of the nest that are followed |
///
/// Of a way out of loops: 0 the loop that is left, 1 the one in which control goes on, or 0, 2 the nest. Of a reference: 0 the
/// [`Model`], 1 the loop, 2 the operand's displacement, 3 the numbers of base and index, 8 bits each ([`NONE`]), the logarithm of the
/// scale, and from bit 24 on [`THREAD`], [`FORECAST`] and [`STRIDES`].
pub type Facts = [u32; 4];

/// All iterations are followed.
pub const EXACT: u32 = 1 << 8;
/// There is no such register.
pub const NONE: u32 = 0xff;
/// The address is one from the thread pointer on.
pub const THREAD: u32 = 1;
/// The model has to have a forecast.
pub const FORECAST: u32 = 2;
/// There are [`strides::Strides`] behind the model.
pub const STRIDES: u32 = 4;
/// A loop is followed for so many iterations; for more, if references were seen less often than [`SAMPLES`] times, but not beyond these.
pub const LEAST: u64 = SAMPLES;
pub const MOST: u64 = 16;
/// A nest is not followed further after so many entries and iterations of its loops.
pub const EVENTS: u64 = 8192;

#[cfg(test)]
mod tests {
    use super::*;

    /// All numbers of iterations of three loops, in order.
    fn all(bounds: [i64; 3]) -> impl Iterator<Item = [i64; 3]> {
        (0..bounds[0]).flat_map(move |i| {
            (0..bounds[1]).flat_map(move |j| (0..bounds[2]).map(move |k| [i, j, k]))
        })
    }

    #[test]
    fn affine_functions_are_found_and_verified() {
        let mut model = Model::default();
        for at in all([3, 3, 3]) {
            model.add(1, &at, 1000 + 480 * at[0] - 8 * at[2]);
        }
        assert_eq!(model.coefficients[..3], [480, 0, -8]);
        assert_eq!((model.constant(), model.samples), (Some(1000), 27));
        assert!(model.is_verified() && model.fits == 27 - 4, "{model:?}");
        // Another array with the same form.
        for at in all([2, 2, 2]) {
            model.add(2, &at, 77_000 + 480 * at[0] - 8 * at[2]);
        }
        assert_eq!((model.constant(), model.moved), (Some(77_000), 1));
        assert!(model.is_verified(), "{model:?}");
    }

    #[test]
    fn other_functions_fail() {
        let mut model = Model::default();
        for at in all([3, 3, 3]) {
            model.add(1, &at, at[2] * at[2]);
        }
        assert!(!model.is_verified() && model.fails == 9, "{model:?}");
        // One value says nothing, and two are not enough.
        let mut model = Model::default();
        model.add(1, &[0, 0], 5);
        model.add(1, &[0, 1], 6);
        assert!(!model.is_verified(), "{model:?}");
        // What changes with two loops at once follows from neither.
        let mut model = Model::default();
        model.add(1, &[0, 0], 0);
        model.add(1, &[1, 1], 3);
        assert_eq!((model.unsolved, model.constant()), (1, Some(0)));
    }

    /// A forecast is the model, with the numbers around the innermost one kept.
    #[test]
    fn forecasts_are_what_the_model_expects() {
        let value = |at: &[i64; 3]| 1000 + 480 * at[0] + 16 * at[1] - 8 * at[2];
        let mut model = Model::default();
        let mut forecast = 0;
        for at in all([3, 4, 5]) {
            if at[2] == 0 {
                model.foresee(1, &at);
            }
            if model.has_forecast != 0 {
                assert_eq!(value(&at) + model.less + model.step * at[2], 0);
                forecast += 1;
                continue;
            }
            model.add(1, &at, value(&at));
            model.foresee(1, &at);
        }
        // All but the first value, and one for each coefficient.
        assert_eq!((forecast, model.samples), (60 - 4, 4), "{model:?}");
        // Another entry begins anew.
        model.foresee(2, &[0, 0, 0]);
        assert_eq!((model.less, model.has_forecast), (NEVER, 0));
    }
}
