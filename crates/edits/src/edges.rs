//! `edges`: counters of edges, as few as say everything (QP, 3.3 and figure 5).

use placement::plan::Tool;
use placement::{Graph, Place};
use probe::Op;
use rewrite::Unit;

use crate::counting::{Rule, add, chords};

#[derive(Debug)]
pub struct Edges;

impl Rule for Edges {
    const TOOL: Tool = Tool::Edges;
    const BYTES: u64 = 8;

    fn op(number: u64) -> Op {
        add(number)
    }

    fn choose(_: &Unit<'_>, graph: &Graph) -> Option<Vec<usize>> {
        chords(graph)
    }

    fn place_of_block(place: Place) -> Place {
        place
    }
}
