//! Output of descriptors: through a compressor, and up to a limit.
//!
//! Problem: descriptors are many times larger than the trace that they are made of, and the
//! mTrace tools compress them as they write, with a program of the user's choice.
//!
//! Approach: the compressor is a child process between the writer and the file, which is its
//! standard output. [`Limited`] is a writer that keeps whole descriptors only.
//!
//! Invariants: a compressor that is not installed, or whose suffix the file does not have, is
//! refused before anything is read or run. One that fails gives a sentence with its name and how
//! it ended, and the file is as it was before.
//!
//! Limits: what a compressor itself has to say goes to standard error.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Seek, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use anyhow::{Result, bail};
use report::mcf::Form;

use crate::commands::finish_stdout;
use crate::exit_status::Ending;
use crate::flags::{Compressor, Packing};
use crate::output::{Kind, Output};

impl Compressor {
    const ALL: [Compressor; 6] = [
        // The first of a suffix is what the suffix alone asks for.
        Compressor::Gzip,
        Compressor::Bzip2,
        Compressor::Zstd,
        Compressor::Xz,
        Compressor::Pigz,
        Compressor::Pbzip2,
    ];

    /// The program, and the suffix of its files.
    pub fn names(self) -> (&'static str, &'static str) {
        match self {
            Compressor::Gzip => ("gzip", "gz"),
            Compressor::Pigz => ("pigz", "gz"),
            Compressor::Bzip2 => ("bzip2", "bz2"),
            Compressor::Pbzip2 => ("pbzip2", "bz2"),
            Compressor::Zstd => ("zstd", "zst"),
            Compressor::Xz => ("xz", "xz"),
        }
    }

    pub fn of_suffix(path: &Path) -> Option<Compressor> {
        let suffix = path.extension()?.to_str()?;
        let mut all = Compressor::ALL.into_iter();
        all.find(|compressor| compressor.names().1 == suffix)
    }

    /// The compressor that was asked for, by name or by the suffix of the file.
    pub fn wanted(asked: Option<Compressor>, path: Option<&Path>) -> Result<Option<Compressor>> {
        let by_suffix = path.and_then(Compressor::of_suffix);
        if let (Some(asked), Some(meant), Some(path)) = (asked, by_suffix, path) {
            let ((name, suffix), (_, other)) = (asked.names(), meant.names());
            if suffix != other {
                let shown = path.display();
                bail!("'{shown}' has the suffix .{other}, and files of {name} have .{suffix}");
            }
        }
        let Some(compressor) = asked.or(by_suffix) else {
            return Ok(None);
        };
        let name = compressor.names().0;
        if !is_installed(name) {
            bail!(
                "there is no program '{name}' to compress the descriptors with; install it, or \
                 choose another one with --compress"
            );
        }
        Ok(Some(compressor))
    }

    /// Has `write` write into the compressor, which writes to `to`.
    pub fn pipe<T>(
        self,
        to: Stdio,
        write: impl FnOnce(&mut dyn Write) -> io::Result<T>,
    ) -> io::Result<T> {
        let name = self.names().0;
        let mut command = Command::new(name);
        command.arg("-c").stdin(Stdio::piped()).stdout(to);
        let spawned = command.spawn();
        let mut child =
            spawned.map_err(|error| io::Error::other(format!("cannot start {name}: {error}")))?;
        let input = child.stdin.take().expect("it is piped");
        let mut input = BufWriter::with_capacity(1 << 18, input);
        let written = write(&mut input).and_then(|made| input.flush().map(|()| made));
        // Without the rest of what was buffered, which the compressor may not take any more.
        drop(input.into_parts());
        let status = child.wait()?;
        match (status.success(), written) {
            (true, written) => written,
            // The compressor ended first, so a failure to write is its fault.
            (false, Err(error)) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
            (false, _) => Err(io::Error::other(format!("{name} {}", ended(status)))),
        }
    }
}

/// How a program ended, behind its name.
fn ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with status {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "did not end".to_owned(),
    }
}

/// Whether a program of that name is in `PATH`.
fn is_installed(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_program = |folder: PathBuf| {
        let found = folder.join(name).metadata();
        found.is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(&path).any(is_program)
}

/// Output of descriptors.
pub struct Sink {
    /// `None`: to standard output, or nowhere.
    pub output: Option<Output>,
    pub compressor: Option<Compressor>,
    pub limit: Arc<Limit>,
}

impl Sink {
    /// The place that was asked for, if it can be had.
    pub fn wanted(flags: &Packing, path: Option<&Path>) -> Result<Sink> {
        Ok(Sink {
            compressor: Compressor::wanted(flags.compress, path)?,
            output: Output::wanted(path)?,
            limit: Arc::new(Limit::new(flags.descriptor_limit)),
        })
    }

    /// Refuses bytes for a terminal.
    pub fn check_terminal(&self, form: Form) -> Result<()> {
        let is_binary = form == Form::Binary || self.compressor.is_some();
        if is_binary && self.output.is_none() && io::stdout().is_terminal() {
            let kind = match self.compressor {
                Some(_) => "compressed",
                None => "binary",
            };
            bail!("{kind} descriptors are no text for a terminal; send them to a file: -o FILE");
        }
        Ok(())
    }

    /// Writes descriptors to the file, or to standard output.
    pub fn send(
        mut self,
        form: Form,
        write: impl Fn(&mut dyn Write) -> io::Result<()>,
    ) -> Result<Ending> {
        if self.output.is_some() {
            return self.replace(form, write).map(|()| Ending::Exit(0));
        }
        let limit = Arc::clone(&self.limit);
        let write = |out: &mut dyn Write| limit.apply(form, out, &write);
        match self.compressor.take() {
            None => crate::branches::send(None, write),
            Some(compressor) => finish_stdout(compressor.pipe(Stdio::inherit(), write)),
        }
    }

    /// Writes descriptors to the file, if there is one.
    pub fn replace(
        self,
        form: Form,
        write: impl Fn(&mut dyn Write) -> io::Result<()>,
    ) -> Result<()> {
        let Some(output) = self.output else {
            return Ok(());
        };
        let limit = self.limit;
        let write = |out: &mut dyn Write| limit.apply(form, out, &write);
        replace(output, self.compressor, write)
    }
}

/// Writes a file anew, through the compressor if there is one.
fn replace(
    output: Output,
    compressor: Option<Compressor>,
    write: impl Fn(&mut dyn Write) -> io::Result<()>,
) -> Result<()> {
    let Some(compressor) = compressor else {
        return output.replace(write);
    };
    let file = output.file()?;
    output.replace(|_: &mut dyn Write| {
        compressor.pipe(Stdio::from(file.try_clone()?), |out| write(out))
    })
}

/// Compresses `raw` into `output` from its beginning. If that fails, what `raw` holds is kept
/// beside, as it is, and the sentence says where.
pub fn compress(raw: &File, output: Output, compressor: Compressor) -> Result<(), String> {
    let path = output.path().to_owned();
    let copy_to = |mut out: &mut dyn Write| -> io::Result<()> {
        let mut raw = raw;
        raw.rewind()?;
        io::copy(&mut raw, &mut out).map(drop)
    };
    let Err(error) = replace(output, Some(compressor), copy_to) else {
        return Ok(());
    };
    let mut name = path.into_os_string();
    name.push(".uncompressed");
    let place = PathBuf::from(name);
    let kept = Output::prepare(&place, Kind::Report).and_then(|output| output.replace(copy_to));
    Err(match kept {
        Ok(()) => format!("{error}; the descriptors are in '{}'", place.display()),
        Err(second) => format!("{error}; {second}; the descriptors are lost"),
    })
}

/// Bytes of descriptors that may still be written, by one writer after the other.
#[derive(Debug)]
pub struct Limit {
    /// `None`: no end.
    bytes: Option<u64>,
    left: AtomicU64,
    is_over: AtomicBool,
}

impl Limit {
    pub fn new(bytes: Option<u64>) -> Limit {
        Limit {
            bytes,
            left: AtomicU64::new(bytes.unwrap_or(u64::MAX)),
            is_over: AtomicBool::new(false),
        }
    }

    /// Says that descriptors were left out, if they were.
    pub fn say(&self) {
        if let (Some(bytes), true) = (self.bytes, self.is_over.load(Relaxed)) {
            let kept = bytes - self.left.load(Relaxed);
            say!(
                "everypath: the descriptors end after {kept} bytes, at --descriptor-limit; what \
                 was executed behind them has none"
            );
        }
    }

    /// A writer to `out` that ends at the limit.
    pub fn over(
        self: &Arc<Limit>,
        form: Form,
        out: impl Write + Send + 'static,
    ) -> Box<dyn Write + Send> {
        match self.bytes {
            None => Box::new(out),
            Some(_) => Box::new(Limited::new(out, form, self)),
        }
    }

    /// Has `write` write to `out`, up to the limit.
    fn apply<T>(
        self: &Arc<Limit>,
        form: Form,
        out: &mut dyn Write,
        write: impl FnOnce(&mut dyn Write) -> io::Result<T>,
    ) -> io::Result<T> {
        match self.bytes {
            None => write(out),
            Some(_) => write(&mut Limited::new(out, form, self)),
        }
    }
}

/// A writer of descriptors up to a limit, and nothing of the first that goes beyond it or of those
/// behind. Binary descriptors come one in each write, ASCII ones as lines.
pub struct Limited<W> {
    out: W,
    form: Form,
    limit: Arc<Limit>,
    one: Vec<u8>,
}

impl<W: Write> Limited<W> {
    pub fn new(out: W, form: Form, limit: &Arc<Limit>) -> Limited<W> {
        Limited {
            out,
            form,
            limit: Arc::clone(limit),
            one: Vec::new(),
        }
    }
}

impl<W: Write> Write for Limited<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.limit.is_over.load(Relaxed) {
            return Ok(bytes.len());
        }
        self.one.extend(bytes);
        if self.form == Form::Ascii && !bytes.ends_with(b"\n") {
            return Ok(bytes.len());
        }
        let left = self.limit.left.load(Relaxed);
        match left.checked_sub(self.one.len() as u64) {
            Some(left) => {
                self.limit.left.store(left, Relaxed);
                self.out.write_all(&self.one)?;
            }
            None => self.limit.is_over.store(true, Relaxed),
        }
        self.one.clear();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_descriptors_are_kept() {
        for (form, one) in [(Form::Binary, &[1u8; 18][..]), (Form::Ascii, b"0, 2\n")] {
            let len = one.len() as u64;
            for (bytes, kept) in [(len - 1, 0), (len, 1), (2 * len - 1, 1), (2 * len, 2)] {
                let mut out = Vec::new();
                let limit = Arc::new(Limit::new(Some(bytes)));
                let mut limited = Limited::new(&mut out, form, &limit);
                for _ in 0..4 {
                    match form {
                        Form::Binary => limited.write_all(one).unwrap(),
                        // As `write!` writes them.
                        Form::Ascii => one.iter().for_each(|byte| {
                            limited.write_all(&[*byte]).unwrap();
                        }),
                    }
                }
                assert_eq!(out, one.repeat(kept), "{form:?} {bytes}");
                assert!(limit.is_over.load(Relaxed));
            }
        }
    }
}
