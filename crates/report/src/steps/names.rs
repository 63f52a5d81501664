//! Names of code of a trace, as the recording has them.
//!
//! Limits: a piece of code that was in several files one after the other, with the same
//! bytes, is named after the first.

use analysis::counts::from_trace::Modules;
use trace::{Process, Recording, base_name};

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

    /// `function+0x4`, or `module+0x1234`, of an address in the code of a fragment; nothing
    /// for code of no file.
    pub fn name(&self, fragment: u32, pc: u64) -> String {
        let number = self.modules.at(fragment, pc);
        let modules = &self.processes[0].modules;
        let module = number.and_then(|number| Some((number, modules.get(number as usize)?)));
        let Some((number, module)) = module else {
            return String::new();
        };
        let at = module.offset.wrapping_add(pc.wrapping_sub(module.start));
        let nearest = |process: &&'a Process| {
            let sources = &process.sources;
            let behind =
                sources.partition_point(|source| (source.module, source.offset) <= (number, at));
            let source = sources.get(behind.checked_sub(1)?)?;
            (source.module == number).then_some((source.offset, source, *process))
        };
        let found = self.processes.iter().filter_map(nearest);
        let function = found
            .max_by_key(|(offset, ..)| *offset)
            .and_then(|(_, source, process)| {
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
