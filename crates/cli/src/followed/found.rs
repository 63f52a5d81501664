//! Nests of a file as they were followed, with names and lines: what threads have found, added up.
//!
//! A function holds for all threads, or its values were not as expected.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use analysis::followed::{Loop, Nest as Seen, Reference as OfThread};
use edits::loops::section::{Left, OfLoop, OfReference, Planned};
use flow::nests::Nest;
use report::followed::{self, Function, Reference, Run, Steps};
use report::loops::{instruction, name};
use wire::loops::Model;

use super::Code;

/// The nests of one file in one thread.
pub struct Thread {
    /// Distance of the file from where it was linked, in this process.
    pub bias: u64,
    /// As in [`Planned::nests`].
    pub nests: Vec<Seen>,
}

/// Adds up the functions of several threads, of so many numbers.
fn function(models: impl Iterator<Item = Model>, depth: usize) -> Function {
    let mut all = Function {
        coefficients: vec![None; depth],
        ..Function::default()
    };
    for model in models.filter(|model| model.samples > 0) {
        let mut agrees = true;
        for (number, own) in all.coefficients.iter_mut().enumerate() {
            if model.known >> number & 1 == 0 {
                continue;
            }
            let coefficient = model.coefficients[number];
            agrees &= own.is_none_or(|own| own == coefficient);
            own.get_or_insert(coefficient);
        }
        let constant = model.constant();
        all.moved += model.moved;
        all.moved += u64::from(all.samples > 0 && all.constant != constant);
        all.constant = constant.or(all.constant);
        all.samples += model.samples;
        all.unsolved += model.unsolved;
        match agrees {
            true => {
                all.fits += model.fits;
                all.fails += model.fails;
            }
            false => all.fails += model.samples,
        }
    }
    all
}

/// Adds everything that was found in a file.
pub fn add(run: &mut Run, code: &Code<'_>, planned: &Planned, threads: &[Thread]) {
    let places = code.chosen.iter().enumerate();
    let by_header: BTreeMap<u64, (usize, &Nest)> = places
        .map(|(place, &nest)| {
            let nest = &code.nests.nests[nest];
            (nest.loops[0].header.0, (place, nest))
        })
        .collect();
    let mut nests = Vec::new();
    for (number, own) in planned.nests.iter().enumerate() {
        let Some(&(place, nest)) = by_header.get(&own.loops[0].header) else {
            continue;
        };
        let seen = threads.iter();
        let seen = seen.filter_map(|thread| Some((thread.bias, thread.nests.get(number)?)));
        let seen: Vec<(u64, &Seen)> = seen.filter(|(_, nest)| nest.entries > 0).collect();
        let loops = own.loops.iter().enumerate();
        let loops = loops.map(|one| loop_of(code, (planned, nest), one, &seen));
        nests.push((
            place,
            followed::Nest {
                library: code.library.map(str::to_owned),
                threads: seen.len() as u64,
                entries: seen.iter().map(|(_, nest)| nest.entries).sum(),
                lost: seen.iter().map(|(_, nest)| nest.lost).sum(),
                loops: loops.collect(),
            },
        ));
    }
    nests.sort_by_key(|(place, _)| *place);
    run.nests.extend(nests.into_iter().map(|(_, nest)| nest));
    let left = planned.left.iter().map(|(header, why)| {
        let known = by_header.get(header);
        let name = match known {
            Some((_, nest)) => name(code.flow, nest, 0),
            None => format!("{header:#x}"),
        };
        followed::Left {
            library: code.library.map(str::to_owned),
            name,
            why: why.clone(),
        }
    });
    run.left.extend(left);
}

fn loop_of(
    code: &Code<'_>,
    (planned, nest): (&Planned, &Nest),
    (number, own): (usize, &OfLoop),
    seen: &[(u64, &Seen)],
) -> followed::Loop {
    let depth = nest.loops[number].depth;
    let loops = seen.iter();
    let loops = loops.filter_map(|(bias, nest)| Some((*bias, nest.loops.get(number)?)));
    let loops: Vec<(u64, &Loop)> = loops.collect();
    let ended = loops.iter().map(|(_, own)| *own);
    let ended = ended.filter(|own| own.entries > 0);
    let extent = code.places.extent(code.flow.program, nest, number);
    let place = extent.and_then(|extent| {
        let file = code.places.files().get(extent.file as usize)?;
        Some((file.clone(), extent.first, extent.last))
    });
    let references = own.references.iter().enumerate();
    let references = references.map(|(index, own)| {
        let seen = loops.iter();
        let seen = seen.filter_map(|(bias, of)| Some((*bias, of.references.get(index)?)));
        reference(code, (planned, own), depth, &seen.collect::<Vec<_>>())
    });
    followed::Loop {
        name: name(code.flow, nest, number),
        place,
        depth,
        entries: ended.clone().map(|own| own.entries).sum(),
        sum: ended.clone().map(|own| own.sum).sum(),
        least: ended.clone().map(|own| own.least).min().unwrap_or(0),
        most: ended.map(|own| own.most).max().unwrap_or(0),
        trips: function(loops.iter().map(|(_, own)| own.trips), depth as usize - 1),
        references: references.collect(),
    }
}

fn reference(
    code: &Code<'_>,
    (planned, own): (&Planned, &OfReference),
    depth: u32,
    seen: &[(u64, &OfThread)],
) -> Reference {
    let function = match own.model {
        Ok(_) => {
            let models = seen.iter().map(|(_, own)| own.model);
            Ok(function(models, depth as usize))
        }
        Err(left) => Err(reason_of(left)),
    };
    let at = image::LinkAddr(own.address);
    let place = code.places.row(at);
    let place = place.and_then(|line| {
        let file = code.places.files().get(line.file as usize)?;
        Some((file.clone(), line.line))
    });
    Reference {
        address: own.address,
        text: instruction(code.flow.image, at),
        place,
        reads: own.reads,
        writes: own.writes,
        bytes: own.bytes,
        function,
        is_constant: matches!(own.model, Err(Left::Constant(_))),
        variable: own.model.ok().and_then(|_| variable(code, seen)),
        steps: match (own.model, planned.has_strides) {
            (Ok(_), true) => Some(steps(seen)),
            _ => None,
        },
    }
}

/// Steps of a reference in all threads, the most frequent first.
fn steps(seen: &[(u64, &OfThread)]) -> Steps {
    let mut counts: BTreeMap<i64, u64> = BTreeMap::new();
    let mut others = 0;
    for strides in seen.iter().map(|(_, own)| own.strides) {
        for (stride, count) in strides.strides.into_iter().zip(strides.counts) {
            if count > 0 {
                *counts.entry(stride).or_default() += count;
            }
        }
        others += strides.others;
    }
    let mut kept: Vec<(i64, u64)> = counts.into_iter().collect();
    kept.sort_by_key(|(stride, count)| (Reverse(*count), *stride));
    Steps { kept, others }
}

/// The variable that the constant of a reference is in, and how far from its beginning.
fn variable(code: &Code<'_>, seen: &[(u64, &OfThread)]) -> Option<String> {
    let mut constants = seen.iter().rev().filter_map(|(bias, own)| {
        let constant = own.model.constant().filter(|_| own.model.samples > 0)?;
        Some(constant.cast_unsigned().wrapping_sub(*bias))
    });
    let at = constants.next()?;
    let before = code.variables.partition_point(|one| one.addr.0 <= at);
    let one = &code.variables[before.checked_sub(1)?];
    match at - one.addr.0 {
        0 => Some(one.name.clone()),
        further if further < one.size => Some(format!("{}+{further}", one.name)),
        _ => None,
    }
}

/// A reason why a reference was not followed.
fn reason_of(left: Left) -> String {
    match left {
        Left::Constant(address) => format!("always {address:#x}, as linked"),
        Left::Several => "not followed: it accesses several places, or a part of them".into(),
        Left::Operand => "not followed: an odd operand".into(),
        Left::Register => "not followed: it needs r11, which inserted code uses".into(),
        Left::Scratch => "not followed: no register is free before it".into(),
    }
}
