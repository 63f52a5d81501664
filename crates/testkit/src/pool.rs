//! Runs a list of jobs, a few at a time, and keeps their order.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs `work` on every job with `workers` threads.
pub fn run<J: Sync, R: Send>(jobs: &[J], workers: usize, work: impl Fn(&J) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::with_capacity(jobs.len()));
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(index) else { break };
                    let result = work(job);
                    results
                        .lock()
                        .expect("no worker panics while it holds it")
                        .push((index, result));
                }
            });
        }
    });
    let mut results = results.into_inner().expect("the workers are joined");
    results.sort_by_key(|&(index, _)| index);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn keeps_the_order_of_the_jobs() {
        let jobs: Vec<u32> = (0..100).collect();
        assert_eq!(
            super::run(&jobs, 3, |job| job * 2),
            jobs.iter().map(|job| job * 2).collect::<Vec<_>>()
        );
    }
}
