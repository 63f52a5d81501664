//! `loops --dependences FILE.evp`: dependences of nests, from a trace with addresses.

use std::path::Path;

use analysis::dependences::{Found, of_process};
use analysis::nesting::Nests as Code;
use anyhow::Result;
use flow::nests::places::Places;
use flow::nests::{Nest, Nests};
use image::LinkAddr;
use report::dependences::{Shown, json, text};
use report::flow::Flow;
use report::loops::is_on_stack;

use crate::branches::{say, send};
use crate::exit_status::Ending;
use crate::flags::{Loops, LoopsForm};
use crate::output::Output;
use crate::traced_nests::{Traced, bias, code};

/// Shows the dependences of some nests.
pub fn show(
    traced: &Traced,
    (flags, output): (&Loops, Option<Output>),
    (flow, nests, places): (&Flow<'_>, &Nests, &Places<'_>),
    chosen: &[usize],
) -> Result<Ending> {
    let chosen: Vec<&Nest> = chosen.iter().map(|&nest| &nests.nests[nest]).collect();
    let code: Vec<_> = chosen.iter().map(|nest| code(flow.program, nest)).collect();
    let code = Code::of(&code);
    let is_on_stack = |at: u64| is_on_stack(flow.image, LinkAddr(at));
    let mut all: Vec<Found> = chosen.iter().map(|_| Found::default()).collect();
    let mut failures = Vec::new();
    for process in &traced.recording.processes {
        let Some(bias) = bias(process, flow.image)? else {
            continue;
        };
        let (found, failed) = of_process(process, traced.selection, bias, (&code, &is_on_stack));
        failures.extend(failed);
        for (own, more) in all.iter_mut().zip(found) {
            own.add(more);
        }
    }
    let shown = Shown {
        command: &traced.recording.meta.command.join(" "),
        flow,
        places,
        nests: chosen.into_iter().zip(&all).collect(),
        is_whole: traced.is_sound && failures.is_empty(),
    };
    let ending = send(output, |out| match flags.format {
        LoopsForm::Json => json(&shown, out),
        LoopsForm::Text | LoopsForm::Source | LoopsForm::Csv => text(&shown, out),
    })?;
    let path = flags.dependences.as_deref().unwrap_or(Path::new(""));
    Ok(say(path, failures, ending))
}
