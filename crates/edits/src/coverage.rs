//! `coverage`: marks that say which blocks and branches were executed at all.

use placement::Graph;
use placement::plan::Tool;
use probe::{Byte, Op};
use rewrite::Unit;
use wire::counters::FIRST;

use crate::counting::{Rule, planned_edges};
use crate::marks::marks;

#[derive(Debug)]
pub struct Coverage;

impl Rule for Coverage {
    const TOOL: Tool = Tool::Coverage;
    const BYTES: u64 = 1;

    fn op(number: u64) -> Op {
        Op::Set {
            byte: Byte((FIRST + number) as u32),
        }
    }

    fn choose(unit: &Unit<'_>, _: &Graph) -> Option<Vec<usize>> {
        let blocks = unit.function.graph.blocks.len() as u32;
        let has_place = |at: usize| unit.edges[at].has_place();
        Some(marks(blocks, &planned_edges(unit), &has_place))
    }
}
