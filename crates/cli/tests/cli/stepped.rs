//! Programs that are stepped, one instruction at a time, from their entry to their end.

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};

use image::{Image, LinkAddr};
use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use testkit::folder::Folder;
use testkit::process;

/// `AT_ENTRY`, `uapi/linux/auxvec.h`.
const AT_ENTRY: u64 = 9;
/// `int3`.
const TRAP: u8 = 0xcc;
/// Steps of a program; with more the test takes too long.
const MOST_STEPS: u64 = 10_000_000;

/// Knowledge of the files that a process has mapped.
pub struct Mapped<M> {
    pid: Pid,
    /// Learns of a file.
    learn: fn(&Path, &Image) -> M,
    /// With the distance of addresses in memory from those in the file.
    modules: HashMap<PathBuf, (u64, M)>,
    /// Ranges of mapped files.
    maps: Vec<(u64, u64, PathBuf)>,
}

impl<M> Mapped<M> {
    pub fn new(pid: Pid, learn: fn(&Path, &Image) -> M) -> Mapped<M> {
        Mapped {
            pid,
            learn,
            modules: HashMap::new(),
            maps: Vec::new(),
        }
    }

    /// Knowledge of the file with an address, and the address in it.
    pub fn at(&mut self, addr: u64) -> Option<(&M, u64)> {
        let known = |maps: &[(u64, u64, PathBuf)]| {
            let map = maps.iter().find(|map| (map.0..map.1).contains(&addr))?;
            Some(map.2.clone())
        };
        let path = known(&self.maps).or_else(|| {
            self.look();
            known(&self.maps)
        })?;
        let (base, module) = self.modules.get(&path)?;
        Some((module, addr.wrapping_sub(*base)))
    }

    /// Knowledge of all files that there was an address in.
    pub fn all(&self) -> impl Iterator<Item = &M> {
        self.modules.values().map(|(_, module)| module)
    }

    /// Reads what is mapped now.
    fn look(&mut self) {
        let text = fs::read_to_string(format!("/proc/{}/maps", self.pid)).unwrap();
        self.maps.clear();
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (start, end) = words[0].split_once('-').unwrap();
            let number = |digits| u64::from_str_radix(digits, 16).unwrap();
            let path = words.get(5).copied().unwrap_or_default();
            let path = PathBuf::from(path);
            if path.is_absolute() && u64::from_str_radix(words[2], 16) == Ok(0) {
                let start = number(start);
                let is_elf = fs::read(&path).is_ok_and(|bytes| bytes.starts_with(b"\x7fELF"));
                if is_elf && !self.modules.contains_key(&path) {
                    let image = Image::open_whole(&path).unwrap();
                    let first = image.link_addr(image::FileOffset(0));
                    let base = start.wrapping_sub(first.unwrap_or(LinkAddr(0)).0);
                    let module = (self.learn)(&path, &image);
                    self.modules.insert(path.clone(), (base, module));
                }
            }
            self.maps.push((number(start), number(end), path));
        }
    }
}

/// A line of the shell, after what comes first.
pub fn command(first: &str, line: &str, folder: &Folder) -> Command {
    let mut command = Command::new("bash");
    command
        .args(["-c", &format!("{first}exec {line}")])
        .current_dir(folder.path())
        .env("LC_ALL", "C")
        .env("LD_BIND_NOW", "1")
        .stdin(Stdio::null());
    command
}

/// Lets a program that was just executed run to its entry, as the dynamic linker takes most steps of a short run.
fn run_to_entry(pid: Pid) {
    let vector = fs::read(format!("/proc/{pid}/auxv")).unwrap();
    let words: Vec<u64> = vector
        .chunks_exact(8)
        .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
        .collect();
    let mut pairs = words.chunks_exact(2);
    let entry = pairs.find(|pair| pair[0] == AT_ENTRY).unwrap()[1];
    let path = format!("/proc/{pid}/mem");
    let memory = File::options().read(true).write(true).open(path);
    let memory = memory.unwrap();
    let mut first = [0];
    memory.read_exact_at(&mut first, entry).unwrap();
    memory.write_all_at(&[TRAP], entry).unwrap();
    ptrace::cont(pid, None).unwrap();
    let stopped = waitpid(pid, None).unwrap();
    assert_eq!(stopped, WaitStatus::Stopped(pid, Signal::SIGTRAP));
    memory.write_all_at(&first, entry).unwrap();
    let mut registers = ptrace::getregs(pid).unwrap();
    registers.rip = entry;
    ptrace::setregs(pid, registers).unwrap();
}

/// Work before each instruction.
pub trait Step {
    /// Looks at a process that is at its entry.
    fn new(pid: Pid) -> Self;

    fn step(&mut self);

    /// Whether it has seen enough: the program is killed.
    fn is_done(&self) -> bool {
        false
    }
}

/// Runs a line, with a step before each instruction; gives its output, what the steps have left, and how many there were.
#[expect(clippy::zombie_processes, reason = "waitpid sees its end")]
pub fn stepped<S: Step>(line: &str, folder: &Folder) -> (Output, S, u64) {
    let [out, err] = ["out", "err"].map(|name| folder.file(name));
    let mut command = command("kill -STOP $$; ", line, folder);
    command
        .stdout(File::create(&out).unwrap())
        .stderr(File::create(&err).unwrap());
    let child = command.spawn().unwrap();
    let pid = Pid::from_raw(child.id() as i32);
    process::wait_until("the shell stops itself", || process::is_stopped(pid));
    ptrace::attach(pid).unwrap();
    waitpid(pid, None).unwrap();
    kill(pid, Signal::SIGCONT).unwrap();
    // Until the shell executes the program.
    let mut signal = None;
    loop {
        ptrace::cont(pid, signal).unwrap();
        match waitpid(pid, None).unwrap() {
            WaitStatus::Stopped(_, Signal::SIGTRAP) => break,
            WaitStatus::Stopped(_, other) => signal = Some(other),
            other => panic!("{other:?}"),
        }
    }
    run_to_entry(pid);
    let mut run = S::new(pid);
    let (mut signal, mut steps) = (None, 0);
    let status = loop {
        run.step();
        steps += 1;
        assert!(steps < MOST_STEPS, "{line}: the program takes too long");
        match run.is_done() {
            // It may have ended by itself.
            true => drop(kill(pid, Signal::SIGKILL)),
            false => {
                let stepped = ptrace::step(pid, signal.take());
                // Another of its threads may have ended it.
                assert!(
                    matches!(stepped, Ok(()) | Err(Errno::ESRCH)),
                    "{line}: {stepped:?}"
                );
            }
        }
        match waitpid(pid, None) {
            Ok(WaitStatus::Stopped(_, Signal::SIGTRAP)) => {}
            Ok(WaitStatus::Stopped(_, other)) => signal = Some(other),
            Ok(WaitStatus::Exited(_, code)) => break ExitStatus::from_raw(code << 8),
            Ok(WaitStatus::Signaled(_, signal, _)) => break ExitStatus::from_raw(signal as i32),
            // A real-time signal, for which nix has no name to give it back by: the run ends here.
            Err(Errno::EINVAL) => kill(pid, Signal::SIGKILL).unwrap(),
            other => panic!("{other:?}"),
        }
    };
    let output = Output {
        status,
        stdout: fs::read(out).unwrap(),
        stderr: fs::read(err).unwrap(),
    };
    (output, run, steps)
}
