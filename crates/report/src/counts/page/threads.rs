//! Counts of each thread by itself, for a page of several.
//!
//! The tables of the page are of all threads together. Of each thread the page has the
//! counts of its instructions, by their places among all of them: executions are metric
//! 0 of [`crate::html::columns`], taken branches metric 1. Which row of each table an
//! instruction is in stands beside, and the script adds up.
//!
//! Limit: of more than [`MOST`] threads, those that executed most.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::io::{self, Write};

use analysis::counts::{self, Counted, Counts, Unsound};
use analysis::merged::Value;
use serde::Serialize;
use trace::Recording;

use super::{Function, Table};
use crate::counts::thread_name;
use crate::html::columns;
use crate::numbers::command_line;

const MOST: usize = 64;

#[derive(Serialize)]
pub struct Threads {
    names: Vec<String>,
    /// Executed instructions.
    executed: Vec<u64>,
    /// Threads that are not here.
    left: usize,
    /// Per instruction its row among the functions and among the lines, or -1.
    function: Vec<i64>,
    line: Vec<i64>,
    /// Per row of the blocks its first instruction.
    first: Vec<usize>,
    #[serde(skip)]
    values: [Vec<Vec<Value>>; 2],
}

/// Rows of the page's tables.
pub struct Rows<'a> {
    pub functions: &'a [Function<'a>],
    pub lines: &'a Table,
    /// First instruction of each block.
    pub first: Vec<usize>,
}

type Key<'a> = (u32, u64, &'a [u8]);

fn key(insn: &Counted) -> Key<'_> {
    (insn.unit, insn.at, &insn.bytes)
}

impl Threads {
    /// `None`: there are no two that counted anything.
    pub fn new(
        recording: &Recording,
        all: &Counts,
        rows: Rows,
    ) -> Result<Option<Threads>, Unsound> {
        let mut chosen: Vec<(usize, usize)> = Vec::new();
        for (at, process) in recording.processes.iter().enumerate() {
            let threads = (0..process.threads.len()).map(|thread| (at, thread));
            chosen.extend(threads.filter(|&(_, at)| !process.threads[at].counts.is_empty()));
        }
        if chosen.len() < 2 {
            return Ok(None);
        }
        let of = |&(process, thread): &(usize, usize)| {
            let process = &recording.processes[process];
            (process, &process.threads[thread])
        };
        chosen.sort_by_key(|thread| Reverse(of(thread).1.insns));
        let left = chosen.len().saturating_sub(MOST);
        chosen.truncate(MOST);
        chosen.sort_unstable();
        let places: HashMap<Key, u32> = all.insns.iter().map(key).zip(0..).collect();
        let (function, line) = rows.numbers(all, &places);
        let mut threads = Threads {
            names: Vec::new(),
            executed: Vec::new(),
            left,
            function,
            line,
            first: rows.first,
            values: Default::default(),
        };
        for one in &chosen {
            let (process, thread) = of(one);
            let command = command_line(&process.args);
            let name = format!("{}: {command}, {}", process.pid, thread_name(thread.tid));
            let counts = counts::of(recording, |process, at| (process, at) == *one)?;
            threads.add(name, &counts, &places);
        }
        Ok(Some(threads))
    }

    fn add(&mut self, name: String, counts: &Counts, places: &HashMap<Key, u32>) {
        self.names.push(name);
        let mut insns: Vec<(u32, &Counted)> = counts
            .insns
            .iter()
            .filter_map(|insn| Some((*places.get(&key(insn))?, insn)))
            .collect();
        insns.sort_unstable_by_key(|&(place, _)| place);
        let executed = insns.iter().map(|(_, insn)| insn.count);
        self.executed.push(executed.fold(0, u64::saturating_add));
        let values = |value: fn(&Counted) -> u64| -> Vec<Value> {
            let all = insns.iter().map(|&(place, insn)| (place, value(insn)));
            all.filter(|&(_, value)| value > 0).collect()
        };
        let taken = |insn: &Counted| match insn.is_conditional() {
            true => insn.taken(),
            false => 0,
        };
        let [executed, branches] = &mut self.values;
        executed.push(values(|insn| insn.count));
        branches.push(values(taken));
    }

    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let json = serde_json::to_vec(self).map_err(io::Error::from)?;
        columns::element("data-threads", &json, out)?;
        for (metric, lists) in self.values.iter().enumerate() {
            columns::values(metric, lists.iter().map(Vec::as_slice), out)?;
        }
        Ok(())
    }
}

impl Rows<'_> {
    /// Per instruction the rows of its function and of its line there.
    fn numbers(&self, all: &Counts, places: &HashMap<Key, u32>) -> (Vec<i64>, Vec<i64>) {
        let table = self.lines;
        let keys = table.function.iter().zip(&table.file).zip(&table.line);
        let lines: HashMap<(usize, i64, u32), i64> = keys
            .map(|((&function, &file), &line)| (function, file, line))
            .zip(0..)
            .collect();
        let mut functions = vec![-1; all.insns.len()];
        let mut lines_of = functions.clone();
        for (number, function) in self.functions.iter().enumerate() {
            for insn in &function.insns {
                let Some(&place) = places.get(&key(insn)) else {
                    continue;
                };
                functions[place as usize] = number as i64;
                let line = insn.source.line;
                let line = line.and_then(|(file, line)| lines.get(&(number, file.into(), line)));
                lines_of[place as usize] = line.copied().unwrap_or(-1);
            }
        }
        (functions, lines_of)
    }
}
