//! Beginning and ending a trace while the program runs.
//!
//! A server at a socket takes requests, one a line, from `everypath ctl` and from the
//! thread that gets signals. What is wanted is a word of the pool; so that threads hear of
//! it, the file is made empty that emitted code polls in the other state (`agent::polls`).
//!
//! The socket is in the abstract namespace: nothing is left of it, whatever happens. Only
//! its user, and root, are answered.
//!
//! Limits: abstract sockets are those of a network namespace.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::fs::MemfdFlags;
use wire::view::Pool;
use wire::{PAGE, POLLS, poll};

use crate::LaunchError;
use crate::pool::Raised;

/// How a trace begins and ends while the program runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Control {
    /// Name of the socket that takes requests.
    pub address: String,
    /// Nothing is traced first.
    pub paused: bool,
    pub start_signal: Option<i32>,
    pub stop_signal: Option<i32>,
}

impl Control {
    /// Request that a signal sent to Everypath stands for.
    pub(crate) fn wish(&self, signal: i32) -> Option<Wish> {
        let is = |wanted: Option<i32>| wanted == Some(signal);
        match (is(self.start_signal), is(self.stop_signal)) {
            (true, true) => Some(Wish::Toggle),
            (true, false) => Some(Wish::Start),
            (false, true) => Some(Wish::Stop),
            (false, false) => None,
        }
    }
}

/// A request to the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    Start,
    Stop,
    Toggle,
    Status,
}

impl Wish {
    const NAMES: [(Wish, &str); 4] = [
        (Wish::Start, "start"),
        (Wish::Stop, "stop"),
        (Wish::Toggle, "toggle"),
        (Wish::Status, "status"),
    ];

    fn name(self) -> &'static str {
        let is_it = |(wish, _): &&(Wish, &str)| *wish == self;
        Wish::NAMES.iter().find(is_it).map_or("", |(_, name)| name)
    }

    fn read(name: &str) -> Option<Wish> {
        let is_it = |(_, known): &&(Wish, &str)| *known == name;
        Wish::NAMES.iter().find(is_it).map(|(wish, _)| *wish)
    }
}

/// How it stands after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Tracing,
    Paused,
}

impl Standing {
    const fn name(self) -> &'static str {
        match self {
            Standing::Tracing => "tracing",
            Standing::Paused => "paused",
        }
    }
}

/// How long who asks may take, and who answers.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest request and answer.
const LINE: u64 = 64;

/// Asks the run whose socket has that name; `None`: there is none, or it ends just now.
pub fn ask(address: &str, wish: Wish) -> io::Result<Option<Standing>> {
    use io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset};
    match converse(address, wish) {
        Ok(standing) => Ok(standing),
        Err(error) => match error.kind() {
            BrokenPipe | ConnectionRefused | ConnectionReset => Ok(None),
            _ => Err(error),
        },
    }
}

fn converse(address: &str, wish: Wish) -> io::Result<Option<Standing>> {
    let address = SocketAddr::from_abstract_name(address)?;
    let mut stream = UnixStream::connect_addr(&address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    writeln!(stream, "{}", wish.name())?;
    let mut answer = String::new();
    stream.take(LINE).read_to_string(&mut answer)?;
    match answer.trim_end() {
        "tracing" => Ok(Some(Standing::Tracing)),
        "paused" => Ok(Some(Standing::Paused)),
        "" => Ok(None),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// The running trace's side.
pub(crate) struct Switch {
    listener: UnixListener,
    address: SocketAddr,
    /// In the order of [`wire::poll`].
    files: [OwnedFd; 2],
    /// Which state the files show.
    paused: Mutex<bool>,
}

impl Switch {
    /// Configures the pool, too.
    pub fn new(control: &Control, pool: &Pool) -> Result<Switch, LaunchError> {
        let taken = |source| LaunchError::Control { source };
        let address = SocketAddr::from_abstract_name(&control.address).map_err(taken)?;
        let listener = UnixListener::bind_addr(&address).map_err(taken)?;
        let _raised = Raised::new();
        let file = || {
            rustix::fs::memfd_create("everypath-polls", MemfdFlags::CLOEXEC).map_err(|source| {
                LaunchError::Memory {
                    what: "the control of the trace",
                    source,
                }
            })
        };
        let switch = Switch {
            listener,
            address,
            files: [file()?, file()?],
            paused: Mutex::new(!control.paused),
        };
        let header = pool.header();
        for (word, file) in header.polls.iter().zip(&switch.files) {
            word.store(file.as_raw_fd().cast_unsigned(), Relaxed);
        }
        let number = |signal: Option<i32>| signal.unwrap_or(0).cast_unsigned();
        let config = &header.config;
        let (start, stop) = (number(control.start_signal), number(control.stop_signal));
        config.start_signal.store(start, Relaxed);
        config.stop_signal.store(stop, Relaxed);
        header.paused.store(control.paused.into(), Release);
        switch.show(pool);
        Ok(switch)
    }

    /// Has threads hear of what is wanted now, whoever wanted it.
    pub fn show(&self, pool: &Pool) {
        let mut shown = self.paused.lock().unwrap_or_else(PoisonError::into_inner);
        let paused = pool.header().paused.load(Acquire) != 0;
        if *shown == paused {
            return;
        }
        *shown = paused;
        let (polled, other) = match paused {
            true => (poll::OFF, poll::ON),
            false => (poll::ON, poll::OFF),
        };
        // A failure makes threads slower, or later, and does no other harm.
        let _ = rustix::fs::ftruncate(&self.files[polled], POLLS * PAGE);
        let _ = rustix::fs::ftruncate(&self.files[other], 0);
    }

    fn fulfil(&self, wish: Wish, pool: &Pool) -> Standing {
        let word = &pool.header().paused;
        match wish {
            Wish::Start => word.store(0, Release),
            Wish::Stop => word.store(1, Release),
            Wish::Toggle => {
                word.fetch_xor(1, Release);
            }
            Wish::Status => {}
        }
        self.show(pool);
        match word.load(Acquire) {
            0 => Standing::Tracing,
            _ => Standing::Paused,
        }
    }

    /// Serves until `done`.
    pub fn serve(&self, pool: &Pool, done: &AtomicBool) {
        while let Ok((stream, _)) = self.listener.accept() {
            if done.load(Acquire) {
                return;
            }
            // A malformed request gets no answer.
            let _ = self.answer(stream, pool);
        }
    }

    fn answer(&self, mut stream: UnixStream, pool: &Pool) -> io::Result<()> {
        let peer = rustix::net::sockopt::socket_peercred(&stream)?;
        if !peer.uid.is_root() && peer.uid != rustix::process::getuid() {
            return Ok(());
        }
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut line = String::new();
        BufReader::new((&stream).take(LINE)).read_line(&mut line)?;
        match Wish::read(line.trim_end()) {
            Some(wish) => writeln!(stream, "{}", self.fulfil(wish, pool).name()),
            None => Ok(()),
        }
    }

    /// Wakes the server.
    pub fn ring(&self) {
        let _ = UnixStream::connect_addr(&self.address);
    }
}
