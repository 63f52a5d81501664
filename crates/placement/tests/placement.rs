//! Random walks through random graphs: all edges follow from the chords, and no other choice costs less.

use arbtest::arbitrary::{Result, Unstructured};
use arbtest::arbtest;
use placement::{Chords, Edge, Graph, OUTSIDE, Place, Undecided, solve};

/// A graph in which each node is reached from outside and leads there, with edges between besides.
fn graph(u: &mut Unstructured<'_>, nodes: u32) -> Result<Graph> {
    let mut edges = Vec::new();
    let place = |u: &mut Unstructured<'_>| -> Result<Place> {
        Ok(match u.int_in_range(0..=9)? {
            0 => Place::Always,
            _ => Place::May(u.int_in_range(0..=20)?),
        })
    };
    for node in 1..nodes {
        let from = u.int_in_range(0..=node - 1)?;
        edges.push(Edge {
            from,
            to: node,
            place: place(u)?,
        });
        edges.push(Edge {
            from: node,
            to: OUTSIDE,
            place: place(u)?,
        });
    }
    for _ in 0..u.int_in_range(0..=2 * nodes)? {
        let (from, to) = (
            u.int_in_range(1..=nodes - 1)?,
            u.int_in_range(1..=nodes - 1)?,
        );
        edges.push(Edge {
            from,
            to,
            place: place(u)?,
        });
    }
    Ok(Graph { nodes, edges })
}

/// Executions of each edge in a walk that begins and ends outside.
fn walk(u: &mut Unstructured<'_>, graph: &Graph) -> Result<Vec<u64>> {
    let mut counts = vec![0; graph.edges.len()];
    let (mut node, mut steps) = (OUTSIDE, 0);
    loop {
        let own = |at: &usize| graph.edges[*at].from == node;
        let out: Vec<usize> = (0..graph.edges.len()).filter(own).collect();
        // Every node but the one outside has a way out among its edges.
        let leads_out = |at: &&usize| graph.edges[**at].to == OUTSIDE;
        let taken = match out.iter().find(leads_out).filter(|_| steps > 200) {
            Some(&at) => at,
            None => *u.choose(&out)?,
        };
        counts[taken] += 1;
        node = graph.edges[taken].to;
        steps += 1;
        if node == OUTSIDE && steps > 100 {
            return Ok(counts);
        }
    }
}

#[test]
fn all_edges_follow_from_the_chords() {
    arbtest(|u| {
        let nodes = u.int_in_range(2..=12)?;
        let graph = graph(u, nodes)?;
        let counts = walk(u, &graph)?;
        let chords = Chords::of(&graph).expect("no edge is Never");
        let solved = solve(&graph, &chords, |at| counts[at]).expect("a tree");
        let wanted: Vec<i128> = counts.iter().map(|&count| count.into()).collect();
        assert_eq!(solved, wanted);
        Ok(())
    });
}

/// Whether edges without counters have no cycle, by taking them one after the other.
fn is_forest(graph: &Graph, has_counter: &dyn Fn(usize) -> bool) -> bool {
    let mut of: Vec<u32> = (0..graph.nodes).collect();
    for (at, edge) in graph.edges.iter().enumerate() {
        if has_counter(at) {
            continue;
        }
        let (one, other) = (of[edge.from as usize], of[edge.to as usize]);
        if one == other {
            return false;
        }
        for set in &mut of {
            if *set == one {
                *set = other;
            }
        }
    }
    true
}

#[test]
fn no_other_choice_of_chords_weighs_less() {
    arbtest(|u| {
        let nodes = u.int_in_range(2..=5)?;
        let graph = graph(u, nodes)?;
        let count = graph.edges.len();
        if count > 14 {
            return Ok(());
        }
        let weight = |at: usize| match graph.edges[at].place {
            Place::May(weight) => weight,
            _ => 0,
        };
        let must = |at: usize| graph.edges[at].place == Place::Always;
        let all_choices = (0u32..1 << count).filter(|choice| {
            let has = |at: usize| choice >> at & 1 != 0;
            (0..count).all(|at| has(at) || !must(at)) && is_forest(&graph, &has)
        });
        let of = |choice: u32| {
            (0..count)
                .filter(|at| choice >> at & 1 != 0)
                .map(weight)
                .sum()
        };
        let least: u64 = all_choices.map(of).min().expect("all edges");
        let chords = Chords::of(&graph).expect("no edge is Never");
        assert!(is_forest(&graph, &|at| chords.contains(at)));
        assert_eq!(chords.edges().map(weight).sum::<u64>(), least);
        Ok(())
    });
}

#[test]
fn a_cycle_without_counters_is_undecided() {
    let edge = |from, to| Edge {
        from,
        to,
        place: Place::Never,
    };
    let graph = Graph {
        nodes: 3,
        edges: vec![edge(0, 1), edge(1, 2), edge(2, 1), edge(2, 0)],
    };
    assert_eq!(Chords::of(&graph), Err(Undecided));
    let none = Chords::from_flags(vec![false; 4]);
    assert_eq!(solve(&graph, &none, |_| 0), Err(Undecided));
}

/// A loop that is gone around 10 times in each of 3 calls needs one counter in it and one outside.
#[test]
fn a_loop_has_one_counter() {
    let may = |from, to, weight| Edge {
        from,
        to,
        place: Place::May(weight),
    };
    let graph = Graph {
        nodes: 3,
        edges: vec![may(0, 1, 1), may(1, 2, 10), may(2, 1, 9), may(2, 0, 1)],
    };
    let chords = Chords::of(&graph).expect("no edge is Never");
    assert_eq!(chords.edges().collect::<Vec<_>>(), [2, 3]);
    let counts = solve(&graph, &chords, |at| [0, 0, 27, 3][at]).expect("a tree");
    assert_eq!(counts, [3, 30, 27, 3]);
}

/// A call that did not return leaves what it brought at its node.
#[test]
fn a_way_that_only_leads_out_takes_the_rest() {
    let never = |from, to| Edge {
        from,
        to,
        place: Place::Never,
    };
    let always = |from, to| Edge {
        from,
        to,
        place: Place::Always,
    };
    let graph = Graph {
        nodes: 2,
        edges: vec![always(0, 1), always(1, 0), never(1, 0)],
    };
    let chords = Chords::of(&graph).expect("a tree");
    let counts = |returned| solve(&graph, &chords, move |at| [5, returned][at]).expect("a tree");
    assert_eq!(counts(5), [5, 5, 0]);
    assert_eq!(counts(4), [5, 4, 1]);
    // The call of `setjmp` returns more often than it is made.
    assert_eq!(counts(7), [5, 7, -2]);
}
