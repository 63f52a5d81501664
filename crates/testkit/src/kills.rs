//! Kills at random moments: what is left of a trace is a prefix, thread by thread.
//!
//! Problem: a trace is to hold everything up to the moment at which the program, a CLI
//! process or both are killed, by somebody or by the kernel that needs their memory, and a
//! program whose observer is killed is to go on.
//!
//! Approach: `threads.c` executes the same in each thread whenever it runs. A whole trace of
//! it is the reference; in each round somebody is killed at a random moment, and what the
//! file has is compared with the reference, instruction by instruction.
//!
//! Limits: how much is lost is only measured: against the reference, in the table's figures.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use analysis::walk::{Event, Pieces, Walk};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use trace::{End, Prefix, ReadError, Recording};

use self::scarcity::Scarcity;
use crate::folder::Folder;
use crate::process;
use crate::soak::random::Random;

mod scarcity;

/// Steps of each thread of the program; it takes two milliseconds for each.
const STEPS: u32 = 150;
/// The program, and how it is compiled besides `-DROUNDS=` and `-DSCALE=`.
pub const THREADS: &str = include_str!("kills/threads.c");
pub const FLAGS: [&str; 4] = ["-O1", "-nostdlib", "-static", "-fno-stack-protector"];
/// Address at which the linker puts the program's code.
const BASE: u64 = 0x40_0000;
/// A program whose CLI was killed has so long to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// Process that is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    Program,
    /// The process that was started: the program ends, and all is recorded.
    Started,
    /// The process that records.
    Cli,
    /// The program and the process that records.
    Both,
    /// The program, killed by the kernel for want of memory.
    ProgramForMemory,
    CliForMemory,
}

impl Victim {
    /// Victims that can be killed on any system.
    pub const ALL: [Victim; 4] = [Victim::Program, Victim::Started, Victim::Cli, Victim::Both];
    /// By the kernel, which has to be let do it: a memory cgroup can be made.
    pub const FOR_MEMORY: [Victim; 2] = [Victim::ProgramForMemory, Victim::CliForMemory];

    /// The program ends by it, and is recorded to its end.
    pub fn is_program(self) -> bool {
        use Victim::{Program, ProgramForMemory, Started};
        matches!(self, Program | ProgramForMemory | Started)
    }

    /// The process that records alone.
    fn is_cli(self) -> bool {
        matches!(self, Victim::Cli | Victim::CliForMemory)
    }
}

/// Findings of a round.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    pub victim: Victim,
    /// Threads in the file, and their instructions.
    pub threads: usize,
    pub instructions: u64,
    /// Bytes of a torn chunk.
    pub torn: u64,
    /// When the last part was recorded, before the kill.
    pub behind: Option<Duration>,
}

/// A program with the traces of its threads.
pub struct Bench {
    product: PathBuf,
    folder: Folder,
    reference: Vec<Vec<u16>>,
    /// How long the program takes, about: with other work on the machine that changes.
    took: Duration,
    /// Size in bytes of a whole trace's file.
    size: u64,
}

/// When somebody is killed.
#[derive(Clone, Copy, Debug)]
pub enum Moment {
    /// A time after the program has begun.
    After(Duration),
    /// When the file has so many hundredths of its size in the end: however busy the machine is,
    /// something is recorded by then and something is not.
    Written(u64),
}

impl Bench {
    /// Compiles the program and traces it as a whole, twice. `scale`: how much it executes in
    /// its time, ten million instructions each.
    pub fn new(product: PathBuf, scale: u32) -> Result<Bench, String> {
        let folder = Folder::new("kills");
        let steps = format!("-DROUNDS={STEPS}");
        let scale = format!("-DSCALE={scale}");
        let numbers = [steps.as_str(), scale.as_str()];
        let flags: Vec<&str> = FLAGS.into_iter().chain(numbers).collect();
        folder.program(&flags, "threads", THREADS);
        let mut bench = Bench {
            product,
            folder,
            reference: Vec::new(),
            took: Duration::ZERO,
            size: 0,
        };
        bench.reference = bench.whole()?;
        let started = Instant::now();
        let again = bench.whole()?;
        bench.took = started.elapsed() / 2;
        let file = std::fs::metadata(bench.folder.file("killed.evp"));
        bench.size = file.map_err(|error| error.to_string())?.len();
        if again != bench.reference {
            return Err("the program does not execute the same when it runs again".into());
        }
        Ok(bench)
    }

    /// Instructions of each thread of the reference.
    pub fn lengths(&self) -> Vec<usize> {
        self.reference.iter().map(Vec::len).collect()
    }

    fn whole(&self) -> Result<Vec<Vec<u16>>, String> {
        let mut child = self.start(None)?;
        let status = child.wait().map_err(|error| error.to_string())?;
        let prefix = self.left()?.ok_or("there is no file")?;
        if !status.success() || prefix.lost.is_some() {
            return Err(format!("{status}, {:?}", prefix.lost));
        }
        let mut sequences = sequences(&prefix.recording)?;
        sequences.sort();
        Ok(sequences)
    }

    fn start(&self, scarcity: Option<&Scarcity>) -> Result<Child, String> {
        let file = self.folder.file("killed.evp");
        // The file of the round before.
        let _ = std::fs::remove_file(&file);
        let mut command = match scarcity {
            None => Command::new("setarch"),
            Some(scarcity) => scarcity.command("setarch"),
        };
        command.arg("-R").arg(&self.product);
        command.args(["trace", "-q", "-o"]).arg(&file);
        command.args(["--", "./threads"]);
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command.stdout(Stdio::piped());
        command.spawn().map_err(|error| error.to_string())
    }

    /// Waits until `moment`, or until the run has ended.
    fn wait_for(&self, moment: Moment, cli: &mut Child) {
        let size = match moment {
            Moment::After(time) => return std::thread::sleep(time),
            Moment::Written(percent) => self.size * percent / 100,
        };
        let file = self.folder.file("killed.evp");
        while std::fs::metadata(&file).map_or(0, |file| file.len()) < size
            && cli.try_wait().is_ok_and(|status| status.is_none())
        {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Readable contents of the file; `None`: there is none.
    fn left(&self) -> Result<Option<Prefix>, String> {
        let Ok(file) = File::open(self.folder.file("killed.evp")) else {
            return Ok(None);
        };
        let prefix = trace::read_prefix(file);
        prefix.map(Some).map_err(|error| error.to_string())
    }

    /// Kills somebody at a moment that `random` says.
    pub fn round(&mut self, victim: Victim, random: &mut Random) -> Result<Found, String> {
        let micros = random.below(self.took.as_micros() as usize);
        let moment = Moment::After(Duration::from_micros(micros as u64));
        self.round_at(victim, moment, random)
    }

    /// Kills somebody at `moment`.
    pub fn round_at(
        &mut self,
        victim: Victim,
        moment: Moment,
        random: &mut Random,
    ) -> Result<Found, String> {
        let scarcity = match victim {
            Victim::ProgramForMemory | Victim::CliForMemory => Some(Scarcity::new()?),
            _ => None,
        };
        let mut cli = self.start(scarcity.as_ref())?;
        let pids = processes(&mut cli)?;
        self.wait_for(moment, &mut cli);
        let killed_at = std::time::SystemTime::now();
        match (pids, scarcity) {
            (Some(pids), None) => strike(victim, &pids, random),
            (Some(pids), Some(scarcity)) => {
                scarcity.strike(pids.short_of_memory(victim))?;
            }
            (None, _) => {}
        }
        let said = said(&mut cli)?;
        cli.wait().map_err(|error| error.to_string())?;
        if victim.is_cli() && said != "done\n" {
            return Err(format!("the program did not go on to its end: {said:?}"));
        }
        let Some(prefix) = self.left()? else {
            return match victim.is_program() {
                true => Err("there is no file".into()),
                false => Ok(Found::nothing(victim)),
            };
        };
        let torn = match prefix.lost {
            None => 0,
            Some(loss) => match loss.error {
                ReadError::Unfinished { torn } if !victim.is_program() => torn,
                error => return Err(format!("{error}")),
            },
        };
        let recording = prefix.recording;
        let end = recording.meta.end;
        let is_told = matches!(end, End::Signaled { signal: 9, .. } | End::Exited(0));
        if victim.is_program() && !is_told {
            return Err(format!(
                "the recording says that the program ended as {end:?}"
            ));
        }
        let sequences = sequences(&recording)?;
        let instructions = sequences.iter().map(|all| all.len() as u64).sum();
        self.compare(&sequences)?;
        self.adapt(instructions);
        Ok(Found {
            victim,
            threads: sequences.len(),
            instructions,
            torn,
            behind: behind(&recording, killed_at),
        })
    }

    /// Moments come earlier after a run that was recorded whole, and later after a part.
    fn adapt(&mut self, instructions: u64) {
        let all: usize = self.lengths().iter().sum();
        self.took = match instructions == all as u64 {
            true => self.took * 9 / 10,
            false => self.took * 103 / 100,
        };
    }

    /// Each is a prefix of another one of the reference: which thread is recorded first
    /// depends on the moment.
    fn compare(&self, sequences: &[Vec<u16>]) -> Result<(), String> {
        let mut sequences: Vec<&Vec<u16>> = sequences.iter().collect();
        sequences.sort_by_key(|sequence| std::cmp::Reverse(sequence.len()));
        let mut left: Vec<&Vec<u16>> = self.reference.iter().collect();
        for sequence in sequences {
            let of = left.iter().position(|whole| whole.starts_with(sequence));
            let of = of.ok_or_else(|| {
                let same = |whole: &&Vec<u16>| {
                    let pairs = whole.iter().zip(sequence);
                    pairs.take_while(|(a, b)| a == b).count()
                };
                let same = left.iter().map(same).max();
                let length = sequence.len();
                format!("{length} instructions are no prefix of a thread: {same:?} agree")
            })?;
            left.swap_remove(of);
        }
        Ok(())
    }
}

impl Found {
    fn nothing(victim: Victim) -> Found {
        Found {
            victim,
            threads: 0,
            instructions: 0,
            torn: 0,
            behind: None,
        }
    }
}

/// The processes of a run.
struct Pids {
    started: Pid,
    /// Records.
    observer: Pid,
    program: Pid,
}

impl Pids {
    fn short_of_memory(&self, victim: Victim) -> Pid {
        match victim.is_cli() {
            true => self.observer,
            false => self.program,
        }
    }
}

/// Kills; of both, in either order.
fn strike(victim: Victim, pids: &Pids, random: &mut Random) {
    let &Pids {
        started,
        observer,
        program,
    } = pids;
    let order = match victim {
        Victim::Program | Victim::ProgramForMemory => vec![program],
        Victim::Started => vec![started],
        Victim::Cli | Victim::CliForMemory => vec![observer],
        Victim::Both if random.percent(50) => vec![program, observer],
        Victim::Both => vec![observer, program],
    };
    for pid in order {
        // A process that has ended is no error: the moment was late.
        let _ = kill(pid, Signal::SIGKILL);
    }
}

/// From when the last part was recorded to the kill.
fn behind(recording: &Recording, killed: std::time::SystemTime) -> Option<Duration> {
    let threads = recording
        .processes
        .iter()
        .flat_map(|process| &process.threads);
    let last = threads.flat_map(|thread| &thread.stream);
    let last = last.map(|part| part.taken_unix_ns).max()?;
    let killed = killed.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(killed.saturating_sub(Duration::from_nanos(last)))
}

/// Standard output of the program, whoever its parent is by now.
fn said(cli: &mut Child) -> Result<String, String> {
    let mut pipe = cli.stdout.take().ok_or("standard output is no pipe")?;
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        let read = pipe.read_to_string(&mut text).map(|_| text);
        drop(sender.send(read));
    });
    let text = receiver.recv_timeout(PATIENCE);
    let text = text.map_err(|_| format!("the program runs for more than {PATIENCE:?}"))?;
    text.map_err(|error| error.to_string())
}

/// All, once there is a program; `None`: they have ended already.
fn processes(everypath: &mut Child) -> Result<Option<Pids>, String> {
    let started = Pid::from_raw(everypath.id().cast_signed());
    for _ in 0..5000 {
        let observer = process::observer(started);
        let program = observer.and_then(|observer| process::children(observer).first().copied());
        if let (Some(observer), Some(program)) = (observer, program) {
            return Ok(Some(Pids {
                started,
                observer,
                program,
            }));
        }
        if everypath.try_wait().is_ok_and(|status| status.is_some()) {
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Err("everypath starts nothing".into())
}

/// Addresses of all instructions of each thread; how it went on must be known.
fn sequences(recording: &Recording) -> Result<Vec<Vec<u16>>, String> {
    let mut all = Vec::new();
    for process in &recording.processes {
        let mut pieces = Pieces::of(process);
        for thread in &process.threads {
            let mut sequence = Vec::new();
            let mut walk = Walk::new(&mut pieces, thread);
            while let Some(event) = walk.next() {
                let event = event.map_err(|error| {
                    format!("thread {}, {}: {error}", thread.tid, sequence.len())
                })?;
                if let Event::Executed(steps) = event {
                    sequence.extend(steps.iter().map(|step| (step.pc - BASE) as u16));
                }
            }
            all.push(sequence);
        }
    }
    Ok(all)
}
