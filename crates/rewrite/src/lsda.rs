//! Tables of landing pads (LSDA) for moved code.
//!
//! The call sites are written anew with the new places of calls and pads; actions and what is behind the table of types are
//! copied, entries of that table, too, but for pointers relative to their place.
//!
//! Source: Itanium C++ ABI, exception handling, 7 (LSDA); GCC's `unwind-pe.h` for the encodings.

use std::ops::Range;

use image::LinkAddr;

use crate::address::New;
use crate::cursor::Cursor;
use crate::layout::Moved;
use crate::skipped::Why;
use crate::versions::Version;

const OMITTED: u8 = 0xff;
const ULEB: u8 = 0x01;
const FOUR_BYTES: u8 = 0x03;
const FOUR_SIGNED: u8 = 0x0b;
const RELATIVE: u8 = 0x1b;
const INDIRECT: u8 = 0x9b;
/// Bytes of a number that is written longer than it need be.
const WIDE: usize = 4;
/// Most bytes of actions that are followed.
const MOST_ACTIONS: usize = 1 << 16;

/// A table, taken apart.
#[derive(Clone, Debug)]
pub struct Lsda {
    /// Beginning of the code that it is of.
    start: LinkAddr,
    sites: Vec<Site>,
    actions: Vec<u8>,
    types: Vec<Type>,
    types_encoding: u8,
    /// Bytes behind the table of types: lists of exceptions that may leave a function.
    behind: Vec<u8>,
}

/// Calls that go to a pad when they throw, or to none.
#[derive(Clone, Copy, Debug)]
struct Site {
    from: LinkAddr,
    to: LinkAddr,
    pad: Option<LinkAddr>,
    action: u64,
}

/// An entry of the table of types.
#[derive(Clone, Copy, Debug)]
enum Type {
    /// Any exception.
    Any,
    /// A value that is the same everywhere.
    Value(u32),
    /// An address, stored relative to the entry.
    Address(LinkAddr),
}

impl Lsda {
    /// Takes apart the table at `addr`, which has these bytes and no more, of code that begins at `start`; `None`: something
    /// in it is not known.
    pub fn parse(bytes: &[u8], addr: LinkAddr, start: LinkAddr) -> Option<Lsda> {
        let mut cursor = Cursor { bytes, at: 0 };
        if cursor.byte()? != OMITTED {
            return None;
        }
        let types_encoding = cursor.byte()?;
        let mut base = None;
        if types_encoding != OMITTED {
            let offset = usize::try_from(cursor.uleb()?).ok()?;
            base = Some(cursor.at.checked_add(offset)?);
        }
        let sites_encoding = cursor.byte()?;
        let size = usize::try_from(cursor.uleb()?).ok()?;
        let end = cursor
            .at
            .checked_add(size)
            .filter(|end| *end <= bytes.len())?;
        let sites = sites(&mut cursor, end, sites_encoding, start)?;
        let count = most_types(&bytes[end..], &sites)?;
        let Some(base) = base else {
            // Without types there are actions at most.
            return (count == 0).then(|| Lsda {
                start,
                sites,
                actions: bytes[end..].to_vec(),
                types: Vec::new(),
                types_encoding,
                behind: Vec::new(),
            });
        };
        let first = base.checked_sub(count * 4).filter(|first| *first >= end)?;
        let behind = bytes.get(base..)?.to_vec();
        let mut cursor = Cursor { bytes, at: first };
        let types = types(&mut cursor, count, types_encoding, addr)?;
        Some(Lsda {
            start,
            sites,
            actions: bytes[end..first].to_vec(),
            types,
            types_encoding,
            behind,
        })
    }

    /// Pads to which code between two addresses may throw.
    pub fn pads_of(&self, code: Range<LinkAddr>) -> impl Iterator<Item = LinkAddr> + '_ {
        let is_there = move |site: &&Site| site.from < code.end && code.start < site.to;
        self.sites
            .iter()
            .filter(is_there)
            .filter_map(|site| site.pad)
    }

    /// Whether all pads are in the part of a function that the table is of.
    pub fn fits(&self, moved: &Moved) -> bool {
        let mut pads = self.sites.iter().filter_map(|site| site.pad);
        pads.all(|pad| moved.is_in_part(pad, self.start))
    }

    /// The table of a version of the moved code, at an address.
    pub fn write(&self, addr: New, moved: &Moved, version: Version) -> Result<Vec<u8>, Why> {
        let part = version.at(self.start);
        let new_of = |old| moved.at_or_behind(old, part).ok_or(Why::LandingPads);
        let start = new_of(self.start)?;
        let mut sites = Vec::new();
        for site in &self.sites {
            let (from, to) = (new_of(site.from)?, new_of(site.to)?);
            if from == to {
                continue;
            }
            let pad = match site.pad {
                Some(pad) => {
                    let pad = moved.new_of(version.at(pad));
                    pad.ok_or(Why::LandingPads)?.behind(start)
                }
                None => 0,
            };
            for number in [from.behind(start), to.behind(from), pad, site.action] {
                uleb(number, &mut sites);
            }
        }
        let mut out = vec![OMITTED, self.types_encoding];
        let has_types = self.types_encoding != OMITTED;
        let offset_at = out.len();
        if has_types {
            out.extend_from_slice(&[0; WIDE]);
        }
        out.push(ULEB);
        wide(sites.len() as u64, &mut out)?;
        out.extend_from_slice(&sites);
        out.extend_from_slice(&self.actions);
        if has_types {
            let end = addr + out.len() as u64;
            out.resize(out.len() + end.aligned(4).behind(end) as usize, 0);
            for one in &self.types {
                let place = addr + out.len() as u64;
                let value = match *one {
                    Type::Any => [0; 4],
                    Type::Value(value) => value.to_le_bytes(),
                    Type::Address(to) => New::of_old(to).displacement(place)?,
                };
                out.extend_from_slice(&value);
            }
            let mut offset = Vec::new();
            wide((out.len() - offset_at - WIDE) as u64, &mut offset)?;
            out[offset_at..offset_at + WIDE].copy_from_slice(&offset);
            out.extend_from_slice(&self.behind);
        }
        Ok(out)
    }
}

/// Call sites up to an offset, of code that begins at `start`.
fn sites(cursor: &mut Cursor<'_>, end: usize, encoding: u8, start: LinkAddr) -> Option<Vec<Site>> {
    let number = |cursor: &mut Cursor<'_>| match encoding {
        ULEB => cursor.uleb(),
        FOUR_BYTES => cursor.word().map(u64::from),
        _ => None,
    };
    let mut sites = Vec::new();
    while cursor.at < end {
        let from = LinkAddr(start.0.checked_add(number(cursor)?)?);
        let to = LinkAddr(from.0.checked_add(number(cursor)?)?);
        let pad = number(cursor)?;
        sites.push(Site {
            from,
            to,
            pad: (pad != 0).then(|| LinkAddr(start.0.wrapping_add(pad))),
            action: cursor.uleb()?,
        });
    }
    (cursor.at == end).then_some(sites)
}

/// Reads so many entries of the table of types; the table of landing pads begins at `addr`.
fn types(cursor: &mut Cursor<'_>, count: usize, encoding: u8, addr: LinkAddr) -> Option<Vec<Type>> {
    let mut types = Vec::new();
    for _ in 0..count {
        let place = addr + cursor.at as u64;
        let value = cursor.word()?;
        types.push(match encoding {
            _ if value == 0 => Type::Any,
            FOUR_BYTES | FOUR_SIGNED => Type::Value(value),
            RELATIVE | INDIRECT => {
                let distance = i64::from(value as i32);
                Type::Address(LinkAddr(place.0.wrapping_add_signed(distance)))
            }
            _ => return None,
        });
    }
    Some(types)
}

/// The highest number of a type in actions that call sites lead to.
fn most_types(actions: &[u8], sites: &[Site]) -> Option<usize> {
    let mut most = 0;
    let mut followed = 0;
    for site in sites {
        let mut next = site.action;
        while next != 0 {
            followed += 1;
            let mut cursor = Cursor {
                bytes: actions,
                at: usize::try_from(next - 1).ok()?,
            };
            let filter = cursor.sleb()?;
            most = most.max(filter);
            let at = cursor.at as i64;
            next = match cursor.sleb()? {
                0 => 0,
                distance => u64::try_from(at.checked_add(distance)?.checked_add(1)?).ok()?,
            };
            if followed > MOST_ACTIONS {
                return None;
            }
        }
    }
    usize::try_from(most).ok()
}

fn uleb(mut value: u64, out: &mut Vec<u8>) {
    loop {
        let byte = (value & 0x7f) as u8;
        value >>= 7;
        out.push(if value == 0 { byte } else { byte | 0x80 });
        if value == 0 {
            return;
        }
    }
}

/// A number in [`WIDE`] bytes.
fn wide(value: u64, out: &mut Vec<u8>) -> Result<(), Why> {
    if value >> (7 * WIDE) != 0 {
        return Err(Why::LandingPads);
    }
    for shift in 0..WIDE {
        let more = if shift + 1 == WIDE { 0 } else { 0x80 };
        out.push((value >> (7 * shift)) as u8 & 0x7f | more);
    }
    Ok(())
}
