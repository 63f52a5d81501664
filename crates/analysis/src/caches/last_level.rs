//! The last level of a process: asked by all of its threads, in their order.
//!
//! Approach: each thread is read by a worker, with its private caches; what these miss goes through a
//! channel to the calling thread, which has the last level and takes from the thread whose turn it is. A
//! worker that is ahead waits when its channel is full, so memory is bounded.
//!
//! Invariants: the calling thread waits for one worker only, and that one does not wait for anybody,
//! as its channel is empty then. Misses are those of threads that are read one after the other.

use std::io;
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use isa::memory::Selection;
use trace::{Process, Thread};

use super::core::{Core, Missed, Touch};
use super::{Cache, Config};
use crate::activations::contexts::Log;
use crate::turns::{self, Read, Turn};
use crate::walk::{Accessed, Bytes, Code, Order, Step};

/// Touches and turns of a message.
const MOST: usize = 1 << 14;
/// Messages of a thread that wait.
const WAITING: usize = 4;

/// A part of what a thread did.
#[derive(Default)]
struct Message {
    touches: Vec<Touch>,
    /// Number of touches at the end of each turn that is over here, and the time then.
    turns: Vec<(usize, u64)>,
}

/// Sends what a thread asks.
struct Sender<'a> {
    core: Core<'a>,
    turns: Vec<(usize, u64)>,
    to: SyncSender<Message>,
}

impl Sender<'_> {
    /// Reads the thread; without its turns, if it is alone.
    fn read(
        &mut self,
        pair: (&Process, &Thread),
        selection: Selection,
        is_alone: bool,
    ) -> io::Result<Read> {
        let read = match is_alone {
            true => turns::apart(&[pair], selection, self)?.pop(),
            false => Some(turns::one(pair, selection, self, |sender, time| {
                sender.turns.push((sender.core.touches.len(), time));
                sender.send_if_full();
            })?),
        };
        self.send();
        Ok(read.unwrap_or_default())
    }

    fn send(&mut self) {
        let message = Message {
            touches: std::mem::take(&mut self.core.touches),
            turns: std::mem::take(&mut self.turns),
        };
        // The receiver is there until all is over.
        let _ = self.to.send(message);
    }

    fn send_if_full(&mut self) {
        if self.core.touches.len().max(self.turns.len()) >= MOST {
            self.send();
        }
    }
}

impl Turn for Sender<'_> {
    fn executed(&mut self, at: usize, steps: &[Step], all: &[Accessed], bytes: Bytes<'_>) {
        self.core.executed(at, steps, all, bytes);
        self.send_if_full();
    }

    fn written(&mut self, _: usize, _: &Code) -> io::Result<()> {
        Ok(())
    }
}

/// A thread as the last level sees it.
struct Incoming {
    from: Receiver<Message>,
    message: Message,
    touch: usize,
    turn: usize,
    missed: Missed,
}

impl Incoming {
    /// Its touches up to the end of its turn, and the time then; `None`: it is over.
    fn turn(&mut self, ll: &mut Cache) -> Option<u64> {
        loop {
            let ends = self.message.turns.get(self.turn).copied();
            let end = ends.map_or(self.message.touches.len(), |(end, _)| end);
            for touch in &self.message.touches[self.touch..end] {
                if !ll.access(touch.address, touch.size.into()) {
                    self.missed.add(touch);
                }
            }
            self.touch = end;
            if let Some((_, time)) = ends {
                self.turn += 1;
                return Some(time);
            }
            self.message = self.from.recv().ok()?;
            (self.touch, self.turn) = (0, 0);
        }
    }
}

/// Has the threads of a process use their caches. `logs`: of their contexts, if these are asked for.
pub(super) fn run<'a>(
    threads: &[(&'a Process, &'a Thread)],
    selection: Selection,
    config: &Config,
    logs: &[Option<&'a Log>],
) -> Vec<(Core<'a>, Read)> {
    let mut ll = config.ll.make();
    let is_alone = threads.len() == 1;
    thread::scope(|scope| {
        let (mut workers, mut incoming) = (Vec::new(), Vec::new());
        for (&pair, &log) in threads.iter().zip(logs) {
            let (to, from) = sync_channel(WAITING);
            incoming.push(Incoming {
                from,
                message: Message::default(),
                touch: 0,
                turn: 0,
                missed: Missed::default(),
            });
            workers.push(scope.spawn(move || {
                let mut sender = Sender {
                    core: Core::new(config, log),
                    turns: Vec::new(),
                    to,
                };
                let read = sender.read(pair, selection, is_alone);
                (sender.core, read.unwrap_or_default())
            }));
        }
        in_order(&mut incoming, &mut ll);
        let all = workers.into_iter().zip(incoming);
        let all = all.map(|(worker, incoming)| {
            // Workers do not panic; if one does, so do we.
            let (mut core, read) = match worker.join() {
                Ok(done) => done,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            core.missed(&incoming.missed);
            (core, read)
        });
        all.collect()
    })
}

fn in_order(incoming: &mut [Incoming], ll: &mut Cache) {
    let mut order = Order::of(incoming.len());
    while let Some(next) = order.next() {
        loop {
            let turn = match incoming[next].turn(ll) {
                Some(time) if order.stays(next, time) => ControlFlow::Continue(()),
                _ => ControlFlow::Break(()),
            };
            if turn.is_break() {
                break;
            }
        }
    }
}
