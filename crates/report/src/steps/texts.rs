//! Instructions as text, of those functions that are wanted.

use analysis::walk::{Code, Step};
use hashbrown::HashMap;

use super::{Names, View};

/// Instructions as text, for a process or a thread of it.
pub struct Texts<'a> {
    names: &'a Names<'a>,
    /// Globs; none: all functions are wanted.
    functions: &'a [String],
    /// Source lines stand behind instructions.
    has_lines: bool,
    /// By fragment and address; `None`: not wanted.
    known: HashMap<(u32, u64), Option<String>>,
}

impl<'a> Texts<'a> {
    pub fn new(names: &'a Names<'a>, functions: &'a [String]) -> Texts<'a> {
        Texts {
            names,
            functions,
            has_lines: false,
            known: HashMap::new(),
        }
    }

    /// Texts of what a view shows.
    pub fn of(names: &'a Names<'a>, view: &'a View) -> Texts<'a> {
        Texts {
            has_lines: view.memory.is_some(),
            ..Texts::new(names, &view.functions)
        }
    }

    /// Whether nothing is left out.
    pub fn has_all(&self) -> bool {
        self.functions.is_empty()
    }

    /// `401156  work+0x10  lock xadd [401234], rax`, if it is wanted.
    pub fn get(&mut self, code: &Code, step: &Step) -> Option<&str> {
        let (names, functions) = (self.names, self.functions);
        let key = (step.fragment, step.pc);
        let text = self.known.entry(key).or_insert_with(|| {
            let name = names.name(step.fragment, step.pc);
            let function = name.rsplit_once('+').map_or("", |(function, _)| function);
            let is_it = |glob: &String| image::glob(glob, function);
            let is_wanted = functions.is_empty() || functions.iter().any(is_it);
            let insn = || isa::text::of(&code.bytes(step), step.pc, None);
            let line = self.has_lines.then(|| names.line(step.fragment, step.pc));
            let line = line.flatten().map(|line| format!("  ; {line}"));
            let line = line.unwrap_or_default();
            is_wanted.then(|| format!("{:x}  {name:<32}  {}{line}", step.pc, insn()))
        });
        text.as_deref()
    }
}
