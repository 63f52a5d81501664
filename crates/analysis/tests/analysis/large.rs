//! The sizes that issue 2 asks for: 20 million contexts. Not part of the
//! ordinary run; with its times:
//!
//! `cargo test --release -p analysis --test analysis large:: -- --ignored --nocapture`

use std::time::Instant;

use analysis::forest::{K, activations, inv_k, join, kccf, ksf_from_recording};
use analysis::hot::{self, Limits};
use trace::{Label, Node, Process, Recording, Thread, read, write};

const NODES: u32 = 20_000_000;
const FUNCTIONS: u64 = 4_000;
/// Trees of a 10-SF are at most this deep.
const MOST_DEPTH: u32 = 19;

/// Marsaglia's xorshift.
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Nodes as a program makes them: children near their parents, few functions
/// frequent, counts mostly small, bottom nodes with a top node nearby.
fn nodes() -> Vec<Node> {
    let mut seed = 0x1234_5678_9ABC_DEF1;
    let mut nodes: Vec<Node> = Vec::with_capacity(NODES as usize);
    nodes.push(Node {
        label: Label::THREAD,
        count: 1,
        ..Node::default()
    });
    for index in 1..NODES {
        let bits = random(&mut seed);
        let back = 1 + (bits % 64) as u32 * (1 + (bits >> 8) as u32 % 200);
        let parent = index.saturating_sub(back);
        let rank = (bits >> 20) % FUNCTIONS;
        let label = Label(256 + (rank * rank / FUNCTIONS) as u32);
        let mut node = Node {
            label,
            count: 1 + (bits >> 50) % 40,
            ..Node::default()
        };
        if nodes[parent as usize].depth < MOST_DEPTH {
            node.parent = Some(parent);
            node.depth = nodes[parent as usize].depth + 1;
        }
        if node.depth >= 10 {
            node.top = Some(index - 1 - (bits >> 40) as u32 % index.min(16));
        }
        nodes.push(node);
    }
    nodes
}

fn timed<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = work();
    println!("{what:32} {:8.2} s", start.elapsed().as_secs_f64());
    result
}

#[test]
#[ignore = "wide: some gigabytes, and half a minute in release"]
fn twenty_million_nodes() {
    let thread = Thread {
        nodes: timed("make", nodes),
        ..Thread::default()
    };
    let process = Process {
        threads: vec![thread],
        ..Process::default()
    };
    let recording = Recording {
        processes: vec![process],
        ..Recording::default()
    };
    let mut file = Vec::new();
    timed("write", || write(&recording, &mut file)).unwrap();
    println!(
        "{:32} {:8.2} bytes per node",
        "size",
        file.len() as f64 / f64::from(NODES)
    );
    assert!(timed("read", || read(file.as_slice())).unwrap() == recording);
    let thread = &recording.processes[0].threads[0];
    let total: u64 = thread.nodes.iter().map(|node| node.count).sum();
    let ksf = timed("ksf_from_recording", || ksf_from_recording(thread));
    let joined = timed("join with itself", || join([&ksf, &ksf]));
    assert_eq!(joined.len(), ksf.len());
    drop(joined);
    let rows = timed("hot::tree, top 30", || {
        hot::tree(
            &ksf,
            Limits {
                top: Some(30),
                ..Limits::default()
            },
        )
    });
    assert!(!rows.is_empty());
    let two = timed("kccf", || kccf(&ksf, K::Finite(2)));
    drop((two, ksf));
    let activations = timed("activations", || activations(thread));
    assert_eq!(activations.total(), total);
    timed("hot::functions", || hot::functions(&activations));
    let kccf = timed("inv_k, k = 2", || inv_k(&activations, K::Finite(2)));
    println!("{:32} {:8} nodes", "", kccf.len());
}
