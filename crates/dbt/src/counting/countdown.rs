//! Instructions that are taken from what is left, in place of added (`streams::skip_count`).

use super::{Addition, Amounts, Counting, What};

impl Counting {
    /// Takes instructions from the counter at `displacement`; whether there are
    /// enough is checked where the first run is counted.
    pub fn of_left(displacement: i32) -> Counting {
        Counting::new(What::Left(displacement), None)
    }

    /// The word that instructions are taken from.
    pub fn left(&self) -> Option<i32> {
        match self.what {
            What::Left(word) => Some(word),
            _ => None,
        }
    }
}

impl Addition {
    /// Subtraction of the amounts; `last`: those of the last instruction.
    pub(super) fn taken(word: i32, amounts: Amounts, last: Amounts) -> Addition {
        let [instructions, ..] = amounts.0;
        let nothing = Amounts::default();
        Addition {
            word,
            added: nothing.minus(amounts),
            instructions,
            last: nothing.minus(last),
            apart: false,
        }
    }
}
