//! A part of the tests that is a list of jobs: each is run once, and all are run whatever one of
//! them says.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::ledger::{self, State};
use crate::pool;

/// One job per core; a run under the product needs one to two.
const WORKERS: usize = 2;

/// A job that did not fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// The number of comparisons that agreed, and a text to print.
    Compared(usize, String),
    /// Nothing was compared because of this.
    Missing(String),
}

/// Runs `check` on every job, prints what became of each, and writes both into the ledger under
/// `kind`. `left` comparisons are left to a wider scope. The error names the jobs that failed.
pub fn run<J: Sync>(
    jobs: &[J],
    kind: &str,
    left: usize,
    name: impl Fn(&J) -> String + Sync,
    check: impl Fn(&J) -> Result<Done, String> + Sync,
) -> Result<(), String> {
    let before = ledger::passed_before(kind);
    let results = pool::run(jobs, WORKERS, |job| {
        let name = name(job);
        if before.contains(&name) {
            println!("before  {name}: it passed");
            return Ok(0);
        }
        let start = Instant::now();
        let result = check(job);
        tell(kind, name, result, start.elapsed())
    });
    if left > 0 {
        ledger::note(State::Left, kind, "", left, Duration::ZERO);
    }
    let compared: usize = results.iter().flatten().sum();
    println!(
        "{} jobs, {compared} {kind} compared, {left} left",
        jobs.len()
    );
    let failed: Vec<String> = results.into_iter().filter_map(Result::err).collect();
    match failed.is_empty() {
        true => Ok(()),
        false => Err(format!("failed: {}", failed.join(", "))),
    }
}

/// Prints and notes one result; the number of comparisons, or the name of the failed job.
fn tell(
    kind: &str,
    name: String,
    result: Result<Done, String>,
    took: Duration,
) -> Result<usize, String> {
    let seconds = took.as_secs_f64();
    match result {
        Ok(Done::Compared(comparisons, text)) => {
            println!("ok      {name} {seconds:.1} s{text}");
            ledger::note(State::Passed, kind, &name, comparisons, took);
            Ok(comparisons)
        }
        Ok(Done::Missing(why)) => {
            println!("missing {name}: {why}");
            ledger::note(State::Missing, kind, &format!("{name}: {why}"), 1, took);
            Ok(0)
        }
        Err(text) => {
            println!("FAILED  {name} {seconds:.1} s\n{text}");
            ledger::note(State::Failed, kind, &name, 1, took);
            Err(name)
        }
    }
}

/// The exit status of a part; its error is printed.
#[must_use]
pub fn exit(result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Done;
    use std::sync::atomic::{AtomicI32, Ordering};

    #[test]
    fn a_job_that_fails_is_named_and_the_others_are_run() {
        let sum = AtomicI32::new(0);
        let result = super::run(&[1, 2, 3, 4], "numbers", 0, i32::to_string, |job| {
            sum.fetch_add(*job, Ordering::Relaxed);
            match job % 2 {
                0 => Err("even".to_owned()),
                _ => Ok(Done::Compared(1, String::new())),
            }
        });
        assert_eq!(result, Err("failed: 2, 4".to_owned()));
        assert_eq!(sum.into_inner(), 10);
    }
}
