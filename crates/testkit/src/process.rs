//! A look at running processes, by /proc.

use std::time::{Duration, Instant};

use nix::unistd::Pid;

/// A test fails if something that it waits for has not come until then.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until it is so.
#[track_caller]
pub fn wait_until(what: &str, is_so: impl FnMut() -> bool) {
    assert!(until(is_so), "it never came: {what}");
}

/// Whether it became so.
pub fn until(mut is_so: impl FnMut() -> bool) -> bool {
    let began = Instant::now();
    while !is_so() {
        if began.elapsed() > PATIENCE {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

/// The fields of /proc/PID/stat behind the name: state, parent, group, session...
fn stat(pid: Pid) -> Option<Vec<String>> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, behind) = text.rsplit_once(") ")?;
    Some(behind.split(' ').map(str::to_owned).collect())
}

/// Its state as ps(1) has it; `None`: it is gone.
#[must_use]
pub fn state(pid: Pid) -> Option<char> {
    stat(pid)?.first()?.chars().next()
}

#[must_use]
pub fn is_stopped(pid: Pid) -> bool {
    state(pid) == Some('T')
}

/// A line on what it does, for a failure's message.
#[must_use]
pub fn look(pid: Pid) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let names = ["Name", "State", "PPid", "SigPnd", "ShdPnd", "SigBlk"];
    let is_told = |line: &&str| names.iter().any(|name| line.starts_with(name));
    let lines: Vec<_> = text.lines().filter(is_told).collect();
    format!("{pid}: {}\n", lines.join("  ").replace('\t', " "))
}

/// It is there, no zombie, and not stopped.
#[must_use]
pub fn is_running(pid: Pid) -> bool {
    state(pid).is_some_and(|state| !matches!(state, 'T' | 'Z' | 'X'))
}

/// It has ended, whether or not its parent knows.
#[must_use]
pub fn has_ended(pid: Pid) -> bool {
    matches!(state(pid), None | Some('Z' | 'X'))
}

/// Its name, from /proc/PID/comm.
#[must_use]
pub fn name(pid: Pid) -> Option<String> {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim_end().to_owned())
}

/// Its children. The kernel may leave some out while another one ends (proc(5)); who waits for
/// one asks again.
#[must_use]
pub fn children(pid: Pid) -> Vec<Pid> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let numbers = text.split_whitespace().filter_map(|word| word.parse().ok());
    numbers.map(Pid::from_raw).collect()
}

/// The process of a running everypath that has the program as its child: it leads a session.
#[must_use]
pub fn observer(everypath: Pid) -> Option<Pid> {
    let leads = |pid: &Pid| stat(*pid).is_some_and(|stat| stat[3] == pid.to_string());
    asked_again(|| children(everypath).into_iter().find(leads))
}

/// The program that a running everypath has started, if it has.
#[must_use]
pub fn program(everypath: Pid) -> Option<Pid> {
    let observer = observer(everypath)?;
    asked_again(|| children(observer).into_iter().next())
}

/// Looks among children for a second: one list of them is not always whole.
fn asked_again(find: impl Fn() -> Option<Pid>) -> Option<Pid> {
    let began = Instant::now();
    loop {
        let found = find();
        if found.is_some() || began.elapsed() > Duration::from_secs(1) {
            return found;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
