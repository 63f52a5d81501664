//! `loops --dependences FILE.evp`: dependences of nests, from a trace with addresses.

use std::path::{Path, PathBuf};

use analysis::dependences::{Found, Loop, Nests as Code, of_process};
use analysis::walk::{Selection, selection};
use anyhow::{Result, bail};
use flow::Program;
use flow::nests::places::Places;
use flow::nests::{Nest, Nests};
use image::{FileOffset, Image, LinkAddr};
use report::dependences::{Shown, json, text};
use report::flow::Flow;
use report::loops::is_on_stack;
use trace::{Process, Recording};

use crate::branches::{say, send};
use crate::exit_status::Ending;
use crate::flags::{Loops, LoopsForm};
use crate::output::Output;
use crate::traces::read_trace;

/// A trace with addresses of all accesses.
pub struct Traced {
    recording: Recording,
    selection: Selection,
    is_sound: bool,
}

impl Traced {
    pub fn read(path: &Path) -> Result<Traced> {
        let (recording, is_sound) = read_trace(path)?;
        let shown = path.display();
        let record =
            format!("record it with `everypath trace --memory addresses -o {shown} -- PROGRAM`");
        let Some(selection) = selection(&recording) else {
            bail!("'{shown}' has no memory accesses; {record}");
        };
        if !(selection.loads && selection.stores) {
            bail!("'{shown}' has no loads, or no stores, and dependences need both; {record}");
        }
        Ok(Traced {
            recording,
            selection,
            is_sound,
        })
    }

    /// The program whose nests are looked at.
    pub fn program(&self) -> Result<PathBuf> {
        match self.recording.processes.first() {
            Some(process) => Ok(PathBuf::from(&process.exe)),
            None => bail!("the trace has no process"),
        }
    }
}

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
        LoopsForm::Text | LoopsForm::Source => text(&shown, out),
    })?;
    let path = flags.dependences.as_deref().unwrap_or(Path::new(""));
    Ok(say(path, failures, ending))
}

/// Code of the loops of a nest.
fn code(program: &Program, nest: &Nest) -> Vec<Loop> {
    let graph = &program.functions[nest.function].graph;
    let loops = nest.loops.iter().map(|one| {
        let blocks = one
            .blocks
            .iter()
            .map(|&block| &graph.blocks[block as usize]);
        Loop {
            parent: one.parent,
            header: one.header.0,
            code: blocks.map(|block| (block.start.0, block.end.0)).collect(),
        }
    });
    loops.collect()
}

/// The distance of a file in a process from where it was linked; `None`: the process does not have it.
fn bias(process: &Process, image: &Image) -> Result<Option<u64>> {
    let path = image.path();
    let module = process
        .modules
        .iter()
        .find(|module| Path::new(&module.path) == path);
    let Some(module) = module else {
        return Ok(None);
    };
    if let (Some(traced), Some(now)) = (&module.build_id, image.build_id())
        && **traced != *now
    {
        bail!(
            "'{}' is not the file that was traced any more",
            path.display()
        );
    }
    let link = image.link_addr(FileOffset(module.offset));
    Ok(link.map(|link| module.start.wrapping_sub(link.0)))
}
