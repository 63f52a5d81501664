//! Kills: whoever dies, what was recorded is a prefix of what was executed.
//!
//! The gate makes ten, when a certain part of the file is written; `wide` makes thirty more at random
//! moments, and `cargo xtask kills` hundreds.

use testkit::kills::{Bench, Moment, Victim};
use testkit::soak::random::Random;
use testkit::{mode, program};

fn bench() -> Bench {
    let product = mode::product(&program::repository()).unwrap_or_else(|error| panic!("{error}"));
    Bench::new(product, 1).unwrap_or_else(|error| panic!("{error}"))
}

/// Makes `rounds` kills; the numbers of those that left a part of the run, and of those among them
/// in which the recorder was killed.
fn kills(rounds: usize, moment: impl Fn(usize) -> Option<Moment>) -> (usize, usize) {
    let mut bench = bench();
    let whole: usize = bench.lengths().iter().sum();
    let mut random = Random::new(1);
    let (mut some, mut without_cli) = (0, 0);
    for round in 0..rounds {
        let victim = Victim::ALL[round % Victim::ALL.len()];
        let found = match moment(round) {
            Some(moment) => bench.round_at(victim, moment, &mut random),
            None => bench.round(victim, &mut random),
        };
        let found = found.unwrap_or_else(|error| panic!("round {round}, {victim:?}: {error}"));
        let is_part = (1..whole as u64).contains(&found.instructions);
        some += usize::from(is_part);
        without_cli += usize::from(is_part && !victim.is_program());
    }
    (some, without_cli)
}

#[test]
fn ten_kills_leave_a_prefix() {
    let (some, _) = kills(10, |round| Some(Moment::Written(5 + 4 * round as u64)));
    assert!(some >= 3, "{some} kills left a part");
}

#[test]
#[ignore = "wide: a busy machine makes random moments too early or too late"]
fn kills_at_random_moments_leave_a_prefix() {
    let rounds = 30;
    let (some, without_cli) = kills(rounds, |_| None);
    assert!(some >= rounds / 5, "{some} rounds left a part");
    assert!(
        without_cli >= 3,
        "{without_cli} rounds without the CLI left a part"
    );
}
