//! Nests that were followed as a table: a line for each reference, with the columns of Intel Advisor's report of memory access patterns.
//!
//! What Advisor says of a site stands in each line of it; a site is a loop. Strides are in elements, which are as many bytes as the
//! reference accesses.
//!
//! Source: Intel Advisor user guide 2023.2, "Tab: Memory Access Patterns Report".

use std::io::{self, Write};

use super::{Loop, Nest, Reference, Run, Stride};
use crate::csv::field;

const COLUMNS: &str = "ID,Stride,Type,Source,Modules,Variable references,Site Name,Site Location,\
                       Strides Distribution,Access Pattern,Accesses";

/// Classes of strides that the distribution tells apart.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    /// By one element, or none.
    Unit,
    Constant,
    Variable,
}

fn class(stride: Stride) -> Option<Class> {
    match stride {
        Stride::Invariant | Stride::Contiguous => Some(Class::Unit),
        Stride::Strided(_) => Some(Class::Constant),
        Stride::Irregular => Some(Class::Variable),
        Stride::Unknown => None,
    }
}

/// A stride in elements, and what its type is called.
fn kind(stride: Stride, own: &Reference) -> (String, &'static str) {
    match stride {
        Stride::Invariant => ("0".into(), "Uniform stride"),
        Stride::Contiguous => {
            let function = own.function.as_ref().ok();
            let step = function.and_then(|own| own.coefficients.last().copied().flatten());
            let sign = if step.is_some_and(|step| step < 0) {
                "-1"
            } else {
                "1"
            };
            (sign.into(), "Unit stride")
        }
        Stride::Strided(step) => (elements(step, own.bytes), "Constant stride"),
        Stride::Irregular => (String::new(), "Irregular stride"),
        Stride::Unknown => (String::new(), "Unknown"),
    }
}

fn elements(step: i64, bytes: u16) -> String {
    match i64::from(bytes) {
        0 => String::new(),
        bytes if step % bytes == 0 => (step / bytes).to_string(),
        bytes => format!("{:.3}", step as f64 / bytes as f64),
    }
}

/// The distribution of strides over the three classes, in percent of the references, and the name of the access pattern that they make.
fn distribution(one: &Loop) -> (String, &'static str) {
    let classes = one.references.iter();
    let classes = classes.filter_map(|own| own.stride().and_then(class));
    let classes: Vec<Class> = classes.collect();
    let percent = |wanted: Class| {
        let own = classes.iter().filter(|own| **own == wanted).count();
        (100.0 * own as f64 / classes.len().max(1) as f64).round()
    };
    let all = [Class::Unit, Class::Constant, Class::Variable].map(percent);
    let pattern = match all {
        _ if classes.is_empty() => "No strides",
        [100.0, ..] => "All unit strides",
        [_, 100.0, _] => "All constant strides",
        [.., 100.0] => "All irregular strides",
        _ => "Mixed strides",
    };
    let [unit, constant, variable] = all;
    (format!("{unit}% / {constant}% / {variable}%"), pattern)
}

/// Writes the table of all references that came.
pub fn csv(run: &Run, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{COLUMNS}")?;
    let mut number = 0;
    for nest in run.nests.iter().filter(|nest| nest.entries > 0) {
        for one in &nest.loops {
            let site = site(nest, one);
            for own in one.references.iter().filter(|own| own.stride().is_some()) {
                number += 1;
                write_reference((number, own), &site, out)?;
            }
        }
    }
    Ok(())
}

/// Columns of a loop: those before the reference's variable and those after it.
fn site(nest: &Nest, one: &Loop) -> [String; 5] {
    let (distribution, pattern) = distribution(one);
    let location = one.place.as_ref();
    let location = location.map(|(file, first, _)| format!("{file}:{first}"));
    [
        nest.library.clone().unwrap_or_default(),
        one.name.clone(),
        location.unwrap_or_default(),
        distribution,
        pattern.into(),
    ]
}

fn write_reference(
    (number, own): (u64, &Reference),
    [module, name, location, distribution, pattern]: &[String; 5],
    out: &mut dyn Write,
) -> io::Result<()> {
    let (stride, kind) = own
        .stride()
        .map_or_else(Default::default, |stride| kind(stride, own));
    let place = match &own.place {
        Some((file, line)) => format!("{file}:{line}"),
        None => format!("{:#x}", own.address),
    };
    let samples = own.function.as_ref().map_or(0, |own| own.samples);
    let variable = own.variable.as_deref().unwrap_or_default();
    let columns = [
        &*format!("P{number}"),
        &stride,
        kind,
        &place,
        module,
        variable,
        name,
        location,
        distribution,
        pattern,
        &samples.to_string(),
    ];
    let columns: Vec<_> = columns.iter().map(|column| field(column)).collect();
    writeln!(out, "{}", columns.join(","))
}
