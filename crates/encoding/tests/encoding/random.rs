//! Random call graphs: each context is decoded to the calls that made it, and all paths have numbers of their own.

use std::collections::{HashMap, HashSet};

use arbtest::arbitrary::{Result, Unstructured};
use arbtest::arbtest;
use encoding::hybrid::{Hybrid, Moment, Step as Hybrids};
use encoding::{
    CallGraph, Context, Edge, Entry, Heads, Kind, NoContext, Numbering, Options, Site, State, Step,
    calls,
};

/// Milliseconds that each property is looked at.
const BUDGET: u64 = 500;

/// A random graph; without cycles if that is asked for.
fn graph(u: &mut Unstructured<'_>, has_cycles: bool) -> Result<CallGraph> {
    let functions = u.int_in_range(1..=9u32)?;
    let mut graph = CallGraph {
        functions,
        roots: vec![0],
        ..CallGraph::default()
    };
    if u.ratio(1, 3)? {
        graph.roots.push(u.int_in_range(0..=functions - 1)?);
    }
    for _ in 0..u.int_in_range(0..=16u32)? {
        let caller = u.int_in_range(0..=functions - 1)?;
        let kind = match u.int_in_range(0..=9)? {
            0 | 1 => Kind::Shared,
            2 | 3 => Kind::Open,
            _ => Kind::Closed,
        };
        let least = if has_cycles { 0 } else { caller + 1 };
        if least >= functions {
            continue;
        }
        let mut callees = HashSet::new();
        let most = if kind == Kind::Closed && u.ratio(2, 3)? {
            1
        } else {
            3
        };
        for _ in 0..u.int_in_range(1..=most)? {
            callees.insert(u.int_in_range(least..=functions - 1)?);
        }
        let mut callees: Vec<u32> = callees.into_iter().collect();
        callees.sort_unstable();
        let site = graph.sites.len() as u32;
        graph.sites.push(Site { caller, kind });
        for callee in callees {
            let weight = u.int_in_range(0..=5)?;
            graph.edges.push(Edge {
                site,
                callee,
                weight,
            });
        }
    }
    Ok(graph)
}

fn options(u: &mut Unstructured<'_>) -> Result<Options> {
    Ok(Options {
        most: *u.choose(&[2, 3, 5, 20, 1 << 62])?,
        heads: *u.choose(&[Heads::First, Heads::Last])?,
        unrolled: *u.choose(&[0, 0, 1, 2, 3])?,
        by_function: u.ratio(1, 3)?,
    })
}

/// Walks of calls and returns, with a list of calls beside the encoded state.
#[test]
fn contexts_are_decoded_to_their_calls() {
    arbtest(|u| {
        let graph = graph(u, true)?;
        let options = options(u)?;
        let numbering = Numbering::of(&graph, options);
        let root = *u.choose(&graph.roots)?;
        let mut state = State::new(&numbering, root);
        let start = state.context().clone();
        let mut shadow = vec![(None, root)];
        let mut undos = Vec::new();
        for _ in 0..60 {
            let function = shadow.last().map_or(root, |(_, function)| *function);
            let is_own = |edge: &u32| graph.caller(*edge) == function;
            let edges: Vec<u32> = (0..graph.edges.len() as u32).filter(is_own).collect();
            let sites = (0..).zip(&graph.sites);
            let open = sites.filter(|(_, site)| site.caller == function && site.kind == Kind::Open);
            let open: Vec<u32> = open.map(|(site, _)| site).collect();
            let heads = (0..graph.functions).filter(|head| numbering.head(*head).is_some());
            let heads: Vec<u32> = heads.collect();
            if u.ratio(1, 3)? && !undos.is_empty() {
                shadow.pop();
                state.give_back(undos.pop().expect("one"));
            } else if !open.is_empty() && u.ratio(1, 4)? {
                let (site, head) = (*u.choose(&open)?, *u.choose(&heads)?);
                undos.push(state.call_unknown(site, head));
                shadow.push((Some(site), head));
            } else if !edges.is_empty() {
                let edge = *u.choose(&edges)?;
                let Edge { site, callee, .. } = graph.edges[edge as usize];
                undos.push(state.call(edge));
                shadow.push((Some(site), callee));
            }
            let function = shadow.last().expect("the root").1;
            assert!(state.context().id < numbering.count(function));
            let pieces = numbering.decode(state.context(), function).expect("a path");
            let found: Vec<_> = calls(&pieces).collect();
            // Any call of the one function by the other stands for all, if they add the same.
            assert_eq!(found.len(), shadow.len());
            for (one, other) in found.iter().zip(&shadow) {
                assert!(options.by_function && one.1 == other.1 || one == other);
            }
        }
        while let Some(undo) = undos.pop() {
            state.give_back(undo);
        }
        assert_eq!(state.context(), &start);
        Ok(())
    })
    .budget_ms(BUDGET);
}

/// All paths without a function twice, of which each function has as many as it has numbers.
#[test]
fn numbers_are_those_of_all_paths() {
    arbtest(|u| {
        let mut graph = graph(u, false)?;
        for site in &mut graph.sites {
            site.kind = Kind::Closed;
        }
        let heads = *u.choose(&[Heads::First, Heads::Last])?;
        let options = Options {
            heads,
            by_function: u.arbitrary()?,
            ..Options::default()
        };
        let numbering = Numbering::of(&graph, options);
        let mut ids: HashMap<u32, HashMap<u64, Vec<u32>>> = HashMap::new();
        let starts = (0..graph.functions).filter(|head| numbering.head(*head).is_some());
        for start in starts {
            let state = State::new(&numbering, start);
            let mut waiting = vec![(state, start, vec![start])];
            while let Some((state, function, path)) = waiting.pop() {
                let id = state.context().id;
                let other = ids.entry(function).or_default().insert(id, path.clone());
                let is_other = other.is_some_and(|other| !options.by_function || other != path);
                assert!(!is_other, "two paths have {id}");
                for edge in 0..graph.edges.len() as u32 {
                    if graph.caller(edge) == function {
                        let mut next = state.clone();
                        next.call(edge);
                        let callee = graph.edges[edge as usize].callee;
                        waiting.push((next, callee, [&path[..], &[callee]].concat()));
                    }
                }
            }
        }
        for (function, ids) in ids {
            assert_eq!(ids.len() as u64, numbering.count(function));
            let edges = graph.edges.iter().zip(0..);
            let calls = edges.filter(|(edge, _)| edge.callee == function);
            let heaviest = calls.min_by_key(|(edge, _)| std::cmp::Reverse(edge.weight));
            if let (Some((_, edge)), Heads::Last) = (heaviest, heads) {
                assert_eq!(numbering.step(edge, 0), Step::Add(0));
            }
        }
        Ok(())
    })
    .budget_ms(BUDGET);
}

/// Each function is called twice by the one before, so paths are twice as many at each: calls push where numbers do not suffice.
#[test]
fn calls_push_where_numbers_do_not_suffice() {
    let functions = 150;
    let mut graph = CallGraph {
        functions,
        roots: vec![0],
        ..CallGraph::default()
    };
    for callee in 1..functions {
        for weight in 0..2 {
            let site = graph.sites.len() as u32;
            let (caller, kind) = (callee - 1, Kind::Closed);
            graph.sites.push(Site { caller, kind });
            graph.edges.push(Edge {
                site,
                callee,
                weight,
            });
        }
    }
    for (most, pieces) in [(1u64 << 32, 5), (1 << 62, 3)] {
        let options = Options {
            most,
            ..Options::default()
        };
        let numbering = Numbering::of(&graph, options);
        assert!((0..functions).all(|function| numbering.count(function) <= most));
        // Both calls of some functions push; numbers begin again there, so neither pushes for a while.
        for take in [0, 1] {
            let mut state = State::new(&numbering, 0);
            let mut walked = vec![(None, 0)];
            for callee in 1..functions {
                let edge = 2 * (callee - 1) + take;
                state.call(edge);
                walked.push((Some(edge), callee));
            }
            let decoded = numbering.decode(state.context(), functions - 1);
            let decoded = decoded.expect("a path");
            assert_eq!(decoded.len(), pieces);
            assert!(calls(&decoded).eq(walked));
        }
    }
}

/// Anything is decoded, or refused.
#[test]
fn any_context_is_decoded_or_refused() {
    let (mut decoded, mut refused) = (0, [0; 4]);
    arbtest(|u| {
        let graph = graph(u, true)?;
        let numbering = Numbering::of(&graph, options(u)?);
        let mut context = Context {
            id: u.int_in_range(0..=9)?,
            stack: Vec::new(),
        };
        for _ in 0..u.int_in_range(0..=2)? {
            context.stack.push(Entry {
                id: *u.choose(&[0, 1, 2, 3, u64::MAX])?,
                site: u.int_in_range(0..=16)?,
                times: *u.choose(&[0, 1, 1, 2, u64::MAX])?,
            });
        }
        match numbering.decode(&context, u.int_in_range(0..=9)?) {
            Ok(_) => decoded += 1,
            Err(NoContext::Function(_)) => refused[0] += 1,
            Err(NoContext::Site(_)) => refused[1] += 1,
            Err(NoContext::Id { .. }) => refused[2] += 1,
            Err(NoContext::Goes { .. }) => refused[3] += 1,
        }
        Ok(())
    })
    .budget_ms(BUDGET);
    assert!(
        decoded > 0 && refused.iter().all(|one| *one > 0),
        "{decoded} {refused:?}"
    );
}

/// Walks with a stack whose frames are fixed or not, of which number and depth say the calls.
#[test]
fn numbers_and_depths_are_decoded_to_their_calls() {
    arbtest(|u| {
        let graph = graph(u, true)?;
        let mut frames = Vec::new();
        for _ in &graph.edges {
            frames.push(match u.ratio(1, 10)? {
                true => None,
                false => Some(u.int_in_range(1..=4u64)?),
            });
        }
        let hybrid = Hybrid::of(&graph, &frames, *u.choose(&[3, 10, 1 << 62])?);
        let root = *u.choose(&graph.roots)?;
        // Pieces: where they begin, and their edges; and number and depth in each, from the beginning of the piece.
        let mut pieces = vec![(root, Vec::new(), 0, 0)];
        for _ in 0..60 {
            let (head, edges, id, depth) = pieces.last_mut().expect("one");
            let callee = |edge: &u32| graph.edges[*edge as usize].callee;
            let function = edges.last().map_or(*head, callee);
            let is_own = |edge: &u32| graph.caller(*edge) == function;
            let own: Vec<u32> = (0..graph.edges.len() as u32).filter(is_own).collect();
            if own.is_empty() {
                break;
            }
            let edge = *u.choose(&own)?;
            let step = hybrid.step(edge);
            if step == Hybrids::Push {
                let head = callee(&edge);
                assert!(hybrid.is_head(head));
                pieces.push((head, Vec::new(), 0, 0));
            } else {
                edges.push(edge);
                *depth += match frames[edge as usize] {
                    Some(frame) => frame,
                    None => u.int_in_range(1..=9)?,
                };
                *id += match step {
                    Hybrids::Add(number) => number,
                    Hybrids::AddIfExplicit(number) if *id > 0 => number,
                    _ => 0,
                };
            }
            for (head, edges, id, depth) in &pieces {
                let function = edges.last().map_or(*head, callee);
                let moment = Moment {
                    function,
                    id: *id,
                    depth: *depth,
                };
                assert!(*id < hybrid.count(function).max(1));
                assert_eq!(hybrid.decode(moment), Some((*head, edges.clone())));
            }
        }
        Ok(())
    })
    .budget_ms(BUDGET);
}
