//! A second look at what differed.
//!
//! Problem: some thousand runs are compared, on machines that may be busy.
//! Which thread is first or what a clock says can differ between two runs in
//! ways nobody foresaw, and one such chance must not hide what the others say.
//!
//! Approach: what failed is run again, and counts as failed only if it fails
//! every time. Nothing is hidden: each second look is printed with what
//! differed, and more than [`Again::ALLOWED`] of them fail the test, because
//! then it is not chance.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts the second looks of one test.
#[derive(Debug, Default)]
pub struct Again {
    needed: AtomicUsize,
}

impl Again {
    /// Jobs of one test that may need a second look.
    pub const ALLOWED: usize = 3;
    /// Attempts per job.
    const ATTEMPTS: usize = 3;

    /// Runs `attempt` until it passes, at most three times. The error is the first one.
    pub fn try_up_to_three<T>(
        &self,
        name: &str,
        attempt: impl Fn() -> Result<T, String>,
    ) -> Result<T, String> {
        let first = match attempt() {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        for _ in 1..Self::ATTEMPTS {
            if let Ok(value) = attempt() {
                println!("again   {name}: it passed now, before:\n{first}");
                self.needed.fetch_add(1, Ordering::Relaxed);
                return Ok(value);
            }
        }
        Err(first)
    }

    /// What is wrong when too many jobs needed it.
    pub fn verdict(&self) -> Result<(), String> {
        match self.needed.load(Ordering::Relaxed) {
            needed if needed > Self::ALLOWED => Err(format!(
                "{needed} jobs passed only when run again; that is no chance any more"
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Again;
    use std::cell::Cell;

    #[test]
    fn what_fails_every_time_fails_with_its_first_error() {
        let (again, runs) = (Again::default(), Cell::new(0));
        let result: Result<(), String> = again.try_up_to_three("job", || {
            runs.set(runs.get() + 1);
            Err(format!("error {}", runs.get()))
        });
        assert_eq!((result, runs.get()), (Err("error 1".to_owned()), 3));
    }

    #[test]
    fn chance_is_allowed_three_times() {
        let again = Again::default();
        for job in 0..=Again::ALLOWED {
            assert_eq!(again.verdict(), Ok(()), "{job}");
            let failed = Cell::new(false);
            let result = again.try_up_to_three("job", || match failed.replace(true) {
                false => Err("once".to_owned()),
                true => Ok(job),
            });
            assert_eq!(result, Ok(job));
        }
        assert!(again.verdict().is_err());
    }
}
