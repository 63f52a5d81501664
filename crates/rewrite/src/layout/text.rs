//! New code as bytes: those of the old, with other displacements and longer branches, and what is inserted between them.

use super::branches::{Form, write_branch};
use super::{Behind, Item, JUMP, Kind, Moved, Targets, distance};
use crate::skipped::Why;
use crate::versions::Version;

impl Moved {
    /// Writes its code to `text`, which begins at the address `start`; `bytes` has the old one at an address.
    pub fn write<'d>(
        &self,
        text: &mut [u8],
        start: u64,
        targets: &dyn Targets,
        bytes: &dyn Fn(u64) -> &'d [u8],
    ) -> Result<(), Why> {
        for (version, item) in self.all() {
            let old = item.bytes(bytes);
            let at = self.base + item.offset();
            let to = (at - start) as usize;
            let next = at + u64::from(item.size);
            if let Some(behind) = self.behind(version, item) {
                let distance = distance(behind, next + JUMP)?;
                let to = (next - start) as usize;
                text[to] = 0xe9;
                text[to + 1..to + JUMP as usize].copy_from_slice(&distance);
            }
            let out = &mut text[to..to + usize::from(item.size)];
            match item.kind {
                Kind::Plain => out.copy_from_slice(old),
                Kind::Relative { at: place, target } => {
                    out.copy_from_slice(old);
                    let place = usize::from(place);
                    out[place..place + 4].copy_from_slice(&distance(target, next)?);
                }
                Kind::Table {
                    at: place,
                    table,
                    is_relative,
                } => {
                    out.copy_from_slice(old);
                    let target = self.tables[usize::from(table)].addr;
                    let place = usize::from(place);
                    let from = if is_relative { next } else { 0 };
                    out[place..place + 4].copy_from_slice(&distance(target, from)?);
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
    pub(super) fn behind(&self, version: Version, item: &Item) -> Option<u64> {
        let behind = item.old + u64::from(item.len);
        match item.behind {
            Behind::Nothing => None,
            Behind::OldCode => Some(behind),
            Behind::FirstVersion => {
                let offset = self.offset_from(version.at(behind), behind);
                offset.map(|offset| self.base + offset)
            }
        }
    }
}
