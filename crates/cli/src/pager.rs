//! A pager for reports that go to a terminal, as git has one.
//!
//! `$EVERYPATH_PAGER`, else `$PAGER`, else `less`; an empty one and `cat` are none. `less` gets
//! `LESS=FRX` unless that is set: it ends by itself if the report fits the screen.

use std::io::{self, IsTerminal, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGQUIT};

/// Standard output, or the pager in front of it.
pub enum Out {
    Plain(io::Stdout),
    Paged(Pager),
}

/// A running pager. It is waited for when it is dropped.
pub struct Pager {
    child: Child,
    /// `None` once everything was written.
    input: Option<ChildStdin>,
}

/// Starts a pager if standard output is a terminal and one is wanted.
pub fn stdout(is_wanted: bool) -> Out {
    let stdout = io::stdout();
    let pager = match is_wanted && stdout.is_terminal() {
        true => start(),
        false => None,
    };
    pager.map_or(Out::Plain(stdout), Out::Paged)
}

fn start() -> Option<Pager> {
    let set = |name: &str| std::env::var(name).ok();
    let command = set("EVERYPATH_PAGER").or_else(|| set("PAGER"));
    let command = command.unwrap_or_else(|| "less".to_owned());
    if ["", "cat"].contains(&command.trim()) {
        return None;
    }
    let mut shell = Command::new("sh");
    shell.args(["-c", &command]).stdin(Stdio::piped());
    for (name, value) in [("LESS", "FRX"), ("LV", "-c")] {
        if set(name).is_none() {
            shell.env(name, value);
        }
    }
    // Without the program the shell would print its own message, and nothing else came.
    let program = command.split_whitespace().next()?;
    let known = Command::new("sh")
        .args(["-c", "command -v \"$1\" > /dev/null", "sh", program])
        .status();
    if !known.is_ok_and(|status| status.success()) {
        return None;
    }
    let mut child = shell.spawn().ok()?;
    // The pager decides what the keys of the terminal mean while it runs.
    for signal in [SIGINT, SIGQUIT] {
        let _ = signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)));
    }
    let input = child.stdin.take();
    Some(Pager { child, input })
}

impl Drop for Pager {
    fn drop(&mut self) {
        self.input = None;
        // A pager that cannot be waited for has ended.
        let _ = self.child.wait();
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Out::Plain(stdout) => stdout.write(bytes),
            Out::Paged(Pager {
                input: Some(input), ..
            }) => input.write(bytes),
            Out::Paged(_) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Out::Plain(stdout) => stdout.flush(),
            Out::Paged(Pager {
                input: Some(input), ..
            }) => input.flush(),
            Out::Paged(_) => Ok(()),
        }
    }
}
