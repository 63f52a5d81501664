//! Random walks through random graphs: marks say exactly which nodes were passed, and none of them can be left out.

use arbtest::arbitrary::{Result, Unstructured};
use arbtest::arbtest;
use placement::marks::Implied;
use placement::{Edge, Graph, OUTSIDE, Place};

/// A graph in which each node is come to and leads on to a later one or outside, with other edges besides, and loops.
fn graph(u: &mut Unstructured<'_>, nodes: u32) -> Result<Graph> {
    let mut edges = Vec::new();
    let mut add = |from, to| {
        edges.push(Edge {
            from,
            to,
            place: Place::Never,
        });
    };
    for node in 1..nodes {
        let to = u.int_in_range(node + 1..=(node + 3).min(nodes))?;
        add(node, if to == nodes { OUTSIDE } else { to });
        add(u.int_in_range(node.saturating_sub(3)..=node - 1)?, node);
    }
    for _ in 0..u.int_in_range(0..=nodes / 2)? {
        let to = u.int_in_range(0..=nodes - 1)?;
        add(u.int_in_range(1..=nodes - 1)?, to);
    }
    Ok(Graph { nodes, edges })
}

/// Nodes that walks from outside to the outside have passed.
fn walk(u: &mut Unstructured<'_>, graph: &Graph) -> Result<Vec<bool>> {
    let mut passed = vec![false; graph.nodes as usize];
    for _ in 0..u.int_in_range(0..=2)? {
        let (mut node, mut steps) = (OUTSIDE, 0);
        loop {
            let out = graph.edges.iter().filter(|edge| edge.from == node);
            let out: Vec<u32> = out.map(|edge| edge.to).collect();
            // The first one leads to a later node, or outside.
            node = if steps < 40 { *u.choose(&out)? } else { out[0] };
            steps += 1;
            if node == OUTSIDE {
                break;
            }
            passed[node as usize] = true;
        }
    }
    Ok(passed)
}

#[test]
fn marks_say_what_was_passed() {
    let (mut nodes, mut marks) = (0, 0);
    arbtest(|u| {
        let count = u.int_in_range(2..=24)?;
        let graph = graph(u, count)?;
        let implied = Implied::of(&graph);
        let mut weights = vec![None];
        for _ in 1..graph.nodes {
            weights.push(Some(u.int_in_range(0..=9)?));
        }
        let marked = implied.choose(&weights);
        nodes += graph.nodes as usize - 1;
        marks += marked.len();
        for _ in 0..4 {
            let passed = walk(u, &graph)?;
            let set = marked.iter().copied();
            let set = set.filter(|node| passed[*node as usize]);
            assert_eq!(implied.executed(set), passed, "{graph:?}, {marked:?}");
        }
        Ok(())
    })
    .size_min(1 << 12)
    .size_max(1 << 13)
    .budget_ms(1500);
    assert!(marks * 10 < nodes * 9, "{marks} of {nodes} nodes");
}

/// A loop with a branch in it: the two ways have marks, and nothing else.
#[test]
fn marks_of_a_loop_are_in_its_branches() {
    let edges = [
        (0, 1),
        (1, 2),
        (2, 3),
        (2, 4),
        (3, 5),
        (4, 5),
        (5, 2),
        (5, 6),
        (6, 0),
    ];
    let graph = Graph {
        nodes: 7,
        edges: edges
            .map(|(from, to)| Edge {
                from,
                to,
                place: Place::Never,
            })
            .to_vec(),
    };
    let implied = Implied::of(&graph);
    let weights = [0, 1, 10, 5, 5, 10, 1].map(Some);
    let weights = [&[None], &weights[1..]].concat();
    assert_eq!(implied.choose(&weights), [3, 4]);
    let executed = implied.executed([3]);
    assert_eq!(executed, [false, true, true, true, false, true, true]);
}
