//! Traces with addresses of all accesses, in which nests of loops are looked at.

use std::path::{Path, PathBuf};

use analysis::nesting::Loop;
use analysis::walk::{Selection, selection};
use anyhow::{Result, bail};
use flow::Program;
use flow::nests::Nest;
use image::{FileOffset, Image};
use trace::{Process, Recording};

use crate::traces::read_trace;

/// A trace with addresses of all accesses.
pub struct Traced {
    pub recording: Recording,
    pub selection: Selection,
    /// It has all iterations.
    pub is_sound: bool,
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
            bail!("'{shown}' has no loads, or no stores, and nests need both; {record}");
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

    /// Files with code that its processes had, but for the program and what is no file any more.
    pub fn libraries(&self) -> Result<Vec<PathBuf>> {
        let program = self.program()?;
        let modules = self.recording.processes.iter().flat_map(|own| &own.modules);
        let mut paths: Vec<PathBuf> = modules.map(|module| PathBuf::from(&module.path)).collect();
        paths.sort();
        paths.dedup();
        paths.retain(|path| *path != program && path.is_file());
        Ok(paths)
    }
}

/// Code of the loops of a nest.
pub fn code(program: &Program, nest: &Nest) -> Vec<Loop> {
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
pub fn bias(process: &Process, image: &Image) -> Result<Option<u64>> {
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
