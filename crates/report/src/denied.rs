//! Which threads could not be counted, or not in full: since when, and why.

use std::io;

use trace::denied::{KEPT, why};
use trace::{Denial, Mode, Recording};

use crate::numbers::counted;

/// A sentence without a full stop for each.
pub fn sentences(recording: &Recording) -> Vec<String> {
    // If none of the processes had room, time begins with the first of them.
    let processes = recording.processes.iter().map(|process| process.start_ns);
    let begins = processes.chain(recording.denied.iter().map(|denial| denial.since_ns));
    let begin = begins.min().unwrap_or(0);
    let missing = match recording.meta.mode {
        Mode::Contexts => "what it did is in [truncated] contexts or missing",
        Mode::Counts => "what it did is missing in part",
        Mode::Run | Mode::Trace => "what it did is missing",
    };
    let sentence = |denial: &Denial| {
        let times = match denial.why {
            why::TRACED => String::new(),
            _ => format!(" ({})", counted(denial.times, "time")),
        };
        let missing = match denial.why {
            why::TRACED => "what it did is missing",
            _ => missing,
        };
        let since = denial.since_ns.saturating_sub(begin) / 1_000_000;
        format!(
            "thread {} of process {}: {missing} from {}.{:03} s on, as {}{times}",
            denial.tid,
            denial.pid,
            since / 1000,
            since % 1000,
            reason(denial.why),
        )
    };
    // Nothing is missing where nothing is recorded.
    let is_told = |denial: &&Denial| {
        let is_of_nothing = recording.meta.mode == Mode::Run && denial.why == why::TRACED;
        !is_of_nothing && !is_after_the_end(recording, denial)
    };
    let told = recording.denied.iter().filter(is_told);
    let mut all: Vec<String> = told.map(sentence).collect();
    if all.len() >= KEPT {
        all.push(format!(
            "there may be more such threads: {KEPT} of them are kept"
        ));
    }
    all
}

/// Whether nobody took the thread's trace because the recording had ended, with the first process: that the thread
/// still ran is said of it anyway.
fn is_after_the_end(recording: &Recording, denial: &Denial) -> bool {
    let end = recording.processes.first().and_then(|first| first.end_ns);
    denial.why == why::UNREAD && end.is_some_and(|end| denial.since_ns >= end)
}

/// Whether the end of a process is not known because a debugger traced it.
pub fn ends_natively(recording: &Recording, pid: u32) -> bool {
    let mut denied = recording.denied.iter();
    denied.any(|denial| denial.why == why::TRACED && denial.pid == pid)
}

fn reason(number: u32) -> String {
    match number {
        why::FULL => "the recording area was full".to_owned(),
        why::TRACED => "a debugger traced it: it ran natively".to_owned(),
        why::UNREAD => "nobody took its trace out of the recording area".to_owned(),
        number => {
            let error = io::Error::from_raw_os_error(number.cast_signed());
            format!("the kernel gave no memory for it: {error}")
        }
    }
}

#[cfg(test)]
mod tests {
    use trace::Process;

    use super::*;

    fn rows(why: u32, times: u64) -> Vec<Denial> {
        vec![Denial {
            since_ns: 3_004_999_999,
            pid: 10,
            tid: 12,
            why,
            times,
        }]
    }

    fn said(why: u32, times: u64, mode: Mode) -> Vec<String> {
        let mut recording = Recording {
            processes: vec![Process {
                start_ns: 1_000_000_000,
                ..Process::default()
            }],
            denied: rows(why, times),
            ..Recording::default()
        };
        recording.meta.mode = mode;
        sentences(&recording)
    }

    #[test]
    fn sentences_say_who_since_when_and_why() {
        assert_eq!(
            said(why::FULL, 1, Mode::Trace),
            [
                "thread 12 of process 10: what it did is missing from 2.004 s on, as the recording \
              area was full (1 time)"
            ]
        );
        assert_eq!(
            said(12, 2, Mode::Counts),
            [
                "thread 12 of process 10: what it did is missing in part from 2.004 s on, as the \
              kernel gave no memory for it: Cannot allocate memory (os error 12) (2 times)"
            ]
        );
        let [unread] = &said(why::UNREAD, 1, Mode::Contexts)[..] else {
            panic!("one thread")
        };
        assert!(
            unread.contains("in [truncated] contexts or missing"),
            "{unread}"
        );
        assert!(unread.contains("nobody took its trace out"), "{unread}");
        let mut late = Recording {
            processes: vec![Process {
                end_ns: Some(3_004_999_999),
                ..Process::default()
            }],
            denied: rows(why::UNREAD, 1),
            ..Recording::default()
        };
        assert_eq!(sentences(&late), [""; 0], "the recording had ended");
        late.denied = rows(why::FULL, 1);
        assert_eq!(sentences(&late).len(), 1, "that is no reason for others");
        assert_eq!(
            said(why::TRACED, 1, Mode::Contexts),
            [
                "thread 12 of process 10: what it did is missing from 2.004 s on, as a debugger \
              traced it: it ran natively"
            ]
        );
        assert_eq!(said(why::TRACED, 1, Mode::Run), [""; 0]);
        let mut alone = Recording::default();
        assert_eq!(sentences(&alone), [""; 0]);
        alone.denied = rows(why::FULL, 1);
        assert!(sentences(&alone)[0].contains(" from 0.000 s on"));
    }
}
