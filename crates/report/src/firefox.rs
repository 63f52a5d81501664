//! Contexts as a profile of the Firefox Profiler (profiler.firefox.com), in its
//! "processed" form, a JSON document of tables by column.
//!
//! | there | here |
//! |---|---|
//! | thread | a thread, or the joined threads of a process; one per metric |
//! | sample and its weight | a context and the calls that ended there; weights are of type `samples` |
//! | time of a sample | the calls before it: the axis of the timeline counts calls, as `bytes` |
//! | stack, frame, function | a path, its last function; `…` for callers further out than k |
//! | library, resource | a module with its build id |
//! | category | whether a function is of the program, of another module, or of neither |
//!
//! It is version 60, the first with tables that all threads share; newer
//! front-ends upgrade what they read. Why `bytes`: an axis has bytes or
//! milliseconds there, and calls are no time.
//!
//! Limit: numbers there are doubles, so a thread with more than 2^53 calls is an
//! error.

mod tables;

use std::collections::BTreeSet;
use std::io::{self, Write};

use serde::Serialize;
use trace::Process;

use self::tables::{Shared, Tables};
use crate::Report;
use crate::metrics::{self, Profile};
use crate::numbers::command_line;
use crate::stacks::{self, Frame};

/// Version of the form.
const VERSION: u32 = 60;

pub fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let mut tables = Tables::default();
    let mut begun = BTreeSet::new();
    let mut threads = Vec::new();
    for profile in metrics::profiles_in_doubles(report)? {
        let is_first = begun.insert(profile.section.process);
        threads.push(thread(report, &profile, is_first, &mut tables));
    }
    let processes = &report.recording.processes;
    let programs = processes.iter().map(|process| process.exe.as_str());
    let document = Document {
        meta: Meta::new(report),
        libs: tables.libs(),
        shared: tables.shared(&programs.collect()),
        threads,
    };
    serde_json::to_writer(&mut *out, &document).map_err(io::Error::from)?;
    writeln!(out)
}

#[derive(Serialize)]
struct Document<'a> {
    meta: Meta<'a>,
    libs: Vec<tables::Lib>,
    shared: Shared,
    threads: Vec<Thread>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Meta<'a> {
    /// Milliseconds between samples.
    interval: u32,
    start_time: f64,
    process_type: u32,
    product: String,
    imported_from: &'a str,
    arguments: String,
    stackwalk: u32,
    /// Version of the form that Firefox itself writes.
    version: u32,
    preprocessed_profile_version: u32,
    symbolicated: bool,
    uses_only_one_stack_type: bool,
    source_code_is_not_on_searchfox: bool,
    keep_profile_thread_order: bool,
    categories: [tables::Category; 3],
    marker_schema: [u32; 0],
    sample_units: SampleUnits,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SampleUnits {
    time: &'static str,
    event_delay: &'static str,
    #[serde(rename = "threadCPUDelta")]
    thread_cpu_delta: &'static str,
}

impl<'a> Meta<'a> {
    fn new(report: &'a Report) -> Meta<'a> {
        let meta = &report.recording.meta;
        let first = report.recording.processes.first();
        Meta {
            interval: 1,
            start_time: meta.started_unix_ns as f64 / 1e6,
            process_type: 0,
            product: first.map_or("", Process::program).to_owned(),
            imported_from: &meta.producer,
            arguments: command_line(&meta.command),
            stackwalk: 1,
            version: 31,
            preprocessed_profile_version: VERSION,
            symbolicated: true,
            uses_only_one_stack_type: true,
            source_code_is_not_on_searchfox: true,
            keep_profile_thread_order: true,
            categories: tables::CATEGORIES,
            marker_schema: [],
            sample_units: SampleUnits {
                time: "bytes",
                event_delay: "ms",
                thread_cpu_delta: "ns",
            },
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Thread {
    name: String,
    is_main_thread: bool,
    process_type: &'static str,
    process_name: String,
    process_startup_time: u32,
    process_shutdown_time: Option<u32>,
    register_time: u32,
    unregister_time: Option<u32>,
    paused_ranges: [u32; 0],
    pid: String,
    tid: u32,
    samples: Samples,
    markers: Markers,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Samples {
    stack: Vec<usize>,
    time: Vec<u64>,
    weight: Vec<u64>,
    weight_type: &'static str,
    length: usize,
}

/// None.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Markers {
    data: [u32; 0],
    name: [u32; 0],
    start_time: [u32; 0],
    end_time: [u32; 0],
    phase: [u32; 0],
    category: [u32; 0],
    length: usize,
}

/// A profile as a thread; the first of a process is its main thread, and its track
/// has the program's name.
fn thread<'a>(
    report: &Report<'a>,
    profile: &Profile,
    is_first: bool,
    tables: &mut Tables<'a>,
) -> Thread {
    let section = profile.section;
    let process = &report.recording.processes[section.process];
    let program = process.program();
    let first_thread = section.threads.first();
    let tid = first_thread.map_or(0, |&thread| process.threads[thread].tid);
    let mut name = match is_first {
        true => program.to_owned(),
        false => format!("thread {tid}"),
    };
    if let Some(metric) = profile.metric_name() {
        name.push_str(&format!(" ({metric})"));
    }
    Thread {
        name,
        is_main_thread: is_first,
        process_type: "default",
        process_name: program.to_owned(),
        process_startup_time: 0,
        process_shutdown_time: None,
        register_time: 0,
        unregister_time: None,
        paused_ranges: [],
        pid: pid(report, section.process),
        tid,
        samples: samples(process, profile, tables),
        markers: Markers::default(),
    }
}

/// The process id; for a later image of the same process with a number after it,
/// because an id means one process there.
fn pid(report: &Report, at: usize) -> String {
    let processes = &report.recording.processes;
    let pid = processes[at].pid;
    let earlier = processes[..at].iter().filter(|other| other.pid == pid);
    match earlier.count() {
        0 => pid.to_string(),
        count => format!("{pid}.{count}"),
    }
}

fn samples<'a>(process: &'a Process, profile: &Profile, tables: &mut Tables<'a>) -> Samples {
    let mut samples = Samples {
        weight_type: "samples",
        ..Samples::default()
    };
    // The stacks of the last path: paths come in the order of a walk, so what
    // a path has in common with any before, it has with the last one.
    let mut last: Vec<(Frame, usize)> = Vec::new();
    let mut now = 0;
    let Ok(()) = stacks::each(profile.section, &[profile.metric.weight], |path, values| {
        let pairs = last.iter().zip(path);
        let common = pairs.take_while(|(last, frame)| last.0 == **frame).count();
        last.truncate(common);
        for &frame in &path[common..] {
            let prefix = last.last().map(|last| last.1);
            let number = tables
                .frames
                .number(profile.section.process, process, frame);
            last.push((frame, tables.push_stack(number, prefix)));
        }
        if let (Some(&(_, stack)), weight @ 1..) = (last.last(), values[0]) {
            samples.stack.push(stack);
            samples.time.push(now);
            samples.weight.push(weight);
            now += weight;
        }
        Ok::<(), std::convert::Infallible>(())
    });
    samples.length = samples.stack.len();
    samples
}
