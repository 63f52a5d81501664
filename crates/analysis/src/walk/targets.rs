//! Targets of indirect branches: numbers, and addresses.

use hashbrown::HashMap;
use trace::stream::{ESCAPE, escape, mark, went};

use super::code::Place;
use super::hops::Number;
use super::{Unsound, Walk};

/// Listed targets of a process, by their numbers.
#[derive(Debug, Default)]
pub(super) struct Targets {
    short: Vec<u64>,
    middle: Vec<u64>,
    long: Vec<u64>,
    /// The [mark] before what comes next.
    mark: Option<u64>,
    /// The first with these low bits, which is what versions before 9 mean by them.
    low: HashMap<u16, u64>,
}

impl Targets {
    /// The next that is listed.
    pub fn add(&mut self, target: u64) {
        match (target, self.mark) {
            (mark::SHORT..=mark::LONG, _) => self.mark = Some(target),
            (_, Some(mark::SHORT)) => self.short.push(target),
            (_, Some(mark::MIDDLE)) => self.middle.push(target),
            (_, Some(mark::LONG)) => self.long.push(target),
            _ => self.add_old(target),
        }
    }

    /// Before version 11 the mark is counted, and there is one.
    fn add_old(&mut self, target: u64) {
        if self.mark.is_some() && self.short.len() < went::SHORTS as usize {
            self.short.push(target);
        }
        if target == mark::OLD {
            self.mark = Some(mark::OLD);
        }
        self.low.entry(target as u16).or_insert(target);
        self.middle.push(target);
        self.long.push(target);
    }
}

impl Walk<'_> {
    /// The piece where the indirect branch of a piece went; `None`: that is not known, and
    /// nothing follows.
    pub(super) fn target(&mut self, piece: u32) -> Result<Option<u32>, Unsound> {
        let number = match (&self.packed, self.lanes.last()) {
            (None, Some(lane)) => Number::of(self.went, lane.here()),
            _ => None,
        };
        if let Some(number) = number
            && let Some(found) = self.pieces.by_number.get(number)
            && let Some(lane) = self.lanes.last_mut()
        {
            lane.skip(number.len());
            return Ok(Some(found));
        }
        let Some(target) = self.target_address(piece)? else {
            return Ok(None);
        };
        let found = self.pieces.at(Place::At(target));
        if let Some(number) = number {
            self.pieces.by_number.set(number, found);
        }
        Ok(Some(found))
    }

    fn target_address(&mut self, piece: u32) -> Result<Option<u64>, Unsound> {
        // A packed stream has its targets in its lanes only.
        let target = match self.lanes.is_empty() {
            true => {
                self.take_more_stamps()?;
                Some(0)
            }
            false => self.target_in_lane()?,
        };
        match (&mut self.packed, target) {
            (Some(packed), Some(target)) => {
                let known = &self.pieces.known[piece as usize];
                let target = packed.target(known, self.pieces.sites.all(), target)?;
                Ok(Some(target))
            }
            _ => Ok(target),
        }
    }

    fn target_in_lane(&mut self) -> Result<Option<u64>, Unsound> {
        let last = self.lanes.len() - 1;
        let lane = &mut self.lanes[last];
        let number = match self.went {
            0..went::SHORT => {
                let low = u16::from_le_bytes(lane.array()?);
                if lane.ahead(2)? == [ESCAPE, escape::TARGET] {
                    lane.skip(2);
                    return lane.array().map(|target| Some(u64::from_le_bytes(target)));
                }
                low.into()
            }
            first => {
                // Perhaps in the next part; no more than it has, as what is behind it may
                // come late.
                let rest = lane.ahead(Number::len_behind(first))?;
                let number = Number::of(first, rest).ok_or(Unsound::Cut)?;
                lane.skip(number.len());
                number.value
            }
        };
        let mut target = self.listed(number);
        if target.is_none() && self.pieces.learn() {
            target = self.listed(number);
        }
        match target {
            None if self.lanes[last].peek()?.is_some() => Err(Unsound::NoTarget(number)),
            target => Ok(target),
        }
    }

    /// The target that the first byte of where the branch went means with this number.
    #[inline]
    fn listed(&self, number: u32) -> Option<u64> {
        let targets = self.pieces.code.targets();
        let numbered = match self.went {
            0..went::SHORT => return targets.low.get(&(number as u16)).copied(),
            went::SHORT..went::MIDDLE => &targets.short,
            went::MIDDLE..went::LONG => &targets.middle,
            went::LONG.. => &targets.long,
        };
        numbered.get(number as usize).copied()
    }
}
