//! A thread's stream as packets of Intel Processor Trace, for decoders of these.
//!
//! Problem: decoders (libipt, perf, debuggers) know one form of a control-flow trace.
//!
//! Approach: outcomes become TNT bits, targets TIP packets; where the kernel runs, tracing
//! is off, as in a trace of user code alone: what enters the kernel ends with TIP.PGD, and
//! TIP.PGE says where it goes on. Signals are a FUP with where they came, then the same.
//! Returns to where their call came from are TNT bits, too (RET compression). Packets are
//! those of the Intel SDM, vol. 3, "Intel Processor Trace", "Packet Definitions".
//!
//! ```text
//! PSB  MODE.Exec  PSBEND  TIP.PGE 401000  TNT .1.1.0  TIP 7f..0540  ...  TIP.PGD
//! ```
//!
//! Invariants: an address that a packet names is come to once between the packet before
//! and it, or [`Writer::part`] has separated where that would not be so. What is compressed
//! is on the decoder's stack, whether that takes returns with a TIP from it or not.
//!
//! Limits: no time, no core-to-bus ratio, no PIP. Code that a program changes is said with a
//! PTWRITE packet ([`Writer::code`]), which decoders do not know what to do with.

mod packets;

use std::collections::HashMap;
use std::io::{self, Write};

use analysis::walk::{Key, Pieces, Run, RunEvent, Runs, Step, Unsound};
use isa::Flow;
use packets::{Packets, Tip};
use trace::{Process, Thread};

/// How packets are written.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    /// Returns as TNT bits where that is exact.
    pub compress_returns: bool,
}

/// Returns that a decoder remembers (Intel SDM).
const MOST_CALLS: usize = 64;
/// Direct branches without a packet that are remembered, before they get some.
const MOST_PATH: usize = 256;
/// Bytes between two places to begin at.
const BETWEEN_PSBS: u64 = 1 << 18;

/// Writes a thread's packets: the instructions they stand for, and why no more.
pub fn write(
    pieces: &mut Pieces,
    thread: &Thread,
    form: Form,
    out: &mut dyn Write,
) -> io::Result<(u64, Option<Unsound>)> {
    let mut runs = Runs::new(pieces, thread);
    let mut writer = Writer {
        packets: Packets::new(out),
        form,
        known: HashMap::new(),
        enabled: false,
        here: 0,
        fragment: 0,
        calls: Vec::new(),
        path: Vec::new(),
        synced: 0,
    };
    let mut number = 0;
    let mut failed = None;
    writer.packets.sync(None)?;
    while let Some(did) = runs.next() {
        match did {
            Ok(RunEvent::Ran(run)) => {
                number += run.len();
                writer.run(&runs, &run)?;
            }
            Ok(RunEvent::Went { .. }) => writer.part()?,
            Ok(RunEvent::Entered | RunEvent::Stack(_)) => {}
            Err(error) => failed = Some(error),
        }
    }
    writer.part()?;
    writer.packets.finish()?;
    Ok((number, failed))
}

/// The code of a process, for who decodes its packets: pieces, each after its head of
/// fragment (4 bytes), length (4) and address (8), little-endian.
pub fn write_code(process: &Process, out: &mut dyn Write) -> io::Result<()> {
    for fragment in &process.fragments {
        for (piece, bytes) in fragment.code_of_pieces() {
            out.write_all(&fragment.id.to_le_bytes())?;
            out.write_all(&piece.len.to_le_bytes())?;
            out.write_all(&piece.pc.to_le_bytes())?;
            out.write_all(bytes)?;
        }
    }
    Ok(())
}

/// Branches of a run for which there are packets.
#[derive(Clone, Copy, Debug)]
enum Mark {
    /// A direct jump or call is made; what a call comes back to.
    Direct {
        target: u64,
        back: Option<u64>,
    },
    Conditional,
    /// An indirect jump, or a call and what it comes back to.
    Indirect {
        back: Option<u64>,
    },
    Return,
    /// The kernel is entered, or a far branch made; whether it goes on there in the same run.
    Far {
        next: u64,
        goes_on: bool,
    },
    /// A transaction begins, and is aborted.
    Abort {
        next: u64,
        target: u64,
    },
    /// The code of a fragment begins, at an address.
    Code {
        fragment: u32,
        pc: u64,
    },
}

#[derive(Debug)]
struct Shape {
    marks: Box<[Mark]>,
    /// Address of the run, and of the instruction after it if it does not branch.
    start: u64,
    next: u64,
    /// Its last instruction does not branch.
    falls: bool,
    /// Fragment of its last instruction.
    fragment: u32,
}

struct Writer<'a> {
    packets: Packets<'a>,
    form: Form,
    known: HashMap<(Key, u32), Shape>,
    /// Tracing is on.
    enabled: bool,
    /// Address of the next instruction.
    here: u64,
    /// Whose code that is.
    fragment: u32,
    /// Return addresses of the open calls that a decoder is sure to know.
    calls: Vec<u64>,
    /// Targets of direct branches since the last packet.
    path: Vec<u64>,
    /// Bytes when a decoder could begin last.
    synced: u64,
}

impl Writer<'_> {
    fn run(&mut self, runs: &Runs<'_>, run: &Run) -> io::Result<()> {
        if run.is_empty() {
            return Ok(());
        }
        let key = (run.key(), self.fragment);
        let shape = match self.known.remove(&key) {
            Some(shape) => shape,
            None => shape(runs.steps(run), self.fragment),
        };
        let done = self.shaped(runs, run, &shape);
        self.known.insert(key, shape);
        done
    }

    fn shaped(&mut self, runs: &Runs<'_>, run: &Run, shape: &Shape) -> io::Result<()> {
        if !self.enabled {
            self.enable(shape.start)?;
        } else if self.packets.len() - self.synced > BETWEEN_PSBS {
            self.settle()?;
            self.packets.sync(Some(shape.start))?;
            self.synced = self.packets.len();
            self.calls.clear();
        }
        self.here = shape.next;
        for &mark in &shape.marks {
            self.mark(runs, run, mark)?;
        }
        if shape.falls {
            self.here = shape.next;
        }
        self.fragment = shape.fragment;
        Ok(())
    }

    fn mark(&mut self, runs: &Runs<'_>, run: &Run, mark: Mark) -> io::Result<()> {
        match mark {
            Mark::Direct { target, back } => {
                if let Some(back) = back {
                    self.call(back);
                }
                self.path.push(target);
                self.here = target;
                if self.path.len() > MOST_PATH {
                    self.settle()?;
                }
            }
            Mark::Conditional => {
                let taken = run.outcome == Some(true);
                if let (true, Some(&step)) = (taken, runs.steps(run).last())
                    && let Flow::Cond(_, target) | Flow::CountJump(target) = step.flow
                {
                    self.here = target;
                }
                self.bit(taken)?;
            }
            Mark::Indirect { back } => {
                if let Some(back) = back {
                    self.call(back);
                }
                self.target(runs.here())?;
            }
            Mark::Return => self.return_to(runs.here())?,
            Mark::Far { next, goes_on } => {
                self.packets.tip(Tip::Disable, None)?;
                self.path.clear();
                self.enabled = false;
                self.here = next;
                if goes_on {
                    self.enable(next)?;
                }
            }
            Mark::Abort { next, target } => {
                self.here = next;
                self.part()?;
                self.enable(target)?;
                self.here = target;
            }
            Mark::Code { fragment, pc } => {
                self.settle()?;
                self.packets.payload(fragment, pc)?;
                self.path.clear();
            }
        }
        Ok(())
    }

    fn return_to(&mut self, target: u64) -> io::Result<()> {
        if self.form.compress_returns && self.calls.last() == Some(&target) {
            self.calls.pop();
            self.here = target;
            return self.bit(true);
        }
        self.calls.clear();
        self.target(target)
    }

    fn call(&mut self, back: u64) {
        if self.calls.len() == MOST_CALLS {
            self.calls.remove(0);
        }
        self.calls.push(back);
    }

    fn bit(&mut self, taken: bool) -> io::Result<()> {
        self.path.clear();
        self.packets.bit(taken)
    }

    fn target(&mut self, target: u64) -> io::Result<()> {
        self.path.clear();
        self.here = target;
        self.packets.tip(Tip::To, Some(target))
    }

    fn enable(&mut self, pc: u64) -> io::Result<()> {
        self.enabled = true;
        self.path.clear();
        self.packets.tip(Tip::Enable, Some(pc))
    }

    /// Something comes in between, before what is executed next.
    fn part(&mut self) -> io::Result<()> {
        if self.enabled {
            self.settle()?;
            self.packets.tip(Tip::From, Some(self.here))?;
            self.packets.tip(Tip::Disable, None)?;
            self.enabled = false;
        }
        Ok(())
    }

    /// Makes it certain which time an address is meant, if the way from the last packet
    /// may have come there twice: direct branches get packets of their own.
    fn settle(&mut self) -> io::Result<()> {
        for target in std::mem::take(&mut self.path) {
            self.packets.tip(Tip::Disable, Some(target))?;
            self.packets.tip(Tip::Enable, Some(target))?;
        }
        Ok(())
    }
}

fn shape(steps: &[Step], mut fragment: u32) -> Shape {
    let mut marks = Vec::new();
    let mut next = 0;
    for (at, step) in steps.iter().enumerate() {
        if step.fragment != fragment {
            fragment = step.fragment;
            marks.push(Mark::Code {
                fragment,
                pc: step.pc,
            });
        }
        next = step.pc.wrapping_add(step.len.into());
        marks.extend(match step.flow {
            Flow::Next => None,
            Flow::Jump(target) => Some(Mark::Direct { target, back: None }),
            Flow::Call(target) => Some(Mark::Direct {
                target,
                // A call of what is behind it only asks where that is.
                back: (target != next).then_some(next),
            }),
            Flow::Cond(..) | Flow::CountJump(_) => Some(Mark::Conditional),
            Flow::IndirectJump => Some(Mark::Indirect { back: None }),
            Flow::IndirectCall => Some(Mark::Indirect { back: Some(next) }),
            Flow::Return(_) => Some(Mark::Return),
            Flow::TransactionBegin(target) => Some(Mark::Abort { next, target }),
            Flow::Syscall | Flow::Int80 | Flow::Far(_) | Flow::Odd | Flow::Trap => {
                let goes_on = at + 1 < steps.len();
                Some(Mark::Far { next, goes_on })
            }
        });
    }
    Shape {
        marks: marks.into(),
        start: steps.first().map_or(0, |step| step.pc),
        next,
        falls: steps.last().is_some_and(|last| last.flow == Flow::Next),
        fragment,
    }
}
