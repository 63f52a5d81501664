//! The beginning of stepping, when the dynamic linker's start is left out.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use image::Images;
use nix::sys::ptrace;
use nix::unistd::Pid;

use super::OracleError;
use super::code::{Code, ProgramPc};

/// `AT_ENTRY`, `uapi/linux/auxvec.h`.
const AT_ENTRY: u64 = 9;
/// `int3`.
const TRAP: u8 = 0xcc;

/// A trap in place of the first byte of an instruction.
pub struct Breakpoint {
    /// The process that will be stepped from here, as a place in the list.
    pub process: usize,
    at: ProgramPc,
    original: u8,
}

/// Puts a trap at the entry of the program that `pid` has just executed.
pub fn at_entry(pid: Pid, process: usize) -> std::io::Result<Option<Breakpoint>> {
    let vector = fs::read(format!("/proc/{pid}/auxv"))?;
    let words: Vec<u64> = vector
        .chunks_exact(8)
        .map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")))
        .collect();
    let Some(entry) = words.chunks_exact(2).find(|pair| pair[0] == AT_ENTRY) else {
        return Ok(None);
    };
    let at = ProgramPc(entry[1]);
    let memory = fs::File::options()
        .read(true)
        .write(true)
        .open(format!("/proc/{pid}/mem"))?;
    let mut original = [0];
    memory.read_exact_at(&mut original, at.0)?;
    memory.write_all_at(&[TRAP], at.0)?;
    Ok(Some(Breakpoint {
        process,
        at,
        original: original[0],
    }))
}

impl Breakpoint {
    /// Whether `pid` has stopped here; if so, the instruction is as it was and
    /// is the next one.
    pub fn reached(&self, pid: Pid, code: &Code) -> Result<bool, OracleError> {
        let mut registers = ptrace::getregs(pid)?;
        if registers.rip != self.at.0 + 1 {
            return Ok(false);
        }
        registers.rip = self.at.0;
        ptrace::setregs(pid, registers)?;
        code.write(self.at, &[self.original])
            .map_err(OracleError::Memory)?;
        Ok(true)
    }
}

/// Whether `pid` runs the file that the first stepped process ran.
pub fn is_first_program(pid: Pid, codes: &[Code]) -> bool {
    codes
        .first()
        .is_some_and(|first| executable(pid) == first.executable)
}

/// Whether `pid` runs that file's interpreter, as a program.
pub fn is_interpreter(pid: Pid, codes: &[Code], images: &Images) -> bool {
    let first = codes.first().and_then(|first| first.executable.as_ref());
    let Some(image) = first.and_then(|path| images.open(path).ok()) else {
        return false;
    };
    let interpreter = image
        .interpreter()
        .and_then(|path| fs::canonicalize(path).ok());
    interpreter.is_some() && interpreter == executable(pid)
}

/// The file that `pid` runs.
pub fn executable(pid: Pid) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/exe")).ok()
}

/// The process of the thread `pid`.
pub fn leader(pid: Pid) -> Option<Pid> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
    line.trim().parse().ok().map(Pid::from_raw)
}
