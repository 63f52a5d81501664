//! A terminal with an interactive shell, for tests of job control.
//!
//! Its prompt is the last status in angle brackets, nothing that is typed is echoed, and lines
//! end as programs write them.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use nix::fcntl::OFlag;
use nix::pty::{grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::sys::termios::{LocalFlags, OutputFlags, SetArg, tcgetattr, tcsetattr};
use nix::unistd::{Pid, tcgetpgrp};

use crate::process::until;

/// The user's side.
#[derive(Debug)]
pub struct Terminal {
    master: Option<File>,
    /// Kept open: what a process says at last is read.
    slave: File,
    leader: Child,
    said: Arc<Mutex<String>>,
    /// Length of the part that was given already.
    seen: usize,
    reader: Option<JoinHandle<()>>,
}

/// setsid(1), to which arguments are to be added. No signal is ignored, as those of the keyboard
/// are in the background of a script.
#[must_use]
pub fn session() -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal", "setsid"]);
    command
}

/// The reader ends when somebody says this.
const END: &str = "\u{1}the end\u{1}";

impl Terminal {
    /// With bash, which has these variables.
    #[must_use]
    pub fn new(folder: &Path, variables: &[(&str, &str)]) -> Terminal {
        let mut bash = session();
        bash.args([
            "--ctty",
            "bash",
            "--norc",
            "--noprofile",
            "--noediting",
            "-i",
        ]);
        bash.current_dir(folder)
            .env("PS1", "<$?>")
            .env("LC_ALL", "C");
        bash.env("HISTFILE", "").env_remove("PROMPT_COMMAND");
        bash.envs(variables.iter().copied());
        let mut terminal = Terminal::of(bash);
        terminal.until("<0>");
        terminal
    }

    /// With the command as it is, made by [`session`].
    #[must_use]
    pub fn of(mut command: Command) -> Terminal {
        let (master, slave) = pair().expect("there are terminals");
        let mut how = tcgetattr(&slave).expect("it is a terminal");
        how.local_flags
            .remove(LocalFlags::ECHO | LocalFlags::ECHOCTL);
        how.output_flags.remove(OutputFlags::OPOST);
        tcsetattr(&slave, SetArg::TCSANOW, &how).expect("it is a terminal");
        let side = || Stdio::from(slave.try_clone().expect("descriptors are left"));
        command.stdin(side()).stdout(side()).stderr(side());
        let leader = command
            .spawn()
            .expect("env is installed (Debian: coreutils)");
        let said = Arc::new(Mutex::new(String::new()));
        let reader = master.try_clone().expect("descriptors are left");
        let all = Arc::clone(&said);
        let reader = std::thread::spawn(move || collect(reader, &all));
        Terminal {
            master: Some(master),
            slave,
            leader,
            said,
            seen: 0,
            reader: Some(reader),
        }
    }

    /// The process that was started.
    #[must_use]
    pub fn leader(&self) -> Pid {
        Pid::from_raw(self.leader.id().cast_signed())
    }

    pub fn enter(&mut self, line: &str) {
        self.send(&[line.as_bytes(), b"\n"].concat());
    }

    /// A letter with the control key.
    pub fn control(&mut self, letter: char) {
        self.send(&[letter as u8 & 0x1f]);
    }

    fn master(&self) -> &File {
        self.master.as_ref().expect("nobody has hung up")
    }

    fn send(&mut self, bytes: &[u8]) {
        self.master().write_all(bytes).expect("somebody reads it");
    }

    /// Waits for the text, and gives what was said up to its end and was not given before.
    #[track_caller]
    pub fn until(&mut self, text: &str) -> String {
        self.until_both(text, text)
    }

    /// As [`Terminal::until`] for two texts, in any order.
    #[track_caller]
    pub fn until_both(&mut self, one: &str, other: &str) -> String {
        let all = Arc::clone(&self.said);
        let all = || all.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let seen = self.seen;
        let end = |text: &str| Some(all()[seen..].find(text)? + text.len());
        let ends = || Some(end(one)?.max(end(other)?));
        until(|| ends().is_some() || self.is_over());
        let end =
            ends().unwrap_or_else(|| panic!("no {one:?} and {other:?} behind {seen}: {:?}", all()));
        self.seen = seen + end;
        all()[seen..self.seen].to_owned()
    }

    /// Enters a line, and gives what was said up to the next prompt.
    #[track_caller]
    pub fn run(&mut self, line: &str) -> String {
        self.enter(line);
        self.prompt()
    }

    /// Text up to and with the next prompt.
    #[track_caller]
    pub fn prompt(&mut self) -> String {
        let before = self.until("<");
        before + &self.until(">")
    }

    /// Leader of the foreground process group.
    #[must_use]
    pub fn foreground(&self) -> Pid {
        tcgetpgrp(self.master()).expect("somebody has the terminal")
    }

    fn is_over(&self) -> bool {
        crate::process::has_ended(self.leader())
    }

    /// Takes the terminal away.
    pub fn hang_up(&mut self) {
        let Some(reader) = self.reader.take() else {
            return;
        };
        let told = self.slave.write_all(END.as_bytes());
        told.expect("somebody reads it");
        reader.join().expect("it does not panic");
        self.master = None;
    }

    /// Waits for the end of the process that was started.
    pub fn wait(&mut self) -> ExitStatus {
        self.leader.wait().expect("it is a child")
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.hang_up();
        let _ = self.leader.kill();
        let _ = self.leader.wait();
    }
}

/// Both sides, which no other process that is started meanwhile gets.
fn pair() -> std::io::Result<(File, File)> {
    let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let master = posix_openpt(flags)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let mut options = File::options();
    options.read(true).write(true);
    options.custom_flags(OFlag::O_NOCTTY.bits());
    let slave = options.open(ptsname_r(&master)?)?;
    Ok((File::from(master.as_fd().try_clone_to_owned()?), slave))
}

fn collect(mut reader: File, said: &Mutex<String>) {
    let mut bytes = [0; 1024];
    while let Ok(read @ 1..) = reader.read(&mut bytes) {
        let text = String::from_utf8_lossy(&bytes[..read]);
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        said.push_str(&text);
        // The prompt may come behind it.
        if said.contains(END) {
            return;
        }
    }
}
