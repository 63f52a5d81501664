//! `loops`: nests of loops are followed: where their references access memory, and how often loops come back (VMAD).
//!
//! Approach: a nest has three versions ([`rewrite::Versions`]), as in figure 5 of the paper.
//!
//! | version | blocks | inserted |
//! |---|---|---|
//! | the first one | all | on the ways into the nest: whether this entry is followed, a comparison; nothing else |
//! | followed | the nest's | at heads of loops: an entry or an iteration; before memory operands: their address; on ways out: the end |
//! | quiet | those of inner loops | at heads: the number of the iteration; on ways out: the end |
//!
//! A loop that was followed for its first iterations goes on in the quiet version if it is an inner one, whose end leads back to the
//! iteration around it, and in the first one, for good, if it is the nest's outermost. So does any loop of a nest that was followed
//! for long enough. The resident code follows each place ([`wire::loops`]).
//!
//! Invariant: a nest is followed as a whole or not at all; of its references each alone may be left, and says why.
//!
//! Limits: a nest that is left by an exception or `longjmp` is not followed again by that thread. Nests whose header begins a function,
//! or that a table or a landing pad leads into, are not followed.
//!
//! Source: A. Jimborean et al., "VMAD: a Virtual Machine for Advanced Dynamic Analysis of Programs" (2010), section 5.

mod control;
pub mod section;

use std::collections::{BTreeMap, BTreeSet};
use std::mem::offset_of;

use flow::Program;
use flow::nests::{Nest, Nests, Obstacle};
use image::{Image, LinkAddr};
use isa::memory::Segment;
use isa::{Insn, Reg};
use probe::{At, Byte, Forecast, Op, Value, Word};
use rewrite::unit::Node;
use rewrite::{
    Form, Memory, Outcome, Plan, REFER, Section, StaticTool, Unit, Version, Versions, Why,
};
use wire::counters::FIRST;
use wire::loops::strides::Strides;
use wire::loops::{DEPTH, FORECAST, Facts, Loop, Model, NONE, Nest as State, STRIDES, THREAD};

use crate::Wanted;
use section::{Followed, Left, OfLoop, OfReference, Planned};

/// The version that is followed, and the one that only counts.
const FOLLOWED: Version = Version(1);
const QUIET: Version = Version(2);

/// Most bytes of a thread's memory.
const MOST: u64 = 1 << 28;

/// Nests that are to be followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Headers of their outermost loops; `None`: all nests.
    pub headers: Option<BTreeSet<u64>>,
    /// All iterations.
    pub is_exact: bool,
    /// Steps of each reference are counted, too.
    pub has_strides: bool,
    /// Entries of each that a thread follows, unless all iterations are.
    pub entries: u16,
}

/// Follows nests.
pub struct Loops<'d> {
    wanted: Wanted<'d>,
    image: &'d Image,
    choice: Choice,
    /// Nests that are chosen, by function.
    nests: BTreeMap<usize, Vec<Nest>>,
    /// Nests that are followed, and why others are not.
    planned: BTreeMap<usize, Vec<Followed>>,
    left: BTreeMap<u64, String>,
    /// Bytes of memory that are taken.
    next: u64,
}

/// A nest of a unit, and its places in memory.
struct Place<'n> {
    nest: &'n Nest,
    state: u32,
    loops: Vec<u32>,
    /// By loop and reference.
    models: Vec<Vec<Result<u32, Left>>>,
}

const fn bytes_of<T>() -> u64 {
    size_of::<T>() as u64
}

impl<'d> Loops<'d> {
    pub fn new(image: &'d Image, program: &'d Program, wanted: Wanted<'d>) -> Loops<'d> {
        let choice = wanted.loops.cloned().unwrap_or(Choice {
            headers: None,
            is_exact: false,
            has_strides: false,
            entries: section::ENTRIES,
        });
        let mut nests: BTreeMap<usize, Vec<Nest>> = BTreeMap::new();
        for nest in Nests::of(image, program).nests {
            let header = nest.loops[0].header.0;
            if (choice.headers.as_ref()).is_none_or(|headers| headers.contains(&header)) {
                nests.entry(nest.function).or_default().push(nest);
            }
        }
        let mut left = BTreeMap::new();
        for nest in nests.values().flatten() {
            let why = "its function is left where it is".to_owned();
            left.insert(nest.loops[0].header.0, why);
        }
        Loops {
            wanted,
            image,
            choice,
            nests,
            planned: BTreeMap::new(),
            left,
            next: 0,
        }
    }

    /// Displacement of the file's memory from `%gs`.
    fn base(&self) -> u64 {
        FIRST + self.wanted.part.map_or(0, |part| part.at)
    }

    /// A place for something.
    fn take<T>(&mut self) -> u32 {
        let at = self.base() + self.next;
        self.next += bytes_of::<T>().next_multiple_of(8);
        at as u32
    }

    /// The operand of a reference, and the same for the resident code.
    fn operand(&self, at: LinkAddr, number: u8) -> Result<(Value, [u32; 2]), Left> {
        let bytes = self.image.bytes_from(at);
        let insn = Insn::decode(&bytes[..bytes.len().min(15)], at.0).map_err(|_| Left::Operand)?;
        let operands = insn.memory();
        let operand = operands.get(usize::from(number)).ok_or(Left::Operand)?;
        let address = operand.address;
        let register = |register: Option<Reg>| register.map_or(NONE, |register| register as u32);
        let index = address.index.map(|index| index.register);
        let scale = address.index.map_or(1, |index| u32::from(index.scale));
        let is_byte = address.index.is_some_and(|index| index.is_byte);
        let is_thread = address.segment == Some(Segment::Fs);
        let uses_link = [address.base, index].contains(&Some(Reg::R11));
        if is_byte || address.segment == Some(Segment::Gs) {
            return Err(Left::Operand);
        }
        if uses_link {
            return Err(Left::Register);
        }
        let displacement = i32::try_from(address.displacement.cast_signed());
        let displacement = displacement.map_err(|_| Left::Operand)?;
        let about = register(address.base)
            | register(index) << 8
            | scale.trailing_zeros() << 16
            | if is_thread { THREAD << 24 } else { 0 };
        let value = Value::Memory {
            is_thread,
            base: address.base,
            index: address.index.map(|index| (index.register, index.scale)),
            displacement,
        };
        Ok((value, [displacement.cast_unsigned(), about]))
    }

    /// Why a nest cannot be followed in this unit.
    fn obstacle(&self, unit: &Unit<'_>, nest: &Nest) -> Option<String> {
        if nest.depth() as usize > DEPTH {
            return Some(format!("it has more than {DEPTH} loops around each other"));
        }
        let irreducible = nest.obstacles.iter().find_map(|own| match own {
            Obstacle::Irreducible(at) => Some(format!(
                "a cycle in it is also entered behind its beginning at {at:#x}"
            )),
            _ => None,
        });
        if irreducible.is_some() {
            return irreducible;
        }
        let graph = &unit.function.graph;
        let outermost = &nest.loops[0];
        let header = graph.block_from(outermost.header)? as u32;
        let is_in = |block: u32| outermost.blocks.binary_search(&block).is_ok();
        for edge in &unit.edges {
            let Node::Start(to) = edge.to else {
                if matches!(edge.from, Node::End(from) if is_in(from)) && !is_way_out(edge) {
                    return Some("something leaves it where nothing can be inserted".into());
                }
                continue;
            };
            let is_inside = matches!(edge.from, Node::End(from) if is_in(from));
            match (edge.from, is_in(to)) {
                (Node::Table(_), true) => return Some("a table leads into it".into()),
                (Node::Outside, true) => {
                    return Some("the function begins with it, or it catches exceptions".into());
                }
                (_, true) if !is_inside && to == header && !edge.has_place() => {
                    return Some("nothing can be inserted before it".into());
                }
                (Node::End(_), false) if is_inside && !edge.has_place() => {
                    return Some("something leaves it where nothing can be inserted".into());
                }
                _ => {}
            }
        }
        None
    }

    /// Gives a nest its places, if all that has to be done in it can be.
    fn place<'n>(&mut self, unit: &Unit<'_>, nest: &'n Nest) -> Result<Place<'n>, String> {
        if let Some(why) = self.obstacle(unit, nest) {
            return Err(why);
        }
        let before = self.next;
        let state = self.take::<State>();
        let loops: Vec<u32> = nest.loops.iter().map(|_| self.take::<Loop>()).collect();
        let mut place = Place {
            nest,
            state,
            loops,
            models: Vec::new(),
        };
        for version in [FOLLOWED, QUIET] {
            for (at, ops) in self.of_control(unit, &place, version) {
                if !unit.takes_all(at, &ops, 0) {
                    self.next = before;
                    return Err("no register is free where something has to be inserted".into());
                }
            }
        }
        for one in &nest.loops {
            let models = one.references.iter().map(|reference| {
                if !reference.is_plain {
                    return Err(Left::Several);
                }
                if let Some(address) = reference.constant {
                    return Err(Left::Constant(address));
                }
                self.operand(reference.at, reference.operand)?;
                let at = self.take::<Model>();
                if self.choice.has_strides {
                    self.take::<Strides>();
                }
                Ok(at)
            });
            let models = models.collect();
            place.models.push(models);
        }
        for number in 0..nest.loops.len() {
            for index in 0..nest.loops[number].references.len() {
                let fits = match self.refer(unit, &place, number, index) {
                    Some((at, op)) => unit.takes(at, op),
                    None => continue,
                };
                if !fits {
                    place.models[number][index] = Err(Left::Scratch);
                }
            }
        }
        match self.next > self.wanted.part.map_or(MOST, |part| part.most) {
            true => {
                self.next = before;
                Err("there is no memory left for it".into())
            }
            false => Ok(place),
        }
    }

    /// The op before the instruction of a reference, and its position. If all iterations are followed, an address that is as forecast is
    /// only counted, where there are registers for it.
    fn refer(
        &self,
        unit: &Unit<'_>,
        place: &Place<'_>,
        number: usize,
        index: usize,
    ) -> Option<(At, Op)> {
        let reference = place.nest.loops[number].references[index];
        let model = place.models[number][index].ok()?;
        let (value, [displacement, about]) = self.operand(reference.at, reference.operand).ok()?;
        let graph = &unit.function.graph;
        let block = graph.block_at(reference.at)?;
        let bytes = reference.at.0 - graph.blocks[block].start.0;
        let at = match bytes {
            0 => At::Block(block as u32),
            bytes => At::Inside(block as u32, bytes as u32),
        };
        let mut facts: Facts = [model, place.loops[number], displacement, about];
        if self.choice.has_strides {
            facts[3] |= STRIDES << 24;
        }
        let look = Op::Look {
            routine: REFER,
            facts,
        };
        facts[3] |= FORECAST << 24;
        let word = |at: u32, offset: usize| Word(at + offset as u32);
        let expect = Op::Expect {
            value,
            forecast: Forecast {
                number: word(place.loops[number], offset_of!(Loop, iteration)),
                step: word(model, offset_of!(Model, step)),
                less: word(model, offset_of!(Model, less)),
                is_made: Byte(model + offset_of!(Model, has_forecast) as u32),
                counts: [
                    word(model, offset_of!(Model, as_forecast)),
                    word(model, offset_of!(Model, otherwise)),
                ],
            },
            routine: REFER,
            facts,
        };
        // An address that is only counted has no steps.
        let is_enough = self.choice.is_exact && !self.choice.has_strides;
        match is_enough && unit.takes(at, expect) {
            true => Some((at, expect)),
            false => Some((at, look)),
        }
    }

    /// A nest as readers know it.
    fn followed(&self, place: &Place<'_>) -> Followed {
        let loops = place.nest.loops.iter().enumerate().map(|(number, one)| {
            let references = one.references.iter().zip(&place.models[number]);
            OfLoop {
                header: one.header.0,
                parent: one.parent,
                at: place.loops[number],
                references: references
                    .map(|(reference, model)| OfReference {
                        address: reference.at.0,
                        operand: reference.operand,
                        writes: reference.kind.writes(),
                        reads: reference.kind.reads(),
                        bytes: reference.size,
                        model: *model,
                    })
                    .collect(),
            }
        });
        Followed {
            at: place.state,
            loops: loops.collect(),
        }
    }

    /// The places of a function's nests, from what readers know of them.
    fn places<'n>(&self, nests: &'n [Nest], planned: &[Followed]) -> Vec<Place<'n>> {
        let places = planned.iter().filter_map(|followed| {
            let header = followed.loops[0].header;
            let nest = nests.iter().find(|nest| nest.loops[0].header.0 == header)?;
            Some(Place {
                nest,
                state: followed.at,
                loops: followed.loops.iter().map(|one| one.at).collect(),
                models: followed
                    .loops
                    .iter()
                    .map(|one| one.references.iter().map(|own| own.model).collect())
                    .collect(),
            })
        });
        places.collect()
    }
}

impl StaticTool for Loops<'_> {
    fn versions(&mut self, unit: &Unit<'_>) -> Versions {
        let mut versions = Versions::ONE;
        let Some(nests) = self.nests.get(&unit.number).cloned() else {
            return versions;
        };
        let mut planned = Vec::new();
        let (mut followed, mut quiet) = (BTreeSet::new(), BTreeSet::new());
        for nest in &nests {
            let header = nest.loops[0].header.0;
            match self.place(unit, nest) {
                Err(why) => {
                    self.left.insert(header, why);
                }
                Ok(place) => {
                    self.left.remove(&header);
                    planned.push(self.followed(&place));
                    followed.extend(nest.loops[0].blocks.iter().copied());
                    let inner = nest.loops.iter().skip(1);
                    quiet.extend(inner.flat_map(|one| one.blocks.iter().copied()));
                }
            }
        }
        if !planned.is_empty() {
            let added = [versions.add(followed), versions.add(quiet)];
            debug_assert_eq!(added, [Some(FOLLOWED), Some(QUIET)]);
            self.planned.insert(unit.number, planned);
        }
        versions
    }

    fn plan(&mut self, unit: &Unit<'_>, version: Version, out: &mut Plan) -> Result<(), Why> {
        let (Some(nests), Some(planned)) =
            (self.nests.get(&unit.number), self.planned.get(&unit.number))
        else {
            return Ok(());
        };
        for place in self.places(nests, planned) {
            if version == Version::FIRST {
                for (at, op) in self.ways_in(unit, &place) {
                    out.add(unit, at, op)?;
                }
                continue;
            }
            for (at, ops) in self.of_control(unit, &place, version) {
                for op in ops {
                    out.add(unit, at, op)?;
                }
            }
            if version != FOLLOWED {
                continue;
            }
            for number in 0..place.nest.loops.len() {
                for index in 0..place.nest.loops[number].references.len() {
                    if let Some((at, op)) = self.refer(unit, &place, number, index) {
                        out.add(unit, at, op)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn spills(&self) -> bool {
        true
    }

    fn inserts_anywhere(&self) -> bool {
        true
    }

    fn skip(&mut self, function: usize) {
        for followed in self.planned.remove(&function).unwrap_or_default() {
            let why = "its function is left where it is".to_owned();
            self.left.insert(followed.loops[0].header, why);
        }
    }

    fn memory(&self) -> Option<Memory<'_>> {
        Some(Memory {
            bytes: self.next.next_multiple_of(FIRST).max(FIRST),
            form: Form::Counters,
            files: self.wanted.files,
            part: self.wanted.part,
        })
    }

    fn section(&self, outcome: &Outcome<'_>) -> Option<Section> {
        let planned = Planned {
            original: self.wanted.original.to_owned(),
            hash: section::hash(outcome.input),
            is_exact: self.choice.is_exact,
            has_strides: self.choice.has_strides,
            base: self.base(),
            nests: self.planned.values().flatten().cloned().collect(),
            left: self.left.clone().into_iter().collect(),
        };
        let bytes = planned.to_text().into_bytes();
        let id = placement::plan::hash(&bytes);
        Some(Section { bytes, id })
    }

    fn says(&self) -> String {
        let nests = self.planned.values().flatten();
        let loops = nests.clone().map(|nest| nest.loops.len());
        format!(
            "{} nests with {} loops are followed, {} are not",
            nests.count(),
            loops.sum::<usize>(),
            self.left.len()
        )
    }
}

/// Whether an edge out of the function is one at which something can be inserted, or needs nothing.
fn is_way_out(edge: &rewrite::unit::Edge) -> bool {
    use rewrite::unit::Kind::{Abandoned, Block, End, Out};
    edge.has_place() || matches!(edge.kind, Abandoned | Block | End | Out)
}
