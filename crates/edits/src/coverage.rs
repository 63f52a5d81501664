//! `coverage`: marks that say which blocks were executed at all, and with `--branches` which ways of branches.

use placement::marks::Implied;
use placement::plan::{self, Kind, Tool, block_of};
use placement::{Graph, Place};
use probe::{Byte, Op};
use rewrite::Unit;

use crate::counting::{Rule, planned_edges};
use crate::marks::marks;

/// Marks of blocks.
#[derive(Debug)]
pub struct Coverage;

/// Marks of blocks and of ways of branches.
#[derive(Debug)]
pub struct Branches;

/// Sets a mark, by its place in memory.
fn mark(at: u64) -> Op {
    Op::Set {
        byte: Byte(at as u32),
    }
}

impl Rule for Coverage {
    const TOOL: Tool = Tool::Coverage;
    const BYTES: u64 = 1;

    fn op(at: u64) -> Op {
        mark(at)
    }

    fn choose(unit: &Unit<'_>, graph: &Graph) -> Option<Vec<usize>> {
        let blocks = unit.function.graph.blocks.len() as u32;
        let edges = planned_edges(unit);
        let implied = Implied::of(&plan::graph_of_blocks(blocks, unit.tables, &edges));
        let mut weights = vec![None; (1 + blocks + unit.tables) as usize];
        let mut through = vec![0; blocks as usize];
        for (at, edge) in edges.iter().enumerate() {
            if let (Kind::Block, Some(block)) = (edge.kind, block_of(edge.from)) {
                through[block as usize] = at;
                weights[1 + block as usize] = match graph.edges[at].place {
                    Place::May(weight) => Some(weight),
                    Place::Always | Place::Never => Some(0),
                };
            }
        }
        let marked = implied.choose(&weights).into_iter();
        let mut marked: Vec<usize> = marked.map(|node| through[node as usize - 1]).collect();
        marked.sort_unstable();
        Some(marked)
    }
}

impl Rule for Branches {
    const TOOL: Tool = Tool::Branches;
    const BYTES: u64 = 1;

    fn op(at: u64) -> Op {
        mark(at)
    }

    fn choose(unit: &Unit<'_>, _: &Graph) -> Option<Vec<usize>> {
        let blocks = unit.function.graph.blocks.len() as u32;
        let has_place = |at: usize| unit.edges[at].has_place();
        Some(marks(blocks, &planned_edges(unit), &has_place))
    }
}
