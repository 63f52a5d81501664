//! Stamps of a packed thread.
//!
//! In a lane a stamp stands between other items, and who reads comes past it. Here it says
//! how many of those are between it and the stamp before, and both ways count them: indirect
//! branches and escapes, which are all that the lane of targets has. So a walk finds each stamp
//! between the same two items as before.

use std::hash::{DefaultHasher, Hasher};

use trace::Part;

use super::super::Unsound;
use super::super::stamps::{Stamp, StampKind};
use super::Bits;
use crate::pack::{Cut, Stamped, stamps::Model};

/// The stream of stamps, being read or written.
pub(super) struct Stamps<'a> {
    model: Model,
    bits: Bits<'a>,
    /// Items since the last stamp.
    items: u64,
    /// The next stamp, for a reader; after the last one, that there is none.
    next: Option<Option<Stamped>>,
    /// Hash of all stamps that came by.
    digest: DefaultHasher,
}

impl<'a> Stamps<'a> {
    pub fn new(bits: Bits<'a>) -> Stamps<'a> {
        Stamps {
            model: Model::default(),
            bits,
            items: 0,
            next: None,
            digest: DefaultHasher::new(),
        }
    }

    /// An item of the lane came by.
    pub fn passed(&mut self) {
        self.items += 1;
    }

    /// A stamp, for who writes.
    pub fn write(&mut self, stamp: Stamp) -> Result<(), Cut> {
        let stamped = Stamped {
            distance: self.items,
            kind: stamp.kind.number(),
            number: stamp.time,
        };
        self.model.code(&mut self.bits, Some(stamped))?;
        self.came(stamped);
        self.bits.part();
        Ok(())
    }

    /// The stamp that comes before the next item, for who reads.
    pub fn read(&mut self) -> Result<Option<Stamp>, Unsound> {
        let next = match self.next {
            Some(next) => next,
            None => self.model.code(&mut self.bits, None)?,
        };
        self.next = Some(next);
        let Some(stamped) = next.filter(|next| next.distance == self.items) else {
            return Ok(None);
        };
        self.next = None;
        self.came(stamped);
        Ok(Some(Stamp {
            kind: StampKind::of(stamped.kind).ok_or(Unsound::Item(stamped.kind))?,
            time: stamped.number,
        }))
    }

    fn came(&mut self, stamped: Stamped) {
        self.items = 0;
        for number in [stamped.distance, stamped.kind.into(), stamped.number] {
            self.digest.write_u64(number);
        }
    }

    pub fn is_lost(&mut self) -> bool {
        self.bits.is_lost()
    }

    /// A hash of all of them.
    pub fn digest(&self) -> u64 {
        self.digest.finish()
    }

    /// All that was written.
    pub fn finish(mut self) -> Result<Vec<Part>, Cut> {
        self.model.code(&mut self.bits, None)?;
        self.bits.finish()
    }
}
