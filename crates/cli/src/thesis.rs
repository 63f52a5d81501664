//! `--thesis`: descriptors in files as the tools of the mTrace thesis name them, with statistics
//! beside, and what the tools say on their consoles (figures 4.3, 4.14, 4.23 and 4.38).
//!
//! ```text
//! mcfTrace.out2013_8_31_15.4.1.txt           descriptors; .bin, and behind it .gz, .bz2, ...
//! mcfTrace.out2013_8_31_15.4.1.Statistics    in the same folder
//! ```
//!
//! Invariants: a file that was not named by the user is not replaced; what cannot be written is
//! refused before anything is read or run.
//!
//! Limits: no figure shows the console of mcfTrace; its lines are those of the other tools.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use jiff::ZonedDateTime;
use report::mcf::{Form, Numbered};

use crate::branches::send;
use crate::descriptors::Sink;
use crate::exit_status::Ending;
use crate::flags::{Compressor, Packing};
use crate::output::{Kind, Output, reason};

/// A tool of the thesis.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    McfTrace,
    McfTRaptor,
    MlsTrace,
    MlvCFiat,
}

impl Tool {
    fn name(self) -> &'static str {
        match self {
            Tool::McfTrace => "mcfTrace",
            Tool::McfTRaptor => "mcfTRaptor",
            Tool::MlsTrace => "mlsTrace",
            Tool::MlvCFiat => "mlvCFiat",
        }
    }

    /// The fields of its descriptors, for readers.
    fn fields(self) -> &'static str {
        match self {
            Tool::McfTrace => {
                "mcfTrace: mcfTrace descriptors -\n\
                 \tThread ID, Instruction Address, Target Address, Type & Outcome\n"
            }
            Tool::McfTRaptor => {
                "mcfTRaptor: mcfTRaptor descriptors -\n\
                 \tMispredicted outcomes for direct conditional branches: Thread ID, bCnt\n\
                 \tMispredicted targets for indirect unconditional branches: Thread ID, bCnt, T, \
                 Target Address\n\
                 \tExceptions: Thread ID, bCnt, iCnt, Target Address\n"
            }
            Tool::MlvCFiat => "mlvCFiat descriptor: ThreadID, fahCnt, Load Value\n",
            Tool::MlsTrace => {
                "mlsTrace descriptor: ThreadID, [Load/Store,] Instruction Address, \
                 Operand Address, Operand Size, Value\n"
            }
        }
    }
}

/// The files that a tool makes.
pub struct Files {
    tool: Tool,
    form: Form,
    /// The file of descriptors, as it was named.
    pub descriptors: PathBuf,
    pub statistics: Output,
    /// Nobody else takes the name.
    _reserved: Option<Reserved>,
}

/// An empty file with a name that nobody had. Gone at the end if nothing was written there.
struct Reserved(PathBuf);

impl Drop for Reserved {
    fn drop(&mut self) {
        if fs::metadata(&self.0).is_ok_and(|file| file.len() == 0) {
            // An empty file does no harm where it cannot be removed.
            let _ = fs::remove_file(&self.0);
        }
    }
}

impl Files {
    /// Files of that name, or else of one that says when this is.
    fn wanted(
        tool: Tool,
        form: Form,
        compressor: Option<Compressor>,
        named: Option<&Path>,
    ) -> Result<Files> {
        let (descriptors, statistics, reserved) = match named {
            Some(named) => (named.to_owned(), beside(named), None),
            None => {
                let (descriptors, reserved) = unused(tool.name(), form, compressor)?;
                (descriptors, reserved.0.clone(), Some(reserved))
            }
        };
        Ok(Files {
            tool,
            form,
            descriptors,
            statistics: Output::prepare(&statistics, Kind::Report)?,
            _reserved: reserved,
        })
    }

    /// Writes the statistics, and to standard output what the tool says on its console.
    pub fn finish(
        self,
        threads: &[Numbered<'_>],
        statistics: impl Fn(&mut dyn Write) -> io::Result<()>,
    ) -> Result<Ending> {
        let mut said = Vec::new();
        self.say(threads, &mut said)?;
        self.statistics.replace(statistics)?;
        send(None, |out| out.write_all(&said))
    }

    /// As [`Files::finish`], behind a run, whose standard output is the program's: says it on
    /// standard error.
    pub fn finish_run(
        self,
        threads: &[Numbered<'_>],
        is_quiet: bool,
        statistics: impl Fn(&mut dyn Write) -> io::Result<()>,
    ) {
        if !is_quiet {
            let mut out = BufWriter::new(io::stderr().lock());
            // Nobody reads it any more: no reason to change how the run ends.
            let _ = self.say(threads, &mut out).and_then(|()| out.flush());
        }
        if let Err(error) = self.statistics.save(statistics) {
            say!("everypath: {error}");
        }
    }

    /// Writes the lines of the tool's console.
    pub fn say(&self, threads: &[Numbered<'_>], out: &mut dyn Write) -> io::Result<()> {
        let tool = self.tool.name();
        let form = match self.form {
            Form::Binary => "binary",
            Form::Ascii => "ASCII",
        };
        let shown = self.descriptors.display();
        writeln!(out, "{tool}: Writing to {form} file: {shown}")?;
        write!(out, "{}", self.tool.fields())?;
        let whose = match self.tool {
            Tool::McfTrace | Tool::MlsTrace | Tool::MlvCFiat => "",
            Tool::McfTRaptor => "Private TRaptor ",
        };
        for Numbered { number, thread, .. } in threads {
            writeln!(out, "{tool}: {whose}thread begin {number} {}", thread.tid)?;
        }
        Ok(())
    }
}

impl Sink {
    /// The place where a tool writes descriptors, and its other file.
    pub fn of_tool(
        tool: Tool,
        form: Form,
        flags: &Packing,
        named: Option<&Path>,
    ) -> Result<(Sink, Files)> {
        let compressor = Compressor::wanted(flags.compress, named)?;
        let files = Files::wanted(tool, form, compressor, named)?;
        let sink = Sink::wanted(flags, Some(&files.descriptors))?;
        Ok((sink, files))
    }
}

/// The file of statistics: what names the form and the compressor is left out.
fn beside(named: &Path) -> PathBuf {
    let mut stem = named.to_owned();
    if Compressor::of_suffix(named).is_some() {
        stem.set_extension("");
    }
    if stem
        .extension()
        .is_some_and(|it| it == "bin" || it == "txt")
    {
        stem.set_extension("");
    }
    with(&stem, ".Statistics")
}

/// The name of a file of descriptors that is not there, and the file of statistics beside.
fn unused(tool: &str, form: Form, compressor: Option<Compressor>) -> Result<(PathBuf, Reserved)> {
    let now = ZonedDateTime::now();
    let (year, month, day) = (now.year(), now.month(), now.day());
    let (hour, minute, second) = (now.hour(), now.minute(), now.second());
    let stem = format!("{tool}.out{year}_{month}_{day}_{hour}.{minute}.{second}");
    let compressed = compressor.map(|compressor| format!(".{}", compressor.names().1));
    let form = match form {
        Form::Binary => ".bin",
        Form::Ascii => ".txt",
    };
    let mut number = 1;
    loop {
        let stem = PathBuf::from(match number {
            1 => stem.clone(),
            number => format!("{stem}_{number}"),
        });
        let descriptors = with(&stem, form);
        let descriptors = with(&descriptors, compressed.as_deref().unwrap_or_default());
        let statistics = with(&stem, ".Statistics");
        match File::create_new(&statistics) {
            Ok(_) => {
                let reserved = Reserved(statistics);
                if !descriptors.exists() {
                    return Ok((descriptors, reserved));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => bail!(
                "cannot write '{}': {}",
                statistics.display(),
                reason(&error)
            ),
        }
        number += 1;
    }
}

fn with(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_are_beside_whatever_the_form_is() {
        for name in ["fft", "fft.bin", "fft.txt.gz", "fft.gz", "fft.bin.xz"] {
            assert_eq!(beside(Path::new(name)), Path::new("fft.Statistics"));
        }
        let other = beside(Path::new("/tmp/a.b/fft_p1.raptor"));
        assert_eq!(other, Path::new("/tmp/a.b/fft_p1.raptor.Statistics"));
    }
}
