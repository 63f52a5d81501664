//! Memory of nests that threads of edited programs leave in files of counters: of each edited file, with its section.

use std::fs::OpenOptions;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::path::Path;

use analysis::followed::{Loop as SeenLoop, Nest as Seen, Reference};
use anyhow::{Result, anyhow, bail};
use edits::loops::section::{Followed, MAGIC, OfLoop, Planned};
use wire::loops::strides::{KEPT, Strides};
use wire::loops::{Loop, Model, Nest};

use super::found::Thread;

use crate::counter_header::{Header, Part};
use crate::output::reason;

/// An edited file, and what threads have left of it.
pub struct Edited {
    pub planned: Planned,
    pub threads: Vec<Thread>,
    /// It is not the program that the process executed.
    pub is_library: bool,
    id: [u8; 16],
}

/// Has a running process whose counters these are follow nests again; `false`: it follows none.
pub fn again(path: &Path) -> Result<bool> {
    let mut gathered = Gathered::default();
    let has_nests = gathered.learn(path)?;
    if has_nests {
        gathered.follow_again(path)?;
    }
    Ok(has_nests)
}

/// Files that were edited together.
#[derive(Default)]
pub struct Gathered(pub Vec<Edited>);

impl Gathered {
    /// Files with these sections, of which no thread has left anything yet.
    pub fn of(sections: &[String]) -> Result<Gathered> {
        let mut gathered = Gathered::default();
        for section in sections {
            gathered.insert(section, false)?;
        }
        Ok(gathered)
    }

    /// Has the edited files of one program that a file of counters names, too. `false`: it is of another tool.
    pub fn learn(&mut self, path: &Path) -> Result<bool> {
        let (header, _) = Header::of(path)?;
        for part in &header.parts {
            if self.position(part).is_some() {
                continue;
            }
            let edited = part.path.as_ref().unwrap_or(&header.program);
            let bytes = std::fs::read(edited).map_err(|error| {
                anyhow!(
                    "cannot read '{edited}', an edited file that wrote '{}': {}",
                    path.display(),
                    reason(&error)
                )
            })?;
            let section = rewrite::plan_of(&bytes);
            let section = section.filter(|section| placement::plan::hash(section) == part.id);
            let text = section.and_then(|section| std::str::from_utf8(section).ok());
            match text.filter(|text| text.lines().next() == Some(MAGIC)) {
                Some(text) => self.insert(text, *edited != header.program)?,
                None if self.0.is_empty() => return Ok(false),
                None => bail!("'{edited}' is not the file that wrote '{}'", path.display()),
            }
        }
        if self.0.iter().filter(|edited| !edited.is_library).count() > 1 {
            bail!(
                "'{}' is of another program than the file before it",
                path.display()
            );
        }
        Ok(!self.0.is_empty())
    }

    fn insert(&mut self, section: &str, is_library: bool) -> Result<()> {
        let planned = Planned::parse(section).ok_or_else(|| anyhow!("the section is damaged"))?;
        self.0.push(Edited {
            planned,
            threads: Vec::new(),
            is_library,
            id: placement::plan::hash(section.as_bytes()),
        });
        Ok(())
    }

    /// The edited file of a part.
    fn position(&self, part: &Part) -> Option<usize> {
        self.0.iter().position(|edited| edited.id == part.id)
    }

    /// Adds what threads have left in a file.
    pub fn add(&mut self, path: &Path) -> Result<()> {
        let (header, bytes) = Header::of(path)?;
        for part in &header.parts {
            let Some(number) = self.position(part) else {
                bail!(
                    "'{}' is of another program than the file before it",
                    path.display()
                );
            };
            let edited = &mut self.0[number];
            for range in part.ranges() {
                let memory = Memory {
                    bytes: &bytes[range],
                    base: edited.planned.base,
                    has_strides: edited.planned.has_strides,
                };
                let nests = edited.planned.nests.iter();
                edited.threads.push(Thread {
                    bias: part.bias,
                    nests: nests.map(|nest| memory.nest(nest)).collect(),
                });
            }
        }
        Ok(())
    }

    /// Has all threads of a running process follow nests again that they do not follow any more. The file is their memory.
    pub fn follow_again(&self, path: &Path) -> Result<()> {
        let (header, bytes) = Header::of(path)?;
        let file = OpenOptions::new().write(true).open(path)?;
        for part in &header.parts {
            let Some(edited) = self.position(part).map(|number| &self.0[number]) else {
                continue;
            };
            for (range, nest) in part.ranges().flat_map(|range| {
                edited
                    .planned
                    .nests
                    .iter()
                    .map(move |nest| (range.clone(), nest))
            }) {
                let Some(place) = u64::from(nest.at).checked_sub(edited.planned.base) else {
                    continue;
                };
                let place = range.start + place as usize;
                let flag = |offset: usize| bytes.get(place + offset).copied().unwrap_or(0);
                let is_idle = flag(offset_of!(Nest, inside)) == 0;
                if is_idle && flag(offset_of!(Nest, off)) != 0 {
                    let put = |offset: usize, bytes: &[u8]| {
                        file.write_all_at(bytes, (place + offset) as u64)
                    };
                    put(offset_of!(Nest, since), &[0; size_of::<u32>()])?;
                    put(offset_of!(Nest, events), &[0; size_of::<u64>()])?;
                    put(offset_of!(Nest, off), &[0])?;
                }
            }
        }
        Ok(())
    }
}

/// The memory of a thread.
struct Memory<'a> {
    bytes: &'a [u8],
    /// Displacement from `%gs` of its first byte.
    base: u64,
    /// References have their steps behind their models.
    has_strides: bool,
}

impl Memory<'_> {
    fn word(&self, at: u32, offset: usize) -> u64 {
        let place = (u64::from(at) + offset as u64).checked_sub(self.base);
        let word = place.and_then(|place| self.bytes.get(place as usize..)?.first_chunk());
        word.map_or(0, |word| u64::from_le_bytes(*word))
    }

    fn list<const N: usize>(&self, at: u32, offset: usize) -> [i64; N] {
        std::array::from_fn(|number| self.word(at, offset + 8 * number).cast_signed())
    }

    fn nest(&self, own: &Followed) -> Seen {
        let inside = self.word(own.at, 0) >> (8 * offset_of!(Nest, inside)) & 0xff;
        Seen {
            entries: self.word(own.at, offset_of!(Nest, entries)),
            lost: self.word(own.at, offset_of!(Nest, lost)) + u64::from(inside != 0),
            loops: own.loops.iter().map(|one| self.one(one)).collect(),
        }
    }

    fn one(&self, own: &OfLoop) -> SeenLoop {
        let word = |offset| self.word(own.at, offset);
        let references = own.references.iter().map(|own| match own.model {
            Ok(at) => self.reference(at),
            Err(_) => Reference::default(),
        });
        SeenLoop {
            entries: word(offset_of!(Loop, entries)),
            sum: word(offset_of!(Loop, sum)),
            least: word(offset_of!(Loop, least)),
            most: word(offset_of!(Loop, most)),
            trips: self.model(own.at + offset_of!(Loop, trips) as u32),
            references: references.collect(),
        }
    }

    fn reference(&self, at: u32) -> Reference {
        let behind = at + size_of::<Model>() as u32;
        let strides = self.has_strides.then(|| Strides {
            strides: self.list(behind, offset_of!(Strides, strides)),
            counts: self
                .list::<KEPT>(behind, offset_of!(Strides, counts))
                .map(i64::cast_unsigned),
            others: self.word(behind, offset_of!(Strides, others)),
            ..Strides::default()
        });
        Reference {
            model: self.model(at),
            strides: strides.unwrap_or_default(),
        }
    }

    fn model(&self, at: u32) -> Model {
        let word = |offset| self.word(at, offset);
        let fits = word(offset_of!(Model, as_forecast));
        let fails = word(offset_of!(Model, otherwise));
        Model {
            samples: word(offset_of!(Model, samples)) + fits + fails,
            fits: word(offset_of!(Model, fits)) + fits,
            fails: word(offset_of!(Model, fails)) + fails,
            unsolved: word(offset_of!(Model, unsolved)),
            known: word(offset_of!(Model, known)),
            entry: word(offset_of!(Model, entry)),
            moved: word(offset_of!(Model, moved)),
            first: word(offset_of!(Model, first)).cast_signed(),
            at: self.list(at, offset_of!(Model, at)),
            coefficients: self.list(at, offset_of!(Model, coefficients)),
            ..Model::default()
        }
    }
}

const _: () = assert!(size_of::<Nest>().is_multiple_of(8) && size_of::<Loop>().is_multiple_of(8));
