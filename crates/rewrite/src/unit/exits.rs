//! Ways by which a branch goes to another function.

use flow::{EdgeKind, To};
use image::LinkAddr;
use isa::Flow;

use super::{Kind, Place};
use crate::skipped::Why;

/// A way from a block into another function by which code can be inserted: that of a conditional branch, or of running into it.
pub(super) fn way_to_function(
    edge: &flow::Edge,
    last: LinkAddr,
    flow: Flow,
) -> Result<Option<(Kind, Place)>, Why> {
    let To::Address(entry) = edge.to else {
        return Ok(None);
    };
    match (edge.kind, flow) {
        // Both ways of the branch would be one.
        (EdgeKind::FallThrough, Flow::Cond(_, target)) if target == entry.0 => Err(Why::NoPlace),
        (EdgeKind::FallThrough, _) => Ok(Some((Kind::Falls, Place::Taken(last, entry)))),
        (EdgeKind::TailCall, Flow::Cond(..)) => Ok(Some((Kind::Taken, Place::Taken(last, entry)))),
        _ => Ok(None),
    }
}
