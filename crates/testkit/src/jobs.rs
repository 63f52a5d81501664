//! A test that is a list of jobs: each says what became of it, and all are run
//! whatever one of them says.

use std::process::ExitCode;

use crate::again::Again;
use crate::pool;

/// One job per core; a run under the product needs one to two.
const WORKERS: usize = 2;

/// Runs `check` on every job and prints the line that it gives, or what failed;
/// in the end how many `things` that were. The error names those that failed.
pub fn run<J: Sync>(
    jobs: &[J],
    things: &str,
    name: impl Fn(&J) -> String + Sync,
    check: impl Fn(&J, &Again) -> Result<String, String> + Sync,
) -> Result<(), String> {
    let again = Again::default();
    let failed = pool::run(jobs, WORKERS, |job| match check(job, &again) {
        Ok(line) => {
            println!("{line}");
            None
        }
        Err(text) => {
            let name = name(job);
            println!("FAILED  {name}\n{text}");
            Some(name)
        }
    });
    println!("{} {things}", jobs.len());
    again.verdict()?;
    let failed: Vec<String> = failed.into_iter().flatten().collect();
    match failed.is_empty() {
        true => Ok(()),
        false => Err(format!("failed: {}", failed.join(", "))),
    }
}

/// The exit status of the test; its error is told.
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
    use std::sync::atomic::{AtomicI32, Ordering};

    #[test]
    fn a_job_that_fails_is_named_and_the_others_are_run() {
        let sum = AtomicI32::new(0);
        let result = super::run(&[1, 2, 3, 4], "numbers", i32::to_string, |job, _| {
            sum.fetch_add(*job, Ordering::Relaxed);
            match job % 2 {
                0 => Err("even".to_owned()),
                _ => Ok("odd".to_owned()),
            }
        });
        assert_eq!(result, Err("failed: 2, 4".to_owned()));
        assert_eq!(sum.into_inner(), 10);
    }
}
