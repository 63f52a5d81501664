//! Targets of indirect jumps, calls and returns against the oracle's sequence of
//! instructions: every branch, every target, how often.

use std::collections::BTreeMap;

use analysis::counts;
use testkit::oracle::{Counts, Ran};
use trace::{Recording, base_name};

/// Differences shown.
const SHOWN: usize = 12;

/// A file's name and an offset there; no file: an address.
type Place = (String, u64);
/// By branch and target.
type Edges = BTreeMap<(Place, Place), u64>;

/// Edges of the sequence: the instruction after a branch is its target, also if a
/// handler came before.
pub fn expected(stepped: &Counts) -> Edges {
    let mut edges = Edges::new();
    for thread in &stepped.threads {
        let place = |pc| {
            let spot = thread.spots.get(&pc)?;
            Some((spot.module.clone(), spot.offset))
        };
        let mut before = None;
        for ran in &thread.ran {
            let (pc, branch) = match *ran {
                Ran::Instruction { pc, indirect, .. } => (pc, indirect.then_some(pc)),
                Ran::Interrupted(pc) => (pc, None),
            };
            if let Some(from) = before.take().and_then(place)
                && let Some(to) = place(pc)
            {
                *edges.entry((from, to)).or_default() += 1;
            }
            before = branch;
        }
    }
    edges
}

/// Ours must be those of `expected` that come from wanted files. A branch to where nothing
/// was executed is in no sequence.
pub fn check(
    recording: &Recording,
    expected: &Edges,
    wanted: impl Fn(&str) -> bool,
) -> Result<(), String> {
    let counts = counts::of_recording(recording).map_err(|error| error.to_string())?;
    let place = |at: u32| {
        let insn = &counts.insns[at as usize];
        let path = counts.units[insn.unit as usize].path.as_deref();
        let name = path.map_or("", base_name);
        (name.to_owned(), insn.at)
    };
    let mut ours = Edges::new();
    for went in &counts.went {
        if let Some(to) = went.to {
            *ours.entry((place(went.from), place(to))).or_default() += went.count;
        }
    }
    for (at, insn) in (0u32..).zip(&counts.insns) {
        let known = counts.went_from(at as usize).iter().map(|went| went.count);
        let known = known.sum::<u64>();
        if insn.is_indirect() && known != insn.count {
            let (name, offset) = place(at);
            let count = insn.count;
            return Err(format!(
                "{name}+{offset:#x} was executed {count} times and went somewhere {known} times"
            ));
        }
    }
    let mut differences = Vec::new();
    let all = ours.keys().chain(expected.keys());
    for edge in all.collect::<std::collections::BTreeSet<_>>() {
        let ((from, at), (to, target)) = edge;
        let get = |edges: &Edges| edges.get(edge).copied().unwrap_or(0);
        let (ours, expected) = (get(&ours), get(expected));
        if wanted(from) && wanted(to) && ours != expected {
            differences.push(format!(
                "{from}+{at:#x} to {to}+{target:#x}: {ours}, expected {expected}"
            ));
        }
    }
    if differences.is_empty() {
        return Ok(());
    }
    let all = differences.len();
    differences.truncate(SHOWN);
    Err(format!("{all} edges differ\n{}", differences.join("\n")))
}
