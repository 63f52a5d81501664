//! From instructions to branches: what a thread executed, branch by branch.
//!
//! Problem: most of what is asked of a trace is about branches, one of six instructions.
//!
//! Approach: each piece of code knows its branches; a [`Branches`] gives them with how they
//! went and how many instructions were executed up to them, without looking at the others.

use super::code::Place;
use super::{Found, Kind, Pieces, Site, Stamp, Tail, Unsound, Walk, Why};
use trace::Thread;

/// A branch that was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branch {
    /// Which, for [`Branches::sites`].
    pub site: u32,
    /// Fragment whose code it is; 0: the code that its address had first.
    pub fragment: u32,
    pub pc: u64,
    /// Address after it.
    pub next: u64,
    pub kind: Kind,
    pub taken: bool,
    /// Its target; of a conditional one the target if taken.
    pub target: u64,
    /// Which instruction of the thread it is, from 1 on.
    pub number: u64,
}

/// Event of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    Branch(Branch),
    /// Control went there without a branch, behind so many instructions.
    Went {
        why: Why,
        to: u64,
        number: u64,
    },
    /// It goes on with this fragment from its beginning, which the code of addresses does
    /// not have; `None`: it goes on at that address with the code of addresses again.
    Entered {
        fragment: Option<u32>,
        to: u64,
        number: u64,
    },
    /// When what follows began; if it was asked for ([`Branches::with_stamps`]).
    Stamp(Stamp),
}

/// Instructions of a piece that were executed, and which of its branches come next.
#[derive(Clone, Copy)]
struct Run {
    piece: u32,
    from: u32,
    to: u32,
    outcome: bool,
    mark: u32,
    marks: u32,
}

/// Reads the stream of one thread, as branches.
pub struct Branches<'a> {
    walk: Walk<'a>,
    run: Option<Run>,
    /// Instructions before the run.
    number: u64,
}

impl<'a> Branches<'a> {
    pub fn new(pieces: &'a mut Pieces, thread: &'a Thread) -> Branches<'a> {
        Branches {
            walk: Walk::new(pieces, thread),
            run: None,
            number: 0,
        }
    }

    /// Branches of a thread that runs: `pieces` are of its process.
    pub fn of_live(pieces: &'a mut Pieces, tail: &'a Tail) -> Branches<'a> {
        Branches {
            walk: Walk::of_live(pieces, tail),
            run: None,
            number: 0,
        }
    }

    /// Gives stamps, too.
    #[must_use]
    pub fn with_stamps(mut self) -> Self {
        self.walk = self.walk.with_stamps();
        self
    }

    /// [`Walk::past_losses`].
    #[must_use]
    pub fn past_losses(mut self, thread: &'a Thread) -> Self {
        self.walk = self.walk.past_losses(thread);
        self
    }

    /// Instructions executed up to the end of what was read.
    pub fn number(&self) -> u64 {
        self.number + self.run.map_or(0, |run| u64::from(run.to - run.from))
    }

    /// All branches of the code that was met.
    pub fn sites(&self) -> &[Site] {
        self.walk.pieces.sites.all()
    }

    /// The bytes of a branch.
    pub fn bytes(&self, site: u32) -> Vec<u8> {
        self.walk.code().bytes(&self.sites()[site as usize].step)
    }

    fn branch(&mut self, run: Run) -> Branch {
        let known = &self.walk.pieces.known[run.piece as usize];
        let (at, number) = known.branches[run.mark as usize];
        let site = &self.walk.pieces.sites.all()[number as usize];
        let is_last = at + 1 == run.to;
        let target = match site.kind.is_indirect() {
            true => self.walk.here(),
            false => site.target,
        };
        Branch {
            site: number,
            fragment: site.step.fragment,
            pc: site.step.pc,
            next: site.step.pc.wrapping_add(site.step.len.into()),
            kind: site.kind,
            taken: !is_last || run.outcome,
            target,
            number: self.number + u64::from(at + 1 - run.from),
        }
    }

    fn run(&mut self, piece: u32, from: u32, to: u32, outcome: Option<bool>) {
        let marks = &self.walk.pieces.known[piece as usize].branches;
        // Nearly always it is all of the piece.
        let before = |limit: u32| match marks.last() {
            Some((last, _)) if *last < limit => marks.len() as u32,
            _ if limit == 0 => 0,
            _ => marks.iter().take_while(|(at, _)| *at < limit).count() as u32,
        };
        self.run = Some(Run {
            piece,
            from,
            to,
            outcome: outcome.unwrap_or(true),
            mark: before(from),
            marks: before(to),
        });
    }
}

impl Iterator for Branches<'_> {
    type Item = Result<Item, Unsound>;

    #[inline]
    fn next(&mut self) -> Option<Result<Item, Unsound>> {
        loop {
            if let Some(mut run) = self.run {
                if run.mark < run.marks {
                    let branch = self.branch(run);
                    run.mark += 1;
                    self.run = Some(run);
                    return Some(Ok(Item::Branch(branch)));
                }
                self.number += u64::from(run.to - run.from);
                self.run = None;
            }
            let number = self.number;
            match self.walk.found()? {
                Ok(Found::Executed {
                    piece,
                    from,
                    to,
                    outcome,
                }) => self.run(piece, from, to, outcome),
                Ok(Found::Stamp(stamp)) => return Some(Ok(Item::Stamp(stamp))),
                // It is not elsewhere than it was.
                Ok(
                    Found::Stack(_)
                    | Found::Went {
                        why: Why::Nowhere, ..
                    },
                ) => {}
                Ok(Found::Went { why, to }) => return Some(Ok(Item::Went { why, to, number })),
                Ok(Found::Entered(place)) => {
                    return Some(Ok(Item::Entered {
                        fragment: match place {
                            Place::At(_) => None,
                            Place::In(id, _) => Some(id),
                        },
                        to: self.walk.here(),
                        number,
                    }));
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
