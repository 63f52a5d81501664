//! `blocks`: a counter in every block that can have one, and of edges what else says everything. Also where a process ends in the
//! middle of a function, each block that was begun is counted.

use placement::Place;
use placement::plan::Tool;

use crate::counting::Rule;

#[derive(Debug)]
pub struct Blocks;

impl Rule for Blocks {
    const TOOL: Tool = Tool::Blocks;

    fn place_of_block(place: Place) -> Place {
        match place {
            Place::May(_) => Place::Always,
            other => other,
        }
    }
}
