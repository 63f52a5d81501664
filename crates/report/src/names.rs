//! What a label of a process is called.

use trace::{Function, Label, Process};

/// File name of a path.
pub fn base_name(path: &str) -> &str {
    path.rsplit('/')
        .find(|part| !part.is_empty())
        .unwrap_or(path)
}

/// The function's name; without a symbol `module+0xoffset`, for code that is
/// in no file its address.
pub fn function_name(process: &Process, function: &Function) -> String {
    match (&function.name, process.module_of(function)) {
        (Some(name), _) => name.clone(),
        (None, Some(module)) => {
            format!("{}+{:#x}", base_name(&module.path), function.file_offset)
        }
        (None, None) => format!("{:#x}", function.pc),
    }
}

/// Name of a function or of a special label such as `[thread]`.
pub fn label_name(process: &Process, label: Label) -> String {
    match process.function(label) {
        Some(function) => function_name(process, function),
        None => label.to_string(),
    }
}

/// Where a function is: file and line where known.
pub fn place(function: &Function) -> Option<String> {
    let file = base_name(function.file.as_deref()?);
    Some(match function.line {
        Some(line) => format!("{file}:{line}"),
        None => file.to_owned(),
    })
}
