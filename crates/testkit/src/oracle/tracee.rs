//! The ptrace loop: starts, steps and ends the threads of a program and of the
//! processes it starts.
//!
//! A stop means (ptrace(2), and `ptrace_notify` in the kernel's
//! arch/x86/kernel/signal.c for the handler's entry):
//!
//! | stop | si_code | meaning |
//! |---|---|---|
//! | SIGTRAP | TRAP_TRACE, TRAP_BRKPT | one step was made |
//! | SIGTRAP | SIGTRAP | a signal frame was made, nothing was executed |
//! | fork, vfork, clone event | | the stopped thread made another |
//! | exec event | | the process has a new program and one thread |
//! | stop event, SIGTRAP | | a new thread, or the end of a stop |
//! | stop event, else | | the process is stopped until someone continues it |
//! | any other | | a signal is about to be delivered; pass it on |

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use image::Images;
use nix::sys::ptrace::{self, Event, Options as PtraceOptions};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::accesses::{self, Made};
use super::activation::{Activations, Executed};
use super::blocks::{Ran, Spot};
use super::code::{Code, ProgramPc, ProgramSp};
use super::instruction::{self, Kind, LONGEST};
use super::start::{self, Breakpoint};
use super::{Counts, Executions, Options, OracleError, ThreadCount};

/// Codes of the trap flag and of a system call's end, `asm-generic/siginfo.h`.
const TRAP_BRKPT: i32 = 1;
const TRAP_TRACE: i32 = 2;
/// Code of `int3`'s signal.
const SI_KERNEL: i32 = 0x80;
/// Code of the stop at a handler's entry.
const HANDLER_ENTRY: i32 = Signal::SIGTRAP as i32;
/// PTRACE_EVENT_STOP, which nix has no name for.
const EVENT_STOP: i32 = 128;

/// System calls after which the memory map may be another: mmap, mprotect,
/// munmap, shmat, mremap, shmdt.
const MAP_CALLS: [u64; 6] = [9, 10, 11, 30, 25, 67];
/// The system call of other times.
const INT80: [u8; 2] = [0xcd, 0x80];
const RT_SIGRETURN: u64 = 15;
/// kill and tkill have the signal as second argument, tgkill as third.
const KILL: u64 = 62;
const TKILL: u64 = 200;
const TGKILL: u64 = 234;

struct Thread {
    process: usize,
    instructions: u64,
    /// Classes of each instruction.
    classes: Vec<[u8; 3]>,
    activations: Activations,
    inherited: usize,
    /// Executions of each instruction, and those after which the next one followed,
    /// by address, in the files that are mapped now, and in those that were.
    executed: HashMap<ProgramPc, Executions>,
    /// All of them in order, and where they are, if that is asked for.
    ran: Vec<Ran>,
    spots: HashMap<ProgramPc, Spot>,
    /// Accesses that instructions made, with their index in `ran`; and indices of system calls.
    accesses: Vec<(usize, Made)>,
    calls: Vec<usize>,
    /// Accesses that the next step will make.
    about: Vec<Made>,
    before: HashMap<(String, u64), Executions>,
    /// The next instruction, and what it is.
    pc: ProgramPc,
    length: u64,
    class: [u8; 3],
    next: Executed,
    is_int80: bool,
    is_indirect: bool,
    /// Number of the system call it makes, if it makes one.
    number: u64,
    /// Signal on its way to a handler.
    delivered: i32,
    /// No step was seen yet: the first may end the system call it was born in.
    fresh: bool,
    /// Order of birth.
    order: usize,
}

/// Facts about a thread before its first stop.
struct Born {
    /// Its maker's process; `None` if that is not stepped.
    process: Option<usize>,
    /// Activations that are live in it, if it goes on where its maker is.
    live: Option<(ProgramSp, Activations)>,
}

struct Tracee {
    /// Code of every process that was stepped.
    codes: Vec<Code>,
    images: Arc<Images>,
    /// Threads that are stepped.
    threads: HashMap<Pid, Thread>,
    /// Threads that run, up to a breakpoint or to their next exec.
    running: HashMap<Pid, Option<Breakpoint>>,
    /// Threads whose maker's event came first.
    born: HashMap<Pid, Born>,
    /// Threads whose first stop came first.
    early: HashSet<Pid>,
    /// Threads of stopped processes.
    held: HashSet<Pid>,
    ended: Vec<(usize, ThreadCount)>,
    order: usize,
    options: Options,
    steps: u64,
}

/// Steps the process `pid`, which will stop itself and then call exec.
pub fn follow(pid: Pid, options: Options) -> Result<Counts, OracleError> {
    let mut tracee = Tracee {
        codes: Vec::new(),
        images: Arc::new(Images::new()),
        threads: HashMap::new(),
        running: HashMap::new(),
        born: HashMap::new(),
        early: HashSet::new(),
        held: HashSet::new(),
        ended: Vec::new(),
        order: 0,
        options,
        steps: 0,
    };
    let result = begin(pid).and_then(|()| {
        tracee.executed_program(pid, true)?;
        tracee.run()
    });
    if result.is_err() {
        tracee.kill_all(pid);
    }
    result
}

/// Seizes the stopped shell and lets it run up to its exec.
fn begin(pid: Pid) -> Result<(), OracleError> {
    waitpid(pid, Some(WaitPidFlag::WUNTRACED))?;
    let options = PtraceOptions::PTRACE_O_TRACEEXEC
        | PtraceOptions::PTRACE_O_TRACECLONE
        | PtraceOptions::PTRACE_O_TRACEFORK
        | PtraceOptions::PTRACE_O_TRACEVFORK
        | PtraceOptions::PTRACE_O_EXITKILL;
    ptrace::seize(pid, options)?;
    kill(pid, Signal::SIGCONT)?;
    loop {
        match waitpid(pid, Some(WaitPidFlag::__WALL))? {
            WaitStatus::PtraceEvent(_, _, event) if event == Event::PTRACE_EVENT_EXEC as i32 => {
                return Ok(());
            }
            WaitStatus::Stopped(..) | WaitStatus::PtraceEvent(..) => ptrace::cont(pid, None)?,
            WaitStatus::Exited(..) | WaitStatus::Signaled(..) => {
                return Err(OracleError::Start(std::io::ErrorKind::NotFound.into()));
            }
            _ => {}
        }
    }
}

impl Tracee {
    /// Until the last process has ended.
    fn run(&mut self) -> Result<Counts, OracleError> {
        let flags = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD;
        loop {
            let status = match waitpid(None, Some(flags)) {
                Err(nix::Error::ECHILD) => return Ok(self.counts()),
                status => status?,
            };
            let handled = match status {
                WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, ..) => {
                    self.retire(pid);
                    Ok(())
                }
                WaitStatus::PtraceEvent(pid, signal, event) => self.event(pid, signal, event),
                WaitStatus::Stopped(pid, signal) => self.stopped(pid, signal),
                _ => Ok(()),
            };
            match handled {
                // It was killed between its stop and our request.
                Ok(()) | Err(OracleError::Ptrace(nix::Error::ESRCH)) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn event(&mut self, pid: Pid, signal: Signal, event: i32) -> Result<(), OracleError> {
        if event == Event::PTRACE_EVENT_EXEC as i32 {
            return self.executed_program(pid, false);
        }
        if event == EVENT_STOP {
            if signal != Signal::SIGTRAP {
                self.held.insert(pid);
                return Ok(());
            }
            return self.first_stop(pid);
        }
        let child = Pid::from_raw(i32::try_from(ptrace::getevent(pid)?).unwrap_or(0));
        let born = match self.threads.get(&pid) {
            Some(maker) => Born {
                process: Some(maker.process),
                live: Some((
                    ProgramSp(ptrace::getregs(pid)?.rsp),
                    maker.activations.forked(),
                )),
            },
            None => Born {
                process: None,
                live: None,
            },
        };
        self.born.insert(child, born);
        if self.early.remove(&child) {
            self.first_stop(child)?;
        }
        self.resume(pid, None)
    }

    /// A thread is seen for the first time, or was stopped and goes on.
    fn first_stop(&mut self, pid: Pid) -> Result<(), OracleError> {
        if !self.threads.contains_key(&pid) && !self.running.contains_key(&pid) {
            let Some(born) = self.born.remove(&pid) else {
                self.early.insert(pid);
                return Ok(());
            };
            match born.process {
                Some(process) => self.adopt(pid, process, born.live)?,
                None => {
                    self.running.insert(pid, None);
                }
            }
        }
        self.resume(pid, None)
    }

    /// A process begins to run a program.
    fn executed_program(&mut self, pid: Pid, first: bool) -> Result<(), OracleError> {
        let former = Pid::from_raw(i32::try_from(ptrace::getevent(pid)?).unwrap_or(0));
        let old = self.threads.get(&former).map(|thread| thread.process);
        let threads = self.threads.iter();
        let others: Vec<Pid> = threads
            .filter(|(_, thread)| Some(thread.process) == old && !first)
            .map(|(&pid, _)| pid)
            .collect();
        for thread in others {
            self.retire(thread);
        }
        self.running.remove(&former);
        let mut breakpoint = None;
        if self.options.own_code && (first || start::is_first_program(pid, &self.codes)) {
            breakpoint = start::at_entry(pid, self.codes.len()).map_err(OracleError::Memory)?;
        } else if self.options.own_code && !start::is_interpreter(pid, &self.codes, &self.images) {
            self.running.insert(pid, None);
            return self.resume(pid, None);
        }
        self.codes
            .push(Code::new(pid, Arc::clone(&self.images)).map_err(OracleError::Memory)?);
        if breakpoint.is_some() {
            self.running.insert(pid, breakpoint);
        } else {
            self.adopt(pid, self.codes.len() - 1, None)?;
        }
        self.resume(pid, None)
    }

    /// Takes up a thread that was not known yet, made by `process`.
    fn adopt(
        &mut self,
        pid: Pid,
        mut process: usize,
        live: Option<(ProgramSp, Activations)>,
    ) -> Result<(), OracleError> {
        let registers = ptrace::getregs(pid)?;
        let (pc, sp) = (ProgramPc(registers.rip), ProgramSp(registers.rsp));
        let mut activations = None;
        if start::leader(pid) == Some(pid) && live.is_some() {
            let code = self.codes[process].forked(pid);
            self.codes.push(code.map_err(OracleError::Memory)?);
            process = self.codes.len() - 1;
            activations = live.filter(|live| live.0 == sp).map(|live| live.1);
        }
        let inherited = activations.as_ref().map_or(0, Activations::len);
        let code = &mut self.codes[process];
        let activations = activations.unwrap_or_else(|| Activations::new(code, self.steps, pc, sp));
        let (next, length, class) = look_at(code, pc);
        let order = self.order;
        self.order += 1;
        let thread = Thread {
            process,
            instructions: 0,
            classes: Vec::new(),
            activations,
            inherited,
            executed: HashMap::new(),
            ran: Vec::new(),
            spots: HashMap::new(),
            accesses: Vec::new(),
            calls: Vec::new(),
            about: match self.options.blocks {
                true => accesses::of_step(code, registers),
                false => Vec::new(),
            },
            before: HashMap::new(),
            pc,
            length,
            class,
            next,
            is_int80: code.read(pc, &mut [0; 2]) == INT80,
            is_indirect: self.options.blocks
                && instruction::is_indirect(code.read(pc, &mut [0; LONGEST]), pc),
            number: 0,
            delivered: 0,
            fresh: true,
            order,
        };
        self.threads.insert(pid, thread);
        Ok(())
    }

    /// A stop by a signal or by a step.
    fn stopped(&mut self, pid: Pid, signal: Signal) -> Result<(), OracleError> {
        if let Some(breakpoint) = self.running.get(&pid) {
            let process = breakpoint.as_ref().map_or(0, |b| b.process);
            let reached = match breakpoint {
                Some(breakpoint) if signal == Signal::SIGTRAP => {
                    breakpoint.reached(pid, &self.codes[process])?
                }
                _ => false,
            };
            if !reached {
                return self.resume(pid, Some(signal));
            }
            self.running.remove(&pid);
            self.codes[process].map_changed();
            self.adopt(pid, process, None)?;
            return self.resume(pid, None);
        }
        if !self.threads.contains_key(&pid) {
            return self.first_stop(pid);
        }
        let code = if signal == Signal::SIGTRAP {
            ptrace::getsiginfo(pid)?.si_code
        } else {
            0
        };
        match (signal, code) {
            (Signal::SIGTRAP, TRAP_TRACE | TRAP_BRKPT) => self.stepped(pid, None)?,
            (Signal::SIGTRAP, HANDLER_ENTRY) => {
                let number = self.threads[&pid].delivered;
                self.stepped(pid, Some(number))?;
            }
            _ => {
                if let Some(thread) = self.threads.get_mut(&pid) {
                    thread.delivered = signal as i32;
                    if (signal, code) == (Signal::SIGTRAP, SI_KERNEL) {
                        // `int3` is executed when it traps.
                        if self.options.blocks {
                            thread.note(&self.codes[thread.process], false);
                        }
                        thread.executed(true);
                    }
                }
                return self.resume(pid, Some(signal));
            }
        }
        self.resume(pid, None)
    }

    /// One step was made, or the frame of a handler.
    fn stepped(&mut self, pid: Pid, handler: Option<i32>) -> Result<(), OracleError> {
        self.steps += 1;
        if self.steps > self.options.step_limit {
            return Err(OracleError::TooLong(self.options.step_limit));
        }
        let registers = ptrace::getregs(pid)?;
        let (pc, sp) = (ProgramPc(registers.rip), ProgramSp(registers.rsp));
        let Some(thread) = self.threads.get_mut(&pid) else {
            return Ok(());
        };
        let code = &mut self.codes[thread.process];
        // A gather that faults in the middle traps where it is, too.
        let goes_on = matches!(thread.next.kind, Kind::Repeat | Kind::Plain);
        let unmoved = thread.pc == pc && (thread.fresh || goes_on);
        let was_fresh = std::mem::take(&mut thread.fresh);
        thread.activations.now = self.steps;
        let mut continues = false;
        // A repeated instruction makes its accesses step by step.
        if handler.is_none() && (!unmoved || !was_fresh && thread.next.kind == Kind::Repeat) {
            thread.made_accesses(code);
        }
        if self.options.blocks && (handler.is_some() || !unmoved) {
            thread.note(code, handler.is_some());
        }
        if let Some(signal) = handler {
            thread.activations.signal(code, signal, pc, sp);
        } else if !unmoved {
            thread.executed(pc.0 == thread.pc.0.wrapping_add(thread.length));
            thread.activations.retired = thread.instructions;
            if thread.next.kind == Kind::SystemCall {
                let signal = match thread.number {
                    KILL | TKILL => registers.rsi,
                    TGKILL => registers.rdx,
                    _ => 0,
                };
                continues = signal == Signal::SIGCONT as u64;
                thread.system_call(code);
            } else {
                thread.activations.arrive(code, thread.next, pc, sp);
            }
        }
        thread.pc = pc;
        (thread.next, thread.length, thread.class) = look_at(code, pc);
        thread.is_int80 = code.read(pc, &mut [0; 2]) == INT80;
        if self.options.blocks {
            thread.about = accesses::of_step(code, registers);
        }
        thread.is_indirect =
            self.options.blocks && instruction::is_indirect(code.read(pc, &mut [0; LONGEST]), pc);
        thread.number = registers.rax;
        if continues {
            for held in std::mem::take(&mut self.held) {
                self.resume(held, None)?;
            }
        }
        Ok(())
    }

    fn retire(&mut self, pid: Pid) {
        self.running.remove(&pid);
        self.held.remove(&pid);
        if let Some(mut thread) = self.threads.remove(&pid) {
            // The last instruction, `syscall`, retired without a stop.
            if thread.next.kind == Kind::SystemCall {
                if self.options.blocks {
                    thread.note(&self.codes[thread.process], false);
                }
                thread.executed(true);
            }
            thread.keep_executed(&self.codes[thread.process]);
            let (events, muted) = thread.activations.into_events();
            self.ended.push((
                thread.order,
                ThreadCount {
                    process: thread.process,
                    instructions: thread.instructions,
                    classes: thread.classes,
                    inherited: thread.inherited,
                    executed: thread.before,
                    ran: thread.ran,
                    spots: thread.spots,
                    accesses: thread.accesses,
                    calls: thread.calls,
                    events,
                    muted,
                },
            ));
        }
    }

    fn counts(&mut self) -> Counts {
        for pid in self.threads.keys().copied().collect::<Vec<_>>() {
            self.retire(pid);
        }
        self.ended.sort_by_key(|&(order, _)| order);
        Counts {
            threads: self.ended.drain(..).map(|(_, count)| count).collect(),
            processes: self.codes.drain(..).map(Code::into_functions).collect(),
        }
    }

    /// Steps on, or runs on; a thread that is being killed is gone already.
    fn resume(&self, pid: Pid, signal: Option<Signal>) -> Result<(), OracleError> {
        let resumed = if self.running.contains_key(&pid) {
            ptrace::cont(pid, signal)
        } else {
            ptrace::step(pid, signal)
        };
        match resumed {
            Ok(()) | Err(nix::Error::ESRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// After an error: nothing of the program is left.
    fn kill_all(&mut self, first: Pid) {
        let known = self.threads.keys().chain(self.running.keys());
        for &pid in known.chain(&self.early).chain(&self.held).chain([&first]) {
            // It may have ended by itself.
            let _ = kill(pid, Signal::SIGKILL);
        }
        let flags = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD;
        while let Ok(status) = waitpid(None, Some(flags)) {
            if let WaitStatus::PtraceEvent(pid, ..) | WaitStatus::Stopped(pid, _) = status {
                // As above: a process that stops now is one of them, or new.
                let _ = kill(pid, Signal::SIGKILL);
                let _ = ptrace::cont(pid, None);
            }
        }
    }
}

impl Thread {
    fn system_call(&mut self, code: &mut Code) {
        if self.number == RT_SIGRETURN {
            self.activations.signal_return();
        } else if MAP_CALLS.contains(&self.number) {
            self.keep_executed(code);
            code.map_changed();
        }
    }

    /// The instruction at `pc` was executed, or a handler called before it. Before the
    /// next one is looked at.
    fn note(&mut self, code: &Code, interrupted: bool) {
        let pc = self.pc;
        if interrupted {
            return self.ran.push(Ran::Interrupted(pc));
        }
        let kind = self.next.kind;
        if kind == Kind::SystemCall {
            self.calls.push(self.ran.len());
        }
        self.ran.push(Ran::Instruction {
            pc,
            retired: self.instructions,
            ends: kind.transfers() || kind == Kind::SystemCall || self.is_int80,
            indirect: self.is_indirect,
        });
        self.spots.entry(pc).or_insert_with(|| code.spot(pc));
    }

    /// The accesses that the step was about to make were made.
    fn made_accesses(&mut self, code: &Code) {
        let index = self.ran.len();
        for mut made in self.about.drain(..) {
            if made.access.kind.writes() {
                made.behind = accesses::bytes(code, made.access);
            }
            self.accesses.push((index, made));
        }
    }

    /// The instruction at `pc` was; `fell`: the one behind it follows.
    fn executed(&mut self, fell: bool) {
        self.instructions += 1;
        self.classes.push(self.class);
        let executions = self.executed.entry(self.pc).or_default();
        executions.count += 1;
        executions.fell += u64::from(fell);
    }

    /// Says by file what was said by address: the map is going to be another.
    fn keep_executed(&mut self, code: &Code) {
        for (pc, executions) in self.executed.drain() {
            let sum = self.before.entry(code.file_at(pc)).or_default();
            sum.count += executions.count;
            sum.fell += executions.fell;
        }
    }
}

fn look_at(code: &mut Code, pc: ProgramPc) -> (Executed, u64, [u8; 3]) {
    let mut buffer = [0; LONGEST];
    let bytes = code.read(pc, &mut buffer);
    let (kind, length) = (instruction::kind(bytes, pc), instruction::length(bytes, pc));
    let class = instruction::class(bytes, pc);
    let executed = Executed {
        kind,
        indirect: instruction::is_indirect(bytes, pc),
        place: code.place(pc),
    };
    (executed, length, class)
}
