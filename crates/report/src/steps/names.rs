//! Names of code of a trace, as the recording has them.
//!
//! Limits: a piece of code that was in several files one after the other, with the same
//! bytes, is named after the first.

use analysis::counts::from_trace::Modules;
use trace::{Module, Process, Recording, Source, base_name};

/// Functions and modules of the code of a process.
pub struct Names<'a> {
    /// The process, and those that its code is from: a forked child's parent, and so on.
    processes: Vec<&'a Process>,
    modules: Modules,
}

impl<'a> Names<'a> {
    pub fn of(recording: &'a Recording, process: &'a Process) -> Names<'a> {
        let mut processes = vec![process];
        while let Some(last) = processes.last().filter(|last| last.by_fork)
            && let Some(parent) = last.parent.and_then(|at| recording.processes.get(at))
        {
            processes.push(parent);
        }
        let modules = Modules::of(process);
        Names { processes, modules }
    }

    /// The module of an address in the code of a fragment, its number, and the offset in its file.
    fn place(&self, fragment: u32, pc: u64) -> Option<(&'a Module, u32, u64)> {
        let number = self.modules.at(fragment, pc)?;
        let module = self.processes[0].modules.get(number as usize)?;
        let at = module.offset.wrapping_add(pc.wrapping_sub(module.start));
        Some((module, number, at))
    }

    /// Names of code from the nearest place before an offset in a module on.
    fn nearest(&self, number: u32, at: u64) -> Option<(&'a Source, &'a Process)> {
        let nearest = |process: &&'a Process| {
            let sources = &process.sources;
            let behind =
                sources.partition_point(|source| (source.module, source.offset) <= (number, at));
            let source = sources.get(behind.checked_sub(1)?)?;
            (source.module == number).then_some((source, *process))
        };
        let found = self.processes.iter().filter_map(nearest);
        found.max_by_key(|(source, _)| source.offset)
    }

    /// `file:line`, if that is known.
    pub fn line(&self, fragment: u32, pc: u64) -> Option<String> {
        let (_, number, at) = self.place(fragment, pc)?;
        let (source, process) = self.nearest(number, at)?;
        let (file, line) = source.line?;
        let file = process.texts.get(file as usize)?;
        Some(format!("{}:{line}", base_name(file)))
    }

    /// `function+0x4`, or `module+0x1234`, of an address in the code of a fragment; nothing
    /// for code of no file.
    pub fn name(&self, fragment: u32, pc: u64) -> String {
        let Some((module, number, at)) = self.place(fragment, pc) else {
            return String::new();
        };
        let function = self.nearest(number, at).and_then(|(source, process)| {
            let (text, offset) = source.function?;
            let name = process.texts.get(text as usize)?;
            Some(format!(
                "{name}+{:#x}",
                offset.wrapping_add(at - source.offset)
            ))
        });
        function.unwrap_or_else(|| format!("{}+{at:#x}", base_name(&module.path)))
    }
}
