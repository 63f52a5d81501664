//! All processors for a piece of work, with threads that have ended when it returns.
//!
//! Problem: whoever starts a program forks, and must have one thread then; and where no thread can be made (`ulimit -u`), work has to
//! go on with the one that there is.
//!
//! Approach: a pool for each piece of work. Work within it uses the same pool. `rayon`'s global pool, whose threads never end, is not
//! used.

use rayon::{ThreadBuilder, ThreadPoolBuilder};

/// Does `work` in a pool of threads, one for each processor; in this thread alone if they cannot be made.
pub fn with_processors<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    if rayon::current_thread_index().is_some() {
        return work();
    }
    let mut left = Some(work);
    let done = ThreadPoolBuilder::new().build_scoped(ThreadBuilder::run, |pool| {
        left.take().map(|work| pool.install(work))
    });
    match (done, left) {
        (Ok(Some(result)), _) => result,
        (_, Some(work)) => {
            // This thread is a pool of its own from now on.
            let alone = ThreadPoolBuilder::new().num_threads(1).use_current_thread();
            std::mem::forget(alone.build());
            work()
        }
        _ => unreachable!("work that was taken has a result"),
    }
}
