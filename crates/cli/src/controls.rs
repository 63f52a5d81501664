//! Selection of the code that is traced: from the options of `trace` to those of the engine.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, bail};
use image::{ExtentFlags, Images, Pattern, Selector, split_list};
use launch::{Control, Tables};
use report::mcf::LEAVE_OUT;
use report::signals;
use rustix::process::getuid;
use trace::Recording;
use wire::{FuncEntry, flag};

use crate::ctl;
use crate::flags::{Call, Controls};
use crate::selection::Extents;
use crate::vdso;

/// Refuses what contradicts itself.
pub fn check(flags: &Controls) -> Result<()> {
    if flags.no_shared_libs && !flags.modules.is_empty() {
        bail!("--no-shared-libs traces the executable alone; leave --modules out, or it");
    }
    let lists = [("--funcs", &flags.funcs), ("--modules", &flags.modules)];
    for (option, lists) in lists {
        if lists.iter().any(|list| split_list(list).is_empty()) {
            bail!("{option} names nothing, so nothing would be traced");
        }
    }
    let later = [
        ("start-func", flags.start_func.is_some()),
        ("stop-func", flags.stop_func.is_some()),
        ("paused", flags.paused),
        ("start-signal", flags.start_signal.is_some()),
    ];
    if let Some((name, _)) = later.iter().find(|(_, is_given)| *is_given)
        && flags.skip.is_some()
    {
        let whose = match flags.together {
            true => "the program",
            false => "each thread",
        };
        bail!("--skip counts from the beginning of {whose}; leave --{name} out, or it");
    }
    if flags.together {
        check_together(flags)?;
    }
    if let (Some(start), Some(stop)) = (&flags.start_func, &flags.stop_func)
        && start.function == stop.function
        && stop.number <= start.number
    {
        bail!(
            "--stop-func {} comes no later than --start-func {}, so nothing would be traced",
            stop.text(),
            start.text()
        );
    }
    Ok(())
}

/// Refuses `--together` where no number is given that threads can share.
fn check_together(flags: &Controls) -> Result<()> {
    let numbers = [("skip", flags.skip), ("count", flags.count)];
    if numbers.iter().all(|(_, number)| number.is_none()) {
        bail!(
            "--together says how --skip and --count are counted; give one of them, or leave it out"
        );
    }
    let most = wire::budget::MOST;
    if let Some((name, _)) = numbers.iter().find(|(_, n)| n.is_some_and(|n| n > most)) {
        bail!("--{name} with --together is {most} at most");
    }
    Ok(())
}

/// Bits from [`wire::flag`].
pub fn bits(flags: &Controls) -> u32 {
    let by_module = flags.funcs.is_empty() && !flags.modules.is_empty();
    let selects = !flags.funcs.is_empty() || by_module;
    let wanted = [
        (selects, flag::SELECT),
        (by_module, flag::BY_MODULE),
        (flags.no_shared_libs, flag::OWN_CODE),
        (flags.start_func.is_some(), flag::START_FUNC),
        (flags.stop_func.is_some(), flag::STOP_FUNC),
        (is_by_request(flags), flag::BY_REQUEST),
        (flags.together, flag::TOGETHER),
    ];
    let bits = wanted.iter().filter(|(is_wanted, _)| *is_wanted);
    bits.fold(0, |bits, (_, bit)| bits | bit)
}

fn is_by_request(flags: &Controls) -> bool {
    let by_signal = flags.start_signal.is_some() || flags.stop_signal.is_some();
    flags.ctl || flags.paused || by_signal
}

/// How tracing begins and ends while the program runs, of a trace that goes to that file.
pub fn requests(flags: &Controls, output: Option<&Path>) -> Result<Option<Control>> {
    if !is_by_request(flags) {
        return Ok(None);
    }
    let Some(output) = output else {
        bail!("a trace is begun and ended by the name of its file: give it with -o");
    };
    Ok(Some(Control {
        address: ctl::address(output, getuid()),
        paused: flags.paused || flags.start_signal.is_some(),
        start_signal: flags.start_signal,
        stop_signal: flags.stop_signal,
    }))
}

/// Which calls tracing begins and ends at.
pub fn calls(flags: &Controls) -> [u64; 2] {
    [&flags.start_func, &flags.stop_func].map(|call| call.as_ref().map_or(0, |call| call.number))
}

pub fn selector(flags: &Controls) -> Selector {
    let split = |lists: &[String]| -> Vec<String> {
        let names = lists.iter().flat_map(|list| split_list(list));
        names.map(str::to_owned).collect()
    };
    let pattern = |call: &Option<Call>| -> Vec<Pattern> {
        let names = call.iter().map(|call| &call.function);
        names.map(|name| Pattern::new(name)).collect()
    };
    Selector {
        functions: split(&flags.funcs)
            .iter()
            .map(|name| Pattern::new(name))
            .collect(),
        modules: split(&flags.modules),
        start: pattern(&flags.start_func),
        stop: pattern(&flags.stop_func),
    }
}

/// The names of the options that leave something out of a trace, as the recording has them.
fn names() -> impl Iterator<Item = &'static str> {
    LEAVE_OUT.into_iter().chain(["skip", "count", "together"])
}

/// Options that were given.
pub fn options(flags: &Controls) -> Vec<(String, String)> {
    let call = |call: &Option<Call>| call.as_ref().map(Call::text);
    let list = |lists: &[String]| (!lists.is_empty()).then(|| lists.join(","));
    let yes = |is_given: bool| is_given.then(|| "yes".to_owned());
    let values = [
        list(&flags.funcs),
        list(&flags.modules),
        yes(flags.no_shared_libs),
        call(&flags.start_func),
        call(&flags.stop_func),
        yes(flags.ctl),
        yes(flags.paused),
        flags.start_signal.map(signals::name),
        flags.stop_signal.map(signals::name),
        flags.skip.map(|skip| skip.to_string()),
        flags.count.map(|count| count.to_string()),
        yes(flags.together),
    ];
    let given = names().zip(values);
    given
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect()
}

/// Refuses a trace with gaps, for what needs every call and return.
pub fn refuse_gaps(recording: &Recording, path: &Path, what: &str) -> Result<()> {
    let options = &recording.meta.options;
    let given = options
        .iter()
        .find(|(name, _)| names().any(|known| known == name));
    if let Some((name, _)) = given {
        bail!(
            "'{}' was traced with --{name}, so calls and returns are missing; {what} needs a \
             trace of everything",
            path.display()
        );
    }
    Ok(())
}

/// Answers the engine's question what of a file is traced.
pub struct Selected<'a> {
    extents: Extents<'a>,
    images: &'a Images,
    selector: &'a Selector,
}

impl<'a> Selected<'a> {
    pub fn new(images: &'a Arc<Images>, selector: &'a Selector, program: &Path) -> Selected<'a> {
        Selected {
            extents: Extents::new(images, selector, program, false),
            images,
            selector,
        }
    }
}

impl Tables for Selected<'_> {
    fn table(&mut self, path: &Path) -> Vec<FuncEntry> {
        let select = self.selector;
        if !select.functions.is_empty() {
            return self.extents.table(path);
        }
        let named = match select.start.is_empty() && select.stop.is_empty() {
            true => Vec::new(),
            false => self.extents.table(path),
        };
        let has_functions = named
            .iter()
            .any(|entry| entry.flags & ExtentFlags::ENTRY != 0);
        let covered = match path.as_os_str() == vdso::NAME {
            true => vdso::image().is_some_and(|image| select.covers_module(&image)),
            false => {
                let image = self.images.open(path);
                image.is_ok_and(|image| select.covers_module(&image))
            }
        };
        if has_functions || !covered {
            return named;
        }
        // One function stands for the whole file.
        vec![FuncEntry {
            start: 0,
            end: u64::MAX,
            owner: u64::MAX,
            flags: ExtentFlags::ENTRY | ExtentFlags::SELECTED,
            reserved: 0,
        }]
    }

    fn expected(&mut self) -> Option<PathBuf> {
        self.extents.expected()
    }
}
