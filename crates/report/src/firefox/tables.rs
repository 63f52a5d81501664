//! The tables that the threads of a profile share: columns of equal length, a
//! row named by its index.

use std::collections::{BTreeSet, HashMap};

use serde::Serialize;

use crate::frames::{Frames, Known};
use trace::base_name;

#[derive(Serialize)]
pub struct Category {
    name: &'static str,
    color: &'static str,
    subcategories: [&'static str; 1],
}

const fn category(name: &'static str, color: &'static str) -> Category {
    Category {
        name,
        color,
        subcategories: ["Other"],
    }
}

/// Categories of functions. The first grey one is the default.
pub const CATEGORIES: [Category; 3] = [
    category("Other", "grey"),
    category("Program", "yellow"),
    category("Library", "lightblue"),
];
const OTHER: usize = 0;
const PROGRAM: usize = 1;
const LIBRARY: usize = 2;

/// The tables under construction.
#[derive(Default)]
pub struct Tables<'a> {
    pub frames: Frames<'a>,
    stacks: StackTable,
}

#[derive(Default, Serialize)]
struct StackTable {
    frame: Vec<usize>,
    prefix: Vec<Option<usize>>,
    length: usize,
}

/// A module, once for each build id.
type Module<'a> = (&'a str, Option<&'a [u8]>);

fn module<'a>(known: &Known<'a>) -> Option<Module<'a>> {
    Some((known.module?, known.build_id))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Lib {
    arch: &'static str,
    name: String,
    path: String,
    debug_name: String,
    debug_path: String,
    breakpad_id: String,
    code_id: Option<String>,
}

impl Lib {
    fn new((path, build_id): Module) -> Lib {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let name = base_name(path).to_owned();
        Lib {
            arch: "x86_64",
            name: name.clone(),
            path: path.to_owned(),
            debug_name: name,
            debug_path: path.to_owned(),
            breakpad_id: build_id.map_or(String::new(), breakpad_id),
            code_id: build_id.map(hex),
        }
    }
}

/// A build id as symbol servers have it: its first 16 bytes as a GUID, which
/// begins with three little-endian numbers, and an age of 0.
fn breakpad_id(build_id: &[u8]) -> String {
    const ORDER: [usize; 16] = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    let byte = |at| build_id.get(at).copied().unwrap_or(0);
    let bytes = ORDER.map(|at| format!("{:02X}", byte(at)));
    format!("{}0", bytes.concat())
}

impl<'a> Tables<'a> {
    pub fn push_stack(&mut self, frame: usize, prefix: Option<usize>) -> usize {
        let number = self.stacks.length;
        self.stacks.frame.push(frame);
        self.stacks.prefix.push(prefix);
        self.stacks.length += 1;
        number
    }

    /// The modules of all frames, in order of first mention.
    fn modules(&self) -> Vec<Module<'a>> {
        let mut seen = BTreeSet::new();
        let mut modules: Vec<Module> = self.frames.list.iter().filter_map(module).collect();
        modules.retain(|&module| seen.insert(module));
        modules
    }

    pub fn libs(&self) -> Vec<Lib> {
        self.modules().into_iter().map(Lib::new).collect()
    }

    /// All tables; a function whose module is one of `programs` is the program's.
    pub fn shared(self, programs: &BTreeSet<&str>) -> Shared {
        let modules = self.modules();
        let mut strings = Strings::default();
        let mut sources = Strings::default();
        let mut frames = FrameTable::default();
        let mut functions = FuncTable::default();
        for known in &self.frames.list {
            let at = module(known).and_then(|own| modules.iter().position(|&other| other == own));
            let category = match known.module {
                Some(module) if programs.contains(module) => PROGRAM,
                Some(_) => LIBRARY,
                None => OTHER,
            };
            frames.push(known, category);
            let name = strings.number(&known.name);
            functions.push(name, at, known.file.map(|file| sources.number(file)));
        }
        let resources = modules
            .iter()
            .map(|module| strings.number(base_name(module.0)));
        let resources: Vec<usize> = resources.collect();
        let files = sources.list.iter().map(|file| strings.number(file));
        let files: Vec<usize> = files.collect();
        Shared {
            stack_table: self.stacks,
            frame_table: frames,
            func_table: functions,
            resource_table: ResourceTable::new(resources),
            native_symbols: NativeSymbols::default(),
            sources: Sources {
                uuid: vec![None; files.len()],
                length: files.len(),
                filename: files,
            },
            string_array: strings.list,
        }
    }
}

/// Strings by number.
#[derive(Default)]
struct Strings {
    numbers: HashMap<String, usize>,
    list: Vec<String>,
}

impl Strings {
    fn number(&mut self, text: &str) -> usize {
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        let number = self.list.len();
        self.list.push(text.to_owned());
        self.numbers.insert(text.to_owned(), number);
        number
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Shared {
    stack_table: StackTable,
    frame_table: FrameTable,
    func_table: FuncTable,
    resource_table: ResourceTable,
    native_symbols: NativeSymbols,
    sources: Sources,
    string_array: Vec<String>,
}

/// In a column that is never filled.
type Nothing = Option<u32>;

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct FrameTable {
    /// -1 where it is in no module.
    address: Vec<i64>,
    inline_depth: Vec<u32>,
    category: Vec<usize>,
    subcategory: Vec<usize>,
    func: Vec<usize>,
    native_symbol: Vec<Nothing>,
    #[serde(rename = "innerWindowID")]
    inner_window_id: Vec<Nothing>,
    line: Vec<Option<u32>>,
    column: Vec<Nothing>,
    length: usize,
}

impl FrameTable {
    /// Each frame has a function of its own, of the same number.
    fn push(&mut self, known: &Known, category: usize) {
        let address = known.address.filter(|_| known.module.is_some());
        let address = address.and_then(|address| i64::try_from(address).ok());
        self.address.push(address.unwrap_or(-1));
        self.inline_depth.push(0);
        self.category.push(category);
        self.subcategory.push(0);
        self.func.push(self.length);
        self.native_symbol.push(None);
        self.inner_window_id.push(None);
        self.line.push(known.line);
        self.column.push(None);
        self.length += 1;
    }
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct FuncTable {
    name: Vec<usize>,
    #[serde(rename = "isJS")]
    is_js: Vec<bool>,
    #[serde(rename = "relevantForJS")]
    relevant_for_js: Vec<bool>,
    /// -1 where it is in no module.
    resource: Vec<i64>,
    source: Vec<Option<usize>>,
    line_number: Vec<Nothing>,
    column_number: Vec<Nothing>,
    length: usize,
}

impl FuncTable {
    fn push(&mut self, name: usize, resource: Option<usize>, source: Option<usize>) {
        self.name.push(name);
        self.is_js.push(false);
        self.relevant_for_js.push(false);
        self.resource.push(resource.map_or(-1, |at| at as i64));
        self.source.push(source);
        self.line_number.push(None);
        self.column_number.push(None);
        self.length += 1;
    }
}

/// A row per module.
#[derive(Serialize)]
struct ResourceTable {
    lib: Vec<usize>,
    name: Vec<usize>,
    host: Vec<Nothing>,
    #[serde(rename = "type")]
    kind: Vec<u32>,
    length: usize,
}

impl ResourceTable {
    fn new(names: Vec<usize>) -> ResourceTable {
        /// A library, in the numbering of the form.
        const LIBRARY: u32 = 1;
        ResourceTable {
            lib: (0..names.len()).collect(),
            host: vec![None; names.len()],
            kind: vec![LIBRARY; names.len()],
            length: names.len(),
            name: names,
        }
    }
}

/// None: functions have their names already.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct NativeSymbols {
    lib_index: [u32; 0],
    address: [u32; 0],
    name: [u32; 0],
    function_size: [u32; 0],
    length: usize,
}

#[derive(Serialize)]
struct Sources {
    uuid: Vec<Nothing>,
    filename: Vec<usize>,
    length: usize,
}
