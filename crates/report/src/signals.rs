//! Names of signals (signal(7), x86 numbers) and of ends.

use trace::{End, Meta};

use crate::numbers::duration;

const NAMES: [&str; 31] = [
    "SIGHUP",
    "SIGINT",
    "SIGQUIT",
    "SIGILL",
    "SIGTRAP",
    "SIGABRT",
    "SIGBUS",
    "SIGFPE",
    "SIGKILL",
    "SIGUSR1",
    "SIGSEGV",
    "SIGUSR2",
    "SIGPIPE",
    "SIGALRM",
    "SIGTERM",
    "SIGSTKFLT",
    "SIGCHLD",
    "SIGCONT",
    "SIGSTOP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGXCPU",
    "SIGXFSZ",
    "SIGVTALRM",
    "SIGPROF",
    "SIGWINCH",
    "SIGIO",
    "SIGPWR",
    "SIGSYS",
];

/// `SIGSEGV`; a real-time signal by its number.
pub fn name(signal: i32) -> String {
    let index = usize::try_from(signal)
        .ok()
        .and_then(|signal| signal.checked_sub(1));
    match index.and_then(|index| NAMES.get(index)) {
        Some(name) => (*name).to_owned(),
        None => format!("signal {signal}"),
    }
}

/// The signal with that name, without its `SIG`; real-time ones have none.
pub fn number(name: &str) -> Option<i32> {
    let is_it = |known: &&str| known.strip_prefix("SIG") == Some(name);
    let at = NAMES.iter().position(is_it)?;
    i32::try_from(at + 1).ok()
}

/// End of a run, and how long it took.
pub fn end_of_run(meta: &Meta) -> String {
    match (meta.end, meta.duration_ns) {
        (End::Unknown, 0) => "how it ended was not recorded".into(),
        (end, taken) => format!("{} after {}", self::end(end), duration(taken)),
    }
}

/// End of a process, as the end of a sentence.
pub fn end(end: End) -> String {
    match end {
        End::Exited(status) => format!("exited with status {status}"),
        End::Signaled { signal, core } => {
            let core = if core { " (core dumped)" } else { "" };
            format!("was killed by {}{core}", name(signal))
        }
        End::Execed => "became another program by exec".into(),
        End::Unknown => "was killed, or still ran when the recording ended".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_sentences() {
        assert_eq!(end(End::Exited(3)), "exited with status 3");
        let killed = End::Signaled {
            signal: 11,
            core: true,
        };
        assert_eq!(end(killed), "was killed by SIGSEGV (core dumped)");
        assert_eq!(name(31), "SIGSYS");
        assert_eq!(name(34), "signal 34");
        assert_eq!(name(-1), "signal -1");
    }
}
