//! Processes that nobody else waits for: what an init does for them (pid_namespaces(7)).
//!
//! A process whose parent has ended becomes a child of process 1 of its PID namespace, and stays a zombie until
//! that waits for it. As the entry point of a container, the face is process 1.

use std::collections::BTreeMap;
use std::fs;

use rustix::process::{Pid, WaitOptions, waitpid};

/// Processes that were inherited and waited for, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inherited(BTreeMap<String, u64>);

impl Inherited {
    /// Waits for each child that has ended, but for `own` ones.
    pub(crate) fn reap(&mut self, own: &[Pid]) {
        for child in children().into_iter().filter(|child| !own.contains(child)) {
            let name = fs::read_to_string(format!("/proc/{child}/comm")).unwrap_or_default();
            if let Ok(Some(_)) = waitpid(Some(child), WaitOptions::NOHANG) {
                *self.0.entry(name.trim_end().to_owned()).or_default() += 1;
            }
        }
    }

    pub fn count(&self) -> u64 {
        self.0.values().sum()
    }
}

/// `cat, sh (3)`
impl std::fmt::Display for Inherited {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, (name, times)) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            match times {
                1 => write!(f, "{comma}{name}")?,
                _ => write!(f, "{comma}{name} ({times})")?,
            }
        }
        Ok(())
    }
}

/// Whether this process inherits what others leave.
pub(crate) fn is_init() -> bool {
    rustix::process::getpid().is_init()
}

/// All children of this process, which has one thread (proc(5), `task/TID/children`).
fn children() -> Vec<Pid> {
    let text = fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
    let numbers = text.split_whitespace().filter_map(|word| word.parse().ok());
    numbers.filter_map(Pid::from_raw).collect()
}

#[cfg(test)]
mod tests {
    use super::Inherited;

    #[test]
    fn names_come_with_how_many() {
        let mut inherited = Inherited::default();
        inherited.0.insert("sh".into(), 3);
        inherited.0.insert("cat".into(), 1);
        assert_eq!(inherited.to_string(), "cat, sh (3)");
        assert_eq!(inherited.count(), 4);
    }
}
