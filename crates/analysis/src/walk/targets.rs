//! Where indirect branches went: numbers of targets, and addresses.

use trace::stream::{ESCAPE, escape, went};

use super::{Unsound, Walk};

impl Walk<'_> {
    /// Where the indirect branch of a piece went; `None`: that is not known, and nothing
    /// follows.
    pub(super) fn target(&mut self, piece: u32) -> Result<Option<u64>, Unsound> {
        // Who reads what is packed asks only there.
        let target = match self.lanes.is_empty() {
            true => Some(0),
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
            first @ went::SHORT..went::MIDDLE => u32::from(first - went::SHORT),
            first @ went::MIDDLE..went::LONG => {
                let [low] = lane.array()?;
                u32::from_be_bytes([0, 0, first - went::MIDDLE, low])
            }
            first @ went::LONG.. => {
                let low = u16::from_le_bytes(lane.array()?);
                u32::from(first - went::LONG) << 16 | u32::from(low)
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
        let code = &self.pieces.code;
        match self.went {
            0..went::SHORT => code.target_by_low(number as u16),
            went::SHORT..went::MIDDLE => code.short_target(number as u8),
            went::MIDDLE.. => code.target(number),
        }
    }
}
