//! Costs of nodes: one cost of a run of nodes a chunk.
//!
//! The chunks of a cost come one after the other and go on where the one before
//! ended; a cost is known by its number, and one that a reader does not know is
//! passed over.

use super::codec::{Decoder, Encoder};
use crate::error::{ReadError, WriteError};
use crate::model::{Cost, Costs, Thread};

/// A cost by its number in a file.
const NUMBERS: [(Cost, u64); 10] = [
    (Cost::Instructions, 0),
    (Cost::Branches, 1),
    (Cost::Loads, 2),
    (Cost::Stores, 3),
    (Cost::Cycles, 4),
    (Cost::FetchMisses, 5),
    (Cost::DataMisses, 6),
    (Cost::LastMisses, 7),
    (Cost::Time, 8),
    (Cost::Waiting, 9),
];

fn number(cost: Cost) -> u64 {
    let row = NUMBERS.iter().find(|(known, _)| *known == cost);
    row.expect("every cost has a row").1
}

/// A reader refuses costs that are not one per node, so such a file is not made.
pub(super) fn check(thread: &Thread, column: &Costs) -> Result<(), WriteError> {
    let same = |other: &&Costs| other.cost == column.cost;
    let once = thread.costs.iter().filter(same).count() == 1;
    if once && column.values.len() == thread.nodes.len() {
        return Ok(());
    }
    Err(WriteError::Inconsistent {
        what: "cost of node",
        index: column.values.len(),
    })
}

pub(super) fn encode(cost: Cost, values: &[u64]) -> Encoder {
    let mut out = Encoder::default();
    out.uint(number(cost));
    out.list(values, |out, &value| out.uint(value));
    out
}

/// A cost of some nodes; `None`: one that is not known here.
pub(super) struct Run {
    cost: Option<Cost>,
    values: Vec<u64>,
}

pub(super) fn decode(input: &mut Decoder<'_>) -> Result<Run, ReadError> {
    let number = input.uint()?;
    let known = NUMBERS.iter().find(|(_, known)| *known == number);
    Ok(Run {
        cost: known.map(|(cost, _)| *cost),
        values: input.list(Decoder::uint)?,
    })
}

impl Run {
    /// False, and nothing appended, if there are not so many nodes.
    pub fn append_to(self, thread: &mut Thread) -> bool {
        let Some(cost) = self.cost else { return true };
        let nodes = thread.nodes.len();
        let known = thread.costs_of(cost).map_or(0, <[u64]>::len);
        if known + self.values.len() > nodes {
            return false;
        }
        match thread.costs.iter_mut().find(|costs| costs.cost == cost) {
            Some(costs) => costs.values.extend(self.values),
            None => thread.costs.push(Costs {
                cost,
                values: self.values,
            }),
        }
        true
    }
}
