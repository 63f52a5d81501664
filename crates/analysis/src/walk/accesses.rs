//! Memory accesses of a thread, beside its instructions.
//!
//! Problem: a trace with addresses has those that do not follow from others (`isa::memory::recorded`);
//! which instruction each word is of, only the control flow says.
//!
//! Approach: [`Accesses`] walks the control flow and follows what is known of registers, by the
//! rules that the program's side followed. Each operand is known then, or its words come next.
//!
//! Invariants: any bytes give accesses or an error. What was executed when the thread was
//! killed and has no words ends the walk.
//!
//! Limits: a walk ends where the file has lost something. How large the areas of `xsave` and its like
//! are, the trace does not say: their size is 0.

use isa::memory::recorded::{LONGEST, MARK, Read, Recorded, SHORT, falls_through};
use isa::memory::{Access, Known, Operand, Pattern};
use trace::stream::ADDRESS_STREAM;
use trace::{Recording, Thread};

use super::code::Place;
use super::lane::Lane;
use super::segments::{self, Segment};
use super::{Code, Found, Pieces, Step, Unsound, Walk, Why};

mod counted;
mod operations;
mod replay;
mod sizes;
mod values;

pub use counted::{AccessesCount, count_accesses};
pub use isa::memory::Selection;
pub use operations::{Operation, operations};
pub use replay::Replayed;
pub use sizes::{AccessSizes, SIZES, access_sizes};
pub use values::{Bytes, Value};

/// An access, and which of the instructions made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accessed {
    /// Index among the instructions that it is given with.
    pub step: u32,
    pub access: Access,
    /// Number of times: more than one for a repeated string instruction, whose operands take turns.
    pub times: u64,
    /// It goes backwards from `access` on.
    pub is_backwards: bool,
    /// The values that it read and wrote, each time; `None`: it is not known, or there is no such
    /// thing.
    pub read: Option<Value>,
    pub written: Option<Value>,
}

impl Accessed {
    /// The access number `at` of so many.
    pub fn at(&self, at: u64) -> Access {
        let distance = at.wrapping_mul(self.access.size.into());
        let address = match self.is_backwards {
            true => self.access.address.wrapping_sub(distance),
            false => self.access.address.wrapping_add(distance),
        };
        Access {
            address,
            ..self.access
        }
    }

    /// Number of its values that are to be recorded and are not known.
    fn lacks(&self, selection: Selection) -> u8 {
        let kind = self.access.kind;
        let read = selection.loads && kind.reads() && self.read.is_none();
        let written = selection.stores && kind.writes() && self.written.is_none();
        match selection.values {
            true => u8::from(read) + u8::from(written),
            false => 0,
        }
    }

    fn once(step: u32, access: Access) -> Accessed {
        Accessed {
            step,
            access,
            times: 1,
            is_backwards: false,
            read: None,
            written: None,
        }
    }
}

/// Event of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessEvent<'a> {
    /// It executed these, one after the other, with these accesses and the bytes of their values.
    Executed(&'a [Step], &'a [Accessed], Bytes<'a>),
    /// It went to this address without executing anything.
    Went { why: Why, to: u64 },
}

/// Recordings with this option have values of elements, too (`isa::memory::values`).
pub const OF_ELEMENTS: &str = "values-of-elements";

/// Which accesses a trace has; `None`: it has none.
pub fn selection(recording: &Recording) -> Option<Selection> {
    let option = |name: &str| {
        let mut options = recording.meta.options.iter();
        options.any(|(option, _)| option == name)
    };
    let (loads, stores) = (option("--loads"), option("--stores"));
    let mut options = recording.meta.options.iter();
    let has_values = options.any(|(name, what)| name == "--memory" && what == "values");
    option("--memory").then(|| Selection {
        loads: loads || !stores,
        stores: stores || !loads,
        elision: !option("--no-elision"),
        values: has_values,
        elements: option(OF_ELEMENTS),
    })
}

/// Whether a thread's addresses were recorded.
pub fn has_addresses(thread: &Thread) -> bool {
    let mut parts = thread.stream.iter();
    parts.any(|part| part.stream == ADDRESS_STREAM)
}

/// Escapes by which control came to where the instructions given last begin, and to what
/// follows them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Came {
    pub before: Coming,
    pub after: Coming,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Coming {
    /// By how many escapes.
    escapes: u32,
    /// Number of those that were [`escape::AT`](trace::stream::escape::AT).
    places: u32,
}

impl Coming {
    pub fn by(&mut self, then: Place) {
        self.escapes += 1;
        self.places += u32::from(matches!(then, Place::At(_)));
    }
}

impl Walk<'_> {
    /// Takes the escapes by which control came to what was given last.
    fn take_came(&mut self) -> Came {
        std::mem::take(&mut self.came)
    }
}

/// The last access of an operand.
#[derive(Clone, Copy, Debug)]
struct End {
    /// Number of accesses of the instruction up to there.
    to: usize,
    /// Bits of those elements that are accessed, if it is by elements.
    elements: u64,
}

/// Reads the instructions and accesses of one thread.
pub struct Accesses<'a> {
    walk: Walk<'a>,
    words: Words<'a>,
    values: values::Reader<'a>,
    selection: Selection,
    known: Known,
    /// Address behind the last instruction, if control was to go on there.
    next: u64,
    found: Vec<Accessed>,
    /// Ends of the operands of an instruction.
    ends: Vec<End>,
    /// Nothing was read yet; it begins at a keyframe.
    begins: bool,
    is_segment: bool,
    over: bool,
    /// Instructions were executed whose words are not there.
    lacks: bool,
}

/// The words that are to be read.
struct Words<'a> {
    lane: Lane<'a>,
    /// Address of the mark that comes next, if one does.
    mark: Option<u64>,
}

impl Words<'_> {
    /// The next bytes; `None`: there are not so many.
    fn take<const N: usize>(&mut self, len: usize) -> Result<Option<[u8; N]>, Unsound> {
        let mut bytes = [0; N];
        let there = self.lane.ahead(len)?;
        if there.len() < len {
            return Ok(None);
        }
        bytes[..len].copy_from_slice(&there[..len]);
        self.lane.skip(len);
        self.look()?;
        Ok(Some(bytes))
    }

    /// Whether a mark comes next.
    fn look(&mut self) -> Result<(), Unsound> {
        let there = self.lane.ahead(SHORT)?;
        self.mark = match there.get(SHORT - 1) {
            Some(last) if last & 0x80 != 0 => {
                let mut word = [0; 8];
                word[..SHORT].copy_from_slice(&there[..SHORT]);
                Some(u64::from_le_bytes(word) & !MARK)
            }
            _ => None,
        };
        Ok(())
    }

    /// Skips the mark that comes next.
    fn pass_mark(&mut self) -> Result<(), Unsound> {
        self.lane.skip(SHORT);
        self.look()
    }
}

impl<'a> Accesses<'a> {
    /// All that is kept of the thread.
    pub fn new(pieces: &'a mut Pieces, thread: &'a Thread, selection: Selection) -> Self {
        let first = segments::segments(thread).first().copied();
        Accesses::of(
            pieces,
            thread,
            first.unwrap_or_default().onward(),
            selection,
        )
    }

    /// One of the thread's segments.
    pub fn of(
        pieces: &'a mut Pieces,
        thread: &'a Thread,
        segment: Segment,
        selection: Selection,
    ) -> Self {
        let [from, values] = segment.memory;
        Accesses {
            walk: Walk::of(pieces, thread, segment),
            words: Words {
                lane: Lane::between(thread, ADDRESS_STREAM.into(), from, None),
                mark: None,
            },
            values: values::Reader::new(thread, values),
            selection,
            known: Known::default(),
            next: 0,
            found: Vec::new(),
            ends: Vec::new(),
            begins: true,
            is_segment: segment.from.is_some(),
            over: false,
            lacks: false,
        }
    }

    /// Next event of the thread; `None`: nothing more is known.
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator cannot lend what it gives"
    )]
    pub fn next(&mut self) -> Option<Result<AccessEvent<'_>, Unsound>> {
        if self.over {
            return None;
        }
        if let Some(ran) = self.walk.quick() {
            let ran = (ran.piece, ran.from, ran.to, ran.outcome == Some(true));
            return self.executed(ran, Came::default());
        }
        loop {
            let found = self.walk.found();
            let came = self.walk.take_came();
            let found = match found {
                Some(Ok(found)) => found,
                Some(Err(error)) => return self.fail(error),
                None => {
                    // Tracing ended where control had come.
                    self.over = true;
                    let forgotten = self.forget(came.before);
                    let error = forgotten.and_then(|()| self.forget(came.after)).err()?;
                    return self.fail(error);
                }
            };
            match found {
                Found::Executed {
                    piece,
                    from,
                    to,
                    outcome,
                } => {
                    return self.executed((piece, from, to, outcome == Some(true)), came);
                }
                Found::Went { why, to } => {
                    // The lost part of a file may have had words.
                    self.over |= why == Why::Lost;
                    if let Err(error) = self.went(came) {
                        return self.fail(error);
                    }
                    return Some(Ok(AccessEvent::Went { why, to }));
                }
                Found::Entered(_) => {
                    let forgotten = self.forget(came.before);
                    if let Err(error) = forgotten.and_then(|()| self.forget(came.after)) {
                        return self.fail(error);
                    }
                }
                Found::Stamp(_) | Found::Stack(_) => {}
            }
        }
    }

    /// A piece was executed from an instruction up to another one, and whether it was left by a branch that was taken.
    fn executed(
        &mut self,
        ran: (u32, u32, u32, bool),
        came: Came,
    ) -> Option<Result<AccessEvent<'_>, Unsound>> {
        let (piece, from, to, _) = ran;
        let number = match self.run(ran, came) {
            Ok(number) => number,
            Err(error) => return self.fail(error),
        };
        self.lacks |= number < to - from;
        self.over |= self.lacks;
        let steps = &self.walk.pieces.known[piece as usize].straight.steps;
        let steps = &steps[from as usize..(from + number) as usize];
        match steps.is_empty() {
            true => None,
            false => {
                let bytes = Bytes(&self.values.bytes);
                Some(Ok(AccessEvent::Executed(steps, &self.found, bytes)))
            }
        }
    }

    /// Bytes of words and values that were not read, besides a mark at their end.
    pub fn left(&self) -> u64 {
        let mark = if self.words.mark.is_some() { SHORT } else { 0 };
        let here = self.words.lane.here().len() - mark;
        let values = self.values.lane.len() + self.values.lane.here().len() as u64;
        self.words.lane.len() + here as u64 + values
    }

    /// Whether the thread executed an instruction behind those that were given.
    pub fn is_short(&mut self) -> bool {
        let mut rest = std::iter::from_fn(|| self.walk.found().and_then(Result::ok));
        self.lacks |= rest.any(|found| matches!(found, Found::Executed { .. }));
        self.lacks
    }

    /// Which accesses there are.
    pub fn selection(&self) -> Selection {
        self.selection
    }

    pub fn code(&self) -> &Code {
        self.walk.code()
    }

    /// Control comes from elsewhere: nothing is known but the stack pointer.
    fn forget(&mut self, coming: Coming) -> Result<(), Unsound> {
        if coming.escapes > 0 {
            self.arrive()?;
        }
        (0..coming.places).try_for_each(|_| self.follow_stack())
    }

    /// Control went where an escape says.
    fn went(&mut self, came: Came) -> Result<(), Unsound> {
        self.forget(came.before)?;
        self.forget(came.after)?;
        self.arrive()?;
        self.follow_stack()
    }

    /// Nothing is known any more, and a mark may say so, too.
    fn arrive(&mut self) -> Result<(), Unsound> {
        self.words.look()?;
        self.known.clear();
        match self.words.mark == Some(self.next) {
            true => self.words.pass_mark(),
            false => Ok(()),
        }
    }

    fn fail<T>(&mut self, error: Unsound) -> Option<Result<T, Unsound>> {
        self.over = true;
        Some(Err(error))
    }

    /// Reads the stack pointer; if it is not there, that is the end.
    fn follow_stack(&mut self) -> Result<(), Unsound> {
        if self.selection.elision {
            match self.words.take::<8>(SHORT)? {
                Some(sp) => self.known.set_stack(u64::from_le_bytes(sp)),
                None => self.over = true,
            }
        }
        Ok(())
    }

    /// Reads what comes before everything else.
    fn begin(&mut self) -> Result<(), Unsound> {
        if std::mem::take(&mut self.begins) {
            self.words.look()?;
            // A keyframe.
            if self.is_segment {
                self.follow_stack()?;
            }
        }
        Ok(())
    }

    /// Reads the accesses of instructions that were executed. Of how many of them all words are
    /// there.
    fn run(&mut self, ran: (u32, u32, u32, bool), came: Came) -> Result<u32, Unsound> {
        let (piece, from, to, is_taken) = ran;
        self.found.clear();
        self.values.bytes.clear();
        self.begin()?;
        self.forget(came.before)?;
        if self.over {
            return Ok(0);
        }
        self.walk.pieces.plan(piece, self.selection);
        let Accesses {
            walk,
            words,
            values,
            selection,
            known,
            next,
            found,
            ends,
            ..
        } = self;
        let piece = &walk.pieces.known[piece as usize];
        let all = piece.straight.steps.iter().zip(&piece.recorded);
        let all = all.take(to as usize).enumerate().skip(from as usize);
        for (index, (step, recorded)) in all {
            if words.mark == Some(step.pc) {
                words.pass_mark()?;
                known.clear();
            }
            let number = index as u32 - from;
            let first = found.len();
            ends.clear();
            if !accesses(words, known, (recorded, *selection), number, (found, ends))?
                || !recorded.values.is_empty()
                    && !values.take(recorded, &mut found[first..], ends)?
            {
                found.truncate(first);
                return Ok(number);
            }
            if known.executed(recorded, *selection) {
                let Some(sp) = words.take::<8>(SHORT)? else {
                    found.retain(|accessed| accessed.step < number);
                    return Ok(number);
                };
                known.set_stack(u64::from_le_bytes(sp));
            }
            *next = step.pc.wrapping_add(step.len.into());
            if !falls_through(step.flow, is_taken && index + 1 == to as usize) {
                known.clear();
                *next = 0;
            }
        }
        self.forget(came.after)?;
        Ok(to - from)
    }
}

/// Reads the accesses of one instruction. `false`: there are no words for it.
fn accesses(
    words: &mut Words<'_>,
    known: &mut Known,
    (recorded, selection): (&Recorded, Selection),
    step: u32,
    (found, ends): (&mut Vec<Accessed>, &mut Vec<End>),
) -> Result<bool, Unsound> {
    let first = found.len();
    let each = |access| found.push(Accessed::once(step, access));
    match &recorded.operands[..] {
        [] => return Ok(true),
        [operand] if matches!(operand.pattern, Pattern::Once) => {
            ends.push(End { to: 1, elements: 0 });
            return once(words, known, (operand, selection), each);
        }
        _ => {}
    }
    let Some(read) = read_words(words, known, recorded, selection)? else {
        return Ok(false);
    };
    for (operand, read) in recorded.operands.iter().zip(&read) {
        match operand.pattern {
            Pattern::Repeated => found.extend(read.repeated(operand).map(
                |(access, times, is_backwards)| Accessed {
                    times,
                    is_backwards,
                    ..Accessed::once(step, access)
                },
            )),
            _ => read.each(
                operand,
                |_| 0,
                |access| found.push(Accessed::once(step, access)),
            ),
        }
        ends.push(End {
            to: found.len() - first,
            elements: read.elements(),
        });
    }
    Ok(true)
}

/// Reads the words of all operands; `None`: there are not so many.
fn read_words(
    words: &mut Words<'_>,
    known: &mut Known,
    recorded: &Recorded,
    selection: Selection,
) -> Result<Option<Vec<Read>>, Unsound> {
    let mut read: Vec<Read> = vec![Read::default(); recorded.operands.len()];
    let mut behind = Vec::new();
    for (operand, read) in recorded.operands.iter().zip(&mut read) {
        if matches!(operand.pattern, Pattern::Once) {
            if !once(words, known, (operand, selection), |access| {
                read.address = access.address;
            })? {
                return Ok(None);
            }
            continue;
        }
        for word in known.words(operand, selection) {
            if word.is_behind() {
                behind.push(word);
                continue;
            }
            let len = word.len();
            let Some(bytes) = words.take::<LONGEST>(len)? else {
                return Ok(None);
            };
            read.take(operand, word, &bytes[..len]);
        }
    }
    let repeated = recorded.operands.iter().zip(&mut read);
    let repeated = repeated.filter(|(operand, _)| operand.pattern == Pattern::Repeated);
    for ((operand, read), word) in repeated.zip(behind) {
        let Some(bytes) = words.take::<LONGEST>(word.len())? else {
            return Ok(None);
        };
        read.take(operand, word, &bytes[..word.len()]);
    }
    Ok(Some(read))
}

/// Reads the access of an operand that has one.
#[inline]
fn once(
    words: &mut Words<'_>,
    known: &mut Known,
    (operand, selection): (&Operand, Selection),
    mut each: impl FnMut(Access),
) -> Result<bool, Unsound> {
    let address = match known
        .address(&operand.address)
        .filter(|_| selection.elision)
    {
        Some(address) => address,
        None => {
            let Some(bytes) = words.take::<8>(SHORT)? else {
                return Ok(false);
            };
            let address = operand.short_word(u64::from_le_bytes(bytes));
            known.recorded(operand, selection, address);
            address
        }
    };
    each(Access {
        address,
        size: operand.size.into(),
        kind: operand.kind,
    });
    Ok(true)
}
