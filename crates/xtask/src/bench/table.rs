//! Samples to text: one line while it runs, the Markdown file at the end.

use std::fmt::Write;
use std::time::Duration;

use super::Measured;
use super::measure::{Mode, Sample};
use super::workload::Workload;

/// One round of one workload, for the progress output.
pub fn line(workload: &Workload, samples: &[Sample]) -> String {
    let native = seconds(samples[0].wall);
    let mut text = format!("{:12} native {native:7.3} s", workload.name);
    for sample in &samples[1..] {
        match &sample.failure {
            Some(failure) => write!(text, "  FAILED: {failure}"),
            None => {
                let (wall, cpu) = (seconds(sample.wall), seconds(sample.cpu));
                write!(text, "  {:6.2}x (cpu {cpu:.2} s)", wall / native)
            }
        }
        .expect("writing to a String cannot fail");
    }
    text
}

/// Runs that do not count, over all rounds.
pub fn failures(results: &[Measured]) -> usize {
    let samples = results
        .iter()
        .flat_map(|result| result.rounds.iter().flatten());
    samples.filter(|sample| sample.failure.is_some()).count()
}

pub fn render(machine: &str, modes: &[Mode], results: &[Measured]) -> String {
    let rounds = results.first().map_or(0, |result| result.rounds.len());
    let mut text = format!(
        "# Slow-down over native\n\n{machine}- rounds: {rounds}\n\n\
         Each figure is wall time over the native wall time of the same round: median of the\n\
         rounds, in brackets the smallest and the largest. Only ratios within one table compare.\n\n"
    );
    text.push_str(&ratio_table(modes, results));
    let startup: Vec<&Measured> = results
        .iter()
        .filter(|result| result.workload.is_startup())
        .collect();
    if !startup.is_empty() {
        text.push_str(
            "\n## Start-up: milliseconds more than native, and how many times native\n\n",
        );
        text.push_str(&startup_table(modes, &startup));
    }
    text.push_str(&failure_list(modes, results));
    text.push_str(&super::kept::section(results));
    text.push_str("\n## What the workloads stress\n\n");
    for Measured { workload, .. } in results {
        text += &format!("- {}: {}\n", workload.name, workload.stresses);
    }
    text
}

fn header(modes: &[Mode], first: &str) -> String {
    let names: Vec<&str> = modes.iter().map(|mode| mode.name()).collect();
    let rule = "---:|".repeat(modes.len());
    format!(
        "| workload | {first} | {} |\n|---|---:|{rule}\n",
        names.join(" | ")
    )
}

fn ratio_table(modes: &[Mode], results: &[Measured]) -> String {
    let with_exits = results.iter().any(|result| result.exits.is_some());
    let mut text = header(modes, "native s");
    if with_exits {
        text = text.replacen(" |\n", " | cache exits per million instructions |\n", 1);
        text = text.trim_end().to_owned() + "---:|\n";
    }
    let mut medians: Vec<Vec<f64>> = vec![Vec::new(); modes.len()];
    for result in results
        .iter()
        .filter(|result| !result.workload.is_startup())
    {
        let natives: Vec<f64> = result
            .rounds
            .iter()
            .map(|row| seconds(row[0].wall))
            .collect();
        let mut row = format!("| {} | {:.2} |", result.workload.name, median(&natives));
        for (index, medians) in medians.iter_mut().enumerate() {
            row += &match ratios(result, index + 1) {
                None => " failed |".to_owned(),
                Some(ratios) => {
                    medians.push(median(&ratios));
                    let (low, high) = range(&ratios);
                    format!(" {:.2} ({low:.2}–{high:.2}) |", median(&ratios))
                }
            };
        }
        if with_exits {
            row += &result
                .exits
                .map_or(" – |".to_owned(), |exits| format!(" {exits:.1} |"));
        }
        text += &(row + "\n");
    }
    let mut row = "| **geometric mean** | |".to_owned();
    for medians in &medians {
        row += &geometric_mean(medians).map_or(" – |".to_owned(), |mean| {
            format!(" **{mean:.2}** of {} |", medians.len())
        });
    }
    text + &row + if with_exits { " |\n" } else { "\n" }
}

fn startup_table(modes: &[Mode], results: &[&Measured]) -> String {
    let mut text = header(modes, "native ms");
    for result in results {
        let per_run = |row: &[Sample], index: usize| {
            seconds(row[index].wall) * 1e3 / f64::from(result.workload.repeat)
        };
        let natives: Vec<f64> = result.rounds.iter().map(|row| per_run(row, 0)).collect();
        let mut row = format!("| {} | {:.2} |", result.workload.name, median(&natives));
        for index in 1..=modes.len() {
            row += &match ratios(result, index) {
                None => " failed |".to_owned(),
                Some(ratios) => {
                    let more: Vec<f64> = result
                        .rounds
                        .iter()
                        .map(|row| per_run(row, index) - per_run(row, 0))
                        .collect();
                    let (low, high) = range(&more);
                    let times = median(&ratios);
                    format!(
                        " {:.2} ({low:.2}–{high:.2}), {times:.1} times |",
                        median(&more)
                    )
                }
            };
        }
        text += &(row + "\n");
    }
    text
}

fn failure_list(modes: &[Mode], results: &[Measured]) -> String {
    let mut text = String::new();
    for result in results {
        for (index, mode) in modes.iter().enumerate() {
            let failure = result
                .rounds
                .iter()
                .find_map(|row| row[index + 1].failure.as_deref());
            if let Some(failure) = failure {
                text += &format!(
                    "- {} under {}: {failure}\n",
                    result.workload.name,
                    mode.name()
                );
            }
        }
    }
    if text.is_empty() {
        text
    } else {
        format!("\n## Failed\n\n{text}")
    }
}

/// Ratios of sample `index` over native, round by round; `None` if any round failed.
fn ratios(result: &Measured, index: usize) -> Option<Vec<f64>> {
    let ratio = |row: &Vec<Sample>| {
        let sample = &row[index];
        sample
            .failure
            .is_none()
            .then(|| seconds(sample.wall) / seconds(row[0].wall))
    };
    result.rounds.iter().map(ratio).collect()
}

fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[middle],
        _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
    }
}

fn range(values: &[f64]) -> (f64, f64) {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (low, high)
}

fn geometric_mean(values: &[f64]) -> Option<f64> {
    let sum: f64 = values.iter().map(|value| value.ln()).sum();
    (!values.is_empty()).then(|| (sum / values.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_means() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[1.0, 2.0]), 1.5);
        assert_eq!(range(&[2.0, 1.0, 4.0]), (1.0, 4.0));
        assert!((geometric_mean(&[1.0, 4.0]).unwrap_or(0.0) - 2.0).abs() < 1e-12);
        assert_eq!(geometric_mean(&[]), None);
    }

    #[test]
    fn a_failed_round_gives_no_figure() {
        let sample = |ms, failure: Option<&str>| Sample {
            wall: Duration::from_millis(ms),
            cpu: Duration::ZERO,
            failure: failure.map(Into::into),
        };
        let workload = Workload {
            name: "w".into(),
            stresses: String::new(),
            setup: Vec::new(),
            command: vec!["w".into()],
            stdin: None,
            repeat: 1,
        };
        let rounds = vec![vec![
            sample(100, None),
            sample(150, None),
            sample(1, Some("signal: 11")),
        ]];
        let results = [Measured {
            workload,
            rounds,
            exits: None,
            kept: None,
        }];
        let text = render("", &[Mode::Run, Mode::Contexts], &results);
        assert!(
            text.contains("| w | 0.10 | 1.50 (1.50–1.50) | failed |"),
            "{text}"
        );
        assert!(
            text.contains("| **geometric mean** | | **1.50** of 1 | – |"),
            "{text}"
        );
        assert!(text.contains("- w under contexts: signal: 11"), "{text}");
        assert_eq!(failures(&results), 1);
    }
}
