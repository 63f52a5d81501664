//! First-access compression of random accesses, against the definition.

use analysis::cfiat::{Config, Crossing, Decoder, Encoder, Memory, Replacement, Shared};
use analysis::oracle::cfiat::{self, Access, Definition};
use analysis::walk::{Bytes, Operation, Value};

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn one_of<T: Copy>(state: &mut u64, all: &[T]) -> T {
    all[(random(state) >> 20) as usize % all.len()]
}

/// Accesses to a few hundred bytes, which others change now and then.
fn accesses(state: &mut u64, number: usize) -> Vec<Access> {
    let mut memory = [0u8; 1024];
    let sizes = [1, 2, 4, 8, 8, 10, 16, 32, 64];
    let mut all = Vec::new();
    for _ in 0..number {
        if random(state).is_multiple_of(16) {
            let at = random(state) as usize % memory.len();
            memory[at] = random(state) as u8;
        }
        let (size, is_store) = (one_of(state, &sizes), one_of(state, &[true, false, false]));
        let most = memory.len() - size;
        let at = (random(state) >> 8) as usize % one_of(state, &[64, most]);
        let place = &mut memory[at..at + size];
        if is_store {
            place
                .iter_mut()
                .for_each(|byte| *byte = (random(state) >> 9) as u8);
        }
        all.push(Access {
            is_store,
            // The last bytes of all, and the first.
            address: (at as u64).wrapping_sub(one_of(state, &[0, 0, 0, 40])),
            size: size as u32,
            value: (!random(state).is_multiple_of(50)).then(|| place.to_vec()),
        });
    }
    all
}

/// The accesses as a walk gives them.
fn operations(all: &[Access]) -> (Vec<Operation>, Vec<u8>) {
    let mut bytes = Vec::new();
    let operations = all.iter().map(|access| Operation {
        step: 0,
        repetition: 0,
        is_store: access.is_store,
        address: access.address,
        size: access.size,
        value: access.value.as_ref().map(|value| {
            bytes.extend(value);
            Value::new((bytes.len() - value.len()) as u32, value.len() as u8)
        }),
    });
    let operations = operations.collect();
    (operations, bytes)
}

fn config(state: &mut u64) -> Config {
    let line = one_of(state, &[4, 8, 16, 32, 64]);
    let ways = one_of(state, &[1, 2, 4, 8]);
    Config {
        size: line * ways * one_of(state, &[1, 2, 4]),
        ways,
        line,
        granule: one_of(state, &[1, 2, 4]),
        replacement: one_of(state, &[Replacement::RoundRobin, Replacement::Lru]),
        crossing: one_of(state, &[Crossing::First, Crossing::All]),
        coherent: one_of(state, &[true, false]),
    }
}

#[test]
fn descriptors_and_hits_are_those_of_the_definition() {
    let mut state = 0x1234_5678_9abc_def1;
    let (mut wrong_ones, mut invalidated) = (0, 0);
    for round in 0..400 {
        let config = config(&mut state);
        config.check().unwrap();
        let all = accesses(&mut state, 400);
        let (operations, bytes) = operations(&all);
        let bytes = Bytes::new(&bytes);
        // Two threads with one cache, in turns of ten accesses.
        let mut shared = Shared::new(&config);
        let mut definition = Definition::new(config);
        let mut encoders = [Encoder::default(), Encoder::default()];
        let mut expected = [cfiat::Thread::default(), cfiat::Thread::default()];
        let mut made = [Vec::new(), Vec::new()];
        for (at, (operation, access)) in operations.iter().zip(&all).enumerate() {
            let thread = at / 10 % 2;
            definition.access(&mut expected[thread], access);
            let descriptor = encoders[thread].operation(&mut shared, operation, bytes);
            made[thread].extend(descriptor.map(|one| {
                let nothing = vec![0; one.size as usize];
                (one.hits, one.value.map_or(nothing, <[u8]>::to_vec))
            }));
        }
        for thread in 0..2 {
            let (counts, expected) = (&encoders[thread].counts, &expected[thread]);
            assert_eq!(made[thread], expected.descriptors, "{round} {config:?}");
            let sum = |classes: &[analysis::cfiat::Hits]| {
                let hits = classes.iter().map(|one| one.hits).sum::<u64>();
                [hits, classes.iter().map(|one| one.misses).sum::<u64>()]
            };
            assert_eq!(sum(&counts.cache), expected.cache);
            assert_eq!(sum(&counts.flags), expected.flags);
            invalidated += counts.invalidated;
        }
        wrong_ones += decoded(&config, &all, &operations, bytes);
    }
    assert!(
        wrong_ones > 1000 && invalidated > 1000,
        "{wrong_ones} {invalidated}"
    );
}

/// Encodes and decodes one thread's accesses; how many loads are wrong.
fn decoded(config: &Config, all: &[Access], operations: &[Operation], bytes: Bytes<'_>) -> u64 {
    let (mut shared, mut encoder) = (Shared::new(config), Encoder::default());
    let descriptors: Vec<(u32, Vec<u8>)> = operations
        .iter()
        .filter_map(|operation| encoder.operation(&mut shared, operation, bytes))
        .map(|one| {
            let nothing = vec![0; one.size as usize];
            (one.hits, one.value.map_or(nothing, <[u8]>::to_vec))
        })
        .collect();
    let (mut memory, mut decoder) = (Memory::default(), Decoder::default());
    let mut rest = descriptors.iter().peekable();
    let mut loads = Vec::new();
    for operation in operations {
        let next = rest.peek().map(|(hits, _)| *hits);
        let value = decoder.operation(&mut memory, operation, bytes, next, |value| {
            value.clone_from(&rest.next().unwrap().1);
        });
        loads.extend(value.map(<[u8]>::to_vec));
    }
    assert!(rest.next().is_none());
    assert_eq!(loads, cfiat::decode(all, &descriptors));
    let values = all.iter().filter(|access| !access.is_store);
    let known = values
        .zip(&loads)
        .filter_map(|(access, load)| Some((access.value.as_ref()?, load)));
    let wrong = known.filter(|(value, load)| value != load).count() as u64;
    assert_eq!(decoder.decoded.wrong, wrong);
    assert!(!config.coherent || wrong == 0, "{config:?}");
    wrong
}
