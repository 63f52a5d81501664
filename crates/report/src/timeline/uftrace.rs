//! A folder as `uftrace record` makes it, for `uftrace report`, `replay` and `graph`.
//!
//! ```text
//! info       magic, version 4, features; the command and the threads as text
//! task.txt   one session, and its threads
//! sid-*.map  one module, which is not there: its addresses are numbers of names
//! *.sym      these names
//! TID.dat    16 bytes a record: time u64 | address : 48, depth : 10, magic 5 : 3, more : 1, type : 2
//! ```
//!
//! So functions of all modules are found by name, also where two modules had an address one after
//! the other.
//!
//! Limits: 1,024 levels; the same thread number in several process images (exec) is one thread,
//! whose time goes on where it is instructions.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use trace::Recording;

use super::{At, Clock, Form, Unit};

/// Levels that a record can say.
pub const MOST_LEVELS: u32 = 1 << 10;
/// Address of the module that stands for all.
const BASE: u64 = 0x5555_0000_0000;
const SESSION: &str = "0000000000000001";
/// Threads have sessions; addresses of symbols are relative; there is a deepest level.
const FEATURES: u64 = 1 << 1 | 1 << 5 | 1 << 6;
/// The program, the command, the threads.
const INFO: u64 = 1 | 1 << 3 | 1 << 7;

pub struct Uftrace {
    folder: PathBuf,
    tids: Vec<Vec<u32>>,
    /// File of the thread that is written.
    file: Option<BufWriter<File>>,
    /// Threads that have one.
    begun: HashSet<u32>,
    clock: Clock,
}

impl Uftrace {
    /// Writes everything but the records.
    pub fn new(
        recording: &Recording,
        names: &[String],
        unit: Unit,
        folder: &Path,
    ) -> io::Result<Uftrace> {
        let program = recording
            .processes
            .first()
            .map_or("", |process| process.program());
        let path = format!("/{program}");
        let create = |name: &str| File::create_new(folder.join(name)).map(BufWriter::new);
        let threads: BTreeMap<u32, u32> = recording
            .processes
            .iter()
            .flat_map(|process| {
                process
                    .threads
                    .iter()
                    .map(|thread| (thread.tid, process.pid))
            })
            .collect();
        write_info(create("info")?, recording, &path, &threads)?;
        let mut tasks = create("task.txt")?;
        write_tasks(&mut tasks, recording, &path)?;
        tasks.flush()?;
        let end = BASE + 16 * (names.len() as u64 + 2);
        let mut map = create(&format!("sid-{SESSION}.map"))?;
        writeln!(
            map,
            "{BASE:012x}-{end:012x} r-xp 00000000 00:00 0                          {path}"
        )?;
        // Without a stack it knows no module.
        writeln!(
            map,
            "7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0                          [stack]"
        )?;
        map.flush()?;
        write_symbols(create(&format!("{program}.sym"))?, names, &path)?;
        let of =
            |process: &trace::Process| process.threads.iter().map(|thread| thread.tid).collect();
        Ok(Uftrace {
            folder: folder.to_owned(),
            tids: recording.processes.iter().map(of).collect(),
            file: None,
            begun: HashSet::new(),
            clock: Clock::new(unit),
        })
    }

    fn record(&mut self, kind: u64, at: At, name: u32, depth: u32, time: u64) -> io::Result<()> {
        let tid = self.tids[at.0][at.1];
        let time = self.clock.time(at, tid, time);
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let path = self.folder.join(format!("{tid}.dat"));
                let file = match self.begun.insert(tid) {
                    true => File::create_new(path)?,
                    false => File::options().append(true).open(path)?,
                };
                self.file.insert(BufWriter::new(file))
            }
        };
        let address = BASE + 16 * (u64::from(name) + 1);
        let word = kind | 5 << 3 | u64::from(depth) << 6 | address << 16;
        file.write_all(&time.to_le_bytes())?;
        file.write_all(&word.to_le_bytes())
    }
}

/// Processes and their threads. One that has a parent has its names, too.
fn write_tasks(out: &mut impl Write, recording: &Recording, path: &str) -> io::Result<()> {
    let mut said = HashSet::new();
    for process in &recording.processes {
        let pid = process.pid;
        // A process that executes another program is its own parent.
        let parent = process.parent.map(|at| recording.processes[at].pid);
        match parent {
            _ if !said.insert(pid) => {}
            Some(parent) => writeln!(out, "FORK timestamp=0.000000000 pid={pid} ppid={parent}")?,
            None => {
                writeln!(
                    out,
                    "SESS timestamp=0.000000000 pid={pid} sid={SESSION} exename=\"{path}\""
                )?;
                writeln!(out, "TASK timestamp=0.000000000 tid={pid} pid={pid}")?;
            }
        }
        for thread in &process.threads {
            if said.insert(thread.tid) {
                let tid = thread.tid;
                writeln!(out, "TASK timestamp=0.000000000 tid={tid} pid={pid}")?;
            }
        }
    }
    Ok(())
}

fn write_info(
    mut info: impl Write,
    recording: &Recording,
    path: &str,
    threads: &BTreeMap<u32, u32>,
) -> io::Result<()> {
    info.write_all(b"Ftrace!\0")?;
    info.write_all(&4u32.to_le_bytes())?;
    // The header's size; little-endian; 64 bits.
    info.write_all(&[40, 0, 1, 2])?;
    for number in [FEATURES, INFO, MOST_LEVELS.into()] {
        info.write_all(&number.to_le_bytes())?;
    }
    let tids: Vec<String> = threads.keys().map(u32::to_string).collect();
    let command = recording.meta.command.join(" ").replace('\n', " ");
    writeln!(info, "exename:{path}\ncmdline:{command}\ntaskinfo:lines=2")?;
    writeln!(
        info,
        "taskinfo:nr_tid={}\ntaskinfo:tids={}",
        tids.len(),
        tids.join(",")
    )?;
    info.flush()
}

fn write_symbols(mut symbols: impl Write, names: &[String], path: &str) -> io::Result<()> {
    writeln!(
        symbols,
        "# symbols: {}\n# path name: {path}\n# build-id: ",
        names.len() + 1
    )?;
    for (at, name) in (1..).zip(names) {
        writeln!(symbols, "{:016x} T {}", 16 * at, name.replace('\n', " "))?;
    }
    writeln!(symbols, "{:016x} ? __sym_end", 16 * (names.len() + 1))?;
    symbols.flush()
}

impl Form for Uftrace {
    fn enter(&mut self, thread: At, name: u32, depth: u32, time: u64) -> io::Result<()> {
        self.record(0, thread, name, depth, time)
    }

    fn leave(&mut self, thread: At, name: u32, depth: u32, time: u64) -> io::Result<()> {
        self.record(1, thread, name, depth, time)
    }

    fn end(&mut self, _: At) -> io::Result<()> {
        self.file.take().map_or(Ok(()), |mut file| file.flush())
    }
}
