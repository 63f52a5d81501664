//! How quick the processor's time-stamp counter is, which time stamps of traces are read from.
//!
//! Approach: counter and clock are read before the program starts and when it has ended.
//! Each time some readings are made, and the one counts that took least, so nobody who
//! loses the processor between both is believed.
//!
//! Limits: as exact as both ends of a run are apart: a reading is good to some tens of
//! nanoseconds. The counters of all processors have to agree, as for the stamps themselves.

use std::time::Instant;

const TRIES: usize = 8;

/// The counter, and when it said that.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    ticks: u64,
    at: Instant,
}

impl Reading {
    /// `None`: this process may not read the counter (`PR_SET_TSC`).
    pub fn now() -> Option<Reading> {
        if sys::is_tsc_forbidden() {
            return None;
        }
        // SAFETY: rdtsc reads a counter, and nobody has forbidden it.
        let counter = || unsafe { core::arch::x86_64::_rdtsc() };
        let one = || {
            let (before, at, after) = (counter(), Instant::now(), counter());
            let took = after.saturating_sub(before);
            let ticks = before + took / 2;
            (took, Reading { ticks, at })
        };
        let readings = (0..TRIES).map(|_| one());
        let (_, best) = readings.min_by_key(|(took, _)| *took)?;
        Some(best)
    }

    /// How often it counted in a second since then.
    pub fn per_second_since(self, before: Reading) -> Option<u64> {
        let ticks = self.ticks.checked_sub(before.ticks)?;
        let ns = self.at.duration_since(before.at).as_nanos();
        let rate = (u128::from(ticks) * 1_000_000_000).checked_div(ns)?;
        rate.try_into().ok()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn ticks_are_of_a_second() {
        let at = Instant::now();
        let reading = |ticks, ms| Reading {
            ticks,
            at: at + Duration::from_millis(ms),
        };
        let begin = reading(1000, 0);
        let rate = |end: Reading| end.per_second_since(begin);
        assert_eq!(rate(reading(26_001_000, 10)), Some(2_600_000_000));
        assert_eq!(rate(reading(26_001_000, 0)), None, "no time passed");
        assert_eq!(rate(reading(999, 10)), None, "other processor's counter");
    }

    /// Two measurements agree, so the counter is even: the kernel relies on that, too.
    #[test]
    fn the_counter_counts_evenly() {
        let readings = [(); 3].map(|()| {
            let reading = Reading::now().expect("it may be read");
            std::thread::sleep(Duration::from_millis(50));
            reading
        });
        let rate = |from: usize| readings[from + 1].per_second_since(readings[from]).unwrap();
        let (first, second) = (rate(0), rate(1));
        assert!(first > 100_000_000, "{first}");
        assert!(first.abs_diff(second) < first / 1000, "{first} {second}");
    }
}
