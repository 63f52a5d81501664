//! New code as bytes: those of the old, with other displacements and longer branches, and what is inserted between them.

use image::LinkAddr;

use super::branches::{Form, write_branch};
use super::{Behind, Item, JUMP, Kind, Moved, Targets};
use crate::address::New;
use crate::skipped::Why;
use crate::versions::Version;

impl Moved {
    /// Writes its code to `text`, which begins at the address `start`; `bytes` has the old one at an address.
    pub fn write<'d>(
        &self,
        text: &mut [u8],
        start: New,
        targets: &dyn Targets,
        bytes: &dyn Fn(LinkAddr) -> &'d [u8],
    ) -> Result<(), Why> {
        for (version, item) in self.all() {
            let old = item.bytes(bytes);
            let at = self.base + item.offset();
            let to = at.behind(start) as usize;
            let next = at + u64::from(item.size);
            if let Some(behind) = self.behind(version, item, targets) {
                let distance = behind.displacement(next + JUMP)?;
                let to = next.behind(start) as usize;
                text[to] = 0xe9;
                text[to + 1..to + JUMP as usize].copy_from_slice(&distance);
            }
            let out = &mut text[to..to + usize::from(item.size)];
            match item.kind {
                Kind::Plain => out.copy_from_slice(old),
                Kind::Relative { at: place, target } => {
                    out.copy_from_slice(old);
                    let place = usize::from(place);
                    out[place..place + 4].copy_from_slice(&New::of_old(target).displacement(next)?);
                }
                Kind::Table {
                    at: place,
                    table,
                    is_relative,
                } => {
                    out.copy_from_slice(old);
                    let target = self.tables[usize::from(table)].addr;
                    let place = usize::from(place);
                    let bytes = match is_relative {
                        true => target.displacement(next),
                        false => target.absolute(),
                    };
                    out[place..place + 4].copy_from_slice(&bytes?);
                }
                Kind::Branch {
                    prefixes,
                    form,
                    target,
                } => {
                    let prefixes = usize::from(prefixes);
                    out[..prefixes].copy_from_slice(&old[..prefixes]);
                    let target = match form {
                        Form::Call => self.called(version, target, targets),
                        _ => self.now_from(version.at(item.old), target, targets),
                    };
                    let short = old[prefixes];
                    write_branch(&mut out[prefixes..], form, short, target, next)?;
                }
            }
        }
        self.write_inserted(text, start, targets)
    }

    /// Address to which the jump behind an instruction leads, if there is one.
    pub(super) fn behind(
        &self,
        version: Version,
        item: &Item,
        targets: &dyn Targets,
    ) -> Option<New> {
        let behind = item.old_end();
        match item.behind {
            Behind::Nothing => None,
            Behind::OldCode => Some(New::of_old(behind)),
            Behind::FirstVersion => {
                let offset = self.offset_from(version.at(behind), behind);
                offset.map(|offset| self.base + offset)
            }
            Behind::To(target) => Some(self.now_from(version.at(item.old), target, targets)),
        }
    }
}
