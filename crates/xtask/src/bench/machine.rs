//! Notes without which a figure means nothing: machine, kernel, versions, commit, load.

use std::fs;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;

use super::measure::Mode;
use crate::tree::Tree;

/// One Markdown list. Names no user, host or path.
pub fn notes(tree: &Tree, modes: &[Mode]) -> Result<String> {
    let mut lines = vec![
        format!(
            "processor: {} × {}",
            cpus(),
            line_of("/proc/cpuinfo", "model name")
        ),
        format!("memory: {}", line_of("/proc/meminfo", "MemTotal")),
        format!("kernel: {}", read("/proc/sys/kernel/osrelease")),
        format!("load at start: {}", read("/proc/loadavg")),
        format!("compiler: {}", first_line("rustc", &["--version"], tree)),
        format!("commit: {}", commit(tree)),
        format!("date: {}", date()),
    ];
    if modes
        .iter()
        .any(|mode| matches!(mode, Mode::Valgrind | Mode::Callgrind))
    {
        lines.push(format!(
            "valgrind: {}",
            first_line("valgrind", &["--version"], tree)
        ));
    }
    Ok(lines.iter().map(|line| format!("- {line}\n")).collect())
}

/// `DATE-LABEL.md`, or with a number when there was one already today.
pub fn file_name(label: &str) -> String {
    let label: String = label
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    format!("{}-{label}.md", date())
}

fn commit(tree: &Tree) -> String {
    let head = first_line("git", &["rev-parse", "--short", "HEAD"], tree);
    let changed = first_line(
        "git",
        &["status", "--porcelain", "--untracked-files=no"],
        tree,
    );
    if changed.is_empty() {
        head
    } else {
        format!("{head} with local changes")
    }
}

fn first_line(program: &str, arguments: &[&str], tree: &Tree) -> String {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(&tree.root)
        .output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    text.unwrap_or_default()
        .lines()
        .next()
        .unwrap_or_default()
        .to_owned()
}

fn read(path: &str) -> String {
    fs::read_to_string(path)
        .unwrap_or_default()
        .trim()
        .to_owned()
}

fn cpus() -> usize {
    read("/proc/cpuinfo")
        .lines()
        .filter(|line| line.starts_with("processor"))
        .count()
}

fn line_of(path: &str, key: &str) -> String {
    let text = read(path);
    let line = text.lines().find(|line| line.starts_with(key));
    line.and_then(|line| line.split_once(':'))
        .map_or("unknown", |(_, value)| value.trim())
        .into()
}

fn date() -> String {
    let elapsed = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let (year, month, day) = civil_from_days((elapsed.as_secs() / 86_400) as i64);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Gregorian date of a day number counted from 1970-01-01, by years of 365 or
/// 366 days and then months; the loop is short and easy to check.
fn civil_from_days(mut days: i64) -> (i64, u32, i64) {
    let leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let mut year = 1970;
    while days >= 365 + i64::from(leap(year)) {
        days -= 365 + i64::from(leap(year));
        year += 1;
    }
    let february = 28 + i64::from(leap(year));
    let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in lengths {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod tests {
    use super::civil_from_days;

    #[test]
    fn dates() {
        assert_eq!(civil_from_days(0), (1970, 1, 1));
        assert_eq!(civil_from_days(11_016), (2000, 2, 29));
        assert_eq!(civil_from_days(20_088), (2024, 12, 31));
    }
}
