//! The forest that the engine builds in the pool, read back the way the CLI
//! does, against the definitions: `forest` -> `trace::from_pool` -> `analysis`.

use crate::common;

use std::sync::atomic::Ordering::Relaxed;

use analysis::cct::{Event, Live, Recursion};
use analysis::forest::{K, activations, inv_k, ksf_from_recording};
use analysis::oracle;
use arbtest::arbitrary::{Result, Unstructured};
use arbtest::arbtest;
use forest::{Memory, State};
use trace::{Label, Meta, Thread};
use wire::view::Pool;
use wire::{MAGIC, PAGE, ProcessRecord, ThreadRecord, VERSION, node};

const POOL_PAGES: usize = 512;

#[derive(Clone)]
#[repr(align(4096))]
struct Page(#[expect(dead_code, reason = "read through the pool only")] [u8; PAGE as usize]);

/// Chunks from the pool, and a budget of nodes.
struct Supply {
    pool: Pool,
    nodes: u64,
}

impl Memory for Supply {
    fn chunk(&mut self, bytes: u64) -> Option<u64> {
        self.pool.reserve(bytes)
    }

    fn take_node(&mut self) -> bool {
        let left = self.nodes.checked_sub(1);
        self.nodes = left.unwrap_or(0);
        left.is_some()
    }
}

/// Runs the engine's side on `events`, which begin with a special root, and
/// reads the thread back. `nodes` is the node limit.
fn run(events: &[Event], k: K, recursion: Recursion, nodes: u64) -> Thread {
    let mut pages = vec![Page([0; PAGE as usize]); POOL_PAGES];
    // SAFETY: `pages` is page aligned, this long, not resized, and outlives
    // every copy of the handle.
    let pool = unsafe { Pool::new(pages.as_mut_ptr().cast(), POOL_PAGES as u64 * PAGE) };
    pool.header().magic.store(MAGIC, Relaxed);
    pool.header().version.store(VERSION, Relaxed);
    pool.header().bump.store(PAGE, Relaxed);
    let process_at = pool.reserve(PAGE).unwrap();
    let thread_at = pool.reserve(PAGE).unwrap();
    let process: &ProcessRecord = pool.at(process_at).unwrap();
    let thread: &ThreadRecord = pool.at(thread_at).unwrap();
    process.pool_base.store(pool.base(), Relaxed);
    process.threads.store(thread_at, Relaxed);
    pool.header().processes.store(process_at, Relaxed);

    let mut memory = Supply { pool, nodes };
    let height = if let K::Finite(k) = k { k } else { 0 };
    let rolling = match recursion {
        Recursion::Rolled => forest::Rolling::Recursion,
        Recursion::Unrolled => forest::Rolling::Nothing,
    };
    let mut forest = forest::Forest::new(pool, height, rolling, 0);
    forest.reserve_truncated(&mut memory).unwrap();
    let mut stack: Live<State> = Live::default();
    for &event in events {
        let state = match event {
            Event::Begin(label) => forest.root(label.0, &mut memory).unwrap(),
            Event::Enter(label) => forest.step(*stack.last().unwrap(), label.0, &mut memory),
            _ => {
                if !stack.switch(event) {
                    stack.pop();
                }
                continue;
            }
        };
        let counter: &node::Node = pool.at(state.0 - pool.base()).unwrap();
        counter.count.fetch_add(1, Relaxed);
        stack.push(state);
    }
    thread.nodes.store(forest.first_chunk(), Relaxed);
    let mut recording = trace::from_pool(&pool, Meta::default());
    recording.processes.remove(0).threads.remove(0)
}

fn each_case(
    u: &mut Unstructured<'_>,
    mut check: impl FnMut(&[Event], K, Recursion),
) -> Result<()> {
    let events = common::events(u, 6, 150)?;
    for k in [1, 2, 3, 4, 5, 8]
        .map(K::Finite)
        .into_iter()
        .chain([K::Infinite])
    {
        check(&events, k, Recursion::Rolled);
        check(&events, k, Recursion::Unrolled);
    }
    Ok(())
}

#[test]
fn the_engine_builds_the_forest_of_the_paper() {
    arbtest(|u| {
        each_case(u, |events, k, recursion| {
            let thread = run(events, k, recursion, u64::MAX);
            // Prepared for the limit, which was not reached.
            thread
                .nodes
                .iter()
                .filter(|n| n.label == Label::TRUNCATED)
                .for_each(|truncated| {
                    assert_eq!(truncated.count, 0);
                });
            let mut ksf = oracle::paths(&ksf_from_recording(&thread));
            ksf.remove(&vec![Label::TRUNCATED]);
            assert_eq!(
                ksf,
                oracle::paths(&oracle::ksf_online(events, k, recursion))
            );
            let mut kccf = oracle::paths(&inv_k(&activations(&thread), k));
            kccf.remove(&vec![Label::TRUNCATED]);
            assert_eq!(kccf, oracle::paths(&oracle::kccf(events, k, recursion)));
        })
    })
    .budget_ms(1000);
}

#[test]
fn beyond_the_node_limit_the_total_stays_exact() {
    arbtest(|u| {
        let limit = u.int_in_range(0..=40)?;
        each_case(u, |events, k, recursion| {
            let thread = run(events, k, recursion, limit);
            let entered = events
                .iter()
                .filter(|&&event| event != Event::Leave)
                .count() as u64;
            assert_eq!(activations(&thread).total(), entered);
            let roots = thread
                .nodes
                .iter()
                .filter(|node| node.parent.is_none())
                .count() as u64;
            assert!(thread.nodes.len() as u64 <= limit + roots);
        })
    })
    .budget_ms(500);
}
