//! Streams of any bytes, over the code of a real trace: what is made of them ends. The first
//! byte says whether they are packed; the others go to the streams by turns.
#![no_main]

use analysis::K;
use analysis::activations::Rules;
use analysis::activations::contexts::{self, Wanted};
use analysis::cct::Recursion;
use analysis::counts::from_trace;
use analysis::walk::packed;
use libfuzzer_sys::fuzz_target;
use trace::{Cost, Part};

const RECORDED: &[u8] = include_bytes!("../../crates/trace/tests/recordings/11-trace.evp");

fuzz_target!(|bytes: &[u8]| {
    let Some((first, bytes)) = bytes.split_first() else {
        return;
    };
    let mut traced = trace::read(RECORDED).expect("it is whole");
    let streams = match first % 2 {
        0 => 0..packed::BRANCHES,
        _ => packed::BRANCHES..packed::STAMPS + 1,
    };
    let share = bytes.len().div_ceil(streams.len()).max(1);
    let parts = streams.zip(bytes.chunks(share)).flat_map(|(stream, raw)| {
        let mut part = Part::pack(raw).ok()?;
        part.stream = stream;
        Some(part)
    });
    let thread = &mut traced.processes[0].threads[0];
    thread.stream = parts.collect();
    thread.keyframes.clear();
    let _ = from_trace::recording(&traced);
    let wanted = Wanted {
        k: K::Finite(2),
        recursion: Recursion::Rolled,
        rules: Rules::default(),
        costs: vec![Cost::Instructions],
    };
    let _ = contexts::recording(&traced, &wanted, &mut |_, _| Vec::new());
});
