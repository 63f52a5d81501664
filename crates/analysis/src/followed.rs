//! Nests of loops that are followed in a trace with addresses: the models of references and iterations that edited programs keep
//! themselves ([`wire::loops`]), for all code that was traced.
//!
//! Approach: [`crate::nesting`] says which iterations an access is in, and a [`Model`] takes its address.
//!
//! Invariant: models are those of `loops --exact`, except after an exception or `longjmp`: an edited program does not enter such a nest
//! again, and here it is.

use hashbrown::HashMap;
use isa::memory::Selection;
use trace::Process;
use wire::loops::Model;
use wire::loops::strides::Strides;

use crate::nesting::{self, Access, Entry, Id, Nests, Watch};

/// A reference that is followed: its instruction, as linked, and its number among the memory operands there.
pub type Wanted = (u64, u8);

/// A file with its nests.
pub struct Code<'a> {
    pub nests: Nests<'a>,
    /// By nest and loop: references that are followed, and those that are not.
    pub references: Vec<Vec<Vec<Option<Wanted>>>>,
}

/// A reference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reference {
    pub model: Model,
    pub strides: Strides,
}

/// A loop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loop {
    /// Entries that were followed to their end, and iterations of these: sum, least, most.
    pub entries: u64,
    pub sum: u64,
    pub least: u64,
    pub most: u64,
    /// Iterations of an entry, as a function of the numbers of iterations of the loops around it.
    pub trips: Model,
    /// As in [`Code::references`].
    pub references: Vec<Reference>,
}

/// A nest, in one thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nest {
    pub entries: u64,
    /// Entries whose end did not come.
    pub lost: u64,
    pub loops: Vec<Loop>,
}

impl Loop {
    /// An entry is over.
    fn ended(&mut self, trips: u64) {
        self.least = match self.entries {
            0 => trips,
            _ => self.least.min(trips),
        };
        self.most = self.most.max(trips);
        self.sum += trips;
        self.entries += 1;
    }
}

/// The loop of a reference, its index there, and the operand.
type Place = (usize, usize, u8);

/// The nests of each file that a thread has entered; `None`: it has not.
pub type Seen = Vec<Vec<Option<Nest>>>;

/// Watches one thread.
struct Watcher<'a> {
    files: &'a [&'a Code<'a>],
    /// Places of references, by file and instruction.
    places: &'a HashMap<(usize, u64), Vec<Place>>,
    seen: Seen,
}

/// Follows the nests of files in each thread of a process, which has each file so far from where it was linked; gives what each thread
/// did, and sentences about threads that could not be read to their end.
pub fn of_process(
    process: &Process,
    selection: Selection,
    files: &[(&Code<'_>, u64)],
) -> (Vec<Seen>, Vec<String>) {
    let nests = files.iter().map(|(code, bias)| (&code.nests, *bias));
    let nests: Vec<_> = nests.collect();
    let files: Vec<&Code<'_>> = files.iter().map(|(code, _)| *code).collect();
    let places = places(&files);
    let watch = || Watcher {
        files: &files,
        places: &places,
        seen: (files.iter())
            .map(|code| vec![None; code.references.len()])
            .collect(),
    };
    let (watchers, failures) = nesting::of_process(process, selection, &nests, watch);
    (watchers.into_iter().map(|own| own.seen).collect(), failures)
}

fn places(files: &[&Code<'_>]) -> HashMap<(usize, u64), Vec<Place>> {
    let mut places: HashMap<_, Vec<Place>> = HashMap::new();
    for (file, code) in files.iter().enumerate() {
        for nest in &code.references {
            for (number, references) in nest.iter().enumerate() {
                let wanted = references.iter().enumerate();
                for (index, (at, operand)) in
                    wanted.filter_map(|(index, own)| Some((index, (*own)?)))
                {
                    let own = places.entry((file, at)).or_default();
                    own.push((number, index, operand));
                }
            }
        }
    }
    places
}

impl Watcher<'_> {
    fn nest(&mut self, (file, nest): Id) -> &mut Nest {
        let references = &self.files[file].references[nest];
        self.seen[file][nest].get_or_insert_with(|| {
            let loops = references.iter().map(|own| Loop {
                references: vec![Reference::default(); own.len()],
                ..Loop::default()
            });
            Nest {
                loops: loops.collect(),
                ..Nest::default()
            }
        })
    }
}

impl Watch for Watcher<'_> {
    /// The number of the entry, from 1 on.
    type Own = u64;

    fn begin(&mut self, id: Id, lasting: usize) -> Option<u64> {
        if lasting > 0 {
            return None;
        }
        let nest = self.nest(id);
        nest.entries += 1;
        Some(nest.entries)
    }

    fn iterates(&mut self, _: &mut Entry<u64>) {}

    fn leaves(&mut self, entry: &mut Entry<u64>, number: usize, iterations: i64) {
        let (numbers, depth) = entry.numbers();
        let own = &mut self.nest(entry.id).loops[number];
        own.ended(iterations.cast_unsigned());
        own.trips.add(entry.own, &numbers[..depth], iterations);
    }

    fn accesses(&mut self, entry: &mut Entry<u64>, access: &Access<'_>) {
        if !access.is_own {
            return;
        }
        let Some(places) = self.places.get(&(entry.id.0, access.at)) else {
            return;
        };
        let is_wanted = |place: &&Place| usize::from(place.2) == access.nth;
        let Some(&(number, index, _)) = places.iter().find(is_wanted) else {
            return;
        };
        let (numbers, depth) = entry.numbers();
        let address = access.accessed.access.address;
        let own = &mut self.nest(entry.id).loops[number].references[index];
        own.strides.add(entry.own, address);
        (own.model).add(entry.own, &numbers[..depth], address.cast_signed());
    }

    fn ends(&mut self, entry: Entry<u64>, is_lost: bool) {
        self.nest(entry.id).lost += u64::from(is_lost);
    }
}
