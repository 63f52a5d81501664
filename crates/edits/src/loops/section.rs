//! Facts for readers of memory of nests: text, a line for each nest, loop and reference.
//!
//! | line | words behind its first one |
//! |---|---|
//! | `nest` | place in memory |
//! | `loop` | header, index of the parent or `-`, place |
//! | `ref` | instruction, operand, `r`, `w` or `rw`, bytes, place or why there is none |
//! | `left` | header of a nest that is not followed; why |
//!
//! Before them stand [`MAGIC`], the original's path and the hash of its bytes, and a line with flags (1: all iterations, 2: steps) and
//! [`Planned::base`].
//!
//! Numbers are hexadecimal. Places are displacements from `%gs`.

use std::fmt::Write;

/// The first line.
pub const MAGIC: &str = "everypath loops 1";
/// Entries of a nest that a thread follows, if nothing else is said.
pub const ENTRIES: u16 = 16;

/// A reason why a reference is not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Its address is always this one, as linked.
    Constant(u64),
    /// It accesses several places at once, or some of them only.
    Several,
    /// The operand is an odd one.
    Operand,
    /// A register of the operand is needed for what would be inserted.
    Register,
    /// No register is free before it.
    Scratch,
}

/// A reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfReference {
    pub address: u64,
    pub operand: u8,
    pub reads: bool,
    pub writes: bool,
    pub bytes: u16,
    /// The place of its model.
    pub model: Result<u32, Left>,
}

/// A loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfLoop {
    pub header: u64,
    /// Index of the loop around it in the nest.
    pub parent: Option<usize>,
    pub at: u32,
    pub references: Vec<OfReference>,
}

/// A nest that is followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Followed {
    pub at: u32,
    /// The outermost one first.
    pub loops: Vec<OfLoop>,
}

/// All nests that were chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Planned {
    /// Path of the original, and the hash of its bytes.
    pub original: String,
    pub hash: String,
    /// All iterations are followed.
    pub is_exact: bool,
    /// References have their steps behind their models.
    pub has_strides: bool,
    /// Displacement from `%gs` at which the file's memory begins.
    pub base: u64,
    pub nests: Vec<Followed>,
    /// Headers of those that are not followed, and why.
    pub left: Vec<(u64, String)>,
}

impl Planned {
    pub fn to_text(&self) -> String {
        let mut text = format!(
            "{MAGIC}\n{}\n{}\n{} {:x}\n",
            self.original,
            self.hash,
            u8::from(self.is_exact) | u8::from(self.has_strides) << 1,
            self.base
        );
        for nest in &self.nests {
            let _ = writeln!(text, "nest {:x}", nest.at);
            for one in &nest.loops {
                let parent = one
                    .parent
                    .map_or("-".into(), |parent| format!("{parent:x}"));
                let _ = writeln!(text, "loop {:x} {parent} {:x}", one.header, one.at);
                for own in &one.references {
                    let kind = match (own.reads, own.writes) {
                        (true, true) => "rw",
                        (false, true) => "w",
                        _ => "r",
                    };
                    let place = match own.model {
                        Ok(at) => format!("{at:x}"),
                        Err(Left::Constant(address)) => format!("constant:{address:x}"),
                        Err(Left::Several) => "several".into(),
                        Err(Left::Operand) => "operand".into(),
                        Err(Left::Register) => "register".into(),
                        Err(Left::Scratch) => "scratch".into(),
                    };
                    let (at, operand, bytes) = (own.address, own.operand, own.bytes);
                    let _ = writeln!(text, "ref {at:x} {operand:x} {kind} {bytes:x} {place}");
                }
            }
        }
        for (header, why) in &self.left {
            let _ = writeln!(text, "left {header:x} {why}");
        }
        text
    }

    /// Reads it; `None`: it is something else.
    pub fn parse(text: &str) -> Option<Planned> {
        let mut lines = text.lines();
        (lines.next()? == MAGIC).then_some(())?;
        let (original, hash) = (lines.next()?, lines.next()?);
        let (flags, base) = lines.next()?.split_once(' ')?;
        let flags: u8 = flags.parse().ok()?;
        let mut planned = Planned {
            original: original.to_owned(),
            hash: hash.to_owned(),
            is_exact: flags & 1 != 0,
            has_strides: flags & 2 != 0,
            base: u64::from_str_radix(base, 16).ok()?,
            ..Planned::default()
        };
        for line in lines {
            let (first, rest) = line.split_once(' ')?;
            let mut words = rest.split(' ');
            match first {
                "nest" => planned.nests.push(Followed {
                    at: number(words.next()?)?,
                    loops: Vec::new(),
                }),
                "loop" => {
                    let nest = planned.nests.last_mut()?;
                    let header = u64::from_str_radix(words.next()?, 16).ok()?;
                    let parent = match words.next()? {
                        "-" => None,
                        word => Some(number(word)? as usize),
                    };
                    // Loops around it come before it.
                    let is_there = parent.is_none_or(|parent| parent < nest.loops.len());
                    is_there.then_some(())?;
                    nest.loops.push(OfLoop {
                        header,
                        parent,
                        at: number(words.next()?)?,
                        references: Vec::new(),
                    });
                }
                "ref" => {
                    let one = planned.nests.last_mut()?.loops.last_mut()?;
                    one.references.push(reference(&mut words)?);
                }
                "left" => {
                    let (header, why) = rest.split_once(' ')?;
                    let header = u64::from_str_radix(header, 16).ok()?;
                    planned.left.push((header, why.to_owned()));
                }
                _ => return None,
            }
        }
        let is_whole = planned.nests.iter().all(|nest| !nest.loops.is_empty());
        is_whole.then_some(planned)
    }
}

/// The hash of a file, as text.
pub fn hash(bytes: &[u8]) -> String {
    let hash = placement::plan::hash(bytes);
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn number(word: &str) -> Option<u32> {
    u32::from_str_radix(word, 16).ok()
}

fn reference<'t>(words: &mut impl Iterator<Item = &'t str>) -> Option<OfReference> {
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    let operand = u8::from_str_radix(words.next()?, 16).ok()?;
    let kind = words.next()?;
    let bytes = u16::from_str_radix(words.next()?, 16).ok()?;
    let place = words.next()?;
    let model = match place {
        "several" => Err(Left::Several),
        "operand" => Err(Left::Operand),
        "register" => Err(Left::Register),
        "scratch" => Err(Left::Scratch),
        _ => match place.strip_prefix("constant:") {
            Some(address) => Err(Left::Constant(u64::from_str_radix(address, 16).ok()?)),
            None => Ok(number(place)?),
        },
    };
    Some(OfReference {
        address,
        operand,
        reads: kind.contains('r'),
        writes: kind.contains('w'),
        bytes,
        model,
    })
}
