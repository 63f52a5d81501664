//! Streams of which a file has lost parts in the middle.
//!
//! A lane says where it goes on ([`Lane::lost`]); the first keyframe that is behind that in
//! all lanes is where the walk goes on.
//!
//! A limit leaves out what comes at the end, code or streams: there a walk ends as where a
//! stream does.
//!
//! Limits: with stamps a walk ends at what is lost.

use trace::Thread;
use trace::stream::LANES;

use super::lane::Lane;
use super::packed::Packed;
use super::{Unsound, Walk, segments};

impl<'a> Walk<'a> {
    /// Makes the walk go on at the next keyframe where something is lost, with
    /// [`Why::Lost`](super::Why::Lost); others end there with [`Unsound::Lost`]. `thread` is its own, and it
    /// goes on to the end.
    #[must_use]
    pub fn past_losses(mut self, thread: &'a Thread) -> Self {
        self.past = Some(thread);
        self
    }

    /// Goes to the next keyframe behind what is lost, if there is one.
    pub(super) fn leap(&mut self) -> bool {
        let Some(thread) = self.past else {
            return false;
        };
        if self.rest.is_some() {
            return self.leave() && self.begin();
        }
        let behind = |from: &[u64; LANES]| {
            let lanes = self.lanes.iter().zip(from);
            lanes
                .filter_map(|(lane, &at)| Some(lane.lost()? <= at))
                .all(|is_behind| is_behind)
        };
        let segments = segments::segments(thread);
        let Some(next) = segments
            .iter()
            .find(|segment| segment.from.is_some_and(|from| behind(&from)))
        else {
            return false;
        };
        let from = next.from.unwrap_or_default();
        self.lanes = (0..)
            .zip(from)
            .map(|(number, from)| Lane::between(thread, number, from, None))
            .collect();
        self.begin()
    }

    /// Begins at a keyframe.
    fn begin(&mut self) -> bool {
        (self.piece, self.left, self.coming, self.entered) = (None, 0, None, None);
        (self.begins, self.leapt) = (true, true);
        true
    }

    /// Whether a limit has left out the rest of the item, the code or the target that comes next:
    /// what is known ends there.
    pub(super) fn is_left_out(&self, error: &Unsound) -> bool {
        use Unsound::{Cut, NoCode, NoFragment, NoTarget};
        let has_no_end = |(piece, _)| self.pieces.has_no_end(piece);
        let is_unknown = matches!(error, Cut | NoCode(_) | NoFragment(_) | NoTarget(_));
        self.is_cut && (is_unknown || self.piece.is_some_and(has_no_end))
    }

    /// Why a walk ends with this.
    pub(super) fn cause(&mut self, error: Unsound) -> Unsound {
        let is_lost = |packed: &mut Box<Packed<'_>>| packed.is_lost();
        match error {
            Unsound::Cut if self.packed.as_mut().is_some_and(is_lost) => Unsound::Lost,
            error => error,
        }
    }
}
