//! Every memory access of a program's own code (linked with `-no-pie`), from `main` on, in the form of
//! `tests/tools/compare_accesses.py`: `cargo run -p testkit --example accesses -- OUT PROGRAM ARG…`.

use std::io::Write;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use image::Images;
use nix::sys::ptrace;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use testkit::oracle::accesses;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let usage = "usage: accesses OUT PROGRAM ARG…";
    let (out, program) = (words.next().ok_or(usage)?, words.next().ok_or(usage)?);
    let path = std::fs::canonicalize(&program)?;
    let pid = start(&path, words)?;
    run_to(pid, main_of(&path)?)?;
    let mut back = [0; 8];
    let memory = std::fs::File::open(format!("/proc/{pid}/mem"))?;
    memory.read_exact_at(&mut back, ptrace::getregs(pid)?.rsp)?;
    let stepped = accesses::step(pid, &mapped(pid, &path)?, u64::from_le_bytes(back))?;
    // The rest of the program is of no interest.
    let _ = kill(pid, Signal::SIGKILL);
    write(&stepped, &out)
}

/// Starts the program and stops it when it is executed.
fn start(path: &Path, words: impl Iterator<Item = String>) -> Result<Pid> {
    let child = Command::new("setarch")
        .args(["-R", "sh", "-c", "kill -STOP $$; exec \"$0\" \"$@\""])
        .arg(path)
        .args(words)
        .spawn()?;
    let pid = Pid::from_raw(child.id().cast_signed());
    waitpid(pid, Some(WaitPidFlag::WUNTRACED))?;
    let options = ptrace::Options::PTRACE_O_TRACEEXEC | ptrace::Options::PTRACE_O_EXITKILL;
    ptrace::seize(pid, options)?;
    kill(pid, Signal::SIGCONT)?;
    let exec = ptrace::Event::PTRACE_EVENT_EXEC as i32;
    while !matches!(waitpid(pid, None)?, WaitStatus::PtraceEvent(_, _, event) if event == exec) {
        ptrace::cont(pid, None)?;
    }
    Ok(pid)
}

/// Address of `main`.
fn main_of(path: &Path) -> Result<u64> {
    let image = Images::new().open(path)?;
    let mut functions = image.functions().iter();
    let main = functions.find(|f| f.name.is_some_and(|id| image.name(id) == "main"));
    let address = main.and_then(|main| image.link_addr(main.start));
    Ok(address.ok_or("the program has no symbol main")?.0)
}

fn run_to(pid: Pid, address: u64) -> Result<()> {
    while ptrace::getregs(pid)?.rip != address {
        ptrace::step(pid, None)?;
        waitpid(pid, None)?;
    }
    Ok(())
}

/// Addresses that the program's file is mapped at.
fn mapped(pid: Pid, path: &Path) -> Result<Range<u64>> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let name = path.to_string_lossy();
    let own = maps.lines().filter(|line| line.ends_with(&*name));
    let bounds = own.flat_map(|line| line.split([' ', '-']).take(2));
    let bounds: Vec<u64> = bounds
        .filter_map(|word| u64::from_str_radix(word, 16).ok())
        .collect();
    match (bounds.first(), bounds.last()) {
        (Some(&first), Some(&last)) => Ok(first..last),
        _ => Err("the program is not mapped".into()),
    }
}

fn write(stepped: &accesses::Stepped, out: &str) -> Result<()> {
    let mut out = std::io::BufWriter::new(std::fs::File::create(out)?);
    writeln!(out, "stack {:x} hidden {}", stepped.stack, stepped.hidden)?;
    for one in &stepped.accesses {
        let access = one.access;
        let kind = match (access.kind.reads(), access.kind.writes()) {
            (true, true) => "RW",
            (true, false) => "R",
            _ => "W",
        };
        let digits = one.value.iter().rev().map(|byte| format!("{byte:02x}"));
        let value: String = digits.collect();
        let (pc, address, size) = (one.pc, access.address, access.size);
        writeln!(out, "{pc:x} {address:x} {size} {kind} {value}")?;
    }
    Ok(out.flush()?)
}
