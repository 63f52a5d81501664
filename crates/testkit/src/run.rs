//! Runs a command to its end, and compares two runs exactly.
//!
//! Problem: a translated program may hang, leave children behind, or close
//! its descriptors; the test must still end and say what happened.
//! Approach: the command leads a process group of its own; both outputs are
//! read by threads; after the time limit the whole group is killed.
//! Limits: a child that leaves the group and keeps the pipe open holds the
//! run up until the time limit, which is then reported as such.

use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::directive::Expected;

/// More output than any program of ours writes.
const OUTPUT_LIMIT: u64 = 1 << 20;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With this exit status.
    Exit(i32),
    /// By this signal, with or without a core dump.
    Signal {
        /// The signal's number.
        number: i32,
        /// Whether the kernel says that a core was dumped.
        core: bool,
    },
    /// Not within the time limit; it was killed.
    TimedOut,
}

/// All that a run shows to the outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// How it ended.
    pub ending: Ending,
    /// Everything written to standard output.
    pub stdout: Vec<u8>,
    /// Everything written to standard error.
    pub stderr: Vec<u8>,
}

impl Outcome {
    /// Whether the run ended as the program's head comment says.
    #[must_use]
    pub fn ended_as(&self, expected: Expected) -> bool {
        match (self.ending, expected) {
            (Ending::Exit(status), Expected::Exit(wanted)) => status == wanted,
            (Ending::Signal { number, .. }, Expected::Signal(wanted)) => number == wanted,
            _ => false,
        }
    }

    /// Differences from `native`, in words; `None` if there are none.
    #[must_use]
    pub fn difference(&self, native: &Self) -> Option<String> {
        let mut parts = Vec::new();
        if self.ending != native.ending {
            parts.push(format!(
                "ended {:?}, natively {:?}",
                self.ending, native.ending
            ));
        }
        for (name, ours, theirs) in [
            ("stdout", &self.stdout, &native.stdout),
            ("stderr", &self.stderr, &native.stderr),
        ] {
            if ours != theirs {
                parts.push(first_difference(name, ours, theirs));
            }
        }
        if parts.is_empty() {
            None
        } else {
            Some(parts.join("\n"))
        }
    }
}

/// The first line that differs, from both sides.
fn first_difference(name: &str, ours: &[u8], native: &[u8]) -> String {
    let (ours, native) = (
        String::from_utf8_lossy(ours),
        String::from_utf8_lossy(native),
    );
    let (mut left, mut right) = (ours.lines(), native.lines());
    let mut line = 0;
    loop {
        line += 1;
        match (left.next(), right.next()) {
            (Some(a), Some(b)) if a == b => {}
            (None, None) => return format!("{name} differs in its last line end"),
            (a, b) => {
                let show =
                    |text: Option<&str>| text.map_or("its end".into(), |t| format!("{t:.300?}"));
                return format!("{name}, line {line}: {}, natively {}", show(a), show(b));
            }
        }
    }
}

/// Runs `command` with `stdin` as input, for at most `limit`.
pub fn run(mut command: Command, stdin: &str, limit: Duration) -> std::io::Result<Outcome> {
    command
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn()?;
    if let Some(mut pipe) = child.stdin.take() {
        // A program that does not read its input is not an error.
        let _ = pipe.write_all(stdin.as_bytes());
    }
    let stdout = collect(child.stdout.take());
    let stderr = collect(child.stderr.take());
    let deadline = Instant::now() + limit;
    let status = wait_until(&mut child, deadline)?;
    let left = || deadline.saturating_duration_since(Instant::now());
    let outputs = (stdout.recv_timeout(left()), stderr.recv_timeout(left()));
    let (Some(status), (Ok(out), Ok(err))) = (status, outputs) else {
        let group = Pid::from_raw(child.id().cast_signed());
        // The group may be gone already; there is nothing to do then.
        let _ = killpg(group, Signal::SIGKILL);
        child.wait()?;
        let rest = |receiver: Receiver<_>| receiver.recv_timeout(Duration::from_secs(1));
        return Ok(Outcome {
            ending: Ending::TimedOut,
            stdout: rest(stdout).unwrap_or_default(),
            stderr: rest(stderr).unwrap_or_default(),
        });
    };
    Ok(Outcome {
        ending: ending(status),
        stdout: out,
        stderr: err,
    })
}

fn ending(status: ExitStatus) -> Ending {
    status.signal().map_or_else(
        || Ending::Exit(status.code().unwrap_or(-1)),
        |number| Ending::Signal {
            number,
            core: status.core_dumped(),
        },
    )
}

fn wait_until(child: &mut Child, deadline: Instant) -> std::io::Result<Option<ExitStatus>> {
    let mut pause = Duration::from_micros(200);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(10));
    }
}

fn collect<R: Read + Send + 'static>(pipe: Option<R>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(pipe) = pipe {
            // Bytes that were read before an error are still worth comparing. Beyond
            // the limit the pipe closes, and SIGPIPE ends a run-away program.
            let _ = pipe.take(OUTPUT_LIMIT).read_to_end(&mut bytes);
        }
        // The receiver is gone after a time-out.
        let _ = sender.send(bytes);
    });
    receiver
}
