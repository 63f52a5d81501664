//! Why the figures of two recordings do not mean the same: they were not made
//! alike.

use std::fmt;

use trace::{Meta, Mode, Recording};

use super::identity::program_of;

/// A difference that makes a comparison say less than it seems to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// They are of different programs.
    Program { before: String, after: String },
    /// One has contexts, the other has none.
    Mode { before: Mode, after: Mode },
    /// Contexts keep a different number of callers; `None` is infinity.
    K {
        before: Option<u32>,
        after: Option<u32>,
    },
    /// Recursion makes a node per level in one of them only.
    Unroll { before: bool, after: bool },
    /// Different functions were selected: the options, as given.
    Selection { before: String, after: String },
}

/// Options that decide what is counted.
const SELECTING: [&str; 8] = [
    crate::without_root::OPTION,
    "mode",
    "roll-loops",
    "blocks",
    "funcs",
    "modules",
    "start-func",
    "stop-func",
];

pub fn obstacles(before: &Recording, after: &Recording) -> Vec<Obstacle> {
    let program = |recording| program_of(recording).unwrap_or("nothing").to_owned();
    let mut found = Vec::new();
    found.extend(
        differing(program(before), program(after))
            .map(|(before, after)| Obstacle::Program { before, after }),
    );
    let (before, after) = (&before.meta, &after.meta);
    if let Some((before, after)) = differing(before.mode, after.mode) {
        // Options of contexts do not matter then.
        found.push(Obstacle::Mode { before, after });
        return found;
    }
    let others = [
        differing(before.k, after.k).map(|(before, after)| Obstacle::K { before, after }),
        differing(before.unroll, after.unroll)
            // Without callers it makes no difference.
            .filter(|_| before.k != Some(0))
            .map(|(before, after)| Obstacle::Unroll { before, after }),
        differing(selection(before), selection(after))
            .map(|(before, after)| Obstacle::Selection { before, after }),
    ];
    found.extend(others.into_iter().flatten());
    found
}

fn differing<T: PartialEq>(before: T, after: T) -> Option<(T, T)> {
    (before != after).then_some((before, after))
}

/// The selection as options.
fn selection(meta: &Meta) -> String {
    let mut options: Vec<String> = meta
        .options
        .iter()
        .filter(|(name, _)| SELECTING.contains(&name.as_str()))
        .map(|(name, value)| format!("--{name} {value}"))
        .collect();
    let slabs = meta.blocks.is_some_and(|blocks| !blocks.windows) && meta.k.is_some_and(|k| k > 0);
    options.extend(slabs.then(|| "--slabs".to_owned()));
    options.sort();
    match options.is_empty() {
        true => "everything".into(),
        false => options.join(" "),
    }
}

/// A clause of a sentence.
impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let depth = |k: &Option<u32>| k.map_or("infinite".into(), |k| k.to_string());
        let rolled = |unroll: &bool| if *unroll { "unrolled" } else { "rolled" }.to_owned();
        let mode = |mode: &Mode| match mode {
            Mode::Run => "`run`".to_owned(),
            Mode::Contexts => "`contexts`".to_owned(),
            Mode::Counts => "`count`".to_owned(),
            Mode::Trace => "`trace`".to_owned(),
        };
        let quoted = |name: &String| format!("'{name}'");
        let (what, before, after) = match self {
            Obstacle::Program { before, after } => ("the program", quoted(before), quoted(after)),
            Obstacle::Mode { before, after } => ("the command", mode(before), mode(after)),
            Obstacle::K { before, after } => ("k", depth(before), depth(after)),
            Obstacle::Unroll { before, after } => ("recursion", rolled(before), rolled(after)),
            Obstacle::Selection { before, after } => {
                ("the selection", before.clone(), after.clone())
            }
        };
        write!(f, "{what} is {before} before and {after} after")
    }
}
