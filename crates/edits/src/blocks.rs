//! `blocks`: a counter in every block that can have one, and of edges what else says everything. Also where a process ends in the
//! middle of a function, each block that was begun is counted.

use placement::plan::Tool;
use placement::{Graph, Place};
use probe::Op;
use rewrite::Unit;

use crate::counting::{Rule, add, chords};

#[derive(Debug)]
pub struct Blocks;

impl Rule for Blocks {
    const TOOL: Tool = Tool::Blocks;
    const BYTES: u64 = 8;

    fn op(number: u64) -> Op {
        add(number)
    }

    fn choose(_: &Unit<'_>, graph: &Graph) -> Option<Vec<usize>> {
        chords(graph)
    }

    fn place_of_block(place: Place) -> Place {
        match place {
            Place::May(_) => Place::Always,
            other => other,
        }
    }
}
