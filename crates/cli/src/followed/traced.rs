//! `loops --trace FILE.evp`: nests of loops are followed in a trace with addresses.
//!
//! Any code can be followed so, also code that cannot be edited, and libraries that are loaded late. The functions are those of
//! `--exact`.

use std::path::Path;

use analysis::followed::{Code as Watched, Seen, Wanted, of_process};
use analysis::nesting;
use anyhow::Result;
use edits::loops::section::{Followed, Left, OfLoop, OfReference, Planned};
use flow::nests::{Nest, NestLoop, Obstacle, Reference};
use report::followed::Run;

use super::found::{Thread, add};
use super::{Code, sort};
use crate::branches::say;
use crate::exit_status::Ending;
use crate::flags::Loops;
use crate::traced_nests::{Traced, bias, code};

/// Follows nests in a trace, and gives what was found.
pub fn follow(files: &[Code<'_>], traced: &Traced, flags: &Loops) -> Result<(Ending, Run)> {
    let planned: Vec<Planned> = files.iter().map(|code| planned(code, flags)).collect();
    let nests: Vec<Vec<nesting::Nest>> = files.iter().map(nests).collect();
    let watched = nests.iter().zip(&planned).map(|(nests, planned)| Watched {
        nests: nesting::Nests::of(nests),
        references: planned.nests.iter().map(wanted).collect(),
    });
    let watched: Vec<Watched<'_>> = watched.collect();
    let mut threads: Vec<Vec<Thread>> = files.iter().map(|_| Vec::new()).collect();
    let mut failures = Vec::new();
    for process in &traced.recording.processes {
        let mut present = Vec::new();
        for (number, code) in files.iter().enumerate() {
            let bias = bias(process, code.flow.image)?;
            present.extend(bias.map(|bias| (number, bias)));
        }
        let own = present
            .iter()
            .map(|(number, bias)| (&watched[*number], *bias));
        let own: Vec<_> = own.collect();
        let (seen, failed) = of_process(process, traced.selection, &own);
        failures.extend(failed);
        for (file, nests) in seen
            .into_iter()
            .flat_map(|own: Seen| own.into_iter().enumerate())
        {
            let (number, bias) = present[file];
            let nests = nests.into_iter().map(Option::unwrap_or_default);
            threads[number].push(Thread {
                bias,
                nests: nests.collect(),
            });
        }
    }
    let mut run = Run {
        command: traced.recording.meta.command.join(" "),
        is_exact: true,
        ..Run::default()
    };
    for (code, (planned, threads)) in files.iter().zip(planned.iter().zip(&threads)) {
        add(&mut run, code, planned, threads);
    }
    sort(&mut run);
    let path = flags.trace.as_deref().unwrap_or(Path::new(""));
    Ok((say(path, failures, Ending::Exit(0)), run))
}

/// Nests that can be followed, with their references, and those that cannot.
fn planned(code: &Code<'_>, flags: &Loops) -> Planned {
    let mut planned = Planned {
        is_exact: true,
        has_strides: flags.strides,
        ..Planned::default()
    };
    for nest in chosen(code) {
        match obstacle(nest) {
            Some(why) => planned.left.push((nest.loops[0].header.0, why)),
            None => planned.nests.push(Followed {
                at: 0,
                loops: nest.loops.iter().map(of_loop).collect(),
            }),
        }
    }
    planned
}

fn chosen<'c>(code: &'c Code<'_>) -> impl Iterator<Item = &'c Nest> {
    code.chosen.iter().map(|&nest| &code.nests.nests[nest])
}

/// Code of the nests that can be followed.
fn nests(file: &Code<'_>) -> Vec<nesting::Nest> {
    let nests = chosen(file).filter(|nest| obstacle(nest).is_none());
    nests.map(|nest| code(file.flow.program, nest)).collect()
}

fn obstacle(nest: &Nest) -> Option<String> {
    if nest.depth() as usize > nesting::DEPTH {
        let most = nesting::DEPTH;
        return Some(format!("it has more than {most} loops around each other"));
    }
    nest.obstacles.iter().find_map(|own| match own {
        Obstacle::Irreducible(at) => Some(format!(
            "a cycle in it is also entered behind its beginning at {at:#x}"
        )),
        _ => None,
    })
}

fn of_loop(own: &NestLoop) -> OfLoop {
    let of_reference = |own: &Reference| OfReference {
        address: own.at.0,
        operand: own.operand,
        reads: own.kind.reads(),
        writes: own.kind.writes(),
        bytes: own.size,
        model: match (own.is_plain, own.constant) {
            (false, _) => Err(Left::Several),
            (true, Some(address)) => Err(Left::Constant(address)),
            (true, None) => Ok(0),
        },
    };
    OfLoop {
        header: own.header.0,
        parent: own.parent,
        at: 0,
        references: own.references.iter().map(of_reference).collect(),
    }
}

/// References that are followed, by loop.
fn wanted(nest: &Followed) -> Vec<Vec<Option<Wanted>>> {
    let of_loop = |one: &OfLoop| {
        let own = one.references.iter();
        own.map(|own| own.model.ok().map(|_| (own.address, own.operand)))
            .collect()
    };
    nest.loops.iter().map(of_loop).collect()
}
