//! Contexts as a profile of pprof: gzipped protocol buffers, profile.proto of
//! github.com/google/pprof, which `go tool pprof` and many services read.
//!
//! | there | here |
//! |---|---|
//! | sample type | `calls` and `instructions` (if they were counted), unit `count`, period 1: nothing is estimated |
//! | sample | a context with what was counted there, without what it called; labels `process` and `thread` (numbers) |
//! | location, function | a function, at its first instruction; `…` for callers further out than k |
//! | mapping | a module, with its build id; the program's first |
//!
//! Samples are written as they come: a recording may have millions. The tables
//! they refer to come after them, in any order as messages allow.
//!
//! Limit: values are signed; a count beyond 2^63 - 1 is an error.

pub mod plain;

use std::collections::HashMap;
use std::io::{self, Write};

use analysis::Weight;
use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;
use trace::{Cost, Label, Module, Process};

use crate::Report;
use crate::metrics::Metric;
use crate::names::label_name;
use crate::numbers::command_line;
use crate::stacks::{self, Frame};

/// The messages of profile.proto, as far as they are used.
mod proto {
    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub struct ValueType {
        #[prost(int64, tag = "1")]
        pub kind: i64,
        #[prost(int64, tag = "2")]
        pub unit: i64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Sample {
        /// Innermost first.
        #[prost(uint64, repeated, tag = "1")]
        pub location_id: Vec<u64>,
        #[prost(int64, repeated, tag = "2")]
        pub value: Vec<i64>,
        #[prost(message, repeated, tag = "3")]
        pub label: Vec<Label>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Label {
        #[prost(int64, tag = "1")]
        pub key: i64,
        #[prost(int64, tag = "3")]
        pub num: i64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Mapping {
        #[prost(uint64, tag = "1")]
        pub id: u64,
        #[prost(uint64, tag = "2")]
        pub memory_start: u64,
        #[prost(uint64, tag = "3")]
        pub memory_limit: u64,
        #[prost(uint64, tag = "4")]
        pub file_offset: u64,
        #[prost(int64, tag = "5")]
        pub filename: i64,
        #[prost(int64, tag = "6")]
        pub build_id: i64,
        #[prost(bool, tag = "7")]
        pub has_functions: bool,
        #[prost(bool, tag = "8")]
        pub has_filenames: bool,
        #[prost(bool, tag = "9")]
        pub has_line_numbers: bool,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Location {
        #[prost(uint64, tag = "1")]
        pub id: u64,
        #[prost(uint64, tag = "2")]
        pub mapping_id: u64,
        #[prost(uint64, tag = "3")]
        pub address: u64,
        #[prost(message, repeated, tag = "4")]
        pub line: Vec<Line>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Line {
        #[prost(uint64, tag = "1")]
        pub function_id: u64,
        #[prost(int64, tag = "2")]
        pub line: i64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Function {
        #[prost(uint64, tag = "1")]
        pub id: u64,
        #[prost(int64, tag = "2")]
        pub name: i64,
        #[prost(int64, tag = "3")]
        pub system_name: i64,
        #[prost(int64, tag = "4")]
        pub filename: i64,
        #[prost(int64, tag = "5")]
        pub start_line: i64,
    }

    /// Last fields of the profile: everything but samples and tables.
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Rest {
        #[prost(message, repeated, tag = "1")]
        pub sample_type: Vec<ValueType>,
        #[prost(string, repeated, tag = "6")]
        pub string_table: Vec<String>,
        #[prost(int64, tag = "9")]
        pub time_nanos: i64,
        #[prost(int64, tag = "10")]
        pub duration_nanos: i64,
        #[prost(message, optional, tag = "11")]
        pub period_type: Option<ValueType>,
        #[prost(int64, tag = "12")]
        pub period: i64,
        #[prost(int64, repeated, tag = "13")]
        pub comment: Vec<i64>,
        #[prost(int64, tag = "14")]
        pub default_sample_type: i64,
    }
}

/// Fields of the message `Profile`.
mod field {
    pub const SAMPLE: u32 = 2;
    pub const MAPPING: u32 = 3;
    pub const LOCATION: u32 = 4;
    pub const FUNCTION: u32 = 5;
}

pub fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let mut writer = Writer {
        out: GzEncoder::new(out, Compression::default()),
        strings: Strings::default(),
        mappings: HashMap::new(),
        locations: HashMap::new(),
        buffer: Vec::new(),
    };
    // The first string is the empty one.
    writer.strings.number("");
    for section in &report.sections {
        writer.write_section(report, section)?;
    }
    let meta = &report.recording.meta;
    let mut value_type = |metric| {
        let (kind, unit) = match metric {
            Weight::Cost(Cost::Time) => ("time", "nanoseconds"),
            Weight::Cost(Cost::Waiting) => ("waiting", "nanoseconds"),
            metric => (Metric::from(metric).name, "count"),
        };
        proto::ValueType {
            kind: writer.strings.number(kind),
            unit: writer.strings.number(unit),
        }
    };
    let shown = value_type(report.by);
    let sample_type = report.metrics.iter().map(|&metric| value_type(metric));
    let sample_type = sample_type.collect();
    let about = [command_line(&meta.command), meta.producer.clone()];
    let comment = about.iter().map(|line| writer.strings.number(line));
    let rest = proto::Rest {
        comment: comment.collect(),
        default_sample_type: shown.kind,
        sample_type,
        period_type: Some(shown),
        period: 1,
        time_nanos: i64::try_from(meta.started_unix_ns).unwrap_or(0),
        duration_nanos: i64::try_from(meta.duration_ns).unwrap_or(0),
        string_table: std::mem::take(&mut writer.strings.list),
    };
    writer.out.write_all(&rest.encode_to_vec())?;
    writer.out.finish()?;
    Ok(())
}

fn signed(value: u64) -> io::Result<i64> {
    i64::try_from(value).map_err(|_| {
        let limit = i64::MAX;
        io::Error::other(format!(
            "a context has {value} of something: the form pprof ends at {limit}"
        ))
    })
}

/// Strings by their number in the table.
#[derive(Default)]
struct Strings {
    numbers: HashMap<String, i64>,
    list: Vec<String>,
}

impl Strings {
    fn number(&mut self, text: &str) -> i64 {
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        let number = self.list.len() as i64;
        self.list.push(text.to_owned());
        self.numbers.insert(text.to_owned(), number);
        number
    }
}

struct Writer<'a> {
    out: GzEncoder<&'a mut dyn Write>,
    strings: Strings,
    /// By process and module.
    mappings: HashMap<(usize, u32), u64>,
    /// By process and frame; a location and its function have the same number.
    locations: HashMap<(usize, Frame), u64>,
    buffer: Vec<u8>,
}

impl Writer<'_> {
    fn message(&mut self, field: u32, message: &impl Message) -> io::Result<()> {
        self.buffer.clear();
        prost::encoding::message::encode(field, message, &mut self.buffer);
        self.out.write_all(&self.buffer)
    }

    fn write_section(&mut self, report: &Report, section: &crate::Section) -> io::Result<()> {
        let process = &report.recording.processes[section.process];
        // The first mapping is taken for the program's.
        let is_program = |module: &Module| module.path == process.exe;
        if let Some(program) = process.modules.iter().position(is_program) {
            self.mapping(section.process, process, program as u32)?;
        }
        let label = |key, num: u32| proto::Label {
            key,
            num: i64::from(num),
        };
        let mut labels = vec![label(self.strings.number("process"), process.pid)];
        if let [thread] = section.threads[..] {
            let tid = process.threads[thread].tid;
            labels.push(label(self.strings.number("thread"), tid));
        }
        stacks::each(section, &report.metrics, |path, values| {
            let mut sample = proto::Sample {
                location_id: Vec::with_capacity(path.len()),
                value: values
                    .iter()
                    .map(|&value| signed(value))
                    .collect::<Result<_, _>>()?,
                label: labels.clone(),
            };
            for &frame in path.iter().rev() {
                let location = self.location(section.process, process, frame)?;
                sample.location_id.push(location);
            }
            self.message(field::SAMPLE, &sample)
        })
    }

    fn location(&mut self, at: usize, process: &Process, frame: Frame) -> io::Result<u64> {
        if let Some(&id) = self.locations.get(&(at, frame)) {
            return Ok(id);
        }
        let id = self.locations.len() as u64 + 1;
        self.locations.insert((at, frame), id);
        let (name, label) = match frame {
            Frame::Unknown => (stacks::UNKNOWN.to_owned(), None),
            Frame::Label(label) => (label_name(process, label), Some(label)),
        };
        let known = label.and_then(|label: Label| process.function(label));
        let name = self.strings.number(&name);
        let file = known.and_then(|function| function.file.as_deref());
        let line = known
            .and_then(|function| function.line)
            .map_or(0, i64::from);
        let function = proto::Function {
            id,
            name,
            system_name: name,
            filename: file.map_or(0, |file| self.strings.number(file)),
            start_line: line,
        };
        let mapping_id = match known.and_then(|function| function.module) {
            Some(module) => self.mapping(at, process, module)?,
            None => 0,
        };
        let location = proto::Location {
            id,
            mapping_id,
            address: known.map_or(0, |function| function.pc),
            line: vec![proto::Line {
                function_id: id,
                line,
            }],
        };
        self.message(field::FUNCTION, &function)?;
        self.message(field::LOCATION, &location)?;
        Ok(id)
    }

    /// The number of a module; 0 for one that the recording does not have.
    fn mapping(&mut self, at: usize, process: &Process, number: u32) -> io::Result<u64> {
        if let Some(&id) = self.mappings.get(&(at, number)) {
            return Ok(id);
        }
        let Some(module) = process.modules.get(number as usize) else {
            return Ok(0);
        };
        let id = self.mappings.len() as u64 + 1;
        self.mappings.insert((at, number), id);
        let build_id: String = module
            .build_id
            .iter()
            .flatten()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let mapping = proto::Mapping {
            id,
            memory_start: module.start,
            memory_limit: module.end,
            file_offset: module.offset,
            filename: self.strings.number(&module.path),
            build_id: self.strings.number(&build_id),
            has_functions: true,
            has_filenames: true,
            has_line_numbers: true,
        };
        self.message(field::MAPPING, &mapping)?;
        Ok(id)
    }
}
