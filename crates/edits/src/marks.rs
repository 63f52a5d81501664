//! Which blocks and edges need a mark so that it is known of all whether they were executed.
//!
//! | known without a mark | by |
//! |---|---|
//! | an edge to a block that nothing else leads to | whether that block was executed |
//! | an edge from a block that has no other | whether the block was executed |
//! | a block all of whose ways out are known, and lead to blocks of the function | whether one of them was taken |
//!
//! All other blocks, and edges of branches, are marked. Of an edge that cannot be marked nothing is known.

use placement::OUTSIDE;
use placement::plan::{Kind, PlannedEdge, end_of, start_of};

/// Indices of the edges to be marked, blocks among them; `has_place`: those that can be.
pub fn marks(blocks: u32, edges: &[PlannedEdge], has_place: &dyn Fn(usize) -> bool) -> Vec<usize> {
    let mut ways_in = vec![0u32; (start_of(blocks) + 1) as usize];
    let mut ways_out = ways_in.clone();
    for edge in edges.iter().filter(|edge| edge.kind != Kind::Block) {
        for (ways, node) in [(&mut ways_in, edge.to), (&mut ways_out, edge.from)] {
            if let Some(ways) = ways.get_mut(node as usize) {
                *ways += 1;
            }
        }
    }
    let ways = |ways: &[u32], node: u32| ways.get(node as usize).copied().unwrap_or(2);
    let is_alone = |edge: &PlannedEdge| edge.to != OUTSIDE && ways(&ways_in, edge.to) == 1;
    let branches = |edge: &PlannedEdge| ways(&ways_out, edge.from) > 1;
    let mut marked = Vec::new();
    let mut known_out = vec![true; blocks as usize];
    for (at, edge) in edges.iter().enumerate() {
        let block =
            placement::plan::block_of(edge.from).filter(|block| edge.from == end_of(*block));
        let Some(block) = block.filter(|block| *block < blocks) else {
            continue;
        };
        let is_way = matches!(edge.kind, Kind::Falls | Kind::Taken | Kind::Case);
        let is_known = is_alone(edge) || is_way && branches(edge) && has_place(at);
        if is_way && branches(edge) && !is_alone(edge) && has_place(at) {
            marked.push(at);
        }
        if !is_known || edge.to == OUTSIDE {
            known_out[block as usize] = false;
        }
    }
    for (at, edge) in edges.iter().enumerate() {
        if let (Kind::Block, Some(block)) = (edge.kind, placement::plan::block_of(edge.from)) {
            let has_ways = ways(&ways_out, edge.to) > 0;
            if !known_out[block as usize] || !has_ways {
                marked.push(at);
            }
        }
    }
    marked.sort_unstable();
    marked
}
