//! Trace events as Chrome and Perfetto read them: JSON with a beginning and an end for
//! each call.
//!
//! Their unit is a microsecond. Where time is instructions, one is that; `otherData` says so.

use std::collections::BTreeMap;
use std::io::{self, Write};

use trace::{Process, Recording};

use super::{At, Clock, Form, Unit};

pub struct Chrome<'a> {
    out: &'a mut dyn Write,
    /// As JSON, with quotes.
    names: Vec<String>,
    /// Process and thread numbers.
    ids: Vec<Vec<(u32, u32)>>,
    clock: Clock,
    any: bool,
}

impl<'a> Chrome<'a> {
    pub fn new(
        recording: &Recording,
        names: &[String],
        unit: Unit,
        out: &'a mut dyn Write,
    ) -> io::Result<Chrome<'a>> {
        let quoted = |name: &String| serde_json::to_string(name).unwrap_or_default();
        let ids = recording.processes.iter().map(|process| {
            let threads = process.threads.iter();
            threads.map(|thread| (process.pid, thread.tid)).collect()
        });
        let clock = match unit {
            Unit::Nanoseconds => "time stamps of the trace; between two, instructions",
            Unit::Instructions => {
                "instructions executed by the thread; 1 us is one; threads cannot be compared"
            }
        };
        write!(
            out,
            "{{\"otherData\":{{\"producer\":{},\"clock\":\"{clock}\"}},\"traceEvents\":[",
            quoted(&recording.meta.producer)
        )?;
        let mut chrome = Chrome {
            out,
            names: names.iter().map(quoted).collect(),
            ids: ids.collect(),
            clock: Clock::new(unit),
            any: false,
        };
        // A program that was executed has the number of the one before.
        let last: BTreeMap<u32, &Process> = recording
            .processes
            .iter()
            .map(|process| (process.pid, process))
            .collect();
        for process in last.into_values() {
            let name = serde_json::to_string(process.program())?;
            let pid = process.pid;
            chrome.event(format_args!(
                "{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{pid},\"tid\":{pid},\
                 \"args\":{{\"name\":{name}}}}}"
            ))?;
        }
        Ok(chrome)
    }

    fn event(&mut self, event: std::fmt::Arguments<'_>) -> io::Result<()> {
        self.begin()?;
        self.out.write_fmt(event)
    }

    fn begin(&mut self) -> io::Result<()> {
        let before: &[u8] = if self.any { b",\n" } else { b"\n" };
        self.any = true;
        self.out.write_all(before)
    }

    fn call(&mut self, phase: char, at: At, name: u32, time: u64) -> io::Result<()> {
        self.begin()?;
        let (pid, tid) = self.ids[at.0][at.1];
        let name = &self.names[name as usize];
        let time = self.clock.time(at, tid, time);
        write!(
            self.out,
            "{{\"ph\":\"{phase}\",\"name\":{name},\"pid\":{pid},\"tid\":{tid},\"ts\":"
        )?;
        match self.clock.unit {
            Unit::Nanoseconds => write!(self.out, "{}.{:03}}}", time / 1000, time % 1000),
            Unit::Instructions => write!(self.out, "{time}}}"),
        }
    }

    pub fn finish(self) -> io::Result<()> {
        writeln!(self.out, "\n]}}")
    }
}

impl Form for Chrome<'_> {
    fn enter(&mut self, thread: At, name: u32, _: u32, time: u64) -> io::Result<()> {
        self.call('B', thread, name, time)
    }

    fn leave(&mut self, thread: At, name: u32, _: u32, time: u64) -> io::Result<()> {
        self.call('E', thread, name, time)
    }

    fn end(&mut self, _: At) -> io::Result<()> {
        Ok(())
    }
}
