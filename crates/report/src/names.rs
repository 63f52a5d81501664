//! Names of the labels of a process.

use std::borrow::Cow;

use trace::{Block, Function, Label, Process};

use crate::{Report, Section};

/// The last part of a path, for people: control characters, which may be in the name of a file, are none in a table.
pub fn base_name(path: &str) -> Cow<'_, str> {
    printable(trace::base_name(path))
}

/// A text without control characters.
pub fn printable(text: &str) -> Cow<'_, str> {
    match text.contains(char::is_control) {
        true => Cow::Owned(text.replace(char::is_control, "?")),
        false => Cow::Borrowed(text),
    }
}

/// Whose contexts a section holds: the program, with its process id if the
/// recording has several, and the thread if it is one of several.
pub fn origin(report: &Report, section: &Section) -> (String, Option<String>) {
    let processes = &report.recording.processes;
    let process = &processes[section.process];
    let mut name = process.program().to_owned();
    if processes.len() > 1 {
        name.push_str(&format!(" ({})", process.pid));
    }
    let thread = match section.threads[..] {
        [thread] if process.threads.len() > 1 => Some(thread),
        _ => None,
    };
    let tid = thread.map(|thread| process.threads[thread].tid);
    (name, tid.map(|tid| format!("thread {tid}")))
}

/// A basic block as in IHPP 4.3.2: `{foo+33 at 17,0}`, by its function, how many bytes
/// behind the first, line and column, as far as they are known.
fn block_name(process: &Process, block: &Block, function: &Function) -> String {
    let place = match (&block.function, process.module_of(function)) {
        (Some(name), _) => format!("{name}+{}", block.offset),
        (None, Some(module)) => {
            format!("{}+{:#x}", base_name(&module.path), function.file_offset)
        }
        (None, None) => format!("{:#x}", function.pc),
    };
    format!("{{{place} at {}}}", line_and_column(function, block))
}

/// 0 for what is not known.
fn line_and_column(function: &Function, block: &Block) -> String {
    let column = block.column.filter(|_| function.line.is_some());
    format!("{},{}", function.line.unwrap_or(0), column.unwrap_or(0))
}

/// A basic block without its function's name, if that is `above`'s, too: `{+33 at 17,0}`.
pub fn block_name_below(process: &Process, label: Label, above: Label) -> Option<String> {
    let (block, above) = (process.block(label)?, process.block(above)?);
    let at = line_and_column(process.function(label)?, block);
    let same = block.function.is_some() && block.function == above.function;
    same.then(|| format!("{{+{} at {at}}}", block.offset))
}

/// The function's name; without a symbol `module+0xoffset`, for code that is
/// in no file its address.
pub fn function_name(process: &Process, function: &Function) -> String {
    if let Some(block) = process.block(Label(function.id)) {
        return block_name(process, block, function);
    }
    match (&function.name, process.module_of(function)) {
        (Some(name), _) => name.clone(),
        (None, Some(module)) => {
            format!("{}+{:#x}", base_name(&module.path), function.file_offset)
        }
        (None, None) => format!("{:#x}", function.pc),
    }
}

/// The symbol that a name is made of: of a block that of the function it is in.
pub fn symbol_of<'a>(process: &'a Process, function: &'a Function) -> Option<&'a str> {
    match process.block(Label(function.id)) {
        Some(block) => block.function.as_deref(),
        None => function.name.as_deref(),
    }
}

/// Name of a function or of a special label such as `[thread]`.
pub fn label_name(process: &Process, label: Label) -> String {
    match process.function(label) {
        Some(function) => function_name(process, function),
        None => label.to_string(),
    }
}

/// File and line of a function, where they are known.
pub fn place(function: &Function) -> Option<String> {
    let file = base_name(function.file.as_deref()?);
    Some(match function.line {
        Some(line) => format!("{file}:{line}"),
        None => file.into_owned(),
    })
}

/// A place with the column of a block, if that is known.
pub fn place_in(process: &Process, function: &Function) -> Option<String> {
    let place = place(function)?;
    let block = process.block(Label(function.id));
    let column = block.and_then(|block| block.column);
    Some(match column.filter(|_| function.line.is_some()) {
        Some(column) => format!("{place}:{column}"),
        None => place,
    })
}
