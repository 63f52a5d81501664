//! Paths of random graphs: what is told says which way a random walk took.

use arbtest::arbitrary::{Result, Unstructured};
use arbtest::arbtest;
use placement::paths::{Node, Paths, Way};

fn graph(u: &mut Unstructured<'_>) -> Result<Vec<Node>> {
    let count = u.int_in_range(1..=14u32)?;
    let mut nodes = Vec::new();
    for number in 0..count {
        let ways = u.int_in_range(0..=3)?;
        let mut targets: Vec<u32> = Vec::new();
        for _ in 0..ways {
            // Mostly forward.
            let to = match u.ratio(3, 4)? {
                true => u.int_in_range(number..=count - 1)?,
                false => u.int_in_range(0..=count - 1)?,
            };
            if !targets.contains(&to) {
                targets.push(to);
            }
        }
        let mut ways = Vec::new();
        for to in targets {
            ways.push(Way {
                to,
                weight: u.int_in_range(0..=9)?,
                has_place: u.ratio(9, 10)?,
            });
        }
        nodes.push(Node {
            stops: ways.is_empty() || u.ratio(1, 8)?,
            starts: number == 0 || u.ratio(1, 8)?,
            ways,
        });
    }
    Ok(nodes)
}

/// Ways of a random walk, and its tokens: the sum at each node at which a path stops and is told.
fn walk(
    u: &mut Unstructured<'_>,
    nodes: &[Node],
    paths: &Paths,
    start: u32,
) -> Result<(Vec<u32>, Vec<u32>)> {
    let (mut node, mut sum) = (start, 0);
    let (mut walked, mut tokens) = (vec![start], Vec::new());
    for _ in 0..40 {
        let own = &nodes[node as usize];
        if own.ways.is_empty() {
            break;
        }
        let way = u.choose_index(own.ways.len())?;
        sum += paths.increments[node as usize][way];
        node = own.ways[way].to;
        walked.push(node);
        if paths.stops[node as usize] {
            if paths.tells[node as usize] {
                tokens.push(sum);
            }
            sum = 0;
        }
    }
    Ok((walked, tokens))
}

/// The walk that tokens tell, as far as they go.
fn told(nodes: &[Node], paths: &Paths, start: u32, tokens: &[u32]) -> Vec<u32> {
    let mut walked = vec![start];
    let (mut node, mut rest) = (start, tokens.iter());
    let mut known = 1;
    loop {
        if nodes[node as usize].ways.is_empty() {
            return walked;
        }
        let is_told = paths.counts[node as usize] > 1;
        let mut sum = 0;
        if is_told {
            let Some(token) = rest.next() else {
                break;
            };
            sum = *token;
        }
        loop {
            let way = paths.next(node, &mut sum).expect("a way");
            node = nodes[node as usize].ways[way].to;
            walked.push(node);
            if paths.stops[node as usize] {
                break;
            }
        }
        assert_eq!(sum, 0);
        if paths.tells[node as usize] {
            if !is_told && rest.next().is_none() {
                break;
            }
            known = walked.len();
        }
        assert!(walked.len() < 2000, "a cycle without a token");
    }
    walked.truncate(known);
    walked
}

#[test]
fn tokens_tell_every_walk() {
    let (mut with_tokens, mut without) = (0u32, 0u32);
    arbtest(|u| {
        let nodes = graph(u)?;
        let most = u.int_in_range(3..=20)?;
        let paths = Paths::of(&nodes, most).expect("at most three ways");
        assert!(paths.counts.iter().all(|count| *count <= most));
        let starts = (0..nodes.len()).filter(|at| nodes[*at].starts);
        let start = *u.choose(&starts.collect::<Vec<_>>())? as u32;
        let (walked, tokens) = walk(u, &nodes, &paths, start)?;
        let told = told(&nodes, &paths, start, &tokens);
        let len = told.len().min(walked.len());
        assert_eq!(told[..len], walked[..len]);
        // The rest of the walk is on the way to the next token.
        let stops = |node: &&u32| paths.stops[**node as usize] && paths.tells[**node as usize];
        assert!(!walked[len..].iter().any(|node| stops(&node)));
        match tokens.is_empty() {
            true => without += 1,
            false => with_tokens += 1,
        }
        Ok(())
    })
    .budget_ms(1500);
    assert!(with_tokens > 100 && without > 10, "{with_tokens} {without}");
}

#[test]
fn a_way_that_is_taken_always_costs_nothing() {
    let way = |to, weight| Way {
        to,
        weight,
        has_place: true,
    };
    // A loop with a condition in it: 0 -> 1 -> {2, 3}, 2 -> 3, 3 -> {1, 4}.
    let node = |ways: &[Way], starts| Node {
        ways: ways.to_vec(),
        stops: ways.is_empty(),
        starts,
    };
    let nodes = [
        node(&[way(1, 1)], true),
        node(&[way(2, 1), way(3, 9)], false),
        node(&[way(3, 1)], false),
        node(&[way(1, 9), way(4, 1)], false),
        node(&[], false),
    ];
    let paths = Paths::of(&nodes, 200).expect("few ways");
    assert_eq!(paths.stops, [false, true, false, false, true]);
    assert_eq!(paths.tells, [false, true, false, false, true]);
    assert_eq!(paths.increments[1], [2, 0]);
    assert_eq!(paths.increments[3], [0, 1]);
    // A token for each turn, of four paths.
    assert_eq!(paths.counts[1], 4);
}
