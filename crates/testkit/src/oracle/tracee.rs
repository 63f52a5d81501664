//! The ptrace loop: starts, steps and ends the threads of one process.
//!
//! A stop means (ptrace(2), and `ptrace_notify` in the kernel's
//! arch/x86/kernel/signal.c for the handler's entry):
//!
//! | stop | si_code | meaning |
//! |---|---|---|
//! | SIGTRAP | TRAP_TRACE, TRAP_BRKPT | one step was made |
//! | SIGTRAP | SIGTRAP | a signal frame was made, nothing was executed |
//! | event stop | | a thread was born, or the program called exec |
//! | any other | | a signal is about to be delivered; pass it on |

use std::collections::HashMap;

use nix::sys::ptrace::{self, Event, Options as PtraceOptions};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::activation::{Activations, Executed};
use super::code::{Code, ProgramPc, ProgramSp};
use super::instruction::{self, Kind, LONGEST};
use super::{Counts, Options, OracleError, ThreadCount};

/// Codes of the trap flag and of a system call's end, `asm-generic/siginfo.h`.
const TRAP_BRKPT: i32 = 1;
const TRAP_TRACE: i32 = 2;
/// Code of the stop at a handler's entry.
const HANDLER_ENTRY: i32 = Signal::SIGTRAP as i32;

/// System calls after which the memory map may be another: mmap, mprotect,
/// munmap, mremap.
const MAP_CALLS: [u64; 4] = [9, 10, 11, 25];
const RT_SIGRETURN: u64 = 15;

struct Thread {
    instructions: u64,
    activations: Activations,
    /// The next instruction, and what it is.
    pc: ProgramPc,
    next: Executed,
    /// Number of the system call it makes, if it makes one.
    number: u64,
    /// Signal on its way to a handler.
    delivered: i32,
    /// No step was seen yet: the first may end the system call it was born in.
    fresh: bool,
    /// Order of birth.
    order: usize,
}

struct Tracee {
    leader: Pid,
    code: Code,
    threads: HashMap<Pid, Thread>,
    /// Children that stopped before their parent's event said what they are.
    ended: Vec<(usize, ThreadCount)>,
    born: usize,
    options: Options,
    steps: u64,
}

/// Steps the process `pid`, which will stop itself and then call exec.
pub fn follow(pid: Pid, options: Options) -> Result<Counts, OracleError> {
    let result = begin(pid).and_then(|()| {
        let code = Code::new(pid).map_err(OracleError::Start)?;
        let threads = HashMap::new();
        let mut tracee = Tracee {
            leader: pid,
            code,
            threads,
            ended: Vec::new(),
            born: 0,
            options,
            steps: 0,
        };
        tracee.adopt(pid)?;
        ptrace::step(pid, None)?;
        tracee.run()
    });
    if result.is_err() {
        // It may have ended by itself; both calls say so then.
        let _ = kill(pid, Signal::SIGKILL);
        let _ = waitpid(pid, Some(WaitPidFlag::__WALL));
    }
    result
}

/// Seizes the stopped shell and lets it run up to its exec.
fn begin(pid: Pid) -> Result<(), OracleError> {
    waitpid(pid, Some(WaitPidFlag::WUNTRACED))?;
    let options = PtraceOptions::PTRACE_O_TRACEEXEC
        | PtraceOptions::PTRACE_O_TRACECLONE
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
    fn run(&mut self) -> Result<Counts, OracleError> {
        let flags = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD;
        loop {
            match waitpid(None, Some(flags))? {
                WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, ..) => {
                    self.retire(pid);
                    if pid == self.leader {
                        return Ok(self.counts());
                    }
                }
                WaitStatus::PtraceEvent(pid, _, event) => {
                    if event == Event::PTRACE_EVENT_EXEC as i32 {
                        return Err(OracleError::Exec);
                    }
                    self.adopt(pid)?;
                    resume(pid, None)?;
                }
                WaitStatus::Stopped(pid, signal) => {
                    let deliver = self.stopped(pid, signal)?;
                    resume(pid, deliver)?;
                }
                _ => {}
            }
        }
    }

    /// Takes up a thread that was not known yet.
    fn adopt(&mut self, pid: Pid) -> Result<(), OracleError> {
        if self.threads.contains_key(&pid) {
            return Ok(());
        }
        let registers = ptrace::getregs(pid)?;
        let (pc, sp) = (ProgramPc(registers.rip), ProgramSp(registers.rsp));
        let activations = Activations::new(&mut self.code, self.options.recursion, pc, sp);
        let next = self.look_at(pc);
        let order = self.born;
        self.born += 1;
        let thread = Thread {
            instructions: 0,
            activations,
            pc,
            next,
            number: 0,
            delivered: 0,
            fresh: true,
            order,
        };
        self.threads.insert(pid, thread);
        Ok(())
    }

    fn look_at(&mut self, pc: ProgramPc) -> Executed {
        let mut buffer = [0; LONGEST];
        let kind = instruction::kind(self.code.read(pc, &mut buffer), pc);
        Executed {
            kind,
            place: self.code.place(pc),
        }
    }

    /// Handles a stop; returns the signal to deliver.
    fn stopped(&mut self, pid: Pid, signal: Signal) -> Result<Option<Signal>, OracleError> {
        self.adopt(pid)?;
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
                }
                return Ok(Some(signal));
            }
        }
        Ok(None)
    }

    /// One step was made, or the frame of a handler.
    fn stepped(&mut self, pid: Pid, handler: Option<i32>) -> Result<(), OracleError> {
        self.steps += 1;
        if self.steps > self.options.step_limit {
            return Err(OracleError::TooLong(self.options.step_limit));
        }
        let registers = ptrace::getregs(pid)?;
        let (pc, sp) = (ProgramPc(registers.rip), ProgramSp(registers.rsp));
        let Some(mut thread) = self.threads.remove(&pid) else {
            return Ok(());
        };
        let unmoved = thread.pc == pc && (thread.fresh || thread.next.kind == Kind::Repeat);
        thread.fresh = false;
        if let Some(signal) = handler {
            thread.activations.signal(&mut self.code, signal, pc, sp);
        } else if !unmoved {
            thread.instructions += 1;
            self.executed(&mut thread, pc, sp);
        }
        thread.pc = pc;
        thread.next = self.look_at(pc);
        thread.number = registers.rax;
        self.threads.insert(pid, thread);
        Ok(())
    }

    fn executed(&mut self, thread: &mut Thread, pc: ProgramPc, sp: ProgramSp) {
        if thread.next.kind == Kind::SystemCall {
            if thread.number == RT_SIGRETURN {
                thread.activations.signal_return();
            } else if MAP_CALLS.contains(&thread.number) {
                self.code.map_changed();
            }
            return;
        }
        thread
            .activations
            .arrive(&mut self.code, thread.next, pc, sp);
    }

    fn retire(&mut self, pid: Pid) {
        if let Some(thread) = self.threads.remove(&pid) {
            // The last instruction, `syscall`, retired without a stop.
            let last = u64::from(thread.next.kind == Kind::SystemCall);
            let contexts = thread.activations.into_tree();
            self.ended.push((
                thread.order,
                ThreadCount {
                    instructions: thread.instructions + last,
                    contexts,
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
        }
    }
}

/// Steps on; a thread that is being killed is gone already.
fn resume(pid: Pid, signal: Option<Signal>) -> Result<(), OracleError> {
    match ptrace::step(pid, signal) {
        Ok(()) | Err(nix::Error::ESRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
