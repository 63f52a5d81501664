//! `everypath trace` of a part of a program against the oracle: what is traced is exactly
//! that part of the order of everything.
//!
//! | options | what is left of the order |
//! |---|---|
//! | `--no-shared-libs`, `--modules` | code of the program's own file |
//! | `--funcs` | code of its functions with these names |
//! | `--start-func F:N --stop-func F:M` | from one call of a function to another, of a program with one thread |
//! | `--start-func F:2` | the end of each thread |
//! | `--skip`, `--count` | the middle of each thread |
//! | the same with `--together` | runs of some threads, as long as was asked for in all |

use std::collections::{BTreeMap, BTreeSet};

use image::{ExtentFlags, FuncExtent, Image, Images, Pattern, Selector};
use testkit::oracle::{Counts, Ran};
use testkit::product::Run;

use super::traces_of::{self, Place};

/// The programs that this is done with: code that changes, signals, threads, processes, and
/// every kind of branch.
pub const PROGRAMS: [&str; 12] = [
    "code_jit_many_pages",
    "code_rwx_jit",
    "code_selfmod_after_jump",
    "contexts_jumps",
    "contexts_leaves",
    "count_freestanding",
    "flow_exceptions",
    "flow_tail_calls",
    "process_fork_new_code",
    "signal_nested",
    "signal_synchronous",
    "thread_main_exits_first",
];

/// Functions that are selected.
const NAMES: &str = "*a*";

/// The options that every case has in addition, in turn.
const MODES: [&[&str]; 3] = [&["--chaos", "7", "--buffer", "1"], &["--chaos", "3"], &[]];

/// `file`: the name of the program's own; `module`: what alone is compared.
pub fn check(
    run: &Run<'_>,
    stepped: &Counts,
    module: Option<&str>,
    file: &str,
) -> Result<(), String> {
    let images = Images::new();
    let image = images.open(&run.built.executable);
    let image = image.map_err(|error| error.to_string())?;
    let wanted = |name: &str| module.is_none_or(|module| module == name);
    let all = traces_of::expected(stepped, wanted);
    let own = kept(&all, |(name, _)| name == file);
    compare(run, &["--no-shared-libs"], 0, module, own.clone())?;
    compare(run, &["--modules", file], 1, module, own)?;
    let selected = image.func_entries(&Selector {
        functions: vec![Pattern::new(NAMES)],
        ..Selector::default()
    });
    let in_functions = kept(&all, |(name, at)| {
        let extent = extent_of(&selected, *at);
        name == file && extent.is_some_and(|extent| extent.flags.has(ExtentFlags::SELECTED))
    });
    let pattern = format!("{file}!{NAMES}");
    compare(run, &["--funcs", &pattern], 0, module, in_functions)?;
    begins(run, stepped, &image, (module, file), &all)?;
    counted(run, (module, file), &all)
}

/// Tracing of so many instructions of each thread.
fn counted(
    run: &Run<'_>,
    (module, file): (Option<&str>, &str),
    all: &[Vec<Place>],
) -> Result<(), String> {
    let longest = all.iter().map(Vec::len).max().unwrap_or(0);
    let (third, tenth) = (longest / 3, longest / 10);
    let part = |from: usize, most: usize| -> Vec<Vec<Place>> {
        let part = |thread: &Vec<Place>| thread.iter().skip(from).take(most).cloned().collect();
        all.iter().map(part).collect()
    };
    let words = [third, tenth].map(|number| (number + 1).to_string());
    let [skip, count] = ["--skip", "--count"];
    if module.is_none() {
        let rest = part(third + 1, usize::MAX);
        compare(run, &[skip, &words[0]], 0, module, rest)?;
        let middle = part(third + 1, tenth + 1);
        let options = [skip, &words[0], count, &words[1]];
        compare(run, &options, 1, module, middle.clone())?;
        let options = [&options[..], &["--together"]].concat();
        match all {
            [_] => compare(run, &options, 0, module, middle)?,
            _ => shared(run, &options, tenth + 1, all)?,
        }
        return compare(run, &[count, &words[1]], 0, module, part(0, tenth + 1));
    }
    // Where the oracle begins, others have been executed.
    let own = kept(all, |(name, _)| name == file);
    let own = own.iter().map(|own| own.iter().take(third + 1));
    let own = own.map(|own| own.cloned().collect()).collect();
    let options = ["--no-shared-libs", count, &words[0]];
    compare(run, &options, 0, module, own)?;
    // A trace of everything has them, and is compared by others.
    let all = traces_of::executed(&run.trace(&[])?, |_| true)?;
    let longest = all.iter().map(Vec::len).max().unwrap_or(0);
    let from = longest - (longest / 8).min(20_000);
    let end = all
        .iter()
        .map(|thread| thread[from.min(thread.len())..].to_vec());
    compare(run, &[skip, &from.to_string()], 0, None, end.collect())
}

/// Tracing of so many instructions of all threads together.
fn shared(run: &Run<'_>, options: &[&str], count: usize, all: &[Vec<Place>]) -> Result<(), String> {
    let options = words(options, 0);
    let recording = traces_of::followed(run, &options)?;
    let ours = traces_of::executed(&recording, |_| true)?;
    let sum: usize = ours.iter().map(Vec::len).sum();
    let is_part = |ours: &Vec<Place>| {
        let is_in = |all: &Vec<Place>| all.windows(ours.len()).any(|window| window == ours);
        ours.is_empty() || all.iter().any(is_in)
    };
    match (sum == count, ours.iter().all(is_part)) {
        (true, true) => traces_of::read_in_all_ways(&recording),
        (false, _) => Err(format!("trace {}: {sum} instructions", options.join(" "))),
        (_, false) => Err(format!("trace {}: no runs of threads", options.join(" "))),
    }
}

/// Tracing that begins, and perhaps ends, at calls.
fn begins(
    run: &Run<'_>,
    stepped: &Counts,
    image: &Image,
    (module, file): (Option<&str>, &str),
    all: &[Vec<Place>],
) -> Result<(), String> {
    let Some((name, calls)) = most_called(stepped, image, file) else {
        return Ok(());
    };
    let start = format!("{file}!{name}:2");
    if all.len() != 1 {
        let options = words(&["--start-func", &start], 0);
        let recording = traces_of::followed(run, &options)?;
        let ours = traces_of::executed(&recording, |name| module.is_none_or(|m| m == name));
        let ours = ours.map_err(|error| format!("trace {}: {error}", options.join(" ")))?;
        let is_end = |ours: &Vec<Place>| all.iter().any(|all| all.ends_with(ours));
        return match ours.iter().all(is_end) {
            true => traces_of::read_in_all_ways(&recording),
            false => Err(format!("trace {}: no end of a thread", options.join(" "))),
        };
    }
    let from = calls[1];
    for (stop, to) in [(calls.len(), calls[calls.len() - 1]), (3, calls[2])] {
        let stop = format!("{file}!{name}:{stop}");
        let options = ["--start-func", &start, "--stop-func", &stop];
        let part = all[0][from..to].to_vec();
        compare(run, &options, stop.len(), module, vec![part])?;
    }
    let part = all[0][from..].to_vec();
    compare(run, &["--start-func", &start], 1, module, vec![part])
}

/// The function of the program's own file with most calls, three at least, and where they are
/// in the order of what is compared. Only functions that nothing comes to from within.
fn most_called(stepped: &Counts, image: &Image, file: &str) -> Option<(String, Vec<usize>)> {
    let extents = image.func_entries(&Selector::everything());
    let mut calls: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    let mut odd = BTreeSet::new();
    let thread = stepped.threads.first()?;
    let (mut number, mut last) = (0, None);
    for ran in &thread.ran {
        let spot = match ran {
            Ran::Instruction { pc, .. } => thread.spots.get(pc),
            // What comes next, and where it returns to, is no call of the program.
            Ran::Interrupted(_) => return None,
        };
        let here = spot.filter(|spot| spot.module == file);
        let extent = here.and_then(|spot| extent_of(&extents, spot.offset));
        if let (Some(spot), Some(extent)) = (here, extent)
            && extent.start.0 == spot.offset
            && extent.flags.has(ExtentFlags::ENTRY)
        {
            match last {
                Some(Some(owner)) if owner != extent.owner.0 => {
                    calls.entry(spot.offset).or_default().push(number);
                }
                _ => {
                    odd.insert(spot.offset);
                }
            }
        }
        last = Some(extent.map(|extent| extent.owner.0));
        number += usize::from(here.is_some());
    }
    let is_even = |(at, calls): &(u64, Vec<usize>)| calls.len() >= 3 && !odd.contains(at);
    let (at, calls) = calls
        .into_iter()
        .filter(is_even)
        .max_by_key(|(_, calls)| calls.len())?;
    let function = image.functions().iter().find(|known| known.start.0 == at)?;
    let name = image.aliases(function).next()?;
    Some((name.to_owned(), calls))
}

fn extent_of(extents: &[FuncExtent], at: u64) -> Option<&FuncExtent> {
    let after = extents.partition_point(|extent| extent.start.0 <= at);
    let extent = extents[..after].last()?;
    (at < extent.end.0).then_some(extent)
}

fn kept(all: &[Vec<Place>], keeps: impl Fn(&Place) -> bool) -> Vec<Vec<Place>> {
    let kept = |thread: &Vec<Place>| {
        thread
            .iter()
            .filter(|place| keeps(place))
            .cloned()
            .collect()
    };
    all.iter().map(kept).collect()
}

fn words(options: &[&str], mode: usize) -> Vec<String> {
    let words = options.iter().chain(MODES[mode % MODES.len()]);
    words.map(|&word| word.to_owned()).collect()
}

fn compare(
    run: &Run<'_>,
    options: &[&str],
    mode: usize,
    module: Option<&str>,
    expected: Vec<Vec<Place>>,
) -> Result<(), String> {
    let options = words(options, mode);
    let recording = traces_of::followed(run, &options)?;
    let wanted = |name: &str| module.is_none_or(|module| module == name);
    let ours = traces_of::executed(&recording, wanted);
    let compared = ours
        .and_then(|ours| traces_of::same(ours, expected))
        .and_then(|()| traces_of::read_in_all_ways(&recording));
    compared.map_err(|error| format!("trace {}: {error}", options.join(" ")))
}
