//! Calls that may come back twice, or in a new process, and the activations that end then.

use placement::traced::End;

use super::super::frames::{Activation, Entered, Frames};
use super::super::graphs::At;
use super::super::told::{Fork, How, Told};
use super::{Follower, Over, Step};

impl Follower<'_> {
    /// A call that may come back twice, or in a new process, has come back.
    pub(super) fn point(&mut self) -> Step {
        let bytes: [u8; 20] = self.tokens.take().ok_or(Some(Over))?;
        let word = |at: usize| {
            bytes[at..]
                .first_chunk()
                .map_or(0, |word| u64::from_le_bytes(*word))
        };
        let addr = bytes
            .first_chunk()
            .map_or(0, |half| u32::from_le_bytes(*half));
        let (stack, result) = (word(4), word(12));
        let site = *self.graphs.points.get(&addr).ok_or(None)?;
        let End::Call {
            next: Some(next), ..
        } = self.graphs.block(site).end
        else {
            return Err(None);
        };
        self.give_up_to(site, stack)?;
        let to = At {
            block: next,
            ..site
        };
        if result > 0
            && let Ok(child) = u32::try_from(result)
        {
            let frames = Frames {
                activations: self.frames.clone(),
                ..Frames::default()
            };
            self.told
                .push(Told::Forked(Box::new(Fork { child, frames })));
        }
        self.return_to(to, How::Point(site));
        Ok(())
    }

    /// Ends the activations behind that to which a call came back, with this stack pointer.
    fn give_up_to(&mut self, site: At, stack: u64) -> Step {
        let waits = |own: &Activation| {
            own.function == site.function && own.site == site.block && own.is_outside
        };
        let known = |own: &Activation| {
            own.function == site.function && own.points.contains(&(site.block, stack))
        };
        let frames = &self.frames;
        let frame = match frames.last() {
            Some(own) if waits(own) => Some(frames.len() - 1),
            // A child on another stack, in the memory of its parent, has its activations behind that of the parent's call.
            _ => {
                let known = frames.iter().rposition(known);
                known.or_else(|| frames.iter().rposition(waits))
            }
        };
        match frame {
            // Only code that is not edited ends activations so.
            Some(frame) if !self.is_gone && frame + 1 < frames.len() => return Err(None),
            Some(frame) => self.frames.truncate(frame + 1),
            // A child whose parent's activations are not known.
            None if self.frames.is_empty() => self.frames.push(Activation {
                function: site.function,
                entered: Entered::FromElsewhere,
                site: site.block,
                is_outside: true,
                points: Vec::new(),
            }),
            None => return Err(None),
        }
        if let Some(own) = self.frames.last_mut()
            && !own.points.contains(&(site.block, stack))
        {
            own.points.retain(|(block, _)| *block != site.block);
            own.points.push((site.block, stack));
        }
        Ok(())
    }
}
