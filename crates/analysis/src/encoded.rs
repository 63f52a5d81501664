//! Calling contexts of programs that keep them in numbers (`wire::contexts`), as paths of calls again.
//!
//! Problem: a number and records say who called whom, by the call graph of the files that were edited; and the program may be anywhere,
//! also between what is inserted and the call that it is for.
//!
//! Approach: each record is where a path begins: the path's number is the difference of two, plus that with which a path begins at its
//! function ([`encoding::Numbering::head`]). What the record says of its caller is where the path below ends. The place in new code
//! says whether what a call adds was added already ([`Decoder::whereabouts`]).
//!
//! Invariant: a path is the one that is, or the answer is [`Unknown`], or a frame says so ([`By::Unknown`]).

pub mod events;
pub mod text;

use std::collections::HashMap;

use encoding::{CallGraph, Context, Edge, Kind as SiteKind, Numbering, Options, Site, Step};
use placement::dictionary::{File, SITE_OF_TRAP};
use trace::contexts::{Kind, Record};

/// A function of a file, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Function {
    pub file: usize,
    pub function: u32,
}

/// A call of a file, or a jump by which a function goes on as other code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Call {
    pub file: usize,
    pub site: u32,
}

/// The way to a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Other code came to it, which nobody called: a thread begins, or the program.
    Outside,
    /// A call of this function, or of one that goes on as it.
    Call(Call),
    /// Other code came to it, which this one called.
    Other(Call),
    /// The kernel, with a signal.
    Signal,
    Unknown,
}

/// A frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    pub by: By,
    pub function: Function,
}

/// The state of a thread.
#[derive(Clone, Debug, Default)]
pub struct Moment {
    pub number: u64,
    pub site: u64,
    pub lost: u64,
    /// The top first, and the bottom.
    pub records: Vec<Record>,
    /// The instruction that comes next, and the stack pointer.
    pub at: u64,
    pub stack: u64,
}

/// A context that is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Unknown {
    #[error(
        "records are missing: there was no room for more, or a handler of a signal cannot be followed"
    )]
    Lost,
    #[error("it is within code that was inserted")]
    Within,
    #[error("a handler went on behind a trap, in code that tells nobody where it is left")]
    Trap,
    #[error("no path has this number: the dictionary is of other files, or the number was altered")]
    NoPath,
    #[error(
        "there is nothing at {0:#x}: the dictionary is of other files, or the record was altered"
    )]
    Nothing(u64),
    #[error("it is no word of `everypath_context`")]
    Word,
    #[error("an event is damaged, and what follows it is not read")]
    Event,
}

/// A place in new code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whereabouts {
    pub function: Function,
    /// The instruction in the original.
    pub old: u64,
    /// Sum that a call has added to the function's number.
    pub pending: u64,
}

/// The end of a path: a function, its number, and a stack pointer that is not above its own.
#[derive(Clone, Copy, Debug)]
struct End {
    function: Function,
    number: u64,
    stack: u64,
    /// The function went on as another one there.
    is_jump: bool,
}

/// A file with its numbering.
#[derive(Debug)]
struct Known {
    file: File,
    numbering: Numbering,
    /// By their addresses in records.
    functions: HashMap<u32, u32>,
    sites: HashMap<u32, u32>,
    /// The function that each site calls, of those that call one.
    called: HashMap<u32, u32>,
    /// Sums that calls add, by the address of the instruction.
    adds: HashMap<u64, u64>,
    /// Beginnings and ends of code, and the functions that it is of.
    owners: Vec<(u64, u64, u32)>,
    /// Difference of addresses in memory and in the file.
    bias: u64,
}

/// The call graph of a file.
fn graph(file: &File) -> CallGraph {
    let sites = file.sites.iter().map(|site| Site {
        caller: site.caller,
        kind: match site.kind {
            0 => SiteKind::Closed,
            1 => SiteKind::Shared,
            _ => SiteKind::Open,
        },
    });
    let edges = file.edges.iter().map(|&(site, callee, weight)| Edge {
        site,
        callee,
        weight,
    });
    let functions = 0..file.functions.len() as u32;
    let tails = file.functions.iter();
    CallGraph {
        functions: functions.end,
        sites: sites.collect(),
        edges: edges.collect(),
        roots: functions.collect(),
        tails: tails.map(|function| function.tails.clone()).collect(),
    }
}

/// The function that each site calls, of those that call one.
fn called(file: &File) -> HashMap<u32, u32> {
    let mut all: HashMap<u32, Vec<u32>> = HashMap::new();
    for &(site, callee, _) in &file.edges {
        all.entry(site).or_default().push(callee);
    }
    // The graph has edges to all functions as which the one that is called may go on.
    let goes_on_as = |one: u32, other: u32| {
        let tails = file.functions.get(one as usize).map(|known| &known.tails);
        tails.is_some_and(|tails| tails.contains(&other))
    };
    let called = all.into_iter().filter_map(|(site, all)| {
        let is_first = |one: &u32| {
            let mut others = all.iter().filter(|other| *other != one);
            others.all(|other| goes_on_as(*one, *other))
        };
        let mut first = all.iter().copied().filter(is_first);
        Some((site, first.next().filter(|_| first.next().is_none())?))
    });
    called.collect()
}

impl Known {
    fn new(file: File) -> Known {
        let graph = graph(&file);
        let options = Options {
            most: file.most,
            by_function: file.by_function,
            ..Options::default()
        };
        let numbering = Numbering::of(&graph, options);
        let mut adds = HashMap::new();
        for (number, edge) in (0..).zip(&graph.edges) {
            if let Step::Add(sum) = numbering.step(number, 0) {
                adds.insert(file.sites[edge.site as usize].at, sum);
            }
        }
        let owners = (0..).zip(&file.functions).flat_map(|(number, function)| {
            let ranges = function.ranges.iter();
            ranges.map(move |(start, len)| (*start, start.wrapping_add(*len), number))
        });
        let mut owners: Vec<(u64, u64, u32)> = owners.collect();
        owners.sort_unstable();
        let token = |addr: u64| addr.wrapping_add(file.base) as u32;
        let functions = (0..).zip(&file.functions).flat_map(|(number, function)| {
            let entries = function.others.iter().chain([&function.entry]);
            entries.map(move |entry| (token(*entry), number))
        });
        let sites = (0..).zip(&file.sites);
        Known {
            called: called(&file),
            functions: functions.collect(),
            sites: sites
                .map(|(number, site)| (token(site.at), number))
                .collect(),
            numbering,
            adds,
            owners,
            bias: 0,
            file,
        }
    }

    /// The instruction at an address of the file, and what is pending there.
    fn whereabouts(&self, at: u64) -> Result<Option<(u64, u64)>, Unknown> {
        let (start, end) = self.file.added;
        if !(start..end).contains(&at) {
            // There is a jump to the new code.
            let owner = self.function_of(at);
            let is_moved = owner.is_some_and(|owner| self.file.functions[owner as usize].is_moved);
            return if is_moved {
                Err(Unknown::Within)
            } else {
                Ok(None)
            };
        }
        let code = &self.file.code;
        let behind = code.partition_point(|insn| insn.front <= at);
        let Some(insn) = behind.checked_sub(1).map(|index| code[index]) else {
            return Err(Unknown::Within);
        };
        let adds = |old: u64| self.adds.get(&old).copied().unwrap_or(0);
        let has = |places: &[u64]| places.binary_search(&insn.old).is_ok();
        if at == insn.new && has(&self.file.exits) || at < insn.new && has(&self.file.restored) {
            return Err(Unknown::Within);
        }
        if at == insn.new {
            return Ok(Some((insn.old, adds(insn.old))));
        }
        // A call comes back in front of what takes off its sum.
        let before = behind.checked_sub(2).filter(|_| has(&self.file.returns));
        let before = before.map(|index| code[index].old);
        match at == insn.front {
            true => Ok(Some((insn.old, before.map_or(0, adds)))),
            false => Err(Unknown::Within),
        }
    }

    /// The function that is entered at an address.
    fn function_at(&self, entry: u64) -> Option<u32> {
        let token = entry.wrapping_add(self.file.base) as u32;
        self.functions.get(&token).copied()
    }

    /// The function that an instruction is of.
    fn function_of(&self, old: u64) -> Option<u32> {
        let behind = self.owners.partition_point(|(start, ..)| *start <= old);
        let (_, end, function) = self.owners[behind.checked_sub(1)?];
        (old < end).then_some(function)
    }
}

/// Decodes contexts of files that were edited together.
#[derive(Debug, Default)]
pub struct Decoder {
    files: Vec<Known>,
}

impl Decoder {
    pub fn new(files: impl IntoIterator<Item = File>) -> Decoder {
        let files = files.into_iter().map(Known::new);
        Decoder {
            files: files.collect(),
        }
    }

    pub fn files(&self) -> impl Iterator<Item = &File> {
        self.files.iter().map(|known| &known.file)
    }

    /// Tells where a file is in memory: the difference of addresses there and in the file.
    pub fn set_bias(&mut self, file: usize, bias: u64) {
        if let Some(known) = self.files.get_mut(file) {
            known.bias = bias;
        }
    }

    /// The instruction of new code at an address in memory; `None`: the address is elsewhere.
    ///
    /// # Errors
    /// It is within code that was inserted.
    pub fn whereabouts(&self, at: u64) -> Result<Option<Whereabouts>, Unknown> {
        for (file, known) in self.files.iter().enumerate() {
            if let Some((old, pending)) = known.whereabouts(at.wrapping_sub(known.bias))? {
                let function = known.function_of(old).ok_or(Unknown::Nothing(old))?;
                return Ok(Some(Whereabouts {
                    function: Function { file, function },
                    old,
                    pending,
                }));
            }
        }
        Ok(None)
    }

    /// The path of a moment, the outermost function first; in other code, that of the function which called it.
    ///
    /// # Errors
    /// It is not known.
    pub fn path(&self, moment: &Moment) -> Result<Vec<Frame>, Unknown> {
        if moment.lost >= moment.stack {
            return Err(Unknown::Lost);
        }
        let here = (moment.at, moment.stack);
        let end = self.end(here, moment.number, moment.site)?;
        let path = self.path_to(end, moment)?;
        Ok(path.into_iter().map(|(frame, _)| frame).collect())
    }

    /// The path of a moment in a function, which ends with it.
    ///
    /// # Errors
    /// It is not known.
    pub fn path_in(&self, function: Function, moment: &Moment) -> Result<Vec<Frame>, Unknown> {
        let path = self.path_with_entries(function, moment)?;
        Ok(path.into_iter().map(|(frame, _)| frame).collect())
    }

    /// Such a path, with the function of each frame that was called: it went on as the frame's by a jump, if it is another one.
    ///
    /// # Errors
    /// It is not known.
    pub fn path_with_entries(
        &self,
        function: Function,
        moment: &Moment,
    ) -> Result<Vec<(Frame, Function)>, Unknown> {
        if moment.lost >= moment.stack {
            return Err(Unknown::Lost);
        }
        let end = End {
            function,
            number: moment.number,
            stack: moment.stack,
            is_jump: false,
        };
        self.path_to(Some(end), moment)
    }

    fn path_to(
        &self,
        mut end: Option<End>,
        moment: &Moment,
    ) -> Result<Vec<(Frame, Function)>, Unknown> {
        let mut records = moment.records.iter();
        let mut frames: Vec<(Frame, Function)> = Vec::new();
        while let Some(own) = end.take() {
            let is_begin = |record: &&Record| {
                let kind = Kind::of(record.kind);
                record.holds(own.stack) && !matches!(kind, Some(Kind::Mark | Kind::Bottom))
            };
            let record = records.find(is_begin).ok_or(Unknown::NoPath)?;
            let (by, below) = self.below(record)?;
            let found = self.add_piece(&own, record, by, &mut frames);
            match (found, own.is_jump) {
                // Functions may have gone on as others one after the other: the first one is known, and the last one.
                (Err(Unknown::NoPath | Unknown::Nothing(_)), true) => {
                    let frame = Frame {
                        by: By::Unknown,
                        function: own.function,
                    };
                    frames.push((frame, own.function));
                    let first = End {
                        function: self.function_of_token(record.entry)?,
                        number: record.number,
                        ..own
                    };
                    self.add_piece(&first, record, by, &mut frames)?;
                }
                (found, _) => found?,
            }
            end = below;
        }
        frames.reverse();
        Ok(frames)
    }

    /// The way by which control came to the function of a record, and the end of the path below it.
    fn below(&self, record: &Record) -> Result<(By, Option<End>), Unknown> {
        let other = self.other(record.level, record.number, record.site);
        Ok(match Kind::of(record.kind) {
            Some(Kind::Call) => {
                let call = self.site(record.by)?;
                let end = End {
                    function: self.caller(call),
                    number: record.number,
                    // The return address is at its level.
                    stack: record.level.wrapping_add(8),
                    is_jump: false,
                };
                (By::Call(call), Some(end))
            }
            Some(Kind::Entered | Kind::EnteredLeaves) => match other {
                Ok(Some((call, end))) => (By::Other(call), Some(end)),
                Ok(None) => (By::Outside, None),
                Err(_) => (By::Unknown, None),
            },
            Some(Kind::Handler) => {
                let at = (record.interrupted, record.stack_before);
                match self.end(at, record.number, record.site) {
                    Ok(end) => (By::Signal, end),
                    Err(_) => (By::Unknown, None),
                }
            }
            _ => (By::Unknown, None),
        })
    }

    /// Adds the frames of a path that begins at a record, the innermost first.
    fn add_piece(
        &self,
        &End {
            function, number, ..
        }: &End,
        record: &Record,
        by: By,
        frames: &mut Vec<(Frame, Function)>,
    ) -> Result<(), Unknown> {
        let file = function.file;
        let known = &self.files[file];
        let entered = known.functions.get(&record.entry);
        let entered = *entered.ok_or(Unknown::Nothing(record.entry.into()))?;
        let head = known.numbering.head(entered).ok_or(Unknown::NoPath)?;
        let context = Context {
            id: head.wrapping_add(number.wrapping_sub(record.number)),
            stack: Vec::new(),
        };
        let pieces = known.numbering.decode(&context, function.function);
        let pieces = pieces.map_err(|_| Unknown::NoPath)?;
        let piece = pieces.first().ok_or(Unknown::NoPath)?;
        // A mark that was taken off stands for the function itself.
        let is_it = piece.entered == entered;
        if !is_it {
            return Err(Unknown::NoPath);
        }
        let calls = piece.calls.iter().rev();
        frames.extend(calls.map(|&(site, function)| {
            let frame = Frame {
                by: By::Call(Call { file, site }),
                function: Function { file, function },
            };
            let called = known.called.get(&site).copied().unwrap_or(function);
            (
                frame,
                Function {
                    file,
                    function: called,
                },
            )
        }));
        let frame = Frame {
            by,
            function: Function {
                file,
                function: piece.head,
            },
        };
        frames.push((
            frame,
            Function {
                file,
                function: entered,
            },
        ));
        Ok(())
    }

    /// The end of a path at an instruction, with the stack pointer, a number and a site there; `None`: nothing was called.
    fn end(&self, (at, stack): (u64, u64), number: u64, site: u64) -> Result<Option<End>, Unknown> {
        match self.whereabouts(at)? {
            Some(place) => Ok(Some(End {
                function: place.function,
                number: number.wrapping_sub(place.pending),
                stack,
                is_jump: false,
            })),
            None => Ok(self.other(stack, number, site)?.map(|(_, end)| end)),
        }
    }

    /// The call of other code that is told, and the end of its path; `None`: there is none. `stack`: a stack pointer in that code.
    fn other(&self, stack: u64, number: u64, site: u64) -> Result<Option<(Call, End)>, Unknown> {
        if site == 0 {
            return Ok(None);
        }
        let call = self.site((site >> 32) as u32)?;
        if self.files[call.file].file.sites[call.site as usize].kind == SITE_OF_TRAP {
            return Err(Unknown::Trap);
        }
        // The stack pointer at the call, of which the lower half is told.
        let distance = (site as u32).wrapping_sub(stack as u32).cast_signed();
        if distance < 0 {
            // `longjmp` has left it, and control is not yet where it goes.
            return Err(Unknown::Within);
        }
        let end = End {
            function: self.caller(call),
            number,
            stack: stack.wrapping_add_signed(distance.into()),
            // A call would have the return address between.
            is_jump: distance == 0,
        };
        Ok(Some((call, end)))
    }

    /// The call at an address of a record.
    fn site(&self, site: u32) -> Result<Call, Unknown> {
        let mut files = self.files.iter().enumerate();
        let found = files.find_map(|(file, known)| {
            let site = *known.sites.get(&site)?;
            Some(Call { file, site })
        });
        found.ok_or(Unknown::Nothing(site.into()))
    }

    /// The file of a function that a record names.
    fn file_of(&self, entry: u64) -> Result<usize, Unknown> {
        let is_it = |known: &Known| {
            let entry = u32::try_from(entry).ok();
            entry.is_some_and(|entry| known.functions.contains_key(&entry))
        };
        let found = self.files.iter().position(is_it);
        found.ok_or(Unknown::Nothing(entry))
    }

    fn caller(&self, call: Call) -> Function {
        Function {
            file: call.file,
            function: self.files[call.file].file.sites[call.site as usize].caller,
        }
    }
}
