//! Thirty kills at random moments; `cargo xtask kills` makes hundreds.
#![forbid(unsafe_code)]

use testkit::kills::{Bench, Victim};
use testkit::soak::random::Random;
use testkit::{mode, program};

const ROUNDS: usize = 30;

#[test]
fn whoever_is_killed_a_prefix_is_left() {
    let product = mode::product(&program::repository()).unwrap_or_else(|error| panic!("{error}"));
    let mut bench = Bench::new(product, 1).unwrap_or_else(|error| panic!("{error}"));
    let whole: usize = bench.lengths().iter().sum();
    let mut random = Random::new(1);
    let (mut some, mut without_cli) = (0, 0);
    for round in 0..ROUNDS {
        let victim = Victim::ALL[round % Victim::ALL.len()];
        match bench.round(victim, &mut random) {
            Ok(found) => {
                let is_part = (1..whole as u64).contains(&found.instructions);
                some += usize::from(is_part);
                without_cli += usize::from(is_part && !victim.is_program());
            }
            Err(error) => panic!("round {round}, {victim:?}: {error}"),
        }
    }
    // On a busy machine many moments are too early or too late.
    assert!(some >= ROUNDS / 5, "{some} rounds left a part");
    assert!(
        without_cli >= 3,
        "{without_cli} rounds without the CLI left a part"
    );
}
