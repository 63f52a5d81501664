//! Whether a program can be started: everything the kernel would refuse, said
//! before anything is started, as a sentence with the shell's exit codes.
//!
//! A name without a slash is looked up in PATH as execvp(3) does it: the first
//! file that may be executed, else the first that exists. Then the file is
//! looked at as the kernel's binfmt_elf and binfmt_script would (Linux 6.x,
//! fs/binfmt_elf.c and fs/binfmt_script.c): type of file, execute permission,
//! the ELF header, the interpreter, for scripts their `#!` line.
//!
//! Limits: security modules are not looked at; what they refuse, the start itself
//! reports.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Scripts whose interpreter is a script: the kernel follows five.
const SCRIPT_DEPTH: usize = 5;
/// Bytes of a file that the kernel looks at to see what it is (`BINPRM_BUF_SIZE`).
const HEAD: usize = 256;

/// Why a program cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    #[error("no program is named '{}' in any folder of PATH", .0.display())]
    NotInPath(PathBuf),
    #[error("there is no program '{}'", .0.display())]
    NotFound(PathBuf),
    #[error("cannot look at '{}': {reason}", path.display())]
    Unreadable { path: PathBuf, reason: String },
    #[error("'{}' is a folder, not a program", .0.display())]
    Folder(PathBuf),
    #[error("'{}' is {what}, not a program", path.display())]
    Special { path: PathBuf, what: &'static str },
    #[error("'{}' may not be executed: it has no execute permission (chmod +x)", .0.display())]
    NotExecutable(PathBuf),
    #[error(
        "'{}' has file capabilities and would run without them; run it as root",
        .0.display()
    )]
    Capable(PathBuf),
    #[error("'{}' is set-{id}-ID and would run without its privileges; run it as {who}", path.display())]
    Privileged {
        path: PathBuf,
        id: &'static str,
        who: &'static str,
    },
    #[error("'{}' is neither an ELF program nor a script that begins with #!", .0.display())]
    NotAProgram(PathBuf),
    #[error("'{}' is empty", .0.display())]
    Empty(PathBuf),
    #[error("'{}' is a 32-bit program; Everypath runs 64-bit x86-64 programs", .0.display())]
    ThirtyTwoBit(PathBuf),
    #[error("'{}' is a program for another machine ({machine}); Everypath runs x86-64 programs", path.display())]
    ForeignMachine { path: PathBuf, machine: String },
    #[error("'{}' is a corrupt or truncated ELF file: {what}", path.display())]
    Corrupt { path: PathBuf, what: &'static str },
    #[error("'{}' is an ELF file but no program: {what}", path.display())]
    NotExecutableElf { path: PathBuf, what: &'static str },
    #[error("'{}' needs the interpreter '{}', which is not there", path.display(), interpreter.display())]
    NoInterpreter { path: PathBuf, interpreter: PathBuf },
    #[error("'{}' needs an interpreter that cannot be used: {cause}", path.display())]
    BadInterpreter {
        path: PathBuf,
        cause: Box<ProgramError>,
    },
    #[error("'{}' is a script of a script of a script: more than {SCRIPT_DEPTH} deep", .0.display())]
    TooDeep(PathBuf),
}

impl ProgramError {
    /// As shells use it: 127 if there is no such program, 126 if it cannot be executed.
    pub fn exit_code(&self) -> u8 {
        match self {
            ProgramError::NotInPath(_) | ProgramError::NotFound(_) => 127,
            _ => 126,
        }
    }
}

/// Finds `program` as a shell would and checks that it can be started.
pub fn check(program: &OsStr) -> Result<PathBuf, ProgramError> {
    let path = find(program)?;
    check_file(&path, 0)?;
    Ok(path)
}

/// The ELF file that runs when `path` is executed: itself, or the interpreter
/// at the end of its `#!` lines.
pub fn elf_of(path: &Path) -> PathBuf {
    let mut path = path.to_path_buf();
    for _ in 0..=SCRIPT_DEPTH {
        match read_head(&path)
            .ok()
            .and_then(|head| script_interpreter(&head))
        {
            Some(interpreter) => path = interpreter,
            None => break,
        }
    }
    path
}

fn find(program: &OsStr) -> Result<PathBuf, ProgramError> {
    if program.as_bytes().contains(&b'/') {
        return Ok(PathBuf::from(program));
    }
    let folders = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    let candidates = || {
        let joined = std::env::split_paths(&folders).map(|folder| match folder.as_os_str() {
            empty if empty.is_empty() => Path::new(".").join(program),
            _ => folder.join(program),
        });
        joined.filter(|path| !program.is_empty() && path.is_file())
    };
    let executable = |path: &PathBuf| fs::metadata(path).is_ok_and(|meta| may_execute(path, &meta));
    candidates()
        .find(executable)
        .or_else(|| candidates().next())
        .ok_or_else(|| ProgramError::NotInPath(program.into()))
}

fn may_execute(path: &Path, meta: &Metadata) -> bool {
    let any_bit = meta.permissions().mode() & 0o111 != 0;
    any_bit && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

fn check_file(path: &Path, depth: usize) -> Result<(), ProgramError> {
    let meta = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(ProgramError::NotFound(path.into()));
        }
        meta => meta.map_err(|error| unreadable(path, &error))?,
    };
    check_type(path, &meta)?;
    if !may_execute(path, &meta) {
        return Err(ProgramError::NotExecutable(path.into()));
    }
    check_privileges(path, &meta)?;
    let head = read_head(path).map_err(|error| unreadable(path, &error))?;
    match head.as_slice() {
        [] => Err(ProgramError::Empty(path.into())),
        [0x7f, b'E', b'L', b'F', ..] => check_elf(path, &head, meta.len(), depth),
        [b'#', b'!', ..] => check_script(path, &head, depth),
        _ => Err(ProgramError::NotAProgram(path.into())),
    }
}

fn unreadable(path: &Path, error: &io::Error) -> ProgramError {
    ProgramError::Unreadable {
        path: path.into(),
        reason: crate::output::reason(error),
    }
}

fn check_type(path: &Path, meta: &Metadata) -> Result<(), ProgramError> {
    let kind = meta.file_type();
    let what = match () {
        () if kind.is_file() => return Ok(()),
        () if kind.is_dir() => return Err(ProgramError::Folder(path.into())),
        () if kind.is_fifo() => "a pipe",
        () if kind.is_socket() => "a socket",
        () => "a device",
    };
    Err(ProgramError::Special {
        path: path.into(),
        what,
    })
}

/// A traced program does not get the rights of its set-ID bits, nor its file capabilities (capabilities(7)).
fn check_privileges(path: &Path, meta: &Metadata) -> Result<(), ProgramError> {
    let mode = meta.permissions().mode();
    let error = |id, who| ProgramError::Privileged {
        path: path.into(),
        id,
        who,
    };
    if mode & 0o4000 != 0 && meta.uid() != rustix::process::geteuid().as_raw() {
        return Err(error("user", "the user who owns it"));
    }
    let mut value = [0; 64];
    let capabilities = rustix::fs::getxattr(path, "security.capability", &mut value);
    // Root has all of them anyway.
    if capabilities.is_ok() && !rustix::process::geteuid().is_root() {
        return Err(ProgramError::Capable(path.into()));
    }
    // Without the group's execute bit, set-group-ID means mandatory locking.
    if mode & 0o2010 == 0o2010 && meta.gid() != rustix::process::getegid().as_raw() {
        return Err(error("group", "a member of its group (newgrp)"));
    }
    Ok(())
}

fn read_head(path: &Path) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    File::open(path)?.take(HEAD as u64).read_to_end(&mut head)?;
    Ok(head)
}

/// The path on a `#!` line; `None` if the file is no script.
fn script_interpreter(head: &[u8]) -> Option<PathBuf> {
    let line = head
        .strip_prefix(b"#!")?
        .split(|byte| *byte == b'\n')
        .next()?;
    let mut words = line
        .split(|byte| matches!(byte, b' ' | b'\t'))
        .filter(|word| !word.is_empty());
    words
        .next()
        .map(|word| PathBuf::from(OsStr::from_bytes(word)))
}

fn check_script(path: &Path, head: &[u8], depth: usize) -> Result<(), ProgramError> {
    if depth >= SCRIPT_DEPTH {
        return Err(ProgramError::TooDeep(path.into()));
    }
    match script_interpreter(head) {
        None => Err(ProgramError::NotAProgram(path.into())),
        Some(interpreter) => check_interpreter(path, interpreter, depth),
    }
}

fn check_interpreter(path: &Path, interpreter: PathBuf, depth: usize) -> Result<(), ProgramError> {
    match check_file(&interpreter, depth + 1) {
        Ok(()) => Ok(()),
        Err(ProgramError::NotFound(missing)) if missing == interpreter => {
            Err(ProgramError::NoInterpreter {
                path: path.into(),
                interpreter,
            })
        }
        Err(cause @ ProgramError::TooDeep(_)) => Err(cause),
        Err(cause) => Err(ProgramError::BadInterpreter {
            path: path.into(),
            cause: Box::new(cause),
        }),
    }
}

/// ELF header fields, elf(5): offset within the 64-byte header.
mod field {
    pub const CLASS: usize = 4;
    pub const DATA: usize = 5;
    pub const TYPE: usize = 16;
    pub const MACHINE: usize = 18;
    pub const PHOFF: usize = 32;
    pub const PHENTSIZE: usize = 54;
    pub const PHNUM: usize = 56;
    pub const SIZE: usize = 64;
}
const ELFCLASS32: u8 = 1;
const ELFDATA2LSB: u8 = 1;
const ET_EXEC: u16 = 2;
const ET_DYN: u16 = 3;
const EM_X86_64: u16 = 62;
const PHDR_SIZE: usize = 56;
const PT_LOAD: u32 = 1;
const PT_INTERP: u32 = 3;
/// The kernel reads at most 64 KiB of program headers.
const PHDRS_MOST: usize = 65536;

/// Machines people meet, for the message.
const MACHINES: &[(u16, &str)] = &[
    (3, "i386"),
    (8, "MIPS"),
    (20, "PowerPC"),
    (21, "PowerPC64"),
    (22, "S/390"),
    (40, "ARM"),
    (183, "AArch64"),
    (243, "RISC-V"),
    (258, "LoongArch"),
];

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes
        .get(at..at + 2)
        .map_or(0, |b| u16::from_le_bytes([b[0], b[1]]))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

fn check_elf(path: &Path, head: &[u8], size: u64, depth: usize) -> Result<(), ProgramError> {
    check_elf_header(path, head)?;
    let corrupt = |what| ProgramError::Corrupt {
        path: path.into(),
        what,
    };
    let mut interpreter = None;
    let mut loads = 0;
    for header in program_headers(path, head)?.chunks_exact(PHDR_SIZE) {
        let (offset, length) = (u64_at(header, 8), u64_at(header, 32));
        let inside = offset.checked_add(length).is_some_and(|end| end <= size);
        match u32_at(header, 0) {
            PT_LOAD if !inside => return Err(corrupt("a segment lies beyond the end of the file")),
            PT_LOAD => loads += 1,
            PT_INTERP if !inside || !(2..=4096).contains(&length) => {
                return Err(corrupt("the name of its interpreter is not in the file"));
            }
            PT_INTERP => interpreter = Some(read_at(path, offset, length as usize)?),
            _ => {}
        }
    }
    if loads == 0 {
        return Err(corrupt("it has no segment to load"));
    }
    match interpreter {
        Some(bytes) if depth <= SCRIPT_DEPTH => {
            let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
            check_interpreter(path, PathBuf::from(OsStr::from_bytes(name)), SCRIPT_DEPTH)
        }
        _ => Ok(()),
    }
}

fn check_elf_header(path: &Path, head: &[u8]) -> Result<(), ProgramError> {
    let cut = || ProgramError::Corrupt {
        path: path.into(),
        what: "the header is cut off",
    };
    if head.get(field::CLASS).ok_or_else(cut)? == &ELFCLASS32 {
        return Err(ProgramError::ThirtyTwoBit(path.into()));
    }
    if head.len() < field::SIZE {
        return Err(cut());
    }
    let machine = u16_at(head, field::MACHINE);
    if head[field::DATA] != ELFDATA2LSB || machine != EM_X86_64 {
        let named = MACHINES.iter().find(|(number, _)| *number == machine);
        let machine = match named {
            _ if head[field::DATA] != ELFDATA2LSB => "big-endian".to_owned(),
            Some((_, name)) => (*name).to_owned(),
            None => format!("ELF machine {machine}"),
        };
        return Err(ProgramError::ForeignMachine {
            path: path.into(),
            machine,
        });
    }
    if !matches!(u16_at(head, field::TYPE), ET_EXEC | ET_DYN) {
        let what = "it is an object file or a core dump";
        return Err(ProgramError::NotExecutableElf {
            path: path.into(),
            what,
        });
    }
    Ok(())
}

fn program_headers(path: &Path, head: &[u8]) -> Result<Vec<u8>, ProgramError> {
    let corrupt = |what| ProgramError::Corrupt {
        path: path.into(),
        what,
    };
    let count = usize::from(u16_at(head, field::PHNUM));
    let length = count * PHDR_SIZE;
    let entry = usize::from(u16_at(head, field::PHENTSIZE));
    if entry != PHDR_SIZE || count == 0 || length > PHDRS_MOST {
        return Err(corrupt("it has no usable program headers"));
    }
    let headers = read_at(path, u64_at(head, field::PHOFF), length)?;
    if headers.len() < length {
        return Err(corrupt(
            "the program headers lie beyond the end of the file",
        ));
    }
    Ok(headers)
}

fn read_at(path: &Path, offset: u64, length: usize) -> Result<Vec<u8>, ProgramError> {
    use std::os::unix::fs::FileExt;
    let mut bytes = vec![0; length];
    let file = File::open(path).map_err(|error| unreadable(path, &error))?;
    let mut done = 0;
    while done < length {
        let at = offset.saturating_add(done as u64);
        // An offset beyond what the kernel accepts is beyond the end of the file.
        match file.read_at(&mut bytes[done..], at) {
            Ok(0) | Err(_) => break,
            Ok(read) => done += read,
        }
    }
    bytes.truncate(done);
    Ok(bytes)
}
