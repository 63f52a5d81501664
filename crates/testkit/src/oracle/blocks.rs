//! Contexts of basic blocks, by the definitions (design section 4; IHPP 4.3 and 4.4).
//!
//! The stepper notes every instruction. A block begins with one that follows a branch,
//! a call, a return or a system call, or that is a leader; where a signal's handler
//! returns to what it interrupted, what would have been is. Then every activation, or
//! every thread, is one sequence of blocks, and forests are made of those word by word.

use std::collections::{BTreeMap, HashMap};

use analysis::cct::{self, Event, Recursion};
use analysis::{Forest, K, oracle};
use trace::Label;

use super::code::ProgramPc;
use super::events::{Counts, Moment, ThreadCount};
use crate::tree::Tree;

/// Events of a thread, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ran {
    /// An instruction retired.
    Instruction {
        /// Address of the instruction.
        pc: ProgramPc,
        /// Instructions that the thread had retired before it.
        retired: u64,
        /// Whether a block ends with it.
        ends: bool,
        /// Whether it is a return, or a jump or call to where something else says.
        indirect: bool,
    },
    /// A handler was called before the instruction here.
    Interrupted(ProgramPc),
}

/// Facts about an instruction that was executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    /// As the product names a block that begins there.
    pub name: String,
    /// File name of its module, and the offset there; without a file, its address.
    pub module: String,
    pub offset: u64,
    /// It is in a function, or in code that nobody knows.
    pub counts: bool,
    /// An extent of code begins there.
    pub starts_extent: bool,
    /// A direct branch goes there that stands in the same extent.
    pub is_target: bool,
}

/// Selection and form of the counted contexts.
#[derive(Clone, Copy)]
pub struct BlocksWanted<'a> {
    /// Blocks that a context keeps.
    pub k: K,
    /// Whether a block that comes again is gone back to.
    pub roll_loops: bool,
    /// Per activation, not per thread.
    pub intra: bool,
    /// Blocks end at branches only.
    pub dynamic: bool,
    /// Blocks of these modules only.
    pub module: Option<&'a str>,
}

/// Blocks that were entered one after the other, below a root if there is one.
#[derive(Default)]
struct Sequence {
    root: Option<Label>,
    blocks: Vec<Label>,
}

impl Counts {
    /// The k-slab forest and the k-calling-context forest of all threads together.
    #[must_use]
    pub fn block_forests(&self, wanted: &BlocksWanted<'_>) -> (Tree, Tree) {
        let mut names = Names::default();
        let mut sequences = Vec::new();
        for thread in &self.threads {
            sequences.extend(self.sequences(thread, wanted, &mut names));
        }
        let (ksf, kccf) = match wanted.roll_loops {
            true => {
                let rolled = rolled(&sequences);
                (rolled.clone(), analysis::inv_k(&rolled, K::Infinite))
            }
            false => {
                let events = events(&sequences);
                (
                    oracle::ksf_online(&events, wanted.k, Recursion::Unrolled),
                    oracle::kccf(&events, wanted.k, Recursion::Unrolled),
                )
            }
        };
        let named = |forest: &Forest| Tree::of_forest(forest, |label| names.of(label));
        (named(&ksf), named(&kccf))
    }

    /// The sequences of a thread, in the order in which they began.
    fn sequences(
        &self,
        thread: &ThreadCount,
        wanted: &BlocksWanted<'_>,
        names: &mut Names,
    ) -> Vec<Sequence> {
        let mut live = Live::new(wanted);
        let mut moments = thread.events.iter().peekable();
        let mut feed = |live: &mut Live, until: u64, handlers: bool| {
            while let Some(moment) = moments.next_if(|moment| {
                let begins = matches!(moment.event, Event::Begin(root) if root != Label::THREAD);
                moment.retired <= until && (handlers || !begins)
            }) {
                live.feed(moment, |label| {
                    let function = self.function(thread.process, label);
                    wanted.module.is_none_or(|module| function.module == module)
                });
            }
        };
        // Whether a block begins with the next instruction; and below, for what
        // handlers interrupted, with how many roots there are in each.
        let mut begins = true;
        let mut interrupted: Vec<(usize, ProgramPc, bool)> = Vec::new();
        let mut go_on = |live: &Live, pc: ProgramPc, begins: &mut bool, call: bool| {
            while let Some(&(roots, at, before)) = interrupted.last()
                && live.roots() < roots
            {
                interrupted.pop();
                *begins = at != pc || before;
            }
            if call {
                let before = *begins || self.leads(thread, pc, wanted);
                interrupted.push((live.roots() + 1, pc, before));
            }
        };
        let mut now = 0;
        for ran in &thread.ran {
            match *ran {
                Ran::Interrupted(pc) => {
                    feed(&mut live, now, false);
                    go_on(&live, pc, &mut begins, true);
                    begins = true;
                }
                Ran::Instruction {
                    pc, retired, ends, ..
                } => {
                    feed(&mut live, retired, true);
                    go_on(&live, pc, &mut begins, false);
                    if begins || self.leads(thread, pc, wanted) {
                        live.enter(thread, pc, wanted, names);
                    }
                    (begins, now) = (ends, retired + 1);
                }
            }
        }
        live.done()
    }

    fn leads(&self, thread: &ThreadCount, pc: ProgramPc, wanted: &BlocksWanted<'_>) -> bool {
        let Some(spot) = thread.spots.get(&pc) else {
            return false;
        };
        let classic = !wanted.dynamic;
        spot.starts_extent && (wanted.intra || classic) || spot.is_target && classic
    }
}

/// The activations that are live, each with its sequence.
struct Live {
    intra: bool,
    selects: bool,
    /// Index of the sequence of each; `None`: it is as if it were not there.
    stack: cct::Live<(Option<usize>, bool)>,
    sequences: Vec<Sequence>,
}

impl Live {
    fn new(wanted: &BlocksWanted<'_>) -> Live {
        Live {
            intra: wanted.intra,
            selects: wanted.module.is_some(),
            stack: cct::Live::default(),
            sequences: Vec::new(),
        }
    }

    fn roots(&self) -> usize {
        self.stack.items().iter().filter(|(_, root)| *root).count()
    }

    fn begin(&mut self, root: Option<Label>) -> Option<usize> {
        let blocks = Vec::new();
        self.sequences.push(Sequence { root, blocks });
        Some(self.sequences.len() - 1)
    }

    fn feed(&mut self, moment: &Moment, selected: impl Fn(Label) -> bool) {
        match moment.event {
            Event::Leave => drop(self.stack.pop()),
            Event::Begin(Label::THREAD) => {
                let root = match self.selects {
                    true => Label::ROOT,
                    false => Label::THREAD,
                };
                let began = self.begin((!self.intra).then_some(root));
                self.stack.push((began, true));
            }
            Event::Begin(root) => {
                let began = self.begin(Some(root));
                self.stack.push((began, true));
            }
            Event::Enter(label) if self.intra && selected(label) => {
                let began = self.begin(None);
                self.stack.push((began, false));
            }
            Event::Enter(_) => self.stack.push((None, false)),
            event => drop(self.stack.switch(event)),
        }
    }

    fn enter(
        &mut self,
        thread: &ThreadCount,
        pc: ProgramPc,
        wanted: &BlocksWanted<'_>,
        names: &mut Names,
    ) {
        let top = self
            .stack
            .items()
            .iter()
            .rev()
            .find_map(|&(sequence, _)| sequence);
        let spot = thread.spots.get(&pc);
        let counts =
            |spot: &&Spot| spot.counts && wanted.module.is_none_or(|module| spot.module == module);
        if let (Some(top), Some(spot)) = (top, spot.filter(counts)) {
            self.sequences[top].blocks.push(names.label(&spot.name));
        }
    }

    /// Sequences in which something was executed, or that have a root.
    fn done(self) -> Vec<Sequence> {
        let mut sequences = self.sequences;
        sequences.retain(|sequence| sequence.root.is_some() || !sequence.blocks.is_empty());
        sequences
    }
}

/// Labels of blocks, by name.
#[derive(Default)]
struct Names {
    labels: HashMap<String, Label>,
    names: Vec<String>,
}

impl Names {
    fn label(&mut self, name: &str) -> Label {
        if let Some(&label) = self.labels.get(name) {
            return label;
        }
        let number = u32::try_from(self.names.len()).expect("few");
        let label = Label(wire::node::FIRST_FUNC + number);
        self.labels.insert(name.to_owned(), label);
        self.names.push(name.to_owned());
        label
    }

    fn of(&self, label: Label) -> Option<String> {
        let number = label.0.checked_sub(wire::node::FIRST_FUNC)?;
        self.names.get(number as usize).cloned()
    }
}

/// The sequences as calls, each block called by the one before.
fn events(sequences: &[Sequence]) -> Vec<Event> {
    let mut events = Vec::new();
    for sequence in sequences {
        events.extend(sequence.root.map(Event::Begin));
        events.extend(sequence.blocks.iter().copied().map(Event::Enter));
        let depth = sequence.blocks.len() + usize::from(sequence.root.is_some());
        events.extend((0..depth).map(|_| Event::Leave));
    }
    events
}

/// Every block on its path, which ends where the block is on it already (4.3.4).
fn rolled(sequences: &[Sequence]) -> Forest {
    let mut counts: BTreeMap<Vec<Label>, u64> = BTreeMap::new();
    let mut order: Vec<Vec<Label>> = Vec::new();
    for sequence in sequences {
        let mut path: Vec<Label> = Vec::new();
        for &label in sequence.root.iter().chain(&sequence.blocks) {
            match path.iter().position(|&on_path| on_path == label) {
                Some(at) => path.truncate(at + 1),
                None => path.push(label),
            }
            let count = counts.entry(path.clone()).or_insert_with(|| {
                order.push(path.clone());
                0
            });
            *count += 1;
        }
    }
    let mut forest = analysis::forest::Builder::default();
    for path in order {
        let mut at = None;
        for &label in &path {
            at = Some(match at {
                None => forest.root(label),
                Some(parent) => forest.child(parent, label),
            });
        }
        if let Some(node) = at {
            forest.add(node, counts[&path]);
        }
    }
    forest.finish()
}
