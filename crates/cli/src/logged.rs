//! `log-contexts`, and what it shares with others: calls that an encoded program has logged, with their contexts.
//!
//! Approach: the program and its libraries are edited, once ([`EditedRun`]). Each process leaves a file there ([`wire::counters`]) with a stream of events for each thread; dictionary and events make paths.
//!
//! Limits: other programs that it executes, and libraries that it loads while it runs, log nothing.

use std::collections::HashMap;
use std::path::Path;

use analysis::encoded::events::{self, Event, What};
use analysis::encoded::{Decoder, Frame, Function, Unknown};
use analysis::regenerate::Piece;
use anyhow::{Result, anyhow, bail};
use image::Images;
use report::allocations::folded_path;

use crate::commands::print;
use crate::counter_header::Header;
use crate::decode;
use crate::edit_cache::{self, Inserted};
use crate::edited_run::EditedRun;
use crate::exit_status::Ending;
use crate::flags::LogContexts;
use crate::libraries::Walk;
use crate::output::{Kind, Output};
use crate::program;
use crate::progress::Progress;

/// A call that was logged.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// By the processor's counter.
    pub time: u64,
    pub process: u32,
    pub thread: u32,
    /// Its numbers in [`Log::functions`] and [`Log::paths`].
    pub function: u32,
    pub path: u32,
    /// The first three arguments.
    pub values: [u64; 3],
    /// Its result and when it returned, if it did; or the first argument of what it went on as, by a jump.
    pub returned: Option<(u64, u64)>,
    pub left: Option<(u64, u64)>,
}

/// Calls of all threads, by time.
#[derive(Debug, Default)]
pub struct Log {
    pub calls: Vec<Call>,
    /// Words by which functions were asked for.
    pub functions: Vec<String>,
    /// Rate of the counter; `None`: nobody may read it.
    pub ticks_per_second: Option<u64>,
    /// Paths that end with the function; what is not known, as a text.
    pub paths: Vec<String>,
    /// A sentence for each thing that was damaged or had no room.
    pub lost: Vec<String>,
    by_function: HashMap<Function, u32>,
    by_path: HashMap<Result<Vec<Step>, Unknown>, u32>,
}

/// A call that has not ended.
struct Open {
    call: usize,
    /// The stack pointer at its entry.
    level: u64,
    goes_on: bool,
}

/// A frame, so that paths can be looked up.
type Step = (Function, u64, u64);

fn step(frame: &Frame) -> Step {
    let (kind, call) = decode::key(frame.by);
    (frame.function, kind, call)
}

/// The word by which a function was asked for.
fn word(decoder: &Decoder, function: Function) -> String {
    let file = decoder.files().nth(function.file);
    let mut logged = file.iter().flat_map(|file| &file.logged);
    match logged.find(|logged| logged.function == function.function) {
        Some(logged) => logged
            .word
            .trim_end_matches(edits::logged::ALONE)
            .to_owned(),
        None => decode::name(decoder, function),
    }
}

impl Log {
    /// Adds what a process has logged.
    pub fn add(&mut self, decoder: &mut Decoder, path: &Path) -> Result<()> {
        let (header, bytes) = Header::of(path)?;
        let shown = path.display();
        decode::place(decoder, &header);
        let streams = match header.parts.is_empty() {
            true => Vec::new(),
            false => header
                .streams(&bytes, 0)
                .map_err(|what| anyhow!("'{shown}' {what}"))?,
        };
        for stream in streams {
            if stream.is_cut {
                self.lost.push(format!(
                    "thread {}: there was no room for all of its calls",
                    stream.thread
                ));
            }
            let (mut open, mut read) = (Vec::new(), events::Stream::default());
            for piece in &stream.pieces {
                let piece = Piece {
                    stored: &bytes[piece.stored.clone()],
                    bytes: piece.bytes,
                };
                let bytes = events::unpacked(&piece);
                let bytes = bytes.map_err(|why| anyhow!("'{shown}': {why}"))?;
                for event in read.read(decoder, &bytes) {
                    match event {
                        Ok(event) => {
                            let of = (header.pid, stream.thread);
                            self.add_event(decoder, of, &event, &mut open);
                        }
                        Err(why) => self.lost.push(format!("thread {}: {why}", stream.thread)),
                    }
                }
            }
        }
        Ok(())
    }

    fn add_event(
        &mut self,
        decoder: &Decoder,
        (process, thread): (u32, u32),
        event: &Event,
        open: &mut Vec<Open>,
    ) {
        let next = self.functions.len() as u32;
        let function = *self.by_function.entry(event.function).or_insert(next);
        if function == next {
            self.functions.push(word(decoder, event.function));
        }
        if !matches!(event.what, What::Called | What::Alone) {
            self.end(event, function, open);
            return;
        }
        let stack = event.moment.stack;
        // One that went on as this function has its stack pointer.
        let is_over = |own: &mut Open| own.level < stack || own.level == stack && !own.goes_on;
        while open.pop_if(|own| is_over(own)).is_some() {}
        let found = match event.what {
            What::Alone => Ok(Vec::new()),
            _ => decoder.path_in(event.function, &event.moment),
        };
        let key = match &found {
            Ok(path) => Ok(path.iter().map(step).collect()),
            Err(why) => Err(*why),
        };
        let next = self.paths.len() as u32;
        let path = *self.by_path.entry(key).or_insert(next);
        if path == next {
            self.paths.push(match found {
                Ok(path) if path.is_empty() => self.functions[function as usize].clone(),
                Ok(path) => decode::whole(decoder, &path),
                Err(why) => format!("… ({why}) > {}", self.functions[function as usize]),
            });
        }
        if event.what == What::Called {
            open.push(Open {
                call: self.calls.len(),
                level: stack,
                goes_on: false,
            });
        }
        self.calls.push(Call {
            time: event.time,
            process,
            thread,
            function,
            path,
            values: event.values,
            returned: None,
            left: None,
        });
    }

    /// A function returns, or goes on by a jump. Calls above it were left otherwise: by `longjmp` or an exception.
    fn end(&mut self, event: &Event, function: u32, open: &mut Vec<Open>) {
        let stack = event.moment.stack;
        let end = Some((event.values[0], event.time));
        while open.pop_if(|own| own.level < stack).is_some() {}
        if event.what == What::GoesOn {
            if let Some(own) = open.last_mut().filter(|own| own.level == stack) {
                own.goes_on |= self.calls[own.call].function == function;
            }
            return;
        }
        // And so end those that went on as it.
        while let Some(own) = open.pop_if(|own| own.level == stack) {
            let call = &mut self.calls[own.call];
            match event.what {
                _ if call.function != function && !own.goes_on => {}
                What::Left => call.left = end,
                _ => call.returned = end,
            }
        }
    }

    /// Puts the calls of all threads in one order.
    pub fn sort(&mut self) {
        self.calls.sort_by_key(|call| call.time);
    }
}

/// A program that logs its calls of some functions, edited with its libraries.
pub struct Logged {
    run: EditedRun,
}

impl Logged {
    /// `functions`: as those of [`crate::flags::Encode::log`]; an error if one is in none of the files.
    pub fn of(program: &Path, functions: &str, quiet: bool) -> Result<Logged> {
        let images = Images::new();
        let all: Vec<_> = Walk::new(&images, program).collect();
        let is_there = |word: &str| {
            let word = word.trim_end_matches(edits::logged::ALONE);
            word.starts_with("0x") || all.iter().any(|image| edits::logged::has(image, word))
        };
        let is_script = edit_cache::is_script(program);
        if let Some(missing) = functions
            .split(',')
            .find(|word| !is_script && !is_there(word.trim()))
        {
            bail!(
                "no function of '{}' or of its libraries is named {missing}; one without a name is given by its address, 0x..., which `everypath flow FILE` lists",
                program.display()
            );
        }
        let inserted = Inserted {
            tool: "contexts",
            log: Some(functions),
        };
        let run = EditedRun::with(program, inserted, quiet);
        let run = run.map_err(|why| {
            anyhow!(
                "'{}' cannot be edited: {why}; nothing was run",
                program.display()
            )
        })?;
        Ok(Logged { run })
    }

    /// Whether a program or one of its libraries has a function.
    pub fn has(program: &Path, name: &str) -> bool {
        let images = Images::new();
        Walk::new(&images, program).any(|image| edits::logged::has(&image, name))
    }

    /// Runs it, and reads what it has logged.
    pub fn run(&self, words: &[std::ffi::OsString], quiet: bool) -> Result<(Ending, Log)> {
        let mut decoder = Decoder::new(self.run.dictionary()?);
        for file in decoder.files() {
            for logged in file.logged.iter().filter(|logged| logged.is_left) {
                say!(
                    "everypath: {} in '{}' cannot be moved, so its calls are not logged",
                    logged.word,
                    file.original
                );
            }
        }
        let before = launch::Reading::now();
        let (ended, ..) = self.run.run(words)?;
        let after = launch::Reading::now();
        let progress = Progress::new(quiet);
        progress.says("reading what was logged");
        let rate = after.zip(before);
        let mut log = Log {
            ticks_per_second: rate.and_then(|(after, before)| after.per_second_since(before)),
            ..Log::default()
        };
        for path in self.run.files()? {
            log.add(&mut decoder, &path)?;
        }
        log.sort();
        for what in &log.lost {
            say!("everypath: {what}");
        }
        Ok((Ending::of(ended), log))
    }
}

/// Runs a program, and shows the context of each call of some functions.
pub fn log_contexts(flags: &LogContexts) -> Result<Ending> {
    let program = program::check(&flags.command[0])?;
    let output = flags.output.as_deref();
    let output = output.map(|path| Output::prepare(path, Kind::Report));
    let output = output
        .transpose()
        .map_err(|error| anyhow!("{error}; nothing was run"))?;
    let logged = Logged::of(&program, &flags.functions, flags.quiet)?;
    let (ending, log) = logged.run(&flags.command, flags.quiet)?;
    let text = match flags.folded {
        true => folded(&log),
        false => lines(&log, flags.values),
    };
    match output {
        Some(output) => output.replace(|out| out.write_all(text.as_bytes()))?,
        None => drop(print(text.as_bytes())?),
    }
    if !flags.quiet {
        say!(
            "everypath: {} in {}",
            report::counted(log.calls.len() as u64, "call"),
            report::counted(log.paths.len() as u64, "context")
        );
    }
    Ok(ending)
}

/// A line for each call: its thread, arguments if they are wanted, and path.
pub fn lines(log: &Log, values: bool) -> String {
    let mut out = String::new();
    for call in &log.calls {
        let path = &log.paths[call.path as usize];
        out.push_str(&format!("{}\t", call.thread));
        if values {
            let [first, second, third] = call.values;
            out.push_str(&format!("{first:#x} {second:#x} {third:#x}"));
            match call.returned {
                Some((result, _)) => out.push_str(&format!(" = {result:#x}\t")),
                None => out.push('\t'),
            }
        }
        out.push_str(path);
        out.push('\n');
    }
    out
}

/// Folded stacks: each path, and how often it came.
fn folded(log: &Log) -> String {
    let mut counts = vec![0u64; log.paths.len()];
    for call in &log.calls {
        counts[call.path as usize] += 1;
    }
    let lines = counts.iter().enumerate();
    let lines = lines.map(|(path, count)| format!("{} {count}\n", folded_path(&log.paths[path])));
    lines.collect()
}
