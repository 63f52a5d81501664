//! Blocks and edges that were executed, from the marks of some of them; the rules are those by which the editor left marks out.

use hashbrown::HashMap;
use placement::plan::{Function, Kind};

/// 1 for each edge of a function that was executed, blocks among them; `marks`: those of the edges with marks.
pub(super) fn executed(function: &Function, marks: &[u64]) -> Vec<u64> {
    let (_, marked) = function.graph();
    let mut edges: Vec<u64> = vec![0; function.edges.len()];
    for (at, &mark) in marked.edges().zip(marks) {
        edges[at] = mark.min(1);
    }
    let (mut ways_in, mut ways_out) = (HashMap::new(), HashMap::new());
    for (at, edge) in function.edges.iter().enumerate() {
        ways_in.entry(edge.to).or_insert_with(Vec::new).push(at);
        ways_out.entry(edge.from).or_insert_with(Vec::new).push(at);
    }
    let executed_at = |edges: &[u64], node: u32| {
        let block = ways_out
            .get(&node)
            .and_then(|ways: &Vec<usize>| ways.first());
        block.map_or(0, |&at| edges[at])
    };
    // Blocks are mostly known by later ones: edges are taken from the last to the first, as long as something is new.
    loop {
        let before = edges.clone();
        for (at, edge) in function.edges.iter().enumerate().rev() {
            if marked.contains(at) {
                continue;
            }
            edges[at] = match edge.kind {
                Kind::Block => {
                    let ways = ways_out.get(&edge.to).into_iter().flatten();
                    ways.map(|&way| edges[way]).max().unwrap_or(0)
                }
                Kind::Out | Kind::End | Kind::Abandoned => 0,
                _ => {
                    let reached = executed_at(&edges, edge.to);
                    let is_alone = ways_in.get(&edge.to).is_some_and(|ways| ways.len() == 1);
                    let is_only = ways_out.get(&edge.from).is_some_and(|ways| ways.len() == 1);
                    let block = ways_in.get(&edge.from).and_then(|ways| ways.first());
                    match (is_alone, block) {
                        (true, _) => reached,
                        (false, Some(&block)) if is_only => edges[block],
                        _ => 0,
                    }
                }
            };
        }
        if before == edges {
            break;
        }
    }
    edges
}
