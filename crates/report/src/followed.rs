//! Nests of loops that were followed: affine functions of the addresses of their references, and iterations.
//!
//! Numbers of iterations are i, j, k and so on, from the outermost loop on. A function is *verified* if each value that it says was
//! seen, and at least one was; how many these were is shown.

mod csv;
mod page;
pub mod source;

pub use csv::csv;
pub use page::page;

use std::collections::HashMap;
use std::io::{self, Write};

use serde_json::{Value, json};

use crate::names::printable;
use crate::numbers::{counted, grouped};

/// Letters of numbers of iterations, outermost first.
const LETTERS: [&str; 6] = ["i", "j", "k", "l", "m", "n"];

/// A function of numbers of iterations, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Function {
    /// Outermost first; `None`: the number never differed alone.
    pub coefficients: Vec<Option<i64>>,
    /// The value at the first iterations; that of the last entry of the nest.
    pub constant: Option<i64>,
    pub samples: u64,
    /// Values that were as expected, and that were not.
    pub fits: u64,
    pub fails: u64,
    /// Values of which nothing was expected, as several numbers differed at once.
    pub unsolved: u64,
    /// Entries, and threads, with another constant.
    pub moved: u64,
}

/// Kinds of references by what happens in the innermost loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stride {
    /// Its address is the same each time.
    Invariant,
    /// By as many bytes as are accessed.
    Contiguous,
    /// By another number of bytes.
    Strided(i64),
    /// Not by one number.
    Irregular,
    /// It was not seen often enough.
    Unknown,
}

impl Stride {
    pub fn name(self) -> &'static str {
        match self {
            Stride::Invariant => "invariant",
            Stride::Contiguous => "contiguous",
            Stride::Strided(_) => "strided",
            Stride::Irregular => "irregular",
            Stride::Unknown => "unknown",
        }
    }
}

impl Function {
    /// Whether all that was expected came, and something was.
    pub fn is_verified(&self) -> bool {
        self.fails == 0 && self.unsolved == 0 && self.fits > 0
    }

    /// Steps in the innermost loop, of accesses of so many bytes.
    pub fn stride(&self, bytes: u16) -> Stride {
        let innermost = self.coefficients.last().copied().flatten();
        match innermost {
            _ if self.fails > 0 || self.unsolved > 0 => Stride::Irregular,
            Some(0) => Stride::Invariant,
            Some(step) if step.unsigned_abs() == u64::from(bytes) => Stride::Contiguous,
            Some(step) => Stride::Strided(step),
            None => Stride::Unknown,
        }
    }

    /// The function as a sum, in which a name may stand for the constant.
    pub fn text(&self, name: Option<&str>) -> String {
        let mut out = String::new();
        for (letter, coefficient) in LETTERS.iter().zip(&self.coefficients) {
            let term = match coefficient {
                None => format!("?{letter}"),
                Some(0) => continue,
                Some(1) => (*letter).to_owned(),
                Some(-1) => format!("-{letter}"),
                Some(number) => format!("{number}{letter}"),
            };
            out += &match (out.is_empty(), term.strip_prefix('-')) {
                (true, _) => term,
                (false, Some(term)) => format!(" - {term}"),
                (false, None) => format!(" + {term}"),
            };
        }
        let constant = match (name, self.constant) {
            (Some(name), _) => name.to_owned(),
            (None, None) => "?".into(),
            (None, Some(number)) => number.to_string(),
        };
        match (out.is_empty(), constant.strip_prefix('-')) {
            (true, _) => constant,
            (false, _) if self.constant == Some(0) => out,
            (false, Some(constant)) => format!("{out} - {constant}"),
            (false, None) => format!("{out} + {constant}"),
        }
    }

    fn json(&self) -> Value {
        json!({
            "coefficients": self.coefficients,
            "constant": self.constant,
            "verified": self.is_verified(),
            "samples": self.samples,
            "as_expected": self.fits,
            "not_as_expected": self.fails,
            "unsolved": self.unsolved,
            "moved": self.moved,
        })
    }
}

/// A reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The instruction.
    pub address: u64,
    pub text: String,
    /// Source file and line.
    pub place: Option<(String, u32)>,
    pub reads: bool,
    pub writes: bool,
    pub bytes: u16,
    /// The function of its addresses, or why it was not followed.
    pub function: Result<Function, String>,
    /// It is always at one address, which needs no function.
    pub is_constant: bool,
    /// The variable that the constant is in, and how far behind its beginning, as `name+16`.
    pub variable: Option<String>,
    /// If they were asked for.
    pub steps: Option<Steps>,
}

/// Steps from one access of a reference to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// Bytes and how often, the most frequent first.
    pub kept: Vec<(i64, u64)>,
    /// Steps that have no count of their own.
    pub others: u64,
}

impl Steps {
    /// As the end of a line.
    fn text(&self) -> String {
        let mut each: Vec<String> = (self.kept.iter())
            .map(|(bytes, count)| format!("{bytes:+} {}x", grouped(*count)))
            .collect();
        if self.others > 0 {
            each.push(format!("others {}x", grouped(self.others)));
        }
        match each.is_empty() {
            true => String::new(),
            false => format!("; steps {}", each.join(", ")),
        }
    }
}

impl Reference {
    /// The function of its addresses as a sum.
    fn sum(&self, function: &Function) -> String {
        let address = function.constant.map(|address| format!("{address:#x}"));
        function.text(self.variable.as_deref().or(address.as_deref()))
    }

    /// Steps of the address in the innermost loop; `None`: it was not followed, or not executed.
    fn stride(&self) -> Option<Stride> {
        match &self.function {
            Ok(function) if function.samples > 0 => Some(function.stride(self.bytes)),
            Err(_) if self.is_constant => Some(Stride::Invariant),
            _ => None,
        }
    }

    /// The steps, as the end of a line.
    fn steps(&self) -> String {
        self.steps.as_ref().map(Steps::text).unwrap_or_default()
    }

    /// Whether it was followed and came.
    pub fn is_executed(&self) -> bool {
        self.function
            .as_ref()
            .is_ok_and(|function| function.samples > 0)
    }

    pub fn kind(&self) -> &'static str {
        match (self.reads, self.writes) {
            (true, true) => "update",
            (false, true) => "write",
            _ => "read",
        }
    }
}

/// A loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loop {
    pub name: String,
    pub place: Option<(String, u32, u32)>,
    pub depth: u32,
    /// Entries that were followed to their end, and iterations of these.
    pub entries: u64,
    pub sum: u64,
    pub least: u64,
    pub most: u64,
    /// Iterations as a function of the loops around it.
    pub trips: Function,
    pub references: Vec<Reference>,
}

/// A nest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nest {
    /// The library that it is in; `None`: the program.
    pub library: Option<String>,
    /// Threads that came to it.
    pub threads: u64,
    pub entries: u64,
    /// Entries whose end was not seen: left by an exception or `longjmp`, or cut off.
    pub lost: u64,
    pub loops: Vec<Loop>,
}

impl Nest {
    /// The library, between the loop and what is said of it.
    fn place(&self) -> String {
        let of = |name: &String| format!("  {name}");
        self.library.as_ref().map_or_else(String::new, of)
    }

    /// Accesses that were seen.
    pub fn samples(&self) -> u64 {
        let references = self.loops.iter().flat_map(|one| &one.references);
        let functions = references.filter_map(|own| own.function.as_ref().ok());
        functions.map(|function| function.samples).sum()
    }
}

/// Nests of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Run {
    pub command: String,
    pub is_exact: bool,
    pub nests: Vec<Nest>,
    pub left: Vec<Left>,
}

/// A nest that was not followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    pub library: Option<String>,
    pub name: String,
    pub why: String,
}

/// Nests of one file that were not followed for one reason.
pub struct LeftFor<'r> {
    pub library: Option<&'r str>,
    pub why: &'r str,
    pub names: Vec<&'r str>,
}

/// Most names that are shown of nests that were not followed for one reason.
const NAMED: usize = 8;

impl LeftFor<'_> {
    /// The first names.
    fn names(&self) -> String {
        let names: Vec<&str> = self.names.iter().take(NAMED).copied().collect();
        let more = self.names.len() - names.len();
        let more = match more {
            0 => String::new(),
            more => format!(" and {} more", grouped(more as u64)),
        };
        format!("{}{more}", names.join(", "))
    }

    /// The library, behind the names.
    fn place(&self) -> String {
        let of = |name: &str| format!(" of {name}");
        self.library.map_or_else(String::new, of)
    }
}

impl Run {
    /// Nests that were not followed, together if the reason is the same but for an address in the code.
    pub fn left(&self) -> Vec<LeftFor<'_>> {
        let mut all: Vec<LeftFor<'_>> = Vec::new();
        let mut known: HashMap<(Option<&str>, &str), usize> = HashMap::new();
        for one in &self.left {
            let library = one.library.as_deref();
            let why = one.why.split(" at 0x").next().unwrap_or_default();
            let at = *known.entry((library, why)).or_insert_with(|| {
                all.push(LeftFor {
                    library,
                    why: &one.why,
                    names: Vec::new(),
                });
                all.len() - 1
            });
            if all[at].why != one.why {
                all[at].why = why;
            }
            all[at].names.push(&one.name);
        }
        all
    }
}

/// Tables of all nests that were entered.
pub fn text(run: &Run, out: &mut dyn Write) -> io::Result<()> {
    let came: Vec<&Nest> = run.nests.iter().filter(|nest| nest.entries > 0).collect();
    let how = match run.is_exact {
        true => "all iterations were followed",
        false => "the first iterations of the first entries were followed",
    };
    writeln!(out, "everypath loops: {}", printable(&run.command))?;
    writeln!(
        out,
        "{} of loops entered, of {}; {how}",
        counted(came.len() as u64, "nest"),
        run.nests.len() + run.left.len()
    )?;
    for nest in came {
        writeln!(out)?;
        for one in &nest.loops {
            write_loop(nest, one, run.is_exact, out)?;
        }
    }
    if !run.left.is_empty() {
        writeln!(out, "\nnot followed:")?;
    }
    for left in run.left() {
        writeln!(out, "  {}{}: {}", left.names(), left.place(), left.why)?;
    }
    Ok(())
}

fn write_loop(nest: &Nest, one: &Loop, is_exact: bool, out: &mut dyn Write) -> io::Result<()> {
    let indent = 2 * (one.depth as usize - 1);
    let letter = letter(one);
    let place = match &one.place {
        Some((file, first, last)) if first == last => format!("  {}:{first}", base(file)),
        Some((file, first, last)) => format!("  {}:{first}-{last}", base(file)),
        None => String::new(),
    };
    let mut line = format!("{:indent$}{} ({letter}){place}", "", one.name);
    if one.depth == 1 {
        line += &nest.place();
        line += &entries(nest, is_exact);
    }
    line += &iterations(one);
    writeln!(out, "{line}")?;
    for own in &one.references {
        write_reference(own, indent, out)?;
    }
    Ok(())
}

/// The letter of the number of a loop's iterations.
fn letter(one: &Loop) -> &'static str {
    LETTERS.get(one.depth as usize - 1).copied().unwrap_or("?")
}

/// The count of entries of a nest.
fn entries(nest: &Nest, is_exact: bool) -> String {
    let what = match (is_exact, nest.entries) {
        (true, 1) => "entry",
        (true, _) => "entries",
        (false, 1) => "followed entry",
        (false, _) => "followed entries",
    };
    let mut text = format!("  {} {what}", grouped(nest.entries));
    if nest.threads > 1 {
        text += &format!(" in {}", counted(nest.threads, "thread"));
    }
    if nest.lost > 0 {
        text += &format!(", of which {} did not come to an end", grouped(nest.lost));
    }
    text
}

/// The iterations of a loop's entries, and the function of those around it that gives them.
fn iterations(one: &Loop) -> String {
    if one.entries == 0 {
        return String::new();
    }
    let (least, most) = (grouped(one.least), grouped(one.most));
    if one.least == one.most {
        return format!("  {least} iterations");
    }
    let average = one.sum as f64 / one.entries as f64;
    let mut text = format!("  {least} to {most} iterations, {average:.1} on average");
    if one.depth > 1 && one.trips.is_verified() {
        text += &format!(" = {}", one.trips.text(None));
    }
    text
}

fn write_reference(own: &Reference, indent: usize, out: &mut dyn Write) -> io::Result<()> {
    let place = match &own.place {
        Some((file, line)) => format!("{}:{line}", base(file)),
        None => format!("{:#x}", own.address),
    };
    let kind = own.kind();
    let what = match &own.function {
        Err(why) => {
            let stride = own.stride().map_or("-", Stride::name);
            format!("{stride:<11} {why}")
        }
        Ok(function) if function.samples == 0 => format!("{:<11} not executed", "-"),
        Ok(function) => {
            let stride = function.stride(own.bytes).name();
            let known = function.fits + function.fails + function.unsolved;
            let moved = match function.moved {
                0 => "",
                _ => "; the constant is that of the last entry",
            };
            format!(
                "{stride:<11} {}  ({} of {} as expected{moved}){}",
                own.sum(function),
                grouped(function.fits),
                grouped(known),
                own.steps()
            )
        }
    };
    let bytes = own.bytes;
    writeln!(
        out,
        "{:indent$}    {place:<16} {kind:<6} {bytes:>2}  {what}  [{}]",
        "", own.text
    )
}

fn base(file: &str) -> &str {
    file.rsplit('/').next().unwrap_or(file)
}

/// All facts.
pub fn json(run: &Run, out: &mut dyn Write) -> io::Result<()> {
    let nests = run.nests.iter().map(|nest| {
        let loops = nest.loops.iter().map(|one| {
            let references = one.references.iter().map(|own| {
                json!({
                    "address": format!("{:#x}", own.address),
                    "instruction": own.text,
                    "file": own.place.as_ref().map(|(file, _)| file),
                    "line": own.place.as_ref().map(|(_, line)| line),
                    "reads": own.reads,
                    "writes": own.writes,
                    "bytes": own.bytes,
                    "function": own.function.as_ref().ok().map(Function::json),
                    "stride": own.stride().map(Stride::name),
                    "variable": own.variable,
                    "steps": own.steps.as_ref().map(|steps| &steps.kept),
                    "other_steps": own.steps.as_ref().map(|steps| steps.others),
                    "why_not": own.function.as_ref().err(),
                })
            });
            json!({
                "name": one.name,
                "file": one.place.as_ref().map(|(file, ..)| file),
                "lines": one.place.as_ref().map(|(_, first, last)| [first, last]),
                "depth": one.depth,
                "entries": one.entries,
                "iterations": { "sum": one.sum, "least": one.least, "most": one.most },
                "trips": one.trips.json(),
                "references": references.collect::<Vec<_>>(),
            })
        });
        json!({
            "library": nest.library,
            "threads": nest.threads,
            "entries": nest.entries,
            "lost": nest.lost,
            "loops": loops.collect::<Vec<_>>(),
        })
    });
    let whole = json!({
        "format": "everypath loops",
        "version": 1,
        "command": run.command,
        "exact": run.is_exact,
        "nests": nests.collect::<Vec<_>>(),
        "left": run.left.iter().map(|one| {
            json!({ "library": one.library, "name": one.name, "why": one.why })
        }).collect::<Vec<_>>(),
    });
    serde_json::to_writer_pretty(&mut *out, &whole)?;
    writeln!(out)
}
