//! A sample profile for LLVM's compilers (`clang -fprofile-sample-use`), as text.
//!
//! ```text
//! work:10102:50            function, all of its counts, executions of its entry
//!  2: 1050                 second line behind that of the function: executed 1050 times
//!  3.1: 95 helper:95       discriminator 1 of the third line, and what was called there
//!  4: leaf:300             inlined there: all of its counts, then its own lines
//!   1: 300
//! ```
//!
//! | there | here |
//! |---|---|
//! | count of a place | the most executions of an instruction of the place, times the copies that the discriminator says were made of it |
//! | place with 0 | code of a function that ran, which itself never did |
//! | total | the sum over all places, inlined ones too |
//! | head | executions of the function's first instruction |
//! | call targets | of direct calls, and of indirect ones what they called in the file |
//!
//! Limits: of one file, with its DWARF. Functions of one name are one.

use std::collections::BTreeMap;
use std::io::{self, Write};

use analysis::counts::Counted;
use image::{FileOffset, Image, LineRange, LinkAddr, Scope};

use super::{Report, Section};

/// Line, counted from that of the function, and base discriminator.
type Place = (u32, u32);

#[derive(Default)]
struct Profile {
    head: u64,
    body: BTreeMap<Place, Body>,
    inlined: BTreeMap<(Place, String), Profile>,
}

#[derive(Default)]
struct Body {
    count: u64,
    calls: BTreeMap<String, u64>,
}

type Profiles = BTreeMap<String, Profile>;

pub(super) fn write(report: &Report<'_>, out: &mut dyn Write) -> io::Result<()> {
    let (section, unit, image) = report.only_module()?;
    let source = Source::new(image);
    if source.scopes.is_empty() {
        return Err(io::Error::other(bare(image)));
    }
    let mut functions: Vec<(u64, String, Profile)> = Vec::new();
    for (name, mut profile) in source.profiles(section, unit) {
        profile.mark_calls();
        functions.push((profile.total()?, name, profile));
    }
    functions.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    for (total, name, profile) in functions {
        writeln!(out, "{name}:{total}:{}", profile.head)?;
        profile.write(1, out)?;
    }
    Ok(())
}

pub(super) fn refusal(image: &Image) -> Option<String> {
    image.scopes().is_empty().then(|| bare(image))
}

fn bare(image: &Image) -> String {
    format!(
        "'{}' has no DWARF that says which functions were inlined; compile it with \
         -gline-tables-only -fdebug-info-for-profiling, or -g",
        image.path().display()
    )
}

/// Code of a file and its functions.
pub(super) struct Source<'a> {
    image: &'a Image,
    /// Functions, by each of their ranges, sorted.
    scopes: Vec<(LinkAddr, LinkAddr, usize)>,
    functions: Vec<Scope>,
    lines: Vec<LineRange>,
}

impl<'a> Source<'a> {
    pub(super) fn new(image: &'a Image) -> Source<'a> {
        let functions = image.scopes();
        let mut scopes: Vec<_> = (0..)
            .zip(&functions)
            .flat_map(|(number, scope)| {
                let ranges = scope.ranges.iter();
                ranges.map(move |&(start, end)| (start, end, number))
            })
            .collect();
        scopes.sort_unstable();
        Source {
            image,
            scopes,
            functions,
            lines: image.line_table().ranges,
        }
    }

    pub(super) fn function_at(&self, addr: LinkAddr) -> Option<&Scope> {
        let after = self.scopes.partition_point(|scope| scope.0 <= addr);
        let (_, end, number) = self.scopes[after.checked_sub(1)?];
        (addr < end).then(|| &self.functions[number])
    }

    fn line_at(&self, at: FileOffset) -> Option<&LineRange> {
        let after = self.lines.partition_point(|range| range.start <= at);
        let range = &self.lines[after.checked_sub(1)?];
        (at < range.end).then_some(range)
    }

    fn profiles(&self, section: &Section, unit: u32) -> Profiles {
        let mut profiles = Profiles::new();
        let insns = &section.counts.insns;
        let own = || {
            insns
                .iter()
                .enumerate()
                .filter(|(_, insn)| insn.unit == unit)
        };
        let function_of = |insn: &Counted| {
            let addr = self.image.link_addr(FileOffset(insn.at))?;
            Some((addr, self.function_at(addr)?))
        };
        for (at, insn) in own() {
            let Some((addr, function)) = function_of(insn) else {
                continue;
            };
            let profile = profiles.entry(function.name.clone()).or_default();
            if function.ranges.first().is_some_and(|range| range.0 == addr) {
                profile.head = profile.head.saturating_add(insn.count);
            }
            let Some(line) = self.line_at(FileOffset(insn.at)) else {
                continue;
            };
            let body = body_at(profile, function, addr, line);
            let copies = u64::from(copies(line.discriminator));
            body.count = body.count.max(insn.count.saturating_mul(copies));
            let mut call = |to: Option<u32>, count: u64| {
                let callee = to.map(|to| &insns[to as usize]);
                let callee = callee.filter(|callee| callee.unit == unit);
                if let Some((_, callee)) = callee.and_then(function_of) {
                    let calls = body.calls.entry(callee.name.clone()).or_default();
                    *calls = calls.saturating_add(count);
                }
            };
            match insn.flow {
                isa::Flow::Call(_) => call(insn.target, insn.count),
                isa::Flow::IndirectCall => {
                    for went in section.counts.went_from(at) {
                        call(went.to, went.count);
                    }
                }
                _ => {}
            }
        }
        self.add_what_never_ran(&mut profiles);
        profiles
    }

    /// With 0, in functions that did run.
    fn add_what_never_ran(&self, profiles: &mut Profiles) {
        for line in &self.lines {
            let Some(addr) = self.image.link_addr(line.start) else {
                continue;
            };
            if let Some(function) = self.function_at(addr)
                && let Some(profile) = profiles.get_mut(&function.name)
            {
                body_at(profile, function, addr, line);
            }
        }
    }
}

/// The place of code within what was inlined there.
fn body_at<'p>(
    mut profile: &'p mut Profile,
    function: &Scope,
    addr: LinkAddr,
    line: &LineRange,
) -> &'p mut Body {
    let mut scope = function;
    while let Some(inner) = scope.inlined.iter().find(|inner| inner.contains(addr)) {
        let (line, discriminator) = inner.call.unwrap_or_default();
        let key = (place(line, discriminator, scope), inner.name.clone());
        profile = profile.inlined.entry(key).or_default();
        scope = inner;
    }
    let place = place(line.line, line.discriminator, scope);
    profile.body.entry(place).or_default()
}

/// The distance of lines is of 16 bits there.
fn place(line: u32, discriminator: u32, scope: &Scope) -> Place {
    let distance = line.wrapping_sub(scope.line) & 0xffff;
    (distance, base(discriminator))
}

/// LLVM packs several numbers into a discriminator, each after a bit that says that it
/// is 0, or in 7 or 14 bits. This is the first one.
fn base(discriminator: u32) -> u32 {
    unpacked(discriminator)
}

/// The second one: how many copies of the code an instruction of it stands for.
fn copies(discriminator: u32) -> u32 {
    unpacked(behind_first(discriminator)).max(1)
}

fn unpacked(packed: u32) -> u32 {
    if packed & 1 != 0 {
        return 0;
    }
    let value = packed >> 1;
    match value & 0x20 {
        0 => value & 0x1f,
        _ => (value >> 1) & 0xfe0 | value & 0x1f,
    }
}

fn behind_first(packed: u32) -> u32 {
    match (packed & 1, packed & 0x40) {
        (1, _) => packed >> 1,
        (_, 0) => packed >> 7,
        _ => packed >> 14,
    }
}

impl Profile {
    /// A call that was inlined and never ran says so at its place, and needs no lines.
    fn mark_calls(&mut self) {
        let never = |profile: &Profile| profile.is_cold();
        let cold: Vec<Place> = self
            .inlined
            .iter()
            .filter(|(_, profile)| never(profile))
            .map(|((place, _), _)| *place)
            .collect();
        for place in cold {
            self.body.entry(place).or_default();
        }
        self.inlined.retain(|_, profile| !never(profile));
        for profile in self.inlined.values_mut() {
            profile.mark_calls();
        }
    }

    fn is_cold(&self) -> bool {
        self.body.values().all(|body| body.count == 0)
            && self.inlined.values().all(Profile::is_cold)
    }

    fn sum(&self) -> u128 {
        let own: u128 = self.body.values().map(|body| u128::from(body.count)).sum();
        own + self.inlined.values().map(Profile::sum).sum::<u128>()
    }

    fn total(&self) -> io::Result<u64> {
        u64::try_from(self.sum()).map_err(|_| {
            io::Error::other("the counts of a function add up to more than LLVM reads, 2^64 - 1")
        })
    }

    fn write(&self, depth: usize, out: &mut dyn Write) -> io::Result<()> {
        let at = |(line, discriminator): Place| match discriminator {
            0 => format!("{:depth$}{line}", ""),
            _ => format!("{:depth$}{line}.{discriminator}", ""),
        };
        for (place, body) in &self.body {
            write!(out, "{}: {}", at(*place), body.count)?;
            for (name, count) in &body.calls {
                write!(out, " {name}:{count}")?;
            }
            writeln!(out)?;
        }
        for ((place, name), profile) in &self.inlined {
            writeln!(out, "{}: {name}:{}", at(*place), profile.total()?)?;
            profile.write(depth + 1, out)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{base, copies};

    #[test]
    fn discriminators_hold_several_numbers() {
        assert_eq!([0, 2, 4, 6].map(base), [0, 1, 2, 3]);
        // A base of 1, and code that stands for four copies.
        let packed = 1 << 1 | (4 << 1) << 7;
        assert_eq!((base(packed), copies(packed)), (1, 4));
        // No base, which takes one bit.
        let packed = 1 | (4 << 1) << 1;
        assert_eq!((base(packed), copies(packed)), (0, 4));
        assert_eq!(copies(0), 1);
    }
}
