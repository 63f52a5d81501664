//! Random traces: every quick algorithm against the definitions, for k = 0 to
//! 8 and infinity, recursion rolled and unrolled.

use analysis::cct::{self, Event, Recursion};
use analysis::forest::{K, activations, clear_top_regions, inv_k, join, kccf, ksf_from_recording};
use analysis::{Forest, oracle};
use arbtest::arbitrary::{Result, Unstructured};
use arbtest::arbtest;
use trace::Label;

const RECURSIONS: [Recursion; 2] = [Recursion::Rolled, Recursion::Unrolled];

fn ks() -> impl Iterator<Item = K> {
    (0..=8).map(K::Finite).chain([K::Infinite])
}

/// First activation of a trace.
#[derive(Clone, Copy, PartialEq)]
enum Start {
    /// A root that nothing calls, as the engine records it; signals come too.
    Special(Label),
    /// The first function, as in the paper; the stack may become empty.
    Raw,
}

fn events(u: &mut Unstructured<'_>, start: Start) -> Result<Vec<Event>> {
    let functions: u32 = u.int_in_range(1..=5)?;
    let mut events = Vec::new();
    let mut depth = 0;
    if let Start::Special(root) = start {
        events.push(Event::Begin(root));
    }
    for _ in 0..u.int_in_range(0..=120)? {
        // Calls are somewhat more frequent than returns, so that it gets deep.
        let event = match u.int_in_range(0..=19)? {
            0 if start != Start::Raw => Event::Begin(Label::signal(u.int_in_range(1..=2)?)),
            0..=11 => Event::Enter(Label(256 + u.int_in_range(0..=functions - 1)?)),
            _ if depth > 0 => Event::Leave,
            _ => continue,
        };
        depth += if event == Event::Leave { -1 } else { 1 };
        events.push(event);
    }
    Ok(events)
}

/// Checks `property` on random traces of both starts, or of special ones only.
fn check(starts: &[Start], property: impl Fn(&[Event], K, Recursion)) {
    for &start in starts {
        arbtest(|u| {
            let events = events(u, start)?;
            for recursion in RECURSIONS {
                ks().for_each(|k| property(&events, k, recursion));
            }
            Ok(())
        })
        .budget_ms(400);
    }
}

const SPECIAL: [Start; 2] = [Start::Special(Label::ROOT), Start::Special(Label::THREAD)];
const ALL: [Start; 2] = [Start::Special(Label::THREAD), Start::Raw];

#[track_caller]
fn assert_same(left: &Forest, right: &Forest) {
    assert_eq!(oracle::paths(left), oracle::paths(right));
}

#[test]
fn the_online_ksf_is_that_of_the_definition() {
    check(&ALL, |events, k, recursion| {
        let defined = oracle::ksf_of_cct(&cct::build(events, recursion), k);
        assert_same(&oracle::ksf_online(events, k, recursion), &defined);
    });
}

#[test]
fn a_recording_gives_the_ksf_of_listing_3_2() {
    check(&ALL, |events, k, recursion| {
        let ksf = ksf_from_recording(&oracle::record(events, k, recursion));
        assert_same(&ksf, &oracle::ksf_online(events, k, recursion));
        for &root in ksf.roots() {
            let special = !ksf.label(root).is_function();
            assert!(!special || ksf.is_first(root));
        }
    });
}

#[test]
fn an_infinite_ksf_is_the_cct() {
    check(&ALL, |events, _, recursion| {
        let ksf = ksf_from_recording(&oracle::record(events, K::Infinite, recursion));
        assert_same(&ksf, &cct::build(events, recursion));
    });
}

#[test]
fn every_event_is_recorded_once() {
    check(&ALL, |events, k, recursion| {
        let entered = events
            .iter()
            .filter(|&&event| event != Event::Leave)
            .count() as u64;
        assert_eq!(
            activations(&oracle::record(events, k, recursion)).total(),
            entered
        );
    });
}

#[test]
fn inv_k_of_the_cct_is_the_kccf() {
    check(&ALL, |events, k, recursion| {
        let cct = cct::build(events, recursion);
        assert_same(&inv_k(&cct, k), &oracle::kccf(events, k, recursion));
    });
}

#[test]
fn inv_k_of_the_activations_is_the_kccf_always() {
    check(&ALL, |events, k, recursion| {
        let activations = activations(&oracle::record(events, k, recursion));
        assert_same(&inv_k(&activations, k), &oracle::kccf(events, k, recursion));
    });
}

#[test]
fn a_ksf_gives_the_kccf_of_every_smaller_k() {
    check(&ALL, |events, k, recursion| {
        let activations = activations(&oracle::record(events, k, recursion));
        let K::Finite(most) = k else { return };
        for smaller in (0..most).map(K::Finite) {
            assert_same(
                &inv_k(&activations, smaller),
                &oracle::kccf(events, smaller, recursion),
            );
        }
    });
}

#[test]
fn clearing_is_exact_below_roots_that_nothing_calls() {
    check(&SPECIAL, |events, k, recursion| {
        let ksf = oracle::ksf_online(events, k, recursion);
        let recorded = activations(&oracle::record(events, k, recursion));
        assert_same(&clear_top_regions(ksf.clone(), k), &recorded);
        assert_same(&kccf(&ksf, k), &oracle::kccf(events, k, recursion));
        assert_same(&inv_k(&recorded, k), &kccf(&ksf, k));
    });
}

#[test]
fn clearing_of_a_raw_ksf_is_exact_if_its_first_functions_head_no_other_slab() {
    check(&[Start::Raw], |events, k, recursion| {
        let cct = cct::build(events, recursion);
        let heads_again = cct.nodes().any(|node| {
            let depth = cct.depth(node);
            let begins = |&root: &analysis::NodeId| cct.label(root) == cct.label(node);
            depth > 0 && k.heads_slab(depth) && cct.roots().iter().any(begins)
        });
        if !heads_again {
            let ksf = oracle::ksf_online(events, k, recursion);
            assert_same(&kccf(&ksf, k), &oracle::kccf(events, k, recursion));
        }
    });
}

#[test]
fn threads_join_to_the_forest_of_all_their_events() {
    arbtest(|u| {
        let threads = [
            events(u, Start::Special(Label::THREAD))?,
            events(u, Start::Special(Label::THREAD))?,
            events(u, Start::Special(Label::ROOT))?,
        ];
        for (recursion, k) in RECURSIONS
            .into_iter()
            .flat_map(|r| ks().map(move |k| (r, k)))
        {
            let ksfs = threads
                .each_ref()
                .map(|t| ksf_from_recording(&oracle::record(t, k, recursion)));
            let joined = join(&ksfs);
            let defined = threads.each_ref().map(|t| oracle::kccf(t, k, recursion));
            assert_same(&kccf(&joined, k), &join(&defined));
            // A thread after the other is the same as both at once.
            let in_turn: Vec<Event> = threads.concat();
            let ksf_in_turn = ksf_from_recording(&oracle::record(&in_turn, k, recursion));
            assert_same(&joined, &ksf_in_turn);
        }
        Ok(())
    });
}

#[test]
fn join_is_commutative_and_associative() {
    arbtest(|u| {
        let k = K::Finite(u.int_in_range(1..=8)?);
        let mut ksf = || -> Result<Forest> {
            let events = events(u, Start::Raw)?;
            Ok(oracle::ksf_online(&events, k, Recursion::Unrolled))
        };
        let (a, b, c) = (ksf()?, ksf()?, ksf()?);
        assert_same(&join([&a, &b]), &join([&b, &a]));
        assert_same(&join([&join([&a, &b]), &c]), &join([&a, &join([&b, &c])]));
        assert_same(&join([&a, &b, &c]), &join([&join([&a, &b]), &c]));
        assert_same(&join([&a]), &a);
        assert_same(&join([&a, &Forest::default()]), &a);
        let joined = join([&a, &b]);
        assert_eq!(joined.total(), a.total() + b.total());
        Ok(())
    });
}

#[test]
fn forests_keep_their_invariants() {
    check(&ALL, |events, k, recursion| {
        let ksf = oracle::ksf_online(events, k, recursion);
        let mut seen = 0;
        for node in ksf.preorder() {
            seen += 1;
            let siblings = ksf
                .parent(node)
                .map_or(ksf.roots(), |parent| ksf.children(parent));
            let same = siblings
                .iter()
                .filter(|&&other| ksf.label(other) == ksf.label(node));
            assert_eq!(same.count(), 1);
            assert!(ksf.parent(node).is_none_or(|parent| parent < node));
            assert!(ksf.ancestors(node).count() as u32 == ksf.depth(node) + 1);
        }
        assert_eq!(seen, ksf.len());
    });
}

#[test]
fn relabelling_joins_what_becomes_equal() {
    check(&ALL, |events, k, recursion| {
        let ksf = oracle::ksf_online(events, k, recursion);
        assert_same(&ksf.relabel(|label| label), &ksf);
        let one = ksf.relabel(|label| {
            if label.is_function() {
                Label(256)
            } else {
                label
            }
        });
        assert_eq!(one.total(), ksf.total());
        let mut expected = std::collections::BTreeMap::new();
        for (path, count) in oracle::paths(&ksf) {
            let path: Vec<Label> = path
                .iter()
                .map(|&l| if l.is_function() { Label(256) } else { l })
                .collect();
            *expected.entry(path).or_insert(0) += count;
        }
        assert_eq!(oracle::paths(&one), expected);
    });
}
