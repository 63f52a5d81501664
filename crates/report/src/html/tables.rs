//! Tables of functions: columns with an entry for each, with tables of the modules
//! and source files that they name.

use std::collections::HashMap;

use serde::Serialize;

/// Facts about a function.
#[derive(Default)]
pub struct Row<'a> {
    /// Path and build id.
    pub module: Option<(&'a str, Option<&'a [u8]>)>,
    /// In the module's file.
    pub offset: Option<u64>,
    /// Address in the memory of the process.
    pub address: Option<u64>,
    /// Index of the process.
    pub process: usize,
    pub file: Option<&'a str>,
    pub line: Option<u32>,
    /// Column of a basic block.
    pub column: Option<u32>,
}

#[derive(Serialize)]
pub struct JsonModule<'a> {
    path: &'a str,
    build_id: Option<String>,
}

impl<'a> JsonModule<'a> {
    pub fn new(path: &'a str, build_id: Option<&[u8]>) -> JsonModule<'a> {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        JsonModule {
            path,
            build_id: build_id.map(hex),
        }
    }
}

/// Columns, an entry per function.
#[derive(Default, Serialize)]
pub struct Functions {
    /// Index of the module, or -1.
    module: Vec<i64>,
    /// File offset of the first instruction; without a module empty.
    offset: Vec<String>,
    address: Vec<String>,
    process: Vec<usize>,
    /// Index of the source file, or -1.
    file: Vec<i64>,
    /// 0: not known.
    line: Vec<u32>,
    /// 0: not known. Left out where no function has one.
    #[serde(skip_serializing_if = "none_known")]
    column: Vec<u32>,
}

fn none_known(columns: &[u32]) -> bool {
    columns.iter().all(|&column| column == 0)
}

/// Modules and source files, each once for all processes.
#[derive(Default)]
pub struct Tables<'a> {
    pub modules: Vec<JsonModule<'a>>,
    module_numbers: HashMap<(&'a str, Option<&'a [u8]>), i64>,
    pub files: Vec<&'a str>,
    file_numbers: HashMap<&'a str, i64>,
    pub functions: Functions,
}

impl<'a> Tables<'a> {
    pub fn function(&mut self, row: Row<'a>) {
        let hex = |value: Option<u64>| value.map_or(String::new(), |value| format!("{value:#x}"));
        let module = row.module.map(|module| self.module(module));
        let file = row.file.map(|file| self.file(file));
        let columns = &mut self.functions;
        columns.module.push(module.unwrap_or(-1));
        columns.offset.push(hex(row.offset));
        columns.address.push(hex(row.address));
        columns.process.push(row.process);
        columns.file.push(file.unwrap_or(-1));
        columns.line.push(row.line.unwrap_or(0));
        columns.column.push(row.column.unwrap_or(0));
    }

    fn module(&mut self, (path, build_id): (&'a str, Option<&'a [u8]>)) -> i64 {
        let modules = &mut self.modules;
        let number = self.module_numbers.entry((path, build_id));
        *number.or_insert_with(|| {
            modules.push(JsonModule::new(path, build_id));
            modules.len() as i64 - 1
        })
    }

    fn file(&mut self, file: &'a str) -> i64 {
        let files = &mut self.files;
        *self.file_numbers.entry(file).or_insert_with(|| {
            files.push(file);
            files.len() as i64 - 1
        })
    }
}
