//! Stamps among what a thread did: times, or stack pointers.
//!
//! Problem: stamps stand in the lane of targets as they were made, without a position.
//!
//! Approach: the code says which instructions have stamps. What a walk finds is cut before
//! each of them that has a time, and the stamp that comes next in the lane is given there. It
//! says when that began which follows it, up to the next stamp; that of an atomic
//! instruction, when the first instruction which follows it had been executed. Who wants
//! stack pointers is given them behind the instruction that said something about them, and
//! behind [`Found::Went`].
//!
//! Invariants: without the stamps, and with its pieces put together, what is given is what
//! an ordinary walk gives. A stamp that is not there (the thread was killed, or the program
//! forbids itself to read the counter) is left out; the others stay where they belong.

use std::collections::VecDeque;

use trace::stream::{LANES, STAMP, TARGETS, stamp};

use super::code::Mark;
use super::{Found, Unsound, Walk};

/// Stamps that are read ahead, before an escape.
const MOST_AHEAD: usize = 1 << 16;

/// When something was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    pub kind: StampKind,
    /// The processor's time-stamp counter.
    pub time: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StampKind {
    /// Time just after the atomic instruction or fence that follows.
    Sync,
    /// Before the system call that follows.
    Enter,
    /// Time after the last system call.
    Leave,
    /// Time at which the thread begins, control goes without a branch, or a keyframe is.
    Came,
    /// Time at which the thread ends.
    End,
    /// No time, but the stack pointer.
    Stack,
    /// The stack pointer after an instruction that loads it from the frame pointer.
    Frame,
}

impl Stamp {
    /// A time of 0 was not read.
    fn found(self) -> Option<Found> {
        match self.kind {
            kind if kind.is_stack() => Some(Found::Stack(self.time)),
            _ if self.time == 0 => None,
            _ => Some(Found::Stamp(self)),
        }
    }
}

impl StampKind {
    fn is_stack(self) -> bool {
        stamp::is_stack(self.number())
    }

    pub(super) fn of(number: u8) -> Option<StampKind> {
        Some(match number {
            stamp::SYNC => StampKind::Sync,
            stamp::ENTER => StampKind::Enter,
            stamp::LEAVE => StampKind::Leave,
            stamp::CAME => StampKind::Came,
            stamp::END => StampKind::End,
            stamp::STACK => StampKind::Stack,
            stamp::FRAME => StampKind::Frame,
            _ => return None,
        })
    }

    pub(super) fn number(self) -> u8 {
        match self {
            StampKind::Sync => stamp::SYNC,
            StampKind::Enter => stamp::ENTER,
            StampKind::Leave => stamp::LEAVE,
            StampKind::Came => stamp::CAME,
            StampKind::End => stamp::END,
            StampKind::Stack => stamp::STACK,
            StampKind::Frame => stamp::FRAME,
        }
    }
}

/// Which stamps are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Times,
    Stacks,
}

impl Wanted {
    fn has(self, kind: StampKind) -> bool {
        kind.is_stack() == (self == Wanted::Stacks)
    }

    fn has_mark(self, mark: Mark) -> bool {
        matches!(mark, Mark::Stack | Mark::Frame) == (self == Wanted::Stacks)
    }
}

/// Stamps and instructions that a walk with stamps has read and not given yet.
pub(super) struct Stamps {
    wanted: Wanted,
    /// Read before they are asked for.
    ahead: VecDeque<Stamp>,
    /// They are all that is before an escape, up to which not everything is given yet.
    is_closed: bool,
    ready: VecDeque<Found>,
    /// Executed instructions that are not given yet.
    rest: Option<Executed>,
}

#[derive(Clone, Copy)]
struct Executed {
    piece: u32,
    from: u32,
    to: u32,
    outcome: Option<bool>,
}

impl Executed {
    fn found(self) -> Found {
        let Executed {
            piece,
            from,
            to,
            outcome,
        } = self;
        Found::Executed {
            piece,
            from,
            to,
            outcome,
        }
    }
}

impl Walk<'_> {
    /// Gives times, too, and executed instructions in pieces before and after them.
    #[must_use]
    pub fn with_stamps(self) -> Self {
        self.with(Wanted::Times)
    }

    /// Gives stack pointers, too, and executed instructions in pieces up to them.
    #[must_use]
    pub(super) fn with_stacks(self) -> Self {
        self.with(Wanted::Stacks)
    }

    fn with(mut self, wanted: Wanted) -> Self {
        self.stamps = Some(Box::new(Stamps {
            wanted,
            ahead: VecDeque::new(),
            is_closed: false,
            ready: VecDeque::new(),
            rest: None,
        }));
        self
    }

    /// Takes a stamp that comes next in its lane.
    pub(super) fn take_stamp(&mut self) -> Result<Option<Stamp>, Unsound> {
        if let (Some(packed), true) = (&mut self.packed, self.lanes.is_empty()) {
            let reads_all = self.rest.as_ref().is_some_and(|rest| rest.reads_stamps);
            return packed.stamp(reads_all || self.stamps.is_some());
        }
        let has_lane = self.lanes.len() == LANES;
        let Some(lane) = self.lanes.get_mut(TARGETS).filter(|_| has_lane) else {
            return Ok(None);
        };
        if lane.peek()? != Some(STAMP) {
            return Ok(None);
        }
        let number = lane.ahead(2)?.get(1).copied();
        let (Some(number), true) = (number, lane.ahead(trace::stream::STAMP_LEN)?.len() > 9) else {
            // The thread was killed before it had written that one.
            lane.skip_all();
            return Ok(None);
        };
        let kind = StampKind::of(number).ok_or(Unsound::Item(number))?;
        lane.skip(2);
        let time = u64::from_le_bytes(lane.array()?);
        let stamp = Stamp { kind, time };
        if let Some(packed) = &mut self.packed {
            packed.stamped(stamp)?;
        }
        Ok(Some(stamp))
    }

    /// Takes all stamps that come next in their lane, before an escape.
    pub(super) fn take_stamps(&mut self) -> Result<(), Unsound> {
        if let Some(stamps) = &mut self.stamps {
            stamps.is_closed = true;
        }
        self.take_more_stamps()
    }

    /// Takes all stamps that come next in their lane.
    pub(super) fn take_more_stamps(&mut self) -> Result<(), Unsound> {
        while let Some(stamp) = self.take_stamp()? {
            if let Some(stamps) = &mut self.stamps
                && stamps.wanted.has(stamp.kind)
            {
                stamps.ahead.push_back(stamp);
                if stamps.ahead.len() > MOST_AHEAD {
                    return Err(Unsound::Item(STAMP));
                }
            }
        }
        Ok(())
    }

    /// The next stamp, if it is of a kind that is wanted.
    fn next_stamp(
        &mut self,
        is_wanted: impl Fn(StampKind) -> bool,
    ) -> Result<Option<Stamp>, Unsound> {
        let is_open = |stamps: &Stamps| stamps.ahead.is_empty() && !stamps.is_closed;
        while self.stamps.as_deref().is_some_and(is_open)
            && let Some(stamp) = self.take_stamp()?
        {
            if let Some(stamps) = &mut self.stamps
                && stamps.wanted.has(stamp.kind)
            {
                stamps.ahead.push_back(stamp);
            }
        }
        let is_wanted = |stamp: &mut Stamp| is_wanted(stamp.kind);
        let stamps = self.stamps.as_mut();
        Ok(stamps.and_then(|stamps| stamps.ahead.pop_front_if(is_wanted)))
    }

    fn give(&mut self, found: Found) {
        if let Some(stamps) = &mut self.stamps {
            stamps.ready.push_back(found);
        }
    }

    fn give_stamp(&mut self, stamp: Option<Stamp>) {
        if let Some(found) = stamp.and_then(Stamp::found) {
            self.give(found);
        }
    }

    /// Gives the next stamp of this kind, and others that are before it.
    fn give_next(&mut self, wanted: StampKind) -> Result<(), Unsound> {
        let is_sync = wanted == StampKind::Sync;
        let is_passed = |kind| match kind {
            StampKind::Came => true,
            StampKind::Enter | StampKind::Leave | StampKind::End => is_sync,
            StampKind::Sync | StampKind::Stack | StampKind::Frame => false,
        };
        while let Some(stamp) = self.next_stamp(is_passed)? {
            self.give_stamp(Some(stamp));
        }
        let stamp = self.next_stamp(|kind| kind == wanted)?;
        self.give_stamp(stamp);
        Ok(())
    }

    /// All that is before an escape was given: what is left is of system calls that were not
    /// made after all.
    pub(super) fn open_stamps(&mut self) {
        if let Some(stamps) = &mut self.stamps {
            stamps.is_closed = false;
            let left = stamps.ahead.drain(..);
            let is_time = stamps.wanted == Wanted::Times;
            let left = left.filter(|_| is_time).filter_map(Stamp::found);
            stamps.ready.extend(left);
        }
    }

    /// Cuts a run after the next instruction that has stamps.
    fn cut(&mut self, run: Executed) -> Result<(), Unsound> {
        let Some(wanted) = self.stamps.as_ref().map(|stamps| stamps.wanted) else {
            return Ok(());
        };
        let marks = &self.pieces.known[run.piece as usize].straight.stamped;
        let behind = marks.partition_point(|(at, _)| *at < run.from);
        let mut marks = marks[behind..].iter();
        let next = marks.find(|(_, mark)| wanted.has_mark(*mark));
        let Some(&(at, mark)) = next.filter(|(at, _)| *at < run.to) else {
            self.give(run.found());
            return Ok(());
        };
        let piece = |from, to| Executed {
            from,
            to,
            outcome: run.outcome.filter(|_| to == run.to),
            ..run
        };
        // The thread whose events come before the stamp.
        let from = match mark {
            Mark::Stack | Mark::Frame => run.from,
            Mark::Sync | Mark::Call => at,
        };
        if run.from < from {
            self.give(piece(run.from, from).found());
        }
        match mark {
            Mark::Sync => self.give_next(StampKind::Sync)?,
            Mark::Call => self.give_next(StampKind::Enter)?,
            Mark::Stack | Mark::Frame => {}
        }
        self.give(piece(from, at + 1).found());
        let behind = match mark {
            Mark::Sync => None,
            Mark::Call => self.next_stamp(|kind| kind == StampKind::Leave)?,
            Mark::Stack => self.next_stamp(|kind| kind == StampKind::Stack)?,
            Mark::Frame => self.next_stamp(|kind| kind == StampKind::Frame)?,
        };
        self.give_stamp(behind);
        if let Some(stamps) = &mut self.stamps {
            stamps.rest = (at + 1 < run.to).then(|| piece(at + 1, run.to));
        }
        Ok(())
    }

    /// [`Walk::whole`] with stamps.
    pub(super) fn stamped(&mut self) -> Option<Result<Found, Unsound>> {
        loop {
            let stamps = self.stamps.as_mut()?;
            if let Some(found) = stamps.ready.pop_front() {
                return Some(Ok(found));
            }
            if let Some(run) = stamps.rest.take() {
                if let Err(error) = self.cut(run) {
                    return self.fail(error);
                }
                continue;
            }
            if stamps.is_closed && self.coming.is_none() {
                self.open_stamps();
                continue;
            }
            let found = self.whole();
            if let Err(error) = self.arrange(found.as_ref()) {
                return self.fail(error);
            }
            match found {
                Some(Ok(Found::Executed {
                    piece,
                    from,
                    to,
                    outcome,
                })) => {
                    let stamps = self.stamps.as_mut()?;
                    stamps.rest = Some(Executed {
                        piece,
                        from,
                        to,
                        outcome,
                    });
                }
                Some(Ok(found)) => {
                    let goes = matches!(found, Found::Went { .. });
                    self.give(found);
                    if goes && let Err(error) = self.arrived() {
                        return self.fail(error);
                    }
                }
                Some(Err(error)) => return self.fail(error),
                None => {
                    let stamps = self.stamps.as_mut()?;
                    return stamps.ready.pop_front().map(Ok);
                }
            }
        }
    }

    /// There is nothing behind an error.
    fn fail(&mut self, error: Unsound) -> Option<Result<Found, Unsound>> {
        self.over = true;
        self.stamps = None;
        Some(Err(self.cause(error)))
    }

    /// Gives the stamps that come before what was found.
    fn arrange(&mut self, found: Option<&Result<Found, Unsound>>) -> Result<(), Unsound> {
        match found {
            Some(Ok(Found::Executed { .. })) => {}
            Some(Ok(_)) => self.open_stamps(),
            Some(Err(_)) => return Ok(()),
            None => {
                self.take_stamps()?;
                let is_about_calls = |kind: StampKind| kind != StampKind::Sync && !kind.is_stack();
                while let Some(stamp) = self.next_stamp(is_about_calls)? {
                    self.give_stamp(Some(stamp));
                }
                if let Some(stamps) = &mut self.stamps {
                    // Stamps of instructions that are not known to have been executed are dropped.
                    (stamps.is_closed, stamps.ahead) = (false, VecDeque::new());
                }
                return Ok(());
            }
        }
        let stamp = self.next_stamp(|kind| kind == StampKind::Came)?;
        self.give_stamp(stamp);
        Ok(())
    }

    /// Gives the stack pointer behind where control went.
    fn arrived(&mut self) -> Result<(), Unsound> {
        let stamp = self.next_stamp(|kind| kind == StampKind::Stack)?;
        self.give_stamp(stamp);
        Ok(())
    }
}
